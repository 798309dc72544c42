//! Which partition of an internal topic holds an id, and so which broker coordinates it (T-1).

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
