//! Runners of flink-checkpoint/restart and heartbeat.

use crate::harness::{Outcome, compare_lists, int, list, text};
use model::base::{Fixes, Millis};
use model::flink::failover::{Edge, PartitionType, Pattern, TaskId, Topology};
use model::flink::heartbeat::{Beat, Call, HeartbeatConfig, HeartbeatManager};
use model::flink::restart::{RestartStrategy, Restarts};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Runs one vector of flink-checkpoint/restart.
pub fn restart(vector: &Value, _fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let attempts = params["attempts"].as_u64();
    let delay = Millis(int(&params["delay"]));
    let strategy = match text(&vector["op"]) {
        "restart_fixed" => RestartStrategy::FixedDelay { attempts: attempts.unwrap_or(1) as u32, delay },
        "restart_rate" => {
            let interval = Millis(int(&params["interval"]));
            RestartStrategy::FailureRate { max: int(&params["max"]) as u32, interval, delay }
        }
        "restart_exponential" => RestartStrategy::ExponentialDelay {
            initial: Millis(int(&params["initial"])),
            max: Millis(int(&params["max"])),
            multiplier: params["multiplier"].as_f64().unwrap_or(1.5),
            reset: Millis(int(&params["reset"])),
            jitter: 0.0,
            attempts: attempts.map_or(i32::MAX as u32, |a| a as u32),
        },
        "restart_choice" => {
            return compare_lists(list(&vector["output"]), &[json!([0, "strategy", chosen(params)])]);
        }
        _ => return failover(vector),
    };
    let mut restarts = Restarts::new(strategy);
    let mut got = Vec::new();
    for (at, item) in list(&vector["input"]).iter().enumerate() {
        let verdict = restarts.failure(Millis(int(&item[1])), || u64::MAX / 3);
        let delay = verdict.delay.map(|d| d.0);
        got.push(json!([at, "failure", verdict.new_attempt, delay.is_some(), delay]));
    }
    compare_lists(list(&vector["output"]), &got)
}

/// The strategy of a configuration, as Flink's own classes print themselves.
fn chosen(params: &Value) -> String {
    let strategy = match params["type"].as_str() {
        None => RestartStrategy::default_of(params["checkpointing"] == true),
        Some(name) => RestartStrategy::named(name).expect("a strategy that Flink knows"),
    };
    match strategy {
        RestartStrategy::None => "NoRestartBackoffTimeStrategy".to_owned(),
        RestartStrategy::FixedDelay { attempts, delay } => {
            format!(
                "FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts={attempts}, backoffTimeMS={})",
                delay.0
            )
        }
        RestartStrategy::FailureRate { max, interval, delay } => format!(
            "FailureRateRestartBackoffTimeStrategy(FailureRateRestartBackoffTimeStrategy(failuresIntervalMS={},backoffTimeMS={},maxFailuresPerInterval={max})",
            interval.0, delay.0
        ),
        RestartStrategy::ExponentialDelay { initial, max, multiplier, reset, jitter, attempts } => format!(
            "ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS={}, maxBackoffMS={}, backoffMultiplier={multiplier}, resetBackoffThresholdMS={}, jitterFactor={jitter}, attemptsBeforeResetBackoff={attempts})",
            initial.0, max.0, reset.0
        ),
    }
}

fn failover(vector: &Value) -> Outcome {
    let params = &vector["params"];
    let names: Vec<&str> = list(&params["vertices"]).iter().map(|v| text(&v[0])).collect();
    let vertex = |name: &str| names.iter().position(|n| *n == name).expect("a vertex");
    let edges: Vec<Edge> = list(&params["edges"])
        .iter()
        .map(|e| Edge {
            from: vertex(text(&e[0])),
            to: vertex(text(&e[1])),
            pattern: if e[2] == "all" { Pattern::AllToAll } else { Pattern::Pointwise },
            kind: match text(&e[3]) {
                "PIPELINED" | "PIPELINED_BOUNDED" => PartitionType::Pipelined,
                "PIPELINED_APPROXIMATE" => PartitionType::Approximate,
                _ => PartitionType::Blocking,
            },
        })
        .collect();
    let edge = |name: &Value| {
        let (from, to) = text(name).split_once('>').unwrap_or_default();
        edges.iter().position(|e| (e.from, e.to) == (vertex(from), vertex(to))).expect("an edge")
    };
    let parallelism = list(&params["vertices"]).iter().map(|v| int(&v[1]) as u32).collect();
    let mut topology = Topology::new(parallelism, edges.clone());
    let task = |name: &Value, sub: &Value| -> TaskId { (vertex(text(name)), int(sub) as u32) };
    let shown = |tasks: Vec<TaskId>| {
        let mut tasks: Vec<String> = tasks.iter().map(|(v, sub)| format!("{}.{sub}", names[*v])).collect();
        tasks.sort();
        tasks
    };
    let mut got = Vec::new();
    for (at, item) in list(&vector["input"]).iter().enumerate() {
        match text(&item[0]) {
            "regions" => {
                let mut regions: Vec<_> = topology.regions().into_iter().map(shown).collect();
                regions.sort();
                got.push(json!([at, "regions", regions]));
            }
            "fail" => got.push(json!([at, "restart", shown(topology.restart(task(&item[1], &item[2]), None))])),
            "fail_consume" => {
                let unreadable = Some((edge(&item[3]), int(&item[4]) as u32));
                let tasks = topology.restart(task(&item[1], &item[2]), unreadable);
                got.push(json!([at, "restart", shown(tasks)]));
            }
            "state" => topology.set_created(task(&item[1], &item[2]), item[3] == "CREATED"),
            what => topology.set_available((edge(&item[1]), int(&item[2]) as u32), what == "back"),
        }
    }
    compare_lists(list(&vector["output"]), &got)
}

