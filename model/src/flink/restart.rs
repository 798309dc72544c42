//! Restart strategies: whether a failed job is started again, and when (`RestartBackoffTimeStrategy`).

use crate::base::Millis;
use std::collections::VecDeque;

/// `restart-strategy.type` with its keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RestartStrategy {
    /// `none`, `off`, `disable`: the first failure ends the job.
    None,
    /// `fixed-delay`.
    FixedDelay {
        /// `restart-strategy.fixed-delay.attempts`; never given back.
        attempts: u32,
        /// `restart-strategy.fixed-delay.delay`.
        delay: Millis,
    },
    /// `failure-rate`.
    FailureRate {
        /// `restart-strategy.failure-rate.max-failures-per-interval`.
        max: u32,
        /// `restart-strategy.failure-rate.failure-rate-interval`.
        interval: Millis,
        /// `restart-strategy.failure-rate.delay`.
        delay: Millis,
    },
    /// `exponential-delay`.
    ExponentialDelay {
        /// `restart-strategy.exponential-delay.initial-backoff`.
        initial: Millis,
        /// `restart-strategy.exponential-delay.max-backoff`.
        max: Millis,
        /// `restart-strategy.exponential-delay.backoff-multiplier`.
        multiplier: f64,
        /// `restart-strategy.exponential-delay.reset-backoff-threshold`.
        reset: Millis,
        /// `restart-strategy.exponential-delay.jitter-factor`.
        jitter: f64,
        /// `restart-strategy.exponential-delay.attempts-before-reset-backoff`.
        attempts: u32,
    },
}
impl RestartStrategy {
    /// `exponential-delay` with its defaults.
    pub const EXPONENTIAL: Self = Self::ExponentialDelay {
        initial: Millis::secs(1),
        max: Millis::secs(60),
        multiplier: 1.5,
        reset: Millis::secs(3600),
        jitter: 0.1,
        attempts: i32::MAX as u32,
    };
    /// `fixed-delay` with its defaults.
    pub const FIXED: Self = Self::FixedDelay { attempts: 1, delay: Millis::secs(1) };
    /// `failure-rate` with its defaults.
    pub const RATE: Self = Self::FailureRate { max: 1, interval: Millis::secs(60), delay: Millis::secs(1) };

    /// What Flink picks when `restart-strategy.type` is not set: since 1.19 (FLIP-364) exponential delay, without
    /// checkpointing nothing (`RestartBackoffTimeStrategyFactoryLoader`).
    pub const fn default_of(checkpointing: bool) -> Self {
        if checkpointing { Self::EXPONENTIAL } else { Self::None }
    }
    /// The strategy of this `restart-strategy.type`, everything else at its default; none if Flink knows no such type.
    pub fn named(kind: &str) -> Option<Self> {
        match kind {
            "none" | "off" | "disable" => Some(Self::None),
            "fixed-delay" | "fixeddelay" => Some(Self::FIXED),
            "failure-rate" | "failurerate" => Some(Self::RATE),
            "exponential-delay" | "exponentialdelay" => Some(Self::EXPONENTIAL),
            _ => None,
        }
    }
}

/// The strategy's answer to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the failure is an attempt of its own; false: it merges into the restart that is planned already.
    pub new_attempt: bool,
    /// How long until the restart; none: the job has failed for good.
    pub delay: Option<Millis>,
}

/// A strategy at work in one job.
#[derive(Clone, Debug)]
pub struct Restarts {
    strategy: RestartStrategy,
    /// Attempts so far; under exponential delay since its last reset.
    attempts: u32,
    /// When the last planned restart is due. None before the first failure.
    next: Option<Millis>,
    /// Under failure rate: the last failures, oldest first.
    recent: VecDeque<Millis>,
}

