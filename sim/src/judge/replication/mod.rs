//! Law of replication: invariants of kafka.md 8.1 about logs and high watermarks, as the run goes and over the final logs.
//!
//! It keeps a shadow of every log from what is told ([`shadow`]). Below the high watermark that a leader has announced, a
//! record is committed: every later leader has it (I-1), every member of ISR and ELR too (I-2), no replica holds another in
//! its place (I-3), readers are given it and nothing else (I-6). Where a leader lacks committed records it is decided here
//! which rule lets the product do so, for these records and no others ([`Loss`]); every other law looks it up.
//!
//! A stale leader is heard like any other: what it commits, the newest must have.

mod settle;
mod shadow;

use super::{Cast, Excuse, Loss, TopicInfo, Violation};
use crate::world::Observer;
use model::base::{
    BrokerEpoch, BrokerId, BrokerSet, Event, Layer, LeaderEpoch, Offset, PartitionEpoch, PartitionMap, ProcessId,
    Shown, SimTime, SmallMap, TopicPartition,
};
use shadow::{Cut, Link, Shadow};
use std::collections::BTreeMap;

/// What is known of a partition as the run goes.
#[derive(Clone, Debug, Default)]
struct Watched {
    shadow: Shadow,
    /// Who led under which epoch, ascending.
    leaders: Vec<(LeaderEpoch, ProcessId)>,
    /// Epoch of the leader that was last found to have what is committed.
    checked: LeaderEpoch,
    /// Epochs of unclean elections.
    unclean: Vec<LeaderEpoch>,
    /// Epochs of leaders that had lost their tail with power and whom the controller could not know for that, with the log
    /// end that each had before.
    short: Vec<(LeaderEpoch, Offset)>,
    /// The controller's registration.
    partition_epoch: Option<PartitionEpoch>,
    leader_epoch: LeaderEpoch,
    candidates: BrokerSet,
    losses: Vec<Loss>,
    /// Where a leader that had lost its tail with power wrote anew under the last epoch of what it had lost: that epoch ends
    /// further on in the other logs, so no comparison of epochs tells them apart, and they part for good (L-20).
    rewritten: Vec<(Offset, Offset)>,
}

impl Watched {
    /// What replica `i` lost with power, if the election of `epoch` could not know of it.
    fn unknown_cut(&self, i: usize, epoch: LeaderEpoch) -> Option<Cut> {
        self.shadow.replicas[i].cut.filter(|c| c.known_from.is_none_or(|known| epoch <= known))
    }
    /// The rule by which replica `i`, leader of `epoch`, may lack what was committed under `under`, up to `to`.
    fn excuse(&self, i: usize, under: LeaderEpoch, epoch: LeaderEpoch, to: Offset) -> Option<Excuse> {
        let between = |e: LeaderEpoch| under < e && e <= epoch;
        if self.unclean.iter().any(|u| between(*u)) {
            Some(Excuse::UncleanElection)
        } else if self.unknown_cut(i, epoch).is_some() || self.short.iter().any(|(e, had)| between(*e) && to <= *had) {
            // A leader that was deposed for one that had lost its tail goes on committing what that one had.
            Some(Excuse::PowerLoss)
        } else {
            None
        }
    }
    /// The rule by which the record at `offset` was lost, or may differ from replica to replica.
    fn lost(&self, offset: Offset) -> Option<Excuse> {
        let within = |from, to| from <= offset && offset < to;
        let lost = self.losses.iter().find(|l| within(l.from, l.to)).and_then(|l| l.excuse);
        lost.or_else(|| self.rewritten(offset))
    }
    fn rewritten(&self, offset: Offset) -> Option<Excuse> {
        let here = self.rewritten.iter().any(|(from, to)| *from <= offset && offset < *to);
        here.then_some(Excuse::PowerLoss)
    }
    fn newest(&self) -> Option<(LeaderEpoch, ProcessId)> {
        self.leaders.last().copied()
    }
}

/// What the law found that others have to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Committed records were lost.
    Loss(Loss),
    /// A replica of the partition has lost batches with power.
    PowerCut(TopicPartition),
}

