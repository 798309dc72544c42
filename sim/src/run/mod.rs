//! A scenario at work: the stage, the faults, the workload, the judge, and the outcome.

mod stage;

pub use stage::Stage;
