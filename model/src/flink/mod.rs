//! Flink 1.20 as it is: key groups, checkpoints, barriers, timers, restarts, sinks. Pure state machines; rule ids (`C3`, `H2`)
//! are those of the fidelity spec. Baseline: the classes of Flink 1.20.5.

pub mod binary_row;
pub mod failover;
pub mod heartbeat;
pub mod kafka;
pub mod key_groups;
pub mod restart;
pub mod runtime;
pub mod state;
pub mod timers;
