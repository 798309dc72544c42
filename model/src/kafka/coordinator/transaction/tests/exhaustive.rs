//! Every course of a small world: two producers with one transactional id, one coordinator with one failover, one partition,
//! one late message, one timeout, one lost answer. All interleavings, breadth first; what must hold is asked at every end.

use super::*;
use crate::base::{Batch, Chain, EventTime, Fix, LeaderEpoch, Marker, ProducerTag, Sequence};
use crate::kafka::log::{LeaderAppend, LogConfig, UnifiedLog, VerificationGuard};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Init,
    Add,
    End,
}
#[derive(Clone, Debug, Default)]
struct Client {
    held: Option<(ProducerId, ProducerEpoch)>,
    waits: Option<Asked>,
    /// Transactions begun.
    begun: u8,
    /// The open one, by number over both clients.
    txn: Option<usize>,
    ending: Option<bool>,
    /// Ended by a fatal error, or done.
    stopped: bool,
}
#[derive(Clone, Debug, Default)]
struct Txn {
    /// What its client asked for.
    asked: Option<bool>,
    /// What its client was told.
    told: Option<bool>,
    /// What became of its data, batch by batch.
    fates: Vec<bool>,
    written: bool,
}
/// A message that the network holds back.
#[derive(Clone, Debug)]
enum Late {
    End(EndRequest),
    Batch(Arc<Batch>, Option<VerificationGuard>, usize),
}
/// How often something may still happen.
#[derive(Clone, Debug)]
struct Budget {
    failover: u8,
    same: u8,
    late: u8,
    expiry: u8,
    lost: u8,
    storage: u8,
    transactions: u8,
    again: u8,
}

#[derive(Clone)]
struct World {
    b: Bench,
    log: UnifiedLog,
    open: Vec<usize>,
    out: VecDeque<(BrokerId, Vec<TxnMarkerEntry>)>,
    clients: [Client; 2],
    txns: Vec<Txn>,
    late: Option<Late>,
    budget: Budget,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Client(usize),
    /// The first client writes once more.
    Again,
    /// The client's message is held back, and it sends it again.
    Delay,
    Deliver,
    Ack,
    Pass,
    Answer,
    Lose,
    Storage,
    Expire,
    Failover(bool),
    Same,
}

impl World {
    fn new(version: TransactionVersion, fixes: Fixes, budget: Budget) -> Self {
        Self {
            b: Bench::new(version, fixes),
            log: UnifiedLog::new(LogConfig::default(), fixes),
            open: vec![],
            out: VecDeque::new(),
            clients: Default::default(),
            txns: vec![],
            late: None,
            budget,
        }
    }
    /// Counters that only tell how long the course was are left out.
    fn key(&self, text: &mut String) -> u64 {
        text.clear();
        let producers: Vec<_> = self.log.producers().map(|(id, p)| (id, p.epoch, p.txn_start.is_some())).collect();
        let guard = self.log.verification_guard(ProducerId(1000));
        let b = &self.b;
        let _ = write!(
            text,
            "{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{producers:?}{guard:?}{:?}",
            b.coordinator,
            b.now,
            b.epoch,
            b.log.last(),
            b.appends,
            self.out,
            self.clients,
            self.txns,
            self.late,
            self.budget,
            self.open
        );
        let mut chain = Chain::new(0);
        chain.bytes(text.as_bytes());
        chain.link()
    }

