//! Three nodes on a bare network: a queue of deliveries, connections that are there or not, disks that never lose anything.

use super::super::config::{BROKER, BrokerConfig, NodeConfig, ServiceTimes, TopicSpec};
use super::super::disk::NodeDisk;
use super::super::{Node, NodeCx, NodeWrite};
use crate::base::{
    Addr, Asides, BrokerId, ConnEvent, ConnId, Disk, Effect, Fixes, Incarnation, Input, Millis, Nanos, Port, Process,
    ProcessId, SimTime, Streams, TopicId,
};
use crate::kafka::controller::ControllerConfig;
use crate::kafka::coordinator::group::GroupCoordinatorConfig;
use crate::kafka::coordinator::transaction::TransactionConfig;
use crate::kafka::log::LogConfig;
use crate::kafka::messages::{Message, Reply, Request};
use crate::kafka::placement::IdTable;
use crate::kafka::quorum::RaftConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CLIENT: Addr = Addr { process: ProcessId(9), port: Port(0) };
/// One way over any link.
const LATENCY: Nanos = Nanos::micros(200);
/// The data topic, `__transaction_state` and `__consumer_offsets`.
pub const DATA: TopicId = TopicId(0);
pub const STATE: TopicId = TopicId(1);
pub const OFFSETS: TopicId = TopicId(2);
pub const PARTITIONS: u16 = 3;

struct Conn {
    opener: Addr,
    listener: Addr,
    /// Deliveries keep their order.
    last: SimTime,
}
enum Delivery {
    Input { to: Addr, incarnation: u32, input: Input<Message> },
    Wake { to: Addr, number: u64 },
}

pub struct Cluster {
    pub now: SimTime,
    fixes: Fixes,
    nodes: Vec<Option<Node>>,
    configs: Vec<Arc<NodeConfig>>,
    disks: Vec<NodeDisk>,
    incarnations: Vec<u32>,
    queue: BTreeMap<(SimTime, u64), Delivery>,
    next: u64,
    wakes: BTreeMap<Addr, u64>,
    conns: BTreeMap<ConnId, Conn>,
    next_conn: u64,
    listening: BTreeSet<Addr>,
    correlation: u32,
    answers: BTreeMap<u32, Reply>,
    /// Messages between this process and the other nodes are lost.
    isolated: Option<ProcessId>,
}

fn process(id: BrokerId) -> ProcessId {
    ProcessId(id.0 as u32 - 1)
}

impl Cluster {
    /// Formed: every partition has a leader and three members in its ISR.
    pub fn formed(fixes: Fixes) -> Self {
        Self::with_verification(fixes, true)
    }
    /// The same; `transaction.partition.verification.enable` as given.
    pub fn with_verification(fixes: Fixes, transaction_verification: bool) -> Self {
        let ids: Vec<BrokerId> = (1..=3).map(BrokerId).collect();
        let rotated = |n: usize| -> Arc<[BrokerId]> { (0..3).map(|i| ids[(n + i) % 3]).collect() };
        let topic = |topic| TopicSpec {
            topic,
            assignments: (0..usize::from(PARTITIONS)).map(rotated).collect(),
            min_insync_replicas: Some(2),
            unclean_leader_election_enable: None,
            segment_bytes: 1 << 30,
            max_message_bytes: 1_048_588,
        };
        let nodes = Arc::new(ids.iter().map(|id| (*id, process(*id))).collect());
        let config = |id: &BrokerId| NodeConfig {
            id: *id,
            is_broker: true,
            nodes: Arc::clone(&nodes),
            brokers: ids.clone().into(),
            raft: RaftConfig::new(*id, &ids),
            controller: Arc::new(ControllerConfig::default()),
            broker: BrokerConfig {
                log: LogConfig { transaction_verification, ..LogConfig::default() },
                transactions: TransactionConfig { state_log_num_partitions: PARTITIONS, ..Default::default() },
                transaction_state_topic: Some(STATE),
                transactional_ids: IdTable::new(["gatekeeper-0", "gatekeeper-1", "gatekeeper-2"]),
                offsets_topic: Some(OFFSETS),
                group_ids: IdTable::new(["gatekeeper"]),
                groups: GroupCoordinatorConfig { topic_partitions: PARTITIONS, ..Default::default() },
                ..BrokerConfig::default()
            },
            topics: Arc::new([topic(DATA), topic(STATE), topic(OFFSETS)]),
            times: ServiceTimes::default(),
        };
        let mut cluster = Self {
            now: SimTime::ZERO,
            fixes,
            nodes: vec![None, None, None],
            configs: ids.iter().map(config).map(Arc::new).collect(),
            disks: vec![NodeDisk::default(); 3],
            incarnations: vec![0; 3],
            queue: BTreeMap::new(),
            next: 0,
            wakes: BTreeMap::new(),
            conns: BTreeMap::new(),
            next_conn: 0,
            listening: BTreeSet::new(),
            correlation: 0,
            answers: BTreeMap::new(),
            isolated: None,
        };
        ids.iter().for_each(|id| cluster.start(*id));
        cluster.pass(15_000);
        cluster
    }

