//! Where events were, and when: what an explanation is made of. Kept only for a run that is to be explained.

use super::{Evidence, OperatorAt};
use crate::world::Observer;
use model::base::{Aside, Event, Ghost, Offset, ProcessId, SimTime, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A batch in a leader's log: from which offset, and since when.
type Since = (Offset, SimTime);

/// Rows that an operator took.
#[derive(Clone, Debug)]
pub struct Taken {
    /// When.
    pub at: SimTime,
    /// The subtask.
    pub subtask: u16,
    /// Its watermark; the least if it had none.
    pub watermark: i64,
    /// The rows, in order.
    pub rows: Arc<[Ghost]>,
}

/// Everything that was seen of events on their way.
#[derive(Clone, Debug, Default)]
pub struct Journey {
    appended: BTreeMap<TopicPartition, Vec<Since>>,
    taken: BTreeMap<OperatorAt, Vec<Taken>>,
}
impl Observer for Journey {
    fn event(&mut self, at: SimTime, _: u64, _: u64, _: ProcessId, event: &Event) {
        if let Event::Appended { tp, base, leader: true, .. } = *event {
            let log = self.appended.entry(tp).or_default();
            // What another leader had appended there and lost is written over.
            let keep = log.partition_point(|(offset, _)| *offset < base);
            log.truncate(keep);
            log.push((base, at));
        }
    }
    fn aside(&mut self, at: SimTime, _: ProcessId, aside: &Aside) {
        if let Aside::Decided(d) = aside {
            let rows = Arc::clone(&d.rows);
            let taken = Taken { at, subtask: d.at.subtask, watermark: d.watermark, rows };
            self.taken.entry((d.at.job, d.at.vertex, d.at.operator)).or_default().push(taken);
        }
    }
}
impl Journey {
    /// What an operator took, in order.
    pub fn taken(&self, at: OperatorAt) -> &[Taken] {
        self.taken.get(&at).map_or(&[], Vec::as_slice)
    }
    /// When the record at an offset was appended.
    fn appended(&self, tp: TopicPartition, offset: Offset) -> Option<SimTime> {
        let log = self.appended.get(&tp)?;
        log.partition_point(|(base, _)| *base <= offset).checked_sub(1).map(|at| log[at].1)
    }
    /// Bytes that readers can see in a partition and that were appended between two times.
    pub fn appended_bytes(&self, tp: TopicPartition, end: &Evidence<'_>, from: SimTime, to: SimTime) -> u64 {
        let appended = |base| self.appended(tp, base).is_some_and(|at| (from..to).contains(&at));
        end.committed(tp).filter(|entry| appended(entry.base)).map(|entry| u64::from(entry.batch.bytes)).sum()
    }
    /// Where the events of a topic stand for readers of committed data, by number: the first place of each.
    pub fn places(&self, topic: u16, end: &Evidence<'_>, events: impl Fn(Ghost) -> Vec<u32>) -> BTreeMap<u32, Place> {
        let mut places: BTreeMap<u32, Place> = BTreeMap::new();
        for tp in end.partitions_of(topic) {
            for (entry, by) in end.readable_by(tp).0 {
                let since = self.appended(tp, entry.base).zip(self.appended(tp, by));
                let Some((appended, readable)) = since else { continue };
                for (row, offset) in entry.batch.rows.iter().zip(entry.base.0..) {
                    let place = Place { tp, offset: Offset(offset), time: row.time.0, appended, readable };
                    for event in events(row.ghost) {
                        let first = places.entry(event).or_insert(place);
                        if place.readable < first.readable {
                            *first = place;
                        }
                    }
                }
            }
        }
        places
    }
}
/// Where an event stands in a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The partition.
    pub tp: TopicPartition,
    /// The offset.
    pub offset: Offset,
    /// The record's timestamp, ms.
    pub time: i64,
    /// When it was appended.
    pub appended: SimTime,
    /// When readers of committed data could have it: with the marker of its transaction.
    pub readable: SimTime,
}
