//! Partitions numbered in the order in which fetches have first named them, so that a set of them is a few words.

use crate::base::{PartitionMap, TopicPartition};

/// The number of a partition at one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u16);

/// Gives partitions their slots; none is given back.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    of: PartitionMap<Slot>,
    given: u16,
}

impl Slots {
    /// The slot of `tp`, a new one the first time.
    pub fn of(&mut self, tp: TopicPartition) -> Slot {
        if let Some(slot) = self.of.get(tp) {
            return *slot;
        }
        let slot = Slot(self.given);
        self.given += 1;
        self.of.insert(tp, slot);
        slot
    }
    /// The slot of `tp`, if it was given one.
    pub fn get(&self, tp: TopicPartition) -> Option<Slot> {
        self.of.get(tp).copied()
    }
}

/// A set of slots.
#[derive(Clone, Debug, Default)]
pub struct SlotSet(Vec<u64>);

impl SlotSet {
    /// Takes `slot` in.
    #[inline]
    pub fn insert(&mut self, slot: Slot) {
        let (word, bit) = Self::place(slot);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }
    /// Whether `slot` is in it.
    #[inline]
    pub fn has(&self, slot: Slot) -> bool {
        let (word, bit) = Self::place(slot);
        self.0.get(word).is_some_and(|w| w & bit != 0)
    }
    /// Takes `slot` out.
    #[inline]
    pub fn remove(&mut self, slot: Slot) {
        let (word, bit) = Self::place(slot);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }
    /// Leaves nothing in it.
    pub fn clear(&mut self) {
        self.0.clear();
    }
    const fn place(slot: Slot) -> (usize, u64) {
        (slot.0 as usize / 64, 1 << (slot.0 % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_keeps_its_slot_and_a_set_knows_its_slots() {
        let mut slots = Slots::default();
        let given: Vec<_> = (0..70).map(|p| slots.of(TopicPartition::new(p % 2, p))).collect();
        assert_eq!(slots.of(TopicPartition::new(1, 69)), given[69]);
        assert_eq!(
            (slots.get(TopicPartition::new(0, 4)), slots.get(TopicPartition::new(0, 5))),
            (Some(given[4]), None)
        );
        let mut set = SlotSet::default();
        for slot in given.iter().step_by(3) {
            set.insert(*slot);
        }
        let members: Vec<_> = given.iter().enumerate().filter(|(_, slot)| set.has(**slot)).map(|(i, _)| i).collect();
        assert_eq!(members, (0..70).step_by(3).collect::<Vec<_>>());
        set.remove(given[69]);
        assert!(!set.has(given[69]) && set.has(given[66]));
        set.clear();
        assert!(!set.has(given[66]));
    }
}
