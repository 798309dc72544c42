//! Short histories of one partition at several brokers.

use super::*;
use crate::base::{Batch, EventTime, Fix, ProducerTag};
use crate::kafka::ErrorCode;
use crate::kafka::log::{LogConfig, ReadLimit};
use crate::kafka::messages::{FetchPartition, FetchedPartition};
use std::sync::Arc;

const TP: TopicPartition = TopicPartition::new(0, 0);
const REPLICAS: [BrokerId; 3] = [BrokerId(1), BrokerId(2), BrokerId(3)];

struct Broker {
    partition: Partition,
    alter: AlterPartitionManager,
    brokers: BrokerTable,
    out: Vec<PartitionOutput>,
}

impl Broker {
    fn new(id: i32, fixes: Fixes) -> Self {
        let config = PartitionConfig { min_insync_replicas: 2, ..PartitionConfig::default() };
        let log = UnifiedLog::new(LogConfig::default(), fixes);
        let mut brokers = BrokerTable::default();
        for id in REPLICAS {
            brokers.set(id, BrokerState { epoch: BrokerEpoch(1), fenced: false, shutting_down: false });
        }
        let partition = Partition::new(TP, BrokerId(id), config, log, None, fixes);
        Self { partition, alter: AlterPartitionManager::default(), brokers, out: Vec::new() }
    }
    fn call<T>(&mut self, f: impl FnOnce(&mut Partition, &mut PartitionCx<'_>) -> T) -> T {
        let Self { partition, alter, brokers, out } = self;
        let mut cx = PartitionCx { now: Millis(1_000), broker_epoch: BrokerEpoch(1), brokers, alter, out };
        f(partition, &mut cx)
    }
    fn metadata(&mut self, leader: i32, epoch: i32) {
        let metadata = PartitionMetadata {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(epoch),
            partition_epoch: PartitionEpoch(epoch),
            isr: BrokerSet::of(&REPLICAS),
            replicas: &REPLICAS,
        };
        let leads = self.partition.me == BrokerId(leader);
        self.call(|p, cx| if leads { p.make_leader(&metadata, cx) } else { p.make_follower(&metadata, cx) });
    }
    fn append(&mut self, content: u64) {
        let mut batch = Batch::sized(1, 100, ProducerTag::NONE, false, EventTime(0));
        batch.content = content;
        self.call(|p, cx| p.produce(&Arc::new(batch), &Produce::client(content, 1, Millis(0)), cx)).unwrap();
    }
    /// Fetches once from `leader` at this log's end.
    fn fetch_from(&mut self, leader: &mut Self, last_epoch: LeaderEpoch) -> Result<FetchedPartition, ErrorCode> {
        let from = FetchPartition {
            tp: TP,
            offset: self.partition.log.end(),
            leader_epoch: self.partition.leader_epoch,
            last_fetched_epoch: last_epoch,
            log_start: Offset(0),
            max_bytes: 1_000,
        };
        let fetcher = Fetcher::Follower { replica: self.partition.me, broker_epoch: BrokerEpoch(1) };
        let limit = ReadLimit { max_bytes: 1_000, min_one: true, high_watermark_seen: None };
        let read = leader.call(|p, cx| p.fetch(&from, fetcher, &limit, true, cx))?;
        let fetched = read.into_fetched(&leader.partition);
        match fetched.diverging {
            Some(diverging) => self.call(|p, cx| {
                let cut = p.truncation(diverging, from.offset);
                p.truncate_to(cut.to, cx);
            }),
            None => {
                let appended = self.call(|p, cx| p.append_fetched(&fetched, from.offset, from.leader_epoch, cx));
                assert!(appended.is_ok());
            }
        }
        Ok(fetched)
    }
    fn contents(&mut self) -> Vec<u64> {
        let limit = ReadLimit { max_bytes: 10_000, min_one: true, high_watermark_seen: None };
        let read = self.partition.log.read(Offset(0), crate::kafka::log::Isolation::LogEnd, &limit).unwrap();
        read.entries.iter().map(|e| e.batch.content).collect()
    }
}

/// Leadership goes from 1 to 2 and back while 3 hears of neither: 3 has a record of epoch 0 that 1 has cut since.
fn away_and_back(fixes: Fixes) -> (Broker, Broker) {
    let [mut a, mut b, mut c] = [1, 2, 3].map(|id| Broker::new(id, fixes));
    for n in [&mut a, &mut b, &mut c] {
        n.metadata(1, 0);
    }
    a.append(100);
    c.fetch_from(&mut a, LeaderEpoch::UNKNOWN).unwrap();
    assert_eq!(c.contents(), [100]);
    for n in [&mut b, &mut a] {
        n.metadata(2, 1);
    }
    b.append(200);
    assert_eq!(a.fetch_from(&mut b, LeaderEpoch(0)).unwrap().diverging, Some((LeaderEpoch(0), Offset(0))));
    a.fetch_from(&mut b, LeaderEpoch::UNKNOWN).unwrap();
    for n in [&mut a, &mut b] {
        n.metadata(1, 2);
    }
    b.fetch_from(&mut a, LeaderEpoch(1)).unwrap();
    assert_eq!(a.contents(), [200]);
    (a, c)
}

#[test]
fn a_follower_of_an_older_epoch_is_refused_and_does_not_count() {
    let (mut a, mut c) = away_and_back(Fixes::ALL);
    let epoch = c.partition.epoch_of_next_fetch();
    assert_eq!(c.fetch_from(&mut a, epoch).unwrap_err(), ErrorCode::FencedLeaderEpoch);
    assert_eq!(a.partition.log.high_watermark(), Offset(0));
}

#[test]
fn without_the_epoch_check_a_record_is_committed_that_a_member_does_not_have() {
    let (mut a, mut c) = away_and_back(Fixes::ALL.without(Fix::FetchEpochCheck));
    let epoch = c.partition.epoch_of_next_fetch();
    c.fetch_from(&mut a, epoch).unwrap();
    assert_eq!(a.partition.log.high_watermark(), Offset(1));
    assert_eq!((a.contents(), c.contents()), (vec![200], vec![100]));
}

#[test]
fn a_follower_that_does_not_know_the_leaders_epoch_cuts_and_asks_again() {
    let mut c = Broker::new(3, Fixes::ALL);
    for (epoch, n) in [(1, 2), (4, 3)] {
        c.metadata(1, epoch);
        for _ in 0..n {
            let batch = Batch::sized(1, 100, ProducerTag::NONE, false, EventTime(0));
            let base = c.partition.log.end();
            let entry = crate::kafka::log::Entry { base, epoch: LeaderEpoch(epoch), batch: Arc::new(batch) };
            c.call(|p, cx| p.append_to_follower(&[entry], LeaderEpoch(epoch), cx)).unwrap();
        }
    }
    let truncation = |c: &mut Broker, epoch, end| c.partition.truncation((LeaderEpoch(epoch), Offset(end)), Offset(5));
    assert_eq!(truncation(&mut c, 3, 4), Truncation { to: Offset(2), complete: false });
    assert_eq!(truncation(&mut c, 4, 4), Truncation { to: Offset(4), complete: true });
    assert_eq!(truncation(&mut c, 1, 9), Truncation { to: Offset(2), complete: true });
    assert_eq!(truncation(&mut c, 0, 9), Truncation { to: Offset(0), complete: true });
    assert_eq!(truncation(&mut c, 3, -1), Truncation { to: Offset(5), complete: true });
}
