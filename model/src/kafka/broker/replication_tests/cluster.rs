//! Three brokers with real partitions, fetchers and fetch purgatories; links, metadata and controller reduced to what
//! replication sees of them.

use super::super::{FetcherAction, ReplicaManager, ReplicaManagerConfig, ReplicaOutput};
use crate::base::{
    Batch, BrokerEpoch, BrokerId, BrokerSet, Domain, Event, EventTime, Fixes, LeaderEpoch, Millis, Offset,
    PartitionEpoch, ProducerTag, Stream, Streams, TopicPartition,
};
use crate::kafka::ErrorCode;
use crate::kafka::log::{Isolation, LogConfig, PartitionDisk, ReadLimit, UnifiedLog};
use crate::kafka::messages::{Reply, Request};
use crate::kafka::partition::{
    AlterPartition, AlterPartitionAnswer, BrokerState, BrokerTable, Partition, PartitionConfig, PartitionMetadata,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const BROKERS: i32 = 3;
const PARTITIONS: u16 = 3;

#[derive(Clone)]
pub struct Registered {
    pub(super) leader: BrokerId,
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) partition_epoch: PartitionEpoch,
    pub(super) isr: BrokerSet,
    pub(super) replicas: Vec<BrokerId>,
}
#[derive(Clone)]
pub struct Image {
    pub(super) partitions: BTreeMap<TopicPartition, Registered>,
    pub(super) brokers: BrokerTable,
}
#[derive(Clone)]
pub enum Happening {
    Up { node: BrokerId, source: BrokerId, link: u64 },
    Down { node: BrokerId, source: BrokerId, link: u64 },
    Request { node: BrokerId, source: BrokerId, link: u64, correlation: u32, body: Request },
    Reply { node: BrokerId, source: BrokerId, link: u64, correlation: u32, body: Reply },
    Alter { from: BrokerId, life: u32, changes: Vec<AlterPartition> },
    Altered { to: BrokerId, life: u32, answers: Vec<AlterPartitionAnswer> },
    Metadata { to: BrokerId, life: u32, image: Box<Image> },
    Produce,
    Kill { node: BrokerId, silent: bool },
    Fence { node: BrokerId, life: u32 },
    Restart { node: BrokerId },
}
pub struct Node {
    life: u32,
    alive: bool,
    manager: ReplicaManager,
    links: BTreeMap<BrokerId, u64>,
    asked: BTreeMap<u64, (BrokerId, u64, u32)>,
    disks: BTreeMap<TopicPartition, PartitionDisk>,
    metadata_at: Millis,
}

/// What a run came to.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    pub acked: usize,
    pub lost: usize,
    pub cut_below_high_watermark: usize,
    pub differing: usize,
    pub not_converged: usize,
    pub truncations: usize,
    pub elections: usize,
}
pub struct Cluster {
    pub(super) now: Millis,
    pub(super) random: Stream,
    pub(super) queue: BTreeMap<(Millis, u64), Happening>,
    pub(super) next: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) image: Image,
    pub(super) fixes: Fixes,
    pub(super) pending: BTreeMap<u64, (TopicPartition, u64)>,
    pub(super) acked: Vec<(TopicPartition, Offset, u64)>,
    pub(super) found: Found,
}

fn at(id: BrokerId) -> usize {
    id.0 as usize - 1
}
impl Cluster {
    pub fn new(seed: u64, fixes: Fixes) -> Self {
        let streams = Streams(seed);
        let ids: Vec<_> = (1..=BROKERS).map(BrokerId).collect();
        let isr = BrokerSet::of(&ids);
        let partitions = (0..PARTITIONS)
            .map(|p| {
                let registered = Registered {
                    leader: ids[usize::from(p) % ids.len()],
                    leader_epoch: LeaderEpoch(0),
                    partition_epoch: PartitionEpoch(0),
                    isr,
                    replicas: ids.clone(),
                };
                (TopicPartition::new(0, p), registered)
            })
            .collect();
        let mut brokers = BrokerTable::default();
        for id in &ids {
            let epoch = BrokerEpoch(i64::from(id.0));
            brokers.set(*id, BrokerState { epoch, fenced: false, shutting_down: false });
        }
        let mut cluster = Self {
            now: Millis(0),
            random: streams.stream(Domain::Schedule, 0, "replication test"),
            queue: BTreeMap::new(),
            next: 0,
            nodes: Vec::new(),
            image: Image { partitions, brokers },
            fixes,
            pending: BTreeMap::new(),
            acked: Vec::new(),
            found: Found::default(),
        };
        for id in ids {
            let stream = streams.stream(Domain::Process, id.0 as u64, "replicas");
            let manager = ReplicaManager::new(id, ReplicaManagerConfig::default(), stream, fixes, Millis(0));
            let node = Node {
                life: 0,
                alive: false,
                manager,
                links: BTreeMap::new(),
                asked: BTreeMap::new(),
                disks: BTreeMap::new(),
                metadata_at: Millis(0),
            };
            cluster.nodes.push(node);
            cluster.start(id);
        }
        cluster
    }

