//! Runner of flink-checkpoint/events.

use crate::harness::{Outcome, compare_lists};
use model::base::Fixes;
use model::flink::checkpoint::CheckpointId;
use model::flink::checkpoint::events::{CoordinatorEvents, EventEffect, Ticket};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The holder, and the calls to its subtasks.
struct Rig {
    events: CoordinatorEvents<String>,
    /// Subtasks whose calls stay unconfirmed, and those calls.
    held: BTreeSet<u32>,
    open: BTreeMap<u32, VecDeque<Ticket>>,
    at: usize,
    got: Vec<Value>,
}
impl Rig {
    fn call(&mut self, what: impl FnOnce(&mut CoordinatorEvents<String>, &mut Vec<EventEffect<String>>)) {
        let mut out = Vec::new();
        what(&mut self.events, &mut out);
        self.carry_out(out);
    }
    fn carry_out(&mut self, effects: Vec<EventEffect<String>>) {
        for effect in effects {
            match effect {
                EventEffect::Deliver { subtask, attempt, ticket, event } => {
                    self.got.push(json!([self.at, "deliver", subtask, attempt, event]));
                    if self.held.contains(&subtask) {
                        self.open.entry(subtask).or_default().push_back(ticket);
                    } else {
                        let mut out = Vec::new();
                        self.events.confirmed(ticket, true, &mut out);
                        self.carry_out(out);
                    }
                }
                EventEffect::NoGateway(subtask) => self.got.push(json!([self.at, "no_gateway", subtask])),
                EventEffect::State(id) => self.got.push(json!([self.at, "coordinator_state", id.0])),
                EventEffect::Failed(id) => self.got.push(json!([self.at, "coordinator_failed", id.0])),
                EventEffect::Failover { subtask, attempt } => {
                    self.got.push(json!([self.at, "failover", subtask, attempt]));
                }
            }
        }
    }
    /// A call to the coordinator itself.
    fn told(&mut self, what: &str, with: &[i64]) {
        let mut item = vec![json!(self.at), json!(what)];
        item.extend(with.iter().map(|n| json!(n)));
        self.got.push(Value::Array(item));
    }
}

/// Runs one vector.
pub fn run(vector: &Value, _fixes: Fixes) -> Outcome {
    let parallelism = vector["params"]["parallelism"].as_u64().unwrap_or(1) as u32;
    let events = CoordinatorEvents::new(parallelism);
    let mut rig = Rig { events, held: BTreeSet::new(), open: BTreeMap::new(), at: 0, got: Vec::new() };
    rig.got.extend((0..parallelism).map(|sub| json!([-1, "co_ready", sub, 0])));
    for (at, item) in vector["input"].as_array().into_iter().flatten().enumerate() {
        rig.at = at;
        let first = item[1].as_i64().unwrap_or(0);
        let (sub, id) = (first as u32, CheckpointId(first));
        let attempt = i64::from(if sub < parallelism { rig.events.attempt(sub) } else { 0 });
        match item[0].as_str().unwrap_or_default() {
            "event" => {
                let event = item[2].as_str().unwrap_or_default().to_owned();
                rig.call(|events, out| events.send(sub, event, out));
            }
            "ckpt" => {
                rig.events.asked(id);
                rig.told("asked", &[first]);
            }
            "coord_done" => rig.call(|events, out| events.answered(id, out)),
            "coord_fail" => rig.call(|events, out| events.failed(id, out)),
            "ack" => {
                let id = CheckpointId(item[2].as_i64().unwrap_or(0));
                rig.call(|events, out| events.acknowledged(sub, id, out));
            }
            "complete" => {
                rig.call(|events, out| events.over(id, out));
                rig.told("co_complete", &[first]);
            }
            "abort" => {
                rig.call(|events, out| events.over(id, out));
                rig.told("co_aborted", &[first]);
            }
            "abort_triggering" => rig.call(|events, out| events.triggering_aborted(out)),
            "rpc_hold" => {
                rig.held.insert(sub);
            }
            what @ ("rpc_ok" | "rpc_fail") => {
                if let Some(ticket) = rig.open.entry(sub).or_default().pop_front() {
                    rig.call(|events, out| events.confirmed(ticket, what == "rpc_ok", out));
                }
            }
            "fail_task" => {
                rig.events.task_failed(sub);
                rig.told("co_failed", &[first, attempt]);
            }
            "reset" => {
                rig.events.reset(sub);
                rig.told("co_subtask_reset", &[first, item[2].as_i64().unwrap_or(0)]);
            }
            _ => {
                rig.events.running(sub);
                rig.told("co_ready", &[first, attempt]);
            }
        }
    }
    compare_lists(vector["output"].as_array().map_or(&[], Vec::as_slice), &rig.got)
}
