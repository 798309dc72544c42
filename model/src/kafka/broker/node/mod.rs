//! A node of the cluster as a process: broker, controller or both (`process.roles`).
//!
//! | port | thread | file |
//! |---|---|---|
//! | [`config::MAIN`] | the broker's scheduler | `background.rs` |
//! | [`config::BROKER`] | request handler of clients and followers | `requests.rs` |
//! | [`config::CONTROLLER`] | Raft and the controller's event queue | `quorum.rs` |
//! | [`config::LIFECYCLE`] | registration and heartbeats | `life.rs` |
//! | [`config::ALTER`], [`config::PRODUCER_IDS`] | channels to the controller | `channels.rs` |
//! | [`config::METADATA`] | metadata being applied | `metadata.rs` |
//! | [`config::FETCHERS`] + n | replica fetcher from broker n | `fetchers.rs` |

mod background;
mod channels;
pub mod config;
pub mod disk;
mod fetchers;
mod life;
mod metadata;
mod quorum;
mod requests;
mod to_controller;

use super::link::Link;
use super::{AlterPartitionManager, DelayedFetches, Partitions, ReplicaFetcher};
use crate::base::{
    BrokerEpoch, BrokerId, ConnId, Cx, Event, FileId, Incarnation, Input, Lane, LeaderEpoch, Millis, Nanos, Offset,
    Port, Process, ProducerId, SimTime, Stream, TopicId, TopicPartition,
};
use crate::kafka::controller::{ActiveController, MetadataImage, Record};
use crate::kafka::log::{LogConfig, UnifiedLog};
use crate::kafka::messages::{Message, ProducedPartition, Reply};
use crate::kafka::partition::{BrokerTable, Partition, PartitionConfig, PartitionCx, PartitionOutput};
use crate::kafka::quorum::{BrokerLifecycle, Output, Raft, ReplyTo};
use config::{ALTER, BROKER, CONTROLLER, FETCHERS, LIFECYCLE, MAIN, METADATA, NodeConfig, PRODUCER_IDS, fetcher_port};
use disk::{CLEAN_SHUTDOWN, NodeDisk, NodeWrite, partition_file};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use to_controller::ToController;

/// The context of a node.
pub type NodeCx<'a> = Cx<'a, Message, NodeWrite>;

/// Who asked the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A broker, over a connection.
    Remote(ReplyTo),
    /// The node itself: topics of the scenario, an operator's act.
    Local,
}

/// A produce request that waits for some of its partitions.
#[derive(Clone, Debug)]
struct PendingProduce {
    conn: ConnId,
    correlation: u32,
    acks: i8,
    order: Vec<TopicPartition>,
    done: Vec<ProducedPartition>,
}

/// A block of producer ids (C-11).
#[derive(Clone, Copy, Debug)]
struct ProducerIds {
    next: ProducerId,
    end: ProducerId,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    config: Arc<NodeConfig>,
    incarnation: Incarnation,

    // ---- quorum and controller
    raft: Raft<Record>,
    /// Outputs of the Raft thread that wait for a flush.
    raft_blocked: VecDeque<Output<Record>>,
    raft_waits_for: Option<FileId>,
    raft_links: BTreeMap<BrokerId, Link>,
    controller: Option<(LeaderEpoch, ActiveController<Caller>)>,
    /// Metadata up to `committed_end`, as the quorum's listener has replayed it.
    committed: MetadataImage,
    committed_end: Offset,
    topics_created: bool,

    // ---- broker
    lifecycle: Option<BrokerLifecycle>,
    life_channel: ToController,
    alter_channel: ToController,
    ids_channel: ToController,
    broker_epoch: BrokerEpoch,
    image: MetadataImage,
    applied_end: Offset,
    apply_at: Option<SimTime>,
    apply_queue: VecDeque<(TopicPartition, bool)>,
    apply_delay: Stream,
    caught_up: bool,
    brokers: BrokerTable,
    partitions: Partitions,
    alter: AlterPartitionManager,
    fetches: DelayedFetches,
    fetch_tokens: BTreeMap<u64, (ConnId, u32)>,
    produces: BTreeMap<u64, PendingProduce>,
    next_token: u64,
    /// No waiting produce expires before.
    produce_deadline: Millis,
    fetchers: BTreeMap<BrokerId, ReplicaFetcher>,
    fetcher_conns: BTreeMap<BrokerId, ConnId>,
    jitter: Stream,
    producer_ids: Option<ProducerIds>,
    hide_topics: bool,
    /// Topics that metadata answers leave out, each in so many answers.
    hidden: BTreeMap<TopicId, u32>,
    stopping: bool,
    stopped: bool,

