//! Many runs: seeds, values and crash points.

mod crash_points;
mod spread;
mod sweep;
mod vary;

pub use crash_points::{CrashSweep, crash_sweep};
pub use spread::{Share, share};
pub use sweep::{Series, Summary, Sweep, sweep, sweep_watched};
pub use vary::{Cell, Distribution, One, Row, Variation, cells};
