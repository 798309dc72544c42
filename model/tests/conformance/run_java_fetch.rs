//! Runner of kafka-client/fetch: a scripted network under the model's consumer.

use crate::harness::{Outcome, compare};
use model::base::{
    Addr, Batch, BrokerId, EventTime, Fixes, LeaderEpoch, Marker, Millis, Offset, Port, ProcessId, ProducerEpoch,
    ProducerId, ProducerTag, Sequence, TopicPartition,
};
use model::kafka::ErrorCode;
use model::kafka::client::java_consumer::{
    AutoOffsetReset, ConsumerConfig, ConsumerError, FetchState, Fetched, JavaConsumer, TopicHashes,
};
use model::kafka::client::{ClusterView, Completed, Leader, Lost, Network, Outcome as Ended};
use model::kafka::log::{AbortedTxn, Entry};
use model::kafka::messages::{
    FetchReply, FetchedPartition, ListOffsetsReply, OffsetSpec, OffsetsForLeaderEpochReply, Reply, Request,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A request that left.
struct Sent {
    node: BrokerId,
    body: Request,
    at: Millis,
    open: bool,
}

/// Connections that are up unless the script says otherwise (`MockClient`).
#[derive(Default)]
struct Mock {
    view: ClusterView,
    update_wanted: bool,
    down_until: BTreeMap<BrokerId, Millis>,
    sent: Vec<Sent>,
    /// Partitions of the session of each node: a full fetch is answered for all of them.
    ended: VecDeque<Completed>,
    /// Requests not yet written down.
    fresh: Vec<usize>,
}

impl Network for Mock {
    fn ready(&mut self, node: BrokerId, now: Millis) -> bool {
        !self.unavailable(node, now)
    }
    fn poll_delay(&self, node: BrokerId, now: Millis) -> Millis {
        self.down_until.get(&node).map_or(Millis::MAX, |at| *at - now)
    }
    fn unavailable(&self, node: BrokerId, now: Millis) -> bool {
        self.down_until.get(&node).is_some_and(|at| now < *at)
    }
    fn send(&mut self, node: BrokerId, body: Request, _expects_reply: bool, now: Millis) -> u32 {
        self.fresh.push(self.sent.len());
        self.sent.push(Sent { node, body, at: now, open: true });
        self.sent.len() as u32 - 1
    }
    fn in_flight(&self, node: BrokerId) -> usize {
        self.sent.iter().filter(|s| s.open && s.node == node).count()
    }
    fn least_loaded(&mut self, _now: Millis) -> Option<BrokerId> {
        Some(BrokerId(0))
    }
    fn request_update(&mut self, _now: Millis) {
        self.update_wanted = true;
    }
    fn update_requested(&self) -> bool {
        self.update_wanted
    }
    fn view(&self) -> &ClusterView {
        &self.view
    }
    fn learn_leader(&mut self, tp: TopicPartition, leader: Leader) -> bool {
        self.view.learn(tp, leader)
    }
}

impl Mock {
    fn end(&mut self, r: usize, outcome: Ended) {
        let sent = &mut self.sent[r];
        if std::mem::replace(&mut sent.open, false) {
            self.ended.push_back(Completed { node: sent.node, correlation: r as u32, sent_at: sent.at, outcome });
        }
    }
    fn disconnect(&mut self, node: BrokerId) {
        for r in 0..self.sent.len() {
            if self.sent[r].node == node {
                self.end(r, Ended::Lost(Lost::Disconnected));
            }
        }
    }
}

fn tp(v: &Value) -> TopicPartition {
    let name = v.as_str().expect("a partition");
    TopicPartition::new(0, name.strip_prefix("t-").expect("topic t").parse().expect("a partition number"))
}
fn name(tp: TopicPartition) -> String {
    format!("t-{}", tp.partition)
}
fn code(v: &Value) -> ErrorCode {
    let text = v.as_str().unwrap_or_default();
    ErrorCode::from_name(text).unwrap_or_else(|| panic!("no such error: {text}"))
}
fn int(v: &Value) -> i64 {
    v.as_i64().unwrap_or_else(|| panic!("not a number: {v}"))
}
fn node(v: &Value) -> BrokerId {
    BrokerId(v.as_i64().or_else(|| v.as_str()?.parse().ok()).expect("a node") as i32)
}

/// A batch of the recording. One with holes becomes neighbours of the same producer, which the filter treats alike.
fn entries(b: &Value, out: &mut Vec<Entry>) {
    let producer = ProducerId(b["pid"].as_i64().unwrap_or(-1));
    let kind = b["k"].as_str().unwrap_or_default();
    let offsets: Vec<i64> = b["o"].as_array().expect("offsets").iter().map(int).collect();
    let tag = ProducerTag { id: producer, epoch: ProducerEpoch(0), base_sequence: Sequence(0) };
    for run in offsets.chunk_by(|a, b| a + 1 == *b) {
        let batch = match kind {
            "c" | "a" => {
                let marker = Marker { commit: kind == "c", coordinator_epoch: 0 };
                Batch::marker(producer, ProducerEpoch(0), marker, EventTime(0))
            }
            _ => Batch::sized(run.len() as u32, 100, tag, kind == "t", EventTime(0)),
        };
        out.push(Entry { base: Offset(run[0]), epoch: LeaderEpoch(0), batch: Arc::new(batch) });
    }
}

fn fetched(tp: TopicPartition, p: &Value) -> FetchedPartition {
    let offset = |v: &Value| Offset(v.as_i64().unwrap_or(-1));
    let mut batches = Vec::new();
    p["batches"].as_array().into_iter().flatten().for_each(|b| entries(b, &mut batches));
    let pair = |v: &Value| v.as_array().map(|a| (int(&a[0]), int(&a[1])));
    FetchedPartition {
        tp,
        error: if p["err"].is_string() { code(&p["err"]) } else { ErrorCode::None },
        high_watermark: offset(&p["hw"]),
        last_stable: offset(&p["lso"]),
        log_start: Offset(0),
        diverging: pair(&p["diverging"]).map(|(e, o)| (LeaderEpoch(e as i32), Offset(o))),
        aborted: p["aborted"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(pair)
            .map(|(p, o)| AbortedTxn { producer: ProducerId(p), first: Offset(o) })
            .collect(),
        entries: batches.into(),
        bytes: 0,
        leader: pair(&p["leader"]).map(|(n, e)| (BrokerId(n as i32), LeaderEpoch(e as i32))),
    }
}

fn reply(request: &Request, answer: &Value) -> Reply {
    let listed = |v: &Value| -> Vec<(TopicPartition, ErrorCode, i64, i64)> {
        let items = v.as_array().expect("partitions").iter();
        let one = |i: &Value| match i[1].as_array() {
            Some(a) => (tp(&i[0]), ErrorCode::None, int(&a[0]), int(&a[1])),
            None => (tp(&i[0]), code(&i[1]), -1, -1),
        };
        items.map(one).collect()
    };
    match request {
        Request::Fetch(f) => {
            let Some(parts) = answer.as_array() else {
                return Reply::Fetch(FetchReply { error: code(answer), session: 0, partitions: Vec::new() });
            };
            let mut partitions: Vec<_> = parts.iter().map(|p| fetched(tp(&p[0]), &p[1])).collect();
            if f.session_epoch <= 0 {
                for asked in &f.partitions {
                    if !partitions.iter().any(|p| p.tp == asked.tp) {
                        partitions.push(fetched(asked.tp, &Value::Null));
                    }
                }
            }
            Reply::Fetch(FetchReply { error: ErrorCode::None, session: 1, partitions })
        }
        Request::ListOffsets(_) => Reply::ListOffsets(ListOffsetsReply {
            partitions: listed(answer)
                .into_iter()
                .map(|(tp, e, o, epoch)| (tp, e, Offset(o), LeaderEpoch(epoch as i32)))
                .collect(),
        }),
        Request::OffsetsForLeaderEpoch(_) => Reply::OffsetsForLeaderEpoch(OffsetsForLeaderEpochReply {
            partitions: listed(answer)
                .into_iter()
                .map(|(tp, e, epoch, end)| (tp, e, LeaderEpoch(epoch as i32), Offset(end)))
                .collect(),
        }),
        other => panic!("the consumer never sends {}", other.name()),
    }
}

fn described(request: &Request) -> Value {
    match request {
        Request::Fetch(f) => {
            let parts: Vec<_> =
                f.partitions.iter().map(|p| json!([name(p.tp), p.offset.0, p.leader_epoch.0])).collect();
            let forget: Vec<_> = f.forget.iter().map(|tp| name(*tp)).collect();
            json!({"full": f.session_epoch <= 0, "parts": parts, "forget": forget})
        }
        Request::ListOffsets(l) => {
            let spec = |s| if s == OffsetSpec::Latest { -1 } else { -2 };
            let parts: Vec<_> = l.partitions.iter().map(|(tp, s, e)| json!([name(*tp), spec(*s), e.0])).collect();
            json!({"parts": parts})
        }
        Request::OffsetsForLeaderEpoch(o) => {
            let parts: Vec<_> =
                o.partitions.iter().map(|(tp, e, current)| json!([name(*tp), e.0, current.0])).collect();
            json!({"parts": parts})
        }
        other => panic!("the consumer never sends {}", other.name()),
    }
}

/// One run: the consumer, its network, and what was written down.
struct Run {
    consumer: JavaConsumer,
    net: Mock,
    now: Millis,
    item: usize,
    output: Vec<Value>,
    shown: BTreeMap<TopicPartition, Value>,
    meta_shown: bool,
}

impl Run {
    fn note(&mut self, mut rest: Vec<Value>) {
        let mut line = vec![json!(self.item), json!(self.now.0)];
        line.append(&mut rest);
        self.output.push(Value::Array(line));
    }
    fn requests(&mut self) {
        for r in std::mem::take(&mut self.net.fresh) {
            let (body, node) = (&self.net.sent[r].body, self.net.sent[r].node);
            let line = vec![json!("req"), json!(r), json!(body.name()), json!(node.0), described(body)];
            self.note(line);
        }
    }
    fn poll(&mut self) {
        let mut result = self.consumer.begin_poll(self.now, &mut self.net);
        if matches!(result, Ok(None)) {
            while let Some(done) = self.net.ended.pop_front() {
                self.consumer.on_completed(&done, self.now, &mut self.net);
            }
            result = self.consumer.end_poll(self.now, &mut self.net);
        }
        self.requests();
        self.delivered(result);
    }
    fn delivered(&mut self, result: Result<Option<Fetched>, ConsumerError>) {
        match result {
            Err(e) => self.note(vec![json!("throw"), json!(e.class())]),
            Ok(None) => self.note(vec![json!("empty")]),
            Ok(Some(fetched)) => {
                let mut parts: Vec<(TopicPartition, Vec<i64>)> = Vec::new();
                for s in &fetched.slices {
                    let offsets = s.first().0..s.next().0;
                    match parts.last_mut().filter(|(tp, _)| *tp == s.tp) {
                        Some((_, all)) => all.extend(offsets),
                        None => parts.push((s.tp, offsets.collect())),
                    }
                }
                let parts: Vec<_> = parts.into_iter().map(|(tp, all)| json!([name(tp), all])).collect();
                self.note(vec![json!("records"), json!(parts)]);
                self.consumer.pipeline(self.now, &mut self.net);
                self.requests();
            }
        }
    }
    /// Positions that changed, and whether metadata is wanted now.
    fn changes(&mut self) {
        let subscription = self.consumer.subscription();
        let mut lines = Vec::new();
        for &tp in subscription.order() {
            let p = subscription.get(tp).expect("listed");
            let state = match p.state {
                FetchState::Initializing => "init",
                FetchState::Fetching => "fetching",
                FetchState::AwaitReset => "reset",
                FetchState::AwaitValidation => "validate",
            };
            let offset = p.position.map(|p| p.offset.0);
            let epoch = p.position.map(|p| p.epoch.0).filter(|e| *e >= 0);
            let line = json!(["pos", name(tp), state, offset, epoch]);
            if self.shown.insert(tp, line.clone()) != Some(line.clone()) {
                lines.push(line);
            }
        }
        for line in lines {
            self.note(line.as_array().expect("a list").clone());
        }
        if self.net.update_wanted && !self.meta_shown {
            self.note(vec![json!("meta")]);
        }
        self.meta_shown = self.net.update_wanted;
    }
    fn metadata(&mut self) {
        self.net.view.version += 1;
        self.net.update_wanted = false;
        self.meta_shown = false;
    }
    fn step(&mut self, input: &Value) {
        match input[0].as_str().expect("a kind") {
            "assign" => {
                let tps: Vec<_> = input[1].as_array().expect("partitions").iter().map(tp).collect();
                self.consumer.assign(&tps);
                self.metadata();
            }
            "seek" => {
                let epoch = LeaderEpoch(input[3].as_i64().unwrap_or(-1) as i32);
                self.consumer.seek(tp(&input[1]), Offset(int(&input[2])), epoch, self.now, &mut self.net);
            }
            "pause" => self.consumer.pause(tp(&input[1])),
            "resume" => self.consumer.resume(tp(&input[1])),
            "poll" => self.poll(),
            "resp" => {
                let r = int(&input[1]) as usize;
                let body = reply(&self.net.sent[r].body, &input[2]);
                self.net.end(r, Ended::Reply(body));
            }
            "disc" => self.net.disconnect(node(&input[1])),
            "down" => {
                let node = node(&input[1]);
                self.net.disconnect(node);
                self.net.down_until.insert(node, self.now + Millis(int(&input[2])));
            }
            "meta" => {
                for (name, leader) in input[1].as_object().expect("leaders") {
                    let leader =
                        Leader { node: BrokerId(int(&leader[0]) as i32), epoch: LeaderEpoch(int(&leader[1]) as i32) };
                    self.net.view.learn(tp(&json!(name)), leader);
                }
                self.metadata();
            }
            "t" => self.now = self.now + Millis(int(&input[1])),
            other => panic!("unknown input {other}"),
        }
        self.changes();
    }
}

/// Runs one vector of kafka-client/fetch.
pub fn fetch(vector: &Value, fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let nodes = params["nodes"].as_i64().unwrap_or(1);
    let config = ConsumerConfig {
        max_poll_records: params["max_poll_records"].as_u64().unwrap_or(500) as u32,
        read_committed: params["read_committed"].as_bool().unwrap_or(true),
        auto_offset_reset: match params["reset"].as_str() {
            Some("earliest") => AutoOffsetReset::Earliest,
            Some("none") => AutoOffsetReset::None,
            _ => AutoOffsetReset::Latest,
        },
        fixes,
        ..ConsumerConfig::default()
    };
    let mut net = Mock::default();
    for id in 0..3 {
        net.view.brokers.insert(BrokerId(id), Addr { process: ProcessId(id as u32), port: Port(0) });
    }
    for p in 0..params["partitions"].as_i64().unwrap_or(3) {
        let leader = Leader { node: BrokerId((p % nodes) as i32), epoch: LeaderEpoch(0) };
        net.view.learn(TopicPartition::new(0, p as u16), leader);
    }
    let mut run = Run {
        consumer: JavaConsumer::new(Arc::new(config), TopicHashes::of_names(["t"])),
        net,
        now: Millis::ZERO,
        item: 0,
        output: Vec::new(),
        shown: BTreeMap::new(),
        meta_shown: false,
    };
    for (i, input) in vector["input"].as_array().expect("input").iter().enumerate() {
        run.item = i;
        run.step(input);
    }
    let recorded = vector["output"].as_array().expect("output");
    if run.output.len() > recorded.len() {
        return Outcome::Failed(format!("item {}: not recorded: {}", recorded.len(), run.output[recorded.len()]));
    }
    compare(recorded, |i| run.output.get(i).cloned().unwrap_or(Value::Null))
}
