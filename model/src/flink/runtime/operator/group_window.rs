//! The group window of SQL in a chain ([`GroupWindowConfig`]): rows in, a changelog out. Its windows, timers and lateness are
//! those of the DataStream API's operator: with `late-fire.delay` 0 the trigger is `EventTimeTriggers.AfterEndOfWindow`, which
//! fires at once for an element behind the window's end, and after a restore with the first watermark (L1).

use super::Handed;
use super::config::GroupWindowConfig;
use super::keyed::{KeyGroups, KeyedState, OfKeys};
use super::window::{Sum, Taken, firing};
use crate::base::{Fix, Fixes, Ghost, Millis, Row};
use crate::flink::operator::{Emitted, Pane, RowKind, WindowOperator, WindowState};

/// Open windows, and what each has handed on last.
pub type GroupWindowState = (WindowState<i64, Sum>, Emitted<i64, i64>);

/// The column that says what a row does, as formats of changelogs write it.
pub const OP: usize = 3;
/// A row kind as a number in [`OP`].
pub const fn op(kind: RowKind) -> i64 {
    match kind {
        RowKind::Insert => 0,
        RowKind::UpdateBefore => 1,
        RowKind::UpdateAfter => 2,
        RowKind::Delete => 3,
    }
}

/// One subtask of the operator.
#[derive(Clone, Debug)]
pub struct GroupWindow {
    config: GroupWindowConfig,
    groups: KeyGroups,
    operator: WindowOperator<i64, Sum>,
    emitted: Emitted<i64, i64>,
    panes: Vec<Pane<i64, Sum>>,
    taken: Taken,
    fixes: Fixes,
}
impl GroupWindow {
    pub(super) fn new(
        config: &GroupWindowConfig,
        groups: KeyGroups,
        restored: &[&GroupWindowState],
        fixes: Fixes,
    ) -> Self {
        let own = |key: &i64| groups.own(&config.key, *key);
        let windows = restored.iter().map(|(windows, _)| windows);
        let operator = WindowOperator::restore(config.assigner, config.lateness().0, windows, own, fixes).in_panes();
        let emitted = Emitted::restore(restored.iter().map(|(_, emitted)| emitted), own);
        Self { config: config.clone(), groups, operator, emitted, panes: Vec::new(), taken: Taken::new(fixes), fixes }
    }
    pub(super) fn rows(&mut self, rows: &[Row], out: &mut Handed) {
        for row in rows.iter() {
            if self.taken.next() {
                let value = self.config.sum.map_or(0, |column| row.cols[usize::from(column)]);
                let key = row.cols[self.config.key.column()];
                // What is late is dropped (L1).
                self.operator.element(&key, row.time.0, &(value, row.ghost), &mut self.panes);
            }
        }
        self.hand_on(out);
    }
    pub(super) fn watermark(&mut self, watermark: i64, out: &mut Handed) {
        self.operator.watermark(watermark, &mut self.panes);
        self.hand_on(out);
        self.emitted.clean(self.config.lateness().0, self.operator.clock());
    }
    fn hand_on(&mut self, out: &mut Handed) {
        for pane in self.panes.drain(..) {
            let value = if self.config.sum.is_some() { pane.content.sum } else { pane.content.count };
            let changes = match self.config.late_fire {
                Some(_) => self.emitted.fire(&pane.key, pane.window, value),
                None => [Some((RowKind::Insert, value)), None],
            };
            for (kind, value) in changes.into_iter().flatten() {
                let before = kind == RowKind::UpdateBefore;
                if before && !self.fixes.has(Fix::UpdatesRetract) {
                    continue;
                }
                let mut row = firing(&pane, self.config.bytes);
                (row.cols[2], row.cols[OP]) = (value, op(kind));
                // What takes a row away is made of nothing itself.
                let members: &[Ghost] = if before { &[] } else { &pane.content.members };
                out.folds.push((out.rows.len(), members.into()));
                out.rows.push(row);
            }
        }
    }
    pub(super) const fn clock(&self) -> i64 {
        self.operator.clock()
    }
    pub(super) fn held(&self) -> Vec<Ghost> {
        self.operator.contents().flat_map(|sum| &sum.members).copied().collect()
    }
    pub(super) fn snapshot(&self) -> KeyedState {
        KeyedState::new(self.groups, OfKeys::GroupWindow((self.operator.snapshot(), self.emitted.clone())))
    }
}
impl GroupWindowConfig {
    /// For how long behind its end a window takes rows (L2): for no time without late fire.
    pub fn lateness(&self) -> Millis {
        self.late_fire.unwrap_or(Millis::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::graph::KeyColumn;
    use super::*;
    use crate::base::EventTime;
    use crate::flink::operator::Assigner;

    const ALL: KeyGroups = KeyGroups::new(0, 1, 128);
    fn window(late_fire: Option<i64>, sum: Option<u8>) -> GroupWindow {
        cut(Assigner::Tumbling { size: 10, offset: 0 }, late_fire, sum)
    }
    fn cut(assigner: Assigner, late_fire: Option<i64>, sum: Option<u8>) -> GroupWindow {
        let config =
            GroupWindowConfig { key: KeyColumn::Sql(1), assigner, late_fire: late_fire.map(Millis), sum, bytes: 60 };
        GroupWindow::new(&config, ALL, &[], Fixes::ALL)
    }
    fn row(key: i64, value: i64, time: i64) -> Row {
        Row { cols: [0, key, value, 0], time: EventTime(time), ghost: Ghost::new(time as u32), ..Row::default() }
    }
    /// Value and kind of each row, and what it is made of.
    fn changes(out: &Handed) -> Vec<(i64, i64, usize)> {
        assert_eq!(out.folds.len(), out.rows.len());
        out.rows.iter().zip(&out.folds).map(|(row, (_, members))| (row.cols[2], row.cols[OP], members.len())).collect()
    }

    #[test]
    fn a_late_element_takes_back_what_was_and_puts_in_what_is() {
        let mut window = window(Some(5), Some(2));
        let mut out = Handed::default();
        window.rows(&[row(7, 100, 5), row(7, 20, 9)], &mut out);
        window.watermark(9, &mut out);
        window.rows(&[row(7, 3, 4), row(7, 0, 2), row(8, 1, 1)], &mut out);
        // The second changes nothing; the third is the first of its key.
        assert_eq!(changes(&out), [(120, 0, 2), (120, 1, 0), (123, 2, 3), (1, 0, 1)]);
        window.watermark(14, &mut out);
        window.rows(&[row(7, 1, 4)], &mut out);
        assert_eq!(out.rows.len(), 4, "behind end and lateness it is dropped");
        assert!(out.late.is_empty());
    }

    #[test]
    fn without_late_fire_a_window_is_inserted_once_and_late_rows_are_dropped() {
        let mut window = window(None, None);
        let mut out = Handed::default();
        window.rows(&[row(7, 100, 5), row(7, 20, 9)], &mut out);
        window.watermark(9, &mut out);
        window.rows(&[row(7, 3, 4)], &mut out);
        assert_eq!(changes(&out), [(2, 0, 2)]);
        assert!(window.emitted.is_empty() && window.held().is_empty());
    }

    #[test]
    fn a_late_element_updates_each_window_that_it_is_in() {
        let mut window = cut(Assigner::Sliding { size: 10, slide: 5, offset: 0 }, Some(5), Some(2));
        let mut out = Handed::default();
        window.rows(&[row(7, 100, 7)], &mut out);
        window.watermark(14, &mut out);
        assert_eq!(changes(&out), [(100, 0, 1), (100, 0, 1)], "that of 0 to 10 and that of 5 to 15");
        // The first of them is over for good at 14: its end and five more.
        window.rows(&[row(7, 3, 6), row(7, 1, 3)], &mut out);
        assert_eq!(changes(&out)[2..], [(100, 1, 0), (103, 2, 2)]);
        assert_eq!(out.rows[3].cols[0], 15);
    }

    #[test]
    fn sessions_are_added_once_and_grow_until_then() {
        let mut window = cut(Assigner::Session { gap: 10 }, None, Some(2));
        let mut out = Handed::default();
        window.rows(&[row(7, 100, 5), row(7, 20, 14), row(8, 1, 5)], &mut out);
        window.watermark(14, &mut out);
        window.rows(&[row(8, 4, 3)], &mut out);
        window.watermark(23, &mut out);
        assert_eq!(changes(&out), [(1, 0, 1), (120, 0, 2)]);
        assert!(window.held().is_empty());
    }

    #[test]
    fn a_restored_window_knows_what_it_has_handed_on_and_fires_with_the_first_watermark() {
        let mut window = window(Some(50), None);
        let mut out = Handed::default();
        window.rows(&[row(7, 0, 5)], &mut out);
        window.watermark(9, &mut out);
        let state = window.snapshot();
        assert!(state.bytes() >= 88);
        let OfKeys::GroupWindow(state) = state.of else { panic!() };
        let mut window = GroupWindow::new(&window.config, ALL, &[&state], Fixes::ALL);
        let mut out = Handed::default();
        window.rows(&[row(7, 0, 6), row(7, 0, 7)], &mut out);
        assert!(out.rows.is_empty(), "no watermark has come");
        window.watermark(3, &mut out);
        assert!(out.rows.is_empty(), "nor one that reaches its end");
        window.watermark(9, &mut out);
        assert_eq!(changes(&out), [(1, 1, 0), (3, 2, 3)]);
        let none = GroupWindow::new(&window.config, KeyGroups::new(1, 128, 128), &[&state], Fixes::ALL);
        assert!(none.held().is_empty() && none.emitted.is_empty());
    }
}
