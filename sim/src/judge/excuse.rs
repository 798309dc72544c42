//! Rules by which the real product itself loses or doubles a record.

use crate::world::Observer;
use model::base::{Event, ProcessId, SimTime, TopicPartition};
use std::collections::BTreeSet;

/// A rule that excuses a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Excuse {
    /// L-20: page cache was lost with power; acknowledged records may be gone.
    PowerLoss,
    /// a leader was elected from outside ISR and ELR.
    UncleanElection,
    /// L-22, P-24, P-25: after an out-of-order answer an idempotent producer raises its epoch and sends again.
    EpochBump,
    /// P-32: librdkafka's producer is fatal after an out-of-order answer at the head.
    FatalProducer,
    /// The producer is not idempotent: retries double and reorder.
    NotIdempotent,
}
impl Excuse {
    /// The rules, for tables.
    pub const fn rules(self) -> &'static str {
        match self {
            Self::PowerLoss => "L-20",
            Self::UncleanElection => "R-24",
            Self::EpochBump => "L-22, P-24, P-25",
            Self::FatalProducer => "P-32",
            Self::NotIdempotent => "enable.idempotence=false",
        }
    }
}

/// What has happened in the run that can excuse a finding.
#[derive(Clone, Debug, Default)]
pub struct Excuses {
    power_lost: bool,
    unclean: BTreeSet<TopicPartition>,
    bumped: bool,
    fatal: bool,
}
impl Excuses {
    /// Excuse for an acknowledged record of a topic that is gone. The ledger does not know partitions, so any unclean
    /// election of the topic counts.
    pub fn loss(&self, topic: u16) -> Option<Excuse> {
        if self.unclean.iter().any(|tp| tp.topic.0 == topic) {
            Some(Excuse::UncleanElection)
        } else {
            self.power_lost.then_some(Excuse::PowerLoss)
        }
    }
    /// Excuse for a partition whose committed records changed.
    pub fn changed(&self, tp: TopicPartition) -> Option<Excuse> {
        if self.unclean.contains(&tp) {
            Some(Excuse::UncleanElection)
        } else {
            self.power_lost.then_some(Excuse::PowerLoss)
        }
    }
    /// Excuses for a record that is there twice or out of order.
    pub fn double(&self, idempotent: bool) -> Option<Excuse> {
        if !idempotent {
            Some(Excuse::NotIdempotent)
        } else if self.bumped {
            Some(Excuse::EpochBump)
        } else {
            None
        }
    }
    /// Excuse for a producer that has given up.
    pub fn fatal(&self) -> Option<Excuse> {
        self.fatal.then_some(Excuse::FatalProducer)
    }
}
impl Observer for Excuses {
    fn event(&mut self, _: SimTime, _: u64, _: u64, _: ProcessId, event: &Event) {
        match event {
            Event::PartitionChanged { tp, unclean: true, .. } => {
                self.unclean.insert(*tp);
            }
            Event::ProducerEpochBumped { .. } => self.bumped = true,
            Event::ProducerFatal { .. } => self.fatal = true,
            _ => {}
        }
    }
    fn fault(&mut self, _: SimTime, _: Option<ProcessId>, what: &'static str) {
        self.power_lost |= what == "power-loss";
    }
}
