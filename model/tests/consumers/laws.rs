//! Whatever the brokers do: offsets rise, nothing that is aborted or a marker is delivered, everything committed is, once.

use crate::cluster::Cluster;
use model::base::{BrokerId, Domain, LeaderEpoch, Millis, Offset, Stream, Streams, TopicPartition};
use model::kafka::client::java_consumer::{AutoOffsetReset, ConsumerConfig, JavaConsumer, TopicHashes};
use model::kafka::client::rdkafka_consumer::{Consumed, RdConsumer, RdConsumerConfig, Start};
use model::kafka::client::{Network, Slice};
use model::kafka::messages::OffsetSpec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fills a log with plain batches and transactions of three producers that interleave; all ended in the end.
fn fill(cluster: &mut Cluster, seed: u64, batches: u32) {
    let mut s = Streams(seed).stream(Domain::Workload, 0, "logs");
    for log in cluster.logs.values_mut() {
        let mut open: [Vec<i64>; 3] = Default::default();
        for _ in 0..batches {
            let p = s.below(3) as usize;
            let records = s.between(1, 6) as u32;
            match s.below(6) {
                0 => {
                    let base = log.data(-1, records, 60 + 20 * records, false, 0);
                    log.committed.extend(base.0..base.0 + i64::from(records));
                }
                1 | 2 if !open[p].is_empty() => log.marker(p as i64, s.chance(1, 2), &std::mem::take(&mut open[p])),
                _ => {
                    let base = log.data(p as i64, records, 60 + 20 * records, true, 0);
                    open[p].extend(base.0..base.0 + i64::from(records));
                }
            }
        }
        for (p, offsets) in open.iter().enumerate().filter(|(_, o)| !o.is_empty()) {
            log.marker(p as i64, s.chance(1, 2), offsets);
        }
        log.committed.sort_unstable();
    }
}

/// Checks what is delivered as it comes.
#[derive(Default)]
struct Seen(BTreeMap<TopicPartition, Vec<i64>>);
impl Seen {
    fn take(&mut self, s: &Slice) {
        assert!(s.from < s.to && s.to <= s.batch.records && !s.batch.is_control());
        let seen = self.0.entry(s.tp).or_default();
        assert!(seen.last().is_none_or(|last| *last < s.first().0), "{} goes back to {}", s.tp, s.first());
        seen.extend(s.first().0..s.next().0);
    }
    fn check(&self, cluster: &Cluster) {
        for (tp, log) in &cluster.logs {
            assert_eq!(self.0.get(tp).unwrap_or(&Vec::new()), &log.committed, "{tp}");
        }
    }
}

/// The session of a broker that was just asked is the one that the client believes it keeps.
fn check_sessions(cluster: &mut Cluster, consumer: &JavaConsumer) {
    for node in std::mem::take(&mut cluster.asked) {
        let Some(broker) = cluster.session(node) else { continue };
        let mut client = consumer.session(node).expect("it asked").partitions().to_vec();
        client.sort_by_key(|p| p.tp);
        assert_eq!(client, broker, "session with {node}");
    }
}

/// Now and then a leader moves, until `calm`.
fn disturb(cluster: &mut Cluster, chaos: &mut Stream, now: Millis, calm: Millis) {
    if now > calm {
        cluster.fault_rate = 0;
    } else if cluster.fault_rate > 0 && chaos.chance(1, 10) {
        let n = chaos.below(cluster.leaders.len() as u64) as u16;
        cluster.move_leader(TopicPartition::new(0, n));
    }
}

