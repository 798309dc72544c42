//! Runner of kafka/group_offsets, group_classic, group_consumer: one group at its coordinator over a log.

use crate::harness::Outcome;
use crate::run_controller::drive;
use crate::run_group_requests::{Names, ordered_keys, request};
use model::base::{Fixes, Millis, Offset, ProducerId, TopicId, TopicPartition};
use model::kafka::ErrorCode;
use model::kafka::coordinator::group::messages::{ConsumerGroupHeartbeatReply, GroupReply, MemberAssignment};
use model::kafka::coordinator::group::{
    Answer, AssignedPartitions, ClassicMember, ClassicState, ConsumerGroupState, ConsumerMember, Cx, Group,
    GroupCoordinatorConfig, GroupCoordinatorShard, GroupRecord, LogEntry, MemberState, Step,
};
use model::kafka::txn_messages::GroupId;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;

const GROUP: GroupId = GroupId(0);

struct Machine {
    shard: GroupCoordinatorShard,
    config: GroupCoordinatorConfig,
    fixes: Fixes,
    topics: BTreeMap<TopicId, u16>,
    log: Vec<(Offset, LogEntry)>,
    now: Millis,
    /// Number of the item at work; its request's token.
    item: u64,
    /// Member ids made so far.
    ids: u32,
    /// Keys of maps in the order in which the recording has them.
    line: String,
}

/// What one item gives: its own answer, and what else happens, in order.
#[derive(Default)]
struct Shown {
    own: Map<String, Value>,
    events: Vec<Value>,
}

/// Runs one vector.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let number = |key: &str, default: i64| params[key].as_i64().unwrap_or(default);
    let max_size = params["max_size"].as_u64().map_or(i32::MAX as usize, |n| n as usize);
    let config = GroupCoordinatorConfig {
        initial_rebalance_delay: Millis(number("initial_delay", 3000)),
        offsets_retention: Millis(number("retention_min", 10_080) * 60_000),
        consumer_assignment_interval: Millis(number("assignment_interval_ms", 1000)),
        max_size,
        consumer_max_size: max_size,
        ..Default::default()
    };
    let default = json!({ "t": 4, "u": 2 });
    let topics = if params["topics"].is_object() { &params["topics"] } else { &default };
    let topics: BTreeMap<TopicId, u16> = topics
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, n)| (Names::topic(name), n.as_u64().unwrap_or(0) as u16))
        .collect();
    let machine = Machine {
        shard: GroupCoordinatorShard::new(config, fixes, topics.clone()),
        config,
        fixes,
        topics,
        log: Vec::new(),
        now: Millis(1_000_000),
        item: 0,
        ids: 0,
        line: vector["line"].as_str().unwrap_or_default().to_owned(),
    };
    let machine = RefCell::new(machine);
    let mut vector = vector.clone();
    let outputs = vector.get_mut("output").and_then(Value::as_array_mut).into_iter().flatten();
    let events = outputs.filter_map(|o| o.get_mut("ev").and_then(Value::as_array_mut)).flatten();
    events.filter_map(|e| e.get_mut("log").and_then(Value::as_array_mut)).for_each(|log| sort_offset_tombstones(log));
    drive(&vector, machine, |m, item| m.borrow_mut().step(item), |m| m.borrow().state())
}

