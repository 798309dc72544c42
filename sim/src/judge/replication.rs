//! Law of replication: invariants of kafka.md 8.1, as the run goes and over the final logs.

use super::{Cast, Evidence, Excuses, Findings, Law, TopicInfo, Violation};
use crate::world::Observer;
use model::base::{
    BrokerId, BrokerSet, Event, LeaderEpoch, Offset, PartitionEpoch, ProcessId, SimTime, TopicPartition,
};
use std::collections::BTreeMap;

/// What is known of a partition as the run goes.
#[derive(Clone, Debug, Default)]
struct Watched {
    /// Largest high watermark that a leader has announced: what is below is committed.
    committed: Offset,
    /// End of what was acknowledged to an acks=all producer.
    acked: Offset,
    leader_epoch: LeaderEpoch,
    partition_epoch: PartitionEpoch,
    /// Who leads under the newest epoch seen, and its high watermark and log end.
    leader: Option<(ProcessId, LeaderEpoch)>,
    high_watermark: Offset,
    end: Offset,
    /// The last batches that leaders appended: base to (epoch, content).
    appended: BTreeMap<i64, (LeaderEpoch, u64)>,
    excused: bool,
}
/// How many batches of a partition are remembered to compare followers with.
const REMEMBERED: usize = 2048;

/// The law.
#[derive(Clone, Debug)]
pub struct ReplicationLaw {
    partitions: BTreeMap<TopicPartition, Watched>,
    fenced: BrokerSet,
    min_isr: Vec<u16>,
    elr: bool,
    power_lost: bool,
    seen: Vec<Violation>,
}

impl ReplicationLaw {
    /// For this cast and these topics.
    pub fn new(cast: &Cast, topics: &[TopicInfo]) -> Self {
        Self {
            partitions: BTreeMap::new(),
            // Brokers begin unregistered, which the controller shows as its first "unfenced" event.
            fenced: BrokerSet::of(&cast.brokers.values().copied().collect::<Vec<_>>()),
            min_isr: topics.iter().map(|t| t.min_isr.min(t.replication_factor)).collect(),
            elr: cast.elr,
            power_lost: false,
            seen: Vec::new(),
        }
    }
    fn say(&mut self, at: SimTime, rule: &'static str, text: String) {
        if self.seen.len() < 10_000 {
            self.seen.push(Violation { at, law: Self::NAME, rule, text, excuse: None });
        }
    }

    fn partition_changed(
        &mut self,
        at: SimTime,
        tp: TopicPartition,
        leader: BrokerId,
        epochs: (LeaderEpoch, PartitionEpoch),
        (isr, elr): (BrokerSet, BrokerSet),
        unclean: bool,
    ) {
        let min_isr = u32::from(self.min_isr.get(usize::from(tp.topic.0)).copied().unwrap_or(1));
        let p = self.partitions.entry(tp).or_default();
        p.excused |= unclean;
        let (old_leader, old_partition) = (p.leader_epoch, p.partition_epoch);
        p.leader_epoch = epochs.0.max(old_leader);
        p.partition_epoch = epochs.1.max(old_partition);
        if epochs.0 < old_leader || epochs.1 < old_partition {
            self.say(at, "I-7", format!("{tp}: epochs go back from {old_leader}/{old_partition}"));
        }
        if isr.0 & elr.0 != 0 {
            self.say(at, "I-5", format!("{tp}: ISR and ELR overlap"));
        }
        if isr.len() >= min_isr && !elr.is_empty() {
            self.say(at, "I-5", format!("{tp}: ELR not empty with ISR of {}", isr.len()));
        }
        if leader != BrokerId::NONE && !isr.has(leader) {
            self.say(at, "I-5", format!("{tp}: leader {leader} is not in the ISR"));
        }
        let fenced = isr.0 & self.fenced.0;
        // without ELR the last member stays, fenced, with no leader.
        if fenced != 0 && (self.elr || isr.len() > 1) {
            self.say(at, "I-5", format!("{tp}: fenced brokers {fenced:b} in the ISR"));
        }
    }

    fn became_leader(&mut self, at: SimTime, process: ProcessId, tp: TopicPartition, epoch: LeaderEpoch, end: Offset) {
        let p = self.partitions.entry(tp).or_default();
        let (committed, acked, before) = (p.committed, p.acked, p.leader);
        if p.leader.is_none_or(|(_, e)| epoch >= e) {
            p.leader = Some((process, epoch));
            p.high_watermark = Offset(0);
            p.end = end;
        }
        if let Some((other, e)) = before
            && e == epoch
            && other != process
        {
            self.say(at, "I-7", format!("{tp}: two leaders in epoch {epoch}"));
        }
        if before.is_none_or(|(_, e)| epoch >= e) && end < committed.max(acked) {
            let text =
                format!("{tp}: leader of epoch {epoch} ends at {end}; {committed} committed, {acked} acknowledged");
            self.say(at, "I-1", text);
            // What is gone is gone: measured anew from here, so that one loss is one finding.
            let p = self.partitions.entry(tp).or_default();
            p.committed = end;
            p.acked = end;
            p.appended.split_off(&end.0);
        }
    }
}

