//! How a node is set up.

use crate::base::{Addr, BrokerId, Millis, Nanos, Port, ProcessId, TopicId};
use crate::kafka::broker::FetcherConfig;
use crate::kafka::controller::ControllerConfig;
use crate::kafka::coordinator::group::GroupCoordinatorConfig;
use crate::kafka::coordinator::transaction::{TransactionConfig, TransactionVersion};
use crate::kafka::log::LogConfig;
use crate::kafka::placement::IdTable;
use crate::kafka::quorum::RaftConfig;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The broker's own timers: high watermark checkpoints, lag checks, expiry.
pub const MAIN: Port = Port(0);
/// The listener of clients and followers.
pub const BROKER: Port = Port(1);
/// The listener of the quorum and the controller.
pub const CONTROLLER: Port = Port(2);
/// Registration and heartbeats.
pub const LIFECYCLE: Port = Port(3);
/// ISR changes on their way to the controller.
pub const ALTER: Port = Port(4);
/// Metadata being applied.
pub const METADATA: Port = Port(5);
/// Producer ids on their way from the controller.
pub const PRODUCER_IDS: Port = Port(6);
/// Markers of transactions on their way to partition leaders.
pub const TXN_MARKERS: Port = Port(7);
/// The scheduler of the transaction coordinator: loads partitions, scans.
pub const TRANSACTIONS: Port = Port(8);
/// Questions about transactions on their way to their coordinators.
pub const ADD_PARTITIONS: Port = Port(9);
/// The thread of the group coordinator: loads partitions, runs timers.
pub const GROUPS: Port = Port(10);
/// The fetcher from broker n is port 16 + n.
pub const FETCHERS: u16 = 16;

/// The port of the fetcher from `source`.
pub fn fetcher_port(source: BrokerId) -> Port {
    Port(FETCHERS + source.0 as u16)
}

/// Time that work takes. None of it is Kafka's: assumptions of a scenario, by which backlogs drain at finite speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTimes {
    /// Any request of a client or follower.
    pub request: Nanos,
    /// Every record of a produce request.
    pub record: Nanos,
    /// Applying one changed partition.
    pub apply_partition: Nanos,
    /// Beginning to lead one under a new epoch, which is written to disk first: measured 10 to 25 ms (kafka-measured.md 1.6).
    pub lead_partition: Nanos,
    /// Least and most time between a commit of metadata and its application at this broker.
    pub apply_delay: (Nanos, Nanos),
    /// Least and most time from a start until the process acts (a JVM's start). The first start of a run takes none: the
    /// cluster stands when a scenario begins.
    pub start: (Nanos, Nanos),
    /// Start after a clean stop: for every partition in addition.
    pub load_partition: Nanos,
    /// Start after an unclean stop: for every partition in addition.
    pub recover_partition: Nanos,
    /// Reading a partition of a coordinator's log when its leadership comes here (kafka.md 4.12 step 2).
    pub load_coordinator: Nanos,
    /// From the permission to go until the broker part is closed: measured 1.0 to 2.8 s (kafka-measured.md 1.4).
    pub stop: Millis,
}
impl Default for ServiceTimes {
    fn default() -> Self {
        Self {
            request: Nanos::micros(30),
            record: Nanos(500),
            apply_partition: Nanos::micros(500),
            lead_partition: Nanos::millis(10),
            apply_delay: (Nanos::millis(1), Nanos::millis(20)),
            start: (Nanos::millis(500), Nanos::millis(500)),
            load_partition: Nanos::millis(1),
            recover_partition: Nanos::millis(5),
            load_coordinator: Nanos::millis(5),
            stop: Millis(1_000),
        }
    }
}

/// A topic to be created when the cluster has formed.
#[derive(Clone, Debug)]
pub struct TopicSpec {
    /// The topic.
    pub topic: TopicId,
    /// Replicas of each partition; the first is the preferred leader.
    pub assignments: Vec<Arc<[BrokerId]>>,
    /// `min.insync.replicas`, where the topic sets it.
    pub min_insync_replicas: Option<u16>,
    /// `unclean.leader.election.enable`, where the topic sets it.
    pub unclean_leader_election_enable: Option<bool>,
    /// `segment.bytes` (1 GiB).
    pub segment_bytes: u32,
    /// `max.message.bytes` (1048588).
    pub max_message_bytes: u32,
}

