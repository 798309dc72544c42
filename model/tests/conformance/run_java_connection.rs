//! Runner of kafka-client/connection: the modelled `NetworkClient` over scripted brokers on a manual clock.

use crate::harness::{Outcome, compare_lists};
use model::base::{Addr, BrokerId, Fixes, Millis, Port, ProcessId};
use model::kafka::ErrorCode;
use model::kafka::client::java::{Action, Dice, NetworkClient, NetworkConfig, Sleep};
use model::kafka::client::{Lost, Network, Outcome as Ended};
use model::kafka::messages::{BrokerInfo, ListOffsetsReply, ListOffsetsRequest, MetadataReply, Reply, Request};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Accept,
    Refuse,
    Drop,
    Freeze,
}

enum Due {
    Up(u64),
    Refused(u64),
    Reply(u64, u32, Reply),
}

struct Bench {
    client: NetworkClient,
    now: i64,
    latency: i64,
    modes: BTreeMap<u32, Mode>,
    /// Open channels and the address each leads to.
    channels: BTreeMap<u64, u32>,
    pending: Vec<(i64, Due)>,
    cluster: Vec<u32>,
    metadata_error: ErrorCode,
    wants: BTreeSet<i32>,
    requests: BTreeMap<u32, usize>,
    asked: usize,
    update_seen: bool,
    at: usize,
    out: Vec<Value>,
}

fn addr(n: u32) -> Addr {
    Addr { process: ProcessId(n), port: Port(0) }
}

fn mode(v: &Value) -> Mode {
    match v.as_str() {
        Some("refuse") => Mode::Refuse,
        Some("drop") => Mode::Drop,
        Some("freeze") => Mode::Freeze,
        _ => Mode::Accept,
    }
}

