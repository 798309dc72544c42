//! The sending end of a channel (`PipelinedSubpartition`).

use super::Buffer;
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
impl<T> Sender<T> {
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
