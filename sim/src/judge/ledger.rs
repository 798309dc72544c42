//! The ledger: everything that was sent, and every irregularity that was put into it.

use super::{Chunked, Reader};
use model::base::{SimTime, TopicId};

/// One event sent. Its number in the ledger is the ghost of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sent {
    /// When, in ms of simulated time.
    pub at_ms: u32,
    /// To which topic.
    pub topic: u16,
    /// By which producer of the scenario.
    pub producer: u16,
    /// Irregularities: the constants of this type.
    pub flags: u8,
}
impl Sent {
    /// Undecodable.
    pub const POISON: u8 = 1;
    /// Late by the workload's own plan.
    pub const LATE: u8 = 2;
    /// Out of order, within the bound.
    pub const OUT_OF_ORDER: u8 = 4;
    /// A resent copy of an earlier event, with the same event id.
    pub const RESENT: u8 = 8;
}

/// What was sent, by ghost.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    sent: Chunked<Sent>,
}
impl Ledger {
    /// Enters an event; gives its number.
    #[inline]
    pub fn enter(&mut self, at: SimTime, topic: TopicId, producer: u16, flags: u8) -> u32 {
        self.sent.push(Sent { at_ms: at.millis().0 as u32, topic: topic.0, producer, flags });
        (self.sent.len() - 1) as u32
    }
    /// Number of events.
    pub fn len(&self) -> u32 {
        self.sent.len() as u32
    }
    /// Whether nothing was sent.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }
    /// An event.
    pub fn get(&self, ghost: u32) -> Option<&Sent> {
        self.sent.get(ghost as usize)
    }
    /// Every event, in the order of sending.
    pub fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter()
    }
    /// For look-ups of the rows of a batch.
    pub fn reader(&self) -> Reader<'_, Sent> {
        self.sent.reader()
    }
    /// The same in chunks, each with its first number.
    pub fn chunks(&self) -> impl Iterator<Item = (usize, &[Sent])> {
        self.sent.chunks()
    }
    /// Events with one of these flags.
    pub fn count(&self, flags: u8) -> u64 {
        self.iter().filter(|s| s.flags & flags != 0).count() as u64
    }
}
