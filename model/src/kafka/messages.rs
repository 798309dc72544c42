//! What goes over the wire between clients, brokers and controllers.

use super::ErrorCode;
use super::broker_messages::{BrokerReply, BrokerRequest};
use super::controller::messages::{ControllerReply, ControllerRequest};
use super::coordinator::group::messages::{GroupReply, GroupRequest};
use super::log::{AbortedTxn, Entry, Isolation};
use super::quorum::messages::{QuorumReply, QuorumRequest};
use super::txn_messages::{CoordinatorReply, CoordinatorRequest, TransactionalId};
use crate::base::{
    Addr, Batch, BrokerEpoch, BrokerId, Foreign, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, TopicId,
    TopicPartition,
};
use crate::registry::messages::{RegistryReply, RegistryRequest};
use std::sync::Arc;

/// A request or its answer. Answers come on the connection of the request, with its correlation id.
#[derive(Clone, Debug)]
pub enum Message {
    /// A request.
    Request {
        /// Chosen by the client, unique on its connection.
        correlation: u32,
        /// What is asked.
        body: Request,
    },
    /// An answer.
    Reply {
        /// That of the request.
        correlation: u32,
        /// What is answered.
        body: Reply,
    },
    /// Another protocol's, on its way between processes that are not Kafka's.
    Foreign(Foreign),
}

/// A request. The large ones are boxed: a message is moved from list to list on its way.
#[derive(Clone, Debug)]
pub enum Request {
    /// First on every client connection.
    ApiVersions,
    /// Cluster metadata.
    Metadata(MetadataRequest),
    /// Append batches.
    Produce(ProduceRequest),
    /// Read, by a consumer or a follower.
    Fetch(Box<FetchRequest>),
    /// Offsets by time stamp: only latest and earliest.
    ListOffsets(ListOffsetsRequest),
    /// End offset of a leader epoch (KIP-101, KIP-320).
    OffsetsForLeaderEpoch(OffsetsForLeaderEpochRequest),
    /// A producer id (P-1).
    InitProducerId(InitProducerIdRequest),
    /// To the active controller.
    Controller(ControllerRequest),
    /// Among quorum voters and observers.
    Quorum(QuorumRequest),
    /// To, or about, a transaction or group coordinator.
    Coordinator(CoordinatorRequest),
    /// Of a member, or about a group.
    Group(Box<GroupRequest>),
    /// Of another broker.
    Broker(BrokerRequest),
    /// To a schema registry, over HTTP.
    Registry(RegistryRequest),
}

/// Feature levels of the cluster as a broker tells them (KIP-584).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinalizedFeatures {
    /// Offset of the metadata they come from: the larger one counts.
    pub epoch: Offset,
    /// Level of `transaction.version`.
    pub transaction_version: u8,
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// To [`Request::ApiVersions`]: what features the cluster has agreed on, if the broker knows.
    ApiVersions(Option<FinalizedFeatures>),
    /// To [`Request::Metadata`].
    Metadata(MetadataReply),
    /// To [`Request::Metadata`]: REBOOTSTRAP_REQUIRED, begin again with the bootstrap list (KIP-1102).
    RebootstrapRequired,
    /// To [`Request::Produce`]; none is sent for acks=0.
    Produce(ProduceReply),
    /// To [`Request::Fetch`].
    Fetch(FetchReply),
    /// To [`Request::ListOffsets`].
    ListOffsets(ListOffsetsReply),
    /// To [`Request::OffsetsForLeaderEpoch`].
    OffsetsForLeaderEpoch(OffsetsForLeaderEpochReply),
    /// To [`Request::InitProducerId`].
    InitProducerId(InitProducerIdReply),
    /// To [`Request::Controller`].
    Controller(ControllerReply),
    /// To [`Request::Quorum`].
    Quorum(QuorumReply),
    /// To [`Request::Coordinator`].
    Coordinator(CoordinatorReply),
    /// To [`Request::Group`].
    Group(GroupReply),
    /// To [`Request::Broker`].
    Broker(BrokerReply),
    /// To [`Request::Registry`].
    Registry(RegistryReply),
}

