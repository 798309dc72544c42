//! How a gatekeeper is started.

use crate::app::{MemberConfig, RdMemberConfig, RdPartitioner};
use crate::base::{Addr, Millis, Nanos, TopicId};
use crate::kafka::client::java::ProducerConfig;
use crate::kafka::client::rdkafka::RdConfig;
use crate::kafka::txn_messages::{GroupId, TransactionalId};
use crate::registry::{Library, RegistryClientConfig};
use std::sync::Arc;

/// How a gatekeeper is started.
#[derive(Clone, Debug)]
pub struct GatekeeperConfig {
    /// Its consumer.
    pub consumer: ConsumerSide,
    /// Its producer.
    pub producer: ProducerSide,
    /// `group.id`.
    pub group: GroupId,
    /// Where valid rows go.
    pub valid: TopicId,
    /// Where the others go.
    pub dead_letters: TopicId,
    /// Rows of a transaction at most.
    pub rows: u32,
    /// From the first row of a transaction to its end.
    pub every: Millis,
    /// Work on one record.
    pub record: Nanos,
    /// What no client does: it takes records in the order of their event time over all of its partitions, and waits so long
    /// for one that has none.
    pub merge: Option<Millis>,
    /// `transactional.id`.
    pub ids: TransactionalIds,
    /// The offsets name the member, so that the group fences a zombie (KIP-447).
    pub group_metadata: bool,
    /// Every exception of the deserializer counts as poison, whatever its cause.
    pub trusts_exceptions: bool,
    /// A record that cannot be decoded ends the process.
    pub crashes_on_poison: bool,
    /// A transaction without new offsets is committed too.
    pub commit_without_offsets: bool,
    /// A record of its own, by the clock.
    pub punctuate_every: Option<Millis>,
    /// From a fatal error to the new start.
    pub restart_after: Millis,
    /// Which library decodes.
    pub library: Library,
    /// Its way to the registry.
    pub registry: RegistryClientConfig,
}

/// The consumer's client.
#[derive(Clone, Debug)]
pub enum ConsumerSide {
    /// Java.
    Java(Arc<MemberConfig>),
    /// librdkafka.
    Librdkafka(Arc<RdMemberConfig>),
}
/// The producer's client.
#[derive(Clone, Debug)]
pub enum ProducerSide {
    /// Java.
    Java(Box<ProducerConfig>),
    /// librdkafka.
    Librdkafka(RdSide),
}
/// A librdkafka producer.
#[derive(Clone, Debug)]
pub struct RdSide {
    /// Its settings.
    pub config: Arc<RdConfig>,
    /// `bootstrap.servers`.
    pub bootstrap: Arc<[Addr]>,
    /// Its partitioner.
    pub partitioner: RdPartitioner,
    /// Partitions of the topics that it sends to.
    pub partitions: Arc<[(TopicId, u16)]>,
}

/// Which `transactional.id`s an instance uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionalIds {
    /// One for ever: the next start fences the last.
    Static(TransactionalId),
    /// A new one at each start, out of so many that begin here: nobody is fenced by it.
    Fresh(TransactionalId, u32),
}
impl TransactionalIds {
    /// That of one start.
    pub fn of_start(self, start: u32) -> TransactionalId {
        match self {
            Self::Static(id) => id,
            Self::Fresh(first, many) => TransactionalId(first.0 + start.min(many.saturating_sub(1))),
        }
    }
}
