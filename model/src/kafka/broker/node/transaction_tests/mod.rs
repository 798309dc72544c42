//! Transactions on three real nodes: the coordinator over a replicated log, markers over the network, failover.

pub(super) mod cluster;
mod verification;

use crate::base::{
    Batch, BatchKind, BrokerId, EventTime, Fix, Fixes, Millis, Nanos, Offset, ProducerEpoch, ProducerId, ProducerTag,
    Sequence, TopicPartition,
};
use crate::kafka::ErrorCode;
use crate::kafka::coordinator::transaction::TransactionState;
use crate::kafka::log::{Isolation, ReadLimit};
use crate::kafka::messages::{ProduceRequest, Reply, Request};
use crate::kafka::placement::{coordinator_partition, string_hash};
use crate::kafka::txn_messages::{CoordinatorKey, CoordinatorReply, CoordinatorRequest, GroupId, TransactionalId};
use cluster::{Cluster, DATA, OFFSETS, PARTITIONS};
use std::sync::Arc;

const ID: TransactionalId = TransactionalId(0);
const COMMIT: bool = true;

fn data(partition: u16) -> TopicPartition {
    TopicPartition { topic: DATA, partition }
}
/// The leader of a partition as any living broker's metadata has it.
fn leader(c: &Cluster, tp: TopicPartition) -> BrokerId {
    c.alive().next().and_then(|n| n.image().partition(tp)).map_or(BrokerId::NONE, |p| p.leader)
}
fn find(c: &mut Cluster) -> BrokerId {
    for _ in 0..400 {
        let any = c.alive().next().expect("a living broker").id();
        let request = Request::Coordinator(CoordinatorRequest::Find(CoordinatorKey::Transaction(ID)));
        match c.call(any, request) {
            Reply::Coordinator(CoordinatorReply::Find { error: ErrorCode::None, node, addr: Some(_) })
                if c.node(node).is_some() =>
            {
                return node;
            }
            _ => c.pass(100),
        }
    }
    panic!("no coordinator is named");
}
/// Asks the coordinator until it is one, and free.
fn coordinate(c: &mut Cluster, request: CoordinatorRequest) -> CoordinatorReply {
    for _ in 0..400 {
        let node = find(c);
        let Reply::Coordinator(reply) = c.call(node, Request::Coordinator(request.clone())) else {
            panic!("another answer")
        };
        match error_of(&reply) {
            ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::ConcurrentTransactions => c.pass(50),
            _ => return reply,
        }
    }
    panic!("never answered: {request:?}");
}
fn error_of(reply: &CoordinatorReply) -> ErrorCode {
    match reply {
        CoordinatorReply::Find { error, .. }
        | CoordinatorReply::InitProducerId { error, .. }
        | CoordinatorReply::AddOffsets(error)
        | CoordinatorReply::EndTxn { error, .. } => *error,
        CoordinatorReply::AddPartitions(list) | CoordinatorReply::TxnOffsetCommit(list) => list[0].1,
    }
}

/// A TV1 producer reduced to what it sends.
struct Producer {
    id: ProducerId,
    epoch: ProducerEpoch,
    sequence: [i32; PARTITIONS as usize],
}
impl Producer {
    fn init(c: &mut Cluster, timeout: Millis) -> Self {
        let (producer, epoch) = (ProducerId::NONE, ProducerEpoch::NONE);
        match coordinate(c, CoordinatorRequest::InitProducerId { id: ID, timeout, producer, epoch }) {
            CoordinatorReply::InitProducerId { error: ErrorCode::None, producer, epoch } => {
                Self { id: producer, epoch, sequence: [0; PARTITIONS as usize] }
            }
            other => panic!("{other:?}"),
        }
    }
    fn add(&self, c: &mut Cluster, partitions: &[u16]) -> ErrorCode {
        let partitions = partitions.iter().map(|p| data(*p)).collect();
        error_of(&coordinate(
            c,
            CoordinatorRequest::AddPartitions { id: ID, producer: self.id, epoch: self.epoch, partitions, version: 3 },
        ))
    }
    fn produce(&mut self, c: &mut Cluster, partition: u16) -> ErrorCode {
        self.produce_as(c, partition, 11)
    }
    /// Produces one record with a request of that version, and no second time.
    fn produce_as(&mut self, c: &mut Cluster, partition: u16, version: u8) -> ErrorCode {
        let sequence = &mut self.sequence[usize::from(partition)];
        let tag = ProducerTag { id: self.id, epoch: self.epoch, base_sequence: Sequence(*sequence) };
        let batch = Arc::new(Batch::sized(1, 161, tag, true, EventTime(c.now.millis().0)));
        *sequence += 1;
        let batches = vec![(data(partition), batch)];
        let request =
            ProduceRequest { acks: -1, timeout: Millis(30_000), version, transactional_id: Some(ID), batches };
        let to = leader(c, data(partition));
        match c.call(to, Request::Produce(request)) {
            Reply::Produce(reply) => reply.partitions[0].error,
            other => panic!("{other:?}"),
        }
    }
    fn end_request(&self, commit: bool) -> CoordinatorRequest {
        CoordinatorRequest::EndTxn { id: ID, producer: self.id, epoch: self.epoch, commit, version: 4 }
    }
    fn end(&self, c: &mut Cluster, commit: bool) -> ErrorCode {
        error_of(&coordinate(c, self.end_request(commit)))
    }
}

