//! What members and the group coordinator say to each other.

use crate::base::{Millis, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::{GroupId, TransactionalId};
use std::sync::Arc;

/// A member id, an instance id, a protocol's or an assignor's name. The empty member id is "none yet".
pub type Name = Arc<str>;

/// Generation of a commit without a member (`OffsetCommitRequest.DEFAULT_GENERATION_ID`).
pub const NO_GENERATION: i32 = -1;
/// Epoch with which a KIP-848 member joins.
pub const JOIN_EPOCH: i32 = 0;
/// Epoch with which a KIP-848 member leaves.
pub const LEAVE_EPOCH: i32 = -1;
/// Epoch with which a static KIP-848 member leaves for a while.
pub const STATIC_LEAVE_EPOCH: i32 = -2;

/// A classic member's side of one protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolMetadata {
    /// Bytes that the coordinator cannot read.
    Opaque(Arc<[u8]>),
    /// `ConsumerProtocolSubscription`.
    Consumer(Arc<ConsumerSubscription>),
}
/// The subscription of a consumer in a classic group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerSubscription {
    /// Topics, in the member's order.
    pub topics: Vec<TopicId>,
    /// What it owns, if its assignor is cooperative.
    pub owned: Vec<TopicPartition>,
    /// Generation in which it was given that; -1 for none.
    pub generation: i32,
    /// What the `sticky` assignor remembers: its last assignment and of which generation.
    pub user_data: Option<(Vec<TopicPartition>, i32)>,
}
/// A protocol that a member supports, with what its leader needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinProtocol {
    /// `range`, `cooperative-sticky`, ...
    pub name: Name,
    /// The member's side of it.
    pub metadata: ProtocolMetadata,
}
/// What a classic member is given by its leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAssignment {
    /// Bytes that the coordinator cannot read; none at all is "nothing".
    Opaque(Arc<[u8]>),
    /// `ConsumerProtocolAssignment`.
    Partitions(Arc<[TopicPartition]>),
}
impl MemberAssignment {
    /// No assignment.
    pub fn empty() -> Self {
        Self::Opaque(Arc::from([]))
    }
}
impl Default for MemberAssignment {
    fn default() -> Self {
        Self::empty()
    }
}

