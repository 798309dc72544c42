//! Coordinators: who decides for a transactional id, who for a group. State machines over a replicated internal topic each.
pub mod group;
pub mod transaction;
