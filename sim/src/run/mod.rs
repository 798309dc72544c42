//! A scenario at work: the stage, the faults, the workload, the judge, and the outcome.

pub mod faults;
mod stage;

pub use faults::FaultEngine;
pub use stage::Stage;
