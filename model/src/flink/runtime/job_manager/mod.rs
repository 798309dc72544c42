//! The JobManager's process: ResourceManager and one JobMaster a job, on one main thread each; here they share a lane.
//!
//! # Acts on jobs
//!
//! A user acts by a signal to [`RPC`]: `Signal::Job(number, act)`, with the number of the job in
//! [`JobManagerConfig::jobs`]. `Submit` begins a job that was not begun at the start ([`Submission::at_start`]), with the state
//! that [`Submission::from`] names: the newest retained checkpoint or savepoint of another job of the list; one that cannot be
//! had, or that holds channel state (unaligned) for channels that are others now, ends the job at once as failed. A job at another
//! parallelism is another job of the list with the same operators. `Cancel` ends it and keeps its newest checkpoint if
//! [`Submission::retain`]; `Savepoint` takes one; `Stop` takes one and ends the job, with `drain` at the end of all event time.
//!
//! # Death
//!
//! What is in the checkpoint storage outlives the process ([`STORE`]). After a start over, with
//! [`JobManagerConfig::high_availability`], jobs that were not over go on from their newest checkpoint, and the TaskManagers
//! hear of the new leader at once: they drop what they ran and register. Without, the jobs are gone; TaskManagers notice by
//! their heartbeats, and the jobs can be submitted again, or others from what is in the storage. A killed JobManager's
//! checkpoint counts as retained, for nobody has deleted it.

mod acts;
mod alignment;
mod assign;
mod checkpoints;
mod enumerator;
mod heartbeats;
mod job;
mod resources;
mod store;

pub use job::{JobMaster, JobState};
pub use store::{Kept, STORE};

use assign::fits;

use super::graph::JobGraph;
use super::ids::{AttemptId, JobId, ResourceId};
use super::link::{Ended, Link};
use super::rpc::{Call, FencingToken, Master, Note, Rpc};
use crate::base::{Addr, Cx, Event, Foreign, Input, JobAct, Lane, Millis, Nanos, Port, Signal, SimTime};
use crate::flink::checkpoint::CheckpointId;
use crate::flink::checkpoint::events::Ticket;
use crate::flink::heartbeat::{self, HeartbeatConfig, HeartbeatManager};
use crate::kafka::messages::Message;
use job::Want;
use resources::Resources;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where it takes calls.
pub const RPC: Port = Port(1);
/// Its own lines and timers.
const MAIN: Port = Port(2);
/// What it takes to make a task's deployment and send it: no source states it. A refusal comes back behind the millisecond of the
/// planned restart for that, as on a real cluster, and counts as an attempt of its own (F6).
const DEPLOY: Nanos = Nanos::millis(2);

/// How it is started.
#[derive(Clone, Debug)]
pub struct JobManagerConfig {
    /// The jobs that it runs from its start on.
    pub jobs: Vec<Arc<JobGraph>>,
    /// `heartbeat.*`.
    pub heartbeat: HeartbeatConfig,
    /// `pekko.ask.timeout`.
    pub ask_timeout: Millis,
    /// How long ago its ResourceManager's start-up period (`slot.request.timeout`) has begun when the run begins: an old
    /// cluster does not wait for TaskManagers (R1.4).
    pub patient_for: Millis,
    /// `high-availability.type` is set: jobs outlive the process.
    pub high_availability: bool,
    /// How each job is begun; of those not listed by default.
    pub submissions: Vec<Submission>,
}
impl JobManagerConfig {
    fn submission(&self, job: JobId) -> Submission {
        self.submissions.get(usize::from(job.0)).copied().unwrap_or_default()
    }
    /// A JobManager with the default keys that begins these jobs at its start.
    pub fn new(jobs: Vec<Arc<JobGraph>>) -> Self {
        Self {
            jobs,
            heartbeat: HeartbeatConfig::default(),
            ask_timeout: Millis::secs(10),
            patient_for: Millis::secs(300),
            high_availability: false,
            submissions: Vec::new(),
        }
    }
}

/// How a job is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// When the JobManager starts for the first time; else by an act.
    pub at_start: bool,
    /// With the state of this job of the list.
    pub from: Option<(JobId, Resume)>,
    /// `execution.checkpointing.externalized-checkpoint-retention` is `RETAIN_ON_CANCELLATION`.
    pub retain: bool,
}
impl Default for Submission {
    fn default() -> Self {
        Self { at_start: true, from: None, retain: false }
    }
}
/// Which state a job is begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The newest checkpoint that was retained.
    Checkpoint,
    /// The newest savepoint.
    Savepoint,
}

