//! Key groups: which subtask owns a key (`KeyGroupRangeAssignment`, `MathUtils`).

/// Least default of the maximum parallelism (`DEFAULT_LOWER_BOUND_MAX_PARALLELISM`).
const LEAST_DEFAULT: u32 = 1 << 7;
/// Greatest maximum parallelism (`UPPER_BOUND_MAX_PARALLELISM`).
pub const MOST: u32 = 1 << 15;

/// The key groups that a subtask owns: contiguous, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyGroupRange {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}
impl KeyGroupRange {
    /// Whether the group is one of them.
    pub const fn contains(self, group: u32) -> bool {
        self.first <= group && group <= self.last
    }
    /// What both have; none if they do not touch.
    pub fn intersect(self, other: Self) -> Option<Self> {
        let both = Self { first: self.first.max(other.first), last: self.last.min(other.last) };
        (both.first <= both.last).then_some(both)
    }
}

/// `MathUtils.murmurHash`: MurmurHash3 of one word, made non-negative; the least integer becomes 0.
pub const fn murmur_hash(code: i32) -> u32 {
    let mut h = (code as u32).wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    h = h.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64) ^ 4;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^= h >> 16;
    if h == 1 << 31 { 0 } else { (h as i32).unsigned_abs() }
}

/// The key group of a key with this `hashCode`.
pub const fn key_group(hash_code: i32, max_parallelism: u32) -> u32 {
    murmur_hash(hash_code) % max_parallelism
}

/// The subtask that owns a key group.
pub const fn subtask_of(group: u32, max_parallelism: u32, parallelism: u32) -> u32 {
    group * parallelism / max_parallelism
}

/// The key groups of subtask `subtask` of `parallelism`.
pub const fn range_of(subtask: u32, max_parallelism: u32, parallelism: u32) -> KeyGroupRange {
    KeyGroupRange {
        first: (subtask * max_parallelism).div_ceil(parallelism),
        last: ((subtask + 1) * max_parallelism - 1) / parallelism,
    }
}

/// The maximum parallelism of an operator that names none (`pipeline.max-parallelism` = -1): half as much again as its
/// parallelism, as a power of two between 128 and 32768.
pub const fn default_max_parallelism(parallelism: u32) -> u32 {
    let wanted = (parallelism + parallelism / 2).next_power_of_two();
    if wanted < LEAST_DEFAULT {
        LEAST_DEFAULT
    } else if wanted > MOST {
        MOST
    } else {
        wanted
    }
}

/// `Long.hashCode`: x and -x - 1 collide.
pub const fn long_hash(value: i64) -> i32 {
    (value ^ (value as u64 >> 32) as i64) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_lies_in_the_range_of_its_subtask() {
        for (max, parallelism) in [(128, 1), (128, 3), (128, 128), (10, 7), (32768, 1000)] {
            for group in 0..max {
                let owner = subtask_of(group, max, parallelism);
                assert!(range_of(owner, max, parallelism).contains(group), "{group} of {max} over {parallelism}");
            }
        }
    }

    #[test]
    fn defaults_grow_in_powers_of_two() {
        assert_eq!([1, 85, 86, 170, 171, 30_000].map(default_max_parallelism), [128, 128, 256, 256, 256, 32768]);
        assert_eq!(long_hash(-1), long_hash(0));
    }
}
