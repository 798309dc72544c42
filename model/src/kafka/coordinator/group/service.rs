//! All partitions of `__consumer_offsets` that a broker coordinates (`GroupCoordinatorService`): loading, giving up, and what is
//! checked before a request reaches its partition.

use super::config::GroupCoordinatorConfig;
use super::messages::{GroupReply, GroupRequest, TxnOffsetCommitRequest};
use super::records::LogEntry;
use super::shard::{Answer, Cx, GroupCoordinatorShard, Step, Write};
use crate::base::{Fix, Fixes, LeaderEpoch, Millis, Offset, ProducerId, TopicId};
use crate::kafka::ErrorCode;
use crate::kafka::placement::IdTable;
use crate::kafka::txn_messages::GroupId;
use std::collections::BTreeMap;

/// One partition here.
#[derive(Clone, Debug)]
enum State {
    /// Its log is being read.
    Loading,
    /// Requests are served. The time is that of the next expiry of offsets.
    Active(Box<GroupCoordinatorShard>, Millis),
}
#[derive(Clone, Debug)]
struct Coordinated {
    epoch: LeaderEpoch,
    state: State,
}

/// What a call gives: answers, and records for the log of a partition.
#[derive(Clone, Debug, Default)]
pub struct ServiceStep {
    /// Answers that leave now.
    pub answers: Vec<Answer>,
    /// To be appended before the next call ([`GroupCoordinator::appended`]).
    pub write: Option<(u16, Write)>,
}

/// The group coordinator of a broker.
#[derive(Clone, Debug)]
pub struct GroupCoordinator {
    config: GroupCoordinatorConfig,
    fixes: Fixes,
    /// Names of the groups: they decide where each belongs (T-1).
    ids: IdTable,
    partitions: BTreeMap<u16, Coordinated>,
    topics: BTreeMap<TopicId, u16>,
    /// The deadline, as long as no partition has been touched.
    due: Option<Millis>,
}

impl GroupCoordinator {
    /// A coordinator of nothing yet.
    pub fn new(config: GroupCoordinatorConfig, ids: IdTable, fixes: Fixes) -> Self {
        Self { config, fixes, ids, partitions: BTreeMap::new(), topics: BTreeMap::new(), due: None }
    }
    /// The partition of `__consumer_offsets` that a group belongs to (T-1).
    pub fn partition_of(&self, group: GroupId) -> u16 {
        self.ids.partition(group.0, self.config.topic_partitions)
    }
    /// The groups of a partition, where it is served here.
    pub fn shard(&self, partition: u16) -> Option<&GroupCoordinatorShard> {
        match self.partitions.get(&partition).map(|p| &p.state) {
            Some(State::Active(shard, _)) => Some(shard),
            _ => None,
        }
    }

    /// This broker leads the partition now: its log is to be read, then [`loaded`](Self::loaded). False if it coordinates it
    /// under that epoch already. Who waits at an older epoch is answered.
    pub fn elected(&mut self, partition: u16, epoch: LeaderEpoch, answers: &mut Vec<Answer>) -> bool {
        if self.partitions.get(&partition).is_some_and(|p| p.epoch >= epoch) {
            return false;
        }
        self.unload(partition, answers);
        self.touched().insert(partition, Coordinated { epoch, state: State::Loading });
        true
    }
    /// The log has been read. Nothing happens if the partition was given up, or is loading under another epoch, since.
    pub fn loaded(
        &mut self,
        partition: u16,
        epoch: LeaderEpoch,
        log: impl IntoIterator<Item = (Offset, LogEntry)>,
        high_watermark: Offset,
        now: Millis,
    ) {
        let (config, fixes) = (self.config, self.fixes);
        let topics = self.topics.clone();
        let Some(p) = self.touched().get_mut(&partition) else { return };
        if p.epoch == epoch && matches!(p.state, State::Loading) {
            let shard = GroupCoordinatorShard::load(config, fixes, topics, log, high_watermark, now);
            p.state = State::Active(Box::new(shard), now + config.offsets_retention_check_interval);
        }
    }
    /// Another broker leads the partition, since `epoch`; `None` if its replica is gone. A newer load here is left alone
    /// (KAFKA-18137).
    pub fn resigned(&mut self, partition: u16, epoch: Option<LeaderEpoch>, answers: &mut Vec<Answer>) {
        let newer = self.partitions.get(&partition).is_some_and(|p| epoch.is_some_and(|e| p.epoch > e));
        if !(newer && self.fixes.has(Fix::UnloadKeepsNewerLoading)) {
            self.unload(partition, answers);
        }
    }
    fn unload(&mut self, partition: u16, answers: &mut Vec<Answer>) {
        if let Some(Coordinated { state: State::Active(mut shard, _), .. }) = self.touched().remove(&partition) {
            answers.extend(shard.unload(ErrorCode::NotCoordinator));
        }
    }