    fn acts(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        for (i, c) in self.clients.iter().enumerate() {
            if c.waits.is_none() && !c.stopped {
                acts.push(Act::Client(i));
            }
        }
        let c = &self.clients[0];
        if self.budget.late > 0 && c.waits.is_none() && !c.stopped && c.txn.is_some() {
            acts.push(Act::Delay);
        }
        if self.budget.again > 0 && c.waits.is_none() && !c.stopped && c.txn.is_some() && c.ending.is_none() {
            acts.push(Act::Again);
        }
        if self.late.is_some() {
            acts.push(Act::Deliver);
        }
        if !self.b.appends.is_empty() {
            acts.push(Act::Ack);
        }
        if self.b.coordinator.marker_deadline() <= self.b.now {
            acts.push(Act::Pass);
        }
        if !self.out.is_empty() {
            acts.push(Act::Answer);
            acts.extend((self.budget.lost > 0).then_some(Act::Lose));
            acts.extend((self.budget.storage > 0).then_some(Act::Storage));
        }
        acts.extend((self.budget.expiry > 0).then_some(Act::Expire));
        acts.extend((self.budget.same > 0).then_some(Act::Same));
        if self.budget.failover > 0 {
            acts.push(Act::Failover(false));
            acts.extend((!self.b.appends.is_empty()).then_some(Act::Failover(true)));
        }
        acts
    }
    fn act(&mut self, act: Act) {
        match act {
            Act::Client(i) => self.client(i),
            Act::Again => {
                self.budget.again -= 1;
                if let Some((producer, epoch)) = self.clients[0].held {
                    self.add(0, producer, epoch);
                }
            }
            Act::Delay => self.delay(),
            Act::Deliver => self.deliver(),
            Act::Ack => self.b.ack(ErrorCode::None),
            Act::Pass => {
                self.b.step(TransactionCoordinator::marker_pass);
            }
            Act::Answer => self.answer(false, false),
            Act::Lose => {
                self.budget.lost -= 1;
                self.answer(true, false);
            }
            Act::Storage => {
                self.budget.storage -= 1;
                self.answer(false, true);
            }
            Act::Expire => {
                self.budget.expiry -= 1;
                self.b.now = Millis(self.b.now.0 + 20_000);
                self.b.step(|c, step| c.abort_timed_out(step));
            }
            Act::Failover(kept) => {
                self.budget.failover -= 1;
                let held: Vec<_> = self.b.appends.drain(..).flat_map(|(_, records)| records).collect();
                self.b.log.extend(held.into_iter().filter(|_| kept));
                self.out.clear();
                self.b.failover();
                self.clients.iter_mut().for_each(|c| c.waits = None);
            }
            Act::Same => {
                self.budget.same -= 1;
                self.b.epoch += 1;
                self.b.coordinator.resigned(0, Some(self.b.epoch));
                self.b.epoch += 1;
                self.b.coordinator.elected(0, self.b.epoch);
                self.b.load();
                for (append, _) in std::mem::take(&mut self.b.appends) {
                    self.b.step(|c, step| c.appended(append, ErrorCode::NotLeaderOrFollower, step));
                }
            }
        }
        self.out.extend(std::mem::take(&mut self.b.sent));
        self.hear();
    }

    fn client(&mut self, i: usize) {
        let c = self.clients[i].clone();
        let (token, version) = (Token(i as u64), self.b.version);
        let Some((producer, epoch)) = c.held else {
            let request = InitProducerId {
                id: A,
                timeout: Millis(15_000),
                expected: None,
                enable_two_phase_commit: false,
                keep_prepared: false,
            };
            self.clients[i].waits = Some(Asked::Init);
            return self.b.step(|c, step| c.init_producer_id(token, &request, step));
        };
        match (c.txn, c.ending) {
            (Some(txn), None) if self.txns[txn].written => {
                // The first transaction of a client commits, the second aborts.
                let commit = c.begun == 1;
                self.clients[i].ending = Some(commit);
                self.txns[txn].asked = Some(commit);
            }
            (Some(_), Some(commit)) => {
                let request = EndRequest { id: A, producer, epoch, commit, from_client: true, version };
                self.clients[i].waits = Some(Asked::End);
                self.b.step(|c, step| c.end_txn(token, &request, step));
            }
            _ => {
                if c.txn.is_none() && c.begun >= if i == 0 { self.budget.transactions } else { 0 } {
                    self.clients[i].stopped = true;
                    return;
                }
                self.add(i, producer, epoch);
            }
        }
    }
    fn add(&mut self, i: usize, producer: ProducerId, epoch: ProducerEpoch) {
        let request = AddPartitions { id: A, producer, epoch, partitions: &[T0], version: self.b.version };
        self.clients[i].waits = Some(Asked::Add);
        self.b.step(|c, step| c.add_partitions(Token(i as u64), &request, step));
    }
    /// A copy of what the client would send now stays in the network: its end, or a batch that the partition's leader has
    /// verified or not.
    fn delay(&mut self) {
        let c = self.clients[0].clone();
        let (Some((producer, epoch)), Some(txn)) = (c.held, c.txn) else { return };
        self.budget.late -= 1;
        self.late = Some(match c.ending {
            Some(commit) => {
                let version = self.b.version;
                Late::End(EndRequest { id: A, producer, epoch, commit, from_client: true, version })
            }
            None => {
                let guard = self.verify(producer, epoch);
                Late::Batch(Arc::new(batch(producer, epoch, self.b.now)), guard, txn)
            }
        });
    }
    fn deliver(&mut self) {
        match self.late.take() {
            Some(Late::End(request)) => self.b.step(|c, step| c.end_txn(Token(9), &request, step)),
            Some(Late::Batch(batch, guard, txn)) => {
                // A leader that has not verified it asks now.
                let guard = guard.or_else(|| self.verify(batch.producer.id, batch.producer.epoch));
                self.append(&batch, guard, txn);
            }
            None => {}
        }
    }
    fn verify(&mut self, producer: ProducerId, epoch: ProducerEpoch) -> Option<VerificationGuard> {
        let v2 = self.b.version.supports_epoch_bump();
        let guard = self.log.start_verification(producer, epoch, Sequence(0), v2, self.b.now).ok()??;
        let known = self.b.coordinator.state().metadata(A).ok().flatten();
        let in_it = known.is_some_and(|m| {
            (m.producer, m.epoch) == (producer, epoch) && !m.state.is_prepared() && m.partitions.contains(&T0)
        });
        in_it.then_some(guard)
    }
    fn append(&mut self, batch: &Arc<Batch>, guard: Option<VerificationGuard>, txn: usize) -> bool {
        let how = LeaderAppend { guard, ..LeaderAppend::marker(LeaderEpoch(0), 0) };
        let done = self.log.append_as_leader(std::slice::from_ref(batch), &how).is_ok();
        if done {
            self.txns[txn].written = true;
            self.open.push(txn);
        }
        done
    }