/// The law.
#[derive(Clone, Debug)]
pub struct ReplicationLaw {
    partitions: PartitionMap<Watched>,
    /// Broker of each process, process of each broker.
    brokers: BTreeMap<ProcessId, BrokerId>,
    processes: SmallMap<BrokerId, ProcessId>,
    registered: BTreeMap<BrokerId, BrokerEpoch>,
    min_isr: Vec<u32>,
    elr: bool,
    power_losses: u64,
    seen: Vec<Violation>,
    /// Found by the last event; [`super::Judge`] takes it.
    pub(super) told: Option<Told>,
}

/// More findings of one run are not kept: one defect can raise one a batch.
const SEEN_AT_MOST: usize = 10_000;

impl ReplicationLaw {
    /// For this cast and these topics.
    pub fn new(cast: &Cast, topics: &[TopicInfo]) -> Self {
        let mut processes = SmallMap::new();
        for (process, broker) in &cast.brokers {
            processes.insert(*broker, *process);
        }
        Self {
            partitions: PartitionMap::new(),
            brokers: cast.brokers.clone(),
            processes,
            registered: BTreeMap::new(),
            min_isr: topics.iter().map(|t| u32::from(t.min_isr.min(t.replication_factor))).collect(),
            elr: cast.elr,
            power_losses: 0,
            seen: Vec::new(),
            told: None,
        }
    }
    fn say(&mut self, at: SimTime, rule: &'static str, tp: TopicPartition, excuse: Option<Excuse>, text: String) {
        if self.seen.len() < SEEN_AT_MOST {
            self.seen.push(Violation { at, law: "replication", rule, text, excuse, tp: Some(tp), event: None });
        }
    }
    /// A partition and the replica of `process` in it.
    fn at(&mut self, tp: TopicPartition, process: ProcessId) -> (&mut Watched, usize) {
        let w = self.partitions.or_default(tp);
        let i = w.shadow.find(process).unwrap_or_else(|| {
            let broker = self.brokers.get(&process).copied().unwrap_or(BrokerId::NONE);
            w.shadow.enter(process, broker, self.power_losses)
        });
        (w, i)
    }

    /// Committed records from `from` to `to` are not in the log of `process`, leader of `epoch`. Said once where a stale
    /// leader goes on committing.
    fn loss(
        &mut self,
        at: SimTime,
        rule: &'static str,
        tp: TopicPartition,
        (process, epoch): (ProcessId, LeaderEpoch),
        (from, to): (Offset, Offset),
        under: LeaderEpoch,
    ) {
        let (w, i) = self.at(tp, process);
        // Who leads by a log that was written anew lacks what was committed by the others.
        let excuse = w.excuse(i, under, epoch, to).or_else(|| w.rewritten(from));
        let broker = w.shadow.replicas[i].broker;
        let loss = Loss { at, tp, from, to, excuse };
        let new = Loss::enter(&mut w.losses, loss);
        self.told = Some(Told::Loss(loss));
        if !new {
            return;
        }
        let text = format!("{tp}: broker {broker}, leader of epoch {epoch}, lacks committed records {from} to {to}");
        self.say(at, rule, tp, excuse, text);
    }

    fn partition_changed(
        &mut self,
        tp: TopicPartition,
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
        (isr, elr): (BrokerSet, BrokerSet),
        unclean: bool,
    ) {
        let candidates = BrokerSet(isr.0 | elr.0);
        let w = self.partitions.or_default(tp);
        if w.partition_epoch.is_some_and(|known| partition_epoch <= known) {
            // Told again by the next active controller.
            return;
        }
        w.partition_epoch = Some(partition_epoch);
        w.leader_epoch = leader_epoch;
        w.candidates = candidates;
        if unclean {
            w.unclean.push(leader_epoch);
        }
        // Who is back among the candidates after this has caught up first.
        for r in w.shadow.replicas.iter_mut().filter(|r| !candidates.has(r.broker)) {
            known_to_controller(r, leader_epoch);
        }
    }

