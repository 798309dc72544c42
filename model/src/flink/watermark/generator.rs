//! Watermark generators (rules 4.4, 4.5). They keep nothing over a restore.

use super::Signal;
use crate::base::Millis;
use crate::flink::timers::NO_WATERMARK;

/// `BoundedOutOfOrdernessWatermarks`: a watermark says that events at it are late, so one millisecond below the bound.
#[derive(Clone, Copy, Debug)]
pub struct BoundedOutOfOrderness {
    greatest: i64,
    bound: i64,
}
impl BoundedOutOfOrderness {
    /// `forBoundedOutOfOrderness(bound)`; 0 is `forMonotonousTimestamps`.
    pub const fn new(bound: Millis) -> Self {
        // So that the first emission is the least watermark.
        Self { greatest: NO_WATERMARK + bound.0 + 1, bound: bound.0 }
    }
    /// An event.
    pub fn event(&mut self, timestamp: i64) {
        self.greatest = self.greatest.max(timestamp);
    }
    /// The periodic emission: repeats, too.
    pub const fn periodic(&self) -> Signal {
        Signal::Watermark(self.greatest - self.bound - 1)
    }
}

/// `WatermarksWithIdleness`: a generator that says so when no event comes. The time runs from the first periodic call that
/// finds no event since the one before, and must exceed the timeout.
#[derive(Clone, Copy, Debug)]
pub struct Idleness {
    timeout: Millis,
    event: bool,
    /// When the time began; a clock at 0 is taken for "not yet", as in Flink.
    since: Millis,
    idle: bool,
}
impl Idleness {
    /// `withIdleness(timeout)`.
    pub const fn new(timeout: Millis) -> Self {
        Self { timeout, event: false, since: Millis::ZERO, idle: false }
    }
    /// An event. It ends the idleness here, but nobody hears of it before the next watermark.
    pub const fn event(&mut self) {
        self.event = true;
        self.idle = false;
    }
    /// The periodic call: what `inner` emits, or that it is idle, once. `now` is a clock that stands while the task is
    /// backpressured or the split paused (FLINK-35886).
    pub fn periodic(&mut self, now: Millis, inner: impl FnOnce() -> Signal) -> Option<Signal> {
        if std::mem::replace(&mut self.event, false) {
            self.since = Millis::ZERO;
        } else if self.since == Millis::ZERO {
            self.since = now;
        } else if now - self.since > self.timeout {
            let first = !std::mem::replace(&mut self.idle, true);
            return first.then_some(Signal::Idle);
        }
        Some(inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idleness_begins_at_the_first_empty_check_and_must_exceed_the_timeout() {
        let mut idleness = Idleness::new(Millis(100));
        let inner = || Signal::Watermark(1);
        idleness.event();
        for now in [1, 150, 250] {
            assert_eq!(idleness.periodic(Millis(now), inner), Some(Signal::Watermark(1)));
        }
        assert_eq!(idleness.periodic(Millis(251), inner), Some(Signal::Idle));
        assert_eq!(idleness.periodic(Millis(252), inner), None);
    }
}
