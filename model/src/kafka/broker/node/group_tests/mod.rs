//! Groups on three real nodes: the coordinator over a replicated `__consumer_offsets`, transactional offsets and their markers,
//! failover.

use super::transaction_tests::cluster::{Cluster, DATA};
use crate::base::{BrokerId, Fix, Fixes, Millis, Offset, ProducerEpoch, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::coordinator::group::Name;
use crate::kafka::coordinator::group::messages::{
    ConsumerGroupHeartbeatReply, ConsumerGroupHeartbeatRequest, GroupReply, GroupRequest, HeartbeatRequest,
    JoinGroupReply, JoinGroupRequest, JoinProtocol, MemberAssignment, OffsetCommitRequest, OffsetFetchRequest,
    ProtocolMetadata, SyncGroupRequest,
};
use crate::kafka::messages::{Reply, Request};
use crate::kafka::txn_messages::{CoordinatorKey, CoordinatorReply, CoordinatorRequest, GroupId, TransactionalId};
use std::sync::Arc;

const GROUP: GroupId = GroupId(0);
const ID: TransactionalId = TransactionalId(0);
const TP: TopicPartition = TopicPartition { topic: DATA, partition: 0 };

fn name(text: &str) -> Name {
    Arc::from(text)
}
/// The coordinator of `key`, as a living broker's metadata has it.
fn find(c: &mut Cluster, key: CoordinatorKey) -> BrokerId {
    for _ in 0..400 {
        let any = c.alive().next().expect("a living broker").id();
        match c.call(any, Request::Coordinator(CoordinatorRequest::Find(key))) {
            Reply::Coordinator(CoordinatorReply::Find { error: ErrorCode::None, node, .. })
                if c.node(node).is_some() =>
            {
                return node;
            }
            _ => c.pass(100),
        }
    }
    panic!("no coordinator is named");
}
fn passes(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::ConcurrentTransactions
    )
}
/// Asks the group's coordinator until it is one.
fn ask(c: &mut Cluster, request: &GroupRequest) -> GroupReply {
    for _ in 0..400 {
        let node = find(c, CoordinatorKey::Group(GROUP));
        let Reply::Group(reply) = c.call(node, Request::Group(Box::new(request.clone()))) else {
            panic!("another answer")
        };
        let error = match &reply {
            GroupReply::Join(r) => r.error,
            GroupReply::Sync(r) => r.error,
            GroupReply::Heartbeat(e) | GroupReply::OffsetFetch(e, _) | GroupReply::OffsetCommit(e, _) => *e,
            GroupReply::ConsumerHeartbeat(r) => r.error,
            other => panic!("{other:?}"),
        };
        if !passes(error) {
            return reply;
        }
        c.pass(50);
    }
    panic!("never answered: {request:?}");
}
fn transact(c: &mut Cluster, request: &CoordinatorRequest) -> CoordinatorReply {
    for _ in 0..400 {
        let key = match request {
            CoordinatorRequest::TxnOffsetCommit { .. } => CoordinatorKey::Group(GROUP),
            _ => CoordinatorKey::Transaction(ID),
        };
        let node = find(c, key);
        let Reply::Coordinator(reply) = c.call(node, Request::Coordinator(request.clone())) else { panic!() };
        let error = match &reply {
            CoordinatorReply::InitProducerId { error, .. }
            | CoordinatorReply::AddOffsets(error)
            | CoordinatorReply::EndTxn { error, .. } => *error,
            CoordinatorReply::TxnOffsetCommit(list) => list[0].1,
            other => panic!("{other:?}"),
        };
        if !passes(error) {
            return reply;
        }
        c.pass(50);
    }
    panic!("never answered: {request:?}");
}

