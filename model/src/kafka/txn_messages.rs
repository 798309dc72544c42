//! What transactional clients and coordinators say to each other (kafka.md 4, API versions of K-20).

use super::ErrorCode;
use crate::base::{Addr, BrokerId, Chain, Feed, Millis, Offset, ProducerEpoch, ProducerId, TopicPartition};

/// `transactional.id`, interned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionalId(pub u32);
/// `group.id`, interned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// Whose coordinator is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoordinatorKey {
    /// The transaction coordinator.
    Transaction(TransactionalId),
    /// The group coordinator.
    Group(GroupId),
}

/// A request to, or about, a coordinator.
#[derive(Clone, Debug)]
pub enum CoordinatorRequest {
    /// Which node coordinates; any broker answers.
    Find(CoordinatorKey),
    /// A producer id of a transactional id; with id and epoch it is a bump (KIP-360).
    InitProducerId {
        /// The transactional id.
        id: TransactionalId,
        /// `transaction.timeout.ms`.
        timeout: Millis,
        /// The id held, -1 for none.
        producer: ProducerId,
        /// Its epoch, -1 for none.
        epoch: ProducerEpoch,
    },
    /// Registers partitions in the transaction (TV1).
    AddPartitions {
        /// The transactional id.
        id: TransactionalId,
        /// Producer id.
        producer: ProducerId,
        /// Producer epoch.
        epoch: ProducerEpoch,
        /// The partitions, in order.
        partitions: Vec<TopicPartition>,
        /// Version of the request, see [`fenced_at`].
        version: u8,
    },
    /// Registers a group's offsets in the transaction (TV1).
    AddOffsets {
        /// The transactional id.
        id: TransactionalId,
        /// Producer id.
        producer: ProducerId,
        /// Producer epoch.
        epoch: ProducerEpoch,
        /// The group.
        group: GroupId,
        /// Version of the request, see [`fenced_at`].
        version: u8,
    },
    /// Writes offsets in the transaction; goes to the group coordinator.
    TxnOffsetCommit {
        /// The transactional id.
        id: TransactionalId,
        /// Producer id.
        producer: ProducerId,
        /// Producer epoch.
        epoch: ProducerEpoch,
        /// The group.
        group: GroupId,
        /// Member generation; -1 for none.
        generation: i32,
        /// Next offset of each partition.
        offsets: Vec<(TopicPartition, Offset)>,
        /// Request version 5: the group coordinator adds its partition to the transaction (transaction.version 2).
        v2: bool,
    },
    /// Ends the transaction.
    EndTxn {
        /// The transactional id.
        id: TransactionalId,
        /// Producer id.
        producer: ProducerId,
        /// Producer epoch.
        epoch: ProducerEpoch,
        /// COMMIT, else ABORT.
        commit: bool,
        /// Version of the request, see [`fenced_at`]. With 5 the transaction is one of transaction.version 2, and the answer
        /// carries the next epoch.
        version: u8,
    },
}

/// What a request to the coordinator of that version is told for `error`: below version 2, as librdkafka's are (K-20),
/// PRODUCER_FENCED is not known and INVALID_PRODUCER_EPOCH stands for it (KIP-588; 4.3).
pub const fn fenced_at(version: u8, error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if version < 2 => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}

/// The answer to a [`CoordinatorRequest`].
#[derive(Clone, Debug)]
pub enum CoordinatorReply {
    /// To `Find`.
    Find {
        /// The error.
        error: ErrorCode,
        /// The node, -1 on error.
        node: BrokerId,
        /// Its listener, if there is one.
        addr: Option<Addr>,
    },
    /// To `InitProducerId`.
    InitProducerId {
        /// The error.
        error: ErrorCode,
        /// The id.
        producer: ProducerId,
        /// The epoch.
        epoch: ProducerEpoch,
    },
    /// To `AddPartitions`, one a partition.
    AddPartitions(Vec<(TopicPartition, ErrorCode)>),
    /// To `AddOffsets`.
    AddOffsets(ErrorCode),
    /// To `TxnOffsetCommit`, one a partition.
    TxnOffsetCommit(Vec<(TopicPartition, ErrorCode)>),
    /// To `EndTxn`.
    EndTxn {
        /// The error.
        error: ErrorCode,
        /// Producer id of the next transaction; -1 before request version 5.
        producer: ProducerId,
        /// Its epoch.
        epoch: ProducerEpoch,
    },
}

