//! Runner of flink-kafka/kafka_wm: splits of a Kafka source, their watermarks, idleness and alignment, over restores.
//!
//! The recordings do not say all that decides in them: the topic's name, by which splits find their subtasks; whether an
//! asynchronous answer (markers of a transaction, offsets of the group) came within its item or after it; and how long the
//! recorder waited for a record that did not come. A run is right if some answer to these gives what was recorded, the same for
//! the whole vector. The record of the last item may be missing from a recording that ended before it came.

use crate::harness::{Outcome, compare_lists, int, list, text};
use model::base::{Fixes, Millis};
use model::flink::kafka::split_owner;
use model::flink::operator::{Accumulator, Pane, Slices, Window, WindowAggregate, WindowAggregateState};
use model::flink::source::{AlignmentGroup, SourceWatermarks, Strategy};
use model::flink::state::{ListState, Mode, repartition};
use model::flink::watermark::{Signal, Valve};
use model::kafka::hash_order::hash_order;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// `pipeline.auto-watermark-interval` of the recordings.
const INTERVAL: Millis = Millis(20);
/// What a vector leaves open.
#[derive(Clone, Debug)]
struct Unknown {
    topic: String,
    markers_late: bool,
    offsets_late: bool,
    /// For a record that does not come.
    wait: Millis,
}

#[derive(Clone, Debug, Default)]
struct Count(i64);
impl Accumulator for Count {
    type Value = ();
    fn add(&mut self, _: &()) {
        self.0 += 1;
    }
    fn merge(&mut self, other: Self) {
        self.0 += other.0;
    }
}

/// A record of the topic, and the transaction that it belongs to.
struct Record {
    time: i64,
    transaction: Option<String>,
}
#[derive(Default)]
struct Topic {
    partitions: Vec<Vec<Record>>,
    /// Whether a transaction has committed; absent while it is open.
    ended: BTreeMap<String, bool>,
    /// Ended, but its markers are not written yet.
    pending: BTreeSet<String>,
    committed_only: bool,
}
impl Topic {
    /// The next record at or behind `position`, if a reader may have it.
    fn next(&self, partition: usize, mut position: usize) -> Option<(usize, i64)> {
        while let Some(record) = self.partitions[partition].get(position) {
            let state = record.transaction.as_ref().map(|t| self.ended.get(t).filter(|_| !self.pending.contains(t)));
            match state {
                Some(None) if self.committed_only => return None,
                Some(Some(false)) if self.committed_only => position += 1,
                _ => return Some((position, record.time)),
            }
        }
        None
    }
}

struct Subtask {
    watermarks: SourceWatermarks<u32>,
    positions: BTreeMap<u32, usize>,
}
#[derive(Clone)]
struct Snapshot {
    readers: Vec<Vec<(u32, usize)>>,
    windows: Option<WindowAggregateState<u8, Count>>,
}

struct Job<'a> {
    params: &'a Value,
    unknown: Unknown,
    fixes: Fixes,
    now: Millis,
    topic: Topic,
    subtasks: Vec<Subtask>,
    group: Option<AlignmentGroup>,
    valve: Valve,
    windows: Option<WindowAggregate<u8, Count>>,
    snapshots: BTreeMap<usize, Snapshot>,
    at: usize,
    gave_up: bool,
    got: Vec<Value>,
}

