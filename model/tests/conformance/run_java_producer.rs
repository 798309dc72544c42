//! Runner of kafka-client/idempotent_sequences: sender, accumulator and sequences of the Java producer over a scripted
//! network on a manual clock.

use crate::harness::{Outcome, compare};
use model::base::{
    Addr, BrokerId, EventTime, Fixes, LeaderEpoch, Millis, Offset, Port, ProcessId, ProducerEpoch, ProducerId, Row,
    TopicPartition,
};
use model::kafka::ErrorCode;
use model::kafka::client::java::{
    Backoff, Dice, Failure, Metadata, Pass, ProducerConfig, ProducerEvent, Profile, Sender, State, Target,
};
use model::kafka::client::{ClusterView, Completed, Leader, Lost, Network, Outcome as Ended};
use model::kafka::messages::{
    BrokerInfo, InitProducerIdReply, MetadataReply, PartitionInfo, ProduceReply, ProducedPartition, Reply, Request,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

const NODES: i32 = 3;
const PARTITIONS: u16 = 3;

/// The scripted network: connections are instant unless a node is down.
struct Net {
    metadata: Metadata,
    dice: Dice,
    leaders: BTreeMap<u16, (i32, i32)>,
    down: BTreeMap<i32, i64>,
    max_in_flight: usize,
    in_flight: Vec<(u32, BrokerId, Request, i64)>,
    ended: Vec<Completed>,
    sent: u32,
    update_seen: bool,
    now: i64,
    said: Vec<Vec<Value>>,
}

impl Net {
    fn metadata_reply(&self) -> MetadataReply {
        let brokers = (0..NODES).map(|n| BrokerInfo { id: BrokerId(n), addr: addr(n) }).collect();
        let partitions = (0..PARTITIONS).map(|p| {
            let (leader, epoch) = self.leaders[&p];
            let error = if leader < 0 { ErrorCode::LeaderNotAvailable } else { ErrorCode::None };
            PartitionInfo { tp: tp(p), error, leader: BrokerId(leader), epoch: LeaderEpoch(epoch) }
        });
        MetadataReply { brokers, partitions: partitions.collect(), unknown: [].into() }
    }
    fn update(&mut self) {
        let reply = self.metadata_reply();
        let now = Millis(self.now);
        let (_, update) = self.metadata.request(now);
        self.metadata.update(update, &reply, now, &mut self.dice);
        self.look();
    }
    /// Says once that an update is wanted.
    fn look(&mut self) {
        let wanted = self.metadata.update_requested();
        if wanted && !self.update_seen {
            self.said.push(vec![json!("meta")]);
        }
        self.update_seen = wanted;
    }
    fn lose(&mut self, node: BrokerId, why: Lost) {
        for (correlation, _, _, at) in self.in_flight.extract_if(.., |(_, n, _, _)| *n == node) {
            let (sent_at, outcome) = (Millis(at), Ended::Lost(why));
            self.ended.push(Completed { node, correlation, sent_at, outcome });
        }
    }
}

impl Network for Net {
    fn ready(&mut self, node: BrokerId, now: Millis) -> bool {
        self.down.get(&node.0).is_none_or(|until| now.0 >= *until) && self.in_flight(node) < self.max_in_flight
    }
    fn poll_delay(&self, node: BrokerId, now: Millis) -> Millis {
        self.down.get(&node.0).filter(|u| **u > now.0).map_or(Millis::MAX, |until| Millis(until - now.0))
    }
    fn unavailable(&self, node: BrokerId, now: Millis) -> bool {
        self.down.get(&node.0).is_some_and(|until| now.0 < *until)
    }
    fn send(&mut self, node: BrokerId, body: Request, _expects_reply: bool, now: Millis) -> u32 {
        let r = self.sent;
        self.sent += 1;
        let fields = match &body {
            Request::Produce(p) => {
                let batch = |(tp, b): &(TopicPartition, std::sync::Arc<model::base::Batch>)| {
                    let t = b.producer;
                    json!([format!("t-{}", tp.partition), t.id.0, t.epoch.0, t.base_sequence.0, b.records])
                };
                json!({ "batches": p.batches.iter().map(batch).collect::<Vec<_>>(), "v": p.version })
            }
            Request::InitProducerId(r) => json!({ "pid": r.producer.0, "epoch": r.epoch.0 }),
            _ => json!({}),
        };
        self.said.push(vec![json!("req"), json!(r), json!(body.name()), json!(node.0), fields]);
        self.in_flight.push((r, node, body, now.0));
        r
    }
    fn in_flight(&self, node: BrokerId) -> usize {
        self.in_flight.iter().filter(|(_, n, _, _)| *n == node).count()
    }
    fn least_loaded(&mut self, now: Millis) -> Option<BrokerId> {
        (0..NODES).map(BrokerId).find(|n| !self.unavailable(*n, now))
    }
    fn request_update(&mut self, _now: Millis) {
        self.metadata.request_update(false);
        self.look();
    }
    fn update_requested(&self) -> bool {
        self.metadata.update_requested()
    }
    fn view(&self) -> &ClusterView {
        self.metadata.view()
    }
    fn learn_leader(&mut self, tp: TopicPartition, leader: Leader) -> bool {
        self.metadata.learn_leader(tp, leader)
    }
}

fn addr(n: i32) -> Addr {
    Addr { process: ProcessId(n as u32), port: Port(0) }
}
fn tp(partition: u16) -> TopicPartition {
    TopicPartition::new(0, partition)
}
fn partition(v: &Value) -> u16 {
    v.as_str().and_then(|s| s.rsplit('-').next()).and_then(|p| p.parse().ok()).unwrap_or(0)
}

/// The class of the exception that `Errors` has for a code, where it is not just the name.
fn exception(why: Failure) -> String {
    let error = match why {
        Failure::Expired | Failure::Blocked => return "TimeoutException".into(),
        Failure::Closed => return "KafkaException".into(),
        Failure::Code(error) => error,
    };
    let name = match error {
        ErrorCode::UnknownServerError => "UnknownServerException",
        ErrorCode::MessageTooLarge => "RecordTooLargeException",
        ErrorCode::RecordListTooLarge => "RecordBatchTooLargeException",
        ErrorCode::RequestTimedOut => "TimeoutException",
        ErrorCode::NetworkException => "NetworkException",
        ErrorCode::CorruptMessage => "CorruptRecordException",
        ErrorCode::InvalidTopic => "InvalidTopicException",
        ErrorCode::OutOfOrderSequenceNumber => "OutOfOrderSequenceException",
        ErrorCode::DuplicateSequenceNumber => "DuplicateSequenceException",
        ErrorCode::InvalidProducerIdMapping => "InvalidPidMappingException",
        ErrorCode::TopicAuthorizationFailed => "TopicAuthorizationException",
        ErrorCode::GroupAuthorizationFailed => "GroupAuthorizationException",
        ErrorCode::ClusterAuthorizationFailed => "ClusterAuthorizationException",
        ErrorCode::TransactionalIdAuthorizationFailed => "TransactionalIdAuthorizationException",
        ErrorCode::KafkaStorageError => "KafkaStorageException",
        _ => {
            let word = |w: &str| w[..1].to_owned() + &w[1..].to_lowercase();
            return error.name().split('_').map(word).collect::<String>() + "Exception";
        }
    };
    name.into()
}

struct Bench {
    sender: Sender,
    net: Net,
    at: usize,
    sends: i64,
    acked: BTreeMap<u16, i64>,
    request_timeout: i64,
    state: Option<State>,
    producer: (ProducerId, ProducerEpoch),
    asleep_until: i64,
    out: Vec<Value>,
}

impl Bench {
    fn new(params: &Value, fixes: Fixes) -> Self {
        let number = |key: &str, default: i64| params[key].as_i64().unwrap_or(default);
        let max_in_flight = number("max_in_flight", 5);
        let request_timeout = number("request_timeout", 30_000);
        let mut config = ProducerConfig::new(Profile::Java, [addr(0)].into());
        config.enable_idempotence = params["idempotent"].as_bool();
        config.max_in_flight = Some(max_in_flight as u16);
        config.retries = params["retries"].as_i64().map(|n| n as u32);
        config.request_timeout = Millis(request_timeout);
        config.delivery_timeout = Millis(number("delivery_timeout", 120_000));
        config.batch_size = number("batch_size", 16_384) as u32;
        config.linger = Millis(number("linger", 0));
        config.max_request_size = number("max_request_size", 1_048_576) as u32;
        let mut dice = Dice::Listed(VecDeque::new());
        let backoff = Backoff::new(Millis(100), Millis(1_000));
        let metadata = Metadata::new(Millis(300_000), backoff, [addr(0)].into(), None, true, &mut dice);
        let mut net = Net {
            metadata,
            dice,
            leaders: (0..PARTITIONS).map(|p| (p, (i32::from(p) % NODES, 0))).collect(),
            down: BTreeMap::new(),
            max_in_flight: max_in_flight as usize,
            in_flight: Vec::new(),
            ended: Vec::new(),
            sent: 0,
            update_seen: true,
            now: 0,
            said: Vec::new(),
        };
        net.update();
        let sender = Sender::new(config.sender(fixes));
        let state = sender.state();
        let (id, epoch) = (sender.producer().id, sender.producer().epoch);
        Self {
            sender,
            net,
            at: 0,
            sends: 0,
            acked: BTreeMap::new(),
            request_timeout,
            state,
            producer: (id, epoch),
            asleep_until: i64::MAX,
            out: Vec::new(),
        }
    }
    fn say(&mut self, what: Vec<Value>) {
        let mut item = vec![json!(self.at), json!(self.net.now)];
        item.extend(what);
        self.out.push(Value::Array(item));
    }
    fn say_network(&mut self) {
        for what in std::mem::take(&mut self.net.said) {
            self.say(what);
        }
    }
    /// Futures in the order of completion; those that one cause failed, by number.
    fn say_events(&mut self) -> bool {
        let mut failed: Vec<(String, Vec<i64>)> = Vec::new();
        let events = self.sender.take_events();
        let any = !events.is_empty();
        for event in events {
            match event {
                ProducerEvent::Acked { base, batch, .. } => {
                    self.say_failed(&mut failed);
                    for (i, row) in batch.rows.iter().enumerate() {
                        let offset = if base == Offset::UNKNOWN { -1 } else { base.0 + i as i64 };
                        self.say(vec![json!("send"), json!(row.cols[0]), json!("ok"), json!(offset)]);
                    }
                }
                ProducerEvent::Failed { batch, why, .. } => {
                    let sends = batch.rows.iter().map(|row| row.cols[0]);
                    match failed.last_mut().filter(|(e, _)| *e == exception(why)) {
                        Some((_, numbers)) => numbers.extend(sends),
                        None => failed.push((exception(why), sends.collect())),
                    }
                }
                _ => {}
            }
        }
        self.say_failed(&mut failed);
        any
    }
    fn say_failed(&mut self, failed: &mut Vec<(String, Vec<i64>)>) {
        for (why, mut sends) in failed.drain(..) {
            sends.sort_unstable();
            for send in sends {
                self.say(vec![json!("send"), json!(send), json!(why)]);
            }
        }
    }
    /// The I/O loop until nothing moves at this instant.
    fn run(&mut self) {
        loop {
            let now = Millis(self.net.now);
            let pass = self.sender.run_once(&mut self.net, now);
            self.say_network();
            let told = self.say_events();
            let (timeout, sent) = match pass {
                Pass::Again => continue,
                Pass::Sleep(until) => {
                    self.net.now = until.0;
                    continue;
                }
                Pass::Poll { timeout, sent } => (timeout, sent),
            };
            self.time_out();
            let ended = std::mem::take(&mut self.net.ended);
            for one in &ended {
                let Net { dice, .. } = &self.net;
                let mut dice = dice.clone();
                self.sender.on_completed(one, &mut self.net, &mut dice, now);
                self.say_events();
                self.say_network();
            }
            let producer = (self.sender.producer().id, self.sender.producer().epoch);
            if self.state.is_some() && producer != self.producer {
                self.producer = producer;
                self.say(vec![json!("pid"), json!(producer.0.0), json!(producer.1.0)]);
            }
            if self.sender.state() != self.state {
                self.state = self.sender.state();
                self.say(vec![json!("state"), json!(self.state.map(State::name))]);
            }
            if !sent && ended.is_empty() && !told {
                self.asleep_until = match timeout {
                    Millis::ZERO => self.sender.next_timer(now).0,
                    wait => (now + wait).0,
                };
                return;
            }
        }
    }
    fn time_out(&mut self) {
        let late = |(_, _, _, at): &(u32, BrokerId, Request, i64)| self.net.now - at > self.request_timeout;
        let nodes: Vec<BrokerId> = self.net.in_flight.iter().filter(|r| late(r)).map(|r| r.1).collect();
        for node in nodes {
            self.net.lose(node, Lost::TimedOut);
        }
    }
    fn pass(&mut self, d: i64) {
        let end = self.net.now + d;
        self.run();
        while self.net.now < end {
            let mut next = self.asleep_until;
            for (_, _, _, at) in &self.net.in_flight {
                next = next.min(at + self.request_timeout + 1);
            }
            self.net.now = next.clamp(self.net.now + 1, end);
            self.run();
        }
    }
    fn send(&mut self, item: &Value) {
        let (value, n) = (item[2].as_u64().unwrap_or(0) as u32, item[3].as_u64().unwrap_or(1));
        for _ in 0..n {
            // Attributes, two deltas, no key, value with its length, no headers; before them the length of all that.
            let varint = |n: u32| (70 - ((2 * u64::from(n)) | 1).leading_zeros()) / 7;
            let body = 4 + varint(value) + value + 1;
            let cols = [self.sends, 0, 0, 0];
            let row = Row { bytes: varint(body) + body, time: EventTime(self.net.now), cols, ..Row::default() };
            let target = Target::Partition(partition(&item[1]));
            let now = Millis(self.net.now);
            let (topic, view) = (tp(0).topic, self.net.metadata.view());
            self.sender.accumulator.append(topic, target, row, PARTITIONS, view, &mut self.net.dice, now);
            if let Some(error) = self.sender.fatal() {
                let name = exception(Failure::Code(error));
                let what = match error {
                    // An ApiException: the call gives a failed future instead of throwing.
                    ErrorCode::ProducerFenced => vec![json!("send"), json!(self.sends), json!(name)],
                    _ => vec![json!("throw"), json!(format!("KafkaException/{name}"))],
                };
                self.say(what);
            }
            self.sends += 1;
        }
    }
    fn respond(&mut self, item: &Value) {
        let r = item[1].as_u64().unwrap_or(0) as u32;
        let error = item[2].as_str().and_then(ErrorCode::from_name).unwrap_or(ErrorCode::UnknownServerError);
        let extra = |key: &str, default: i64| item[3][key].as_i64().unwrap_or(default);
        let Some(i) = self.net.in_flight.iter().position(|(c, _, _, _)| *c == r) else { return };
        let (correlation, node, body, at) = self.net.in_flight.remove(i);
        let reply = match body {
            Request::Produce(p) => {
                let leader = item[3]["leader"]
                    .as_i64()
                    .map(|l| (BrokerId(l as i32), LeaderEpoch(extra("leader_epoch", -1) as i32)));
                let partitions = p.batches.iter().map(|(tp, batch)| {
                    let acked = self.acked.entry(tp.partition).or_insert(0);
                    let base = if error.is_ok() { *acked } else { -1 };
                    if error.is_ok() {
                        *acked += i64::from(batch.records);
                    }
                    let log_start = Offset(extra("log_start", -1));
                    ProducedPartition { tp: *tp, error, base: Offset(base), log_start, leader }
                });
                Reply::Produce(ProduceReply { partitions: partitions.collect() })
            }
            _ => Reply::InitProducerId(InitProducerIdReply {
                error,
                producer: ProducerId(extra("pid", -1)),
                epoch: ProducerEpoch(extra("epoch", -1) as i16),
            }),
        };
        let (sent_at, outcome) = (Millis(at), Ended::Reply(reply));
        self.net.ended.push(Completed { node, correlation, sent_at, outcome });
    }
    fn item(&mut self, item: &Value) {
        let node = || item[1].as_i64().or_else(|| item[1].as_str()?.parse().ok()).unwrap_or(0) as i32;
        match item[0].as_str().unwrap_or_default() {
            "t" => return self.pass(item[1].as_i64().unwrap_or(0)),
            "send" => self.send(item),
            "flush" => {
                self.sender.accumulator.begin_flush(0);
            }
            "resp" => self.respond(item),
            "disc" => self.net.lose(BrokerId(node()), Lost::Disconnected),
            "down" => {
                self.net.down.insert(node(), self.net.now + item[2].as_i64().unwrap_or(0));
                self.net.lose(BrokerId(node()), Lost::Disconnected);
            }
            "meta" => {
                for (name, leader) in item[1].as_object().into_iter().flatten() {
                    let number = |i: usize| leader[i].as_i64().unwrap_or(-1) as i32;
                    self.net.leaders.insert(partition(&json!(name)), (number(0), number(1)));
                }
                self.net.update();
            }
            other => panic!("unknown input {other}"),
        }
        self.say_network();
        self.run();
    }
}

/// Runs one vector.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let mut bench = Bench::new(&vector["params"], fixes);
    for (at, item) in vector["input"].as_array().into_iter().flatten().enumerate() {
        bench.at = at;
        bench.item(item);
    }
    let mut recorded = vector["output"].as_array().cloned().unwrap_or_default();
    let n = recorded.len().max(bench.out.len());
    recorded.resize(n, Value::Null);
    compare(&recorded, |i| bench.out.get(i).cloned().unwrap_or(Value::Null))
}
