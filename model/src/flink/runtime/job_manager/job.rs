//! A JobMaster's books: executions, slots, failover (`DefaultScheduler`, `ExecutionGraph`). It decides; the process around it
//! calls.

use super::super::graph::{Exchange, JobEdge, JobGraph, Kind};
use super::super::ids::{AttemptId, ChannelId, JobId, ResourceId, SubtaskId};
use super::super::rpc::{Cause, Deployment, ExecutionState, Note, OperatorEvent};
use super::super::state::State;
use super::enumerator::Enumerator;
use crate::base::{Addr, Event, Fixes, Millis, Stream};
use crate::flink::barrier::Barrier;
use crate::flink::checkpoint::events::Ticket;
use crate::flink::checkpoint::{self, CheckpointCoordinator, CheckpointId, Completed, TaskIndex};
use crate::flink::failover::{Edge, PartitionType, Pattern, Topology};
use crate::flink::restart::Restarts;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A slot of a TaskManager.
pub type Slot = (ResourceId, u16);

/// What the job as a whole is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Not begun.
    Created,
    /// Waits for slots.
    Scheduling,
    /// Deployed.
    Running,
    /// Waits for the delay, and for its tasks to be gone (F3).
    Restarting {
        /// When the delay is over.
        until: Millis,
    },
    /// Told to end; its tasks stop.
    Canceling,
    /// Ended as told.
    Canceled,
    /// No restart any more.
    Failed,
    /// Every task has finished.
    Finished,
}

/// What a subtask's present attempt is at, as the JobMaster knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// To be deployed.
    Created,
    /// Submitted; not heard of yet.
    Deploying,
    /// Told to stop.
    Canceling,
    /// As the task says.
    Told(ExecutionState),
}
impl Stage {
    const fn is_over(self) -> bool {
        use ExecutionState::{Canceled, Failed, Finished};
        matches!(self, Self::Created | Self::Told(Finished | Canceled | Failed(_)))
    }
}

#[derive(Clone, Copy, Debug)]
struct Execution {
    attempt: u32,
    stage: Stage,
    slot: Option<Slot>,
}

/// What the JobMaster wants done.
#[derive(Clone, Debug)]
pub enum Want {
    /// So many slots in all.
    Slots(u16),
    /// A task deployed.
    Submit(ResourceId, Arc<Deployment>),
    /// A task stopped.
    Cancel(ResourceId, AttemptId),
    /// An operator told something by its coordinator.
    Event(ResourceId, AttemptId, (usize, Ticket), OperatorEvent),
    /// A source triggered; with a synchronous savepoint, whether it drains.
    Trigger(ResourceId, AttemptId, Barrier, Option<bool>),
    /// A task told something that nobody waits for.
    Tell(ResourceId, Note),
    /// This task failed.
    FailTask(AttemptId, Cause),
    /// The whole job failed and started again.
    FailJob,
    /// Trace and laws told.
    Emit(Event),
    /// What is to outlive the process written.
    Keep,
    /// Its slots given back.
    Release,
}

/// A JobMaster.
#[derive(Clone, Debug)]
pub struct JobMaster {
    id: JobId,
    graph: Arc<JobGraph>,
    topology: Topology,
    restarts: Restarts,
    pub(super) random: Stream,
    /// Checkpoints, if it takes any.
    pub(super) coordinator: Option<CheckpointCoordinator<State>>,
    pub(super) enumerators: Vec<Enumerator>,
    /// The newest completed checkpoint.
    pub completed: Option<CheckpointId>,
    /// How many have completed.
    pub completions: u32,
    /// What it was restored from last.
    pub restored_from: Option<CheckpointId>,
    /// It was submitted.
    pub(super) submitted: bool,
    /// The checkpoint that it was submitted with: its number, the job that had taken it, and that job's graph.
    pub(super) origin: Option<(CheckpointId, JobId, Arc<JobGraph>)>,
    /// What it began with; later the store knows better.
    pub(super) restore_point: Option<Arc<Completed<State>>>,
    pub(super) savepoint: Option<Arc<Completed<State>>>,
    /// The newest checkpoint of one that is over.
    pub(super) retained: Option<Arc<Completed<State>>>,
    /// `RETAIN_ON_CANCELLATION`.
    pub(super) retains: bool,
    /// A stop is under way, and whether it drains.
    pub(super) stopping: Option<bool>,
    /// Its slots were given back.
    pub(super) released: bool,
    state: JobState,
    executions: BTreeMap<(u16, u16), Execution>,
    /// Its slots, by index of the subtasks in them.
    slots: Vec<Option<Slot>>,
    /// Restarts so far.
    pub restarted: u32,
}

