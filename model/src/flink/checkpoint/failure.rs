//! Why a checkpoint fails, and how much of that a job bears (`CheckpointFailureReason`, `CheckpointFailureManager`).

use super::CheckpointId;
use std::collections::BTreeSet;

/// `CheckpointFailureReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// `MINIMUM_TIME_BETWEEN_CHECKPOINTS`: the pause since the last completion is not over.
    MinimumTimeBetweenCheckpoints,
    /// `TOO_MANY_CHECKPOINT_REQUESTS`: the queue is full.
    TooManyRequests,
    /// `NOT_ALL_REQUIRED_TASKS_RUNNING`.
    NotAllRequiredTasksRunning,
    /// `PERIODIC_SCHEDULER_SHUTDOWN`: triggering has stopped.
    PeriodicSchedulerShutdown,
    /// `IO_EXCEPTION`.
    IoException,
    /// `CHECKPOINT_ASYNC_EXCEPTION`: the asynchronous part of a snapshot failed.
    AsyncException,
    /// `CHANNEL_STATE_SHARED_STREAM_EXCEPTION`.
    ChannelStateSharedStream,
    /// `CHECKPOINT_EXPIRED`: not complete within the timeout.
    Expired,
    /// `CHECKPOINT_SUBSUMED`: a newer one completed.
    CheckpointSubsumed,
    /// `CHECKPOINT_DECLINED`.
    Declined,
    /// `CHECKPOINT_DECLINED_TASK_NOT_READY`.
    DeclinedTaskNotReady,
    /// `CHECKPOINT_DECLINED_TASK_CLOSING`.
    DeclinedTaskClosing,
    /// `CHECKPOINT_DECLINED_SUBSUMED`: a newer barrier came while the task aligned.
    DeclinedSubsumed,
    /// `CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER`.
    DeclinedOnCancellationBarrier,
    /// `CHECKPOINT_DECLINED_INPUT_END_OF_STREAM`.
    DeclinedInputEndOfStream,
    /// `CHECKPOINT_COORDINATOR_SHUTDOWN`.
    CoordinatorShutdown,
    /// `CHECKPOINT_COORDINATOR_SUSPEND`: the job left RUNNING.
    CoordinatorSuspend,
    /// `JOB_FAILURE`.
    JobFailure,
    /// `JOB_FAILOVER_REGION`: a restore.
    JobFailoverRegion,
    /// `TASK_FAILURE`.
    TaskFailure,
    /// `TASK_CHECKPOINT_FAILURE`: a task failed in its own part.
    TaskCheckpointFailure,
    /// `UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE`.
    UnknownTaskNotification,
    /// `FINALIZE_CHECKPOINT_FAILURE`: the metadata could not be stored.
    FinalizeFailure,
    /// `TRIGGER_CHECKPOINT_FAILURE`: an operator coordinator, or the call to a source task.
    TriggerFailure,
}

const NAMES: &[(Reason, &str)] = &[
    (Reason::MinimumTimeBetweenCheckpoints, "MINIMUM_TIME_BETWEEN_CHECKPOINTS"),
    (Reason::TooManyRequests, "TOO_MANY_CHECKPOINT_REQUESTS"),
    (Reason::NotAllRequiredTasksRunning, "NOT_ALL_REQUIRED_TASKS_RUNNING"),
    (Reason::PeriodicSchedulerShutdown, "PERIODIC_SCHEDULER_SHUTDOWN"),
    (Reason::IoException, "IO_EXCEPTION"),
    (Reason::AsyncException, "CHECKPOINT_ASYNC_EXCEPTION"),
    (Reason::ChannelStateSharedStream, "CHANNEL_STATE_SHARED_STREAM_EXCEPTION"),
    (Reason::Expired, "CHECKPOINT_EXPIRED"),
    (Reason::CheckpointSubsumed, "CHECKPOINT_SUBSUMED"),
    (Reason::Declined, "CHECKPOINT_DECLINED"),
    (Reason::DeclinedTaskNotReady, "CHECKPOINT_DECLINED_TASK_NOT_READY"),
    (Reason::DeclinedTaskClosing, "CHECKPOINT_DECLINED_TASK_CLOSING"),
    (Reason::DeclinedSubsumed, "CHECKPOINT_DECLINED_SUBSUMED"),
    (Reason::DeclinedOnCancellationBarrier, "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"),
    (Reason::DeclinedInputEndOfStream, "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"),
    (Reason::CoordinatorShutdown, "CHECKPOINT_COORDINATOR_SHUTDOWN"),
    (Reason::CoordinatorSuspend, "CHECKPOINT_COORDINATOR_SUSPEND"),
    (Reason::JobFailure, "JOB_FAILURE"),
    (Reason::JobFailoverRegion, "JOB_FAILOVER_REGION"),
    (Reason::TaskFailure, "TASK_FAILURE"),
    (Reason::TaskCheckpointFailure, "TASK_CHECKPOINT_FAILURE"),
    (Reason::UnknownTaskNotification, "UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE"),
    (Reason::FinalizeFailure, "FINALIZE_CHECKPOINT_FAILURE"),
    (Reason::TriggerFailure, "TRIGGER_CHECKPOINT_FAILURE"),
];

