//! States of a transactional id, and the version of the protocol its transactions follow.

/// Feature `transaction.version`: of the cluster, or of the client that began or ended a transaction (KIP-890).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TransactionVersion {
    /// The record format before tagged fields.
    #[default]
    V0 = 0,
    /// Tagged fields in the log; for producers as V0.
    V1 = 1,
    /// An epoch per transaction; partitions are added by their leaders.
    V2 = 2,
}
impl TransactionVersion {
    /// The version of that level; levels that are not there yet count as the newest.
    pub const fn of(level: u8) -> Self {
        match level {
            0 => Self::V0,
            1 => Self::V1,
            _ => Self::V2,
        }
    }
    /// Whether every end of a transaction raises the producer epoch.
    pub const fn supports_epoch_bump(self) -> bool {
        matches!(self, Self::V2)
    }
    /// Whether records of the log hold tagged fields: producer ids before and after, and the client's version.
    pub const fn flexible_log_records(self) -> bool {
        !matches!(self, Self::V0)
    }
}

/// State of a transactional id (kafka.md 4.2; `TransactionState`). The numbers are those of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TransactionState {
    /// A producer id, no transaction yet.
    Empty = 0,
    /// A transaction is open.
    Ongoing = 1,
    /// It will commit; the decision is in the log.
    PrepareCommit = 2,
    /// It will abort; the decision is in the log.
    PrepareAbort = 3,
    /// Every partition has its COMMIT marker.
    CompleteCommit = 4,
    /// Every partition has its ABORT marker.
    CompleteAbort = 5,
    /// The id has expired. Pending only.
    Dead = 6,
    /// The producer is being fenced before its transaction is aborted. Pending only.
    PrepareEpochFence = 7,
}
use TransactionState as S;

impl TransactionState {
    /// Every state, in the order of the numbers.
    pub const ALL: [Self; 8] = [
        S::Empty,
        S::Ongoing,
        S::PrepareCommit,
        S::PrepareAbort,
        S::CompleteCommit,
        S::CompleteAbort,
        S::Dead,
        S::PrepareEpochFence,
    ];
    /// Kafka's name.
    pub const fn name(self) -> &'static str {
        match self {
            S::Empty => "Empty",
            S::Ongoing => "Ongoing",
            S::PrepareCommit => "PrepareCommit",
            S::PrepareAbort => "PrepareAbort",
            S::CompleteCommit => "CompleteCommit",
            S::CompleteAbort => "CompleteAbort",
            S::Dead => "Dead",
            S::PrepareEpochFence => "PrepareEpochFence",
        }
    }
    /// Whether `self` may follow `from` (`VALID_PREVIOUS_STATES`). An abort of an Empty or completed id is legal here; only
    /// the coordinator restricts it to V2.
    pub const fn may_follow(self, from: Self) -> bool {
        match self {
            S::Empty | S::Dead => from.is_idle(),
            S::Ongoing => from.is_idle() || matches!(from, S::Ongoing),
            S::PrepareCommit | S::PrepareEpochFence => matches!(from, S::Ongoing),
            S::PrepareAbort => from.is_idle() || matches!(from, S::Ongoing | S::PrepareEpochFence),
            S::CompleteCommit => matches!(from, S::PrepareCommit),
            S::CompleteAbort => matches!(from, S::PrepareAbort),
        }
    }
    /// Whether there is no transaction: the id may expire, or begin the next one (`isExpirationAllowed`).
    pub const fn is_idle(self) -> bool {
        matches!(self, S::Empty | S::CompleteCommit | S::CompleteAbort)
    }
    /// Whether the outcome is decided and markers are due.
    pub const fn is_prepared(self) -> bool {
        matches!(self, S::PrepareCommit | S::PrepareAbort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_outcome_has_one_way_out() {
        for (prepared, complete) in [(S::PrepareCommit, S::CompleteCommit), (S::PrepareAbort, S::CompleteAbort)] {
            let next: Vec<_> = S::ALL.into_iter().filter(|s| s.may_follow(prepared)).collect();
            assert_eq!(next, [complete]);
        }
        for end in [S::Dead, S::PrepareEpochFence] {
            assert!(S::ALL.into_iter().all(|s| !s.may_follow(end) || s == S::PrepareAbort), "{end:?}");
        }
    }
    #[test]
    fn numbers_and_order_agree() {
        for (i, state) in S::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, i);
        }
    }
}
