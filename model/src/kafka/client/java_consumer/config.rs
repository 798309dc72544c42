//! Consumer settings under Kafka's own keys, with the defaults of kafka-clients 4.3.

use crate::base::{Fixes, Millis};
use crate::kafka::log::Isolation;
use crate::kafka::messages::OffsetSpec;

/// `auto.offset.reset`: what happens without a position, or when it is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoOffsetReset {
    /// To the end: LSO for read_committed, else high watermark.
    Latest,
    /// To the log start.
    Earliest,
    /// The application is told.
    None,
}
impl AutoOffsetReset {
    /// Which offset is looked up; `None` if the application is told instead.
    pub const fn spec(self) -> Option<OffsetSpec> {
        match self {
            Self::Latest => Some(OffsetSpec::Latest),
            Self::Earliest => Some(OffsetSpec::Earliest),
            Self::None => None,
        }
    }
}

/// Settings of a Java consumer (`ConsumerConfig`). Each field is named after its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// `fetch.min.bytes`.
    pub fetch_min_bytes: u32,
    /// `fetch.max.wait.ms`.
    pub fetch_max_wait: Millis,
    /// `fetch.max.bytes`: bytes of one answer.
    pub fetch_max_bytes: u32,
    /// `max.partition.fetch.bytes`: bytes of one partition in an answer.
    pub max_partition_fetch_bytes: u32,
    /// `max.poll.records`.
    pub max_poll_records: u32,
    /// `isolation.level` is `read_committed`.
    pub read_committed: bool,
    /// `auto.offset.reset`.
    pub auto_offset_reset: AutoOffsetReset,
    /// `request.timeout.ms`.
    pub request_timeout: Millis,
    /// `retry.backoff.ms`.
    pub retry_backoff: Millis,
    /// `default.api.timeout.ms`: limit of the blocking calls (`position`, `committed`).
    pub default_api_timeout: Millis,
    /// Which version of the client it is; not a key.
    pub fixes: Fixes,
}
impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            fetch_min_bytes: 1,
            fetch_max_wait: Millis(500),
            fetch_max_bytes: 52_428_800,
            max_partition_fetch_bytes: 1_048_576,
            max_poll_records: 500,
            read_committed: false,
            auto_offset_reset: AutoOffsetReset::Latest,
            request_timeout: Millis(30_000),
            retry_backoff: Millis(100),
            default_api_timeout: Millis(60_000),
            fixes: Fixes::ALL,
        }
    }
}
impl ConsumerConfig {
    /// Upper bound asked for in fetches and look-ups.
    pub const fn isolation(&self) -> Isolation {
        if self.read_committed { Isolation::Committed } else { Isolation::HighWatermark }
    }
}
