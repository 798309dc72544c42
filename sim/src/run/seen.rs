//! Who watches a run: the judge, the triggers of faults, and the latencies of readers.

use super::Shuffle;
use super::factors::Heard;
use super::faults::Watcher;
use crate::judge::{Chunked, Journey, Judge};
use crate::world::Observer;
use model::base::{Addr, Aside, Event, Layer, ProcessId, Shown, SimTime, SmallMap, TopicPartition};
use std::collections::BTreeMap;

/// How old what one layer shows is.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// By age in ms: how many; the last one counts all above.
    ages: Vec<u32>,
    /// By time of sending, in tenths of a second: when the last of it was shown, ms.
    shown: Chunked<u64>,
}
impl Latencies {
    const MOST: usize = 600_000;
    const TENTH: u64 = 100;
    /// Takes what was sent at these times, in ms, and is shown at `now_ms`.
    fn add(&mut self, sent: impl Iterator<Item = u64>, now_ms: u64) {
        let mut noted = u64::MAX;
        for sent_ms in sent {
            let i = (now_ms.saturating_sub(sent_ms) as usize).min(Self::MOST);
            if self.ages.len() <= i {
                self.ages.resize(i + 1, 0);
            }
            self.ages[i] += 1;
            // Most rows of a batch are of one tenth.
            let tenth = sent_ms / Self::TENTH;
            if tenth != noted {
                noted = tenth;
                let last = self.shown.grow(tenth as usize);
                *last = now_ms.max(*last);
            }
        }
    }
    /// Of how many events.
    pub fn len(&self) -> u64 {
        self.ages.iter().map(|n| u64::from(*n)).sum()
    }
    /// How long after `instant`, in ms, the last of what had been sent until then was shown; what never was does not count.
    pub fn caught_up(&self, instant_ms: u64) -> u64 {
        let sent = self.shown.iter().take((instant_ms / Self::TENTH) as usize);
        sent.copied().max().unwrap_or(0).saturating_sub(instant_ms)
    }
    /// The latency that `per_mille` of the events did not exceed; 0 without events.
    pub fn percentile(&self, per_mille: u64) -> u64 {
        let all = self.len();
        let rank = (all * per_mille).div_ceil(1000);
        let mut sum = 0;
        self.ages
            .iter()
            .position(|n| {
                sum += u64::from(*n);
                sum >= rank && all > 0
            })
            .unwrap_or(0) as u64
    }
}

/// How far apart a reader's partitions are: newest event time delivered of the foremost partition less that of the hindmost,
/// looked at after every record, over the partitions that have delivered something.
#[derive(Clone, Debug, Default)]
pub struct Skew {
    newest: SmallMap<TopicPartition, i64>,
    sum_ms: u64,
    records: u64,
    /// Largest, in ms.
    pub max_ms: u64,
}
impl Skew {
    /// Takes records of one partition in order of delivery, by event time in ms.
    fn add(&mut self, tp: TopicPartition, times: impl Iterator<Item = i64>) {
        let others = self.newest.iter().filter(|(other, _)| *other != tp).map(|(_, newest)| *newest);
        let (low, high) = others.fold((i64::MAX, i64::MIN), |(low, high), t| (low.min(t), high.max(t)));
        let mut newest = self.newest.get(tp).copied().unwrap_or(i64::MIN);
        for time in times {
            newest = newest.max(time);
            let skew = (high.max(newest) - low.min(newest)) as u64;
            self.sum_ms += skew;
            self.records += 1;
            self.max_ms = self.max_ms.max(skew);
        }
        self.newest.insert(tp, newest);
    }
    /// Mean over the records, in ms; 0 without any.
    pub fn mean_ms(&self) -> u64 {
        self.sum_ms.checked_div(self.records).unwrap_or(0)
    }
}

