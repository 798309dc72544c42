//! Runner of librdkafka/real_broker: a transactional producer before one real broker that checks sequences, refuses large batches
//! and writes markers; a proxy can lose an answer.

use crate::harness::{Outcome, compare_lists};
use crate::rd_cluster::{ABORT, COMMIT, Cluster, Scripted, addr};
use model::base::{Domain, Fix, Fixes, Millis, Offset, Row, Streams, TopicPartition};
use model::kafka::client::rdkafka::{Call, ProducerEvent, RdConfig, RdProducer};
use model::kafka::txn_messages::TransactionalId;
use serde_json::{Value, json};

/// An abort without a limit ended with its record's time-out: 60 s, and the second at whose scan that is seen.
const UNLIMITED: std::ops::RangeInclusive<i64> = 60_000..=61_100;

struct Run {
    cluster: Cluster,
    tp: TopicPartition,
    /// Names of the records, by number.
    names: Vec<String>,
    told: usize,
    out: Vec<Value>,
}

/// The records that an item names, with their size.
fn records(text: &str) -> Vec<(String, u32)> {
    let bytes = if text.contains("kB") { 9_000 } else { 20 };
    let is_name = |w: &&str| w.len() == 2 && w.as_bytes()[0].is_ascii_lowercase() && w.as_bytes()[1].is_ascii_digit();
    text.split(' ').filter(is_name).map(|w| (w.to_owned(), bytes)).collect()
}

