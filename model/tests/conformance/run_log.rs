//! Runners of kafka/producer_state, log, leader_epoch.

use crate::harness::{Outcome, compare};
use model::base::{
    Batch, EventTime, Fixes, LeaderEpoch, Marker, Millis, Offset, ProducerEpoch, ProducerId, ProducerTag, Sequence,
};
use model::kafka::log::{
    AppendOrigin, Appended, Entry, EpochEntry, FollowerAppendError, Isolation, LeaderAppend, LeaderEpochs, LogConfig,
    LogWrite, PartitionDisk, ReadLimit, UnifiedLog, VerificationGuard,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn int(v: &Value) -> Option<i64> {
    v.as_i64()
}
fn need(item: &Value, key: &str) -> i64 {
    int(&item[key]).unwrap_or_else(|| panic!("{key} is missing in {item}"))
}
fn offset(item: &Value, key: &str) -> Offset {
    Offset(need(item, key))
}
fn is(item: &Value, key: &str, default: bool) -> bool {
    item[key].as_bool().unwrap_or(default)
}

/// A batch as the recordings describe it. The records have values of 8 bytes: 61 + 15 n bytes a batch.
pub fn batch(item: &Value, now: Millis) -> Arc<Batch> {
    let time = EventTime(now.0);
    let epoch = ProducerEpoch(int(&item["epoch"]).unwrap_or(-1) as i16);
    if let Some(marker) = item["marker"].as_str() {
        let marker = Marker { commit: marker == "commit", coordinator_epoch: need(item, "coord") as i32 };
        return Arc::new(Batch::marker(ProducerId(need(item, "pid")), epoch, marker, time));
    }
    let producer = int(&item["pid"]).map_or(ProducerTag::NONE, |id| ProducerTag {
        id: ProducerId(id),
        epoch,
        base_sequence: Sequence(need(item, "seq") as i32),
    });
    let n = need(item, "n") as u32;
    Arc::new(Batch::sized(n, 61 + 15 * n, producer, is(item, "txn", false), time))
}
/// Batches with base offset and leader epoch.
pub fn entries(item: &Value, now: Millis) -> Vec<Entry> {
    let one =
        |b: &Value| Entry { base: offset(b, "base"), epoch: LeaderEpoch(need(b, "le") as i32), batch: batch(b, now) };
    item["batches"].as_array().into_iter().flatten().map(one).collect()
}
/// Leader epochs as [[epoch, start]...].
pub fn epochs(entries: &[EpochEntry]) -> Value {
    entries.iter().map(|e| json!([e.epoch.0, e.start.0])).collect()
}
/// The state of a log: the keys that `log` and `partition` recordings share.
pub fn log_state(log: &UnifiedLog) -> Map<String, Value> {
    let producers: Map<String, Value> = log
        .producers()
        .map(|(id, p)| {
            let window: Vec<Value> = p
                .window
                .batches()
                .iter()
                .map(|b| json!([b.first_sequence().0, b.last_sequence.0, b.first().0, b.last.0]))
                .collect();
            let state = json!({
                "epoch": p.epoch.0, "window": window, "txn": p.txn_start.map(|o| o.0), "coord": p.coordinator_epoch,
                "ts": p.last_timestamp.0,
            });
            (id.0.to_string(), state)
        })
        .collect();
    let mut state = Map::new();
    state.insert("start".into(), json!(log.start().0));
    state.insert("leo".into(), json!(log.end().0));
    state.insert("hw".into(), json!(log.high_watermark().0));
    state.insert("lso".into(), json!(log.last_stable().0));
    state.insert("unstable".into(), json!(log.first_unstable().map(|o| o.0)));
    state.insert("undecided".into(), json!(log.first_undecided().map(|o| o.0)));
    state.insert("epochs".into(), epochs(log.epochs().entries()));
    state.insert("producers".into(), Value::Object(producers));
    state
}
/// What changed, two levels deep.
pub fn changes(before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let mut changed = Map::new();
    for (key, new) in after {
        match (before.get(key), new) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                let mut inner: Map<String, Value> =
                    new.iter().filter(|(k, v)| old.get(*k) != Some(v)).map(|(k, v)| (k.clone(), v.clone())).collect();
                inner.extend(old.keys().filter(|k| !new.contains_key(*k)).map(|k| (k.clone(), Value::Null)));
                changed.insert(key.clone(), Value::Object(inner));
            }
            _ => drop(changed.insert(key.clone(), new.clone())),
        }
    }
    changed
}

