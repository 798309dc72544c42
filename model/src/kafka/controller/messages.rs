//! Requests to the active controller and its answers.

use super::records::TopicConfig;
use super::registration::Replicas;
use crate::base::{
    Addr, BrokerEpoch, BrokerId, Chain, Feed, Incarnation, LeaderEpoch, Offset, PartitionEpoch, ProducerId, TopicId,
    TopicPartition,
};
use crate::kafka::ErrorCode;
use std::sync::Arc;

/// A broker registers (L-26).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerRegistrationRequest {
    /// Which broker.
    pub broker: BrokerId,
    /// Which start of its process.
    pub incarnation: Incarnation,
    /// Epoch from its clean-shutdown marker, -1 without one (L-22, L-23).
    pub previous_epoch: BrokerEpoch,
    /// Its client listener.
    pub addr: Addr,
}
/// A broker's heartbeat (C-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerHeartbeatRequest {
    /// Which broker.
    pub broker: BrokerId,
    /// Epoch of its registration.
    pub epoch: BrokerEpoch,
    /// Offset of the last metadata record it has replayed.
    pub metadata_offset: Offset,
    /// It wants to be fenced.
    pub want_fence: bool,
    /// It wants to shut down (L-24).
    pub want_shutdown: bool,
}
/// What a leader asks for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterPartitionData {
    /// The partition.
    pub tp: TopicPartition,
    /// Leader epoch that the sender leads under.
    pub leader_epoch: LeaderEpoch,
    /// Partition epoch that it knows.
    pub partition_epoch: PartitionEpoch,
    /// ISR wanted, with the broker epoch under which each member fetched; -1 is not compared (KIP-903).
    pub isr: Arc<[(BrokerId, BrokerEpoch)]>,
    /// The leader still recovers from an unclean election.
    pub recovering: bool,
}
/// A leader asks for other ISRs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterPartitionRequest {
    /// The sender.
    pub broker: BrokerId,
    /// Epoch of its registration.
    pub epoch: BrokerEpoch,
    /// The partitions.
    pub partitions: Vec<AlterPartitionData>,
}
/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatableTopic {
    /// The topic.
    pub topic: TopicId,
    /// Replicas of each partition.
    pub assignments: Vec<Replicas>,
    /// Its settings.
    pub configs: Vec<TopicConfig>,
}
/// What kind of leader an operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionType {
    /// The first replica of the assignment.
    Preferred,
    /// Anyone, if there is no leader.
    Unclean,
}

/// A request to the active controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerRequest {
    /// Register a broker.
    BrokerRegistration(BrokerRegistrationRequest),
    /// A broker is alive.
    BrokerHeartbeat(BrokerHeartbeatRequest),
    /// Take a registration back.
    UnregisterBroker {
        /// Which broker.
        broker: BrokerId,
    },
    /// Change ISRs.
    AlterPartition(AlterPartitionRequest),
    /// Hand out a block of producer ids.
    AllocateProducerIds {
        /// To which broker.
        broker: BrokerId,
        /// Epoch of its registration.
        epoch: BrokerEpoch,
    },
    /// Raise the level of `transaction.version`.
    UpdateFeatures {
        /// The new level.
        transaction_version: u8,
    },
    /// Create topics.
    CreateTopics {
        /// The topics.
        topics: Vec<CreatableTopic>,
    },
    /// Elect leaders.
    ElectLeaders {
        /// Which kind.
        election: ElectionType,
        /// Of which partitions; `None` for all.
        partitions: Option<Vec<TopicPartition>>,
    },
    /// Move partitions to other brokers; `None` cancels.
    AlterPartitionReassignments {
        /// Partition and target assignment.
        partitions: Vec<(TopicPartition, Option<Replicas>)>,
    },
}

/// The answer for one partition of an [`AlterPartitionRequest`]. Without error it tells the new state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlteredPartition {
    /// The partition.
    pub tp: TopicPartition,
    /// The error.
    pub error: ErrorCode,
    /// The leader; -1 on error.
    pub leader: BrokerId,
    /// Its epoch; -1 on error.
    pub leader_epoch: LeaderEpoch,
    /// The ISR now committed.
    pub isr: Replicas,
    /// Recovering.
    pub recovering: bool,
    /// The partition epoch; -1 on error.
    pub partition_epoch: PartitionEpoch,
}
impl AlteredPartition {
    /// An error.
    pub fn failed(tp: TopicPartition, error: ErrorCode) -> Self {
        Self {
            tp,
            error,
            leader: BrokerId::NONE,
            leader_epoch: LeaderEpoch::UNKNOWN,
            isr: Arc::new([]),
            recovering: false,
            partition_epoch: PartitionEpoch(-1),
        }
    }
}

