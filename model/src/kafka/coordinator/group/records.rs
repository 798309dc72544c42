//! Records of `__consumer_offsets` (`GroupCoordinatorRecordHelpers`). A value of `None` is a tombstone.

use super::messages::{JoinProtocol, MemberAssignment, Name};
use crate::base::{Millis, Offset, ProducerId, TopicId, TopicPartition};
use crate::kafka::txn_messages::GroupId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A committed offset (`OffsetCommitValue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: Offset,
    /// When it was committed.
    pub at: Millis,
    /// When it expires, if the request said so itself.
    pub expires: Option<Millis>,
}
/// A member in a classic group's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMemberRecord {
    /// Member id.
    pub id: Name,
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// `session.timeout.ms`.
    pub session_timeout: Millis,
    /// `max.poll.interval.ms`.
    pub rebalance_timeout: Millis,
    /// Its side of the protocol selected.
    pub protocol: JoinProtocol,
    /// What it was given.
    pub assignment: MemberAssignment,
}
/// A classic group as of its last sync (`GroupMetadataValue`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    /// `consumer`, ...; `None` before the first member.
    pub protocol_type: Option<Name>,
    /// Generation.
    pub generation: i32,
    /// Protocol selected.
    pub protocol: Option<Name>,
    /// Leader.
    pub leader: Option<Name>,
    /// Since when it has been in its state.
    pub state_since: Option<Millis>,
    /// The members.
    pub members: Vec<GroupMemberRecord>,
}
/// A KIP-848 member's own side (`ConsumerGroupMemberMetadataValue`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSubscription {
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// Topics.
    pub topics: BTreeSet<TopicId>,
    /// Assignor it votes for.
    pub assignor: Option<Name>,
    /// `max.poll.interval.ms`.
    pub rebalance_timeout: Millis,
}
/// Where a KIP-848 member stands on its way to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Has what its epoch gives it.
    Stable,
    /// Has to give something up, and has not reported that it did.
    UnrevokedPartitions,
    /// Waits for what others have not given up.
    UnreleasedPartitions,
}
/// Partitions, each with the epoch since which the member has had it.
pub type AssignedPartitions = BTreeMap<TopicPartition, i32>;
/// What a KIP-848 member has (`ConsumerGroupCurrentMemberAssignmentValue`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentAssignment {
    /// Member epoch.
    pub epoch: i32,
    /// The one before.
    pub previous_epoch: i32,
    /// Where it stands.
    pub state: MemberState,
    /// What it may own.
    pub assigned: AssignedPartitions,
    /// What it has to give up.
    pub revoking: AssignedPartitions,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRecord {
    /// `OffsetCommit`.
    OffsetCommit(GroupId, TopicPartition, Option<CommittedOffset>),
    /// `GroupMetadata`: a classic group.
    GroupMetadata(GroupId, Option<Arc<GroupMetadata>>),
    /// `ConsumerGroupMetadata`: group epoch, and a hash of the topics subscribed to.
    ConsumerGroupMetadata(GroupId, Option<(i32, u64)>),
    /// `ConsumerGroupPartitionMetadata`: of older versions; only its tombstone is still written.
    ConsumerGroupPartitionMetadata(GroupId),
    /// `ConsumerGroupMemberMetadata`.
    ConsumerGroupMemberMetadata(GroupId, Name, Option<Arc<MemberSubscription>>),
    /// `ConsumerGroupTargetAssignmentMetadata`: epoch of the target, and when it was computed.
    ConsumerGroupTargetAssignmentMetadata(GroupId, Option<(i32, Millis)>),
    /// `ConsumerGroupTargetAssignmentMember`.
    ConsumerGroupTargetAssignmentMember(GroupId, Name, Option<Arc<BTreeSet<TopicPartition>>>),
    /// `ConsumerGroupCurrentMemberAssignment`.
    ConsumerGroupCurrentMemberAssignment(GroupId, Name, Option<Arc<CurrentAssignment>>),
}

/// What a partition of `__consumer_offsets` holds, as a load of the log reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEntry {
    /// A record; of a transaction if it names its producer.
    Record(Option<ProducerId>, GroupRecord),
    /// The end of a producer's transaction; true for COMMIT.
    Marker(ProducerId, bool),
}

impl GroupRecord {
    /// Whether it deletes.
    pub const fn is_tombstone(&self) -> bool {
        match self {
            Self::OffsetCommit(_, _, v) => v.is_none(),
            Self::GroupMetadata(_, v) => v.is_none(),
            Self::ConsumerGroupMetadata(_, v) => v.is_none(),
            Self::ConsumerGroupPartitionMetadata(_) => true,
            Self::ConsumerGroupMemberMetadata(_, _, v) => v.is_none(),
            Self::ConsumerGroupTargetAssignmentMetadata(_, v) => v.is_none(),
            Self::ConsumerGroupTargetAssignmentMember(_, _, v) => v.is_none(),
            Self::ConsumerGroupCurrentMemberAssignment(_, _, v) => v.is_none(),
        }
    }
    /// Kind of the record, as Kafka names it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::OffsetCommit(..) => "OffsetCommit",
            Self::GroupMetadata(..) => "GroupMetadata",
            Self::ConsumerGroupMetadata(..) => "ConsumerGroupMetadata",
            Self::ConsumerGroupPartitionMetadata(_) => "ConsumerGroupPartitionMetadata",
            Self::ConsumerGroupMemberMetadata(..) => "ConsumerGroupMemberMetadata",
            Self::ConsumerGroupTargetAssignmentMetadata(..) => "ConsumerGroupTargetAssignmentMetadata",
            Self::ConsumerGroupTargetAssignmentMember(..) => "ConsumerGroupTargetAssignmentMember",
            Self::ConsumerGroupCurrentMemberAssignment(..) => "ConsumerGroupCurrentMemberAssignment",
        }
    }
    /// The member that it is about.
    pub const fn member(&self) -> Option<&Name> {
        match self {
            Self::ConsumerGroupMemberMetadata(_, m, _)
            | Self::ConsumerGroupTargetAssignmentMember(_, m, _)
            | Self::ConsumerGroupCurrentMemberAssignment(_, m, _) => Some(m),
            _ => None,
        }
    }
}
