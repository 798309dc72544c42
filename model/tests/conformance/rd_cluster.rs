//! The scripted broker set of the librdkafka recordings: three nodes that answer at once unless told otherwise.
//!
//! It only plays the other side: everything a client does is the model's own producer.

use model::base::{
    Addr, Batch, BrokerId, LeaderEpoch, Millis, Offset, Port, ProcessId, ProducerEpoch, ProducerId, Row, Stream,
    TopicId, TopicPartition,
};
use model::kafka::ErrorCode;
use model::kafka::client::rdkafka::{Link, NetAction, NetInput, ProducerEvent, RdProducer};
use model::kafka::messages::{
    BrokerInfo, InitProducerIdReply, MetadataReply, PartitionInfo, ProduceReply, ProducedPartition, Reply, Request,
};
use model::kafka::txn_messages::{CoordinatorKey, CoordinatorReply, CoordinatorRequest};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub const PARTITIONS: u16 = 6;
/// The record of a commit marker, and of an abort marker.
pub const COMMIT: i64 = -1;
pub const ABORT: i64 = -2;

/// The listener of a node.
pub fn addr(node: i32) -> Addr {
    Addr { process: ProcessId(node as u32), port: Port(0) }
}
fn node_of(addr: Addr) -> i32 {
    addr.process.0 as i32
}

/// What a node does to new connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    Up,
    Refuse,
    Drop,
}

/// How a request is answered.
#[derive(Clone, Debug)]
pub struct Scripted {
    pub error: String,
    pub delay: i64,
}

enum Happening {
    Net(NetInput),
    /// A request reaches its broker.
    Arrive(Link, u32, Request),
    /// The broker closes a connection.
    Cut(Link),
    /// A SYN that was dropped is sent again.
    Syn(Link, i32, usize),
}

/// A request as the brokers saw it.
pub struct Seen {
    pub at: Millis,
    pub node: i32,
    pub request: Request,
    pub answer: String,
}

#[derive(Default, Clone)]
struct ProducerLog {
    epoch: i16,
    next: i32,
    window: VecDeque<(i32, i32, i64)>,
}

pub struct Cluster {
    pub now: Millis,
    pub producer: RdProducer,
    pub reach: [Reach; 3],
    /// Listed in metadata.
    pub listed: [bool; 3],
    pub leaders: Vec<i32>,
    pub leader_epoch: Vec<i32>,
    pub txn_coordinator: i32,
    pub group_coordinator: i32,
    /// One-way latency of node and client together, ms.
    pub latency: i64,
    /// Leaders look at sequence numbers.
    pub checks: bool,
    /// A real broker: batches above this size are refused, and ends of transactions write markers.
    pub real: Option<u32>,
    registered: BTreeSet<TopicPartition>,
    /// Decides races; without it answers that were held up arrive together.
    pub race: Option<Stream>,
    pub script: BTreeMap<(String, usize), Scripted>,
    pub all: BTreeMap<String, String>,
    counts: BTreeMap<String, usize>,
    pub seen: Vec<Seen>,
    pub events: Vec<(Millis, ProducerEvent)>,
    pub connects: Vec<(Millis, i32)>,
    pub last_activity: Millis,
    queue: BTreeMap<(Millis, u64), Happening>,
    order: u64,
    links: BTreeMap<Link, (i32, Millis)>,
    pub log: BTreeMap<TopicPartition, Vec<Vec<Row>>>,
    state: BTreeMap<(TopicPartition, ProducerId), ProducerLog>,
}

impl Cluster {
    pub fn new(producer: RdProducer) -> Self {
        Self {
            now: Millis::ZERO,
            producer,
            reach: [Reach::Up; 3],
            listed: [true; 3],
            leaders: (0..PARTITIONS).map(|p| i32::from(p) % 3).collect(),
            leader_epoch: vec![0; PARTITIONS as usize],
            txn_coordinator: 1,
            group_coordinator: 2,
            latency: 1,
            checks: true,
            real: None,
            registered: BTreeSet::new(),
            race: None,
            script: BTreeMap::new(),
            all: BTreeMap::new(),
            counts: BTreeMap::new(),
            seen: Vec::new(),
            events: Vec::new(),
            connects: Vec::new(),
            last_activity: Millis::ZERO,
            queue: BTreeMap::new(),
            order: 0,
            links: BTreeMap::new(),
            log: BTreeMap::new(),
            state: BTreeMap::new(),
        }
    }

