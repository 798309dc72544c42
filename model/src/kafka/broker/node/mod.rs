//! A node of the cluster as a process: broker, controller or both (`process.roles`).
//!
//! | port | thread | file |
//! |---|---|---|
//! | [`config::MAIN`] | the broker's scheduler, signals | `scheduler.rs`, `shutdown.rs` |
//! | [`config::BROKER`] | request handler of clients and followers | `requests.rs`, `channels.rs` |
//! | [`config::CONTROLLER`] | Raft and the controller's event queue | `quorum.rs`, `topics.rs` |
//! | [`config::LIFECYCLE`] | registration and heartbeats | `life.rs` |
//! | [`config::ALTER`] | ISR changes on their way to the controller | `alter.rs` |
//! | [`config::PRODUCER_IDS`] | producer ids on their way from it | `producer_ids.rs` |
//! | [`config::METADATA`] | metadata being applied | `metadata.rs` |
//! | [`config::ADD_PARTITIONS`] | sender of questions about transactions | `verification.rs` |
//! | [`config::TXN_MARKERS`] | sender of transaction markers | `markers.rs` |
//! | [`config::TRANSACTIONS`] | scheduler of the transaction coordinator | `transactions.rs` |
//! | [`config::GROUPS`] | timers and loading of the group coordinator | `groups.rs` |
//! | [`config::FETCHERS`] + n | replica fetcher from broker n | `fetchers.rs` |
//!
//! A step first changes the state, then leaves its effects in this order: writes and events, as they came; deadlines; the
//! work that all this takes; what others see of it (`Outgoing`); and last the work of a step that follows at once. So the disk takes the writes of all threads in
//! the order in which memory changed, and a kill during the work loses answers, never their ground.

mod alter;
mod boot;
mod broker_links;
mod channels;
pub mod config;
mod coordinator;
mod deadlines;
pub mod disk;
mod fetchers;
mod gather;
mod groups;
mod life;
mod markers;
mod metadata;
mod producer_ids;
mod quorum;
mod replicas;
mod requests;
mod scheduler;
mod shutdown;
mod to_controller;
mod topics;
mod transactions;
mod verification;
mod views;
mod write_markers;

#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod transaction_tests;

use super::link::Link;
use super::{Partitions, ReplicaManager, ReplicaOutput};
use crate::base::{
    BrokerEpoch, BrokerId, ConnId, Cx, FileId, Incarnation, Input, Lane, LeaderEpoch, Nanos, Offset, Port, Process,
    QuorumRole, SmallMap, TopicId, TopicPartition,
};
use crate::kafka::controller::{ActiveController, MetadataImage, Record};
use crate::kafka::messages::Message;
use crate::kafka::quorum::{BrokerLifecycle, BrokerState, Output, Raft, ReplyTo};
use channels::RequestChannels;
use config::{
    ADD_PARTITIONS, ALTER, BROKER, CONTROLLER, FETCHERS, GROUPS, LIFECYCLE, MAIN, METADATA, NodeConfig, PRODUCER_IDS,
    TRANSACTIONS, TXN_MARKERS, fetcher_port,
};
use deadlines::Deadlines;
use disk::{NodeDisk, NodeWrite};
use groups::Groups;
use metadata::Publisher;
use producer_ids::ProducerIds;
use replicas::Outgoing;
use shutdown::Phase;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use to_controller::ToController;
use transactions::Transactions;
use verification::Verification;

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

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    config: Arc<NodeConfig>,
    incarnation: Incarnation,
    phase: Phase,

    // ---- quorum and controller
    raft: Raft<Record>,
    /// Outputs of the Raft thread that wait for a flush.
    raft_blocked: VecDeque<Output<Record>>,
    raft_waits_for: Option<FileId>,
    /// The role at this place in the outputs: Raft itself may be further already.
    raft_role: QuorumRole,
    raft_links: SmallMap<BrokerId, Link>,
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
    /// Epoch in the clean shutdown marker, for the registration; the lifecycle begins when the process has started.
    previous_epoch: Option<BrokerEpoch>,
    caught_up: bool,
    /// The metadata cache.
    image: MetadataImage,
    publisher: Publisher,
    replicas: ReplicaManager,
    channels: RequestChannels,
    fetcher_conns: SmallMap<BrokerId, ConnId>,
    producer_ids: ProducerIds,
    transactions: Transactions,
    verification: Verification,
    groups: Groups,
    hide_topics: bool,
    /// Topics that metadata answers leave out on an operator's order, and how many answers still do.
    hidden: BTreeMap<TopicId, u32>,
    /// Flushes of partitions under way, in order, each with the log end that it covers.
    flushing: VecDeque<(TopicPartition, Offset)>,

    // ---- of one step
    deadlines: Deadlines,
    /// What the replicas have put out; empty between steps, kept for its memory, as are the next two.
    outputs: Vec<ReplicaOutput>,
    outgoing: Vec<Outgoing>,
    /// Answers to clients and followers that wait for the request handler's thread.
    answers: Vec<(ConnId, Message)>,
    work: Nanos,
    work_ahead: Nanos,
}

