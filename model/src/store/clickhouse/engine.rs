//! What a merge makes of rows with one key (stores 1.7).

use super::column::Column;
use super::partition::{MOST, PartitionBy, PartitionId, partition_id};
use crate::base::{Feed, Row};
use std::cmp::Ordering;

/// The engine of a table of `R`.
pub trait Engine<R> {
    /// Whether merges change rows; then `optimize_on_insert` does too, inside each block.
    fn merges(&self) -> bool;
    /// ORDER BY, which is also the key of a collapse.
    fn order(&self, a: &R, b: &R) -> Ordering;
    /// Sorts by it; equal ones stay in the order in which they are.
    fn sort(&self, rows: &mut Vec<R>) {
        rows.sort_by(|a, b| self.order(a, b));
    }
    /// What stays of rows that are sorted by key and, within one, by age.
    fn collapse(&self, rows: Vec<R>) -> Vec<R>;
    /// Whether FINAL shows what stayed.
    fn shows(&self, row: &R) -> bool {
        let _ = row;
        true
    }
    /// Values of PARTITION BY.
    fn partition(&self, row: &R) -> [i64; MOST] {
        let _ = row;
        [0; MOST]
    }
    /// The id of that partition.
    fn partition_id(&self, values: [i64; MOST]) -> PartitionId {
        partition_id(&[], values)
    }
}

/// A row that can be told from another by its content.
pub(super) trait Stored: Clone + Feed {}
impl<R: Clone + Feed> Stored for R {}

/// Engines of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// `MergeTree`: rows stay what they are.
    MergeTree,
    /// `ReplacingMergeTree(version, is_deleted)`: the greatest version of a key stays, among equals the last, without a version
    /// the last (R1, R2).
    Replacing {
        /// Version column.
        version: Option<Column>,
        /// `is_deleted` column: such a row stays in merges and hides its key under FINAL (R10).
        deleted: Option<Column>,
    },
}

/// A table of records.
#[derive(Clone, Debug)]
pub struct RowEngine {
    /// Its engine.
    pub kind: RowKind,
    /// ORDER BY.
    pub order_by: Vec<Column>,
    /// PARTITION BY: at most three expressions.
    pub partition_by: Vec<PartitionBy>,
}

impl Engine<Row> for RowEngine {
    fn merges(&self) -> bool {
        self.kind != RowKind::MergeTree
    }
    fn order(&self, a: &Row, b: &Row) -> Ordering {
        self.order_by.iter().map(|c| c.of(a).cmp(&c.of(b))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }
    fn sort(&self, rows: &mut Vec<Row>) {
        match self.order_by[..] {
            [] => {}
            [a] => sort_by_key(rows, |row| [a.of(row)]),
            [a, b] => sort_by_key(rows, |row| [a.of(row), b.of(row)]),
            [a, b, c] => sort_by_key(rows, |row| [a.of(row), b.of(row), c.of(row)]),
            _ => rows.sort_by(|a, b| self.order(a, b)),
        }
    }
    fn collapse(&self, rows: Vec<Row>) -> Vec<Row> {
        let RowKind::Replacing { version, .. } = self.kind else { return rows };
        let mut out: Vec<Row> = Vec::with_capacity(rows.len());
        for row in rows {
            match out.last_mut() {
                Some(last) if self.order(last, &row).is_eq() => {
                    if version.is_none_or(|v| v.of(&row) >= v.of(last)) {
                        *last = row;
                    }
                }
                _ => out.push(row),
            }
        }
        out
    }
    fn shows(&self, row: &Row) -> bool {
        match self.kind {
            RowKind::Replacing { deleted: Some(deleted), .. } => deleted.of(row) == 0,
            _ => true,
        }
    }
    fn partition(&self, row: &Row) -> [i64; MOST] {
        let mut values = [0; MOST];
        for (value, by) in values.iter_mut().zip(&self.partition_by) {
            *value = by.value(row);
        }
        values
    }
    fn partition_id(&self, values: [i64; MOST]) -> PartitionId {
        partition_id(&self.partition_by, values)
    }
}

/// A stable sort that moves keys and places, and each row but once: a row is large, and its columns are looked up by kind.
fn sort_by_key<const N: usize>(rows: &mut Vec<Row>, key: impl Fn(&Row) -> [i64; N]) {
    let mut places: Vec<([i64; N], u32)> = rows.iter().map(key).zip(0..).collect();
    if !places.is_sorted() {
        places.sort();
        *rows = places.into_iter().map(|(_, at)| rows[at as usize]).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Ghost;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_sorted_by_all_columns_and_equal_ones_stay_in_order(
            values in proptest::collection::vec(proptest::array::uniform4(0i64..4), 0..60),
            columns in 0usize..5,
        ) {
            let order_by = [2, 0, 3, 1].map(Column::Value)[..columns].to_vec();
            let engine = RowEngine { kind: RowKind::MergeTree, order_by, partition_by: Vec::new() };
            let row = |(cols, n)| Row { cols, ghost: Ghost::new(n), ..Row::default() };
            let mut rows: Vec<Row> = values.into_iter().zip(0..).map(row).collect();
            let mut by_order = rows.clone();
            by_order.sort_by(|a, b| engine.order(a, b));
            engine.sort(&mut rows);
            prop_assert_eq!(rows, by_order);
        }
    }
}
