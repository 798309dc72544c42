//! What a changelog comes to: rows that say in their last column whether they add a result or take one back.

use super::super::{Evidence, StoredTable};
use super::{Billing, Item, billing};
use model::base::Row;
use model::flink::operator::RowKind;
use model::flink::runtime::operator::{OP, op};
use std::collections::BTreeMap;

/// How a reader takes the rows of a changelog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Each row as a result of its own, whatever it says that it does.
    #[default]
    Rows,
    /// What takes a result back takes it back.
    Changelog,
    /// Results are added up, and what takes one back is passed over.
    IgnoresRetractions,
}
impl Reading {
    /// What rows come to for whoever takes them so.
    pub fn of(self, given: &[Item]) -> Vec<Item> {
        match self {
            Self::Rows => given.to_vec(),
            Self::Changelog => folded(given),
            Self::IgnoresRetractions => given.iter().filter(|item| adds(item)).map(result).collect(),
        }
    }
}

/// Whether a row puts a result in: else it takes one back.
pub fn adds(item: &Item) -> bool {
    [op(RowKind::Insert), op(RowKind::UpdateAfter)].contains(&item.cols[OP])
}
/// The result that a row is about, without what it does.
pub fn result(item: &Item) -> Item {
    let mut result = *item;
    result.cols[OP] = op(RowKind::Insert);
    result
}

/// The results that stand when each row has been taken for what it is. One that is taken back more often than it was put in
/// stands there as what takes it back, with its amount below zero.
pub fn folded(items: &[Item]) -> Vec<Item> {
    let mut times: BTreeMap<Item, i64> = BTreeMap::new();
    for item in items {
        *times.entry(result(item)).or_default() += if adds(item) { 1 } else { -1 };
    }
    let of = |(item, n): (Item, i64)| {
        let mut item = item;
        if n < 0 {
            item.cols[AMOUNT] = item.cols[AMOUNT].wrapping_neg();
            item.cols[OP] = op(RowKind::UpdateBefore);
        }
        (0..n.unsigned_abs()).map(move |_| item)
    };
    times.into_iter().flat_map(of).collect()
}
/// The column of a changelog that holds the result.
pub const AMOUNT: usize = 2;

/// Rows that stand when each has taken back what it takes back, the newest of equal ones: in order. And how many were.
pub fn standing<'a>(rows: &[&'a Row]) -> (Vec<&'a Row>, u64) {
    let mut by_result: BTreeMap<Item, Vec<usize>> = BTreeMap::new();
    let mut stands = vec![false; rows.len()];
    let mut back = 0;
    for (at, row) in rows.iter().enumerate() {
        let item = Item::of(row);
        let of = by_result.entry(result(&item)).or_default();
        if adds(&item) {
            of.push(at);
            stands[at] = true;
        } else if let Some(before) = of.pop() {
            stands[before] = false;
            back += 1;
        }
    }
    (rows.iter().zip(&stands).filter(|(_, stands)| **stands).map(|(row, _)| *row).collect(), back)
}

/// What is added up from tables that read a changelog as rows: as they stand, and as FINAL shows them.
pub(super) fn tables<'e>(
    end: &'e Evidence<'_>,
    topic: u16,
    wanted: &'e BTreeMap<Item, u64>,
) -> impl Iterator<Item = (String, Billing)> + 'e {
    let reads = move |table: &&StoredTable| table.topics == [topic];
    end.stored.iter().filter(reads).flat_map(move |table| {
        [(&table.name, &table.rows), (&table.final_name, &table.latest)].map(|(name, rows)| {
            let items: Vec<Item> = rows.iter().map(Item::of).collect();
            (name.clone(), billing(wanted, &items, AMOUNT))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::EventTime;

    fn row(value: i64, op: i64) -> Row {
        Row { time: EventTime(9), cols: [10, 7, value, op], ..Row::default() }
    }
    fn items(rows: &[Row]) -> Vec<Item> {
        rows.iter().map(Item::of).collect()
    }
    fn sum(reading: Reading, rows: &[Row]) -> (usize, i64) {
        let of = reading.of(&items(rows));
        (of.len(), of.iter().map(|item| item.cols[AMOUNT]).sum())
    }

    #[test]
    fn three_readers_add_up_three_sums() {
        let rows = [row(5, 0), row(5, 1), row(6, 2), row(6, 1), row(8, 2)];
        assert_eq!(sum(Reading::Changelog, &rows), (1, 8));
        assert_eq!(sum(Reading::IgnoresRetractions, &rows), (3, 19));
        assert_eq!(sum(Reading::Rows, &rows), (5, 30));
        assert_eq!(Reading::Changelog.of(&items(&rows)), items(&[row(8, 0)]));
        // The same update twice: what was is taken back once more than it was there.
        let twice = [row(5, 0), row(5, 1), row(6, 2), row(5, 1), row(6, 2)];
        assert_eq!(Reading::Changelog.of(&items(&twice)), items(&[row(-5, 1), row(6, 0), row(6, 0)]));
        assert_eq!(sum(Reading::Changelog, &twice), (3, 7));
    }

    #[test]
    fn a_row_that_is_taken_back_stands_no_more() {
        let rows = [row(5, 0), row(5, 1), row(6, 2), row(3, 0)];
        let all: Vec<&Row> = rows.iter().collect();
        assert_eq!(standing(&all), (vec![&rows[2], &rows[3]], 1));
        // A window that begins anew after it was forgotten: both stand. One that is not taken back: both.
        assert_eq!(standing(&[&rows[0], &rows[2]]), (vec![&rows[0], &rows[2]], 0));
        assert_eq!(standing(&[&rows[1], &rows[2]]), (vec![&rows[2]], 0));
    }
}
