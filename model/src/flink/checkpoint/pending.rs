//! A checkpoint under way (`PendingCheckpoint`).

use super::{CheckpointId, Completed, Plan, Request, TaskIndex};
use crate::base::Millis;
use std::collections::{BTreeMap, BTreeSet};

/// What an acknowledgement means (`TaskAcknowledgeResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acknowledged {
    Taken,
    /// It came before.
    Duplicate,
    /// From an attempt that is not in the plan: a zombie (C11).
    Unknown,
}

/// A pending checkpoint or savepoint.
#[derive(Clone, Debug)]
pub(super) struct Pending<S> {
    pub id: CheckpointId,
    pub request: Request,
    pub timestamp: Millis,
    pub plan: Plan,
    /// When it expires, and the order of that among the coordinator's deadlines.
    pub expires: (Millis, u64),
    waiting: BTreeMap<TaskIndex, u32>,
    tasks: BTreeMap<TaskIndex, S>,
    asked: BTreeSet<usize>,
    coordinators: BTreeMap<usize, S>,
    /// The tasks have been triggered: the coordinators had answered.
    pub triggered: bool,
}
impl<S> Pending<S> {
    pub fn new(
        id: CheckpointId,
        request: Request,
        timestamp: Millis,
        plan: Plan,
        coordinators: usize,
        expires: (Millis, u64),
    ) -> Self {
        Self {
            id,
            request,
            timestamp,
            waiting: plan.wait_for.iter().copied().collect(),
            plan,
            expires,
            tasks: BTreeMap::new(),
            asked: (0..coordinators).collect(),
            coordinators: BTreeMap::new(),
            triggered: false,
        }
    }
    pub fn acknowledge(&mut self, task: TaskIndex, attempt: u32, state: S) -> Acknowledged {
        if self.waiting.get(&task) == Some(&attempt) {
            self.waiting.remove(&task);
            self.tasks.insert(task, state);
            Acknowledged::Taken
        } else if self.tasks.contains_key(&task) && self.plan.wait_for.contains(&(task, attempt)) {
            Acknowledged::Duplicate
        } else {
            Acknowledged::Unknown
        }
    }
    /// Whether the task has nothing to do with it any longer.
    pub fn acknowledged_by(&self, task: TaskIndex) -> bool {
        !self.waiting.contains_key(&task)
    }
    /// A coordinator has answered; true if it was the last.
    pub fn coordinator(&mut self, coordinator: usize, state: S) -> bool {
        if self.asked.remove(&coordinator) {
            self.coordinators.insert(coordinator, state);
        }
        self.asked.is_empty()
    }
    pub fn coordinators_done(&self) -> bool {
        self.asked.is_empty()
    }
    pub fn complete(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }
    pub fn tasks(&self) -> Vec<TaskIndex> {
        self.plan.wait_for.iter().map(|(task, _)| *task).collect()
    }
    pub fn finish(self) -> Completed<S> {
        let Self { id, request, timestamp, tasks, coordinators, .. } = self;
        Completed { id, kind: request.kind, timestamp, tasks, coordinators }
    }
}
