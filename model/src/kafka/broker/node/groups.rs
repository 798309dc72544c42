//! The group coordinator at work in its broker: its requests, its records as ordinary batches of `__consumer_offsets`, its
//! partitions read and given up as leaders change (`BrokerMetadataPublisher.updateCoordinator`).
//!
//! Requests are handled on the request handler's thread; timers and loading have one of their own.

use super::config::BrokerConfig;
use super::{Node, NodeCx};
use crate::base::{
    ConnId, Event, Fixes, Input, LeaderEpoch, Millis, Offset, ProducerTag, Sequence, Stream, TopicId, TopicPartition,
};
use crate::kafka::ErrorCode;
use crate::kafka::broker::{Asked, Asking, SupportedOperation};
use crate::kafka::coordinator::group::messages::{GroupReply, GroupRequest, TxnOffsetCommitRequest};
use crate::kafka::coordinator::group::{
    Answer, Cx, GroupCoordinator, LogEntry, Name, ServiceStep, Write, from_entry, to_batch,
};
use crate::kafka::log::{AppendOrigin, VerificationGuard};
use crate::kafka::messages::{Message, Reply};
use crate::kafka::partition::Produce;
use crate::kafka::txn_messages::{CoordinatorReply, CoordinatorRequest};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What the replicas tell of a partition of `__consumer_offsets` that is led here.
#[derive(Clone, Copy, Debug)]
enum News {
    /// It is replicated up to there.
    HighWatermark(u16, Offset),
    /// A marker was appended there.
    Marker(u16, Offset),
}

/// The coordinator and what is under way around it.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    pub(super) coordinator: GroupCoordinator,
    /// Member ids.
    random: Stream,
    /// Led here and to be read.
    to_load: VecDeque<(u16, LeaderEpoch)>,
    news: Vec<News>,
    /// TxnOffsetCommits that came as a request of a transactional client.
    transactional: BTreeSet<u64>,
    /// Those whose transaction is asked about, each with the guard of the question.
    verifying: BTreeMap<u64, (TxnOffsetCommitRequest, VerificationGuard)>,
    /// The guard of the commit at hand.
    guard: Option<VerificationGuard>,
}

impl Groups {
    pub(super) fn new(config: &BrokerConfig, random: Stream, fixes: Fixes) -> Self {
        Self {
            coordinator: GroupCoordinator::new(config.groups, config.group_ids.clone(), fixes),
            random,
            to_load: VecDeque::new(),
            news: Vec::new(),
            transactional: BTreeSet::new(),
            verifying: BTreeMap::new(),
            guard: None,
        }
    }
    /// When the coordinator's thread has something to do.
    pub(super) fn deadline(&mut self) -> Millis {
        if self.to_load.is_empty() { self.coordinator.deadline() } else { Millis::ZERO }
    }
    /// Takes note of what the replicas tell.
    pub(super) fn notice(&mut self, offsets_topic: Option<TopicId>, event: &Event) {
        match *event {
            Event::HighWatermark { tp, offset, leader: true, .. } if Some(tp.topic) == offsets_topic => {
                self.news.push(News::HighWatermark(tp.partition, offset));
            }
            Event::Appended { tp, base, leader: true, control: true, .. } if Some(tp.topic) == offsets_topic => {
                self.news.push(News::Marker(tp.partition, base));
            }
            _ => {}
        }
    }
}

impl Node {
    /// The group coordinator.
    pub fn group_coordinator(&self) -> &GroupCoordinator {
        &self.groups.coordinator
    }
    fn offsets_log(&self, partition: u16) -> Option<TopicPartition> {
        self.config.broker.offsets_topic.map(|topic| TopicPartition { topic, partition })
    }

