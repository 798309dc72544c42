//! Metadata records: what the active controller appends to the quorum's log and everybody replays (KIP-631).

use super::registration::{PartitionRegistration, Replicas};
use crate::base::{Addr, BrokerEpoch, BrokerId, Chain, Feed, Incarnation, ProducerId, TopicId, TopicPartition};

/// A dynamic topic setting that the controller or a leader decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicConfig {
    /// `min.insync.replicas`.
    MinInsyncReplicas(u16),
    /// `unclean.leader.election.enable`.
    UncleanLeaderElectionEnable(bool),
}

/// Changes of one partition; `None` leaves a field as it is (`PartitionChangeRecord`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionChange {
    /// The partition.
    pub tp: TopicPartition,
    /// New leader, -1 for none. Naming the present leader again raises the leader epoch only.
    pub leader: Option<BrokerId>,
    /// New ISR.
    pub isr: Option<Replicas>,
    /// New eligible leader replicas (KIP-966).
    pub elr: Option<Replicas>,
    /// New last known ELR; holds the last known leader alone.
    pub last_known_elr: Option<Replicas>,
    /// New assignment.
    pub replicas: Option<Replicas>,
    /// Replicas that a reassignment takes out.
    pub removing: Option<Replicas>,
    /// Replicas that a reassignment brings in.
    pub adding: Option<Replicas>,
    /// New recovery state: true after an unclean election, until the leader says otherwise.
    pub recovering: Option<bool>,
}

impl PartitionChange {
    /// A change of `tp` that changes nothing.
    pub const fn none(tp: TopicPartition) -> Self {
        Self {
            tp,
            leader: None,
            isr: None,
            elr: None,
            last_known_elr: None,
            replicas: None,
            removing: None,
            adding: None,
            recovering: None,
        }
    }
    /// Whether it changes nothing at all: such a record is not written.
    pub fn is_noop(&self) -> bool {
        self.leader.is_none() && self.recovering.is_none() && self.lists().iter().all(|l| l.is_none())
    }
    const fn lists(&self) -> [&Option<Replicas>; 6] {
        [&self.isr, &self.elr, &self.last_known_elr, &self.replicas, &self.removing, &self.adding]
    }
}

/// One metadata record. Its offset in the log is not part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A broker registered, or amended its registration.
    RegisterBroker {
        /// Which.
        broker: BrokerId,
        /// Which start of the process.
        incarnation: Incarnation,
        /// Epoch of the registration: the next offset of the log when the controller handled the request.
        epoch: BrokerEpoch,
        /// Its client listener.
        addr: Addr,
        /// Fenced; always so for a new incarnation.
        fenced: bool,
        /// In controlled shutdown.
        in_controlled_shutdown: bool,
    },
    /// A registration changed.
    BrokerRegistrationChange {
        /// Which broker.
        broker: BrokerId,
        /// Epoch of its registration.
        epoch: BrokerEpoch,
        /// Becomes fenced or unfenced.
        fenced: Option<bool>,
        /// Enters controlled shutdown. It is left only by a new registration.
        in_controlled_shutdown: Option<bool>,
    },
    /// A registration was taken back by an operator.
    UnregisterBroker {
        /// Which broker.
        broker: BrokerId,
        /// Epoch of its registration.
        epoch: BrokerEpoch,
    },
    /// A topic was created.
    Topic {
        /// Which.
        topic: TopicId,
    },
    /// A partition was created.
    Partition {
        /// Which.
        tp: TopicPartition,
        /// Its first state.
        registration: PartitionRegistration,
    },
    /// A partition changed.
    PartitionChange(PartitionChange),
    /// A block of producer ids was handed out (C-11).
    ProducerIds {
        /// To which broker.
        broker: BrokerId,
        /// Epoch of its registration.
        epoch: BrokerEpoch,
        /// First id of the next block.
        next: ProducerId,
    },
    /// A topic's dynamic setting was set.
    Config {
        /// The topic.
        topic: TopicId,
        /// The setting with its value.
        config: TopicConfig,
    },
    /// The feature `transaction.version` got another level (KIP-584).
    FeatureLevel {
        /// The level.
        transaction_version: u8,
    },
    /// Nothing: keeps the log moving when idle.
    NoOp,
}