/// Asks for leaders. `None` asks for all topics.
#[derive(Clone, Debug)]
pub struct MetadataRequest {
    /// The topics asked for.
    pub topics: Option<Arc<[TopicId]>>,
}
/// A broker that is alive in the answering broker's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerInfo {
    /// Its id.
    pub id: BrokerId,
    /// Its client listener.
    pub addr: Addr,
}
/// A partition's leader as the answering broker knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    /// The partition.
    pub tp: TopicPartition,
    /// LEADER_NOT_AVAILABLE where there is no leader or it is not alive.
    pub error: ErrorCode,
    /// The leader, -1 for none.
    pub leader: BrokerId,
    /// Its epoch.
    pub epoch: LeaderEpoch,
}
/// Cluster metadata, as old as the answering broker's (C-9).
#[derive(Clone, Debug)]
pub struct MetadataReply {
    /// Brokers that are alive, by id.
    pub brokers: Arc<[BrokerInfo]>,
    /// Partitions of the topics asked for, in order.
    pub partitions: Arc<[PartitionInfo]>,
    /// Topics asked for that this broker does not know.
    pub unknown: Arc<[TopicId]>,
}

/// One batch for each partition named.
#[derive(Clone, Debug)]
pub struct ProduceRequest {
    /// -1 all, 1 leader, 0 none.
    pub acks: i8,
    /// Broker-side timeout for acks=all.
    pub timeout: Millis,
    /// Api version: from 10 on answers may carry the new leader, from 11 on TRANSACTION_ABORTABLE, from 12 on TV2.
    pub version: u8,
    /// The producer's `transactional.id`, where it has one.
    pub transactional_id: Option<TransactionalId>,
    /// The batches.
    pub batches: Vec<(TopicPartition, Arc<Batch>)>,
}
/// The answer for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducedPartition {
    /// The partition.
    pub tp: TopicPartition,
    /// The error.
    pub error: ErrorCode,
    /// Offset of the first record; that of the first time for a duplicate; -1 on error.
    pub base: Offset,
    /// Log start offset of the leader.
    pub log_start: Offset,
    /// The new leader, where the error says that it moved (KIP-951).
    pub leader: Option<(BrokerId, LeaderEpoch)>,
}
/// Answer to a produce request.
#[derive(Clone, Debug)]
pub struct ProduceReply {
    /// One a partition, in the order of the request.
    pub partitions: Vec<ProducedPartition>,
}

/// A partition of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// The partition.
    pub tp: TopicPartition,
    /// First offset wanted.
    pub offset: Offset,
    /// Leader epoch the asker knows; -1 is not checked.
    pub leader_epoch: LeaderEpoch,
    /// Epoch of the record before `offset`, from followers; -1 otherwise.
    pub last_fetched_epoch: LeaderEpoch,
    /// The follower's log start.
    pub log_start: Offset,
    /// Limit for this partition in bytes.
    pub max_bytes: u32,
}
/// Reads from partitions. With a session (id other than 0 and epoch above 0) only changes are named.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// The follower, or `None` for a consumer.
    pub replica: Option<(BrokerId, BrokerEpoch)>,
    /// How long the broker may wait for `min_bytes`.
    pub max_wait: Millis,
    /// Bytes that end the wait.
    pub min_bytes: u32,
    /// Limit for the whole answer.
    pub max_bytes: u32,
    /// Upper bound.
    pub isolation: Isolation,
    /// Session id, 0 for none.
    pub session: u32,
    /// 0 opens a session (a full fetch), -1 wants none, else the next incremental epoch.
    pub session_epoch: i32,
    /// Partitions named, in order.
    pub partitions: Vec<FetchPartition>,
    /// Partitions that leave the session.
    pub forget: Vec<TopicPartition>,
}
/// The answer for one partition.
#[derive(Clone, Debug)]
pub struct FetchedPartition {
    /// The partition.
    pub tp: TopicPartition,
    /// The error.
    pub error: ErrorCode,
    /// High watermark.
    pub high_watermark: Offset,
    /// Last stable offset; -1 where unknown.
    pub last_stable: Offset,
    /// Log start.
    pub log_start: Offset,
    /// Where the logs part: the leader's (epoch, end offset); no data then (L-10).
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Aborted transactions, only for read_committed.
    pub aborted: Arc<[AbortedTxn]>,
    /// Whole batches.
    pub entries: Arc<[Entry]>,
    /// Bytes returned, with a batch that was cut off at the end.
    pub bytes: u32,
    /// The new leader, where the error says that it moved (KIP-951).
    pub leader: Option<(BrokerId, LeaderEpoch)>,
}
/// Answer to a fetch.
#[derive(Clone, Debug)]
pub struct FetchReply {
    /// Error of the session.
    pub error: ErrorCode,
    /// Session id, 0 for none.
    pub session: u32,
    /// Partitions with anything to say, in the order in which they were read.
    pub partitions: Vec<FetchedPartition>,
}

