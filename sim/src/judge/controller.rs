//! Law of the controller: I-5, I-8, R-11, and the part of I-7 about epochs.
//!
//! What a controller committed may be told twice, the second time by the next active one, or late, by one that was replaced
//! while it was frozen: a registration with a known partition epoch has to be the same and is otherwise no news, and who is
//! fenced tells the newest active controller alone.

use super::{Cast, Evidence, Findings, Law, TopicInfo, Violation};
use crate::world::Observer;
use model::base::{
    BrokerId, BrokerSet, Event, LeaderEpoch, Offset, PartitionEpoch, ProcessId, QuorumRole, SimTime, TopicPartition,
};
use std::collections::BTreeMap;

/// A partition as the controller registered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Registration {
    leader: BrokerId,
    leader_epoch: LeaderEpoch,
    isr: BrokerSet,
    elr: BrokerSet,
}

/// The law.
#[derive(Clone, Debug)]
pub struct ControllerLaw {
    /// Every registration, by partition epoch. Changes are few.
    partitions: BTreeMap<TopicPartition, BTreeMap<PartitionEpoch, Registration>>,
    /// Brokers known to be fenced; none is known before the first event about it.
    fenced: BrokerSet,
    /// Quorum leader by epoch, active controller by epoch.
    leaders: BTreeMap<i32, BrokerId>,
    active: BTreeMap<i32, BrokerId>,
    /// Epoch in which a process was last active.
    terms: BTreeMap<ProcessId, i32>,
    /// What stands below an offset of the metadata log, as the first broker has applied it.
    metadata: BTreeMap<Offset, u64>,
    min_isr: Vec<u32>,
    elr: bool,
    seen: Vec<Violation>,
}

impl ControllerLaw {
    /// For this cast and these topics.
    pub fn new(cast: &Cast, topics: &[TopicInfo]) -> Self {
        Self {
            partitions: BTreeMap::new(),
            fenced: BrokerSet::default(),
            leaders: BTreeMap::new(),
            active: BTreeMap::new(),
            terms: BTreeMap::new(),
            metadata: BTreeMap::new(),
            min_isr: topics.iter().map(|t| u32::from(t.min_isr.min(t.replication_factor))).collect(),
            elr: cast.elr,
            seen: Vec::new(),
        }
    }
    fn say(&mut self, at: SimTime, rule: &'static str, tp: Option<TopicPartition>, text: String) {
        self.seen.push(Violation { at, law: Self::NAME, rule, text, excuse: None, tp, event: None });
    }

    /// Whether what `process` tells had been committed before another one became active.
    fn is_old_news(&self, process: ProcessId) -> bool {
        self.terms.get(&process).is_some_and(|term| self.active.keys().next_back().is_some_and(|newest| term < newest))
    }

    fn changed(&mut self, at: SimTime, tp: TopicPartition, epoch: PartitionEpoch, now: Registration, is_old: bool) {
        let known = self.partitions.entry(tp).or_default();
        if let Some(same) = known.get(&epoch) {
            if *same != now {
                self.say(at, "I-7", Some(tp), format!("{tp}: two registrations with partition epoch {epoch}"));
            }
            return;
        }
        let before = known.last_key_value().map(|(e, r)| (*e, *r));
        known.insert(epoch, now);
        if is_old {
            return;
        }
        if let Some((last, before)) = before {
            if last > epoch || before.leader_epoch > now.leader_epoch {
                let text =
                    format!("{tp}: epochs go back from {}/{last} to {}/{epoch}", before.leader_epoch, now.leader_epoch);
                self.say(at, "I-7", Some(tp), text);
            } else if before.leader != now.leader && before.leader_epoch == now.leader_epoch {
                let text = format!("{tp}: leader {} for {} in one leader epoch", now.leader, before.leader);
                self.say(at, "R-11", Some(tp), text);
            }
        }
        let min_isr = self.min_isr.get(usize::from(tp.topic.0)).copied().unwrap_or(1);
        if now.isr.0 & now.elr.0 != 0 {
            self.say(at, "I-5", Some(tp), format!("{tp}: ISR and ELR overlap"));
        }
        if now.isr.len() >= min_isr && !now.elr.is_empty() {
            self.say(at, "I-5", Some(tp), format!("{tp}: ELR is not empty with an ISR of {}", now.isr.len()));
        }
        if !self.elr && !now.elr.is_empty() {
            self.say(at, "I-5", Some(tp), format!("{tp}: an ELR, though they are off"));
        }
        if !self.elr && now.isr.is_empty() {
            self.say(at, "R-21", Some(tp), format!("{tp}: the ISR is empty, though ELRs are off"));
        }
        if now.leader != BrokerId::NONE && !now.isr.has(now.leader) {
            self.say(at, "I-5", Some(tp), format!("{tp}: leader {} is not in the ISR", now.leader));
        }
        // without ELR the last member stays, fenced, and does not lead.
        let last_stays = !self.elr && now.isr.len() == 1 && now.leader == BrokerId::NONE;
        if now.isr.0 & self.fenced.0 != 0 && !last_stays {
            self.say(at, "I-5", Some(tp), format!("{tp}: a fenced broker is in the ISR"));
        }
    }

    fn one(&mut self, at: SimTime, active: bool, epoch: i32, node: BrokerId) {
        let known = if active { &mut self.active } else { &mut self.leaders };
        let first = *known.entry(epoch).or_insert(node);
        if first != node {
            let what = if active { "active controllers" } else { "quorum leaders" };
            self.say(at, "I-8", None, format!("{what} {first} and {node} in epoch {epoch}"));
        }
    }
}

impl Observer for ControllerLaw {
    fn event(&mut self, at: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        match *event {
            Event::PartitionChanged { tp, leader, leader_epoch, partition_epoch, isr, elr, .. } => {
                let now = Registration { leader, leader_epoch, isr, elr };
                self.changed(at, tp, partition_epoch, now, self.is_old_news(process));
            }
            Event::Fencing { .. } if self.is_old_news(process) => {}
            Event::Fencing { broker, fenced: true } => self.fenced = self.fenced.with(broker),
            Event::Fencing { broker, fenced: false } => self.fenced = self.fenced.without(broker),
            Event::Quorum { node, epoch, role: QuorumRole::Leader } => self.one(at, false, epoch, node),
            Event::MetadataApplied { offset, history } => {
                let known = *self.metadata.entry(offset).or_insert(history);
                if known != history {
                    self.say(
                        at,
                        "I-8",
                        None,
                        format!("{process} has applied other metadata below {offset} than others"),
                    );
                }
            }
            Event::Controller { node, epoch, active: true, fenced } => {
                self.one(at, true, epoch, node);
                self.terms.insert(process, epoch);
                if !self.is_old_news(process) {
                    self.fenced = fenced;
                }
            }
            _ => {}
        }
    }
}

impl Law for ControllerLaw {
    const NAME: &'static str = "controller";

    fn settle(&mut self, _: &Evidence<'_>, findings: &mut Findings) {
        self.seen.drain(..).for_each(|v| findings.add(v));
    }
}
