//! A task's inputs: channels in a gate (`SingleInputGate`, `RemoteInputChannel`).

use super::super::element::{Buffer, Element};
use super::super::ids::ChannelId;
use crate::base::{Addr, Millis};
use std::collections::VecDeque;

/// `taskmanager.network.request-backoff.initial`.
const REQUEST_BACKOFF: Millis = Millis(100);
/// `taskmanager.network.request-backoff.max`: no request follows after a wait of this length.
const REQUEST_BACKOFF_MAX: Millis = Millis(10_000);

/// One channel.
#[derive(Clone, Debug)]
pub struct InputChannel {
    /// Which.
    pub id: ChannelId,
    /// Where its producer's TaskManager takes requests.
    pub from: Addr,
    queue: VecDeque<Buffer>,
    /// Elements of the first buffer that are done.
    done: usize,
    /// Held back until the barriers of the others are there (2.3).
    pub blocked: bool,
    /// Its producer has sent everything.
    pub ended: bool,
    /// Buffers consumed since the producer was last told.
    returned: u32,
    /// Wait before the next request of a partition that was not there.
    backoff: Millis,
}
impl InputChannel {
    /// Before its first request.
    pub fn new(id: ChannelId, from: Addr) -> Self {
        let (queue, backoff) = (VecDeque::new(), REQUEST_BACKOFF);
        Self { id, from, queue, done: 0, blocked: false, ended: false, returned: 0, backoff }
    }
    /// The partition was not there: how long to wait before it is asked for again; `None` if that is given up.
    pub fn not_found(&mut self) -> Option<Millis> {
        let wait = self.backoff;
        self.backoff = (wait + wait).min(REQUEST_BACKOFF_MAX);
        (wait < REQUEST_BACKOFF_MAX).then_some(wait)
    }
    fn has_data(&self) -> bool {
        !self.blocked && !self.queue.is_empty()
    }
}

/// All channels of a task.
#[derive(Clone, Debug, Default)]
pub struct InputGate {
    /// By position.
    pub channels: Vec<InputChannel>,
    /// Channels with data, in the order in which they take turns: a buffer each.
    turns: VecDeque<usize>,
}
impl InputGate {
    /// A gate of these channels.
    pub fn new(inputs: &[(ChannelId, Addr)]) -> Self {
        let channels = inputs.iter().map(|(id, from)| InputChannel::new(*id, *from)).collect();
        Self { channels, turns: VecDeque::new() }
    }
    /// The position of a channel.
    pub fn position(&self, id: ChannelId) -> Option<usize> {
        self.channels.iter().position(|c| c.id == id)
    }
    /// A buffer has come.
    pub fn receive(&mut self, channel: usize, buffer: Buffer) {
        self.channels[channel].queue.push_back(buffer);
        self.enqueue(channel);
    }
    fn enqueue(&mut self, channel: usize) {
        if self.channels[channel].has_data() && !self.turns.contains(&channel) {
            self.turns.push_back(channel);
        }
    }
    /// Whether there is an element to take.
    pub fn is_ready(&self) -> bool {
        !self.turns.is_empty()
    }
    /// The next element, and the channel that it came by. A channel is left when its buffer is done.
    pub fn take(&mut self) -> Option<(usize, Element)> {
        let at = *self.turns.front()?;
        let channel = &mut self.channels[at];
        let buffer = channel.queue.front()?;
        let element = buffer.elements[channel.done].clone();
        channel.done += 1;
        if channel.done == buffer.elements.len() {
            channel.returned += u32::from(buffer.data);
            channel.done = 0;
            channel.queue.pop_front();
            self.turns.pop_front();
            self.enqueue(at);
        }
        Some((at, element))
    }
    /// Blocks a channel, or lets it go on.
    pub fn block(&mut self, channel: usize, blocked: bool) {
        self.channels[channel].blocked = blocked;
        if blocked {
            self.turns.retain(|c| *c != channel);
        } else {
            self.enqueue(channel);
        }
    }
    /// What the producers are to be told of room: channel, buffers.
    pub fn credits(&mut self) -> Vec<(ChannelId, u32)> {
        let given = self.channels.iter_mut().filter(|c| c.returned > 0 && !c.ended);
        given.map(|c| (c.id, std::mem::take(&mut c.returned))).collect()
    }
}
