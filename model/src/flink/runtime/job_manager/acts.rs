//! What a user does about a job: submit, cancel, savepoint, stop; and how a job is taken up again by the next JobManager.

use super::super::graph::JobGraph;
use super::super::ids::JobId;
use super::super::state::{Snapshot, State};
use super::job::{JobMaster, JobState, Want};
use super::store::KeptJob;
use crate::base::{Event, Millis};
use crate::flink::checkpoint::{CheckpointId, Completed, Kind, RequestId};
use std::sync::Arc;

/// Number of a user's request for a plain savepoint.
const SAVEPOINT: RequestId = 1;
/// Number of the request of `stop-with-savepoint`.
const STOP: RequestId = 2;

/// What a job is submitted with: a checkpoint or savepoint, the job that had taken it, and that job's graph.
pub type From = (Arc<Completed<State>>, JobId, Arc<JobGraph>);

impl JobMaster {
    /// `flink run`, with state or without. False if it was submitted before.
    pub fn submit(&mut self, from: Option<From>) -> bool {
        if self.submitted {
            return false;
        }
        self.submitted = true;
        if let Some((completed, job, graph)) = from {
            let next = CheckpointId(completed.id.0 + 1);
            self.origin = Some((completed.id, job, graph));
            self.take_up(vec![completed], next);
        }
        true
    }
    /// The next JobManager takes it up where it was left (2.1: C6, C10).
    pub fn recover(&mut self, kept: &KeptJob, graph_of: impl Fn(JobId) -> Option<Arc<JobGraph>>) {
        self.submitted = true;
        self.origin = kept.origin.and_then(|(id, job)| Some((id, job, graph_of(job)?)));
        self.take_up(kept.completed.clone(), kept.next);
    }
    /// Checkpoints and savepoints of a job that is gone are still in their storage.
    pub fn left(&mut self, kept: &KeptJob) {
        self.savepoint = kept.savepoint.clone();
        self.retained = kept.completed.last().cloned();
    }
    fn take_up(&mut self, completed: Vec<Arc<Completed<State>>>, next: CheckpointId) {
        self.restore_point = completed.last().cloned();
        self.restored_from = self.restore_point.as_ref().map(|c| c.id);
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.recover(completed, next);
        }
        if let Some(latest) = self.latest().cloned() {
            for (number, enumerator) in self.enumerators.iter_mut().enumerate() {
                if let Some(Snapshot::Enumerator(assigned)) = latest.coordinators.get(&number).map(|s| &**s) {
                    enumerator.assigned = assigned.clone();
                }
            }
        }
    }
    /// The checkpoint that a restart uses.
    pub fn latest(&self) -> Option<&Arc<Completed<State>>> {
        let stored = self.coordinator.as_ref().and_then(|c| c.store().latest());
        stored.or(self.restore_point.as_ref())
    }
    /// The graph whose subtasks had taken a checkpoint.
    pub(super) fn graph_of(&self, id: CheckpointId) -> &Arc<JobGraph> {
        match &self.origin {
            Some((origin, _, graph)) if *origin == id => graph,
            _ => self.graph(),
        }
    }
    /// What another job can be submitted with: the newest checkpoint that is retained after its end.
    pub const fn retained(&self) -> Option<&Arc<Completed<State>>> {
        self.retained.as_ref()
    }
    /// Its newest savepoint.
    pub const fn savepoint(&self) -> Option<&Arc<Completed<State>>> {
        self.savepoint.as_ref()
    }
    /// What is kept of it outside the process.
    pub(super) fn kept(&self) -> KeptJob {
        let stored = self.coordinator.iter().flat_map(|c| c.store().all());
        let completed = if self.is_over() || !self.submitted {
            self.retained.iter().cloned().collect()
        } else {
            stored.cloned().collect()
        };
        KeptJob {
            alive: self.submitted && !self.is_over(),
            next: self.coordinator.as_ref().map_or(CheckpointId(1), |c| c.next_id()),
            completed,
            savepoint: self.savepoint.clone(),
            origin: self.origin.as_ref().map(|(id, job, _)| (*id, *job)),
        }
    }

    /// `flink cancel`: every task is stopped, nothing begins again.
    pub fn cancel_job(&mut self, now: Millis, wants: &mut Vec<Want>) {
        if !self.submitted || self.is_over() {
            return;
        }
        self.coordinate(now, wants, |c, out| c.shutdown(now, out));
        self.cancel_all(wants);
        self.set_state(JobState::Canceling);
    }
    /// `flink savepoint`.
    pub fn take_savepoint(&mut self, now: Millis, wants: &mut Vec<Want>) {
        if self.runs() {
            let kind = Kind::Savepoint { synchronous: false };
            self.coordinate(now, wants, |c, out| c.request(kind, SAVEPOINT, now, out));
        }
    }
    /// `flink stop`: no checkpoint begins any more; a savepoint, and every task ends behind it.
    pub fn stop_job(&mut self, drain: bool, now: Millis, wants: &mut Vec<Want>) {
        if self.runs() && self.stopping.is_none() {
            self.stopping = Some(drain);
            let kind = Kind::Savepoint { synchronous: true };
            self.coordinate(now, wants, |c, out| {
                c.stop(now, out);
                c.request(kind, STOP, now, out);
            });
        }
    }
    /// A user's request is done.
    pub(super) fn request_done(&mut self, completed: &Arc<Completed<State>>, wants: &mut Vec<Want>) {
        self.savepoint = Some(Arc::clone(completed));
        wants.push(Want::Keep);
        wants.push(Want::Emit(Event::SavepointCompleted { job: self.number(), id: completed.id.0 }));
    }
    /// It is not: after a stop that fails while all tasks run on, checkpoints begin again.
    pub(super) fn request_failed(&mut self, by: RequestId, now: Millis, wants: &mut Vec<Want>) {
        if by == STOP && self.stopping.take().is_some() && self.state() == JobState::Running {
            self.start_checkpoints(now, wants);
        }
    }
    /// Everything has stopped: a canceled job is over, and one that is over gives its slots back.
    pub(super) fn settle(&mut self, wants: &mut Vec<Want>) {
        if self.released || !self.all_over() {
            return;
        }
        if self.state() == JobState::Canceling {
            self.set_state(JobState::Canceled);
            wants.push(Want::Emit(Event::JobEnded { job: self.number(), failed: false }));
        }
        if self.is_over() {
            self.released = true;
            // `execution.checkpointing.externalized-checkpoint-retention`; one that has finished needs none.
            let retains = self.retains && self.state() != JobState::Finished;
            self.retained = self.latest().filter(|_| retains).cloned();
            wants.push(Want::Keep);
            wants.push(Want::Release);
        }
    }
}
