//! Operators with state and event time (flink.md 5, 6).

mod assigner;
mod deduplicate;
mod emitted;
mod group_count;
mod panes;
mod session_aggregate;
mod slices;
mod window;
mod window_aggregate;

pub use assigner::{Assigner, Window};
pub use deduplicate::KeepFirst;
pub use emitted::Emitted;
pub use group_count::GroupCount;
pub use panes::Panes;
pub use session_aggregate::SessionAggregate;
pub use slices::Slices;
pub use window::{Accumulator, Late, Pane, WindowOperator, WindowState};
pub use window_aggregate::{LocalWindowAggregate, Partial, WindowAggregate, WindowAggregateState};

/// What a row of a changelog does (`RowKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// `+I`.
    Insert,
    /// `-U`: the row that was.
    UpdateBefore,
    /// `+U`: the row that takes its place.
    UpdateAfter,
    /// `-D`.
    Delete,
}
