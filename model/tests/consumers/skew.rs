//! Catch-up skew: how far apart in event time partitions are while a backlog is read, against what was
//! measured on a real cluster (450 s of backlog, 6 partitions on 3 brokers, one reader, read_committed).

use crate::cluster::Cluster;
use model::base::{
    Batch, BrokerId, Domain, EventTime, Millis, Offset, ProducerEpoch, ProducerId, ProducerTag, Row, Sequence, Streams,
};
use model::kafka::client::Slice;
use model::kafka::client::java_consumer::{AutoOffsetReset, ConsumerConfig, JavaConsumer, TopicHashes};
use model::kafka::client::rdkafka_consumer::{Consumed, RdConsumer, RdConsumerConfig, Start};
use std::sync::Arc;

const RECORDS: i64 = 90_000;
const RECORD_BYTES: u32 = 307;
const EVERY_MS: i64 = 5;
/// Time that the reader works on a record, in µs.
const WORK_US: i64 = 1;

/// 90,000 transactional records, 5 ms of event time apart, keys spread over six partitions, transactions of 1000 records,
/// batches of 16 KiB.
fn backlog(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed, 3, 6);
    // The brokers of a real cluster do not answer at one pace.
    for (node, round) in [(0, 8), (1, 9), (2, 10)] {
        cluster.round.insert(BrokerId(node), (round, 1 << 20));
    }
    let mut keys = Streams(seed).stream(Domain::Workload, 1, "keys");
    let tag = ProducerTag { id: ProducerId(1), epoch: ProducerEpoch(0), base_sequence: Sequence(0) };
    for txn in 0..RECORDS / 1000 {
        let mut rows: [Vec<Row>; 6] = Default::default();
        for i in txn * 1000..(txn + 1) * 1000 {
            let row = Row { bytes: RECORD_BYTES, time: EventTime(i * EVERY_MS), ..Row::default() };
            rows[keys.below(6) as usize].push(row);
        }
        for (p, log) in cluster.logs.values_mut().enumerate() {
            for part in rows[p].chunks(53) {
                log.push(Batch::data(part.into(), Arc::new([]), tag, true));
            }
            log.marker(1, true, &[]);
        }
    }
    cluster
}

/// What a reader saw, record by record.
#[derive(Default)]
struct Reader {
    last: [Option<i64>; 6],
    max_skew_ms: i64,
    runs: Vec<(u16, u32)>,
    records: i64,
}
impl Reader {
    fn take(&mut self, s: &Slice) {
        let p = usize::from(s.tp.partition);
        match self.runs.last_mut().filter(|(tp, _)| *tp == s.tp.partition) {
            Some((_, run)) => *run += s.records(),
            None => self.runs.push((s.tp.partition, s.records())),
        }
        self.records += i64::from(s.records());
        // The skew is largest at the ends of a slice.
        for row in [&s.batch.rows[s.from as usize], &s.batch.rows[s.to as usize - 1]] {
            self.last[p] = Some(row.time.0);
            let seen = || self.last.iter().flatten();
            if let (Some(max), Some(min), 6) = (seen().max(), seen().min(), seen().count()) {
                self.max_skew_ms = self.max_skew_ms.max(max - min);
            }
        }
    }
    /// Median length of the runs longer than `piece`: Java's map order cuts a run where one poll takes the end of one chunk
    /// and the beginning of another, and those pieces say nothing.
    fn run(&self, piece: u32) -> u32 {
        let mut runs: Vec<_> = self.runs.iter().map(|(_, n)| *n).filter(|n| *n > piece).collect();
        runs.sort_unstable();
        runs[runs.len() / 2]
    }
}

fn java(seed: u64, config: ConsumerConfig) -> Reader {
    let mut cluster = backlog(seed);
    let config = ConsumerConfig { read_committed: true, auto_offset_reset: AutoOffsetReset::Earliest, ..config };
    let mut consumer = JavaConsumer::new(Arc::new(config), TopicHashes::of_names(["events"]));
    consumer.assign(&cluster.logs.keys().copied().collect::<Vec<_>>());
    let (mut reader, mut us) = (Reader::default(), 0i64);
    while reader.records < RECORDS {
        let now = Millis(us / 1000);
        assert!(now < Millis(600_000), "no end in sight");
        for done in cluster.arrived(now) {
            consumer.on_completed(&done, now, &mut cluster);
        }
        match consumer.poll(now, &mut cluster).expect("nothing goes wrong") {
            Some(fetched) => {
                fetched.slices.iter().for_each(|s| reader.take(s));
                us += i64::from(fetched.records) * WORK_US;
            }
            None => us = consumer.wake_at(now, &cluster).min(cluster.next_at()).0 * 1000,
        }
    }
    reader
}