    pub fn schedule(&mut self, after: i64, what: Happening) {
        self.next += 1;
        self.queue.insert((self.now + Millis(after), self.next), what);
    }
    pub fn draw(&mut self, low: i64, high: i64) -> i64 {
        self.random.between(low as u64, high as u64) as i64
    }

    fn start(&mut self, id: BrokerId) {
        let (now, fixes) = (self.now, self.fixes);
        let random = Streams(self.random.bits()).stream(Domain::Process, id.0 as u64, "replicas");
        let node = &mut self.nodes[at(id)];
        node.alive = true;
        node.life += 1;
        node.manager = ReplicaManager::new(id, ReplicaManagerConfig::default(), random, fixes, now);
        node.manager.set_broker_epoch(self.image.brokers.get(id).unwrap().epoch);
        let config = PartitionConfig { min_insync_replicas: 2, ..PartitionConfig::default() };
        for tp in self.image.partitions.keys() {
            let disk = node.disks.entry(*tp).or_default();
            let log = UnifiedLog::open(disk, false, now, LogConfig::default(), fixes);
            let partition = Partition::new(*tp, id, config, log, Some(disk.high_watermark()), fixes);
            node.manager.partitions_mut().insert(partition);
        }
        self.publish_to(id);
    }
    fn kill(&mut self, id: BrokerId, silent: bool) {
        let node = &mut self.nodes[at(id)];
        node.alive = false;
        let life = node.life;
        node.links.clear();
        node.asked.clear();
        for other in (1..=BROKERS).map(BrokerId).filter(|o| *o != id && !silent) {
            if let Some(link) = self.nodes[at(other)].links.get(&id).copied() {
                self.schedule(1, Happening::Down { node: other, source: id, link });
            }
        }
        let (fence, back) = (self.draw(7_000, 10_000), self.draw(500, 25_000));
        self.schedule(fence, Happening::Fence { node: id, life });
        self.schedule(fence.max(back), Happening::Restart { node: id });
    }

    pub(super) fn publish(&mut self) {
        (1..=BROKERS).map(BrokerId).for_each(|id| self.publish_to(id));
    }
    fn publish_to(&mut self, id: BrokerId) {
        let slow = self.random.chance(1, 10);
        let delay = if slow { self.draw(500, 5_000) } else { self.draw(5, 800) };
        let node = &mut self.nodes[at(id)];
        node.metadata_at = node.metadata_at.max(self.now + Millis(delay));
        let what = Happening::Metadata { to: id, life: node.life, image: Box::new(self.image.clone()) };
        let after = (node.metadata_at - self.now).0;
        self.schedule(after, what);
    }

