//! What stands in a chain between source and sink.

mod config;
mod deduplicate;
mod join;
mod keyed;
mod window;

pub use config::{Comparison, Condition, DeduplicateConfig, Expr, JoinConfig, OperatorConfig, WindowConfig};
pub use keyed::{KeyGroups, KeyedState};

use crate::base::{Ghost, Millis, Row};
use deduplicate::Deduplicate;
use join::Join;
use keyed::OfKeys;
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
}
impl Handed {
    /// Makes room.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.late.clear();
        self.folds.clear();
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
}
impl Operator {
    /// Starts it with what its predecessors had snapshotted, as far as the keys are its own.
    pub fn new<'a>(
        config: &OperatorConfig,
        groups: KeyGroups,
        restored: impl IntoIterator<Item = &'a KeyedState>,
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
            OperatorConfig::Window(config) => Self::Window(Box::new(Window::new(config, groups, of!(Window)))),
            OperatorConfig::Deduplicate(config) => {
                Self::Deduplicate(Box::new(Deduplicate::new(config, groups, of!(Deduplicate))))
            }
        }
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
        }
    }
    /// Event time has come this far: timers fire, and what they give goes behind `out`.
    pub fn watermark(&mut self, watermark: i64, out: &mut Handed) {
        match self {
            Self::Join(join) => join.watermark(watermark),
            Self::Window(window) => window.watermark(watermark, out),
            Self::Filter(_) | Self::Map(_) | Self::Deduplicate(_) => {}
        }
    }
    /// The watermark by which it judges rows now; `None` of one that judges none.
    pub const fn clock(&self) -> Option<i64> {
        match self {
            Self::Join(join) => Some(join.clock()),
            Self::Window(window) => Some(window.clock()),
            Self::Filter(_) | Self::Map(_) | Self::Deduplicate(_) => None,
        }
    }
    /// The ghosts of the rows that its open windows hold. For the judge alone.
    pub fn held(&self) -> Vec<Ghost> {
        match self {
            Self::Window(window) => window.held(),
            Self::Filter(_) | Self::Map(_) | Self::Join(_) | Self::Deduplicate(_) => Vec::new(),
        }
    }
    /// What a checkpoint keeps of it; `None` of an operator without state.
    pub fn snapshot(&self, now: Millis) -> Option<Arc<KeyedState>> {
        match self {
            Self::Filter(_) | Self::Map(_) => None,
            Self::Join(join) => Some(Arc::new(join.snapshot())),
            Self::Window(window) => Some(Arc::new(window.snapshot())),
            Self::Deduplicate(deduplicate) => Some(Arc::new(deduplicate.snapshot(now))),
        }
    }
}