impl Job<'_> {
    fn sql(&self) -> bool {
        self.params["api"] == "sql"
    }
    fn slices(&self) -> Option<Slices> {
        self.params["window"].as_i64().map(|size| Slices::Tumble { size })
    }
    /// Splits in the order in which a reader's `HashMap` has them.
    fn in_order(&self, positions: &BTreeMap<u32, usize>) -> Vec<(u32, usize)> {
        let names: Vec<(Arc<str>, u32)> =
            positions.keys().map(|p| (format!("{}-{p}", self.unknown.topic).into(), *p)).collect();
        let ordered = hash_order(names.iter().map(|(name, _)| name));
        let number = |name: &Arc<str>| names.iter().find(|(n, _)| n == name).map_or(0, |(_, p)| *p);
        ordered.into_iter().map(|name| (number(name), positions[&number(name)])).collect()
    }
    fn start(&mut self, parallelism: usize, from: Option<&Snapshot>) {
        let readers = match from {
            Some(snapshot) => {
                let list = |elements| vec![ListState { name: "r".into(), mode: Mode::SplitDistribute, elements }];
                let old: Vec<_> = snapshot.readers.iter().cloned().map(list).collect();
                let new = repartition(&old, parallelism);
                new.into_iter().map(|s| s.into_iter().flat_map(|l| l.elements).collect()).collect()
            }
            // Nothing is committed, and nobody says what else: the job fails.
            None if self.params["start"] == "committed" => Vec::new(),
            None => {
                let mut readers = vec![Vec::new(); parallelism];
                for p in 0..self.topic.partitions.len() as u32 {
                    readers[split_owner(&self.unknown.topic, p, parallelism as u32) as usize].push((p, 0));
                }
                readers
            }
        };
        let delay = Millis(int(&self.params["delay"]));
        let restored = from.is_some();
        let strategy = if self.sql() { Strategy::Sql(delay) } else { Strategy::Bounded(delay) };
        let idle = self.params["idle_timeout"].as_i64().map(Millis);
        self.subtasks = readers
            .into_iter()
            .map(|splits: Vec<(u32, usize)>| {
                let mut watermarks = SourceWatermarks::new(strategy, idle, self.fixes);
                splits.iter().for_each(|(split, _)| watermarks.add(*split, restored));
                Subtask { watermarks, positions: splits.into_iter().collect() }
            })
            .collect();
        self.valve = Valve::new(self.subtasks.len(), self.fixes);
        self.group = self.params["max_drift"].as_i64().map(|drift| AlignmentGroup::new(Millis(drift), self.fixes));
        self.windows = self.slices().map(|slices| match from.and_then(|s| s.windows.clone()) {
            Some(state) => WindowAggregate::restore(slices, &[state], |_| true, self.fixes),
            None => WindowAggregate::new(slices, self.fixes),
        });
    }
    fn snapshot(&mut self) -> Snapshot {
        let windows = self.windows.as_mut().map(|w| {
            w.before_barrier();
            w.snapshot()
        });
        Snapshot { readers: self.subtasks.iter().map(|s| self.in_order(&s.positions)).collect(), windows }
    }
    fn say(&mut self, what: Value) {
        let mut item = vec![json!(self.at)];
        item.extend(list(&what).iter().cloned());
        self.got.push(Value::Array(item));
    }
    /// Each reader has what it may have of its splits. True if anything came.
    fn poll(&mut self) -> bool {
        let mut any = false;
        for sub in 0..self.subtasks.len() {
            let splits: Vec<u32> = self.subtasks[sub].positions.keys().copied().collect();
            for split in splits {
                while !self.subtasks[sub].watermarks.waits(&split) {
                    let position = self.subtasks[sub].positions[&split];
                    let Some((at, time)) = self.topic.next(split as usize, position) else { break };
                    let subtask = &mut self.subtasks[sub];
                    subtask.positions.insert(split, at + 1);
                    let current = subtask.watermarks.emitted();
                    subtask.watermarks.record(&split, time);
                    self.row(sub, split, time, current);
                    any = true;
                    if self.subtasks[sub].positions.len() > 1 && self.group.is_some() {
                        // One at a time: the next waits for what this one does to the split's watermark.
                        break;
                    }
                }
            }
        }
        any
    }
    fn row(&mut self, sub: usize, split: u32, time: i64, current: Option<i64>) {
        self.say(json!(["row", sub, split, time, current]));
        if let (Some(slices), Some(windows)) = (self.params["window"].as_i64(), &mut self.windows) {
            windows.row(0, time, &());
            let end = time.div_euclid(slices) * slices + slices;
            if current.is_some_and(|w| w >= end - 1) {
                self.say(json!(["late", time]));
            }
        }
    }
    /// One periodic emission, and with it whatever else is due. True if anything left the source.
    fn tick(&mut self) -> bool {
        self.now = self.now + INTERVAL;
        let mut any = false;
        for sub in 0..self.subtasks.len() {
            let mut signals = Vec::new();
            self.subtasks[sub].watermarks.periodic(self.now, &mut signals);
            for signal in signals {
                any = true;
                self.signal(sub, signal);
            }
        }
        let update = int(&self.params["update_interval"]);
        if let Some(group) = self.group.as_mut().filter(|_| self.now.0 % update.max(1) == 0) {
            for (sub, subtask) in self.subtasks.iter().enumerate() {
                if let Some(watermark) = subtask.watermarks.report() {
                    group.report(sub as u32, watermark);
                }
            }
            if let Some((limit, to)) = group.announce() {
                to.for_each(|sub| self.subtasks[sub as usize].watermarks.set_limit(limit));
            }
        }
        any
    }
    fn signal(&mut self, sub: usize, signal: Signal) {
        self.say(match signal {
            Signal::Watermark(watermark) => json!(["wm", sub, watermark]),
            Signal::Idle => json!(["idle", sub]),
            Signal::Active => json!(["active", sub]),
        });
        let mut out = Vec::new();
        match signal {
            Signal::Watermark(watermark) => out.extend(self.valve.watermark(sub, watermark)),
            status => out.extend(self.valve.status(sub, status == Signal::Active).into_iter().flatten()),
        }
        for signal in out {
            let fired = match (signal, &mut self.windows) {
                (Signal::Watermark(watermark), Some(windows)) => {
                    let mut panes: Vec<Pane<u8, Count>> = Vec::new();
                    windows.watermark(watermark, &mut panes);
                    panes
                }
                _ => Vec::new(),
            };
            for pane in fired {
                let Window { start, .. } = pane.window;
                self.say(json!(["fire", start, pane.content.0]));
            }
            if !self.sql() {
                self.say(match signal {
                    Signal::Watermark(watermark) => json!(["dwm", watermark]),
                    Signal::Idle => json!(["didle"]),
                    Signal::Active => json!(["dactive"]),
                });
            }
        }
    }
    /// Until nothing moves: not in an emission, and with alignment not in an update either.
    fn settle(&mut self) {
        let quiet = self.params["update_interval"].as_i64().map_or(INTERVAL.0, |u| 2 * u);
        let mut since = self.now;
        while self.now.0 - since.0 < quiet {
            let told = self.tick();
            if self.poll() || told {
                since = self.now;
            }
        }
    }
    fn pass(&mut self, time: Millis) {
        let until = self.now + time;
        while self.now < until {
            self.poll();
            self.tick();
        }
    }
    fn append(&mut self, partition: usize, time: i64, transaction: Option<String>) {
        self.topic.partitions[partition].push(Record { time, transaction });
        let end = self.topic.partitions[partition].len();
        let until = self.now + self.unknown.wait;
        let delivered =
            |job: &Self| job.subtasks.iter().any(|s| s.positions.get(&(partition as u32)).is_some_and(|p| *p >= end));
        while !self.subtasks.is_empty() && !delivered(self) && self.now < until {
            // It travels for a while.
            self.tick();
            self.poll();
            self.topic.pending.clear();
        }
        self.gave_up |= !delivered(self);
    }
    fn item(&mut self, item: &Value) {
        match text(&item[0]) {
            "e" => self.append(int(&item[1]) as usize, int(&item[2]), None),
            "txe" => self.append(int(&item[2]) as usize, int(&item[3]), Some(text(&item[1]).to_owned())),
            "pre" => {
                self.topic.partitions[int(&item[1]) as usize].push(Record { time: int(&item[2]), transaction: None })
            }
            "t" => self.pass(Millis(int(&item[1]))),
            "tx_commit" | "tx_abort" => {
                let name = text(&item[1]).to_owned();
                if self.unknown.markers_late {
                    self.topic.pending.insert(name.clone());
                }
                self.topic.ended.insert(name, item[0] == "tx_commit");
            }
            "snap" => {
                let snapshot = self.snapshot();
                let parallelism = item[1].as_u64().map_or(self.subtasks.len(), |p| p as usize);
                self.start(parallelism, Some(&snapshot));
            }
            "ckpt" => {
                let snapshot = self.snapshot();
                let mut offsets = vec![Value::Null; self.topic.partitions.len()];
                if !self.unknown.offsets_late {
                    for (split, position) in snapshot.readers.iter().flatten() {
                        offsets[*split as usize] = json!(position);
                    }
                }
                self.snapshots.insert(self.at, snapshot);
                self.say(json!(["group", offsets]));
            }
            "cancel" => self.subtasks.clear(),
            "start" => {
                let from = item[2].as_u64().and_then(|at| self.snapshots.get(&(at as usize)).cloned());
                self.start(int(&item[1]) as usize, from.as_ref());
            }
            "add" => {
                let from = self.topic.partitions.len();
                for p in from..from + int(&item[1]) as usize {
                    self.topic.partitions.push(Vec::new());
                    let owner = split_owner(&self.unknown.topic, p as u32, self.subtasks.len().max(1) as u32) as usize;
                    if let Some(subtask) = self.subtasks.get_mut(owner) {
                        subtask.watermarks.add(p as u32, false);
                        subtask.positions.insert(p as u32, 0);
                    }
                }
            }
            _ => {}
        }
        self.settle();
    }
}

