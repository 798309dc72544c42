//! Runner of librdkafka/consumer: one partition, one scripted broker that reads its log as a leader does.

use crate::harness::{Outcome, compare};
use model::base::{
    Addr, Batch, BrokerId, EventTime, Fixes, LeaderEpoch, Marker, Millis, Offset, Port, ProcessId, ProducerEpoch,
    ProducerId, ProducerTag, Sequence, TopicPartition,
};
use model::kafka::ErrorCode;
use model::kafka::client::rdkafka_consumer::{Consumed, RdConsumer, RdConsumerConfig, Start};
use model::kafka::client::{ClusterView, Completed, Leader, Network, Outcome as Ended};
use model::kafka::log::{AbortedTxn, Entry};
use model::kafka::messages::{
    FetchPartition, FetchReply, FetchedPartition, ListOffsetsReply, OffsetSpec, Reply, Request,
};
use serde_json::{Value, json};
use std::sync::Arc;

const TP: TopicPartition = TopicPartition::new(0, 0);

/// The log of the only partition, and a connection that is always up.
struct Broker {
    view: ClusterView,
    entries: Vec<Entry>,
    start: Offset,
    stable: Offset,
    high: Offset,
    aborted: Vec<AbortedTxn>,
    first_error: Option<ErrorCode>,
    sent: Vec<Completed>,
    fetches: Vec<Value>,
    requests: Vec<Value>,
    committed: bool,
}

impl Network for Broker {
    fn ready(&mut self, _node: BrokerId, _now: Millis) -> bool {
        true
    }
    fn poll_delay(&self, _node: BrokerId, _now: Millis) -> Millis {
        Millis::MAX
    }
    fn unavailable(&self, _node: BrokerId, _now: Millis) -> bool {
        false
    }
    fn send(&mut self, node: BrokerId, body: Request, _expects_reply: bool, now: Millis) -> u32 {
        let reply = match body {
            Request::Fetch(f) => Reply::Fetch(self.fetch(&f.partitions[0])),
            Request::ListOffsets(l) => {
                self.requests.push(json!(["ListOffsets"]));
                let end = if self.committed { self.stable } else { self.high };
                let found = if l.partitions[0].1 == OffsetSpec::Latest { end } else { self.start };
                let partitions = vec![(TP, ErrorCode::None, found, LeaderEpoch(0))];
                Reply::ListOffsets(ListOffsetsReply { partitions })
            }
            other => panic!("the consumer never sends {}", other.name()),
        };
        let correlation = self.fetches.len() as u32 + 1_000 * self.requests.len() as u32;
        self.sent.push(Completed { node, correlation, sent_at: now, outcome: Ended::Reply(reply) });
        correlation
    }
    fn in_flight(&self, _node: BrokerId) -> usize {
        self.sent.len()
    }
    fn least_loaded(&mut self, _now: Millis) -> Option<BrokerId> {
        Some(BrokerId(0))
    }
    fn request_update(&mut self, _now: Millis) {}
    fn update_requested(&self) -> bool {
        false
    }
    fn view(&self) -> &ClusterView {
        &self.view
    }
    fn learn_leader(&mut self, tp: TopicPartition, leader: Leader) -> bool {
        self.view.learn(tp, leader)
    }
}

