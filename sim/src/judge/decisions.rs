//! At which watermark of its own each operator that judges by event time took each row.

use model::base::{Decision, Ghost};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An operator: job, vertex, place in the chain.
pub type OperatorAt = (u16, u16, u16);

/// A watermark, and the rows that were taken at it.
type Taken = (i64, Arc<[Ghost]>);

/// What operators have decided, in order. After a restore rows come again: every decision is kept.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    of: BTreeMap<OperatorAt, Vec<Taken>>,
}
impl Decisions {
    /// Rows were taken.
    pub fn add(&mut self, decision: &Decision) {
        let at = (decision.job, decision.vertex, decision.operator);
        self.of.entry(at).or_default().push((decision.watermark, Arc::clone(&decision.rows)));
    }
    /// The watermarks at which an operator took each row, in order; the least if it had none.
    pub fn of(&self, at: OperatorAt) -> impl Iterator<Item = (Ghost, Vec<i64>)> {
        let mut all: BTreeMap<u32, (Ghost, Vec<i64>)> = BTreeMap::new();
        for (watermark, rows) in self.of.get(&at).into_iter().flatten() {
            for ghost in rows.iter() {
                all.entry(ghost.open()).or_insert((*ghost, Vec::new())).1.push(*watermark);
            }
        }
        all.into_values()
    }
}