    // ---- timers
    next_lag_check: Millis,
    next_checkpoint: Millis,
    next_expiry: Millis,
    /// What each port was last set to.
    deadlines: BTreeMap<Port, Millis>,
    outputs: Vec<PartitionOutput>,
}

impl Process for Node {
    type Config = NodeConfig;
    type Disk = NodeDisk;
    type Message = Message;

    fn start(config: &Arc<NodeConfig>, disk: &NodeDisk, cx: &mut NodeCx<'_>) -> Self {
        let now = cx.millis();
        let clean = disk.clean_shutdown.is_some() || disk.partitions.is_empty();
        cx.work(boot_time(config, disk.partitions.len() as u64, clean, cx));
        let mut phases = cx.stream("phases");
        let mut phase = |period: Millis| now + Millis(phases.below(period.0.max(1) as u64) as i64);
        let half_lag = Millis(config.broker.replica_lag_time_max.0 / 2);
        let (next_lag_check, next_checkpoint, next_expiry) = (
            phase(half_lag),
            phase(config.broker.high_watermark_checkpoint_interval),
            phase(config.broker.producer_expiration_check_interval),
        );
        let fixes = cx.fixes;
        let mut node = Self {
            incarnation: cx.incarnation,
            raft: Raft::start(config.raft.clone(), &disk.raft, cx.stream("quorum"), now),
            raft_blocked: VecDeque::new(),
            raft_waits_for: None,
            raft_links: BTreeMap::new(),
            controller: None,
            committed: MetadataImage::default(),
            committed_end: Offset(0),
            topics_created: false,
            lifecycle: None,
            life_channel: ToController::new(LIFECYCLE, Millis::MAX),
            alter_channel: ToController::new(ALTER, Millis::MAX),
            ids_channel: ToController::new(PRODUCER_IDS, Millis::MAX),
            broker_epoch: BrokerEpoch::UNKNOWN,
            image: MetadataImage::default(),
            applied_end: Offset(0),
            apply_at: None,
            apply_queue: VecDeque::new(),
            apply_delay: cx.stream("metadata apply"),
            caught_up: false,
            brokers: BrokerTable::default(),
            partitions: Partitions::default(),
            alter: AlterPartitionManager::default(),
            fetches: DelayedFetches::new(cx.stream("fetch sessions"), fixes),
            fetch_tokens: BTreeMap::new(),
            produces: BTreeMap::new(),
            next_token: 0,
            produce_deadline: Millis::MAX,
            fetchers: BTreeMap::new(),
            fetcher_conns: BTreeMap::new(),
            jitter: cx.stream("fetcher jitter"),
            producer_ids: None,
            hide_topics: false,
            hidden: BTreeMap::new(),
            stopping: false,
            stopped: false,
            next_lag_check,
            next_checkpoint,
            next_expiry,
            deadlines: BTreeMap::new(),
            outputs: Vec::new(),
            config: Arc::clone(config),
        };
        if config.is_broker {
            for (tp, partition) in &disk.partitions {
                let mut log = UnifiedLog::open(partition, clean, now, Self::log_config(config, *tp), fixes);
                let before = partition.end();
                if log.end() < before {
                    cx.emit(Event::Truncated {
                        tp: *tp,
                        from: before,
                        to: log.end(),
                        high_watermark: partition.high_watermark(),
                        follower: false,
                    });
                }
                for write in log.take_writes() {
                    cx.write(partition_file(*tp), NodeWrite::Log(write));
                }
                let high_watermark = partition.high_watermark().min(log.end());
                cx.emit(Event::LogOpened { tp: *tp, end: log.end(), high_watermark });
                let checkpoint = Some(partition.high_watermark());
                let high_watermark = partition.high_watermark().min(log.end());
                cx.emit(Event::LogOpened { tp: *tp, end: log.end(), high_watermark });
                node.partitions.insert(Partition::new(
                    *tp,
                    config.id,
                    node.partition_config(*tp),
                    log,
                    checkpoint,
                    fixes,
                ));
            }
            cx.emit(Event::Recovered { clean });
            node.start_life(disk.clean_shutdown, cx);
            cx.write(CLEAN_SHUTDOWN, NodeWrite::CleanShutdown(None));
        }
        if config.raft.is_voter() {
            cx.listen(CONTROLLER, true);
        }
        node.after_raft(cx);
        node.settle(cx);
        node
    }