    pub fn node(&self, id: BrokerId) -> Option<&Node> {
        self.nodes[process(id).0 as usize].as_ref()
    }
    pub fn alive(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().flatten()
    }

    pub fn start(&mut self, id: BrokerId) {
        let p = process(id);
        let at = p.0 as usize;
        self.incarnations[at] += 1;
        let (config, disk) = (Arc::clone(&self.configs[at]), self.disks[at].clone());
        let node = self.with_cx(p, Port(0), |cx| Node::start(&config, &disk, cx));
        self.nodes[at] = Some(node);
    }
    pub fn kill(&mut self, id: BrokerId) {
        let p = process(id);
        self.nodes[p.0 as usize] = None;
        self.listening.retain(|a| a.process != p);
        let of = |c: &Conn| c.opener.process == p || c.listener.process == p;
        let gone: Vec<_> = self.conns.iter().filter(|(_, c)| of(c)).map(|(id, _)| *id).collect();
        for conn in gone {
            self.close(conn, p, self.now);
        }
    }
    /// Cuts a node off from the others, but not from clients; or heals that.
    pub fn isolate(&mut self, id: BrokerId, cut: bool) {
        self.isolated = cut.then_some(process(id));
    }
    fn close(&mut self, conn: ConnId, by: ProcessId, at: SimTime) {
        let Some(c) = self.conns.remove(&conn) else { return };
        let other = if c.opener.process == by { c.listener } else { c.opener };
        self.deliver(other, at + LATENCY, Input::Connection(conn, ConnEvent::Reset));
    }
    fn deliver(&mut self, to: Addr, at: SimTime, input: Input<Message>) {
        let incarnation = self.incarnations.get(to.process.0 as usize).copied().unwrap_or(0);
        self.push(at, Delivery::Input { to, incarnation, input });
    }
    fn push(&mut self, at: SimTime, delivery: Delivery) {
        self.next += 1;
        self.queue.insert((at, self.next), delivery);
    }