/// Who watches.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The judge.
    pub judge: Judge,
    /// Events that faults wait for.
    pub watcher: Watcher,
    /// From sending to delivery, by reader.
    pub latencies: Vec<Latencies>,
    /// From sending until a store shows it, by the number under which its rows are shown.
    pub stored: BTreeMap<u16, Latencies>,
    /// How far apart the partitions of each reader are.
    pub skews: Vec<Skew>,
    /// What event time it is at simulated time zero, ms: how fresh a result is counts from the end of its window.
    pub event_base: Option<i64>,
    /// The cluster still forms: faults are not counted, triggers do not see it.
    pub forming: bool,
    /// Everything that happened to events on their way, of a run that is to be explained.
    pub journey: Option<Journey>,
    /// What its factors are made of, of a run that is asked for them.
    pub heard: Option<Heard>,
    /// Under what numbers rows travel, if not their own.
    pub shuffle: Option<Shuffle>,
}
impl Seen {
    pub(super) fn new(judge: Judge, watcher: Watcher, readers: usize) -> Self {
        Self {
            judge,
            watcher,
            latencies: vec![Latencies::default(); readers],
            stored: BTreeMap::new(),
            skews: vec![Skew::default(); readers],
            event_base: None,
            forming: true,
            journey: None,
            heard: None,
            shuffle: None,
        }
    }
    pub(super) fn begin(&mut self, watcher: Watcher) {
        self.watcher = watcher;
        self.forming = false;
        self.judge.coverage = crate::judge::Coverage::default();
    }
}
impl Observer for Seen {
    fn event(&mut self, at: SimTime, id: u64, cause: u64, process: ProcessId, event: &Event) {
        self.judge.event(at, id, cause, process, event);
        if let Some(journey) = &mut self.journey {
            journey.event(at, id, cause, process, event);
        }
        if let Some(heard) = &mut self.heard {
            heard.event(at, id, cause, process, event);
        }
        if !self.forming {
            self.watcher.event(at, id, cause, process, event);
        }
    }
    fn aside(&mut self, at: SimTime, process: ProcessId, aside: &Aside) {
        match self.shuffle {
            Some(shuffle) => self.judge.aside(at, process, &shuffle.overheard(aside)),
            None => self.judge.aside(at, process, aside),
        }
        if let Some(journey) = &mut self.journey {
            journey.aside(at, process, aside);
        }
    }
    fn shown(&mut self, at: SimTime, process: ProcessId, shown: &Shown) {
        let opened;
        let shown = match self.shuffle {
            Some(shuffle) => {
                opened = Shown { batch: shuffle.opened(&shown.batch), ..shown.clone() };
                &opened
            }
            None => shown,
        };
        self.judge.shown(at, process, shown);
        let rows = &shown.batch.rows[shown.from as usize..shown.to as usize];
        let latencies = match shown.layer {
            Layer::Read(reader) => {
                if !rows.is_empty() {
                    self.skews[usize::from(reader)].add(shown.tp, rows.iter().map(|r| r.time.0));
                }
                &mut self.latencies[usize::from(reader)]
            }
            Layer::Stored(number) => self.stored.entry(number).or_default(),
            Layer::Acked(_) | Layer::Failed(_) | Layer::Emitted(_) => return,
        };
        let now = at.millis().0 as u64;
        let mut ledger = self.judge.ledger.reader();
        let base = self.event_base;
        let sent = rows.iter().filter_map(|row| {
            if row.ghost.in_ledger()
                && let Some(sent) = ledger.get(row.ghost.open() as usize)
            {
                return Some(u64::from(sent.at_ms));
            }
            // A file's times may be no times of the run.
            let made = u64::try_from((row.time.0 + 1).wrapping_sub(base?)).unwrap_or(0);
            (made <= now).then_some(made)
        });
        latencies.add(sent, now);
    }
    fn died(&mut self, at: SimTime, process: ProcessId) {
        self.judge.died(at, process);
    }
    fn message(&mut self, at: SimTime, to: Addr, from: Addr, name: &'static str, bytes: u32) {
        self.judge.message(at, to, from, name, bytes);
        if let Some(heard) = &mut self.heard {
            heard.message(at, to, from, name, bytes);
        }
    }
    fn fault(&mut self, at: SimTime, process: Option<ProcessId>, what: &'static str) {
        if !self.forming {
            self.judge.fault(at, process, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_is_between_the_foremost_and_the_hindmost_partition() {
        let mut s = Skew::default();
        s.add(TopicPartition::new(0, 0), [0, 100].into_iter());
        s.add(TopicPartition::new(0, 1), [10, 5].into_iter());
        s.add(TopicPartition::new(0, 0), [400].into_iter());
        assert_eq!((s.mean_ms(), s.max_ms), ((90 + 90 + 390) / 5, 390));
        assert_eq!(Skew::default().mean_ms(), 0);
    }

    #[test]
    fn percentiles_are_ranks() {
        let mut l = Latencies::default();
        (1..=100).for_each(|ms| l.add([1_000].into_iter(), 1_000 + ms));
        assert_eq!((l.percentile(500), l.percentile(990), l.percentile(1000)), (50, 99, 100));
        assert_eq!(Latencies::default().percentile(500), 0);
    }

    #[test]
    fn a_layer_has_caught_up_when_it_has_shown_all_that_was_sent_before() {
        let mut l = Latencies::default();
        for (sent, shown) in [(vec![100], 5_200), (vec![4_950, 4_900, 5_100, 4_800], 5_100), (vec![5_100], 9_000)] {
            l.add(sent.into_iter(), shown);
        }
        assert_eq!([5_000, 5_200, 6_000].map(|instant| l.caught_up(instant)), [200, 3_800, 3_000]);
        assert_eq!(Latencies::default().caught_up(5_000), 0);
    }
}
