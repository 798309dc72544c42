//! Settings of the group coordinator (`GroupCoordinatorConfig`).

use crate::base::Millis;

/// Keys as in Kafka; defaults of 4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCoordinatorConfig {
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay: Millis,
    /// `group.min.session.timeout.ms`, checked by the service.
    pub min_session_timeout: Millis,
    /// `group.max.session.timeout.ms`, checked by the service.
    pub max_session_timeout: Millis,
    /// `group.max.size`, classic groups.
    pub max_size: usize,
    /// `group.consumer.max.size`.
    pub consumer_max_size: usize,
    /// `group.consumer.session.timeout.ms`.
    pub consumer_session_timeout: Millis,
    /// `group.consumer.heartbeat.interval.ms`.
    pub consumer_heartbeat_interval: Millis,
    /// `group.consumer.assignment.interval.ms`: a target younger than this is not computed anew.
    pub consumer_assignment_interval: Millis,
    /// `offsets.retention.minutes`, in ms.
    pub offsets_retention: Millis,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval: Millis,
    /// `offsets.commit.timeout.ms`: how long an answer waits for its records to be replicated.
    pub commit_timeout: Millis,
    /// `offsets.topic.num.partitions`.
    pub topic_partitions: u16,
}
impl Default for GroupCoordinatorConfig {
    fn default() -> Self {
        Self {
            initial_rebalance_delay: Millis(3_000),
            min_session_timeout: Millis(6_000),
            max_session_timeout: Millis(1_800_000),
            max_size: i32::MAX as usize,
            consumer_max_size: i32::MAX as usize,
            consumer_session_timeout: Millis(45_000),
            consumer_heartbeat_interval: Millis(5_000),
            consumer_assignment_interval: Millis(1_000),
            offsets_retention: Millis(10_080 * 60_000),
            offsets_retention_check_interval: Millis(600_000),
            commit_timeout: Millis(5_000),
            topic_partitions: 50,
        }
    }
}

/// A classic member that has never completed a join is put out after this long (`classicGroupNewMemberJoinTimeoutMs`).
pub(super) const NEW_MEMBER_JOIN_TIMEOUT: Millis = Millis(300_000);
/// After this long a consumer group looks at its topics again, unasked (`consumerGroupMetadataRefreshIntervalMs`).
pub(super) const METADATA_REFRESH_INTERVAL: Millis = Millis(300_000);
/// Pause before a timer whose records could not be written is run again (`CoordinatorRuntime.TIMER_RETRY_BACKOFF_MS`).
pub(super) const TIMER_RETRY_BACKOFF: Millis = Millis(500);