/// What each of the streams of an item holds; between them there is no order.
fn streams(items: &[Value]) -> Vec<Value> {
    let stream = |item: &Value| match text(&item[1]) {
        "row" | "wm" => format!("{:03} 0 {:03}", int(&item[0]), int(&item[2])),
        "idle" | "active" => format!("{:03} 0 {:03}", int(&item[0]), int(&item[2])),
        "dwm" | "didle" | "dactive" => format!("{:03} 1", int(&item[0])),
        other => format!("{:03} 2 {other}", int(&item[0])),
    };
    let mut items = items.to_vec();
    items.sort_by_key(stream);
    items
}

/// What the model gives, and whether the recorder waited for a record in vain.
fn attempt(vector: &Value, fixes: Fixes, unknown: Unknown) -> (Vec<Value>, bool) {
    let (params, input) = (&vector["params"], list(&vector["input"]));
    let mut job = Job {
        params,
        unknown,
        fixes,
        now: Millis(1_000_000),
        topic: Topic { committed_only: params["isolation"] == "read_committed", ..Topic::default() },
        subtasks: Vec::new(),
        group: None,
        valve: Valve::new(0, fixes),
        windows: None,
        snapshots: BTreeMap::new(),
        at: 0,
        gave_up: false,
        got: Vec::new(),
    };
    job.topic.partitions.resize_with(int(&params["partitions"]) as usize, Vec::new);
    if !input.iter().any(|i| i[0] == "start") {
        job.start(int(&params["parallelism"]) as usize, None);
    }
    for (at, item) in input.iter().enumerate() {
        job.at = at;
        job.item(item);
    }
    (streams(&job.got), job.gave_up)
}

