//! What stands in a chain between source and sink.

mod assign;
mod config;
mod deduplicate;
mod group_window;
mod join;
mod keyed;
mod late_filter;
mod sql_window;
mod window;

pub use config::{
    AssignConfig, Comparison, Condition, DeduplicateConfig, Expr, GroupWindowConfig, JoinConfig, LateFilterConfig,
    OperatorConfig, SqlWindowConfig, SqlWindows, WindowConfig,
};
pub use group_window::{OP, op};
pub use keyed::{KeyGroups, KeyedState};

use crate::base::{Fixes, Ghost, Millis, Row};
use crate::flink::watermark::Signal;
use assign::Assign;
use deduplicate::Deduplicate;
use group_window::GroupWindow;
use join::Join;
use keyed::OfKeys;
use late_filter::LateFilter;
use sql_window::{LocalWindow, SqlWindow};
use std::sync::Arc;
use window::Window;

/// What an operator hands on.
#[derive(Clone, Debug, Default)]
pub struct Handed {
    /// To its output.
    pub rows: Vec<Row>,
    /// To its side output: rows that came too late for their window.
    pub late: Vec<Row>,
    /// Which of `rows` were made of many: place, and the ghosts of those. They get a ghost of their own before they go on.
    pub folds: Vec<(usize, Arc<[Ghost]>)>,
    /// About event time: each goes behind so many of `rows`.
    pub signals: Vec<(usize, Signal)>,
}
impl Handed {
    /// Makes room.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.late.clear();
        self.folds.clear();
        self.signals.clear();
    }
}