/// An answer of the active controller, or NOT_CONTROLLER from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerReply {
    /// To a registration.
    BrokerRegistration {
        /// The error.
        error: ErrorCode,
        /// Epoch of the registration; -1 on error.
        epoch: BrokerEpoch,
    },
    /// To a heartbeat.
    BrokerHeartbeat {
        /// The error.
        error: ErrorCode,
        /// The broker has replayed its own registration.
        caught_up: bool,
        /// It is fenced.
        fenced: bool,
        /// It may go now.
        should_shutdown: bool,
    },
    /// To an unregistration.
    UnregisterBroker {
        /// The error.
        error: ErrorCode,
    },
    /// To an ISR change.
    AlterPartition {
        /// Error of the whole request.
        error: ErrorCode,
        /// One a partition, in the order of the request; none if the request failed.
        partitions: Vec<AlteredPartition>,
    },
    /// To a request for producer ids.
    AllocateProducerIds {
        /// The error.
        error: ErrorCode,
        /// First id of the block.
        first: ProducerId,
        /// Number of ids.
        len: u32,
    },
    /// To a change of a feature's level.
    UpdateFeatures {
        /// The error.
        error: ErrorCode,
    },
    /// To a topic creation.
    CreateTopics {
        /// One a topic.
        topics: Vec<(TopicId, ErrorCode)>,
    },
    /// To an election.
    ElectLeaders {
        /// Error of the whole request.
        error: ErrorCode,
        /// One a partition; for "all" only those where something was to do.
        partitions: Vec<(TopicPartition, ErrorCode)>,
    },
    /// To a reassignment.
    AlterPartitionReassignments {
        /// Error of the whole request.
        error: ErrorCode,
        /// One a partition.
        partitions: Vec<(TopicPartition, ErrorCode)>,
    },
}

