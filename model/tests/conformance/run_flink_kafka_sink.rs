//! Runner of flink-kafka/kafka_eo: writers and committers of a Kafka sink, against the transaction coordinator.

use crate::harness::{Outcome, compare_lists, int, list};
use model::base::{BrokerId, Fixes, Millis, ProducerEpoch, ProducerId, TopicPartition};
use model::flink::checkpoint::CheckpointId;
use model::flink::kafka::{CommitException, KafkaCommittable, KafkaWriterState, OpenTransaction, TransactionalName};
use model::flink::kafka::{TransactionalWriter, split_owner};
use model::flink::sink::{Answer, Committer, CommitterConfig, CommitterState, WriterGuard};
use model::flink::state::{ListState, Mode, repartition};
use model::kafka::ErrorCode;
use model::kafka::coordinator::transaction::{
    AddPartitions, EndRequest, InitProducerId, MarkerDestination, PartitionLeaders, ProducerIdManager, Step, Token,
    TransactionConfig, TransactionCoordinator, TransactionOutput, TransactionReply, TransactionVersion, TxnMarkerEntry,
};
use model::kafka::placement::IdTable;
use model::kafka::txn_messages::TransactionalId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Connector 3.4 brings client 3.4, which knows no transaction version.
const CLIENT: TransactionVersion = TransactionVersion::V0;
const TOPIC: TopicPartition = TopicPartition::new(0, 0);
const TOKEN: Token = Token(0);
const ME: BrokerId = BrokerId(1);
/// `transaction.abort.timed.out.transaction.cleanup.interval.ms`: the coordinator notices at most so much later.
const NOTICED: Millis = Millis(10_000);

struct Ids(i64);
impl ProducerIdManager for Ids {
    fn generate(&mut self) -> Result<ProducerId, ErrorCode> {
        self.0 += 1;
        Ok(ProducerId(self.0))
    }
}
struct Leader;
impl PartitionLeaders for Leader {
    fn destination(&self, _: TopicPartition) -> MarkerDestination {
        MarkerDestination::Leader(ME)
    }
}

/// A record of the output topic.
struct Record {
    name: String,
    producer: ProducerId,
    /// Whether its transaction has committed; none: it is open.
    committed: Option<bool>,
}