/// JoinGroup.
#[derive(Clone, Debug)]
pub struct JoinGroupRequest {
    /// `group.id`.
    pub group: GroupId,
    /// The member id held; empty for none.
    pub member: Name,
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// `client.id`, the beginning of a member id that is made.
    pub client: Name,
    /// `session.timeout.ms`.
    pub session_timeout: Millis,
    /// `max.poll.interval.ms`.
    pub rebalance_timeout: Millis,
    /// `consumer`, `connect`, ...
    pub protocol_type: Name,
    /// Protocols in order of preference.
    pub protocols: Arc<[JoinProtocol]>,
    /// Api version: from 4 on a member id is required, from 9 on the leader may be told to skip its assignment.
    pub version: u8,
}
/// A member as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinGroupMember {
    /// Member id.
    pub id: Name,
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// Its side of the protocol selected.
    pub metadata: ProtocolMetadata,
}
/// Answer to JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinGroupReply {
    /// The error.
    pub error: ErrorCode,
    /// The member id to use from now on; `None` where the request failed as a whole.
    pub member: Option<Name>,
    /// The generation.
    pub generation: i32,
    /// The protocol selected.
    pub protocol: Option<Name>,
    /// Member id of the leader.
    pub leader: Option<Name>,
    /// The leader is to keep the present assignment (KIP-814).
    pub skip_assignment: bool,
    /// All members, for the leader.
    pub members: Vec<JoinGroupMember>,
}
/// SyncGroup.
#[derive(Clone, Debug)]
pub struct SyncGroupRequest {
    /// `group.id`.
    pub group: GroupId,
    /// Member id.
    pub member: Name,
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// Generation.
    pub generation: i32,
    /// Protocol type and protocol, from version 5 on.
    pub protocol_type: Option<Name>,
    /// See there.
    pub protocol: Option<Name>,
    /// From the leader: who gets what.
    pub assignments: Vec<(Name, MemberAssignment)>,
}
/// Answer to SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncGroupReply {
    /// The error.
    pub error: ErrorCode,
    /// The group's protocol.
    pub protocol: Option<Name>,
    /// What the member is given.
    pub assignment: MemberAssignment,
}
/// Heartbeat of a classic member.
#[derive(Clone, Debug)]
pub struct HeartbeatRequest {
    /// `group.id`.
    pub group: GroupId,
    /// Member id.
    pub member: Name,
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// Generation.
    pub generation: i32,
}
/// LeaveGroup.
#[derive(Clone, Debug)]
pub struct LeaveGroupRequest {
    /// `group.id`.
    pub group: GroupId,
    /// Member id (may be empty) and instance id of each.
    pub members: Vec<(Name, Option<Name>)>,
}
/// OffsetCommit.
#[derive(Clone, Debug)]
pub struct OffsetCommitRequest {
    /// `group.id`.
    pub group: GroupId,
    /// Member id; empty for none.
    pub member: Name,
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// Generation or member epoch; -1 for none.
    pub generation: i32,
    /// Api version: from 9 on a missing group is told by GROUP_ID_NOT_FOUND.
    pub version: u8,
    /// Retention of versions 2 to 4.
    pub retention: Option<Millis>,
    /// Next offset of each partition.
    pub offsets: Vec<(TopicPartition, Offset)>,
}
/// TxnOffsetCommit.
#[derive(Clone, Debug)]
pub struct TxnOffsetCommitRequest {
    /// The transactional id.
    pub id: TransactionalId,
    /// Request version 5: the group coordinator adds its partition to the transaction (transaction.version 2).
    pub v2: bool,
    /// `group.id`.
    pub group: GroupId,
    /// Producer id.
    pub producer: ProducerId,
    /// Producer epoch.
    pub epoch: ProducerEpoch,
    /// Member id; empty for none.
    pub member: Name,
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// Generation or member epoch; -1 for none.
    pub generation: i32,
    /// Next offset of each partition.
    pub offsets: Vec<(TopicPartition, Offset)>,
}
/// OffsetFetch of one group.
#[derive(Clone, Debug)]
pub struct OffsetFetchRequest {
    /// `group.id`.
    pub group: GroupId,
    /// Member id, of a KIP-848 member.
    pub member: Option<Name>,
    /// Its epoch; -1 for none.
    pub epoch: i32,
    /// Not to be answered with an offset that a transaction is about to change (KIP-447).
    pub require_stable: bool,
    /// The partitions; `None` for all that have an offset.
    pub partitions: Option<Vec<TopicPartition>>,
}
/// A partition of an OffsetFetch answer; offset -1 where there is none.
pub type FetchedOffset = (TopicPartition, ErrorCode, Offset);
/// ConsumerGroupHeartbeat (KIP-848). What is absent has not changed.
#[derive(Clone, Debug)]
pub struct ConsumerGroupHeartbeatRequest {
    /// `group.id`.
    pub group: GroupId,
    /// Member id, made by the client.
    pub member: Name,
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// Member epoch; 0 joins, -1 leaves, -2 leaves for a while.
    pub epoch: i32,
    /// `max.poll.interval.ms`.
    pub rebalance_timeout: Option<Millis>,
    /// Topics subscribed to.
    pub topics: Option<Vec<TopicId>>,
    /// `group.remote.assignor`.
    pub assignor: Option<Name>,
    /// What the member owns.
    pub owned: Option<Vec<TopicPartition>>,
}
/// Answer to ConsumerGroupHeartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeatReply {
    /// The error; nothing else counts then.
    pub error: ErrorCode,
    /// The member epoch from now on.
    pub epoch: i32,
    /// When to send the next one.
    pub interval: Millis,
    /// What the member is to own, if that is news.
    pub assignment: Option<Vec<TopicPartition>>,
}

/// A request to the group coordinator.
#[derive(Clone, Debug)]
pub enum GroupRequest {
    /// JoinGroup.
    Join(JoinGroupRequest),
    /// SyncGroup.
    Sync(SyncGroupRequest),
    /// Heartbeat.
    Heartbeat(HeartbeatRequest),
    /// LeaveGroup.
    Leave(LeaveGroupRequest),
    /// OffsetCommit.
    OffsetCommit(OffsetCommitRequest),
    /// TxnOffsetCommit.
    TxnOffsetCommit(TxnOffsetCommitRequest),
    /// OffsetFetch.
    OffsetFetch(OffsetFetchRequest),
    /// ConsumerGroupHeartbeat.
    ConsumerHeartbeat(ConsumerGroupHeartbeatRequest),
    /// DeleteGroups, one group.
    Delete(GroupId),
    /// OffsetDelete.
    OffsetDelete(GroupId, Vec<TopicPartition>),
}
/// The answer to a [`GroupRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupReply {
    /// To JoinGroup.
    Join(JoinGroupReply),
    /// To SyncGroup.
    Sync(SyncGroupReply),
    /// To Heartbeat.
    Heartbeat(ErrorCode),
    /// To LeaveGroup; one error a member.
    Leave(ErrorCode, Vec<ErrorCode>),
    /// To OffsetCommit: the error of the request as a whole, which is on the wire only as that of every partition.
    OffsetCommit(ErrorCode, Vec<(TopicPartition, ErrorCode)>),
    /// To TxnOffsetCommit, likewise.
    TxnOffsetCommit(ErrorCode, Vec<(TopicPartition, ErrorCode)>),
    /// To OffsetFetch.
    OffsetFetch(ErrorCode, Vec<FetchedOffset>),
    /// To ConsumerGroupHeartbeat.
    ConsumerHeartbeat(ConsumerGroupHeartbeatReply),
    /// To DeleteGroups.
    Delete(ErrorCode),
    /// To OffsetDelete.
    OffsetDelete(ErrorCode, Vec<(TopicPartition, ErrorCode)>),
}

