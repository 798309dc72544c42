//! Completed checkpoints (`CompletedCheckpoint`, `DefaultCompletedCheckpointStore`): what is in the store is what a restart
//! uses; the write is the point of no return (C10).

use super::CheckpointId;
use super::requests::Kind;
use crate::base::Millis;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A task of the job, numbered through over its vertices.
pub type TaskIndex = usize;

/// A checkpoint or savepoint that every task has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed<S> {
    /// Its number.
    pub id: CheckpointId,
    /// What it was.
    pub kind: Kind,
    /// When it was triggered.
    pub timestamp: Millis,
    /// What each task handed in; nothing of those that had finished.
    pub tasks: BTreeMap<TaskIndex, S>,
    /// What each operator coordinator handed in.
    pub coordinators: BTreeMap<usize, S>,
}

/// The newest completed checkpoints, oldest first. Savepoints are not among them.
#[derive(Clone, Debug)]
pub struct Store<S> {
    retained: usize,
    completed: VecDeque<Arc<Completed<S>>>,
}
impl<S> Store<S> {
    /// A store that keeps so many (`execution.checkpointing.num-retained`).
    pub const fn new(retained: usize) -> Self {
        Self { retained, completed: VecDeque::new() }
    }
    /// Adds the newest; true if the oldest leaves.
    pub fn add(&mut self, completed: Arc<Completed<S>>) -> bool {
        self.completed.push_back(completed);
        self.completed.len() > self.retained && self.completed.pop_front().is_some()
    }
    /// The one that a restart uses.
    pub fn latest(&self) -> Option<&Arc<Completed<S>>> {
        self.completed.back()
    }
    /// All, oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Completed<S>>> {
        self.completed.iter()
    }
    /// All numbers, oldest first.
    pub fn ids(&self) -> impl Iterator<Item = CheckpointId> {
        self.completed.iter().map(|c| c.id)
    }
}
