//! A task's inputs behind its barrier handler (`CheckpointedInputGate`).

use super::channel::Received;
use super::gate::Next;
use super::single::{At, SingleHandler};
use super::tracker::Tracker;
use super::{Buffer, ChannelId, Gates, Mode, Notice};
use crate::base::{Fix, Fixes, Millis};

#[derive(Clone, Debug)]
enum Handler {
    Single(SingleHandler),
    Tracker(Tracker),
}

/// What one turn took from the inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// Data of a channel for the operator.
    Data(ChannelId, T),
    /// An event; what it led to is among the notices.
    Event,
    /// The channel has ended.
    Ended(ChannelId),
}

/// The input side of a task.
#[derive(Clone, Debug)]
pub struct TaskInput<T> {
    gates: Gates<T>,
    handler: Handler,
    fixes: Fixes,
}

impl<T: Clone> TaskInput<T> {
    /// Inputs with so many channels each under one handler. `after_finish`:
    /// `execution.checkpointing.checkpoints-after-tasks-finish`.
    pub fn new(sizes: &[usize], mode: Mode, after_finish: bool, fixes: Fixes) -> Self {
        let gates = Gates::new(sizes);
        let channels = gates.channels();
        let handler = match mode {
            Mode::AtLeastOnce => Handler::Tracker(Tracker::new(after_finish, channels)),
            _ => Handler::Single(SingleHandler::new(mode == Mode::Alternating, after_finish, channels)),
        };
        Self { gates, handler, fixes }
    }
    /// A buffer has come from a sender.
    pub fn receive(&mut self, channel: ChannelId, buffer: Buffer<T>, out: &mut Vec<Notice<T>>) {
        self.gates.receive(channel, buffer, self.fixes, out);
    }
    /// When [`Self::time_out`] is due.
    pub fn deadline(&self) -> Option<Millis> {
        match &self.handler {
            Handler::Single(handler) => handler.deadline(),
            Handler::Tracker(_) => None,
        }
    }
    /// Processes what overtakes in one input, a mail of the task: before the next element. False if nothing does.
    pub fn overtake(&mut self, now: Millis, out: &mut Vec<Notice<T>>) -> bool {
        let Some(gate) = self.gates.next_mail() else { return false };
        while let Some(next) = self.gates.take_overtaking(gate) {
            self.handle(next, now, out);
        }
        true
    }
    /// An alignment has taken too long: to be called, as a mail of the task, when [`Self::deadline`] has come.
    pub fn time_out(&mut self, now: Millis, out: &mut Vec<Notice<T>>) {
        match &mut self.handler {
            Handler::Single(handler) if handler.deadline().is_some_and(|due| due <= now) => {
                handler.timeout(&mut At { now, inputs: &mut self.gates, out });
            }
            _ => {}
        }
    }
    /// What events let go on goes on, in the order of the channels: after them, once no mail waits.
    pub fn resumptions(&mut self, out: &mut Vec<Notice<T>>) {
        out.extend(self.gates.resumptions().map(Notice::Resume));
    }
    /// Takes the next element, when no mail waits.
    pub fn poll(&mut self, now: Millis, out: &mut Vec<Notice<T>>) -> Option<Polled<T>> {
        let next = self.gates.take()?;
        Some(self.handle(next, now, out))
    }
    fn handle(&mut self, next: Next<T>, now: Millis, out: &mut Vec<Notice<T>>) -> Polled<T> {
        let channel = next.channel;
        let buffer = match next.what {
            Received::Buffer(Buffer::Data(data)) => {
                match &mut self.handler {
                    Handler::Single(handler) => handler.alignment.processed(),
                    Handler::Tracker(tracker) => tracker.alignment.processed(),
                }
                return Polled::Data(channel, data);
            }
            Received::Announcement(barrier, sequence) => {
                if let Handler::Single(handler) = &mut self.handler {
                    let mut at = At { now, inputs: &mut self.gates, out };
                    handler.announcement(channel, barrier, sequence, &mut at);
                }
                return Polled::Event;
            }
            Received::Buffer(buffer) => buffer,
        };
        let ended = buffer_ends(&buffer);
        match &mut self.handler {
            Handler::Single(handler) => {
                let mut at = At { now, inputs: &mut self.gates, out };
                match buffer {
                    Buffer::Barrier(barrier) => {
                        handler.barrier(channel, barrier, &mut at);
                        if !self.fixes.has(Fix::BarrierBlocksChannel) {
                            at.inputs.resume(channel);
                        }
                    }
                    Buffer::Cancel(id) => handler.cancelled(id, &mut at),
                    Buffer::End => handler.ended(channel, &mut at),
                    Buffer::Data(_) => {}
                }
            }
            Handler::Tracker(tracker) => match buffer {
                Buffer::Barrier(barrier) => tracker.barrier(channel, barrier, now, out),
                Buffer::Cancel(id) => tracker.cancelled(channel, id, out),
                Buffer::End => tracker.ended(channel, now, out),
                Buffer::Data(_) => {}
            },
        }
        if ended { Polled::Ended(channel) } else { Polled::Event }
    }
}

const fn buffer_ends<T>(buffer: &Buffer<T>) -> bool {
    matches!(buffer, Buffer::End)
}
