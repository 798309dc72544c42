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
    "savepoint-completed",
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
pub const OF_JOBS: [&str; 10] = {
    let (mut last, from) = ([""; 10], TRACED.len() - 10);
    let mut i = 0;
    while i < last.len() {
        last[i] = TRACED[from + i];
        i += 1;
    }
    last
};
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
    fn events_of_jobs_are_the_last_ones() {
        assert_eq!((OF_JOBS[0], OF_JOBS[9]), ("checkpoint-triggered", "task-manager-lost"));
    }
}