    /// Scripts the next request of an api.
    pub fn script_next(&mut self, api: &str, scripted: Scripted) {
        let next = self.counts.get(api).map_or(0, |n| n + 1);
        self.script.insert((api.to_owned(), next), scripted);
    }
    fn push(&mut self, at: Millis, what: Happening) {
        self.order += 1;
        self.queue.insert((at, self.order), what);
    }

    /// Goes to the next instant at which something is due, at most to `until`; false when `until` is reached.
    pub fn step(&mut self, until: Millis) -> bool {
        let due = self.producer.deadline(self.now).max(self.now + Millis(1));
        let next = self.queue.keys().next().map_or(due, |(at, _)| (*at).min(due));
        if next > until {
            self.now = until;
            return false;
        }
        self.now = self.now.max(next);
        while let Some(((at, order), _)) = self.queue.first_key_value() {
            let (at, order) = (*at, *order);
            if at > self.now {
                break;
            }
            match self.queue.remove(&(at, order)) {
                Some(Happening::Net(input)) => {
                    if let NetInput::Reply { body, .. } = &input
                        && !matches!(body, Reply::Metadata(_) | Reply::ApiVersions(_))
                    {
                        self.last_activity = self.now;
                    }
                    self.producer.input(input, self.now);
                }
                Some(Happening::Arrive(link, correlation, body)) => self.arrive(link, correlation, body),
                Some(Happening::Syn(link, node, tries)) => match self.reach[node as usize] {
                    Reach::Up => {
                        self.links.insert(link, (node, self.now));
                        self.producer.input(NetInput::Up(link), self.now);
                    }
                    Reach::Refuse => self.producer.input(NetInput::Lost(link), self.now),
                    Reach::Drop => self.syn(link, node, tries),
                },
                Some(Happening::Cut(link)) => {
                    self.links.remove(&link);
                    self.last_activity = self.now;
                    self.producer.input(NetInput::Lost(link), self.now);
                }
                None => {}
            }
        }
        self.work();
        true
    }
    /// Lets the producer work and takes what it wants.
    pub fn work(&mut self) {
        self.producer.poll(self.now);
        for action in self.producer.take_actions() {
            self.act(action);
        }
        while let Some(event) = self.producer.poll_event() {
            self.last_activity = self.now;
            self.events.push((self.now, event));
        }
    }
    fn act(&mut self, action: NetAction) {
        let lag = Millis(self.latency);
        match action {
            NetAction::Open { link, to } => {
                let node = node_of(to);
                self.connects.push((self.now, node));
                match self.reach[node as usize] {
                    Reach::Up => {
                        self.links.insert(link, (node, self.now));
                        self.push(self.now + lag, Happening::Net(NetInput::Up(link)));
                    }
                    Reach::Refuse => self.push(self.now + lag, Happening::Net(NetInput::Lost(link))),
                    Reach::Drop => self.syn(link, node, 0),
                }
            }
            NetAction::Close(link) => {
                self.links.remove(&link);
            }
            NetAction::Send { link, correlation, body } => {
                self.push(self.now + lag, Happening::Arrive(link, correlation, body));
            }
        }
    }

    /// Linux sends an unanswered SYN again: five times a second (of 1024 ms, by its timer wheel) apart, then doubling
    /// (`tcp_syn_linear_timeouts` 4).
    fn syn(&mut self, link: Link, node: i32, tries: usize) {
        const AGAIN: [i64; 8] = [1_024, 1_024, 1_024, 1_024, 1_024, 2_048, 4_096, 8_192];
        if let Some(wait) = AGAIN.get(tries) {
            self.push(self.now + Millis(*wait), Happening::Syn(link, node, tries + 1));
        }
    }

    /// Closes every connection of a node, as its kernel does when the process dies.
    /// The client notices each within a few ms if races are drawn, else all at once.
    pub fn cut(&mut self, node: i32) {
        let gone: Vec<Link> = self.links.iter().filter(|(_, (n, _))| *n == node).map(|(l, _)| *l).collect();
        for link in gone {
            self.links.remove(&link);
            let late = self.race.as_mut().map_or(0, |r| r.below(4) as i64);
            self.push(self.now + Millis(late), Happening::Net(NetInput::Lost(link)));
        }
    }