    /// A request. `token` comes back with its answer.
    pub fn request(&mut self, token: u64, request: &GroupRequest, cx: &mut Cx<'_>) -> ServiceStep {
        let (partition, config) = (self.partition_of(request.group()), self.config);
        let refusal = match self.touched().get_mut(&partition).map(|p| &mut p.state) {
            None => ErrorCode::NotCoordinator,
            Some(State::Loading) => ErrorCode::CoordinatorLoadInProgress,
            Some(State::Active(shard, _)) => match check(&config, request) {
                Err(error) => error,
                Ok(()) => {
                    let step = shard.request(token, request, cx);
                    return told(partition, step);
                }
            },
        };
        let reply = match (request, refusal) {
            // A member that only says that it lives is not troubled by the load.
            (GroupRequest::Heartbeat(_), ErrorCode::CoordinatorLoadInProgress) => {
                GroupReply::Heartbeat(ErrorCode::None)
            }
            _ => request.refusal(refusal),
        };
        ServiceStep { answers: vec![Answer { token, reply }], write: None }
    }

    /// The answer to a commit whose transaction was asked about in vain (T-15).
    pub fn unverified(token: u64, request: &TxnOffsetCommitRequest, error: ErrorCode) -> Vec<Answer> {
        let reply = GroupRequest::TxnOffsetCommit(request.clone()).refusal(error);
        map_errors(vec![Answer { token, reply }])
    }

    /// The write of the last step was appended with its first record at that offset, or was refused.
    pub fn appended(
        &mut self,
        partition: u16,
        write: Write,
        result: Result<Offset, ErrorCode>,
        now: Millis,
    ) -> Vec<Answer> {
        let shard = self.active(partition);
        map_errors(shard.map(|s| s.appended(write, result, now)).unwrap_or_default())
    }
    /// The partition is replicated up to that offset.
    pub fn committed(&mut self, partition: u16, high_watermark: Offset, now: Millis) -> Vec<Answer> {
        let shard = self.active(partition);
        map_errors(shard.map(|s| s.committed(high_watermark, now)).unwrap_or_default())
    }
    /// A transaction's marker was appended to the partition (T-36).
    pub fn marker_appended(&mut self, partition: u16, offset: Offset, producer: ProducerId, commit: bool, now: Millis) {
        if let Some(shard) = self.active(partition) {
            shard.marker_appended(offset, producer, commit, now);
        }
    }
    /// Topics that exist, with their numbers of partitions. Gives a step for each partition that has to write.
    pub fn topics_changed(&mut self, topics: &BTreeMap<TopicId, u16>) -> Vec<ServiceStep> {
        if self.topics == *topics {
            return Vec::new();
        }
        self.topics.clone_from(topics);
        let mut steps = Vec::new();
        for (partition, p) in self.touched() {
            if let State::Active(shard, _) = &mut p.state {
                steps.push(told(*partition, shard.topics_changed(topics.clone())));
            }
        }
        steps
    }