/// Markers in a partition at its leader (true commits), and whether a transaction is open there.
fn markers(c: &mut Cluster, partition: u16) -> (Vec<bool>, bool) {
    let tp = data(partition);
    let node = c.node(leader(c, tp)).expect("a living leader");
    let mut log = node.partitions().get(tp).expect("held by its leader").log().clone();
    let limit = ReadLimit { max_bytes: u32::MAX, min_one: true, high_watermark_seen: None };
    let read = log.read(Offset(0), Isolation::HighWatermark, &limit).expect("in range");
    let marker = |kind: BatchKind| if let BatchKind::Control(m) = kind { Some(m.commit) } else { None };
    let found = read.entries.iter().filter_map(|e| marker(e.batch.kind)).collect();
    (found, log.first_unstable().is_some())
}
/// State of the id at whoever coordinates it.
fn state(c: &mut Cluster) -> Option<TransactionState> {
    let node = find(c);
    c.node(node)?.transaction_coordinator().state().metadata(ID).ok()?.map(|m| m.state)
}

#[test]
fn a_committed_and_an_aborted_transaction_end_in_every_partition() {
    let mut c = Cluster::formed(Fixes::ALL);
    let mut p = Producer::init(&mut c, Millis(60_000));
    for commit in [COMMIT, !COMMIT] {
        assert_eq!(p.add(&mut c, &[0, 1, 2]), ErrorCode::None);
        for partition in 0..PARTITIONS {
            assert_eq!(p.produce(&mut c, partition), ErrorCode::None);
        }
        assert!(markers(&mut c, 0).1, "open until the marker");
        assert_eq!(p.end(&mut c, commit), ErrorCode::None);
        c.pass(1_500);
        for partition in 0..PARTITIONS {
            let (found, open) = markers(&mut c, partition);
            assert_eq!((found.last(), open), (Some(&commit), false), "partition {partition}");
        }
    }
    assert_eq!(state(&mut c), Some(TransactionState::CompleteAbort));
}

#[test]
fn partitions_that_do_not_exist_are_not_added() {
    let mut c = Cluster::formed(Fixes::ALL);
    let p = Producer::init(&mut c, Millis(60_000));
    let request = CoordinatorRequest::AddPartitions {
        id: ID,
        producer: p.id,
        epoch: p.epoch,
        partitions: vec![data(0), data(9)],
        version: 3,
    };
    let node = find(&mut c);
    let Reply::Coordinator(CoordinatorReply::AddPartitions(list)) = c.call(node, Request::Coordinator(request)) else {
        panic!("another answer")
    };
    let errors: Vec<_> = list.iter().map(|(_, e)| *e).collect();
    assert_eq!(errors, [ErrorCode::OperationNotAttempted, ErrorCode::UnknownTopicOrPartition]);
    assert_eq!(state(&mut c), Some(TransactionState::Empty));
}

