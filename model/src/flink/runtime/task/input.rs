//! A task's inputs: where its channels come from, and the gate behind which barriers are aligned.

use super::super::element::{Buffer, Data, Element};
use super::super::ids::ChannelId;
use crate::base::{Addr, Fixes, Millis};
use crate::flink::barrier::{Mode, Notice, Polled, TaskInput};
use std::collections::VecDeque;

/// `taskmanager.network.request-backoff.initial`.
const REQUEST_BACKOFF: Millis = Millis(100);
/// `taskmanager.network.request-backoff.max`: no request follows after a wait of this length.
const REQUEST_BACKOFF_MAX: Millis = Millis(10_000);

/// One channel, as far as the network is concerned.
#[derive(Clone, Debug)]
pub struct InputChannel {
    /// Which.
    pub id: ChannelId,
    /// Where its producer's TaskManager takes requests.
    pub from: Addr,
    /// Its producer has sent everything.
    pub ended: bool,
    /// Buffers consumed since the producer was last told.
    returned: u32,
    /// Wait before the next request of a partition that was not there.
    backoff: Millis,
}
impl InputChannel {
    /// The partition was not there: how long to wait before it is asked for again; `None` if that is given up.
    pub fn not_found(&mut self) -> Option<Millis> {
        let wait = self.backoff;
        self.backoff = (wait + wait).min(REQUEST_BACKOFF_MAX);
        (wait < REQUEST_BACKOFF_MAX).then_some(wait)
    }
}

/// What comes out of the inputs at a time.
#[derive(Clone, Debug)]
pub enum Taken {
    /// An element for the operators, and the channel that it came over.
    Element(usize, Element),
    /// An event was handled; the notices say what came of it.
    Event,
    /// Every channel has ended.
    End,
}

/// All channels of a task.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// By position.
    pub channels: Vec<InputChannel>,
    input: TaskInput<Data>,
    /// The buffer in hand, its channel, and how many of its elements are done.
    current: Option<(usize, Data, usize)>,
    /// What a restored checkpoint had captured: it comes before all else.
    recovered: VecDeque<(usize, Data)>,
}
impl Inputs {
    /// Inputs over these channels.
    pub fn new(inputs: &[(ChannelId, Addr)], mode: Mode, fixes: Fixes) -> Self {
        let channel = |(id, from): &(ChannelId, Addr)| InputChannel {
            id: *id,
            from: *from,
            ended: false,
            returned: 0,
            backoff: REQUEST_BACKOFF,
        };
        let channels: Vec<_> = inputs.iter().map(channel).collect();
        // One gate an edge.
        let mut sizes: Vec<usize> = Vec::new();
        let mut last = None;
        for (id, _) in inputs {
            if last == Some(id.edge) {
                sizes.last_mut().into_iter().for_each(|n| *n += 1);
            } else {
                sizes.push(1);
            }
            last = Some(id.edge);
        }
        Self { input: TaskInput::new(&sizes, mode, true, fixes), channels, current: None, recovered: VecDeque::new() }
    }
    /// The position of a channel.
    pub fn position(&self, id: ChannelId) -> Option<usize> {
        self.channels.iter().position(|c| c.id == id)
    }
    /// A buffer has come.
    pub fn receive(&mut self, channel: usize, buffer: Buffer, out: &mut Vec<Notice<Data>>) {
        self.input.receive(channel, buffer, out);
    }
    /// When an alignment takes too long.
    pub fn deadline(&self) -> Option<Millis> {
        self.input.deadline()
    }
    /// The mails of the input side: what overtakes, and alignments that take too long. True if there was one.
    pub fn mails(&mut self, now: Millis, out: &mut Vec<Notice<Data>>) -> bool {
        if self.input.deadline().is_some_and(|at| at <= now) {
            self.input.time_out(now, out);
            return true;
        }
        self.input.overtake(now, out)
    }
    /// The next element or event.
    pub fn take(&mut self, now: Millis, out: &mut Vec<Notice<Data>>) -> Option<Taken> {
        if let Some((channel, data)) = self.recovered.pop_front() {
            // Nobody waits for its room: each is taken whole.
            for element in data.iter().skip(1).rev() {
                self.recovered.push_front((channel, [element.clone()].into()));
            }
            return data.first().map(|element| Taken::Element(channel, element.clone()));
        }
        if self.current.is_none() {
            match self.input.poll(now, out)? {
                Polled::Data(channel, data) => self.current = Some((channel, data, 0)),
                Polled::Event => return Some(Taken::Event),
                Polled::Ended(channel) => {
                    self.channels[channel].ended = true;
                    let all = self.channels.iter().all(|c| c.ended);
                    return Some(if all { Taken::End } else { Taken::Event });
                }
            }
        }
        let (channel, data, done) = self.current.as_mut()?;
        let (channel, element) = (*channel, data[*done].clone());
        *done += 1;
        if *done == data.len() {
            self.channels[channel].returned += 1;
            self.current = None;
        }
        Some(Taken::Element(channel, element))
    }
    /// What a restored checkpoint had captured.
    pub fn recover(&mut self, data: &[(usize, Data)]) {
        self.recovered.extend(data.iter().cloned());
    }
    /// Whether some of that is left.
    pub fn recovers(&self) -> bool {
        !self.recovered.is_empty()
    }
    /// What is left of the buffer in hand, and its channel.
    pub fn in_hand(&self) -> Option<(usize, Data)> {
        let (channel, data, done) = self.current.as_ref()?;
        Some((*channel, data[*done..].into()))
    }
    /// Channels whose senders may go on behind a barrier, once the turn is over.
    pub fn resumptions(&mut self, out: &mut Vec<Notice<Data>>) {
        self.input.resumptions(out);
    }
    /// What the producers are to be told of room: channel, buffers.
    pub fn credits(&mut self) -> Vec<(ChannelId, u32)> {
        let given = self.channels.iter_mut().filter(|c| c.returned > 0 && !c.ended);
        given.map(|c| (c.id, std::mem::take(&mut c.returned))).collect()
    }
}