impl Machine {
    fn step(&mut self, item: &Value) -> Value {
        let mut shown = Shown::default();
        let fails = item["append_fails"].as_str().and_then(ErrorCode::from_name);
        match item["op"].as_str().unwrap_or_default() {
            "advance" => {
                let until = self.now + Millis(item["ms"].as_i64().unwrap_or(0));
                while let Some(at) = self.shard.deadline().filter(|at| *at <= until) {
                    self.now = self.now.max(at);
                    if let Some(step) = self.shard.wake(self.now) {
                        self.apply(step, None, &mut shown);
                    }
                }
                self.now = until;
                shown.own.insert("now".to_owned(), json!(until.0));
            }
            "failover" => {
                let (log, end) = (self.log.clone(), Offset(self.log.len() as i64));
                let topics = self.topics.clone();
                self.shard = GroupCoordinatorShard::load(self.config, self.fixes, topics, log, end, self.now);
            }
            "topic" => {
                let topic = Names::topic(item["name"].as_str().unwrap_or_default());
                match item["partitions"].as_u64() {
                    Some(n) => self.topics.insert(topic, n as u16),
                    None => self.topics.remove(&topic),
                };
                let step = self.shard.topics_changed(self.topics.clone());
                self.apply(step, None, &mut shown);
            }
            "expire" => {
                let step = self.shard.expire_offsets(self.now);
                self.apply(step, None, &mut shown);
            }
            "background" => {
                // Targets are computed inside heartbeats: nothing is ever queued.
                shown.own.insert("tasks".to_owned(), json!(0));
            }
            "marker" => {
                let (producer, offset) =
                    (ProducerId(item["pid"].as_i64().unwrap_or(-1)), Offset(self.log.len() as i64));
                let commit = item["marker"] == "commit";
                self.log.push((offset, LogEntry::Marker(producer, commit)));
                self.shard.marker_appended(offset, producer, commit, self.now);
                let answers = self.shard.committed(offset.plus(1), self.now);
                self.show(answers, &mut shown);
            }
            _ => {
                let order = |key: &str| ordered_keys(&self.line, self.item as usize, key);
                let Some(request) = request(item, GROUP, &order) else { return json!({ "unknown op": item["op"] }) };
                let ids = &mut self.ids;
                let mut fresh_id = |_: &str| {
                    *ids += 1;
                    Names::made(*ids)
                };
                let mut cx = Cx { now: self.now, fresh_id: &mut fresh_id };
                let step = self.shard.request(self.item, &request, &mut cx);
                self.apply(step, fails, &mut shown);
            }
        }
        self.item += 1;
        let mut answer = shown.own;
        if !shown.events.is_empty() {
            answer.insert("ev".to_owned(), sorted_replies(shown.events));
        }
        Value::Object(answer)
    }

    /// Appends a step's records, and shows what leaves.
    fn apply(&mut self, step: Step, fails: Option<ErrorCode>, shown: &mut Shown) {
        self.show(step.answers, shown);
        let Some(write) = step.write else { return };
        let answers = match fails {
            Some(error) => {
                shown.events.push(json!({ "append_failed": error.name() }));
                self.shard.appended(write, Err(error), self.now)
            }
            None => {
                let mut kinds: Vec<Value> = write.records.iter().map(|r| json!(kind(r))).collect();
                sort_offset_tombstones(&mut kinds);
                shown.events.push(json!({ "log": kinds }));
                let base = Offset(self.log.len() as i64);
                for record in write.records.iter() {
                    let entry = LogEntry::Record(write.producer.map(|(id, _)| id), record.clone());
                    self.log.push((Offset(self.log.len() as i64), entry));
                }
                let mut answers = self.shard.appended(write, Ok(base), self.now);
                answers.extend(self.shard.committed(Offset(self.log.len() as i64), self.now));
                answers
            }
        };
        self.show(answers, shown);
    }

    fn show(&self, answers: Vec<Answer>, shown: &mut Shown) {
        for Answer { token, reply } in answers {
            let (later, fields) = show_reply(&reply);
            if later {
                let mut event = Map::from_iter([("reply".to_owned(), json!(token))]);
                event.extend(fields);
                shown.events.push(Value::Object(event));
            } else {
                debug_assert_eq!(token, self.item);
                shown.own.extend(fields);
            }
        }
    }

