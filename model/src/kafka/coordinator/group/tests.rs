//! What the recordings cannot show, since there every write is replicated at once: answers and reads while it is not, and loads
//! under way.

use super::messages::{
    GroupReply, GroupRequest, HeartbeatRequest, JoinGroupRequest, JoinProtocol, OffsetCommitRequest,
    OffsetFetchRequest, ProtocolMetadata, SyncGroupRequest, TxnOffsetCommitRequest,
};
use super::*;
use crate::base::{Fix, Fixes, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::placement::IdTable;
use crate::kafka::txn_messages::{GroupId, TransactionalId};
use std::collections::BTreeMap;
use std::sync::Arc;

const GROUP: GroupId = GroupId(0);
const TP: TopicPartition = TopicPartition::new(0, 0);
const PID: ProducerId = ProducerId(7);

/// A shard over a log that is replicated when the test says so.
struct Bench {
    shard: GroupCoordinatorShard,
    log: Vec<(Offset, LogEntry)>,
    now: Millis,
    tokens: u64,
    ids: u32,
}
impl Bench {
    fn new(fixes: Fixes) -> Self {
        let topics = BTreeMap::from([(TopicId(0), 4)]);
        let shard = GroupCoordinatorShard::new(GroupCoordinatorConfig::default(), fixes, topics);
        Self { shard, log: Vec::new(), now: Millis(0), tokens: 0, ids: 0 }
    }
    fn end(&self) -> Offset {
        Offset(self.log.len() as i64)
    }
    /// Asks; the record is appended, not replicated.
    fn ask(&mut self, request: &GroupRequest) -> (u64, Vec<Answer>) {
        self.tokens += 1;
        let ids = &mut self.ids;
        let mut fresh_id = |_: &str| -> Name {
            *ids += 1;
            format!("m{ids}").into()
        };
        let step = self.shard.request(self.tokens, request, &mut Cx { now: self.now, fresh_id: &mut fresh_id });
        (self.tokens, self.carry_out(step))
    }
    fn carry_out(&mut self, step: Step) -> Vec<Answer> {
        let mut answers = step.answers;
        if let Some(write) = step.write {
            let base = self.end();
            for record in write.records.iter() {
                self.log.push((self.end(), LogEntry::Record(write.producer.map(|(id, _)| id), record.clone())));
            }
            answers.extend(self.shard.appended(write, Ok(base), self.now));
        }
        answers
    }
    fn replicate(&mut self) -> Vec<Answer> {
        self.shard.committed(self.end(), self.now)
    }
    fn marker(&mut self, commit: bool) {
        let at = self.end();
        self.log.push((at, LogEntry::Marker(PID, commit)));
        self.shard.marker_appended(at, PID, commit, self.now);
    }
    fn offset(&mut self, require_stable: bool) -> (ErrorCode, Offset) {
        let answers = self.ask(&fetch(require_stable)).1;
        match &answers[0].reply {
            GroupReply::OffsetFetch(ErrorCode::None, list) => (list[0].1, list[0].2),
            other => panic!("{other:?}"),
        }
    }
    fn reload(&self, fixes: Fixes) -> GroupCoordinatorShard {
        let topics = BTreeMap::from([(TopicId(0), 4)]);
        GroupCoordinatorShard::load(self.shard.config, fixes, topics, self.log.clone(), self.end(), self.now)
    }
    fn wait(&mut self, until: Millis) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(at) = self.shard.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            if let Some(step) = self.shard.wake(self.now) {
                answers.extend(self.carry_out(step));
            }
        }
        self.now = until;
        answers
    }
}
fn none() -> Name {
    Arc::from("")
}
fn commit(offset: i64) -> GroupRequest {
    GroupRequest::OffsetCommit(OffsetCommitRequest {
        group: GROUP,
        member: none(),
        instance: None,
        generation: -1,
        version: 9,
        retention: None,
        offsets: vec![(TP, Offset(offset))],
    })
}
fn txn_commit(offset: i64) -> GroupRequest {
    GroupRequest::TxnOffsetCommit(TxnOffsetCommitRequest {
        id: TransactionalId(0),
        v2: false,
        group: GROUP,
        producer: PID,
        epoch: ProducerEpoch(0),
        member: none(),
        instance: None,
        generation: -1,
        offsets: vec![(TP, Offset(offset))],
    })
}
fn fetch(require_stable: bool) -> GroupRequest {
    let partitions = Some(vec![TP]);
    GroupRequest::OffsetFetch(OffsetFetchRequest { group: GROUP, member: None, epoch: -1, require_stable, partitions })
}
fn join(member: &Name) -> GroupRequest {
    let metadata = ProtocolMetadata::Opaque(Arc::from([]));
    GroupRequest::Join(JoinGroupRequest {
        group: GROUP,
        member: Arc::clone(member),
        instance: None,
        client: Arc::from("c"),
        session_timeout: Millis(10_000),
        rebalance_timeout: Millis(30_000),
        protocol_type: Arc::from("consumer"),
        protocols: Arc::from([JoinProtocol { name: Arc::from("range"), metadata }]),
        version: 9,
    })
}