struct Run {
    log: UnifiedLog,
    disk: PartitionDisk,
    config: LogConfig,
    fixes: Fixes,
    now: Millis,
    epoch: LeaderEpoch,
    /// Guards in the order in which they were made; `None` from before the last restart.
    guards: Vec<Option<VerificationGuard>>,
}

impl Run {
    fn new(params: &Value, fixes: Fixes) -> Self {
        let mut config =
            LogConfig { transaction_verification: is(params, "verification", true), ..LogConfig::default() };
        if let Some(ms) = int(&params["producer_expiration_ms"]) {
            config.producer_expiration = Millis(ms);
        }
        if let Some(ms) = int(&params["max_txn_timeout_ms"]) {
            config.max_transaction_timeout = Millis(ms);
        }
        let mut log = UnifiedLog::new(config, fixes);
        log.assign_epoch(LeaderEpoch(0), Offset(0));
        Self {
            log,
            disk: PartitionDisk::default(),
            config,
            fixes,
            now: Millis::ZERO,
            epoch: LeaderEpoch(0),
            guards: vec![],
        }
    }

    fn guard_name(&mut self, guard: Option<VerificationGuard>) -> Value {
        let Some(guard) = guard else { return Value::Null };
        let known = self.guards.iter().position(|g| *g == Some(guard));
        let i = known.unwrap_or_else(|| {
            self.guards.push(Some(guard));
            self.guards.len() - 1
        });
        json!(format!("g{}", i + 1))
    }
    fn guard_named(&self, name: &Value) -> Option<VerificationGuard> {
        let number: usize = name.as_str()?.strip_prefix('g')?.parse().ok()?;
        self.guards.get(number - 1).copied().flatten()
    }

    fn append(&mut self, item: &Value) -> Value {
        let marker = item["op"] == "marker";
        let batches: Vec<_> = match item["batches"].as_array() {
            Some(several) => several.iter().map(|b| batch(b, self.now)).collect(),
            None => vec![batch(item, self.now)],
        };
        let origin = match item["origin"].as_str() {
            Some("coordinator") => AppendOrigin::Coordinator,
            None if marker => AppendOrigin::Coordinator,
            _ => AppendOrigin::Client,
        };
        let how = LeaderAppend {
            epoch: self.epoch,
            origin,
            guard: self.guard_named(&item["guard"]),
            transaction_version: int(&item["tv"]).unwrap_or(0) as u8,
        };
        match self.log.append_as_leader(&batches, &how) {
            Ok(Appended { first, last, duplicate: true }) => json!({"dup": true, "first": first.0, "last": last.0}),
            Ok(at) => json!({"first": at.first.0, "last": at.last.0}),
            Err(e) => json!({"err": e.name()}),
        }
    }

    fn replicate(&mut self, item: &Value) -> Value {
        let limit = int(&item["le"]).map(|e| LeaderEpoch(e as i32));
        match self.log.append_as_follower(&entries(item, self.now), limit) {
            Ok(Some(at)) => json!({"first": at.first.0, "last": at.last.0}),
            Ok(None) => json!({"first": -1, "last": -1}),
            Err(FollowerAppendError::UnexpectedOffset) => json!({"err": "UnexpectedAppendOffsetException"}),
            Err(FollowerAppendError::OutOfOrder) => json!({"err": "OffsetsOutOfOrderException"}),
            Err(FollowerAppendError::Refused(e)) => json!({"err": e.name()}),
        }
    }