    fn hear(&mut self) {
        for (token, reply) in std::mem::take(&mut self.b.replies) {
            let i = token.0 as usize;
            if i > 1 || self.clients[i].waits.take().is_none() {
                continue;
            }
            match reply {
                TransactionReply::InitProducerId { error: ErrorCode::None, producer, epoch } => {
                    self.clients[i].held = Some((producer, epoch));
                }
                TransactionReply::AddPartitions(ErrorCode::None) => self.write(i),
                TransactionReply::EndTxn { error: ErrorCode::None, producer, epoch } => {
                    let c = &mut self.clients[i];
                    if let Some(txn) = c.txn.take() {
                        self.txns[txn].told = c.ending.take();
                    }
                    if producer != ProducerId::NONE {
                        c.held = Some((producer, epoch));
                    }
                }
                TransactionReply::AddPartitions(error)
                | TransactionReply::EndTxn { error, .. }
                | TransactionReply::InitProducerId { error, .. } => {
                    self.clients[i].stopped = !matches!(
                        error,
                        ErrorCode::ConcurrentTransactions
                            | ErrorCode::CoordinatorNotAvailable
                            | ErrorCode::NotCoordinator
                            | ErrorCode::CoordinatorLoadInProgress
                    );
                }
            }
        }
    }
    fn write(&mut self, i: usize) {
        let Some((producer, epoch)) = self.clients[i].held else { return };
        let txn = self.clients[i].txn.unwrap_or_else(|| {
            self.txns.push(Txn::default());
            self.txns.len() - 1
        });
        if self.clients[i].txn.is_none() {
            self.clients[i].begun += 1;
            self.clients[i].txn = Some(txn);
        }
        let guard = self.verify(producer, epoch);
        if !self.append(&Arc::new(batch(producer, epoch, self.b.now)), guard, txn) {
            self.clients[i].stopped = true;
        }
    }
    fn answer(&mut self, lost: bool, storage: bool) {
        let Some((from, markers)) = self.out.pop_front() else { return };
        let mut results = Vec::new();
        for m in markers {
            let error = if storage { ErrorCode::KafkaStorageError } else { self.mark(&m) };
            results.push(vec![(T0, error)]);
        }
        self.b.step(|c, step| match lost {
            true => c.markers_disconnected(from, step),
            false => c.markers_answered(from, &results, step),
        });
    }
    fn mark(&mut self, m: &TxnMarkerEntry) -> ErrorCode {
        let control = Marker { commit: m.commit, coordinator_epoch: m.coordinator_epoch };
        let batch = Arc::new(Batch::marker(m.producer, m.epoch, control, EventTime(self.b.now.0)));
        let how = LeaderAppend::marker(LeaderEpoch(0), m.version as u8);
        if let Err(error) = self.log.append_as_leader(&[batch], &how) {
            return error;
        }
        for txn in std::mem::take(&mut self.open) {
            self.txns[txn].fates.push(m.commit);
        }
        ErrorCode::None
    }

    /// Nothing fails any more; what must hold then.
    fn judge(mut self) -> Vec<&'static str> {
        self.late = None;
        for _ in 0..6 {
            while !self.b.appends.is_empty() {
                self.b.ack(ErrorCode::None);
            }
            self.b.poll();
            self.out.extend(std::mem::take(&mut self.b.sent));
            while !self.out.is_empty() {
                self.answer(false, false);
                self.out.extend(std::mem::take(&mut self.b.sent));
            }
            self.b.now = Millis(self.b.now.0 + 20_000);
        }
        self.hear();
        let mut wrong = Vec::new();
        let mut check = |holds: bool, law| wrong.extend((!holds).then_some(law));
        check(self.open.is_empty(), "I-29 hanging");
        let idle = self
            .b
            .coordinator
            .state()
            .metadata(A)
            .is_ok_and(|m| m.is_none_or(|m| m.state.is_idle() && m.pending.is_none()));
        check(idle, "not completed");
        check(
            self.txns.iter().all(|t| t.told.is_none() || t.fates.iter().all(|f| Some(*f) == t.told)),
            "I-25 told otherwise",
        );
        check(self.txns.iter().all(|t| !t.fates.contains(&true) || t.asked == Some(true)), "committed unasked");
        wrong
    }
}

