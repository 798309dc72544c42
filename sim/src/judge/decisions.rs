//! At which watermark of its own each operator that judges by event time took each row, and in which attempt; the same of
//! writers that may write a row again.

use model::base::{Decision, Ghost, Point};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An operator: job, vertex, place in the chain.
pub type OperatorAt = (u16, u16, u16);

/// A row that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// Where the job was.
    pub at: Point,
    /// The operator's watermark; the least if it had none, and of a writer.
    pub watermark: i64,
}
impl Took {
    /// Which attempt it was.
    pub const fn attempt(&self) -> (u16, u32) {
        (self.at.job, self.at.attempt)
    }
    /// The attempt of `later` began with a checkpoint that this did not go into, so that it was to be taken again.
    pub fn comes_again_in(&self, later: &Self) -> bool {
        self.attempt() != later.attempt() && later.at.restored <= self.at.last
    }
    /// The attempt of `later` began with a checkpoint that this had gone into.
    pub fn stands_in(&self, later: &Self) -> bool {
        self.attempt() != later.attempt() && later.at.restored > self.at.last
    }
}

/// Rows that were taken at once.
type Rows = Arc<[Ghost]>;

/// What operators have decided, in order. After a restore rows come again: every decision is kept.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    of: BTreeMap<OperatorAt, Vec<(Took, Rows)>>,
}
impl Decisions {
    /// Rows were taken.
    pub fn add(&mut self, decision: &Decision) {
        let Point { job, vertex, operator, .. } = decision.at;
        let took = Took { at: decision.at, watermark: decision.watermark };
        self.of.entry((job, vertex, operator)).or_default().push((took, Arc::clone(&decision.rows)));
    }
    /// How an operator took each row that is asked for, in order.
    pub fn of(&self, at: OperatorAt, asked: impl Fn(Ghost) -> bool) -> impl Iterator<Item = (Ghost, Vec<Took>)> {
        let mut all: BTreeMap<u32, (Ghost, Vec<Took>)> = BTreeMap::new();
        for (took, rows) in self.of.get(&at).into_iter().flatten() {
            for ghost in rows.iter().filter(|ghost| asked(**ghost)) {
                all.entry(ghost.open()).or_insert((*ghost, Vec::new())).1.push(*took);
            }
        }
        all.into_values()
    }
    /// Everything that these have taken, each in order.
    pub fn all(&self, at: impl IntoIterator<Item = OperatorAt>) -> impl Iterator<Item = &Took> {
        at.into_iter().filter_map(|at| self.of.get(&at)).flatten().map(|(took, _)| took)
    }
}