    fn registered(&mut self, broker: BrokerId, epoch: BrokerEpoch) {
        let known = self.registered.insert(broker, epoch);
        if known.is_some_and(|k| epoch <= k) {
            self.registered.extend(known.map(|k| (broker, k)));
            return;
        }
        if self.elr {
            // L-23: the controller knows of the unclean shutdown now, and elects this broker no more.
            for w in self.partitions.values_mut() {
                let epoch = w.leader_epoch;
                let own = w.shadow.replicas.iter_mut().filter(|r| r.broker == broker);
                own.for_each(|r| known_to_controller(r, epoch));
            }
        }
    }

    /// A replica's log end as just told, where the shadow could not know it: after a start.
    fn opened(&mut self, tp: TopicPartition, process: ProcessId, end: Offset, high_watermark: Option<Offset>) {
        let lost_power = self.power_losses;
        let (w, i) = self.at(tp, process);
        let candidate = w.partition_epoch.is_none() || w.candidates.has(w.shadow.replicas[i].broker);
        let known_from = (!candidate).then_some(w.leader_epoch);
        let had = w.shadow.replicas[i].end;
        w.shadow.set_end(i, end);
        let r = &mut w.shadow.replicas[i];
        let by_power = end < had && lost_power > r.power_losses;
        if by_power {
            let had = r.cut.map_or(had, |before| before.had.max(had));
            r.cut = Some(Cut { had, known_from });
        }
        r.power_losses = lost_power;
        r.high_watermark = high_watermark;
        r.known = true;
        if by_power {
            self.told = Some(Told::PowerCut(tp));
        }
    }

    /// The shadow's log end against what an event says of it.
    fn check_end(&mut self, at: SimTime, tp: TopicPartition, process: ProcessId, end: Offset) {
        let (w, i) = self.at(tp, process);
        let r = &w.shadow.replicas[i];
        if r.end == end {
            return;
        }
        if r.known {
            let text = format!("{tp}: log of broker {} ends at {end}; told before were {}", r.broker, r.end);
            self.say(at, "I-7", tp, None, text);
            let (w, i) = self.at(tp, process);
            w.shadow.set_end(i, end);
        } else {
            self.opened(tp, process, end, None);
        }
    }

    fn became_leader(&mut self, at: SimTime, process: ProcessId, tp: TopicPartition, epoch: LeaderEpoch, end: Offset) {
        self.check_end(at, tp, process, end);
        let (w, i) = self.at(tp, process);
        let place = w.leaders.partition_point(|(e, _)| *e < epoch);
        match w.leaders.get(place).copied() {
            // After a restart it says so again; what it lacks then counts once it appends or commits.
            Some((e, other)) if e == epoch => {
                if other != process {
                    self.say(at, "I-7", tp, None, format!("{tp}: two leaders in epoch {epoch}"));
                }
                return;
            }
            _ => w.leaders.insert(place, (epoch, process)),
        }
        if w.newest() != Some((epoch, process)) {
            return;
        }
        w.short.extend(w.unknown_cut(i, epoch).map(|cut| (epoch, cut.had)));
        let (lacks, to, under) = (w.shadow.lacks(i), w.shadow.committed_end(), w.checked);
        w.checked = epoch;
        if let Some(from) = lacks {
            self.loss(at, "I-1", tp, (process, epoch), (from, to), under);
            let (w, i) = self.at(tp, process);
            w.shadow.lose(i);
        }
    }

    fn appended(
        &mut self,
        at: SimTime,
        process: ProcessId,
        tp: TopicPartition,
        base: Offset,
        link: Link,
        leader: bool,
    ) {
        let (mut w, mut i) = self.at(tp, process);
        if w.shadow.replicas[i].end != base {
            self.check_end(at, tp, process, base);
            (w, i) = self.at(tp, process);
        }
        if leader {
            let had = w.shadow.replicas[i].cut.map(|c| c.had).filter(|had| base < *had);
            let last = |had: Offset| w.shadow.at(had.min(w.shadow.committed_end()).plus(-1));
            let again = had.filter(|had| last(*had).is_some_and(|l| l.epoch == link.epoch));
            w.rewritten.extend(again.map(|had| (base, had.max(link.next))));
        }
        w.shadow.append(i, link);
        if !leader || w.newest() != Some((link.epoch, process)) {
            return;
        }
        // Only a leader that lost its tail in this very epoch comes here.
        let to = w.shadow.committed_end();
        if let Some(from) = w.shadow.differs(i, to.max(link.next)) {
            let under = w.checked;
            self.loss(at, "I-6", tp, (process, link.epoch), (from, to), under);
            let (w, i) = self.at(tp, process);
            w.shadow.lose(i);
        }
    }

