//! librdkafka's reactions to errors as data: one table a kind of request. Recorded for 54 codes and a lost connection
//! (findings 1 of the librdkafka recordings); kafka.md 7 has the reasons.

use crate::kafka::ErrorCode;
use std::fmt;

/// An error as the application sees it: a broker's code or one of librdkafka's own, which begin with `_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdError {
    /// A protocol error.
    Code(ErrorCode),
    /// `_TRANSPORT`: the connection was lost.
    Transport,
    /// `_TIMED_OUT`: a call or request was not answered in time.
    TimedOut,
    /// `_MSG_TIMED_OUT`: a record reached `message.timeout.ms`.
    MessageTimedOut,
    /// `_PURGE_QUEUE`: a record was dropped before it was sent.
    PurgeQueue,
    /// `_PURGE_INFLIGHT`: a record was dropped after it was sent.
    PurgeInFlight,
    /// `_FENCED`: another instance has the transactional id.
    Fenced,
    /// `_STATE`: the call is not legal now.
    State,
    /// `_CONFLICT`: another call is still going on.
    Conflict,
    /// `_FATAL`: a fatal error was raised before.
    Fatal,
    /// `_GAPLESS_GUARANTEE`: a record failed and the series would have a gap.
    GaplessGuarantee,
    /// `_INCONSISTENT`: records of the transaction failed.
    Inconsistent,
    /// `_QUEUE_FULL`: the producer's queue is full.
    QueueFull,
}

impl RdError {
    /// Its name in recordings and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Code(code) => code.name(),
            Self::Transport => "_TRANSPORT",
            Self::TimedOut => "_TIMED_OUT",
            Self::MessageTimedOut => "_MSG_TIMED_OUT",
            Self::PurgeQueue => "_PURGE_QUEUE",
            Self::PurgeInFlight => "_PURGE_INFLIGHT",
            Self::Fenced => "_FENCED",
            Self::State => "_STATE",
            Self::Conflict => "_CONFLICT",
            Self::Fatal => "_FATAL",
            Self::GaplessGuarantee => "_GAPLESS_GUARANTEE",
            Self::Inconsistent => "_INCONSISTENT",
            Self::QueueFull => "_QUEUE_FULL",
        }
    }
    /// The code for traces: a protocol code, or -100 and below for local ones.
    pub const fn number(self) -> i16 {
        match self {
            Self::Code(code) => code.code(),
            Self::Transport => -100,
            Self::TimedOut => -101,
            Self::MessageTimedOut => -102,
            Self::PurgeQueue => -103,
            Self::PurgeInFlight => -104,
            Self::Fenced => -105,
            Self::State => -106,
            Self::Conflict => -107,
            Self::Fatal => -108,
            Self::GaplessGuarantee => -109,
            Self::Inconsistent => -110,
            Self::QueueFull => -111,
        }
    }
    /// The two codes that say "another instance" are reported as `_FENCED`.
    pub const fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced => Self::Fenced,
            code => Self::Code(code),
        }
    }
}
impl fmt::Display for RdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a Produce answer does to its batch, before the idempotent rules (P-32) look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProduceAction {
    /// Sent again; else the records fail.
    pub retry: bool,
    /// New metadata is asked for.
    pub refresh: bool,
    /// Counts as a retry: the back-off doubles.
    pub counts: bool,
}

const RETRY: ProduceAction = ProduceAction { retry: true, refresh: false, counts: true };
const MOVED: ProduceAction = ProduceAction { retry: true, refresh: true, counts: false };
const FAIL: ProduceAction = ProduceAction { retry: false, refresh: false, counts: true };