impl Run {
    fn new(vector: &Value, fixes: Fixes) -> Self {
        let mut config = RdConfig::transactional(TransactionalId(0));
        for (key, value) in [("linger.ms", "20"), ("message.timeout.ms", "60000")] {
            config.set(key, value).expect("a setting that the model has");
        }
        let stream = Streams(0).stream(Domain::Process, 0, "librdkafka");
        let producer = RdProducer::new(config, vec![addr(0)], fixes, stream, Millis::ZERO);
        let mut cluster = Cluster::new(producer);
        cluster.leaders.iter_mut().for_each(|leader| *leader = 0);
        (cluster.txn_coordinator, cluster.group_coordinator) = (0, 0);
        cluster.listed = [true, false, false];
        cluster.real = Some(vector["params"]["max.message.bytes"].as_u64().unwrap_or(1_048_588) as u32);
        cluster.work();
        Self { cluster, tp: TopicPartition::new(0, 0), names: Vec::new(), told: 0, out: Vec::new() }
    }
    fn until(&mut self, end: Millis) {
        while self.cluster.step(end) {}
    }
    fn send(&mut self, text: &str) {
        for (name, bytes) in records(text) {
            let row = Row { bytes, cols: [self.names.len() as i64, 0, 0, 0], ..Row::default() };
            self.names.push(name);
            // A producer that is fatal takes nothing; the next call shows that.
            let _ = self.cluster.producer.send(self.tp, row, self.cluster.now);
        }
        self.cluster.work();
    }
    fn call(&mut self, at: usize, word: &str, call: Call, limit: Option<i64>) {
        let (start, begin) = (self.cluster.now, self.cluster.events.len());
        // -1: what is left of the transaction, and more.
        let limit = Millis(limit.map_or(20_000, |ms| if ms < 0 { 300_000 } else { ms }));
        self.cluster.producer.call(call, start + limit);
        self.cluster.work();
        let result = loop {
            let ended = self.cluster.events[begin..].iter().find_map(|(_, e)| match e {
                ProducerEvent::Called(c, result) if *c == call => Some(*result),
                _ => None,
            });
            if ended.is_some() || !self.cluster.step(start + limit + Millis(1_000)) {
                break ended;
            }
        };
        self.reports(at);
        let took = (self.cluster.now - start).0;
        match result {
            Some(Ok(())) if call == Call::Begin => {}
            Some(Ok(())) if UNLIMITED.contains(&took) => self.out.push(json!([at, "call", word, "ok", "after 60 s"])),
            Some(Ok(())) => self.out.push(json!([at, "call", word, "ok"])),
            Some(Err(e)) => {
                let flag = if e.fatal {
                    "fatal"
                } else if e.retriable {
                    "retriable"
                } else {
                    "abort"
                };
                self.out.push(json!([at, "call", word, e.error.name(), [flag]]));
            }
            None => self.out.push(json!([at, "call", word, "never returns"])),
        }
    }
    /// Delivery reports and a fatal error since the last look.
    fn reports(&mut self, at: usize) {
        let mut fatal = None;
        for (_, event) in &self.cluster.events[self.told..] {
            match event {
                ProducerEvent::Delivered(d) => {
                    for (i, row) in d.batch.rows.iter().enumerate() {
                        let name = &self.names[row.cols[0] as usize];
                        self.out.push(match d.result {
                            Ok(Offset(base)) => json!([at, "dr", name, "ok", base + i as i64]),
                            Err(e) => json!([at, "dr", name, e.name()]),
                        });
                    }
                }
                ProducerEvent::Fatal(e) => fatal = Some(json!([at, "fatal", e.name()])),
                _ => {}
            }
        }
        self.told = self.cluster.events.len();
        if let Some(shown) = fatal {
            // The recording stopped looking at records there.
            self.out.retain(|o| o[0] != at);
            self.out.push(shown);
        }
    }
    fn item(&mut self, at: usize, item: &Value, abort_timeout: i64) {
        let text = item[1].as_str().unwrap_or_default();
        match item[0].as_str().unwrap_or_default() {
            "init" => self.call(at, "init", Call::Init, None),
            "begin" => self.call(at, "begin", Call::Begin, None),
            "commit" => self.call(at, "commit", Call::Commit, None),
            "abort" => {
                let limit = if text.is_empty() { item[1].as_i64() } else { Some(abort_timeout) };
                self.call(at, "abort", Call::Abort, limit);
            }
            "send" => {
                self.send(text);
                self.until(self.cluster.now + Millis(1_000));
                self.reports(at);
            }
            "send_answer_lost" => {
                self.cluster.script_next("produce", Scripted { error: "+DISC".to_owned(), delay: 1_500 });
                self.send(text);
            }
            "wait" => self.until(self.cluster.now + Millis(item[1].as_i64().unwrap_or(0))),
            other => panic!("no such input: {other}"),
        }
    }
    /// What readers see: every record, and those of committed transactions.
    fn log(&self) -> Value {
        let (mut all, mut committed, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for (offset, row) in self.cluster.log.get(&self.tp).into_iter().flatten().flatten().enumerate() {
            match row.cols[0] {
                COMMIT => committed.append(&mut open),
                ABORT => open.clear(),
                number => {
                    let shown = json!([offset, self.names[number as usize]]);
                    all.push(shown.clone());
                    open.push(shown);
                }
            }
        }
        json!({ "read_uncommitted": all, "read_committed": committed })
    }
}

/// Runs one vector, with every time limit that it was recorded with.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    // 2.16.0 still has it.
    let fixes = fixes.without(Fix::GoneGroupCoordinatorForgotten);
    let limits: Vec<i64> =
        vector["params"]["abort_timeout_ms"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    for limit in if limits.is_empty() { vec![4_000] } else { limits } {
        let mut run = Run::new(vector, fixes);
        for (at, item) in vector["input"].as_array().into_iter().flatten().enumerate() {
            run.item(at, item, limit);
        }
        let mut recorded = vector["output"].as_array().cloned().unwrap_or_default();
        // When the application looked at its reports is its own affair.
        for item in recorded.iter_mut().chain(&mut run.out).filter(|item| item[1] == "dr") {
            item[0] = Value::Null;
        }
        for item in &mut recorded {
            if item[4].as_str().is_some_and(|s| s.starts_with("after 60")) {
                item[4] = json!("after 60 s");
            }
        }
        recorded.push(vector["log"].clone());
        run.out.push(run.log());
        let outcome = compare_lists(&recorded, &run.out);
        if matches!(outcome, Outcome::Failed(_)) {
            return outcome;
        }
    }
    Outcome::Passed
}