fn ends_with_record(input: &[Value]) -> bool {
    input.last().is_some_and(|item| item[0] == "e")
}

/// Runs one vector of flink-kafka/kafka_wm.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let recorded = streams(list(&vector["output"]));
    let input = list(&vector["input"]);
    let has = |kind: &str| input.iter().any(|i| i[0] == kind);
    let (markers, offsets) = (has("tx_commit") || has("tx_abort"), has("ckpt"));
    let alone = int(&vector["params"]["parallelism"]) == 1
        && input.iter().all(|i| !["snap", "start"].contains(&text(&i[0])) || i[1].is_null() || i[1] == 1);
    let idle = vector["params"]["idle_timeout"].as_i64();
    let last = input.len() as i64 - 1;
    let cut = ends_with_record(input) && recorded.iter().all(|item| int(&item[0]) != last);
    let mut best: Option<(usize, Outcome)> = None;
    for topic in 0..if alone { 1 } else { 400 } {
        for (markers_late, offsets_late) in [(false, false), (false, true), (true, false), (true, true)] {
            if (markers_late && !markers) || (offsets_late && !offsets) {
                continue;
            }
            // Idle timeouts are longer than any other item takes.
            let mut wait = INTERVAL;
            loop {
                let unknown = Unknown { topic: format!("topic-{topic}"), markers_late, offsets_late, wait };
                let (mut got, waited) = attempt(vector, fixes, unknown);
                if cut {
                    got.retain(|item| int(&item[0]) != last);
                }
                let outcome = compare_lists(&recorded, &got);
                if matches!(outcome, Outcome::Passed) {
                    return outcome;
                }
                // What got furthest is what to show.
                let same = recorded.iter().zip(&got).take_while(|(a, b)| a == b).count();
                if best.as_ref().is_none_or(|(most, _)| same > *most) {
                    best = Some((same, outcome));
                }
                wait = wait + INTERVAL;
                if !waited || idle.is_none_or(|idle| wait.0 > idle) {
                    break;
                }
            }
        }
    }
    best.map_or(Outcome::Passed, |(_, outcome)| outcome)
}
