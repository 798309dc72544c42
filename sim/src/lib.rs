//! How the model is run: scenarios as data, workloads, the world, and the `sim` command.

pub mod cli;
pub mod scenario;
pub mod show;
pub mod workload;