/// 9.4 case 7: who initializes while a transaction is open is to come again until it is aborted, and is two epochs on; the first
/// producer is fenced.
#[test]
fn a_second_init_has_the_open_transaction_aborted_and_is_two_epochs_on() {
    let mut c = Cluster::formed(Fixes::ALL);
    let p = Producer::init(&mut c, Millis(60_000));
    assert_eq!(p.add(&mut c, &[0]), ErrorCode::None);
    let (producer, epoch) = (ProducerId::NONE, ProducerEpoch::NONE);
    let init = CoordinatorRequest::InitProducerId { id: ID, timeout: Millis(60_000), producer, epoch };
    let node = find(&mut c);
    let Reply::Coordinator(told) = c.call(node, Request::Coordinator(init)) else { panic!("another answer") };
    assert_eq!(error_of(&told), ErrorCode::ConcurrentTransactions);
    let second = Producer::init(&mut c, Millis(60_000));
    assert_eq!((second.id, second.epoch), (p.id, ProducerEpoch(p.epoch.0 + 2)));
    assert_eq!(markers(&mut c, 0), (vec![!COMMIT], false));
    assert_eq!(p.add(&mut c, &[1]), ErrorCode::ProducerFenced);
    assert_eq!(p.end(&mut c, COMMIT), ErrorCode::ProducerFenced);
    assert_eq!(second.add(&mut c, &[1]), ErrorCode::None);
}

/// K-20, 4.3: below version 2 a fenced producer is told INVALID_PRODUCER_EPOCH.
#[test]
fn an_old_request_is_told_of_an_old_epoch_where_a_newer_one_is_fenced() {
    let mut c = Cluster::formed(Fixes::ALL);
    let p = Producer::init(&mut c, Millis(60_000));
    Producer::init(&mut c, Millis(60_000));
    let (producer, epoch, commit) = (p.id, p.epoch, COMMIT);
    for (version, error) in [(1, ErrorCode::InvalidProducerEpoch), (2, ErrorCode::ProducerFenced)] {
        for request in [
            CoordinatorRequest::AddPartitions { id: ID, producer, epoch, partitions: vec![data(0)], version },
            CoordinatorRequest::AddOffsets { id: ID, producer, epoch, group: GroupId(0), version },
            CoordinatorRequest::EndTxn { id: ID, producer, epoch, commit, version },
        ] {
            assert_eq!(error_of(&coordinate(&mut c, request.clone())), error, "{request:?}");
        }
    }
}

/// 4.5: a group's offsets are a partition like others, the one that holds the group.
#[test]
fn offsets_are_added_by_the_hash_of_their_group() {
    let mut c = Cluster::formed(Fixes::ALL);
    let p = Producer::init(&mut c, Millis(60_000));
    let request =
        CoordinatorRequest::AddOffsets { id: ID, producer: p.id, epoch: p.epoch, group: GroupId(0), version: 4 };
    assert_eq!(error_of(&coordinate(&mut c, request)), ErrorCode::None);
    let partition = coordinator_partition(string_hash("gatekeeper"), PARTITIONS);
    let tp = TopicPartition { topic: OFFSETS, partition };
    let at = find(&mut c);
    let metadata = c.node(at).and_then(|n| n.transaction_coordinator().state().metadata(ID).ok().flatten());
    assert_eq!(metadata.map(|m| m.partitions.iter().copied().collect::<Vec<_>>()), Some(vec![tp]));
    let asked = Request::Coordinator(CoordinatorRequest::Find(CoordinatorKey::Group(GroupId(0))));
    let Reply::Coordinator(CoordinatorReply::Find { node, .. }) = c.call(at, asked) else { panic!("another answer") };
    assert_eq!(node, leader(&c, tp));
}

/// A transaction whose commit has just been answered, and its coordinator.
fn prepared(fixes: Fixes, after: Nanos) -> (Cluster, Producer, BrokerId) {
    let mut c = Cluster::formed(fixes);
    let mut p = Producer::init(&mut c, Millis(60_000));
    assert_eq!(p.add(&mut c, &[0, 1, 2]), ErrorCode::None);
    for partition in 0..PARTITIONS {
        assert_eq!(p.produce(&mut c, partition), ErrorCode::None);
    }
    let coordinator = find(&mut c);
    let Reply::Coordinator(reply) = c.call(coordinator, Request::Coordinator(p.end_request(COMMIT))) else {
        panic!("another answer")
    };
    assert_eq!(error_of(&reply), ErrorCode::None);
    c.pass_time(after);
    (c, p, coordinator)
}
fn open_partitions(c: &mut Cluster) -> usize {
    (0..PARTITIONS).filter(|partition| markers(c, *partition).1).count()
}

