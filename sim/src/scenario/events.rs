//! Names of events that a fault can wait for.

/// Trace events by name, as [`model::base::Event::name`] gives them; notes of test processes are none.
pub const TRACED: &[&str] = &[
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
    "block-inserted",
    "insert-failed",
    "lake-committed",
    "lake-commit-failed",
];
/// Those that are about a job.
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

/// All of them.
pub fn all() -> impl Iterator<Item = &'static str> {
    TRACED.iter().copied().chain([FAULT_BEGINS, FAULT_ENDS, WORKLOAD_ENDS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_once_and_those_of_jobs_among_them() {
        assert!((1..TRACED.len()).all(|i| !TRACED[..i].contains(&TRACED[i])));
        assert!(OF_JOBS.iter().all(|name| TRACED.contains(name)));
    }
}
