//! Tidemark: scenarios as data, workloads, the world that runs the model, the judge, and the `sim` command.
#![deny(missing_docs)]

pub mod host;
pub mod judge;
pub mod run;
pub mod scenario;
pub mod show;
pub mod world;
