//! The order in which Java's hash tables are walked. It is visible: in the partition order of a full fetch, and so in the
//! order in which a broker reads partitions and a consumer drains them; in who gets a partition more, and which broker of
//! several is fenced first.

use super::placement::string_hash;
use crate::base::{TopicId, TopicPartition};
use std::sync::Arc;

/// `HashMap.hash`: the upper half of a hash code counts in small tables too.
pub const fn spread(hash: i32) -> u32 {
    let hash = hash as u32;
    hash ^ (hash >> 16)
}
/// `TopicPartition.hashCode`, spread, by the hash code of the topic's name.
pub const fn spread_partition(topic: i32, partition: u16) -> u32 {
    spread(31i32.wrapping_mul(31 + partition as i32).wrapping_add(topic))
}

/// The order in which a `HashMap` with these keys is walked; inside a bucket as given.
pub fn hash_order<'a>(keys: impl Iterator<Item = &'a Arc<str>>) -> Vec<&'a Arc<str>> {
    let mut keys: Vec<_> = keys.collect();
    let mask = grown_capacity(keys.len()) - 1;
    keys.sort_by_key(|k| spread(string_hash(k)) & mask);
    keys
}

/// The order in which a `TimelineHashMap` is walked into which these keys were put in this order: slots by the upper bits of
/// a Fibonacci hash, the youngest first in each. Slots double when the keys outnumber 4/3 of them.
pub fn timeline_order<'a>(keys: impl Iterator<Item = &'a Arc<str>>) -> Vec<&'a Arc<str>> {
    const FIBONACCI: i64 = -7_046_029_254_386_353_131;
    let mut keys: Vec<_> = keys.collect();
    keys.reverse();
    let mut slots = 2u64;
    while keys.len() as u64 * 3 > slots * 4 {
        slots *= 2;
    }
    let shift = 64 - slots.trailing_zeros();
    keys.sort_by_key(|k| (i64::from(string_hash(k)).wrapping_mul(FIBONACCI) as u64) >> shift);
    keys
}

/// `String.hashCode` of every topic's name, by topic number.
#[derive(Clone, Debug, Default)]
pub struct TopicHashes(Arc<[i32]>);

impl TopicHashes {
    /// Of topics with these names, in the order of their numbers.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(string_hash).collect())
    }
    /// The hash of a topic's name; 0, that of the empty name, for a topic without one.
    fn topic(&self, topic: TopicId) -> i32 {
        self.0.get(usize::from(topic.0)).copied().unwrap_or(0)
    }
    /// Puts partitions, given in the order in which they are inserted, into the order in which a table is walked;
    /// `capacity` gives its buckets for so many entries. A bucket is a list in order of insertion; its turning into a
    /// tree at 8 entries is left out.
    pub fn sort(&self, partitions: &mut [TopicPartition], capacity: fn(usize) -> u32) {
        let mask = capacity(partitions.len()) - 1;
        partitions.sort_by_key(|tp| spread_partition(self.topic(tp.topic), tp.partition) & mask);
    }
}

/// Buckets of a `HashMap` or `HashSet` that has grown to `n` entries: 16, doubled beyond a load of 3/4.
pub fn grown_capacity(n: usize) -> u32 {
    let mut capacity = 16u32;
    while n as u64 * 4 > u64::from(capacity) * 3 {
        capacity *= 2;
    }
    capacity
}

/// Buckets of `new HashSet<>(collection)` of `n` entries: the power of two not below n / 0.75 + 1.
pub fn copied_capacity(n: usize) -> u32 {
    ((n as u32 * 4) / 3 + 1).max(16).next_power_of_two()
}

/// Buckets of `new HashMap<>(n)` that then takes `n` entries: the power of two not below n, doubled beyond a load of 3/4.
pub fn presized_capacity(n: usize) -> u32 {
    let capacity = (n as u32).max(1).next_power_of_two();
    if n as u64 * 4 > u64::from(capacity) * 3 { capacity * 2 } else { capacity }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java() {
        assert_eq!(string_hash("t"), 116);
        assert_eq!(
            string_hash("clickstream-events"),
            "clickstream-events".bytes().fold(0i32, |h, b| h.wrapping_mul(31).wrapping_add(i32::from(b)))
        );
        assert_eq!((grown_capacity(12), grown_capacity(13), grown_capacity(25)), (16, 32, 64));
        assert_eq!((presized_capacity(3), presized_capacity(4), presized_capacity(6)), (4, 8, 8));
        assert_eq!((copied_capacity(11), copied_capacity(12), copied_capacity(24)), (16, 32, 64));
    }

    #[test]
    fn timelines_are_walked_as_in_java() {
        let walked = |n: u8| {
            let keys: Vec<Arc<str>> = (b'a'..b'a' + n).map(|c| char::from(c).to_string().into()).collect();
            timeline_order(keys.iter()).into_iter().map(|k| &**k).collect::<String>()
        };
        assert_eq!([2, 3, 5, 6, 10].map(walked), ["ba", "cba", "cebda", "fcebda", "fchejbgdia"]);
    }

    #[test]
    fn few_partitions_of_topic_t_are_walked_downwards() {
        let hashes = TopicHashes::of_names(["t"]);
        let mut order: Vec<_> = (0..6).map(|p| TopicPartition::new(0, p)).collect();
        hashes.sort(&mut order, grown_capacity);
        assert_eq!(order.iter().map(|tp| tp.partition).collect::<Vec<_>>(), [5, 4, 3, 2, 1, 0]);
    }
}
