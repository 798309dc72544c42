//! Watermarks made behind a source: by SQL where the plan does not push them into it (`WatermarkAssignerOperator`, 4.7, path B),
//! and by `assignTimestampsAndWatermarks` (`TimestampsAndWatermarksOperator`, 4.2, path C). One generator a subtask, over all
//! partitions that it is given. They keep nothing over a restore.

use super::{BoundedOutOfOrderness, Emitter, Idleness, Signal};
use crate::base::{Fix, Fixes, Millis};

/// Path B. It begins at 0, not at the least watermark, so that event times before 1970 never advance it.
#[derive(Clone, Copy, Debug)]
pub struct SqlAssigner {
    delay: i64,
    /// `pipeline.auto-watermark-interval`; 0 is off.
    interval: i64,
    /// `table.exec.source.idle-timeout`; 0 is off.
    idle_timeout: i64,
    current: i64,
    last: i64,
    /// When its timer last looked for a watermark, and when it last found new rows.
    emitted_at: i64,
    heard_at: i64,
    /// Rows came since it looked.
    heard: bool,
    idle: bool,
    timer: Option<i64>,
    fixes: Fixes,
}
impl SqlAssigner {
    /// `WATERMARK FOR ts AS ts - delay`.
    pub const fn new(delay: Millis, interval: Millis, idle_timeout: Option<Millis>, fixes: Fixes) -> Self {
        let idle_timeout = match idle_timeout {
            Some(timeout) => timeout.0,
            None => 0,
        };
        Self {
            delay: delay.0,
            interval: interval.0,
            idle_timeout,
            current: 0,
            last: 0,
            emitted_at: 0,
            heard_at: 0,
            // The first look finds what it has never looked at.
            heard: true,
            idle: false,
            timer: None,
            fixes,
        }
    }
    /// How often its timer looks: one timer for watermarks and idleness, a fifth of the shorter where they are near each other.
    fn every(&self) -> Option<i64> {
        let (shorter, longer) = (self.interval.min(self.idle_timeout), self.interval.max(self.idle_timeout));
        match (shorter, longer) {
            (_, ..=0) => None,
            (..=0, only) => Some(only),
            _ if shorter * 5 < longer => Some(shorter),
            _ => Some((shorter / 5).max(1)),
        }
    }
    /// Its operator is open.
    pub fn open(&mut self, now: Millis) {
        (self.emitted_at, self.heard_at) = (now.0, now.0);
        self.timer = self.every().map(|every| now.0 + every);
    }
    /// When its timer looks next.
    pub fn deadline(&self) -> Option<Millis> {
        self.timer.map(Millis)
    }
    /// A row: what goes before it, and what behind it. One that is further ahead of the last watermark than the interval
    /// brings one at once.
    pub fn row(&mut self, timestamp: i64, now: Millis) -> [Option<Signal>; 2] {
        let woken = self.idle_timeout > 0 && std::mem::replace(&mut self.idle, false);
        if self.fixes.has(Fix::AssignerHearsRows) {
            self.heard = true;
        } else if woken {
            self.heard_at = now.0;
        }
        self.current = self.current.max(timestamp - self.delay);
        let eager = self.current - self.last > self.interval;
        [woken.then_some(Signal::Active), if eager { self.advance() } else { None }]
    }
    /// Its timer, if it is due. `clock`, by which it is idle, stands while the task is held up (FLINK-35886).
    pub fn timer(&mut self, now: Millis, clock: Millis, out: &mut Vec<Signal>) {
        if self.timer.is_none_or(|at| at > now.0) {
            return;
        }
        if self.interval > 0 && self.emitted_at + self.interval <= now.0 {
            self.emitted_at = now.0;
            out.extend(self.advance());
        }
        let hears = self.fixes.has(Fix::AssignerHearsRows);
        if hears && std::mem::replace(&mut self.heard, false) {
            self.heard_at = clock.0;
        }
        if self.idle_timeout > 0 && !self.idle && self.heard_at + self.idle_timeout <= clock.0 {
            self.idle = true;
            out.push(Signal::Idle);
        }
        self.timer = self.every().map(|every| now.0 + every);
    }
    /// The periodic emission.
    pub fn advance(&mut self) -> Option<Signal> {
        (self.current > self.last).then(|| {
            self.last = self.current;
            Signal::Watermark(self.current)
        })
    }
    /// A signal from above: statuses go through, of watermarks only the end of time.
    pub fn signal(&mut self, signal: Signal) -> [Option<Signal>; 2] {
        match signal {
            Signal::Watermark(i64::MAX) if self.current != i64::MAX => {
                self.current = i64::MAX;
                let woken = self.idle_timeout > 0 && std::mem::replace(&mut self.idle, false);
                [woken.then_some(Signal::Active), Some(signal)]
            }
            Signal::Watermark(_) => [None, None],
            Signal::Idle | Signal::Active => {
                self.idle = signal == Signal::Idle;
                [Some(signal), None]
            }
        }
    }
}

