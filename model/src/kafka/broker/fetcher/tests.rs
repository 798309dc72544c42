use super::*;
use crate::base::{Batch, BrokerEpoch, BrokerSet, Domain, EventTime, Fixes, PartitionEpoch, ProducerTag, Streams};
use crate::kafka::broker::AlterPartitionManager;
use crate::kafka::log::{Entry, LogConfig, UnifiedLog};
use crate::kafka::partition::{BrokerTable, Partition, PartitionConfig, PartitionMetadata};
use std::sync::Arc;

/// Broker 2, which follows partitions 0 and 1 of broker 1.
struct Follower {
    now: Millis,
    partitions: Partitions,
    fetcher: ReplicaFetcher,
    brokers: BrokerTable,
    alter: AlterPartitionManager,
}

fn tp(p: u16) -> TopicPartition {
    TopicPartition::new(0, p)
}
fn batch(base: i64, epoch: i32) -> Entry {
    let batch = Arc::new(Batch::sized(1, 100, ProducerTag::NONE, false, EventTime(0)));
    Entry { base: Offset(base), epoch: LeaderEpoch(epoch), batch }
}
fn fetched(p: u16, entries: Vec<Entry>) -> FetchedPartition {
    let bytes = entries.iter().map(|e| e.batch.bytes).sum();
    let none = FetchedPartition::failed(tp(p), ErrorCode::None);
    FetchedPartition { entries: entries.into(), bytes, log_start: Offset(0), high_watermark: Offset(0), ..none }
}