impl Broker {
    fn fetch(&mut self, asked: &FetchPartition) -> FetchReply {
        let outside = asked.offset < self.start || asked.offset > self.high;
        let range = if outside { ErrorCode::OffsetOutOfRange } else { ErrorCode::None };
        let error = self.first_error.take().unwrap_or(range);
        let upper = if self.committed { self.stable } else { self.high };
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        let readable = self.entries.iter().filter(|e| error.is_ok() && e.next() > asked.offset && e.base < upper);
        for entry in readable {
            if bytes > 0 && bytes + entry.batch.bytes > asked.max_bytes {
                break;
            }
            bytes += entry.batch.bytes;
            entries.push(entry.clone());
        }
        let end = entries.last().map_or(asked.offset, Entry::next);
        let marker = |txn: &AbortedTxn| {
            let ends = |e: &&Entry| e.batch.is_control() && e.batch.producer.id == txn.producer && e.base >= txn.first;
            self.entries.iter().find(ends).map_or(Offset(i64::MAX), |e| e.base)
        };
        let overlaps = |txn: &&AbortedTxn| self.committed && txn.first < end && marker(txn) >= asked.offset;
        self.fetches.push(json!([asked.offset.0, bytes, asked.max_bytes]));
        self.requests.push(json!(["Fetch", asked.offset.0, name(error)]));
        let part = FetchedPartition {
            tp: TP,
            error,
            high_watermark: self.high,
            last_stable: self.stable,
            log_start: self.start,
            diverging: None,
            aborted: self.aborted.iter().filter(overlaps).copied().collect(),
            entries: entries.into(),
            bytes,
            leader: None,
        };
        FetchReply { error: ErrorCode::None, session: 0, partitions: vec![part] }
    }
}

fn int(v: &Value) -> i64 {
    v.as_i64().unwrap_or_else(|| panic!("not a number: {v}"))
}

/// The recordings' name of an error.
fn name(code: ErrorCode) -> &'static str {
    if code == ErrorCode::InvalidTopic { "INVALID_TOPIC" } else { code.name() }
}

fn batch(spec: &Value, bytes: u32) -> Batch {
    let (kind, id) = (spec[0].as_str().unwrap_or_default(), ProducerId(int(&spec[1])));
    if matches!(kind, "c" | "a") {
        let marker = Marker { commit: kind == "c", coordinator_epoch: 0 };
        return Batch { bytes, ..Batch::marker(id, ProducerEpoch(0), marker, EventTime(0)) };
    }
    let tag = ProducerTag { id, epoch: ProducerEpoch(0), base_sequence: Sequence(0) };
    Batch::sized(int(&spec[2]) as u32, bytes, tag, kind == "t", EventTime(0))
}

/// Appends batches one after the other from `base`.
fn log(base: i64, batches: impl Iterator<Item = Batch>) -> Vec<Entry> {
    let mut next = Offset(base);
    batches
        .map(|b| {
            let entry = Entry { base: next, epoch: LeaderEpoch(0), batch: Arc::new(b) };
            next = entry.next();
            entry
        })
        .collect()
}

/// What the application saw.
#[derive(Default)]
struct Seen {
    records: Vec<i64>,
    /// Runs of offsets and errors, in order.
    delivered: Vec<Value>,
    eof: Option<i64>,
}
impl Seen {
    fn take(&mut self, what: &Consumed) {
        match what {
            Consumed::Records(s) => {
                for offset in s.first().0..s.next().0 {
                    self.records.push(offset);
                    match self.delivered.last_mut().filter(|d| d[1].as_i64() == Some(offset - 1)) {
                        Some(run) => run[1] = json!(offset),
                        None => self.delivered.push(json!([offset, offset])),
                    }
                }
            }
            Consumed::Eof(_, offset) => self.eof = Some(offset.0),
            Consumed::Error(_, code) => self.delivered.push(json!(name(*code))),
            Consumed::AutoOffsetReset(_) => self.delivered.push(json!("_AUTO_OFFSET_RESET")),
            Consumed::LogTruncation(_) => self.delivered.push(json!("_LOG_TRUNCATION")),
        }
    }
}

