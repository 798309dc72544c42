//! Names of events that a fault can wait for.

/// Trace events by name, as [`model::base::Event::name`] gives them, but for those of jobs; notes of test processes are none.
const TRACED: &[&str] = &[
    "partition-changed",
    "became-leader",
    "became-follower",
    "appended",
    "truncated",
    "high-watermark",
    "produce-answered",
    "client-error",
    "acked",
    "send-failed",
    "retried",
    "producer-epoch-bumped",
    "producer-fatal",
    "position",
    "fencing",
    "registration",
    "quorum",
    "controller",
    "metadata-applied",
    "recovered",
    "connection",
    "partition-assigned",
    "partition-revoked",
    "member-starts",
    "offset-committed",
    "transaction-ending",
    "transaction-completing",
    "transaction-moving",
    "transaction-open",
    "transaction-prepared",
    "transaction-complete",
    "transaction-initialized",
    "abort-by-client",
    "abort-by-expiry",
    "abort-by-init",
    "completion-stopped",
    "marker-arrived",
    "transaction-committed",
    "transaction-aborted",
    "transaction-unknown",
    "block-inserted",
    "insert-failed",
    "lake-committed",
    "lake-commit-failed",
];
/// Trace events that are about a job.
pub const OF_JOBS: [&str; 13] = [
    "checkpoint-triggered",
    "checkpoint-completed",
    "savepoint-completed",
    "checkpoint-failed",
    "job-running",
    "job-failing",
    "job-ended",
    "job-failed",
    "commit-dropped",
    "offsets-committed",
    "offsets-refused",
    "task-stood",
    "task-manager-lost",
];
/// A fault has begun.
pub const FAULT_BEGINS: &str = "fault-begins";
/// A fault has ended.
pub const FAULT_ENDS: &str = "fault-ends";
/// The last event of the workload has been offered.
pub const WORKLOAD_ENDS: &str = "workload-ends";

/// All trace events.
pub fn traced() -> impl Iterator<Item = &'static str> {
    TRACED.iter().copied().chain(OF_JOBS)
}
/// All of them.
pub fn all() -> impl Iterator<Item = &'static str> {
    traced().chain([FAULT_BEGINS, FAULT_ENDS, WORKLOAD_ENDS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_once() {
        let all: Vec<_> = all().collect();
        assert!((1..all.len()).all(|i| !all[..i].contains(&all[i])));
    }
}
