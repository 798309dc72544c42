//! Java's hash of a string: it places groups (T-1) and orders members.

use super::Name;
use std::sync::Arc;

/// `String.hashCode`, over UTF-16 units.
pub fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |h, unit| h.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// Partition of the internal topic that holds `id` (T-1): abs(hash) mod n, where abs of the smallest integer is 0
/// (`Utils.abs`).
pub fn partition_for(id: &str, partitions: u16) -> u16 {
    let hash = string_hash(id);
    let abs = if hash == i32::MIN { 0 } else { hash.unsigned_abs() };
    (abs % u32::from(partitions.max(1))) as u16
}

/// The order in which a `HashMap` with these keys is walked; inside a bucket as given.
pub(super) fn hash_order<'a>(keys: impl Iterator<Item = &'a Name>) -> Vec<Name> {
    let mut keys: Vec<Name> = keys.map(Arc::clone).collect();
    let mut capacity = 16usize;
    while keys.len() * 4 > capacity * 3 {
        capacity *= 2;
    }
    keys.sort_by_key(|k| {
        let hash = string_hash(k) as u32;
        (hash ^ (hash >> 16)) as usize & (capacity - 1)
    });
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_hash_goes_to_partition_zero() {
        assert_eq!(string_hash("polygenelubricants"), i32::MIN);
        assert_eq!(partition_for("polygenelubricants", 50), 0);
        assert_eq!(partition_for("", 50), 0);
    }
}