fn java(seed: u64, partitions: u16, max_poll_records: u32, fault_rate: u64) {
    let mut cluster = Cluster::new(seed, 3, partitions);
    fill(&mut cluster, seed, 60);
    cluster.fault_rate = fault_rate;
    let mut chaos = Streams(seed).stream(Domain::Fault, 0, "leaders");
    let config = ConsumerConfig {
        max_poll_records,
        max_partition_fetch_bytes: 600,
        read_committed: true,
        auto_offset_reset: AutoOffsetReset::Earliest,
        ..ConsumerConfig::default()
    };
    let mut consumer = JavaConsumer::new(Arc::new(config), TopicHashes::of_names(["events"]));
    let tps: Vec<_> = cluster.logs.keys().copied().collect();
    consumer.assign(&tps);
    let (mut now, mut seen) = (Millis::ZERO, Seen::default());
    let done = |c: &JavaConsumer, k: &Cluster| k.logs.iter().all(|(tp, log)| c.position(*tp) == Some(log.end));
    while !done(&consumer, &cluster) {
        assert!(now < Millis(600_000), "stuck: {:?}", consumer.subscription());
        disturb(&mut cluster, &mut chaos, now, Millis(20_000));
        for ended in cluster.arrived(now) {
            assert!(consumer.on_completed(&ended, now, &mut cluster));
        }
        let before = consumer.clone();
        let fetched = consumer.poll(now, &mut cluster).expect("no error of these is thrown");
        check_sessions(&mut cluster, &consumer);
        match fetched {
            Some(fetched) => {
                assert!(fetched.records <= max_poll_records);
                assert_eq!(fetched.records, fetched.slices.iter().map(Slice::records).sum::<u32>());
                fetched.slices.iter().for_each(|s| seen.take(s));
            }
            None => now = consumer.wake_at(now, &cluster).min(cluster.next_at()).max(now + Millis(1)),
        }
        for p in consumer.subscription().iter() {
            let old = before.position(p.tp).unwrap_or(Offset(0));
            assert!(p.position.is_none_or(|new| new.offset >= old), "{} goes back", p.tp);
        }
        if chaos.chance(1, 20) {
            let tp = tps[chaos.below(tps.len() as u64) as usize];
            consumer.pause(tp);
        } else {
            tps.iter().for_each(|tp| consumer.resume(*tp));
        }
    }
    seen.check(&cluster);
}

fn librdkafka(seed: u64, partitions: u16, max: u32, fault_rate: u64, queued_min: u64) {
    let mut cluster = Cluster::new(seed, 3, partitions);
    fill(&mut cluster, seed, 60);
    cluster.fault_rate = fault_rate;
    let mut chaos = Streams(seed).stream(Domain::Fault, 0, "leaders");
    let config = RdConsumerConfig {
        queued_min_messages: queued_min,
        max_partition_fetch_bytes: 600,
        auto_offset_reset: Some(OffsetSpec::Earliest),
        ..RdConsumerConfig::default()
    };
    let mut consumer = RdConsumer::new(Arc::new(config));
    let tps: Vec<_> = cluster.logs.keys().map(|tp| (*tp, Start::End(OffsetSpec::Earliest))).collect();
    consumer.assign(&tps);
    let (mut now, mut seen) = (Millis::ZERO, Seen::default());
    let done = |c: &RdConsumer, k: &Cluster| {
        c.queue().messages() == 0 && c.toppars().iter().all(|t| t.fetch_offset == k.logs[&t.tp].end)
    };
    while !done(&consumer, &cluster) {
        assert!(now < Millis(600_000), "stuck: {:?}", consumer.toppars());
        disturb(&mut cluster, &mut chaos, now, Millis(20_000));
        for ended in cluster.arrived(now) {
            assert!(consumer.on_completed(&ended, now, &mut cluster));
        }
        let mut out = Vec::new();
        let taken = consumer.consume(max, &mut out);
        assert!(taken <= max);
        for what in &out {
            match what {
                Consumed::Records(s) => seen.take(s),
                other => panic!("these errors are not shown: {other:?}"),
            }
        }
        consumer.serve(now, &mut cluster);
        for node in cluster.view.brokers.keys() {
            assert!(cluster.in_flight(*node) <= 1 + usize::from(partitions), "one fetch, and look-ups");
        }
        if taken == 0 {
            now = consumer.wake_at(now, &cluster).min(cluster.next_at()).max(now + Millis(1));
        }
    }
    seen.check(&cluster);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn java_delivers_what_is_committed_once_and_in_order(
        seed: u64, partitions in 1u16..9, max in prop_oneof![1u32..10, Just(500u32)], faults in prop_oneof![Just(0u64), 1u64..100],
    ) {
        java(seed, partitions, max, faults);
    }

    #[test]
    fn librdkafka_delivers_what_is_committed_once_and_in_order(
        seed: u64, partitions in 1u16..9, max in 1u32..100, faults in prop_oneof![Just(0u64), 1u64..100], queued in 1u64..200,
    ) {
        librdkafka(seed, partitions, max, faults, queued);
    }
}

