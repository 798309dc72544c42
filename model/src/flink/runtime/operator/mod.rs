//! What stands in a chain between source and sink.

mod config;

pub use config::{Comparison, Condition, DeduplicateConfig, Expr, JoinConfig, OperatorConfig, WindowConfig};

use crate::base::Row;

/// An operator at work.
#[derive(Clone, Debug)]
pub enum Operator {
    /// See [`OperatorConfig::Filter`]; keeps nothing.
    Filter(Condition),
}
impl Operator {
    /// Starts it without state.
    pub fn new(config: &OperatorConfig) -> Self {
        match config {
            OperatorConfig::Filter(condition) => Self::Filter(*condition),
            _ => todo!(),
        }
    }
    /// Takes rows in order; what comes of them goes behind `out`.
    pub fn rows(&mut self, rows: &[Row], out: &mut Vec<Row>) {
        match *self {
            Self::Filter(condition) => out.extend(rows.iter().filter(|r| condition.holds(&r.cols))),
        }
    }
}