    fn state(&self) -> Value {
        let mut state = json!({ "type": null });
        match self.shard.group(GROUP) {
            None => {}
            Some(Group::Classic(g)) => {
                let members: Map<String, Value> = g.members().map(classic_member).collect();
                state = json!({ "type": "classic", "state": classic_state(g.state()), "generation": g.generation(),
                    "leader": g.leader().map(|l| Names::shown(l)), "protocol": g.protocol().map(|p| &**p),
                    "pending_join": g.pending_joins(), "members": members });
            }
            Some(Group::Consumer(g)) => {
                let members: Map<String, Value> =
                    g.members().map(|m| consumer_member(m, &Names::partitions(g.target_of(&m.id)))).collect();
                let name = match g.state() {
                    ConsumerGroupState::Empty => "Empty",
                    ConsumerGroupState::Assigning => "Assigning",
                    ConsumerGroupState::Reconciling => "Reconciling",
                    ConsumerGroupState::Stable => "Stable",
                };
                state = json!({ "type": "consumer", "state": name, "epoch": g.epoch(),
                    "assignment_epoch": g.assignment_epoch(), "members": members });
            }
        }
        let offsets = self.shard.offsets();
        let current = offsets.all().map(|(_, tp, v)| {
            let mut value = json!({ "offset": v.offset.0, "at": v.at.0 });
            if let Some(at) = v.expires {
                value["expires"] = json!(at.0);
            }
            (Names::tp(tp), value)
        });
        state["offsets"] = Value::Object(current.collect());
        let mut pending: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        for (producer, _, tp, value) in offsets.pending() {
            pending.entry(producer.to_string()).or_default().insert(Names::tp(tp), json!(value.offset.0));
        }
        state["pending"] = json!(pending);
        state
    }
}

/// Replies that come together, in the order of their requests: Kafka's goes by a hash table.
fn sorted_replies(mut events: Vec<Value>) -> Value {
    for run in events.chunk_by_mut(|a, b| a["reply"].is_u64() && b["reply"].is_u64()) {
        run.sort_by_key(|e| e["reply"].as_u64());
    }
    Value::Array(events)
}