impl JobMaster {
    /// A job before its submission. Attempts count from `first`: those of the next JobManager are others.
    pub fn new(id: JobId, graph: Arc<JobGraph>, first: u32, retains: bool, random: Stream, fixes: Fixes) -> Self {
        let parallelism = graph.vertices.iter().map(|v| u32::from(v.parallelism)).collect();
        let edge = |e: &JobEdge| Edge {
            from: usize::from(e.from),
            to: usize::from(e.to),
            pattern: if e.exchange == Exchange::Forward { Pattern::Pointwise } else { Pattern::AllToAll },
            kind: PartitionType::Pipelined,
        };
        let topology = Topology::new(parallelism, graph.edges.iter().map(edge).collect());
        let created = Execution { attempt: first, stage: Stage::Created, slot: None };
        let enumerators: Vec<_> = graph
            .vertices
            .iter()
            .zip(0u16..)
            .filter_map(|(v, number)| match &v.chain.first()?.kind {
                Kind::Source(source) => Some(Enumerator::new(number, v.parallelism, source, fixes)),
                _ => None,
            })
            .collect();
        let coordinator =
            graph.checkpointing.map(|c| CheckpointCoordinator::new(c.config, tasks(&graph), enumerators.len()));
        Self {
            id,
            topology,
            restarts: Restarts::new(graph.restart),
            random,
            coordinator,
            enumerators,
            completed: None,
            completions: 0,
            restored_from: None,
            submitted: false,
            origin: None,
            restore_point: None,
            savepoint: None,
            retained: None,
            retains,
            stopping: None,
            released: false,
            state: JobState::Created,
            executions: graph.subtasks().map(|s| (s, created)).collect(),
            slots: vec![None; usize::from(graph.slots())],
            graph,
            restarted: 0,
        }
    }
    /// What it is at.
    pub const fn state(&self) -> JobState {
        self.state
    }
    /// Whether all of its tasks run, but those that have come to their end.
    pub fn runs(&self) -> bool {
        let fine = |e: &Execution| matches!(e.stage, Stage::Told(ExecutionState::Running | ExecutionState::Finished));
        self.executions.values().all(fine)
    }
    /// Whether it will not run again.
    pub const fn is_over(&self) -> bool {
        matches!(self.state, JobState::Canceled | JobState::Failed | JobState::Finished)
    }
    pub(super) const fn set_state(&mut self, state: JobState) {
        self.state = state;
    }
    /// Whether none of its tasks is there.
    pub(super) fn all_over(&self) -> bool {
        self.executions.values().all(|e| e.stage.is_over())
    }
    pub(super) fn cancel_all(&mut self, wants: &mut Vec<Want>) {
        for subtask in self.executions.keys().copied().collect::<Vec<_>>() {
            self.cancel(subtask, wants);
        }
    }
    /// Its number.
    pub(super) const fn number(&self) -> u16 {
        self.id.0
    }
    /// Its graph.
    pub const fn graph(&self) -> &Arc<JobGraph> {
        &self.graph
    }
    fn attempt(&self, (vertex, index): (u16, u16)) -> AttemptId {
        let subtask = SubtaskId { job: self.id, vertex, index };
        AttemptId { subtask, attempt: self.executions[&(vertex, index)].attempt }
    }
    /// The execution that an attempt is the present one of.
    fn present(&mut self, attempt: AttemptId) -> Option<&mut Execution> {
        let execution = self.executions.get_mut(&(attempt.subtask.vertex, attempt.subtask.index))?;
        (execution.attempt == attempt.attempt).then_some(execution)
    }
    /// When it has something to do by itself.
    pub fn deadline(&self, now: Millis) -> Option<Millis> {
        let restart = match self.state {
            // Later it waits for the last of its tasks to be gone, and hears of that.
            JobState::Restarting { until } if until > now => Some(until),
            _ => None,
        };
        let checkpoints = self.coordinator.as_ref().and_then(CheckpointCoordinator::next);
        let alignment = self.enumerators.iter().filter_map(|e| e.aligning.as_ref()?.next());
        let alignment = alignment.min().filter(|_| !self.is_over());
        [restart, checkpoints, alignment].into_iter().flatten().min()
    }
    /// A subtask's number, through over the vertices.
    pub(super) fn index(&self, subtask: (u16, u16)) -> Option<TaskIndex> {
        self.graph.subtasks().position(|s| s == subtask)
    }
    /// The present attempt of a subtask and where it is, if it is deployed.
    pub(super) fn present_of(&self, subtask: (u16, u16)) -> Option<(AttemptId, ResourceId)> {
        let execution = self.executions.get(&subtask).filter(|e| !e.stage.is_over())?;
        Some((self.attempt(subtask), execution.slot?.0))
    }
    /// What the coordinator has to know of a subtask.
    fn tell_coordinator(&mut self, subtask: (u16, u16)) {
        let Some(index) = self.index(subtask) else { return };
        let Execution { attempt, stage, .. } = self.executions[&subtask];
        if let Some(coordinator) = &mut self.coordinator {
            let task = coordinator.task(index);
            task.attempt = attempt;
            task.state = match stage {
                Stage::Told(ExecutionState::Running) => checkpoint::TaskState::Running,
                Stage::Told(ExecutionState::Finished) => checkpoint::TaskState::Finished,
                Stage::Told(ExecutionState::Canceled | ExecutionState::Failed(_)) => checkpoint::TaskState::Ended,
                _ => checkpoint::TaskState::Other,
            };
        }
    }

