//! What operators of a chain are, as a graph names them.

use super::super::graph::KeyColumn;
use crate::base::Millis;
use crate::flink::operator::{Assigner, Slices};
use crate::flink::source::Strategy;

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

/// A condition on a row: a column against a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The column.
    pub column: u8,
    /// How.
    pub comparison: Comparison,
    /// With what.
    pub value: i64,
}
impl Condition {
    /// Whether a row with these columns meets it.
    pub const fn holds(self, columns: &[i64; 4]) -> bool {
        let left = columns[self.column as usize];
        match self.comparison {
            Comparison::Equal => left == self.value,
            Comparison::NotEqual => left != self.value,
            Comparison::Less => left < self.value,
            Comparison::AtLeast => left >= self.value,
        }
    }
}

/// Where a column of an output row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A column of the row; of a join's right row.
    Column(u8),
    /// A column of a join's left row.
    Left(u8),
    /// The row's event time, milliseconds; of a join's right row.
    Time,
    /// The record's key, by its number ([`Row::key`](crate::base::Row::key)); of a join's right row.
    Key,
    /// A constant.
    Constant(i64),
}

/// A keyed join of two kinds of rows in one stream (`KeyedProcessFunction` with a value of each kind and a timer): the first
/// row of each kind is kept until the other kind's comes; the result has the time and the ghost of the right one. A pair is
/// given once; then both go. A row that waits longer than the TTL in event time goes without a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinConfig {
    /// What joins.
    pub key: KeyColumn,
    /// Rows of the left kind.
    pub left: Condition,
    /// Rows of the right kind. A row of neither vanishes.
    pub right: Condition,
    /// The result's columns.
    pub columns: [Expr; 4],
    /// Event time that a row waits for the other: a timer at its own time plus this.
    pub ttl: Millis,
}

/// A window of the DataStream API: `keyBy(key).window(...).allowedLateness(...).sideOutputLateData(...)` with a sum and a
/// count. A firing is a row with the window's last millisecond as its time, the key's value as key (its bytes
/// are those of `LongSerializer`; an interned string is written as its number), and the columns [window_end, key, sum, count].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// What is counted apart.
    pub key: KeyColumn,
    /// How time is cut.
    pub assigner: Assigner,
    /// `allowedLateness`.
    pub lateness: Millis,
    /// The column that is summed up.
    pub sum: Option<u8>,
    /// Size of a firing's record on the wire, bytes.
    pub bytes: u32,
}

/// Keeps the first row of each key (`Deduplicate` of SQL, keep first by processing time).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeduplicateConfig {
    /// What must be unique.
    pub key: KeyColumn,
    /// `table.exec.state.ttl`, in processing time; none keeps for ever.
    pub ttl: Option<Millis>,
    /// Bytes that a key and its value take in a checkpoint.
    pub entry: u32,
}

/// Windows of SQL's table functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlWindows {
    /// TUMBLE, HOP, CUMULATE.
    Sliced(Slices),
    /// SESSION.
    Session {
        /// The gap.
        gap: i64,
    },
}

/// `SELECT ... SUM, COUNT GROUP BY window_start, window_end, key` over a window table function. A firing is a row as that of
/// [`WindowConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlWindowConfig {
    /// What is counted apart: a column of the rows that are aggregated.
    pub key: KeyColumn,
    /// Which windows.
    pub windows: SqlWindows,
    /// A local aggregate stands before the exchange, a global one behind it (T1). Never with sessions.
    pub two_phase: bool,
    /// The column that is summed up.
    pub sum: Option<u8>,
    /// Size of a firing's record on the wire, and of a partial result's, bytes.
    pub bytes: u32,
}

/// `SELECT TUMBLE_END(...), key, SUM or COUNT GROUP BY TUMBLE(...), key`: the group window of older SQL. What it hands on is a
/// changelog, as a format such as `debezium-json` writes one: the columns [window_end, key, sum or count, op], with
/// [`op`](super::group_window::op) for the row's kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupWindowConfig {
    /// What is counted apart.
    pub key: KeyColumn,
    /// How time is cut: TUMBLE, HOP, or SESSION, which has no late fire (L2).
    pub assigner: Assigner,
    /// `table.exec.emit.late-fire.enabled` with a delay of 0: a late element fires for so long behind the window's end
    /// (`table.exec.emit.allow-lateness`). Without, rows are only added (L2 to L4).
    pub late_fire: Option<Millis>,
    /// The column that is summed up; without, rows are counted.
    pub sum: Option<u8>,
    /// Size of a row's record on the wire, bytes.
    pub bytes: u32,
}

/// `WHERE window_end - INTERVAL '0.001' SECOND <= CURRENT_WATERMARK(rowtime)`: what is too late for its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateFilterConfig {
    /// Size of the tumbling window that a row belongs to; without, the row's own time is compared.
    pub size: Option<Millis>,
}

/// Watermarks that are made behind a source, of all rows that a subtask is given: `WATERMARK FOR` that the plan does not push
/// into the source (4.7), or `assignTimestampsAndWatermarks`. Watermarks from above end here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignConfig {
    /// How; it decides which operator it is.
    pub strategy: Strategy,
    /// `table.exec.source.idle-timeout`, `withIdleness`.
    pub idle_timeout: Option<Millis>,
    /// `pipeline.auto-watermark-interval`.
    pub interval: Millis,
}

/// An operator as the graph names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorConfig {
    /// Hands on rows that meet a condition.
    Filter(Condition),
    /// Hands on rows with other columns.
    Map([Expr; 4]),
    /// See [`JoinConfig`].
    Join(JoinConfig),
    /// See [`WindowConfig`].
    Window(WindowConfig),
    /// See [`DeduplicateConfig`].
    Deduplicate(DeduplicateConfig),
    /// See [`SqlWindowConfig`]: the local aggregate of two phases.
    LocalWindow(SqlWindowConfig),
    /// See [`SqlWindowConfig`]: the global aggregate of two phases, or the only one.
    SqlWindow(SqlWindowConfig),
    /// See [`GroupWindowConfig`].
    GroupWindow(GroupWindowConfig),
    /// See [`LateFilterConfig`].
    LateFilter(LateFilterConfig),
    /// See [`AssignConfig`].
    Assign(AssignConfig),
}
