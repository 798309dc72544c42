//! A few brokers over prewritten logs, with a clock: enough of a leader to read from, and connections
//! that can break. Written apart from the model's broker, so that the two can disagree.

use model::base::{
    Addr, Batch, BrokerId, Domain, EventTime, LeaderEpoch, Marker, Millis, Offset, Port, ProcessId, ProducerEpoch,
    ProducerId, ProducerTag, Sequence, Stream, Streams, TopicPartition,
};
use model::kafka::ErrorCode;
use model::kafka::client::{ClusterView, Completed, Leader, Lost, Network, Outcome};
use model::kafka::log::{AbortedTxn, Entry, Isolation};
use model::kafka::messages::{
    FetchPartition, FetchReply, FetchRequest, FetchedPartition, ListOffsetsReply, OffsetSpec,
    OffsetsForLeaderEpochReply, Reply, Request,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const EPOCH: LeaderEpoch = LeaderEpoch(0);

/// A partition's log, all of it stable.
#[derive(Default)]
pub struct Log {
    pub entries: Vec<Entry>,
    /// Aborted transactions with the offset of their marker.
    aborted: Vec<(AbortedTxn, Offset)>,
    /// Offsets that a read_committed reader must see.
    pub committed: Vec<i64>,
    pub end: Offset,
}
impl Log {
    pub fn data(&mut self, producer: i64, records: u32, bytes: u32, transactional: bool, time: i64) -> Offset {
        let tag = ProducerTag { id: ProducerId(producer), epoch: ProducerEpoch(0), base_sequence: Sequence(0) };
        self.push(Batch::sized(records, bytes, tag, transactional, EventTime(time)))
    }
    /// Ends the transaction of `producer` that wrote `offsets`.
    pub fn marker(&mut self, producer: i64, commit: bool, offsets: &[i64]) {
        let marker = Marker { commit, coordinator_epoch: 0 };
        let at = self.push(Batch::marker(ProducerId(producer), ProducerEpoch(0), marker, EventTime(0)));
        match (commit, offsets.first()) {
            (true, _) => self.committed.extend(offsets),
            (false, Some(first)) => {
                self.aborted.push((AbortedTxn { producer: ProducerId(producer), first: Offset(*first) }, at))
            }
            (false, None) => {}
        }
    }
    pub fn push(&mut self, batch: Batch) -> Offset {
        let base = self.end;
        self.end = base.plus(i64::from(batch.records));
        self.entries.push(Entry { base, epoch: EPOCH, batch: Arc::new(batch) });
        base
    }
}

/// A fetch session as the broker keeps it; what returned data goes to the end.
struct Session {
    id: u32,
    epoch: i32,
    parts: Vec<FetchPartition>,
}

pub struct Cluster {
    pub view: ClusterView,
    pub logs: BTreeMap<TopicPartition, Log>,
    /// The truth about leaders, ahead of the client's view.
    pub leaders: BTreeMap<TopicPartition, Leader>,
    sessions: BTreeMap<BrokerId, Session>,
    next_session: u32,
    in_flight: Vec<(Millis, u64, Completed)>,
    sent: u32,
    metadata_at: Option<Millis>,
    pub stream: Stream,
    /// Of 1000 requests so many go wrong.
    pub fault_rate: u64,
    /// Round trip of each broker in ms, and bytes that it sends in one.
    pub round: BTreeMap<BrokerId, (i64, u32)>,
    busy_until: BTreeMap<BrokerId, Millis>,
    /// Brokers that took a fetch since this was last emptied.
    pub asked: Vec<BrokerId>,
}

impl Cluster {
    pub fn new(seed: u64, brokers: i32, partitions: u16) -> Self {
        let mut cluster = Self {
            view: ClusterView::default(),
            logs: BTreeMap::new(),
            leaders: BTreeMap::new(),
            sessions: BTreeMap::new(),
            next_session: 1,
            in_flight: Vec::new(),
            sent: 0,
            metadata_at: Some(Millis(0)),
            stream: Streams(seed).stream(Domain::Network, 0, "test"),
            fault_rate: 0,
            round: BTreeMap::new(),
            busy_until: BTreeMap::new(),
            asked: Vec::new(),
        };
        for id in 0..brokers {
            cluster.view.brokers.insert(BrokerId(id), Addr { process: ProcessId(id as u32), port: Port(0) });
            cluster.round.insert(BrokerId(id), (2, u32::MAX));
        }
        for p in 0..partitions {
            let leader = Leader { node: BrokerId(i32::from(p) % brokers), epoch: EPOCH };
            cluster.leaders.insert(TopicPartition::new(0, p), leader);
            cluster.logs.insert(TopicPartition::new(0, p), Log::default());
        }
        cluster
    }

    /// Moves the leadership of a partition; clients learn of it by errors.
    pub fn move_leader(&mut self, tp: TopicPartition) {
        let brokers = self.view.brokers.len() as i32;
        let leader = self.leaders.get_mut(&tp).expect("a partition");
        *leader = Leader { node: BrokerId((leader.node.0 + 1) % brokers), epoch: LeaderEpoch(leader.epoch.0 + 1) };
    }

    /// What the broker's session holds, by partition.
    pub fn session(&self, node: BrokerId) -> Option<Vec<FetchPartition>> {
        let mut parts = self.sessions.get(&node)?.parts.clone();
        parts.sort_by_key(|p| p.tp);
        Some(parts)
    }

    /// When the next thing comes back to the client.
    pub fn next_at(&self) -> Millis {
        let replies = self.in_flight.iter().map(|(at, ..)| *at);
        replies.chain(self.metadata_at).min().unwrap_or(Millis::MAX)
    }

    /// What has come back by `now`, in order.
    pub fn arrived(&mut self, now: Millis) -> Vec<Completed> {
        if self.metadata_at.take_if(|at| *at <= now).is_some() {
            self.view.version += 1;
            for (tp, leader) in &self.leaders {
                self.view.learn(*tp, *leader);
            }
        }
        self.in_flight.sort_by_key(|(at, n, _)| (*at, *n));
        let due = self.in_flight.partition_point(|(at, ..)| *at <= now);
        self.in_flight.drain(..due).map(|(.., done)| done).collect()
    }

    fn chance(&mut self) -> bool {
        self.fault_rate > 0 && self.stream.chance(self.fault_rate, 1000)
    }

    fn leader_error(&mut self, node: BrokerId, tp: TopicPartition, epoch: LeaderEpoch) -> ErrorCode {
        let leader = self.leaders[&tp];
        if self.chance() {
            let codes =
                [ErrorCode::KafkaStorageError, ErrorCode::OffsetNotAvailable, ErrorCode::UnknownTopicOrPartition];
            return codes[self.stream.below(3) as usize];
        }
        match epoch.cmp(&leader.epoch) {
            _ if leader.node != node => ErrorCode::NotLeaderOrFollower,
            std::cmp::Ordering::Less => ErrorCode::FencedLeaderEpoch,
            std::cmp::Ordering::Greater => ErrorCode::UnknownLeaderEpoch,
            std::cmp::Ordering::Equal => ErrorCode::None,
        }
    }

    fn read(&mut self, node: BrokerId, asked: &FetchPartition, committed: bool, budget: u32) -> FetchedPartition {
        let error = self.leader_error(node, asked.tp, asked.leader_epoch);
        let leader = self.leaders[&asked.tp];
        let log = &self.logs[&asked.tp];
        let limit = asked.max_bytes.min(budget);
        let first = log.entries.partition_point(|e| e.next() <= asked.offset);
        let (mut bytes, mut to) = (0, first);
        for entry in log.entries[first..].iter().filter(|_| error.is_ok()) {
            // The first batch of an answer is returned whatever its size.
            if bytes + entry.batch.bytes > limit && (bytes > 0 || budget != u32::MAX) {
                break;
            }
            bytes += entry.batch.bytes;
            to += 1;
        }
        let entries: Arc<[Entry]> = log.entries[first..to].into();
        let end = entries.last().map_or(asked.offset, Entry::next);
        let overlap = |(txn, last): &&(AbortedTxn, Offset)| committed && *last >= asked.offset && txn.first < end;
        let hint = error == ErrorCode::NotLeaderOrFollower && self.stream.chance(1, 2);
        FetchedPartition {
            tp: asked.tp,
            error,
            high_watermark: log.end,
            last_stable: log.end,
            log_start: Offset(0),
            diverging: None,
            aborted: log.aborted.iter().filter(overlap).map(|(txn, _)| *txn).collect(),
            entries,
            bytes,
            leader: hint.then_some((leader.node, leader.epoch)),
        }
    }

    /// Applies a fetch to the node's session; gives partitions to read and the reply's head.
    fn open(&mut self, node: BrokerId, f: &FetchRequest) -> Result<(u32, Vec<FetchPartition>), ErrorCode> {
        if f.session_epoch == -1 {
            return Ok((0, f.partitions.clone()));
        }
        if f.session_epoch == 0 {
            let session = Session { id: self.next_session, epoch: 1, parts: f.partitions.clone() };
            self.next_session += 1;
            self.sessions.insert(node, session);
            return Ok((self.next_session - 1, f.partitions.clone()));
        }
        if self.chance() {
            self.sessions.remove(&node);
        }
        let Some(session) = self.sessions.get_mut(&node).filter(|s| s.id == f.session) else {
            return Err(ErrorCode::FetchSessionIdNotFound);
        };
        if session.epoch != f.session_epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        session.epoch += 1;
        session.parts.retain(|p| !f.forget.contains(&p.tp));
        for asked in &f.partitions {
            match session.parts.iter_mut().find(|p| p.tp == asked.tp) {
                Some(held) => *held = *asked,
                None => session.parts.push(*asked),
            }
        }
        Ok((session.id, session.parts.clone()))
    }

    fn fetch(&mut self, node: BrokerId, f: &FetchRequest) -> (FetchReply, u32) {
        let (session, parts) = match self.open(node, f) {
            Ok(opened) => opened,
            Err(error) => return (FetchReply { error, session: 0, partitions: Vec::new() }, 1),
        };
        let full = f.session_epoch <= 0;
        let (mut partitions, mut total) = (Vec::new(), 0u32);
        for asked in &parts {
            let budget = if total == 0 { u32::MAX } else { f.max_bytes.saturating_sub(total) };
            let part = self.read(node, asked, f.isolation == Isolation::Committed, budget);
            total += part.bytes;
            let news = part.bytes > 0 || !part.error.is_ok();
            if let Some(session) = self.sessions.get_mut(&node).filter(|_| news)
                && let Some(at) = session.parts.iter().position(|p| p.tp == asked.tp)
            {
                let held = session.parts.remove(at);
                session.parts.push(held);
            }
            if full || news {
                partitions.push(part);
            }
        }
        let size = total.max(u32::from(partitions.iter().any(|p| !p.error.is_ok())));
        (FetchReply { error: ErrorCode::None, session, partitions }, size)
    }
}

impl Network for Cluster {
    fn ready(&mut self, node: BrokerId, now: Millis) -> bool {
        !self.unavailable(node, now)
    }
    fn poll_delay(&self, node: BrokerId, now: Millis) -> Millis {
        self.busy_until.get(&node).filter(|at| **at > now).map_or(Millis::MAX, |at| *at - now)
    }
    fn unavailable(&self, node: BrokerId, now: Millis) -> bool {
        self.busy_until.get(&node).is_some_and(|at| *at > now)
    }
    fn send(&mut self, node: BrokerId, body: Request, _expects_reply: bool, now: Millis) -> u32 {
        self.sent += 1;
        let (mut wait, per_round) = self.round[&node];
        let reply = match &body {
            Request::Fetch(f) => {
                self.asked.push(node);
                let (reply, size) = self.fetch(node, f);
                wait += if size == 0 { f.max_wait.0 } else { i64::from(size / per_round) * wait };
                Reply::Fetch(reply)
            }
            Request::ListOffsets(l) => {
                let asked = l.partitions.iter().copied();
                let found = asked.map(|(tp, spec, epoch)| {
                    let error = self.leader_error(node, tp, epoch);
                    let end = if spec == OffsetSpec::Latest { self.logs[&tp].end } else { Offset(0) };
                    (tp, error, end, EPOCH)
                });
                Reply::ListOffsets(ListOffsetsReply { partitions: found.collect() })
            }
            Request::OffsetsForLeaderEpoch(o) => {
                let asked = o.partitions.iter().copied();
                let found = asked.map(|(tp, epoch, current)| {
                    let error = self.leader_error(node, tp, current);
                    (tp, error, epoch, self.logs[&tp].end)
                });
                Reply::OffsetsForLeaderEpoch(OffsetsForLeaderEpochReply { partitions: found.collect() })
            }
            other => panic!("a consumer never sends {}", other.name()),
        };
        let outcome = if self.chance() {
            self.busy_until.insert(node, now + Millis(wait + 50));
            Outcome::Lost(Lost::Disconnected)
        } else {
            Outcome::Reply(reply)
        };
        let jitter = self.stream.below(wait as u64 / 4 + 1) as i64;
        let done = Completed { node, correlation: self.sent, sent_at: now, outcome };
        self.in_flight.push((now + Millis(wait + jitter), u64::from(self.sent), done));
        self.sent
    }
    fn in_flight(&self, node: BrokerId) -> usize {
        self.in_flight.iter().filter(|(.., done)| done.node == node).count()
    }
    fn least_loaded(&mut self, _now: Millis) -> Option<BrokerId> {
        Some(BrokerId(0))
    }
    fn request_update(&mut self, now: Millis) {
        self.metadata_at.get_or_insert(now + Millis(100));
    }
    fn update_requested(&self) -> bool {
        self.metadata_at.is_some()
    }
    fn view(&self) -> &ClusterView {
        &self.view
    }
    fn learn_leader(&mut self, tp: TopicPartition, leader: Leader) -> bool {
        self.view.learn(tp, leader)
    }
}
