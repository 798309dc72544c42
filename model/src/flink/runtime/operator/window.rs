//! The window of the DataStream API in a chain ([`WindowConfig`]): rows in, firings and late rows out.

use super::Handed;
use super::config::WindowConfig;
use super::keyed::{KeyGroups, KeyedState, OfKeys};
use crate::base::{EventTime, Fix, Fixes, Ghost, Row, Span};
use crate::flink::operator::{Accumulator, Late, Pane, WindowOperator, WindowState};
use crate::kafka::client::KeyHash;

/// What a window holds: a Java `long` each, which wraps. And, for the judge, of which rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Of the column.
    pub sum: i64,
    /// Rows.
    pub count: i64,
    /// Their ghosts, in the order in which they came.
    pub members: Vec<Ghost>,
}
impl Accumulator for Sum {
    type Value = (i64, Ghost);
    fn add(&mut self, (value, ghost): &(i64, Ghost)) {
        self.sum = self.sum.wrapping_add(*value);
        self.count += 1;
        self.members.push(*ghost);
    }
    fn merge(&mut self, other: Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.count += other.count;
        // A session that grows takes over what it was.
        if self.members.is_empty() {
            self.members = other.members;
        } else {
            self.members.extend(other.members);
        }
    }
}

/// Rows that a window has been given: each is taken, but by an operator that is planted to forget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    rows: u32,
    fixes: Fixes,
}
impl Taken {
    pub(super) const fn new(fixes: Fixes) -> Self {
        Self { rows: 0, fixes }
    }
    /// Whether the next row is taken.
    pub(super) const fn next(&mut self) -> bool {
        self.rows = self.rows.wrapping_add(1);
        self.fixes.has(Fix::WindowsTakeRows) || !self.rows.is_multiple_of(100)
    }
}

/// One subtask of the operator.
#[derive(Clone, Debug)]
pub struct Window {
    config: WindowConfig,
    groups: KeyGroups,
    operator: WindowOperator<i64, Sum>,
    panes: Vec<Pane<i64, Sum>>,
    taken: Taken,
}
impl Window {
    pub(super) fn new(
        config: &WindowConfig,
        groups: KeyGroups,
        restored: &[&WindowState<i64, Sum>],
        fixes: Fixes,
    ) -> Self {
        let own = |key: &i64| groups.own(&config.key, *key);
        let states = restored.iter().copied();
        let operator = WindowOperator::restore(config.assigner, config.lateness.0, states, own, fixes);
        Self { config: config.clone(), groups, operator, panes: Vec::new(), taken: Taken::new(fixes) }
    }
    pub(super) fn rows(&mut self, rows: &[Row], out: &mut Handed) {
        for row in rows {
            if !self.taken.next() {
                continue;
            }
            let key = row.cols[self.config.key.column()];
            let value = self.config.sum.map_or(0, |column| row.cols[usize::from(column)]);
            if self.operator.element(&key, row.time.0, &(value, row.ghost), &mut self.panes) == Late(true) {
                out.late.push(*row);
            }
        }
        self.hand_on(out);
    }
    pub(super) fn watermark(&mut self, watermark: i64, out: &mut Handed) {
        self.operator.watermark(watermark, &mut self.panes);
        self.hand_on(out);
    }
    fn hand_on(&mut self, out: &mut Handed) {
        for pane in self.panes.drain(..) {
            let row = firing(&pane, self.config.bytes);
            out.folds.push((out.rows.len(), pane.content.members.into()));
            out.rows.push(row);
        }
    }
    pub(super) const fn clock(&self) -> i64 {
        self.operator.clock()
    }
    pub(super) fn held(&self) -> Vec<Ghost> {
        self.operator.contents().flat_map(|sum| &sum.members).copied().collect()
    }
    pub(super) fn snapshot(&self) -> KeyedState {
        KeyedState::new(self.groups, OfKeys::Window(self.operator.snapshot()))
    }
}

/// A firing as a row.
pub(super) fn firing(pane: &Pane<i64, Sum>, bytes: u32) -> Row {
    Row {
        ghost: Ghost::NONE,
        bytes,
        time: EventTime(pane.window.max_timestamp()),
        key: KeyHash::of(&pane.key.to_be_bytes()).pack(),
        cols: [pane.window.end, pane.key, pane.content.sum, pane.content.count],
        raw: Span::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::graph::KeyColumn;
    use super::*;
    use crate::base::Millis;
    use crate::flink::operator::Assigner;

    fn config(assigner: Assigner, lateness: i64) -> WindowConfig {
        WindowConfig { key: KeyColumn::Long(1), assigner, lateness: Millis(lateness), sum: Some(2), bytes: 60 }
    }
    fn row(key: i64, value: i64, time: i64) -> Row {
        Row { cols: [0, key, value, 0], time: EventTime(time), bytes: 50, ..Row::default() }
    }
    const ALL: KeyGroups = KeyGroups::new(0, 1, 128);
    const TUMBLING: Assigner = Assigner::Tumbling { size: 10, offset: 0 };

    #[test]
    fn a_firing_is_a_row_and_late_rows_go_aside() {
        let mut window = Window::new(&config(TUMBLING, 0), ALL, &[], Fixes::ALL);
        let mut out = Handed::default();
        window.rows(&[row(7, 100, 5), row(7, 20, 9), row(8, 3, 10)], &mut out);
        window.watermark(9, &mut out);
        assert_eq!(
            out.rows.iter().map(|r| (r.cols, r.time.0, r.bytes)).collect::<Vec<_>>(),
            [([10, 7, 120, 2], 9, 60)]
        );
        window.rows(&[row(7, 1, 4), row(7, 1, 12)], &mut out);
        assert_eq!((out.rows.len(), out.late.len(), out.late[0].time), (1, 1, EventTime(4)));
    }

    #[test]
    fn within_the_lateness_each_late_row_fires_again_with_all() {
        let mut window = Window::new(&config(TUMBLING, 5), ALL, &[], Fixes::ALL);
        let mut out = Handed::default();
        window.rows(&[row(7, 100, 5)], &mut out);
        window.watermark(9, &mut out);
        window.rows(&[row(7, 1, 4), row(7, 2, 3)], &mut out);
        window.watermark(14, &mut out);
        window.rows(&[row(7, 1, 4)], &mut out);
        assert_eq!(out.rows.iter().map(|r| r.cols[2]).collect::<Vec<_>>(), [100, 101, 103]);
        assert_eq!(out.late.len(), 1);
    }

    #[test]
    fn sessions_and_slides_restore_by_key_group() {
        for (assigner, firings) in
            [(Assigner::Session { gap: 10 }, 40), (Assigner::Sliding { size: 10, slide: 5, offset: 0 }, 120)]
        {
            let mut window = Window::new(&config(assigner, 0), ALL, &[], Fixes::ALL);
            let mut out = Handed::default();
            window.rows(&(0..40).flat_map(|k| [row(k, 1, 3), row(k, 2, 8)]).collect::<Vec<_>>(), &mut out);
            let state = window.snapshot();
            assert!(state.bytes() >= 40 * 44);
            let OfKeys::Window(state) = state.of else { panic!() };
            let mut out = Handed::default();
            for subtask in 0..3 {
                Window::new(&config(assigner, 0), KeyGroups::new(subtask, 3, 128), &[&state], Fixes::ALL)
                    .watermark(100, &mut out);
            }
            let sum: i64 = out.rows.iter().map(|r| r.cols[2]).sum();
            let times = if assigner.merging() { 1 } else { 2 };
            assert_eq!((out.rows.len(), sum), (firings, 40 * 3 * times), "{assigner:?}");
        }
    }
}
