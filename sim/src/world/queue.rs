//! The event queue: one total order, in which an unrelated process reorders nothing.

use model::base::SimTime;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Order of events: by time, then by link (receiver, sender), then by the sender's own count. Nothing depends on the order
/// in which other processes scheduled their events, so adding or removing one leaves the ties of the rest as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// When.
    pub at: SimTime,
    /// Receiving process, in the upper half; sending process in the lower.
    pub link: u64,
    /// The sender's count.
    pub count: u64,
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
    pub fn next_at(&self) -> Option<SimTime> {
        self.heap.peek().map(|s| s.key.at)
    }
    /// The next item.
    pub fn pop(&mut self) -> Option<(Key, T)> {
        let slot = self.heap.pop()?;
        self.free.push(slot.index);
        let item = self.items[slot.index as usize].take().expect("a queued index has an item");
        Some((slot.key, item))
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
    fn time_then_link_then_count() {
        let mut q = Queue::new();
        let key = |at, link, count| Key { at: SimTime(at), link, count };
        for (i, k) in [key(2, 0, 0), key(1, 2, 0), key(1, 1, 9), key(1, 1, 3)].into_iter().enumerate() {
            q.push(k, i);
        }
        let order: Vec<usize> = std::iter::from_fn(|| q.pop().map(|(_, i)| i)).collect();
        assert_eq!(order, [3, 2, 1, 0]);
    }
}
