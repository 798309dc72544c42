//! Three brokers without replication: what a producer can see of them, and no more.

use super::{In, addr};
use crate::base::{
    Addr, Batch, BrokerId, ConnEvent, ConnId, Input, LeaderEpoch, Nanos, Offset, Port, ProcessId, ProducerEpoch,
    ProducerId, Sequence, SimTime, TopicPartition,
};
use crate::kafka::ErrorCode;
use crate::kafka::messages::{
    BrokerInfo, InitProducerIdReply, Message, MetadataReply, PartitionInfo, ProduceReply, ProducedPartition, Reply,
    Request,
};
use crate::kafka::txn_messages::{CoordinatorReply, CoordinatorRequest};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What a dead broker does to new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum New {
    Refuse,
    Drop,
    /// Connects, never answers.
    Freeze,
}

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Its connections end; its partitions go to the next broker after a while.
    Kill(i32, New),
    /// It serves again.
    Restore(i32),
    /// Its requests are carried out, its answers vanish, as do all later ones on a connection that lost one.
    Mute(i32),
    /// A partition moves, unless its leader is mute: answers on their way would be lost for good.
    Move(u16, i32),
    /// A partition moves in any case.
    MoveFrom(u16, i32),
    /// The next batch of the partition is refused, appended (`true`) or not.
    Refuse(u16, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Alive,
    Mute,
    Dead(New),
}

/// The last five batches: first and last sequence, offset.
type Window = VecDeque<(Sequence, Sequence, i64)>;

/// One partition: its leader, its records, and the producer state by rules P-3, P-6, P-9, P-10.
#[derive(Debug, Default)]
struct Partition {
    leader: i32,
    epoch: i32,
    refuse: VecDeque<bool>,
    producer: Option<(ProducerEpoch, Window)>,
    pub rows: Vec<i64>,
}

#[derive(Debug)]
pub struct Brokers {
    states: [State; 3],
    parts: Vec<Partition>,
    conns: BTreeMap<ConnId, i32>,
    silent: BTreeSet<ConnId>,
    queue: BTreeMap<(SimTime, u64), In>,
    order: u64,
    producers: i64,
    /// Transactions that were ended: true for a commit.
    pub ended: Vec<bool>,
}

const HOP: Nanos = Nanos::millis(1);

