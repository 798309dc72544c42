//! Two-phase commit of a sink, whatever it writes to (Sink V2, flink.md 7.1 and 7.2).

mod committer;
mod writer;

pub use committer::{Answer, Call, CommitFailure, CommitState, Committer, CommitterConfig, CommitterState, Request};
pub use writer::{Announcement, WriterGuard};
