//! The receiving end of a channel, and what of it goes into channel state (`RemoteInputChannel`, `ChannelStatePersister`,
//! `PrioritizedDeque`).

use super::{Barrier, BarrierKind, Buffer};
use crate::base::{Fix, Fixes};
use crate::flink::checkpoint::{CheckpointId, Reason};
use std::collections::VecDeque;

/// What the task takes out of a channel.
#[derive(Clone, Debug)]
pub(super) enum Received<T> {
    Buffer(Buffer<T>),
    /// A timeoutable barrier lies at this place of the queue.
    Announcement(Barrier, u64),
}
#[derive(Clone, Debug)]
struct Entry<T> {
    what: Received<T>,
    sequence: u64,
}

/// Which barrier a channel waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persisting {
    /// For none: what arrives is not captured.
    Done,
    /// For the one of the checkpoint: what arrives before it is captured.
    BarrierPending,
    /// It has come.
    BarrierReceived,
}

/// A channel at the receiver.
#[derive(Clone, Debug)]
pub(super) struct Channel<T> {
    queue: VecDeque<Entry<T>>,
    /// How many entries at the front of the queue overtake the rest.
    priority: usize,
    next_sequence: u64,
    /// The newest barrier that has arrived and is not over, and its place.
    last_barrier: Option<(CheckpointId, u64)>,
    persisting: Persisting,
    last_seen: CheckpointId,
    pub ended: bool,
}

/// What an arrival means to the gate.
pub(super) struct Arrival<T> {
    /// The queue was empty.
    pub first: bool,
    /// It is the first that overtakes; its sequence number.
    pub priority: Option<u64>,
    /// To capture for a checkpoint.
    pub capture: Option<(CheckpointId, T)>,
}
/// What a channel hands out.
pub(super) struct Taken<T> {
    pub what: Received<T>,
    pub sequence: u64,
    pub overtook: bool,
    /// More is there, and whether it overtakes.
    pub more: Option<bool>,
}

impl<T: Clone> Channel<T> {
    pub const fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            priority: 0,
            next_sequence: 0,
            last_barrier: None,
            persisting: Persisting::Done,
            last_seen: CheckpointId::NONE,
            ended: false,
        }
    }
    /// Behind what overtakes already. True if it is the only one.
    fn add_priority(&mut self, what: Received<T>, sequence: u64) -> bool {
        self.queue.insert(self.priority, Entry { what, sequence });
        self.priority += 1;
        self.priority == 1
    }
    pub fn receive(&mut self, buffer: Buffer<T>, fixes: Fixes) -> Arrival<T> {
        let first = self.queue.is_empty();
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let mut arrival = Arrival { first, priority: None, capture: None };
        let barrier = match &buffer {
            Buffer::Barrier(barrier) => Some(*barrier),
            Buffer::Data(data) if self.persisting == Persisting::BarrierPending => {
                arrival.capture = Some((self.last_seen, data.clone()));
                None
            }
            _ => None,
        };
        let what = Received::Buffer(buffer);
        let overtakes = match barrier.map(|b| b.kind) {
            Some(BarrierKind::Unaligned) => self.add_priority(what, sequence),
            kind => {
                self.queue.push_back(Entry { what, sequence });
                match (barrier, kind) {
                    (Some(announced), Some(BarrierKind::Timeoutable(_))) => {
                        self.add_priority(Received::Announcement(announced, sequence), sequence)
                    }
                    _ => false,
                }
            }
        };
        arrival.priority = overtakes.then_some(sequence);
        if let Some(barrier) = barrier {
            self.barrier_arrived(barrier.id, sequence, fixes);
        }
        arrival
    }
    fn barrier_arrived(&mut self, id: CheckpointId, sequence: u64, fixes: Fixes) {
        let old = if self.persisting == Persisting::Done { id <= self.last_seen } else { id < self.last_seen };
        if old && fixes.has(Fix::CaptureUntilItsBarrier) {
            return;
        }
        self.persisting = Persisting::BarrierReceived;
        self.last_seen = self.last_seen.max(id);
        if self.last_barrier.is_none_or(|(last, _)| id > last) {
            self.last_barrier = Some((id, sequence));
        }
    }
    pub fn take(&mut self) -> Option<Taken<T>> {
        let Entry { what, sequence } = self.queue.pop_front()?;
        let overtook = self.priority > 0;
        self.priority = self.priority.saturating_sub(1);
        let more = (!self.queue.is_empty()).then_some(self.priority > 0);
        Some(Taken { what, sequence, overtook, more })
    }
    /// Moves the announced barrier to the front; the barrier itself stays what it is. True if it is the only one there.
    pub fn prioritize(&mut self, sequence: u64) -> bool {
        let behind = self.queue.iter().skip(self.priority);
        let Some(place) = behind.clone().position(|e| e.sequence == sequence) else { return false };
        let Some(entry) = self.queue.remove(self.priority + place) else { return false };
        self.add_priority(entry.what, entry.sequence)
    }
    /// An unaligned checkpoint begins: what has been received before its barrier is captured. Refused if a newer barrier has
    /// arrived: at most one unaligned checkpoint is at work.
    pub fn checkpoint_started(&mut self, id: CheckpointId) -> Result<Vec<T>, Reason> {
        match self.last_barrier {
            Some((last, _)) if id < last => return Err(Reason::CheckpointSubsumed),
            Some((last, _)) if id > last => self.last_barrier = None,
            _ => {}
        }
        if self.persisting == Persisting::BarrierReceived && self.last_seen > id {
            return Err(Reason::CheckpointSubsumed);
        }
        if self.last_seen < id {
            self.persisting = Persisting::BarrierPending;
            self.last_seen = id;
        }
        let end = self.last_barrier.map_or(u64::MAX, |(_, sequence)| sequence);
        let queued = self.queue.iter().skip(self.priority).filter(|e| e.sequence < end);
        let data = queued.filter_map(|e| match &e.what {
            Received::Buffer(Buffer::Data(data)) => Some(data.clone()),
            _ => None,
        });
        Ok(data.collect())
    }
    /// The checkpoint is over here.
    pub fn checkpoint_stopped(&mut self, id: CheckpointId) {
        if id >= self.last_seen {
            self.persisting = Persisting::Done;
            self.last_seen = id;
        }
        if self.last_barrier.is_some_and(|(last, _)| last == id) {
            self.last_barrier = None;
        }
    }
}