impl Bench {
    fn new(params: &Value) -> Self {
        let number = |key: &str, default: i64| Millis(params[key].as_i64().unwrap_or(default));
        let nodes = params["nodes"].as_u64().unwrap_or(3) as u32;
        let mut config = NetworkConfig::new((0..nodes).map(addr).collect());
        config.request_timeout = number("request_timeout", 30_000);
        config.setup_timeout = number("setup_timeout", 10_000);
        config.setup_timeout_max = number("setup_timeout_max", 30_000);
        config.reconnect_backoff = number("reconnect_backoff", 50);
        config.reconnect_backoff_max = number("reconnect_backoff_max", 1_000);
        config.retry_backoff = number("retry_backoff", 100);
        config.retry_backoff_max = number("retry_backoff_max", 1_000);
        config.metadata_max_age = number("metadata_max_age", 300_000);
        let rebootstrap = params["rebootstrap"].as_bool().unwrap_or(true);
        config.rebootstrap_trigger = rebootstrap.then(|| number("rebootstrap_trigger", 300_000));
        config.max_in_flight = params["max_in_flight"].as_u64().unwrap_or(5) as usize;
        config.api_versions = false;
        config.sleep = Sleep::Exact;
        let mut bench = Self {
            client: NetworkClient::new(config, Dice::Listed(VecDeque::new())),
            now: 0,
            latency: params["latency"].as_i64().unwrap_or(1),
            modes: BTreeMap::new(),
            channels: BTreeMap::new(),
            pending: Vec::new(),
            cluster: (0..nodes).collect(),
            metadata_error: ErrorCode::None,
            wants: BTreeSet::new(),
            requests: BTreeMap::new(),
            asked: 0,
            update_seen: false,
            at: 0,
            out: Vec::new(),
        };
        if !params["bootstrap_only"].as_bool().unwrap_or(false) {
            bench.client.preload(&bench.metadata(), Millis(0));
        }
        bench.update_seen = bench.client.update_requested();
        bench
    }
    fn metadata(&self) -> MetadataReply {
        let brokers = self.cluster.iter().map(|n| BrokerInfo { id: BrokerId(*n as i32), addr: addr(*n) }).collect();
        MetadataReply { brokers, partitions: [].into(), unknown: [].into() }
    }
    fn say(&mut self, what: &[Value]) {
        let mut item = vec![json!(self.at), json!(self.now)];
        item.extend_from_slice(what);
        self.out.push(Value::Array(item));
    }
    fn mode_of(&self, address: u32) -> Mode {
        self.modes.get(&address).copied().unwrap_or(Mode::Accept)
    }
    fn act(&mut self) {
        for action in self.client.take_actions() {
            match action {
                Action::Open { channel, node, addr } => {
                    let address = addr.process.0;
                    self.say(&[json!("connect"), json!(address), json!(node.0)]);
                    self.channels.insert(channel, address);
                    match self.mode_of(address) {
                        Mode::Accept | Mode::Freeze => self.pending.push((self.now + self.latency, Due::Up(channel))),
                        Mode::Refuse => self.pending.push((self.now + self.latency, Due::Refused(channel))),
                        Mode::Drop => {}
                    }
                }
                Action::Close { channel, node } => {
                    self.say(&[json!("close"), json!(node.0)]);
                    if let Some(channel) = channel {
                        self.channels.remove(&channel);
                    }
                }
                Action::Send { channel, node, correlation, body } => {
                    if matches!(body, Request::Metadata(_)) {
                        self.say(&[json!("metadata_to"), json!(node.0)]);
                    }
                    let Some(address) = self.channels.get(&channel) else { continue };
                    if self.mode_of(*address) == Mode::Accept {
                        let reply = match body {
                            Request::Metadata(_) if self.metadata_error != ErrorCode::None => {
                                Reply::RebootstrapRequired
                            }
                            Request::Metadata(_) => Reply::Metadata(self.metadata()),
                            _ => Reply::ListOffsets(ListOffsetsReply { partitions: Vec::new() }),
                        };
                        self.pending.push((self.now + self.latency, Due::Reply(channel, correlation, reply)));
                    }
                }
                Action::MetadataUpdated => {
                    let ids: Vec<i32> = self.client.view().brokers.keys().map(|b| b.0).collect();
                    self.say(&[json!("metadata_ok"), json!(ids)]);
                }
                Action::Emit(_) => {}
            }
        }
    }
    fn deliver(&mut self) {
        let (due, later) = std::mem::take(&mut self.pending).into_iter().partition(|(at, _)| *at <= self.now);
        self.pending = later;
        for (_, what) in due {
            match what {
                Due::Up(channel) => {
                    if self.channels.contains_key(&channel) {
                        self.client.on_up(channel);
                    }
                }
                Due::Refused(channel) => {
                    if self.channels.remove(&channel).is_some() {
                        self.client.on_closed(channel);
                    }
                }
                Due::Reply(channel, correlation, reply) => {
                    if self.channels.contains_key(&channel) {
                        self.client.on_reply(channel, correlation, reply);
                    }
                }
            }
        }
    }
    /// One turn of the application: its wanted connections, then the network.
    fn turn(&mut self) -> bool {
        let now = Millis(self.now);
        for node in self.wants.clone() {
            if !self.client.view().brokers.contains_key(&BrokerId(node)) {
                continue;
            }
            let ready = self.client.ready(BrokerId(node), now);
            self.act();
            if ready {
                self.wants.remove(&node);
                self.say(&[json!("ready"), json!(node)]);
            }
        }
        self.deliver();
        let polled = self.client.poll(Millis::ZERO, now);
        self.act();
        for ended in polled.completed {
            let Some(k) = self.requests.remove(&ended.correlation) else { continue };
            let how = match ended.outcome {
                Ended::Reply(_) | Ended::Sent => "ok",
                Ended::Lost(Lost::Disconnected) => "disconnected",
                Ended::Lost(Lost::TimedOut) => "timed_out",
            };
            self.say(&[json!("done"), json!(k), json!(how)]);
        }
        polled.moved
    }
    fn check_update(&mut self) {
        let wanted = self.client.update_requested();
        if wanted && !self.update_seen {
            self.say(&[json!("meta")]);
        }
        self.update_seen = wanted;
    }
    fn next_instant(&self) -> i64 {
        let now = Millis(self.now);
        let mut next = self.client.deadline(now).0;
        for (at, _) in &self.pending {
            next = next.min(*at);
        }
        for node in &self.wants {
            let node = BrokerId(*node);
            if self.client.view().brokers.contains_key(&node) && self.client.unavailable(node, now) {
                next = next.min((now + self.client.poll_delay(node, now)).0);
            }
        }
        next
    }
    fn pass(&mut self, d: i64) {
        let end = self.now + d;
        loop {
            if !self.turn() {
                if self.now >= end {
                    break;
                }
                self.now = self.next_instant().clamp(self.now + 1, end);
            }
            self.check_update();
        }
        self.check_update();
    }
    fn item(&mut self, item: &Value) {
        let node = || BrokerId(item[1].as_i64().unwrap_or(0) as i32);
        match item[0].as_str().unwrap_or_default() {
            "mode" => {
                self.modes.insert(node().0 as u32, mode(&item[2]));
            }
            "kill" => {
                // Only what the client holds under this id: a bootstrap connection to the same address stays.
                if let Some(channel) = self.client.selector().channel(node()) {
                    self.channels.remove(&channel);
                    self.client.on_closed(channel);
                }
                self.modes.insert(node().0 as u32, mode(&item[2]));
            }
            "want" => {
                self.wants.insert(node().0);
            }
            "request" => {
                let k = self.asked;
                self.asked += 1;
                if self.client.is_ready(node(), Millis(self.now)) {
                    let isolation = model::kafka::log::Isolation::HighWatermark;
                    let body = Request::ListOffsets(ListOffsetsRequest { isolation, partitions: Vec::new() });
                    let correlation = self.client.send(node(), body, true, Millis(self.now));
                    self.requests.insert(correlation, k);
                    self.act();
                } else {
                    self.say(&[json!("not_ready"), json!(node().0)]);
                }
            }
            "update" => self.client.request_update(Millis(self.now)),
            "metadata_error" => {
                self.metadata_error = item[1].as_str().and_then(ErrorCode::from_name).unwrap_or(ErrorCode::None);
            }
            "cluster" => {
                self.cluster =
                    item[1].as_array().into_iter().flatten().map(|n| n.as_u64().unwrap_or(0) as u32).collect();
            }
            "least" => {
                let (node, usable) = self.client.least_loaded_node(Millis(self.now));
                self.say(&[json!("least"), json!(node.map(|n| n.0)), json!(usable)]);
            }
            "random" => {
                let numbers = item.as_array().into_iter().flatten().skip(1).map(|n| n.as_u64().unwrap_or(0)).collect();
                *self.client.dice() = Dice::Listed(numbers);
            }
            "t" => self.pass(item[1].as_i64().unwrap_or(0)),
            other => panic!("unknown input {other}"),
        }
    }
}

/// Runs one vector.
pub fn run(vector: &Value, _fixes: Fixes) -> Outcome {
    let mut bench = Bench::new(&vector["params"]);
    for (at, item) in vector["input"].as_array().into_iter().flatten().enumerate() {
        bench.at = at;
        bench.item(item);
    }
    compare_lists(vector["output"].as_array().map_or(&[], Vec::as_slice), &bench.out)
}
