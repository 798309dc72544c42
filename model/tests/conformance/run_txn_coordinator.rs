//! Runner of kafka/coordinator: the transaction coordinator over one partition of its log.

use crate::harness::{Outcome, compare};
use crate::run_log::changes;
use crate::run_txn_metadata::{metadata, partition, partition_name, partition_names, partitions, shown, version};
use model::base::{BrokerId, Fixes, Millis, ProducerEpoch, ProducerId, TopicPartition};
use model::kafka::ErrorCode;
use model::kafka::coordinator::transaction::{
    AddPartitions, AppendId, EndRequest, InitProducerId, MarkerDestination, PartitionLeaders, ProducerIdManager, Step,
    Token, TransactionConfig, TransactionCoordinator, TransactionLogRecord, TransactionLogValue, TransactionOutput,
    TransactionReply, TransactionVersion, TxnMarkerEntry, from_batch, to_batch,
};
use model::kafka::placement::IdTable;
use model::kafka::txn_messages::TransactionalId;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};

const LOG_PARTITION: u16 = 0;

struct Ids(i64);
impl ProducerIdManager for Ids {
    fn generate(&mut self) -> Result<ProducerId, ErrorCode> {
        self.0 += 1;
        Ok(ProducerId(self.0 - 1))
    }
}

#[derive(Default)]
struct Leaders(BTreeMap<TopicPartition, i64>);
impl PartitionLeaders for Leaders {
    fn destination(&self, tp: TopicPartition) -> MarkerDestination {
        match self.0.get(&tp).copied().unwrap_or(1) {
            -1 => MarkerDestination::LeaderNotAvailable,
            -2 => MarkerDestination::UnknownPartition,
            broker => MarkerDestination::Leader(BrokerId(broker as i32)),
        }
    }
}

struct Run {
    config: TransactionConfig,
    ids: IdTable,
    names: Vec<String>,
    fixes: Fixes,
    coordinator: TransactionCoordinator,
    epoch: i32,
    version: TransactionVersion,
    now: Millis,
    producer_ids: Ids,
    leaders: Leaders,
    /// Records of the log that a new coordinator finds, in the batches that they came in.
    log: Vec<model::base::Batch>,
    hold: bool,
    held: VecDeque<(AppendId, Vec<TransactionLogRecord>)>,
    fail_next: Option<ErrorCode>,
    /// WriteTxnMarkers requests without an answer.
    outstanding: VecDeque<(BrokerId, Vec<TxnMarkerEntry>)>,
    events: Vec<Value>,
    mentioned: Vec<TransactionalId>,
}

fn error(value: &Value) -> ErrorCode {
    value.as_str().map_or(ErrorCode::None, |name| ErrorCode::from_name(name).expect("a protocol error"))
}
fn is(item: &Value, key: &str) -> bool {
    item[key].as_bool().unwrap_or(false)
}

impl Run {
    fn new(vector: &Value, fixes: Fixes) -> Self {
        let params = &vector["params"];
        let number = |key: &str, default: Millis| params[key].as_i64().map_or(default, Millis);
        let defaults = TransactionConfig::default();
        let config = TransactionConfig {
            state_log_num_partitions: 1,
            max_timeout: number("max_timeout", defaults.max_timeout),
            transactional_id_expiration: number("id_expiration", defaults.transactional_id_expiration),
            two_phase_commit_enable: is(params, "two_pc"),
            // The recordings' network takes any number of requests at once.
            marker_requests_per_broker: usize::MAX,
            ..defaults
        };
        let seeds = params["seed"].as_array().into_iter().flatten();
        let items = vector["input"].as_array().into_iter().flatten();
        let mut names: Vec<String> =
            seeds.clone().chain(items).filter_map(|i| i["id"].as_str()).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        let ids = IdTable::new(names.iter().map(String::as_str));
        let now = Millis::ZERO;
        let mut run = Self {
            coordinator: TransactionCoordinator::new(config, ids.clone(), fixes, now),
            config,
            ids,
            names,
            fixes,
            epoch: 0,
            version: version(params, "tv"),
            now,
            producer_ids: Ids(1000),
            leaders: Leaders::default(),
            log: Vec::new(),
            hold: is(params, "hold"),
            held: VecDeque::new(),
            fail_next: None,
            outstanding: VecDeque::new(),
            events: Vec::new(),
            mentioned: Vec::new(),
        };
        for seed in seeds {
            let id = run.id(seed);
            let stored = metadata(seed, id).prepare_no_transit();
            let value = Some(TransactionLogValue::of(&stored, TransactionVersion::V2, fixes));
            run.write(&[TransactionLogRecord { id, value }]);
            run.mentioned.push(id);
        }
        run.load();
        run
    }
    fn id(&self, item: &Value) -> TransactionalId {
        let name = item["id"].as_str().unwrap_or_default();
        TransactionalId(self.names.iter().position(|n| n == name).expect("a known name") as u32)
    }

