//! Runners of flink-checkpoint/repartition and timers.

use crate::harness::{Outcome, compare_lists, int, list, text};
use model::base::Fixes;
use model::flink::kafka::split_owner;
use model::flink::key_groups::{key_group, range_of};
use model::flink::state::{ListState, Mode, key_group_parts, repartition as hand_out};
use model::flink::timers::{TimerState, Timers};
use model::kafka::placement::string_hash;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Runs one vector of flink-checkpoint/repartition.
pub fn repartition(vector: &Value, _fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let (old, new) = (int(&params["old"]), int(&params["new"]));
    let got = match text(&vector["op"]) {
        "repart_list" => lists(list(&vector["input"]), old as usize, new as usize),
        "repart_keyed" => keyed(int(&params["max"]) as u32, old as u32, new as u32),
        _ => {
            let parallelism = int(&params["parallelism"]) as u32;
            let owner = |p: &Value| split_owner(text(&p[1]), int(&p[2]) as u32, parallelism);
            list(&vector["input"]).iter().enumerate().map(|(at, p)| json!([at, "owner", owner(p)])).collect()
        }
    };
    compare_lists(list(&vector["output"]), &got)
}

fn lists(input: &[Value], old: usize, new: usize) -> Vec<Value> {
    let mut states: Vec<Vec<ListState<(i64, i64)>>> = vec![Vec::new(); old];
    for item in input {
        let mode = match text(&item[3]) {
            "UNION" => Mode::Union,
            "BROADCAST" => Mode::Broadcast,
            _ => Mode::SplitDistribute,
        };
        let elements = (0..int(&item[4])).map(|i| (int(&item[1]), i)).collect();
        states[int(&item[1]) as usize].push(ListState { name: text(&item[2]).into(), mode, elements });
    }
    let mut got = Vec::new();
    for (subtask, states) in hand_out(&states, new).iter().enumerate() {
        let mut by_name: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
        for state in states {
            by_name.entry(&state.name).or_default().extend(&state.elements);
        }
        for (name, mut elements) in by_name.into_iter().filter(|(_, e)| !e.is_empty()) {
            elements.sort_unstable();
            got.push(json!([subtask, "gets", name, elements]));
        }
    }
    got
}

fn keyed(max: u32, old: u32, new: u32) -> Vec<Value> {
    let parts = key_group_parts(max, old, new).into_iter().enumerate();
    let line = |(subtask, (range, parts)): (usize, (model::flink::key_groups::KeyGroupRange, Vec<_>))| {
        let parts: Vec<_> = parts
            .iter()
            .map(|(from, r): &(u32, model::flink::key_groups::KeyGroupRange)| [*from, r.first, r.last])
            .collect();
        json!([subtask, "range", range.first, range.last, parts])
    };
    parts.map(line).collect()
}

/// A keyed operator in parallel: its timers, and what `on_fire` makes of one that fires.
struct Keyed<'a> {
    max: u32,
    subtasks: Vec<Timers<String>>,
    on_fire: &'a Value,
    fired: BTreeMap<String, i64>,
    got: Vec<Value>,
}
impl Keyed<'_> {
    fn owner(&self, key: &str) -> usize {
        let group = key_group(string_hash(key), self.max);
        let parallelism = self.subtasks.len() as u32;
        (0..parallelism).find(|i| range_of(*i, self.max, parallelism).contains(group)).unwrap_or(0) as usize
    }
    fn fire(&mut self, at: usize, sub: usize, kind: &str, (time, key): (i64, String)) {
        self.got.push(json!([at, kind, sub, key, time, self.subtasks[sub].watermark()]));
        let rule = &self.on_fire[&key];
        let fired = self.fired.entry(key.clone()).or_default();
        if *fired < int(&rule[2]) {
            *fired += 1;
            self.register(text(&rule[0]), key, time + int(&rule[1]));
        }
    }
    fn register(&mut self, what: &str, key: String, time: i64) {
        let owner = self.owner(&key);
        let timers = &mut self.subtasks[owner];
        match what {
            "et" => timers.register_event(key, time),
            "pt" => timers.register_processing(key, time),
            "del_et" => timers.delete_event(key, time),
            _ => timers.delete_processing(key, time),
        }
    }
}

/// Runs one vector of flink-checkpoint/timers.
pub fn timers(vector: &Value, _fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let max = params["max"].as_u64().unwrap_or(128) as u32;
    let subtasks = vec![Timers::default(); int(&params["parallelism"]) as usize];
    let mut operator = Keyed { max, subtasks, on_fire: &params["on_fire"], fired: BTreeMap::new(), got: Vec::new() };
    for (at, item) in list(&vector["input"]).iter().enumerate() {
        match text(&item[0]) {
            "w" => {
                for sub in 0..operator.subtasks.len() {
                    operator.subtasks[sub].advance(int(&item[1]));
                    while let Some(timer) = operator.subtasks[sub].pop_event() {
                        operator.fire(at, sub, "et", timer);
                    }
                    operator.got.push(json!([at, "wm", sub, operator.subtasks[sub].watermark()]));
                }
            }
            "t" => {
                for sub in 0..operator.subtasks.len() {
                    while let Some(timer) = operator.subtasks[sub].pop_processing(int(&item[1])) {
                        operator.fire(at, sub, "pt", timer);
                    }
                }
            }
            "snap" => {
                let states: Vec<TimerState<String>> = operator.subtasks.iter().map(Timers::snapshot).collect();
                let parallelism = int(&item[1]) as u32;
                for sub in 0..parallelism {
                    let range = range_of(sub, max, parallelism);
                    let mine = |key: &String| range.contains(key_group(string_hash(key), max));
                    let timers = Timers::restore(&states, mine);
                    let kept = timers.snapshot();
                    operator.got.push(json!([at, "timers", sub, kept.event.len(), kept.processing.len()]));
                    operator.subtasks.truncate(sub as usize);
                    operator.subtasks.push(timers);
                }
            }
            what => operator.register(what, text(&item[1]).to_owned(), int(&item[2])),
        }
    }
    compare_lists(list(&vector["output"]), &operator.got)
}