    fn high_watermark(
        &mut self,
        at: SimTime,
        process: ProcessId,
        tp: TopicPartition,
        (offset, end): (Offset, Offset),
        leader: Option<(LeaderEpoch, BrokerSet)>,
    ) {
        self.check_end(at, tp, process, end);
        let (w, i) = self.at(tp, process);
        let before = w.shadow.replicas[i].high_watermark.replace(offset);
        if offset > end {
            self.say(at, "I-28", tp, None, format!("{tp}: high watermark {offset} above log end {end}"));
        }
        match leader {
            Some((epoch, isr)) => {
                if let Some(before) = before.filter(|b| offset < *b) {
                    let text = format!("{tp}: high watermark goes back from {before} to {offset} in epoch {epoch}");
                    self.say(at, "I-7", tp, None, text);
                }
                let min_isr = self.min_isr.get(usize::from(tp.topic.0)).copied().unwrap_or(1);
                if isr.len() < min_isr {
                    let text = format!("{tp}: high watermark moves to {offset} with an ISR of {}", isr.len());
                    self.say(at, "R-5", tp, None, text);
                }
                self.committed(at, process, tp, epoch, offset);
            }
            None => self.differs(at, process, tp, offset),
        }
    }

    /// The leader of `epoch` says that everything below `to` is committed.
    fn committed(&mut self, at: SimTime, process: ProcessId, tp: TopicPartition, epoch: LeaderEpoch, to: Offset) {
        let (w, i) = self.at(tp, process);
        match w.newest() {
            Some((newest, other)) if newest > epoch => {
                let j = w.shadow.replicas.iter().position(|r| r.process == other).unwrap_or(i);
                if let Some(from) = w.shadow.parts(i, j, to).or_else(|| w.shadow.differs(i, to)) {
                    self.loss(at, "I-1", tp, (other, newest), (from, to), epoch);
                } else {
                    // A thawed leader counts the fetches that waited for it: who led after it has all that they had.
                    let agreed = w.shadow.commit(i, to);
                    debug_assert!(agreed.is_ok(), "{tp}: it was just compared");
                }
            }
            _ => {
                if w.shadow.commit(i, to).is_err() {
                    self.differs(at, process, tp, to);
                    return;
                }
                if w.leader_epoch == epoch {
                    self.candidates_are_complete(at, tp, to);
                }
            }
        }
    }

    /// I-3 as the run goes: below its high watermark a replica has nothing but what is committed.
    fn differs(&mut self, at: SimTime, process: ProcessId, tp: TopicPartition, to: Offset) {
        let (w, i) = self.at(tp, process);
        let below = to.min(w.shadow.committed_end());
        let Some(from) = w.shadow.differs(i, below).filter(|_| !w.shadow.replicas[i].reported) else { return };
        w.shadow.replicas[i].reported = true;
        let excuse = w.lost(from);
        let broker = w.shadow.replicas[i].broker;
        self.say(at, "I-3", tp, excuse, format!("{tp}: broker {broker} has another batch at {from}"));
    }

    /// I-2: every member of ISR and ELR has what is committed, unless it lost it with power and the controller cannot know.
    fn candidates_are_complete(&mut self, at: SimTime, tp: TopicPartition, to: Offset) {
        let Some(w) = self.partitions.get(tp) else { return };
        let short = w.candidates.iter().find_map(|broker| {
            let process = self.processes.get(broker)?;
            match w.shadow.replicas.iter().find(|r| r.process == *process) {
                Some(r) if !r.known || r.end >= to => None,
                Some(r) => {
                    let cut = r.cut.filter(|c| c.known_from.is_none());
                    Some((broker, r.end, cut.map(|_| Excuse::PowerLoss)))
                }
                None => Some((broker, Offset(0), None)),
            }
        });
        if let Some((broker, end, excuse)) = short {
            let text = format!("{tp}: {to} committed; candidate {broker} ends at {end}");
            self.say(at, "I-2", tp, excuse, text);
        }
    }
}