    fn read(&mut self, item: &Value) -> Value {
        let isolation = match item["iso"].as_str() {
            Some("log_end") => Isolation::LogEnd,
            Some("hw") => Isolation::HighWatermark,
            _ => Isolation::Committed,
        };
        let limit = ReadLimit {
            max_bytes: int(&item["max"]).unwrap_or(1_048_576) as u32,
            min_one: is(item, "min_one", true),
            high_watermark_seen: None,
        };
        match self.log.read(offset(item, "from"), isolation, &limit) {
            Err(e) => json!({"err": e.name()}),
            Ok(read) => {
                let batches: Vec<_> = read.entries.iter().map(|e| [e.base.0, e.last().0]).collect();
                let mut answer = json!({"batches": batches, "bytes": read.bytes});
                if let Some(aborted) = read.aborted {
                    answer["aborted"] = aborted.iter().map(|t| json!([t.producer.0, t.first.0])).collect();
                }
                answer
            }
        }
    }

    fn reopen(&mut self, item: &Value) -> Value {
        let clean = is(item, "clean", false);
        if clean {
            self.log.close();
        }
        self.write();
        // Closed segments are flushed: without a given point only the active one is scanned.
        let flushed = int(&item["recovery_point"]).map_or(self.log.end(), Offset);
        self.disk.set_recovery_point(flushed);
        if let Some(to) = int(&item["cut"]) {
            self.disk.cut(Offset(to), int(&item["extra"]).unwrap_or(0) > 0);
        }
        if is(item, "lose_snapshots", false) {
            self.disk.lose_snapshots_above(Offset::UNKNOWN);
        }
        if is(item, "lose_aborted_index", false) {
            self.disk.lose_indexes();
        }
        // The recordings restart without a high watermark checkpoint.
        self.disk.apply(&LogWrite::HighWatermark(Offset(0)));
        self.log = UnifiedLog::open(&self.disk, clean, self.now, self.config, self.fixes);
        self.guards.iter_mut().for_each(|g| *g = None);
        json!({})
    }

    fn write(&mut self) {
        for write in self.log.take_writes() {
            self.disk.apply(&write);
        }
    }

    fn item(&mut self, item: &Value) -> Value {
        let log = &mut self.log;
        let id = |key: &str| ProducerId(need(item, key));
        let epoch = || ProducerEpoch(need(item, "epoch") as i16);
        match item["op"].as_str().unwrap_or_default() {
            "append" | "marker" => self.append(item),
            "replicate" => self.replicate(item),
            "read" => self.read(item),
            "reopen" => self.reopen(item),
            "verify" => {
                let sequence = Sequence(need(item, "seq") as i32);
                match log.start_verification(id("pid"), epoch(), sequence, is(item, "tv2", false), self.now) {
                    Ok(guard) => json!({"guard": self.guard_name(guard)}),
                    Err(e) => json!({"err": e.name()}),
                }
            }
            "guard" => {
                let guard = log.verification_guard(id("pid"));
                json!({"guard": self.guard_name(guard)})
            }
            "ongoing" => json!({"ongoing": log.ongoing(id("pid"), epoch())}),
            "hw" => json!({"hw": log.set_high_watermark(offset(item, "to")).0}),
            "hw_follower" => json!({"changed": log.follow_high_watermark(offset(item, "to")).map(|o| o.0)}),
            "roll" => json!({"base": log.roll().0}),
            "snapshot" => {
                log.take_snapshot();
                json!({})
            }
            "snapshots" => json!({"snapshots": log.snapshots().iter().map(|o| o.0).collect::<Vec<_>>()}),
            "advance" => {
                self.now = self.now + Millis(need(item, "ms"));
                json!({"now": self.now.0})
            }
            "expire" => {
                log.expire_producers(self.now);
                json!({})
            }
            "late" => json!({"late": log.has_late_transaction(self.now)}),
            "truncate" => json!({"truncated": log.truncate_to(offset(item, "to"), self.now)}),
            "truncate_all" => {
                log.truncate_fully(offset(item, "to"), self.now);
                json!({})
            }
            "delete_records" => match log.increment_log_start(offset(item, "to")) {
                Ok(moved) => json!({"moved": moved}),
                Err(e) => json!({"err": e.name()}),
            },
            "delete_segments" => json!({"deleted": log.delete_old_segments()}),
            "epoch" => {
                self.epoch = LeaderEpoch(need(item, "epoch") as i32);
                log.assign_epoch(self.epoch, log.end());
                json!({})
            }
            "end_offset" => match log.end_offset_for(LeaderEpoch(need(item, "epoch") as i32)) {
                Some((epoch, end)) => json!({"epoch": epoch.0, "offset": end.0}),
                None => json!({"epoch": null}),
            },
            "aborted" => {
                let found = log.aborted_between(offset(item, "from"), offset(item, "to"));
                let rows: Vec<_> = found.iter().map(|e| [e.producer.0, e.first.0, e.last.0, e.last_stable.0]).collect();
                json!({"aborted": rows})
            }
            other => json!({"unknown": other}),
        }
    }
}

