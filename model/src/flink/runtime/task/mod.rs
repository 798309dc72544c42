//! A task: one subtask's attempt at work in a slot (`StreamTask`). One thread takes mails and elements in turn (R1.5).

mod alignment;
mod chain;
mod channels;
mod held_back;
mod input;
mod output;
mod progress;
mod sink;
mod snapshot;
mod source;
mod time;
mod upload;

pub use channels::ChannelState;
pub use output::{Output, Reader, Subpartition, first_credit};
pub use sink::{LakeState, SinkState};
pub use source::Split;

use super::element::Buffer;
use super::graph::Kind;
use super::ids::{AttemptId, ChannelId};
use super::operator::{Handed, KeyGroups, Operator};
use super::rpc::{Cause, Deployment, ExecutionState, Note, OperatorEvent};
use super::state::{OperatorState, Restored};
use crate::base::{Cx, Event, Ghost, HoldBack, Input, Nanos, Port, SimTime, TopicId};
use crate::flink::barrier::{Barrier, Mode};
use crate::flink::checkpoint::CheckpointId;
use crate::flink::watermark::Valve;
use crate::kafka::messages::Message;
use crate::kafka::txn_messages::TransactionalId;
use channels::Capture;
use input::Inputs;
use sink::{Place, Sink};
use snapshot::Taking;
use source::SourceReader;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use time::{SourceTime, Standing};
use upload::Uploads;

/// Ports of a task: its thread, its fetcher, one for each sink, and the last for uploads of its state.
pub const PORTS: u16 = 8;
/// Most records of a source that are emitted between two looks at the mails: with the cost of one they bound how late a
/// barrier is. The real loop looks after each.
const SLICE: u32 = 64;
/// A thread that has stood for so long, ms, tells of it.
const TOLD_FROM: u32 = 1_000;

/// What the task's thread is told from outside.
#[derive(Clone, Debug)]
pub enum Mail {
    /// Of the operator's coordinator.
    Event(OperatorEvent),
    /// To a source: take a checkpoint (2.2); of a synchronous savepoint, whether it drains.
    Trigger(Barrier, Option<bool>),
    /// A checkpoint is complete.
    Complete(CheckpointId),
    /// A checkpoint is given up.
    Aborted(CheckpointId),
}

/// What comes of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its operators are open: it runs now.
    Opened,
    /// It has more to do at once.
    Again,
    /// It waits for something.
    Idle,
    /// Its thread has ended.
    Over(ExecutionState),
}

/// An operator of the chain.
#[derive(Clone, Debug)]
enum Link {
    Source,
    Operator(Operator),
    Sink(usize),
}

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    /// What it was deployed with.
    pub deployment: Arc<Deployment>,
    /// Its thread's port.
    pub port: Port,
    source: Option<SourceReader>,
    /// The source's event time, if it makes watermarks.
    time: Option<SourceTime>,
    /// How long its outputs have been full.
    standing: Standing,
    /// The watermark that each operator of the chain began with. For the judge alone.
    began: Vec<i64>,
    /// Its inputs.
    pub inputs: Inputs,
    /// Their event time: all channels are those of one input (a union); no operator here has two.
    valve: Valve,
    /// The barrier whose snapshot is under way: the thread waits in the sinks' flush.
    snapshot: Option<Taking>,
    /// What of the channels belongs to a checkpoint.
    capture: Option<Capture>,
    /// Its state on the way to the checkpoint storage, if there is one.
    uploads: Option<Uploads>,
    /// Greatest checkpoint that was taken or given up here (step 0 of 2.2).
    last: CheckpointId,
    /// Given up before their barrier came (C13).
    aborted: BTreeSet<CheckpointId>,
    /// The savepoint behind whose barrier the task ends, and whether it drains.
    stop: Option<(CheckpointId, bool)>,
    /// Everything has been given: it stays for one more checkpoint.
    data_ended: bool,
    /// Channels over which nothing more comes.
    ended_channels: BTreeSet<usize>,
    /// That checkpoint is complete.
    last_done: bool,
    /// Whoever feeds it has finished, and everything from there is processed.
    inputs_over: bool,
    /// Nothing is emitted and nothing ends before this savepoint is complete.
    awaits: Option<CheckpointId>,
    /// For the JobMaster.
    pub notes: Vec<Note>,
    /// Channels whose senders may go on.
    pub resumed: Vec<ChannelId>,
    chain: Vec<Link>,
    sinks: Vec<Sink>,
    /// Its outputs.
    pub outputs: Vec<Output>,
    mails: VecDeque<Mail>,
    /// The beat of the thread that flushes outputs.
    beat: SimTime,
    next_flush: Option<SimTime>,
    scratch: Vec<Handed>,
    ended: bool,
    /// Its operators are open.
    opened: bool,
    /// Since when its thread stands: in a sink, else with its outputs full.
    stands: Option<(SimTime, bool)>,
    /// It closes its operators, to be in this state when they are closed.
    closing: Option<ExecutionState>,
}

