//! What must hold of transactions under any course of requests, failures and failovers (kafka.md 8.2), and that fixes are
//! needed for it. Partitions are real logs; two clients share one transactional id.

use super::*;
use crate::base::{Batch, Domain, EventTime, Fix, LeaderEpoch, Marker, ProducerTag, Sequence, Stream, Streams};
use crate::kafka::log::{LeaderAppend, LogConfig, UnifiedLog};
use TransactionState as S;

const PARTITIONS: u16 = 3;

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Init,
    Add(TopicPartition),
    End,
}
#[derive(Clone, Debug, Default)]
struct Client {
    held: Option<(ProducerId, ProducerEpoch)>,
    waits: Option<(Token, Asked)>,
    /// Its open transaction, by number.
    txn: Option<usize>,
    /// The outcome it has chosen: what it asks for until it is told.
    ending: Option<bool>,
}
/// A transaction as its client and the partitions saw it.
#[derive(Clone, Debug, Default)]
struct Txn {
    told: Option<bool>,
    written: BTreeMap<TopicPartition, Option<bool>>,
}

struct World {
    b: Bench,
    random: Stream,
    logs: BTreeMap<TopicPartition, UnifiedLog>,
    /// Transactions with data in a partition and no marker yet.
    open: BTreeMap<TopicPartition, Vec<usize>>,
    markers: Vec<(TopicPartition, ProducerId, ProducerEpoch, bool)>,
    out: VecDeque<(BrokerId, Vec<TxnMarkerEntry>)>,
    clients: [Client; 2],
    txns: Vec<Txn>,
    tokens: u64,
    /// The last PREPARE in the log.
    prepared: Option<TransactionLogValue>,
    wrong: Vec<&'static str>,
    /// Whether the coordinator moves, which cures a good deal.
    moves: bool,
}

impl World {
    fn new(seed: u64, version: TransactionVersion, fixes: Fixes) -> Self {
        let config = LogConfig { transaction_verification: false, ..LogConfig::default() };
        let all = (0..PARTITIONS).map(|p| TopicPartition::new(1, p));
        Self {
            b: Bench::new(version, fixes),
            random: Streams(seed).stream(Domain::Schedule, 0, "transactions"),
            logs: all.clone().map(|tp| (tp, UnifiedLog::new(config, fixes))).collect(),
            open: all.map(|tp| (tp, vec![])).collect(),
            markers: vec![],
            out: VecDeque::new(),
            clients: Default::default(),
            txns: vec![],
            tokens: 0,
            prepared: None,
            wrong: vec![],
            moves: true,
        }
    }
    fn check(&mut self, holds: bool, law: &'static str) {
        if !holds && !self.wrong.contains(&law) {
            self.wrong.push(law);
        }
    }
    fn any(&mut self) -> TopicPartition {
        TopicPartition::new(1, self.random.below(u64::from(PARTITIONS)) as u16)
    }

    // ---- clients