#[test]
fn a_commit_is_answered_when_it_is_replicated_and_read_by_others_from_then_on() {
    let mut b = Bench::new(Fixes::ALL);
    let (token, answers) = b.ask(&commit(5));
    assert_eq!(answers, []);
    assert_eq!(b.offset(false), (ErrorCode::None, Offset::UNKNOWN), "not replicated");
    let (stable, answers) = b.ask(&fetch(true));
    assert_eq!(answers, [], "who wants stable offsets waits for the write");
    let answers = b.replicate();
    assert_eq!(answers.iter().map(|a| a.token).collect::<Vec<_>>(), [token, stable]);
    assert_eq!(answers[1].reply, GroupReply::OffsetFetch(ErrorCode::None, vec![(TP, ErrorCode::None, Offset(5))]));
    assert_eq!(b.offset(false), (ErrorCode::None, Offset(5)));
}

#[test]
fn a_commit_that_is_not_replicated_in_time_fails_but_stays() {
    let mut b = Bench::new(Fixes::ALL);
    let (token, _) = b.ask(&commit(5));
    assert_eq!(b.wait(Millis(4_999)), []);
    let answers = b.wait(Millis(5_000));
    let failed = GroupReply::OffsetCommit(ErrorCode::RequestTimedOut, vec![(TP, ErrorCode::RequestTimedOut)]);
    assert_eq!(answers, [Answer { token, reply: failed }]);
    assert_eq!(b.replicate(), [], "answered already");
    assert_eq!(b.offset(false), (ErrorCode::None, Offset(5)));
}

#[test]
fn a_marker_finds_offsets_that_are_in_the_log_and_not_yet_replicated() {
    let outcome = |fixes| {
        let mut b = Bench::new(fixes);
        b.ask(&txn_commit(9));
        b.marker(true);
        b.replicate();
        let seen = b.shard.offsets().get(GROUP, TP).map(|v| v.offset);
        (seen, b.reload(fixes).offsets().get(GROUP, TP).map(|v| v.offset))
    };
    assert_eq!(outcome(Fixes::ALL), (Some(Offset(9)), Some(Offset(9))));
    let cleared = Fixes::ALL.without(Fix::OffsetsChangeWithLog);
    assert_eq!(outcome(cleared), (None, Some(Offset(9))), "KAFKA-15784: only a failover knows it");
}

#[test]
fn members_come_back_from_the_log_with_their_sessions_anew() {
    let mut b = Bench::new(Fixes::ALL);
    let (_, answers) = b.ask(&join(&none()));
    let GroupReply::Join(reply) = &answers[0].reply else { panic!("{answers:?}") };
    assert_eq!(reply.error, ErrorCode::MemberIdRequired);
    let member = reply.member.clone().unwrap();
    b.ask(&join(&member));
    b.replicate();
    b.wait(Millis(3_000));
    let sync = SyncGroupRequest {
        group: GROUP,
        member: Arc::clone(&member),
        instance: None,
        generation: 1,
        protocol_type: None,
        protocol: None,
        assignments: vec![(Arc::clone(&member), messages::MemberAssignment::Partitions(Arc::from([TP])))],
    };
    let (token, answers) = b.ask(&GroupRequest::Sync(sync));
    assert_eq!(answers, [], "the assignment is told when it is replicated");
    assert_eq!(b.replicate()[0].token, token);
    b.now = Millis(100_000);
    b.shard = b.reload(Fixes::ALL);
    b.wait(Millis(109_999));
    let heartbeat = GroupRequest::Heartbeat(HeartbeatRequest { group: GROUP, member, instance: None, generation: 1 });
    assert_eq!(b.ask(&heartbeat).1[0].reply, GroupReply::Heartbeat(ErrorCode::None));
    b.wait(Millis(119_999));
    assert_eq!(b.ask(&heartbeat).1[0].reply, GroupReply::Heartbeat(ErrorCode::UnknownMemberId));
}

#[test]
fn giving_up_an_older_epoch_leaves_a_newer_load_alone() {
    let served = |fixes| {
        let mut groups = GroupCoordinator::new(GroupCoordinatorConfig::default(), IdTable::new(["orders"]), fixes);
        let (partition, mut answers) = (groups.partition_of(GROUP), Vec::new());
        assert!(groups.elected(partition, LeaderEpoch(3), &mut answers));
        groups.resigned(partition, Some(LeaderEpoch(2)), &mut answers);
        groups.loaded(partition, LeaderEpoch(3), [], Offset(0), Millis(0));
        groups.shard(partition).is_some()
    };
    assert!(served(Fixes::ALL));
    assert!(!served(Fixes::ALL.without(Fix::UnloadKeepsNewerLoading)), "KAFKA-18137");
}

#[test]
fn a_partition_that_loads_or_is_elsewhere_says_so() {
    let config = GroupCoordinatorConfig::default();
    let mut groups = GroupCoordinator::new(config, IdTable::new(["orders"]), Fixes::ALL);
    let (partition, mut answers) = (groups.partition_of(GROUP), Vec::new());
    let ask = |groups: &mut GroupCoordinator, request: &GroupRequest| {
        let mut cx = Cx { now: Millis(0), fresh_id: &mut |_| none() };
        groups.request(1, request, &mut cx).answers.remove(0).reply
    };
    let told = |error| GroupReply::OffsetCommit(error, vec![(TP, error)]);
    let heartbeat = HeartbeatRequest { group: GROUP, member: none(), instance: None, generation: 1 };
    assert_eq!(ask(&mut groups, &commit(1)), told(ErrorCode::NotCoordinator));
    groups.elected(partition, LeaderEpoch(0), &mut answers);
    assert_eq!(ask(&mut groups, &commit(1)), told(ErrorCode::CoordinatorLoadInProgress));
    assert_eq!(ask(&mut groups, &GroupRequest::Heartbeat(heartbeat)), GroupReply::Heartbeat(ErrorCode::None));
}
