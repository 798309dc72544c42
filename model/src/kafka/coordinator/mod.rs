//! Coordinators: state machines over a replicated internal topic each.
pub mod group;
pub mod transaction;
