use super::*;
use crate::base::{
    Batch, BrokerEpoch, BrokerId, BrokerSet, Domain, EventTime, PartitionEpoch, ProducerEpoch, ProducerId, ProducerTag,
    Sequence, Streams,
};
use crate::kafka::broker::AlterPartitionManager;
use crate::kafka::log::{LogConfig, UnifiedLog};
use crate::kafka::partition::{BrokerState, BrokerTable, PartitionConfig, PartitionMetadata, Produce};
use std::sync::Arc;

const REPLICAS: [BrokerId; 2] = [BrokerId(1), BrokerId(2)];

/// Broker 1, which leads partitions 0 and 1; broker 2 follows.
struct Leader {
    now: Millis,
    partitions: Partitions,
    fetches: DelayedFetches,
    brokers: BrokerTable,
    alter: AlterPartitionManager,
}

impl Leader {
    fn new(fixes: Fixes) -> Self {
        let mut brokers = BrokerTable::default();
        for id in REPLICAS {
            brokers.set(id, BrokerState { epoch: BrokerEpoch(1), fenced: false, shutting_down: false });
        }
        let fetches = DelayedFetches::new(Streams(1).stream(Domain::Process, 1, "sessions"), fixes);
        let alter = AlterPartitionManager::default();
        let mut leader = Self { now: Millis(1_000), partitions: Partitions::default(), fetches, brokers, alter };
        for p in 0..2 {
            let config = LogConfig { transaction_verification: false, ..LogConfig::default() };
            let log = UnifiedLog::new(config, fixes);
            let tp = TopicPartition::new(0, p);
            leader.partitions.insert(Partition::new(tp, BrokerId(1), PartitionConfig::default(), log, None, fixes));
            leader.lead(p, 1, 1);
        }
        leader
    }
    fn call<T>(&mut self, f: impl FnOnce(&mut Partitions, &mut DelayedFetches, &mut PartitionCx<'_>) -> T) -> T {
        let mut out = Vec::new();
        let Self { now, partitions, fetches, brokers, alter } = self;
        let mut cx = PartitionCx { now: *now, broker_epoch: BrokerEpoch(1), brokers, alter, out: &mut out };
        f(partitions, fetches, &mut cx)
    }
    fn lead(&mut self, p: u16, leader: i32, epoch: i32) {
        let metadata = PartitionMetadata {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(epoch),
            partition_epoch: PartitionEpoch(epoch),
            isr: BrokerSet::of(&REPLICAS),
            replicas: &REPLICAS,
        };
        self.call(|partitions, _, cx| {
            let partition = partitions.get_mut(TopicPartition::new(0, p)).unwrap();
            if leader == 1 { partition.make_leader(&metadata, cx) } else { partition.make_follower(&metadata, cx) }
        });
    }
    fn append(&mut self, p: u16, bytes: u32, transactional: bool) {
        let producer = ProducerTag { id: ProducerId(7), epoch: ProducerEpoch(0), base_sequence: Sequence(0) };
        let producer = if transactional { producer } else { ProducerTag::NONE };
        let batch = Arc::new(Batch::sized(1, bytes, producer, transactional, EventTime(0)));
        self.call(|partitions, _, cx| {
            let partition = partitions.get_mut(TopicPartition::new(0, p)).unwrap();
            partition.produce(&batch, &Produce::client(0, 1, Millis(0)), cx).unwrap();
        });
    }
    fn fetch(&mut self, token: u64, request: &FetchRequest) -> Option<FetchReply> {
        self.call(|partitions, fetches, cx| fetches.fetch(token, request, partitions, cx))
    }
    fn check(&mut self, p: u16) -> Vec<u64> {
        let mut answers = Vec::new();
        let tp = TopicPartition::new(0, p);
        self.call(|partitions, fetches, cx| fetches.check(&[tp], partitions, cx, &mut answers));
        answers.iter().map(|a| a.token).collect()
    }
    /// The follower fetches partition 0 from `offset`, so that the high watermark follows.
    fn replicate(&mut self, offset: i64) {
        let request = FetchRequest { max_wait: Millis(0), ..follower(&[(0, offset)]) };
        assert!(self.fetch(0, &request).is_some());
    }
}

fn consumer(wanted: &[(u16, i64)]) -> FetchRequest {
    let partitions = wanted.iter().map(|(p, offset)| FetchPartition {
        tp: TopicPartition::new(0, *p),
        offset: Offset(*offset),
        leader_epoch: LeaderEpoch(1),
        last_fetched_epoch: LeaderEpoch::UNKNOWN,
        log_start: Offset(0),
        max_bytes: 1_000,
    });
    FetchRequest {
        replica: None,
        max_wait: Millis(500),
        min_bytes: 1,
        max_bytes: 10_000,
        isolation: Isolation::HighWatermark,
        session: 0,
        session_epoch: -1,
        partitions: partitions.collect(),
        forget: Vec::new(),
    }
}
fn follower(wanted: &[(u16, i64)]) -> FetchRequest {
    FetchRequest { replica: Some((BrokerId(2), BrokerEpoch(1))), isolation: Isolation::LogEnd, ..consumer(wanted) }
}
fn sizes(reply: &FetchReply) -> Vec<u32> {
    reply.partitions.iter().map(|p| p.bytes).collect()
}

#[test]
fn an_append_wakes_the_follower_and_the_high_watermark_the_consumer() {
    let mut l = Leader::new(Fixes::ALL);
    assert!(l.fetch(1, &follower(&[(0, 0), (1, 0)])).is_none());
    assert!(l.fetch(2, &consumer(&[(0, 0)])).is_none());
    l.append(0, 100, false);
    assert_eq!(l.check(0), [1]);
    assert!(l.fetch(3, &follower(&[(0, 1), (1, 0)])).is_none());
    assert_eq!(l.check(0), [2], "the follower that waits is not told of the high watermark (KAFKA-9731)");
    assert_eq!((l.fetches.len(), l.fetches.deadline()), (1, Some(Millis(1_500))));
    l.now = Millis(1_500);
    let answers = l.call(|partitions, fetches, cx| fetches.expire(partitions, cx));
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].reply.partitions[0].high_watermark, Offset(1));
}

