//! A TaskManager: slots, the tasks in them, and their words with the JobManager (`TaskExecutor`).

mod channels;

use super::ids::{AttemptId, ChannelId, JobId, ResourceId};
use super::link::{Ended, Link};
use super::rpc::{Call, Cause, Data, Deployment, ExecutionState, FencingToken, Master, Note, Rpc};
use super::slots::{Offered, SlotTable};
use super::task::{Mail, PORTS, Reader, Split, Task, Turn};
use crate::base::{
    Addr, ConnId, Cx, Ghost, HoldBack, Input, Lane, Millis, Port, Signal, SimTime, SmallMap, TopicId, TopicPartition,
};
use crate::flink::heartbeat::{Beat, HeartbeatConfig, HeartbeatManager};
use crate::kafka::messages::Message;
use crate::kafka::txn_messages::TransactionalId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where it takes calls.
pub const RPC: Port = Port(1);
/// Its own line to the JobManager, and its timers.
const MAIN: Port = Port(2);
/// Where it takes requests for partitions.
pub const DATA: Port = Port(3);
/// Its connections to other TaskManagers' partitions.
const READING: Port = Port(4);
/// The first task's port.
const TASKS: u16 = 16;
/// `taskmanager.registration.timeout`: then the process ends itself (H5).
const REGISTRATION_TIMEOUT: Millis = Millis::secs(300);
/// Wait between two tries to register.
const REGISTER_AGAIN: Millis = Millis(10_000);

/// How it is started.
#[derive(Clone, Debug)]
pub struct TaskManagerConfig {
    /// `taskmanager.numberOfTaskSlots`.
    pub slots: u16,
    /// Where the JobManager takes calls.
    pub job_manager: Addr,
    /// `heartbeat.*`.
    pub heartbeat: HeartbeatConfig,
    /// `pekko.ask.timeout`.
    pub ask_timeout: Millis,
}

/// What a call of its own was about.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Register,
    /// A slot to a job, by the number of the offer.
    Offer(JobId, u16, u32),
    Update(AttemptId, ExecutionState),
}

/// A TaskManager.
#[derive(Clone, Debug)]
pub struct TaskManager {
    resource: ResourceId,
    me: Addr,
    line: Link<Asked>,
    register_at: Option<Millis>,
    /// Since when it knows no ResourceManager.
    unregistered: Option<Millis>,
    masters: HeartbeatManager<Master>,
    slots: SlotTable,
    /// By place, which gives their ports.
    tasks: Vec<Option<Box<Task>>>,
    /// Connections to the data ports of other TaskManagers, by their address.
    readers: BTreeMap<Addr, (ConnId, bool)>,
    /// Partitions to be asked for again, and when.
    again: Vec<(Millis, ChannelId)>,
    deadlines: SmallMap<Port, SimTime>,
    /// What an experiment holds back.
    held_back: Option<HoldBack>,
}

