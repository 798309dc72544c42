//! One node, a topic of two partitions, transaction and group coordinator, and callers: how the table of kafka-measured.md 2
//! was measured.

use crate::caller::{Call, Caller, CallerConfig, Library, Said};
use model::actor::ActorDisk;
use model::app::APP;
use model::base::{
    Addr, BrokerId, Cx, Event, Fixes, Input, Lane, Millis, Port, Process, ProcessId, ProducerId, Shown, SimTime,
    TopicId, TopicPartition,
};
use model::kafka::broker::node::Node;
use model::kafka::broker::node::config::{BROKER, BrokerConfig, NodeConfig, ServiceTimes, TopicSpec};
use model::kafka::broker::node::disk::{NodeDisk, NodeWrite};
use model::kafka::controller::ControllerConfig;
use model::kafka::coordinator::group::GroupCoordinatorConfig;
use model::kafka::coordinator::transaction::{TransactionConfig, TransactionVersion};
use model::kafka::messages::Message;
use model::kafka::placement::IdTable;
use model::kafka::quorum::RaftConfig;
use model::kafka::txn_messages::TransactionalId;
use sim::world::{Fault, HostSpec, Link, NoLifecycle, Observer, World, WorldSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

const NODE: ProcessId = ProcessId(0);
/// When the callers start: the node serves.
pub const START: i64 = 15_000;

#[derive(Clone, Debug)]
pub enum PlayerConfig {
    Node(Arc<NodeConfig>),
    Caller(Arc<CallerConfig>),
}
#[derive(Clone, Debug)]
pub enum Player {
    Node(Box<Node>),
    Caller(Box<Caller>),
}
impl Process for Player {
    type Config = PlayerConfig;
    type Disk = ActorDisk;
    type Message = Message;
    fn start(config: &Arc<PlayerConfig>, disk: &ActorDisk, cx: &mut Cx<'_, Message, NodeWrite>) -> Self {
        match &**config {
            PlayerConfig::Node(config) => {
                let empty = NodeDisk::default();
                Self::Node(Box::new(Node::start(config, disk.node().unwrap_or(&empty), cx)))
            }
            PlayerConfig::Caller(config) => {
                let caller = Caller::start(config, cx);
                cx.wake_port(APP, Some(cx.now));
                Self::Caller(Box::new(caller))
            }
        }
    }
    fn step(&mut self, port: Port, input: Input<Message>, cx: &mut Cx<'_, Message, NodeWrite>) {
        match self {
            Self::Node(node) => node.step(port, input, cx),
            Self::Caller(caller) => caller.step(input, cx),
        }
    }
    fn lane(&self, port: Port) -> Lane {
        match self {
            Self::Node(node) => node.lane(port),
            Self::Caller(_) => Lane(0),
        }
    }
}

#[derive(Clone)]
struct Nobody;
impl Observer for Nobody {
    fn event(&mut self, _: SimTime, _: u64, _: u64, _: ProcessId, _: &Event) {}
    fn shown(&mut self, _: SimTime, _: ProcessId, _: &Shown) {}
}

/// A producer of the play: what it calls, in ms from [`START`], and while it is frozen.
pub struct Part {
    pub library: Library,
    pub timeout: i64,
    pub calls: Vec<(i64, Call)>,
    pub frozen: Option<(i64, i64)>,
}

/// How it went: what each caller was told, and rows in the topic that are committed, and not.
pub struct Played {
    pub said: Vec<Vec<Said>>,
    pub committed: u32,
    pub aborted: u32,
    pub open: u32,
}

fn topic(topic: u16, partitions: usize) -> TopicSpec {
    TopicSpec {
        topic: TopicId(topic),
        assignments: (0..partitions).map(|_| Arc::from([BrokerId(1)])).collect(),
        min_insync_replicas: Some(1),
        unclean_leader_election_enable: None,
        segment_bytes: 1 << 30,
        max_message_bytes: 1_048_588,
    }
}

/// Plays it until `end`, in ms from [`START`]. All callers have the same `transactional.id`.
pub fn play(version: u8, parts: &[Part], end: i64) -> Played {
    let spec = WorldSpec {
        seed: 7,
        fixes: Fixes::ALL,
        link: Link::default(),
        hosts: vec![HostSpec::default(); 1 + parts.len()],
    };
    let mut world: World<Player> = World::new(&spec);
    let id = BrokerId(1);
    let broker = BrokerConfig {
        transaction_version: if version == 2 { TransactionVersion::V2 } else { TransactionVersion::V1 },
        transaction_state_topic: Some(TopicId(1)),
        transactional_ids: IdTable::new(["loop"]),
        transactions: TransactionConfig { state_log_num_partitions: 1, ..TransactionConfig::default() },
        offsets_topic: Some(TopicId(2)),
        group_ids: IdTable::new(["group"]),
        groups: GroupCoordinatorConfig { topic_partitions: 1, ..GroupCoordinatorConfig::default() },
        ..BrokerConfig::default()
    };
    let config = NodeConfig {
        id,
        is_broker: true,
        nodes: Arc::new(BTreeMap::from([(id, NODE)])),
        brokers: Arc::from([id]),
        raft: RaftConfig::new(id, &[id]),
        controller: Arc::new(ControllerConfig::default()),
        broker,
        topics: Arc::from([topic(0, 2), topic(1, 1), topic(2, 1)]),
        times: ServiceTimes::default(),
    };
    world.add(0, PlayerConfig::Node(Arc::new(config)));
    let bootstrap: Arc<[Addr]> = Arc::from([Addr { process: NODE, port: BROKER }]);
    let mut acts: Vec<(i64, Fault)> = Vec::new();
    for (n, part) in (1..).zip(parts) {
        let calls = part.calls.iter().map(|(at, call)| (Millis(START + at), *call)).collect();
        let config = CallerConfig {
            library: part.library,
            id: TransactionalId(0),
            timeout: Millis(part.timeout),
            version,
            bootstrap: Arc::clone(&bootstrap),
            calls,
        };
        let process = world.add(n, PlayerConfig::Caller(Arc::new(config)));
        acts.push((START, Fault::Start(process)));
        if let Some((from, to)) = part.frozen {
            acts.push((START + from, Fault::Freeze(process)));
            acts.push((START + to, Fault::Thaw(process)));
        }
    }
    world.inject(&Fault::Start(NODE), &mut NoLifecycle, &mut Nobody);
    acts.sort_by_key(|(at, _)| *at);
    for (at, fault) in acts {
        run_to(&mut world, at);
        world.inject(&fault, &mut NoLifecycle, &mut Nobody);
    }
    run_to(&mut world, START + end);
    let said = (1..=parts.len() as u32).map(|n| match world.process(ProcessId(n)) {
        Some(Player::Caller(caller)) => caller.said.clone(),
        _ => panic!("caller {n} is gone"),
    });
    let mut played = Played { said: said.collect(), committed: 0, aborted: 0, open: 0 };
    let Some(Player::Node(node)) = world.process(NODE) else { panic!("the node is gone") };
    for tp in [TopicPartition::new(0, 0), TopicPartition::new(0, 1)] {
        let log = node.partitions().get(tp).expect("is held").log();
        let mut pending: BTreeMap<ProducerId, u32> = BTreeMap::new();
        for entry in log.entries_from(log.start()) {
            let batch = &entry.batch;
            match batch.marker_of() {
                Some(marker) => {
                    let rows = pending.remove(&batch.producer.id).unwrap_or_default();
                    *if marker.commit { &mut played.committed } else { &mut played.aborted } += rows;
                }
                None => *pending.entry(batch.producer.id).or_default() += batch.records,
            }
        }
        played.open += pending.values().sum::<u32>();
    }
    played
}
fn run_to(world: &mut World<Player>, ms: i64) {
    let at = SimTime::at(Millis(ms));
    while world.next_at().is_some_and(|t| t <= at) {
        world.turn(&mut NoLifecycle, &mut Nobody);
    }
    world.idle_until(at, &mut NoLifecycle);
}
