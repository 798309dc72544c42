//! A task's part in a checkpoint (`SubtaskCheckpointCoordinatorImpl`): steps (0) to (5) of 2.2.

use super::super::element::{Buffer, Data};
use super::super::rpc::Note;
use super::super::state::{OperatorState, Snapshot};
use super::upload::Uploads;
use super::{Link, Task};
use crate::base::{Cx, Fix};
use crate::flink::barrier::{Barrier, Notice};
use crate::flink::checkpoint::{CheckpointId, Reason};
use crate::kafka::messages::Message;
use std::sync::Arc;

/// How far a snapshot is.
#[derive(Clone, Debug)]
pub(super) enum Taking {
    /// Before the barrier: the sinks flush.
    Flush(Barrier),
    /// Behind the barrier: the synchronous part has begun, with what it keeps so far.
    Snapshot(Barrier, Vec<OperatorState>),
}

impl Task {
    /// What the input side tells.
    pub(super) fn noticed<W>(&mut self, notices: Vec<Notice<Data>>, cx: &mut Cx<'_, Message, W>) {
        for notice in notices {
            match notice {
                Notice::Trigger(barrier) => self.take_barrier(barrier, cx),
                Notice::Abort(id, reason) => {
                    self.last = self.last.max(id);
                    self.drop_capture(id);
                    self.notes.push(Note::Decline(self.id(), id, reason));
                    self.outputs.iter_mut().for_each(|o| o.event(&Buffer::Cancel(id)));
                }
                Notice::Resume(channel) => self.resumed.push(self.inputs.channels[channel].id),
                Notice::Capture(id, channel, data) => self.captured(id, channel, data),
                Notice::InputDone(id) => self.input_done(id),
                Notice::Metrics { .. } => {}
            }
        }
    }
    /// A snapshot begins: steps (0) to (2) of 2.2. It ends when the sinks have flushed.
    pub(super) fn take_barrier<W>(&mut self, barrier: Barrier, cx: &mut Cx<'_, Message, W>) {
        if barrier.id <= self.last {
            return;
        }
        self.last = barrier.id;
        self.aborted.retain(|id| *id >= barrier.id);
        if self.aborted.remove(&barrier.id) {
            self.outputs.iter_mut().for_each(|o| o.event(&Buffer::Cancel(barrier.id)));
            self.drop_capture(barrier.id);
            return;
        }
        self.begin_capture(barrier);
        self.before_barrier(cx);
        let ends = |drain| drain || !cx.fixes.has(Fix::StopEndsNoInput);
        let ends = self.stop.is_some_and(|(id, drain)| id == barrier.id && ends(drain));
        for i in 0..self.sinks.len() {
            self.sinks[i].flush(ends, barrier.id, cx.fixes, cx.millis());
            cx.wake_port(self.sink_port(i), Some(cx.now));
        }
        self.snapshot = Some(Taking::Flush(barrier));
    }
    /// The rest of a snapshot: the barrier goes on, the operators take theirs, the state is handed in when nothing blocks.
    pub(super) fn go_on_with_snapshot<W>(&mut self, taking: Taking, cx: &mut Cx<'_, Message, W>) {
        match taking {
            Taking::Flush(barrier) => {
                self.emit_of_sinks(cx);
                if let Some((id, drain)) = self.stop.filter(|(id, _)| *id == barrier.id) {
                    self.outputs.iter_mut().for_each(|o| o.stop(id, drain));
                    self.awaits = Some(id);
                }
                if self.data_ended && !self.last_done {
                    self.awaits.get_or_insert(barrier.id);
                }
                self.send_barrier(barrier);
                let mut states = Vec::with_capacity(self.chain.len());
                for i in 0..self.chain.len() {
                    states.push(match &mut self.chain[i] {
                        Link::Source => {
                            let splits = self.source.as_mut().map(|source| source.snapshot(barrier.id, cx.fixes));
                            OperatorState::Splits(splits.unwrap_or_default())
                        }
                        Link::Operator(operator) => {
                            operator.snapshot(cx.millis()).map_or(OperatorState::None, OperatorState::Keyed)
                        }
                        Link::Sink(sink) => {
                            let sink = *sink;
                            let state = self.sinks[sink].snapshot(barrier.id, cx.millis());
                            cx.wake_port(self.sink_port(sink), Some(cx.now));
                            state
                        }
                    });
                }
                self.snapshot = Some(Taking::Snapshot(barrier, states));
            }
            Taking::Snapshot(barrier, states) => self.operators_done(barrier, states),
        }
    }
    /// What it has snapshotted goes to the JobMaster, where checkpoints have a storage by way of that.
    pub(super) fn hand_in(&mut self, id: CheckpointId, operators: Vec<OperatorState>) {
        let task = self.id();
        self.notes.extend(match &mut self.uploads {
            Some(uploads) => uploads.take(task, id, operators),
            None => {
                let bytes = operators.iter().map(OperatorState::bytes).sum();
                Some(Note::Acknowledge(task, id, Arc::new(Snapshot::Task(operators)), bytes))
            }
        });
    }
    /// Uploads that are to begin.
    pub fn start_uploads<W>(&self, cx: &mut Cx<'_, Message, W>) {
        if self.uploads.as_ref().is_some_and(Uploads::wants) {
            cx.wake_port(self.uploader(), Some(cx.now));
        }
    }
    /// A task that closes or has no checkpoints declines what it is asked for.
    pub fn declines(&self, id: CheckpointId) -> Option<Note> {
        self.closing.map(|_| Note::Decline(self.id(), id, Reason::DeclinedTaskClosing))
    }
}