    /// A slot is offered; false if it has no use for it.
    pub fn offer(&mut self, slot: Slot) -> bool {
        if self.is_over() || !self.submitted {
            return false;
        }
        if self.slots.contains(&Some(slot)) {
            return true;
        }
        let place = self.slots.iter_mut().find(|s| s.is_none());
        let used = place.is_some();
        if let Some(place) = place {
            *place = Some(slot);
        }
        used
    }

    /// The slots of a TaskManager that it has (`createAllocatedSlotReport`).
    pub fn slots_of(&self, manager: ResourceId) -> Vec<u16> {
        self.slots.iter().flatten().filter(|(m, _)| *m == manager).map(|(_, slot)| *slot).collect()
    }
    /// A slot is not to be had any more (`failSlot`): what runs in it has failed.
    pub fn lose_slot(&mut self, slot: Slot, now: Millis, wants: &mut Vec<Want>) {
        self.lose_slots(|s| *s == slot, now, wants);
    }
    fn lose_slots(&mut self, lost: impl Fn(&Slot) -> bool, now: Millis, wants: &mut Vec<Want>) {
        self.slots.iter_mut().for_each(|s| {
            s.take_if(|s| lost(s));
        });
        let there = |e: &Execution| e.slot.as_ref().is_some_and(&lost) && !e.stage.is_over();
        let lost: Vec<_> = self.executions.iter().filter(|(_, e)| there(e)).map(|(s, _)| *s).collect();
        for subtask in lost {
            self.call_failed(self.attempt(subtask), now, wants);
        }
    }

    /// Goes on as far as it can.
    pub fn run(&mut self, now: Millis, data: impl Fn(ResourceId) -> Option<Addr>) -> Vec<Want> {
        let mut wants = Vec::new();
        if self.state == JobState::Created && self.submitted {
            self.state = JobState::Scheduling;
            wants.push(Want::Keep);
            self.start_alignment(now);
            self.start_checkpoints(now, &mut wants);
        }
        self.fire(now, &mut wants);
        self.announce(now, &mut wants);
        self.reset(now, &mut wants);
        if self.state == JobState::Scheduling {
            if self.slots.iter().all(Option::is_some) {
                self.deploy(&data, &mut wants);
            } else {
                wants.push(Want::Slots(self.slots.len() as u16));
            }
        }
        self.settle(&mut wants);
        wants
    }
    fn deploy(&mut self, data: &impl Fn(ResourceId) -> Option<Addr>, wants: &mut Vec<Want>) {
        let created: Vec<_> =
            self.executions.iter().filter(|(_, e)| e.stage == Stage::Created).map(|(s, _)| *s).collect();
        for subtask in &created {
            let slot = self.slots[usize::from(subtask.1)];
            let execution = self.executions.get_mut(subtask).expect("an execution");
            execution.slot = slot;
            execution.stage = Stage::Deploying;
        }
        for subtask in created {
            let Some((manager, slot)) = self.executions[&subtask].slot else { continue };
            let deployment = self.deployment(subtask, slot, data);
            self.topology.set_created((usize::from(subtask.0), u32::from(subtask.1)), false);
            wants.push(Want::Submit(manager, Arc::new(deployment)));
        }
        self.state = JobState::Running;
    }
    fn deployment(&self, me: (u16, u16), slot: u16, data: &impl Fn(ResourceId) -> Option<Addr>) -> Deployment {
        let attempt = self.attempt(me);
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for (edge, number) in self.graph.edges.iter().zip(0u16..) {
            let subtasks =
                |vertex: u16| (0..self.graph.vertices[usize::from(vertex)].parallelism).map(move |i| (vertex, i));
            if edge.to == me.0 {
                for producer in subtasks(edge.from).filter(|p| edge.connects(p.1, me.1)) {
                    let id = ChannelId { edge: number, producer: self.attempt(producer), consumer: attempt };
                    let from = self.executions[&producer].slot.and_then(|(manager, _)| data(manager));
                    inputs.extend(from.map(|from| (id, from)));
                }
            }
            if edge.from == me.0 {
                for consumer in subtasks(edge.to).filter(|c| edge.connects(me.1, c.1)) {
                    outputs.push(ChannelId { edge: number, producer: attempt, consumer: self.attempt(consumer) });
                }
            }
        }
        let restored = self.restored(me);
        Deployment { attempt, slot, graph: Arc::clone(&self.graph), inputs, outputs, restored }
    }