fn commit(member: &Name, generation: i32, offset: i64) -> GroupRequest {
    GroupRequest::OffsetCommit(OffsetCommitRequest {
        group: GROUP,
        member: Arc::clone(member),
        instance: None,
        generation,
        version: 9,
        retention: None,
        offsets: vec![(TP, Offset(offset))],
    })
}
fn fetched(c: &mut Cluster) -> (ErrorCode, i64) {
    let partitions = Some(vec![TP]);
    let (member, epoch, require_stable) = (None, -1, true);
    let request = OffsetFetchRequest { group: GROUP, member, epoch, require_stable, partitions };
    match ask(c, &GroupRequest::OffsetFetch(request)) {
        GroupReply::OffsetFetch(ErrorCode::None, list) => (list[0].1, list[0].2.0),
        other => panic!("{other:?}"),
    }
}
fn join(c: &mut Cluster, member: &Name) -> JoinGroupReply {
    let metadata = ProtocolMetadata::Opaque(Arc::from([]));
    let request = JoinGroupRequest {
        group: GROUP,
        member: Arc::clone(member),
        instance: None,
        client: name("app"),
        session_timeout: Millis(45_000),
        rebalance_timeout: Millis(60_000),
        protocol_type: name("consumer"),
        protocols: Arc::from([JoinProtocol { name: name("range"), metadata }]),
        version: 9,
    };
    match ask(c, &GroupRequest::Join(request)) {
        GroupReply::Join(reply) => reply,
        other => panic!("{other:?}"),
    }
}
/// A consumer that is alone in its group, with its assignment: its member id.
fn member(c: &mut Cluster) -> Name {
    let id = join(c, &name("")).member.expect("an id");
    assert_eq!(&id[..4], "app-");
    let joined = join(c, &id);
    assert_eq!((joined.error, joined.generation, joined.leader.as_ref()), (ErrorCode::None, 1, Some(&id)));
    let sync = SyncGroupRequest {
        group: GROUP,
        member: Arc::clone(&id),
        instance: None,
        generation: 1,
        protocol_type: None,
        protocol: None,
        assignments: vec![(Arc::clone(&id), MemberAssignment::Partitions(Arc::from([TP])))],
    };
    match ask(c, &GroupRequest::Sync(sync)) {
        GroupReply::Sync(r) => assert_eq!(r.assignment, MemberAssignment::Partitions(Arc::from([TP]))),
        other => panic!("{other:?}"),
    }
    id
}
fn heartbeat(c: &mut Cluster, member: &Name, generation: i32) -> ErrorCode {
    let request = HeartbeatRequest { group: GROUP, member: Arc::clone(member), instance: None, generation };
    match ask(c, &GroupRequest::Heartbeat(request)) {
        GroupReply::Heartbeat(error) => error,
        other => panic!("{other:?}"),
    }
}

/// A TV1 transaction that has sent offset `offset` of the group: its producer.
fn send_offsets(c: &mut Cluster, offset: i64) -> (ProducerId, ProducerEpoch) {
    let producer = producer_id(c);
    let add =
        CoordinatorRequest::AddOffsets { id: ID, producer: producer.0, epoch: producer.1, group: GROUP, version: 4 };
    assert!(matches!(transact(c, &add), CoordinatorReply::AddOffsets(ErrorCode::None)));
    assert_eq!(txn_commit(c, producer, offset, false), ErrorCode::None);
    producer
}
fn producer_id(c: &mut Cluster) -> (ProducerId, ProducerEpoch) {
    let (none, timeout) = ((ProducerId::NONE, ProducerEpoch::NONE), Millis(60_000));
    let init = CoordinatorRequest::InitProducerId { id: ID, timeout, producer: none.0, epoch: none.1 };
    let CoordinatorReply::InitProducerId { error: ErrorCode::None, producer, epoch } = transact(c, &init) else {
        panic!("no producer id");
    };
    (producer, epoch)
}
fn txn_commit(c: &mut Cluster, (producer, epoch): (ProducerId, ProducerEpoch), offset: i64, v2: bool) -> ErrorCode {
    let offsets = vec![(TP, Offset(offset))];
    let send =
        CoordinatorRequest::TxnOffsetCommit { id: ID, producer, epoch, group: GROUP, generation: -1, offsets, v2 };
    match transact(c, &send) {
        CoordinatorReply::TxnOffsetCommit(list) => list[0].1,
        other => panic!("{other:?}"),
    }
}
fn end(c: &mut Cluster, producer: (ProducerId, ProducerEpoch), commit: bool) {
    end_as(c, producer, commit, false);
}
fn end_as(c: &mut Cluster, (producer, epoch): (ProducerId, ProducerEpoch), commit: bool, v2: bool) {
    let version = if v2 { 5 } else { 4 };
    let request = CoordinatorRequest::EndTxn { id: ID, producer, epoch, commit, version };
    assert!(matches!(transact(c, &request), CoordinatorReply::EndTxn { error: ErrorCode::None, .. }));
}
fn eventually_fetched(c: &mut Cluster, want: (ErrorCode, i64)) {
    for _ in 0..100 {
        if fetched(c) == want {
            return;
        }
        c.pass(100);
    }
    assert_eq!(fetched(c), want);
}

