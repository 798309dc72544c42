//! What a JobManager keeps outside its process: checkpoints and savepoints in the checkpoint storage, and with high
//! availability jobs, the pointer to the newest checkpoint and its counter (`CompletedCheckpointStore`,
//! `CheckpointIDCounter`, `JobGraphStore`). A write is the point of no return (C10).

use super::super::ids::JobId;
use super::super::state::State;
use crate::base::{Addr, Chain, Feed, FileId, ForeignMessage};
use crate::flink::checkpoint::{CheckpointId, Completed};
use std::any::Any;
use std::sync::Arc;

/// The file that holds it.
pub const STORE: FileId = FileId(0);

/// Of one job.
#[derive(Clone, Debug)]
pub struct KeptJob {
    /// It was submitted and is not over: with high availability the next JobManager takes it up.
    pub alive: bool,
    /// The next checkpoint's number.
    pub next: CheckpointId,
    /// Its completed checkpoints, oldest first; after its end those that are retained.
    pub completed: Vec<Arc<Completed<State>>>,
    /// Its newest savepoint.
    pub savepoint: Option<Arc<Completed<State>>>,
    /// The checkpoint that it was submitted with, and the job that had taken it.
    pub origin: Option<(CheckpointId, JobId)>,
}

/// Of all jobs.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// By number.
    pub jobs: Vec<KeptJob>,
    /// Where those listen who want to know of a new leader (`LeaderRetrievalService`): the TaskManagers.
    pub watchers: Vec<Addr>,
}
impl ForeignMessage for Kept {
    fn bytes(&self) -> u32 {
        1_000
    }
    fn kind(&self) -> u8 {
        88
    }
    fn name(&self) -> &'static str {
        "store"
    }
    fn feed(&self, chain: &mut Chain) {
        for job in &self.jobs {
            job.alive.feed(chain);
            job.next.feed(chain);
            job.completed.iter().chain(&job.savepoint).for_each(|c| c.id.feed(chain));
        }
        self.watchers.iter().for_each(|w| w.feed(chain));
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