/// [`Event::TaskManagerLost`]: by the heartbeat timeout, or unreachable.
const SILENT: u8 = 0;
const UNREACHABLE: u8 = 1;

/// What a call of its own was about.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Heartbeat(Master),
    Slot(u16),
    Submit(AttemptId),
    Cancel(AttemptId),
    Event(JobId, (usize, Ticket)),
    Trigger(JobId, CheckpointId),
}

#[derive(Clone, Debug)]
struct Job {
    master: JobMaster,
    beats: HeartbeatManager<ResourceId>,
}

/// Until the next beat of a manager that has started at any time.
fn phase<W>(config: HeartbeatConfig, whose: &str, cx: &Cx<'_, Message, W>) -> Millis {
    Millis(cx.stream(whose).below(config.interval.0.max(1) as u64) as i64)
}

/// A JobManager.
#[derive(Clone, Debug)]
pub struct JobManager {
    config: Arc<JobManagerConfig>,
    /// This start, where one of several is elected.
    leader: FencingToken,
    resources: Resources,
    beats: HeartbeatManager<ResourceId>,
    jobs: Vec<Job>,
    lines: BTreeMap<ResourceId, Link<Asked>>,
    /// Lines to lost TaskManagers, as long as events of coordinators that went over them are neither confirmed nor given up: a
    /// checkpoint waits for them (`IncompleteFuturesTracker`).
    lost: Vec<(ResourceId, Link<Asked>)>,
    /// Where TaskManagers listen for a new leader.
    watchers: Vec<Addr>,
    /// Lines over which they are told.
    announcements: Vec<Link<Asked>>,
    deadline: Option<SimTime>,
}

impl JobManager {
    /// Starts it with what a former start has left in the store, and begins jobs.
    pub fn start<W: From<Foreign>>(
        config: &Arc<JobManagerConfig>,
        kept: Option<&Kept>,
        cx: &mut Cx<'_, Message, W>,
    ) -> Self {
        cx.listen(RPC, true);
        cx.wake_port(MAIN, Some(cx.now));
        let now = cx.millis();
        let first = cx.incarnation.0 << 16;
        // H1: a manager beats from its own start. These started at any time before, so their phases are independent (H3a).
        let beats = |whose: &str| HeartbeatManager::asking(config.heartbeat, now + phase(config.heartbeat, whose, cx));
        let of_resources = beats("heartbeats");
        let job = |(graph, number): (&Arc<JobGraph>, u16)| Job {
            master: JobMaster::new(
                JobId(number),
                Arc::clone(graph),
                first,
                config.submission(JobId(number)).retain,
                cx.stream(&format!("job {number}")),
                cx.fixes,
            ),
            beats: beats(&format!("heartbeats of job {number}")),
        };
        let jobs = config.jobs.iter().zip(0u16..).map(job).collect();
        let mut manager = Self {
            config: Arc::clone(config),
            leader: config.high_availability.then_some(cx.incarnation),
            resources: Resources::new(now + config.patient_for, cx.stream("resources")),
            beats: of_resources,
            jobs,
            lines: BTreeMap::new(),
            lost: Vec::new(),
            watchers: kept.map(|k| k.watchers.clone()).unwrap_or_default(),
            announcements: Vec::new(),
            deadline: None,
        };
        match kept {
            None => {
                for number in (0..config.jobs.len() as u16).map(JobId) {
                    if config.submission(number).at_start {
                        manager.submit(number, cx);
                    }
                }
            }
            Some(kept) => manager.take_over(kept, cx),
        }
        manager.keep(cx);
        manager
    }
    /// A start over.
    fn take_over<W>(&mut self, kept: &Kept, cx: &mut Cx<'_, Message, W>) {
        let available = self.config.high_availability;
        for (number, kept) in kept.jobs.iter().enumerate() {
            let master = &mut self.jobs[number].master;
            master.left(kept);
            if kept.alive && available {
                master.recover(kept, |job| self.config.jobs.get(usize::from(job.0)).cloned());
            } else if kept.alive {
                cx.emit(Event::JobEnded { job: number as u16, failed: true });
            }
        }
        if available {
            for watcher in &self.watchers {
                let mut line = Link::new(MAIN, *watcher, self.config.ask_timeout);
                line.tell(Note::Leader(self.leader), cx);
                self.announcements.push(line);
            }
        }
    }
    /// Begins a job; false if it has begun before, or its state is not to be had.
    fn submit<W>(&mut self, job: JobId, cx: &mut Cx<'_, Message, W>) -> bool {
        let from = match self.config.submission(job).from {
            None => None,
            Some((of, which)) => {
                let Some(other) = self.job(of) else { return false };
                let state = match which {
                    Resume::Checkpoint => other.retained(),
                    Resume::Savepoint => other.savepoint(),
                };
                let graph = state.map(|state| other.graph_of(state.id));
                let new = &self.config.jobs[usize::from(job.0)];
                let Some((state, graph)) = state.zip(graph).filter(|(s, old)| fits(s, old, new)) else {
                    cx.emit(Event::JobEnded { job: job.0, failed: true });
                    return false;
                };
                Some((Arc::clone(state), of, Arc::clone(graph)))
            }
        };
        self.jobs.get_mut(usize::from(job.0)).is_some_and(|of_job| of_job.master.submit(from))
    }
    /// Writes what is to outlive the process.
    fn keep<W: From<Foreign>>(&self, cx: &mut Cx<'_, Message, W>) {
        let jobs = self.jobs.iter().map(|j| j.master.kept()).collect();
        let kept = Kept { jobs, watchers: self.watchers.clone() };
        cx.write(STORE, Foreign::new(kept).into());
    }
    fn act<W: From<Foreign>>(&mut self, job: JobId, act: JobAct, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        match act {
            JobAct::Submit if self.submit(job, cx) => {
                // Its JobMaster starts now (H1).
                self.jobs[usize::from(job.0)].beats = HeartbeatManager::asking(self.config.heartbeat, now);
            }
            JobAct::Submit => {}
            JobAct::Cancel => self.with_job(job, cx, |job, wants| job.cancel_job(now, wants)),
            JobAct::Stop { drain } => self.with_job(job, cx, |job, wants| job.stop_job(drain, now, wants)),
            JobAct::Savepoint => self.with_job(job, cx, |job, wants| job.take_savepoint(now, wants)),
        }
    }
    /// ResourceManager and JobMasters share one thread.
    pub const fn lane(&self, _: Port) -> Lane {
        Lane(0)
    }
    /// A job's master.
    pub fn job(&self, job: JobId) -> Option<&JobMaster> {
        self.jobs.get(usize::from(job.0)).map(|j| &j.master)
    }

