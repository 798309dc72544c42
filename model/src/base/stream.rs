//! Random streams: one per (domain, entity, purpose), all from the run's seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What part of the simulation draws; the first coordinate of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Domain {
    /// Links: latency, loss.
    Network = 1,
    /// Faults: when, whom, which lane runs first after a thaw, which suffix survives power loss.
    Fault = 2,
    /// Processes of the model: timer phases, jitters, election timeouts.
    Process = 3,
    /// The workload generator.
    Workload = 4,
    /// Drawing a scenario from a seed (chaos schedules).
    Schedule = 5,
}

/// Makes streams. Removing a fault, a process or a draw moves no other stream, because each stream's key is derived from
/// the seed and its own coordinates alone.
#[derive(Clone, Copy, Debug)]
pub struct Streams(pub u64);

impl Streams {
    /// The stream of `entity` (a process, a link...) for `purpose`, within `domain`.
    pub fn stream(self, domain: Domain, entity: u64, purpose: &str) -> Stream {
        let mut seed = [0u8; 32];
        seed[..8].copy_from_slice(&self.0.to_le_bytes());
        seed[8..16].copy_from_slice(&(domain as u64).to_le_bytes());
        seed[16..24].copy_from_slice(&entity.to_le_bytes());
        seed[24..].copy_from_slice(&xxh3_64_with_seed(purpose.as_bytes(), 0).to_le_bytes());
        Stream(ChaCha8Rng::from_seed(seed))
    }
}

/// One ChaCha8 stream. Integers are mapped by multiply and shift; nothing here goes through floating point.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// Uniform in `0..n`. Panics if `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "an empty range has no member");
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
    /// Uniform in `low..=high`.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high);
        if high - low == u64::MAX { self.bits() } else { low + self.below(high - low + 1) }
    }
    /// True in `n` of `of` cases.
    #[inline]
    pub fn chance(&mut self, n: u64, of: u64) -> bool {
        self.below(of) < n
    }
    /// `base` scaled by a uniform factor of `from..=to` thousandths, as a jitter does (0.8 to 1.2 is 800 to 1200).
    pub fn jitter(&mut self, base: i64, from: u64, to: u64) -> i64 {
        (i128::from(base) * i128::from(self.between(from, to)) / 1000) as i64
    }
    /// 64 random bits, to be spent on several draws.
    #[inline]
    pub fn digits(&mut self) -> Digits {
        Digits(self.bits())
    }
    /// Fisher-Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// A random fraction that is spent digit by digit, each in a base of its own: for draws so frequent that a word for each would
/// cost more than what is done with it. The product of the bases should stay well below 2^64, for what is left of the
/// fraction is as many steps coarser; so large a base comes last.
#[derive(Clone, Copy, Debug)]
pub struct Digits(u64);
impl Digits {
    /// Uniform in `0..n`. Panics if `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "an empty range has no member");
        let product = u128::from(self.0) * u128::from(n);
        self.0 = product as u64;
        (product >> 64) as u64
    }
    /// Uniform in `low..=high`, which is not all of 64 bits.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high);
        low + self.below(high - low + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_apart_and_stable() {
        let s = Streams(42);
        let first = s.stream(Domain::Process, 1, "heartbeat").bits();
        assert_eq!(first, s.stream(Domain::Process, 1, "heartbeat").bits());
        assert_ne!(first, s.stream(Domain::Process, 2, "heartbeat").bits());
        assert_ne!(first, s.stream(Domain::Process, 1, "election").bits());
        assert_ne!(first, s.stream(Domain::Fault, 1, "heartbeat").bits());
    }

    #[test]
    fn digits_of_one_word_are_uniform_and_apart() {
        let mut s = Streams(1).stream(Domain::Workload, 0, "t");
        let mut seen = [[0u32; 7]; 5];
        for _ in 0..35_000 {
            let mut word = s.digits();
            let (_, a, b) = (word.below(1_000_000), word.below(5), word.between(10, 16));
            seen[a as usize][b as usize - 10] += 1;
        }
        assert!(seen.iter().flatten().all(|n| (850..=1_150).contains(n)), "{seen:?}");
    }

    #[test]
    fn below_covers_its_range() {
        let mut s = Streams(1).stream(Domain::Workload, 0, "t");
        let mut seen = [0u32; 5];
        (0..1000).for_each(|_| seen[s.below(5) as usize] += 1);
        assert!(seen.iter().all(|n| *n > 100), "{seen:?}");
    }
}