#[test]
fn what_is_prepared_is_committed_by_the_next_coordinator() {
    let (mut c, p, coordinator) = prepared(Fixes::ALL, Nanos::ZERO);
    assert!(open_partitions(&mut c) > 0, "the answer does not wait for the markers");
    c.kill(coordinator);
    c.pass(20_000);
    assert_eq!(p.end(&mut c, COMMIT), ErrorCode::None, "a retried commit");
    c.pass(3_000);
    for partition in 0..PARTITIONS {
        let (found, open) = markers(&mut c, partition);
        assert!(found.iter().all(|commit| *commit) && !found.is_empty() && !open, "partition {partition}: {found:?}");
    }
    assert_eq!(state(&mut c), Some(TransactionState::CompleteCommit));
}

#[test]
fn the_timer_goes_on_at_the_next_coordinator() {
    let mut c = Cluster::formed(Fixes::ALL);
    let mut p = Producer::init(&mut c, Millis(10_000));
    assert_eq!(p.add(&mut c, &[0]), ErrorCode::None);
    let began = c.now;
    assert_eq!(p.produce(&mut c, 0), ErrorCode::None);
    let coordinator = find(&mut c);
    c.kill(coordinator);
    while state(&mut c) != Some(TransactionState::CompleteAbort) {
        c.pass(100);
        assert!(c.now.since(began).0 < 40_000_000_000, "never aborted");
    }
    let took = c.now.since(began).0 / 1_000_000_000;
    assert!((10..=30).contains(&took), "{took} s: the timeout, and at most a scan more than the failover");
    assert_eq!(markers(&mut c, 0), (vec![!COMMIT], false));
    assert_eq!(p.end(&mut c, COMMIT), ErrorCode::ProducerFenced);
}

#[test]
fn partitions_that_were_not_stored_hang_after_a_failover() {
    for (fixes, hangs) in [(Fixes::ALL, false), (Fixes::ALL.without(Fix::AddPartitionsStored), true)] {
        let mut c = Cluster::formed(fixes);
        let mut p = Producer::init(&mut c, Millis(60_000));
        assert_eq!(p.add(&mut c, &[0]), ErrorCode::None);
        assert_eq!(p.produce(&mut c, 0), ErrorCode::None);
        let coordinator = find(&mut c);
        c.kill(coordinator);
        c.pass(20_000);
        let told = p.end(&mut c, COMMIT);
        c.pass(3_000);
        assert_eq!(told, if hangs { ErrorCode::InvalidTxnState } else { ErrorCode::None });
        assert_eq!(markers(&mut c, 0).1, hangs, "open for ever, no timeout knows of it");
    }
}

/// The coordinator dies with every marker written and the end of the transaction not stored: all get a second one.
#[test]
fn markers_that_are_written_again_are_accepted() {
    let between = |fixes| {
        (0..200).find_map(|n| {
            let (mut c, p, coordinator) = prepared(fixes, Nanos::micros(100 * n));
            let told = c.node(coordinator)?.transaction_coordinator().state().metadata(ID).ok()??.state;
            (open_partitions(&mut c) == 0 && told == TransactionState::PrepareCommit).then_some((c, p, coordinator))
        })
    };
    for (fixes, end) in [
        (Fixes::ALL, TransactionState::CompleteCommit),
        (Fixes::ALL.without(Fix::ReplayedMarkerAccepted), TransactionState::PrepareCommit),
    ] {
        let (mut c, _, coordinator) = between(fixes).expect("a moment between the last marker and the end");
        c.kill(coordinator);
        c.pass(60_000);
        assert_eq!(state(&mut c), Some(end));
        let twice = (0..PARTITIONS).filter(|p| markers(&mut c, *p).0 == [COMMIT, COMMIT]).count();
        assert_eq!(twice, if end == TransactionState::CompleteCommit { 3 } else { 0 });
    }
}

