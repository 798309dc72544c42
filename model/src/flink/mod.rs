//! Flink 1.20 as it is: key groups, checkpoints, barriers, timers, restarts, sinks. Pure state machines; rule ids (`C3`, `H2`)
//! are those of the fidelity spec. Baseline: the classes of Flink 1.20.5. `runtime` holds the processes around them.

pub mod barrier;
pub mod binary_row;
pub mod checkpoint;
pub mod failover;
pub mod heartbeat;
pub mod kafka;
pub mod key_groups;
pub mod operator;
pub mod restart;
pub mod runtime;
pub mod sink;
pub mod source;
pub mod state;
pub mod timers;
pub mod watermark;
