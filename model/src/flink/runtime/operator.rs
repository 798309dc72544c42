//! What stands in a chain between source and sink.

use crate::base::Row;

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `>=`
    AtLeast,
}
impl Comparison {
    const fn holds(self, left: i64, right: i64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::AtLeast => left >= right,
        }
    }
}

/// An operator as the graph names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorConfig {
    /// Hands on rows whose column compares to a constant.
    Filter {
        /// The column.
        column: u8,
        /// How.
        comparison: Comparison,
        /// With what.
        value: i64,
    },
}

/// An operator at work.
#[derive(Clone, Debug)]
pub enum Operator {
    /// See [`OperatorConfig::Filter`]; keeps nothing.
    Filter(u8, Comparison, i64),
}
impl Operator {
    /// Starts it without state.
    pub const fn new(config: &OperatorConfig) -> Self {
        match config {
            OperatorConfig::Filter { column, comparison, value } => Self::Filter(*column, *comparison, *value),
        }
    }
    /// Takes rows in order; what comes of them goes behind `out`.
    pub fn rows(&mut self, rows: &[Row], out: &mut Vec<Row>) {
        match *self {
            Self::Filter(column, comparison, value) => {
                out.extend(rows.iter().filter(|r| comparison.holds(r.cols[usize::from(column)], value)));
            }
        }
    }
}