impl TaskManager {
    /// Splits of its sources, each with its job.
    pub fn splits(&self) -> impl Iterator<Item = (JobId, Split)> + '_ {
        let tasks = self.tasks.iter().flatten();
        tasks.flat_map(|t| t.splits().iter().map(|s| (t.id().subtask.job, *s)))
    }
    /// Whether watermark alignment keeps a split of a job from being read on here.
    pub fn holds_split(&self, job: JobId, tp: TopicPartition) -> bool {
        self.tasks().filter(|t| t.id().subtask.job == job).any(|t| t.holds_split(tp))
    }
    /// What the open windows of its operators hold: job, vertex, place in the chain, and the rows' ghosts. For the judge alone.
    pub fn held(&self) -> impl Iterator<Item = (JobId, u16, usize, Vec<Ghost>)> + '_ {
        let tasks = self.tasks.iter().flatten();
        tasks.flat_map(|t| {
            let subtask = t.id().subtask;
            t.held().map(move |(at, held)| (subtask.job, subtask.vertex, at, held))
        })
    }
    /// Starts it: it registers by itself.
    pub fn start<W>(config: &Arc<TaskManagerConfig>, cx: &mut Cx<'_, Message, W>) -> Self {
        cx.listen(RPC, true);
        cx.listen(DATA, true);
        cx.wake_port(MAIN, Some(cx.now));
        Self {
            resource: ResourceId { process: cx.me, incarnation: cx.incarnation },
            me: Addr { process: cx.me, port: DATA },
            line: Link::new(MAIN, config.job_manager, config.ask_timeout),
            register_at: Some(cx.millis()),
            unregistered: Some(cx.millis()),
            masters: HeartbeatManager::asked(config.heartbeat),
            slots: SlotTable::new(config.slots),
            tasks: Vec::new(),
            readers: BTreeMap::new(),
            again: Vec::new(),
            deadlines: SmallMap::new(),
            held_back: None,
        }
    }
    /// Calls and connections are served by threads of their own, each task by its own.
    pub fn lane(&self, port: Port) -> Lane {
        Lane(if port == MAIN { RPC.0 } else { port.0 })
    }
    /// Its tasks.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().flatten().map(|t| &**t)
    }
    /// The `transactional.id` under which a subtask of a job writes into a topic now, if that subtask is here.
    pub fn transactional_id(&self, job: JobId, topic: TopicId, subtask: u16) -> Option<TransactionalId> {
        let of = |t: &&Task| t.id().subtask.job == job && t.id().subtask.index == subtask && !t.is_closing();
        self.tasks().filter(of).find_map(|t| t.transactional_id(topic))
    }
    /// The sum of the next offsets of what a job's sources read here: how far they are.
    pub fn position(&self, job: JobId) -> i64 {
        let tasks = self.tasks().filter(|t| t.id().subtask.job == job && !t.is_closing());
        tasks.flat_map(|t| t.splits()).filter_map(|split| split.next).map(|next| next.0).sum()
    }
    fn place_of(port: Port) -> Option<(usize, bool)> {
        let n = port.0.checked_sub(TASKS)?;
        Some((usize::from(n / PORTS), n.is_multiple_of(PORTS)))
    }
    fn find(&self, attempt: AttemptId) -> Option<usize> {
        self.tasks.iter().position(|t| t.as_ref().is_some_and(|t| t.id() == attempt))
    }
    fn task(&mut self, attempt: AttemptId) -> Option<&mut Task> {
        self.tasks.iter_mut().flatten().find(|t| t.id() == attempt).map(|t| &mut **t)
    }

    /// Takes an input at one of its ports.
    pub fn step<W>(&mut self, port: Port, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match port {
            RPC => self.called(&input, cx),
            MAIN => self.main(&input, cx),
            DATA => self.asked_for_data(&input, cx),
            READING => self.reads(&input, cx),
            _ => {
                let Some((place, thread)) = Self::place_of(port) else { return };
                let Some(task) = self.tasks.get_mut(place).and_then(Option::as_mut) else { return };
                if thread { self.turn(place, cx) } else { task.side(port, input, cx) }
            }
        }
        self.rest(cx);
    }
    fn rest<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let again = self.again.iter().map(|(at, _)| *at).min();
        let millis = [self.register_at, self.masters.next(), again].into_iter().flatten().min().map(SimTime::at);
        let at = [millis, self.line.deadline()].into_iter().flatten().min();
        self.wake(MAIN, at, cx);
    }
    fn wake<W>(&mut self, port: Port, at: Option<SimTime>, cx: &mut Cx<'_, Message, W>) {
        if self.deadlines.get(port).copied() != at {
            match at {
                Some(at) => self.deadlines.insert(port, at),
                None => self.deadlines.remove(port),
            };
            cx.wake_port(port, at.map(|at| at.max(cx.now)));
        }
    }

    // ---- the JobManager's calls

    fn called<W>(&mut self, input: &Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match input {
            Input::Signal(Signal::HoldBack(what)) => self.hold_back(Some(*what), cx),
            Input::Signal(Signal::LetGo) => self.hold_back(None, cx),
            _ => {}
        }
        let Input::Message { conn, message: Message::Foreign(m), .. } = input else { return };
        match m.get() {
            Some(Rpc::Ask { id, call, .. }) => {
                let accepted = self.answer(*conn, call, cx);
                cx.send(*conn, Rpc::Answer { id: *id, by: None, accepted }.wrap());
            }
            Some(Rpc::Tell(Note::Disconnect(job))) => self.lose_job(*job, cx),
            Some(Rpc::Tell(Note::Leader(who))) => self.follow(*who, cx),
            Some(Rpc::Tell(Note::Complete(attempt, id))) => self.mail(*attempt, Mail::Complete(*id), cx),
            Some(Rpc::Tell(Note::Aborted(attempt, id))) => self.mail(*attempt, Mail::Aborted(*id), cx),
            _ => {}
        }
    }
    /// An experiment begins or ends.
    fn hold_back<W>(&mut self, what: Option<HoldBack>, cx: &mut Cx<'_, Message, W>) {
        let before = std::mem::replace(&mut self.held_back, what);
        let job = what.or(before).map(|held| JobId(held.job));
        for task in self.tasks.iter_mut().flatten().filter(|t| Some(t.id().subtask.job) == job) {
            match what {
                Some(what) => task.hold_back(what),
                None => task.let_go(cx),
            }
        }
    }
    /// Another JobManager leads: what was run for the one before ends, what was still to be said to it is dropped, and it
    /// registers.
    fn follow<W>(&mut self, leader: FencingToken, cx: &mut Cx<'_, Message, W>) {
        if leader == self.line.leader() {
            return;
        }
        self.line.follow(leader, cx);
        let of_tasks = self.tasks().map(|t| t.id().subtask.job);
        let jobs: BTreeSet<_> = of_tasks.chain(self.slots.report().into_iter().flatten()).collect();
        for job in jobs {
            self.fail_job(job, cx);
        }
        self.slots.clear();
        self.masters.unmonitor(Master::Resource);
        self.register_at = Some(cx.millis());
        self.unregistered = Some(cx.millis());
    }
    fn mail<W>(&mut self, attempt: AttemptId, mail: Mail, cx: &mut Cx<'_, Message, W>) {
        if let Some(task) = self.task(attempt) {
            task.mail(mail, cx);
        }
    }
    fn answer<W>(&mut self, conn: ConnId, call: &Call, cx: &mut Cx<'_, Message, W>) -> bool {
        match call {
            Call::Heartbeat(master, report) => {
                let beat = self.masters.requested(*master, cx.millis());
                if beat.is_some() {
                    let slots = if *master == Master::Resource { self.slots.report() } else { Vec::new() };
                    cx.send(conn, Rpc::Tell(Note::Alive(*master, self.resource, slots)).wrap());
                    if let Master::Job(job) = master {
                        self.compare_slots(*job, report, cx);
                    }
                }
                true
            }
            Call::RequestSlot { job, slot } => {
                // One that knows no ResourceManager takes none: what it is asked for was meant for the start before it.
                let known = self.unregistered.is_none();
                let free = known && self.slots.allocate(*job, *slot);
                if free {
                    self.masters.monitor(Master::Job(*job), cx.millis());
                    self.offer(*job, *slot, cx);
                }
                free
            }
            Call::Submit(deployment) => self.submit(deployment, cx),
            Call::Cancel(attempt) => {
                if let Some(place) = self.find(*attempt) {
                    self.end(place, ExecutionState::Canceled, cx);
                }
                true
            }
            Call::ToOperator { attempt, event } => {
                let event = event.clone();
                let task = self.task(*attempt);
                let there = task.is_some();
                if let Some(task) = task {
                    task.mail(Mail::Event(event), cx);
                }
                there
            }
            Call::Trigger { attempt, barrier, stop } => {
                let (barrier, stop) = (*barrier, *stop);
                let declined = self.task(*attempt).map(|task| {
                    let declined = task.declines(barrier.id);
                    if declined.is_none() {
                        task.mail(Mail::Trigger(barrier, stop), cx);
                    }
                    declined
                });
                if let Some(Some(note)) = declined.clone() {
                    self.line.tell(note, cx);
                }
                declined.is_some()
            }
            Call::RegisterTaskManager { .. } | Call::OfferSlots { .. } | Call::Update { .. } => false,
        }
    }
    fn submit<W>(&mut self, deployment: &Arc<Deployment>, cx: &mut Cx<'_, Message, W>) -> bool {
        if !self.slots.has(deployment.attempt.subtask.job, deployment.slot) {
            return false;
        }
        let place = self.tasks.iter().position(Option::is_none).unwrap_or(self.tasks.len());
        if place == self.tasks.len() {
            self.tasks.push(None);
        }
        let port = Port(TASKS + place as u16 * PORTS);
        let mut task = Task::new(deployment, port, cx);
        if let Some(what) = self.held_back.filter(|held| JobId(held.job) == deployment.attempt.subtask.job) {
            task.hold_back(what);
        }
        task.start(cx);
        self.tasks[place] = Some(Box::new(task));
        self.update(deployment.attempt, ExecutionState::Initializing, cx);
        for (channel, from) in &deployment.inputs {
            self.request(*channel, *from, cx);
        }
        true
    }
    fn update<W>(&mut self, attempt: AttemptId, state: ExecutionState, cx: &mut Cx<'_, Message, W>) {
        self.line.ask(Call::Update { attempt, state }, Asked::Update(attempt, state), cx);
    }

    // ---- its own line and timers

    fn main<W>(&mut self, input: &Input<Message>, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        let mut ended = Vec::new();
        match input {
            Input::Wake => {
                self.deadlines.remove(MAIN);
                self.line.expire(now, &mut ended);
            }
            Input::Connection(conn, _) | Input::Message { conn, .. } if self.line.holds(*conn) => {
                self.line.input(input, &mut ended, cx);
            }
            _ => {}
        }
        for (asked, how) in ended {
            self.ended(asked, how, cx);
        }
        let mut beats = Vec::new();
        while self.masters.fire(now, &mut beats) {}
        for beat in beats {
            match beat {
                Beat::TimedOut(Master::Job(job)) | Beat::Unreachable(Master::Job(job)) => self.lose_job(job, cx),
                Beat::TimedOut(Master::Resource) | Beat::Unreachable(Master::Resource) => {
                    self.register_at = Some(now);
                    self.unregistered = Some(now);
                }
                Beat::Request(_) | Beat::Answer(_) => {}
            }
        }
        if self.unregistered.is_some_and(|since| now - since >= REGISTRATION_TIMEOUT) {
            cx.exit();
        }
        if self.register_at.is_some_and(|at| at <= now) {
            self.register_at = Some(now + REGISTER_AGAIN);
            let rpc = Addr { process: cx.me, port: RPC };
            let slots = self.slots.report();
            let call = Call::RegisterTaskManager { resource: self.resource, slots, rpc, data: self.me };
            self.line.ask(call, Asked::Register, cx);
        }
        let (due, later) = std::mem::take(&mut self.again).into_iter().partition(|(at, _)| *at <= now);
        self.again = later;
        for (_, channel) in Vec::into_iter(due) {
            let from =
                self.task(channel.consumer).and_then(|t| Some(t.inputs.channels[t.inputs.position(channel)?].from));
            if let Some(from) = from {
                self.request(channel, from, cx);
            }
        }
    }
    fn ended<W>(&mut self, asked: Asked, how: Ended, cx: &mut Cx<'_, Message, W>) {
        match (asked, how) {
            (_, Ended::Fenced(leader)) => self.follow(leader, cx),
            (Asked::Register, Ended::Answered(true)) => {
                self.register_at = None;
                self.unregistered = None;
                self.masters.monitor(Master::Resource, cx.millis());
            }
            (Asked::Register, _) => self.register_at = Some(cx.millis() + REGISTER_AGAIN),
            (Asked::Offer(job, slot, offer), how) => {
                self.offered((job, slot, offer), how == Ended::Answered(true), cx);
            }
            // A state that the JobMaster did not hear of: the task cannot go on unknown.
            (Asked::Update(attempt, ExecutionState::Running), Ended::Answered(false)) => {
                if let Some(place) = self.find(attempt) {
                    self.end(place, ExecutionState::Canceled, cx);
                }
            }
            _ => {}
        }
    }
    fn offer<W>(&mut self, job: JobId, slot: u16, cx: &mut Cx<'_, Message, W>) {
        let number = self.slots.offer(slot);
        let offer = Call::OfferSlots { resource: self.resource, job, slots: vec![slot] };
        self.line.ask(offer, Asked::Offer(job, slot, number), cx);
    }
    /// An offer has been answered, or not within `taskmanager.slot.timeout`, which is that of a call.
    fn offered<W>(&mut self, (job, slot, offer): (JobId, u16, u32), accepted: bool, cx: &mut Cx<'_, Message, W>) {
        match self.slots.offered(job, slot, offer, accepted) {
            Offered::Active => self.masters.monitor(Master::Job(job), cx.millis()),
            Offered::Rejected => self.free_slot(job, slot, cx),
            Offered::Gone => self.line.tell(Note::FailSlot(self.resource, job, slot), cx),
            Offered::Outdated | Offered::Nothing => {}
        }
    }
    /// Gives a slot back to the ResourceManager (`freeSlotInternal`).
    fn free_slot<W>(&mut self, job: JobId, slot: u16, cx: &mut Cx<'_, Message, W>) {
        self.slots.free(slot);
        self.line.tell(Note::SlotAvailable(self.resource, job, slot), cx);
        if self.slots.of(job).is_empty() {
            self.masters.unmonitor(Master::Job(job));
        }
    }
    /// A JobMaster says which slots it believes to have here: it hears of those that it has not, and those that it does not
    /// know any more are freed with the tasks in them.
    fn compare_slots<W>(&mut self, job: JobId, believed: &[u16], cx: &mut Cx<'_, Message, W>) {
        let (strange, unknown) = self.slots.compare(job, believed);
        for slot in strange {
            self.line.tell(Note::FailSlot(self.resource, job, slot), cx);
        }
        for slot in unknown {
            for place in 0..self.tasks.len() {
                let there = |t: &Task| t.id().subtask.job == job && t.deployment.slot == slot;
                if self.tasks[place].as_deref().is_some_and(there) {
                    self.end(place, ExecutionState::Failed(Cause::Unreachable), cx);
                }
            }
            self.free_slot(job, slot, cx);
        }
    }
    /// The JobMaster of a job is lost, or has let go (H5): its tasks fail, and its slots are offered to it again, as to one that is
    /// back (`JobLeaderService.reconnect`). Nobody else would tell the ResourceManager, if that has not lost this TaskManager
    /// too, that the job is to have them anew or that they are free.
    fn lose_job<W>(&mut self, job: JobId, cx: &mut Cx<'_, Message, W>) {
        self.fail_job(job, cx);
        for slot in self.slots.of(job) {
            self.offer(job, slot, cx);
        }
    }
    fn fail_job<W>(&mut self, job: JobId, cx: &mut Cx<'_, Message, W>) {
        self.masters.unmonitor(Master::Job(job));
        for place in 0..self.tasks.len() {
            if self.tasks[place].as_ref().is_some_and(|t| t.id().subtask.job == job) {
                self.end(place, ExecutionState::Failed(Cause::JobManagerLost), cx);
            }
        }
    }

    // ---- tasks

    fn turn<W>(&mut self, place: usize, cx: &mut Cx<'_, Message, W>) {
        let Some(task) = self.tasks[place].as_mut() else { return };
        let port = task.port;
        self.deadlines.remove(port);
        let turn = task.turn(cx);
        task.start_uploads(cx);
        let deadline = task.deadline(cx);
        self.ship(place, cx);
        self.give_credit(place, cx);
        self.tell(place, cx);
        match turn {
            Turn::Opened => {
                let attempt = self.tasks[place].as_ref().map(|t| t.id());
                attempt.into_iter().for_each(|attempt| self.update(attempt, ExecutionState::Running, cx));
                self.wake(port, Some(cx.now), cx);
            }
            Turn::Again => self.wake(port, Some(cx.now), cx),
            Turn::Idle => self.wake(port, deadline, cx),
            Turn::Over(state) => self.gone(place, state, cx),
        }
    }
    /// Passes on what a task has for its JobMaster and for its producers.
    fn tell<W>(&mut self, place: usize, cx: &mut Cx<'_, Message, W>) {
        let Some(task) = self.tasks[place].as_mut() else { return };
        let (notes, resumed) = (std::mem::take(&mut task.notes), std::mem::take(&mut task.resumed));
        for note in notes {
            self.line.tell(note, cx);
        }
        for channel in resumed {
            self.upstream(place, channel, Data::Resume(channel), cx);
        }
    }
    /// Says something to the producer of a channel.
    fn upstream<W>(&mut self, place: usize, channel: ChannelId, what: Data, cx: &mut Cx<'_, Message, W>) {
        let of_task = self.tasks[place].as_ref();
        let from = of_task.and_then(|t| Some(t.inputs.channels[t.inputs.position(channel)?].from));
        match from {
            Some(from) if from == self.me => self.reader_says(&what, cx),
            Some(from) => {
                if let Some((conn, true)) = self.readers.get(&from) {
                    cx.send(*conn, Rpc::Data(what).wrap());
                }
            }
            None => {}
        }
    }
    /// A task is to end: it closes its operators first.
    fn end<W>(&mut self, place: usize, state: ExecutionState, cx: &mut Cx<'_, Message, W>) {
        if let Some(task) = self.tasks[place].as_mut() {
            task.close(state, cx);
        }
    }
    /// A task has ended.
    fn gone<W>(&mut self, place: usize, state: ExecutionState, cx: &mut Cx<'_, Message, W>) {
        let Some(task) = self.tasks[place].take() else { return };
        if state != ExecutionState::Finished {
            let outputs = task.outputs.iter().flat_map(|o| o.targets.iter());
            let told: Vec<_> = outputs.map(|t| (t.channel, t.reader)).collect();
            for (channel, reader) in told {
                if let Reader::Remote(conn) = reader {
                    cx.send(conn, Rpc::Data(Data::Failed(channel)).wrap());
                }
            }
        }
        for n in 0..PORTS {
            cx.wake_port(Port(task.port.0 + n), None);
        }
        self.update(task.id(), state, cx);
    }
}
