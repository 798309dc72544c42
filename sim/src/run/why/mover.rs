//! Which record moved a watermark past an event.
//!
//! A source's watermark is the least of its partitions' newest times, less the bound: it passes a time when the last of the
//! partitions does. That one's first record at or above is the mover.

use super::way::Way;
use crate::judge::{Place, Taken};
use model::base::{Nanos, Offset, SimTime, Stream, TopicPartition};
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

/// A record where the job reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its number in the ledger.
    pub event: u32,
    /// The partition.
    pub tp: TopicPartition,
    /// The offset.
    pub offset: Offset,
    /// Nobody had read it before.
    pub since: SimTime,
}
/// What an experiment about a displaced event needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trail {
    /// The event itself.
    pub own: Spot,
    /// The watermark from which on it is late.
    pub over: i64,
    /// When that was decided.
    pub decided: SimTime,
    /// Its mover.
    pub mover: Spot,
    /// Another record, drawn from those that were taken around the mover and before the event.
    pub other: Option<Spot>,
    /// One of these whose partition had come past the event before it: nothing that the watermark waited for is behind it.
    pub beyond: Option<Spot>,
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
    /// Records taken, by number, and when.
    taken: Vec<(SimTime, u32)>,
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
                attempt.watermarks.push((t.watermark, attempt.taken.len()));
            }
            for ghost in t.rows.iter().filter(|g| g.in_ledger()) {
                let event = ghost.open();
                let order = attempt.taken.len();
                attempt.taken.push((t.at, event));
                let Some(place) = way.last(event) else { continue };
                let steps = attempt.steps.entry(place.tp.partition).or_default();
                if steps.last().is_none_or(|s| s.time < place.time) {
                    steps.push(Step { order, time: place.time, event, at: t.at });
                }
            }
        }
        Self { way, attempts }
    }

    /// The record by which the watermark came to `over`, before the decision about `event`; and what an experiment needs.
    pub(super) fn past(
        &self,
        taken: &Taken,
        (over, bound): (i64, i64),
        event: u32,
        ms: impl Fn(SimTime) -> u64,
        stream: &mut Stream,
    ) -> Option<(Mover, Trail)> {
        if taken.watermark < over {
            return None;
        }
        let of = |a: &&Attempt| a.subtask == taken.subtask && (a.span.0..=a.span.1).contains(&taken.at);
        let attempt = self.attempts.iter().rev().find(of)?;
        let (_, before) = attempt.watermarks.iter().find(|(watermark, _)| *watermark >= over)?;
        // A partition that has not come so far was idle.
        let crossed = attempt.steps.iter().filter_map(|(partition, steps)| {
            let first = steps.partition_point(|s| s.time < over + bound);
            steps.get(first).filter(|s| s.order < *before).map(|s| (*partition, *s))
        });
        let crossed: BTreeMap<u16, Step> = crossed.collect();
        let step = crossed.values().max_by_key(|s| s.order)?;
        let (place, own) = (self.way.last(step.event)?, self.way.last(event)?);
        let partitions = (place.tp.partition, own.tp.partition);
        let before = self.way.name_before(event).and_then(|name| {
            let (mover, own) = (self.way.before(step.event)?, self.way.before(event)?);
            Some((name.to_owned(), mover.tp.partition, own.tp.partition))
        });
        let same = before.as_ref().map_or(partitions.0 == partitions.1, |(_, mover, own)| mover == own);
        let mover = Mover {
            event: step.event,
            time: step.time,
            taken_ms: ms(step.at),
            partitions,
            before,
            same_partition: same,
        };
        let spot = |event: u32, place: &Place| self.spot(event, place);
        let (other, beyond) = self.others(attempt, &crossed, step, (event, taken.at), stream);
        let trail =
            Trail { own: spot(event, own), over, decided: taken.at, mover: spot(step.event, place), other, beyond };
        Some((mover, trail))
    }
    fn spot(&self, event: u32, place: &Place) -> Spot {
        let since = if self.way.uncommitted { place.appended } else { place.readable };
        Spot { event, tp: place.tp, offset: place.offset, since }
    }
    /// Other records than the mover, of as long before it as the event came behind it, and a second more.
    fn others(
        &self,
        attempt: &Attempt,
        crossed: &BTreeMap<u16, Step>,
        mover: &Step,
        (event, until): (u32, SimTime),
        stream: &mut Stream,
    ) -> (Option<Spot>, Option<Spot>) {
        let around = until.since(mover.at) + Nanos::secs(1);
        let from = SimTime(mover.at.0.saturating_sub(around.0));
        let first = attempt.taken.partition_point(|(at, _)| *at < from);
        let last = attempt.taken.partition_point(|(at, _)| *at < until);
        let mut draw = |wanted: &dyn Fn(usize, &Place) -> bool| {
            (0..64).find_map(|_| {
                let order = first + stream.below((last.saturating_sub(first)).max(1) as u64) as usize;
                let (_, record) = attempt.taken.get(order)?;
                let place = self.way.last(*record).filter(|_| ![mover.event, event].contains(record))?;
                wanted(order, place).then(|| self.spot(*record, place))
            })
        };
        let beyond = |order: usize, place: &Place| crossed.get(&place.tp.partition).is_some_and(|s| s.order < order);
        (draw(&|_, _| true), draw(&beyond))
    }
}