    /// Makes one call on a living node and carries out what follows of it.
    fn on(&mut self, id: BrokerId, f: impl FnOnce(&mut ReplicaManager, Millis, &mut Vec<ReplicaOutput>)) {
        let mut out = Vec::new();
        let node = &mut self.nodes[at(id)];
        f(&mut node.manager, self.now, &mut out);
        for (tp, writes) in node.manager.take_writes() {
            let disk = node.disks.entry(tp).or_default();
            writes.iter().for_each(|w| disk.apply(w));
        }
        let life = node.life;
        for output in out {
            match output {
                ReplicaOutput::Produced { token, reply, .. } => {
                    if let Some((tp, content)) = self.pending.remove(&token)
                        && reply.partitions[0].error.is_ok()
                    {
                        self.acked.push((tp, reply.partitions[0].base, content));
                    }
                }
                ReplicaOutput::Fetched { token, reply } => self.answer(id, token, Reply::Fetch(reply)),
                ReplicaOutput::Fetcher { source, action } => self.act(id, source, action),
                ReplicaOutput::AlterPartition(changes) => {
                    let after = self.draw(1, 60);
                    self.schedule(after, Happening::Alter { from: id, life, changes });
                }
                ReplicaOutput::Emit(Event::Truncated { to, high_watermark, .. }) => {
                    self.found.truncations += 1;
                    self.found.cut_below_high_watermark += usize::from(to < high_watermark);
                }
                ReplicaOutput::FetcherNews(_) | ReplicaOutput::Emit(_) => {}
            }
        }
    }
    fn answer(&mut self, server: BrokerId, token: u64, body: Reply) {
        if let Some((node, link, correlation)) = self.nodes[at(server)].asked.remove(&token) {
            let after = self.draw(1, 20);
            self.schedule(after, Happening::Reply { node, source: server, link, correlation, body });
        }
    }
    fn act(&mut self, node: BrokerId, source: BrokerId, action: FetcherAction) {
        match action {
            FetcherAction::Connect => {
                self.next += 1;
                let link = self.next;
                self.nodes[at(node)].links.insert(source, link);
                let up = self.nodes[at(source)].alive;
                let what =
                    if up { Happening::Up { node, source, link } } else { Happening::Down { node, source, link } };
                self.schedule(2, what);
            }
            FetcherAction::Disconnect => drop(self.nodes[at(node)].links.remove(&source)),
            FetcherAction::Send { correlation, body } => {
                let link = self.nodes[at(node)].links[&source];
                let after = self.draw(1, 20);
                self.schedule(after, Happening::Request { node, source, link, correlation, body });
            }
        }
    }
    fn linked(&self, node: BrokerId, source: BrokerId, link: u64) -> bool {
        self.nodes[at(node)].alive && self.nodes[at(node)].links.get(&source) == Some(&link)
    }

    fn step(&mut self, what: Happening) {
        match what {
            Happening::Up { node, source, link } if self.linked(node, source, link) => {
                self.on(node, |manager, now, out| manager.fetcher_up(now, source, out));
            }
            Happening::Down { node, source, link } if self.linked(node, source, link) => {
                self.nodes[at(node)].links.remove(&source);
                self.on(node, |manager, now, out| manager.fetcher_down(now, source, out));
            }
            Happening::Request { node, source, link, correlation, body } if self.nodes[at(source)].alive => {
                self.next += 1;
                let token = self.next;
                self.nodes[at(source)].asked.insert(token, (node, link, correlation));
                match body {
                    Request::Fetch(fetch) => {
                        self.on(source, |manager, now, out| manager.fetch(now, token, &fetch, out))
                    }
                    Request::ListOffsets(list) => {
                        let reply = self.nodes[at(source)].manager.list_offsets(&list);
                        self.answer(source, token, Reply::ListOffsets(reply));
                    }
                    _ => unreachable!("a fetcher asks nothing else"),
                }
            }
            Happening::Reply { node, source, link, correlation, body } if self.linked(node, source, link) => {
                self.on(node, |manager, now, out| manager.fetcher_reply(now, source, correlation, &body, out));
            }
            Happening::Alter { from, life, changes } => {
                let answers = changes.iter().map(|c| self.decide(c)).collect();
                self.publish();
                let after = self.draw(1, 60);
                self.schedule(after, Happening::Altered { to: from, life, answers });
            }
            Happening::Altered { to, life, answers } if self.is(to, life) => {
                self.on(to, |manager, now, out| manager.on_altered(now, ErrorCode::None, &answers, out));
            }
            Happening::Metadata { to, life, image } if self.is(to, life) => self.apply(to, &image),
            Happening::Produce => {
                self.produce();
                let after = self.draw(20, 400);
                self.schedule(after, Happening::Produce);
            }
            Happening::Kill { node, silent } if self.nodes[at(node)].alive => self.kill(node, silent),
            Happening::Fence { node, life } if self.nodes[at(node)].life == life => {
                let state = self.image.brokers.get(node).unwrap();
                self.image.brokers.set(node, BrokerState { fenced: true, ..state });
                self.elect();
            }
            Happening::Restart { node } => {
                let state = self.image.brokers.get(node).unwrap();
                self.next += 1;
                let epoch = BrokerEpoch(100 + self.next as i64);
                self.image.brokers.set(node, BrokerState { epoch, fenced: false, ..state });
                self.start(node);
                self.elect();
            }
            _ => {}
        }
    }
    fn is(&self, id: BrokerId, life: u32) -> bool {
        self.nodes[at(id)].alive && self.nodes[at(id)].life == life
    }

