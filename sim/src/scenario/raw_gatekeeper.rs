//! Gatekeepers and the schema registry as written.

use super::keys::Profile;
use super::raw::{self, ConsumerKeys, ProducerKeys, Settings, Transaction};
use super::units::Duration;
use model::base::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A schema registry.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Registry {
    /// Processes; clients turn to the next one when one cannot be had.
    #[schemars(range(min = 1, max = 9))]
    pub instances: u16,
    /// Work for one request.
    pub request: Duration,
}
impl Default for Registry {
    fn default() -> Self {
        Self { instances: 1, request: Duration(Nanos::millis(2)) }
    }
}

/// Which library decodes Avro.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decoder {
    /// Avro for Java.
    #[default]
    Java,
    /// avro-python.
    AvroPython,
    /// fastavro.
    Fastavro,
}
/// Which `transactional.id`s a gatekeeper uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransactionalIds {
    /// One for each instance, for ever.
    #[default]
    Static,
    /// A new one at each start.
    Random,
    /// One for all instances: they fence each other.
    Shared,
}
/// An application that consumes, validates against the registry and produces, in one Kafka transaction per batch.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Gatekeeper {
    /// Name; also `group.id` unless that is set, and the beginning of `transactional.id`.
    pub name: String,
    /// The client library of its consumer and its producer.
    #[serde(default = "raw::java")]
    pub profile: Profile,
    /// Its producer's, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer_profile: Option<Profile>,
    /// What it reads. Its values are Avro.
    pub input: String,
    /// Where valid rows go.
    pub valid: String,
    /// Where the others go.
    pub dead_letters: String,
    /// The consumer's keys.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub consumer: Settings<ConsumerKeys>,
    /// The producer's keys.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub producer: Settings<ProducerKeys>,
    /// How rows are dealt out over transactions.
    #[serde(default)]
    pub transaction: Transaction,
    /// Its `transactional.id`s.
    #[serde(default)]
    pub transactional_ids: TransactionalIds,
    /// The offsets of a transaction name the member, so that the group fences a zombie (KIP-447).
    #[serde(default = "yes")]
    pub group_metadata: bool,
    /// Every exception of the deserializer counts as poison, whatever its cause.
    #[serde(default)]
    pub trusts_exceptions: bool,
    /// It has no dead letters: a record that cannot be decoded ends the process.
    #[serde(default)]
    pub crashes_on_poison: bool,
    /// A transaction without new offsets is committed too.
    #[serde(default = "yes")]
    pub commit_without_offsets: bool,
    /// It sends a record of its own so often, by the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub punctuate_every: Option<Duration>,
    /// Which library decodes.
    #[serde(default)]
    pub decoder: Decoder,
    /// Processes: members of one group.
    #[serde(default = "raw::one")]
    #[schemars(range(min = 1, max = 100))]
    pub instances: u16,
    /// From the start of one process to that of the next.
    #[serde(default)]
    pub stagger: Duration,
    /// How long one poll blocks at most.
    #[serde(default = "raw::poll_timeout")]
    pub poll_timeout: Duration,
    /// Work on one record.
    #[serde(default = "a_little")]
    pub record: Duration,
    /// A counterfactual that no client offers: it takes records in the order of their event time over all of its partitions. It
    /// waits for every one, and for one that has nothing so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterfactual_merge: Option<Duration>,
    /// From a fatal error, which ends the process, to its new start.
    #[serde(default = "restart")]
    pub restart_after: Duration,
    /// When it starts.
    #[serde(default)]
    pub start: Duration,
}
const fn yes() -> bool {
    true
}
const fn a_little() -> Duration {
    Duration(Nanos::micros(20))
}
const fn restart() -> Duration {
    Duration(Nanos::secs(5))
}