#[test]
fn errors_are_answered_at_once_and_so_is_lost_leadership() {
    let mut l = Leader::new(Fixes::ALL);
    assert!(l.fetch(1, &consumer(&[(0, 0), (1, 0)])).is_none());
    l.lead(1, 2, 2);
    assert_eq!(l.check(1), [1]);
    let reply = l.fetch(2, &consumer(&[(0, 0), (1, 0), (5, 0)])).unwrap();
    let errors: Vec<_> = reply.partitions.iter().map(|p| p.error).collect();
    assert_eq!(errors, [ErrorCode::None, ErrorCode::FencedLeaderEpoch, ErrorCode::UnknownTopicOrPartition]);
    assert_eq!(reply.partitions[1].leader, Some((BrokerId(2), LeaderEpoch(2))));
}

#[test]
fn the_budget_shrinks_and_only_the_first_partition_with_data_may_exceed_it() {
    let mut l = Leader::new(Fixes::ALL);
    for p in [0, 1] {
        (0..3).for_each(|_| l.append(p, 400, false));
    }
    let reply = l.fetch(1, &FetchRequest { max_bytes: 100, ..follower(&[(0, 0), (1, 0)]) }).unwrap();
    assert_eq!(sizes(&reply), [400, 0]);
    let reply = l.fetch(2, &FetchRequest { max_bytes: 1_300, ..follower(&[(0, 0), (1, 0)]) }).unwrap();
    // A batch that does not fit is cut off; where it is the first, it is left out.
    assert_eq!(sizes(&reply), [1_000, 0]);
    assert_eq!(reply.partitions[0].entries.len(), 2);
}

#[test]
fn min_bytes_are_waited_for_over_all_partitions() {
    let mut l = Leader::new(Fixes::ALL);
    l.append(0, 400, false);
    assert!(l.fetch(1, &FetchRequest { min_bytes: 700, ..follower(&[(0, 0), (1, 0)]) }).is_none());
    l.append(1, 200, false);
    assert!(l.check(1).is_empty());
    l.append(1, 200, false);
    assert_eq!(l.check(1), [1]);
}

#[test]
fn an_answer_holds_what_came_to_any_of_its_partitions() {
    let mut l = Leader::new(Fixes::ALL);
    assert!(l.fetch(1, &follower(&[(0, 0), (1, 0)])).is_none());
    (0..2).for_each(|p| l.append(p, 100, false));
    let mut answers = Vec::new();
    let both = [1, 0].map(|p| TopicPartition::new(0, p));
    l.call(|partitions, fetches, cx| fetches.check(&both, partitions, cx, &mut answers));
    assert_eq!(sizes(&answers[0].reply), [100, 100]);
}

#[test]
fn a_session_is_told_of_a_new_leader_epoch_when_its_wait_is_over() {
    let mut l = Leader::new(Fixes::ALL);
    let full = FetchRequest { session_epoch: 0, max_wait: Millis(0), ..follower(&[(0, 0), (1, 0)]) };
    let session = l.fetch(1, &full).unwrap().session;
    let next = |session_epoch| FetchRequest { session, session_epoch, ..follower(&[]) };
    for (epoch, token, led_anew) in [(1, 2, false), (2, 3, true)] {
        assert!(l.fetch(token, &next(epoch)).is_none());
        if led_anew {
            l.lead(1, 1, 2);
            l.call(|partitions, fetches, _| fetches.all_may_change(partitions));
        }
        l.now = l.now + Millis(500);
        let answers = l.call(|partitions, fetches, cx| fetches.expire(partitions, cx));
        let told: Vec<_> = answers[0].reply.partitions.iter().map(|p| (p.tp.partition, p.error)).collect();
        assert_eq!(told, if led_anew { vec![(1, ErrorCode::FencedLeaderEpoch)] } else { Vec::new() });
    }
}

#[test]
fn a_racing_reader_saw_beyond_an_open_transaction_before_kafka_9807() {
    for fixes in [Fixes::ALL, Fixes::ALL.without(Fix::SingleHighWatermarkRead)] {
        let mut l = Leader::new(fixes);
        let request = FetchRequest { isolation: Isolation::Committed, ..consumer(&[(0, 0)]) };
        assert!(l.fetch(1, &request).is_none());
        l.append(0, 100, true);
        l.replicate(1);
        let seen = l.check(0);
        assert_eq!(seen.is_empty(), fixes.has(Fix::SingleHighWatermarkRead));
    }
}

#[test]
fn a_cancelled_fetch_is_forgotten() {
    let mut l = Leader::new(Fixes::ALL);
    assert!(l.fetch(1, &consumer(&[(0, 0)])).is_none());
    l.fetches.cancel(1);
    assert!(l.fetches.is_empty());
    l.append(0, 100, false);
    assert!(l.check(0).is_empty());
}
