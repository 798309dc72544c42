//! The index of aborted transactions, one a segment (`TransactionIndex`; ).

use super::AbortedTxn;
use crate::base::{Chain, Feed, Offset, ProducerId};
use std::sync::Arc;

/// One aborted transaction in a segment's index. It stands in the segment that holds the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedEntry {
    /// Whose.
    pub producer: ProducerId,
    /// Its first offset in this partition.
    pub first: Offset,
    /// Offset of the ABORT marker.
    pub last: Offset,
    /// Last stable offset once this transaction has ended: no transaction that starts below it is listed behind this entry.
    pub last_stable: Offset,
}
impl Feed for AbortedEntry {
    fn feed(&self, chain: &mut Chain) {
        self.producer.feed(chain);
        self.first.feed(chain);
        self.last.feed(chain);
        self.last_stable.feed(chain);
    }
}
impl From<AbortedEntry> for AbortedTxn {
    fn from(e: AbortedEntry) -> Self {
        Self { producer: e.producer, first: e.first }
    }
}

/// The aborted transactions whose markers stand in one segment, in the order of the markers.
#[derive(Clone, Debug, Default)]
pub struct TransactionIndex {
    // Copy on write: a clone of the log shares it.
    entries: Arc<Vec<AbortedEntry>>,
}

impl TransactionIndex {
    /// The entries, by marker offset.
    pub fn entries(&self) -> &[AbortedEntry] {
        &self.entries
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// Adds one; markers come in the order of their offsets.
    pub fn push(&mut self, entry: AbortedEntry) {
        debug_assert!(self.entries.last().is_none_or(|e| e.last < entry.last));
        Arc::make_mut(&mut self.entries).push(entry);
    }
    /// Markers at or above `to` are no more.
    pub fn truncate(&mut self, to: Offset) {
        let keep = self.entries.partition_point(|e| e.last < to);
        if keep < self.entries.len() {
            Arc::make_mut(&mut self.entries).truncate(keep);
        }
    }
    /// Forgets all; recovery fills it again.
    pub fn reset(&mut self) {
        self.entries = Arc::default();
    }
    /// Adds what a reader of `from..upper` has to know. True: nothing behind this segment concerns it.
    pub fn collect(&self, from: Offset, upper: Offset, out: &mut impl FnMut(AbortedEntry)) -> bool {
        let first = self.entries.partition_point(|e| e.last < from);
        // Entries below `from` are not listed, but they too may say that the search is over. `last_stable` never falls, so the
        // last of them speaks for all.
        if first.checked_sub(1).is_some_and(|i| self.entries[i].last_stable >= upper) {
            return true;
        }
        for entry in &self.entries[first..] {
            if entry.first < upper {
                out(*entry);
            }
            if entry.last_stable >= upper {
                return true;
            }
        }
        false
    }
}