fn librdkafka(seed: u64, config: RdConsumerConfig) -> Reader {
    let mut cluster = backlog(seed);
    let mut consumer = RdConsumer::new(Arc::new(config));
    let start: Vec<_> = cluster.logs.keys().map(|tp| (*tp, Start::At(Offset(0)))).collect();
    consumer.assign(&start);
    let (mut reader, mut us) = (Reader::default(), 0i64);
    while reader.records < RECORDS {
        let now = Millis(us / 1000);
        assert!(now < Millis(600_000), "no end in sight");
        for done in cluster.arrived(now) {
            consumer.on_completed(&done, now, &mut cluster);
        }
        consumer.serve(now, &mut cluster);
        let mut out = Vec::new();
        match consumer.consume(100, &mut out) {
            0 => us = consumer.wake_at(now, &cluster).min(cluster.next_at()).0 * 1000,
            n => us += i64::from(n) * WORK_US,
        }
        for what in &out {
            let Consumed::Records(s) = what else { panic!("nothing goes wrong: {what:?}") };
            reader.take(s);
        }
    }
    reader
}

/// One measured row: what is set, run length in records, extremes of the largest skew in s.
struct Measured {
    bytes: u32,
    run: u32,
    skew_s: (i64, i64),
}

/// Runs of three seeds against a row. The lengths of runs are exact mechanism; the skew depends on the pace of the brokers,
/// so the median may be off by a factor of two.
fn check(row: &Measured, name: &str, read: impl Fn(u64) -> Reader) {
    let mut skews = Vec::new();
    for seed in 0..3 {
        let reader = read(seed);
        let run = reader.run(row.run / 2);
        assert!(run.abs_diff(row.run) <= row.run / 10, "{name}: runs of {run}, measured {}", row.run);
        skews.push(reader.max_skew_ms / 1000);
    }
    skews.sort_unstable();
    let (low, high) = (row.skew_s.0 / 2, row.skew_s.1 * 2);
    assert!((low..=high).contains(&skews[1]), "{name}: {skews:?} s, measured {:?}", row.skew_s);
    // A chunk of one partition is read while the others stand still.
    let chunk_s = i64::from(row.bytes) / 308 * 6 * EVERY_MS / 1000;
    assert!(skews[0] >= chunk_s, "{name}: {skews:?} s, less than one chunk of {chunk_s} s");
}

#[test]
fn java_catches_up_as_measured() {
    let default = ConsumerConfig::default;
    let mib = 1 << 20;
    let rows = [
        ("default", Measured { bytes: mib, run: 3379, skew_s: (129, 138) }, default()),
        (
            "max.partition.fetch.bytes 262144",
            Measured { bytes: 262_144, run: 810, skew_s: (58, 95) },
            ConsumerConfig { max_partition_fetch_bytes: 262_144, ..default() },
        ),
        (
            // 6.4 s of events a chunk, and yet no less skew: brokers drift apart.
            "max.partition.fetch.bytes 65536",
            Measured { bytes: 65_536, run: 169, skew_s: (112, 165) },
            ConsumerConfig { max_partition_fetch_bytes: 65_536, ..default() },
        ),
        (
            "fetch.max.bytes 2097152",
            Measured { bytes: mib, run: 3379, skew_s: (129, 145) },
            ConsumerConfig { fetch_max_bytes: 2 << 20, ..default() },
        ),
        (
            "max.poll.records 5000",
            Measured { bytes: mib, run: 3379, skew_s: (129, 155) },
            ConsumerConfig { max_poll_records: 5000, ..default() },
        ),
        (
            "max.poll.records 50",
            Measured { bytes: mib, run: 3359, skew_s: (129, 214) },
            ConsumerConfig { max_poll_records: 50, ..default() },
        ),
    ];
    for (name, row, config) in rows {
        check(&row, name, |seed| java(seed, config.clone()));
    }
}

#[test]
fn librdkafka_catches_up_as_measured() {
    let rows = [(1 << 20, 3400, (247, 317)), (262_144, 837, (107, 175)), (65_536, 173, (98, 127))];
    for (bytes, run, skew_s) in rows {
        let config = RdConsumerConfig { max_partition_fetch_bytes: bytes, ..RdConsumerConfig::default() };
        let name = format!("max.partition.fetch.bytes {bytes}");
        check(&Measured { bytes, run, skew_s }, &name, |seed| librdkafka(seed, config.clone()));
    }
    let longest = librdkafka(0, RdConsumerConfig::default()).runs.iter().map(|(_, n)| *n).max();
    assert!(longest > Some(4_000), "now and then more than one chunk of a partition comes in a row: {longest:?}");
}
