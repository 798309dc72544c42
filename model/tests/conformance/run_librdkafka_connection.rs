//! Runners of librdkafka/connection: measurements, compared as distributions.
//!
//! A line is one run of the real client. All lines with the same op and parameters are a cell; the model runs the cell's
//! scenario with some seeds. A line passes if its value lies in the model's range and the model's median lies in the cell's
//! recorded range, both widened by the noise of the recording machine.

use crate::harness::{Outcome, own_root, root};
use crate::rd_cluster::{Cluster, Reach, addr};
use model::base::{Domain, Fix, Fixes, Millis, Offset, Row, Stream, Streams, TopicPartition};
use model::kafka::client::rdkafka::{Call, CallError, ProducerEvent, RdConfig, RdError, RdGroupMetadata, RdProducer};
use model::kafka::messages::Request;
use model::kafka::txn_messages::{GroupId, TransactionalId};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Mutex;

const SEEDS: u64 = 100;
/// Noise of the recording machine: some 10 ms a step, now and then 100 (README of the recordings).
const NOISE_MS: i64 = 150;

/// What a run gave: named values in ms; a list is numbered.
type Measures = BTreeMap<String, i64>;

static MODEL: Mutex<BTreeMap<String, Vec<Measures>>> = Mutex::new(BTreeMap::new());

fn cell(vector: &Value) -> String {
    format!("{} {}", vector["op"], vector["params"])
}

/// Runs one line.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    // 2.16.0 still has it.
    let fixes = fixes.without(Fix::GoneGroupCoordinatorForgotten);
    let key = cell(vector);
    let cached = MODEL.lock().ok().and_then(|m| m.get(&key).cloned());
    let model = cached.unwrap_or_else(|| {
        let all: Vec<Measures> = (0..SEEDS).map(|seed| measure(vector, fixes, seed)).collect();
        if let Ok(mut m) = MODEL.lock() {
            m.insert(key.clone(), all.clone());
        }
        all
    });
    let cells: Vec<Measures> = lines().iter().filter(|v| cell(v) == key).map(recorded).collect();
    for (name, value) in recorded(vector) {
        let mut values: Vec<i64> = model.iter().filter_map(|m| m.get(&name).copied()).collect();
        values.sort_unstable();
        let (Some(low), Some(high)) = (values.first(), values.last()) else {
            return Outcome::Failed(format!("{name}: recorded {value} ms, the model has none"));
        };
        let median = values[values.len() / 2];
        let of_cell: Vec<i64> = cells.iter().filter_map(|m| m.get(&name).copied()).collect();
        let (from, to) = (of_cell.iter().min().unwrap_or(&value), of_cell.iter().max().unwrap_or(&value));
        if value < low - NOISE_MS || value > high + NOISE_MS {
            return Outcome::Failed(format!("{name}: recorded {value} ms\n      model    {low} / {median} / {high}"));
        }
        if of_cell.len() >= 5 && (median < from - NOISE_MS || median > to + NOISE_MS) {
            return Outcome::Failed(format!(
                "{name}: recorded {from} to {to} ms in this cell\n      model    {low} / {median} / {high}"
            ));
        }
    }
    Outcome::Passed
}