/// The broker: its coordinator, and the one partition of the output topic.
struct Broker {
    coordinator: TransactionCoordinator,
    names: Vec<TransactionalName>,
    ids: Ids,
    now: Millis,
    timeout: Millis,
    reply: Option<TransactionReply>,
    /// Entries of the coordinator's log since the last item.
    entries: Vec<(TransactionalName, i16, &'static str)>,
    topic: Vec<Record>,
    /// Transactions that their producers have added the partition to.
    added: BTreeSet<(TransactionalName, ProducerEpoch)>,
    /// How far a read_committed and a read_uncommitted reader have read.
    read: (usize, usize),
}
impl Broker {
    fn new(prefixes: &BTreeSet<String>, timeout: Millis, fixes: Fixes) -> Self {
        let (subtasks, checkpoints) = (0..48, 1..64);
        let mut names = Vec::new();
        for prefix in prefixes {
            for subtask in subtasks.clone() {
                names.extend(checkpoints.clone().map(|n| TransactionalName {
                    prefix: prefix.as_str().into(),
                    subtask,
                    checkpoint: CheckpointId(n),
                }));
            }
        }
        let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
        let table = IdTable::new(texts.iter().map(String::as_str));
        let config = TransactionConfig { state_log_num_partitions: 1, ..TransactionConfig::default() };
        let now = Millis::ZERO;
        let mut broker = Self {
            coordinator: TransactionCoordinator::new(config, table, fixes, now),
            names,
            ids: Ids(0),
            now,
            timeout,
            reply: None,
            entries: Vec::new(),
            topic: Vec::new(),
            added: BTreeSet::new(),
            read: (0, 0),
        };
        broker.coordinator.elected(0, 0);
        broker.step(|c, step| c.loaded(0, 0, Vec::new(), step));
        broker
    }
    fn id(&self, name: &TransactionalName) -> TransactionalId {
        TransactionalId(self.names.iter().position(|n| n == name).expect("a name within the bounds") as u32)
    }
    /// One call of the coordinator and all that follows from it.
    fn step(&mut self, call: impl FnOnce(&mut TransactionCoordinator, &mut Step<'_>)) -> Option<TransactionReply> {
        let mut out = self.raw(call);
        while !out.is_empty() || self.coordinator.marker_deadline() == Millis::ZERO {
            if out.is_empty() {
                out = self.raw(|c, step| c.marker_pass(step));
                continue;
            }
            match out.remove(0) {
                TransactionOutput::Reply { reply, .. } => self.reply = Some(reply),
                TransactionOutput::Append { append, records, .. } => {
                    for record in records {
                        let name = self.names[record.id.0 as usize].clone();
                        self.entries.extend(record.value.map(|v| (name, v.epoch.0, v.state.name())));
                    }
                    out.extend(self.raw(|c, step| c.appended(append, ErrorCode::None, step)));
                }
                TransactionOutput::SendMarkers { to, markers } => {
                    let results: Vec<Vec<_>> = markers.iter().map(|m| self.mark(m)).collect();
                    out.extend(self.raw(|c, step| c.markers_answered(to, &results, step)));
                }
            }
        }
        self.reply.take()
    }
    fn raw(&mut self, call: impl FnOnce(&mut TransactionCoordinator, &mut Step<'_>)) -> Vec<TransactionOutput> {
        let mut out = Vec::new();
        let (now, version) = (self.now, TransactionVersion::V2);
        let mut step = Step { now, wall: now, version, ids: &mut self.ids, leaders: &Leader, out: &mut out };
        call(&mut self.coordinator, &mut step);
        out
    }
    fn mark(&mut self, marker: &TxnMarkerEntry) -> Vec<(TopicPartition, ErrorCode)> {
        let open = self.topic.iter_mut().filter(|r| r.producer == marker.producer && r.committed.is_none());
        open.for_each(|r| r.committed = Some(marker.commit));
        marker.partitions.iter().map(|tp| (*tp, ErrorCode::None)).collect()
    }
    /// InitProducerId, tried again while an abort is under way.
    fn initialise(&mut self, name: &TransactionalName) -> Result<(ProducerId, ProducerEpoch), ErrorCode> {
        let (id, timeout) = (self.id(name), self.timeout);
        let request =
            InitProducerId { id, timeout, expected: None, enable_two_phase_commit: false, keep_prepared: false };
        loop {
            match self.step(|c, step| c.init_producer_id(TOKEN, &request, step)) {
                Some(TransactionReply::InitProducerId { error: ErrorCode::None, producer, epoch }) => {
                    return Ok((producer, epoch));
                }
                Some(TransactionReply::InitProducerId { error: ErrorCode::ConcurrentTransactions, .. }) => {}
                Some(TransactionReply::InitProducerId { error, .. }) => return Err(error),
                _ => return Err(ErrorCode::UnknownServerError),
            }
        }
    }
    fn add_partition(&mut self, to: &OpenTransaction) {
        let (id, producer, epoch) = (self.id(&to.name), to.producer, to.epoch);
        let request = AddPartitions { id, producer, epoch, partitions: &[TOPIC], version: CLIENT };
        self.step(|c, step| c.add_partitions(TOKEN, &request, step));
        self.added.insert((to.name.clone(), epoch));
    }
    fn end(&mut self, name: &TransactionalName, of: (ProducerId, ProducerEpoch), commit: bool) -> ErrorCode {
        let (producer, epoch) = of;
        let id = self.id(name);
        let request = EndRequest { id, producer, epoch, commit, from_client: true, version: CLIENT };
        match self.step(|c, step| c.end_txn(TOKEN, &request, step)) {
            Some(TransactionReply::EndTxn { error, .. }) => error,
            _ => ErrorCode::UnknownServerError,
        }
    }
    fn time_out(&mut self) {
        self.now = self.now + self.timeout + NOTICED;
        self.step(|c, step| c.abort_timed_out(step));
    }
    /// What the two readers see for the first time.
    fn news(&mut self) -> (Vec<String>, Vec<String>) {
        let stable = self.topic.iter().position(|r| r.committed.is_none()).unwrap_or(self.topic.len());
        let committed = self.topic[self.read.0..stable].iter().filter(|r| r.committed == Some(true));
        let news = (
            committed.map(|r| r.name.clone()).collect(),
            self.topic[self.read.1..].iter().map(|r| r.name.clone()).collect(),
        );
        self.read = (stable, self.topic.len());
        news
    }
}

struct Subtask {
    writer: TransactionalWriter,
    guard: WriterGuard,
    committer: Committer<KafkaCommittable>,
}
/// A complete snapshot of the job.
#[derive(Clone)]
struct Snapshot {
    id: CheckpointId,
    writers: Vec<KafkaWriterState>,
    committers: Vec<CommitterState<KafkaCommittable>>,
    positions: BTreeMap<u32, i64>,
}

struct Rig {
    broker: Broker,
    fixes: Fixes,
    subtasks: Vec<Subtask>,
    next: CheckpointId,
    /// Of every subtask: how many records it has written.
    positions: BTreeMap<u32, i64>,
    snapshots: BTreeMap<usize, Snapshot>,
    commits: Vec<(TransactionalName, Value)>,
    at: usize,
    failed: bool,
}

/// One old subtask's part of a list state.
fn parts<T: Clone>(old: Vec<T>, new: usize) -> Vec<Vec<T>> {
    let list = |element| vec![ListState { name: "state".into(), mode: Mode::SplitDistribute, elements: vec![element] }];
    let old: Vec<_> = old.into_iter().map(list).collect();
    repartition(&old, new).into_iter().map(|s| s.into_iter().flat_map(|l| l.elements).collect()).collect()
}

impl Rig {
    fn start(&mut self, parallelism: usize, from: Option<usize>, prefix: &str) {
        let snapshot = from.and_then(|item| self.snapshots.get(&item).cloned());
        let id = snapshot.as_ref().map(|s| s.id);
        self.next = CheckpointId(id.map_or(1, |id| id.0 + 1));
        let (writers, committers) = match snapshot {
            Some(s) => {
                self.positions = s.positions;
                (parts(s.writers, parallelism), parts(s.committers, parallelism))
            }
            None => {
                self.positions.clear();
                (vec![Vec::new(); parallelism], vec![Vec::new(); parallelism])
            }
        };
        for (sub, (writers, committers)) in writers.into_iter().zip(committers).enumerate() {
            let config = CommitterConfig::default();
            let committers: Vec<_> = committers.into_iter().map(|s| s.map(KafkaCommittable::recovered)).collect();
            let committer = id.map_or_else(|| Committer::new(config), |id| Committer::restore(config, &committers, id));
            let restored = id.map(|id| (id, writers.into_iter().last()));
            let writer = TransactionalWriter::new(prefix.into(), sub as u32, parallelism as u32, restored);
            let guard = WriterGuard::new(sub as u32, parallelism as u32, id);
            self.subtasks.push(Subtask { writer, guard, committer });
            self.commit(sub);
            self.initialise(sub);
        }
    }
    /// Initialises what the writer waits for.
    fn initialise(&mut self, sub: usize) {
        while let Some(name) = self.subtasks[sub].writer.wants() {
            match self.broker.initialise(&name) {
                Ok((producer, epoch)) => self.subtasks[sub].writer.initialised(producer, epoch),
                Err(_) => {
                    self.failed = true;
                    return;
                }
            }
        }
    }
    /// Makes the calls that the committer wants.
    fn commit(&mut self, sub: usize) {
        while let Some(call) = self.subtasks[sub].committer.call() {
            let mut answers = Vec::new();
            for (committable, _) in call.offered {
                let KafkaCommittable { name, producer, epoch, live } = committable;
                // The client of a live transaction sends nothing if it never added a partition.
                let written = !live || self.broker.added.contains(&(name.clone(), epoch));
                let refused = if written { self.broker.end(&name, (producer, epoch), true) } else { ErrorCode::None };
                let exception = CommitException::of(refused);
                let result = exception.map_or("ok".to_owned(), |e| format!("dropped:{}", e.class()));
                let how = if live { "live" } else { "recovered" };
                self.commits.push((name.clone(), json!([self.at, "commit", name.to_string(), epoch.0, how, result])));
                answers.push(exception.map_or(Answer::Done, |e| e.verdict(self.fixes)));
            }
            if self.subtasks[sub].committer.answered(&answers, self.fixes).is_err() {
                self.failed = true;
                return;
            }
        }
    }
    fn write(&mut self, sub: usize, n: i64) {
        let Some(current) = self.subtasks[sub].writer.current().cloned() else { return };
        if !current.records {
            self.broker.add_partition(&current);
        }
        self.subtasks[sub].writer.wrote();
        let position = self.positions.entry(sub as u32).or_default();
        for i in *position..*position + n {
            let record = Record { name: format!("{sub}-{i}"), producer: current.producer, committed: None };
            self.broker.topic.push(record);
        }
        *position += n;
    }
    /// Every subtask takes its snapshot.
    fn snapshot(&mut self) -> CheckpointId {
        let id = self.next;
        self.next = CheckpointId(id.0 + 1);
        let (mut writers, mut committers) = (Vec::new(), Vec::new());
        for sub in 0..self.subtasks.len() {
            let Subtask { writer, guard, committer } = &mut self.subtasks[sub];
            let prepared = writer.prepare_commit(self.fixes);
            if let Some(what) = guard.before_barrier(id, self.fixes, || usize::from(prepared.is_some())) {
                self.failed |= committer.announced(what).is_err();
                prepared.into_iter().for_each(|c| committer.received(what, c));
            }
            guard.snapshot(id);
            writers.push(writer.snapshot(id));
            committers.push(committer.snapshot());
            self.initialise(sub);
        }
        let positions = self.positions.clone();
        self.snapshots.insert(self.at, Snapshot { id, writers, committers, positions });
        id
    }
    fn item(&mut self, item: &Value, got: &mut Vec<Value>) {
        match item[0].as_str().unwrap_or_default() {
            "start" => {
                let from = item[2].as_u64().map(|i| i as usize);
                self.start(int(&item[1]) as usize, from, item[3].as_str().unwrap_or("p"));
            }
            "e" => self.write(int(&item[1]) as usize, int(&item[2])),
            "ckpt" => {
                let id = self.snapshot();
                got.push(json!([self.at, "ckpt_id", id.0]));
                for sub in 0..self.subtasks.len() {
                    self.subtasks[sub].committer.complete(id);
                    self.commit(sub);
                }
            }
            "savepoint" => {
                self.snapshot();
            }
            "ckfail" => {
                self.snapshot();
                self.snapshots.remove(&self.at);
            }
            "ckpt_kill" => {
                let id = self.snapshot();
                got.push(json!([self.at, "ckpt_id", id.0]));
                self.subtasks.clear();
            }
            "kill" => self.subtasks.clear(),
            "cancel" => {
                for mut subtask in std::mem::take(&mut self.subtasks) {
                    if let Some(open) = subtask.writer.close() {
                        self.broker.end(&open.name, (open.producer, open.epoch), false);
                    }
                }
            }
            _ => self.broker.time_out(),
        }
    }
    /// What the item led to, in the order of the recordings.
    fn tell(&mut self, got: &mut Vec<Value>) {
        let at = self.at;
        if std::mem::take(&mut self.failed) {
            got.push(json!([at, "job_failed", ["JobException", "KafkaException"]]));
        }
        let (committed, all) = self.broker.news();
        if !all.is_empty() {
            got.push(json!([at, "ru", all]));
        }
        let mut entries = std::mem::take(&mut self.broker.entries);
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        got.extend(entries.iter().map(|(name, epoch, state)| json!([at, "tx", name.to_string(), epoch, state])));
        self.commits.sort_by(|a, b| a.0.cmp(&b.0));
        got.extend(self.commits.drain(..).map(|(_, commit)| commit));
        if !committed.is_empty() {
            got.push(json!([at, "rc", committed]));
        }
    }
}

/// Runs one vector of flink-kafka/kafka_eo.
pub fn exactly_once(vector: &Value, fixes: Fixes) -> Outcome {
    let input = list(&vector["input"]);
    let starts = input.iter().filter(|i| i[0] == "start");
    let prefixes: BTreeSet<String> = starts.map(|i| i[3].as_str().unwrap_or("p").to_owned()).collect();
    let timeout = Millis(vector["params"]["timeout"].as_i64().unwrap_or(600_000));
    let mut rig = Rig {
        broker: Broker::new(&prefixes, timeout, fixes),
        fixes,
        subtasks: Vec::new(),
        next: CheckpointId(1),
        positions: BTreeMap::new(),
        snapshots: BTreeMap::new(),
        commits: Vec::new(),
        at: 0,
        failed: false,
    };
    let mut got = Vec::new();
    for (at, item) in input.iter().enumerate() {
        rig.at = at;
        rig.item(item, &mut got);
        rig.tell(&mut got);
    }
    compare_lists(list(&vector["output"]), &got)
}

/// Runs one vector of flink-kafka/split_owner.
pub fn split_owners(vector: &Value, _fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let owner = |p| split_owner(params["topic"].as_str().unwrap_or_default(), p, int(&params["parallelism"]) as u32);
    let got: Vec<u32> = (0..int(&params["partitions"]) as u32).map(owner).collect();
    compare_lists(&[vector["output"].clone()], &[json!(got)])
}