    /// A request of a member, or about a group.
    pub(super) fn group_request(
        &mut self,
        conn: ConnId,
        correlation: u32,
        request: &GroupRequest,
        cx: &mut NodeCx<'_>,
    ) {
        let token = self.channels.token(conn, correlation);
        match request {
            GroupRequest::TxnOffsetCommit(r) => self.commit_in_transaction(token, r.clone(), cx),
            other => self.coordinate_group(token, other, cx),
        }
    }
    /// TxnOffsetCommit of a client that speaks of transactions only: it names no member.
    pub(super) fn transactional_commit(
        &mut self,
        conn: ConnId,
        correlation: u32,
        request: CoordinatorRequest,
        cx: &mut NodeCx<'_>,
    ) {
        let CoordinatorRequest::TxnOffsetCommit { id, producer, epoch, group, generation, offsets, v2 } = request
        else {
            return;
        };
        let (member, instance): (Name, _) = (Arc::from(""), None);
        let request = TxnOffsetCommitRequest { id, v2, group, producer, epoch, member, instance, generation, offsets };
        let token = self.channels.token(conn, correlation);
        self.groups.transactional.insert(token);
        self.commit_in_transaction(token, request, cx);
    }
    /// A transaction's first offsets in a partition wait for its coordinator, as batches of clients do (T-10, T-15).
    fn commit_in_transaction(&mut self, token: u64, request: TxnOffsetCommitRequest, cx: &mut NodeCx<'_>) {
        let (id, producer, epoch) = (request.id, request.producer, request.epoch);
        let tag = ProducerTag { id: producer, epoch, base_sequence: Sequence::NONE };
        let asks = request.v2 || self.config.broker.log.transaction_verification;
        let tp = self.offsets_log(self.groups.coordinator.partition_of(request.group)).filter(|_| asks);
        let guard = tp.map_or(Ok(None), |tp| self.replicas.start_verification(cx.wall(), tp, tag, request.v2));
        match (tp, guard) {
            (Some(tp), Ok(Some(guard))) => {
                let operation =
                    if request.v2 { SupportedOperation::AddPartition } else { SupportedOperation::DefaultError };
                self.groups.verifying.insert(token, (request, guard));
                self.ask_coordinator(Asking { token, id, producer, epoch, partitions: vec![tp], operation });
            }
            (_, Ok(_)) => self.coordinate_group(token, &GroupRequest::TxnOffsetCommit(request), cx),
            (_, Err(error)) => self.answer_groups(GroupCoordinator::unverified(token, &request, error)),
        }
    }
    /// What the transaction's coordinator has said of a commit; false if it was not asked about one.
    pub(super) fn commit_asked(&mut self, asked: &Asked, cx: &mut NodeCx<'_>) -> bool {
        let Some((request, guard)) = self.groups.verifying.remove(&asked.token) else { return false };
        if let Some((_, error)) = asked.errors.first() {
            self.answer_groups(GroupCoordinator::unverified(asked.token, &request, *error));
        } else {
            self.groups.guard = Some(guard);
            self.coordinate_group(asked.token, &GroupRequest::TxnOffsetCommit(request), cx);
            self.groups.guard = None;
        }
        true
    }
    fn coordinate_group(&mut self, token: u64, request: &GroupRequest, cx: &mut NodeCx<'_>) {
        let random = &mut self.groups.random;
        // A UUID of the broker's: unlike any other, and in no order.
        let mut fresh_id =
            |client: &str| -> Name { format!("{client}-{:016x}{:016x}", random.bits(), random.bits()).into() };
        let mut group_cx = Cx { now: cx.millis(), fresh_id: &mut fresh_id };
        let step = self.groups.coordinator.request(token, request, &mut group_cx);
        self.group_step(step, cx);
    }

