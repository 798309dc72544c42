//! A quorum on a small simulated network, with the laws I-7 and I-8 checked at every step.

mod properties;
mod rules;
mod timing;

use super::messages::{QuorumReply, QuorumRequest};
use super::{Body, Output, Raft, RaftBatch, RaftConfig, RaftDisk, ReplyTo};
use crate::base::{BrokerId, ConnId, Domain, LeaderEpoch, Millis, Nanos, Offset, QuorumRole, SimTime, Stream, Streams};
use std::collections::{BTreeMap, BTreeSet};

/// What is on its way.
enum Parcel {
    Request { from: usize, incarnation: u32, to: usize, correlation: u32, request: QuorumRequest },
    Reply { from: usize, to: usize, incarnation: u32, correlation: u32, reply: QuorumReply<u32> },
    Lost { node: usize, incarnation: u32, peer: usize },
    Wake { node: usize, incarnation: u32 },
}

struct Node {
    raft: Option<Raft<u32>>,
    disk: RaftDisk<u32>,
    incarnation: u32,
    frozen: bool,
    backlog: Vec<Parcel>,
    /// Replayed up to here in this incarnation.
    applied: Offset,
    active: Option<LeaderEpoch>,
    wake_at: Option<Millis>,
}

/// How the network treats a message.
#[derive(Clone, Copy, Default)]
struct Weather {
    /// Per mille lost.
    loss: u64,
    /// Per mille delivered twice.
    duplication: u64,
    /// Longest delay in ms on top of the least, 0.2 ms; above 1 ms messages overtake each other.
    delay: u64,
}

struct Cluster {
    nodes: Vec<Node>,
    voters: Vec<BrokerId>,
    seed: u64,
    now: SimTime,
    queue: BTreeMap<(SimTime, u64), Parcel>,
    sequence: u64,
    network: Stream,
    weather: Weather,
    /// Directed links that drop everything.
    cut: BTreeSet<(usize, usize)>,
    /// A dead node refuses connections (else it is silent).
    refuse: bool,
    /// Committed batches: first by whoever told first, then compared with everybody else.
    truth: Vec<RaftBatch<u32>>,
    /// The epoch in which each of them was committed.
    committed_in: Vec<LeaderEpoch>,
    leaders: BTreeMap<LeaderEpoch, usize>,
    active_since: BTreeMap<LeaderEpoch, (usize, SimTime)>,
    resigned_at: BTreeMap<LeaderEpoch, SimTime>,
    next_record: u32,
    /// A crash point: the node dies, and loses power or not, after so many more of its effects.
    fuse: Option<(usize, u64, bool)>,
}

impl Cluster {
    /// `voters` voters, ids from 1, and `observers` observers behind them.
    fn new(seed: u64, voters: usize, observers: usize) -> Self {
        let mut cluster = Self {
            nodes: Vec::new(),
            voters: (1..=voters as i32).map(BrokerId).collect(),
            seed,
            now: SimTime::ZERO,
            queue: BTreeMap::new(),
            sequence: 0,
            network: Streams(seed).stream(Domain::Network, 0, "test"),
            weather: Weather { delay: 1, ..Weather::default() },
            cut: BTreeSet::new(),
            refuse: true,
            truth: Vec::new(),
            committed_in: Vec::new(),
            leaders: BTreeMap::new(),
            active_since: BTreeMap::new(),
            resigned_at: BTreeMap::new(),
            next_record: 0,
            fuse: None,
        };
        for _ in 0..voters + observers {
            cluster.nodes.push(Node {
                raft: None,
                disk: RaftDisk::default(),
                incarnation: 0,
                frozen: false,
                backlog: Vec::new(),
                applied: Offset(0),
                active: None,
                wake_at: None,
            });
        }
        for node in 0..cluster.nodes.len() {
            cluster.start(node);
        }
        cluster
    }

    fn id(node: usize) -> BrokerId {
        BrokerId(node as i32 + 1)
    }

