//! `CheckpointCoordinator`: triggers, collects acknowledgements, completes, gives up. Rules C1 to C13.
//!
//! Lives on the JobMaster's main thread. What the real one hands to other threads and gets back later runs here at the end of
//! the call, in the order in which it was handed over: a later look at the queue, a message to tasks about an abort, the next
//! steps of a trigger.

use super::pending::{Acknowledged, Pending};
use super::{
    CheckpointId, Choice, Completed, FailureCounter, Kind, Plan, Reason, Request, RequestId, Requests, Situation,
    Store, Task, TaskIndex, plan,
};
use crate::base::Millis;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// `execution.checkpointing.*`.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointConfig {
    /// `interval`.
    pub interval: Millis,
    /// `interval-during-backlog`; none: the same; zero: no checkpoints meanwhile.
    pub interval_during_backlog: Option<Millis>,
    /// `min-pause`.
    pub min_pause: Millis,
    /// `timeout`.
    pub timeout: Millis,
    /// `max-concurrent-checkpoints`.
    pub max_concurrent: usize,
    /// `tolerable-failed-checkpoints`.
    pub tolerable: u32,
    /// `num-retained`.
    pub retained: usize,
    /// `checkpoints-after-tasks-finish`.
    pub after_finish: bool,
}
impl CheckpointConfig {
    /// The defaults, with this interval (which has none).
    pub const fn every(interval: Millis) -> Self {
        Self {
            interval,
            interval_during_backlog: None,
            min_pause: Millis::ZERO,
            timeout: Millis::secs(600),
            max_concurrent: 1,
            tolerable: 0,
            retained: 1,
            after_finish: true,
        }
    }
}

/// What the coordinator does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<S> {
    /// Ask all operator coordinators for their state.
    SnapshotCoordinators(CheckpointId),
    /// Trigger these tasks.
    Trigger {
        /// The checkpoint.
        id: CheckpointId,
        /// What it is.
        kind: Kind,
        /// Whom.
        tasks: Vec<TaskIndex>,
    },
    /// It is in the store.
    Completed(Arc<Completed<S>>),
    /// A checkpoint has failed, or (without a number) never began.
    Failed(Option<CheckpointId>, Reason),
    /// Too many have: fail the job.
    FailJob,
    /// Too many have: fail this task.
    FailTask(TaskIndex),
    /// Tell tasks that it is complete: once, and nobody checks (N1).
    NotifyComplete(CheckpointId, Vec<TaskIndex>),
    /// Tell tasks that it is given up.
    NotifyAborted(CheckpointId, Vec<TaskIndex>),
    /// Tell the operator coordinators that it is complete.
    CoordinatorsComplete(CheckpointId),
    /// Tell the operator coordinators that it is given up.
    CoordinatorsAborted(CheckpointId),
    /// Tell the operator coordinators that the trigger under way is given up.
    AbortTriggering,
    /// A user's request is done.
    RequestDone(RequestId, Arc<Completed<S>>),
    /// A user's request has failed.
    RequestFailed(RequestId, Reason),
    /// An acknowledgement that belongs to nothing: its state is discarded.
    Unknown(CheckpointId),
}

/// What runs at the end of the call.
#[derive(Clone, Debug)]
pub(super) enum Later {
    /// A look at the queue.
    Look,
    /// Files have been deleted; then a look.
    Cleaned,
    Aborted(CheckpointId, Vec<TaskIndex>),
    /// A trigger goes on: whom it takes in.
    Plan(Request, Millis),
    /// Its checkpoint gets a number.
    Number(Request, Millis, Plan),
    /// It ends before there is a checkpoint.
    NeverBegan(Request, Reason),
    /// A trigger ends because its checkpoint was given up.
    TriggerLost(Kind, CheckpointId, Reason),
}

/// The coordinator of one job.
#[derive(Clone, Debug)]
pub struct CheckpointCoordinator<S> {
    pub(super) config: CheckpointConfig,
    pub(super) tasks: Vec<Task>,
    pub(super) coordinators: usize,
    pub(super) requests: Requests,
    pub(super) pending: BTreeMap<CheckpointId, Pending<S>>,
    pub(super) store: Store<S>,
    pub(super) counter: FailureCounter,
    pub(super) next_id: CheckpointId,
    pub(super) last_completion: Millis,
    pub(super) triggering: bool,
    pub(super) cleaning: usize,
    pub(super) ghosts: VecDeque<CheckpointId>,
    pub(super) periodic: bool,
    pub(super) shutdown: bool,
    pub(super) backlog: bool,
    /// The next tick, and its order among the deadlines.
    pub(super) tick: Option<(Millis, u64)>,
    pub(super) set: u64,
    pub(super) later: VecDeque<Later>,
}

