//! One producer's state in a log (`ProducerStateEntry`).

use crate::base::{Batch, Chain, EventTime, Feed, Offset, ProducerEpoch, Sequence};

/// A batch that a producer has appended, as remembered for finding duplicates (`BatchMetadata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendedBatch {
    /// Offset of its last record.
    pub last: Offset,
    /// Sequence number of its last record.
    pub last_sequence: Sequence,
    /// Number of records less one.
    pub delta: u32,
}
impl AppendedBatch {
    /// Offset of its first record.
    pub fn first(&self) -> Offset {
        self.last.plus(-i64::from(self.delta))
    }
    /// Sequence number of its first record; numbers wrap below 0 to `i32::MAX`.
    pub fn first_sequence(&self) -> Sequence {
        let behind = i64::from(self.last_sequence.0) - i64::from(self.delta);
        Sequence(if behind >= 0 { behind } else { behind + i64::from(i32::MAX) + 1 } as i32)
    }
}

/// The newest batches of a producer, oldest first, at most five (P-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    batches: [AppendedBatch; Self::MOST],
    len: u8,
}
impl Window {
    /// `ProducerStateEntry.NUM_BATCHES_TO_RETAIN`.
    pub const MOST: usize = 5;

    /// No batch.
    pub const EMPTY: Self = {
        let none = AppendedBatch { last: Offset::UNKNOWN, last_sequence: Sequence::NONE, delta: 0 };
        Self { batches: [none; Self::MOST], len: 0 }
    };
    /// The batches, oldest first.
    pub fn batches(&self) -> &[AppendedBatch] {
        &self.batches[..usize::from(self.len)]
    }
    fn push(&mut self, batch: AppendedBatch, most: usize) {
        if usize::from(self.len) == most {
            self.batches.copy_within(1..most, 0);
            self.len -= 1;
        }
        self.batches[usize::from(self.len)] = batch;
        self.len += 1;
    }
}

/// What a log knows of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Its epoch; [`ProducerEpoch::NONE`] before anything was appended.
    pub epoch: ProducerEpoch,
    /// Its newest batches under that epoch.
    pub window: Window,
    /// Epoch of the coordinator that wrote its newest marker, -1 for none.
    pub coordinator_epoch: i32,
    /// Time stamp of what it appended last, marker or data.
    pub last_timestamp: EventTime,
    /// First offset of its open transaction.
    pub txn_start: Option<Offset>,
}

impl ProducerState {
    /// A producer of which nothing is known.
    pub const UNKNOWN: Self = Self {
        epoch: ProducerEpoch::NONE,
        window: Window::EMPTY,
        coordinator_epoch: -1,
        last_timestamp: EventTime(-1),
        txn_start: None,
    };
    /// Sequence number of its last record; [`Sequence::NONE`] when the window is empty.
    pub fn last_sequence(&self) -> Sequence {
        self.window.batches().last().map_or(Sequence::NONE, |b| b.last_sequence)
    }
    /// The remembered batch that `batch` repeats: same epoch, same first and last sequence number (P-3).
    pub fn duplicate_of(&self, batch: &Batch) -> Option<AppendedBatch> {
        if batch.producer.epoch != self.epoch {
            return None;
        }
        let (first, last) = (batch.producer.base_sequence, batch.last_sequence());
        self.window.batches().iter().find(|b| b.first_sequence() == first && b.last_sequence == last).copied()
    }
    /// Another epoch empties the window.
    pub(super) fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.window = Window::EMPTY;
        }
    }
    pub(super) fn remember(&mut self, epoch: ProducerEpoch, batch: AppendedBatch, at: EventTime, most: usize) {
        self.set_epoch(epoch);
        self.window.push(batch, most);
        self.last_timestamp = at;
    }
    /// Takes over what an append has made of this producer: its batches come behind those already in the window.
    pub(super) fn absorb(&mut self, newer: &Self, most: usize) {
        self.set_epoch(newer.epoch);
        for batch in newer.window.batches() {
            self.window.push(*batch, most);
        }
        self.coordinator_epoch = newer.coordinator_epoch;
        self.last_timestamp = newer.last_timestamp;
        self.txn_start = newer.txn_start;
    }
    /// What a snapshot holds of it: the last batch only (L-22).
    pub fn snapshot(&self) -> Self {
        let mut kept = self.clone();
        kept.window = Window::EMPTY;
        if let Some(last) = self.window.batches().last() {
            kept.window.push(*last, Window::MOST);
        }
        kept
    }
}
impl Feed for ProducerState {
    fn feed(&self, chain: &mut Chain) {
        self.epoch.feed(chain);
        chain.u8(self.window.len);
        for batch in self.window.batches() {
            batch.last.feed(chain);
            batch.last_sequence.feed(chain);
            chain.u32(batch.delta);
        }
        chain.u32(self.coordinator_epoch as u32);
        chain.i64(self.last_timestamp.0);
        self.txn_start.feed(chain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sequence_goes_back_over_the_wrap() {
        let batch = |last, delta| AppendedBatch { last: Offset(8), last_sequence: Sequence(last), delta };
        assert_eq!(batch(2, 4).first_sequence(), Sequence(i32::MAX - 1));
        assert_eq!(batch(0, 0).first_sequence(), Sequence(0));
        assert_eq!(batch(i32::MAX, 2).first_sequence(), Sequence(i32::MAX - 2));
    }

    #[test]
    fn the_window_drops_the_oldest() {
        let mut window = Window::EMPTY;
        for i in 0..7 {
            window.push(AppendedBatch { last: Offset(i), last_sequence: Sequence(i as i32), delta: 0 }, 5);
        }
        assert_eq!(window.batches().iter().map(|b| b.last.0).collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
    }
}
