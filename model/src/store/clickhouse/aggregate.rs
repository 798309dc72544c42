//! Tables of sums and of aggregate states: what views write into (stores 1.5).

use super::engine::Engine;
use crate::base::{Chain, Feed};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A row of a `SummingMergeTree`: key columns and summed columns; those that a table has not are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SumRow {
    /// ORDER BY.
    pub key: [i64; 2],
    /// Summed.
    pub sums: [i64; 2],
}
impl Feed for SumRow {
    fn feed(&self, chain: &mut Chain) {
        self.key.iter().chain(&self.sums).for_each(|n| chain.i64(*n));
    }
}

/// `SummingMergeTree`.
#[derive(Clone, Copy, Debug)]
pub struct Summing;
impl Engine<SumRow> for Summing {
    fn merges(&self) -> bool {
        true
    }
    fn order(&self, a: &SumRow, b: &SumRow) -> Ordering {
        a.key.cmp(&b.key)
    }
    /// A row whose sums are all 0 is dropped (V5b).
    fn collapse(&self, rows: Vec<SumRow>) -> Vec<SumRow> {
        let mut out: Vec<SumRow> = Vec::with_capacity(rows.len());
        for row in rows {
            match out.last_mut() {
                Some(last) if last.key == row.key => {
                    last.sums.iter_mut().zip(row.sums).for_each(|(sum, n)| *sum += n);
                }
                _ => out.push(row),
            }
        }
        out.retain(|row| row.sums != [0, 0]);
        out
    }
}

/// States of `count`, `sum`, `max`, `uniqExact` and `argMax` over records. The first two count what is inserted again; the
/// others do not mind (V3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateRow {
    /// ORDER BY.
    pub key: [i64; 2],
    /// `count()`.
    pub count: i64,
    /// `sum(amount)`.
    pub sum: i64,
    /// `max(amount)`.
    pub max: i64,
    /// `uniqExact(id)`.
    pub unique: BTreeSet<i64>,
    /// `argMax(amount, version)`: the version, and the amount of the first row that had it.
    pub greatest: (i64, i64),
}
impl AggregateRow {
    /// Another state joins.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.unique.extend(other.unique);
        if other.greatest.0 > self.greatest.0 {
            self.greatest = other.greatest;
        }
    }
}
impl Feed for AggregateRow {
    fn feed(&self, chain: &mut Chain) {
        let plain = [self.count, self.sum, self.max, self.greatest.0, self.greatest.1];
        self.key.iter().chain(&plain).chain(&self.unique).for_each(|n| chain.i64(*n));
    }
}

/// `AggregatingMergeTree`.
#[derive(Clone, Copy, Debug)]
pub struct AggregateStates;
impl Engine<AggregateRow> for AggregateStates {
    fn merges(&self) -> bool {
        true
    }
    fn order(&self, a: &AggregateRow, b: &AggregateRow) -> Ordering {
        a.key.cmp(&b.key)
    }
    fn collapse(&self, rows: Vec<AggregateRow>) -> Vec<AggregateRow> {
        let mut out: Vec<AggregateRow> = Vec::with_capacity(rows.len());
        for row in rows {
            match out.last_mut() {
                Some(last) if last.key == row.key => last.merge(row),
                _ => out.push(row),
            }
        }
        out
    }
}
