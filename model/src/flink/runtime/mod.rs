//! A Flink cluster at work: the JobManager's process, the TaskManagers' processes, and what they say to each other.
//!
//! The rules themselves (checkpoints, barriers, heartbeats, restarts, state) are the pure machines beside this room; here they
//! get connections, threads and time.

pub mod element;
pub mod graph;
pub mod ids;
pub mod job_manager;
mod link;
pub mod operator;
pub mod rpc;
mod slots;
pub mod state;
mod task;
pub mod task_manager;
