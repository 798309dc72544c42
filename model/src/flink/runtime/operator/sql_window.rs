//! The aggregate over SQL's window table functions in a chain ([`SqlWindowConfig`]): local, global or single for aligned
//! windows, single for sessions.

use super::Handed;
use super::config::{SqlWindowConfig, SqlWindows};
use super::keyed::{KeyGroups, KeyedState, OfKeys};
use super::window::{Sum, Taken, firing};
use crate::base::{EventTime, Fix, Fixes, Ghost, Row, Span};
use crate::flink::operator::{
    LocalWindowAggregate, Pane, Partial, SessionAggregate, Slices, WindowAggregate, WindowAggregateState, WindowState,
};
use crate::kafka::client::KeyHash;

/// What a snapshot keeps of aligned windows.
pub type SlicedState = WindowAggregateState<i64, Sum>;
/// What a snapshot keeps of sessions: they, and the watermark as union list state.
pub type SessionState = (WindowState<i64, Sum>, i64);

/// The key of a row, and what of it is summed up.
fn read(config: &SqlWindowConfig, row: &Row) -> (i64, (i64, Ghost)) {
    let value = config.sum.map_or(0, |column| row.cols[usize::from(column)]);
    (row.cols[config.key.column()], (value, row.ghost))
}

/// One subtask of the local aggregate: its rows are partial results, [slice_end, key, sum, count].
#[derive(Clone, Debug)]
pub struct LocalWindow {
    config: SqlWindowConfig,
    aggregate: LocalWindowAggregate<i64, Sum>,
    partials: Vec<Partial<i64, Sum>>,
    fixes: Fixes,
}
impl LocalWindow {
    pub(super) fn new(config: &SqlWindowConfig, slices: Slices, fixes: Fixes) -> Self {
        Self { config: config.clone(), aggregate: LocalWindowAggregate::new(slices), partials: Vec::new(), fixes }
    }
    pub(super) fn rows(&mut self, rows: &[Row]) {
        for row in rows {
            let (key, value) = read(&self.config, row);
            self.aggregate.row(key, row.time.0, &value);
        }
    }
    pub(super) fn watermark(&mut self, watermark: i64, out: &mut Handed) {
        if !self.fixes.has(Fix::FlushBeforeWatermark) {
            // What the watermark before has completed.
            self.hand_on(out);
            self.aggregate.watermark(watermark, &mut self.partials);
            return;
        }
        self.aggregate.watermark(watermark, &mut self.partials);
        self.hand_on(out);
    }
    pub(super) fn before_barrier(&mut self, out: &mut Handed) {
        if !self.fixes.has(Fix::LocalFlushesBeforeBarrier) {
            return;
        }
        self.aggregate.before_barrier(&mut self.partials);
        self.hand_on(out);
    }
    fn hand_on(&mut self, out: &mut Handed) {
        for Partial { key, slice, content } in self.partials.drain(..) {
            out.folds.push((out.rows.len(), content.members.into()));
            out.rows.push(Row {
                ghost: Ghost::NONE,
                bytes: self.config.bytes,
                time: EventTime(slice - 1),
                key: KeyHash::of(&key.to_be_bytes()).pack(),
                cols: [slice, key, content.sum, content.count],
                raw: Span::default(),
            });
        }
    }
    pub(super) fn held(&self) -> Vec<Ghost> {
        self.aggregate.contents().flat_map(|sum| &sum.members).copied().collect()
    }
}

