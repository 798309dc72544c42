//! Laws of the log over random histories, and the published bugs that its fix bits bring back.

use super::*;
use crate::base::{
    Batch, Domain, EventTime, Fix, Fixes, LeaderEpoch, Marker, Millis, Offset, ProducerEpoch, ProducerId, ProducerTag,
    Sequence, Streams,
};
use crate::kafka::ErrorCode;
use proptest::prelude::*;
use std::sync::Arc;

const NOW: Millis = Millis(1000);

/// One step of a history. Places are given in sixteenths of the range that is legal for them.
#[derive(Clone, Copy, Debug)]
enum Step {
    Append { producer: i64, txn: bool, records: u32 },
    Marker { producer: i64, commit: bool, tv2: bool },
    HighWatermark(u8),
    Truncate(u8),
    Roll,
    Snapshot,
    NewEpoch,
    Restart { clean: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1..4i64, any::<bool>(), 1..5u32).prop_map(|(producer, txn, records)| Step::Append { producer, txn, records }),
        3 => (1..4i64, any::<bool>(), any::<bool>()).prop_map(|(producer, commit, tv2)| Step::Marker { producer, commit, tv2 }),
        3 => (0..=16u8).prop_map(Step::HighWatermark),
        1 => (8..=16u8).prop_map(Step::Truncate),
        1 => Just(Step::Roll),
        1 => Just(Step::Snapshot),
        1 => Just(Step::NewEpoch),
        1 => any::<bool>().prop_map(|clean| Step::Restart { clean }),
    ];
    prop::collection::vec(step, 0..60)
}

/// A log with its disk.
#[derive(Clone)]
struct Pair {
    log: UnifiedLog,
    disk: PartitionDisk,
    epoch: LeaderEpoch,
}

impl Pair {
    fn new() -> Self {
        let config = LogConfig { transaction_verification: false, ..LogConfig::default() };
        let mut log = UnifiedLog::new(config, Fixes::ALL);
        log.assign_epoch(LeaderEpoch(0), Offset(0));
        Self { log, disk: PartitionDisk::default(), epoch: LeaderEpoch(0) }
    }
    fn after(steps: &[Step]) -> Self {
        let mut pair = Self::new();
        steps.iter().for_each(|s| drop(pair.step(*s)));
        pair
    }
    fn write(&mut self) -> Vec<LogWrite> {
        let writes = self.log.take_writes();
        writes.iter().for_each(|w| self.disk.apply(w));
        writes
    }
    fn border(&self, sixteenths: u8) -> Offset {
        let offset = Offset(self.log.end().0 * i64::from(sixteenths) / 16);
        self.log.entries_from(offset).next().map_or(self.log.end(), |e| e.base)
    }
    fn reopen(&mut self, clean: bool) -> Vec<LogWrite> {
        if clean {
            self.log.close();
        }
        let writes = self.write();
        self.log = UnifiedLog::open(&self.disk, clean, NOW, self.log.config, self.log.fixes);
        writes
    }
    /// Takes a step; gives what it wrote.
    fn step(&mut self, step: Step) -> Vec<LogWrite> {
        let mut writes = Vec::new();
        match step {
            Step::Append { producer, txn, records } => drop(self.append(producer, txn, records)),
            Step::Marker { producer, commit, tv2 } => {
                let known = self.log.producer(ProducerId(producer)).map_or(ProducerEpoch(0), |p| p.epoch);
                let epoch = ProducerEpoch(known.0 + i16::from(tv2));
                let marker = Marker { commit, coordinator_epoch: 0 };
                let batch = Batch::marker(ProducerId(producer), epoch, marker, EventTime(NOW.0));
                let how = LeaderAppend::marker(self.epoch, if tv2 { 2 } else { 1 });
                self.log.append_as_leader(&[Arc::new(batch)], &how).unwrap();
            }
            Step::HighWatermark(at) => drop(self.log.set_high_watermark(self.border(at))),
            Step::Truncate(at) => drop(self.log.truncate_to(self.border(at), NOW)),
            Step::Roll => drop(self.log.roll()),
            Step::Snapshot => self.log.take_snapshot(),
            Step::NewEpoch => {
                self.epoch = LeaderEpoch(self.epoch.0 + 1);
                self.log.assign_epoch(self.epoch, self.log.end());
            }
            Step::Restart { clean } => writes = self.reopen(clean),
        }
        writes.extend(self.write());
        writes
    }
    fn append(&mut self, producer: i64, txn: bool, records: u32) -> Result<Appended, ErrorCode> {
        let known = self.log.producer(ProducerId(producer));
        let tag = ProducerTag {
            id: ProducerId(producer),
            epoch: known.map_or(ProducerEpoch(0), |p| p.epoch),
            base_sequence: known.map_or(Sequence(0), |p| p.last_sequence().plus(1)),
        };
        let txn = txn || known.is_some_and(|p| p.txn_start.is_some());
        let batch = Batch::sized(records, 61 + 15 * records, tag, txn, EventTime(NOW.0));
        self.log.append_as_leader(&[Arc::new(batch)], &LeaderAppend::client(self.epoch))
    }
    fn entries(&self) -> Vec<(Offset, LeaderEpoch)> {
        self.log.entries_from(self.log.start()).map(|e| (e.base, e.epoch)).collect()
    }
}

