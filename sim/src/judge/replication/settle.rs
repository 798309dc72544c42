//! The law of replication over the final logs.

use super::super::{Evidence, Findings, Law, Replica, Violation};
use super::{Excuse, Link, ReplicationLaw, Shadow, Watched, shadow};
use model::base::{Offset, Sequence, TopicPartition};
use model::kafka::log::Entry;

impl Law for ReplicationLaw {
    const NAME: &'static str = "replication";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        std::mem::take(&mut self.seen).into_iter().for_each(|v| findings.add(v));
        let nothing = Watched::default();
        for (tp, replicas) in &end.replicas {
            let watched = self.partitions.get(*tp).unwrap_or(&nothing);
            log_matching(end, *tp, replicas, watched, findings);
            committed_is_kept(end, *tp, watched, findings);
        }
    }
}

fn link(e: &Entry) -> Link {
    let tag = e.batch.producer;
    let sequence = if e.batch.is_control() { Sequence::NONE } else { tag.base_sequence };
    Link { next: e.next(), epoch: e.epoch, mark: shadow::mark(e.base, e.batch.content, (tag.id, tag.epoch, sequence)) }
}

fn say(
    end: &Evidence<'_>,
    findings: &mut Findings,
    rule: &'static str,
    tp: TopicPartition,
    excuse: Option<Excuse>,
    text: String,
) {
    findings.add(Violation { at: end.now, law: ReplicationLaw::NAME, rule, text, excuse, tp: Some(tp), event: None });
}

/// I-3: below both high watermarks two replicas hold the same batches.
fn log_matching(
    end: &Evidence<'_>,
    tp: TopicPartition,
    replicas: &[Replica],
    watched: &Watched,
    findings: &mut Findings,
) {
    let Some((first, rest)) = replicas.split_first() else { return };
    for other in rest {
        let bound = first.high_watermark.min(other.high_watermark);
        let below = |r: &Replica| r.entries.partition_point(|e| e.next() <= bound);
        let (a, b) = (&first.entries[..below(first)], &other.entries[..below(other)]);
        let differs = a.iter().zip(b).find(|(x, y)| link(x) != link(y));
        let (at, text) = match differs {
            Some((x, y)) => (
                x.base.min(y.base),
                format!(
                    "{tp}: brokers {} and {} differ at {} (epochs {} and {})",
                    first.broker, other.broker, x.base, x.epoch, y.epoch
                ),
            ),
            None if a.len() != b.len() => (
                a.last().into_iter().chain(b.last()).map(Entry::next).min().unwrap_or(Offset(0)),
                format!("{tp}: brokers {} and {} hold {} and {} batches", first.broker, other.broker, a.len(), b.len()),
            ),
            None => continue,
        };
        say(end, findings, "I-3", tp, watched.lost(at), text);
    }
}

/// I-1, I-6: what was committed as the run went is in the leader's log, byte for byte.
fn committed_is_kept(end: &Evidence<'_>, tp: TopicPartition, watched: &Watched, findings: &mut Findings) {
    let committed = watched.shadow.committed();
    let leader = end.replicas.get(&tp).and_then(|r| r.iter().find(|r| r.leads && r.alive));
    // A partition without leader has nobody to show its log; liveness says so.
    let Some(leader) = leader else { return };
    let mut held = leader.entries.iter();
    for known in committed.iter() {
        let at = held.next();
        let same = at.is_some_and(|e| link(e) == *known || Shadow::untold(known));
        if !same {
            let from = at.map_or(known.next.plus(-1), |e| e.base);
            let text = format!("{tp}: broker {} does not have what was committed at {from}", leader.broker);
            say(end, findings, "I-1", tp, watched.lost(from), text);
            return;
        }
    }
}
