//! The event time of a source's chain: watermarks per split, at a beat of the task's own thread (4.3, 4.5).

use super::super::graph::Watermarks;
use crate::base::{Fix, Fixes, Millis, TopicPartition};
use crate::flink::source::SourceWatermarks;
use crate::flink::watermark::Signal;

/// Watermarks of a source's subtask.
#[derive(Clone, Debug)]
pub struct SourceTime {
    watermarks: SourceWatermarks<TopicPartition>,
    interval: Millis,
    /// The next periodic emission; none before the operators are open, or with an interval of zero.
    next: Option<Millis>,
    /// `scan.watermark.alignment.update-interval`, where the source is aligned with others.
    update_interval: Option<Millis>,
    /// The next report to the coordinator.
    report_at: Option<Millis>,
    signals: Vec<Signal>,
}

/// How long the outputs of a task have been full: the clock of idleness stands meanwhile (FLINK-35886).
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// In all.
    stood: Millis,
    /// Since when they are.
    since: Option<Millis>,
}
impl Standing {
    /// Whether the outputs are full.
    pub fn held_up(&mut self, full: bool, now: Millis) {
        match self.since {
            None if full => self.since = Some(now),
            Some(since) if !full => {
                self.stood = self.stood + (now - since);
                self.since = None;
            }
            _ => {}
        }
    }
    /// By how much the clock is behind.
    pub fn time(&self, fixes: Fixes) -> Millis {
        if fixes.has(Fix::IdleClockStandsWhilePaused) { self.stood } else { Millis::ZERO }
    }
}
impl SourceTime {
    /// A source without splits.
    pub fn new(config: Watermarks, fixes: Fixes) -> Self {
        Self {
            watermarks: SourceWatermarks::new(config.strategy, config.idle_timeout, fixes),
            interval: config.interval,
            next: None,
            update_interval: config.alignment.map(|a| a.update_interval),
            report_at: None,
            signals: Vec::new(),
        }
    }
    /// The operators are open: the first emission comes one interval later.
    pub fn opened(&mut self, now: Millis) {
        self.next = (self.interval > Millis::ZERO).then(|| now + self.interval);
        self.report_at = self.update_interval.map(|every| now + every);
    }
    /// When the next report is due.
    pub const fn report_at(&self) -> Option<Millis> {
        self.report_at
    }
    /// The report, if it is due and there is something to tell.
    pub fn report(&mut self, now: Millis) -> Option<i64> {
        self.report_at.filter(|at| *at <= now)?;
        self.report_at = self.update_interval.map(|every| now + every);
        self.watermarks.report()
    }
    /// What a report would tell.
    pub fn told(&self) -> Option<i64> {
        self.watermarks.report()
    }
    /// The coordinator's limit.
    pub fn set_limit(&mut self, limit: i64) {
        self.watermarks.set_limit(limit);
    }
    /// Whether the source is aligned with others.
    pub const fn aligns(&self) -> bool {
        self.update_interval.is_some()
    }
    /// Whether the whole source is ahead of the limit.
    pub fn source_waits(&self) -> bool {
        self.watermarks.source_waits()
    }
    /// Whether a split is, where it is one of several.
    pub fn split_waits(&self, split: &TopicPartition) -> bool {
        self.watermarks.split_waits(split)
    }
    /// A split is assigned, or `restored`.
    pub fn add(&mut self, split: TopicPartition, restored: bool) {
        self.watermarks.add(split, restored);
    }
    /// There is nothing left to read.
    pub const fn finish(&mut self) {
        self.watermarks.finish();
    }
    /// Records of a split have been emitted.
    pub fn records(&mut self, split: TopicPartition, times: impl Iterator<Item = i64>) {
        self.watermarks.records(&split, times);
    }
    /// When the next emission is due.
    pub const fn deadline(&self) -> Option<Millis> {
        self.next
    }
    /// The periodic emission, if it is due; the clock of idleness is behind by so much. The next one comes a whole interval after
    /// it has run.
    pub fn fire(&mut self, now: Millis, stood: Millis) -> Option<&[Signal]> {
        self.next.filter(|at| *at <= now)?;
        self.next = Some(now + self.interval);
        self.signals.clear();
        self.watermarks.periodic(now - stood, &mut self.signals);
        Some(&self.signals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flink::source::Strategy;

    fn time(fixes: Fixes) -> SourceTime {
        let strategy = Strategy::Bounded(Millis(10));
        let mut time = SourceTime::new(
            Watermarks { strategy, idle_timeout: Some(Millis(500)), interval: Millis(200), alignment: None },
            fixes,
        );
        time.add(TopicPartition::new(0, 0), false);
        time.add(TopicPartition::new(0, 1), false);
        time.opened(Millis(1000));
        time
    }

    #[test]
    fn it_emits_an_interval_after_it_last_did_once_every_split_has_a_record() {
        let mut time = time(Fixes::ALL);
        time.records(TopicPartition::new(0, 0), [100, 50].into_iter());
        assert_eq!(time.fire(Millis(1199), Millis::ZERO), None);
        assert_eq!(time.deadline(), Some(Millis(1200)));
        assert_eq!(time.fire(Millis(1250), Millis::ZERO), Some(&[][..]));
        time.records(TopicPartition::new(0, 1), [70].into_iter());
        assert_eq!(time.deadline(), Some(Millis(1450)));
        assert_eq!(time.fire(Millis(1450), Millis::ZERO), Some(&[Signal::Watermark(59)][..]));
    }

    #[test]
    fn a_source_that_is_held_up_does_not_become_idle() {
        let run = |fixes| {
            let mut time = time(fixes);
            time.records(TopicPartition::new(0, 0), [100].into_iter());
            let mut standing = Standing::default();
            for at in (1200..=1600).step_by(200) {
                time.fire(Millis(at), standing.time(fixes));
            }
            standing.held_up(true, Millis(1600));
            standing.held_up(false, Millis(2600));
            time.records(TopicPartition::new(0, 0), [200].into_iter());
            time.fire(Millis(2600), standing.time(fixes)).map(<[Signal]>::to_vec)
        };
        assert_eq!(run(Fixes::ALL), Some(vec![]));
        assert_eq!(run(Fixes::ALL.without(Fix::IdleClockStandsWhilePaused)), Some(vec![Signal::Watermark(189)]));
    }
}
