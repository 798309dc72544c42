//! Which channel is read next (`SingleInputGate`): first come, first served, one buffer each; what overtakes comes first.

use super::channel::{Channel, Received};
use super::{Barrier, Buffer, ChannelId, Notice};
use crate::base::Fixes;
use crate::flink::checkpoint::{CheckpointId, Reason};
use std::collections::{BTreeSet, VecDeque};

/// The channels with data of one input.
#[derive(Clone, Debug, Default)]
struct Gate {
    ready: VecDeque<ChannelId>,
    /// How many at the front of `ready` have something that overtakes.
    priority: usize,
}
impl Gate {
    /// Puts a channel into the queue, or forward into its front part. True if it is the first in front.
    fn enqueue(&mut self, channel: ChannelId, priority: bool) -> bool {
        match self.ready.iter().position(|c| *c == channel) {
            Some(place) if !priority || place < self.priority => return false,
            Some(place) => {
                self.ready.remove(place);
            }
            None => {}
        }
        if !priority {
            self.ready.push_back(channel);
            return false;
        }
        self.ready.insert(self.priority, channel);
        self.priority += 1;
        self.priority == 1
    }
    fn dequeue(&mut self) -> Option<ChannelId> {
        let channel = self.ready.pop_front()?;
        self.priority = self.priority.saturating_sub(1);
        Some(channel)
    }
}

/// All inputs of a task.
#[derive(Clone, Debug)]
pub struct Gates<T> {
    gates: Vec<Gate>,
    channels: Vec<Channel<T>>,
    /// Of each channel: its gate.
    gate_of: Vec<usize>,
    /// Of each channel: the last that overtook and was taken.
    last_priority: Vec<Option<u64>>,
    /// Gates with something that overtakes, in the order of their notices: mails of the task.
    notified: VecDeque<usize>,
    /// The gate that was read last.
    last: Option<usize>,
    /// Channels whose senders may go on.
    resumed: BTreeSet<ChannelId>,
}

/// What a gate hands out.
pub(super) struct Next<T> {
    pub channel: ChannelId,
    pub what: Received<T>,
}

impl<T: Clone> Gates<T> {
    /// Inputs with so many channels each.
    pub fn new(sizes: &[usize]) -> Self {
        let gate_of: Vec<usize> = sizes.iter().enumerate().flat_map(|(gate, n)| vec![gate; *n]).collect();
        Self {
            gates: vec![Gate::default(); sizes.len()],
            channels: vec![Channel::new(); gate_of.len()],
            last_priority: vec![None; gate_of.len()],
            gate_of,
            notified: VecDeque::new(),
            last: None,
            resumed: BTreeSet::new(),
        }
    }
    /// How many channels there are.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }
    fn queue(&mut self, channel: ChannelId, priority: bool) {
        if self.channels[channel].ended {
            return;
        }
        let gate = self.gate_of[channel];
        if self.gates[gate].enqueue(channel, priority) && !self.notified.contains(&gate) {
            self.notified.push_back(gate);
        }
    }
    /// A buffer arrives.
    pub(super) fn receive(&mut self, channel: ChannelId, buffer: Buffer<T>, fixes: Fixes, out: &mut Vec<Notice<T>>) {
        let arrival = self.channels[channel].receive(buffer, fixes);
        if let Some((id, data)) = arrival.capture {
            out.push(Notice::Capture(id, channel, vec![data]));
        }
        if arrival.priority.is_some_and(|sequence| self.last_priority[channel].is_none_or(|last| sequence > last)) {
            self.queue(channel, true);
        }
        if arrival.first {
            self.queue(channel, false);
        }
    }
    /// The gate whose priority mail is next.
    pub(super) fn next_mail(&mut self) -> Option<usize> {
        self.notified.pop_front()
    }
    /// Takes what overtakes in a gate, if anything does.
    pub(super) fn take_overtaking(&mut self, gate: usize) -> Option<Next<T>> {
        if self.gates[gate].priority > 0 { self.take_of(gate) } else { None }
    }
    fn take_of(&mut self, gate: usize) -> Option<Next<T>> {
        let channel = self.gates[gate].dequeue()?;
        let taken = self.channels[channel].take()?;
        self.channels[channel].ended = matches!(taken.what, Received::Buffer(Buffer::End));
        if let Some(overtakes) = taken.more {
            self.queue(channel, overtakes);
        }
        if taken.overtook {
            self.last_priority[channel] = Some(taken.sequence);
        }
        Some(Next { channel, what: taken.what })
    }
    /// Takes the next of all gates; two with data take turns.
    pub(super) fn take(&mut self) -> Option<Next<T>> {
        let n = self.gates.len();
        let start = self.last.map_or(0, |last| last + 1);
        let gate = (0..n).map(|i| (start + i) % n).find(|g| !self.gates[*g].ready.is_empty())?;
        self.last = Some(gate);
        self.take_of(gate)
    }
    /// Lets the channel's sender go on once the event at hand is over.
    pub(super) fn resume(&mut self, channel: ChannelId) {
        self.resumed.insert(channel);
    }
    /// The channels whose senders may go on, in their order.
    pub(super) fn resumptions(&mut self) -> impl Iterator<Item = ChannelId> + use<T> {
        std::mem::take(&mut self.resumed).into_iter()
    }
    /// Moves an announced barrier to the front (`convertToPriorityEvent`).
    pub(super) fn prioritize(&mut self, channel: ChannelId, sequence: u64) {
        if self.channels[channel].prioritize(sequence) {
            self.queue(channel, true);
        }
    }
    /// An unaligned checkpoint begins on all channels.
    pub(super) fn checkpoint_started(&mut self, barrier: Barrier, out: &mut Vec<Notice<T>>) -> Result<(), Reason> {
        for (channel, c) in self.channels.iter_mut().enumerate() {
            let data = c.checkpoint_started(barrier.id)?;
            if !data.is_empty() {
                out.push(Notice::Capture(barrier.id, channel, data));
            }
        }
        Ok(())
    }
    /// It is over on all channels.
    pub(super) fn checkpoint_stopped(&mut self, id: CheckpointId) {
        self.channels.iter_mut().for_each(|c| c.checkpoint_stopped(id));
    }
}