/// Within one batch Kafka deletes offsets in the order of a hash table; here they are in order.
fn sort_offset_tombstones(log: &mut [Value]) {
    let is_one = |v: &Value| v.as_str().is_some_and(|text| text.starts_with("-OffsetCommit"));
    for run in log.chunk_by_mut(|a, b| is_one(a) && is_one(b)) {
        run.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
}

fn kind(record: &GroupRecord) -> String {
    let sign = if record.is_tombstone() { "-" } else { "" };
    match (record, record.member()) {
        (GroupRecord::OffsetCommit(_, tp, _), _) => format!("{sign}{} {}", record.kind(), Names::tp(*tp)),
        (_, Some(member)) => format!("{sign}{} {}", record.kind(), Names::shown(member)),
        _ => format!("{sign}{}", record.kind()),
    }
}

/// Whether the reply is shown as an event, and its fields.
fn show_reply(reply: &GroupReply) -> (bool, Map<String, Value>) {
    let errors = |list: &[(TopicPartition, ErrorCode)]| -> Map<String, Value> {
        list.iter().map(|(tp, e)| (Names::tp(*tp), json!(e.name()))).collect()
    };
    let (later, value) = match reply {
        GroupReply::Join(r) => {
            let mut v = json!({ "err": r.error.name() });
            if let Some(member) = &r.member {
                v["member"] = json!(Names::shown(member));
            }
            if r.error.is_ok() {
                v["generation"] = json!(r.generation);
                v["protocol"] = json!(r.protocol.as_deref());
                v["leader"] = json!(r.leader.as_deref().map(Names::shown));
                v["members"] = r.members.iter().map(|m| Names::shown(&m.id)).collect();
                if r.skip_assignment {
                    v["skip_assignment"] = json!(true);
                }
            }
            (true, v)
        }
        GroupReply::Sync(r) => {
            let mut v = json!({ "err": r.error.name() });
            if r.error.is_ok() {
                v["assignment"] = json!(text(&r.assignment));
                v["protocol"] = json!(r.protocol.as_deref());
            }
            (true, v)
        }
        GroupReply::Heartbeat(e) | GroupReply::Delete(e) => (false, json!({ "err": e.name() })),
        GroupReply::Leave(e, members) => {
            let mut v = json!({ "err": e.name() });
            if e.is_ok() {
                v["members"] = members.iter().map(|e| e.name()).collect();
            }
            (false, v)
        }
        GroupReply::OffsetCommit(e, list) | GroupReply::TxnOffsetCommit(e, list) => {
            (false, if e.is_ok() { json!({ "errs": errors(list) }) } else { json!({ "err": e.name() }) })
        }
        GroupReply::OffsetDelete(e, list) => (
            false,
            if e.is_ok() { json!({ "err": e.name(), "errs": errors(list) }) } else { json!({ "err": e.name() }) },
        ),
        GroupReply::OffsetFetch(e, list) => {
            let mut v = json!({ "err": e.name() });
            if e.is_ok() {
                let shown = |(tp, e, o): &(TopicPartition, ErrorCode, Offset)| {
                    (Names::tp(*tp), if e.is_ok() { json!(o.0) } else { json!(e.name()) })
                };
                v["offsets"] = Value::Object(list.iter().map(shown).collect());
            }
            (false, v)
        }
        GroupReply::ConsumerHeartbeat(r) => (false, heartbeat_reply(r)),
    };
    match value {
        Value::Object(fields) => (later, fields),
        _ => (later, Map::new()),
    }
}

fn heartbeat_reply(r: &ConsumerGroupHeartbeatReply) -> Value {
    let mut v = json!({ "err": r.error.name() });
    if r.error.is_ok() {
        v["epoch"] = json!(r.epoch);
        v["interval"] = json!(r.interval.0);
        v["assignment"] = r.assignment.as_ref().map_or(Value::Null, |list| Names::partitions(list.iter().copied()));
    }
    v
}

fn text(assignment: &MemberAssignment) -> String {
    match assignment {
        MemberAssignment::Opaque(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        MemberAssignment::Partitions(list) => format!("{list:?}"),
    }
}

fn classic_state(state: ClassicState) -> &'static str {
    match state {
        ClassicState::Empty => "Empty",
        ClassicState::PreparingRebalance => "PreparingRebalance",
        ClassicState::CompletingRebalance => "CompletingRebalance",
        ClassicState::Stable => "Stable",
    }
}

fn classic_member(m: &ClassicMember) -> (String, Value) {
    let mut v = json!({ "session": m.session_timeout.0, "rebalance": m.rebalance_timeout.0,
        "assignment": text(&m.assignment) });
    if let Some(instance) = &m.instance {
        v["instance"] = json!(**instance);
    }
    if m.is_awaiting_join() {
        v["joining"] = json!(true);
    }
    if m.is_awaiting_sync() {
        v["syncing"] = json!(true);
    }
    (Names::shown(&m.id), v)
}

fn consumer_member(m: &ConsumerMember, target: &Value) -> (String, Value) {
    let assigned = |partitions: &AssignedPartitions| {
        let mut topics: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        for (tp, epoch) in partitions {
            topics.entry(Names::topic_name(tp.topic)).or_default().insert(tp.partition.to_string(), json!(epoch));
        }
        json!(topics)
    };
    let current = &m.current;
    let state = match current.state {
        MemberState::Stable => "stable",
        MemberState::UnrevokedPartitions => "unrevoked_partitions",
        MemberState::UnreleasedPartitions => "unreleased_partitions",
    };
    let mut v = json!({ "epoch": current.epoch, "previous": current.previous_epoch, "state": state,
        "assigned": assigned(&current.assigned), "revoking": assigned(&current.revoking), "target": target });
    if let Some(instance) = &m.subscription.instance {
        v["instance"] = json!(**instance);
    }
    (Names::shown(&m.id), v)
}
