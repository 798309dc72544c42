//! The aggregate over SQL's `SESSION` table function (`WindowAggOperator` with the unslice processor). Its watermark is
//! restored, but lateness is judged by the timers' (flink.md 5.3).

use super::{Accumulator, Assigner, Late, Pane, WindowOperator, WindowState};
use crate::base::{Fix, Fixes};
use crate::flink::timers::NO_WATERMARK;

/// One subtask.
#[derive(Clone, Debug)]
pub struct SessionAggregate<K, A> {
    sessions: WindowOperator<K, A>,
    watermark: i64,
}
impl<K: Ord + Clone, A: Accumulator> SessionAggregate<K, A> {
    /// One that starts fresh.
    pub fn new(gap: i64, fixes: Fixes) -> Self {
        Self { sessions: WindowOperator::new(Assigner::Session { gap }, 0, fixes), watermark: NO_WATERMARK }
    }
    /// One restored from the snapshots of its predecessors.
    pub fn restore<'a>(
        gap: i64,
        states: impl IntoIterator<Item = &'a (WindowState<K, A>, i64), IntoIter: Clone>,
        mine: impl Fn(&K) -> bool,
        fixes: Fixes,
    ) -> Self
    where
        K: 'a,
        A: 'a,
    {
        let states = states.into_iter();
        let windows = states.clone().map(|(windows, _)| windows);
        let sessions = WindowOperator::restore(Assigner::Session { gap }, 0, windows, mine, fixes);
        let watermark = states.map(|(_, watermark)| *watermark).min();
        let watermark = watermark.filter(|_| fixes.has(Fix::WindowWatermarkRestored)).unwrap_or(NO_WATERMARK);
        Self { sessions, watermark }
    }
    /// The snapshot: sessions, and the watermark as union list state.
    pub fn snapshot(&self) -> (WindowState<K, A>, i64) {
        (self.sessions.snapshot(), self.watermark)
    }
    /// The watermark by which it judges lateness: the timers', which is not restored.
    pub const fn clock(&self) -> i64 {
        self.sessions.clock()
    }
    /// What each open session holds.
    pub fn contents(&self) -> impl Iterator<Item = &A> {
        self.sessions.contents()
    }
    /// A row; a late one is dropped.
    pub fn row(&mut self, key: &K, timestamp: i64, value: &A::Value) -> Late {
        // Without lateness nothing fires by a row.
        self.sessions.element(key, timestamp, value, &mut Vec::new())
    }
    /// A watermark, and the one that goes on.
    pub fn watermark(&mut self, watermark: i64, out: &mut Vec<Pane<K, A>>) -> i64 {
        self.watermark = self.watermark.max(watermark);
        self.sessions.watermark(self.watermark, out);
        self.watermark
    }
}