impl Brokers {
    pub fn new(partitions: u16) -> Self {
        let part = |p: u16| Partition { leader: i32::from(p) % 3, ..Partition::default() };
        Self {
            states: [State::Alive; 3],
            parts: (0..partitions).map(part).collect(),
            conns: BTreeMap::new(),
            silent: BTreeSet::new(),
            queue: BTreeMap::new(),
            order: 0,
            producers: 0,
            ended: Vec::new(),
        }
    }
    pub fn addresses(&self) -> Arc<[Addr]> {
        (0..3).map(addr).collect()
    }
    pub fn partitions(&self) -> u16 {
        self.parts.len() as u16
    }
    pub fn rows(&self, partition: u16) -> &[i64] {
        &self.parts[usize::from(partition)].rows
    }
    pub fn connections(&self) -> usize {
        self.conns.len()
    }
    pub fn next(&self) -> Option<SimTime> {
        self.queue.keys().next().map(|(at, _)| *at)
    }
    pub fn take(&mut self, now: SimTime) -> Vec<In> {
        let later = self.queue.split_off(&(now + Nanos(1), 0));
        std::mem::replace(&mut self.queue, later).into_values().collect()
    }
    fn push(&mut self, at: SimTime, input: In) {
        self.order += 1;
        self.queue.insert((at, self.order), input);
    }
    fn state(&self, node: i32) -> State {
        self.states[node as usize]
    }
    pub fn open(&mut self, conn: ConnId, to: Addr, now: SimTime) {
        let node = to.process.0 as i32;
        let event = match self.state(node) {
            State::Dead(New::Drop) => return,
            State::Dead(New::Refuse) => ConnEvent::Refused,
            State::Alive | State::Mute | State::Dead(New::Freeze) => {
                self.conns.insert(conn, node);
                ConnEvent::Up
            }
        };
        self.push(now + HOP, Input::Connection(conn, event));
    }
    pub fn close(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
        self.queue.retain(
            |_, input| !matches!(input, Input::Connection(c, _) | Input::Message { conn: c, .. } if *c == conn),
        );
    }
    pub fn strike(&mut self, fault: Fault, now: SimTime) {
        match fault {
            Fault::Kill(node, new) => {
                self.states[node as usize] = State::Dead(new);
                let gone: Vec<ConnId> = self.conns.iter().filter(|(_, n)| **n == node).map(|(c, _)| *c).collect();
                for conn in gone {
                    self.close(conn);
                    self.push(now, Input::Connection(conn, ConnEvent::Reset));
                }
                for p in self.parts.iter_mut().filter(|p| p.leader == node) {
                    p.leader = (node + 1) % 3;
                    p.epoch += 1;
                }
            }
            Fault::Restore(node) => self.states[node as usize] = State::Alive,
            Fault::Mute(node) => self.states[node as usize] = State::Mute,
            Fault::Move(partition, _) if self.state(self.parts[usize::from(partition)].leader) == State::Mute => {}
            Fault::Move(partition, node) | Fault::MoveFrom(partition, node) => {
                let p = &mut self.parts[usize::from(partition)];
                p.epoch += 1;
                p.leader = node;
            }
            Fault::Refuse(partition, appended) => {
                self.parts[usize::from(partition)].refuse.push_back(appended);
            }
        }
    }
    pub fn send(&mut self, conn: ConnId, message: Message, now: SimTime) {
        let Some(node) = self.conns.get(&conn).copied() else { return };
        let Message::Request { correlation, body } = message else { return };
        if matches!(self.state(node), State::Dead(_)) {
            return;
        }
        let body = match body {
            Request::ApiVersions => Reply::ApiVersions(None),
            Request::Metadata(_) => Reply::Metadata(self.metadata()),
            Request::InitProducerId(_) => {
                self.producers += 1;
                let (producer, epoch) = (ProducerId(self.producers), ProducerEpoch(0));
                Reply::InitProducerId(InitProducerIdReply { error: ErrorCode::None, producer, epoch })
            }
            Request::Produce(p) => {
                let partitions = p.batches.iter().map(|(tp, batch)| self.produce(node, *tp, batch)).collect();
                Reply::Produce(ProduceReply { partitions })
            }
            Request::Coordinator(request) => Reply::Coordinator(self.coordinate(&request)),
            other => panic!("a producer does not send {}", other.name()),
        };
        if self.state(node) != State::Alive {
            self.silent.insert(conn);
        }
        if !self.silent.contains(&conn) {
            let from = Addr { process: ProcessId(node as u32), port: Port(0) };
            let message = Message::Reply { correlation, body };
            self.push(now + HOP + HOP, Input::Message { conn, from, message });
        }
    }
    /// Node 1 coordinates every transaction, in version 2: an end raises the epoch.
    fn coordinate(&mut self, request: &CoordinatorRequest) -> CoordinatorReply {
        let error = ErrorCode::None;
        match request {
            CoordinatorRequest::Find(_) => CoordinatorReply::Find { error, node: BrokerId(1), addr: Some(addr(1)) },
            CoordinatorRequest::InitProducerId { .. } => {
                self.producers += 1;
                let (producer, epoch) = (ProducerId(self.producers), ProducerEpoch(0));
                CoordinatorReply::InitProducerId { error, producer, epoch }
            }
            CoordinatorRequest::AddPartitions { partitions, .. } => {
                CoordinatorReply::AddPartitions(partitions.iter().map(|tp| (*tp, error)).collect())
            }
            CoordinatorRequest::AddOffsets { .. } => CoordinatorReply::AddOffsets(error),
            CoordinatorRequest::TxnOffsetCommit { offsets, .. } => {
                CoordinatorReply::TxnOffsetCommit(offsets.iter().map(|(tp, _)| (*tp, error)).collect())
            }
            CoordinatorRequest::EndTxn { producer, epoch, commit, version, .. } => {
                self.ended.push(*commit);
                let next = ProducerEpoch(epoch.0 + 1);
                let next = (*producer, next);
                let (producer, epoch) = if *version > 4 { next } else { (ProducerId::NONE, ProducerEpoch::NONE) };
                CoordinatorReply::EndTxn { error, producer, epoch }
            }
        }
    }
    fn metadata(&self) -> MetadataReply {
        let alive = (0..3).filter(|n| !matches!(self.state(*n), State::Dead(_)));
        let partitions = self.parts.iter().enumerate().map(|(p, part)| {
            let dead = matches!(self.state(part.leader), State::Dead(_));
            let error = if dead { ErrorCode::LeaderNotAvailable } else { ErrorCode::None };
            let (leader, epoch) = (BrokerId(if dead { -1 } else { part.leader }), LeaderEpoch(part.epoch));
            PartitionInfo { tp: TopicPartition::new(0, p as u16), error, leader, epoch }
        });
        MetadataReply {
            brokers: alive.map(|n| BrokerInfo { id: BrokerId(n), addr: addr(n) }).collect(),
            partitions: partitions.collect(),
            unknown: [].into(),
        }
    }
    fn produce(&mut self, node: i32, tp: TopicPartition, batch: &Batch) -> ProducedPartition {
        let part = &mut self.parts[usize::from(tp.partition)];
        let mut answer =
            ProducedPartition { tp, error: ErrorCode::None, base: Offset::UNKNOWN, log_start: Offset(0), leader: None };
        if part.leader != node {
            answer.error = ErrorCode::NotLeaderOrFollower;
            answer.leader = Some((BrokerId(part.leader), LeaderEpoch(part.epoch)));
            return answer;
        }
        let refused = part.refuse.pop_front();
        if refused == Some(false) {
            answer.error = ErrorCode::NotEnoughReplicas;
            return answer;
        }
        match part.append(batch) {
            Ok(base) => answer.base = Offset(base),
            Err(error) => answer.error = error,
        }
        if refused.is_some() && answer.error.is_ok() {
            answer.error = ErrorCode::NotEnoughReplicasAfterAppend;
            answer.base = Offset::UNKNOWN;
        }
        answer
    }
}

impl Partition {
    fn append(&mut self, batch: &Batch) -> Result<i64, ErrorCode> {
        let (first, last) = (batch.producer.base_sequence, batch.last_sequence());
        if first != Sequence::NONE {
            let epoch = batch.producer.epoch;
            let (known, window) = self.producer.get_or_insert((epoch, Window::new()));
            if epoch < *known {
                return Err(ErrorCode::InvalidProducerEpoch);
            }
            if epoch > *known {
                (*known, *window) = (epoch, Window::new());
            }
            if let Some((_, _, base)) = window.iter().find(|(f, l, _)| (*f, *l) == (first, last)) {
                return Ok(*base);
            }
            if first != window.back().map_or(Sequence(0), |(_, last, _)| last.plus(1)) {
                return Err(ErrorCode::OutOfOrderSequenceNumber);
            }
            window.push_back((first, last, self.rows.len() as i64));
            if window.len() > 5 {
                window.pop_front();
            }
        }
        let base = self.rows.len() as i64;
        self.rows.extend(batch.rows.iter().map(|r| r.cols[0]));
        Ok(base)
    }
}