/// Path C: the generator of bounded out-of-orderness behind an operator's emitter.
#[derive(Clone, Copy, Debug)]
pub struct StreamAssigner {
    generator: BoundedOutOfOrderness,
    idleness: Option<Idleness>,
    emitter: Emitter,
    interval: i64,
    timer: Option<i64>,
}
impl StreamAssigner {
    /// `assignTimestampsAndWatermarks(forBoundedOutOfOrderness(bound).withIdleness(timeout))`.
    pub fn new(bound: Millis, interval: Millis, idle_timeout: Option<Millis>) -> Self {
        Self {
            generator: BoundedOutOfOrderness::new(bound),
            idleness: idle_timeout.map(Idleness::new),
            emitter: Emitter::default(),
            interval: interval.0,
            timer: None,
        }
    }
    /// Its operator is open.
    pub fn open(&mut self, now: Millis) {
        self.timer = (self.interval > 0).then_some(now.0 + self.interval);
    }
    /// The next periodic emission.
    pub fn deadline(&self) -> Option<Millis> {
        self.timer.map(Millis)
    }
    /// A row, after it has gone on.
    pub fn row(&mut self, timestamp: i64) {
        self.generator.event(timestamp);
        if let Some(idleness) = &mut self.idleness {
            idleness.event();
        }
    }
    /// The periodic emission, if it is due. `clock` stands while the task is held up (FLINK-35886).
    pub fn timer(&mut self, now: Millis, clock: Millis, out: &mut Vec<Signal>) {
        if self.timer.is_none_or(|at| at > now.0) {
            return;
        }
        let generator = self.generator;
        let signal = match &mut self.idleness {
            Some(idleness) => idleness.periodic(clock, || generator.periodic()),
            None => Some(generator.periodic()),
        };
        out.extend(signal.into_iter().flat_map(|s| self.emitter.signal(s)).flatten());
        self.timer = Some(now.0 + self.interval);
    }
    /// A signal from above: nothing but the end of time.
    pub fn signal(&mut self, signal: Signal) -> [Option<Signal>; 2] {
        match signal {
            Signal::Watermark(i64::MAX) => self.emitter.signal(signal),
            _ => [None, None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flink::timers::NO_WATERMARK;

    fn sql(interval: i64, idle: Option<i64>, fixes: Fixes) -> SqlAssigner {
        let mut assigner = SqlAssigner::new(Millis(5000), Millis(interval), idle.map(Millis), fixes);
        assigner.open(Millis(10_000));
        assigner
    }
    fn look(assigner: &mut SqlAssigner, now: i64) -> Vec<Signal> {
        let mut out = Vec::new();
        assigner.timer(Millis(now), Millis(now), &mut out);
        out
    }

    #[test]
    fn the_same_bound_is_one_millisecond_later_in_sql() {
        let mut stream = BoundedOutOfOrderness::new(Millis(5000));
        assert_eq!(stream.periodic(), Signal::Watermark(NO_WATERMARK));
        stream.event(12_000);
        assert_eq!(stream.periodic(), Signal::Watermark(6999));
        let of_row = sql(0, None, Fixes::ALL).row(12_000, Millis(10_000));
        assert_eq!(of_row, [None, Some(Signal::Watermark(7000))]);
    }

    #[test]
    fn a_row_far_ahead_brings_a_watermark_at_once_another_the_timer() {
        let mut assigner = sql(200, None, Fixes::ALL);
        assert_eq!(assigner.row(5_200, Millis(10_001)), [None, None], "200 ms ahead of 0, not more");
        assert_eq!(assigner.deadline(), Some(Millis(10_200)));
        assert_eq!(look(&mut assigner, 10_199), []);
        assert_eq!(look(&mut assigner, 10_203), [Signal::Watermark(200)]);
        assert_eq!(assigner.deadline(), Some(Millis(10_403)));
        assert_eq!(assigner.row(5_401, Millis(10_300)), [None, Some(Signal::Watermark(401))]);
        assert_eq!(assigner.row(1, Millis(10_301)), [None, None]);
    }

    #[test]
    fn one_timer_looks_for_both_and_a_row_wakes_before_it_goes_on() {
        for (interval, idle, every) in [(200, 60_000, 200), (200, 1000, 40), (200, 1001, 200), (0, 700, 700), (3, 4, 1)]
        {
            let assigner = sql(interval, Some(idle), Fixes::ALL);
            assert_eq!(assigner.deadline(), Some(Millis(10_000 + every)), "{interval} {idle}");
        }
        let mut assigner = sql(200, Some(2_000), Fixes::ALL);
        assigner.row(7_000, Millis(10_100));
        look(&mut assigner, 10_200);
        assert_eq!(look(&mut assigner, 12_199), []);
        assert_eq!(look(&mut assigner, 12_399), [Signal::Idle]);
        assert_eq!(assigner.row(7_100, Millis(12_400)), [Some(Signal::Active), None]);
    }

    #[test]
    fn rows_without_a_pause_are_no_idleness() {
        let idles = |fixes| {
            let mut assigner = sql(200, Some(2_000), fixes);
            let mut idles = 0;
            for now in (10_100..20_000).step_by(100) {
                assigner.row(now, Millis(now));
                idles += look(&mut assigner, now).iter().filter(|s| **s == Signal::Idle).count();
            }
            idles
        };
        assert_eq!(idles(Fixes::ALL), 0);
        assert_eq!(idles(Fixes::ALL.without(Fix::AssignerHearsRows)), 4);
    }

    #[test]
    fn of_what_comes_from_above_the_end_of_time_goes_on() {
        let mut assigner = sql(200, None, Fixes::ALL);
        assert_eq!(assigner.signal(Signal::Watermark(9_000)), [None, None]);
        assert_eq!(assigner.signal(Signal::Idle), [Some(Signal::Idle), None]);
        assert_eq!(assigner.signal(Signal::Watermark(i64::MAX)), [None, Some(Signal::Watermark(i64::MAX))]);
        let mut assigner = StreamAssigner::new(Millis(10), Millis(200), None);
        assert_eq!(assigner.signal(Signal::Idle), [None, None]);
        assert_eq!(assigner.signal(Signal::Watermark(i64::MAX)), [None, Some(Signal::Watermark(i64::MAX))]);
    }

    #[test]
    fn behind_a_stream_the_timer_alone_emits() {
        let mut assigner = StreamAssigner::new(Millis(10), Millis(200), Some(Millis(500)));
        assigner.open(Millis(1_000));
        assigner.row(100);
        let mut at = |now: i64| {
            let mut out = Vec::new();
            assigner.timer(Millis(now), Millis(now), &mut out);
            out
        };
        assert_eq!(at(1_200), [Signal::Watermark(89)]);
        assert_eq!((at(1_400), at(1_600), at(1_800)), (vec![], vec![], vec![]));
        assert_eq!(at(2_000), [Signal::Idle]);
    }
}
