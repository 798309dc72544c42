//! Law of sequences over the committed logs (I-20, I-21).

use super::{Evidence, Findings, Law, Violation};
use crate::world::Observer;
use model::base::{ProducerEpoch, ProducerId, Sequence, TopicPartition};
use std::collections::BTreeMap;

/// The law.
#[derive(Clone, Debug, Default)]
pub struct SequenceLaw;

impl Observer for SequenceLaw {}

impl SequenceLaw {
    fn check(
        end: &Evidence<'_>,
        tp: TopicPartition,
        entries: impl Iterator<Item = (ProducerId, ProducerEpoch, Sequence, i32)>,
        findings: &mut Findings,
    ) {
        let mut next: BTreeMap<(ProducerId, ProducerEpoch), Sequence> = BTreeMap::new();
        for (id, epoch, first, records) in entries {
            if let Some(expected) = next.get(&(id, epoch))
                && *expected != first
            {
                let rule = if first < *expected { "I-21" } else { "I-20" };
                findings.add(Violation {
                    at: end.now,
                    law: Self::NAME,
                    rule,
                    text: format!("{tp}: producer {id} epoch {epoch} has sequence {first} where {expected} is next"),
                    excuse: end.excuses.changed(tp),
                });
            }
            next.insert((id, epoch), first.plus(records));
        }
    }
}

impl Law for SequenceLaw {
    const NAME: &'static str = "sequences";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        for tp in end.replicas.keys() {
            let tagged = end.committed(*tp).filter(|e| e.batch.has_sequence());
            let parts = tagged.map(|e| {
                let tag = e.batch.producer;
                (tag.id, tag.epoch, tag.base_sequence, e.batch.records as i32)
            });
            Self::check(end, *tp, parts, findings);
        }
    }
}