    fn client_acts(&mut self, i: usize) {
        let client = self.clients[i].clone();
        if client.waits.is_some() {
            return;
        }
        self.tokens += 1;
        let (token, version) = (Token(self.tokens), self.b.version);
        let Some((producer, epoch)) = client.held else {
            let request = InitProducerId {
                id: A,
                timeout: Millis(15_000),
                expected: None,
                enable_two_phase_commit: false,
                keep_prepared: false,
            };
            self.clients[i].waits = Some((token, Asked::Init));
            self.b.step(|c, step| c.init_producer_id(token, &request, step));
            return;
        };
        if let (Some(_), Some(commit)) = (client.txn, client.ending) {
            let request = EndRequest { id: A, producer, epoch, commit, from_client: true, version };
            self.clients[i].waits = Some((token, Asked::End));
            self.b.step(|c, step| c.end_txn(token, &request, step));
        } else if client.txn.is_some_and(|t| !self.txns[t].written.is_empty()) && self.random.chance(1, 3) {
            self.clients[i].ending = Some(self.random.chance(1, 2));
        } else {
            let tp = self.any();
            self.clients[i].waits = Some((token, Asked::Add(tp)));
            let request = AddPartitions { id: A, producer, epoch, partitions: &[tp], version };
            self.b.step(|c, step| c.add_partitions(token, &request, step));
        }
    }
    fn hear(&mut self) {
        for (token, reply) in std::mem::take(&mut self.b.replies) {
            let Some(i) = self.clients.iter().position(|c| c.waits.is_some_and(|(t, _)| t == token)) else { continue };
            let Some((_, asked)) = self.clients[i].waits.take() else { continue };
            match (reply, asked) {
                (TransactionReply::InitProducerId { error: ErrorCode::None, producer, epoch }, _) => {
                    self.clients[i] = Client { held: Some((producer, epoch)), ..Client::default() };
                }
                (TransactionReply::InitProducerId { .. }, _) => {}
                (TransactionReply::AddPartitions(ErrorCode::None), Asked::Add(tp)) => self.write(i, tp),
                (TransactionReply::EndTxn { error: ErrorCode::None, producer, epoch }, _) => {
                    let c = &mut self.clients[i];
                    if let Some(txn) = c.txn.take() {
                        self.txns[txn].told = c.ending.take();
                    }
                    if producer != ProducerId::NONE {
                        c.held = Some((producer, epoch));
                    }
                }
                (TransactionReply::AddPartitions(error) | TransactionReply::EndTxn { error, .. }, _) => {
                    let again = matches!(
                        error,
                        ErrorCode::ConcurrentTransactions
                            | ErrorCode::CoordinatorNotAvailable
                            | ErrorCode::NotCoordinator
                            | ErrorCode::CoordinatorLoadInProgress
                    );
                    if !again {
                        self.clients[i] = Client::default();
                    }
                }
            }
        }
    }
    /// A batch whose partition leader holds the guard of this moment (T-10): it is in the transaction, or not written.
    fn write(&mut self, i: usize, tp: TopicPartition) {
        let Some((id, epoch)) = self.clients[i].held else { return };
        let verified =
            self.b.coordinator.state().metadata(A).ok().flatten().is_some_and(|m| {
                (m.producer, m.epoch, m.state) == (id, epoch, S::Ongoing) && m.partitions.contains(&tp)
            });
        let tag = ProducerTag { id, epoch, base_sequence: Sequence(0) };
        let batch = std::sync::Arc::new(Batch::sized(1, 100, tag, true, EventTime(self.b.now.0)));
        let how = LeaderAppend::marker(LeaderEpoch(0), 0);
        let log = self.logs.get_mut(&tp).expect("one of them");
        if !verified || log.append_as_leader(&[batch], &how).is_err() {
            return;
        }
        let txn = *self.clients[i].txn.get_or_insert_with(|| {
            self.txns.push(Txn::default());
            self.txns.len() - 1
        });
        self.txns[txn].written.insert(tp, None);
        self.open.get_mut(&tp).expect("one of them").push(txn);
    }

    // ---- the log of the coordinator

    fn acked(&mut self, error: ErrorCode) {
        let Some((_, records)) = self.b.appends.front() else { return };
        if error.is_ok() {
            let records = records.clone();
            records.iter().for_each(|r| self.stored(r));
        }
        self.b.ack(error);
        self.hear();
    }
    fn stored(&mut self, record: &TransactionLogRecord) {
        let before = self.b.log.last().and_then(|r| r.value.clone());
        let Some(value) = &record.value else { return };
        if let Some(before) = before {
            self.check(value.state.may_follow(before.state), "I-31: an edge that is none");
            let order = |v: &TransactionLogValue| (v.producer, v.epoch);
            self.check(order(value) >= order(&before), "I-26: epochs go back");
        }
        match value.state {
            S::PrepareCommit | S::PrepareAbort => self.prepared = Some(value.clone()),
            S::CompleteCommit | S::CompleteAbort => {
                let commit = value.state == S::CompleteCommit;
                let Some(prepared) = self.prepared.take() else { return };
                let marked =
                    |tp: &TopicPartition| self.markers.contains(&(*tp, prepared.producer, prepared.epoch, commit));
                let all = prepared.partitions.iter().all(marked);
                self.check(all, "I-24: complete without its markers");
            }
            _ => {}
        }
    }

