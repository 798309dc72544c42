//! Runners of librdkafka/idempotence: order and content of requests, delivery reports and call results.

use crate::harness::Outcome;
use crate::rd_cluster::{Cluster, Scripted, Seen, addr};
use model::base::{Domain, Fix, Fixes, Millis, Offset, Row, Streams, TopicPartition};
use model::kafka::ErrorCode;
use model::kafka::client::rdkafka::{Call, CallError, ProducerEvent, RdConfig, RdError, RdGroupMetadata, RdProducer};
use model::kafka::messages::Request;
use model::kafka::txn_messages::{CoordinatorKey, CoordinatorRequest, GroupId, TransactionalId};
use serde_json::{Value, json};

/// How long a call may last before the recording gave it up.
const NEVER: Millis = Millis(60_000);

struct Run {
    cluster: Cluster,
    items: Vec<Value>,
    /// In case `timeout` the script of errors ended with the wait for the time-out (its later entries were not used).
    times_out: bool,
    record: i64,
    output: Vec<Value>,
    seen: usize,
    /// Events that the application was told of, and those among which calls were looked for.
    told: usize,
    called: usize,
    /// Events at the end of the last item.
    item_events: usize,
    /// The fatal error was told to nobody but the caller of a commit or abort.
    swallowed: bool,
}

/// Runs one vector of the vector-like families. The real client drew its back-off jitter, and the machine decided whether two
/// answers were read at once; where the recorded order depends on that, some draw must give it.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    // 2.16.0 still has it.
    let fixes = fixes.without(Fix::GoneGroupCoordinatorForgotten);
    const DRAWS: u64 = 16;
    let mut first = None;
    for draw in 0..DRAWS {
        match once(vector, fixes, draw) {
            Outcome::Passed => return Outcome::Passed,
            failed => drop(first.get_or_insert(failed)),
        }
    }
    first.unwrap_or(Outcome::Passed)
}

fn once(vector: &Value, fixes: Fixes, draw: u64) -> Outcome {
    let transactional = vector["op"] != "idempotence";
    let mut config = if transactional { RdConfig::transactional(TransactionalId(0)) } else { RdConfig::idempotent() };
    let mut set = |key: &str, value: &str| config.set(key, value).expect("a setting that the model has");
    set("linger.ms", "20");
    set("message.timeout.ms", "60000");
    for (key, value) in vector["params"]["conf"].as_object().into_iter().flatten() {
        set(key, value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str());
    }
    let streams = Streams(draw);
    let bootstrap = vec![addr(0), addr(1), addr(2)];
    let client = streams.stream(Domain::Process, 0, "librdkafka");
    let producer = RdProducer::new(config, bootstrap, fixes, client, Millis::ZERO);
    let mut run = Run {
        cluster: Cluster::new(producer),
        items: vector["input"].as_array().cloned().unwrap_or_default(),
        times_out: vector["params"]["case"] == "timeout",
        record: 0,
        output: Vec::new(),
        seen: 0,
        told: 0,
        called: 0,
        item_events: 0,
        swallowed: false,
    };
    run.cluster.race = (draw > 0).then(|| streams.stream(Domain::Network, 0, "race"));
    run.cluster.checks = !matches!(vector["op"].as_str(), Some("txn_errors" | "txn_api"));
    run.cluster.work();
    for at in 0..run.items.len() {
        let item = run.items[at].clone();
        run.item(at, &item);
    }
    let recorded = vector["output"].as_array().cloned().unwrap_or_default();
    for i in 0..recorded.len().max(run.output.len()) {
        let (want, have) = (recorded.get(i), run.output.get(i));
        if want != have {
            let show = |v: Option<&Value>| v.map_or_else(|| "nothing".to_owned(), Value::to_string);
            return Outcome::Failed(format!("item {i}: recorded {}\n      model    {}", show(want), show(have)));
        }
    }
    if let Some(log) = vector.get("log") {
        let have = run.log();
        if *log != have {
            return Outcome::Failed(format!("log: recorded {log}\n      model    {have}"));
        }
    }
    Outcome::Passed
}

/// The recordings' name of an error.
fn error_name(error: RdError) -> &'static str {
    match error {
        RdError::Code(ErrorCode::InvalidTopic) => "INVALID_TOPIC",
        other => other.name(),
    }
}

fn name(tp: TopicPartition) -> String {
    format!("t-{}", tp.partition)
}

