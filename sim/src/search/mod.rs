//! Many runs: seeds and crash points.

mod crash_points;
mod sweep;

pub use crash_points::{CrashSweep, crash_sweep};
pub use sweep::{Series, Summary, Sweep, sweep};