fn known_to_controller(r: &mut shadow::Replica, epoch: LeaderEpoch) {
    if let Some(cut) = r.cut.as_mut() {
        cut.known_from.get_or_insert(epoch);
    }
}

impl Observer for ReplicationLaw {
    fn event(&mut self, at: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        match *event {
            Event::PartitionChanged { tp, leader_epoch, partition_epoch, isr, elr, unclean, .. } => {
                self.partition_changed(tp, leader_epoch, partition_epoch, (isr, elr), unclean);
            }
            Event::Registration { broker, epoch, error: 0 } => self.registered(broker, epoch),
            Event::Recovered { .. } => {
                for r in self.partitions.values_mut().flat_map(|w| w.shadow.replicas.iter_mut()) {
                    if r.process == process {
                        r.known &= std::mem::take(&mut r.opened);
                        r.high_watermark = r.high_watermark.filter(|_| r.known);
                    }
                }
            }
            Event::LogOpened { tp, end, high_watermark } => {
                self.opened(tp, process, end, Some(high_watermark));
                let (w, i) = self.at(tp, process);
                w.shadow.replicas[i].opened = true;
            }
            Event::BecameLeader { tp, epoch, end } => self.became_leader(at, process, tp, epoch, end),
            Event::Appended { tp, base, last, epoch, producer, producer_epoch, sequence, content, leader, .. } => {
                let mark = shadow::mark(base, content, (producer, producer_epoch, sequence));
                let link = Link { next: last.plus(1), epoch, mark };
                self.appended(at, process, tp, base, link, leader);
            }
            // What recovery cuts shows when the log is opened.
            Event::Truncated { tp, from, to, high_watermark, follower: true } => {
                self.check_end(at, tp, process, from);
                let (w, i) = self.at(tp, process);
                if to < high_watermark {
                    let excuse = w.losses.iter().find(|l| l.from <= to).and_then(|l| l.excuse);
                    let broker = w.shadow.replicas[i].broker;
                    let text =
                        format!("{tp}: broker {broker} cuts from {from} to {to}, high watermark {high_watermark}");
                    self.say(at, "I-9", tp, excuse, text);
                }
                let (w, i) = self.at(tp, process);
                w.shadow.set_end(i, to);
            }
            Event::HighWatermark { tp, offset, epoch, leader, isr, end, .. } => {
                self.high_watermark(at, process, tp, (offset, end), leader.then_some((epoch, isr)));
            }
            Event::ProduceAnswered { tp, last, acks: -1, error: 0, .. } => {
                let (w, i) = self.at(tp, process);
                if let Some(high_watermark) = w.shadow.replicas[i].high_watermark.filter(|h| last >= *h) {
                    let text = format!("{tp}: {last} acknowledged to all, high watermark {high_watermark}");
                    self.say(at, "acks=all", tp, None, text);
                }
            }
            _ => {}
        }
    }

    /// I-6: a reader is given what is committed, and nothing else.
    fn shown(&mut self, at: SimTime, _: ProcessId, shown: &Shown) {
        let Layer::Read(reader) = shown.layer else { return };
        let (tp, base) = (shown.tp, shown.base);
        let Some(w) = self.partitions.get(tp) else { return };
        let tag = shown.batch.producer;
        let mark = shadow::mark(base, shown.batch.content, (tag.id, tag.epoch, tag.base_sequence));
        let wrong = match w.shadow.at(base) {
            Some(link) if link.mark == mark || Shadow::untold(link) => return,
            Some(_) => "another batch is committed there",
            None => "nothing is committed there",
        };
        let excuse = w.lost(base);
        self.say(at, "I-6", tp, excuse, format!("{tp}: reader {reader} is given {base}, but {wrong}"));
    }

    fn fault(&mut self, _: SimTime, _: Option<ProcessId>, what: &'static str) {
        self.power_losses += u64::from(what == "power-loss");
    }
}