impl Run {
    fn item(&mut self, at: usize, item: &Value) {
        let word = item[0].as_str().unwrap_or_default();
        let number = |i: usize| item[i].as_i64();
        match word {
            "answer" => {
                let key = (item[1].as_str().unwrap_or_default().to_owned(), number(2).unwrap_or(0) as usize);
                let error = item[3].as_str().unwrap_or_default().to_owned();
                self.cluster.script.insert(key, Scripted { error, delay: number(4).unwrap_or(0) });
            }
            "answer_all" => {
                let text = |i: usize| item[i].as_str().unwrap_or_default().to_owned();
                self.cluster.all.insert(text(1), text(2));
            }
            "cut" => self.cluster.cut(number(1).unwrap_or(0) as i32),
            "leader" => {
                let p = number(1).unwrap_or(0) as usize;
                self.cluster.leaders[p] = number(2).unwrap_or(-1) as i32;
                self.cluster.leader_epoch[p] += 1;
            }
            "send" => self.send(at, number(1).unwrap_or(0), number(2).unwrap_or(1)),
            "settle" => {
                self.settle(Millis(number(1).unwrap_or(900)));
                if self.times_out {
                    self.cluster.script.clear();
                }
            }
            // The application polled in steps; a wait lasted some 3 ms longer than it was to.
            "wait" => self.until(self.cluster.now + Millis(number(1).unwrap_or(0) + 3)),
            "ready" => self.ready(),
            "flush" => self.call(at, Call::Flush, Millis(20_000)),
            "purge" => {
                self.cluster.producer.purge_queue();
                self.cluster.work();
            }
            "init" => self.call(at, Call::Init, Millis(number(1).unwrap_or(20_000))),
            "begin" => self.call(at, Call::Begin, NEVER),
            "commit" => self.call(at, Call::Commit, Millis(number(1).unwrap_or(20_000))),
            "abort" => self.call(at, Call::Abort, Millis(number(1).unwrap_or(20_000))),
            "offsets" => {
                let limit = self.cluster.now + Millis(number(2).unwrap_or(20_000));
                let offsets = vec![(TopicPartition::new(1, 0), Offset(number(1).unwrap_or(0)))];
                self.cluster.producer.send_offsets(RdGroupMetadata::of_group(GroupId(0)), offsets, limit);
                self.await_call(at, "offsets", Call::Offsets);
                return;
            }
            other => panic!("no such input: {other}"),
        }
        // Calls close their item themselves, and so does a send that is refused.
        let call = matches!(word, "flush" | "init" | "begin" | "commit" | "abort");
        let refused = word == "send" && self.output.last().is_some_and(|o| o[0] == at);
        if !call && !refused {
            self.close_item(at, None);
        }
    }
    fn until(&mut self, time: Millis) {
        while self.cluster.step(time) {}
    }
    /// Until nothing happened for `quiet`.
    fn settle(&mut self, quiet: Millis) {
        let start = self.cluster.now;
        loop {
            let end = self.cluster.last_activity.max(start) + quiet;
            if !self.cluster.step(end) && self.cluster.last_activity.max(start) + quiet <= self.cluster.now {
                return;
            }
        }
    }
    fn ready(&mut self) {
        let limit = self.cluster.now + Millis(90_000);
        while self.cluster.producer.unreported() > 0 && self.cluster.step(limit) {}
        self.until(self.cluster.now + Millis(400));
    }
    fn send(&mut self, at: usize, partition: i64, records: i64) {
        for _ in 0..records {
            let row = Row { bytes: 20, cols: [self.record, 0, 0, 0], ..Row::default() };
            self.record += 1;
            let tp = TopicPartition::new(0, partition as u16);
            if let Err(error) = self.cluster.producer.send(tp, row, self.cluster.now) {
                self.close_item(at, Some(json!([at, "call", "send", error_name(error), []])));
                return;
            }
        }
        self.cluster.work();
    }
    fn call(&mut self, at: usize, call: Call, limit: Millis) {
        self.cluster.producer.call(call, self.cluster.now + limit);
        let name = match call {
            Call::Init => "init",
            Call::Begin => "begin",
            Call::Commit => "commit",
            Call::Abort => "abort",
            Call::Offsets => "offsets",
            Call::Flush => "flush",
        };
        self.await_call(at, name, call);
    }
    fn await_call(&mut self, at: usize, name: &str, call: Call) {
        let limit = self.cluster.now + NEVER + Millis(5_000);
        self.cluster.work();
        let result = loop {
            let done = self.cluster.events[self.called..].iter().find_map(|(_, e)| match e {
                ProducerEvent::Called(c, result) if *c == call => Some(*result),
                _ => None,
            });
            if let Some(result) = done {
                break Some(result);
            }
            if !self.cluster.step(limit) {
                break None;
            }
        };
        self.called = self.cluster.events.len();
        let shown = match result {
            None => json!([at, "call", name, "never returns"]),
            Some(Ok(())) => json!([at, "call", name, "ok"]),
            Some(Err(e)) => json!([at, "call", name, error_name(e.error), flags(e)]),
        };
        self.close_item(at, Some(shown));
    }