#[derive(Clone, Debug)]
enum Windows {
    Sliced(WindowAggregate<i64, Sum>),
    Sessions(SessionAggregate<i64, Sum>),
}
/// One subtask of the global aggregate, or of the only one.
#[derive(Clone, Debug)]
pub struct SqlWindow {
    config: SqlWindowConfig,
    groups: KeyGroups,
    windows: Windows,
    panes: Vec<Pane<i64, Sum>>,
    taken: Taken,
}
impl SqlWindow {
    pub(super) fn new(
        config: &SqlWindowConfig,
        groups: KeyGroups,
        sliced: &[&SlicedState],
        sessions: &[&SessionState],
        fixes: Fixes,
    ) -> Self {
        let own = |key: &i64| groups.own(&config.key, *key);
        let windows = match config.windows {
            SqlWindows::Sliced(slices) => {
                Windows::Sliced(WindowAggregate::restore(slices, sliced.iter().copied(), own, fixes))
            }
            SqlWindows::Session { gap } => {
                Windows::Sessions(SessionAggregate::restore(gap, sessions.iter().copied(), own, fixes))
            }
        };
        Self { config: config.clone(), groups, windows, panes: Vec::new(), taken: Taken::new(fixes) }
    }
    /// Rows, or the partial results of local aggregates. What is late is dropped.
    pub(super) fn rows(&mut self, rows: &[Row]) {
        for row in rows {
            if !self.taken.next() {
                continue;
            }
            match &mut self.windows {
                Windows::Sliced(windows) if self.config.two_phase => {
                    let [slice, key, sum, count] = row.cols;
                    let content = Sum { sum, count, members: vec![row.ghost] };
                    windows.partial(Partial { key, slice, content });
                }
                Windows::Sliced(windows) => {
                    let (key, value) = read(&self.config, row);
                    windows.row(key, row.time.0, &value);
                }
                Windows::Sessions(windows) => {
                    let (key, value) = read(&self.config, row);
                    windows.row(&key, row.time.0, &value);
                }
            }
        }
    }
    /// A watermark; gives the one that goes on.
    pub(super) fn watermark(&mut self, watermark: i64, out: &mut Handed) -> i64 {
        let on = match &mut self.windows {
            Windows::Sliced(windows) => windows.watermark(watermark, &mut self.panes),
            Windows::Sessions(windows) => windows.watermark(watermark, &mut self.panes),
        };
        for pane in self.panes.drain(..) {
            let row = firing(&pane, self.config.bytes);
            out.folds.push((out.rows.len(), pane.content.members.into()));
            out.rows.push(row);
        }
        on
    }
    /// What lateness is judged by: the progress of aligned windows, the timers' watermark of sessions.
    pub(super) const fn clock(&self) -> i64 {
        match &self.windows {
            Windows::Sliced(windows) => windows.clock(),
            Windows::Sessions(windows) => windows.clock(),
        }
    }
    /// The watermark of its timers.
    pub(super) const fn timers(&self) -> i64 {
        match &self.windows {
            Windows::Sliced(windows) => windows.timers(),
            Windows::Sessions(windows) => windows.clock(),
        }
    }
    pub(super) fn held(&self) -> Vec<Ghost> {
        let of = |sum: &Sum| sum.members.clone();
        match &self.windows {
            Windows::Sliced(windows) => windows.contents().flat_map(of).collect(),
            Windows::Sessions(windows) => windows.contents().flat_map(of).collect(),
        }
    }
    pub(super) fn before_barrier(&mut self) {
        if let Windows::Sliced(windows) = &mut self.windows {
            windows.before_barrier();
        }
    }
    pub(super) fn snapshot(&self) -> KeyedState {
        let of = match &self.windows {
            Windows::Sliced(windows) => OfKeys::Sliced(windows.snapshot()),
            Windows::Sessions(windows) => OfKeys::Sessions(windows.snapshot()),
        };
        KeyedState::new(self.groups, of)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::graph::KeyColumn;
    use super::*;

    const TUMBLE: SqlWindows = SqlWindows::Sliced(Slices::Tumble { size: 10 });
    const ALL: KeyGroups = KeyGroups::new(0, 1, 128);

    fn config(windows: SqlWindows, two_phase: bool) -> SqlWindowConfig {
        SqlWindowConfig { key: KeyColumn::Sql(1), windows, two_phase, sum: Some(2), bytes: 60 }
    }
    fn row(key: i64, value: i64, time: i64) -> Row {
        Row { cols: [0, key, value, 0], time: EventTime(time), bytes: 50, ..Row::default() }
    }
    fn cols(out: &Handed) -> Vec<[i64; 4]> {
        out.rows.iter().map(|r| r.cols).collect()
    }

    #[test]
    fn partial_results_leave_before_a_barrier_or_with_their_watermark_and_make_a_window_together() {
        let config = config(TUMBLE, true);
        let mut local = LocalWindow::new(&config, Slices::Tumble { size: 10 }, Fixes::ALL);
        let mut global = SqlWindow::new(&config, ALL, &[], &[], Fixes::ALL);
        let mut out = Handed::default();
        local.rows(&[row(7, 100, 5), row(7, 20, 9), row(8, 3, 12)]);
        local.before_barrier(&mut out);
        assert_eq!(cols(&out), [[10, 7, 120, 2], [20, 8, 3, 1]]);
        global.rows(&out.rows);
        out.clear();
        local.rows(&[row(7, 1, 6)]);
        local.watermark(9, &mut out);
        assert_eq!(cols(&out), [[10, 7, 1, 1]]);
        global.rows(&out.rows);
        out.clear();
        assert_eq!(global.watermark(9, &mut out), 9);
        assert_eq!(cols(&out), [[10, 7, 121, 3]]);
    }

    #[test]
    fn the_least_watermark_of_all_is_restored_and_the_first_after_it_cannot_be_lower() {
        let config = config(TUMBLE, false);
        let state = |watermark| {
            let mut window = SqlWindow::new(&config, ALL, &[], &[], Fixes::ALL);
            window.watermark(watermark, &mut Handed::default());
            let OfKeys::Sliced(state) = window.snapshot().of else { panic!() };
            state
        };
        let (one, other) = (state(39), state(25));
        let mut restored = SqlWindow::new(&config, KeyGroups::new(1, 2, 128), &[&one, &other], &[], Fixes::ALL);
        let mut out = Handed::default();
        restored.rows(&[row(7, 1, 12), row(7, 2, 22)]);
        assert_eq!(restored.watermark(3, &mut out), 25, "the restored one is in force");
        assert_eq!(restored.watermark(29, &mut out), 29);
        assert_eq!(cols(&out), [[30, 7, 2, 1]], "the row of the window that had fired is dropped");
    }

    #[test]
    fn sessions_restore_their_watermark_and_open_again_for_what_is_late() {
        let config = config(SqlWindows::Session { gap: 10 }, false);
        let mut window = SqlWindow::new(&config, ALL, &[], &[], Fixes::ALL);
        let mut out = Handed::default();
        window.rows(&[row(7, 1, 12), row(7, 2, 18)]);
        window.watermark(30, &mut out);
        assert_eq!(cols(&out), [[28, 7, 3, 2]]);
        let OfKeys::Sessions(state) = window.snapshot().of else { panic!() };
        let mut restored = SqlWindow::new(&config, ALL, &[], &[&state], Fixes::ALL);
        out.clear();
        restored.rows(&[row(7, 4, 13)]);
        assert_eq!(restored.watermark(3, &mut out), 30);
        assert_eq!(cols(&out), [[23, 7, 4, 1]]);
    }
}