/// An operator at work.
#[derive(Clone, Debug)]
pub enum Operator {
    /// See [`OperatorConfig::Filter`]; keeps nothing.
    Filter(Condition),
    /// See [`OperatorConfig::Map`]; keeps nothing.
    Map([Expr; 4]),
    /// See [`JoinConfig`].
    Join(Box<Join>),
    /// See [`WindowConfig`].
    Window(Box<Window>),
    /// See [`DeduplicateConfig`].
    Deduplicate(Box<Deduplicate>),
    /// See [`SqlWindowConfig`]; keeps nothing.
    LocalWindow(Box<LocalWindow>),
    /// See [`SqlWindowConfig`].
    SqlWindow(Box<SqlWindow>),
    /// See [`GroupWindowConfig`].
    GroupWindow(Box<GroupWindow>),
    /// See [`LateFilterConfig`]; keeps nothing.
    LateFilter(LateFilter),
    /// See [`AssignConfig`]; keeps nothing.
    Assign(Box<Assign>),
}
impl Operator {
    /// Starts it with what its predecessors had snapshotted, as far as the keys are its own.
    pub fn new<'a>(
        config: &OperatorConfig,
        groups: KeyGroups,
        restored: impl IntoIterator<Item = &'a KeyedState>,
        fixes: Fixes,
    ) -> Self {
        let parts: Vec<_> = restored.into_iter().filter(|part| part.concerns(groups)).map(|part| &part.of).collect();
        macro_rules! of {
            ($kind:ident) => {
                &parts
                    .iter()
                    .filter_map(|part| if let OfKeys::$kind(state) = part { Some(state) } else { None })
                    .collect::<Vec<_>>()
            };
        }
        match config {
            OperatorConfig::Filter(condition) => Self::Filter(*condition),
            OperatorConfig::Map(columns) => Self::Map(*columns),
            OperatorConfig::Join(config) => Self::Join(Box::new(Join::new(config, groups, of!(Join)))),
            OperatorConfig::Window(config) => Self::Window(Box::new(Window::new(config, groups, of!(Window), fixes))),
            OperatorConfig::Deduplicate(config) => {
                Self::Deduplicate(Box::new(Deduplicate::new(config, groups, of!(Deduplicate))))
            }
            OperatorConfig::LocalWindow(config) => match config.windows {
                SqlWindows::Sliced(slices) => Self::LocalWindow(Box::new(LocalWindow::new(config, slices, fixes))),
                SqlWindows::Session { .. } => unreachable!("sessions have no local aggregate"),
            },
            OperatorConfig::SqlWindow(config) => {
                Self::SqlWindow(Box::new(SqlWindow::new(config, groups, of!(Sliced), of!(Sessions), fixes)))
            }
            OperatorConfig::GroupWindow(config) => {
                Self::GroupWindow(Box::new(GroupWindow::new(config, groups, of!(GroupWindow), fixes)))
            }
            OperatorConfig::LateFilter(config) => Self::LateFilter(LateFilter::new(*config)),
            OperatorConfig::Assign(config) => Self::Assign(Box::new(Assign::new(config, fixes))),
        }
    }
    /// It is open: its timers begin.
    pub fn open(&mut self, now: Millis) {
        if let Self::Assign(assign) = self {
            assign.open(now);
        }
    }
    /// When its timer of processing time is due.
    pub fn deadline(&self) -> Option<Millis> {
        if let Self::Assign(assign) = self { assign.deadline() } else { None }
    }
    /// Its timer, if it is due: what it says of event time. `clock` stands while the task is held up.
    pub fn timer(&mut self, now: Millis, clock: Millis, out: &mut Vec<Signal>) {
        if let Self::Assign(assign) = self {
            assign.timer(now, clock, out);
        }
    }
    /// What goes on of a signal from above besides what it makes of a watermark: all, but where event time begins anew.
    pub fn signal(&mut self, signal: Signal) -> [Option<Signal>; 2] {
        if let Self::Assign(assign) = self { assign.signal(signal) } else { [Some(signal), None] }
    }
    /// Takes rows in order; what comes of them goes behind `out`. `now` is processing time.
    pub fn rows(&mut self, rows: &[Row], now: Millis, out: &mut Handed) {
        match self {
            Self::Filter(condition) => out.rows.extend(rows.iter().filter(|r| condition.holds(&r.cols))),
            Self::Map(columns) => {
                out.rows.extend(rows.iter().map(|r| Row { cols: columns.map(|e| e.of(r, r)), ..*r }));
            }
            Self::Join(join) => join.rows(rows, &mut out.rows),
            Self::Window(window) => window.rows(rows, out),
            Self::Deduplicate(deduplicate) => deduplicate.rows(rows, now, &mut out.rows),
            Self::LocalWindow(window) => window.rows(rows),
            Self::SqlWindow(window) => window.rows(rows),
            Self::GroupWindow(window) => window.rows(rows, out),
            Self::LateFilter(filter) => filter.rows(rows, &mut out.rows),
            Self::Assign(assign) => assign.rows(rows, now, out),
        }
    }
    /// Event time has come this far: timers fire, and what they give goes behind `out`. Gives how far event time is behind the
    /// operator: a restored watermark of SQL's windows is not taken back (T7).
    pub fn watermark(&mut self, watermark: i64, out: &mut Handed) -> i64 {
        match self {
            Self::Join(join) => join.watermark(watermark),
            Self::Window(window) => window.watermark(watermark, out),
            Self::LocalWindow(window) => window.watermark(watermark, out),
            Self::SqlWindow(window) => return window.watermark(watermark, out),
            Self::GroupWindow(window) => window.watermark(watermark, out),
            Self::LateFilter(filter) => filter.watermark(watermark),
            Self::Filter(_) | Self::Map(_) | Self::Deduplicate(_) | Self::Assign(_) => {}
        }
        watermark
    }
    /// A barrier is about to go on (`prepareSnapshotPreBarrier`): what is buffered goes behind `out`, or into the state.
    pub fn before_barrier(&mut self, out: &mut Handed) {
        match self {
            Self::LocalWindow(window) => window.before_barrier(out),
            Self::SqlWindow(window) => window.before_barrier(),
            _ => {}
        }
    }
    /// The watermark by which it judges rows now; `None` of one that judges none.
    pub const fn clock(&self) -> Option<i64> {
        match self {
            Self::Join(join) => Some(join.clock()),
            Self::Window(window) => Some(window.clock()),
            Self::SqlWindow(window) => Some(window.clock()),
            Self::GroupWindow(window) => Some(window.clock()),
            Self::LateFilter(filter) => Some(filter.clock()),
            Self::Filter(_) | Self::Map(_) | Self::Deduplicate(_) | Self::LocalWindow(_) | Self::Assign(_) => None,
        }
    }
    /// The watermark of its timers, by which windows fire; the least before the first of the attempt. For the judge alone.
    pub const fn timers(&self) -> i64 {
        match self {
            Self::Window(window) => window.clock(),
            Self::SqlWindow(window) => window.timers(),
            Self::GroupWindow(window) => window.clock(),
            _ => i64::MIN,
        }
    }
    /// The ghosts of the rows that its open windows hold. For the judge alone.
    pub fn held(&self) -> Vec<Ghost> {
        match self {
            Self::Window(window) => window.held(),
            Self::LocalWindow(window) => window.held(),
            Self::SqlWindow(window) => window.held(),
            Self::GroupWindow(window) => window.held(),
            _ => Vec::new(),
        }
    }
    /// What a checkpoint keeps of it; `None` of an operator without state.
    pub fn snapshot(&mut self, now: Millis) -> Option<Arc<KeyedState>> {
        match self {
            Self::Filter(_) | Self::Map(_) | Self::LocalWindow(_) | Self::LateFilter(_) | Self::Assign(_) => None,
            Self::Join(join) => Some(Arc::new(join.snapshot())),
            Self::Window(window) => Some(Arc::new(window.snapshot())),
            Self::Deduplicate(deduplicate) => Some(Arc::new(deduplicate.snapshot(now))),
            Self::SqlWindow(window) => Some(Arc::new(window.snapshot())),
            Self::GroupWindow(window) => Some(Arc::new(window.snapshot())),
        }
    }
}
