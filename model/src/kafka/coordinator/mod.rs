//! Coordinators: who decides for a transactional id, who for a group.
pub mod transaction;