    /// A task tells how it fares; false if the JobMaster does not know that attempt (any more).
    pub fn update(&mut self, attempt: AttemptId, state: ExecutionState, now: Millis, wants: &mut Vec<Want>) -> bool {
        let Some(execution) = self.present(attempt).filter(|e| !e.stage.is_over()) else { return false };
        let canceling = execution.stage == Stage::Canceling;
        match state {
            ExecutionState::Initializing | ExecutionState::Running if canceling => {}
            ExecutionState::Failed(cause) if !canceling => {
                execution.stage = Stage::Told(state);
                self.fail(attempt, cause, now, wants);
            }
            _ => execution.stage = Stage::Told(state),
        }
        self.tell_coordinator((attempt.subtask.vertex, attempt.subtask.index));
        if state == ExecutionState::Running && !canceling {
            self.reader_runs(attempt, now, wants);
            if self.runs() {
                let restored = self.restored_from.map_or(-1, |id| id.0);
                let (job, restarts, attempt) = (self.id.0, self.restarted, attempt.attempt);
                wants.push(Want::Emit(Event::JobRunning { job, restarts, attempt, restored }));
            }
        }
        if self.executions.values().all(|e| e.stage == Stage::Told(ExecutionState::Finished)) {
            self.state = JobState::Finished;
            wants.push(Want::Emit(Event::JobEnded { job: self.id.0, failed: false }));
            self.coordinate(now, wants, |c, out| c.shutdown(now, out));
        }
        true
    }
    /// A task has failed: its region is canceled, and started again when the strategy says so (F1, F3).
    fn fail(&mut self, failed: AttemptId, cause: Cause, now: Millis, wants: &mut Vec<Want>) {
        let subtask = (failed.subtask.vertex, failed.subtask.index);
        if let Some(index) = self.index(subtask) {
            self.coordinate(now, wants, |c, out| c.task_failed_and_stop(index, now, out));
        }
        let task = (usize::from(subtask.0), u32::from(subtask.1));
        for (vertex, index) in self.topology.restart(task, None) {
            self.cancel((vertex as u16, index as u16), wants);
        }
        self.failed(cause, now, wants);
    }
    /// The strategy says when it is tried again, if at all.
    fn failed(&mut self, cause: Cause, now: Millis, wants: &mut Vec<Want>) {
        if self.state == JobState::Canceling || self.is_over() {
            return;
        }
        self.stopping = None;
        let job = self.id.0;
        wants.push(Want::Emit(Event::JobFailing { job, cause: cause as u8 }));
        let random = &mut self.random;
        self.state = match self.restarts.failure(now, || random.bits()).delay {
            Some(delay) => JobState::Restarting { until: now + delay },
            None => {
                wants.push(Want::Emit(Event::JobEnded { job, failed: true }));
                JobState::Failed
            }
        };
    }
    fn cancel(&mut self, subtask: (u16, u16), wants: &mut Vec<Want>) {
        let attempt = self.attempt(subtask);
        if let Some(enumerator) = self.enumerators.iter_mut().find(|e| e.vertex == subtask.0) {
            enumerator.events.task_failed(u32::from(subtask.1));
        }
        let execution = self.executions.get_mut(&subtask).expect("an execution");
        if execution.stage == Stage::Told(ExecutionState::Finished) {
            // It starts again with its region, and finds that it has nothing to do: others want its partition.
            execution.stage = Stage::Told(ExecutionState::Canceled);
        }
        if !execution.stage.is_over() {
            execution.stage = Stage::Canceling;
            if let Some((manager, _)) = execution.slot {
                wants.push(Want::Cancel(manager, attempt));
            }
        }
        self.tell_coordinator(subtask);
    }
    /// A task is failed from here; it is told to stop.
    pub fn fail_task(&mut self, attempt: AttemptId, cause: Cause, now: Millis, wants: &mut Vec<Want>) {
        let Some(execution) = self.present(attempt).filter(|e| !e.stage.is_over() && e.stage != Stage::Canceling)
        else {
            return;
        };
        let slot = execution.slot;
        execution.stage = Stage::Told(ExecutionState::Failed(cause));
        if let Some((manager, _)) = slot {
            wants.push(Want::Cancel(manager, attempt));
        }
        self.fail(attempt, cause, now, wants);
    }
    /// The whole job is failed: every task is stopped, and all begin again from the newest checkpoint (F2).
    pub fn fail_job(&mut self, now: Millis, wants: &mut Vec<Want>) {
        self.coordinate(now, wants, |c, out| c.stop(now, out));
        self.cancel_all(wants);
        self.start_alignment(now);
        self.failed(Cause::Checkpoint, now, wants);
    }
    /// A call to a TaskManager about a task has failed for good: the task counts as failed, or as gone if it was to stop.
    pub fn call_failed(&mut self, attempt: AttemptId, now: Millis, wants: &mut Vec<Want>) {
        let Some(execution) = self.present(attempt).filter(|e| !e.stage.is_over()) else { return };
        if execution.stage == Stage::Canceling {
            execution.stage = Stage::Told(ExecutionState::Canceled);
        } else {
            execution.stage = Stage::Told(ExecutionState::Failed(Cause::Unreachable));
            self.fail(attempt, Cause::Unreachable, now, wants);
        }
    }
    /// A TaskManager is lost: its slots are gone, what ran there has failed at once (H4).
    pub fn lose(&mut self, manager: ResourceId, now: Millis, wants: &mut Vec<Want>) {
        self.lose_slots(|(m, _)| *m == manager, now, wants);
    }
    /// No slot is to be had: that is a failure too (R1.4).
    pub fn no_resource(&mut self, now: Millis, wants: &mut Vec<Want>) {
        if self.state == JobState::Scheduling {
            self.failed(Cause::NoResource, now, wants);
        }
    }
    /// Prepares what has stopped for its next attempt, once the delay is over and everything has stopped (F3).
    fn reset(&mut self, now: Millis, wants: &mut Vec<Want>) {
        let due = matches!(self.state, JobState::Restarting { until } if now >= until);
        if !due || self.executions.values().any(|e| e.stage == Stage::Canceling) {
            return;
        }
        let mut again = Vec::new();
        for (subtask, execution) in &mut self.executions {
            if matches!(execution.stage, Stage::Told(ExecutionState::Canceled | ExecutionState::Failed(_))) {
                execution.attempt += 1;
                execution.stage = Stage::Created;
                execution.slot = None;
                again.push(*subtask);
            }
        }
        for subtask in &again {
            self.topology.set_created((usize::from(subtask.0), u32::from(subtask.1)), true);
            self.tell_coordinator(*subtask);
        }
        self.restore(&again, now, wants);
        self.state = JobState::Scheduling;
        self.restarted += 1;
        self.start_checkpoints(now, wants);
    }
}

/// The tasks as the checkpoint coordinator sees them: each with those that feed it.
fn tasks(graph: &JobGraph) -> Vec<checkpoint::Task> {
    let numbers: Vec<_> = graph.subtasks().collect();
    let feeds = |from: (u16, u16), to: (u16, u16)| {
        graph.edges.iter().any(|e| e.from == from.0 && e.to == to.0 && e.connects(from.1, to.1))
    };
    let task = |to: &(u16, u16)| checkpoint::Task {
        state: checkpoint::TaskState::Other,
        attempt: 0,
        upstream: numbers.iter().enumerate().filter(|(_, from)| feeds(**from, *to)).map(|(i, _)| i).collect(),
    };
    numbers.iter().map(task).collect()
}