    /// Carries out what the coordinator wants: its records are appended at once, whether they are replicated shows later.
    fn group_step(&mut self, step: ServiceStep, cx: &mut NodeCx<'_>) {
        self.answer_groups(step.answers);
        if let Some((partition, write)) = step.write {
            let result = self.append_group_records(partition, &write, cx);
            let answers = self.groups.coordinator.appended(partition, write, result, cx.millis());
            self.answer_groups(answers);
            self.after_replicas(cx);
        }
    }
    fn append_group_records(
        &mut self,
        partition: u16,
        write: &Write,
        cx: &mut NodeCx<'_>,
    ) -> Result<Offset, ErrorCode> {
        let tp = self.offsets_log(partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let guard = write.producer.and_then(|_| self.groups.guard.take());
        let batch = Arc::new(to_batch(&write.records, write.producer, cx.wall()));
        let how = Produce {
            origin: AppendOrigin::Coordinator,
            guard,
            ..Produce::client(self.channels.own_token(), -1, Millis::MAX)
        };
        self.replicas.append_now(cx.millis(), &how, tp, &batch, &mut self.outputs)
    }

    fn answer_groups(&mut self, answers: Vec<Answer>) {
        for Answer { token, reply } in answers {
            let transactional = self.groups.transactional.remove(&token);
            let Some((conn, correlation)) = self.channels.take(token) else { continue };
            let body = match reply {
                GroupReply::TxnOffsetCommit(_, offsets) if transactional => {
                    Reply::Coordinator(CoordinatorReply::TxnOffsetCommit(offsets))
                }
                reply => Reply::Group(reply),
            };
            self.answer_client(conn, correlation, body);
        }
    }

    /// After every call of the replicas: what of `__consumer_offsets` is replicated now, and which transactions have ended.
    pub(super) fn groups_after_replicas(&mut self, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        for news in std::mem::take(&mut self.groups.news) {
            match news {
                News::HighWatermark(partition, offset) => {
                    let answers = self.groups.coordinator.committed(partition, offset, now);
                    self.answer_groups(answers);
                }
                News::Marker(partition, offset) => self.group_marker(partition, offset, now),
            }
        }
    }
    fn group_marker(&mut self, partition: u16, offset: Offset, now: Millis) {
        let Some(tp) = self.offsets_log(partition) else { return };
        let Some(held) = self.replicas.partitions().get(tp) else { return };
        let Some(entry) = held.log().entries_from(offset).next() else { return };
        if let Some(marker) = entry.batch.marker_of() {
            let producer = entry.batch.producer.id;
            self.groups.coordinator.marker_appended(partition, offset, producer, marker.commit, now);
        }
    }

    /// All partitions have followed the metadata: coordination follows them.
    pub(super) fn update_groups(&mut self, cx: &mut NodeCx<'_>) {
        let Some(topic) = self.config.broker.offsets_topic else { return };
        let topics: BTreeMap<TopicId, u16> =
            self.image.topics().map(|(id, t)| (id, t.partitions.len() as u16)).collect();
        let Some(partitions) = self.image.topic(topic).map(|t| t.partitions.len() as u16) else { return };
        let mut answers = Vec::new();
        for partition in 0..partitions {
            let Some(registration) = self.image.partition(TopicPartition { topic, partition }) else { continue };
            let epoch = registration.leader_epoch;
            if registration.leader == self.config.id {
                if self.groups.coordinator.elected(partition, epoch, &mut answers) {
                    self.groups.to_load.push_back((partition, epoch));
                }
            } else {
                self.groups.coordinator.resigned(partition, Some(epoch), &mut answers);
            }
        }
        self.answer_groups(answers);
        for step in self.groups.coordinator.topics_changed(&topics) {
            self.group_step(step, cx);
        }
    }

    /// The coordinator's thread: it reads one partition after the other, and runs what is due.
    pub(super) fn groups_input(&mut self, input: &Input<Message>, cx: &mut NodeCx<'_>) {
        if !matches!(input, Input::Wake) || !self.phase.serves_requests() {
            return;
        }
        if let Some((partition, epoch)) = self.groups.to_load.pop_front() {
            self.work = self.work + self.config.times.load_coordinator;
            self.load_groups(partition, epoch, cx.millis());
            return;
        }
        while let Some(step) = self.groups.coordinator.wake(cx.millis()) {
            self.group_step(step, cx);
        }
    }
    /// Reads the log from its start to its end, replicated or not.
    fn load_groups(&mut self, partition: u16, epoch: LeaderEpoch, now: Millis) {
        let Some(tp) = self.offsets_log(partition) else { return };
        let Some(held) = self.replicas.partitions().get(tp) else { return };
        if !held.is_leader() || held.leader_epoch() != epoch {
            return;
        }
        let log = held.log();
        let entries: Vec<(Offset, LogEntry)> = log.entries_from(log.start()).flat_map(from_entry).collect();
        self.groups.coordinator.loaded(partition, epoch, entries, log.high_watermark(), now);
    }
}
