//! The broker and topic settings that a log looks at.

use crate::base::Millis;

/// Settings of one partition's log; the default is Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `log.segment.bytes` (1 GiB): a segment that would grow beyond it is closed.
    pub segment_bytes: u32,
    /// `message.max.bytes` (1048588): a larger batch is MESSAGE_TOO_LARGE (L-6).
    pub max_message_bytes: u32,
    /// `producer.id.expiration.ms` (86400000): P-16.
    pub producer_expiration: Millis,
    /// `transaction.max.timeout.ms` (900000): five minutes more and an open transaction counts as late.
    pub max_transaction_timeout: Millis,
    /// `transaction.partition.verification.enable` (true): T-10.
    pub transaction_verification: bool,
}
impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            max_message_bytes: 1_048_588,
            producer_expiration: Millis(86_400_000),
            max_transaction_timeout: Millis(900_000),
            transaction_verification: true,
        }
    }
}