    fn apply(&mut self, id: BrokerId, image: &Image) {
        let changed: Vec<_> = image
            .partitions
            .iter()
            .map(|(tp, r)| {
                let metadata = PartitionMetadata {
                    leader: r.leader,
                    leader_epoch: r.leader_epoch,
                    partition_epoch: r.partition_epoch,
                    isr: r.isr,
                    replicas: &r.replicas,
                };
                (*tp, metadata)
            })
            .collect();
        self.on(id, |manager, now, out| manager.apply(now, image.brokers.clone(), &changed, out));
    }

    /// A client that knows leaders late: it may write to one that leads no longer.
    fn produce(&mut self) {
        let tp = TopicPartition::new(0, self.draw(0, i64::from(PARTITIONS) - 1) as u16);
        let stale = self.random.chance(1, 4);
        let leader =
            if stale { BrokerId(self.draw(1, i64::from(BROKERS)) as i32) } else { self.image.partitions[&tp].leader };
        if leader == BrokerId::NONE || !self.nodes[at(leader)].alive {
            return;
        }
        self.next += 1;
        let (token, records) = (self.next, self.draw(1, 3) as u32);
        let mut batch = Batch::sized(records, 61 + 100 * records, ProducerTag::NONE, false, EventTime(self.now.0));
        batch.content = token;
        self.pending.insert(token, (tp, token));
        let batches = [(tp, Arc::new(batch))];
        self.on(leader, |manager, now, out| manager.produce(now, token, -1, Millis(30_000), &batches, out));
    }

    pub fn run_until(&mut self, end: Millis) {
        loop {
            let alive = self.nodes.iter().enumerate().filter(|(_, n)| n.alive);
            let timer = alive.map(|(i, n)| (n.manager.deadline(), i)).min();
            let event = self.queue.keys().next().copied();
            match (timer, event) {
                (Some((d, i)), e) if e.is_none_or(|(t, _)| d < t) && d <= end => {
                    self.now = self.now.max(d);
                    self.on(BrokerId(i as i32 + 1), |manager, now, out| manager.tick(now, out));
                }
                (_, Some(key)) if key.0 <= end => {
                    self.now = self.now.max(key.0);
                    let what = self.queue.remove(&key).unwrap();
                    self.step(what);
                }
                _ => break,
            }
        }
        self.now = end;
    }
    fn batches(&mut self, id: BrokerId, tp: TopicPartition, below: Offset) -> Vec<(Offset, LeaderEpoch, u64)> {
        let log = self.nodes[at(id)].manager.partitions_mut().get_mut(tp).unwrap().log_mut();
        let limit = ReadLimit { max_bytes: u32::MAX, min_one: true, high_watermark_seen: None };
        let read = log.read(log.start(), Isolation::LogEnd, &limit).unwrap();
        let entries = read.entries.iter().filter(|e| e.base < below);
        entries.map(|e| (e.base, e.epoch, e.batch.content)).collect()
    }
    pub fn judge(mut self) -> Found {
        for p in 0..PARTITIONS {
            let tp = TopicPartition::new(0, p);
            let leader = self.image.partitions[&tp].leader;
            let high_watermark = self.nodes[at(leader)].manager.partitions().get(tp).unwrap().log().high_watermark();
            let end = self.nodes[at(leader)].manager.partitions().get(tp).unwrap().log().end();
            let converged = high_watermark == end && self.image.partitions[&tp].isr.len() == BROKERS as u32;
            self.found.not_converged += usize::from(!converged);
            let truth = self.batches(leader, tp, high_watermark);
            for id in (1..=BROKERS).map(BrokerId) {
                self.found.differing += usize::from(self.batches(id, tp, high_watermark) != truth);
            }
            let acked = self.acked.iter().filter(|a| a.0 == tp);
            self.found.lost += acked.filter(|a| !truth.iter().any(|b| b.0 == a.1 && b.2 == a.2)).count();
        }
        self.found.acked = self.acked.len();
        self.found
    }
}