/// Produce answers that are retried (`rd_kafka_handle_Produce_error`). Every code not listed fails the records.
pub const PRODUCE: &[(RdError, ProduceAction)] = &[
    (RdError::Transport, ProduceAction { refresh: true, ..RETRY }),
    (RdError::TimedOut, RETRY),
    (RdError::Code(ErrorCode::CorruptMessage), RETRY),
    (RdError::Code(ErrorCode::UnknownTopicOrPartition), MOVED),
    (RdError::Code(ErrorCode::LeaderNotAvailable), MOVED),
    (RdError::Code(ErrorCode::NotLeaderOrFollower), MOVED),
    (RdError::Code(ErrorCode::RequestTimedOut), RETRY),
    (RdError::Code(ErrorCode::BrokerNotAvailable), MOVED),
    (RdError::Code(ErrorCode::ReplicaNotAvailable), MOVED),
    (RdError::Code(ErrorCode::CoordinatorLoadInProgress), RETRY),
    (RdError::Code(ErrorCode::CoordinatorNotAvailable), MOVED),
    (RdError::Code(ErrorCode::NotCoordinator), MOVED),
    (RdError::Code(ErrorCode::NotEnoughReplicas), RETRY),
    (RdError::Code(ErrorCode::NotEnoughReplicasAfterAppend), RETRY),
    (RdError::Code(ErrorCode::KafkaStorageError), ProduceAction { refresh: true, ..RETRY }),
];

/// The action for a Produce error.
pub fn produce_action(error: RdError) -> ProduceAction {
    PRODUCE.iter().find(|(e, _)| *e == error).map_or(FAIL, |(_, a)| *a)
}

/// What an answer of a coordinator does to the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnAction {
    /// The same request again after so many ms; 100 stands for `retry.backoff.ms`, which grows with the tries
    /// (`rd_kafka_buf_retry`).
    Retry(i64),
    /// The coordinator is forgotten and asked for, then the same request again after so many ms.
    Find(i64),
    /// The transaction must be aborted.
    Abort,
    /// It must be aborted, and the abort raises the epoch.
    AbortBump,
    /// The instance is unusable.
    Fatal,
    /// As if it had succeeded; the epoch is raised afterwards.
    DoneBump,
}

/// A coordinator request of the transactional producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnApi {
    /// FindCoordinator for the transaction.
    FindTransaction,
    /// InitProducerId, first or bump.
    InitProducerId,
    /// AddPartitionsToTxn.
    AddPartitions,
    /// AddOffsetsToTxn.
    AddOffsets,
    /// TxnOffsetCommit.
    TxnOffsetCommit,
    /// EndTxn to commit.
    Commit,
    /// EndTxn to abort.
    Abort,
}

use TxnAction::{Abort as A, AbortBump as B, DoneBump as S, Fatal as F, Find as Q, Retry as R};

/// A row of [`TXN`]: the error, and what it does to InitProducerId, AddPartitions, AddOffsets, TxnOffsetCommit,
/// EndTxn(commit), EndTxn(abort).
pub type TxnRow = (RdError, [TxnAction; 6]);

const fn code(c: ErrorCode) -> RdError {
    RdError::Code(c)
}

/// Errors that are treated in their own way. What is not listed: InitProducerId is retried for ever, everything else makes
/// the transaction abortable. FindCoordinator retries all but the two authorization errors.
pub const TXN: &[TxnRow] = &[
    (RdError::Transport, [R(0), R(500), R(100), Q(500), R(100), R(100)]),
    (RdError::TimedOut, [R(500), R(500), A, A, R(100), R(100)]),
    (code(ErrorCode::CoordinatorLoadInProgress), [R(500), R(500), R(100), R(500), R(100), R(100)]),
    (code(ErrorCode::ConcurrentTransactions), [R(500), R(20), R(100), R(500), R(100), R(100)]),
    (code(ErrorCode::CoordinatorNotAvailable), [Q(500), Q(500), Q(100), Q(500), Q(600), Q(600)]),
    (code(ErrorCode::NotCoordinator), [Q(500), Q(500), Q(100), Q(500), Q(600), Q(600)]),
    (code(ErrorCode::RequestTimedOut), [R(500), A, R(100), Q(500), A, A]),
    (code(ErrorCode::UnknownTopicOrPartition), [R(500), R(500), R(100), R(500), A, A]),
    (code(ErrorCode::InvalidProducerEpoch), [F, F, F, F, F, F]),
    (code(ErrorCode::ProducerFenced), [F, F, A, A, F, F]),
    (code(ErrorCode::InvalidTxnState), [R(500), F, F, F, F, F]),
    (code(ErrorCode::InvalidProducerIdMapping), [R(500), B, A, F, B, S]),
    (code(ErrorCode::UnknownProducerId), [R(500), B, A, A, B, S]),
    (code(ErrorCode::TransactionalIdAuthorizationFailed), [F, F, F, F, F, F]),
    (code(ErrorCode::ClusterAuthorizationFailed), [F, F, F, F, F, F]),
    (code(ErrorCode::InvalidTransactionTimeout), [F, A, A, A, A, A]),
    (code(ErrorCode::UnsupportedForMessageFormat), [R(500), A, F, F, A, A]),
];