/// All but the window, of which only the last batch is the same however the state was made.
fn known(log: &UnifiedLog) -> Vec<(ProducerId, ProducerState)> {
    log.producers().map(|(id, p)| (id, p.snapshot())).collect()
}
/// The log's batches up to `end`, taken in by a new follower one by one.
fn rebuilt(pair: &Pair, end: Offset) -> UnifiedLog {
    let mut fresh = Pair::new().log;
    for entry in pair.log.entries_from(Offset(0)).filter(|e| e.base < end) {
        fresh.append_as_follower(std::slice::from_ref(entry), None).unwrap();
    }
    fresh
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn stable_is_below_replicated_is_below_written(steps in steps()) {
        let mut pair = Pair::new();
        for step in steps {
            pair.step(step);
            let log = &pair.log;
            prop_assert!(log.last_stable() <= log.high_watermark());
            prop_assert!(log.high_watermark() <= log.end());
            // I-28: without a truncation since the last look, nothing undecided is below the stable bound.
            if !matches!(step, Step::Truncate(_)) {
                prop_assert!(log.first_undecided().is_none_or(|o| log.last_stable() <= o));
            }
        }
    }

    #[test]
    fn a_restart_or_truncation_knows_what_replaying_the_log_knows(steps in steps(), at in 0..=16u8, clean: bool) {
        let mut pair = Pair::after(&steps);
        let to = pair.border(at);
        let fresh = rebuilt(&pair, to);
        pair.log.truncate_to(to, NOW);
        prop_assert_eq!(known(&pair.log), known(&fresh));
        prop_assert_eq!(pair.log.first_undecided(), fresh.first_undecided());
        prop_assert_eq!(pair.log.aborted_between(Offset(0), to), fresh.aborted_between(Offset(0), to));
        prop_assert_eq!(pair.log.end(), fresh.end());
        let before = pair.entries();
        pair.reopen(clean);
        prop_assert_eq!(known(&pair.log), known(&fresh));
        prop_assert_eq!(pair.log.aborted_between(Offset(0), to), fresh.aborted_between(Offset(0), to));
        prop_assert_eq!(pair.entries(), before);
        prop_assert!(pair.log.producers().all(|(_, p)| p.window.batches().len() <= 1));
    }

    #[test]
    fn the_disk_mirrors_the_log(steps in steps()) {
        let mut pair = Pair::new();
        for step in steps {
            pair.step(step);
            let on_disk: Vec<_> = pair.disk.entries_from(Offset(0)).map(|e| (e.base, e.epoch)).collect();
            prop_assert_eq!(on_disk, pair.entries());
            prop_assert_eq!(&*pair.disk.epochs, pair.log.epochs().entries());
            prop_assert_eq!(pair.disk.snapshots.keys().copied().collect::<Vec<_>>(), pair.log.snapshots());
            prop_assert!(pair.disk.recovery_point <= pair.disk.end());
        }
    }

    #[test]
    fn a_start_from_any_prefix_of_the_writes_is_legal(steps in steps(), last in any::<u16>()) {
        let mut pair = Pair::new();
        let mut writes = Vec::new();
        for step in steps {
            writes.extend(pair.step(step));
        }
        let kept = usize::from(last) % (writes.len() + 1);
        let mut disk = PartitionDisk::default();
        writes[..kept].iter().for_each(|w| disk.apply(w));
        let mut log = UnifiedLog::open(&disk, false, NOW, pair.log.config, Fixes::ALL);
        prop_assert_eq!(log.end(), disk.end());
        log.take_writes().iter().for_each(|w| disk.apply(w));
        let again = UnifiedLog::open(&disk, false, NOW, pair.log.config, Fixes::ALL);
        prop_assert_eq!(known(&again), known(&log));
    }

    #[test]
    fn a_clone_goes_its_own_way(first in steps(), second in steps()) {
        let mut pair = Pair::after(&first);
        let fork = pair.clone();
        let (before, state) = (fork.entries(), known(&fork.log));
        second.iter().for_each(|s| drop(pair.step(*s)));
        prop_assert_eq!(fork.entries(), before);
        prop_assert_eq!(known(&fork.log), state);
        let mut again = fork;
        second.iter().for_each(|s| drop(again.step(*s)));
        prop_assert_eq!(again.entries(), pair.entries());
        prop_assert_eq!(known(&again.log), known(&pair.log));
    }

    #[test]
    fn power_loss_keeps_what_was_flushed_and_a_prefix_of_the_rest(before in steps(), after in steps(), seed: u64) {
        let mut pair = Pair::after(&before);
        pair.disk.flushed();
        after.iter().filter(|s| !matches!(s, Step::Truncate(_))).for_each(|s| drop(pair.step(*s)));
        let (flushed, whole) = (pair.disk.flushed_to(), pair.entries());
        pair.disk.lose_power(&mut Streams(seed).stream(Domain::Fault, 0, "power"));
        pair.log = UnifiedLog::open(&pair.disk, false, NOW, pair.log.config, Fixes::ALL);
        let left = pair.entries();
        prop_assert!(pair.log.end() >= flushed);
        prop_assert_eq!(&left[..], &whole[..left.len()]);
        prop_assert_eq!(known(&pair.log), known(&rebuilt(&pair, pair.log.end())));
        pair.write();
        pair.append(1, false, 1).unwrap();
    }
}