impl CoordinatorRequest {
    /// Kafka's name of the api.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Find(_) => "FindCoordinator",
            Self::InitProducerId { .. } => "InitProducerId",
            Self::AddPartitions { .. } => "AddPartitionsToTxn",
            Self::AddOffsets { .. } => "AddOffsetsToTxn",
            Self::TxnOffsetCommit { .. } => "TxnOffsetCommit",
            Self::EndTxn { .. } => "EndTxn",
        }
    }
    /// Kafka's api key.
    pub const fn key(&self) -> u8 {
        match self {
            Self::Find(_) => 10,
            Self::InitProducerId { .. } => 22,
            Self::AddPartitions { .. } => 24,
            Self::AddOffsets { .. } => 25,
            Self::EndTxn { .. } => 26,
            Self::TxnOffsetCommit { .. } => 28,
        }
    }
    /// Size on the wire in bytes, header apart.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Find(_) => 24,
            Self::InitProducerId { .. } | Self::AddOffsets { .. } => 44,
            Self::AddPartitions { partitions, .. } => 40 + 16 * partitions.len() as u32,
            Self::TxnOffsetCommit { offsets, .. } => 64 + 28 * offsets.len() as u32,
            Self::EndTxn { .. } => 36,
        }
    }
}
impl CoordinatorReply {
    /// Name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Find { .. } => "FindCoordinator reply",
            Self::InitProducerId { .. } => "InitProducerId reply",
            Self::AddPartitions(_) => "AddPartitionsToTxn reply",
            Self::AddOffsets(_) => "AddOffsetsToTxn reply",
            Self::TxnOffsetCommit(_) => "TxnOffsetCommit reply",
            Self::EndTxn { .. } => "EndTxn reply",
        }
    }
    /// Kafka's api key of the request.
    pub const fn key(&self) -> u8 {
        match self {
            Self::Find { .. } => 10,
            Self::InitProducerId { .. } => 22,
            Self::AddPartitions(_) => 24,
            Self::AddOffsets(_) => 25,
            Self::EndTxn { .. } => 26,
            Self::TxnOffsetCommit(_) => 28,
        }
    }
    /// Size on the wire in bytes, header apart.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Find { .. } => 40,
            Self::InitProducerId { .. } => 16,
            Self::AddPartitions(p) | Self::TxnOffsetCommit(p) => 8 + 18 * p.len() as u32,
            Self::AddOffsets(_) => 6,
            Self::EndTxn { .. } => 16,
        }
    }
}
impl Feed for CoordinatorKey {
    fn feed(&self, c: &mut Chain) {
        let (kind, id) = match self {
            Self::Transaction(id) => (1, id.0),
            Self::Group(id) => (0, id.0),
        };
        c.u8(kind);
        c.u32(id);
    }
}
impl Feed for CoordinatorRequest {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        let mut producer = |id: &TransactionalId, producer: &ProducerId, epoch: &ProducerEpoch| {
            c.u32(id.0);
            producer.feed(c);
            epoch.feed(c);
        };
        match self {
            Self::Find(key) => key.feed(c),
            Self::InitProducerId { id, timeout, producer: pid, epoch } => {
                producer(id, pid, epoch);
                timeout.feed(c);
            }
            Self::AddPartitions { id, producer: pid, epoch, partitions, version } => {
                producer(id, pid, epoch);
                partitions.feed(c);
                c.u8(*version);
            }
            Self::AddOffsets { id, producer: pid, epoch, group, version } => {
                producer(id, pid, epoch);
                c.u32(group.0);
                c.u8(*version);
            }
            Self::TxnOffsetCommit { id, producer: pid, epoch, group, generation, offsets, v2 } => {
                producer(id, pid, epoch);
                c.u32(group.0);
                c.u32(*generation as u32);
                offsets.feed(c);
                v2.feed(c);
            }
            Self::EndTxn { id, producer: pid, epoch, commit, version } => {
                producer(id, pid, epoch);
                commit.feed(c);
                c.u8(*version);
            }
        }
    }
}
impl Feed for CoordinatorReply {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        match self {
            Self::Find { error, node, addr } => {
                error.feed(c);
                node.feed(c);
                addr.feed(c);
            }
            Self::InitProducerId { error, producer, epoch } => {
                error.feed(c);
                producer.feed(c);
                epoch.feed(c);
            }
            Self::AddPartitions(p) | Self::TxnOffsetCommit(p) => p.feed(c),
            Self::AddOffsets(e) => e.feed(c),
            Self::EndTxn { error, producer, epoch } => {
                error.feed(c);
                producer.feed(c);
                epoch.feed(c);
            }
        }
    }
}
