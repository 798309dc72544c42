//! The minimum over parts that are not idle (`CombinedWatermarkStatus`, `IndexedCombinedWatermarkStatus`).

use super::Signal;
use crate::flink::timers::NO_WATERMARK;

/// One part: an input of an operator, a split of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    watermark: i64,
    idle: bool,
}
impl Default for Partial {
    fn default() -> Self {
        Self { watermark: NO_WATERMARK, idle: false }
    }
}
impl Partial {
    /// A watermark of the part: it is active with it, whatever its value. True if it advances.
    pub fn set_watermark(&mut self, watermark: i64) -> bool {
        self.idle = false;
        let advances = watermark > self.watermark;
        self.watermark = self.watermark.max(watermark);
        advances
    }
    /// The part declares itself idle or active.
    pub const fn set_idle(&mut self, idle: bool) {
        self.idle = idle;
    }
    /// Its watermark.
    pub const fn watermark(&self) -> i64 {
        self.watermark
    }
}

/// What the parts come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combined {
    watermark: i64,
    idle: bool,
}
impl Default for Combined {
    fn default() -> Self {
        Self { watermark: NO_WATERMARK, idle: false }
    }
}
impl Combined {
    /// Combines again: the new watermark if it advances. With all parts idle the value is kept (before 2.2: FLINK-38454).
    pub fn update<'a>(&mut self, parts: impl IntoIterator<Item = &'a Partial>) -> Option<i64> {
        self.update_by(parts, Ord::min)
    }
    /// The same, with another rule of which of two counts.
    pub(super) fn update_by<'a>(
        &mut self,
        parts: impl IntoIterator<Item = &'a Partial>,
        counts: fn(i64, i64) -> i64,
    ) -> Option<i64> {
        let mut parts = parts.into_iter().peekable();
        parts.peek()?;
        let of_all = parts.filter(|p| !p.idle).map(|p| p.watermark).reduce(counts);
        self.idle = of_all.is_none();
        let advanced = of_all.filter(|w| *w > self.watermark)?;
        self.watermark = advanced;
        Some(advanced)
    }
    /// Whether all parts were idle.
    pub const fn idle(&self) -> bool {
        self.idle
    }
}

/// The inputs of an operator that has several: connect, join (`AbstractStreamOperator`). Union is more channels of one
/// [`Valve`](super::Valve) instead.
#[derive(Clone, Debug)]
pub struct Inputs {
    parts: Vec<Partial>,
    combined: Combined,
}
impl Inputs {
    /// An operator with so many inputs.
    pub fn new(inputs: usize) -> Self {
        Self { parts: vec![Partial::default(); inputs], combined: Combined::default() }
    }
    /// A watermark of an input: that of the operator, if it advances. No status goes on with it.
    pub fn watermark(&mut self, input: usize, watermark: i64) -> Option<Signal> {
        self.parts[input].set_watermark(watermark);
        self.combined.update(&self.parts).map(Signal::Watermark)
    }
    /// A status of an input: what goes on, the watermark first.
    pub fn status(&mut self, input: usize, idle: bool) -> [Option<Signal>; 2] {
        let before = self.combined.idle();
        self.parts[input].set_idle(idle);
        let watermark = self.combined.update(&self.parts).map(Signal::Watermark);
        let changed = before != self.combined.idle();
        [watermark, changed.then_some(if idle { Signal::Idle } else { Signal::Active })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_back_from_idle_counts_at_once_and_the_output_does_not_recede() {
        let mut inputs = Inputs::new(2);
        assert_eq!(inputs.watermark(0, 10), None);
        assert_eq!(inputs.status(1, true), [Some(Signal::Watermark(10)), None]);
        assert_eq!(inputs.watermark(1, 4), None);
        assert_eq!(inputs.watermark(0, 20), None);
        assert_eq!(inputs.watermark(1, 12), Some(Signal::Watermark(12)));
    }
}
