//! Runners of kafka/partition_change, replication_control, heartbeat: JSON to calls of `kafka::controller` and back.

use crate::harness::{Outcome, compare};
use model::base::{
    Addr, BrokerEpoch, BrokerId, Fixes, Incarnation, LeaderEpoch, Millis, Offset, PartitionEpoch, Port, ProcessId,
    TopicId, TopicPartition,
};
use model::kafka::ErrorCode;
use model::kafka::controller::messages::{
    AlterPartitionData, AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest, CreatableTopic,
    ElectionType,
};
use model::kafka::controller::{
    BrokerControlState, BrokerHeartbeatManager, ControllerConfig, ControllerResult, Election, Heartbeat,
    HeartbeatError, MetadataImage, PartitionChangeBuilder, PartitionRegistration, Record, Replicas,
    ReplicationControlManager,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What changed from `before` to `after`, two levels deep, as the recordings write it; `None` if nothing did.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    fn level(before: &Map<String, Value>, after: &Map<String, Value>, deeper: bool) -> Map<String, Value> {
        let mut out = Map::new();
        for (key, new) in after {
            match (before.get(key), new) {
                (Some(old), new) if old == new => {}
                (Some(Value::Object(old)), Value::Object(new)) if deeper => {
                    out.insert(key.clone(), Value::Object(level(old, new, false)));
                }
                _ => {
                    out.insert(key.clone(), new.clone());
                }
            }
        }
        for key in before.keys().filter(|k| !after.contains_key(*k)) {
            out.insert(key.clone(), Value::Null);
        }
        out
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return None };
    let changed = level(before, after, true);
    (!changed.is_empty()).then_some(Value::Object(changed))
}

/// Runs the items of a vector; `step` gives an item's answer, `state` the whole state.
pub(crate) fn drive<S>(
    vector: &Value,
    mut machine: S,
    step: impl Fn(&mut S, &Value) -> Value,
    state: impl Fn(&S) -> Value,
) -> Outcome {
    let mut before = state(&machine);
    if before != vector["initial"] {
        return Outcome::Failed(format!("initial: recorded {}\n      model    {before}", vector["initial"]));
    }
    let input = vector["input"].as_array().map_or(&[][..], Vec::as_slice);
    let output = vector["output"].as_array().map_or(&[][..], Vec::as_slice);
    compare(output, |i| {
        let mut answer = step(&mut machine, &input[i]);
        let after = state(&machine);
        if let Some(changed) = difference(&before, &after) {
            answer["state"] = changed;
        }
        before = after;
        answer
    })
}

fn flag(item: &Value, key: &str, default: bool) -> bool {
    item[key].as_bool().unwrap_or(default)
}
fn number(item: &Value, key: &str, default: i64) -> i64 {
    item[key].as_i64().unwrap_or(default)
}
fn broker(item: &Value) -> BrokerId {
    BrokerId(number(item, "broker", -1) as i32)
}
fn ids(list: &Value) -> Vec<BrokerId> {
    list.as_array().into_iter().flatten().map(|v| BrokerId(v.as_i64().unwrap_or(-1) as i32)).collect()
}
fn replicas(list: &Value) -> Replicas {
    ids(list).into()
}
fn numbers(list: &[BrokerId]) -> Value {
    list.iter().map(|b| b.0).collect()
}
fn op(item: &Value) -> &str {
    item["op"].as_str().unwrap_or_default()
}

fn partition_state(p: &PartitionRegistration) -> Value {
    let mut state = json!({
        "replicas": numbers(&p.replicas), "isr": numbers(&p.isr), "elr": numbers(&p.elr),
        "last_known_elr": numbers(&p.last_known_elr), "leader": p.leader.0, "leader_epoch": p.leader_epoch.0,
        "partition_epoch": p.partition_epoch.0, "recovering": p.recovering,
    });
    if !p.removing.is_empty() {
        state["removing"] = numbers(&p.removing);
    }
    if !p.adding.is_empty() {
        state["adding"] = numbers(&p.adding);
    }
    state
}

