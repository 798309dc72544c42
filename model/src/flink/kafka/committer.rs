//! How a Kafka sink commits, and what it makes of a refusal (`KafkaCommitter`, connector 3.4; flink.md 7.3).

use super::naming::TransactionalName;
use crate::base::{Fix, Fixes, ProducerEpoch, ProducerId};
use crate::flink::sink::Answer;
use crate::kafka::ErrorCode;

/// A transaction to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaCommittable {
    /// Its id.
    pub name: TransactionalName,
    /// Its producer id.
    pub producer: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// Whether the producer that wrote it is still at hand: not after a restore, when the transaction is resumed by producer
    /// id and epoch.
    pub live: bool,
}
impl KafkaCommittable {
    /// What a restore makes of it.
    pub fn recovered(self) -> Self {
        Self { live: false, ..self }
    }
}

/// The exception that `commitTransaction` ends with, as the committer tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitException {
    /// `ProducerFencedException`: somebody initialised the id, or the transaction timed out.
    ProducerFenced,
    /// `InvalidTxnStateException`: it was aborted, or there is none.
    InvalidTxnState,
    /// `UnknownProducerIdException`.
    UnknownProducerId,
    /// A `RetriableException`: nobody answered for `max.block.ms`, the coordinator is loading or gone.
    Retriable,
    /// Any other.
    Other,
}
/// Exception of a Java client, Flink's reading of it.
const VERDICTS: &[(CommitException, &str, Answer)] = &[
    (CommitException::ProducerFenced, "ProducerFencedException", Answer::KnownReason),
    (CommitException::InvalidTxnState, "InvalidTxnStateException", Answer::KnownReason),
    (CommitException::UnknownProducerId, "UnknownProducerIdException", Answer::KnownReason),
    (CommitException::Retriable, "RetriableException", Answer::Retry),
    (CommitException::Other, "KafkaException", Answer::UnknownReason),
];

impl CommitException {
    /// What the client makes of the coordinator's answer to EndTxn, once it gives up: a stale epoch is a fencing, under
    /// either of its two codes. None if the commit is through.
    pub const fn of(error: ErrorCode) -> Option<Self> {
        Some(match error {
            ErrorCode::None => return None,
            ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch => Self::ProducerFenced,
            ErrorCode::InvalidTxnState => Self::InvalidTxnState,
            ErrorCode::UnknownProducerId => Self::UnknownProducerId,
            ErrorCode::ConcurrentTransactions
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::RequestTimedOut => Self::Retriable,
            _ => Self::Other,
        })
    }
    /// The class of the exception.
    pub fn class(self) -> &'static str {
        VERDICTS.iter().find(|(e, ..)| *e == self).map_or("", |(_, class, _)| class)
    }
    /// What becomes of the committable: the first three drop it, log an error, and the job goes on; another reason fails it
    /// (FLINK-24773).
    pub fn verdict(self, fixes: Fixes) -> Answer {
        match VERDICTS.iter().find(|(e, ..)| *e == self).map(|(.., answer)| *answer) {
            Some(Answer::UnknownReason) | None if !fixes.has(Fix::UnknownCommitErrorFails) => Answer::KnownReason,
            Some(answer) => answer,
            None => Answer::UnknownReason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_epoch_is_dropped_and_a_missing_coordinator_is_tried_again() {
        let verdict = |error| CommitException::of(error).map(|e| e.verdict(Fixes::ALL));
        assert_eq!(verdict(ErrorCode::None), None);
        assert_eq!(verdict(ErrorCode::InvalidProducerEpoch), Some(Answer::KnownReason));
        assert_eq!(verdict(ErrorCode::NotCoordinator), Some(Answer::Retry));
        assert_eq!(verdict(ErrorCode::InvalidProducerIdMapping), Some(Answer::UnknownReason));
        let before = Fixes::ALL.without(Fix::UnknownCommitErrorFails);
        assert_eq!(CommitException::Other.verdict(before), Answer::KnownReason);
    }
}