    /// When [`wake`](Self::wake) has to be called.
    pub fn deadline(&mut self) -> Millis {
        let of = |p: &Coordinated| match &p.state {
            State::Active(shard, expiry) => shard.deadline().unwrap_or(Millis::MAX).min(*expiry),
            State::Loading => Millis::MAX,
        };
        let Self { due, partitions, .. } = self;
        *due.get_or_insert_with(|| partitions.values().map(of).min().unwrap_or(Millis::MAX))
    }
    /// The partitions, to change.
    fn touched(&mut self) -> &mut BTreeMap<u16, Coordinated> {
        self.due = None;
        &mut self.partitions
    }
    /// Does one thing that is due, if there is one; to be called again until `None`.
    pub fn wake(&mut self, now: Millis) -> Option<ServiceStep> {
        let interval = self.config.offsets_retention_check_interval;
        for (partition, p) in self.touched() {
            let State::Active(shard, expiry) = &mut p.state else { continue };
            if let Some(step) = shard.wake(now) {
                return Some(told(*partition, step));
            }
            if *expiry <= now {
                *expiry = now + interval;
                return Some(told(*partition, shard.expire_offsets(now)));
            }
        }
        None
    }

    fn active(&mut self, partition: u16) -> Option<&mut GroupCoordinatorShard> {
        match self.touched().get_mut(&partition).map(|p| &mut p.state) {
            Some(State::Active(shard, _)) => Some(shard),
            _ => None,
        }
    }
}

/// What is wrong with a request whatever the group.
fn check(config: &GroupCoordinatorConfig, request: &GroupRequest) -> Result<(), ErrorCode> {
    match request {
        GroupRequest::Join(r) => {
            let bounds = config.min_session_timeout..=config.max_session_timeout;
            if bounds.contains(&r.session_timeout) { Ok(()) } else { Err(ErrorCode::InvalidSessionTimeout) }
        }
        GroupRequest::ConsumerHeartbeat(r) => match r.epoch {
            // Whoever joins says everything.
            0 if r.rebalance_timeout.is_none()
                || r.topics.is_none()
                || r.owned.as_ref().is_none_or(|o| !o.is_empty()) =>
            {
                Err(ErrorCode::InvalidRequest)
            }
            _ if r.assignor.as_deref().is_some_and(|a| a != "uniform" && a != "range") => {
                Err(ErrorCode::UnsupportedAssignor)
            }
            -2 if r.instance.is_none() => Err(ErrorCode::InvalidRequest),
            epoch if epoch < -2 => Err(ErrorCode::InvalidRequest),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn told(partition: u16, step: Step) -> ServiceStep {
    ServiceStep { answers: map_errors(step.answers), write: step.write.map(|w| (partition, w)) }
}

/// Errors of the log, as clients are told them (T-15).
fn map_error(error: ErrorCode, too_large: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::NetworkException => ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::UnknownTopicOrPartition | ErrorCode::NotEnoughReplicas | ErrorCode::RequestTimedOut => {
            ErrorCode::CoordinatorNotAvailable
        }
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => too_large,
        other => other,
    }
}
fn map_errors(mut answers: Vec<Answer>) -> Vec<Answer> {
    for answer in &mut answers {
        match &mut answer.reply {
            GroupReply::OffsetCommit(error, partitions) | GroupReply::TxnOffsetCommit(error, partitions) => {
                *error = map_error(*error, ErrorCode::InvalidCommitOffsetSize);
                partitions.iter_mut().for_each(|(_, e)| *e = map_error(*e, ErrorCode::InvalidCommitOffsetSize));
            }
            GroupReply::Heartbeat(error)
            | GroupReply::Leave(error, _)
            | GroupReply::OffsetFetch(error, _)
            | GroupReply::Delete(error)
            | GroupReply::OffsetDelete(error, _) => *error = map_error(*error, ErrorCode::UnknownServerError),
            GroupReply::Join(r) => r.error = map_error(r.error, ErrorCode::UnknownServerError),
            GroupReply::Sync(r) => r.error = map_error(r.error, ErrorCode::UnknownServerError),
            GroupReply::ConsumerHeartbeat(r) => r.error = map_error(r.error, ErrorCode::UnknownServerError),
        }
    }
    answers
}