fn batch(id: ProducerId, epoch: ProducerEpoch, now: Millis) -> Batch {
    let tag = ProducerTag { id, epoch, base_sequence: Sequence(0) };
    Batch::sized(1, 100, tag, true, EventTime(now.0))
}

/// Number of states, and the laws broken at some end.
fn explore(version: TransactionVersion, fixes: Fixes, budget: Budget) -> (usize, BTreeSet<&'static str>) {
    explore_with(version, fixes, budget, true)
}
fn explore_with(
    version: TransactionVersion,
    fixes: Fixes,
    budget: Budget,
    transaction_verification: bool,
) -> (usize, BTreeSet<&'static str>) {
    let mut text = String::new();
    let mut first = World::new(version, fixes, budget);
    first.log = UnifiedLog::new(LogConfig { transaction_verification, ..LogConfig::default() }, fixes);
    let mut seen = BTreeSet::from([first.key(&mut text)]);
    let mut level = vec![first];
    let mut wrong = BTreeSet::new();
    while !level.is_empty() {
        let mut next = Vec::new();
        for world in level {
            // Any state may be the last before all is quiet.
            wrong.extend(world.clone().judge());
            for act in world.acts() {
                let mut after = world.clone();
                after.act(act);
                if seen.insert(after.key(&mut text)) {
                    next.push(after);
                }
            }
        }
        level = next;
    }
    (seen.len(), wrong)
}

/// One transaction that commits, its producer's successor, one of each that can go wrong.
const ONE: Budget = Budget { failover: 1, same: 0, late: 1, expiry: 1, lost: 0, storage: 0, transactions: 1, again: 0 };
/// A transaction that commits and one that aborts.
const TWO: Budget = Budget { failover: 0, same: 0, late: 1, expiry: 0, lost: 1, storage: 0, transactions: 2, again: 0 };
const V1: TransactionVersion = TransactionVersion::V1;
const V2: TransactionVersion = TransactionVersion::V2;

#[test]
fn nothing_is_broken_in_any_course() {
    for version in [V1, V2] {
        let (states, wrong) = explore(version, Fixes::ALL, ONE);
        assert!(wrong.is_empty(), "{version:?}: {wrong:?}");
        assert!(states > 10_000, "{version:?}: {states}");
    }
}

/// Before V2 a late end is taken for that of the transaction after, whatever is fixed (KIP-890).
#[test]
fn a_late_end_commits_unasked_before_v2() {
    let (_, v1) = explore(V1, Fixes::ALL, TWO);
    assert!(v1.contains("committed unasked"), "{v1:?}");
    let (states, v2) = explore(V2, Fixes::ALL, TWO);
    assert!(v2.is_empty() && states > 1_000, "{states}: {v2:?}");
}

#[test]
fn each_fix_is_needed_in_some_course() {
    for (fix, version, budget, law) in [
        (Fix::AddPartitionsStored, V1, Budget { late: 0, ..ONE }, "I-29 hanging"),
        (Fix::ExpiryRaisesEpoch, V1, Budget { again: 1, failover: 0, late: 0, ..ONE }, "I-25 told otherwise"),
        (Fix::MarkerStorageErrorRetried, V2, Budget { storage: 1, failover: 0, late: 0, ..ONE }, "I-29 hanging"),
        (Fix::PendingMarkersByEpoch, V2, Budget { same: 1, failover: 0, late: 0, ..ONE }, "not completed"),
    ] {
        let (_, fixed) = explore(version, Fixes::ALL, budget.clone());
        assert!(fixed.is_empty(), "{fix:?} in force: {fixed:?}");
        let (_, wrong) = explore(version, Fixes::ALL.without(fix), budget);
        assert!(wrong.contains(law), "{fix:?} cleared: {wrong:?}");
    }
}

/// late-produce-after-abort-hangs-lso: what verification is for, and that V2 does without.
#[test]
fn without_verification_a_late_batch_hangs() {
    for (version, hangs) in [(V1, true), (V2, false)] {
        let budget = Budget { failover: 0, expiry: 0, ..ONE };
        let (_, wrong) = explore_with(version, Fixes::ALL, budget, false);
        assert_eq!(wrong.contains("I-29 hanging"), hangs, "{version:?}: {wrong:?}");
    }
}