#[test]
fn a_seek_with_epoch_ahead_of_metadata_waits_for_metadata() {
    let mut cluster = Cluster::new(7, 3, 1);
    cluster.arrived(Millis::ZERO);
    let tp = TopicPartition::new(0, 0);
    cluster.logs.get_mut(&tp).expect("a log").data(-1, 5, 100, false, 0);
    cluster.move_leader(tp);
    let mut consumer = JavaConsumer::new(Arc::new(ConsumerConfig::default()), TopicHashes::of_names(["events"]));
    consumer.assign(&[tp]);
    consumer.seek(tp, Offset(2), LeaderEpoch(1), Millis::ZERO, &mut cluster);
    assert!(matches!(consumer.poll(Millis::ZERO, &mut cluster), Ok(None)));
    assert_eq!((0..3).map(|n| cluster.in_flight(BrokerId(n))).sum::<usize>(), 0, "the old leader is not asked");
    cluster.arrived(Millis(100));
    assert!(matches!(consumer.poll(Millis(100), &mut cluster), Ok(None)));
    assert_eq!(cluster.in_flight(BrokerId(1)), 1, "the new leader is asked to validate the position");
}

/// An unclean election cuts the log below the position: both clients go on at the end of the epoch they had read.
#[test]
fn a_truncation_is_found_and_read_on_from_its_end() {
    let tp = TopicPartition::new(0, 0);
    let cut = || {
        let mut cluster = Cluster::new(7, 3, 1);
        let log = cluster.logs.get_mut(&tp).expect("a log");
        log.data(-1, 5, 100, false, 0);
        log.data(-1, 5, 100, false, 0);
        cluster
    };
    let truncate = |cluster: &mut Cluster, now| {
        let log = cluster.logs.get_mut(&tp).expect("a log");
        log.entries.pop();
        log.end = Offset(5);
        cluster.move_leader(tp);
        cluster.request_update(now);
    };

    let mut cluster = cut();
    let config = ConsumerConfig { auto_offset_reset: AutoOffsetReset::Earliest, ..ConsumerConfig::default() };
    let mut java = JavaConsumer::new(Arc::new(config), TopicHashes::of_names(["events"]));
    java.assign(&[tp]);
    for ms in 0..3_000 {
        let now = Millis(ms);
        cluster.arrived(now).iter().for_each(|done| assert!(java.on_completed(done, now, &mut cluster)));
        java.poll(now, &mut cluster).expect("a policy is set");
        if ms == 200 {
            assert_eq!(java.position(tp), Some(Offset(10)));
            truncate(&mut cluster, now);
        }
    }
    assert_eq!(java.position(tp), Some(Offset(5)));

    let mut cluster = cut();
    let config = RdConsumerConfig { auto_offset_reset: Some(OffsetSpec::Earliest), ..RdConsumerConfig::default() };
    let mut rd = RdConsumer::new(Arc::new(config));
    rd.assign(&[(tp, Start::At(Offset(0)))]);
    for ms in 0..3_000 {
        let now = Millis(ms);
        cluster.arrived(now).iter().for_each(|done| assert!(rd.on_completed(done, now, &mut cluster)));
        rd.serve(now, &mut cluster);
        if ms == 200 {
            assert_eq!(rd.toppars()[0].fetch_offset, Offset(10));
            truncate(&mut cluster, now);
        }
    }
    assert_eq!(rd.toppars()[0].fetch_offset, Offset(5));
}