impl Process for Node {
    type Config = NodeConfig;
    type Disk = NodeDisk;
    type Message = Message;

    fn start(config: &Arc<NodeConfig>, disk: &NodeDisk, cx: &mut NodeCx<'_>) -> Self {
        Self::boot(config, disk, cx)
    }

    fn step(&mut self, port: Port, input: Input<Message>, cx: &mut NodeCx<'_>) {
        if self.phase == Phase::Stopped {
            return;
        }
        if matches!(input, Input::Wake) {
            self.deadlines.fired(port);
        }
        let of_records = (port == BROKER || port >= fetcher_port(BrokerId(0))) && !matches!(input, Input::Flushed(_));
        match (port, input) {
            // The kernel tells the port that asked for the flush, whatever the file.
            (_, Input::Flushed(file)) => self.flushed(file, cx),
            (BROKER, input) => self.broker_input(input, cx),
            (CONTROLLER, input) => self.controller_input(input, cx),
            (LIFECYCLE, input) => self.life_input(input, cx),
            (ALTER, input) => self.alter_input(input, cx),
            (PRODUCER_IDS, input) => self.ids_input(input, cx),
            (METADATA, _) => self.metadata_input(cx),
            (ADD_PARTITIONS, input) => self.verification_input(input, cx),
            (TXN_MARKERS, input) => self.markers_input(input, cx),
            (TRANSACTIONS, input) => self.transactions_input(&input, cx),
            (GROUPS, input) => self.groups_input(&input, cx),
            (MAIN, input) => self.main_input(&input, cx),
            (Port(p), input) => self.fetcher_input(BrokerId(i32::from(p - FETCHERS)), input, cx),
        }
        self.end_step(of_records, cx);
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
        self.replicas.partitions()
    }
    /// The replicas.
    pub fn replicas(&self) -> &ReplicaManager {
        &self.replicas
    }
    /// Whether the broker is unfenced and serves, as far as it knows.
    pub fn serves(&self) -> bool {
        self.lifecycle.as_ref().is_some_and(|l| l.state() == BrokerState::Running)
    }
    /// Epoch of the broker's registration; unknown before it.
    pub fn broker_epoch(&self) -> BrokerEpoch {
        self.broker_epoch
    }

    /// Ends a step: deadlines, work, and what leaves after it. `of_records`: it was a request of a client or follower, or
    /// an answer to one of ours.
    fn end_step(&mut self, of_records: bool, cx: &mut NodeCx<'_>) {
        if self.phase == Phase::Stopped {
            cx.exit();
            return;
        }
        if !self.answers.is_empty() && cx.port != BROKER {
            self.deadlines.nudge(BROKER);
        }
        self.set_deadlines(of_records, cx);
        let work = |work: &mut Nanos, cx: &mut NodeCx<'_>| {
            if *work > Nanos::ZERO {
                cx.work(std::mem::take(work));
            }
        };
        work(&mut self.work, cx);
        self.let_out(cx);
        work(&mut self.work_ahead, cx);
    }
}
