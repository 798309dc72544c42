//! Runner of kafka-client/idempotent_sequences, txn_errors and txn_api: sender, accumulator, sequences and transactions of the
//! Java producer over a scripted network on a manual clock.

use crate::harness::{Outcome, compare_lists};
use crate::java_exceptions::{exception, thrown};
use crate::java_net::{NODES, Net, PARTITIONS, addr, partition, tp};
use model::base::{
    BrokerId, EventTime, Fixes, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Row, TopicId, TopicPartition,
};
use model::kafka::ErrorCode;
use model::kafka::client::java::{
    Backoff, Call, Dice, GroupMetadata, Metadata, Pass, ProducerConfig, ProducerEvent, Profile, Refusal, SendError,
    Sender, State, Target,
};
use model::kafka::client::{Completed, Lost, Outcome as Ended};
use model::kafka::messages::{InitProducerIdReply, ProduceReply, ProducedPartition, Reply, Request};
use model::kafka::txn_messages::{CoordinatorKey, CoordinatorReply, CoordinatorRequest, GroupId, TransactionalId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

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
    /// Number of the user's next call.
    calls: u64,
    /// The user's number of a call, and its name, by the producer's number; flushes by theirs.
    called: BTreeMap<u64, (u64, &'static str)>,
    flushing: Vec<u64>,
    /// Calls that ended in this pass.
    returned: Vec<(u64, &'static str, String)>,
    out: Vec<Value>,
}

impl Bench {
    fn new(params: &Value, fixes: Fixes) -> Self {
        let number = |key: &str, default: i64| params[key].as_i64().unwrap_or(default);
        let max_in_flight = number("max_in_flight", 5);
        let request_timeout = number("request_timeout", 30_000);
        let mut config = ProducerConfig::new(Profile::Java, [addr(0)].into());
        config.enable_idempotence = params["idempotent"].as_bool();
        let idempotent = config.enable_idempotence != Some(false);
        let transactional = idempotent && params["transactional"].as_bool() != Some(false);
        config.transactional_id = transactional.then_some(TransactionalId(0));
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
        let mut sender = Sender::new(config.sender(fixes));
        sender.set_transaction_version(number("tv", 2) as u8);
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
            calls: 0,
            called: BTreeMap::new(),
            flushing: Vec::new(),
            returned: Vec::new(),
            out: Vec::new(),
        }
    }
    fn say(&mut self, what: Vec<Value>) {
        let mut item = vec![json!(self.at), json!(self.net.now)];
        item.extend(what);
        self.out.push(Value::Array(item));
    }
    fn say_network(&mut self) {
        self.say_network_if(|_| true);
    }
    /// Within a pass batches fail before requests leave.
    fn say_network_if(&mut self, now: impl Fn(&[Value]) -> bool) {
        let (said, later) = std::mem::take(&mut self.net.said).into_iter().partition(|what| now(what));
        self.net.said = later;
        let said: Vec<_> = said;
        for what in said {
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
                ProducerEvent::Called { number, call, result } => {
                    let Some((number, name)) = self.called.remove(&number) else { continue };
                    debug_assert_eq!(name, call_name(call));
                    self.returned.push((number, name, result.map_or_else(exception, |()| "ok".to_owned())));
                }
                ProducerEvent::Flushed(number) => {
                    if let Some(i) = self.flushing.iter().position(|n| *n == number) {
                        self.flushing.remove(i);
                        self.returned.push((number, "flush", "ok".to_owned()));
                    }
                }
                ProducerEvent::Threw => {
                    self.say_failed(&mut failed);
                    self.say(vec![json!("io_error"), json!("IllegalStateException")]);
                }
                _ => {}
            }
        }
        self.say_failed(&mut failed);
        any
    }
    /// What the end of a pass, or of a call, shows: id, state, calls that return.
    fn look(&mut self) {
        let producer = (self.sender.producer().id, self.sender.producer().epoch);
        if self.state.is_some() && producer != self.producer {
            self.producer = producer;
            self.say(vec![json!("pid"), json!(producer.0.0), json!(producer.1.0)]);
        }
        if self.sender.state() != self.state {
            self.state = self.sender.state();
            self.say(vec![json!("state"), json!(self.state.map(State::name))]);
        }
        self.sender.settle_calls(Millis(self.net.now));
        self.say_events();
        let mut returned = std::mem::take(&mut self.returned);
        returned.sort_unstable();
        for (number, name, how) in returned {
            self.say(vec![json!("call"), json!(number), json!(name), json!(how)]);
        }
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
            self.say_network_if(|what| what[0] != "req");
            let told = self.say_events();
            self.say_network();
            let (timeout, sent) = match pass {
                Pass::Again => {
                    self.look();
                    continue;
                }
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
            self.look();
            if !sent && ended.is_empty() && !told {
                self.asleep_until = match timeout {
                    // It spins: until a batch is due, or a node can be connected again.
                    Millis::ZERO => self.sender.next_timer(now).0.min(self.net.next_up()),
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
            let sent = self.sender.send(topic, target, &row, PARTITIONS, view, &mut self.net.dice, now);
            match sent {
                Ok(_) => {}
                Err(SendError::Full) => panic!("no buffer memory"),
                Err(SendError::Thrown(refusal)) => self.say(vec![json!("throw"), json!(thrown(refusal))]),
                Err(SendError::Failed { why, .. }) => {
                    self.say(vec![json!("send"), json!(self.sends), json!(exception(why))]);
                }
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
            Request::Coordinator(request) => Reply::Coordinator(self.coordinate(&request, error, &item[3])),
            _ => Reply::InitProducerId(InitProducerIdReply {
                error,
                producer: ProducerId(extra("pid", -1)),
                epoch: ProducerEpoch(extra("epoch", -1) as i16),
            }),
        };
        let (sent_at, outcome) = (Millis(at), Ended::Reply(reply));
        self.net.ended.push(Completed { node, correlation, sent_at, outcome });
    }
    fn coordinate(&self, request: &CoordinatorRequest, error: ErrorCode, extra: &Value) -> CoordinatorReply {
        let number = |key: &str, default: i64| extra[key].as_i64().unwrap_or(default);
        let producer = ProducerId(number("pid", -1));
        let epoch = ProducerEpoch(number("epoch", -1) as i16);
        match request {
            CoordinatorRequest::Find(key) => {
                let node = match key {
                    CoordinatorKey::Transaction(_) => 1,
                    CoordinatorKey::Group(_) => 2,
                };
                CoordinatorReply::Find { error, node: BrokerId(node), addr: Some(addr(node)) }
            }
            CoordinatorRequest::InitProducerId { .. } => CoordinatorReply::InitProducerId { error, producer, epoch },
            CoordinatorRequest::AddPartitions { partitions, .. } => {
                CoordinatorReply::AddPartitions(partitions.iter().map(|tp| (*tp, error)).collect())
            }
            CoordinatorRequest::AddOffsets { .. } => CoordinatorReply::AddOffsets(error),
            CoordinatorRequest::TxnOffsetCommit { offsets, .. } => {
                CoordinatorReply::TxnOffsetCommit(offsets.iter().map(|(tp, _)| (*tp, error)).collect())
            }
            CoordinatorRequest::EndTxn { .. } => CoordinatorReply::EndTxn { error, producer, epoch },
        }
    }
    /// A call that blocks.
    fn call(&mut self, name: &'static str, begin: impl FnOnce(&mut Sender) -> Result<u64, Refusal>) {
        match begin(&mut self.sender) {
            Ok(number) => {
                self.called.insert(number, (self.calls, name));
                self.calls += 1;
            }
            Err(refusal) => self.say(vec![json!("throw"), json!(thrown(refusal))]),
        }
    }
    /// One that does not.
    fn at_once(&mut self, done: Result<(), Refusal>) {
        if let Err(refusal) = done {
            self.say(vec![json!("throw"), json!(thrown(refusal))]);
        }
    }
    fn flush(&mut self) {
        let number = self.calls;
        self.calls += 1;
        if self.sender.accumulator.begin_flush(number) {
            self.flushing.push(number);
        } else {
            self.returned.push((number, "flush", "ok".to_owned()));
        }
    }
    fn give_up(&mut self, call: u64) {
        let waiting = self.called.iter().find(|(_, (number, _))| *number == call).map(|(number, _)| *number);
        if let Some(number) = waiting {
            self.sender.give_up(number);
        } else if let Some(i) = self.flushing.iter().position(|n| *n == call) {
            self.flushing.remove(i);
            self.returned.push((call, "flush", "TimeoutException".to_owned()));
        }
    }
    fn item(&mut self, item: &Value) {
        let node = || item[1].as_i64().or_else(|| item[1].as_str()?.parse().ok()).unwrap_or(0) as i32;
        match item[0].as_str().unwrap_or_default() {
            "t" => return self.pass(item[1].as_i64().unwrap_or(0)),
            "send" => self.send(item),
            "flush" => self.flush(),
            "init" => self.call("init", |s| s.init_transactions(Millis::MAX)),
            "commit" => self.call("commit", |s| s.commit_transaction(Millis::MAX)),
            "abort" => self.call("abort", |s| s.abort_transaction(Millis::MAX)),
            "offsets" => {
                let from = TopicPartition { topic: TopicId(1), partition: partition(&item[1]) };
                let offsets = vec![(from, Offset(item[2].as_i64().unwrap_or(0)))];
                let group = GroupMetadata::of_group(GroupId(0));
                self.call("offsets", |s| s.send_offsets(offsets, group, Millis::MAX));
            }
            "begin" => {
                let done = self.sender.begin_transaction();
                self.at_once(done);
            }
            "prepare" => {
                let done = self.sender.prepare_transaction();
                self.at_once(done);
            }
            "timeout" => self.give_up(item[1].as_u64().unwrap_or(0)),
            "tv" => self.sender.set_transaction_version(item[1].as_u64().unwrap_or(2) as u8),
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
        self.look();
        self.run();
    }
}

const fn call_name(call: Call) -> &'static str {
    match call {
        Call::Init => "init",
        Call::Offsets => "offsets",
        Call::Commit => "commit",
        Call::Abort => "abort",
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