/// Runs one vector of librdkafka/consumer.
pub fn consumer(vector: &Value, _fixes: Fixes) -> Outcome {
    let (params, input) = (&vector["params"], &vector["input"][0]);
    let filter = vector["op"] == "rc_filter";
    let mut net = Broker {
        view: ClusterView::default(),
        entries: Vec::new(),
        start: Offset(0),
        stable: Offset(0),
        high: Offset(0),
        aborted: Vec::new(),
        first_error: None,
        sent: Vec::new(),
        fetches: Vec::new(),
        requests: Vec::new(),
        committed: params["isolation"] != "read_uncommitted",
    };
    net.view.brokers.insert(BrokerId(0), Addr { process: ProcessId(0), port: Port(0) });
    net.view.learn(TP, Leader { node: BrokerId(0), epoch: LeaderEpoch(0) });
    net.view.version = 1;
    if filter {
        let specs = input["batches"].as_array().expect("batches").iter();
        let sizes = input["bytes"].as_array().expect("bytes").iter();
        net.entries = log(0, specs.zip(sizes).map(|(b, size)| batch(b, int(size) as u32)));
        (net.stable, net.high) = (Offset(int(&input["lso"])), Offset(int(&input["hw"])));
        let aborted = input["aborted"].as_array().into_iter().flatten();
        let txn = |a: &Value| AbortedTxn { producer: ProducerId(int(&a[0])), first: Offset(int(&a[1])) };
        net.aborted = aborted.map(txn).collect();
    } else {
        let low = params["error"] == "OUT_OF_RANGE_LOW";
        let (n, each) = (int(&input["batches"]), int(&input["records_each"]));
        let first = if low { 8 } else { 0 };
        net.entries = log(first, (first..n).map(|_| batch(&json!(["d", -1, each]), 78)));
        net.start = Offset(first);
        (net.stable, net.high) = (Offset(n), Offset(n));
        let error = params["error"].as_str().unwrap_or_default();
        net.first_error = ErrorCode::ALL.iter().copied().find(|e| name(*e) == error);
        assert!(net.first_error.is_some() || error.starts_with("OUT_OF_RANGE_"), "no such error: {error}");
    }
    let config = RdConsumerConfig {
        max_partition_fetch_bytes: params["max_partition_fetch_bytes"].as_u64().unwrap_or(1_048_576) as u32,
        read_committed: net.committed,
        auto_offset_reset: match params["reset"].as_str() {
            Some("latest") => Some(OffsetSpec::Latest),
            Some("error") => None,
            _ => Some(OffsetSpec::Earliest),
        },
        enable_partition_eof: filter,
        ..RdConsumerConfig::default()
    };
    let mut consumer = RdConsumer::new(Arc::new(config));
    consumer.assign(&[(TP, Start::At(Offset(int(&params["start"]))))]);
    let mut seen = Seen::default();
    let mut now = Millis::ZERO;
    // Answers at once; an idle consumer jumps to its next deadline; done after two empty answers or when it stopped.
    for _ in 0..1_000 {
        consumer.serve(now, &mut net);
        let sent = std::mem::take(&mut net.sent);
        let idle = sent.is_empty();
        sent.iter().for_each(|done| assert!(consumer.on_completed(done, now, &mut net)));
        let mut out = Vec::new();
        consumer.consume(u32::MAX, &mut out);
        out.iter().for_each(|o| seen.take(o));
        if idle {
            now = consumer.wake_at(now, &net);
        }
        let (last, before) = (net.fetches.last(), net.fetches.iter().rev().nth(1));
        if now == Millis::MAX || (last == before && last.is_some_and(|f| f[1] == 0)) {
            break;
        }
    }
    let position = consumer.position(TP).map_or(-1001, |p| p.0);
    net.fetches.dedup();
    net.requests.dedup();
    let output = if filter {
        vec![
            json!(["records", seen.records]),
            json!(["eof", seen.eof]),
            json!(["position", position]),
            json!(["fetch", net.fetches]),
        ]
    } else {
        vec![json!(["delivered", seen.delivered]), json!(["requests", net.requests]), json!(["position", position])]
    };
    compare(vector["output"].as_array().expect("output"), |i| output.get(i).cloned().unwrap_or(Value::Null))
}
