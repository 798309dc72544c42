//! A Java client's random numbers and the back-offs that use them.

use crate::base::{Millis, Stream};
use std::collections::VecDeque;

/// Where a client's random numbers come from.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a simulated client always has the large one; a box would cost each fork"
)]
pub enum Dice {
    /// A stream of the run.
    Stream(Stream),
    /// Numbers given beforehand, 0 when there are none left; jitters are taken out and lists are not shuffled.
    Listed(VecDeque<u64>),
}

impl Dice {
    /// A number in `0..n`. Panics if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        match self {
            Self::Stream(stream) => stream.below(n),
            Self::Listed(numbers) => numbers.pop_front().unwrap_or(0) % n,
        }
    }
    /// `base` scaled by 0.8 to 1.2: the jitter of every client back-off (`CommonClientConfigs.RETRY_BACKOFF_JITTER`).
    fn jitter(&mut self, base: i64) -> i64 {
        match self {
            Self::Stream(stream) => stream.jitter(base, 800, 1200),
            Self::Listed(_) => base,
        }
    }
    /// Shuffles.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        if let Self::Stream(stream) = self {
            stream.shuffle(items);
        }
    }
}

/// `min(jitter x initial x 2^n, max)` (`ExponentialBackoff`): never above the maximum, so 0.8 to 1.0 of it at the cap.
/// Without growth (`max` not above `initial`) there is no jitter either.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    initial: Millis,
    max: Millis,
}

impl Backoff {
    /// From `initial`, doubling up to `max`.
    pub const fn new(initial: Millis, max: Millis) -> Self {
        Self { initial, max }
    }
    /// The wait after `n` earlier attempts.
    pub fn after(self, n: u32, dice: &mut Dice) -> Millis {
        if self.max <= self.initial {
            return self.max;
        }
        let term = self.initial.0.saturating_mul(1 << n.min(40)).min(self.max.0);
        Millis(dice.jitter(term).min(self.max.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Domain, Streams};

    #[test]
    fn doubles_up_to_the_cap_and_jitter_never_passes_it() {
        let backoff = Backoff::new(Millis(10_000), Millis(30_000));
        let mut plain = Dice::Listed(VecDeque::new());
        let waits: Vec<i64> = (0..4).map(|n| backoff.after(n, &mut plain).0).collect();
        assert_eq!(waits, [10_000, 20_000, 30_000, 30_000]);
        let mut dice = Dice::Stream(Streams(1).stream(Domain::Process, 1, "jitter"));
        for _ in 0..100 {
            assert!((8_000..=12_000).contains(&backoff.after(0, &mut dice).0));
            assert!((24_000..=30_000).contains(&backoff.after(9, &mut dice).0));
        }
        assert_eq!(Backoff::new(Millis(100), Millis(50)).after(3, &mut dice), Millis(50));
    }
}
