//! The coordinator on a bench: a log that answers when it is told to, brokers that answer when they are told to.

mod catalogue;
mod exhaustive;
mod failover;
mod markers;
mod properties;
mod timers;

use super::*;
use crate::base::{BrokerId, Fixes, Millis, ProducerEpoch, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::placement::IdTable;
use crate::kafka::txn_messages::TransactionalId;
use std::collections::{BTreeMap, VecDeque};

const A: TransactionalId = TransactionalId(0);
const T0: TopicPartition = TopicPartition::new(1, 0);
const T1: TopicPartition = TopicPartition::new(1, 1);
const COMMIT: bool = true;
const ABORT: bool = false;

/// The last one given out; none can be had while it is negative.
#[derive(Clone)]
struct Ids(i64);
impl ProducerIdManager for Ids {
    fn generate(&mut self) -> Result<ProducerId, ErrorCode> {
        if self.0 < 0 {
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        self.0 += 1;
        Ok(ProducerId(self.0))
    }
}
#[derive(Clone, Default)]
struct Leaders(BTreeMap<TopicPartition, MarkerDestination>);
impl PartitionLeaders for Leaders {
    fn destination(&self, tp: TopicPartition) -> MarkerDestination {
        self.0.get(&tp).copied().unwrap_or(MarkerDestination::Leader(BrokerId(1)))
    }
}

#[derive(Clone)]
struct Bench {
    coordinator: TransactionCoordinator,
    config: TransactionConfig,
    fixes: Fixes,
    now: Millis,
    version: TransactionVersion,
    ids: Ids,
    leaders: Leaders,
    epoch: i32,
    log: Vec<TransactionLogRecord>,
    /// Appends without an answer.
    appends: VecDeque<(AppendId, Vec<TransactionLogRecord>)>,
    /// WriteTxnMarkers requests since they were last taken.
    sent: Vec<(BrokerId, Vec<TxnMarkerEntry>)>,
    replies: Vec<(Token, TransactionReply)>,
}

impl Bench {
    fn new(version: TransactionVersion, fixes: Fixes) -> Self {
        Self::with(TransactionConfig { state_log_num_partitions: 1, ..Default::default() }, version, fixes)
    }
    fn with(config: TransactionConfig, version: TransactionVersion, fixes: Fixes) -> Self {
        let mut bench = Self {
            coordinator: TransactionCoordinator::new(config, IdTable::new(["a"]), fixes, Millis::ZERO),
            config,
            fixes,
            now: Millis::ZERO,
            version,
            ids: Ids(999),
            leaders: Leaders::default(),
            epoch: 0,
            log: vec![],
            appends: VecDeque::new(),
            sent: vec![],
            replies: vec![],
        };
        bench.coordinator.elected(0, 0);
        bench.load();
        bench
    }
    fn step<T>(&mut self, call: impl FnOnce(&mut TransactionCoordinator, &mut Step<'_>) -> T) -> T {
        let mut out = Vec::new();
        let mut step = Step {
            now: self.now,
            wall: self.now,
            version: self.version,
            ids: &mut self.ids,
            leaders: &self.leaders,
            out: &mut out,
        };
        let given = call(&mut self.coordinator, &mut step);
        for output in out {
            match output {
                TransactionOutput::Append { append, records, .. } => self.appends.push_back((append, records)),
                TransactionOutput::SendMarkers { to, markers } => self.sent.push((to, markers)),
                TransactionOutput::Reply { token, reply } => self.replies.push((token, reply)),
            }
        }
        given
    }
    /// The oldest append is answered.
    fn ack(&mut self, error: ErrorCode) {
        let (append, records) = self.appends.pop_front().expect("an append is under way");
        if error.is_ok() {
            self.log.extend(records);
        }
        self.step(|c, step| c.appended(append, error, step));
    }
    fn ack_all(&mut self) {
        while !self.appends.is_empty() {
            self.ack(ErrorCode::None);
        }
    }
    fn reply(&mut self) -> TransactionReply {
        self.replies.pop().expect("a reply").1
    }
    fn init(&mut self, timeout: i64) -> TransactionReply {
        let request = InitProducerId {
            id: A,
            timeout: Millis(timeout),
            expected: None,
            enable_two_phase_commit: false,
            keep_prepared: false,
        };
        self.step(|c, step| c.init_producer_id(Token(1), &request, step));
        self.ack_all();
        self.reply()
    }
    fn add(&mut self, epoch: i16, partitions: &[TopicPartition]) -> ErrorCode {
        let (producer, epoch, version) = (ProducerId(1000), ProducerEpoch(epoch), self.version);
        let request = AddPartitions { id: A, producer, epoch, partitions, version };
        self.step(|c, step| c.add_partitions(Token(2), &request, step));
        self.ack_all();
        match self.reply() {
            TransactionReply::AddPartitions(error) => error,
            other => panic!("{other:?}"),
        }
    }
    fn ask_end(&mut self, epoch: i16, commit: bool) {
        let (producer, epoch, version) = (ProducerId(1000), ProducerEpoch(epoch), self.version);
        let request = EndRequest { id: A, producer, epoch, commit, from_client: true, version };
        self.step(|c, step| c.end_txn(Token(3), &request, step));
    }
    fn end(&mut self, epoch: i16, commit: bool) -> ErrorCode {
        self.ask_end(epoch, commit);
        self.ack_all();
        match self.reply() {
            TransactionReply::EndTxn { error, .. } => error,
            other => panic!("{other:?}"),
        }
    }
    fn poll(&mut self) {
        let now = self.now;
        self.step(|c, step| c.scan(step));
        if self.coordinator.marker_deadline() <= now {
            self.step(TransactionCoordinator::marker_pass);
        }
    }
    /// The marker requests that a look at the clock makes.
    fn markers(&mut self) -> Vec<(BrokerId, Vec<TxnMarkerEntry>)> {
        self.poll();
        std::mem::take(&mut self.sent)
    }
    /// A broker answers: one marker, the same error in each of its partitions.
    fn answer(&mut self, from: i32, partitions: &[TopicPartition], error: ErrorCode) {
        let results = [partitions.iter().map(|tp| (*tp, error)).collect()];
        self.step(|c, step| c.markers_answered(BrokerId(from), &results, step));
    }
    /// The partition is read from the log, with what is in it whatever was answered.
    fn load(&mut self) {
        let (log, epoch) = (self.log.clone(), self.epoch);
        self.step(|c, step| c.loaded(0, epoch, log, step));
    }
    /// Another broker takes over; appends without an answer did not make it into the log.
    fn failover(&mut self) {
        self.appends.clear();
        self.sent.clear();
        self.epoch += 1;
        let ids = IdTable::new(["a"]);
        self.coordinator = TransactionCoordinator::new(self.config, ids, self.fixes, self.now);
        self.coordinator.elected(0, self.epoch);
        self.load();
    }
    fn metadata(&self) -> &TransactionMetadata {
        self.coordinator.state().metadata(A).expect("coordinated here").expect("a known id")
    }
    fn state(&self) -> (TransactionState, Option<TransactionState>) {
        (self.metadata().state, self.metadata().pending)
    }
}

/// A bench with an open transaction of epoch 0 in T0 and T1.
fn ongoing(version: TransactionVersion, fixes: Fixes) -> Bench {
    let mut bench = Bench::new(version, fixes);
    bench.init(60_000);
    assert_eq!(bench.add(0, &[T0, T1]), ErrorCode::None);
    bench
}
