//! Which partition of an internal topic holds an id, and so which broker coordinates it (T-1).

use std::sync::Arc;

pub use crate::base::string_hash;

/// The partition of `partitions` that holds a `transactional.id` (`__transaction_state`) or `group.id`
/// (`__consumer_offsets`) with this hash: the absolute value, which for the least integer is 0 (`Utils.abs`). Not the masked
/// sign bit of a partitioner.
pub const fn coordinator_partition(hash: i32, partitions: u16) -> u16 {
    let abs = if hash == i32::MIN { 0 } else { hash.unsigned_abs() };
    (abs % partitions as u32) as u16
}

/// Ids of a pattern `prefix-A-B` with whole numbers, as programs make them up while they run: how one is numbered.
///
/// The highest bit tells them from ids that were numbered beforehand; below it stand the prefix by number, A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeUpId {
    /// Which prefix, up to 31.
    pub prefix: u8,
    /// The first number, up to 255.
    pub first: u8,
    /// The second, up to 262,143.
    pub second: u32,
}
impl MadeUpId {
    const FLAG: u32 = 1 << 31;
    /// Its number.
    pub const fn number(self) -> u32 {
        assert!(self.prefix < 32 && self.second < 1 << 18, "a made-up id is out of range");
        Self::FLAG | (self.prefix as u32) << 26 | (self.first as u32) << 18 | self.second
    }
    /// What a number stands for, if it is of this kind.
    pub const fn of(number: u32) -> Option<Self> {
        if number & Self::FLAG == 0 {
            return None;
        }
        let (prefix, first) = ((number >> 26 & 31) as u8, (number >> 18 & 255) as u8);
        Some(Self { prefix, first, second: number & ((1 << 18) - 1) })
    }
}

/// Interned ids (`transactional.id` or `group.id`), by number: their hashes, and the prefixes of made-up ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdTable {
    known: Arc<[(i32, bool)]>,
    prefixes: Arc<[Arc<str>]>,
}
impl IdTable {
    /// The ids of these names, numbered in their order.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let known = names.into_iter().map(|name| (string_hash(name), name.is_empty())).collect();
        Self { known, prefixes: Arc::new([]) }
    }
    /// The same, and made-up ids of these prefixes.
    #[must_use]
    pub fn with_prefixes(self, prefixes: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { prefixes: prefixes.into_iter().collect(), ..self }
    }
    fn hash(&self, id: u32) -> Option<i32> {
        match MadeUpId::of(id) {
            Some(MadeUpId { prefix, first, second }) => {
                let prefix = self.prefixes.get(usize::from(prefix))?;
                Some(string_hash(&format!("{prefix}-{first}-{second}")))
            }
            None => self.known.get(id as usize).map(|(hash, _)| *hash),
        }
    }
    /// Whether the id has an empty name, which is none at all, or no name here.
    pub fn is_empty(&self, id: u32) -> bool {
        match MadeUpId::of(id) {
            Some(id) => usize::from(id.prefix) >= self.prefixes.len(),
            None => self.known.get(id as usize).is_none_or(|(_, empty)| *empty),
        }
    }
    /// The partition of an internal topic of `partitions` that holds the id.
    pub fn partition(&self, id: u32, partitions: u16) -> u16 {
        coordinator_partition(self.hash(id).unwrap_or(0), partitions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(string_hash("t"), 116);
        assert_eq!(string_hash("polygenelubricants"), i32::MIN);
        assert_eq!(coordinator_partition(string_hash("polygenelubricants"), 50), 0);
        assert_eq!(coordinator_partition(-49, 50), 49);
    }

    #[test]
    fn made_up_ids_are_numbered_and_placed_by_their_names() {
        let id = MadeUpId { prefix: 1, first: 3, second: 4_711 };
        assert_eq!(MadeUpId::of(id.number()), Some(id));
        assert_eq!(MadeUpId::of(7), None);
        let table = IdTable::new(["a"]).with_prefixes(["x".into(), "sink".into()]);
        assert_eq!(table.partition(id.number(), 50), coordinator_partition(string_hash("sink-3-4711"), 50));
        assert!(!table.is_empty(id.number()) && !table.is_empty(0) && table.is_empty(1));
        assert!(table.is_empty(MadeUpId { prefix: 2, ..id }.number()));
    }
}
