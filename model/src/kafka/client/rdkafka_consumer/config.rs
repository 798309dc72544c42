//! Consumer settings under librdkafka's own keys, with the defaults of 2.16.

use crate::base::Millis;
use crate::kafka::log::Isolation;
use crate::kafka::messages::OffsetSpec;

/// Settings of a librdkafka consumer. Each field is named after its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdConsumerConfig {
    /// `queued.min.messages`.
    pub queued_min_messages: u64,
    /// `queued.max.messages.kbytes`.
    pub queued_max_messages_kbytes: u64,
    /// `fetch.queue.backoff.ms`: a partition that found the queue full is looked at again after this.
    pub fetch_queue_backoff: Millis,
    /// `fetch.error.backoff.ms`.
    pub fetch_error_backoff: Millis,
    /// `fetch.wait.max.ms`.
    pub fetch_wait_max: Millis,
    /// `fetch.min.bytes`.
    pub fetch_min_bytes: u32,
    /// `fetch.max.bytes`, if set.
    pub fetch_max_bytes: Option<u32>,
    /// `max.partition.fetch.bytes`; doubled for a partition by a fetch that yields nothing.
    pub max_partition_fetch_bytes: u32,
    /// `message.max.bytes`: lower bound of the default of `fetch.max.bytes`.
    pub message_max_bytes: u32,
    /// `isolation.level` is `read_committed`, the default here.
    pub read_committed: bool,
    /// `auto.offset.reset`; `None` is `error`.
    pub auto_offset_reset: Option<OffsetSpec>,
    /// `enable.partition.eof`.
    pub enable_partition_eof: bool,
}
impl Default for RdConsumerConfig {
    fn default() -> Self {
        Self {
            queued_min_messages: 100_000,
            queued_max_messages_kbytes: 65_536,
            fetch_queue_backoff: Millis(1_000),
            fetch_error_backoff: Millis(500),
            fetch_wait_max: Millis(500),
            fetch_min_bytes: 1,
            fetch_max_bytes: None,
            max_partition_fetch_bytes: 1_048_576,
            message_max_bytes: 1_000_000,
            read_committed: true,
            auto_offset_reset: Some(OffsetSpec::Latest),
            enable_partition_eof: false,
        }
    }
}
impl RdConsumerConfig {
    /// Upper bound asked for.
    pub const fn isolation(&self) -> Isolation {
        if self.read_committed { Isolation::Committed } else { Isolation::HighWatermark }
    }
    /// `fetch.max.bytes` in force: 50 MiB, but by default not more than the queue may hold and not less than a message.
    /// With a small `queued.max.messages.kbytes` an answer has room for one partition only: part of the starvation.
    pub fn fetch_max_bytes(&self) -> u32 {
        self.fetch_max_bytes.unwrap_or_else(|| {
            let queue = u32::try_from(self.queued_max_messages_kbytes * 1024).unwrap_or(u32::MAX);
            52_428_800.min(queue).max(self.message_max_bytes)
        })
    }
    /// Bytes at which the queue is full.
    pub const fn queued_max_bytes(&self) -> u64 {
        self.queued_max_messages_kbytes * 1024
    }
}
