//! How a checkpoint ends: complete, or given up; and what the job bears of that. Rules C9 to C13.

use super::coordinator::{CheckpointCoordinator, Effect, Later};
use super::pending::Pending;
use super::{CheckpointId, Kind, Reason, TaskIndex};
use crate::base::Millis;
use std::sync::Arc;

/// How many expired checkpoints are remembered (`NUM_GHOST_CHECKPOINT_IDS`).
const MOST_GHOSTS: usize = 16;

impl<S: Clone> CheckpointCoordinator<S> {
    pub(super) fn complete_if_done(&mut self, id: CheckpointId, now: Millis, out: &mut Vec<Effect<S>>) {
        let done = self.pending.get(&id).is_some_and(Pending::complete) && !self.shutdown;
        if let Some(pending) = done.then(|| self.pending.remove(&id)).flatten() {
            self.complete(pending, now, out);
        }
    }
    /// C9: the store, then older ones, then the notifications.
    fn complete(&mut self, pending: Pending<S>, now: Millis, out: &mut Vec<Effect<S>>) {
        let (id, request, tasks) = (pending.id, pending.request, pending.tasks());
        let completed = Arc::new(pending.finish());
        self.counter.success(id);
        self.clean();
        if !request.kind.savepoint() {
            if self.store.add(completed.clone()) {
                self.clean();
            }
            out.push(Effect::Completed(completed.clone()));
        }
        if let Some(by) = request.by {
            out.push(Effect::RequestDone(by, completed));
        }
        self.later.push_back(Later::Look);
        self.last_completion = now;
        if matches!(request.kind, Kind::Savepoint { synchronous: false }) {
            return;
        }
        let older = |p: &Pending<S>| p.id < id && !p.request.kind.savepoint();
        self.abort_where(older, Reason::CheckpointSubsumed, out);
        out.push(Effect::NotifyComplete(id, tasks));
        if self.coordinators > 0 {
            out.push(Effect::CoordinatorsComplete(id));
        }
    }
    fn clean(&mut self) {
        self.cleaning += 1;
        self.later.push_back(Later::Cleaned);
    }
    pub(super) fn abort_queued(&mut self, reason: Reason, out: &mut Vec<Effect<S>>) {
        let users = self.requests.drain().into_iter().filter_map(|r| r.by);
        out.extend(users.map(|by| Effect::RequestFailed(by, reason)));
    }
    pub(super) fn abort_where(
        &mut self,
        which: impl Fn(&Pending<S>) -> bool,
        reason: Reason,
        out: &mut Vec<Effect<S>>,
    ) {
        let ids: Vec<CheckpointId> = self.pending.values().filter(|p| which(p)).map(|p| p.id).collect();
        ids.into_iter().for_each(|id| self.abort(id, reason, None, out));
    }
    /// Gives one up (C13).
    pub(super) fn abort(&mut self, id: CheckpointId, reason: Reason, by: Option<TaskIndex>, out: &mut Vec<Effect<S>>) {
        let Some(pending) = self.pending.remove(&id) else { return };
        let kind = pending.request.kind;
        if let Some(by) = pending.request.by {
            out.push(Effect::RequestFailed(by, reason));
        }
        if !pending.triggered {
            self.later.push_back(Later::TriggerLost(kind, id, reason));
        }
        self.clean();
        self.report(Some(id), kind, reason, by, out);
        self.later.push_back(Later::Aborted(id, pending.tasks()));
        if self.coordinators > 0 {
            out.push(Effect::CoordinatorsAborted(id));
        }
        if reason == Reason::Expired {
            self.ghosts.push_back(id);
            if self.ghosts.len() > MOST_GHOSTS {
                self.ghosts.pop_front();
            }
        }
        self.later.push_back(Later::Look);
    }
    /// The failure manager hears of it.
    pub(super) fn report(
        &mut self,
        id: Option<CheckpointId>,
        kind: Kind,
        reason: Reason,
        by: Option<TaskIndex>,
        out: &mut Vec<Effect<S>>,
    ) {
        out.push(Effect::Failed(id, reason));
        match by.filter(|_| !reason.pre_flight()) {
            Some(_) if kind == (Kind::Savepoint { synchronous: true }) => out.push(Effect::FailJob),
            Some(task) => {
                if self.counter.failure(id, reason) {
                    out.push(Effect::FailTask(task));
                }
            }
            None => {
                if !kind.savepoint() && self.counter.failure(id, reason) {
                    out.push(Effect::FailJob);
                }
            }
        }
    }
}