#[test]
fn members_and_offsets_survive_their_coordinator() {
    let mut c = Cluster::formed(Fixes::ALL);
    let id = member(&mut c);
    assert!(matches!(ask(&mut c, &commit(&id, 1, 42)), GroupReply::OffsetCommit(ErrorCode::None, _)));
    let coordinator = find(&mut c, CoordinatorKey::Group(GROUP));
    for other in (1..=3).map(BrokerId).filter(|b| *b != coordinator) {
        let told = c.call(other, Request::Group(Box::new(commit(&id, 1, 43))));
        assert!(matches!(told, Reply::Group(GroupReply::OffsetCommit(ErrorCode::NotCoordinator, _))));
    }
    c.kill(coordinator);
    assert_eq!(fetched(&mut c), (ErrorCode::None, 42));
    assert_ne!(find(&mut c, CoordinatorKey::Group(GROUP)), coordinator);
    assert_eq!(heartbeat(&mut c, &id, 1), ErrorCode::None, "the generation is that of the last sync");
    assert_eq!(heartbeat(&mut c, &id, 2), ErrorCode::IllegalGeneration);
    assert!(matches!(ask(&mut c, &commit(&id, 1, 44)), GroupReply::OffsetCommit(ErrorCode::None, _)));
    assert_eq!(fetched(&mut c), (ErrorCode::None, 44));
    c.pass(50_000);
    assert_eq!(heartbeat(&mut c, &id, 1), ErrorCode::UnknownMemberId, "silent for longer than its session");
}

#[test]
fn offsets_of_a_transaction_are_unstable_until_its_marker_also_over_a_failover() {
    let mut c = Cluster::formed(Fixes::ALL);
    ask(&mut c, &commit(&name(""), -1, 5));
    let producer = send_offsets(&mut c, 9);
    assert_eq!(fetched(&mut c).0, ErrorCode::UnstableOffsetCommit);
    let coordinator = find(&mut c, CoordinatorKey::Group(GROUP));
    c.kill(coordinator);
    assert_eq!(fetched(&mut c).0, ErrorCode::UnstableOffsetCommit);
    end(&mut c, producer, true);
    eventually_fetched(&mut c, (ErrorCode::None, 9));
    let producer = send_offsets(&mut c, 77);
    end(&mut c, producer, false);
    eventually_fetched(&mut c, (ErrorCode::None, 9));
}

#[test]
fn without_stable_offsets_a_reader_starts_where_the_transaction_will_have_been() {
    let mut c = Cluster::formed(Fixes::ALL.without(Fix::StableOffsets));
    ask(&mut c, &commit(&name(""), -1, 5));
    let producer = send_offsets(&mut c, 9);
    assert_eq!(fetched(&mut c), (ErrorCode::None, 5), "what the transaction has read is read again");
    end(&mut c, producer, true);
    eventually_fetched(&mut c, (ErrorCode::None, 9));
}

