//! Tidemark: scenarios as data, workloads, the world that runs the model, the judge, and the `sim` command.
#![deny(missing_docs)]

pub mod cli;
pub mod host;
pub mod judge;
pub mod run;
pub mod scenario;
pub mod search;
pub mod show;
pub mod workload;
pub mod world;
