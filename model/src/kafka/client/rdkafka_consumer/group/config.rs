//! Settings of a member under librdkafka's own keys.

use crate::base::{Millis, TopicId, TopicPartition};
use crate::kafka::coordinator::group::Name;
use crate::kafka::txn_messages::GroupId;
use std::sync::Arc;

/// Settings of a librdkafka consumer in a classic group. Defaults are those of 2.16.
#[derive(Clone, Debug)]
pub struct RdGroupConfig {
    /// `group.id`.
    pub group: GroupId,
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// `client.id`.
    pub client: Name,
    /// Topics subscribed to.
    pub topics: Vec<TopicId>,
    /// All their partitions, as metadata lists them.
    pub partitions: Arc<[TopicPartition]>,
    /// Names of topics by number.
    pub topic_names: Arc<[Name]>,
    /// `partition.assignment.strategy`.
    pub assignors: Vec<Name>,
    /// `session.timeout.ms`.
    pub session_timeout: Millis,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Millis,
    /// `max.poll.interval.ms`, also the rebalance timeout.
    pub max_poll_interval: Millis,
    /// `auto.commit.interval.ms`, if `enable.auto.commit` is true.
    pub auto_commit: Option<Millis>,
    /// `isolation.level` is `read_committed`: then offsets that a transaction holds are waited for.
    pub read_committed: bool,
}
impl RdGroupConfig {
    /// The defaults for a member of `group` that reads `partitions`.
    pub fn new(group: GroupId, partitions: Arc<[TopicPartition]>) -> Self {
        let mut topics: Vec<_> = partitions.iter().map(|tp| tp.topic).collect();
        topics.dedup();
        Self {
            group,
            instance: None,
            client: Name::from("rdkafka"),
            topics,
            partitions,
            topic_names: Arc::from([]),
            assignors: vec![Name::from("range"), Name::from("roundrobin")],
            session_timeout: Millis(45_000),
            heartbeat_interval: Millis(3_000),
            max_poll_interval: Millis(300_000),
            auto_commit: Some(Millis(5_000)),
            read_committed: true,
        }
    }
    /// Cooperative and eager assignors cannot be mixed; the first one decides.
    pub fn cooperative(&self) -> bool {
        self.assignors.first().is_some_and(|a| &**a == "cooperative-sticky")
    }
}