impl Reason {
    /// Flink's name of it.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(reason, _)| *reason == self).map_or("", |(_, name)| name)
    }
    /// The reason of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, n)| *n == name).map(|(reason, _)| *reason)
    }
    /// Whether the failure is the JobManager's own, before any task had a part in it (`isPreFlight`).
    pub const fn pre_flight(self) -> bool {
        matches!(
            self,
            Self::PeriodicSchedulerShutdown
                | Self::TooManyRequests
                | Self::MinimumTimeBetweenCheckpoints
                | Self::NotAllRequiredTasksRunning
                | Self::IoException
        )
    }
    /// Whether a failed checkpoint of this kind counts towards `execution.checkpointing.tolerable-failed-checkpoints`.
    pub const fn counts(self) -> bool {
        matches!(
            self,
            Self::IoException | Self::AsyncException | Self::Declined | Self::Expired | Self::FinalizeFailure
        )
    }
}

/// `execution.checkpointing.tolerable-failed-checkpoints` without a limit.
pub const UNLIMITED: u32 = i32::MAX as u32;

/// Counts failed checkpoints (`CheckpointFailureManager`): each counted once, and all forgotten by a success or when there
/// were too many.
#[derive(Clone, Debug)]
pub struct FailureCounter {
    tolerable: u32,
    count: u32,
    counted: BTreeSet<CheckpointId>,
    last_success: CheckpointId,
}
impl FailureCounter {
    /// A counter that bears so many in a row.
    pub const fn new(tolerable: u32) -> Self {
        Self { tolerable, count: 0, counted: BTreeSet::new(), last_success: CheckpointId::NONE }
    }
    /// A checkpoint or savepoint has completed. One that is older than the last success (a savepoint that took its time)
    /// forgets nothing.
    pub fn success(&mut self, id: CheckpointId) {
        if id > self.last_success {
            self.clear();
            self.last_success = id;
        }
    }
    fn clear(&mut self) {
        self.count = 0;
        self.counted.clear();
    }
    /// One has failed; without an id it never began. True if these are too many.
    pub fn failure(&mut self, id: Option<CheckpointId>, reason: Reason) -> bool {
        if id.is_some_and(|id| id <= self.last_success) {
            return false;
        }
        let counts = self.tolerable != UNLIMITED && reason.counts();
        if counts && id.is_none_or(|id| self.counted.insert(id)) {
            self.count += 1;
        }
        let too_many = self.count > self.tolerable;
        if too_many {
            self.clear();
        }
        too_many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_checkpoint_counts_once_and_too_many_are_forgotten() {
        let mut counter = FailureCounter::new(1);
        let id = |n| Some(CheckpointId(n));
        assert!(!counter.failure(id(1), Reason::Expired));
        assert!(!counter.failure(id(1), Reason::Expired));
        assert!(!counter.failure(id(2), Reason::TaskFailure));
        assert!(counter.failure(id(3), Reason::Declined));
        assert!(!counter.failure(id(4), Reason::Declined));
    }

    #[test]
    fn a_late_success_of_an_older_savepoint_forgets_no_failure() {
        let mut counter = FailureCounter::new(1);
        counter.success(CheckpointId(3));
        assert!(!counter.failure(Some(CheckpointId(4)), Reason::Expired));
        counter.success(CheckpointId(2));
        assert!(counter.failure(Some(CheckpointId(5)), Reason::Expired));
    }

    #[test]
    fn every_reason_has_its_name() {
        for (reason, name) in NAMES {
            assert_eq!((reason.name(), Reason::of_name(name)), (*name, Some(*reason)));
        }
    }
}
