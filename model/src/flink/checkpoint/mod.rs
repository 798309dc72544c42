//! Checkpoints as the JobManager sees them (flink.md 2.1, 2.2).

mod coordinator;
mod ending;
pub mod events;
mod failure;
mod pending;
mod plan;
mod requests;
mod store;

use crate::base::{Chain, Feed};
use std::fmt;

pub use coordinator::{CheckpointConfig, CheckpointCoordinator, Effect};
pub use failure::{FailureCounter, Reason, UNLIMITED};
pub use plan::{Plan, Task, TaskState, plan};
pub use requests::{Choice, Kind, Request, RequestId, Requests, Situation};
pub use store::{Completed, Store, TaskIndex};

/// The number of a checkpoint or savepoint: ascending, from 1, never used twice (C6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(pub i64);
impl CheckpointId {
    /// Before the first.
    pub const NONE: Self = Self(-1);
}
impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl Feed for CheckpointId {
    fn feed(&self, chain: &mut Chain) {
        chain.u64(self.0 as u64);
    }
}