#[test]
fn a_commit_that_cannot_be_replicated_is_refused_after_five_seconds() {
    let mut c = Cluster::formed(Fixes::ALL);
    ask(&mut c, &commit(&name(""), -1, 5));
    let coordinator = find(&mut c, CoordinatorKey::Group(GROUP));
    c.isolate(coordinator, true);
    c.pass(10);
    let asked = c.ask(coordinator, Request::Group(Box::new(commit(&name(""), -1, 6))));
    c.pass(4_900);
    assert!(c.answer(asked).is_none());
    c.pass(200);
    let told = c.answer(asked);
    let unavailable = ErrorCode::CoordinatorNotAvailable;
    assert!(matches!(&told, Some(Reply::Group(GroupReply::OffsetCommit(e, _))) if *e == unavailable), "{told:?}");
    c.pass(20_000);
    c.isolate(coordinator, false);
    c.pass(10_000);
    assert_eq!(fetched(&mut c), (ErrorCode::None, 5), "the new coordinator never had it");
}

#[test]
fn a_member_of_the_consumer_protocol_keeps_its_partitions_over_a_failover() {
    let mut c = Cluster::formed(Fixes::ALL);
    let beat = |c: &mut Cluster, epoch: i32, full: bool| -> ConsumerGroupHeartbeatReply {
        let request = ConsumerGroupHeartbeatRequest {
            group: GROUP,
            member: name("a"),
            instance: None,
            epoch,
            rebalance_timeout: full.then_some(Millis(30_000)),
            topics: full.then(|| vec![DATA]),
            assignor: None,
            owned: full.then(Vec::new),
        };
        match ask(c, &GroupRequest::ConsumerHeartbeat(request)) {
            GroupReply::ConsumerHeartbeat(reply) => reply,
            other => panic!("{other:?}"),
        }
    };
    let joined = beat(&mut c, 0, true);
    let all: Vec<_> = (0..3).map(|partition| TopicPartition { topic: DATA, partition }).collect();
    assert_eq!((joined.epoch, joined.assignment), (2, Some(all)));
    let coordinator = find(&mut c, CoordinatorKey::Group(GROUP));
    c.kill(coordinator);
    let after = beat(&mut c, 2, false);
    assert_eq!((after.error, after.epoch, after.assignment), (ErrorCode::None, 2, None));
    assert!(matches!(ask(&mut c, &commit(&name("a"), 2, 7)), GroupReply::OffsetCommit(ErrorCode::None, _)));
    assert!(matches!(ask(&mut c, &commit(&name("a"), 3, 8)), GroupReply::OffsetCommit(ErrorCode::StaleMemberEpoch, _)));
    assert_eq!(fetched(&mut c), (ErrorCode::None, 7));
}

/// late-produce-after-abort-hangs-lso, of offsets: a commit arrives when its transaction is over.
#[test]
fn a_late_commit_leaves_no_offsets_that_stay_pending() {
    let late = |verification, v2| {
        let mut c = Cluster::with_verification(Fixes::ALL, verification);
        ask(&mut c, &commit(&name(""), -1, 5));
        let producer = send_offsets(&mut c, 9);
        end_as(&mut c, producer, false, v2);
        eventually_fetched(&mut c, (ErrorCode::None, 5));
        let told = txn_commit(&mut c, producer, 10, v2);
        // Longer than any timeout.
        c.pass(90_000);
        (told, fetched(&mut c).0)
    };
    assert_eq!(late(false, false), (ErrorCode::None, ErrorCode::UnstableOffsetCommit), "nobody ends it");
    assert_eq!(late(true, false), (ErrorCode::InvalidTxnState, ErrorCode::None));
    assert_eq!(late(false, true), (ErrorCode::InvalidProducerEpoch, ErrorCode::None), "every end raises the epoch");
}

#[test]
fn the_group_coordinator_adds_the_offsets_of_a_v2_client_to_its_transaction() {
    for (commits, want) in [(true, 9), (false, 5)] {
        let mut c = Cluster::formed(Fixes::ALL);
        ask(&mut c, &commit(&name(""), -1, 5));
        let producer = producer_id(&mut c);
        assert_eq!(txn_commit(&mut c, producer, 9, true), ErrorCode::None);
        assert_eq!(fetched(&mut c).0, ErrorCode::UnstableOffsetCommit);
        end_as(&mut c, producer, commits, true);
        eventually_fetched(&mut c, (ErrorCode::None, want));
    }
}
