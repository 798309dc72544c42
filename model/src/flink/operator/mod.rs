//! Operators with state and event time (flink.md 5, 6).

mod assigner;
mod deduplicate;
mod session_aggregate;
mod slices;
mod window;
mod window_aggregate;

pub use assigner::{Assigner, Window};
pub use deduplicate::{Change, KeepFirst};
pub use session_aggregate::SessionAggregate;
pub use slices::Slices;
pub use window::{Accumulator, Late, Pane, WindowOperator, WindowState};
pub use window_aggregate::{LocalWindowAggregate, Partial, WindowAggregate, WindowAggregateState};
