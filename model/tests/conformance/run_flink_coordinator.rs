//! Runner of flink-checkpoint/coordinator.

use crate::harness::{Outcome, compare_lists, int, list, text};
use model::base::{Fixes, Millis};
use model::flink::checkpoint::{
    CheckpointConfig, CheckpointCoordinator, CheckpointId, Effect, Kind, Reason, Task, TaskIndex, TaskState,
};
use serde_json::{Value, json};
use std::collections::VecDeque;

fn reason(value: &Value) -> Reason {
    Reason::of_name(text(value)).expect("a reason that Flink knows")
}
const ATTEMPT: u32 = 1;

/// The coordinator, its tasks' answers, and its operator coordinator.
struct Rig<'a> {
    coordinator: CheckpointCoordinator<()>,
    params: &'a Value,
    has_coordinator: bool,
    /// What the operator coordinator has been asked and not answered.
    asked: VecDeque<CheckpointId>,
    /// Answers on their way: when, from whom, to which checkpoint, why declined.
    answers: VecDeque<(i64, TaskIndex, CheckpointId, Option<Reason>)>,
    requests: u32,
    now: Millis,
    at: usize,
    got: Vec<Value>,
    shown: Value,
}
type Call<'c> = &'c mut dyn FnMut(&mut CheckpointCoordinator<()>, Millis, &mut Vec<Effect<()>>);

impl Rig<'_> {
    fn call(&mut self, what: Call<'_>) {
        let mut out = Vec::new();
        what(&mut self.coordinator, self.now, &mut out);
        let mut answered = Vec::new();
        for effect in out {
            let mut item = vec![json!(self.at), json!(self.now.0)];
            item.extend(match effect {
                Effect::SnapshotCoordinators(id) => {
                    if self.params["coord_hold"] == true {
                        self.asked.push_back(id);
                    } else {
                        answered.push(id);
                    }
                    vec![json!("coord_snapshot"), json!(id.0)]
                }
                Effect::Trigger { id, kind, tasks } => {
                    self.schedule(id);
                    let what = if kind.savepoint() { "trigger_savepoint" } else { "trigger" };
                    vec![json!(what), json!(id.0), json!(tasks)]
                }
                Effect::Completed(completed) => vec![json!("completed"), json!(completed.id.0)],
                Effect::Failed(id, why) => vec![json!("failed"), json!(id.map(|id| id.0)), json!(why.name())],
                Effect::FailJob => vec![json!("fail_job")],
                Effect::FailTask(task) => vec![json!("fail_job_by_task"), json!(task)],
                Effect::NotifyComplete(id, tasks) => vec![json!("notify_complete"), json!(id.0), json!(tasks)],
                Effect::NotifyAborted(id, tasks) => vec![json!("notify_aborted"), json!(id.0), json!(tasks)],
                Effect::CoordinatorsComplete(id) => vec![json!("coord_notify_complete"), json!(id.0)],
                Effect::CoordinatorsAborted(id) => vec![json!("coord_notify_aborted"), json!(id.0)],
                Effect::AbortTriggering => vec![json!("coord_abort_triggering")],
                Effect::RequestDone(n, completed) => vec![json!("request_done"), json!(n), json!(completed.id.0)],
                Effect::RequestFailed(n, why) => vec![json!("request_failed"), json!(n), json!(why.name())],
                Effect::Unknown(id) => vec![json!("ack_unknown"), json!(id.0)],
            });
            self.got.push(Value::Array(item));
        }
        for id in answered {
            self.call(&mut |c, now, out| c.coordinator_done(0, id, (), now, out));
        }
    }
    /// The tasks' own answers to a trigger.
    fn schedule(&mut self, id: CheckpointId) {
        let acks = &self.params["acks"];
        let own = &acks[id.0.to_string()];
        for (task, answer) in list(if own.is_null() { &acks["default"] } else { own }).iter().enumerate() {
            let declined = (answer[0] == "decline").then(|| reason(&answer[2]));
            if answer[0] != "none" {
                self.answers.push_back((self.now.0 + int(&answer[1]), task, id, declined));
            }
        }
    }
    fn run_until(&mut self, end: i64) {
        loop {
            let answer = (0..self.answers.len()).min_by_key(|i| (self.answers[*i].0, *i));
            let at = answer.map_or(i64::MAX, |i| self.answers[i].0);
            let timer = self.coordinator.next().map_or(i64::MAX, |m| m.0);
            if at.min(timer) > end {
                break;
            }
            self.now = self.now.max(Millis(at.min(timer)));
            if timer <= at {
                self.call(&mut |c, now, out| {
                    c.fire(now, out);
                });
            } else if let Some((_, task, id, declined)) = answer.and_then(|i| self.answers.remove(i)) {
                self.answer(task, id, declined);
            }
        }
        self.now = Millis(end);
    }
    fn answer(&mut self, task: TaskIndex, id: CheckpointId, declined: Option<Reason>) {
        match declined {
            None => self.call(&mut |c, now, out| c.acknowledge(task, ATTEMPT, id, (), now, out)),
            Some(why) => self.call(&mut |c, now, out| c.decline(task, id, why, now, out)),
        }
    }
    fn request(&mut self, kind: Kind) {
        let by = self.requests;
        self.requests += 1;
        self.call(&mut |c, now, out| c.request(kind, by, now, out));
    }
    /// What is pending, in the store and in the queue, if it has changed.
    fn state(&mut self) {
        let pending: Vec<i64> = self.coordinator.pending().map(|id| id.0).collect();
        let store: Vec<i64> = self.coordinator.store().ids().map(|id| id.0).collect();
        let state = json!([pending, store, self.coordinator.queued()]);
        if state != self.shown {
            self.got.push(json!([self.at, self.now.0, "state", pending, store, self.coordinator.queued()]));
            self.shown = state;
        }
    }
    fn item(&mut self, item: &Value) {
        let task = int(&item[1]) as TaskIndex;
        let id = CheckpointId(int(&item[2]));
        match text(&item[0]) {
            "start" => self.call(&mut |c, now, out| c.start(Millis(int(&item[1])), now, out)),
            "stop" => self.call(&mut |c, now, out| c.stop(now, out)),
            "time" => self.run_until(int(&item[1])),
            "ack" => self.answer(task, id, None),
            "decline" => self.answer(task, id, Some(reason(&item[3]))),
            "ack_old" => self.call(&mut |c, now, out| c.acknowledge(task, ATTEMPT - 1, id, (), now, out)),
            "task_failed" => self.call(&mut |c, now, out| c.task_failed(task, now, out)),
            "task_failed_stop" => self.call(&mut |c, now, out| c.task_failed_and_stop(task, now, out)),
            "abort_all" => self.call(&mut |c, now, out| c.abort_all(reason(&item[1]), now, out)),
            "shutdown" => self.call(&mut |c, now, out| c.shutdown(now, out)),
            "state" => {
                self.coordinator.task(task).state = match text(&item[2]) {
                    "RUNNING" => TaskState::Running,
                    "FINISHED" => TaskState::Finished,
                    "FAILED" | "CANCELED" => TaskState::Ended,
                    _ => TaskState::Other,
                };
            }
            "trigger" => self.request(Kind::Manual),
            "savepoint" => self.request(Kind::Savepoint { synchronous: false }),
            "sync_savepoint" => self.request(Kind::Savepoint { synchronous: true }),
            "backlog" => self.call(&mut |c, now, _| c.set_backlog(item[1] == true, now)),
            what @ ("coord_ack" | "coord_fail") => {
                if let Some(id) = self.asked.pop_front() {
                    self.call(&mut |c, now, out| match what {
                        "coord_ack" => c.coordinator_done(0, id, (), now, out),
                        _ => c.coordinator_failed(id, now, out),
                    });
                }
            }
            what => {
                let latest = self.coordinator.store().latest().map(|c| c.id.0);
                let now = self.now.0;
                if what == "restore" {
                    self.got.push(json!([self.at, now, "restored", latest]));
                } else {
                    if self.has_coordinator {
                        let id = latest.unwrap_or(CheckpointId::NONE.0);
                        self.got.push(json!([self.at, now, "coord_reset", id, latest.is_some()]));
                    }
                    self.got.push(json!([self.at, now, "restored_all", latest.is_some()]));
                }
            }
        }
    }
}