impl Observer for ReplicationLaw {
    fn event(&mut self, at: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        match *event {
            Event::PartitionChanged { tp, leader, leader_epoch, partition_epoch, isr, elr, unclean } => {
                self.partition_changed(at, tp, leader, (leader_epoch, partition_epoch), (isr, elr), unclean);
            }
            Event::Fencing { broker, fenced } => {
                let bit = BrokerSet::of(&[broker]).0;
                self.fenced.0 = if fenced { self.fenced.0 | bit } else { self.fenced.0 & !bit };
            }
            Event::BecameLeader { tp, epoch, end } => self.became_leader(at, process, tp, epoch, end),
            Event::Appended { tp, base, last, epoch, content, leader, .. } => {
                let p = self.partitions.entry(tp).or_default();
                if leader {
                    let (committed, current) = (p.committed, p.leader);
                    p.appended.insert(base.0, (epoch, content));
                    if p.appended.len() > REMEMBERED {
                        p.appended.pop_first();
                    }
                    if current == Some((process, epoch)) {
                        p.end = last.plus(1);
                        if base < committed {
                            self.say(at, "I-6", format!("{tp}: offset {base} used again below {committed}"));
                        }
                    }
                } else if base < p.committed
                    && let Some((known_epoch, known)) = p.appended.get(&base.0)
                    && (*known_epoch, *known) != (epoch, content)
                {
                    let text = format!("{tp}: a replica has another batch at {base} (epoch {epoch} for {known_epoch})");
                    self.say(at, "I-3", text);
                }
            }
            Event::Truncated { tp, from, to, high_watermark, follower: true } if to < high_watermark => {
                self.say(
                    at,
                    "I-9",
                    format!("{tp}: follower cut from {from} to {to}, below its high watermark {high_watermark}"),
                );
            }
            Event::HighWatermark { tp, offset, epoch, leader: true, isr, end } => {
                let min_isr = u32::from(self.min_isr.get(usize::from(tp.topic.0)).copied().unwrap_or(1));
                let p = self.partitions.entry(tp).or_default();
                let current = p.leader == Some((process, epoch));
                let before = p.high_watermark;
                if current {
                    p.high_watermark = offset;
                    p.committed = p.committed.max(offset);
                }
                if current && offset < before {
                    self.say(
                        at,
                        "I-7",
                        format!("{tp}: high watermark goes back from {before} to {offset} in epoch {epoch}"),
                    );
                }
                if offset > end {
                    self.say(at, "I-28", format!("{tp}: high watermark {offset} above log end {end}"));
                }
                if offset > before && isr.len() < min_isr && before > Offset(0) {
                    self.say(at, "R-5", format!("{tp}: high watermark moves to {offset} with an ISR of {}", isr.len()));
                }
            }
            Event::ProduceAnswered { tp, last, acks: -1, error: 0, duplicate: false, .. } => {
                let p = self.partitions.entry(tp).or_default();
                p.acked = p.acked.max(last.plus(1));
            }
            _ => {}
        }
    }
    fn fault(&mut self, _: SimTime, _: Option<ProcessId>, what: &'static str) {
        self.power_lost |= what == "power-loss";
    }
}

impl Law for ReplicationLaw {
    const NAME: &'static str = "replication";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        let excuse = |excuses: &Excuses, rule: &str, text: &str, partitions: &BTreeMap<TopicPartition, Watched>| {
            // Only what a loss of committed records explains; two leaders in one epoch are never excused.
            if !matches!(rule, "I-1" | "I-3" | "I-6" | "I-9") {
                return None;
            }
            let tp = partitions.keys().find(|tp| text.starts_with(&format!("{tp}:")))?;
            excuses.changed(*tp)
        };
        for mut v in std::mem::take(&mut self.seen) {
            v.excuse = excuse(end.excuses, v.rule, &v.text, &self.partitions);
            findings.add(v);
        }
        for (tp, replicas) in &end.replicas {
            log_matching(end, *tp, replicas, findings);
        }
    }
}

/// I-3 over the final logs: below both high watermarks all replicas hold the same batches.
fn log_matching(end: &Evidence<'_>, tp: TopicPartition, replicas: &[super::Replica], findings: &mut Findings) {
    let Some((first, rest)) = replicas.split_first() else { return };
    for other in rest {
        let bound = first.high_watermark.min(other.high_watermark);
        let below = |r: &super::Replica| r.entries.iter().take_while(|e| e.next() <= bound).count();
        let (a, b) = (&first.entries[..below(first)], &other.entries[..below(other)]);
        let differs =
            a.iter().zip(b).find(|(x, y)| (x.base, x.epoch, x.batch.content) != (y.base, y.epoch, y.batch.content));
        let text = match differs {
            Some((x, y)) => format!(
                "{tp}: brokers {} and {} differ at {} (epoch {} and {})",
                first.broker, other.broker, x.base, x.epoch, y.epoch
            ),
            None if a.len() != b.len() => {
                format!("{tp}: brokers {} and {} hold {} and {} batches", first.broker, other.broker, a.len(), b.len())
            }
            None => continue,
        };
        let excuse = end.excuses.changed(tp);
        findings.add(Violation { at: end.now, law: ReplicationLaw::NAME, rule: "I-3", text, excuse });
    }
}