/// A broker's settings, under Kafka's names.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// `replica.lag.time.max.ms` (30000).
    pub replica_lag_time_max: Millis,
    /// `replica.high.watermark.checkpoint.interval.ms` (5000).
    pub high_watermark_checkpoint_interval: Millis,
    /// `log.flush.offset.checkpoint.interval.ms` (60000).
    pub recovery_point_checkpoint_interval: Millis,
    /// `producer.id.expiration.check.interval.ms` (600000).
    pub producer_expiration_check_interval: Millis,
    /// `broker.heartbeat.interval.ms` (2000).
    pub heartbeat_interval: Millis,
    /// `broker.session.timeout.ms` (9000).
    pub session_timeout: Millis,
    /// `initial.broker.registration.timeout.ms` (60000).
    pub initial_registration_timeout: Millis,
    /// `min.insync.replicas` (1) of topics that do not set it.
    pub min_insync_replicas: u16,
    /// Replica fetchers.
    pub fetcher: FetcherConfig,
    /// Logs.
    pub log: LogConfig,
    /// The transaction coordinator.
    pub transactions: TransactionConfig,
    /// Feature `transaction.version` of the cluster (2).
    pub transaction_version: TransactionVersion,
    /// `add.partitions.to.txn.retry.backoff.ms` (20).
    pub add_partitions_retry_backoff: Millis,
    /// `add.partitions.to.txn.retry.backoff.max.ms` (100): how long a partition leader asks again for a client.
    pub add_partitions_retry_backoff_max: Millis,
    /// The topic that is `__transaction_state`, if there is one.
    pub transaction_state_topic: Option<TopicId>,
    /// Names of the transactional ids.
    pub transactional_ids: IdTable,
    /// The topic that is `__consumer_offsets`, if there is one.
    pub offsets_topic: Option<TopicId>,
    /// Names of the groups.
    pub group_ids: IdTable,
    /// The group coordinator.
    pub groups: GroupCoordinatorConfig,
}
impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            replica_lag_time_max: Millis(30_000),
            high_watermark_checkpoint_interval: Millis(5_000),
            recovery_point_checkpoint_interval: Millis(60_000),
            producer_expiration_check_interval: Millis(600_000),
            heartbeat_interval: Millis(2_000),
            session_timeout: Millis(9_000),
            initial_registration_timeout: Millis(60_000),
            min_insync_replicas: 1,
            fetcher: FetcherConfig::default(),
            log: LogConfig::default(),
            transactions: TransactionConfig::default(),
            transaction_version: TransactionVersion::V2,
            add_partitions_retry_backoff: Millis(20),
            add_partitions_retry_backoff_max: Millis(100),
            transaction_state_topic: None,
            transactional_ids: IdTable::default(),
            offsets_topic: None,
            group_ids: IdTable::default(),
            groups: GroupCoordinatorConfig::default(),
        }
    }
}

/// How a node is started: broker, controller or both.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// `node.id`.
    pub id: BrokerId,
    /// `process.roles` holds `broker`. It holds `controller` if the node is among the voters.
    pub is_broker: bool,
    /// Every node's process.
    pub nodes: Arc<BTreeMap<BrokerId, ProcessId>>,
    /// Nodes that are brokers.
    pub brokers: Arc<[BrokerId]>,
    /// The quorum.
    pub raft: RaftConfig,
    /// The active controller.
    pub controller: Arc<ControllerConfig>,
    /// The broker.
    pub broker: BrokerConfig,
    /// Topics of the scenario.
    pub topics: Arc<[TopicSpec]>,
    /// Service times.
    pub times: ServiceTimes,
}
impl NodeConfig {
    /// A listener of a node.
    pub fn addr(&self, node: BrokerId, port: Port) -> Option<Addr> {
        self.nodes.get(&node).map(|process| Addr { process: *process, port })
    }
}