    fn write(&mut self, records: &[TransactionLogRecord]) {
        self.log.push(to_batch(records, self.now));
    }
    fn load(&mut self) {
        self.coordinator.elected(LOG_PARTITION, self.epoch);
        let records: Vec<_> = self.log.iter().flat_map(from_batch).collect();
        let epoch = self.epoch;
        self.step(|c, step| c.loaded(LOG_PARTITION, epoch, records, step));
    }

    /// One call of the coordinator and all that follows from it.
    fn step(&mut self, call: impl FnOnce(&mut TransactionCoordinator, &mut Step<'_>)) {
        let mut out = Vec::new();
        let mut step = Step {
            now: self.now,
            wall: self.now,
            version: self.version,
            ids: &mut self.producer_ids,
            leaders: &self.leaders,
            out: &mut out,
        };
        call(&mut self.coordinator, &mut step);
        out.into_iter().for_each(|output| self.output(output));
    }
    fn output(&mut self, output: TransactionOutput) {
        match output {
            TransactionOutput::Reply { token, reply } => self.reply(token, reply),
            TransactionOutput::SendMarkers { to, markers } => {
                let shown: Vec<_> = markers.iter().map(marker).collect();
                self.events.push(json!({"markers_to": to.0, "markers": shown}));
                self.outstanding.push_back((to, markers));
            }
            TransactionOutput::Append { append, records, .. } => {
                for record in &records {
                    let name = &self.names[record.id.0 as usize];
                    self.events.push(json!({"log": match &record.value {
                        None => json!({"id": name, "tombstone": true}),
                        Some(v) => json!({
                            "id": name, "pid": v.producer.0, "epoch": v.epoch.0, "state": v.state.name(),
                            "partitions": partition_names(&v.partitions),
                        }),
                    }}));
                }
                if let Some(error) = self.fail_next.take() {
                    self.step(|c, step| c.appended(append, error, step));
                } else if self.hold {
                    self.held.push_back((append, records));
                } else {
                    self.write(&records);
                    self.step(|c, step| c.appended(append, ErrorCode::None, step));
                }
            }
        }
    }
    fn reply(&mut self, token: Token, reply: TransactionReply) {
        self.events.push(match reply {
            TransactionReply::AddPartitions(error) => json!({"reply": token.0, "err": error.name()}),
            TransactionReply::InitProducerId { error, producer, epoch }
            | TransactionReply::EndTxn { error, producer, epoch } => {
                json!({"reply": token.0, "err": error.name(), "pid": producer.0, "epoch": epoch.0})
            }
        });
    }

    fn log_ack(&mut self, item: &Value) {
        let Some((append, records)) = self.held.pop_front() else { return };
        let error = error(&item["err"]);
        if error.is_ok() {
            self.write(&records);
        }
        self.step(|c, step| c.appended(append, error, step));
    }
    fn marker_reply(&mut self, item: &Value) {
        let Some((from, markers)) = self.outstanding.pop_front() else { return };
        if is(item, "disconnected") {
            return self.step(|c, step| c.markers_disconnected(from, step));
        }
        let result = |tp: &TopicPartition| (*tp, error(&item["errs"][partition_name(tp)]));
        let results: Vec<Vec<_>> = markers.iter().map(|m| m.partitions.iter().map(result).collect()).collect();
        self.step(|c, step| c.markers_answered(from, &results, step));
    }
    fn failover(&mut self, item: &Value) {
        for (_, records) in std::mem::take(&mut self.held) {
            if !is(item, "lose_unacked") {
                self.write(&records);
            }
        }
        self.outstanding.clear();
        self.fail_next = None;
        self.epoch += 1;
        self.coordinator = TransactionCoordinator::new(self.config, self.ids.clone(), self.fixes, self.now);
        self.load();
    }

    fn item(&mut self, i: usize, item: &Value) {
        let token = Token(i as u64);
        let int = |key: &str| item[key].as_i64();
        let producer = ProducerId(int("pid").unwrap_or(-1));
        let epoch = ProducerEpoch(int("epoch").unwrap_or(-1) as i16);
        let tv = if item["tv"].is_null() { self.version } else { version(item, "tv") };
        let named: Vec<_> = partitions(item).into_iter().collect();
        if item["id"].is_string() {
            let id = self.id(item);
            if !self.mentioned.contains(&id) {
                self.mentioned.push(id);
            }
        }
        let add = |id| AddPartitions { id, producer, epoch, partitions: &named, version: tv };
        match item["op"].as_str().unwrap_or_default() {
            "init" => {
                let request = InitProducerId {
                    id: self.id(item),
                    timeout: Millis(int("timeout").unwrap_or(60_000)),
                    expected: int("pid").map(|_| (producer, epoch)),
                    enable_two_phase_commit: is(item, "two_pc"),
                    keep_prepared: is(item, "keep_prepared"),
                };
                self.step(|c, step| c.init_producer_id(token, &request, step));
            }
            "add" => {
                let request = add(self.id(item));
                self.step(|c, step| c.add_partitions(token, &request, step));
            }
            "verify" => {
                let errors = self.coordinator.verify_partitions(&add(self.id(item)));
                let errors: Map<_, _> = errors.iter().map(|(tp, e)| (partition_name(tp), json!(e.name()))).collect();
                self.events.push(json!({"reply": i, "errs": errors}));
            }
            "end" => {
                let (id, commit) = (self.id(item), is(item, "commit"));
                let request = EndRequest { id, producer, epoch, commit, from_client: true, version: tv };
                self.step(|c, step| c.end_txn(token, &request, step));
            }
            "log_ack" => self.log_ack(item),
            "fail_next_append" => self.fail_next = Some(error(&item["err"])),
            "markers" => self.step(TransactionCoordinator::marker_pass),
            "marker_reply" => self.marker_reply(item),
            "advance" => self.now = self.now + Millis(int("ms").unwrap_or(0)),
            "abort_scan" => self.step(TransactionCoordinator::abort_timed_out),
            "expire_ids" => self.step(TransactionCoordinator::remove_expired_ids),
            "leader" => {
                let tp = partition(item["partition"].as_str().unwrap_or_default());
                self.leaders.0.insert(tp, int("broker").unwrap_or(1));
            }
            "failover" => self.failover(item),
            "resign" => self.coordinator.resigned(LOG_PARTITION, Some(self.epoch + 1)),
            "cluster_tv" => self.version = version(item, "tv"),
            other => self.events.push(json!({"unknown": other})),
        }
    }

    fn state(&self) -> Map<String, Value> {
        let one = |id: &TransactionalId| {
            let name = &self.names[id.0 as usize];
            let state = match self.coordinator.state().metadata(*id) {
                Ok(metadata) => metadata.map_or(Value::Null, shown),
                Err(e) => json!(e.name()),
            };
            (name.clone(), state)
        };
        let named = self.mentioned.iter().filter(|id| !self.names[id.0 as usize].is_empty());
        named.map(one).collect()
    }
}

fn marker(m: &TxnMarkerEntry) -> Value {
    json!({
        "pid": m.producer.0, "epoch": m.epoch.0, "coord": m.coordinator_epoch, "commit": m.commit,
        "tv": m.version as u8, "partitions": partition_names(&m.partitions),
    })
}

/// Runs one vector.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let mut run = Run::new(vector, fixes);
    let mut state = run.state();
    if Value::Object(state.clone()) != vector["initial"] {
        return Outcome::Failed(format!("initial state: {}", Value::Object(state)));
    }
    let Some(recorded) = vector["output"].as_array() else { return Outcome::Failed("no output".into()) };
    compare(recorded, |i| {
        run.item(i, &vector["input"][i]);
        let mut answer = json!({"ev": std::mem::take(&mut run.events)});
        let after = run.state();
        let changed = changes(&state, &after);
        if !changed.is_empty() {
            answer["state"] = Value::Object(changed);
        }
        state = after;
        answer
    })
}
