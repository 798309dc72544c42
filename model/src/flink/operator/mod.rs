//! Operators with state and event time (flink.md 5, 6).

mod assigner;
mod deduplicate;
mod window;

pub use assigner::{Assigner, Window};
pub use deduplicate::{Change, KeepFirst};
pub use window::{Accumulator, Late, Pane, WindowOperator, WindowState};