impl Restarts {
    /// A job that has not failed yet.
    pub fn new(strategy: RestartStrategy) -> Self {
        Self { strategy, attempts: 0, next: None, recent: VecDeque::new() }
    }
    /// A failure at `now`. `draw` gives 64 random bits for the jitter of exponential delay.
    pub fn failure(&mut self, now: Millis, draw: impl FnOnce() -> u64) -> Verdict {
        match self.strategy {
            RestartStrategy::None => Verdict { new_attempt: true, delay: None },
            RestartStrategy::FixedDelay { attempts, delay } => {
                self.attempts = self.attempts.saturating_add(1);
                Verdict { new_attempt: true, delay: (self.attempts <= attempts).then_some(delay) }
            }
            RestartStrategy::FailureRate { max, interval, delay } => {
                if self.recent.len() > max as usize {
                    self.recent.pop_front();
                }
                self.recent.push_back(now);
                let full = self.recent.len() > max as usize;
                let too_many = full && self.recent.front().is_some_and(|first| now - *first <= interval);
                Verdict { new_attempt: true, delay: (!too_many).then_some(delay) }
            }
            RestartStrategy::ExponentialDelay { initial, max, multiplier, reset, jitter, attempts } => {
                let merged = self.next.is_some_and(|next| now <= next);
                if !merged {
                    if self.next.is_some_and(|next| now - next >= reset) {
                        self.attempts = 0;
                    }
                    let grown = initial.0 as f64 * power(multiplier, self.attempts);
                    let backoff = grown + spread(draw(), grown * jitter);
                    // Java's cast to long: cut, and never beyond the range.
                    let backoff = backoff.min(max.0 as f64).max(initial.0 as f64) as i64;
                    self.next = Some(now + Millis(backoff));
                    self.attempts = self.attempts.saturating_add(1);
                }
                let left = self.next.map(|next| next - now);
                Verdict { new_attempt: !merged, delay: left.filter(|_| self.attempts <= attempts) }
            }
        }
    }
}

/// A value of -`range` to `range` from 64 random bits.
fn spread(bits: u64, range: f64) -> f64 {
    const STEPS: f64 = (1u64 << 53) as f64;
    if range == 0.0 { 0.0 } else { ((bits >> 11) as f64 / STEPS * 2.0 - 1.0) * range }
}

/// `Math.pow(base, exponent)`, to the last bit and without the platform's mathematics: the product is carried as the sum of two
/// doubles. Rounding after each factor instead gives 1728 for 1000 * 1.2^3, as the double nearest to 1.2 is below it.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut high, mut low) = (1.0f64, 0.0f64);
    for _ in 0..exponent {
        if !high.is_finite() || high > i64::MAX as f64 {
            break;
        }
        let (product, error) = exact_product(high, base);
        let rest = error + low * base;
        high = product + rest;
        low = rest - (high - product);
    }
    high
}

/// The product of two doubles as a rounded product and its error (Dekker).
fn exact_product(a: f64, b: f64) -> (f64, f64) {
    const SPLITTER: f64 = ((1u64 << 27) + 1) as f64;
    let halves = |x: f64| {
        let t = SPLITTER * x;
        let high = t - (t - x);
        (high, x - high)
    };
    let product = a * b;
    let ((a1, a2), (b1, b2)) = (halves(a), halves(b));
    (product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(strategy: RestartStrategy, at: &[i64]) -> Vec<Option<i64>> {
        let mut restarts = Restarts::new(strategy);
        at.iter().map(|at| restarts.failure(Millis(*at), || u64::MAX / 2).delay.map(|d| d.0)).collect()
    }

    #[test]
    fn powers_are_rounded_once() {
        assert_eq!((1000.0 * power(1.2, 3)) as i64, 1727);
        assert_eq!((1000.0 * (1.2 * 1.2 * 1.2)) as i64, 1728);
        assert_eq!(power(1.1, 0), 1.0);
        assert!(power(2.0, 5000) > 1e18);
    }

    #[test]
    fn a_failure_at_the_planned_restart_merges() {
        let mut restarts = Restarts::new(RestartStrategy::EXPONENTIAL);
        let planned = restarts.failure(Millis(0), || u64::MAX).delay.expect("a restart");
        assert_eq!(restarts.failure(planned, || 0), Verdict { new_attempt: false, delay: Some(Millis(0)) });
        assert!(restarts.failure(planned + Millis(1), || 0).new_attempt);
    }

    #[test]
    fn the_jitter_never_goes_below_the_initial_backoff() {
        for bits in [0, u64::MAX / 2, u64::MAX] {
            let delay = Restarts::new(RestartStrategy::EXPONENTIAL).failure(Millis(0), || bits).delay;
            assert!(delay.is_some_and(|d| (1000..=1100).contains(&d.0)));
        }
    }

    #[test]
    fn a_rate_counts_its_bound_in_and_fixed_attempts_are_used_up() {
        assert_eq!(delays(RestartStrategy::RATE, &[0, 60_000, 120_001]), [Some(1000), None, Some(1000)]);
        assert_eq!(delays(RestartStrategy::FIXED, &[0, 9_000_000]), [Some(1000), None]);
    }
}