/// All lines of the project's own copy and of the folder that is run.
fn lines() -> Vec<Value> {
    let text = |root: std::path::PathBuf| std::fs::read_to_string(root.join("librdkafka/connection.jsonl"));
    let texts: Vec<String> = [own_root(), root()].into_iter().filter_map(|r| text(r).ok()).collect();
    // A line that stands in both is one run.
    let lines: std::collections::BTreeSet<&str> = texts.iter().flat_map(|t| t.lines()).collect();
    lines.into_iter().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

/// The values of a line that are compared.
fn recorded(vector: &Value) -> Measures {
    let result = &vector["result"];
    let mut out = Measures::new();
    let mut second = |name: &str| {
        if let Some(s) = result[name].as_f64() {
            out.insert(name.to_owned(), (s * 1000.0).round() as i64);
        }
    };
    match vector["op"].as_str().unwrap_or_default() {
        "connect_attempts" => {
            let ms: Vec<i64> =
                result["connect_ms"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
            return attempts(&ms, vector);
        }
        "down_up" => {
            second("reconnect_after_up_s");
            second("delivered_after_up_s");
        }
        "leader_moves" => second("first_to_new_s"),
        "no_answer" => {
            second("after_s");
            out.insert("returned".to_owned(), if result["returned"] == "ok" { 0 } else { 1_000_000 });
        }
        "coordinator_moves" => second("resume_s"),
        _ => match result["resume_s"].as_f64() {
            Some(s) => drop(out.insert("resume_s".to_owned(), (s * 1000.0) as i64)),
            None => drop(out.insert("never".to_owned(), 1)),
        },
    }
    out
}

/// Gaps between attempts towards one of several brokers; with all brokers dead, the attempts within each second.
fn attempts(ms: &[i64], vector: &Value) -> Measures {
    let mut out = Measures::new();
    if vector["params"]["brokers"] == 1 && vector["params"]["mode"] == "REFUSE" {
        // The first, and how many a second over the first twelve.
        let first = ms.first().copied().unwrap_or(0);
        let twelve = ms.iter().filter(|t| **t - first < 12_000).count() as i64;
        // Scaled so that two attempts more or less in 12 s are noise.
        out.insert("attempts in 12 s".to_owned(), twelve * NOISE_MS / 2);
        let longest = ms.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
        out.insert("longest gap".to_owned(), longest);
        for (i, t) in ms.iter().take(3).enumerate() {
            out.insert(format!("attempt {i}"), t - first);
        }
    } else {
        for (i, w) in ms.windows(2).take(6).enumerate() {
            out.insert(format!("gap {i}"), w[1] - w[0]);
        }
    }
    out
}

fn config(vector: &Value, mut base: RdConfig) -> RdConfig {
    let mut set = |key: &str, value: &str| base.set(key, value).expect("a setting that the model has");
    set("linger.ms", "20");
    set("message.timeout.ms", "60000");
    for (key, value) in vector["params"]["conf"].as_object().into_iter().flatten() {
        set(key, value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str());
    }
    base
}

struct Scene {
    cluster: Cluster,
    draw: Stream,
}

impl Scene {
    fn new(config: RdConfig, nodes: i32, reach: Reach, fixes: Fixes, seed: u64) -> Self {
        let streams = Streams(seed);
        let client = streams.stream(Domain::Process, 0, "librdkafka");
        let producer = RdProducer::new(config, (0..nodes).map(addr).collect(), fixes, client, Millis::ZERO);
        let mut cluster = Cluster::new(producer);
        cluster.race = Some(streams.stream(Domain::Network, 0, "race"));
        cluster.latency = 2;
        cluster.reach[0] = reach;
        if nodes == 1 {
            cluster.listed = [true, false, false];
            cluster.leaders.iter_mut().for_each(|l| *l = 0);
        }
        cluster.work();
        Self { cluster, draw: streams.stream(Domain::Workload, 0, "scene") }
    }
    fn until(&mut self, at: i64) {
        while self.cluster.step(Millis(at)) {}
    }
    fn send(&mut self, partition: u16) {
        let row = Row { bytes: 20, ..Row::default() };
        let tp = TopicPartition::new(0, partition);
        self.cluster.producer.send(tp, row, self.cluster.now).expect("records are taken");
        self.cluster.work();
    }
    fn kill(&mut self, node: i32, mode: &str) {
        self.cluster.reach[node as usize] = if mode == "DROP" { Reach::Drop } else { Reach::Refuse };
        self.cluster.cut(node);
        self.cluster.work();
    }
    /// Waits until all records are reported, at most to `limit`.
    fn reported(&mut self, limit: i64) {
        while self.cluster.producer.unreported() > 0 && self.cluster.step(Millis(limit)) {}
    }
}

fn measure(vector: &Value, fixes: Fixes, seed: u64) -> Measures {
    match vector["op"].as_str().unwrap_or_default() {
        "connect_attempts" => connect_attempts(vector, fixes, seed),
        "down_up" => down_up(vector, fixes, seed),
        "leader_moves" => leader_moves(vector, fixes, seed),
        "no_answer" => no_answer(vector, fixes, seed),
        "coordinator_moves" => TxnLoop::new(vector, fixes, seed, false).run(vector),
        "group_coordinator_moves" => TxnLoop::new(vector, fixes, seed, true).run(vector),
        other => panic!("no such op: {other}"),
    }
}

fn connect_attempts(vector: &Value, fixes: Fixes, seed: u64) -> Measures {
    let mode = vector["params"]["mode"].as_str().unwrap_or_default();
    let alone = vector["params"]["brokers"] == 1;
    let dead = if mode == "DROP" { Reach::Drop } else { Reach::Refuse };
    let (nodes, reach) = if alone { (1, dead) } else { (3, Reach::Up) };
    let mut s = Scene::new(config(vector, RdConfig::idempotent()), nodes, reach, fixes, seed);
    let start = if alone {
        0
    } else {
        // One record to each node first; the node dies about a second after the client was made.
        (0..3).for_each(|p| s.send(p));
        let age = 1_000 + s.draw.between(0, 40) as i64;
        s.until(age);
        s.kill(0, mode);
        s.cluster.now.0
    };
    s.send(0);
    s.until(start + 62_000);
    let dead = s.cluster.connects.iter().filter(|(at, node)| *node == 0 && at.0 >= start);
    let ms: Vec<i64> = dead.map(|(at, _)| at.0 - start).take(40).collect();
    attempts(&ms, vector)
}

fn down_up(vector: &Value, fixes: Fixes, seed: u64) -> Measures {
    let mut s = Scene::new(config(vector, RdConfig::idempotent()), 1, Reach::Up, fixes, seed);
    s.send(0);
    // About a second and 50 ms after the client was made, in every recorded run.
    let age = 1_005 + s.draw.between(0, 45) as i64;
    s.until(age);
    let down = s.cluster.now.0;
    s.kill(0, "REFUSE");
    s.send(0);
    let up = down + (vector["params"]["down_s"].as_f64().unwrap_or(0.0) * 1000.0) as i64;
    // The listener needs some ms to be there again.
    s.until(up + 15);
    s.cluster.reach[0] = Reach::Up;
    let refused = s.cluster.connects.len();
    s.reported(up + 30_000);
    let reconnected = s.cluster.connects.get(refused).map_or(up, |c| c.0.0);
    Measures::from([
        ("reconnect_after_up_s".to_owned(), reconnected - up),
        ("delivered_after_up_s".to_owned(), s.cluster.now.0 - up),
    ])
}

fn leader_moves(vector: &Value, fixes: Fixes, seed: u64) -> Measures {
    let mut s = Scene::new(config(vector, RdConfig::idempotent()), 3, Reach::Up, fixes, seed);
    s.send(0);
    let age = 3_000 + s.draw.below(1_000) as i64;
    s.until(age);
    let at = s.cluster.now.0;
    s.cluster.leaders[0] = 1;
    s.cluster.leader_epoch[0] += 1;
    if vector["params"]["kind"] == "dead" {
        s.kill(0, "REFUSE");
    }
    s.send(0);
    s.reported(at + 30_000);
    let new = s.cluster.seen.iter().find(|q| {
        q.at.0 >= at && q.node == 1 && matches!(&q.request, Request::Produce(p) if p.batches[0].0.partition == 0)
    });
    new.map(|q| ("first_to_new_s".to_owned(), q.at.0 - at)).into_iter().collect()
}

fn no_answer(vector: &Value, fixes: Fixes, seed: u64) -> Measures {
    let mut s = Scene::new(config(vector, RdConfig::transactional(TransactionalId(0))), 3, Reach::Up, fixes, seed);
    let api = vector["params"]["api"].as_str().unwrap_or_default().to_owned();
    let silent = crate::rd_cluster::Scripted { error: "SILENT".into(), delay: 0 };
    s.cluster.script.insert((api.clone(), 0), silent);
    let mut told = 0;
    let mut call = |s: &mut Scene, call: Call| -> Result<(), CallError> {
        let limit = s.cluster.now + Millis(80_000);
        match call {
            Call::Offsets => {
                let offsets = vec![(TopicPartition::new(1, 0), Offset(1))];
                s.cluster.producer.send_offsets(RdGroupMetadata::of_group(GroupId(0)), offsets, limit);
            }
            _ => s.cluster.producer.call(call, limit),
        }
        s.cluster.work();
        loop {
            let from = told;
            told = s.cluster.events.len();
            for (_, e) in &s.cluster.events[from..] {
                if let ProducerEvent::Called(_, result) = e {
                    return *result;
                }
            }
            assert!(s.cluster.step(limit + Millis(1_000)), "a call that never returns");
        }
    };
    let _ = call(&mut s, Call::Init);
    let _ = call(&mut s, Call::Begin);
    s.send(0);
    s.reported(s.cluster.now.0 + 5_000);
    let from = s.cluster.now.0;
    let last = match api.as_str() {
        "end_abort" => Call::Abort,
        "end_commit" => Call::Commit,
        _ => Call::Offsets,
    };
    let result = call(&mut s, last);
    let returned = match result {
        Ok(()) => 0,
        Err(e) if e.error == RdError::TimedOut && e.abort => 1_000_000,
        Err(_) => 2_000_000,
    };
    Measures::from([("after_s".to_owned(), s.cluster.now.0 - from), ("returned".to_owned(), returned)])
}

/// What the application of the transaction loop does next.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Next {
    Begin,
    Offsets,
    Commit,
    Abort,
    Pause(i64),
}

/// begin - send - (send_offsets) - commit every 0.1 s.
struct TxnLoop {
    s: Scene,
    partitions: Vec<u16>,
    offsets: bool,
    next: Next,
    waiting: Option<Call>,
    told: usize,
    committed: Option<i64>,
}

impl TxnLoop {
    fn new(vector: &Value, fixes: Fixes, seed: u64, offsets: bool) -> Self {
        let params = &vector["params"];
        let mut s = Scene::new(config(vector, RdConfig::transactional(TransactionalId(0))), 3, Reach::Up, fixes, seed);
        let victim = if offsets { 2 } else { 1 };
        if offsets && params["victim_is_also_txn_coordinator"] == true {
            s.cluster.txn_coordinator = 2;
        }
        if offsets && params["partitions"] == 2 {
            // The topic has two partitions: none is led by the victim.
            s.cluster.leaders.truncate(2);
        } else if !offsets {
            s.cluster.leaders.truncate(3);
        } else {
            s.cluster.leaders.truncate(params["partitions"].as_u64().unwrap_or(3) as usize);
        }
        let on_victim = params["data_on_victim"] == true;
        let partitions: Vec<u16> = (0..s.cluster.leaders.len() as u16)
            .filter(|p| on_victim || s.cluster.leaders[usize::from(*p)] != victim)
            .collect();
        Self { s, partitions, offsets, next: Next::Begin, waiting: None, told: 0, committed: None }
    }

    fn run(mut self, vector: &Value) -> Measures {
        let params = &vector["params"];
        let victim = if self.offsets { 2 } else { 1 };
        self.s.cluster.producer.call(Call::Init, Millis(60_000));
        self.waiting = Some(Call::Init);
        let death = 3_000 + self.s.draw.below(1_500) as i64;
        self.drive(death);
        self.s.kill(victim, params["mode"].as_str().unwrap_or_default());
        self.committed = None;
        let failover = death + params["failover_s"].as_i64().unwrap_or(0) * 1000;
        let back = params["back_s"].as_i64().map(|b| death + b * 1000);
        let limit = death + 70_000;
        self.drive_for_commit(failover, death);
        self.s.cluster.txn_coordinator = if self.s.cluster.txn_coordinator == victim { 0 } else { 1 };
        if !self.offsets {
            self.s.cluster.txn_coordinator = 2;
        } else if self.s.cluster.group_coordinator == victim {
            self.s.cluster.group_coordinator = 0;
        }
        for p in 0..self.s.cluster.leaders.len() {
            if self.s.cluster.leaders[p] == victim {
                self.s.cluster.leaders[p] = 0;
                self.s.cluster.leader_epoch[p] += 1;
            }
        }
        if params["victim_leaves_metadata"] == true {
            self.s.cluster.listed[victim as usize] = false;
        }
        if let Some(back) = back {
            self.drive_for_commit(back, death);
            if self.committed.is_none() {
                self.s.cluster.reach[victim as usize] = Reach::Up;
            }
        }
        self.drive_for_commit(limit, death);
        match self.committed.filter(|at| *at > death + 100) {
            Some(at) => Measures::from([("resume_s".to_owned(), at - death)]),
            None => Measures::from([("never".to_owned(), 1)]),
        }
    }
    fn drive(&mut self, until: i64) {
        loop {
            self.application();
            let wake = if let Next::Pause(at) = self.next { at.min(until) } else { until };
            if !self.s.cluster.step(Millis(wake)) && self.s.cluster.now.0 >= until {
                return;
            }
        }
    }
    /// Until a commit that was called after `death` is back, at most to `until`.
    fn drive_for_commit(&mut self, until: i64, death: i64) {
        loop {
            self.application();
            if self.committed.is_some_and(|at| at > death + 100) {
                return;
            }
            let wake = if let Next::Pause(at) = self.next { at.min(until) } else { until };
            if !self.s.cluster.step(Millis(wake)) && self.s.cluster.now.0 >= until {
                return;
            }
        }
    }

    fn application(&mut self) {
        loop {
            let from = self.told;
            self.told = self.s.cluster.events.len();
            let ended = self.s.cluster.events[from..].iter().rev().find_map(|(at, e)| match e {
                ProducerEvent::Called(call, result) => Some((at.0, *call, *result)),
                _ => None,
            });
            if let Some((at, call, result)) = ended {
                self.waiting = None;
                self.called(at, call, result);
            }
            let now = self.s.cluster.now.0;
            if self.waiting.is_some() || matches!(self.next, Next::Pause(at) if at > now) {
                return;
            }
            let limit = Millis(now + 30_000);
            let call = match self.next {
                Next::Begin | Next::Pause(_) => Call::Begin,
                Next::Offsets => Call::Offsets,
                Next::Commit => Call::Commit,
                Next::Abort => Call::Abort,
            };
            self.waiting = Some(call);
            if call == Call::Offsets {
                let offsets = vec![(TopicPartition::new(1, 0), Offset(now))];
                self.s.cluster.producer.send_offsets(RdGroupMetadata::of_group(GroupId(0)), offsets, limit);
            } else {
                self.s.cluster.producer.call(call, limit);
            }
            self.s.cluster.work();
            if self.told == self.s.cluster.events.len() {
                return;
            }
        }
    }
    fn called(&mut self, at: i64, call: Call, result: Result<(), CallError>) {
        self.next = match (call, result) {
            (_, Err(e)) if e.abort => Next::Abort,
            (_, Err(e)) if e.retriable => match call {
                Call::Commit => Next::Commit,
                Call::Abort => Next::Abort,
                Call::Offsets => Next::Offsets,
                _ => Next::Begin,
            },
            (_, Err(e)) => panic!("{call:?} ended with {}", e.error),
            (Call::Init, Ok(())) => Next::Begin,
            (Call::Begin, Ok(())) => {
                for p in self.partitions.clone() {
                    self.s.send(p);
                }
                if self.offsets { Next::Offsets } else { Next::Commit }
            }
            (Call::Offsets, Ok(())) => Next::Commit,
            (Call::Commit, Ok(())) => {
                self.committed = Some(at);
                Next::Pause(at + 100)
            }
            (Call::Abort | Call::Flush, Ok(())) => Next::Pause(at + 100),
        };
    }
}
