//! A batch at its place in a log.

use crate::base::{Batch, Chain, Feed, LeaderEpoch, Offset, ProducerId};
use std::sync::Arc;

/// A batch in a log. The place is outside the batch, so that replicas, topics and readers share one allocation.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Offset of its first record.
    pub base: Offset,
    /// Leader epoch under which it was appended (`partitionLeaderEpoch`).
    pub epoch: LeaderEpoch,
    /// The batch.
    pub batch: Arc<Batch>,
}
impl Entry {
    /// Offset of its last record.
    pub fn last(&self) -> Offset {
        self.base.plus(i64::from(self.batch.records) - 1)
    }
    /// The offset after it.
    pub fn next(&self) -> Offset {
        self.base.plus(i64::from(self.batch.records))
    }
}
impl Feed for Entry {
    fn feed(&self, chain: &mut Chain) {
        self.base.feed(chain);
        self.epoch.feed(chain);
        self.batch.feed(chain);
    }
}

/// An entry of the list that a read_committed fetch returns: data of `producer` from `first` on is aborted, up to its next
/// ABORT marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTxn {
    /// The producer.
    pub producer: ProducerId,
    /// First offset of its aborted transaction in this partition.
    pub first: Offset,
}
impl Feed for AbortedTxn {
    fn feed(&self, chain: &mut Chain) {
        self.producer.feed(chain);
        self.first.feed(chain);
    }
}

/// Upper bound of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Log end: a follower's fetch.
    LogEnd,
    /// High watermark: read_uncommitted.
    HighWatermark,
    /// Last stable offset: read_committed.
    Committed,
}
