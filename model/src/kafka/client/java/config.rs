//! Settings of a Java producer, by Kafka's keys.

use super::accumulator::AccumulatorConfig;
use super::dice::Backoff;
use super::network_config::NetworkConfig;
use super::profile::{Feature, Profile};
use super::sender::SenderConfig;
use super::transaction::{TransactionRules, Transactional};
use crate::base::{Addr, Fix, Fixes, Millis};
use crate::kafka::client::TopicHashes;
use crate::kafka::txn_messages::TransactionalId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is set; defaults are those of the profile (kafka.md 10).
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// The version of the client.
    pub profile: Profile,
    /// `bootstrap.servers`.
    pub bootstrap: Arc<[Addr]>,
    /// `acks`: -1 all, 1, 0. `None`: not set, all.
    pub acks: Option<i8>,
    /// `enable.idempotence`. `None`: not set, true unless another key speaks against it.
    pub enable_idempotence: Option<bool>,
    /// `max.in.flight.requests.per.connection`. `None`: not set, 5.
    pub max_in_flight: Option<u16>,
    /// `retries`. `None`: not set, 2147483647.
    pub retries: Option<u32>,
    /// `batch.size` in bytes.
    pub batch_size: u32,
    /// `linger.ms`.
    pub linger: Millis,
    /// `buffer.memory` in bytes.
    pub buffer_memory: u64,
    /// `max.request.size` in bytes.
    pub max_request_size: u32,
    /// `max.block.ms`.
    pub max_block: Millis,
    /// `delivery.timeout.ms`.
    pub delivery_timeout: Millis,
    /// `request.timeout.ms`.
    pub request_timeout: Millis,
    /// `retry.backoff.ms`.
    pub retry_backoff: Millis,
    /// `retry.backoff.max.ms`.
    pub retry_backoff_max: Millis,
    /// `reconnect.backoff.ms`.
    pub reconnect_backoff: Millis,
    /// `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max: Millis,
    /// `socket.connection.setup.timeout.ms`.
    pub setup_timeout: Millis,
    /// `socket.connection.setup.timeout.max.ms`.
    pub setup_timeout_max: Millis,
    /// `metadata.max.age.ms`.
    pub metadata_max_age: Millis,
    /// `metadata.recovery.strategy` is `rebootstrap`.
    pub rebootstrap: bool,
    /// `metadata.recovery.rebootstrap.trigger.ms`.
    pub rebootstrap_trigger: Millis,
    /// `transactional.id`; needs idempotence.
    pub transactional_id: Option<TransactionalId>,
    /// `transaction.timeout.ms`.
    pub transaction_timeout: Millis,
    /// `transaction.version` of the cluster, as its brokers tell it with every connection (a finalized feature, not a key).
    pub transaction_version: u8,
    /// `partitioner.adaptive.partitioning.enable`.
    pub adaptive_partitioning: bool,
    /// `partitioner.availability.timeout.ms`; 0 is off.
    pub availability_timeout: Millis,
    /// Hashes of topic names (not a key): the order in which partitions are chosen and drained.
    pub hashes: Option<TopicHashes>,
}

/// Settings that contradict each other; the real constructor throws a `ConfigException`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Idempotence was asked for, and something it cannot live with.
    #[error("enable.idempotence=true needs acks=all")]
    IdempotenceNeedsAllAcks,
    /// The same with retries.
    #[error("enable.idempotence=true needs retries above 0")]
    IdempotenceNeedsRetries,
    /// The same with requests in flight.
    #[error("enable.idempotence=true needs max.in.flight.requests.per.connection of at most 5")]
    IdempotenceNeedsFiveInFlight,
    /// A transactional producer must be idempotent.
    #[error("transactional.id needs enable.idempotence=true")]
    TransactionsNeedIdempotence,
    /// A batch could expire before its first request can time out.
    #[error("delivery.timeout.ms must be at least linger.ms + request.timeout.ms")]
    DeliveryTimeoutTooShort,
}