    // ---- markers

    fn marker_answered(&mut self, lost: bool, storage: bool) {
        let Some((from, markers)) = self.out.pop_front() else { return };
        let reached = !lost || self.random.chance(1, 2);
        let mut results = Vec::new();
        for m in markers {
            let mut errors = Vec::new();
            for tp in &m.partitions {
                let error = match (storage && self.random.chance(1, 2), reached) {
                    (true, _) => ErrorCode::KafkaStorageError,
                    (_, false) => ErrorCode::NotLeaderOrFollower,
                    _ => self.mark(*tp, &m),
                };
                errors.push((*tp, error));
            }
            results.push(errors);
        }
        self.b.step(|c, step| match lost {
            true => c.markers_disconnected(from, step),
            false => c.markers_answered(from, &results, step),
        });
    }
    fn mark(&mut self, tp: TopicPartition, m: &TxnMarkerEntry) -> ErrorCode {
        let control = Marker { commit: m.commit, coordinator_epoch: m.coordinator_epoch };
        let batch = std::sync::Arc::new(Batch::marker(m.producer, m.epoch, control, EventTime(self.b.now.0)));
        let how = LeaderAppend::marker(LeaderEpoch(0), m.version as u8);
        let log = self.logs.get_mut(&tp).expect("one of them");
        if let Err(error) = log.append_as_leader(&[batch], &how) {
            return error;
        }
        self.markers.push((tp, m.producer, m.epoch, m.commit));
        for txn in std::mem::take(self.open.get_mut(&tp).expect("one of them")) {
            self.txns[txn].written.insert(tp, Some(m.commit));
        }
        ErrorCode::None
    }
    fn pass(&mut self) {
        let sent = self.b.markers();
        self.out.extend(sent);
    }
    fn take_sent(&mut self) {
        let sent = std::mem::take(&mut self.b.sent);
        self.out.extend(sent);
    }

    // ---- failures

    /// Another broker takes over with what of the log survives, or this one again, under a later epoch.
    fn move_partition(&mut self, same: bool) {
        let kept = self.random.below(self.b.appends.len() as u64 + 1) as usize;
        if same {
            self.b.coordinator.resigned(0, Some(self.b.epoch + 1));
            self.b.epoch += 2;
            self.b.coordinator.elected(0, self.b.epoch);
            if self.random.chance(1, 4) {
                // Metadata that is late: what was led long ago is given up.
                self.b.coordinator.resigned(0, Some(self.b.epoch - 1));
            }
            self.b.load();
            // What was under way is answered as to one that leads no longer.
            for (append, _) in std::mem::take(&mut self.b.appends) {
                self.b.step(|c, step| c.appended(append, ErrorCode::NotLeaderOrFollower, step));
            }
        } else {
            let held: Vec<_> = self.b.appends.drain(..kept).collect();
            for record in held.into_iter().flat_map(|(_, records)| records) {
                self.stored(&record);
                self.b.log.push(record);
            }
            self.out.clear();
            self.b.failover();
            // Its clock is another one.
            self.b.now = Millis(self.b.now.0 - self.random.below(300) as i64);
            for client in &mut self.clients {
                client.waits = None;
            }
        }
        self.hear();
    }