impl ControllerRequest {
    /// Kafka's name of the api.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::BrokerRegistration(_) => "BrokerRegistration",
            Self::BrokerHeartbeat(_) => "BrokerHeartbeat",
            Self::UnregisterBroker { .. } => "UnregisterBroker",
            Self::AlterPartition(_) => "AlterPartition",
            Self::AllocateProducerIds { .. } => "AllocateProducerIds",
            Self::UpdateFeatures { .. } => "UpdateFeatures",
            Self::CreateTopics { .. } => "CreateTopics",
            Self::ElectLeaders { .. } => "ElectLeaders",
            Self::AlterPartitionReassignments { .. } => "AlterPartitionReassignments",
        }
    }
    /// Kafka's api key.
    pub const fn key(&self) -> u8 {
        match self {
            Self::CreateTopics { .. } => 19,
            Self::ElectLeaders { .. } => 43,
            Self::AlterPartitionReassignments { .. } => 45,
            Self::AlterPartition(_) => 56,
            Self::UpdateFeatures { .. } => 57,
            Self::BrokerRegistration(_) => 62,
            Self::BrokerHeartbeat(_) => 63,
            Self::UnregisterBroker { .. } => 64,
            Self::AllocateProducerIds { .. } => 67,
        }
    }
    /// Size on the wire in bytes.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::BrokerRegistration(_) => 160,
            Self::BrokerHeartbeat(_) => 24,
            Self::UnregisterBroker { .. } => 5,
            Self::AlterPartition(r) => 12 + r.partitions.iter().map(|p| 32 + 13 * p.isr.len() as u32).sum::<u32>(),
            Self::AllocateProducerIds { .. } => 12,
            Self::UpdateFeatures { .. } => 30,
            Self::CreateTopics { topics } => topics
                .iter()
                .map(|t| {
                    32 + 32 * t.configs.len() as u32 + t.assignments.iter().map(|a| 8 + 4 * a.len() as u32).sum::<u32>()
                })
                .sum(),
            Self::ElectLeaders { partitions, .. } => 8 + 8 * partitions.as_ref().map_or(0, |p| p.len() as u32),
            Self::AlterPartitionReassignments { partitions } => {
                partitions.iter().map(|(_, r)| 12 + 4 * r.as_ref().map_or(0, |r| r.len() as u32)).sum()
            }
        }
    }
    /// The answer that refuses the request as a whole: NOT_CONTROLLER, STALE_BROKER_EPOCH.
    pub fn refused(&self, error: ErrorCode) -> ControllerReply {
        match self {
            Self::BrokerRegistration(_) => ControllerReply::BrokerRegistration { error, epoch: BrokerEpoch::UNKNOWN },
            Self::BrokerHeartbeat(_) => {
                ControllerReply::BrokerHeartbeat { error, caught_up: false, fenced: true, should_shutdown: false }
            }
            Self::UnregisterBroker { .. } => ControllerReply::UnregisterBroker { error },
            Self::AlterPartition(_) => ControllerReply::AlterPartition { error, partitions: Vec::new() },
            Self::AllocateProducerIds { .. } => {
                ControllerReply::AllocateProducerIds { error, first: ProducerId::NONE, len: 0 }
            }
            Self::UpdateFeatures { .. } => ControllerReply::UpdateFeatures { error },
            Self::CreateTopics { topics } => {
                ControllerReply::CreateTopics { topics: topics.iter().map(|t| (t.topic, error)).collect() }
            }
            Self::ElectLeaders { .. } => ControllerReply::ElectLeaders { error, partitions: Vec::new() },
            Self::AlterPartitionReassignments { .. } => {
                ControllerReply::AlterPartitionReassignments { error, partitions: Vec::new() }
            }
        }
    }
}
impl ControllerReply {
    /// Name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::BrokerRegistration { .. } => "BrokerRegistration reply",
            Self::BrokerHeartbeat { .. } => "BrokerHeartbeat reply",
            Self::UnregisterBroker { .. } => "UnregisterBroker reply",
            Self::AlterPartition { .. } => "AlterPartition reply",
            Self::AllocateProducerIds { .. } => "AllocateProducerIds reply",
            Self::UpdateFeatures { .. } => "UpdateFeatures reply",
            Self::CreateTopics { .. } => "CreateTopics reply",
            Self::ElectLeaders { .. } => "ElectLeaders reply",
            Self::AlterPartitionReassignments { .. } => "AlterPartitionReassignments reply",
        }
    }
    /// Kafka's api key of the request.
    pub const fn key(&self) -> u8 {
        match self {
            Self::CreateTopics { .. } => 19,
            Self::ElectLeaders { .. } => 43,
            Self::AlterPartitionReassignments { .. } => 45,
            Self::AlterPartition { .. } => 56,
            Self::UpdateFeatures { .. } => 57,
            Self::BrokerRegistration { .. } => 62,
            Self::BrokerHeartbeat { .. } => 63,
            Self::UnregisterBroker { .. } => 64,
            Self::AllocateProducerIds { .. } => 67,
        }
    }
    /// Size on the wire in bytes.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::BrokerRegistration { .. } => 14,
            Self::BrokerHeartbeat { .. } => 10,
            Self::UnregisterBroker { .. } => 8,
            Self::AlterPartition { partitions, .. } => {
                8 + partitions.iter().map(|p| 24 + 4 * p.isr.len() as u32).sum::<u32>()
            }
            Self::AllocateProducerIds { .. } => 18,
            Self::UpdateFeatures { .. } => 10,
            Self::CreateTopics { topics } => 40 * topics.len() as u32,
            Self::ElectLeaders { partitions, .. } | Self::AlterPartitionReassignments { partitions, .. } => {
                8 + 10 * partitions.len() as u32
            }
        }
    }
    /// The same answer as NOT_CONTROLLER: what it would have told was never committed under this controller.
    pub fn not_controller(mut self) -> Self {
        const ERROR: ErrorCode = ErrorCode::NotController;
        match &mut self {
            Self::BrokerRegistration { error, epoch } => (*error, *epoch) = (ERROR, BrokerEpoch::UNKNOWN),
            Self::BrokerHeartbeat { error, should_shutdown, .. } => (*error, *should_shutdown) = (ERROR, false),
            Self::UnregisterBroker { error } | Self::UpdateFeatures { error } => *error = ERROR,
            Self::AlterPartition { error, partitions } => {
                *error = ERROR;
                partitions.clear();
            }
            Self::AllocateProducerIds { error, first, len } => (*error, *first, *len) = (ERROR, ProducerId::NONE, 0),
            Self::CreateTopics { topics } => topics.iter_mut().for_each(|(_, error)| *error = ERROR),
            Self::ElectLeaders { error, partitions } | Self::AlterPartitionReassignments { error, partitions } => {
                *error = ERROR;
                partitions.clear();
            }
        }
        self
    }
    /// Error of the request as a whole; errors of single partitions and topics are apart.
    pub const fn error(&self) -> ErrorCode {
        match self {
            Self::BrokerRegistration { error, .. }
            | Self::BrokerHeartbeat { error, .. }
            | Self::UnregisterBroker { error }
            | Self::UpdateFeatures { error }
            | Self::AlterPartition { error, .. }
            | Self::AllocateProducerIds { error, .. }
            | Self::ElectLeaders { error, .. }
            | Self::AlterPartitionReassignments { error, .. } => *error,
            Self::CreateTopics { .. } => ErrorCode::None,
        }
    }
}

