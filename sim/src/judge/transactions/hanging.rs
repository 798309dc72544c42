//! Law of ends: once the faults are over, no transaction stands open and no decision waits for its end (I-29, and liveness).
//!
//! A run waits for the timeout of what a dead application has left open. What the coordinator knows and can still end is late;
//! what it does not know is ended by nobody.

use super::{History, add, at_odds, histories, is_log};
use crate::judge::{Evidence, Excuse, Findings, Law};
use crate::world::Observer;
use model::base::{Offset, ProducerId, TopicPartition};
use model::kafka::coordinator::transaction::{TransactionLogValue, TransactionState as S};
use std::collections::BTreeMap;

/// The law.
#[derive(Clone, Debug, Default)]
pub struct HangingLaw;

impl Observer for HangingLaw {}

/// A transaction without an end in a partition.
struct Open {
    producer: ProducerId,
    from: Offset,
}

/// What is open in the log that readers see.
fn open(end: &Evidence<'_>, tp: TopicPartition) -> Vec<Open> {
    let mut open: BTreeMap<ProducerId, Offset> = BTreeMap::new();
    for entry in end.committed(tp) {
        let producer = entry.batch.producer.id;
        if entry.batch.marker_of().is_some() {
            open.remove(&producer);
        } else if entry.batch.is_transactional() {
            open.entry(producer).or_insert(entry.base);
        }
    }
    open.into_iter().map(|(producer, from)| Open { producer, from }).collect()
}

/// How long after its timeout the coordinator may take to end a transaction: it looks every ten seconds, and may have to be
/// elected first (I-29).
const LATE: i64 = 10_000 + 20_000;

/// Whether nobody is late yet: the timeout of a transaction is not over.
fn may_stand(last: &TransactionLogValue, end: &Evidence<'_>) -> bool {
    last.state == S::Ongoing && end.now.millis().0 < last.start.0 + last.timeout.0 + LATE
}
/// Whether the coordinator can still end a transaction in this partition.
fn covers(last: &TransactionLogValue, tp: TopicPartition) -> bool {
    matches!(last.state, S::Ongoing | S::PrepareCommit | S::PrepareAbort) && last.partitions.contains(&tp)
}

/// The rule by which readers of committed data stand at an offset for ever: there, or before, begins a transaction that by it has no
/// end.
pub fn stands_by_rule(end: &Evidence<'_>, tp: TopicPartition, at: Offset) -> Option<Excuse> {
    let first = open(end, tp).into_iter().min_by_key(|o| o.from).filter(|o| o.from <= at)?;
    excuse(end, tp, of(&histories(end), first.producer))
}
/// The same of where a reader stands, if it wants committed data.
pub fn reader_stands_by_rule(end: &Evidence<'_>, reader: usize, tp: TopicPartition) -> Option<Excuse> {
    let at = end.positions.get(reader).and_then(|p| p.get(&tp)).copied();
    at.filter(|_| end.cast.readers[reader].committed).and_then(|at| stands_by_rule(end, tp, at))
}
/// The history of the id that a producer has or had.
fn of(histories: &[History], producer: ProducerId) -> Option<&History> {
    histories.iter().find(|h| h.records.iter().any(|r| r.producer == producer))
}
/// The rule by which a log of transactions has lost what it knew: a producer that none knows was known to that one.
fn log_lost(end: &Evidence<'_>) -> Option<Excuse> {
    end.excuses.losses().iter().filter(|loss| is_log(end, loss.tp)).find_map(|loss| loss.excuse)
}
/// The rule by which a transaction of this id, if one is known, has no end in a partition.
fn excuse(end: &Evidence<'_>, tp: TopicPartition, history: Option<&History>) -> Option<Excuse> {
    match history {
        Some(history) => at_odds(end, history, Some(tp)),
        None => end.excuses.loss(tp, None).or_else(|| log_lost(end)),
    }
}

impl Law for HangingLaw {
    const NAME: &'static str = "hanging";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        let brokers_down = end.cast.brokers.keys().filter(|p| end.down.contains(p)).count();
        if brokers_down > 0 {
            // Leader or min ISR may be missing, of the partition or of the log.
            return;
        }
        let histories = histories(end);
        for history in &histories {
            let Some(last) = history.records.last() else { continue };
            if matches!(last.state, S::PrepareCommit | S::PrepareAbort) {
                let name = end.cast.producers.get(history.id as usize).map_or("?", String::as_str);
                let text = format!("{name}: {:?} is in the log, and its end is not", last.state);
                add::<HangingLaw>(end, findings, "prepared-stands", at_odds(end, history, None), history.log, text);
            }
        }
        let events = |tp: &TopicPartition| end.topics.get(usize::from(tp.topic.0)).is_some_and(|t| t.events);
        for tp in end.replicas.keys().copied().filter(events) {
            if !end.replicas[&tp].iter().any(|r| r.leads && r.alive) {
                continue;
            }
            for Open { producer, from } in open(end, tp) {
                let history = of(&histories, producer);
                let last = history.and_then(|h| h.records.last());
                let known = last.filter(|l| covers(l, tp));
                if known.is_some_and(|l| may_stand(l, end)) {
                    continue;
                }
                let rule = if known.is_some() { "lso-stands" } else { "I-29" };
                let excuse = excuse(end, tp, history);
                let text = format!("{tp}: a transaction of producer {producer} is open since offset {from}");
                add::<HangingLaw>(end, findings, rule, excuse, tp, text);
            }
        }
    }
}