    fn start(&mut self, node: usize) {
        let config = RaftConfig::new(Self::id(node), &self.voters);
        let n = &mut self.nodes[node];
        assert!(n.raft.is_none());
        n.incarnation += 1;
        let entity = (node as u64) << 32 | u64::from(n.incarnation);
        let random = Streams(self.seed).stream(Domain::Process, entity, "raft");
        n.raft = Some(Raft::start(config, &n.disk, random, self.now.millis()));
        n.applied = Offset(0);
        n.wake_at = None;
        self.settle(node);
    }
    fn kill(&mut self, node: usize, lose_power: bool) {
        let n = &mut self.nodes[node];
        n.raft = None;
        n.active = None;
        n.frozen = false;
        n.backlog.clear();
        if lose_power {
            n.disk.lose_power(&mut self.network);
        }
        if self.refuse {
            (0..self.nodes.len()).for_each(|peer| self.lose(peer, node));
        }
    }
    fn freeze(&mut self, node: usize) {
        self.nodes[node].frozen = true;
    }
    fn thaw(&mut self, node: usize) {
        self.nodes[node].frozen = false;
        for parcel in std::mem::take(&mut self.nodes[node].backlog) {
            self.deliver(parcel);
        }
    }
    /// Cuts a node off from all others, silently and in both directions.
    fn isolate(&mut self, node: usize) {
        for other in (0..self.nodes.len()).filter(|o| *o != node) {
            self.cut.extend([(node, other), (other, node)]);
        }
    }

