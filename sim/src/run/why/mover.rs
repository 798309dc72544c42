//! Which record moved a watermark past an event.
//!
//! A source's watermark is the least of its partitions' newest times, less the bound: it passes a time when the last of the
//! partitions does. That one's first record at or above is the mover.

use super::way::Way;
use crate::judge::Taken;
use model::base::SimTime;
use serde::Serialize;
use std::collections::BTreeMap;

/// The record that let the watermark go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mover {
    /// Its number in the ledger.
    pub event: u32,
    /// Its time, ms.
    pub time: i64,
    /// When it was taken, ms of the run.
    pub taken_ms: u64,
    /// The partition that it was read from, and the one of the event that it passed.
    pub partitions: (u16, u16),
    /// The same in the topic before, whose partitions are drained apart: its name, of the mover, of the event.
    pub before: Option<(String, u16, u16)>,
    /// Both came from one partition of the topic before, or of the topic that the job reads if there is none.
    pub same_partition: bool,
}

/// A record that was the newest of its partition when it was taken.
#[derive(Clone, Copy, Debug)]
struct Step {
    order: usize,
    time: i64,
    event: u32,
    at: SimTime,
}
/// One attempt of a subtask: from one time without a watermark to the next.
#[derive(Clone, Debug, Default)]
struct Attempt {
    /// By partition, rising.
    steps: BTreeMap<u16, Vec<Step>>,
    /// Watermarks, each with how many records had been taken before it was seen.
    watermarks: Vec<(i64, usize)>,
    /// Records taken.
    taken: usize,
    /// Its decisions begin and end here, in time.
    span: (SimTime, SimTime),
    subtask: u16,
}

/// The steps of an operator's sources.
pub(super) struct Movers<'w, 'r> {
    way: &'w Way<'r>,
    attempts: Vec<Attempt>,
}
impl<'w, 'r> Movers<'w, 'r> {
    pub(super) fn new(taken: &[Taken], way: &'w Way<'r>) -> Self {
        let mut attempts: Vec<Attempt> = Vec::new();
        let mut open: BTreeMap<u16, usize> = BTreeMap::new();
        for t in taken {
            let fresh = open.get(&t.subtask).is_none_or(|at| {
                attempts[*at].watermarks.last().is_some_and(|(watermark, _)| *watermark > t.watermark)
            });
            if fresh {
                open.insert(t.subtask, attempts.len());
                attempts.push(Attempt { span: (t.at, t.at), subtask: t.subtask, ..Attempt::default() });
            }
            let attempt = &mut attempts[open[&t.subtask]];
            attempt.span.1 = t.at;
            if attempt.watermarks.last().is_none_or(|(watermark, _)| *watermark < t.watermark) {
                attempt.watermarks.push((t.watermark, attempt.taken));
            }
            for ghost in t.rows.iter().filter(|g| g.in_ledger()) {
                let event = ghost.open();
                let order = attempt.taken;
                attempt.taken += 1;
                let Some(place) = way.last(event) else { continue };
                let steps = attempt.steps.entry(place.tp.partition).or_default();
                if steps.last().is_none_or(|s| s.time < place.time) {
                    steps.push(Step { order, time: place.time, event, at: t.at });
                }
            }
        }
        Self { way, attempts }
    }

    /// The record by which the watermark came to `over`, before the decision about `event`.
    pub(super) fn past(
        &self,
        taken: &Taken,
        over: i64,
        bound: i64,
        event: u32,
        ms: impl Fn(SimTime) -> u64,
    ) -> Option<Mover> {
        if taken.watermark < over {
            return None;
        }
        let of = |a: &&Attempt| a.subtask == taken.subtask && (a.span.0..=a.span.1).contains(&taken.at);
        let attempt = self.attempts.iter().rev().find(of)?;
        let (_, before) = attempt.watermarks.iter().find(|(watermark, _)| *watermark >= over)?;
        // A partition that has not come so far was idle.
        let crossed = attempt.steps.values().filter_map(|steps| {
            let first = steps.partition_point(|s| s.time < over + bound);
            steps.get(first).filter(|s| s.order < *before)
        });
        let step = crossed.max_by_key(|s| s.order)?;
        let (place, own) = (self.way.last(step.event)?, self.way.last(event)?);
        let partitions = (place.tp.partition, own.tp.partition);
        let before = self.way.name_before(event).and_then(|name| {
            let (mover, own) = (self.way.before(step.event)?, self.way.before(event)?);
            Some((name.to_owned(), mover.tp.partition, own.tp.partition))
        });
        let same = before.as_ref().map_or(partitions.0 == partitions.1, |(_, mover, own)| mover == own);
        Some(Mover {
            event: step.event,
            time: step.time,
            taken_ms: ms(step.at),
            partitions,
            before,
            same_partition: same,
        })
    }
}
