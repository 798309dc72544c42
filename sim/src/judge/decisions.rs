//! At which watermark of its own each operator that judges by event time took each row, and in which attempt; the same of
//! writers that may write a row again.

use model::base::{Decision, Ghost, Point};
use std::collections::BTreeMap;

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
    /// The attempt of `later` began with a checkpoint that this had gone into.
    pub fn stands_in(&self, later: &Self) -> bool {
        self.attempt() != later.attempt() && later.at.restored > self.at.last
    }
}

/// What one operator has taken, in order.
#[derive(Clone, Debug, Default)]
struct Taking {
    /// Each with the end of its rows; those that were taken alike are one.
    took: Vec<(Took, usize)>,
    rows: Vec<Ghost>,
}
impl Taking {
    fn iter(&self) -> impl Iterator<Item = (Took, &[Ghost])> {
        let mut from = 0;
        self.took.iter().map(move |(took, end)| (*took, &self.rows[std::mem::replace(&mut from, *end)..*end]))
    }
}

/// What operators have decided, in order. After a restore rows come again: every decision is kept.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    of: BTreeMap<OperatorAt, Taking>,
    began: Attempts,
}
/// The checkpoint that each attempt of a job began with.
pub type Attempts = BTreeMap<(u16, u32), i64>;
impl Decisions {
    /// Attempts in which anything was taken.
    pub const fn attempts(&self) -> &Attempts {
        &self.began
    }
    /// Rows were taken.
    pub fn add(&mut self, decision: &Decision) {
        let Point { job, vertex, operator, .. } = decision.at;
        let took = Took { at: decision.at, watermark: decision.watermark };
        let of = self.of.entry((job, vertex, operator)).or_default();
        of.rows.extend_from_slice(&decision.rows);
        match of.took.last_mut() {
            Some((last, end)) if *last == took => *end = of.rows.len(),
            _ => {
                of.took.push((took, of.rows.len()));
                self.began.insert(took.attempt(), took.at.restored);
            }
        }
    }
    /// How an operator took each row that is asked for, in order.
    pub fn of(&self, at: OperatorAt, asked: impl Fn(Ghost) -> bool) -> impl Iterator<Item = (Ghost, Vec<Took>)> {
        let mut all: BTreeMap<u32, (Ghost, Vec<Took>)> = BTreeMap::new();
        for (took, rows) in self.of.get(&at).into_iter().flat_map(Taking::iter) {
            for ghost in rows.iter().filter(|ghost| asked(**ghost)) {
                all.entry(ghost.open()).or_insert((*ghost, Vec::new())).1.push(took);
            }
        }
        all.into_values()
    }
    /// Everything that these have taken, each in order.
    pub fn all(&self, at: impl IntoIterator<Item = OperatorAt>) -> impl Iterator<Item = &Took> {
        at.into_iter().filter_map(|at| self.of.get(&at)).flat_map(|of| &of.took).map(|(took, _)| took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_alike_is_one_and_each_row_keeps_how_it_was_taken() {
        let mut decisions = Decisions::default();
        let mut take = |watermark, rows: &[u32]| {
            let rows = rows.iter().map(|n| Ghost::new(*n)).collect();
            decisions.add(&Decision { at: Point::default(), watermark, rows });
        };
        take(5, &[1, 2]);
        take(5, &[3]);
        take(7, &[1]);
        let at = (0, 0, 0);
        assert_eq!(decisions.all([at]).map(|t| t.watermark).collect::<Vec<_>>(), [5, 7]);
        let of: Vec<_> = decisions.of(at, |ghost| ghost != Ghost::new(2)).collect();
        let marks = |(ghost, took): &(Ghost, Vec<Took>)| (ghost.open(), took.iter().map(|t| t.watermark).collect());
        assert_eq!(of.iter().map(marks).collect::<Vec<(u32, Vec<i64>)>>(), [(1, vec![5, 7]), (3, vec![5])]);
    }
}
