//! Settings of a Java client's connections and metadata.

use crate::base::{Addr, Millis, TopicId};
use crate::kafka::client::TopicHashes;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Settings of a client's connections, by Kafka's keys (kafka.md 10).
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// `bootstrap.servers`, in order.
    pub bootstrap: Arc<[Addr]>,
    /// Topics whose metadata is kept; `None` for all.
    pub topics: Option<BTreeSet<TopicId>>,
    /// `request.timeout.ms`.
    pub request_timeout: Millis,
    /// `socket.connection.setup.timeout.ms`.
    pub setup_timeout: Millis,
    /// `socket.connection.setup.timeout.max.ms`.
    pub setup_timeout_max: Millis,
    /// `reconnect.backoff.ms`.
    pub reconnect_backoff: Millis,
    /// `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max: Millis,
    /// `retry.backoff.ms`.
    pub retry_backoff: Millis,
    /// `retry.backoff.max.ms`.
    pub retry_backoff_max: Millis,
    /// `metadata.max.age.ms`.
    pub metadata_max_age: Millis,
    /// `metadata.recovery.strategy` is `rebootstrap`, with `metadata.recovery.rebootstrap.trigger.ms`; `None` is `none`.
    pub rebootstrap_trigger: Option<Millis>,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight: usize,
    /// Ask for the broker's API versions at each connect, as every real client does.
    pub api_versions: bool,
    /// Metadata answers without news are backed off like failures (KIP-580).
    pub back_off_equivalent: bool,
    /// Hashes of topic names: the order of partitions shows it. `None`: the order of numbers.
    pub hashes: Option<TopicHashes>,
    /// How the client sleeps.
    pub sleep: Sleep,
}

impl NetworkConfig {
    /// Kafka 4.3's defaults.
    pub fn new(bootstrap: Arc<[Addr]>) -> Self {
        Self {
            bootstrap,
            topics: None,
            request_timeout: Millis(30_000),
            setup_timeout: Millis(10_000),
            setup_timeout_max: Millis(30_000),
            reconnect_backoff: Millis(50),
            reconnect_backoff_max: Millis(1_000),
            retry_backoff: Millis(100),
            retry_backoff_max: Millis(1_000),
            metadata_max_age: Millis(300_000),
            rebootstrap_trigger: Some(Millis(300_000)),
            max_in_flight: 5,
            api_versions: true,
            back_off_equivalent: true,
            hashes: None,
            sleep: Sleep::Select,
        }
    }
}

/// When a client that nothing disturbs looks at its timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// As long as `Selector.poll` was told to, which no set-up or request timeout shortens; the tests are strict, so a
    /// sleep of exactly the timeout misses it. How often a real one oversleeps into the next millisecond depends on
    /// where in its millisecond it began: taken as every other time.
    Select,
    /// Wakes at exactly the first instant at which something is due, as the recordings do.
    Exact,
}