/// kafka/partition_change.
pub fn partition_change(vector: &Value, fixes: Fixes) -> Outcome {
    let p = &vector["params"];
    let partition = PartitionRegistration {
        elr: replicas(&p["elr"]),
        last_known_elr: replicas(&p["last_known_elr"]),
        removing: replicas(&p["removing"]),
        adding: replicas(&p["adding"]),
        leader: BrokerId(number(p, "leader", -1) as i32),
        leader_epoch: LeaderEpoch(number(&vector["initial"], "leader_epoch", 0) as i32),
        partition_epoch: PartitionEpoch(number(&vector["initial"], "partition_epoch", 0) as i32),
        recovering: flag(&vector["initial"], "recovering", false),
        ..PartitionRegistration::new(replicas(&p["replicas"]), replicas(&p["isr"]))
    };
    drive(vector, partition, |p, item| change(p, item, fixes), partition_state)
}

fn change(partition: &mut PartitionRegistration, item: &Value, fixes: Fixes) -> Value {
    let acceptable = ids(&item["acceptable"]);
    let unclean = ids(&item["unclean_shutdown"]);
    let version = item["mv"].as_str().unwrap_or("4.3");
    let mut version = version.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    let version = (version.next().unwrap_or(0), version.next().unwrap_or(0));
    let min_isr = number(item, "min_isr", 2) as u16;
    let mut builder =
        PartitionChangeBuilder::new(TopicPartition::default(), partition, min_isr, |b| acceptable.contains(&b))
            .eligible_leader_replicas(flag(item, "elr", true), fixes)
            .use_last_known_leader(flag(item, "last_known_leader", true))
            .shrink_raises_leader_epoch(version < (3, 6))
            .unclean_shutdown(&unclean)
            .election(match item["election"].as_str() {
                Some("preferred") => Election::Preferred,
                Some("unclean") => Election::Unclean,
                _ => Election::Online,
            });
    if item["target_isr"].is_array() {
        builder = builder.target_isr(ids(&item["target_isr"]));
    }
    if item["target_replicas"].is_array() {
        builder = builder.target_replicas(ids(&item["target_replicas"]));
    }
    if item["target_removing"].is_array() {
        builder = builder.target_removing(ids(&item["target_removing"]));
    }
    if item["target_adding"].is_array() {
        builder = builder.target_adding(ids(&item["target_adding"]));
    }
    if let Some(recovering) = item["recovering"].as_bool() {
        builder = builder.target_recovering(recovering);
    }
    let change = builder.build();
    if let Some(change) = &change {
        partition.merge(change);
    }
    json!({ "changed": change.is_some() })
}

struct Hearts {
    manager: BrokerHeartbeatManager,
    now: Millis,
}

/// kafka/heartbeat.
pub fn heartbeat(vector: &Value, _: Fixes) -> Outcome {
    let session = Millis(number(&vector["params"], "session_ms", 9000));
    let hearts = Hearts { manager: BrokerHeartbeatManager::new(session), now: Millis::ZERO };
    drive(vector, hearts, beat, |h| {
        let brokers: Map<String, Value> = h
            .manager
            .brokers()
            .map(|(id, b)| {
                let state = json!({ "fenced": b.fenced, "offset": b.metadata_offset.0,
                    "shutdown_offset": b.controlled_shutdown_offset.map(|o| o.0) });
                (id.to_string(), state)
            })
            .collect();
        json!({ "brokers": brokers, "lowest_active": h.manager.lowest_active_offset().0 })
    })
}

fn state_name(state: BrokerControlState) -> &'static str {
    match state {
        BrokerControlState::Fenced => "FENCED",
        BrokerControlState::Unfenced => "UNFENCED",
        BrokerControlState::ControlledShutdown => "CONTROLLED_SHUTDOWN",
        BrokerControlState::ShutdownNow => "SHUTDOWN_NOW",
    }
}