    fn post(&mut self, at: SimTime, parcel: Parcel) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), parcel);
    }
    /// `node` learns that its connection to `peer` is gone.
    fn lose(&mut self, node: usize, peer: usize) {
        let incarnation = self.nodes[node].incarnation;
        self.post(self.now + Nanos::micros(300), Parcel::Lost { node, incarnation, peer });
    }
    /// Gives the instants at which copies of a message arrive.
    fn travel(&mut self, from: usize, to: usize) -> Vec<SimTime> {
        if self.cut.contains(&(from, to)) || self.network.chance(self.weather.loss, 1000) {
            return Vec::new();
        }
        let copies = if self.network.chance(self.weather.duplication, 1000) { 2 } else { 1 };
        let delay = |s: &mut Self| s.now + Nanos::micros(200 + s.network.below(1000 * s.weather.delay + 1));
        (0..copies).map(|_| delay(self)).collect()
    }

    /// Runs until `until`, or until `done` says so; tells which.
    fn run(&mut self, until: SimTime, mut done: impl FnMut(&Self) -> bool) -> bool {
        while !done(self) {
            match self.queue.first_key_value() {
                Some(((at, _), _)) if *at <= until => {}
                _ => {
                    self.now = until;
                    return false;
                }
            }
            let ((at, _), parcel) = self.queue.pop_first().expect("looked at above");
            self.now = at;
            self.deliver(parcel);
        }
        true
    }
    fn run_for(&mut self, ms: i64) {
        self.run(self.now + Nanos::from(Millis(ms)), |_| false);
    }

    fn deliver(&mut self, parcel: Parcel) {
        let (node, incarnation) = match &parcel {
            Parcel::Request { to, .. } => (*to, None),
            Parcel::Reply { to, incarnation, .. } => (*to, Some(*incarnation)),
            Parcel::Lost { node, incarnation, .. } | Parcel::Wake { node, incarnation } => (*node, Some(*incarnation)),
        };
        let now = self.now.millis();
        let n = &mut self.nodes[node];
        if incarnation.is_some_and(|i| i != n.incarnation) {
            return;
        }
        if n.frozen {
            n.backlog.push(parcel);
            return;
        }
        let Some(raft) = &mut n.raft else {
            if let Parcel::Request { from, .. } = parcel
                && self.refuse
            {
                self.lose(from, node);
            }
            return;
        };
        match parcel {
            Parcel::Request { from, incarnation, correlation, request, .. } => {
                let conn = ConnId((from as u64) << 32 | u64::from(incarnation));
                raft.request(&request, ReplyTo { conn, correlation }, now);
            }
            Parcel::Reply { from, correlation, reply, .. } => raft.reply(Self::id(from), correlation, reply, now),
            Parcel::Lost { peer, .. } => raft.disconnected(Self::id(peer), now),
            Parcel::Wake { .. } => {
                n.wake_at = None;
                if raft.deadline().is_some_and(|at| at <= now) {
                    raft.wake(now);
                }
            }
        }
        self.settle(node);
    }

    /// Carries out what a node has put out and checks the laws.
    fn settle(&mut self, node: usize) {
        let incarnation = self.nodes[node].incarnation;
        let outputs: Vec<Output<u32>> = self.nodes[node].raft.as_mut().expect("runs").outputs().collect();
        for output in outputs {
            if let Some((victim, left, lose_power)) = &mut self.fuse
                && *victim == node
            {
                if *left == 0 {
                    let lose_power = *lose_power;
                    self.fuse = None;
                    return self.kill(node, lose_power);
                }
                *left -= 1;
            }
            match output {
                Output::Write(write) => self.nodes[node].disk.apply(&write),
                Output::Flush(file) => self.nodes[node].disk.flushed(file),
                Output::Send { node: to, correlation, request } => {
                    let to = to.0 as usize - 1;
                    for at in self.travel(node, to) {
                        let request = request.clone();
                        self.post(at, Parcel::Request { from: node, incarnation, to, correlation, request });
                    }
                }
                Output::Reply { to: ReplyTo { conn, correlation }, reply } => {
                    let (to, incarnation) = ((conn.0 >> 32) as usize, conn.0 as u32);
                    for at in self.travel(node, to) {
                        let reply = reply.clone();
                        self.post(at, Parcel::Reply { from: node, to, incarnation, correlation, reply });
                    }
                }
                Output::Role { epoch, role: QuorumRole::Leader } => self.check_leader(node, epoch),
                Output::Role { .. } | Output::ShutDown => {}
                Output::Committed(to) => self.check_committed(node, to),
                Output::LeaderChange { epoch, leader } => {
                    self.nodes[node].active = (leader == Some(Self::id(node))).then_some(epoch);
                    if self.nodes[node].active.is_some() {
                        self.active_since.insert(epoch, (node, self.now));
                    }
                }
                Output::Resigned { epoch } => {
                    self.resigned_at.insert(epoch, self.now);
                }
            }
        }
        let n = &mut self.nodes[node];
        let raft = n.raft.as_ref().expect("runs");
        assert_eq!((raft.log().end(), raft.log().last_epoch()), (n.disk.log.end(), n.disk.log.last_epoch()));
        if let Some(at) = raft.deadline()
            && n.wake_at.is_none_or(|armed| at < armed)
        {
            n.wake_at = Some(at);
            let at = SimTime::at(at).max(self.now);
            self.post(at, Parcel::Wake { node, incarnation });
        }
    }

    /// At most one leader an epoch (I-7), and it holds all that was committed in earlier ones (leader completeness). A node
    /// may learn late that it was elected, when a later epoch has already committed more.
    fn check_leader(&mut self, node: usize, epoch: LeaderEpoch) {
        let known = *self.leaders.entry(epoch).or_insert(node);
        assert_eq!(known, node, "two leaders in epoch {epoch}");
        let earlier = self.committed_in.partition_point(|e| *e < epoch);
        let committed = &self.truth[..earlier];
        let log = self.nodes[node].raft.as_ref().expect("runs").log();
        assert!(log.batches(Offset(0)).zip(committed).all(|(mine, committed)| mine == committed));
        assert!(committed.last().is_none_or(|b| b.end() <= log.end()), "the new leader lacks committed records");
    }
    /// Every node commits the same batches in the same order (I-8).
    fn check_committed(&mut self, node: usize, to: Offset) {
        let raft = self.nodes[node].raft.as_ref().expect("runs");
        let mut at = self.nodes[node].applied;
        for batch in raft.log().committed(at, to) {
            let i = self.truth.partition_point(|b| b.base < batch.base);
            match self.truth.get(i) {
                Some(known) => assert_eq!(known, batch, "node {node} commits something else"),
                None => {
                    self.truth.push(batch.clone());
                    self.committed_in.push(raft.epoch());
                }
            }
            at = batch.end();
        }
        assert_eq!(at, to, "commits end with a batch");
        self.nodes[node].applied = to;
    }

    fn leader(&self) -> Option<usize> {
        let led = |n: &Node| n.active.filter(|e| n.raft.as_ref().is_some_and(|r| r.epoch() == *e));
        let best = (0..self.nodes.len()).filter_map(|i| led(&self.nodes[i]).map(|e| (e, i))).max()?;
        (self.nodes[best.1].raft.as_ref()?.role() == QuorumRole::Leader).then_some(best.1)
    }
    /// Runs until somebody is active.
    fn elect(&mut self, within_ms: i64) -> usize {
        let until = self.now + Nanos::from(Millis(within_ms));
        assert!(self.run(until, |c| c.leader().is_some()), "no leader within {within_ms} ms (seed {})", self.seed);
        self.leader().expect("just found")
    }
    /// Runs until somebody is active in a later epoch than `epoch`; gives the milliseconds that took.
    fn elect_after(&mut self, epoch: LeaderEpoch, within_ms: i64) -> i64 {
        let start = self.now;
        let newer = |c: &Self| c.active_since.keys().next_back().is_some_and(|e| *e > epoch);
        let until = self.now + Nanos::from(Millis(within_ms));
        assert!(self.run(until, newer), "no new leader within {within_ms} ms (seed {})", self.seed);
        (self.now.since(start).0 / 1_000_000) as i64
    }
    fn epoch(&self, node: usize) -> LeaderEpoch {
        self.nodes[node].raft.as_ref().expect("runs").epoch()
    }
    /// Appends a record at whoever is active; tells the offset.
    fn append(&mut self) -> Option<Offset> {
        let node = self.leader()?;
        self.append_at(node)
    }
    fn append_at(&mut self, node: usize) -> Option<Offset> {
        let now = self.now.millis();
        let epoch = self.nodes[node].active?;
        self.next_record += 1;
        let record = self.next_record;
        let offset = self.nodes[node].raft.as_mut()?.append(epoch, [record], now).ok()?;
        self.settle(node);
        Some(offset)
    }
    fn records(&self) -> Vec<u32> {
        self.truth.iter().flat_map(|b| b.records().to_vec()).collect()
    }
}

#[test]
fn a_new_quorum_elects_commits_and_tells_its_observers() {
    let mut c = Cluster::new(7, 3, 2);
    c.elect(5000);
    c.run_for(1000);
    let offset = c.append().expect("a leader is there");
    c.run_for(60);
    assert_eq!(c.records(), [1]);
    for node in &c.nodes {
        let raft = node.raft.as_ref().expect("runs");
        assert_eq!(raft.high_watermark(), Some(offset.plus(1)), "commits reach everybody with the next answers");
    }
    assert!(matches!(c.truth[0].body, Body::LeaderChange(_)), "an epoch opens with its leader");
}

#[test]
fn a_quorum_of_one_leads_at_once() {
    let mut c = Cluster::new(1, 1, 1);
    assert_eq!(c.leader(), Some(0));
    c.append();
    c.run_for(1000);
    assert_eq!(c.records(), [1]);
    c.kill(0, false);
    c.start(0);
    assert_eq!(c.leader(), Some(0));
    assert_eq!(c.epoch(0), LeaderEpoch(2));
}
