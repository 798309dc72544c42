//! State of operators, and what a change of parallelism makes of it.

mod repartition;

pub use repartition::{ListState, Mode, key_group_parts, repartition};
