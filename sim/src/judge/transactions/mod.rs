//! Laws of transactions over the final logs: what the coordinators have written, and what the partitions hold of it.
//!
//! A loss by rule in the log of transactions, or in a partition, puts the two at odds: what follows from it is excused by that
//! rule, as is a completion that was given up for it (T-32).

mod hanging;
mod markers;
mod states;

pub use hanging::{HangingLaw, reader_stands_by_rule, stands_by_rule};
pub use markers::MarkerLaw;
pub use states::StateLaw;

use super::{Evidence, Excuse, Findings, Law, Violation};
use model::base::TopicPartition;
use model::kafka::coordinator::transaction::{TransactionLogRecord, TransactionLogValue, from_batch};
use std::collections::BTreeMap;

/// The history of one transactional id as its log has it; a tombstone begins a new one.
struct History {
    /// The id's number.
    id: u32,
    /// The partition of the log.
    log: TopicPartition,
    records: Vec<TransactionLogValue>,
}

/// Whether a partition is one of the log of transactions.
fn is_log(end: &Evidence<'_>, tp: TopicPartition) -> bool {
    end.topics.get(usize::from(tp.topic.0)).is_some_and(|t| t.name == "__transaction_state")
}

/// Histories of all ids whose partition of the log can be read.
fn histories(end: &Evidence<'_>) -> Vec<History> {
    let mut all = Vec::new();
    for (tp, replicas) in &end.replicas {
        if !is_log(end, *tp) || !replicas.iter().any(|r| r.leads && r.alive) {
            continue;
        }
        let mut by_id: BTreeMap<u32, Vec<TransactionLogValue>> = BTreeMap::new();
        for TransactionLogRecord { id, value } in end.committed(*tp).flat_map(|e| from_batch(&e.batch)) {
            match value {
                Some(value) => by_id.entry(id.0).or_default().push(value),
                None => all.extend(by_id.remove(&id.0).map(|records| History { id: id.0, log: *tp, records })),
            }
        }
        all.extend(by_id.into_iter().map(|(id, records)| History { id, log: *tp, records }));
    }
    all
}

/// The rule by which coordinator and partition may be at odds over a transaction of this id; `tp` is the partition concerned.
fn at_odds(end: &Evidence<'_>, history: &History, tp: Option<TopicPartition>) -> Option<Excuse> {
    let lost = |tp| end.excuses.loss(tp, None);
    lost(history.log).or_else(|| tp.and_then(lost)).or_else(|| end.excuses.stopped(history.id))
}

/// A finding of a law about a partition.
fn add<L: Law>(
    end: &Evidence<'_>,
    findings: &mut Findings,
    rule: &'static str,
    excuse: Option<Excuse>,
    tp: TopicPartition,
    text: String,
) {
    let (at, law, event) = (end.now, L::NAME, None);
    findings.add_with(law, rule, excuse, || Violation { at, law, rule, text, excuse, tp: Some(tp), event });
}
