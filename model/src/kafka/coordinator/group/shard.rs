//! One partition of `__consumer_offsets` at its coordinator (`GroupCoordinatorShard` under `CoordinatorRuntime`).
//!
//! A request gives a [`Step`]: answers, and at most one [`Write`]. Whoever holds the log appends the write at once and says
//! how it went ([`GroupCoordinatorShard::appended`]) before anything else is asked; what the write changes of the state
//! changes then, so nothing has to be taken back. Answers that need their records to be replicated come from
//! [`GroupCoordinatorShard::committed`].

use super::classic::{ClassicGroup, ClassicState, Stored};
use super::committed::CommittedView;
use super::config::{GroupCoordinatorConfig, TIMER_RETRY_BACKOFF};
use super::consumer::ConsumerGroup;
use super::messages::{GroupReply, GroupRequest, Name};
use super::offsets::OffsetState;
use super::records::{GroupRecord, LogEntry};
use super::timers::{Due, Key, Timers};
use crate::base::{Fix, Fixes, Millis, Offset, ProducerEpoch, ProducerId, TopicId};
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::GroupId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a call sees of the world.
pub struct Cx<'a> {
    /// The broker's clock.
    pub now: Millis,
    /// Makes a member id that begins with the text given: random, so that no two are equal.
    pub fresh_id: &'a mut dyn FnMut(&str) -> Name,
}

/// An answer to the request of that token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The host's number of the request.
    pub token: u64,
    /// The answer.
    pub reply: GroupReply,
}

/// Records to append to the log, as one batch.
#[derive(Clone, Debug)]
pub struct Write {
    /// The records, in order.
    pub records: Arc<[GroupRecord]>,
    /// The transaction that they belong to.
    pub producer: Option<(ProducerId, ProducerEpoch)>,
    /// Whether the records change the state by being written; those of classic groups do when they are replicated.
    pub(super) replay: bool,
    /// A group that the request made in memory: gone again if the append fails.
    pub(super) created: Option<GroupId>,
    pub(super) then: Then,
}
/// What follows when a write is replicated, or when its append failed.
#[derive(Clone, Debug)]
pub(super) enum Then {
    Nothing,
    /// The answer; another one with the error if the append failed.
    Reply(u64, GroupReply),
    Classic(GroupId, Stored),
    /// A timer of a KIP-848 group: run again after a pause if the append failed.
    Timer(Key, Due),
    /// With [`Fix::OffsetsChangeWithLog`] cleared: the records change the state only now, then the answer.
    Late(Offset, ProducerId, Arc<[GroupRecord]>, Option<(u64, GroupReply)>),
}

/// What waits until the log is replicated up to `end`; not longer than `offsets.commit.timeout.ms`, then it is as if it had
/// failed, although the records stay.
#[derive(Clone, Debug)]
struct Deferred {
    end: Offset,
    deadline: Millis,
    then: Then,
}

impl Write {
    pub(super) fn replayed(records: Vec<GroupRecord>, then: Then) -> Self {
        Self { records: records.into(), producer: None, replay: true, created: None, then }
    }
    pub(super) fn not_replayed(records: Vec<GroupRecord>, then: Then) -> Self {
        Self { replay: false, ..Self::replayed(records, then) }
    }
}

/// What a call gives: answers that can leave now, and what to append.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Answers that wait for nothing.
    pub answers: Vec<Answer>,
    /// To be appended before the next call.
    pub write: Option<Write>,
}
impl Step {
    pub(super) fn answer(&mut self, token: u64, reply: GroupReply) {
        self.answers.push(Answer { token, reply });
    }
}

/// A group of either protocol.
#[derive(Clone, Debug)]
pub enum Group {
    /// Classic, or simple: only offsets.
    Classic(Box<ClassicGroup>),
    /// KIP-848.
    Consumer(Box<ConsumerGroup>),
}
impl Group {
    /// Whether it has no members, and none on the way.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Classic(g) => g.state() == ClassicState::Empty,
            Self::Consumer(g) => g.is_empty(),
        }
    }
    pub(super) fn is_subscribed(&self, topic: TopicId) -> bool {
        match self {
            Self::Classic(g) => g.is_subscribed(topic),
            Self::Consumer(g) => g.is_subscribed(topic),
        }
    }
}

