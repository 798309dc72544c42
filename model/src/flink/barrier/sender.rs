//! The sending end of a channel (`PipelinedSubpartition`).

use super::{Barrier, Buffer};
use crate::flink::checkpoint::CheckpointId;
use std::collections::VecDeque;

/// A FIFO that hands nothing over behind an aligned barrier until the receiver resumes it.
#[derive(Clone, Debug)]
pub struct Sender<T> {
    queue: VecDeque<Buffer<T>>,
    blocked: bool,
}
impl<T> Default for Sender<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), blocked: false }
    }
}
impl<T: Clone> Sender<T> {
    /// Puts an unaligned barrier in front of what is queued; gives the data that it overtakes, which stays queued.
    pub fn overtake(&mut self, barrier: Barrier) -> Vec<T> {
        let data = self.data(self.queue.len());
        let urgent = self.queue.iter().take_while(|b| matches!(b, Buffer::Barrier(b) if b.unaligned())).count();
        self.queue.insert(urgent, Buffer::Barrier(barrier));
        data
    }
    /// A queued barrier of this checkpoint becomes unaligned and overtakes what is in front of it: that is given.
    pub fn time_out(&mut self, id: CheckpointId) -> Vec<T> {
        let Some((place, barrier)) = self.place(id) else { return Vec::new() };
        let data = self.data(place);
        self.queue.remove(place);
        self.queue.insert(0, Buffer::Barrier(barrier.as_unaligned()));
        data
    }
    fn data(&self, before: usize) -> Vec<T> {
        let data = |buffer: &Buffer<T>| if let Buffer::Data(data) = buffer { Some(data.clone()) } else { None };
        self.queue.iter().take(before).filter_map(data).collect()
    }
}
impl<T> Sender<T> {
    fn place(&self, id: CheckpointId) -> Option<(usize, Barrier)> {
        self.queue.iter().enumerate().find_map(|(place, buffer)| match buffer {
            Buffer::Barrier(barrier) if barrier.id == id => Some((place, *barrier)),
            _ => None,
        })
    }
    /// Whether the barrier of this checkpoint is queued.
    pub fn holds_barrier(&self, id: CheckpointId) -> bool {
        self.place(id).is_some()
    }
    /// Puts a buffer into the queue.
    pub fn add(&mut self, buffer: Buffer<T>) {
        self.queue.push_back(buffer);
    }
    /// The next buffer to hand over.
    pub fn poll(&mut self) -> Option<Buffer<T>> {
        if self.blocked {
            return None;
        }
        let next = self.queue.pop_front()?;
        self.blocked = matches!(&next, Buffer::Barrier(barrier) if barrier.blocks_sender());
        Some(next)
    }
    /// How many buffers wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
    /// Whether the next buffer is data, which takes a credit.
    pub fn next_is_data(&self) -> bool {
        matches!(self.queue.front(), Some(Buffer::Data(_)))
    }
    /// Whether it waits for the receiver.
    pub const fn blocked(&self) -> bool {
        self.blocked
    }
    /// The receiver goes on.
    pub fn resume(&mut self) {
        self.blocked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::BarrierKind;
    use super::*;
    use crate::base::Millis;

    fn barrier(id: i64, kind: BarrierKind) -> Barrier {
        Barrier { id: CheckpointId(id), timestamp: Millis::ZERO, kind }
    }

    #[test]
    fn an_unaligned_barrier_goes_first_and_what_it_overtakes_follows() {
        let mut sender = Sender::default();
        sender.add(Buffer::Data(1));
        sender.add(Buffer::Data(2));
        let unaligned = barrier(7, BarrierKind::Unaligned);
        assert_eq!(sender.overtake(unaligned), [1, 2]);
        let sent: Vec<_> = std::iter::from_fn(|| sender.poll()).collect();
        assert_eq!(sent, [Buffer::Barrier(unaligned), Buffer::Data(1), Buffer::Data(2)]);
    }

    #[test]
    fn a_barrier_that_has_waited_too_long_overtakes_only_what_is_in_front_of_it() {
        let mut sender = Sender::default();
        sender.add(Buffer::Data(1));
        sender.add(Buffer::Barrier(barrier(7, BarrierKind::Timeoutable(Millis(5)))));
        sender.add(Buffer::Data(2));
        assert!(sender.holds_barrier(CheckpointId(7)));
        assert_eq!(sender.time_out(CheckpointId(7)), [1]);
        let first = sender.poll();
        assert_eq!(first, Some(Buffer::Barrier(barrier(7, BarrierKind::Unaligned))));
        assert_eq!((sender.poll(), sender.time_out(CheckpointId(7))), (Some(Buffer::Data(1)), vec![]));
    }
}
