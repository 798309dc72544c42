//! What events are called, and which partition or job they are of.

use super::{AbortedBy, Event, TopicPartition, TransactionFate};

impl Event {
    /// The event's name, for counts and the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PartitionChanged { .. } => "partition-changed",
            Self::BecameLeader { .. } => "became-leader",
            Self::BecameFollower { .. } => "became-follower",
            Self::Appended { .. } => "appended",
            Self::Truncated { .. } => "truncated",
            Self::HighWatermark { .. } => "high-watermark",
            Self::ProduceAnswered { .. } => "produce-answered",
            Self::ClientError { .. } => "client-error",
            Self::Acked { .. } => "acked",
            Self::SendFailed { .. } => "send-failed",
            Self::Retried { .. } => "retried",
            Self::ProducerEpochBumped { .. } => "producer-epoch-bumped",
            Self::ProducerFatal { .. } => "producer-fatal",
            Self::Position { .. } => "position",
            Self::Fencing { .. } => "fencing",
            Self::Registration { .. } => "registration",
            Self::Quorum { .. } => "quorum",
            Self::Controller { .. } => "controller",
            Self::MetadataApplied { .. } => "metadata-applied",
            Self::Recovered { .. } => "recovered",
            Self::LogOpened { .. } => "log-opened",
            Self::RegistrationTimedOut { .. } => "registration-timed-out",
            Self::PartitionAssigned { .. } => "partition-assigned",
            Self::PartitionRevoked { .. } => "partition-revoked",
            Self::MemberStarts { .. } => "member-starts",
            Self::OffsetCommitted { .. } => "offset-committed",
            Self::Connection { .. } => "connection",
            Self::Note { .. } => "note",
            Self::CheckpointTriggered { .. } => "checkpoint-triggered",
            Self::CheckpointCompleted { .. } => "checkpoint-completed",
            Self::SavepointCompleted { .. } => "savepoint-completed",
            Self::CheckpointFailed { .. } => "checkpoint-failed",
            Self::JobRunning { .. } => "job-running",
            Self::JobFailing { .. } => "job-failing",
            Self::JobEnded { failed: false, .. } => "job-ended",
            Self::JobEnded { failed: true, .. } => "job-failed",
            Self::CommitDropped { .. } => "commit-dropped",
            Self::TaskStood { .. } => "task-stood",
            Self::SourceCommitted { taken: true, .. } => "offsets-committed",
            Self::SourceCommitted { taken: false, .. } => "offsets-refused",
            Self::TaskManagerLost { .. } => "task-manager-lost",
            Self::BlockInserted { failed: false, .. } => "block-inserted",
            Self::BlockInserted { failed: true, .. } => "insert-failed",
            Self::LakeCommit { failed: false, .. } => "lake-committed",
            Self::LakeCommit { failed: true, .. } => "lake-commit-failed",
            Self::TransactionState { state, stored, .. } => match (*state, *stored) {
                (2 | 3, false) => "transaction-ending",
                (4 | 5, false) => "transaction-completing",
                (_, false) => "transaction-moving",
                (1, true) => "transaction-open",
                (2 | 3, true) => "transaction-prepared",
                (4 | 5, true) => "transaction-complete",
                (_, true) => "transaction-initialized",
            },
            Self::AbortDecided { by, .. } => match by {
                AbortedBy::Client => "abort-by-client",
                AbortedBy::Expiry => "abort-by-expiry",
                AbortedBy::Init => "abort-by-init",
            },
            Self::CompletionStopped { .. } => "completion-stopped",
            Self::MarkerArrived { .. } => "marker-arrived",
            Self::TransactionEnded { fate, .. } => match fate {
                TransactionFate::Committed => "transaction-committed",
                TransactionFate::Aborted => "transaction-aborted",
                TransactionFate::Unknown => "transaction-unknown",
            },
        }
    }
}

