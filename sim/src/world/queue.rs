//! The event queue: one total order, in which an unrelated process reorders nothing.

use model::base::{ProcessId, SimTime};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Order of events: by time, then by receiving process, then by sending process, then by the sender's own count. Nothing
/// depends on the order in which other processes scheduled their events, so adding or removing one leaves the ties of the rest
/// as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u128);

impl Key {
    const PROCESS_BITS: u32 = 12;
    const COUNT_BITS: u32 = 64 - 2 * Self::PROCESS_BITS;
    /// How many processes there can be. The last number is the world's own, as a sender.
    pub const PROCESSES: u32 = (1 << Self::PROCESS_BITS) - 1;
    /// The world as a sender: behind every process.
    pub const WORLD: ProcessId = ProcessId(Self::PROCESSES);

    /// Event number `count` of those that `from` sends, for `to`.
    #[inline]
    pub fn new(at: SimTime, to: ProcessId, from: ProcessId, count: u64) -> Self {
        debug_assert!(to.0 < Self::PROCESSES && from.0 <= Self::PROCESSES && count < 1 << Self::COUNT_BITS);
        let link = u64::from(to.0 << Self::PROCESS_BITS | from.0);
        Self(u128::from(at.0) << 64 | u128::from(link << Self::COUNT_BITS | count))
    }
    /// When.
    #[inline]
    pub const fn at(self) -> SimTime {
        SimTime((self.0 >> 64) as u64)
    }
}

#[derive(Clone, Debug)]
struct Slot {
    key: Key,
    index: u32,
}
impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl Eq for Slot {}
impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
    // What the heap asks for: one subtraction of two words.
    fn lt(&self, other: &Self) -> bool {
        other.key.0 < self.key.0
    }
    fn le(&self, other: &Self) -> bool {
        other.key.0 <= self.key.0
    }
}
impl Ord for Slot {
    // Reversed: `BinaryHeap` gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

/// A queue of `T` by [`Key`]. Keys are in the heap, payloads in a slab, so that sifting moves few bytes.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Slot>,
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Queue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), items: Vec::new(), free: Vec::new() }
    }
    /// Puts `item` at `key`. Keys must be unique; the world's counts make them so.
    #[inline]
    pub fn push(&mut self, key: Key, item: T) {
        let index = if let Some(index) = self.free.pop() {
            self.items[index as usize] = Some(item);
            index
        } else {
            self.items.push(Some(item));
            (self.items.len() - 1) as u32
        };
        self.heap.push(Slot { key, index });
    }
    /// When the next item is due.
    #[inline]
    pub fn next_at(&self) -> Option<SimTime> {
        self.heap.peek().map(|s| s.key.at())
    }
    /// The next item.
    #[inline]
    pub fn pop(&mut self) -> Option<(SimTime, T)> {
        let slot = self.heap.pop()?;
        self.free.push(slot.index);
        let item = self.items[slot.index as usize].take().expect("a queued index has an item");
        Some((slot.key.at(), item))
    }
    /// How many items wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }
}
impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_then_receiver_then_sender_then_count() {
        let mut q = Queue::new();
        let key = |at, to, from, count| Key::new(SimTime(at), ProcessId(to), ProcessId(from), count);
        let world = Key::new(SimTime(1), ProcessId(1), Key::WORLD, 0);
        let keys = [key(2, 0, 0, 0), key(1, 2, 0, 0), key(1, 1, 9, 9), key(1, 1, 9, 3), key(1, 1, 8, 10), world];
        for (i, k) in keys.into_iter().enumerate() {
            q.push(k, i);
        }
        let order: Vec<usize> = std::iter::from_fn(|| q.pop().map(|(_, i)| i)).collect();
        assert_eq!(order, [4, 3, 2, 5, 1, 0]);
    }
}