    /// A step of a process, and its effects.
    fn with_cx<T>(&mut self, me: ProcessId, port: Port, step: impl FnOnce(&mut NodeCx<'_>) -> T) -> T {
        let mut effects = Vec::new();
        let incarnation = Incarnation(self.incarnations[me.0 as usize]);
        let given = {
            let (now, fixes) = (self.now, self.fixes);
            let (streams, mut asides) = (Streams(7), Asides::default());
            let connections = &mut self.next_conn;
            let mut cx =
                NodeCx::new(now, me, incarnation, port, fixes, 0, streams, connections, &mut asides, &mut effects);
            step(&mut cx)
        };
        let mut at = self.now;
        for effect in effects {
            self.effect(me, port, effect, &mut at);
        }
        given
    }
    fn effect(&mut self, me: ProcessId, port: Port, effect: Effect<Message, NodeWrite>, at: &mut SimTime) {
        let disk = &mut self.disks[me.0 as usize];
        match effect {
            Effect::Write(file, write) => disk.apply(file, &write),
            Effect::Flush(file) => {
                let mark = disk.mark(file);
                disk.flushed(file, mark);
                self.deliver(Addr { process: me, port }, *at + Nanos::micros(500), Input::Flushed(file));
            }
            Effect::Open { conn, from, to } => {
                let opener = Addr { process: me, port: from };
                let up = self.listening.contains(&to);
                if up {
                    self.conns.insert(conn, Conn { opener, listener: to, last: *at });
                }
                let event = if up { ConnEvent::Up } else { ConnEvent::Refused };
                self.deliver(opener, *at + LATENCY + LATENCY, Input::Connection(conn, event));
            }
            Effect::Close(conn) => self.close(conn, me, *at),
            Effect::Send { conn, message } => self.send(conn, me, message, *at),
            Effect::Wake { port, at: when } => {
                self.next += 1;
                let (to, number) = (Addr { process: me, port }, self.next);
                self.wakes.insert(to, number);
                if let Some(when) = when {
                    self.push(when.max(*at), Delivery::Wake { to, number });
                }
            }
            Effect::Work(d) => *at += d,
            Effect::Listen { port, open } => {
                let addr = Addr { process: me, port };
                if open {
                    self.listening.insert(addr)
                } else {
                    self.listening.remove(&addr)
                };
            }
            Effect::Exit => self.nodes[me.0 as usize] = None,
            Effect::Emit(_) | Effect::Show(_) => {}
        }
    }
    fn send(&mut self, conn: ConnId, from: ProcessId, message: Message, at: SimTime) {
        let Some(c) = self.conns.get_mut(&conn) else { return };
        // A reply goes the other way; within one process that is all that tells the ends apart.
        let back = matches!(message, Message::Reply { .. });
        let (me, to) = if back { (c.listener, c.opener) } else { (c.opener, c.listener) };
        let across = |p| (from == p) != (to.process == p) && from != CLIENT.process && to.process != CLIENT.process;
        if self.isolated.is_some_and(across) {
            return;
        }
        c.last = c.last.max(at + LATENCY);
        let at = c.last;
        self.deliver(to, at, Input::Message { conn, from: me, message });
    }

    fn turn(&mut self) {
        let Some(((at, _), delivery)) = self.queue.pop_first() else { return };
        self.now = self.now.max(at);
        let (to, input) = match delivery {
            Delivery::Wake { to, number } if self.wakes.get(&to) == Some(&number) => (to, Input::Wake),
            Delivery::Wake { .. } => return,
            Delivery::Input { to, incarnation, input } => {
                if to == CLIENT {
                    if let Input::Message { message: Message::Reply { correlation, body }, .. } = input {
                        self.answers.insert(correlation, body);
                    }
                    return;
                }
                if self.incarnations[to.process.0 as usize] != incarnation {
                    return;
                }
                (to, input)
            }
        };
        let Some(mut node) = self.nodes[to.process.0 as usize].take() else { return };
        self.with_cx(to.process, to.port, |cx| node.step(to.port, input, cx));
        self.nodes[to.process.0 as usize] = Some(node);
    }
    /// Lets so many milliseconds pass.
    pub fn pass(&mut self, ms: i64) {
        self.pass_time(Nanos::from(Millis(ms)));
    }
    pub fn pass_time(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.queue.first_key_value().is_some_and(|((at, _), _)| *at <= end) {
            self.turn();
        }
        self.now = end;
    }

    /// A client asks a broker, on a connection of its own.
    pub fn ask(&mut self, broker: BrokerId, body: Request) -> u32 {
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        let listener = Addr { process: process(broker), port: BROKER };
        self.conns.insert(conn, Conn { opener: CLIENT, listener, last: self.now });
        self.correlation += 1;
        self.send(conn, CLIENT.process, Message::Request { correlation: self.correlation, body }, self.now);
        self.correlation
    }
    /// The answer, if it is there.
    pub fn answer(&mut self, asked: u32) -> Option<Reply> {
        self.answers.remove(&asked)
    }
    /// Asks, and lets time pass until the answer is there.
    pub fn call(&mut self, broker: BrokerId, body: Request) -> Reply {
        let name = body.name();
        let asked = self.ask(broker, body);
        let end = self.now + Nanos::secs(40);
        while self.now < end && !self.queue.is_empty() {
            self.turn();
            if let Some(reply) = self.answer(asked) {
                return reply;
            }
        }
        panic!("{name} is never answered");
    }
}