fn beat(h: &mut Hearts, item: &Value) -> Value {
    let id = broker(item);
    let epoch = BrokerEpoch(number(item, "epoch", -1));
    let offset = Offset(number(item, "offset", -1));
    let done = |result: Result<(), HeartbeatError>| match result {
        Ok(()) => json!({}),
        Err(e) => thrown(e),
    };
    match op(item) {
        "register" => h.manager.register(id, flag(item, "fenced", true)),
        "contact" => h.manager.tracker.contact(id, epoch, h.now),
        "fence" => h.manager.fence(id),
        "remove" => h.manager.remove(id),
        "advance" => {
            h.now = h.now + Millis(number(item, "ms", 0));
            return json!({ "now": h.now.0 });
        }
        "valid" => return json!({ "valid": h.manager.tracker.has_valid_session(id, epoch, h.now) }),
        "contact_time" => return json!({ "ms": h.manager.tracker.contact_time(id, epoch).map(|at| at.0) }),
        "take_expired" => {
            return match h.manager.tracker.take_expired(h.now) {
                Some((id, epoch)) => json!({ "broker": id.0, "epoch": epoch.0 }),
                None => json!({ "broker": null }),
            };
        }
        "touch" => return done(h.manager.touch(id, flag(item, "fenced", true), offset)),
        "shutdown_offset" => return done(h.manager.controlled_shutdown(id, offset)),
        "lowest_active" => return json!({ "offset": h.manager.lowest_active_offset().0 }),
        "beat" => {
            let beat = Heartbeat {
                metadata_offset: offset,
                want_fence: flag(item, "want_fence", false),
                want_shutdown: flag(item, "want_shutdown", false),
            };
            let registered = Offset(number(item, "registered_at", 0));
            return match h.manager.next_state(id, &beat, registered, || flag(item, "leads", false)) {
                Ok((current, next)) => json!({ "current": state_name(current), "next": state_name(next) }),
                Err(e) => thrown(e),
            };
        }
        other => return json!({ "unknown op": other }),
    }
    json!({})
}

fn thrown(error: HeartbeatError) -> Value {
    json!({ "err": match error {
        HeartbeatError::NotRegistered => "IllegalStateException",
        HeartbeatError::Fenced => "RuntimeException",
    } })
}

struct Controller {
    control: ReplicationControlManager,
    config: Arc<ControllerConfig>,
    fixes: Fixes,
    next: Offset,
    now: Millis,
}
impl Controller {
    /// Replays the records at once, as the recorder did.
    fn replay<T>(&mut self, result: ControllerResult<T>) -> T {
        for record in &result.records {
            self.control.replay(record, self.next);
            self.next = self.next.plus(1);
        }
        result.response
    }
    fn epoch(&self, id: BrokerId) -> BrokerEpoch {
        self.control.image().broker(id).map_or(BrokerEpoch::UNKNOWN, |b| b.epoch)
    }
}

/// kafka/replication_control.
pub fn replication_control(vector: &Value, fixes: Fixes) -> Outcome {
    let p = &vector["params"];
    let config = Arc::new(ControllerConfig {
        broker_session_timeout: Millis(number(p, "session_ms", 9000)),
        unclean_leader_election_enable: flag(p, "unclean", false),
        min_insync_replicas: number(p, "min_isr", 2) as u16,
        eligible_leader_replicas: flag(p, "elr", true),
        ..ControllerConfig::default()
    });
    let control = ReplicationControlManager::activate(config.clone(), fixes, MetadataImage::default(), Millis::ZERO);
    let controller = Controller { control, config, fixes, next: Offset(1), now: Millis::ZERO };
    drive(vector, controller, control_item, |c| {
        let image = c.control.image();
        let brokers: Map<String, Value> = image
            .brokers()
            .map(|(id, b)| {
                let state =
                    json!({ "epoch": b.epoch.0, "fenced": b.fenced, "shutting_down": b.in_controlled_shutdown });
                (id.to_string(), state)
            })
            .collect();
        let partitions: Map<String, Value> =
            image.partitions().map(|(tp, p)| (format!("t-{}", tp.partition), partition_state(p))).collect();
        json!({ "brokers": brokers, "partitions": partitions })
    })
}