    fn happen(&mut self) {
        match self.random.below(100) {
            0..35 => {
                let i = self.random.below(2) as usize;
                // A second instance comes now and then.
                if i == 0 || self.random.chance(1, 6) {
                    self.client_acts(i);
                }
            }
            35..65 => self.acked(ErrorCode::None),
            65..69 => {
                let error = [ErrorCode::NotEnoughReplicas, ErrorCode::RequestTimedOut];
                let error = error[self.random.below(2) as usize];
                self.acked(error);
            }
            69..79 => self.pass(),
            79..89 => self.marker_answered(false, false),
            89..91 => self.marker_answered(true, false),
            91..93 => self.marker_answered(false, true),
            93..97 => self.b.now = Millis(self.b.now.0 + self.random.below(9_000) as i64),
            97 if self.moves => self.move_partition(true),
            98 if self.moves => self.move_partition(false),
            _ => {
                // Nobody for a week, and the log below its min ISR now and then.
                if self.random.chance(1, 3) {
                    self.b.now = self.b.now + self.b.config.transactional_id_expiration;
                    self.b.poll();
                    if self.random.chance(1, 2) {
                        self.acked(ErrorCode::NotEnoughReplicas);
                    }
                }
            }
        }
        self.take_sent();
        self.hear();
    }
    /// Nothing fails any more: everything comes to an end, and the id can be used.
    fn settle(&mut self) {
        for _ in 0..60 {
            while !self.b.appends.is_empty() {
                self.acked(ErrorCode::None);
            }
            self.pass();
            while !self.out.is_empty() {
                self.marker_answered(false, false);
                self.take_sent();
            }
            self.b.now = Millis(self.b.now.0 + 11_000);
        }
        let open = self.open.values().any(|o| !o.is_empty());
        self.check(!open, "I-29: a transaction that nobody ends");
        let settled = self.b.coordinator.state().metadata(A).is_ok_and(|m| m.is_none_or(|m| m.state.is_idle()));
        self.check(settled, "liveness: a transaction is not completed");
        self.clients[0] = Client::default();
        for _ in 0..10 {
            self.client_acts(0);
            self.acked(ErrorCode::None);
            self.hear();
        }
        self.check(self.clients[0].held.is_some(), "liveness: no producer id to be had");
        for i in 0..self.txns.len() {
            let txn = self.txns[i].clone();
            let fates: Vec<_> = txn.written.values().flatten().copied().collect();
            self.check(fates.windows(2).all(|w| w[0] == w[1]), "I-23: committed here, aborted there");
            self.check(txn.told.is_none_or(|told| fates.iter().all(|f| *f == told)), "I-25: told otherwise");
        }
    }
}

fn run(seed: u64, version: TransactionVersion, fixes: Fixes, moves: bool) -> World {
    let mut world = World { moves, ..World::new(seed, version, fixes) };
    for _ in 0..600 {
        world.happen();
    }
    world.settle();
    world
}

#[test]
fn transactions_are_atomic_and_end_under_any_course_of_failures() {
    for version in [TransactionVersion::V1, TransactionVersion::V2] {
        let (mut committed, mut aborted) = (0, 0);
        for seed in 0..300 {
            let world = run(seed, version, Fixes::ALL, seed % 3 > 0);
            assert!(world.wrong.is_empty(), "{version:?}, seed {seed}: {:?}", world.wrong);
            committed += world.txns.iter().filter(|t| t.told == Some(true)).count();
            aborted += world.txns.iter().filter(|t| t.told != Some(true)).count();
        }
        assert!(committed > 300 && aborted > 300, "{version:?}: {committed} committed, {aborted} not");
    }
}

#[test]
fn fixes_are_needed() {
    let caught =
        |fix, version, moves| (0..150).any(|seed| !run(seed, version, Fixes::ALL.without(fix), moves).wrong.is_empty());
    let (v1, v2) = (TransactionVersion::V1, TransactionVersion::V2);
    for (fix, version, moves) in [
        (Fix::AddPartitionsStored, v1, true),
        (Fix::ExpiryFailureClearsPending, v2, false),
        (Fix::MarkerStorageErrorRetried, v2, false),
        (Fix::PendingMarkersByEpoch, v2, true),
        (Fix::TransitionIgnoresClock, v1, true),
        (Fix::UnloadKeepsNewerLoading, v2, true),
    ] {
        assert!(caught(fix, version, moves), "{fix:?}");
    }
}
