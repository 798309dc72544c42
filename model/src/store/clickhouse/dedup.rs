//! Deduplication of inserted blocks (stores 1.6): independent of what the engine does with rows.

use super::partition::PartitionId;
use std::collections::{BTreeSet, VecDeque};

/// What a block is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockKey {
    /// The content of the whole block over all its partitions, in the order of its rows, before any collapse.
    Content(u64),
    /// `insert_deduplication_token`: then nobody looks at the content.
    Token(u64),
}

/// `deduplicate_insert` (26.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeduplicateInsert {
    /// On, whatever `insert_deduplicate` says.
    #[default]
    Enable,
    /// Off: keys are neither looked up nor recorded.
    Disable,
    /// `insert_deduplicate` counts, as it did before.
    BackwardCompatibleChoice,
}
impl DeduplicateInsert {
    /// Whether a block is looked up, given `insert_deduplicate`.
    pub const fn on(self, insert_deduplicate: bool) -> bool {
        match self {
            Self::Enable => true,
            Self::Disable => false,
            Self::BackwardCompatibleChoice => insert_deduplicate,
        }
    }
}

type Entry = (PartitionId, BlockKey, u32);

/// The last keys of a table, one for each block and partition, first in first out. Merges and restarts keep it.
#[derive(Clone, Debug)]
pub struct DeduplicationLog {
    window: usize,
    order: VecDeque<Entry>,
    known: BTreeSet<Entry>,
}
impl DeduplicationLog {
    /// A log of so many keys; 0 switches deduplication off.
    pub const fn new(window: usize) -> Self {
        Self { window, order: VecDeque::new(), known: BTreeSet::new() }
    }
    /// Whether there is one.
    pub const fn is_on(&self) -> bool {
        self.window > 0
    }
    /// Whether the `index`-th block of an INSERT is new in this partition, and if so, records it. A hit does not refresh.
    pub fn is_new(&mut self, partition: &PartitionId, key: BlockKey, index: u32) -> bool {
        let entry = (partition.clone(), key, index);
        if !self.known.insert(entry.clone()) {
            return false;
        }
        self.order.push_back(entry);
        if self.order.len() > self.window
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
    /// DROP PARTITION.
    pub fn forget(&mut self, partition: &PartitionId) {
        self.order.retain(|(p, ..)| p != partition);
        self.known.retain(|(p, ..)| p != partition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_key_goes_first_and_a_hit_does_not_refresh() {
        let mut log = DeduplicationLog::new(2);
        let all = PartitionId("all".into());
        let mut new = |n| log.is_new(&all, BlockKey::Content(n), 0);
        assert_eq!([1, 2, 1, 3, 1].map(&mut new), [true, true, false, true, true]);
    }

    #[test]
    fn partition_and_place_in_the_insert_belong_to_the_key() {
        let mut log = DeduplicationLog::new(10);
        let (a, b) = (PartitionId("a".into()), PartitionId("b".into()));
        let key = BlockKey::Token(1);
        assert!(log.is_new(&a, key, 0) && log.is_new(&b, key, 0) && log.is_new(&a, key, 1));
        assert!(!log.is_new(&a, key, 1));
        log.forget(&a);
        assert!(log.is_new(&a, key, 1) && !log.is_new(&b, key, 0));
        assert!(!DeduplicateInsert::BackwardCompatibleChoice.on(false) && DeduplicateInsert::Enable.on(false));
    }
}