impl<S: Clone> CheckpointCoordinator<S> {
    /// The coordinator of these tasks and of so many operator coordinators. `min-pause` above an interval raises it.
    pub fn new(mut config: CheckpointConfig, tasks: Vec<Task>, coordinators: usize) -> Self {
        config.interval = Millis(config.interval.0.max(config.min_pause.0));
        let raised = |during: Millis| if during > Millis::ZERO { during.max(config.min_pause) } else { during };
        config.interval_during_backlog = config.interval_during_backlog.map(raised);
        Self {
            config,
            tasks,
            coordinators,
            requests: Requests::default(),
            pending: BTreeMap::new(),
            store: Store::new(config.retained),
            counter: FailureCounter::new(config.tolerable),
            next_id: CheckpointId(1),
            last_completion: Millis::ZERO,
            triggering: false,
            cleaning: 0,
            ghosts: VecDeque::new(),
            periodic: false,
            shutdown: false,
            backlog: false,
            tick: None,
            set: 0,
            later: VecDeque::new(),
        }
    }
    /// Takes up what another had left, or what a job is submitted with: completed checkpoints, and the next number (C6).
    pub fn recover(&mut self, completed: impl IntoIterator<Item = Arc<Completed<S>>>, next: CheckpointId) {
        for one in completed {
            self.store.add(one);
        }
        self.next_id = self.next_id.max(next);
    }
    /// The number of the next checkpoint.
    pub const fn next_id(&self) -> CheckpointId {
        self.next_id
    }
    /// Numbers of pending checkpoints, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = CheckpointId> {
        self.pending.keys().copied()
    }
    /// When a pending checkpoint was triggered.
    pub fn timestamp(&self, id: CheckpointId) -> Option<Millis> {
        self.pending.get(&id).map(|p| p.timestamp)
    }
    /// The completed ones.
    pub const fn store(&self) -> &Store<S> {
        &self.store
    }
    /// How many requests wait.
    pub fn queued(&self) -> usize {
        self.requests.len()
    }
    /// A task has changed.
    pub fn task(&mut self, task: TaskIndex) -> &mut Task {
        &mut self.tasks[task]
    }
    fn deadline(&mut self, at: Millis) -> (Millis, u64) {
        self.set += 1;
        (at, self.set)
    }
    /// When [`Self::fire`] has something to do next: a tick or an expiry.
    pub fn next(&self) -> Option<Millis> {
        self.pending.values().map(|p| p.expires).chain(self.tick).min().map(|(at, _)| at)
    }

    /// The job has become RUNNING: ticks begin after `first`, which Flink draws from min-pause to interval (C2).
    pub fn start(&mut self, first: Millis, now: Millis, out: &mut Vec<Effect<S>>) {
        if self.periodic {
            self.stop(now, out);
        }
        self.periodic = true;
        self.tick = Some(self.deadline(now + first));
    }
    /// The job is no longer RUNNING (C1).
    pub fn stop(&mut self, now: Millis, out: &mut Vec<Effect<S>>) {
        self.periodic = false;
        self.tick = None;
        self.abort_queued(Reason::CoordinatorSuspend, out);
        self.abort_where(|_| true, Reason::CoordinatorSuspend, out);
        self.run(now, out);
    }
    /// The coordinator ends with its job.
    pub fn shutdown(&mut self, now: Millis, out: &mut Vec<Effect<S>>) {
        self.shutdown = true;
        self.periodic = false;
        self.abort_queued(Reason::CoordinatorShutdown, out);
        self.abort_where(|_| true, Reason::CoordinatorShutdown, out);
        self.run(now, out);
    }
    /// A user asks.
    pub fn request(&mut self, kind: Kind, by: RequestId, now: Millis, out: &mut Vec<Effect<S>>) {
        self.enqueue(Request { kind, by: Some(by) }, now, out);
        self.run(now, out);
    }
    /// A source reports that it works through a backlog, or no longer.
    pub fn set_backlog(&mut self, backlog: bool, now: Millis) {
        self.backlog = backlog;
        let next = self.current_interval().map(|interval| now + interval);
        // The tick that is scheduled stays, unless the new interval would bring one earlier. Nobody asks whether triggering
        // is on (`setIsProcessingBacklog`): where it is off the ticks come, and fail.
        if let Some(next) = next.filter(|n| self.tick.is_none_or(|(at, _)| *n < at)) {
            self.tick = Some(self.deadline(next));
        }
    }
    fn current_interval(&self) -> Option<Millis> {
        let during = self.config.interval_during_backlog.filter(|_| self.backlog);
        Some(during.unwrap_or(self.config.interval)).filter(|i| *i > Millis::ZERO)
    }
    /// Fires the first deadline not after `now`. False if there is none.
    pub fn fire(&mut self, now: Millis, out: &mut Vec<Effect<S>>) -> bool {
        let expiry = self.pending.values().map(|p| (p.expires, Some(p.id))).min_by_key(|(at, _)| *at);
        let first = self.tick.map(|tick| (tick, None)).into_iter().chain(expiry).min_by_key(|(at, _)| *at);
        let Some(((at, _), what)) = first.filter(|((at, _), _)| *at <= now) else { return false };
        match what {
            Some(id) => self.abort(id, Reason::Expired, None, out),
            None => {
                // The rhythm goes on from the tick's own time.
                self.tick = self.current_interval().map(|interval| self.deadline(at + interval));
                self.enqueue(Request { kind: Kind::Periodic, by: None }, now, out);
            }
        }
        self.run(now, out);
        true
    }

    fn enqueue(&mut self, request: Request, now: Millis, out: &mut Vec<Effect<S>>) {
        let before = out.len();
        if let Some(Request { by: Some(by), .. }) = self.requests.add(request) {
            out.push(Effect::RequestFailed(by, Reason::TooManyRequests));
        }
        self.look(now, out);
        // Who asks listens only once the call is back (`triggerCheckpointFromCheckpointThread`).
        let refused = |e: &Effect<S>| matches!(e, Effect::RequestFailed(by, _) if Some(*by) == request.by);
        if let Some(place) = out[before..].iter().position(refused) {
            out[before + place..].rotate_left(1);
        }
    }
    /// One look at the queue (C3, C4).
    fn look(&mut self, now: Millis, out: &mut Vec<Effect<S>>) {
        let situation = Situation {
            triggering: self.triggering,
            pending: self.pending.len(),
            cleaning: self.cleaning,
            max_concurrent: self.config.max_concurrent,
            pause_left: self.last_completion + self.config.min_pause - now,
        };
        match self.requests.choose(situation) {
            Choice::Wait => {}
            Choice::TooEarly(left) => self.tick = Some(self.deadline(now + left)),
            Choice::Start(request) => self.start_trigger(request, now, out),
        }
    }
    /// Whether anything stands against a trigger.
    fn check(&self, request: Request) -> Result<(), Reason> {
        if self.shutdown {
            Err(Reason::CoordinatorShutdown)
        } else if request.kind == Kind::Periodic && !self.periodic {
            Err(Reason::PeriodicSchedulerShutdown)
        } else {
            Ok(())
        }
    }
    fn start_trigger(&mut self, request: Request, now: Millis, out: &mut Vec<Effect<S>>) {
        match self.check(request) {
            Err(reason) => self.never_began(request, reason, now, out),
            Ok(()) => {
                self.triggering = true;
                self.later.push_back(Later::Plan(request, now));
            }
        }
    }
    /// The trigger fails before there is a checkpoint.
    fn never_began(&mut self, request: Request, reason: Reason, now: Millis, out: &mut Vec<Effect<S>>) {
        if let Some(by) = request.by {
            out.push(Effect::RequestFailed(by, reason));
        }
        self.abort_triggering(out);
        self.report(None, request.kind, reason, None, out);
        self.triggering = false;
        self.look(now, out);
    }
    fn abort_triggering(&self, out: &mut Vec<Effect<S>>) {
        if self.coordinators > 0 {
            out.push(Effect::AbortTriggering);
        }
    }
    /// The checkpoint gets its number (used up whatever comes: C6) and its timeout; operator coordinators come first (C7).
    fn number(&mut self, request: Request, timestamp: Millis, plan: Plan, now: Millis, out: &mut Vec<Effect<S>>) {
        let id = self.next_id;
        self.next_id = CheckpointId(id.0 + 1);
        let began = if plan.wait_for.is_empty() { Err(Reason::TriggerFailure) } else { Ok(()) };
        if let Err(reason) = self.check(request).and(began) {
            return self.later.push_back(Later::NeverBegan(request, reason));
        }
        let expires = self.deadline(timestamp + self.config.timeout);
        let pending = Pending::new(id, request, timestamp, plan, self.coordinators, expires);
        self.pending.insert(id, pending);
        if self.coordinators > 0 {
            out.push(Effect::SnapshotCoordinators(id));
        } else {
            self.trigger_tasks(id, now, out);
        }
    }
    fn trigger_tasks(&mut self, id: CheckpointId, now: Millis, out: &mut Vec<Effect<S>>) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.triggered = true;
        out.push(Effect::Trigger { id, kind: pending.request.kind, tasks: pending.plan.trigger.clone() });
        self.complete_if_done(id, now, out);
        self.triggering = false;
        self.look(now, out);
    }

    /// An operator coordinator hands in its state.
    pub fn coordinator_done(
        &mut self,
        coordinator: usize,
        id: CheckpointId,
        state: S,
        now: Millis,
        out: &mut Vec<Effect<S>>,
    ) {
        let Some(pending) = self.pending.get_mut(&id).filter(|p| !p.coordinators_done()) else { return };
        if pending.coordinator(coordinator, state) {
            self.trigger_tasks(id, now, out);
        }
        self.run(now, out);
    }
    /// An operator coordinator cannot.
    pub fn coordinator_failed(&mut self, id: CheckpointId, now: Millis, out: &mut Vec<Effect<S>>) {
        if self.pending.get(&id).is_none_or(Pending::coordinators_done) {
            return;
        }
        self.abort_triggering(out);
        // Its trigger ends with it, not once more.
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.triggered = true;
        }
        self.abort(id, Reason::TriggerFailure, None, out);
        self.triggering = false;
        self.look(now, out);
        self.run(now, out);
    }
    /// The call that triggers a task was not answered in time (C5a): not counted, and its number is used up.
    pub fn trigger_failed(&mut self, id: CheckpointId, now: Millis, out: &mut Vec<Effect<S>>) {
        self.abort(id, Reason::TriggerFailure, None, out);
        self.run(now, out);
    }
    /// A task has taken its snapshot.
    pub fn acknowledge(
        &mut self,
        task: TaskIndex,
        attempt: u32,
        id: CheckpointId,
        state: S,
        now: Millis,
        out: &mut Vec<Effect<S>>,
    ) {
        match self.pending.get_mut(&id).filter(|_| !self.shutdown) {
            Some(pending) => {
                if pending.acknowledge(task, attempt, state) == Acknowledged::Taken {
                    self.complete_if_done(id, now, out);
                }
            }
            None if self.ghosts.contains(&id) && !self.shutdown => {}
            None => out.push(Effect::Unknown(id)),
        }
        self.run(now, out);
    }
    /// A task declines.
    pub fn decline(
        &mut self,
        task: TaskIndex,
        id: CheckpointId,
        reason: Reason,
        now: Millis,
        out: &mut Vec<Effect<S>>,
    ) {
        self.abort(id, reason, Some(task), out);
        self.run(now, out);
    }
    /// A task has failed: what it had not acknowledged is lost (C12).
    pub fn task_failed(&mut self, task: TaskIndex, now: Millis, out: &mut Vec<Effect<S>>) {
        self.abort_where(|p| !p.acknowledged_by(task), Reason::TaskFailure, out);
        self.run(now, out);
    }
    /// A task has failed and the job leaves RUNNING with it.
    pub fn task_failed_and_stop(&mut self, task: TaskIndex, now: Millis, out: &mut Vec<Effect<S>>) {
        self.abort_where(|p| !p.acknowledged_by(task), Reason::TaskFailure, out);
        self.stop(now, out);
    }
    /// Gives all up, as a restore does.
    pub fn abort_all(&mut self, reason: Reason, now: Millis, out: &mut Vec<Effect<S>>) {
        self.abort_where(|_| true, reason, out);
        self.run(now, out);
    }

    /// What other threads were given.
    fn run(&mut self, now: Millis, out: &mut Vec<Effect<S>>) {
        while let Some(later) = self.later.pop_front() {
            match later {
                Later::Look if self.shutdown => {}
                Later::Look => self.look(now, out),
                Later::Cleaned => {
                    self.cleaning -= 1;
                    self.later.push_back(Later::Look);
                }
                Later::Aborted(id, tasks) => out.push(Effect::NotifyAborted(id, tasks)),
                Later::Plan(request, timestamp) => {
                    self.later.push_back(match plan(&self.tasks, self.config.after_finish) {
                        Ok(plan) => Later::Number(request, timestamp, plan),
                        Err(reason) => Later::NeverBegan(request, reason),
                    });
                }
                Later::NeverBegan(request, reason) => self.never_began(request, reason, now, out),
                Later::Number(request, timestamp, plan) => self.number(request, timestamp, plan, now, out),
                Later::TriggerLost(kind, id, reason) => {
                    // The setup of the checkpoint ends with an error of its own, reported once more.
                    self.abort_triggering(out);
                    self.report(Some(id), kind, reason, None, out);
                    self.triggering = false;
                    self.look(now, out);
                }
            }
        }
    }
}