fn control_item(c: &mut Controller, item: &Value) -> Value {
    let id = broker(item);
    let topic = TopicId(if item["topic"] == "t" { 0 } else { 1 });
    let tp = TopicPartition { topic, partition: number(item, "partition", 0) as u16 };
    match op(item) {
        "register" => {
            let request = BrokerRegistrationRequest {
                broker: id,
                incarnation: Incarnation(number(item, "incarnation", 0) as u32),
                previous_epoch: BrokerEpoch(number(item, "previous_epoch", -1)),
                addr: Addr { process: ProcessId(id.0 as u32), port: Port(0) },
            };
            match c.control.register_broker(&request, c.next, c.now) {
                Ok(result) => json!({ "epoch": c.replay(result).0 }),
                Err(e) => failed(e),
            }
        }
        "heartbeat" => {
            let request = BrokerHeartbeatRequest {
                broker: id,
                epoch: BrokerEpoch(number(item, "epoch", c.epoch(id).0)),
                metadata_offset: Offset(number(item, "offset", c.next.0 - 1)),
                want_fence: flag(item, "want_fence", false),
                want_shutdown: flag(item, "want_shutdown", false),
            };
            c.control.track_heartbeat(id, request.epoch, c.now);
            match c.control.process_heartbeat(&request) {
                Ok(result) => {
                    let reply = c.replay(result);
                    c.control.heartbeat_appended(id, reply, c.next.plus(-1));
                    json!({ "caught_up": reply.caught_up, "fenced": reply.state.is_fenced(),
                        "in_shutdown": reply.state == BrokerControlState::ControlledShutdown,
                        "shut_down_now": reply.state == BrokerControlState::ShutdownNow })
                }
                Err(e) => failed(e),
            }
        }
        "create" => {
            let assignments = item["assignment"].as_array().into_iter().flatten().map(replicas).collect();
            let result = c.control.create_topics(&[CreatableTopic { topic, assignments, configs: Vec::new() }]);
            failed(c.replay(result)[0].1)
        }
        "alter_partition" => alter(c, item, tp),
        "fence_scan" => {
            let result = c.control.fence_one_stale_broker(c.now);
            json!({ "again": c.replay(result) })
        }
        "balance" => {
            let result = c.control.balance_partition_leaders();
            json!({ "again": c.replay(result) })
        }
        "elect_unclean" => {
            let result = c.control.elect_unclean_leaders();
            json!({ "again": c.replay(result) })
        }
        "elect" => {
            let kind = if flag(item, "unclean", false) { ElectionType::Unclean } else { ElectionType::Preferred };
            let result = c.control.elect_leaders(kind, Some(&[tp]));
            failed(c.replay(result)[0].1)
        }
        "reassign" => {
            let target = item["replicas"].is_array().then(|| replicas(&item["replicas"]));
            let result = c.control.alter_partition_reassignments(&[(tp, target)]);
            failed(c.replay(result)[0].1)
        }
        "unregister" => match c.control.unregister_broker(id) {
            Ok(result) => {
                c.replay(result);
                json!({})
            }
            Err(e) => failed(e),
        },
        "new_controller" => {
            c.control =
                ReplicationControlManager::activate(c.config.clone(), c.fixes, c.control.image().clone(), c.now);
            json!({})
        }
        "advance" => {
            c.now = c.now + Millis(number(item, "ms", 0));
            json!({ "now": c.now.0 })
        }
        other => json!({ "unknown op": other }),
    }
}

fn failed(error: ErrorCode) -> Value {
    json!({ "err": error.name() })
}

fn alter(c: &mut Controller, item: &Value, tp: TopicPartition) -> Value {
    let sender = broker(item);
    let known = c.control.image().partition(tp);
    let (leader_epoch, partition_epoch) = known.map_or((0, 0), |p| (p.leader_epoch.0, p.partition_epoch.0));
    let isr = item["isr"].as_array().into_iter().flatten().map(|member| match member.as_array() {
        Some(pair) => (ids(member)[0], BrokerEpoch(pair[1].as_i64().unwrap_or(-1))),
        None => (BrokerId(member.as_i64().unwrap_or(-1) as i32), BrokerEpoch::UNKNOWN),
    });
    let data = AlterPartitionData {
        tp,
        leader_epoch: LeaderEpoch(leader_epoch + number(item, "leader_epoch_delta", 0) as i32),
        partition_epoch: PartitionEpoch(partition_epoch + number(item, "partition_epoch_delta", 0) as i32),
        isr: isr.collect(),
        recovering: flag(item, "recovering", false),
    };
    let epoch = BrokerEpoch(number(item, "epoch", c.epoch(sender).0));
    match c.control.alter_partition(&AlterPartitionRequest { broker: sender, epoch, partitions: vec![data] }) {
        Err(e) => failed(e),
        Ok(result) => {
            debug_assert!(result.records.iter().all(|r| matches!(r, Record::PartitionChange(_))));
            let answer = c.replay(result).remove(0);
            let mut out = failed(answer.error);
            if answer.error.is_ok() {
                out["leader"] = json!(answer.leader.0);
                out["leader_epoch"] = json!(answer.leader_epoch.0);
                out["partition_epoch"] = json!(answer.partition_epoch.0);
                out["isr"] = numbers(&answer.isr);
            }
            out
        }
    }
}