impl Event {
    /// Number of its kind, from 1; leads in the digest.
    #[inline]
    pub const fn number(&self) -> usize {
        match self {
            Self::PartitionChanged { .. } => 1,
            Self::BecameLeader { .. } => 2,
            Self::BecameFollower { .. } => 3,
            Self::Appended { .. } => 4,
            Self::Truncated { .. } => 5,
            Self::HighWatermark { .. } => 6,
            Self::ProduceAnswered { .. } => 7,
            Self::ClientError { .. } => 8,
            Self::Acked { .. } => 9,
            Self::SendFailed { .. } => 10,
            Self::Retried { .. } => 11,
            Self::ProducerEpochBumped { .. } => 12,
            Self::ProducerFatal { .. } => 13,
            Self::Position { .. } => 14,
            Self::Fencing { .. } => 15,
            Self::Registration { .. } => 16,
            Self::Quorum { .. } => 17,
            Self::Controller { .. } => 18,
            Self::MetadataApplied { .. } => 19,
            Self::Recovered { .. } => 20,
            Self::Connection { .. } => 21,
            Self::Note { .. } => 22,
            Self::LogOpened { .. } => 23,
            Self::RegistrationTimedOut { .. } => 36,
            Self::PartitionAssigned { .. } => 37,
            Self::PartitionRevoked { .. } => 38,
            Self::MemberStarts { .. } => 39,
            Self::OffsetCommitted { .. } => 40,
            Self::AbortDecided { by, .. } => match by {
                AbortedBy::Client => 41,
                AbortedBy::Expiry => 42,
                AbortedBy::Init => 43,
            },
            Self::TransactionState { state, stored, .. } => match (*state, *stored) {
                (2 | 3, false) => 24,
                (4 | 5, false) => 25,
                (_, false) => 26,
                (1, true) => 27,
                (2 | 3, true) => 28,
                (4 | 5, true) => 29,
                (_, true) => 30,
            },
            Self::CheckpointTriggered { .. } => 51,
            Self::CheckpointCompleted { .. } => 52,
            Self::CheckpointFailed { .. } => 53,
            Self::JobRunning { .. } => 54,
            Self::JobFailing { .. } => 55,
            Self::JobEnded { failed: false, .. } => 56,
            Self::JobEnded { failed: true, .. } => 57,
            Self::CommitDropped { .. } => 58,
            Self::TaskManagerLost { .. } => 59,
            Self::SavepointCompleted { .. } => 60,
            Self::TaskStood { in_sink: true, .. } => 63,
            Self::TaskStood { in_sink: false, .. } => 64,
            Self::SourceCommitted { taken: true, .. } => 61,
            Self::SourceCommitted { taken: false, .. } => 62,
            Self::BlockInserted { failed: false, .. } => 65,
            Self::BlockInserted { failed: true, .. } => 66,
            Self::LakeCommit { failed: false, .. } => 67,
            Self::LakeCommit { failed: true, .. } => 68,
            Self::CompletionStopped { .. } => 31,
            Self::MarkerArrived { .. } => 32,
            Self::TransactionEnded { fate, .. } => match fate {
                TransactionFate::Committed => 33,
                TransactionFate::Aborted => 34,
                TransactionFate::Unknown => 35,
            },
        }
    }
    /// The partition it is about, if it is about one.
    pub const fn partition(&self) -> Option<TopicPartition> {
        match *self {
            Self::PartitionChanged { tp, .. }
            | Self::BecameLeader { tp, .. }
            | Self::BecameFollower { tp, .. }
            | Self::Appended { tp, .. }
            | Self::Truncated { tp, .. }
            | Self::HighWatermark { tp, .. }
            | Self::ProduceAnswered { tp, .. }
            | Self::Acked { tp, .. }
            | Self::SendFailed { tp, .. }
            | Self::Retried { tp, .. }
            | Self::Position { tp, .. }
            | Self::PartitionAssigned { tp, .. }
            | Self::PartitionRevoked { tp, .. }
            | Self::MemberStarts { tp, .. }
            | Self::OffsetCommitted { tp, .. }
            | Self::LogOpened { tp, .. }
            | Self::TransactionState { tp, .. }
            | Self::AbortDecided { tp, .. }
            | Self::CompletionStopped { tp, .. }
            | Self::MarkerArrived { tp, .. } => Some(tp),
            _ => None,
        }
    }
    /// The job that it is about, by number, and the checkpoint; if any.
    pub const fn job(&self) -> Option<(u16, Option<i64>)> {
        match *self {
            Self::CheckpointTriggered { job, id }
            | Self::CheckpointCompleted { job, id }
            | Self::SavepointCompleted { job, id }
            | Self::CheckpointFailed { job, id, .. } => Some((job, Some(id))),
            Self::JobRunning { job, restored, .. } => Some((job, Some(restored))),
            Self::CommitDropped { job, checkpoint, .. } | Self::SourceCommitted { job, checkpoint, .. } => {
                Some((job, Some(checkpoint)))
            }
            Self::TaskStood { job, .. }
            | Self::JobFailing { job, .. }
            | Self::JobEnded { job, .. }
            | Self::TaskManagerLost { job, .. } => Some((job, None)),
            _ => None,
        }
    }
}