impl ProducerConfig {
    /// The defaults of `profile`.
    pub fn new(profile: Profile, bootstrap: Arc<[Addr]>) -> Self {
        Self {
            profile,
            bootstrap,
            acks: None,
            enable_idempotence: None,
            max_in_flight: None,
            retries: None,
            batch_size: 16_384,
            linger: if profile.has(Feature::LingerByDefault) { Millis(5) } else { Millis(0) },
            buffer_memory: 33_554_432,
            max_request_size: 1_048_576,
            max_block: Millis(60_000),
            delivery_timeout: Millis(120_000),
            request_timeout: Millis(30_000),
            retry_backoff: Millis(100),
            retry_backoff_max: Millis(1_000),
            reconnect_backoff: Millis(50),
            reconnect_backoff_max: Millis(1_000),
            setup_timeout: Millis(10_000),
            setup_timeout_max: Millis(30_000),
            metadata_max_age: Millis(300_000),
            rebootstrap: profile.has(Feature::Rebootstrap),
            rebootstrap_trigger: Millis(300_000),
            transactional_id: None,
            transaction_timeout: Millis(60_000),
            transaction_version: 2,
            adaptive_partitioning: true,
            availability_timeout: Millis(0),
            hashes: None,
        }
    }
    /// Whether the producer is idempotent: as set; if not set, yes, unless acks, retries or in-flight requests are set
    /// against it, and not at all where the default was not applied (KAFKA-13598).
    pub fn idempotent(&self, fixes: Fixes) -> bool {
        self.transactional_id.is_some()
            || self
                .enable_idempotence
                .unwrap_or_else(|| fixes.has(Fix::IdempotenceByDefault) && self.conflict().is_none())
    }
    fn conflict(&self) -> Option<ConfigError> {
        if self.acks.is_some_and(|acks| acks != -1) {
            Some(ConfigError::IdempotenceNeedsAllAcks)
        } else if self.retries == Some(0) {
            Some(ConfigError::IdempotenceNeedsRetries)
        } else if self.max_in_flight.is_some_and(|n| n > 5) {
            Some(ConfigError::IdempotenceNeedsFiveInFlight)
        } else {
            None
        }
    }
    /// Refuses what the real constructor refuses.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let transactional = self.transactional_id.is_some();
        if transactional && self.enable_idempotence == Some(false) {
            return Err(ConfigError::TransactionsNeedIdempotence);
        }
        if transactional || self.enable_idempotence == Some(true) {
            self.conflict().map_or(Ok(()), Err)?;
        }
        if self.delivery_timeout < self.linger + self.request_timeout {
            return Err(ConfigError::DeliveryTimeoutTooShort);
        }
        Ok(())
    }
    fn retry_backoff_cap(&self) -> Millis {
        let grows = self.profile.has(Feature::ExponentialRetryBackoff);
        if grows { self.retry_backoff_max } else { self.retry_backoff }
    }
    /// What the connections need.
    pub fn network(&self) -> NetworkConfig {
        NetworkConfig {
            topics: Some(BTreeSet::new()),
            request_timeout: self.request_timeout,
            setup_timeout: self.setup_timeout,
            setup_timeout_max: self.setup_timeout_max,
            reconnect_backoff: self.reconnect_backoff,
            reconnect_backoff_max: self.reconnect_backoff_max,
            retry_backoff: self.retry_backoff,
            retry_backoff_max: self.retry_backoff_cap(),
            metadata_max_age: self.metadata_max_age,
            rebootstrap_trigger: self.rebootstrap.then_some(self.rebootstrap_trigger),
            max_in_flight: usize::from(self.max_in_flight.unwrap_or(5)),
            back_off_equivalent: self.profile.has(Feature::ExponentialRetryBackoff),
            hashes: self.hashes.clone(),
            ..NetworkConfig::new(self.bootstrap.clone())
        }
    }
    /// What version and fixes make of ids and transactions.
    pub fn rules(&self, fixes: Fixes) -> TransactionRules {
        let both = |feature, fix| self.profile.has(feature) && fixes.has(fix);
        TransactionRules {
            unmapped_id_is_fatal: both(Feature::UnmappedIdIsFatal, Fix::UnmappedIdIsFatal),
            illegal_move_is_fatal: both(Feature::IllegalMoveIsFatal, Fix::IllegalMoveIsFatal),
            exhausted_is_abortable: both(Feature::ExhaustedIsAbortable, Fix::ExhaustedIsAbortable),
            abortable_abort_is_fatal: both(Feature::AbortableAbortIsFatal, Fix::AbortableAbortIsFatal),
            init_authorization_heals: both(Feature::InitAuthorizationHeals, Fix::InitAuthorizationHeals),
            old_epoch_is_abortable: fixes.has(Fix::OldEpochIsAbortable),
            client_bumps_epoch: fixes.has(Fix::ClientBumpsEpoch),
            speaks_v2: self.profile.has(Feature::TransactionV2),
            upgrade_bumps_epoch: fixes.has(Fix::UpgradeBumpsEpoch),
            calls_resume: fixes.has(Fix::CallsResume),
            offsets_retry_all: self.profile.has(Feature::OffsetsRetryAll),
        }
    }
    /// What the I/O thread needs.
    pub fn sender(&self, fixes: Fixes) -> SenderConfig {
        SenderConfig {
            acks: self.acks.unwrap_or(-1),
            idempotent: self.idempotent(fixes),
            request_timeout: self.request_timeout,
            retries: self.retries.unwrap_or(i32::MAX as u32),
            retry_backoff: self.retry_backoff,
            max_request_size: self.max_request_size,
            transactional: self.transactional_id.map(|id| Transactional { id, timeout: self.transaction_timeout }),
            rules: self.rules(fixes),
            leader_in_errors: self.profile.has(Feature::LeaderInErrors),
            one_in_flight: self.max_in_flight == Some(1),
            produce_version: self.profile.produce_version(),
            accumulator: AccumulatorConfig {
                batch_size: self.batch_size,
                linger: self.linger,
                buffer_memory: self.buffer_memory,
                retry_backoff: Backoff::new(self.retry_backoff, self.retry_backoff_cap()),
                delivery_timeout: self.delivery_timeout,
                adaptive: self.adaptive_partitioning,
                availability_timeout: self.availability_timeout,
                leader_change_skips_backoff: self.profile.has(Feature::LeaderChangeSkipsBackoff),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotence_gives_way_only_where_it_was_not_asked_for() {
        let mut config = ProducerConfig::new(Profile::Java, [].into());
        assert!(config.idempotent(Fixes::ALL));
        assert!(!config.idempotent(Fixes::ALL.without(Fix::IdempotenceByDefault)));
        config.acks = Some(1);
        assert!(!config.idempotent(Fixes::ALL));
        assert_eq!(config.validate(), Ok(()));
        config.enable_idempotence = Some(true);
        assert_eq!(config.validate(), Err(ConfigError::IdempotenceNeedsAllAcks));
        config.acks = None;
        config.delivery_timeout = Millis(30_000);
        assert_eq!(config.validate(), Err(ConfigError::DeliveryTimeoutTooShort));
    }
}
