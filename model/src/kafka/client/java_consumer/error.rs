//! What a consumer's calls throw.

use crate::base::{Offset, TopicId, TopicPartition};
use crate::kafka::ErrorCode;

/// An exception thrown by `poll`. The consumer stays usable after each of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsumerError {
    /// No position and no reset policy: seek, or set `auto.offset.reset`.
    #[error("no position for {0:?} and auto.offset.reset is none: seek, or set it")]
    NoOffsetForPartition(Vec<TopicPartition>),
    /// The position is outside the log and there is no reset policy.
    #[error("position {1} of {0} is outside the log and auto.offset.reset is none: seek, or set it")]
    OffsetOutOfRange(TopicPartition, Offset),
    /// The log was cut below the position and there is no reset policy.
    #[error("logs of {0:?} were truncated below the position: seek to where processing can go on")]
    LogTruncation(Vec<TopicPartition>),
    /// The topic may not be read.
    #[error("not authorised to read topic {0}: grant READ")]
    TopicAuthorization(TopicId),
    /// The broker found a batch at the position corrupt.
    #[error("the batch at the position of {0} is corrupt: seek past it")]
    CorruptMessage(TopicPartition),
    /// The broker answered with a code that a fetch never gets.
    #[error("unexpected error {0} in a fetch answer")]
    IllegalState(ErrorCode),
}
impl ConsumerError {
    /// Java's class name of the exception.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::NoOffsetForPartition(_) => "NoOffsetForPartitionException",
            Self::OffsetOutOfRange(..) => "OffsetOutOfRangeException",
            Self::LogTruncation(_) => "LogTruncationException",
            Self::TopicAuthorization(_) => "TopicAuthorizationException",
            Self::CorruptMessage(_) => "KafkaException",
            Self::IllegalState(_) => "IllegalStateException",
        }
    }
}