/// The action for an error of a transactional request.
pub fn txn_action(api: TxnApi, error: RdError) -> TxnAction {
    let column = match api {
        TxnApi::FindTransaction => {
            return match error {
                RdError::Code(
                    ErrorCode::TransactionalIdAuthorizationFailed | ErrorCode::ClusterAuthorizationFailed,
                ) => F,
                RdError::Transport => R(100),
                _ => R(500),
            };
        }
        TxnApi::InitProducerId => 0,
        TxnApi::AddPartitions => 1,
        TxnApi::AddOffsets => 2,
        TxnApi::TxnOffsetCommit => 3,
        TxnApi::Commit => 4,
        TxnApi::Abort => 5,
    };
    match TXN.iter().find(|(e, _)| *e == error) {
        Some((_, row)) => row[column],
        None if column == 0 => R(500),
        None => A,
    }
}

/// What an error of FindCoordinator(group), within `send_offsets`, does. `None`: nothing at all, and the call never returns
/// (R; brokers do not send these codes there).
pub fn group_action(error: RdError) -> Option<TxnAction> {
    use ErrorCode as E;
    let RdError::Code(code) = error else { return Some(R(100)) };
    Some(match code {
        E::NotCoordinator
        | E::LeaderNotAvailable
        | E::NotLeaderOrFollower
        | E::BrokerNotAvailable
        | E::ReplicaNotAvailable => return None,
        E::CoordinatorLoadInProgress
        | E::CoordinatorNotAvailable
        | E::RequestTimedOut
        | E::NotEnoughReplicas
        | E::NotEnoughReplicasAfterAppend
        | E::KafkaStorageError
        | E::CorruptMessage => R(100),
        E::ConcurrentTransactions | E::UnknownTopicOrPartition => R(500),
        E::InvalidProducerEpoch
        | E::InvalidTxnState
        | E::InvalidProducerIdMapping
        | E::TransactionalIdAuthorizationFailed
        | E::ClusterAuthorizationFailed
        | E::UnsupportedForMessageFormat => F,
        _ => A,
    })
}

/// The delay of an action that is tried again; none for the others.
pub fn retry_after(action: TxnAction) -> crate::base::Millis {
    match action {
        TxnAction::Retry(ms) | TxnAction::Find(ms) => crate::base::Millis(ms),
        _ => crate::base::Millis::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_stands_twice_in_a_table() {
        for (i, row) in TXN.iter().enumerate() {
            assert!(TXN[..i].iter().all(|r| r.0 != row.0), "{}", row.0);
        }
        for (i, row) in PRODUCE.iter().enumerate() {
            assert!(PRODUCE[..i].iter().all(|r| r.0 != row.0), "{}", row.0);
        }
    }

    #[test]
    fn rows_read_as_recorded() {
        assert_eq!(txn_action(TxnApi::AddPartitions, code(ErrorCode::ConcurrentTransactions)), R(20));
        assert_eq!(txn_action(TxnApi::Commit, code(ErrorCode::RequestTimedOut)), A);
        assert_eq!(txn_action(TxnApi::InitProducerId, code(ErrorCode::UnknownServerError)), R(500));
        assert!(!produce_action(code(ErrorCode::ConcurrentTransactions)).retry);
        assert!(produce_action(code(ErrorCode::NotLeaderOrFollower)).refresh);
    }
}