/// Which end of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// -1 on the wire.
    Latest,
    /// -2 on the wire.
    Earliest,
}
/// Asks for offsets at either end.
#[derive(Clone, Debug)]
pub struct ListOffsetsRequest {
    /// Upper bound of latest.
    pub isolation: Isolation,
    /// Partition, which end, leader epoch the asker knows.
    pub partitions: Vec<(TopicPartition, OffsetSpec, LeaderEpoch)>,
}
/// Partition, error, offset, leader epoch of that offset.
#[derive(Clone, Debug)]
pub struct ListOffsetsReply {
    /// One a partition.
    pub partitions: Vec<(TopicPartition, ErrorCode, Offset, LeaderEpoch)>,
}
/// Asks where leader epochs end.
#[derive(Clone, Debug)]
pub struct OffsetsForLeaderEpochRequest {
    /// Partition, epoch asked for, current leader epoch the asker knows.
    pub partitions: Vec<(TopicPartition, LeaderEpoch, LeaderEpoch)>,
}
/// Partition, error, epoch, end offset; -1 where undefined.
#[derive(Clone, Debug)]
pub struct OffsetsForLeaderEpochReply {
    /// One a partition.
    pub partitions: Vec<(TopicPartition, ErrorCode, LeaderEpoch, Offset)>,
}
/// Asks for a producer id; the transactional form comes with the coordinator.
#[derive(Clone, Copy, Debug)]
pub struct InitProducerIdRequest {
    /// The id held, -1 for none.
    pub producer: ProducerId,
    /// Its epoch, -1 for none.
    pub epoch: ProducerEpoch,
}
/// A producer id.
#[derive(Clone, Copy, Debug)]
pub struct InitProducerIdReply {
    /// The error.
    pub error: ErrorCode,
    /// The id.
    pub producer: ProducerId,
    /// The epoch.
    pub epoch: ProducerEpoch,
}

impl Request {
    /// Name, as Kafka's `ApiKeys` has it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ApiVersions => "ApiVersions",
            Self::Metadata(_) => "Metadata",
            Self::Produce(_) => "Produce",
            Self::Fetch(_) => "Fetch",
            Self::ListOffsets(_) => "ListOffsets",
            Self::OffsetsForLeaderEpoch(_) => "OffsetForLeaderEpoch",
            Self::InitProducerId(_) => "InitProducerId",
            Self::Controller(r) => r.name(),
            Self::Quorum(r) => r.name(),
            Self::Coordinator(r) => r.name(),
            Self::Group(r) => r.name(),
            Self::Broker(r) => r.name(),
            Self::Registry(r) => r.name(),
        }
    }
    /// Its answer may take at least so long, whatever `request.timeout.ms` says: a JoinGroup waits for the other members
    /// (`AbstractCoordinator.sendJoinGroupRequest`).
    pub fn least_timeout(&self) -> Millis {
        const JOIN_GROUP_TIMEOUT_LAPSE: Millis = Millis(5_000);
        match self {
            Self::Group(request) => match &**request {
                GroupRequest::Join(join) => join.rebalance_timeout.saturating_add(JOIN_GROUP_TIMEOUT_LAPSE),
                _ => Millis::ZERO,
            },
            _ => Millis::ZERO,
        }
    }
    /// Kafka's api key, as far as there is one byte of it.
    pub const fn key(&self) -> u8 {
        match self {
            Self::Produce(_) => 0,
            Self::Fetch(_) => 1,
            Self::ListOffsets(_) => 2,
            Self::Metadata(_) => 3,
            Self::ApiVersions => 18,
            Self::InitProducerId(_) => 22,
            Self::OffsetsForLeaderEpoch(_) => 23,
            Self::Controller(r) => r.key(),
            Self::Quorum(r) => r.key(),
            Self::Coordinator(r) => r.key(),
            Self::Group(r) => r.key(),
            Self::Broker(r) => r.key(),
            Self::Registry(r) => r.key(),
        }
    }
}
impl Reply {
    /// Kafka's api key of the request it answers.
    pub const fn key(&self) -> u8 {
        match self {
            Self::Produce(_) => 0,
            Self::Fetch(_) => 1,
            Self::ListOffsets(_) => 2,
            Self::Metadata(_) | Self::RebootstrapRequired => 3,
            Self::ApiVersions(_) => 18,
            Self::InitProducerId(_) => 22,
            Self::OffsetsForLeaderEpoch(_) => 23,
            Self::Controller(r) => r.key(),
            Self::Quorum(r) => r.key(),
            Self::Coordinator(r) => r.key(),
            Self::Group(r) => r.key(),
            Self::Broker(r) => r.key(),
            Self::Registry(_) => 124,
        }
    }
}
