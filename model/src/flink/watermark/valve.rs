//! The channels of one input (`StatusWatermarkValve`): rule 4.8.

use super::Signal;
use crate::base::{Fix, Fixes};
use crate::flink::timers::NO_WATERMARK;

#[derive(Clone, Copy, Debug)]
struct Channel {
    watermark: i64,
    active: bool,
    /// Whether it takes part in the minimum: active, and not behind the output since it came back.
    aligned: bool,
}

/// Combines the watermarks and statuses of an input's channels. Every incarnation starts afresh.
#[derive(Clone, Debug)]
pub struct Valve {
    channels: Vec<Channel>,
    last: i64,
    active: bool,
    fixes: Fixes,
}

impl Valve {
    /// An input with so many channels.
    pub fn new(channels: usize, fixes: Fixes) -> Self {
        let channel = Channel { watermark: NO_WATERMARK, active: true, aligned: true };
        Self { channels: vec![channel; channels], last: NO_WATERMARK, active: true, fixes }
    }
    /// A watermark of a channel. One of an idle channel, or while the input is idle, is ignored.
    pub fn watermark(&mut self, channel: usize, watermark: i64) -> Option<Signal> {
        let c = &mut self.channels[channel];
        if !self.active || !c.active || watermark <= c.watermark {
            return None;
        }
        c.watermark = watermark;
        c.aligned |= watermark >= self.last;
        self.emit_minimum()
    }
    /// A status of a channel: what goes on, the watermark first.
    pub fn status(&mut self, channel: usize, active: bool) -> [Option<Signal>; 2] {
        let last = self.last;
        let c = &mut self.channels[channel];
        if c.active == active {
            return [None, None];
        }
        c.active = active;
        let held_output = c.watermark == last;
        if active {
            c.aligned = c.watermark >= last;
            let back = !std::mem::replace(&mut self.active, true);
            return [None, back.then_some(Signal::Active)];
        }
        c.aligned = false;
        if self.channels.iter().any(|c| c.active) {
            return [if held_output { self.emit_minimum() } else { None }, None];
        }
        self.active = false;
        // Nothing holds the output any longer: whoever was ahead is right (FLINK-7728).
        let yields = held_output && self.fixes.has(Fix::LastIdleYields);
        let greatest = self.channels.iter().map(|c| c.watermark).max().filter(|_| yields);
        [greatest.and_then(|w| self.emit(w)), Some(Signal::Idle)]
    }
    fn emit_minimum(&mut self) -> Option<Signal> {
        let least = self.channels.iter().filter(|c| c.aligned).map(|c| c.watermark).min()?;
        self.emit(least)
    }
    fn emit(&mut self, watermark: i64) -> Option<Signal> {
        (watermark > self.last).then(|| {
            self.last = watermark;
            Signal::Watermark(watermark)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_all_are_idle_the_furthest_is_right_whoever_went_last() {
        let ends = |order: [usize; 2], fixes| {
            let mut valve = Valve::new(2, fixes);
            valve.watermark(0, 5);
            valve.watermark(1, 4);
            let signals = order.map(|channel| valve.status(channel, false));
            let all = signals.into_iter().flatten().flatten();
            all.filter_map(|s| if let Signal::Watermark(w) = s { Some(w) } else { None }).next_back()
        };
        assert_eq!((ends([1, 0], Fixes::ALL), ends([0, 1], Fixes::ALL)), (Some(5), Some(5)));
        let old = Fixes::ALL.without(Fix::LastIdleYields);
        assert_eq!((ends([1, 0], old), ends([0, 1], old)), (Some(5), None));
    }

    #[test]
    fn a_channel_back_from_idle_must_catch_up_before_it_counts() {
        let mut valve = Valve::new(2, Fixes::ALL);
        valve.watermark(0, 10);
        assert_eq!(valve.watermark(1, 5), Some(Signal::Watermark(5)));
        assert_eq!(valve.status(1, false), [Some(Signal::Watermark(10)), None]);
        valve.status(1, true);
        assert_eq!(valve.watermark(1, 7), None);
        assert_eq!(valve.watermark(0, 11), Some(Signal::Watermark(11)));
    }
}
