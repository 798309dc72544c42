//! The controller's settings.

use crate::base::{Fix, Fixes, Millis};

/// Settings of the active controller, under Kafka's names. Defaults are those of 4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// `broker.session.timeout.ms` (9000): a broker not heard of for longer is fenced (C-1).
    pub broker_session_timeout: Millis,
    /// `auto.leader.rebalance.enable` (true): the controller moves leaderships back to the preferred leader.
    pub auto_leader_rebalance_enable: bool,
    /// `leader.imbalance.check.interval.seconds` (300): how often it looks.
    pub leader_imbalance_check_interval: Millis,
    /// `unclean.leader.election.enable` (false) of topics that do not set it.
    pub unclean_leader_election_enable: bool,
    /// `unclean.leader.election.interval.ms` (300000): how often partitions without leader are looked at.
    pub unclean_leader_election_interval: Millis,
    /// `min.insync.replicas` (1) of topics that do not set it.
    pub min_insync_replicas: u16,
    /// Feature `eligible.leader.replicas.version` is 1 (default of new clusters at metadata.version 4.1 and later, KIP-966).
    pub eligible_leader_replicas: bool,
    /// Leader elections in one pass of a periodic task, `maxElectionsPerImbalance` (1000); not a setting of Kafka's.
    pub max_elections_per_imbalance: usize,
    /// What a run of a periodic task costs before the next is scheduled (1 ms; an assumption). With none the eighth
    /// fencing scan after an activation would tie with the session timeout and miss (C-4).
    pub periodic_task_cost: Millis,
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self {
            broker_session_timeout: Millis(9000),
            auto_leader_rebalance_enable: true,
            leader_imbalance_check_interval: Millis::secs(300),
            unclean_leader_election_enable: false,
            unclean_leader_election_interval: Millis(300_000),
            min_insync_replicas: 1,
            eligible_leader_replicas: true,
            max_elections_per_imbalance: 1000,
            periodic_task_cost: Millis(1),
        }
    }
}

impl ControllerConfig {
    /// Whether eligible leader replicas are in use.
    pub const fn elr(&self, fixes: Fixes) -> bool {
        self.eligible_leader_replicas && fixes.has(Fix::EligibleLeaderReplicas)
    }
    /// Period of the fencing scan: an eighth of the session timeout (C-2, `maybeFenceStaleBrokerPeriodNs`).
    pub const fn fence_scan_period(&self) -> Millis {
        let eighth = self.broker_session_timeout.0 / 8;
        Millis(if eighth < 1 { 1 } else { eighth })
    }
}
