//! The start of the process (`KafkaRaftServer.startup`): the quorum member first, then the broker's registration; the logs are
//! loaded when the first metadata is there (`metadata.rs`).

use super::channels::RequestChannels;
use super::config::{ALTER, CONTROLLER, LIFECYCLE, NodeConfig, PRODUCER_IDS};
use super::deadlines::Deadlines;
use super::disk::NodeDisk;
use super::groups::Groups;
use super::metadata::Publisher;
use super::producer_ids::ProducerIds;
use super::shutdown::Phase;
use super::to_controller::ToController;
use super::transactions::Transactions;
use super::verification::Verification;
use super::{Node, NodeCx};
use crate::base::{BrokerEpoch, Millis, Nanos, Offset, QuorumRole, SmallMap, TopicPartition};
use crate::kafka::broker::{ReplicaManager, ReplicaManagerConfig};
use crate::kafka::controller::MetadataImage;
use crate::kafka::log::{LogConfig, UnifiedLog};
use crate::kafka::partition::{Partition, PartitionConfig};
use crate::kafka::quorum::Raft;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

impl Node {
    pub(super) fn boot(config: &Arc<NodeConfig>, disk: &NodeDisk, cx: &mut NodeCx<'_>) -> Self {
        // Nothing acts before the process has started: all that follows leaves then, so that is what the clock says.
        let start = start_time(config, cx);
        cx.work(start);
        cx.now += start;
        let now = cx.millis();
        let b = &config.broker;
        let replicas = ReplicaManagerConfig {
            lag_time_max: b.replica_lag_time_max,
            high_watermark_checkpoint_interval: b.high_watermark_checkpoint_interval,
            recovery_point_checkpoint_interval: b.recovery_point_checkpoint_interval,
            producer_expiration_check_interval: b.producer_expiration_check_interval,
            fetcher: b.fetcher,
        };
        let mut node = Self {
            incarnation: cx.incarnation,
            phase: Phase::Running,
            raft: Raft::start(config.raft.clone(), &disk.raft, cx.stream("quorum"), now),
            raft_blocked: VecDeque::new(),
            raft_waits_for: None,
            raft_role: QuorumRole::Unattached,
            raft_links: SmallMap::new(),
            controller: None,
            committed: MetadataImage::default(),
            committed_end: Offset(0),
            topics_created: false,
            lifecycle: None,
            life_channel: ToController::new(LIFECYCLE, Millis::MAX),
            alter_channel: ToController::new(ALTER, Millis::MAX),
            // The channel that also forwards clients' requests (`clientToControllerChannelManager`).
            ids_channel: ToController::new(PRODUCER_IDS, Millis(60_000)),
            broker_epoch: BrokerEpoch::UNKNOWN,
            previous_epoch: disk.clean_shutdown,
            caught_up: false,
            image: MetadataImage::default(),
            publisher: Publisher::new(cx.stream("metadata apply")),
            replicas: ReplicaManager::new(config.id, replicas, cx.stream("replicas"), cx.fixes, now),
            channels: RequestChannels::default(),
            fetcher_conns: SmallMap::new(),
            producer_ids: ProducerIds::default(),
            transactions: Transactions::new(b, cx.fixes, now),
            verification: Verification::default(),
            groups: Groups::new(b, cx.stream("group members"), cx.fixes),
            hide_topics: false,
            hidden: BTreeMap::new(),
            flushing: VecDeque::new(),
            deadlines: Deadlines::default(),
            outputs: Vec::new(),
            outgoing: Vec::new(),
            answers: Vec::new(),
            work: Nanos::ZERO,
            work_ahead: Nanos::ZERO,
            config: Arc::clone(config),
        };
        if config.raft.is_voter() {
            cx.listen(CONTROLLER, true);
        }
        if config.is_broker {
            node.open_logs(disk, cx);
            // Not here: on a slow CPU the process starts later than its clock says now, and the time to register counts from then.
            node.deadlines.nudge(LIFECYCLE);
        }
        node.after_raft(cx);
        node.end_step(false, cx);
        node
    }

    /// Reads the logs. What that repairs on disk, and the time it takes, come with the first metadata.
    fn open_logs(&mut self, disk: &NodeDisk, cx: &NodeCx<'_>) {
        let clean = disk.clean_shutdown.is_some() || disk.partitions.is_empty();
        let (now, fixes) = (cx.wall(), cx.fixes);
        for (tp, partition) in &disk.partitions {
            let log = UnifiedLog::open(partition, clean, now, self.log_config(*tp), fixes);
            self.publisher.loading.opened(*tp, &log, partition);
            let config = self.partition_config(*tp);
            let checkpoint = Some(partition.high_watermark());
            let partition = Partition::new(*tp, self.config.id, config, log, checkpoint, fixes);
            self.replicas.partitions_mut().insert(partition);
        }
        let each = if clean { self.config.times.load_partition } else { self.config.times.recover_partition };
        self.publisher.loading.takes(clean, Nanos(each.0 * disk.partitions.len() as u64));
    }

    /// Settings of a partition's log: the broker's, with what its topic says.
    pub(super) fn log_config(&self, tp: TopicPartition) -> LogConfig {
        let broker = self.config.broker.log;
        self.config.topics.iter().find(|t| t.topic == tp.topic).map_or(broker, |t| LogConfig {
            segment_bytes: t.segment_bytes,
            max_message_bytes: t.max_message_bytes,
            ..broker
        })
    }

    /// Settings of a partition, until metadata says otherwise.
    pub(super) fn partition_config(&self, tp: TopicPartition) -> PartitionConfig {
        let topic = self.config.topics.iter().find(|t| t.topic == tp.topic);
        let min_isr = topic.and_then(|t| t.min_insync_replicas).unwrap_or(self.config.broker.min_insync_replicas);
        PartitionConfig {
            min_insync_replicas: u32::from(min_isr),
            replica_lag_time_max: self.config.broker.replica_lag_time_max,
        }
    }
}

/// How long it takes until the process acts. The first start of a run takes no time: the cluster stands when a scenario
/// begins.
fn start_time(config: &NodeConfig, cx: &NodeCx<'_>) -> Nanos {
    if cx.incarnation.0 <= 1 {
        return Nanos::ZERO;
    }
    let (least, most) = config.times.start;
    Nanos(cx.stream("start").between(least.0, most.0.max(least.0)))
}