#[test]
fn full_segments_roll_and_a_read_ends_there() {
    let mut pair = Pair::new();
    pair.log.config.segment_bytes = 200;
    for _ in 0..5 {
        pair.append(1, false, 1).unwrap();
    }
    assert_eq!(pair.log.snapshots(), [Offset(2), Offset(4)]);
    let limit = ReadLimit { max_bytes: 1 << 20, min_one: true, high_watermark_seen: None };
    let read = pair.log.read(Offset(0), Isolation::LogEnd, &limit).unwrap();
    assert_eq!((read.entries.len(), read.bytes), (2, 152));
    let large = Arc::new(Batch::sized(20, 361, ProducerTag::NONE, false, EventTime(0)));
    let refused = pair.log.append_as_leader(&[large], &LeaderAppend::client(LeaderEpoch(0)));
    assert_eq!(refused, Err(ErrorCode::RecordListTooLarge));
}

#[test]
fn a_chunk_is_no_segment_border() {
    let mut pair = Pair::new();
    for _ in 0..1000 {
        pair.append(1, false, 1).unwrap();
    }
    let limit = ReadLimit { max_bytes: 1 << 20, min_one: true, high_watermark_seen: None };
    assert_eq!(pair.log.read(Offset(0), Isolation::LogEnd, &limit).unwrap().entries.len(), 1000);
}

/// KAFKA-9807: a transaction begins at the high watermark, which then rises over its first batch.
#[test]
fn a_high_watermark_read_twice_shows_an_open_transaction() {
    let read = |fixes| {
        let mut pair = Pair::new();
        pair.log.fixes = fixes;
        pair.append(1, false, 1).unwrap();
        let seen = Some(pair.log.set_high_watermark(Offset(1)));
        pair.append(2, true, 1).unwrap();
        pair.log.set_high_watermark(Offset(2));
        let limit = ReadLimit { max_bytes: 1 << 20, min_one: true, high_watermark_seen: seen };
        pair.log.read(Offset(0), Isolation::Committed, &limit).unwrap().entries.len()
    };
    assert_eq!(read(Fixes::ALL), 1);
    assert_eq!(read(Fixes::ALL.without(Fix::SingleHighWatermarkRead)), 2);
}

#[test]
fn a_window_of_one_forgets_the_batch_before_the_last() {
    let retry = |fixes| {
        let mut log = UnifiedLog::new(LogConfig::default(), fixes);
        let batch = |sequence| {
            let tag = ProducerTag { id: ProducerId(1), epoch: ProducerEpoch(0), base_sequence: Sequence(sequence) };
            [Arc::new(Batch::sized(1, 76, tag, false, EventTime(0)))]
        };
        let how = LeaderAppend::client(LeaderEpoch(0));
        log.append_as_leader(&batch(0), &how).unwrap();
        log.append_as_leader(&batch(1), &how).unwrap();
        log.append_as_leader(&batch(0), &how)
    };
    let first_time = Appended { first: Offset(0), last: Offset(0), duplicate: true };
    assert_eq!(retry(Fixes::ALL), Ok(first_time));
    assert_eq!(retry(Fixes::ALL.without(Fix::DuplicateWindowOfFive)), Err(ErrorCode::OutOfOrderSequenceNumber));
}

#[test]
fn sealed_batches_survive_truncation_restart_and_sharing() {
    let mut pair = Pair::new();
    for _ in 0..700 {
        pair.step(Step::Append { producer: 1, txn: false, records: 3 });
    }
    for to in [2000, 1536, 1153, 384, 5] {
        let to = pair.log.entries_from(Offset(to)).next().unwrap().base;
        pair.log.truncate_to(to, NOW);
        pair.write();
        assert_eq!((pair.log.end(), pair.disk.end()), (to, to));
        assert_eq!(known(&pair.log), known(&rebuilt(&pair, to)));
        pair.reopen(false);
        for _ in 0..200 {
            pair.step(Step::Append { producer: 1, txn: false, records: 1 });
        }
        let on_disk: Vec<_> = pair.disk.entries_from(Offset(0)).map(|e| (e.base, e.epoch)).collect();
        assert_eq!(on_disk, pair.entries());
    }
}