/// Nobody remembers anything: the log alone says that the transaction is to be committed.
#[test]
fn what_is_prepared_is_committed_after_all_brokers_have_died() {
    let (mut c, p, _) = prepared(Fixes::ALL, Nanos::ZERO);
    let brokers: Vec<BrokerId> = (1..=3).map(BrokerId).collect();
    brokers.iter().for_each(|id| c.kill(*id));
    c.pass(10_000);
    brokers.iter().for_each(|id| c.start(*id));
    c.pass(40_000);
    assert_eq!(p.end(&mut c, COMMIT), ErrorCode::None, "a retried commit");
    assert_eq!(state(&mut c), Some(TransactionState::CompleteCommit));
    assert_eq!(open_partitions(&mut c), 0);
    for partition in 0..PARTITIONS {
        let (found, _) = markers(&mut c, partition);
        assert!(found.iter().all(|commit| *commit) && !found.is_empty(), "partition {partition}: {found:?}");
    }
}

/// A coordinator that is cut off takes a commit and cannot store it; its successor decides otherwise.
#[test]
fn a_coordinator_that_is_cut_off_decides_nothing() {
    let mut c = Cluster::formed(Fixes::ALL);
    let mut p = Producer::init(&mut c, Millis(60_000));
    assert_eq!(p.add(&mut c, &[0, 1, 2]), ErrorCode::None);
    for partition in 0..PARTITIONS {
        assert_eq!(p.produce(&mut c, partition), ErrorCode::None);
    }
    let old = find(&mut c);
    c.isolate(old, true);
    let asked = c.ask(old, Request::Coordinator(p.end_request(COMMIT)));
    c.pass(25_000);
    assert!(c.answer(asked).is_none(), "not stored, so not answered");
    let others = |c: &mut Cluster| {
        let node = c.alive().find(|n| n.id() != old).expect("a living broker").id();
        match c.call(node, Request::Coordinator(CoordinatorRequest::Find(CoordinatorKey::Transaction(ID)))) {
            Reply::Coordinator(CoordinatorReply::Find { node, .. }) => node,
            other => panic!("{other:?}"),
        }
    };
    let new = others(&mut c);
    assert_ne!(new, old);
    let Reply::Coordinator(reply) = c.call(new, Request::Coordinator(p.end_request(!COMMIT))) else {
        panic!("another answer")
    };
    assert_eq!(error_of(&reply), ErrorCode::None);
    c.isolate(old, false);
    c.pass(30_000);
    let told = c.answer(asked);
    assert!(
        matches!(told, Some(Reply::Coordinator(CoordinatorReply::EndTxn { error: ErrorCode::NotCoordinator, .. }))),
        "{told:?}"
    );
    assert_eq!(state(&mut c), Some(TransactionState::CompleteAbort));
    for partition in 0..PARTITIONS {
        let (found, open) = markers(&mut c, partition);
        assert!(found.iter().all(|commit| !commit) && !found.is_empty() && !open, "partition {partition}: {found:?}");
    }
}

#[test]
fn an_end_of_v2_answers_the_next_epoch_and_its_markers_carry_it() {
    let mut c = Cluster::formed(Fixes::ALL);
    let mut p = Producer::init(&mut c, Millis(60_000));
    for epoch in 1..3 {
        assert_eq!(p.add(&mut c, &[0]), ErrorCode::None);
        assert_eq!(p.produce(&mut c, 0), ErrorCode::None);
        let CoordinatorRequest::EndTxn { id, producer, epoch: current, commit, .. } = p.end_request(COMMIT) else {
            panic!("an end")
        };
        let request = CoordinatorRequest::EndTxn { id, producer, epoch: current, commit, version: 5 };
        match coordinate(&mut c, request) {
            CoordinatorReply::EndTxn { error: ErrorCode::None, producer, epoch: next } => {
                assert_eq!((producer, next), (p.id, ProducerEpoch(epoch)));
                p = Producer { id: producer, epoch: next, sequence: [0; PARTITIONS as usize] };
            }
            other => panic!("{other:?}"),
        }
    }
    c.pass(1_500);
    assert_eq!(markers(&mut c, 0), (vec![COMMIT, COMMIT], false));
}
