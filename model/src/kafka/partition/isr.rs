//! The ISR at its leader: committed, or with a change out to the controller (R-6, R-9; KIP-497).

use crate::base::{BrokerEpoch, BrokerId, BrokerSet, LeaderEpoch, PartitionEpoch, TopicPartition};
use crate::kafka::ErrorCode;

/// The leader asks the controller for an ISR. It always says that the leader has recovered: an unclean leader counts
/// itself as recovered as soon as it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterPartition {
    /// The partition.
    pub tp: TopicPartition,
    /// Leader epoch under which it is asked.
    pub leader_epoch: LeaderEpoch,
    /// Partition epoch on which the change builds.
    pub partition_epoch: PartitionEpoch,
    /// The members wanted, ascending, each with the broker epoch of its last fetch (-1 where it has not fetched, KIP-903).
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
}

/// The controller's answer for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlterPartitionAnswer {
    /// The partition.
    pub tp: TopicPartition,
    /// The error; the rest holds only without one.
    pub error: ErrorCode,
    /// Leader epoch in force.
    pub leader_epoch: LeaderEpoch,
    /// Partition epoch in force.
    pub partition_epoch: PartitionEpoch,
    /// The ISR in force.
    pub isr: BrokerSet,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsrChange {
    /// One broker joins.
    Expand,
    /// Brokers leave.
    Shrink,
}

/// A change that the controller has not decided yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingIsr {
    /// Joins or leaves.
    pub change: IsrChange,
    /// What was asked.
    pub sent: AlterPartition,
    /// The ISR in force before.
    pub committed: BrokerSet,
}

/// The ISR as its leader knows it (`PartitionState`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsrState {
    /// Decided by the controller.
    Committed(BrokerSet),
    /// A change is out.
    Pending(Box<PendingIsr>),
}

impl Default for IsrState {
    fn default() -> Self {
        Self::Committed(BrokerSet::default())
    }
}

impl IsrState {
    /// The ISR last committed by the controller.
    pub fn committed(&self) -> BrokerSet {
        match self {
            Self::Committed(isr) => *isr,
            Self::Pending(p) => p.committed,
        }
    }
    /// every broker that may be in the ISR now: with the joiner while an expand is out, the old ISR while a shrink
    /// is. A high watermark that waits for all of these is safe whatever the controller decides.
    pub fn maximal(&self) -> BrokerSet {
        match self {
            Self::Committed(isr) => *isr,
            Self::Pending(p) => p.sent.isr.iter().fold(p.committed, |set, (id, _)| set.with(*id)),
        }
    }
    /// The change that is out, if any. Nothing else is asked until it is decided.
    pub fn pending(&self) -> Option<&PendingIsr> {
        match self {
            Self::Committed(_) => None,
            Self::Pending(p) => Some(p),
        }
    }
}

/// What a leader does about an AlterPartition error (R-10, `Partition.handleAlterPartitionError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAlterError {
    /// Back to the committed ISR: the controller said that the request was not applied.
    Revert,
    /// Stays pending until metadata comes: it may have been applied.
    WaitForMetadata,
    /// The same request again.
    Retry,
}

/// The table of [`AfterAlterError`].
pub const fn after_alter_error(error: ErrorCode) -> AfterAlterError {
    match error {
        ErrorCode::OperationNotAttempted | ErrorCode::IneligibleReplica => AfterAlterError::Revert,
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId
        | ErrorCode::FencedLeaderEpoch
        | ErrorCode::InvalidUpdateVersion
        | ErrorCode::InvalidRequest
        | ErrorCode::NewLeaderElected => AfterAlterError::WaitForMetadata,
        _ => AfterAlterError::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[i32]) -> BrokerSet {
        ids.iter().fold(BrokerSet::default(), |s, i| s.with(BrokerId(*i)))
    }

    #[test]
    fn the_maximal_isr_holds_joiner_and_leaver() {
        let sent = |ids: &[i32]| AlterPartition {
            tp: TopicPartition::new(0, 0),
            leader_epoch: LeaderEpoch(1),
            partition_epoch: PartitionEpoch(1),
            isr: ids.iter().map(|i| (BrokerId(*i), BrokerEpoch(-1))).collect(),
        };
        let pending = |change, sent, committed| IsrState::Pending(Box::new(PendingIsr { change, sent, committed }));
        let expand = pending(IsrChange::Expand, sent(&[1, 2, 3]), set(&[1, 2]));
        assert_eq!((expand.committed(), expand.maximal()), (set(&[1, 2]), set(&[1, 2, 3])));
        let shrink = pending(IsrChange::Shrink, sent(&[1]), set(&[1, 2]));
        assert_eq!((shrink.committed(), shrink.maximal()), (set(&[1, 2]), set(&[1, 2])));
    }
}
