//! Produce requests with acks=all that wait for the high watermark (1.2 step 8; `DelayedProduce`).

use crate::base::{Millis, Offset};

/// A produce that waits, one partition of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingProduce {
    /// The broker's number of the request; given back with the answer.
    pub token: u64,
    /// First offset of what was appended, or of the first time for a duplicate.
    pub base: Offset,
    /// Last offset.
    pub last: Offset,
    /// It was recognised as a duplicate.
    pub duplicate: bool,
    /// When the wait ends.
    pub deadline: Millis,
}

impl WaitingProduce {
    /// The high watermark that answers it.
    pub fn required(&self) -> Offset {
        self.last.plus(1)
    }
}

/// The waiting produces of a partition, in the order of their coming.
#[derive(Clone, Debug, Default)]
pub struct ProducePurgatory {
    waiting: Vec<WaitingProduce>,
}

impl ProducePurgatory {
    /// Adds one.
    pub fn watch(&mut self, produce: WaitingProduce) {
        self.waiting.push(produce);
    }
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// The earliest end of a wait.
    pub fn deadline(&self) -> Option<Millis> {
        self.waiting.iter().map(|w| w.deadline).min()
    }
    /// Keeps those for which `waits` holds, asked in order.
    pub fn retain(&mut self, waits: impl FnMut(&WaitingProduce) -> bool) {
        self.waiting.retain(waits);
    }
    /// Takes out those for which `done` holds, in order.
    pub fn take(&mut self, done: impl FnMut(&mut WaitingProduce) -> bool) -> Vec<WaitingProduce> {
        self.waiting.extract_if(.., done).collect()
    }
    /// Takes out those whose time is over at `now`, by deadline and then in the order of their coming. The timeout fires
    /// at exactly its time.
    pub fn expire(&mut self, now: Millis) -> Vec<WaitingProduce> {
        let mut over = self.take(|w| w.deadline <= now);
        over.sort_by_key(|w| w.deadline);
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_by_deadline_then_by_arrival() {
        let mut p = ProducePurgatory::default();
        for (token, deadline) in [(1, 50), (2, 40), (3, 50), (4, 60)] {
            let w = WaitingProduce {
                token,
                base: Offset(0),
                last: Offset(0),
                duplicate: false,
                deadline: Millis(deadline),
            };
            p.watch(w);
        }
        assert_eq!(p.deadline(), Some(Millis(40)));
        assert!(p.expire(Millis(39)).is_empty());
        let over: Vec<u64> = p.expire(Millis(50)).iter().map(|w| w.token).collect();
        assert_eq!(over, [2, 1, 3]);
        assert_eq!(p.len(), 1);
    }
}
