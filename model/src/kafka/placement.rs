//! Which partition of an internal topic holds an id, and so which broker coordinates it (T-1).

use std::sync::Arc;

/// `String.hashCode`: over UTF-16 units, wrapping.
pub fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |h: i32, unit| h.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The partition of `partitions` that holds a `transactional.id` (`__transaction_state`) or `group.id`
/// (`__consumer_offsets`) with this hash: the absolute value, which for the least integer is 0 (`Utils.abs`). Not the masked
/// sign bit of a partitioner.
pub const fn coordinator_partition(hash: i32, partitions: u16) -> u16 {
    let abs = if hash == i32::MIN { 0 } else { hash.unsigned_abs() };
    (abs % partitions as u32) as u16
}

/// Hashes of interned ids (`transactional.id` or `group.id`), by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdTable(Arc<[(i32, bool)]>);
impl IdTable {
    /// The ids of these names, numbered in their order.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(|name| (string_hash(name), name.is_empty())).collect())
    }
    /// Whether the id has an empty name, which is none at all, or no name here.
    pub fn is_empty(&self, id: u32) -> bool {
        self.0.get(id as usize).is_none_or(|(_, empty)| *empty)
    }
    /// The partition of an internal topic of `partitions` that holds the id.
    pub fn partition(&self, id: u32, partitions: u16) -> u16 {
        coordinator_partition(self.0.get(id as usize).map_or(0, |(hash, _)| *hash), partitions)
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
}