impl Record {
    /// Size in the log in bytes: fixed parts as Kafka's records have them, four bytes a replica.
    pub fn bytes(&self) -> u32 {
        const FRAME: u32 = 12;
        let list = |l: &Replicas| 4 * l.len() as u32 + 1;
        FRAME
            + match self {
                Self::RegisterBroker { .. } => 120,
                Self::BrokerRegistrationChange { .. } => 18,
                Self::UnregisterBroker { .. } => 12,
                Self::Topic { .. } => 36,
                Self::Partition { registration: p, .. } => {
                    33 + [&p.replicas, &p.isr, &p.elr, &p.last_known_elr, &p.removing, &p.adding]
                        .into_iter()
                        .map(list)
                        .sum::<u32>()
                }
                Self::PartitionChange(c) => 24 + c.lists().into_iter().flatten().map(list).sum::<u32>(),
                Self::ProducerIds { .. } => 20,
                Self::FeatureLevel { .. } => 24,
                Self::Config { .. } => 48,
                Self::NoOp => 0,
            }
    }
    /// The partition that it makes or changes.
    pub const fn partition(&self) -> Option<TopicPartition> {
        match self {
            Self::Partition { tp, .. } => Some(*tp),
            Self::PartitionChange(c) => Some(c.tp),
            _ => None,
        }
    }
    /// Kafka's name of the record, for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RegisterBroker { .. } => "RegisterBrokerRecord",
            Self::BrokerRegistrationChange { .. } => "BrokerRegistrationChangeRecord",
            Self::UnregisterBroker { .. } => "UnregisterBrokerRecord",
            Self::Topic { .. } => "TopicRecord",
            Self::Partition { .. } => "PartitionRecord",
            Self::PartitionChange(_) => "PartitionChangeRecord",
            Self::ProducerIds { .. } => "ProducerIdsRecord",
            Self::Config { .. } => "ConfigRecord",
            Self::FeatureLevel { .. } => "FeatureLevelRecord",
            Self::NoOp => "NoOpRecord",
        }
    }
}

impl Feed for TopicConfig {
    fn feed(&self, c: &mut Chain) {
        match *self {
            Self::MinInsyncReplicas(n) => {
                c.u8(0);
                c.u16(n);
            }
            Self::UncleanLeaderElectionEnable(on) => {
                c.u8(1);
                on.feed(c);
            }
        }
    }
}
impl Feed for PartitionChange {
    fn feed(&self, c: &mut Chain) {
        self.tp.feed(c);
        self.leader.feed(c);
        for list in self.lists() {
            list.feed(c);
        }
        self.recovering.feed(c);
    }
}
impl Feed for Record {
    fn feed(&self, c: &mut Chain) {
        match self {
            Self::RegisterBroker { broker, incarnation, epoch, addr, fenced, in_controlled_shutdown } => {
                c.u8(0);
                broker.feed(c);
                incarnation.feed(c);
                epoch.feed(c);
                addr.feed(c);
                fenced.feed(c);
                in_controlled_shutdown.feed(c);
            }
            Self::BrokerRegistrationChange { broker, epoch, fenced, in_controlled_shutdown } => {
                c.u8(1);
                broker.feed(c);
                epoch.feed(c);
                fenced.feed(c);
                in_controlled_shutdown.feed(c);
            }
            Self::UnregisterBroker { broker, epoch } => {
                c.u8(2);
                broker.feed(c);
                epoch.feed(c);
            }
            Self::Topic { topic } => {
                c.u8(3);
                topic.feed(c);
            }
            Self::Partition { tp, registration } => {
                c.u8(4);
                tp.feed(c);
                registration.feed(c);
            }
            Self::PartitionChange(change) => {
                c.u8(5);
                change.feed(c);
            }
            Self::ProducerIds { broker, epoch, next } => {
                c.u8(6);
                broker.feed(c);
                epoch.feed(c);
                next.feed(c);
            }
            Self::Config { topic, config } => {
                c.u8(7);
                topic.feed(c);
                config.feed(c);
            }
            Self::NoOp => c.u8(8),
            Self::FeatureLevel { transaction_version } => {
                c.u8(9);
                c.u8(*transaction_version);
            }
        }
    }
}
