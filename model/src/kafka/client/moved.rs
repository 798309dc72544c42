//! What becomes of a member's partitions, told by either client.

use crate::base::{Offset, TopicPartition};

/// What happened to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Its own in this generation, given now or kept.
    Assigned(TopicPartition, i32),
    /// Given up; `true` where somebody else may have had it before.
    Revoked(TopicPartition, bool),
    /// Begins at the offset that the group has committed.
    Starts(TopicPartition, Offset),
    /// `auto.offset.reset` decides: nothing is committed, or the position is not in the log any more.
    Reset(TopicPartition),
    /// A commit was acknowledged.
    Committed(TopicPartition, Offset),
}