/// Runs a vector of producer_state or log.
pub fn log(vector: &Value, fixes: Fixes) -> Outcome {
    let mut run = Run::new(&vector["params"], fixes);
    let mut state = log_state(&run.log);
    if Value::Object(state.clone()) != vector["initial"] {
        return Outcome::Failed(format!("initial state: {}", Value::Object(state)));
    }
    let Some(recorded) = vector["output"].as_array() else { return Outcome::Failed("no output".into()) };
    compare(recorded, |i| {
        let mut answer = run.item(&vector["input"][i]);
        run.write();
        let after = log_state(&run.log);
        let changed = changes(&state, &after);
        if !changed.is_empty() {
            answer["state"] = Value::Object(changed);
        }
        state = after;
        answer
    })
}

/// Runs a vector of leader_epoch.
pub fn leader_epoch(vector: &Value, fixes: Fixes) -> Outcome {
    let mut cache = LeaderEpochs::default();
    let Some(recorded) = vector["output"].as_array() else { return Outcome::Failed("no output".into()) };
    compare(recorded, |i| {
        let before = cache.clone();
        let mut answer = epoch_item(&mut cache, &vector["input"][i], fixes);
        if cache != before {
            answer["state"] = epochs(cache.entries());
        }
        answer
    })
}

fn epoch_item(cache: &mut LeaderEpochs, item: &Value, fixes: Fixes) -> Value {
    let epoch = int(&item["epoch"]).map(|e| LeaderEpoch(e as i32));
    let named = || epoch.unwrap_or_else(|| panic!("epoch is missing in {item}"));
    let number = |e: Option<EpochEntry>| json!({"epoch": e.map(|e| e.epoch.0)});
    let entry = |e: Option<EpochEntry>| json!({"entry": e.map(|e| [i64::from(e.epoch.0), e.start.0])});
    match item["op"].as_str().unwrap_or_default() {
        "assign" => match cache.assign(named(), offset(item, "offset")) {
            Ok(_) => json!({}),
            Err(_) => json!({"err": "IllegalArgumentException"}),
        },
        "end_offset_for" => {
            let found = cache.end_offset_for(named(), offset(item, "leo"), fixes);
            let (epoch, end) = found.unwrap_or((LeaderEpoch::UNKNOWN, Offset::UNKNOWN));
            json!({"epoch": epoch.0, "offset": end.0})
        }
        "truncate_from_end" => {
            cache.truncate_from_end(offset(item, "offset"));
            json!({})
        }
        "truncate_from_start" => {
            cache.truncate_from_start(offset(item, "offset"));
            json!({})
        }
        "previous" => number(epoch.or_else(|| cache.latest().map(|e| e.epoch)).and_then(|e| cache.previous(e))),
        "previous_entry" => entry(cache.previous(named())),
        "next" => number(cache.next(named())),
        "entry" => entry(cache.entry(named())),
        "latest" => entry(cache.latest()),
        "earliest" => entry(cache.earliest()),
        "epoch_for_offset" => json!({"epoch": cache.epoch_for_offset(offset(item, "offset")).map(|e| e.0)}),
        "range" => json!({"entries": epochs(&cache.range(offset(item, "from"), offset(item, "to")))}),
        "clear" => {
            cache.clear();
            json!({})
        }
        other => json!({"unknown": other}),
    }
}
