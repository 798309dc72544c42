//! Many runs: seeds, values and crash points.

mod crash_points;
mod sweep;
mod vary;

pub use crash_points::{CrashSweep, crash_sweep};
pub use sweep::{Series, Summary, Sweep, sweep};
pub use vary::{Cell, Distribution, Row, Variation, cells};
