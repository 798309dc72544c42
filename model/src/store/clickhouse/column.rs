//! Columns of a record.

use crate::base::Row;

/// Which field of a [`Row`] is meant. Strings are interned, so every column is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The record's key.
    Key,
    /// The record's timestamp.
    Time,
    /// A column of the value.
    Value(u8),
}
impl Column {
    /// Its value in a row.
    #[inline]
    pub fn of(self, row: &Row) -> i64 {
        match self {
            Self::Key => row.key as i64,
            Self::Time => row.time.0,
            Self::Value(n) => row.cols[usize::from(n)],
        }
    }
}
