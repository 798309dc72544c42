//! When a sink writer hands over what is to be committed (`SinkWriterOperator`).

use crate::base::{Fix, Fixes};
use crate::flink::checkpoint::CheckpointId;

/// What a writer announces to the committer: so many committables under a checkpoint. They follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The writer's subtask.
    pub subtask: u32,
    /// How many writers there are.
    pub subtasks: u32,
    /// The checkpoint that will commit them.
    pub checkpoint: CheckpointId,
    /// How many.
    pub count: usize,
}

/// The order of one writer subtask's calls around barriers.
#[derive(Clone, Copy, Debug)]
pub struct WriterGuard {
    subtask: u32,
    subtasks: u32,
    last_known: CheckpointId,
    ended: bool,
}
impl WriterGuard {
    /// A writer that starts fresh, or from this checkpoint.
    pub fn new(subtask: u32, subtasks: u32, restored: Option<CheckpointId>) -> Self {
        Self { subtask, subtasks, last_known: restored.unwrap_or(CheckpointId(0)), ended: false }
    }
    /// Before the barrier (`prepareSnapshotPreBarrier`): flush, prepare the commit and announce it, also if it is empty. None
    /// after the end of the input, when everything has been handed over (FLINK-25920).
    pub fn before_barrier(
        &mut self,
        id: CheckpointId,
        fixes: Fixes,
        prepare: impl FnOnce() -> usize,
    ) -> Option<Announcement> {
        (!self.ended || !fixes.has(Fix::EndAnnouncedOnce)).then(|| self.announce(id, prepare()))
    }
    /// The snapshot is taken.
    pub fn snapshot(&mut self, id: CheckpointId) {
        self.last_known = id;
    }
    /// The end of the input: the rest goes under the checkpoint after the last known one. Before FLINK-37605 under the greatest
    /// number there is, which a restarted job uses again.
    pub fn end(&mut self, fixes: Fixes, prepare: impl FnOnce() -> usize) -> Announcement {
        self.ended = true;
        let next = if fixes.has(Fix::FinalCommittablesById) { self.last_known.0 + 1 } else { i64::MAX };
        self.announce(CheckpointId(next), prepare())
    }
    const fn announce(&self, checkpoint: CheckpointId, count: usize) -> Announcement {
        Announcement { subtask: self.subtask, subtasks: self.subtasks, checkpoint, count }
    }
}
