//! The splits of one source subtask (`WatermarkOutputMultiplexer`): rule 4.3.

use super::{Combined, Partial, Signal};
use crate::base::{Fix, Fixes};
use std::collections::{BTreeMap, BTreeSet};

/// Combines the watermarks of splits. A split holds the output from its assignment on, a restored one too (FLINK-26018,
/// FLINK-32828).
#[derive(Clone, Debug)]
pub struct Multiplexer<S> {
    splits: BTreeMap<S, Partial>,
    /// Assigned, but without a record yet: they hold nothing back (before FLINK-26018 and FLINK-32828).
    unheard: BTreeSet<S>,
    combined: Combined,
    fixes: Fixes,
}
impl<S: Ord + Clone> Multiplexer<S> {
    /// A source without splits.
    pub fn new(fixes: Fixes) -> Self {
        Self { splits: BTreeMap::new(), unheard: BTreeSet::new(), combined: Combined::default(), fixes }
    }
    /// A split is assigned, or `restored`.
    pub fn add(&mut self, split: S, restored: bool) {
        if self.fixes.has(if restored { Fix::RestoredSplitsHold } else { Fix::SplitsHoldFromAssignment }) {
            self.splits.entry(split).or_default();
        } else {
            self.unheard.insert(split);
        }
    }
    fn part(&mut self, split: &S) -> Option<&mut Partial> {
        if let Some(split) = self.unheard.take(split) {
            self.splits.entry(split).or_default();
        }
        self.splits.get_mut(split)
    }
    /// It is taken away. Its going is felt at the next update.
    pub fn remove(&mut self, split: &S) {
        self.splits.remove(split);
        self.unheard.remove(split);
    }
    /// A watermark that acts at once.
    pub fn watermark(&mut self, split: &S, watermark: i64) -> Option<Signal> {
        let advances = self.part(split)?.set_watermark(watermark);
        if advances { self.update() } else { None }
    }
    /// A watermark that acts at the next periodic emission.
    pub fn defer(&mut self, split: &S, watermark: i64) {
        if let Some(part) = self.part(split) {
            part.set_watermark(watermark);
        }
    }
    /// An idleness that acts at the next periodic emission.
    pub fn defer_idle(&mut self, split: &S) {
        if let Some(part) = self.part(split) {
            part.set_idle(true);
        }
    }
    /// A split declares itself idle or active.
    pub fn status(&mut self, split: &S, idle: bool) -> Option<Signal> {
        self.part(split)?.set_idle(idle);
        self.update()
    }
    /// The periodic emission, and what every change at once ends with.
    pub fn update(&mut self) -> Option<Signal> {
        let least = self.fixes.has(Fix::LeastSplitCounts);
        match self.combined.update_by(self.splits.values(), if least { Ord::min } else { Ord::max }) {
            Some(watermark) => Some(Signal::Watermark(watermark)),
            None => self.combined.idle().then_some(Signal::Idle),
        }
    }
}