/// Runs one vector.
pub fn run(vector: &Value, _fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let number = |key: &str, default: i64| params[key].as_i64().unwrap_or(default);
    let config = CheckpointConfig {
        interval_during_backlog: params["backlog_interval"].as_i64().map(Millis),
        min_pause: Millis(number("min_pause", 0)),
        timeout: Millis(number("timeout", 600_000)),
        max_concurrent: number("max_concurrent", 1) as usize,
        tolerable: number("tolerable", 0) as u32,
        retained: number("retained", 1) as usize,
        after_finish: params["after_finish"] != false,
        ..CheckpointConfig::every(Millis(number("interval", 1000)))
    };
    let (sources, sinks) = (number("sources", 1) as usize, number("sinks", 1) as usize);
    let idle: Vec<TaskIndex> = list(&params["not_running"]).iter().map(|t| int(t) as TaskIndex).collect();
    let task = |index: TaskIndex| Task {
        state: if idle.contains(&index) { TaskState::Other } else { TaskState::Running },
        attempt: ATTEMPT,
        upstream: if index < sources { Vec::new() } else { (0..sources).collect() },
    };
    let tasks = (0..sources + sinks).map(task).collect();
    let has_coordinator = number("coordinator", 0) > 0;
    let mut rig = Rig {
        coordinator: CheckpointCoordinator::new(config, tasks, usize::from(has_coordinator)),
        params,
        has_coordinator,
        asked: VecDeque::new(),
        answers: VecDeque::new(),
        requests: 0,
        now: Millis::ZERO,
        at: 0,
        got: Vec::new(),
        shown: json!([[], [], 0]),
    };
    for (at, item) in list(&vector["input"]).iter().enumerate() {
        rig.at = at;
        rig.item(item);
        rig.run_until(rig.now.0);
        rig.state();
    }
    compare_lists(list(&vector["output"]), &rig.got)
}