impl JoinGroupReply {
    /// A refusal.
    pub fn refused(error: ErrorCode, member: Option<Name>) -> Self {
        Self {
            error,
            member,
            generation: -1,
            protocol: None,
            leader: None,
            skip_assignment: false,
            members: Vec::new(),
        }
    }
}
impl SyncGroupReply {
    /// A refusal.
    pub fn refused(error: ErrorCode) -> Self {
        Self { error, protocol: None, assignment: MemberAssignment::empty() }
    }
}
impl ConsumerGroupHeartbeatReply {
    /// A refusal.
    pub fn refused(error: ErrorCode) -> Self {
        Self { error, epoch: 0, interval: Millis::ZERO, assignment: None }
    }
}

/// The same error for every partition, as those answers tell a failure of the whole.
fn for_each<T>(offsets: &[(TopicPartition, T)], error: ErrorCode) -> Vec<(TopicPartition, ErrorCode)> {
    offsets.iter().map(|(tp, _)| (*tp, error)).collect()
}

impl GroupRequest {
    /// The group it is about.
    pub fn group(&self) -> GroupId {
        match self {
            Self::Join(r) => r.group,
            Self::Sync(r) => r.group,
            Self::Heartbeat(r) => r.group,
            Self::Leave(r) => r.group,
            Self::OffsetCommit(r) => r.group,
            Self::TxnOffsetCommit(r) => r.group,
            Self::OffsetFetch(r) => r.group,
            Self::ConsumerHeartbeat(r) => r.group,
            Self::Delete(group) | Self::OffsetDelete(group, _) => *group,
        }
    }
    /// Whether its answer, where it writes nothing itself, waits for what is being written. JoinGroup and SyncGroup are
    /// answered by the rounds; an OffsetFetch that does not require stable offsets reads what is replicated.
    pub(super) const fn waits_for_writes(&self) -> bool {
        match self {
            Self::Join(_) | Self::Sync(_) => false,
            Self::OffsetFetch(r) => r.require_stable,
            _ => true,
        }
    }
    /// The answer that tells `error` for the whole request.
    pub fn refusal(&self, error: ErrorCode) -> GroupReply {
        match self {
            Self::Join(r) => GroupReply::Join(JoinGroupReply::refused(error, Some(Arc::clone(&r.member)))),
            Self::Sync(_) => GroupReply::Sync(SyncGroupReply::refused(error)),
            Self::Heartbeat(_) => GroupReply::Heartbeat(error),
            Self::Leave(_) => GroupReply::Leave(error, Vec::new()),
            Self::OffsetCommit(r) => GroupReply::OffsetCommit(error, for_each(&r.offsets, error)),
            Self::TxnOffsetCommit(r) => GroupReply::TxnOffsetCommit(error, for_each(&r.offsets, error)),
            Self::OffsetFetch(_) => GroupReply::OffsetFetch(error, Vec::new()),
            Self::ConsumerHeartbeat(_) => GroupReply::ConsumerHeartbeat(ConsumerGroupHeartbeatReply::refused(error)),
            Self::Delete(_) => GroupReply::Delete(error),
            Self::OffsetDelete(..) => GroupReply::OffsetDelete(error, Vec::new()),
        }
    }
}
impl GroupReply {
    /// The same answer, failed as a whole with `error`.
    pub fn failed(&self, error: ErrorCode) -> Self {
        match self {
            Self::Join(r) => Self::Join(JoinGroupReply::refused(error, r.member.clone())),
            Self::Sync(_) => Self::Sync(SyncGroupReply::refused(error)),
            Self::Heartbeat(_) => Self::Heartbeat(error),
            Self::Leave(..) => Self::Leave(error, Vec::new()),
            Self::OffsetCommit(_, offsets) => Self::OffsetCommit(error, for_each(offsets, error)),
            Self::TxnOffsetCommit(_, offsets) => Self::TxnOffsetCommit(error, for_each(offsets, error)),
            Self::OffsetFetch(..) => Self::OffsetFetch(error, Vec::new()),
            Self::ConsumerHeartbeat(_) => Self::ConsumerHeartbeat(ConsumerGroupHeartbeatReply::refused(error)),
            Self::Delete(_) => Self::Delete(error),
            Self::OffsetDelete(..) => Self::OffsetDelete(error, Vec::new()),
        }
    }
}
