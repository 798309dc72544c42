//! Three brokers with real partitions, fetchers and fetch purgatories; links, metadata and controller reduced to what
//! replication sees of them.

use super::super::{AlterPartitionManager, DelayedFetches, FetcherAction, FetcherConfig, Partitions, ReplicaFetcher};
use crate::base::{
    Batch, BrokerEpoch, BrokerId, BrokerSet, Domain, Event, EventTime, Fixes, LeaderEpoch, Millis, Offset,
    PartitionEpoch, ProducerTag, Stream, Streams, TopicPartition,
};
use crate::kafka::ErrorCode;
use crate::kafka::log::{Isolation, LogConfig, PartitionDisk, ReadLimit, UnifiedLog};
use crate::kafka::messages::{ListOffsetsReply, Reply, Request};
use crate::kafka::partition::{
    AlterPartition, AlterPartitionAnswer, BrokerState, BrokerTable, Partition, PartitionConfig, PartitionCx,
    PartitionMetadata, PartitionOutput, Produce,
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
    Shrink { node: BrokerId, life: u32 },
    Kill { node: BrokerId, silent: bool },
    Fence { node: BrokerId, life: u32 },
    Restart { node: BrokerId },
}
struct Node {
    life: u32,
    alive: bool,
    epoch: BrokerEpoch,
    partitions: Partitions,
    fetches: DelayedFetches,
    fetchers: BTreeMap<BrokerId, ReplicaFetcher>,
    links: BTreeMap<BrokerId, u64>,
    brokers: BrokerTable,
    alter: AlterPartitionManager,
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
fn cx_parts(node: &mut Node, now: Millis) -> (PartitionCxParts<'_>, &mut Partitions, &mut DelayedFetches) {
    let Node { partitions, fetches, brokers, alter, epoch, fetchers, .. } = node;
    (PartitionCxParts { now, epoch: *epoch, brokers, alter, fetchers }, partitions, fetches)
}
struct PartitionCxParts<'a> {
    now: Millis,
    epoch: BrokerEpoch,
    brokers: &'a BrokerTable,
    alter: &'a mut AlterPartitionManager,
    fetchers: &'a mut BTreeMap<BrokerId, ReplicaFetcher>,
}
impl PartitionCxParts<'_> {
    fn cx<'b>(&'b mut self, out: &'b mut Vec<PartitionOutput>) -> PartitionCx<'b> {
        PartitionCx { now: self.now, broker_epoch: self.epoch, brokers: self.brokers, alter: self.alter, out }
    }
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
            let node = Node {
                life: 0,
                alive: false,
                epoch: BrokerEpoch(0),
                partitions: Partitions::default(),
                fetches: DelayedFetches::new(streams.stream(Domain::Process, id.0 as u64, "sessions"), fixes),
                fetchers: BTreeMap::new(),
                links: BTreeMap::new(),
                brokers: BrokerTable::default(),
                alter: AlterPartitionManager::default(),
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
        let node = &mut self.nodes[at(id)];
        node.alive = true;
        node.life += 1;
        node.epoch = self.image.brokers.get(id).unwrap().epoch;
        node.partitions = Partitions::default();
        let config = PartitionConfig { min_insync_replicas: 2, ..PartitionConfig::default() };
        for tp in self.image.partitions.keys() {
            let disk = node.disks.entry(*tp).or_default();
            let log = UnifiedLog::open(disk, false, now, LogConfig::default(), fixes);
            node.partitions.insert(Partition::new(*tp, id, config, log, None, fixes));
        }
        let life = node.life;
        self.publish_to(id);
        self.schedule(15_000, Happening::Shrink { node: id, life });
    }
    fn kill(&mut self, id: BrokerId, silent: bool) {
        let node = &mut self.nodes[at(id)];
        node.alive = false;
        let life = node.life;
        let seed = self.random.bits();
        let node = &mut self.nodes[at(id)];
        node.fetches = DelayedFetches::new(Streams(seed).stream(Domain::Process, id.0 as u64, "sessions"), self.fixes);
        node.fetchers.clear();
        node.links.clear();
        node.asked.clear();
        node.alter = AlterPartitionManager::default();
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

    /// Runs one call on a living node and whatever follows of it.
    fn on(
        &mut self,
        id: BrokerId,
        f: impl FnOnce(&mut PartitionCxParts<'_>, &mut Partitions, &mut DelayedFetches, &mut Vec<PartitionOutput>),
    ) {
        let now = self.now;
        let mut out = Vec::new();
        let (mut parts, partitions, fetches) = cx_parts(&mut self.nodes[at(id)], now);
        f(&mut parts, partitions, fetches, &mut out);
        self.follow(id, out);
        self.drive(id);
    }
    fn follow(&mut self, id: BrokerId, mut out: Vec<PartitionOutput>) {
        while !out.is_empty() {
            let mut more = Vec::new();
            for output in out {
                match output {
                    PartitionOutput::CheckFetches(tp) => {
                        let (mut parts, partitions, fetches) = cx_parts(&mut self.nodes[at(id)], self.now);
                        for answer in fetches.check(tp, partitions, &mut parts.cx(&mut more)) {
                            self.answer(id, answer.token, Reply::Fetch(answer.reply));
                        }
                    }
                    PartitionOutput::Produced { token, answer } => {
                        if let Some((tp, content)) = self.pending.remove(&token)
                            && answer.error.is_ok()
                        {
                            self.acked.push((tp, answer.base, content));
                        }
                    }
                    PartitionOutput::Emit(Event::Truncated { to, high_watermark, .. }) => {
                        self.found.truncations += 1;
                        self.found.cut_below_high_watermark += usize::from(to < high_watermark);
                    }
                    _ => {}
                }
            }
            out = more;
        }
        let (now, life) = (self.now, self.nodes[at(id)].life);
        if let Some(changes) = self.nodes[at(id)].alter.poll(now) {
            let after = self.draw(1, 60);
            self.schedule(after, Happening::Alter { from: id, life, changes });
        }
        let node = &mut self.nodes[at(id)];
        for p in node.partitions.iter_mut() {
            let disk = node.disks.entry(p.tp()).or_default();
            p.log_mut().take_writes().iter().for_each(|w| disk.apply(w));
        }
    }
    fn answer(&mut self, server: BrokerId, token: u64, body: Reply) {
        if let Some((node, link, correlation)) = self.nodes[at(server)].asked.remove(&token) {
            let after = self.draw(1, 20);
            self.schedule(after, Happening::Reply { node, source: server, link, correlation, body });
        }
    }
    fn drive(&mut self, id: BrokerId) {
        let sources: Vec<_> = self.nodes[at(id)].fetchers.keys().copied().collect();
        for source in sources {
            let mut out = Vec::new();
            let (mut parts, partitions, _) = cx_parts(&mut self.nodes[at(id)], self.now);
            let fetchers = std::mem::take(parts.fetchers);
            let mut fetchers = fetchers;
            let actions = fetchers.get_mut(&source).unwrap().poll(partitions, &mut parts.cx(&mut out));
            *parts.fetchers = fetchers;
            for action in actions {
                self.act(id, source, action);
            }
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
        let now = self.now;
        match what {
            Happening::Up { node, source, link } if self.linked(node, source, link) => {
                let fetcher = self.nodes[at(node)].fetchers.get_mut(&source);
                for action in fetcher.map(|f| f.on_up(now)).unwrap_or_default() {
                    self.act(node, source, action);
                }
            }
            Happening::Down { node, source, link } if self.linked(node, source, link) => {
                self.nodes[at(node)].links.remove(&source);
                if let Some(f) = self.nodes[at(node)].fetchers.get_mut(&source) {
                    f.on_down(now);
                }
                self.drive(node);
            }
            Happening::Request { node, source, link, correlation, body } if self.nodes[at(source)].alive => {
                self.next += 1;
                let token = self.next;
                self.nodes[at(source)].asked.insert(token, (node, link, correlation));
                let mut reply = None;
                self.on(source, |parts, partitions, fetches, out| match body {
                    Request::Fetch(fetch) => {
                        reply = fetches.fetch(token, &fetch, partitions, &mut parts.cx(out)).map(Reply::Fetch);
                    }
                    Request::ListOffsets(list) => {
                        let answers = list.partitions.iter().map(|(tp, spec, epoch)| {
                            let p = partitions.get(*tp).unwrap();
                            match p.list_offset(*spec, list.isolation, *epoch, true) {
                                Ok((offset, epoch)) => (*tp, ErrorCode::None, offset, epoch),
                                Err(e) => (*tp, e, Offset::UNKNOWN, LeaderEpoch::UNKNOWN),
                            }
                        });
                        reply = Some(Reply::ListOffsets(ListOffsetsReply { partitions: answers.collect() }));
                    }
                    _ => unreachable!("a fetcher asks nothing else"),
                });
                if let Some(reply) = reply {
                    self.answer(source, token, reply);
                }
            }
            Happening::Reply { node, source, link, correlation, body } if self.linked(node, source, link) => {
                self.on(node, |parts, partitions, _, out| {
                    let Some(mut fetcher) = parts.fetchers.remove(&source) else { return };
                    fetcher.on_reply(correlation, &body, partitions, &mut parts.cx(out));
                    parts.fetchers.insert(source, fetcher);
                });
            }
            Happening::Alter { from, life, changes } => {
                let answers = changes.iter().map(|c| self.decide(c)).collect();
                self.publish();
                let after = self.draw(1, 60);
                self.schedule(after, Happening::Altered { to: from, life, answers });
            }
            Happening::Altered { to, life, answers } if self.is(to, life) => {
                let decided = self.nodes[at(to)].alter.on_answer(now, ErrorCode::None, &answers);
                for (asked, answer) in decided {
                    self.on(to, |parts, partitions, _, out| {
                        let partition = partitions.get_mut(asked.tp).unwrap();
                        partition.on_alter_answer(&asked, &answer, &mut parts.cx(out));
                    });
                }
            }
            Happening::Metadata { to, life, image } if self.is(to, life) => self.apply(to, &image),
            Happening::Produce => {
                self.produce();
                let after = self.draw(20, 400);
                self.schedule(after, Happening::Produce);
            }
            Happening::Shrink { node, life } if self.is(node, life) => {
                self.on(node, |parts, partitions, _, out| {
                    partitions.iter_mut().for_each(|p| p.maybe_shrink_isr(&mut parts.cx(out)));
                });
                self.schedule(15_000, Happening::Shrink { node, life });
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
        let seed = self.random.bits();
        self.nodes[at(id)].brokers = image.brokers.clone();
        self.on(id, |parts, partitions, _, out| {
            for (tp, r) in &image.partitions {
                let metadata = PartitionMetadata {
                    leader: r.leader,
                    leader_epoch: r.leader_epoch,
                    partition_epoch: r.partition_epoch,
                    isr: r.isr,
                    replicas: &r.replicas,
                };
                let partition = partitions.get_mut(*tp).unwrap();
                if r.leader == id {
                    parts.fetchers.values_mut().for_each(|f| f.remove(*tp));
                    partition.make_leader(&metadata, &mut parts.cx(out));
                } else if partition.make_follower(&metadata, &mut parts.cx(out)) {
                    parts.fetchers.values_mut().for_each(|f| f.remove(*tp));
                    if r.leader == BrokerId::NONE {
                        continue;
                    }
                    let start = partition.start_following(&mut parts.cx(out));
                    let fetcher = parts.fetchers.entry(r.leader).or_insert_with(|| {
                        let jitter = Streams(seed).stream(Domain::Process, r.leader.0 as u64, "connect");
                        ReplicaFetcher::new(id, r.leader, FetcherConfig::default(), jitter)
                    });
                    fetcher.add(*tp, r.leader_epoch, start);
                }
            }
            parts.fetchers.retain(|_, f| !f.is_idle());
        });
        let Node { fetchers, links, .. } = &mut self.nodes[at(id)];
        links.retain(|source, _| fetchers.contains_key(source));
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
        self.on(leader, |parts, partitions, _, out| {
            let partition = partitions.get_mut(tp).unwrap();
            let how = Produce::client(token, -1, Millis(30_000));
            let _ = partition.produce(&Arc::new(batch), &how, &mut parts.cx(out));
        });
    }

    pub fn run_until(&mut self, end: Millis) {
        loop {
            let timer = self.nodes.iter().enumerate().filter(|(_, n)| n.alive).flat_map(|(i, n)| {
                let own = n.fetches.deadline().into_iter().chain(n.partitions.iter().filter_map(Partition::deadline));
                own.chain(n.fetchers.values().filter_map(ReplicaFetcher::deadline)).map(move |d| (d, i))
            });
            let timer = timer.min();
            let event = self.queue.keys().next().copied();
            match (timer, event) {
                (Some((d, i)), e) if e.is_none_or(|(t, _)| d < t) && d <= end => {
                    self.now = self.now.max(d);
                    self.timers(BrokerId(i as i32 + 1));
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
    fn timers(&mut self, id: BrokerId) {
        let mut answers = Vec::new();
        self.on(id, |parts, partitions, fetches, out| {
            partitions.iter_mut().for_each(|p| p.expire(&mut parts.cx(out)));
            answers = fetches.expire(partitions, &mut parts.cx(out));
        });
        answers.into_iter().for_each(|a| self.answer(id, a.token, Reply::Fetch(a.reply)));
    }

    fn batches(&mut self, id: BrokerId, tp: TopicPartition, below: Offset) -> Vec<(Offset, LeaderEpoch, u64)> {
        let log = self.nodes[at(id)].partitions.get_mut(tp).unwrap().log_mut();
        let limit = ReadLimit { max_bytes: u32::MAX, min_one: true, high_watermark_seen: None };
        let read = log.read(log.start(), Isolation::LogEnd, &limit).unwrap();
        let entries = read.entries.iter().filter(|e| e.base < below);
        entries.map(|e| (e.base, e.epoch, e.batch.content)).collect()
    }
    pub fn judge(mut self) -> Found {
        for p in 0..PARTITIONS {
            let tp = TopicPartition::new(0, p);
            let leader = self.image.partitions[&tp].leader;
            let high_watermark = self.nodes[at(leader)].partitions.get(tp).unwrap().log().high_watermark();
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
