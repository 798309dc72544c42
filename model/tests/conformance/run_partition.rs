//! Runner of kafka/partition: `kafka.cluster.Partition` of broker 1, with the purgatory and the sender of ISR changes.

use crate::harness::{Outcome, compare};
use crate::run_log::{batch, changes, entries, log_state};
use model::base::{Batch, EventTime};
use model::base::{
    BrokerEpoch, BrokerId, BrokerSet, Fixes, LeaderEpoch, Marker, Millis, Offset, PartitionEpoch, ProducerEpoch,
    ProducerId, ProducerTag, Sequence, TopicPartition,
};
use model::kafka::ErrorCode;
use model::kafka::broker::AlterPartitionManager;
use model::kafka::log::{AppendOrigin, Entry, FollowerAppendError, Isolation, LogConfig, ReadLimit, UnifiedLog};
use model::kafka::messages::{FetchPartition, OffsetSpec};
use model::kafka::partition::{
    AlterPartitionAnswer, BrokerState, BrokerTable, Fetcher, IsrChange, Partition, PartitionConfig, PartitionCx,
    PartitionMetadata, PartitionOutput, PartitionRead, Produce,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const TP: TopicPartition = TopicPartition::new(0, 0);
const ME: BrokerId = BrokerId(1);
const START: Millis = Millis(1_000_000);

fn int(item: &Value, key: &str) -> Option<i64> {
    item[key].as_i64()
}
fn need(item: &Value, key: &str) -> i64 {
    int(item, key).unwrap_or_else(|| panic!("{key} is missing in {item}"))
}
fn is(item: &Value, key: &str, default: bool) -> bool {
    item[key].as_bool().unwrap_or(default)
}
fn epoch(item: &Value, key: &str) -> LeaderEpoch {
    LeaderEpoch(int(item, key).unwrap_or(-1) as i32)
}
fn ids(list: &Value) -> Vec<BrokerId> {
    list.as_array().into_iter().flatten().filter_map(Value::as_i64).map(|id| BrokerId(id as i32)).collect()
}
fn numbers(set: BrokerSet) -> Vec<i32> {
    set.iter().map(|id| id.0).collect()
}
fn error(code: ErrorCode) -> Value {
    json!({ "err": code.name() })
}
fn isolation(item: &Value) -> Isolation {
    match item["iso"].as_str() {
        Some("committed") => Isolation::Committed,
        Some("log_end") => Isolation::LogEnd,
        _ => Isolation::HighWatermark,
    }
}

/// A batch of an `append`: its producers are transactional.
fn append_batch(item: &Value, now: Millis) -> Arc<Batch> {
    let time = EventTime(now.0);
    let epoch = ProducerEpoch(int(item, "epoch").unwrap_or(-1) as i16);
    if let Some(marker) = item["marker"].as_str() {
        let marker = Marker { commit: marker == "commit", coordinator_epoch: int(item, "coord").unwrap_or(0) as i32 };
        return Arc::new(Batch::marker(ProducerId(need(item, "pid")), epoch, marker, time));
    }
    let Some(id) = int(item, "pid") else { return batch(item, now) };
    let producer = ProducerTag { id: ProducerId(id), epoch, base_sequence: Sequence(need(item, "seq") as i32) };
    let n = need(item, "n") as u32;
    Arc::new(Batch::sized(n, 61 + 15 * n, producer, true, time))
}

struct Run {
    partition: Partition,
    alter: AlterPartitionManager,
    table: BrokerTable,
    /// What the recordings' metadata cache has of a broker, also while it does not know it.
    brokers: BTreeMap<i64, BrokerState>,
    now: Millis,
}

impl Run {
    fn new(params: &Value, fixes: Fixes) -> Self {
        let config = PartitionConfig {
            min_insync_replicas: int(params, "min_isr").unwrap_or(2) as u32,
            replica_lag_time_max: Millis(int(params, "lag_ms").unwrap_or(30_000)),
        };
        let log_config = LogConfig { transaction_verification: false, ..LogConfig::default() };
        let mut log = UnifiedLog::new(log_config, fixes);
        for batches in params["log"].as_array().into_iter().flatten() {
            let numbers: Vec<i64> = batches.as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
            for n in &numbers[1..] {
                let entry = Entry {
                    base: log.end(),
                    epoch: LeaderEpoch(numbers[0] as i32),
                    batch: batch(&json!({ "n": n }), START),
                };
                log.append_as_follower(&[entry], None).expect("the log's first batches follow on each other");
            }
        }
        let checkpoint = int(params, "hw_checkpoint").map(Offset);
        let brokers: BTreeMap<_, _> = (1..=5)
            .map(|id| (id, BrokerState { epoch: BrokerEpoch(100 + id), fenced: false, shutting_down: false }))
            .collect();
        let mut table = BrokerTable::default();
        brokers.iter().for_each(|(id, state)| table.set(BrokerId(*id as i32), *state));
        let partition = Partition::new(TP, ME, config, log, checkpoint, fixes);
        Self { partition, alter: AlterPartitionManager::default(), table, brokers, now: START }
    }

    /// Makes one call, gives its result and appends what it put out to `ev`.
    fn call<T>(&mut self, ev: &mut Vec<Value>, f: impl FnOnce(&mut Partition, &mut PartitionCx<'_>) -> T) -> T {
        let mut out = Vec::new();
        let mut cx = PartitionCx {
            now: self.now,
            broker_epoch: BrokerEpoch(101),
            brokers: &self.table,
            alter: &mut self.alter,
            out: &mut out,
        };
        let result = f(&mut self.partition, &mut cx);
        // The sender sends as soon as it can; the recordings take one request out at a time.
        self.alter.poll(self.now);
        for output in out {
            match output {
                PartitionOutput::IsrChangeSubmitted(a) => {
                    let isr: Vec<_> = a.isr.iter().map(|(id, epoch)| json!([id.0, epoch.0])).collect();
                    ev.push(json!({ "alter": {
                        "isr": isr, "leader": ME.0, "leader_epoch": a.leader_epoch.0, "partition_epoch": a.partition_epoch.0,
                    } }));
                }
                PartitionOutput::IsrChangeRefused(_) => ev.push(json!({ "alter_refused": true })),
                PartitionOutput::IsrChanged(_, IsrChange::Expand) => ev.push(json!({ "mark": "expand" })),
                PartitionOutput::IsrChanged(_, IsrChange::Shrink) => ev.push(json!({ "mark": "shrink" })),
                PartitionOutput::IsrChangeFailed(_) => ev.push(json!({ "mark": "failed" })),
                PartitionOutput::Produced { token, answer } => {
                    ev.push(json!({ "reply": token, "err": answer.error.name() }));
                }
                PartitionOutput::CheckFetches(_) | PartitionOutput::Emit(_) => {}
            }
        }
        result
    }

    fn state(&self) -> Map<String, Value> {
        let p = &self.partition;
        let mut state = log_state(p.log());
        for key in ["unstable", "undecided", "producers"] {
            state.remove(key);
        }
        let pending = p.isr().pending().map(|p| match p.change {
            IsrChange::Expand => "expand",
            IsrChange::Shrink => "shrink",
        });
        let replicas: Map<String, Value> = p
            .replicas()
            .iter()
            .map(|r| {
                let replica = json!({
                    "leo": r.end.0, "caught_up": r.last_caught_up.0, "fetched": r.last_fetch.0,
                    "leader_leo": r.last_fetch_leader_end.0, "epoch": r.broker_epoch.map(|e| e.0),
                });
                (r.id.0.to_string(), replica)
            })
            .collect();
        state.insert("leader".into(), json!(p.is_leader()));
        state.insert("leader_epoch".into(), json!(p.leader_epoch().0));
        state.insert("partition_epoch".into(), json!(p.partition_epoch().0));
        state.insert("isr".into(), json!(numbers(p.isr().committed())));
        state.insert("maximal_isr".into(), json!(numbers(p.isr().maximal())));
        state.insert("pending".into(), json!(pending));
        state.insert("epoch_start".into(), json!(p.epoch_start().map(|o| o.0)));
        state.insert("replicas".into(), Value::Object(replicas));
        state.insert("waiting".into(), json!(p.waiting().len()));
        state
    }

    fn item(&mut self, i: usize, item: &Value) -> Value {
        let before = self.state();
        let mut ev = Vec::new();
        let mut answer = self.step(i, item, &mut ev);
        let changed = changes(&before, &self.state());
        if !ev.is_empty() {
            answer["ev"] = Value::Array(ev);
        }
        if !changed.is_empty() {
            answer["state"] = Value::Object(changed);
        }
        answer
    }

    fn step(&mut self, i: usize, item: &Value, ev: &mut Vec<Value>) -> Value {
        match item["op"].as_str().unwrap_or_default() {
            "leader" => self.metadata(item, ME, ev),
            "follower" => self.metadata(item, BrokerId(need(item, "leader") as i32), ev),
            "append" => self.append(i, item, ev),
            "fetch" => {
                let id = need(item, "replica");
                let known = self.brokers.get(&id).map_or(-1, |b| b.epoch.0);
                let fetcher = Fetcher::Follower {
                    replica: BrokerId(id as i32),
                    broker_epoch: BrokerEpoch(int(item, "epoch").unwrap_or(known)),
                };
                self.fetch(item, fetcher, ev)
            }
            "consume" => {
                let fetcher =
                    Fetcher::Consumer { isolation: isolation(item), any_replica: is(item, "any_replica", false) };
                self.fetch(item, fetcher, ev)
            }
            "shrink" => {
                self.call(ev, |p, cx| p.maybe_shrink_isr(cx));
                json!({})
            }
            "late_out_of_sync" => {
                let ids: Vec<_> = self.partition.out_of_sync(self.now).iter().map(|id| id.0).collect();
                json!({ "ids": ids })
            }
            "alter_reply" => {
                self.alter_reply(item, ev);
                json!({})
            }
            "broker" => {
                self.broker(item);
                json!({})
            }
            "min_isr" => {
                self.partition.set_min_insync_replicas(need(item, "to") as u32);
                json!({})
            }
            "check" => {
                let err = self.partition.produced_up_to(Offset(need(item, "offset")));
                let reached = err.is_some_and(|e| e != ErrorCode::NotLeaderOrFollower);
                json!({ "reached": reached, "err": err.unwrap_or(ErrorCode::None).name() })
            }
            "end_offset" => {
                let asked = (epoch(item, "epoch"), epoch(item, "leader_epoch"), is(item, "only_leader", true));
                let answer = self.partition.end_offset_for_epoch(asked.0, asked.1, asked.2);
                let (err, (e, offset)) = match answer {
                    Ok(answer) => (ErrorCode::None, answer),
                    Err(err) => (err, (LeaderEpoch::UNKNOWN, Offset::UNKNOWN)),
                };
                json!({ "err": err.name(), "epoch": e.0, "offset": offset.0 })
            }
            "latest" => self.list_offset(item, OffsetSpec::Latest),
            "earliest" => self.list_offset(item, OffsetSpec::Earliest),
            "replicate" => {
                let entries = entries(item, self.now);
                let under = int(item, "le").map_or(self.partition.leader_epoch(), |e| LeaderEpoch(e as i32));
                match self.call(ev, |p, cx| p.append_to_follower(&entries, under, cx)) {
                    Ok(Some(a)) => json!({ "first": a.first.0, "last": a.last.0 }),
                    Ok(None) => json!({ "first": -1, "last": -1 }),
                    Err(FollowerAppendError::UnexpectedOffset) => json!({ "err": "UnexpectedAppendOffsetException" }),
                    Err(FollowerAppendError::OutOfOrder) => json!({ "err": "OffsetsOutOfOrderException" }),
                    Err(FollowerAppendError::Refused(e)) => error(e),
                }
            }
            "follower_hw" => {
                let to = Offset(need(item, "to"));
                let changed = self.call(ev, |p, cx| p.follow_high_watermark(to, cx));
                json!({ "changed": changed.map(|o| o.0) })
            }
            "truncate" => {
                let to = Offset(need(item, "to"));
                self.call(ev, |p, cx| p.truncate_to(to, cx));
                json!({})
            }
            "delete_records" => {
                let to = Offset(need(item, "to"));
                match self.call(ev, |p, cx| p.delete_records(to, cx)) {
                    Ok(low) => json!({ "low_watermark": low.0 }),
                    Err(e) => error(e),
                }
            }
            "advance" => {
                self.now = self.now + Millis(need(item, "ms"));
                self.call(ev, |p, cx| p.expire(cx));
                json!({ "now": self.now.0 })
            }
            other => panic!("unknown item {other}"),
        }
    }

    fn metadata(&mut self, item: &Value, leader: BrokerId, ev: &mut Vec<Value>) -> Value {
        let replicas = match &item["replicas"] {
            Value::Null => vec![BrokerId(1), BrokerId(2), BrokerId(3)],
            list => ids(list),
        };
        let metadata = PartitionMetadata {
            leader,
            leader_epoch: epoch(item, "leader_epoch"),
            partition_epoch: PartitionEpoch(need(item, "partition_epoch") as i32),
            isr: BrokerSet::of(&ids(&item["isr"])),
            replicas: &replicas,
        };
        let new = self
            .call(ev, |p, cx| if leader == ME { p.make_leader(&metadata, cx) } else { p.make_follower(&metadata, cx) });
        json!({ "new": new })
    }

    fn append(&mut self, i: usize, item: &Value, ev: &mut Vec<Value>) -> Value {
        let acks = need(item, "acks") as i8;
        let timeout = Millis(int(item, "timeout").unwrap_or(30_000));
        let mut how = Produce::client(i as u64, acks, timeout);
        if item["marker"].is_string() {
            how.origin = AppendOrigin::Coordinator;
        }
        let batch = append_batch(item, self.now);
        let mut replies = Vec::new();
        let result = self.call(&mut replies, |p, cx| p.produce(&batch, &how, cx));
        // The recordings' `ev` has answers of the purgatory only.
        if acks != -1 || result.is_err() {
            replies.retain(|r| r["reply"] != json!(i));
        }
        ev.append(&mut replies);
        match result {
            Ok(a) => {
                let change = if a.high_watermark_increased { "increased" } else { "same" };
                json!({ "first": a.appended.first.0, "last": a.appended.last.0, "hw_change": change })
            }
            Err(e) => error(e),
        }
    }

    fn fetch(&mut self, item: &Value, fetcher: Fetcher, ev: &mut Vec<Value>) -> Value {
        let from = FetchPartition {
            tp: TP,
            offset: Offset(need(item, "from")),
            leader_epoch: epoch(item, "leader_epoch"),
            last_fetched_epoch: epoch(item, "last_epoch"),
            log_start: Offset(int(item, "start").unwrap_or(0)),
            max_bytes: int(item, "max").unwrap_or(1_048_576) as u32,
        };
        let limit =
            ReadLimit { max_bytes: from.max_bytes, min_one: is(item, "min_one", true), high_watermark_seen: None };
        let read = self.call(ev, |p, cx| p.fetch(&from, fetcher, &limit, true, cx));
        match read {
            Ok(read) => read_json(&read),
            Err(e) => error(e),
        }
    }

    fn alter_reply(&mut self, item: &Value, ev: &mut Vec<Value>) {
        let Some(asked) = self.alter.again().into_iter().next() else { return };
        let err = item["err"].as_str().and_then(ErrorCode::from_name).unwrap_or(ErrorCode::None);
        let isr = match &item["isr"] {
            Value::Null => asked.isr.iter().map(|(id, _)| *id).collect(),
            list => ids(list),
        };
        let answer = AlterPartitionAnswer {
            tp: TP,
            error: err,
            leader_epoch: LeaderEpoch(asked.leader_epoch.0 + int(item, "leader_epoch_delta").unwrap_or(0) as i32),
            partition_epoch: PartitionEpoch(
                asked.partition_epoch.0 + int(item, "partition_epoch_delta").unwrap_or(1) as i32,
            ),
            isr: BrokerSet::of(&isr),
        };
        let decided = self.alter.on_answer(self.now, ErrorCode::None, &[answer]);
        for (asked, answer) in decided {
            self.call(ev, |p, cx| p.on_alter_answer(&asked, &answer, cx));
        }
    }

    fn broker(&mut self, item: &Value) {
        let id = need(item, "broker");
        let unknown = BrokerState { epoch: BrokerEpoch(100 + id), fenced: false, shutting_down: false };
        let state = self.brokers.entry(id).or_insert(unknown);
        if let Some(epoch) = int(item, "epoch") {
            state.epoch = BrokerEpoch(epoch);
        }
        state.fenced = is(item, "fenced", state.fenced);
        state.shutting_down = is(item, "shutting_down", state.shutting_down);
        let id = BrokerId(id as i32);
        match item["known"].as_bool() {
            Some(false) => self.table.remove(id),
            Some(true) => self.table.set(id, *state),
            None if self.table.get(id).is_some() => self.table.set(id, *state),
            None => {}
        }
    }

    fn list_offset(&self, item: &Value, spec: OffsetSpec) -> Value {
        match self.partition.list_offset(spec, isolation(item), epoch(item, "leader_epoch"), true) {
            Ok((offset, epoch)) => json!({ "offset": offset.0, "epoch": epoch.0 }),
            Err(e) => error(e),
        }
    }
}

fn read_json(read: &PartitionRead) -> Value {
    let batches: Vec<_> = read.entries.iter().map(|e| json!([e.base.0, e.last().0, e.epoch.0])).collect();
    let mut answer = json!({
        "batches": batches, "hw": read.high_watermark.0, "lso": read.last_stable.0, "leo": read.log_end.0,
        "start": read.log_start.0,
    });
    if let Some((epoch, end)) = read.diverging {
        answer["diverging"] = json!([epoch.0, end.0]);
    }
    if let Some(aborted) = &read.aborted {
        answer["aborted"] = aborted.iter().map(|a| json!([a.producer.0, a.first.0])).collect();
    }
    answer
}

/// Runs one vector.
pub fn partition(vector: &Value, fixes: Fixes) -> Outcome {
    let mut run = Run::new(&vector["params"], fixes);
    let initial = Value::Object(run.state());
    if initial != vector["initial"] {
        return Outcome::Failed(format!("initial: recorded {}\n      model    {initial}", vector["initial"]));
    }
    let input = vector["input"].as_array().cloned().unwrap_or_default();
    let output = vector["output"].as_array().cloned().unwrap_or_default();
    compare(&output, |i| run.item(i, &input[i]))
}
