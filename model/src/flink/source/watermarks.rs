//! The event time of a source subtask (`ProgressiveTimestampsAndWatermarks`, `SourceOperator`): a generator for each split,
//! their minimum, and which splits wait for others. Rules 4.3, 4.5, A2, A5, A6.

use crate::base::{Fix, Fixes, Millis};
use crate::flink::timers::NO_WATERMARK;
use crate::flink::watermark::{BoundedOutOfOrderness, Emitter, Idleness, Multiplexer, Signal};
use std::collections::BTreeMap;

/// How watermarks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// `WatermarkStrategy.forBoundedOutOfOrderness`.
    Bounded(Millis),
    /// `WATERMARK FOR ts AS ts - delay`, pushed into the source: no millisecond less, and no floor at 0.
    Sql(Millis),
}
impl Strategy {
    /// How far behind the newest event the watermark is, ms.
    pub const fn bound(self) -> i64 {
        match self {
            Self::Bounded(bound) => bound.0 + 1,
            Self::Sql(delay) => delay.0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Generator {
    Bounded(BoundedOutOfOrderness),
    Sql { delay: i64, current: i64 },
}
impl Generator {
    const fn new(strategy: Strategy) -> Self {
        match strategy {
            Strategy::Bounded(bound) => Self::Bounded(BoundedOutOfOrderness::new(bound)),
            Strategy::Sql(delay) => Self::Sql { delay: delay.0, current: NO_WATERMARK },
        }
    }
    fn event(&mut self, timestamp: i64, fixes: Fixes) {
        match self {
            Self::Bounded(generator) => generator.event(timestamp),
            Self::Sql { delay, current } => {
                let row = timestamp - *delay;
                *current = if fixes.has(Fix::SqlGeneratorKeepsGreatest) { row.max(*current) } else { row };
            }
        }
    }
    const fn periodic(&self) -> Signal {
        match self {
            Self::Bounded(generator) => generator.periodic(),
            Self::Sql { current, .. } => Signal::Watermark(*current),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Split {
    generator: Generator,
    idleness: Option<Idleness>,
    /// Its own watermark, as of the last periodic emission.
    watermark: i64,
}

/// The event time of one subtask of a source. It begins anew in every incarnation.
#[derive(Clone, Debug)]
pub struct SourceWatermarks<S> {
    strategy: Strategy,
    idle_timeout: Option<Millis>,
    fixes: Fixes,
    splits: BTreeMap<S, Split>,
    combined: Multiplexer<S>,
    /// The output that belongs to no split. Nothing comes through it, but it must be idle too.
    main: Option<Idleness>,
    main_idle: bool,
    splits_idle: bool,
    emitter: Emitter,
    emitted: Option<i64>,
    /// What is compared with the limit.
    ahead: i64,
    idle: bool,
    /// There is nothing left to read.
    finished: bool,
    limit: i64,
    /// Splits that count where it is decided whether they wait one by one.
    counted: usize,
}

impl<S: Ord + Clone> SourceWatermarks<S> {
    /// A subtask without splits.
    pub fn new(strategy: Strategy, idle_timeout: Option<Millis>, fixes: Fixes) -> Self {
        Self {
            strategy,
            idle_timeout,
            fixes,
            splits: BTreeMap::new(),
            combined: Multiplexer::new(fixes),
            main: idle_timeout.map(Idleness::new),
            main_idle: false,
            splits_idle: true,
            emitter: Emitter::default(),
            emitted: None,
            ahead: NO_WATERMARK,
            idle: false,
            finished: false,
            limit: i64::MAX,
            counted: 0,
        }
    }
    /// A split is assigned, or `restored`.
    pub fn add(&mut self, split: S, restored: bool) {
        self.splits_idle = false;
        self.combined.add(split.clone(), restored);
        self.counted += usize::from(!restored || self.fixes.has(Fix::RestoredSplitsCount));
        let generator = Generator::new(self.strategy);
        let idleness = self.idle_timeout.map(Idleness::new);
        self.splits.insert(split, Split { generator, idleness, watermark: NO_WATERMARK });
    }
    /// A record of a split has been emitted.
    pub fn record(&mut self, split: &S, timestamp: i64) {
        self.records(split, [timestamp]);
    }
    /// Records of a split have been emitted.
    pub fn records(&mut self, split: &S, timestamps: impl IntoIterator<Item = i64>) {
        let fixes = self.fixes;
        let Some(split) = self.splits.get_mut(split) else { return };
        for timestamp in timestamps {
            split.generator.event(timestamp, fixes);
            if let Some(idleness) = &mut split.idleness {
                idleness.event();
            }
        }
    }
    /// The watermark in force behind the source: CURRENT_WATERMARK of what is chained to it.
    pub const fn emitted(&self) -> Option<i64> {
        self.emitted
    }
    /// The periodic emission (`pipeline.auto-watermark-interval`). The clock of a split that waits for others stands
    /// (FLINK-35886).
    pub fn periodic(&mut self, now: Millis, out: &mut Vec<Signal>) {
        // The main generator has no event, ever: all it says is when it is idle.
        let least = || Signal::Watermark(NO_WATERMARK);
        match self.main.as_mut().and_then(|main| main.periodic(now, least)) {
            Some(Signal::Idle) => self.main_idle = true,
            Some(_) => self.main_idle = false,
            None => {}
        }
        let (limit, stands) = (self.limit, self.fixes.has(Fix::IdleClockStandsWhilePaused));
        for (name, split) in &mut self.splits {
            let generator = split.generator;
            let signal = match &mut split.idleness {
                Some(idleness) => {
                    if stands && split.watermark > limit {
                        idleness.event();
                    }
                    idleness.periodic(now, || generator.periodic())
                }
                None => Some(generator.periodic()),
            };
            match signal {
                Some(Signal::Watermark(watermark)) if watermark != NO_WATERMARK => {
                    split.watermark = split.watermark.max(watermark);
                    self.combined.defer(name, watermark);
                }
                Some(Signal::Idle) => self.combined.defer_idle(name),
                _ => {}
            }
        }
        match self.combined.update() {
            Some(Signal::Watermark(watermark)) => {
                self.splits_idle = false;
                self.emit(Signal::Watermark(watermark), out);
            }
            Some(_) => self.splits_idle = true,
            None => {}
        }
        if self.splits_idle && self.main_idle {
            self.emit(Signal::Idle, out);
        }
    }
    fn emit(&mut self, signal: Signal, out: &mut Vec<Signal>) {
        for signal in self.emitter.signal(signal).into_iter().flatten() {
            match signal {
                Signal::Watermark(watermark) => {
                    self.emitted = Some(watermark);
                    self.ahead = self.ahead.max(watermark);
                }
                Signal::Idle => {
                    self.idle = true;
                    if !self.fixes.has(Fix::IdleIsNoWatermark) {
                        self.ahead = i64::MAX;
                    }
                }
                Signal::Active => self.idle = false,
            }
            out.push(signal);
        }
    }
    /// Everything has been read.
    pub const fn finish(&mut self) {
        self.finished = self.fixes.has(Fix::FinishedBoundsNobody);
    }
    /// What the subtask reports for alignment: nothing before its first watermark, no bound while it is idle or when it is
    /// done (A2).
    pub fn report(&self) -> Option<i64> {
        if self.idle || self.finished {
            return Some(i64::MAX);
        }
        let none = (!self.fixes.has(Fix::NothingToReportYet)).then_some(NO_WATERMARK);
        self.emitted.or(none)
    }
    /// The limit that the coordinator announces.
    pub const fn set_limit(&mut self, limit: i64) {
        self.limit = limit;
    }
    /// Whether a split's records wait: the whole source is ahead of the limit (A5), or with several splits this one (A6).
    pub fn waits(&self, split: &S) -> bool {
        self.source_waits() || self.split_waits(split)
    }
    /// Whether the whole source is ahead of the limit (A5).
    pub const fn source_waits(&self) -> bool {
        self.ahead > self.limit
    }
    /// Whether a split is, where it is one of several (A6).
    pub fn split_waits(&self, split: &S) -> bool {
        let split = self.splits.get(split).filter(|_| self.counted > 1);
        split.is_some_and(|split| split.watermark > self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(source: &mut SourceWatermarks<u8>, now: i64) -> Vec<Signal> {
        let mut out = Vec::new();
        source.periodic(Millis(now), &mut out);
        out
    }

    #[test]
    fn a_split_without_a_record_holds_until_it_is_idle() {
        let mut source = SourceWatermarks::new(Strategy::Sql(Millis(10)), Some(Millis(100)), Fixes::ALL);
        source.add(0, false);
        source.add(1, false);
        source.record(&0, 50);
        assert!(tick(&mut source, 1).is_empty());
        source.record(&0, 60);
        assert_eq!(tick(&mut source, 102), [Signal::Watermark(50)]);
        assert_eq!(source.emitted(), Some(50));
    }

    #[test]
    fn a_split_ahead_of_the_limit_waits_and_its_idle_clock_stands() {
        let mut source = SourceWatermarks::new(Strategy::Bounded(Millis(0)), Some(Millis(100)), Fixes::ALL);
        source.add(0, false);
        source.add(1, false);
        source.record(&0, 5000);
        source.record(&1, 500);
        tick(&mut source, 1);
        source.set_limit(1499);
        assert!(source.waits(&0) && !source.waits(&1));
        tick(&mut source, 2);
        assert_eq!(tick(&mut source, 103), [Signal::Watermark(4999)]);
        assert_eq!(source.report(), Some(4999));
    }

    #[test]
    fn an_empty_subtask_is_idle_after_the_timeout() {
        let mut source = SourceWatermarks::<u8>::new(Strategy::Bounded(Millis(0)), Some(Millis(100)), Fixes::ALL);
        assert!(tick(&mut source, 1).is_empty());
        assert_eq!(tick(&mut source, 102), [Signal::Idle]);
        assert_eq!(source.report(), Some(i64::MAX));
    }

    #[test]
    fn before_its_first_watermark_a_reader_reports_nothing_and_when_it_is_done_no_bound() {
        let silent = |fixes| SourceWatermarks::<u8>::new(Strategy::Sql(Millis(0)), None, fixes).report();
        assert_eq!(silent(Fixes::ALL), None);
        assert_eq!(silent(Fixes::ALL.without(Fix::NothingToReportYet)), Some(NO_WATERMARK));
        let done = |fixes| {
            let mut source = SourceWatermarks::new(Strategy::Sql(Millis(0)), None, fixes);
            source.add(0, false);
            source.record(&0, 70);
            tick(&mut source, 1);
            source.finish();
            source.report()
        };
        assert_eq!(done(Fixes::ALL), Some(i64::MAX));
        assert_eq!(done(Fixes::ALL.without(Fix::FinishedBoundsNobody)), Some(70));
    }

    #[test]
    fn one_that_was_idle_is_held_by_its_watermark_alone() {
        let waits = |fixes| {
            let mut source = SourceWatermarks::new(Strategy::Sql(Millis(0)), Some(Millis(100)), fixes);
            source.add(0, false);
            source.record(&0, 70);
            [1, 2, 103].into_iter().for_each(|now| drop(tick(&mut source, now)));
            assert_eq!(source.report(), Some(i64::MAX));
            source.set_limit(900);
            source.source_waits()
        };
        assert!(!waits(Fixes::ALL));
        assert!(waits(Fixes::ALL.without(Fix::IdleIsNoWatermark)));
    }

    #[test]
    fn the_limit_itself_is_not_ahead_of_it_and_of_one_split_only_the_source_waits() {
        let at = |watermark: i64, splits: u8| {
            let mut source = SourceWatermarks::new(Strategy::Sql(Millis(0)), None, Fixes::ALL);
            (0..splits).for_each(|split| source.add(split, false));
            (0..splits).for_each(|split| source.record(&split, watermark));
            tick(&mut source, 1);
            source.set_limit(1000);
            (source.source_waits(), source.split_waits(&0))
        };
        assert_eq!((at(1000, 2), at(1001, 2), at(1001, 1)), ((false, false), (true, true), (true, false)));
    }

    #[test]
    fn restored_splits_wait_one_by_one_like_assigned_ones() {
        let waits = |fixes| {
            let mut source = SourceWatermarks::new(Strategy::Sql(Millis(0)), None, fixes);
            source.add(0, true);
            source.add(1, true);
            source.record(&0, 5000);
            source.record(&1, 500);
            tick(&mut source, 1);
            source.set_limit(1500);
            (source.split_waits(&0), source.source_waits())
        };
        assert_eq!(waits(Fixes::ALL), (true, false));
        assert_eq!(waits(Fixes::ALL.without(Fix::RestoredSplitsCount)), (false, false));
    }

    #[test]
    fn a_split_without_a_record_holds_whether_given_or_restored() {
        let watermark = |restored: bool, fixes| {
            let mut source = SourceWatermarks::new(Strategy::Sql(Millis(0)), None, fixes);
            source.add(0, restored);
            source.add(1, restored);
            source.record(&0, 50);
            tick(&mut source, 1);
            source.emitted()
        };
        for (restored, bit) in [(false, Fix::SplitsHoldFromAssignment), (true, Fix::RestoredSplitsHold)] {
            assert_eq!(watermark(restored, Fixes::ALL), None);
            assert_eq!(watermark(restored, Fixes::ALL.without(bit)), Some(50));
            assert_eq!(watermark(!restored, Fixes::ALL.without(bit)), None);
        }
    }
}