    /// Writes what happened during an item: requests, then reports by record number, then fatal, then the call.
    fn close_item(&mut self, at: usize, call: Option<Value>) {
        let mut requests: Vec<&Seen> = self.cluster.seen[self.seen..].iter().collect();
        let ends =
            requests.iter().any(|s| matches!(&s.request, Request::Coordinator(CoordinatorRequest::EndTxn { .. })));
        let mut i = 0;
        while i < requests.len() {
            let run = requests[i..].iter().take_while(|s| matches!(s.request, Request::Produce(_))).count();
            requests[i..i + run].sort_by_key(|s| match &s.request {
                Request::Produce(p) => p.batches.first().map(|b| b.0),
                _ => None,
            });
            i += run.max(1);
        }
        let shown: Vec<Value> = requests.into_iter().filter_map(|s| show(at, s)).collect();
        self.output.extend(shown);
        self.seen = self.cluster.seen.len();
        // Some calls return before they poll: reports and a fatal error wait for the next item that does.
        let ends_fatally = call.as_ref().is_some_and(|c| c[4] == json!(["fatal"]));
        let at_once = call.as_ref().is_some_and(|c| c[2] == "send" || c[3] == "_CONFLICT");
        let quiet = ends_fatally || at_once || self.items[at][0] == "purge";
        let last = at + 1 == self.items.len();
        // One that waits for its records polls, and takes the fatal error along.
        let ending = call.as_ref().is_some_and(|c| c[2] == "commit" || c[2] == "abort");
        if ends_fatally && ending && !ends {
            let new = &self.cluster.events[self.item_events..];
            self.swallowed |= new.iter().any(|(_, e)| matches!(e, ProducerEvent::Fatal(_)));
        }
        self.item_events = self.cluster.events.len();
        if quiet && !last {
            self.output.extend(call);
            return;
        }
        let mut reports: Vec<(i64, String)> = Vec::new();
        let mut fatal = None;
        for (_, event) in &self.cluster.events[self.told..] {
            match event {
                ProducerEvent::Delivered(d) => {
                    let result = d.result.map_or_else(|e| error_name(e).to_owned(), |_| "ok".to_owned());
                    reports.extend(d.batch.rows.iter().map(|r| (r.cols[0], result.clone())));
                }
                ProducerEvent::Fatal(error) => fatal = Some(error_name(*error)),
                _ => {}
            }
        }
        self.told = self.cluster.events.len();
        reports.sort();
        let mut i = 0;
        while i < reports.len() {
            let mut j = i;
            while j + 1 < reports.len() && reports[j + 1] == (reports[j].0 + 1, reports[i].1.clone()) {
                j += 1;
            }
            let (from, to) = (reports[i].0, reports[j].0);
            let which = if from == to { json!(from) } else { json!(format!("{from}..{to}")) };
            self.output.push(json!([at, "dr", which, reports[i].1]));
            i = j + 1;
        }
        if let Some(error) = fatal
            && !self.swallowed
        {
            self.output.push(json!([at, "fatal", error]));
        }
        self.output.extend(call);
    }

    fn log(&self) -> Value {
        let log = &self.cluster.log;
        let of = |batches: &Vec<Vec<Row>>| -> Vec<String> {
            batches.iter().flatten().map(|r| r.cols[0].to_string()).collect()
        };
        Value::Object(log.iter().map(|(tp, batches)| (name(*tp), json!(of(batches)))).collect())
    }
}

fn flags(e: CallError) -> Vec<&'static str> {
    [(e.fatal, "fatal"), (e.retriable, "retriable"), (e.abort, "abort")]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect()
}

/// A request as the recordings show it; `None` for what they leave out.
fn show(at: usize, seen: &Seen) -> Option<Value> {
    let fields = match &seen.request {
        Request::InitProducerId(r) => json!({"pid": r.producer.0, "epoch": r.epoch.0}),
        Request::Produce(p) => {
            let batches: Vec<Value> = p
                .batches
                .iter()
                .map(|(tp, b)| {
                    let rows: Vec<String> = b.rows.iter().map(|r| r.cols[0].to_string()).collect();
                    let tag = b.producer;
                    json!([name(*tp), tag.id.0 - 1000, tag.epoch.0, tag.base_sequence.0, b.records, rows])
                })
                .collect();
            json!({"node": seen.node, "batches": batches})
        }
        Request::Coordinator(c) => match c {
            CoordinatorRequest::Find(CoordinatorKey::Transaction(_)) if seen.answer == "NONE" => return None,
            CoordinatorRequest::Find(CoordinatorKey::Transaction(_)) => json!({"type": "txn"}),
            CoordinatorRequest::Find(CoordinatorKey::Group(_)) => json!({"type": "group"}),
            CoordinatorRequest::InitProducerId { producer, epoch, .. } => {
                json!({"pid": producer.0, "epoch": epoch.0, "node": seen.node})
            }
            CoordinatorRequest::AddPartitions { epoch, partitions, .. } => {
                json!({"epoch": epoch.0, "parts": partitions.iter().map(|tp| name(*tp)).collect::<Vec<_>>()})
            }
            CoordinatorRequest::AddOffsets { epoch, .. } => json!({"epoch": epoch.0, "group": "g"}),
            CoordinatorRequest::TxnOffsetCommit { epoch, generation, offsets, .. } => {
                let offsets: serde_json::Map<String, Value> =
                    offsets.iter().map(|(tp, o)| (format!("in-{}", tp.partition), json!(o.0))).collect();
                json!({"epoch": epoch.0, "generation": generation, "offsets": offsets})
            }
            CoordinatorRequest::EndTxn { epoch, commit, .. } => {
                json!({"epoch": epoch.0, "commit": commit, "v": 1})
            }
        },
        _ => return None,
    };
    Some(json!([at, "req", seen.request.name(), fields, seen.answer]))
}
