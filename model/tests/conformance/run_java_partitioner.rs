//! Runner of kafka-client/partitioner: accumulator and sticky partitioner of a producer without idempotence, alone.

use crate::harness::{Outcome, compare_lists};
use crate::java_exceptions::exception;
use crate::java_net::{addr, partition, tp};
use model::base::{BrokerId, EventTime, Fixes, LeaderEpoch, Millis, Row, SmallSet, TopicPartition};
use model::kafka::client::java::{
    BatchId, Dice, Failure, ProducerBatch, ProducerConfig, Profile, Ready, RecordAccumulator, Target,
};
use model::kafka::client::{ClusterView, Leader, TopicHashes};
use serde_json::{Value, json};
use std::collections::BTreeMap;

struct Bench {
    accumulator: RecordAccumulator,
    view: ClusterView,
    dice: Dice,
    partitions: u16,
    max_request_size: u32,
    now: Millis,
    at: usize,
    appended: u64,
    flushes: u64,
    /// Drained batches by the number that the recording gave them.
    drained: Vec<BatchId>,
    out: Vec<Value>,
}

impl Bench {
    fn new(params: &Value, fixes: Fixes) -> Self {
        let number = |key: &str, default: i64| params[key].as_i64().unwrap_or(default);
        let mut config = ProducerConfig::new(Profile::Java, [addr(0)].into());
        config.enable_idempotence = Some(false);
        config.batch_size = number("batch_size", 1_000) as u32;
        config.linger = Millis(number("linger", 0));
        config.buffer_memory = number("buffer_memory", 33_554_432) as u64;
        config.delivery_timeout = Millis(number("delivery_timeout", 120_000));
        config.adaptive_partitioning = params["adaptive"].as_bool().unwrap_or(true);
        config.availability_timeout = Millis(number("availability_timeout", 0));
        let (partitions, nodes) = (number("partitions", 3) as u16, number("nodes", 3) as i32);
        let mut view = ClusterView { version: 1, hashes: Some(TopicHashes::of_names(["t"])), ..ClusterView::default() };
        view.brokers = (0..nodes).map(|n| (BrokerId(n), addr(n))).collect();
        for p in 0..partitions {
            view.learn(tp(p), Leader { node: BrokerId(i32::from(p) % nodes), epoch: LeaderEpoch(0) });
        }
        Self {
            accumulator: RecordAccumulator::new(config.sender(fixes).accumulator),
            view,
            dice: Dice::Listed(std::collections::VecDeque::new()),
            partitions,
            max_request_size: number("max_request_size", 1_048_576) as u32,
            now: Millis(0),
            at: 0,
            appended: 0,
            flushes: 0,
            drained: Vec::new(),
            out: Vec::new(),
        }
    }
    fn say(&mut self, what: Vec<Value>) {
        let mut item = vec![json!(self.at), json!(self.now.0)];
        item.extend(what);
        self.out.push(Value::Array(item));
    }
    fn queued(&self) -> Vec<u64> {
        match &self.dice {
            Dice::Listed(numbers) => numbers.iter().copied().collect(),
            Dice::Stream(_) => Vec::new(),
        }
    }
    fn append(&mut self, item: &Value) {
        let size = item[2].as_u64().unwrap_or(0) as u32;
        for _ in 0..item[3].as_u64().unwrap_or(1) {
            let varint = |n: u32| (70 - ((2 * u64::from(n)) | 1).leading_zeros()) / 7;
            let body = 4 + varint(size) + size + 1;
            let cols = [self.appended as i64, 0, 0, 0];
            let row = Row { bytes: varint(body) + body, time: EventTime(self.now.0), cols, ..Row::default() };
            let target = match item[1].as_i64() {
                Some(p) if p >= 0 => Target::Partition(p as u16),
                _ => Target::Sticky,
            };
            let before = self.queued();
            let topic = tp(0).topic;
            let appended =
                self.accumulator.append(topic, target, &row, self.partitions, &self.view, &mut self.dice, self.now);
            let taken = before.len() - self.queued().len();
            for n in &before[..taken] {
                self.say(vec![json!("random"), json!(n)]);
            }
            let id = self.appended;
            self.appended += 1;
            match appended {
                Some(a) => {
                    self.say(vec![json!("append"), json!(id), json!(a.partition), json!(a.new_batch), json!(a.full)]);
                }
                None => {
                    // A thread waits for memory, then gives up at once (max.block.ms 0).
                    self.say(vec![json!("append"), json!(id), json!("BufferExhaustedException")]);
                }
            }
        }
    }
    fn ready(&mut self) {
        let mut ready = Ready::default();
        self.accumulator.ready(&self.view, false, self.now, &mut ready);
        let nodes: Vec<i32> = ready.nodes.iter().map(|n| n.0).collect();
        let next = if ready.next_check == Millis::MAX { -1 } else { ready.next_check.0 };
        let topics: Vec<&str> = ready.leaderless.iter().map(|_| "t").collect();
        self.say(vec![json!("ready"), json!(nodes), json!(next), json!(topics)]);
    }
    fn drain(&mut self, item: &Value) {
        for node in item[1].as_array().into_iter().flatten().filter_map(Value::as_i64) {
            let (mut nodes, mut drained) = (SmallSet::new(), Vec::new());
            nodes.insert(BrokerId(node as i32));
            let max_size = self.max_request_size;
            self.accumulator.drain(&self.view, &nodes, max_size, &mut None, self.now, &mut drained);
            let mut batches = Vec::new();
            for id in drained.into_iter().flat_map(|(_, ids)| ids) {
                let number = self.drained.iter().position(|d| *d == id).unwrap_or_else(|| {
                    self.drained.push(id);
                    self.drained.len() - 1
                });
                let b: &ProducerBatch = &self.accumulator.batches.sent[id];
                batches.push(json!([number, b.tp.partition, b.records(), b.bytes(), b.attempts]));
            }
            self.say(vec![json!("drain"), json!(node), json!(batches)]);
        }
    }
    fn taken(&mut self, item: &Value) -> Option<ProducerBatch> {
        let id = self.drained[item[1].as_u64().unwrap_or(0) as usize];
        self.accumulator.batches.sent.remove(id)
    }
    fn expire(&mut self) {
        let expired = self.accumulator.take_expired(self.now);
        for mut batch in expired {
            self.say(vec![json!("expired"), json!(batch.tp.partition), json!(batch.records()), json!(batch.attempts)]);
            let sealed = batch.seal(false);
            for row in sealed.rows.iter() {
                self.say(vec![json!("done"), json!(row.cols[0]), json!(exception(Failure::Expired))]);
            }
            self.accumulator.complete(&mut batch, |_| {});
        }
    }
    fn item(&mut self, item: &Value) {
        let number = |i: usize| item[i].as_i64().unwrap_or(0);
        let tp_of = |i: usize| TopicPartition { topic: tp(0).topic, partition: number(i) as u16 };
        match item[0].as_str().unwrap_or_default() {
            "random" => {
                let numbers = item.as_array().into_iter().flatten().skip(1).filter_map(Value::as_u64);
                if let Dice::Listed(queue) = &mut self.dice {
                    queue.extend(numbers);
                }
            }
            "rec" => self.append(item),
            "ready" => self.ready(),
            "drain" => self.drain(item),
            "retry" => {
                if let Some(batch) = self.taken(item) {
                    let mut plain = Dice::Listed(std::collections::VecDeque::new());
                    self.accumulator.reenqueue(batch, false, &mut plain, self.now);
                }
            }
            "ack" => {
                if let Some(mut batch) = self.taken(item) {
                    let sealed = batch.seal(false);
                    for row in sealed.rows.iter() {
                        self.say(vec![json!("done"), json!(row.cols[0]), json!("ok")]);
                    }
                    self.accumulator.complete(&mut batch, |_| {});
                }
            }
            "mute" => self.accumulator.mute(tp_of(1)),
            "unmute" => self.accumulator.unmute(tp_of(1)),
            "flush" => {
                self.accumulator.begin_flush(self.flushes);
                self.flushes += 1;
            }
            "expire" => self.expire(),
            "latency" => {
                let drained = item[2].as_bool().unwrap_or(false);
                self.accumulator.note_latency(BrokerId(number(1) as i32), drained, self.now);
            }
            "t" => self.now = self.now + Millis(number(1)),
            "meta" => {
                self.view.version += 1;
                let named: BTreeMap<String, Value> = serde_json::from_value(item[1].clone()).unwrap_or_default();
                for (name, leader) in named {
                    let n = |i: usize| leader[i].as_i64().unwrap_or(-1) as i32;
                    self.view
                        .learn(tp(partition(&json!(name))), Leader { node: BrokerId(n(0)), epoch: LeaderEpoch(n(1)) });
                }
            }
            other => panic!("unknown input {other}"),
        }
    }
}

/// Runs one vector.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let mut bench = Bench::new(&vector["params"], fixes);
    for (at, item) in vector["input"].as_array().into_iter().flatten().enumerate() {
        bench.at = at;
        bench.item(item);
    }
    compare_lists(vector["output"].as_array().map_or(&[], Vec::as_slice), &bench.out)
}
