//! Keys of the transaction coordinator (`TransactionConfig`, `TransactionLogConfig`).

use crate::base::Millis;

/// Kafka's keys and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionConfig {
    /// `transaction.state.log.num.partitions`.
    pub state_log_num_partitions: u16,
    /// `transaction.max.timeout.ms`.
    pub max_timeout: Millis,
    /// `transactional.id.expiration.ms`.
    pub transactional_id_expiration: Millis,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`.
    pub abort_timed_out_interval: Millis,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`.
    pub remove_expired_interval: Millis,
    /// `transaction.two.phase.commit.enable`.
    pub two_phase_commit_enable: bool,
    /// `request.timeout.ms` of the broker: of WriteTxnMarkers and of the append of tombstones.
    pub request_timeout: Millis,
    /// Requests of WriteTxnMarkers that may be out to one broker: 1, fixed by the connection that Kafka makes for them.
    pub marker_requests_per_broker: usize,
    /// KAFKA-20785 (after 4.3.1): a V2 commit that lost against an abort by the coordinator gets PRODUCER_FENCED; 4.3.1
    /// answers INVALID_TXN_STATE, fatal to its producer.
    pub lost_commit_is_fenced: bool,
}
impl Default for TransactionConfig {
    fn default() -> Self {
        Self {
            state_log_num_partitions: 50,
            max_timeout: Millis(900_000),
            transactional_id_expiration: Millis(604_800_000),
            abort_timed_out_interval: Millis(10_000),
            remove_expired_interval: Millis(3_600_000),
            two_phase_commit_enable: false,
            request_timeout: Millis(30_000),
            marker_requests_per_broker: 1,
            lost_commit_is_fenced: false,
        }
    }
}