/// What a call of the manager leads to, `rtt` later or when it times out.
enum Arrival {
    Called(String, Call),
    Received(String),
}
const CALL_TIMEOUT: i64 = 10_000;

struct Line<'a> {
    names: Vec<&'a str>,
    manager: HeartbeatManager<usize>,
    modes: BTreeMap<String, String>,
    rtt: i64,
    now: i64,
    /// On their way: what arrives when, in the order in which it was sent.
    arrivals: VecDeque<(i64, Arrival)>,
    got: Vec<Value>,
}
impl Line<'_> {
    fn peer(&self, name: &str) -> usize {
        self.names.iter().position(|n| *n == name).expect("a peer")
    }
    fn act(&mut self, at: usize, beat: Beat<usize>) {
        let (what, peer) = match beat {
            Beat::TimedOut(p) => return self.got.push(json!([at, self.now, "timeout", self.names[p]])),
            Beat::Unreachable(p) => return self.got.push(json!([at, self.now, "unreachable", self.names[p]])),
            Beat::Request(p) => ("request", self.names[p].to_owned()),
            Beat::Answer(p) => ("answer", self.names[p].to_owned()),
        };
        let mode = self.modes.get(&peer).map_or("ok", String::as_str);
        self.got.push(json!([at, self.now, what, peer, mode]));
        let (call, after) = match mode {
            "silent" => (Call::Failed, CALL_TIMEOUT),
            "unreachable" => (Call::Unreachable, self.rtt),
            _ => (Call::Delivered, self.rtt),
        };
        let answered = mode == "ok" && what == "request";
        self.arrivals.push_back((self.now + after, Arrival::Called(peer.clone(), call)));
        if answered {
            self.arrivals.push_back((self.now + after, Arrival::Received(peer)));
        }
    }
    fn run_until(&mut self, at: usize, end: i64) {
        loop {
            let arrival =
                self.arrivals.iter().enumerate().min_by_key(|(i, (t, _))| (*t, *i)).map(|(i, (t, _))| (*t, i));
            let timer = self.manager.next().map(|m| m.0);
            // A deadline was set a whole interval or timeout ago, before anything on its way now was sent.
            let first = timer.unwrap_or(i64::MAX).min(arrival.map_or(i64::MAX, |a| a.0));
            if first > end {
                break;
            }
            self.now = self.now.max(first);
            if timer == Some(first) {
                let mut out = Vec::new();
                self.manager.fire(Millis(self.now), &mut out);
                out.into_iter().for_each(|beat| self.act(at, beat));
            } else if let Some((_, arrival)) = arrival.and_then(|(_, i)| self.arrivals.remove(i)) {
                match arrival {
                    Arrival::Received(peer) => self.manager.received(self.peer(&peer), Millis(self.now)),
                    Arrival::Called(peer, call) => {
                        let lost = self.manager.called(self.peer(&peer), call);
                        lost.into_iter().for_each(|beat| self.act(at, beat));
                    }
                }
            }
        }
        self.now = end;
    }
}

/// Runs one vector of flink-checkpoint/heartbeat.
pub fn heartbeat(vector: &Value, _fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let config = HeartbeatConfig {
        interval: Millis(int(&params["interval"])),
        timeout: Millis(int(&params["timeout"])),
        rpc_failure_threshold: int(&params["rpc_threshold"]) as i32,
    };
    let input = list(&vector["input"]);
    let mut names: Vec<&str> = input.iter().filter(|i| i[0] != "time").map(|i| text(&i[1])).collect();
    names.sort_unstable();
    names.dedup();
    let manager = match text(&vector["op"]) {
        "hb_sender" => HeartbeatManager::asking(config, Millis(0)),
        _ => HeartbeatManager::asked(config),
    };
    let rtt = int(&params["rtt"]);
    let (modes, arrivals, got) = (BTreeMap::new(), VecDeque::new(), Vec::new());
    let mut line = Line { names, manager, modes, rtt, now: 0, arrivals, got };
    for (at, item) in input.iter().enumerate() {
        let now = Millis(line.now);
        match text(&item[0]) {
            "time" => line.run_until(at, int(&item[1])),
            "monitor" => line.manager.monitor(line.peer(text(&item[1])), now),
            "unmonitor" => line.manager.unmonitor(line.peer(text(&item[1]))),
            "receive" => line.manager.received(line.peer(text(&item[1])), now),
            "request" => {
                let answer = line.manager.requested(line.peer(text(&item[1])), now);
                answer.into_iter().for_each(|beat| line.act(at, beat));
            }
            _ => {
                line.modes.insert(text(&item[1]).to_owned(), text(&item[2]).to_owned());
            }
        }
        line.run_until(at, line.now);
    }
    compare_lists(list(&vector["output"]), &line.got)
}