    fn arrive(&mut self, link: Link, correlation: u32, body: Request) {
        let Some((node, free)) = self.links.get(&link).copied() else { return };
        let api = api_of(&body);
        let script = api.and_then(|api| {
            let k = *self.counts.entry(api.to_owned()).and_modify(|n| *n += 1).or_insert(0);
            let all = self.all.get(api).map(|error| Scripted { error: error.clone(), delay: 0 });
            self.script.get(&(api.to_owned(), k)).cloned().or(all)
        });
        let script = script.unwrap_or(Scripted { error: "NONE".into(), delay: 0 });
        let (answer, reply) = self.answer(node, &body, &script.error);
        if !matches!(body, Request::Metadata(_) | Request::ApiVersions) {
            self.last_activity = self.now;
        }
        self.seen.push(Seen { at: self.now, node, request: body, answer });
        let mut at = self.now + Millis(script.delay + self.latency);
        if free >= at {
            // Answers keep their order. One that had to wait for another leaves right behind it; whether the client finds
            // both in its socket at once is a race.
            at = free + Millis(self.race.as_mut().map_or(0, |r| r.below(2) as i64));
        }
        if let Some(l) = self.links.get_mut(&link) {
            l.1 = at;
        }
        match script.error.trim_start_matches('+') {
            "SILENT" => {}
            "DISC" => self.push(at, Happening::Cut(link)),
            _ => self.push(at, Happening::Net(NetInput::Reply { link, correlation, body: reply })),
        }
        // What is answered on a connection that was cut before is lost: the queue holds it, the client ignores it.
    }

    fn answer(&mut self, node: i32, body: &Request, scripted: &str) -> (String, Reply) {
        let plain = scripted.trim_start_matches('+');
        let error = match plain {
            "DISC" | "SILENT" => ErrorCode::None,
            "INVALID_TOPIC" => ErrorCode::InvalidTopic,
            name => ErrorCode::from_name(name).unwrap_or(ErrorCode::UnknownServerError),
        };
        let reply = match body {
            Request::ApiVersions => Reply::ApiVersions(None),
            Request::Metadata(m) => Reply::Metadata(self.metadata(m.topics.as_deref().unwrap_or(&[]))),
            Request::InitProducerId(_) => Reply::InitProducerId(InitProducerIdReply {
                error,
                producer: ProducerId(1001),
                epoch: ProducerEpoch(0),
            }),
            Request::Produce(p) => {
                let mut shown = scripted.to_owned();
                let mut partitions = Vec::new();
                for (tp, batch) in &p.batches {
                    self.log.entry(*tp).or_default();
                    let (mut code, mut base) = (error, Offset::UNKNOWN);
                    if self.real.is_some_and(|limit| batch.bytes > limit) {
                        code = ErrorCode::MessageTooLarge;
                        shown = code.name().to_owned();
                    } else if scripted == "NONE" && self.leaders[tp.partition as usize] != node {
                        code = ErrorCode::NotLeaderOrFollower;
                        shown = code.name().to_owned();
                    } else if scripted == "NONE" || scripted.starts_with('+') {
                        match self.append(*tp, batch) {
                            Ok(offset) => base = offset,
                            Err(e) => {
                                code = e;
                                shown = format!("{}{e}", if scripted.starts_with('+') { "+" } else { "" });
                            }
                        }
                    }
                    let log_start = Offset(0);
                    partitions.push(ProducedPartition { tp: *tp, error: code, base, log_start, leader: None });
                }
                return (shown, Reply::Produce(ProduceReply { partitions }));
            }
            Request::Coordinator(c) => Reply::Coordinator(match c {
                CoordinatorRequest::Find(key) => {
                    let node = match key {
                        CoordinatorKey::Transaction(_) => self.txn_coordinator,
                        CoordinatorKey::Group(_) => self.group_coordinator,
                    };
                    CoordinatorReply::Find { error, node: BrokerId(node), addr: Some(addr(node)) }
                }
                CoordinatorRequest::InitProducerId { producer, epoch, .. } => CoordinatorReply::InitProducerId {
                    error,
                    producer: if *producer == ProducerId::NONE { ProducerId(1000) } else { *producer },
                    epoch: ProducerEpoch(if *producer == ProducerId::NONE { 0 } else { epoch.0 + 1 }),
                },
                CoordinatorRequest::AddPartitions { partitions, .. } => {
                    self.registered.extend(partitions.iter().copied());
                    CoordinatorReply::AddPartitions(partitions.iter().map(|tp| (*tp, error)).collect())
                }
                CoordinatorRequest::AddOffsets { .. } => CoordinatorReply::AddOffsets(error),
                CoordinatorRequest::TxnOffsetCommit { offsets, .. } => {
                    CoordinatorReply::TxnOffsetCommit(offsets.iter().map(|(tp, _)| (*tp, error)).collect())
                }
                CoordinatorRequest::EndTxn { commit, .. } => {
                    if self.real.is_some() {
                        let marker = Row { cols: [if *commit { COMMIT } else { ABORT }, 0, 0, 0], ..Row::default() };
                        for tp in std::mem::take(&mut self.registered) {
                            self.log.entry(tp).or_default().push(vec![marker]);
                        }
                    }
                    CoordinatorReply::EndTxn { error, producer: ProducerId::NONE, epoch: ProducerEpoch::NONE }
                }
            }),
            other => panic!("a producer does not send {}", other.name()),
        };
        (scripted.to_owned(), reply)
    }
    fn metadata(&self, topics: &[TopicId]) -> MetadataReply {
        let brokers: Vec<BrokerInfo> = (0..3)
            .filter(|n| self.listed[*n as usize])
            .map(|n| BrokerInfo { id: BrokerId(n), addr: addr(n) })
            .collect();
        let mut partitions = Vec::new();
        for topic in topics {
            for (p, leader) in self.leaders.iter().enumerate() {
                let none = *leader < 0;
                partitions.push(PartitionInfo {
                    tp: TopicPartition { topic: *topic, partition: p as u16 },
                    error: if none { ErrorCode::LeaderNotAvailable } else { ErrorCode::None },
                    leader: BrokerId(*leader),
                    epoch: LeaderEpoch(self.leader_epoch[p]),
                });
            }
        }
        MetadataReply { brokers: brokers.into(), partitions: partitions.into(), unknown: [].into() }
    }

