//! Law of markers: what the coordinator has decided is what the partitions are told (I-23, I-24).
//!
//! Markers of one transaction may be written twice, after a failover; never of the other kind, never without a decision, and
//! an end is in the log only when every partition has its marker.

use super::{History, add, at_odds, histories};
use crate::judge::{Evidence, Findings, Law};
use crate::world::Observer;
use model::base::{ProducerEpoch, ProducerId, TopicPartition};
use model::kafka::coordinator::transaction::TransactionState as S;
use std::collections::{BTreeMap, BTreeSet};

/// The law.
#[derive(Clone, Debug, Default)]
pub struct MarkerLaw;

impl Observer for MarkerLaw {}

/// A kind of marker in a partition.
type Kind = (TopicPartition, ProducerId, ProducerEpoch, bool);

const fn word(commit: bool) -> &'static str {
    if commit { "COMMIT" } else { "ABORT" }
}

impl Law for MarkerLaw {
    const NAME: &'static str = "markers";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        let mut written: BTreeMap<Kind, u64> = BTreeMap::new();
        let readable: BTreeSet<_> = led(end).collect();
        for tp in &readable {
            for entry in end.committed(*tp) {
                if let Some(marker) = entry.batch.marker_of() {
                    let tag = entry.batch.producer;
                    *written.entry((*tp, tag.id, tag.epoch, marker.commit)).or_default() += 1;
                }
            }
        }
        let histories = histories(end);
        // Of a producer id whose log cannot be read nothing is known.
        let known: BTreeSet<_> = histories.iter().flat_map(|h| h.records.iter().map(|r| r.producer)).collect();
        let mut decided: BTreeSet<Kind> = BTreeSet::new();
        for history in &histories {
            let (kinds, ended) = decisions(history);
            decided.extend(kinds);
            for (kind, times) in ended {
                let (tp, producer, epoch, commit) = kind;
                let found = written.get(&kind).copied().unwrap_or(0);
                if readable.contains(&tp) && found < times {
                    let text = format!(
                        "{tp}: {times} transactions of producer {producer} epoch {epoch} ended with {}, and it has {found} such markers",
                        word(commit)
                    );
                    add::<MarkerLaw>(end, findings, "I-24", at_odds(end, history, Some(tp)), tp, text);
                }
            }
        }
        for kind in written.keys().filter(|k| known.contains(&k.1) && !decided.contains(k)) {
            let (tp, producer, epoch, commit) = *kind;
            let text =
                format!("{tp}: a {} marker of producer {producer} epoch {epoch} that nobody decided", word(commit));
            let of = histories.iter().find(|h| h.records.iter().any(|r| r.producer == producer));
            add::<MarkerLaw>(end, findings, "I-23", of.and_then(|h| at_odds(end, h, Some(tp))), tp, text);
        }
    }
}

/// Partitions with a leader that holds events.
fn led<'a>(end: &'a Evidence<'_>) -> impl Iterator<Item = TopicPartition> + 'a {
    let led = end.replicas.iter().filter(|(_, replicas)| replicas.iter().any(|r| r.leads && r.alive));
    led.map(|(tp, _)| *tp).filter(|tp| end.topics.get(usize::from(tp.topic.0)).is_some_and(|t| t.events))
}

/// The markers that an id's decisions allow, and how many of each kind the transactions that are over demand.
fn decisions(history: &History) -> (BTreeSet<Kind>, BTreeMap<Kind, u64>) {
    let mut allowed = BTreeSet::new();
    let mut demanded: BTreeMap<Kind, u64> = BTreeMap::new();
    let mut decided: Option<Vec<Kind>> = None;
    for record in &history.records {
        let commit = record.state == S::PrepareCommit;
        match record.state {
            S::PrepareCommit | S::PrepareAbort => {
                let kind = |tp: &TopicPartition| (*tp, record.producer, record.epoch, commit);
                let kinds: Vec<_> = record.partitions.iter().map(kind).collect();
                allowed.extend(kinds.iter().copied());
                // The same decision written again is one.
                decided = Some(kinds);
            }
            S::CompleteCommit | S::CompleteAbort => {
                decided.take().into_iter().flatten().for_each(|kind| *demanded.entry(kind).or_default() += 1);
            }
            _ => decided = None,
        }
    }
    (allowed, demanded)
}
