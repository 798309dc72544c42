//! Law of sequences over the committed logs (I-20, I-21, P-6, P-9).
//!
//! No rule excuses a finding: a batch that is not the next one of its producer is never appended, whatever was lost.

use super::{Evidence, Findings, Law, Violation};
use crate::world::Observer;
use model::base::{ProducerEpoch, ProducerId, Sequence, TopicPartition};
use model::kafka::log::Entry;
use std::collections::BTreeMap;

/// The law.
#[derive(Clone, Debug, Default)]
pub struct SequenceLaw;

impl Observer for SequenceLaw {}

/// How far `to` is ahead of `from` in sequence numbers, which wrap at 2^31; negative if behind.
fn ahead(from: Sequence, to: Sequence) -> i32 {
    let distance = (i64::from(to.0) - i64::from(from.0)).rem_euclid(1 << 31);
    if distance < 1 << 30 { distance as i32 } else { (distance - (1 << 31)) as i32 }
}

fn check<'a>(
    end: &Evidence<'_>,
    tp: TopicPartition,
    entries: impl Iterator<Item = &'a Entry>,
    findings: &mut Findings,
) {
    // The epoch that was appended last, and the next sequence number in it, if it is known.
    let mut known: BTreeMap<ProducerId, (ProducerEpoch, Option<Sequence>)> = BTreeMap::new();
    for entry in entries.filter(|e| e.batch.producer.id != ProducerId::NONE) {
        let tag = entry.batch.producer;
        let before = known.get(&tag.id).copied();
        let mut say = |rule, text: String| {
            let text = format!("{tp}: offset {}, producer {} epoch {}: {text}", entry.base, tag.id, tag.epoch);
            findings.add(Violation {
                at: end.now,
                law: SequenceLaw::NAME,
                rule,
                text,
                excuse: None,
                tp: Some(tp),
                event: None,
            });
        };
        if let Some((epoch, _)) = before.filter(|(epoch, _)| tag.epoch < *epoch) {
            say("P-6", format!("behind epoch {epoch}"));
            continue;
        }
        let same = before.filter(|(epoch, _)| *epoch == tag.epoch);
        if entry.batch.is_control() {
            // A marker may begin an epoch (TV2); sequence numbers then begin anew.
            known.insert(tag.id, same.unwrap_or((tag.epoch, before.map(|_| Sequence(0)))));
            continue;
        }
        let expected = match same {
            Some((_, next)) => next,
            None => before.map(|_| Sequence(0)),
        };
        let first = tag.base_sequence;
        if first == Sequence::NONE {
            // Written by a coordinator: no sequence numbers (P-18).
            known.insert(tag.id, same.unwrap_or((tag.epoch, before.map(|_| Sequence(0)))));
            continue;
        }
        if let Some(expected) = expected.filter(|e| *e != first) {
            let rule = match (same, ahead(expected, first)) {
                (None, _) => "P-9",
                (_, n) if n < 0 => "I-21",
                _ => "I-20",
            };
            say(rule, format!("sequence {first} where {expected} is next"));
            if rule == "I-21" {
                // What was appended twice does not make the next batch wrong too.
                continue;
            }
        }
        known.insert(tag.id, (tag.epoch, Some(first.plus(entry.batch.records as i32))));
    }
}

impl Law for SequenceLaw {
    const NAME: &'static str = "sequences";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        for tp in end.replicas.keys() {
            check(end, *tp, end.committed(*tp), findings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap() {
        assert_eq!(ahead(Sequence(5), Sequence(7)), 2);
        assert_eq!(ahead(Sequence(7), Sequence(5)), -2);
        assert_eq!(ahead(Sequence(i32::MAX), Sequence(0)), 1);
        assert_eq!(ahead(Sequence(0), Sequence(i32::MAX)), -1);
    }
}
