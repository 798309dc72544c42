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

/// A queue of `T` by [`Key`]. Payloads are in a slab, so that little is moved to keep order. What is due soon is in a short
/// sorted list, the rest in a heap: most of what is put in is due before nearly everything that waits (a message that
/// arrives in 200 us against deadlines of seconds), and in a heap it would climb from the bottom to the top.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    /// Everything before `horizon`, the next one last.
    near: Vec<Slot>,
    horizon: Key,
    /// How far the list looks ahead, in ns: so far that it holds some, and not many.
    span: u64,
    far: BinaryHeap<Slot>,
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

/// How few and how many of the next items the sorted list should hold.
const FEW: usize = 4;
const MANY: usize = 64;
const LONGEST_SPAN: u64 = 1 << 30;

impl<T> Queue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            near: Vec::new(),
            horizon: Key(0),
            span: 1 << 20,
            far: BinaryHeap::new(),
            items: Vec::new(),
            free: Vec::new(),
        }
    }
    /// Puts `item` at `key`. Keys must be unique; the world's counts make them so.
    // Inlined for the item's sake, which is then made in its place.
    #[inline(always)]
    pub fn push(&mut self, key: Key, item: T) {
        let index = if let Some(index) = self.free.pop() {
            self.items[index as usize] = Some(item);
            index
        } else {
            self.items.push(Some(item));
            (self.items.len() - 1) as u32
        };
        self.order(Slot { key, index });
    }
    fn order(&mut self, slot: Slot) {
        let key = slot.key;
        if key >= self.horizon {
            self.far.push(slot);
            if self.near.is_empty() {
                self.refill();
            }
            return;
        }
        let sooner = self.near.iter().rev().take_while(|s| s.key < key).count();
        self.near.insert(self.near.len() - sooner, slot);
        if self.near.len() > MANY {
            self.span = (self.span / 2).max(1);
            let late = self.near.len() / 2;
            self.horizon = self.near[late - 1].key;
            self.far.extend(self.near.drain(..late));
        }
    }
    /// The list is empty: what is due in the next span comes out of the heap.
    fn refill(&mut self) {
        let Some(first) = self.far.pop() else {
            self.horizon = Key(0);
            return;
        };
        self.horizon = Key(u128::from(first.key.at().0.saturating_add(self.span)) << 64);
        self.near.push(first);
        while self.near.len() < MANY
            && let Some(slot) = self.far.peek().filter(|s| s.key < self.horizon)
        {
            self.near.push(slot.clone());
            self.far.pop();
        }
        if let Some(next) = self.far.peek().filter(|s| s.key < self.horizon) {
            self.horizon = next.key;
        }
        if self.near.len() < FEW {
            self.span = (self.span * 2).min(LONGEST_SPAN);
        }
        self.near.reverse();
    }
    /// When the next item is due.
    #[inline]
    pub fn next_at(&self) -> Option<SimTime> {
        self.near.last().map(|s| s.key.at())
    }
    /// The next item.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(SimTime, T)> {
        let slot = self.near.pop()?;
        if self.near.is_empty() {
            self.refill();
        }
        self.free.push(slot.index);
        let item = self.items[slot.index as usize].take().expect("a queued index has an item");
        Some((slot.key.at(), item))
    }
    /// How many items wait.
    pub fn len(&self) -> usize {
        self.near.len() + self.far.len()
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

    #[test]
    fn a_queue_of_thousands_is_in_order_whatever_comes_in_between() {
        let mut random = model::base::Streams(1).stream(model::base::Domain::Schedule, 0, "queue");
        let (mut q, mut sorted, mut now) = (Queue::new(), std::collections::BTreeSet::new(), 0);
        for count in 0..20_000 {
            for _ in 0..random.below(3) {
                let ahead = if random.chance(1, 4) { 100_000 } else { 50 };
                let (at, to) = (now + random.below(ahead), random.below(3) as u32);
                let key = Key::new(SimTime(at), ProcessId(to), ProcessId(0), 2 * count + random.below(2));
                if sorted.insert(key) {
                    q.push(key, key);
                }
            }
            assert_eq!(q.len(), sorted.len());
            assert_eq!(q.next_at(), sorted.first().map(|k| k.at()));
            if let Some((at, key)) = q.pop() {
                assert_eq!(Some(key), sorted.pop_first());
                now = at.0;
            }
        }
    }
}