/// The coordinator of the groups of one partition.
#[derive(Clone, Debug)]
pub struct GroupCoordinatorShard {
    pub(super) config: GroupCoordinatorConfig,
    pub(super) fixes: Fixes,
    pub(super) groups: BTreeMap<GroupId, Group>,
    pub(super) offsets: OffsetState,
    /// What of that is replicated: the answer to who does not ask for stable offsets.
    pub(super) committed: CommittedView,
    pub(super) timers: Timers,
    /// Topics that exist, with their numbers of partitions.
    pub(super) topics: BTreeMap<TopicId, u16>,
    /// What waits for the log to be replicated.
    deferred: VecDeque<Deferred>,
}

impl GroupCoordinatorShard {
    /// A coordinator without any group.
    pub fn new(config: GroupCoordinatorConfig, fixes: Fixes, topics: BTreeMap<TopicId, u16>) -> Self {
        Self {
            config,
            fixes,
            groups: BTreeMap::new(),
            offsets: OffsetState::default(),
            committed: CommittedView::default(),
            timers: Timers::default(),
            topics,
            deferred: VecDeque::new(),
        }
    }

    /// A coordinator that loads its part of the log; sessions and rebalance timeouts begin anew. `high_watermark` is what is
    /// known of replication so far.
    pub fn load(
        config: GroupCoordinatorConfig,
        fixes: Fixes,
        topics: BTreeMap<TopicId, u16>,
        log: impl IntoIterator<Item = (Offset, LogEntry)>,
        high_watermark: Offset,
        now: Millis,
    ) -> Self {
        let mut shard = Self::new(config, fixes, topics);
        for (offset, entry) in log {
            match &entry {
                LogEntry::Record(producer, record) => shard.replay(offset, *producer, record),
                LogEntry::Marker(producer, commit) => shard.offsets.end_transaction(*producer, *commit, fixes),
            }
            shard.committed.appended(offset, entry);
        }
        shard.committed.advance(high_watermark, fixes);
        for id in shard.groups.keys().copied().collect::<Vec<_>>() {
            match &shard.groups[&id] {
                Group::Classic(_) => shard.restart_classic_sessions(id, now),
                Group::Consumer(_) => shard.restart_consumer_sessions(id, now),
            }
        }
        shard
    }