    /// The sequence check of a leader: epoch, window of five, gap.
    fn append(&mut self, tp: TopicPartition, batch: &Batch) -> Result<Offset, ErrorCode> {
        let tag = batch.producer;
        let end = self.log.get(&tp).map_or(0, |l| l.iter().map(|b| b.len() as i64).sum());
        if tag.id != ProducerId::NONE && self.checks {
            let known = self.state.contains_key(&(tp, tag.id));
            let s = self.state.entry((tp, tag.id)).or_default();
            let (first, last) = (tag.base_sequence.0, batch.last_sequence().0);
            if known && tag.epoch.0 < s.epoch {
                return Err(ErrorCode::InvalidProducerEpoch);
            }
            if known && tag.epoch.0 == s.epoch {
                if let Some((_, _, offset)) = s.window.iter().find(|(f, l, _)| (*f, *l) == (first, last)) {
                    return Ok(Offset(*offset));
                }
                if first != s.next {
                    return Err(ErrorCode::OutOfOrderSequenceNumber);
                }
            } else if first != 0 {
                return Err(ErrorCode::OutOfOrderSequenceNumber);
            }
            if tag.epoch.0 != s.epoch {
                s.window.clear();
            }
            s.epoch = tag.epoch.0;
            s.next = last.wrapping_add(1) & i32::MAX;
            s.window.push_back((first, last, end));
            if s.window.len() > 5 {
                s.window.pop_front();
            }
        }
        self.log.entry(tp).or_default().push(batch.rows.to_vec());
        Ok(Offset(end))
    }
}

/// The recordings' name of the api of a request.
pub fn api_of(body: &Request) -> Option<&'static str> {
    Some(match body {
        Request::Produce(_) => "produce",
        Request::InitProducerId(_) => "init",
        Request::Coordinator(c) => match c {
            CoordinatorRequest::Find(CoordinatorKey::Transaction(_)) => "find_txn",
            CoordinatorRequest::Find(CoordinatorKey::Group(_)) => "find_group",
            CoordinatorRequest::InitProducerId { .. } => "init",
            CoordinatorRequest::AddPartitions { .. } => "add_partitions",
            CoordinatorRequest::AddOffsets { .. } => "add_offsets",
            CoordinatorRequest::TxnOffsetCommit { .. } => "txn_offset_commit",
            CoordinatorRequest::EndTxn { commit: true, .. } => "end_commit",
            CoordinatorRequest::EndTxn { commit: false, .. } => "end_abort",
        },
        _ => return None,
    })
}
