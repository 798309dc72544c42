//! A task: one subtask's attempt at work in a slot (`StreamTask`). One thread takes mails and elements in turn (R1.5).

mod input;
mod output;
mod sink;
mod source;

pub use output::{Output, Reader, Subpartition, first_credit};
pub use sink::SinkState;
pub use source::Split;

use super::element::{Buffer, Data, Element};
use super::graph::Kind;
use super::ids::{AttemptId, ChannelId};
use super::operator::Operator;
use super::rpc::{Cause, Deployment, ExecutionState, Note, OperatorEvent};
use super::state::{OperatorState, Snapshot};
use crate::base::{Cx, Input, Nanos, Port, Row, SimTime};
use crate::flink::barrier::{Barrier, Mode, Notice};
use crate::flink::checkpoint::{CheckpointId, Reason};
use crate::kafka::messages::Message;
use input::{Inputs, Taken};
use sink::{Place, Sink};
use source::SourceReader;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Ports of a task: its thread, its fetcher, and one for each sink.
pub const PORTS: u16 = 8;
/// Most records of a source that are emitted between two looks at the mails: with the cost of one they bound how late a
/// barrier is. The real loop looks after each.
const SLICE: u32 = 64;

/// What the task's thread is told from outside.
#[derive(Clone, Debug)]
pub enum Mail {
    /// Of the operator's coordinator.
    Event(OperatorEvent),
    /// To a source: take a checkpoint (2.2).
    Trigger(Barrier),
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

/// How far a snapshot is.
#[derive(Clone, Debug)]
enum Taking {
    /// Before the barrier: the sinks flush.
    Flush(Barrier),
    /// Behind the barrier: the synchronous part has begun, with what it keeps so far.
    Snapshot(Barrier, Snapshot),
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
    /// Its inputs.
    pub inputs: Inputs,
    /// The barrier whose snapshot is under way: the thread waits in the sinks' flush.
    snapshot: Option<Taking>,
    /// Greatest checkpoint that was taken or given up here (step 0 of 2.2).
    last: CheckpointId,
    /// Given up before their barrier came (C13).
    aborted: BTreeSet<CheckpointId>,
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
    scratch: Vec<Vec<Row>>,
    ended: bool,
    /// Its operators are open.
    opened: bool,
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
            inputs: Inputs::new(&deployment.inputs, graph.checkpointing.map_or(Mode::Aligned, |c| c.mode), cx.fixes),
            snapshot: None,
            last: deployment.restored.as_ref().map_or(CheckpointId::NONE, |(id, _)| *id),
            aborted: BTreeSet::new(),
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
            closing: None,
        };
        for chained in &graph.vertices[usize::from(subtask.vertex)].chain {
            task.chain.push(match &chained.kind {
                Kind::Source(config) => {
                    task.source = Some(SourceReader::new(config, cx));
                    Link::Source
                }
                Kind::Operator(config) => Link::Operator(Operator::new(config)),
                Kind::Sink(config) => {
                    let parallelism = graph.vertices[usize::from(subtask.vertex)].parallelism;
                    let place = Place { subtask: subtask.index, parallelism };
                    let kept = deployment.restored.as_ref().and_then(|(id, state)| match &**state {
                        Snapshot::Task(operators) => Some((*id, operators.get(task.chain.len())?)),
                        Snapshot::Enumerator(_) => None,
                    });
                    task.sinks.push(Sink::new(config, place, kept, cx));
                    Link::Sink(task.sinks.len() - 1)
                }
            });
        }
        task.restore();
        for (edge, number) in graph.edges.iter().zip(0u16..).filter(|(e, _)| e.from == subtask.vertex) {
            let channels = deployment.outputs.iter().filter(|c| c.edge == number).copied();
            let groups = graph.vertices[usize::from(edge.to)].max_parallelism;
            task.outputs.push(Output::new(edge, groups, channels));
        }
        task
    }
    /// Takes up what the checkpoint keeps of it.
    fn restore(&mut self) {
        let Some((_, state)) = &self.deployment.restored else { return };
        let Snapshot::Task(operators) = &**state else { return };
        for operator in operators {
            if let (OperatorState::Splits(splits), Some(source)) = (operator, &mut self.source) {
                source.add_splits(splits.iter().copied());
            }
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
            let (at, news) = source.fetch(cx);
            if news {
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
            if waited && !sink.is_waiting() || sink.is_failed() || self.closing.is_some() && sink.closed() {
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
            for i in 0..self.sinks.len() {
                self.sinks[i].close();
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
        let failed = if self.sinks.iter().any(Sink::is_failed) {
            Some(Cause::Send)
        } else {
            self.source.as_ref().filter(|s| s.is_failed()).map(|_| Cause::Source)
        };
        if let Some(cause) = failed {
            self.close(ExecutionState::Failed(cause), cx);
            return Turn::Again;
        }
        self.flush_outputs(cx);
        // A sink that hangs holds the whole thread; a full output holds the input, not the mails.
        if self.sinks.iter().any(Sink::is_waiting) {
            return Turn::Idle;
        }
        if let Some(taking) = self.snapshot.take() {
            self.go_on_with_snapshot(taking, cx);
            return Turn::Again;
        }
        if !self.opened {
            self.opened = true;
            return Turn::Opened;
        }
        let mut notices = Vec::new();
        let overtook = self.inputs.mails(cx.millis(), &mut notices);
        if overtook {
            self.noticed(notices, cx);
            return Turn::Again;
        }
        if let Some(mail) = self.mails.pop_front() {
            self.open(mail, cx);
            return Turn::Again;
        }
        if self.outputs.iter().any(Output::is_full) {
            return Turn::Idle;
        }
        if self.ended {
            if self.outputs.iter().all(Output::is_drained) {
                self.close(ExecutionState::Finished, cx);
                return Turn::Again;
            }
            return Turn::Idle;
        }
        if self.source.is_some() { self.emit(cx) } else { self.process(cx) }
    }
    fn open<W>(&mut self, mail: Mail, cx: &mut Cx<'_, Message, W>) {
        match mail {
            Mail::Event(OperatorEvent::AddSplits(splits)) => {
                if let Some(source) = &mut self.source {
                    source.add_splits(splits.into_iter().map(|(tp, next)| Split { tp, next }));
                    cx.wake_port(self.fetcher(), Some(cx.now));
                }
            }
            Mail::Trigger(barrier) => self.take_barrier(barrier, cx),
            Mail::Complete(id) => {
                for i in 0..self.sinks.len() {
                    self.sinks[i].complete(id);
                    cx.wake_port(self.sink_port(i), Some(cx.now));
                }
            }
            Mail::Aborted(id) => {
                if id > self.last {
                    self.aborted.insert(id);
                }
            }
        }
    }

    // ---- checkpoints

    /// What the input side tells.
    fn noticed<W>(&mut self, notices: Vec<Notice<Data>>, cx: &mut Cx<'_, Message, W>) {
        for notice in notices {
            match notice {
                Notice::Trigger(barrier) => self.take_barrier(barrier, cx),
                Notice::Abort(id, reason) => {
                    self.last = self.last.max(id);
                    self.notes.push(Note::Decline(self.id(), id, reason));
                    self.outputs.iter_mut().for_each(|o| o.event(&Buffer::Cancel(id)));
                }
                Notice::Resume(channel) => self.resumed.push(self.inputs.channels[channel].id),
                Notice::Capture(..) | Notice::InputDone(_) | Notice::Metrics { .. } => {}
            }
        }
    }
    /// A snapshot begins: steps (0) to (2) of 2.2. It ends when the sinks have flushed.
    fn take_barrier<W>(&mut self, barrier: Barrier, cx: &mut Cx<'_, Message, W>) {
        if barrier.id <= self.last {
            return;
        }
        self.last = barrier.id;
        self.aborted.retain(|id| *id >= barrier.id);
        if self.aborted.remove(&barrier.id) {
            self.outputs.iter_mut().for_each(|o| o.event(&Buffer::Cancel(barrier.id)));
            return;
        }
        for i in 0..self.sinks.len() {
            self.sinks[i].flush(false);
            cx.wake_port(self.sink_port(i), Some(cx.now));
        }
        self.snapshot = Some(Taking::Flush(barrier));
    }
    /// The rest of a snapshot: the barrier goes on, the operators take theirs, the state is handed in when nothing blocks.
    fn go_on_with_snapshot<W>(&mut self, taking: Taking, cx: &mut Cx<'_, Message, W>) {
        match taking {
            Taking::Flush(barrier) => {
                self.outputs.iter_mut().for_each(|o| o.event(&Buffer::Barrier(barrier)));
                let mut states = Vec::with_capacity(self.chain.len());
                for i in 0..self.chain.len() {
                    states.push(match self.chain[i] {
                        Link::Source => OperatorState::Splits(self.splits().to_vec()),
                        Link::Operator(_) => OperatorState::None,
                        Link::Sink(sink) => {
                            let state = self.sinks[sink].snapshot(barrier.id);
                            cx.wake_port(self.sink_port(sink), Some(cx.now));
                            state
                        }
                    });
                }
                self.snapshot = Some(Taking::Snapshot(barrier, Snapshot::Task(states)));
            }
            Taking::Snapshot(barrier, snapshot) => {
                self.notes.push(Note::Acknowledge(self.id(), barrier.id, Arc::new(snapshot)));
            }
        }
    }
    /// A task that closes or has no checkpoints declines what it is asked for.
    pub fn declines(&self, id: CheckpointId) -> Option<Note> {
        self.closing.map(|_| Note::Decline(self.id(), id, Reason::DeclinedTaskClosing))
    }

    // ---- elements

    fn emit<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Turn {
        let Some(source) = &mut self.source else { return Turn::Idle };
        let (slice, room) = source.take(SLICE);
        if room {
            cx.wake_port(self.fetcher(), Some(cx.now));
        }
        let Some(slice) = slice else { return Turn::Idle };
        let rows = &slice.batch.rows[slice.from as usize..slice.to as usize];
        let cost = self.own_cost(0, rows.len()) + self.collect(Some(0), rows, cx);
        cx.work(Nanos(cost));
        Turn::Again
    }
    fn process<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Turn {
        let mut notices = Vec::new();
        let taken = self.inputs.take(cx.millis(), &mut notices);
        self.noticed(notices, cx);
        match taken {
            None => {
                let mut notices = Vec::new();
                self.inputs.resumptions(&mut notices);
                self.noticed(notices, cx);
                return Turn::Idle;
            }
            Some(Taken::Element(Element::Rows(rows))) => {
                let cost = self.collect(None, &rows, cx);
                cx.work(Nanos(cost));
            }
            // Time has no operator yet that would look at it.
            Some(Taken::Element(other)) => self.outputs.iter_mut().for_each(|o| o.element(&other)),
            Some(Taken::Event) => {
                let mut notices = Vec::new();
                self.inputs.resumptions(&mut notices);
                self.noticed(notices, cx);
            }
            Some(Taken::End) => self.end(cx),
        }
        Turn::Again
    }
    fn end<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.ended = true;
        self.outputs.iter_mut().for_each(|o| o.event(&Buffer::End));
        for i in 0..self.sinks.len() {
            self.sinks[i].flush(true);
            cx.wake_port(self.sink_port(i), Some(cx.now));
        }
    }
    fn own_cost(&self, operator: usize, rows: usize) -> u64 {
        let vertex = usize::from(self.id().subtask.vertex);
        self.deployment.graph.vertices[vertex].chain[operator].record.0 * rows as u64
    }
    /// Hands rows to whoever takes the output of an operator, one after the other, each with all that follows from it. Gives
    /// what it costs in nanoseconds.
    fn collect<W>(&mut self, after: Option<usize>, rows: &[Row], cx: &mut Cx<'_, Message, W>) -> u64 {
        if rows.is_empty() {
            return 0;
        }
        let vertex = usize::from(self.id().subtask.vertex);
        let mut cost = 0;
        let first = after.map_or(0, |a| a + 1);
        for i in first..self.chain.len() {
            if self.deployment.graph.vertices[vertex].chain[i].after != after {
                continue;
            }
            cost += self.own_cost(i, rows.len());
            match &mut self.chain[i] {
                Link::Source => {}
                Link::Operator(operator) => {
                    let mut out = self.scratch.pop().unwrap_or_default();
                    operator.rows(rows, &mut out);
                    cost += self.collect(Some(i), &out, cx);
                    out.clear();
                    self.scratch.push(out);
                }
                Link::Sink(sink) => {
                    let sink = *sink;
                    self.sinks[sink].write(rows, cx.millis());
                    cx.wake_port(self.sink_port(sink), Some(cx.now));
                }
            }
        }
        for output in self.outputs.iter_mut().filter(|o| Some(o.after) == after) {
            output.rows(rows);
        }
        cost
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
        if self.next_flush.is_none() && self.outputs.iter().any(Output::is_filling) {
            let every = self.deployment.graph.buffer_timeout.0.max(1);
            let beats = cx.now.since(self.beat).0 / every + 1;
            self.next_flush = Some(self.beat + Nanos(beats * every));
        }
        let alignment = self.inputs.deadline().map(SimTime::at);
        [self.next_flush, alignment].into_iter().flatten().min()
    }
}
