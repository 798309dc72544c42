//! Channel state of an unaligned checkpoint: what was on its way into and out of a task when its barrier overtook it (2.5).

use super::super::element::{Buffer, Data, Element};
use super::super::graph::JobGraph;
use super::super::state::OperatorState;
use super::Task;
use crate::base::{Chain, Feed, Millis};
use crate::flink::barrier::{Barrier, BarrierKind};
use crate::flink::checkpoint::CheckpointId;
use std::sync::Arc;

/// What a checkpoint keeps of a task's channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelState {
    /// Received and not delivered when the snapshot was taken, or come before its barrier later: channel, data, in order.
    pub input: Vec<(usize, Data)>,
    /// Not taken by its reader: output, target, data, in order.
    pub output: Vec<(usize, usize, Data)>,
}
impl ChannelState {
    /// Whether nothing was on its way.
    pub const fn is_empty(&self) -> bool {
        self.input.is_empty() && self.output.is_empty()
    }
    fn data(&self) -> impl Iterator<Item = &Data> {
        self.input.iter().map(|(_, data)| data).chain(self.output.iter().map(|(.., data)| data))
    }
    /// Bytes in the checkpoint.
    pub fn bytes(&self) -> u32 {
        self.data().flat_map(|data| data.iter()).map(Element::bytes).sum()
    }
    /// Whether the channels of two graphs are the same ones: state of channels is not dealt out anew here.
    pub fn fits(old: &JobGraph, new: &JobGraph) -> bool {
        let parallelism = |graph: &JobGraph| graph.vertices.iter().map(|v| v.parallelism).collect::<Vec<_>>();
        parallelism(old) == parallelism(new)
    }
}
impl Feed for ChannelState {
    fn feed(&self, chain: &mut Chain) {
        for (channel, data) in &self.input {
            chain.u32(*channel as u32);
            data.feed(chain);
        }
        for (output, target, data) in &self.output {
            chain.halves(*output as u32, *target as u32);
            data.feed(chain);
        }
    }
}

/// What is captured for a checkpoint, and what its acknowledgement waits for.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    id: CheckpointId,
    state: ChannelState,
    /// Every channel's barrier has come.
    input_done: bool,
    /// A barrier that still may overtake what is queued in front of it, and when it does
    /// (`aligned-checkpoint-timeout`).
    timeout: Option<Millis>,
    /// What the operators keep, once that is there.
    operators: Option<Vec<OperatorState>>,
}

impl Task {
    fn capture(&mut self, id: CheckpointId) -> &mut Capture {
        let capture = self.capture.take().filter(|c| c.id == id).unwrap_or(Capture {
            id,
            state: ChannelState::default(),
            input_done: false,
            timeout: None,
            operators: None,
        });
        self.capture.insert(capture)
    }
    /// Data of a channel that belongs to the checkpoint.
    pub(super) fn captured(&mut self, id: CheckpointId, channel: usize, data: Vec<Data>) {
        self.capture(id).state.input.extend(data.into_iter().map(|data| (channel, data)));
    }
    /// The barrier is taken: what of its channels the acknowledgement waits for.
    pub(super) fn begin_capture(&mut self, barrier: Barrier) {
        match barrier.kind {
            BarrierKind::Unaligned => {
                let in_hand = self.inputs.in_hand();
                let nothing_comes = self.inputs.channels.is_empty() || self.inputs_over;
                let capture = self.capture(barrier.id);
                capture.input_done |= nothing_comes;
                // The buffer in hand came before all else of its channel.
                if let Some(first) = in_hand {
                    capture.state.input.insert(0, first);
                }
            }
            BarrierKind::Timeoutable(timeout) => {
                let capture = self.capture(barrier.id);
                (capture.input_done, capture.timeout) = (true, Some(barrier.timestamp + timeout));
            }
            BarrierKind::Aligned | BarrierKind::AtLeastOnce => {}
        }
    }
    /// The barrier goes on, in front of what is queued if it is unaligned: that is captured.
    pub(super) fn send_barrier(&mut self, barrier: Barrier) {
        if barrier.kind != BarrierKind::Unaligned {
            self.outputs.iter_mut().for_each(|o| o.event(&Buffer::Barrier(barrier)));
            return;
        }
        let mut overtaken = Vec::new();
        for (output, o) in self.outputs.iter_mut().enumerate() {
            for (target, t) in o.targets.iter_mut().enumerate() {
                overtaken.extend(t.overtake(barrier).into_iter().map(|data| (output, target, data)));
            }
        }
        self.capture(barrier.id).state.output.extend(overtaken);
    }
    /// Every channel's barrier has come.
    pub(super) fn input_done(&mut self, id: CheckpointId) {
        self.capture(id).input_done = true;
        self.finish_capture();
    }
    /// The operators' part is there: it is handed in with that of the channels.
    pub(super) fn operators_done(&mut self, barrier: Barrier, operators: Vec<OperatorState>) {
        if self.capture.as_ref().is_some_and(|c| c.id == barrier.id) {
            self.capture(barrier.id).operators = Some(operators);
            self.finish_capture();
        } else {
            self.hand_in(barrier.id, operators);
        }
    }
    /// Acknowledges what waits for nothing any more.
    pub(super) fn finish_capture(&mut self) {
        let Some(Capture { id, input_done: true, timeout, operators: Some(_), .. }) = self.capture else { return };
        let mut targets = self.outputs.iter().flat_map(|o| o.targets.iter());
        if timeout.is_some() && targets.any(|t| t.holds_barrier(id)) {
            return;
        }
        let Some(Capture { state, operators, .. }) = self.capture.take() else { return };
        let mut operators = operators.unwrap_or_default();
        if !state.is_empty() {
            operators.push(OperatorState::Channels(Arc::new(state)));
        }
        self.hand_in(id, operators);
    }
    /// When a barrier overtakes what is queued in front of it.
    pub(super) fn overtaking(&self) -> Option<Millis> {
        self.capture.as_ref().and_then(|c| c.timeout)
    }
    /// It does, if that time has come.
    pub(super) fn time_out_barrier(&mut self, now: Millis) {
        let Some(id) = self.capture.as_ref().filter(|c| c.timeout.is_some_and(|at| at <= now)).map(|c| c.id) else {
            return self.finish_capture();
        };
        let mut overtaken = Vec::new();
        for (output, o) in self.outputs.iter_mut().enumerate() {
            for (target, t) in o.targets.iter_mut().enumerate() {
                overtaken.extend(t.time_out(id).into_iter().map(|data| (output, target, data)));
            }
        }
        let capture = self.capture(id);
        capture.timeout = None;
        capture.state.output.extend(overtaken);
        self.finish_capture();
    }
    /// The checkpoint is given up.
    pub(super) fn drop_capture(&mut self, id: CheckpointId) {
        self.capture.take_if(|c| c.id <= id);
    }
    /// What had been on its way is there again, before anything new.
    pub(super) fn restore_channels(&mut self, state: &ChannelState) {
        self.inputs.recover(&state.input);
        for (output, target, data) in &state.output {
            if let Some(target) = self.outputs.get_mut(*output).and_then(|o| o.targets.get_mut(*target)) {
                target.recover(data);
            }
        }
    }
}