    /// A group by its id.
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id)
    }
    /// The offsets.
    pub fn offsets(&self) -> &OffsetState {
        &self.offsets
    }
    /// When [`wake`](Self::wake) has to be called.
    pub fn deadline(&self) -> Option<Millis> {
        let waiting = self.deferred.iter().map(|d| d.deadline).min().filter(|at| *at < Millis::MAX);
        self.timers.deadline().into_iter().chain(waiting).min()
    }

    /// A request. `token` comes back with its answer, now or later.
    pub fn request(&mut self, token: u64, request: &GroupRequest, cx: &mut Cx<'_>) -> Step {
        let (now, mut step) = (cx.now, Step::default());
        let result = match request {
            GroupRequest::Join(r) => {
                self.join(token, r, cx, &mut step);
                Ok(())
            }
            GroupRequest::Sync(r) => {
                self.sync(token, r, &mut step);
                Ok(())
            }
            GroupRequest::Heartbeat(r) => self.heartbeat(token, r, now, &mut step),
            GroupRequest::Leave(r) => {
                self.leave(token, r, now, &mut step);
                Ok(())
            }
            GroupRequest::OffsetCommit(r) => self.commit(token, r, now, &mut step),
            GroupRequest::TxnOffsetCommit(r) => self.commit_transactional(token, r, now, &mut step),
            GroupRequest::OffsetFetch(r) => self.fetch(token, r, &mut step),
            GroupRequest::ConsumerHeartbeat(r) => self.consumer_heartbeat(token, r, now, &mut step),
            GroupRequest::Delete(id) => self.delete_group(token, *id, &mut step),
            GroupRequest::OffsetDelete(id, partitions) => self.delete_offsets(token, *id, partitions, &mut step),
        };
        match result {
            Err(error) => step.answer(token, request.refusal(error)),
            Ok(()) if request.waits_for_writes() => self.wait_for_writes(token, &mut step, now),
            Ok(()) => {}
        }
        step
    }

    /// An answer that rests on what is in memory waits until the last write under way is replicated, so that nobody acts on
    /// what may be lost (`CoordinatorWriteEvent` without records).
    fn wait_for_writes(&mut self, token: u64, step: &mut Step, now: Millis) {
        let (None, Some(end)) = (&step.write, self.deferred.back().map(|d| d.end)) else { return };
        let deadline = now + self.config.commit_timeout;
        for answer in step.answers.extract_if(.., |a| a.token == token) {
            let then = Then::Reply(token, answer.reply);
            self.deferred.push_back(Deferred { end, deadline, then });
        }
    }

    /// Runs one timer that is due, if there is one; to be called again until `None`.
    pub fn wake(&mut self, now: Millis) -> Option<Step> {
        if let Some(waited) = self.deferred.iter_mut().find(|d| d.deadline <= now) {
            waited.deadline = Millis::MAX;
            let then = match &mut waited.then {
                Then::Late(.., reply) => reply.take().map_or(Then::Nothing, |(token, reply)| Then::Reply(token, reply)),
                then => std::mem::replace(then, Then::Nothing),
            };
            return Some(Step { answers: self.failed(then, ErrorCode::RequestTimedOut, now), write: None });
        }
        let (key, due) = self.timers.take(now)?;
        let mut step = Step::default();
        match &key {
            Key::Session(id, member) => self.consumer_session_expired(*id, member, &mut step),
            Key::Rebalance(id, member) => self.consumer_rebalance_expired(*id, member, due, &mut step),
            Key::LateMarkers => self.apply_late_markers(),
            _ => self.classic_timer(&key, due, now, &mut step),
        }
        if let Some(write) = &mut step.write
            && matches!(key, Key::Session(..) | Key::Rebalance(..))
        {
            write.then = Then::Timer(key, due);
        }
        Some(step)
    }

    /// The write of the last step was appended with its first record at the offset given, or was refused.
    pub fn appended(&mut self, write: Write, result: Result<Offset, ErrorCode>, now: Millis) -> Vec<Answer> {
        let base = match result {
            Ok(base) => base,
            Err(error) => return self.append_failed(write, error, now),
        };
        let end = base.plus(write.records.len() as i64);
        let producer = write.producer.map(|(id, _)| id);
        for (i, record) in write.records.iter().enumerate() {
            let offset = base.plus(i as i64);
            self.committed.appended(offset, LogEntry::Record(producer, record.clone()));
        }
        let late = producer.filter(|_| !self.fixes.has(Fix::OffsetsChangeWithLog));
        let then = match (late, write.then) {
            (Some(producer), Then::Reply(token, reply)) => {
                Then::Late(base, producer, Arc::clone(&write.records), Some((token, reply)))
            }
            (_, then) => {
                if write.replay {
                    self.replay_all(base, producer, &write.records);
                }
                then
            }
        };
        let waits = !matches!(then, Then::Nothing | Then::Timer(..));
        let deadline = if waits { now + self.config.commit_timeout } else { Millis::MAX };
        self.deferred.push_back(Deferred { end, deadline, then });
        Vec::new()
    }

    fn append_failed(&mut self, write: Write, error: ErrorCode, now: Millis) -> Vec<Answer> {
        if let Some(id) = write.created {
            self.groups.remove(&id);
        }
        self.failed(write.then, error, now)
    }
    fn failed(&mut self, then: Then, error: ErrorCode, now: Millis) -> Vec<Answer> {
        let mut step = Step::default();
        match then {
            Then::Nothing | Then::Late(.., None) => {}
            Then::Reply(token, reply) | Then::Late(.., Some((token, reply))) => {
                step.answer(token, reply.failed(error));
            }
            Then::Classic(id, stored) => self.classic_stored(id, stored, Err(error), now, &mut step),
            Then::Timer(key, due) => self.timers.schedule(key, now + TIMER_RETRY_BACKOFF, due),
        }
        step.answers
    }

    /// The log is replicated up to `high_watermark`.
    pub fn committed(&mut self, high_watermark: Offset, now: Millis) -> Vec<Answer> {
        let mut step = Step::default();
        while self.deferred.front().is_some_and(|d| d.end <= high_watermark) {
            let Some(Deferred { then, .. }) = self.deferred.pop_front() else { break };
            match then {
                Then::Nothing | Then::Timer(..) => {}
                Then::Reply(token, reply) => step.answer(token, reply),
                Then::Classic(id, stored) => self.classic_stored(id, stored, Ok(()), now, &mut step),
                Then::Late(base, producer, records, reply) => {
                    self.replay_all(base, Some(producer), &records);
                    if let Some((token, reply)) = reply {
                        step.answer(token, reply);
                    }
                }
            }
        }
        self.committed.advance(high_watermark, self.fixes);
        step.answers
    }

    /// The coordinator gives the partition up: everybody who waits is told `error` (`onUnloaded`).
    pub fn unload(&mut self, error: ErrorCode) -> Vec<Answer> {
        let mut step = Step::default();
        for waiting in std::mem::take(&mut self.deferred) {
            // Requests of classic members wait at the members.
            if let Then::Reply(token, reply) | Then::Late(.., Some((token, reply))) = waiting.then {
                step.answer(token, reply.failed(error));
            }
        }
        for group in self.groups.values_mut() {
            if let Group::Classic(group) = group {
                group.refuse_all(error, &mut step);
            }
        }
        step.answers
    }

    /// Topics have changed: these exist now. KIP-848 groups look at theirs with the next heartbeat; offsets of topics that
    /// are gone are deleted.
    pub fn topics_changed(&mut self, topics: BTreeMap<TopicId, u16>) -> Step {
        let changed: Vec<TopicId> =
            self.topics.keys().chain(topics.keys()).copied().filter(|t| self.topics.get(t) != topics.get(t)).collect();
        for group in self.groups.values_mut() {
            if let Group::Consumer(group) = group
                && changed.iter().any(|t| group.is_subscribed(*t))
            {
                group.request_metadata_refresh();
            }
        }
        let gone: Vec<TopicId> = changed.into_iter().filter(|t| !topics.contains_key(t)).collect();
        self.topics = topics;
        let mut step = Step::default();
        if !gone.is_empty() {
            self.delete_offsets_of(&gone, &mut step);
        }
        step
    }

    fn replay_all(&mut self, base: Offset, producer: Option<ProducerId>, records: &[GroupRecord]) {
        for (i, record) in records.iter().enumerate() {
            self.replay(base.plus(i as i64), producer, record);
        }
    }
    /// Applies a record of the log.
    fn replay(&mut self, offset: Offset, producer: Option<ProducerId>, record: &GroupRecord) {
        match record {
            GroupRecord::OffsetCommit(group, tp, value) => {
                if value.is_some() {
                    // Offsets make a simple group.
                    self.groups.entry(*group).or_insert_with(|| Group::Classic(Box::default()));
                }
                self.offsets.apply(offset, producer, *group, *tp, *value);
            }
            GroupRecord::GroupMetadata(id, Some(value)) => {
                self.groups.insert(*id, Group::Classic(Box::new(ClassicGroup::from_record(value))));
            }
            GroupRecord::GroupMetadata(id, None) => {
                self.groups.remove(id);
            }
            GroupRecord::ConsumerGroupMetadata(id, None) => {
                if let Some(Group::Consumer(_)) = self.groups.get(id) {
                    self.groups.remove(id);
                }
            }
            record => self.replay_consumer(record),
        }
    }
}