impl Task {
    /// Builds the chain. Its threads start with their first wake-up.
    pub fn new<W>(deployment: &Arc<Deployment>, port: Port, cx: &mut Cx<'_, Message, W>) -> Self {
        let graph = &deployment.graph;
        let subtask = deployment.attempt.subtask;
        let mut task = Self {
            deployment: Arc::clone(deployment),
            port,
            source: None,
            time: None,
            standing: Standing::default(),
            began: Vec::new(),
            valve: Valve::new(deployment.inputs.len(), cx.fixes),
            inputs: Inputs::new(&deployment.inputs, graph.checkpointing.map_or(Mode::Aligned, |c| c.mode), cx.fixes),
            snapshot: None,
            capture: None,
            uploads: None,
            last: deployment.restored.as_ref().map_or(CheckpointId::NONE, |r| r.checkpoint),
            aborted: BTreeSet::new(),
            stop: None,
            data_ended: false,
            ended_channels: BTreeSet::new(),
            last_done: false,
            inputs_over: false,
            awaits: None,
            notes: Vec::new(),
            resumed: Vec::new(),
            chain: Vec::new(),
            sinks: Vec::new(),
            outputs: Vec::new(),
            mails: VecDeque::new(),
            beat: cx.now,
            next_flush: None,
            scratch: Vec::new(),
            ended: false,
            opened: false,
            stands: None,
            closing: None,
        };
        let vertex = &graph.vertices[usize::from(subtask.vertex)];
        let groups = KeyGroups::new(subtask.index, vertex.parallelism, vertex.max_parallelism);
        let restored = deployment.restored.as_ref();
        for (number, chained) in vertex.chain.iter().enumerate() {
            task.chain.push(match &chained.kind {
                Kind::Source(config) => {
                    let first = restored.is_none() && deployment.attempt.attempt == 0;
                    task.source = Some(SourceReader::new(config, first, cx));
                    task.time = config.watermarks.map(|w| SourceTime::new(w, cx.fixes));
                    Link::Source
                }
                Kind::Operator(config) => {
                    let kept = restored.into_iter().flat_map(|r| r.keyed(number));
                    Link::Operator(Operator::new(config, groups, kept, cx.fixes))
                }
                Kind::Sink(config) => {
                    let place = Place { job: subtask.job, subtask: subtask.index, parallelism: vertex.parallelism };
                    let kept = restored.map(|r| (r.checkpoint, r.of(number)));
                    task.sinks.push(Sink::new(config, place, kept, cx));
                    Link::Sink(task.sinks.len() - 1)
                }
                Kind::LakeWriter(config) => {
                    let place = Place { job: subtask.job, subtask: subtask.index, parallelism: vertex.parallelism };
                    task.sinks.push(Sink::lake_writer(config, place, cx));
                    Link::Sink(task.sinks.len() - 1)
                }
                Kind::LakeCommitter(config) => {
                    let place = Place { job: subtask.job, subtask: subtask.index, parallelism: vertex.parallelism };
                    let kept = restored.map(|r| (r.checkpoint, r.of(number)));
                    task.sinks.push(Sink::lake_committer(config, place, kept, cx));
                    Link::Sink(task.sinks.len() - 1)
                }
                Kind::Upsert(config) | Kind::Call(config) => {
                    task.sinks.push(Sink::upsert(config, cx));
                    Link::Sink(task.sinks.len() - 1)
                }
            });
        }
        if let Some(storage) = graph.checkpointing.and_then(|c| c.storage) {
            let jitter = cx.stream(&format!("uploads {} {} {}", subtask.job.0, subtask.vertex, subtask.index));
            task.uploads = Some(Uploads::new(storage, jitter));
        }
        if let Some(restored) = restored {
            task.restore(restored);
        }
        for (edge, number) in graph.edges.iter().zip(0u16..).filter(|(e, _)| e.from == subtask.vertex) {
            let channels = deployment.outputs.iter().filter(|c| c.edge == number).copied();
            let groups = graph.vertices[usize::from(edge.to)].max_parallelism;
            task.outputs.push(Output::new(edge, groups, channels));
        }
        let clock = |link: &Link| if let Link::Operator(o) = link { o.clock() } else { None };
        task.began = task.chain.iter().map(|link| clock(link).unwrap_or(i64::MIN)).collect();
        let behind = task.chain.len();
        for part in restored.into_iter().flat_map(|r| r.of(behind)) {
            if let OperatorState::Channels(state) = part {
                task.restore_channels(state);
            }
        }
        task
    }
    /// The source takes up the splits that the checkpoint keeps.
    fn restore(&mut self, restored: &Restored) {
        for part in restored.operators.iter().flatten() {
            if let OperatorState::Splits(splits) = part {
                self.add_splits(splits.clone(), true);
            }
        }
    }
    fn add_splits(&mut self, splits: Vec<Split>, restored: bool) {
        if let Some(time) = &mut self.time {
            splits.iter().for_each(|split| time.add(split.tp, restored));
        }
        if let Some(source) = &mut self.source {
            source.add_splits(splits);
        }
    }
    /// Which attempt.
    pub fn id(&self) -> AttemptId {
        self.deployment.attempt
    }
    /// The port of its fetcher.
    pub const fn fetcher(&self) -> Port {
        Port(self.port.0 + 1)
    }
    const fn uploader(&self) -> Port {
        Port(self.port.0 + PORTS - 1)
    }
    fn sink_port(&self, sink: usize) -> Port {
        Port(self.port.0 + 2 + sink as u16)
    }
    /// Starts its threads.
    pub fn start<W>(&self, cx: &mut Cx<'_, Message, W>) {
        cx.wake_port(self.port, Some(cx.now));
        if self.source.is_some() {
            cx.wake_port(self.fetcher(), Some(cx.now));
        }
        for sink in 0..self.sinks.len() {
            cx.wake_port(self.sink_port(sink), Some(cx.now));
        }
    }
    /// Its source hands some records on only when they are let go: an experiment.
    pub fn hold_back(&mut self, what: HoldBack) {
        self.source.iter_mut().for_each(|source| source.hold_back(what));
    }
    /// The end of that.
    pub fn let_go<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        if let Some(source) = &mut self.source {
            source.let_go();
            cx.wake_port(self.port, Some(cx.now));
        }
    }
    /// Tells its thread something.
    pub fn mail<W>(&mut self, mail: Mail, cx: &mut Cx<'_, Message, W>) {
        self.mails.push_back(mail);
        cx.wake_port(self.port, Some(cx.now));
    }
    /// A buffer has come over one of its channels.
    pub fn receive<W>(&mut self, channel: usize, buffer: Buffer, cx: &mut Cx<'_, Message, W>) {
        let mut notices = Vec::new();
        self.inputs.receive(channel, buffer, &mut notices);
        self.noticed(notices, cx);
        cx.wake_port(self.port, Some(cx.now));
    }
    /// Whether its thread has left the loop.
    pub const fn is_closing(&self) -> bool {
        self.closing.is_some()
    }
    /// The `transactional.id` under which it writes into a topic now.
    pub fn transactional_id(&self, topic: TopicId) -> Option<TransactionalId> {
        self.sinks.iter().find_map(|sink| sink.transactional_id(topic))
    }
    /// What the open windows of each of its operators hold, by place in the chain. For the judge alone.
    pub fn held(&self) -> impl Iterator<Item = (usize, Vec<Ghost>)> + '_ {
        let operators = self.chain.iter().enumerate();
        operators.filter_map(|(at, l)| if let Link::Operator(o) = l { Some((at, o.held())) } else { None })
    }
    /// Where its source stands.
    pub fn splits(&self) -> &[Split] {
        self.source.as_ref().map_or(&[], SourceReader::splits)
    }

    /// An input of one of its other threads.
    pub fn side<W>(&mut self, port: Port, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        let woken = matches!(input, Input::Wake);
        let at = if port == self.fetcher() {
            let Some(source) = &mut self.source else { return };
            if !woken {
                source.input(input);
            }
            let (at, news) = source.fetch(self.deployment.attempt.subtask.job, cx);
            if news {
                cx.wake_port(self.port, Some(cx.now));
            }
            at
        } else if let Some(uploads) = self.uploads.as_mut().filter(|_| port.0 == self.port.0 + PORTS - 1) {
            if !woken {
                uploads.input(input);
            }
            let at = uploads.run(cx);
            let told = uploads.told();
            if !told.is_empty() {
                self.notes.extend(told);
                cx.wake_port(self.port, Some(cx.now));
            }
            at
        } else {
            let Some(sink) = self.sinks.get_mut(usize::from(port.0 - self.port.0 - 2)) else { return };
            if !woken {
                sink.input(input);
            }
            let waited = sink.is_waiting();
            let at = sink.run(cx);
            if waited && !sink.is_waiting() || sink.failed().is_some() || self.closing.is_some() && sink.closed() {
                cx.wake_port(self.port, Some(cx.now));
            }
            at
        };
        cx.wake_port(port, at);
    }

    /// Its thread leaves the loop and closes its operators: a producer outside a transaction sends what is queued (7.3).
    pub fn close<W>(&mut self, state: ExecutionState, cx: &mut Cx<'_, Message, W>) {
        if self.closing.is_none() {
            self.closing = Some(state);
            cx.wake_port(self.fetcher(), None);
            self.uploads.iter_mut().for_each(|uploads| uploads.close(cx));
            for i in 0..self.sinks.len() {
                self.sinks[i].close(cx.millis());
                cx.wake_port(self.sink_port(i), Some(cx.now));
            }
            cx.wake_port(self.port, Some(cx.now));
        }
    }
    /// One turn of its thread: a mail, or an element, or a slice of a source's batch.
    pub fn turn<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Turn {
        if let Some(state) = self.closing {
            return if self.sinks.iter().all(Sink::closed) { Turn::Over(state) } else { Turn::Idle };
        }
        let of_source = || self.source.as_ref().filter(|s| s.is_failed()).map(|_| Cause::Source);
        let failed = self.sinks.iter().find_map(Sink::failed).or_else(of_source);
        if let Some(cause) = failed {
            self.close(ExecutionState::Failed(cause), cx);
            return Turn::Again;
        }
        self.flush_outputs(cx);
        // A sink that hangs holds the whole thread; a full output holds the input, not the mails.
        let in_sink = self.sinks.iter().any(Sink::is_waiting);
        let stands = in_sink || self.outputs.iter().any(Output::is_full);
        self.stood(stands.then_some(in_sink), cx);
        if in_sink {
            return Turn::Idle;
        }
        if let Some(taking) = self.snapshot.take() {
            self.go_on_with_snapshot(taking, cx);
            return Turn::Again;
        }
        // A task runs when what was in its channels is through.
        if !self.opened && self.inputs.recovers() {
            return if self.outputs.iter().any(Output::is_full) { Turn::Idle } else { self.process(cx) };
        }
        if !self.opened {
            self.opened = true;
            self.time.iter_mut().for_each(|time| time.opened(cx.millis()));
            for link in &mut self.chain {
                if let Link::Operator(operator) = link {
                    operator.open(cx.millis());
                }
            }
            return Turn::Opened;
        }
        self.time_out_barrier(cx.millis());
        let mut notices = Vec::new();
        let overtook = self.inputs.mails(cx.millis(), &mut notices);
        if overtook {
            self.noticed(notices, cx);
            return Turn::Again;
        }
        // Whoever feeds a task that is triggered itself has finished: what it has sent still comes before the barrier.
        let behind_inputs =
            |mail: &Mail| matches!(mail, Mail::Trigger(..)) && self.source.is_none() && !self.inputs_over;
        let next = self.mails.iter().position(|mail| !behind_inputs(mail));
        if let Some(mail) = next.and_then(|next| self.mails.remove(next)) {
            self.open(mail, cx);
            return Turn::Again;
        }
        self.report_watermark(cx.millis());
        let full = self.outputs.iter().any(Output::is_full);
        self.standing.held_up(full, cx.millis());
        if full {
            return Turn::Idle;
        }
        if self.ended {
            if self.awaits.is_none() && self.outputs.iter().all(Output::is_drained) {
                self.close(ExecutionState::Finished, cx);
                return Turn::Again;
            }
            return Turn::Idle;
        }
        if self.emit_watermark(cx) || self.fire_timers(cx) {
            return Turn::Again;
        }
        if self.source.is_some() { self.emit(cx) } else { self.process(cx) }
    }
    /// Everything has been given, but no checkpoint has completed that was taken behind it: one that overtook the end of the data,
    /// or was given up, is none (FLIP-147, `finalCheckpointCompleted`).
    pub(super) fn owes_last(&self) -> bool {
        self.data_ended && !self.last_done && self.deployment.graph.checkpointing.is_some_and(|c| c.config.after_finish)
    }
    fn open<W>(&mut self, mail: Mail, cx: &mut Cx<'_, Message, W>) {
        match mail {
            Mail::Event(OperatorEvent::AddSplits(splits)) => {
                self.add_splits(splits.into_iter().map(|(tp, next)| Split { tp, next }).collect(), false);
                self.source.iter_mut().for_each(SourceReader::given);
                cx.wake_port(self.fetcher(), Some(cx.now));
            }
            Mail::Event(OperatorEvent::Align(limit)) => self.align(limit, cx),
            Mail::Trigger(barrier, stop) => {
                if let Some(drain) = stop.filter(|_| barrier.id > self.last) {
                    self.stop_at(barrier.id, drain, cx);
                }
                self.take_barrier(barrier, cx);
            }
            Mail::Complete(id) => {
                if self.source.as_mut().is_some_and(|source| source.complete(id)) {
                    cx.wake_port(self.fetcher(), Some(cx.now));
                }
                self.uploads.iter_mut().for_each(|uploads| uploads.complete(id));
                for i in 0..self.sinks.len() {
                    self.sinks[i].complete(id);
                    cx.wake_port(self.sink_port(i), Some(cx.now));
                }
                if self.awaits.take_if(|awaited| *awaited <= id).is_some() {
                    self.last_done = self.data_ended;
                    if self.source.is_some() || self.inputs_over {
                        self.end(cx);
                    }
                }
            }
            Mail::Aborted(id) => {
                if id > self.last {
                    self.aborted.insert(id);
                }
                self.awaits.take_if(|awaited| *awaited == id);
                self.drop_capture(id);
                self.uploads.iter_mut().for_each(|uploads| uploads.aborted(id));
                self.sinks.iter_mut().for_each(|sink| sink.aborted(id));
            }
        }
    }

    /// Keeps account of how long the thread stands, in a sink or behind full outputs, and tells of a second or more.
    fn stood<W>(&mut self, now: Option<bool>, cx: &mut Cx<'_, Message, W>) {
        match (self.stands, now) {
            (Some((_, before)), Some(in_sink)) if before == in_sink => {}
            (before, now) => {
                self.stands = now.map(|in_sink| (cx.now, in_sink));
                let Some((since, in_sink)) = before else { return };
                let ms = (cx.now.since(since).0 / 1_000_000) as u32;
                let subtask = self.id().subtask;
                if ms >= TOLD_FROM && self.opened {
                    let (job, vertex, subtask) = (subtask.job.0, subtask.vertex, subtask.index);
                    cx.emit(Event::TaskStood { job, vertex, subtask, in_sink, ms });
                }
            }
        }
    }
    /// Buffers go out at a fixed beat, filled or not.
    fn flush_outputs<W>(&mut self, cx: &Cx<'_, Message, W>) {
        if self.next_flush.is_some_and(|at| at <= cx.now) {
            self.outputs.iter_mut().for_each(Output::flush);
            self.next_flush = None;
        }
    }
    /// When its thread wants to run by itself.
    pub fn deadline<W>(&mut self, cx: &Cx<'_, Message, W>) -> Option<SimTime> {
        // A task that closes waits for its sinks alone, which wake it.
        if self.is_closing() {
            return None;
        }
        if self.next_flush.is_none() && self.outputs.iter().any(Output::is_filling) {
            let every = self.deployment.graph.buffer_timeout.0.max(1);
            let beats = cx.now.since(self.beat).0 / every + 1;
            self.next_flush = Some(self.beat + Nanos(beats * every));
        }
        // What it cannot do now it does when it is woken.
        let held = self.sinks.iter().any(Sink::is_waiting);
        let alignment = [self.inputs.deadline(), self.overtaking()].into_iter().flatten().min().filter(|_| !held);
        let full = held || self.awaits.is_some() || self.data_ended || self.outputs.iter().any(Output::is_full);
        let watermark = self.time.as_ref().and_then(SourceTime::deadline).filter(|_| !full);
        let report = self.time.as_ref().and_then(SourceTime::report_at).filter(|_| !held);
        let timers = self.timers().filter(|_| !full);
        let merge = self.source.as_ref().and_then(SourceReader::merge_deadline).filter(|_| !full);
        let millis = [alignment, watermark, timers, report, merge].into_iter().flatten().min().map(SimTime::at);
        [self.next_flush, millis].into_iter().flatten().min()
    }
}
