//! Time in units that cannot be mixed up: simulated nanoseconds, Kafka's milliseconds, event time.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// An instant of simulated time: nanoseconds since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(pub u64);

/// A span of simulated time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Kafka's clock: whole milliseconds, as an instant since the run began or as a span. Timeouts of the real clients and
/// brokers compare values of this unit, so the model does too; strictness (`>` against `>=`) is only right in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

/// Event time of a record: milliseconds since the Unix epoch, as the producer stamped it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventTime(pub i64);

impl SimTime {
    /// The beginning of the run.
    pub const ZERO: Self = Self(0);
    /// The whole millisecond that has begun: what a Kafka process reads off its clock.
    pub const fn millis(self) -> Millis {
        Millis((self.0 / 1_000_000) as i64)
    }
    /// The instant at which a Kafka process first reads `ms` off its clock.
    pub const fn at(ms: Millis) -> Self {
        Self(if ms.0 <= 0 { 0 } else { ms.0 as u64 * 1_000_000 })
    }
    /// Time passed since `earlier`; zero if that lies in the future.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}
impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// `n` microseconds.
    pub const fn micros(n: u64) -> Self {
        Self(n * 1_000)
    }
    /// `n` milliseconds.
    pub const fn millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }
    /// `n` seconds.
    pub const fn secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }
}
impl Millis {
    /// Never: no deadline.
    pub const MAX: Self = Self(i64::MAX);
    /// The beginning of the run, or no time at all.
    pub const ZERO: Self = Self(0);
    /// `n` seconds.
    pub const fn secs(n: i64) -> Self {
        Self(n * 1_000)
    }
    /// The sum, staying at [`Millis::MAX`] instead of overflowing.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl Add<Nanos> for SimTime {
    type Output = Self;
    fn add(self, d: Nanos) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}
impl AddAssign<Nanos> for SimTime {
    fn add_assign(&mut self, d: Nanos) {
        *self = *self + d;
    }
}
impl Add for Nanos {
    type Output = Self;
    fn add(self, d: Self) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}
impl Add for Millis {
    type Output = Self;
    fn add(self, d: Self) -> Self {
        self.saturating_add(d)
    }
}
impl Sub for Millis {
    type Output = Self;
    fn sub(self, d: Self) -> Self {
        Self(self.0 - d.0)
    }
}
impl From<Millis> for Nanos {
    fn from(ms: Millis) -> Self {
        Self(ms.0.max(0) as u64 * 1_000_000)
    }
}
impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 / 1_000 % 1_000_000)
    }
}
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_wakes_in_the_millisecond_it_asked_for() {
        assert_eq!(SimTime::at(Millis(10_001)).millis(), Millis(10_001));
        assert_eq!(SimTime(10_000_999_999).millis(), Millis(10_000));
        assert_eq!(SimTime::at(Millis(-5)), SimTime::ZERO);
    }
}