    fn step(&mut self, port: Port, input: Input<Message>, cx: &mut NodeCx<'_>) {
        match port {
            // The kernel tells the port that asked for the flush, whatever the file.
            _ if matches!(input, Input::Flushed(_)) => {
                if let Input::Flushed(file) = input {
                    self.flushed(file, cx);
                }
            }
            BROKER => self.broker_input(input, cx),
            CONTROLLER => self.controller_input(input, cx),
            LIFECYCLE => self.life_input(input, cx),
            ALTER => self.alter_input(input, cx),
            PRODUCER_IDS => self.ids_input(input, cx),
            METADATA => self.metadata_input(cx),
            MAIN => self.main_input(&input, cx),
            Port(p) => self.fetcher_input(BrokerId(i32::from(p - FETCHERS)), input, cx),
        }
        self.settle(cx);
    }

    fn lane(&self, port: Port) -> Lane {
        Lane(port.0)
    }
}

impl Node {
    /// `node.id`.
    pub fn id(&self) -> BrokerId {
        self.config.id
    }
    /// Whether this node is the active controller, as far as it knows.
    pub fn is_active_controller(&self) -> bool {
        self.controller.is_some()
    }
    /// The active controller's metadata, uncommitted changes included.
    pub fn controller_image(&self) -> Option<&MetadataImage> {
        self.controller.as_ref().map(|(_, c)| c.image())
    }
    /// Whether a SIGTERM or a fencing has begun to stop it.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }
    /// The quorum epoch.
    pub fn quorum_epoch(&self) -> LeaderEpoch {
        self.raft.epoch()
    }
    /// Metadata as this broker has applied it.
    pub fn image(&self) -> &MetadataImage {
        &self.image
    }
    /// The partitions held.
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }
    /// Whether the broker is unfenced and serves, as far as it knows.
    pub fn serves(&self) -> bool {
        self.lifecycle.as_ref().is_some_and(|l| l.state() == crate::kafka::quorum::BrokerState::Running)
    }

    /// Settings of a partition's log: the broker's, with what its topic says.
    fn log_config(config: &NodeConfig, tp: TopicPartition) -> LogConfig {
        let broker = config.broker.log;
        config.topics.iter().find(|t| t.topic == tp.topic).map_or(broker, |t| LogConfig {
            segment_bytes: t.segment_bytes,
            max_message_bytes: t.max_message_bytes,
            ..broker
        })
    }

    fn partition_config(&self, tp: TopicPartition) -> PartitionConfig {
        let topic = self.config.topics.iter().find(|t| t.topic == tp.topic);
        let min_isr = topic.and_then(|t| t.min_insync_replicas).unwrap_or(self.config.broker.min_insync_replicas);
        PartitionConfig {
            min_insync_replicas: u32::from(min_isr),
            replica_lag_time_max: self.config.broker.replica_lag_time_max,
        }
    }

    /// Works on partitions: writes what their logs have to write, then does what follows of it.
    fn with_partitions<T>(
        &mut self,
        cx: &mut NodeCx<'_>,
        work: impl FnOnce(
            &mut Partitions,
            &mut DelayedFetches,
            &mut BTreeMap<BrokerId, ReplicaFetcher>,
            &mut PartitionCx<'_>,
        ) -> T,
    ) -> T {
        let Self { partitions, fetches, fetchers, brokers, alter, outputs, broker_epoch, .. } = self;
        let mut pcx = PartitionCx { now: cx.millis(), broker_epoch: *broker_epoch, brokers, alter, out: outputs };
        work(partitions, fetches, fetchers, &mut pcx)
    }

    /// Writes of a partition's log go to disk before anything that came of the same call.
    fn write_log(&mut self, tp: TopicPartition, cx: &mut NodeCx<'_>) {
        let Some(partition) = self.partitions.get_mut(tp) else { return };
        let file = partition_file(tp);
        for write in partition.log_mut().take_writes() {
            let rolled = matches!(write, crate::kafka::log::LogWrite::Roll(_));
            cx.write(file, NodeWrite::Log(write));
            if rolled {
                // A closed segment is flushed in the background (L-20).
                cx.flush(file);
            }
        }
    }

    /// Does what follows of work on partitions, until nothing does.
    fn after_partitions(&mut self, cx: &mut NodeCx<'_>) {
        let mut checks: BTreeSet<TopicPartition> = BTreeSet::new();
        loop {
            for output in std::mem::take(&mut self.outputs) {
                match output {
                    PartitionOutput::IsrChangeSubmitted(_) => {}
                    PartitionOutput::IsrChangeRefused(_)
                    | PartitionOutput::IsrChanged(..)
                    | PartitionOutput::IsrChangeFailed(_) => {}
                    PartitionOutput::Produced { token, answer } => self.produced(token, answer, cx),
                    PartitionOutput::CheckFetches(tp) => {
                        checks.insert(tp);
                    }
                    PartitionOutput::Emit(event) => cx.emit(event),
                }
            }
            let Some(tp) = checks.pop_first() else { break };
            let answers = self.with_partitions(cx, |partitions, fetches, _, pcx| fetches.check(tp, partitions, pcx));
            for answer in answers {
                self.fetched(answer.token, answer.reply, cx);
            }
        }
    }

    fn reply(&self, conn: ConnId, correlation: u32, body: Reply, cx: &mut NodeCx<'_>) {
        cx.send(conn, Message::Reply { correlation, body });
    }

    /// After every step: sends what waits for the controller, and sets deadlines that have changed.
    fn settle(&mut self, cx: &mut NodeCx<'_>) {
        if self.stopped {
            return;
        }
        let now = cx.millis();
        self.start_channels(cx);
        let raft = self.raft.deadline().unwrap_or(Millis::MAX);
        let controller = self.controller.as_ref().map_or(Millis::MAX, |(_, c)| c.deadline());
        let links = self.raft_links.values().map(Link::deadline).min().unwrap_or(Millis::MAX);
        let fetches = self.fetches.deadline().unwrap_or(Millis::MAX);
        let life = self.lifecycle.as_ref().and_then(BrokerLifecycle::deadline).unwrap_or(Millis::MAX);
        self.set(CONTROLLER, raft.min(controller).min(links), cx);
        if self.config.is_broker {
            let timers = self.next_lag_check.min(self.next_checkpoint).min(self.next_expiry);
            self.set(MAIN, timers, cx);
            self.set(BROKER, fetches.min(self.produce_deadline), cx);
            self.set(LIFECYCLE, life.min(self.life_channel.deadline()), cx);
            let alter = self.alter.deadline().unwrap_or(Millis::MAX);
            self.set(ALTER, self.alter_channel.deadline().min(alter), cx);
            self.set(PRODUCER_IDS, self.ids_channel.deadline(), cx);
            let due: Vec<_> = self.fetchers.iter().map(|(b, f)| (*b, f.deadline().unwrap_or(Millis::MAX))).collect();
            for (broker, at) in due {
                self.set(fetcher_port(broker), at, cx);
            }
        }
        debug_assert!(now <= cx.millis());
    }

    fn set(&mut self, port: Port, at: Millis, cx: &mut NodeCx<'_>) {
        let before = self.deadlines.insert(port, at).unwrap_or(Millis::MAX);
        // A deadline that is due now fires again even if it was set before.
        if before != at || at <= cx.millis() {
            cx.wake_port(port, (at < Millis::MAX).then(|| SimTime::at(at)));
        }
    }

    /// A port's deadline has come: it has to be set again.
    fn fired(&mut self, port: Port) {
        self.deadlines.remove(&port);
    }
}

/// How long a start takes.
fn boot_time(config: &NodeConfig, partitions: u64, clean: bool, cx: &NodeCx<'_>) -> Nanos {
    if cx.incarnation.0 <= 1 {
        return Nanos::ZERO;
    }
    let (least, most) = config.times.start;
    let process = cx.stream("start").between(least.0, most.0.max(least.0));
    let each = if clean { config.times.load_partition } else { config.times.recover_partition };
    Nanos(process + each.0 * partitions)
}