    /// Takes an input at one of its ports.
    pub fn step<W: From<Foreign>>(&mut self, port: Port, input: &Input<Message>, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        if let Input::Signal(Signal::Job(job, act)) = input {
            self.act(JobId(*job), *act, cx);
        } else if port == RPC {
            self.called(input, cx);
        } else {
            let mut ended = Vec::new();
            match input {
                Input::Wake => {
                    self.deadline = None;
                    let lost = self.lost.iter_mut().map(|(id, line)| (*id, line));
                    self.lines.iter_mut().map(|(id, line)| (*id, line)).chain(lost).for_each(|(id, line)| {
                        let mut of_line = Vec::new();
                        line.expire(now, &mut of_line);
                        ended.extend(of_line.into_iter().map(|(asked, how)| (id, asked, how)));
                    });
                    self.lost.retain(|(_, line)| line.deadline().is_some());
                }
                Input::Connection(conn, _) | Input::Message { conn, .. } => {
                    if let Some((id, line)) = self.lines.iter_mut().find(|(_, l)| l.holds(*conn)) {
                        let mut of_line = Vec::new();
                        line.input(input, &mut of_line, cx);
                        ended.extend(of_line.into_iter().map(|(asked, how)| (*id, asked, how)));
                    }
                    for line in self.announcements.iter_mut().filter(|l| l.holds(*conn)) {
                        line.input(input, &mut Vec::new(), cx);
                    }
                    self.told(input, now);
                }
                _ => {}
            }
            for (id, asked, how) in ended {
                self.ended(id, asked, how, cx);
            }
        }
        self.beat(cx);
        self.run(cx);
        self.rest(cx);
    }
    fn rest<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        let jobs = self.jobs.iter().flat_map(|j| [j.master.deadline(now), j.beats.next()]);
        let millis = jobs.chain([self.beats.next(), self.resources.next(now)]).flatten().min().map(SimTime::at);
        let lost = self.lost.iter().map(|(_, line)| line);
        let at = self.lines.values().chain(lost).filter_map(Link::deadline).chain(millis).min();
        if at != self.deadline {
            self.deadline = at;
            cx.wake_port(MAIN, at.map(|at| at.max(cx.now)));
        }
    }

    /// A TaskManager calls.
    fn called<W: From<Foreign>>(&mut self, input: &Input<Message>, cx: &mut Cx<'_, Message, W>) {
        let Input::Message { conn, message: Message::Foreign(m), .. } = input else { return };
        match m.get() {
            Some(Rpc::Ask { id, to, call }) => {
                let meant = to.is_none() || *to == self.leader;
                let accepted = meant && self.answer(call, cx);
                cx.send(*conn, Rpc::Answer { id: *id, by: self.leader, accepted }.wrap());
            }
            Some(Rpc::Tell(Note::SlotAvailable(id, job, slot))) => {
                self.resources.available(*id, *job, *slot, cx.millis());
            }
            Some(Rpc::Tell(Note::FailSlot(id, job, slot))) => self.lose_slot(*job, (*id, *slot), cx),
            Some(Rpc::Tell(
                note @ (Note::Acknowledge(attempt, ..) | Note::Decline(attempt, ..) | Note::Reported(attempt, ..)),
            )) => {
                let now = cx.millis();
                self.with_job(attempt.subtask.job, cx, |job, wants| job.noted(note, now, wants));
            }
            _ => {}
        }
    }
    fn answer<W: From<Foreign>>(&mut self, call: &Call, cx: &mut Cx<'_, Message, W>) -> bool {
        let now = cx.millis();
        match call {
            Call::RegisterTaskManager { resource, slots, rpc, data } => {
                for before in self.resources.predecessors(*resource) {
                    self.lose(before, cx);
                }
                if self.resources.get(*resource).is_none() {
                    self.resources.register(*resource, *data, slots, now);
                    if !self.watchers.contains(rpc) {
                        self.watchers.push(*rpc);
                        self.keep(cx);
                    }
                    self.lines.insert(*resource, Link::new(MAIN, *rpc, self.config.ask_timeout));
                }
                self.beats.monitor(*resource, now);
                true
            }
            Call::OfferSlots { resource, job, slots } => {
                let Some(job) = self.jobs.get_mut(usize::from(job.0)) else { return false };
                // One that the ResourceManager has lost comes back by registering.
                let there = self.lines.contains_key(resource);
                let taken = there && slots.iter().all(|slot| job.master.offer((*resource, *slot)));
                if taken {
                    job.beats.monitor(*resource, now);
                }
                taken
            }
            Call::Update { attempt, state } => {
                let job = attempt.subtask.job;
                let mut wants = Vec::new();
                let Some(of_job) = self.jobs.get_mut(usize::from(job.0)) else { return false };
                let known = of_job.master.update(*attempt, *state, now, &mut wants);
                self.carry_out(wants, job, cx);
                known
            }
            _ => false,
        }
    }
    /// A TaskManager tells that it is there.
    fn told(&mut self, input: &Input<Message>, now: Millis) {
        let Input::Message { message: Message::Foreign(m), .. } = input else { return };
        if let Some(Rpc::Tell(Note::Alive(master, resource, slots))) = m.get() {
            self.of(*master).received(*resource, now);
            if *master == Master::Resource {
                self.resources.report(*resource, slots, now);
            }
        }
    }
    fn of(&mut self, master: Master) -> &mut HeartbeatManager<ResourceId> {
        match master {
            Master::Resource => &mut self.beats,
            Master::Job(job) => &mut self.jobs[usize::from(job.0)].beats,
        }
    }

    /// A call of its own has ended.
    fn ended<W: From<Foreign>>(&mut self, id: ResourceId, asked: Asked, how: Ended, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        match asked {
            Asked::Heartbeat(master) => {
                let called = match how {
                    Ended::Answered(_) => heartbeat::Call::Delivered,
                    Ended::Unreachable => heartbeat::Call::Unreachable,
                    Ended::TimedOut | Ended::Fenced(_) => heartbeat::Call::Failed,
                };
                if self.of(master).called(id, called).is_some() {
                    self.lost_by(master, id, UNREACHABLE, cx);
                }
            }
            Asked::Slot(slot) if how == Ended::Answered(true) => self.resources.confirm(id, slot),
            Asked::Slot(slot) => self.resources.free(id, slot, now),
            Asked::Event(job, event) => {
                let delivered = how == Ended::Answered(true);
                self.with_job(job, cx, |job, wants| job.event_ended(event, delivered, now, wants));
            }
            Asked::Trigger(job, id) if how != Ended::Answered(true) => {
                self.with_job(job, cx, |job, wants| job.trigger_ended(id, now, wants));
            }
            Asked::Submit(attempt) if how != Ended::Answered(true) => {
                self.with_job(attempt.subtask.job, cx, |job, wants| job.call_failed(attempt, now, wants));
            }
            // A cancel that did not arrive is tried until the TaskManager is lost or the task is gone.
            Asked::Cancel(attempt) if how == Ended::TimedOut => self.cancel(id, attempt, cx),
            Asked::Cancel(attempt) if how == Ended::Unreachable => {
                self.with_job(attempt.subtask.job, cx, |job, wants| job.call_failed(attempt, now, wants));
            }
            _ => {}
        }
    }
    fn with_job<W: From<Foreign>>(
        &mut self,
        job: JobId,
        cx: &mut Cx<'_, Message, W>,
        change: impl FnOnce(&mut JobMaster, &mut Vec<Want>),
    ) {
        let mut wants = Vec::new();
        if let Some(of_job) = self.jobs.get_mut(usize::from(job.0)) {
            change(&mut of_job.master, &mut wants);
        }
        self.carry_out(wants, job, cx);
    }
    fn cancel<W>(&mut self, id: ResourceId, attempt: AttemptId, cx: &mut Cx<'_, Message, W>) {
        if let Some(line) = self.lines.get_mut(&id) {
            line.ask(Call::Cancel(attempt), Asked::Cancel(attempt), cx);
        }
    }

    /// Every job goes on as far as it can, and the ResourceManager gives what it has.
    fn run<W: From<Foreign>>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        for number in 0..self.jobs.len() as u16 {
            let resources = &self.resources;
            let data = |id: ResourceId| resources.get(id).map(|r| r.data);
            let wants = self.jobs[usize::from(number)].master.run(now, data);
            self.carry_out(wants, JobId(number), cx);
        }
        for (job, id, slot) in self.resources.allocate(now) {
            if let Some(line) = self.lines.get_mut(&id) {
                line.ask(Call::RequestSlot { job, slot }, Asked::Slot(slot), cx);
            }
        }
        for job in self.resources.unfulfillable(now) {
            self.with_job(job, cx, |job, wants| job.no_resource(now, wants));
        }
    }
    fn carry_out<W: From<Foreign>>(&mut self, wants: Vec<Want>, job: JobId, cx: &mut Cx<'_, Message, W>) {
        for want in wants {
            match want {
                Want::Slots(slots) => self.resources.declare(job, slots, cx.millis()),
                Want::Cancel(id, attempt) => self.cancel(id, attempt, cx),
                Want::Submit(id, deployment) => {
                    let attempt = deployment.attempt;
                    cx.work(DEPLOY);
                    if let Some(line) = self.lines.get_mut(&id) {
                        line.ask(Call::Submit(deployment), Asked::Submit(attempt), cx);
                    }
                }
                Want::Event(id, attempt, number, event) => {
                    if let Some(line) = self.lines.get_mut(&id) {
                        line.ask(Call::ToOperator { attempt, event }, Asked::Event(job, number), cx);
                    }
                }
                Want::Trigger(id, attempt, barrier, stop) => {
                    if let Some(line) = self.lines.get_mut(&id) {
                        line.ask(Call::Trigger { attempt, barrier, stop }, Asked::Trigger(job, barrier.id), cx);
                    }
                }
                Want::Tell(id, note) => {
                    if let Some(line) = self.lines.get_mut(&id) {
                        line.tell(note, cx);
                    }
                }
                Want::Emit(event) => cx.emit(event),
                Want::Keep => self.keep(cx),
                Want::Release => {
                    for id in self.resources.release(job, cx.millis()) {
                        self.jobs[usize::from(job.0)].beats.unmonitor(id);
                        if let Some(line) = self.lines.get_mut(&id) {
                            line.tell(Note::Disconnect(job), cx);
                        }
                    }
                }
                Want::FailTask(attempt, cause) => {
                    let now = cx.millis();
                    self.with_job(job, cx, |job, wants| job.fail_task(attempt, cause, now, wants));
                }
                Want::FailJob => {
                    let now = cx.millis();
                    self.with_job(job, cx, |job, wants| job.fail_job(now, wants));
                }
            }
        }
    }
}
