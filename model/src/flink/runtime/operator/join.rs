//! The keyed join of two kinds of rows ([`JoinConfig`]).

use super::config::{Expr, JoinConfig};
use super::keyed::{KeyGroups, KeyedState, OfKeys};
use crate::base::{Chain, Feed, Row};
use crate::flink::timers::{TimerState, Timers};
use std::collections::BTreeMap;

/// A row that waits for one of the other kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    left: bool,
    row: Row,
}

/// What a snapshot keeps: waiting rows and their timers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinState {
    waiting: Vec<(i64, Waiting)>,
    timers: TimerState<i64>,
}
impl JoinState {
    pub(super) fn bytes(&self) -> u32 {
        self.waiting.iter().map(|(_, w)| 12 + w.row.bytes).sum::<u32>() + 24 * self.timers.event.len() as u32
    }
}
impl Feed for JoinState {
    fn feed(&self, chain: &mut Chain) {
        for (key, waiting) in &self.waiting {
            chain.i64(*key);
            waiting.left.feed(chain);
            waiting.row.feed(chain);
        }
    }
}

/// One subtask of the operator.
#[derive(Clone, Debug)]
pub struct Join {
    config: JoinConfig,
    groups: KeyGroups,
    /// By key. There is never one of each kind: they would be a pair.
    waiting: BTreeMap<i64, Waiting>,
    timers: Timers<i64>,
}

impl Join {
    pub(super) fn new(config: &JoinConfig, groups: KeyGroups, restored: &[&JoinState]) -> Self {
        let own = |key: i64| groups.own(&config.key, key);
        let timers = Timers::restore(restored.iter().map(|s| &s.timers), |key| own(*key));
        let waiting = restored.iter().flat_map(|s| &s.waiting).filter(|(key, _)| own(*key)).copied().collect();
        Self { config: config.clone(), groups, waiting, timers }
    }
    pub(super) fn rows(&mut self, rows: &[Row], out: &mut Vec<Row>) {
        for row in rows {
            let left = self.config.left.holds(&row.cols);
            if left || self.config.right.holds(&row.cols) {
                out.extend(self.row(left, row));
            }
        }
    }
    fn row(&mut self, left: bool, row: &Row) -> Option<Row> {
        let key = row.cols[self.config.key.column()];
        match self.waiting.get(&key) {
            // The first of its kind stays.
            Some(there) if there.left == left => None,
            Some(there) => {
                let other = there.row;
                self.waiting.remove(&key);
                self.timers.delete_event(key, other.time.0 + self.config.ttl.0);
                Some(if left { self.pair(row, &other) } else { self.pair(&other, row) })
            }
            None => {
                self.waiting.insert(key, Waiting { left, row: *row });
                // One that is in the past fires with the next watermark.
                self.timers.register_event(key, row.time.0 + self.config.ttl.0);
                None
            }
        }
    }
    fn pair(&self, left: &Row, right: &Row) -> Row {
        Row { cols: self.config.columns.map(|e| e.of(left, right)), ..*right }
    }
    pub(super) fn watermark(&mut self, watermark: i64) {
        self.timers.advance(watermark);
        while let Some((_, key)) = self.timers.pop_event() {
            self.waiting.remove(&key);
        }
    }
    pub(super) const fn clock(&self) -> i64 {
        self.timers.watermark()
    }
    pub(super) fn snapshot(&self) -> KeyedState {
        let waiting = self.waiting.iter().map(|(key, waiting)| (*key, *waiting)).collect();
        KeyedState::new(self.groups, OfKeys::Join(JoinState { waiting, timers: self.timers.snapshot() }))
    }
}

impl Expr {
    /// Its value; `right` is the row where there is but one.
    pub const fn of(self, left: &Row, right: &Row) -> i64 {
        match self {
            Self::Column(column) => right.cols[column as usize],
            Self::Left(column) => left.cols[column as usize],
            Self::Time => right.time.0,
            Self::Key => right.key as i64,
            Self::Constant(value) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::graph::KeyColumn;
    use super::super::config::{Comparison, Condition};
    use super::*;
    use crate::base::{EventTime, Ghost, Millis};

    fn config() -> JoinConfig {
        let kind = |value| Condition { column: 1, comparison: Comparison::Equal, value };
        let columns = [Expr::Column(0), Expr::Left(2), Expr::Column(2), Expr::Time];
        JoinConfig { key: KeyColumn::Long(0), left: kind(0), right: kind(1), columns, ttl: Millis(100) }
    }
    fn row(key: i64, kind: i64, value: i64, time: i64) -> Row {
        let ghost = Ghost::new(value as u32);
        Row { ghost, cols: [key, kind, value, 0], time: EventTime(time), bytes: 50, ..Row::default() }
    }
    fn give(join: &mut Join, rows: &[Row]) -> Vec<Row> {
        let mut out = Vec::new();
        join.rows(rows, &mut out);
        out
    }
    const ALL: KeyGroups = KeyGroups::new(0, 1, 128);

    #[test]
    fn the_first_of_each_kind_make_a_pair_once_in_either_order() {
        let mut join = Join::new(&config(), ALL, &[]);
        let out = give(
            &mut join,
            &[row(7, 0, 1, 10), row(7, 0, 2, 11), row(7, 2, 9, 11), row(7, 1, 3, 20), row(7, 1, 4, 21)],
        );
        assert_eq!(out.iter().map(|r| (r.cols, r.ghost)).collect::<Vec<_>>(), [([7, 1, 3, 20], Ghost::new(3))]);
        let out = give(&mut join, &[row(7, 0, 5, 30)]);
        assert_eq!((out[0].cols, out[0].time), ([7, 5, 4, 21], EventTime(21)));
    }

    #[test]
    fn who_waits_too_long_goes_and_a_late_one_waits_for_the_next_watermark() {
        let mut join = Join::new(&config(), ALL, &[]);
        give(&mut join, &[row(1, 0, 1, 10)]);
        join.watermark(109);
        assert_eq!(give(&mut join, &[row(1, 1, 2, 20)]).len(), 1);
        give(&mut join, &[row(2, 0, 3, 10), row(3, 0, 4, 0)]);
        join.watermark(110);
        assert!(give(&mut join, &[row(2, 1, 5, 20), row(3, 1, 6, 20)]).is_empty());
        // The pair has taken its timer along: the next of that key lives its own time.
        give(&mut join, &[row(4, 0, 7, 60), row(4, 1, 8, 61), row(4, 0, 9, 100)]);
        join.watermark(160);
        assert_eq!(give(&mut join, &[row(4, 1, 10, 102)]).len(), 1);
    }

    #[test]
    fn a_restore_at_another_parallelism_finds_rows_and_timers() {
        let mut join = Join::new(&config(), ALL, &[]);
        give(&mut join, &(0..100).map(|k| row(k, 0, k, k)).collect::<Vec<_>>());
        let OfKeys::Join(state) = join.snapshot().of else { panic!() };
        let mut pairs = 0;
        for subtask in 0..3 {
            let groups = KeyGroups::new(subtask, 3, 128);
            let mut part = Join::new(&config(), groups, &[&state]);
            part.watermark(149);
            pairs += give(&mut part, &(0..100).map(|k| row(k, 1, k, 200)).collect::<Vec<_>>()).len();
        }
        assert_eq!(pairs, 50);
    }
}