impl Follower {
    fn new() -> Self {
        let fixes = Fixes::ALL;
        let jitter = Streams(1).stream(Domain::Process, 2, "connect");
        let fetcher = ReplicaFetcher::new(BrokerId(2), BrokerId(1), FetcherConfig::default(), jitter);
        let (brokers, alter) = (BrokerTable::default(), AlterPartitionManager::default());
        let mut f = Self { now: Millis(1_000), partitions: Partitions::default(), fetcher, brokers, alter };
        for p in 0..2 {
            let log = UnifiedLog::new(LogConfig::default(), fixes);
            f.partitions.insert(Partition::new(tp(p), BrokerId(2), PartitionConfig::default(), log, None, fixes));
            f.follow(p, 1);
        }
        f
    }
    fn call<T>(&mut self, f: impl FnOnce(&mut ReplicaFetcher, &mut Partitions, &mut PartitionCx<'_>) -> T) -> T {
        let Self { now, partitions, fetcher, brokers, alter } = self;
        let mut out = Vec::new();
        let mut cx = PartitionCx { now: *now, broker_epoch: BrokerEpoch(5), brokers, alter, out: &mut out };
        f(fetcher, partitions, &mut cx)
    }
    /// Metadata of a new leader epoch.
    fn follow(&mut self, p: u16, epoch: i32) {
        let metadata = PartitionMetadata {
            leader: BrokerId(1),
            leader_epoch: LeaderEpoch(epoch),
            partition_epoch: PartitionEpoch(epoch),
            isr: BrokerSet::default(),
            replicas: &[BrokerId(1), BrokerId(2)],
        };
        self.call(|fetcher, partitions, cx| {
            let partition = partitions.get_mut(tp(p)).unwrap();
            partition.make_follower(&metadata, cx);
            let start = partition.start_following(cx);
            fetcher.remove(tp(p));
            fetcher.add(tp(p), LeaderEpoch(epoch), start);
        });
    }
    fn poll(&mut self) -> Vec<FetcherAction> {
        let mut actions = Vec::new();
        self.call(|fetcher, partitions, cx| fetcher.poll(partitions, cx, |action| actions.push(action)));
        actions
    }
    fn connect(&mut self) -> FetchRequest {
        assert!(matches!(self.poll()[..], [FetcherAction::Connect]));
        let now = self.now;
        fetch_of(&self.fetcher.on_up(now))
    }
    fn reply(&mut self, body: Reply) {
        let correlation = self.fetcher.correlation;
        self.call(|fetcher, partitions, cx| fetcher.on_reply(correlation, &body, partitions, cx));
    }
    fn fetched(&mut self, partitions: Vec<FetchedPartition>) {
        self.reply(Reply::Fetch(FetchReply { error: ErrorCode::None, session: 9, partitions }));
    }
    fn offset(&mut self, p: u16, error: ErrorCode, offset: i64) {
        let answer = (tp(p), error, Offset(offset), LeaderEpoch(1));
        self.reply(Reply::ListOffsets(ListOffsetsReply { partitions: vec![answer] }));
    }
    fn end(&self, p: u16) -> Offset {
        self.partitions.get(tp(p)).unwrap().log().end()
    }
    fn order(&self) -> Vec<u16> {
        self.fetcher.partitions().map(|tp| tp.partition).collect()
    }
}

fn fetch_of(actions: &[FetcherAction]) -> FetchRequest {
    match actions {
        [FetcherAction::Send { body: Request::Fetch(fetch), .. }] => (**fetch).clone(),
        other => panic!("expected a fetch, got {other:?}"),
    }
}
fn asked_offset(actions: &[FetcherAction]) -> OffsetSpec {
    match actions {
        [FetcherAction::Send { body: Request::ListOffsets(list), .. }] => list.partitions[0].1,
        other => panic!("expected ListOffsets, got {other:?}"),
    }
}

#[test]
fn a_partition_that_took_data_moves_to_the_end_and_its_change_travels_in_the_session() {
    let mut f = Follower::new();
    let full = f.connect();
    assert_eq!((full.session_epoch, full.partitions.len(), full.replica), (0, 2, Some((BrokerId(2), BrokerEpoch(5)))));
    f.fetched(vec![fetched(0, vec![batch(0, 1), batch(1, 1)]), fetched(1, vec![])]);
    assert_eq!((f.end(0), f.order()), (Offset(2), vec![0, 1]), "both moved: the first success of each");
    let next = fetch_of(&f.poll());
    assert_eq!((next.session, next.session_epoch, next.partitions.len()), (9, 1, 1));
    assert_eq!((next.partitions[0].offset, next.partitions[0].last_fetched_epoch), (Offset(2), LeaderEpoch(1)));
    f.fetched(vec![fetched(0, vec![batch(2, 1)])]);
    assert_eq!(f.order(), [1, 0]);
}

#[test]
fn a_silent_leader_holds_the_fetcher_for_thirty_seconds() {
    let mut f = Follower::new();
    f.connect();
    f.now = Millis(31_000);
    assert!(f.poll().is_empty());
    f.now = f.fetcher.deadline().unwrap();
    assert_eq!(f.now, Millis(31_001));
    assert!(matches!(f.poll()[..], [FetcherAction::Disconnect]));
    f.now = f.fetcher.deadline().unwrap();
    assert_eq!(f.now, Millis(32_001), "then the back-off");
    assert!(matches!(f.poll()[..], [FetcherAction::Connect]));
}

#[test]
fn a_refused_connection_is_tried_again_after_the_backoff_and_a_silent_one_is_given_up() {
    let mut f = Follower::new();
    assert!(matches!(f.poll()[..], [FetcherAction::Connect]));
    let now = f.now;
    f.fetcher.on_down(now);
    assert!(f.poll().is_empty());
    f.now = f.fetcher.deadline().unwrap();
    assert_eq!(f.now, Millis(2_000));
    assert!(matches!(f.poll()[..], [FetcherAction::Connect]));
    let give_up = f.fetcher.deadline().unwrap() - f.now;
    assert!((8_000..=12_000).contains(&give_up.0), "{give_up}");
}

#[test]
fn an_unknown_epoch_waits_a_second_and_leaves_the_session_meanwhile() {
    let mut f = Follower::new();
    f.connect();
    f.fetched(vec![FetchedPartition::failed(tp(0), ErrorCode::UnknownLeaderEpoch), fetched(1, vec![])]);
    let next = fetch_of(&f.poll());
    assert_eq!((next.partitions.len(), next.forget), (0, vec![tp(0)]));
    f.now = Millis(2_000);
    f.fetched(vec![]);
    let again = fetch_of(&f.poll());
    assert_eq!(again.partitions[0].tp, tp(0));
}

#[test]
fn a_fenced_partition_stops_until_metadata_names_a_new_epoch() {
    let mut f = Follower::new();
    f.connect();
    f.fetched(vec![FetchedPartition::failed(tp(0), ErrorCode::FencedLeaderEpoch), fetched(1, vec![])]);
    assert_eq!((f.order(), f.fetcher.failed().len()), (vec![1], 1));
    f.follow(0, 2);
    assert_eq!((f.order(), f.fetcher.failed().len()), (vec![1, 0], 0));
}

#[test]
fn an_answer_to_an_older_epoch_is_dropped() {
    let mut f = Follower::new();
    f.connect();
    f.follow(0, 2);
    f.fetched(vec![fetched(0, vec![batch(0, 1)])]);
    assert_eq!(f.end(0), Offset(0));
}

#[test]
fn out_of_range_asks_for_the_leaders_end_and_cuts_or_begins_anew() {
    let mut f = Follower::new();
    f.connect();
    f.fetched(vec![fetched(0, (0..3).map(|i| batch(i, 1)).collect())]);
    fetch_of(&f.poll());
    f.fetched(vec![FetchedPartition::failed(tp(0), ErrorCode::OffsetOutOfRange)]);
    assert_eq!(asked_offset(&f.poll()), OffsetSpec::Latest);
    f.offset(0, ErrorCode::None, 1);
    assert_eq!(f.end(0), Offset(1));
    assert_eq!(fetch_of(&f.poll()).partitions[0].offset, Offset(1));
    f.fetched(vec![FetchedPartition::failed(tp(0), ErrorCode::OffsetOutOfRange)]);
    f.poll();
    f.offset(0, ErrorCode::None, 90);
    assert_eq!(asked_offset(&f.poll()), OffsetSpec::Earliest);
    f.offset(0, ErrorCode::None, 50);
    assert_eq!(f.end(0), Offset(50));
    f.poll();
    f.fetched(vec![FetchedPartition::failed(tp(0), ErrorCode::OffsetOutOfRange)]);
    f.poll();
    f.offset(0, ErrorCode::NotLeaderOrFollower, -1);
    assert_eq!(fetch_of(&f.poll()).forget, [tp(0)]);
}