impl Feed for BrokerRegistrationRequest {
    fn feed(&self, c: &mut Chain) {
        self.broker.feed(c);
        self.incarnation.feed(c);
        self.previous_epoch.feed(c);
        self.addr.feed(c);
    }
}
impl Feed for BrokerHeartbeatRequest {
    fn feed(&self, c: &mut Chain) {
        self.broker.feed(c);
        self.epoch.feed(c);
        self.metadata_offset.feed(c);
        c.u8(u8::from(self.want_fence) | u8::from(self.want_shutdown) << 1);
    }
}
impl Feed for AlterPartitionData {
    fn feed(&self, c: &mut Chain) {
        self.tp.feed(c);
        self.leader_epoch.feed(c);
        self.partition_epoch.feed(c);
        self.isr.feed(c);
        self.recovering.feed(c);
    }
}
impl Feed for CreatableTopic {
    fn feed(&self, c: &mut Chain) {
        self.topic.feed(c);
        self.assignments.feed(c);
        self.configs.feed(c);
    }
}
impl Feed for AlteredPartition {
    fn feed(&self, c: &mut Chain) {
        self.tp.feed(c);
        self.error.feed(c);
        self.leader.feed(c);
        self.leader_epoch.feed(c);
        self.isr.feed(c);
        self.recovering.feed(c);
        self.partition_epoch.feed(c);
    }
}
impl Feed for ControllerRequest {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        match self {
            Self::BrokerRegistration(r) => r.feed(c),
            Self::BrokerHeartbeat(r) => r.feed(c),
            Self::UnregisterBroker { broker } => broker.feed(c),
            Self::AlterPartition(r) => {
                r.broker.feed(c);
                r.epoch.feed(c);
                r.partitions.feed(c);
            }
            Self::AllocateProducerIds { broker, epoch } => {
                broker.feed(c);
                epoch.feed(c);
            }
            Self::UpdateFeatures { transaction_version } => c.u8(*transaction_version),
            Self::CreateTopics { topics } => topics.feed(c),
            Self::ElectLeaders { election, partitions } => {
                c.u8(*election as u8);
                partitions.feed(c);
            }
            Self::AlterPartitionReassignments { partitions } => partitions.feed(c),
        }
    }
}
impl Feed for ControllerReply {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        self.error().feed(c);
        match self {
            Self::BrokerRegistration { epoch, .. } => epoch.feed(c),
            Self::BrokerHeartbeat { caught_up, fenced, should_shutdown, .. } => {
                c.u8(u8::from(*caught_up) | u8::from(*fenced) << 1 | u8::from(*should_shutdown) << 2);
            }
            Self::UnregisterBroker { .. } | Self::UpdateFeatures { .. } => {}
            Self::AlterPartition { partitions, .. } => partitions.feed(c),
            Self::AllocateProducerIds { first, len, .. } => {
                first.feed(c);
                c.u32(*len);
            }
            Self::CreateTopics { topics } => topics.feed(c),
            Self::ElectLeaders { partitions, .. } | Self::AlterPartitionReassignments { partitions, .. } => {
                partitions.feed(c);
            }
        }
    }
}
