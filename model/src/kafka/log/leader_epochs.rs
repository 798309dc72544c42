//! Which leader epoch begins where (`LeaderEpochFileCache`; L-3, L-4).

use crate::base::{Chain, Feed, Fix, Fixes, LeaderEpoch, Offset};

/// The start of a leader epoch in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// First offset that may have been written under it.
    pub start: Offset,
}
impl Feed for EpochEntry {
    fn feed(&self, chain: &mut Chain) {
        self.epoch.feed(chain);
        self.start.feed(chain);
    }
}

/// A negative epoch or offset was to be assigned (`IllegalArgumentException`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a leader epoch and its start offset are never negative")]
pub struct NegativeEpoch;

/// Leader epochs of a log and where they start; both strictly increasing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    // Few (one a leader change), read from the end: a sorted Vec.
    entries: Vec<EpochEntry>,
}

impl LeaderEpochs {
    /// The epochs of a checkpoint.
    pub fn from_entries(entries: &[EpochEntry]) -> Self {
        Self { entries: entries.to_vec() }
    }
    /// All of them, in order.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }
    /// The newest.
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }
    /// The oldest.
    pub fn earliest(&self) -> Option<EpochEntry> {
        self.entries.first().copied()
    }
    /// That of exactly `epoch`.
    pub fn entry(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        self.below(epoch.0 + 1).filter(|e| e.epoch == epoch)
    }
    /// The newest below `epoch`.
    pub fn previous(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        self.below(epoch.0)
    }
    /// The oldest above `epoch`.
    pub fn next(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        self.entries.get(self.entries.partition_point(|e| e.epoch <= epoch)).copied()
    }
    /// The newest at or below `epoch`.
    pub fn floor(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        self.below(epoch.0.saturating_add(1))
    }
    /// The epoch that `offset` was or would be written under, as far as this cache knows.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|e| e.start <= offset);
        after.checked_sub(1).map(|i| self.entries[i].epoch)
    }
    /// The epochs of `from..to`, the first of them moved to `from`.
    pub fn range(&self, from: Offset, to: Offset) -> Vec<EpochEntry> {
        let mut part = self.clone();
        part.truncate_from_start(from);
        part.truncate_from_end(to);
        part.entries
    }
    fn below(&self, epoch: i32) -> Option<EpochEntry> {
        let at = self.entries.partition_point(|e| e.epoch.0 < epoch);
        at.checked_sub(1).map(|i| self.entries[i])
    }

    /// `epoch` begins at `start`. A later start of the latest epoch changes nothing; whatever the new entry contradicts goes.
    /// Says whether anything changed.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> Result<bool, NegativeEpoch> {
        if epoch.0 < 0 || start.0 < 0 {
            return Err(NegativeEpoch);
        }
        if self.latest().is_some_and(|last| last.epoch == epoch && start >= last.start) {
            return Ok(false);
        }
        while self.latest().is_some_and(|last| last.epoch >= epoch || last.start >= start) {
            self.entries.pop();
        }
        self.entries.push(EpochEntry { epoch, start });
        Ok(true)
    }

    /// Entries that start at or above `end` go. Says whether anything changed.
    pub fn truncate_from_end(&mut self, end: Offset) -> bool {
        let before = self.entries.len();
        if end.0 >= 0 {
            self.entries.truncate(self.entries.partition_point(|e| e.start < end));
        }
        self.entries.len() != before
    }

    /// Entries that start at or below `start` go, except that the last of them is moved to `start`. Says whether anything
    /// changed.
    pub fn truncate_from_start(&mut self, start: Offset) -> bool {
        let below = self.entries.partition_point(|e| e.start <= start);
        let Some(covering) = below.checked_sub(1) else { return false };
        let changed = covering > 0 || self.entries[covering].start != start;
        self.entries[covering].start = start;
        self.entries.drain(..covering);
        changed
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Where `epoch` ends in this log whose end is `log_end` (L-4): the epoch found and its end offset. `None`: undefined.
    ///
    /// Without KIP-279 an epoch that this log has no entry for is undefined.
    pub fn end_offset_for(&self, epoch: LeaderEpoch, log_end: Offset, fixes: Fixes) -> Option<(LeaderEpoch, Offset)> {
        let latest = self.latest()?;
        if epoch == LeaderEpoch::UNKNOWN {
            return None;
        }
        if epoch == latest.epoch {
            return Some((epoch, log_end));
        }
        let next = self.next(epoch)?;
        let floor = self.floor(epoch);
        if !fixes.has(Fix::DivergingEpochAnswer) && floor.is_none_or(|f| f.epoch != epoch) {
            return None;
        }
        Some((floor.map_or(epoch, |f| f.epoch), next.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cache(entries: &[(i32, i64)]) -> LeaderEpochs {
        let mut cache = LeaderEpochs::default();
        for (epoch, start) in entries {
            cache.assign(LeaderEpoch(*epoch), Offset(*start)).unwrap();
        }
        cache
    }

    #[test]
    fn an_epoch_without_entry_is_undefined_before_kip_279() {
        let c = cache(&[(2, 10), (4, 20), (7, 30)]);
        let old = Fixes::ALL.without(Fix::DivergingEpochAnswer);
        let ask = |e, fixes| c.end_offset_for(LeaderEpoch(e), Offset(44), fixes).map(|(e, o)| (e.0, o.0));
        assert_eq!((ask(3, Fixes::ALL), ask(3, old)), (Some((2, 20)), None));
        assert_eq!((ask(1, Fixes::ALL), ask(1, old)), (Some((1, 10)), None));
        assert_eq!((ask(4, Fixes::ALL), ask(4, old)), (Some((4, 30)), Some((4, 30))));
        assert_eq!((ask(7, Fixes::ALL), ask(7, old)), (Some((7, 44)), Some((7, 44))));
        assert_eq!((ask(8, Fixes::ALL), ask(-1, Fixes::ALL)), (None, None));
    }

    proptest! {
        #[test]
        fn epochs_and_starts_stay_strictly_increasing(steps in prop::collection::vec((0..4u8, 0..9i32, 0..40i64), 0..40)) {
            let mut c = LeaderEpochs::default();
            for (what, epoch, offset) in steps {
                let before = c.clone();
                let changed = match what {
                    0 => c.truncate_from_end(Offset(offset)),
                    1 => c.truncate_from_start(Offset(offset)),
                    _ => c.assign(LeaderEpoch(epoch), Offset(offset)).unwrap(),
                };
                prop_assert_eq!(changed, c != before);
                for pair in c.entries().windows(2) {
                    prop_assert!(pair[0].epoch < pair[1].epoch && pair[0].start < pair[1].start);
                }
                if what >= 2 {
                    prop_assert!(c.latest().is_some_and(|e| e.epoch.0 == epoch));
                }
            }
        }

        #[test]
        fn the_end_of_an_epoch_is_where_the_next_begins(
            steps in prop::collection::vec((0..9i32, 0..40i64), 1..12),
            ask in 0..9i32,
        ) {
            let mut c = LeaderEpochs::default();
            for (epoch, offset) in steps {
                c.assign(LeaderEpoch(epoch), Offset(offset)).unwrap();
            }
            let end = Offset(50);
            if let Some((found, at)) = c.end_offset_for(LeaderEpoch(ask), end, Fixes::ALL) {
                prop_assert!(found.0 <= ask);
                if found == c.latest().unwrap().epoch {
                    prop_assert_eq!(at, end);
                } else {
                    prop_assert_eq!(c.next(found).unwrap().start, at);
                }
            } else {
                prop_assert!(ask > c.latest().unwrap().epoch.0);
            }
        }
    }
}
