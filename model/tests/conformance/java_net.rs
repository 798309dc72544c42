//! The scripted network of the Java producer families: connections are instant unless a node is down.

use model::base::{Addr, BrokerId, LeaderEpoch, Millis, Port, ProcessId, TopicId, TopicPartition};
use model::kafka::ErrorCode;
use model::kafka::client::java::{Dice, Metadata};
use model::kafka::client::{ClusterView, Completed, Leader, Lost, Network, Outcome as Ended};
use model::kafka::messages::{BrokerInfo, MetadataReply, PartitionInfo, Request};
use model::kafka::txn_messages::{CoordinatorKey, CoordinatorRequest};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub const NODES: i32 = 3;
pub const PARTITIONS: u16 = 3;

/// The scripted network: connections are instant unless a node is down.
pub struct Net {
    pub metadata: Metadata,
    pub dice: Dice,
    pub leaders: BTreeMap<u16, (i32, i32)>,
    pub down: BTreeMap<i32, i64>,
    pub max_in_flight: usize,
    pub in_flight: Vec<(u32, BrokerId, Request, i64)>,
    pub ended: Vec<Completed>,
    pub sent: u32,
    pub update_seen: bool,
    pub now: i64,
    pub said: Vec<Vec<Value>>,
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
    /// New metadata.
    pub fn update(&mut self) {
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
    /// When the next node that is down can be connected again.
    pub fn next_up(&self) -> i64 {
        self.down.values().copied().filter(|up| *up > self.now).min().unwrap_or(i64::MAX)
    }
    /// The connection to a node ends.
    pub fn lose(&mut self, node: BrokerId, why: Lost) {
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
            Request::Coordinator(r) => coordinator_fields(r),
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

pub fn addr(n: i32) -> Addr {
    Addr { process: ProcessId(n as u32), port: Port(0) }
}
pub fn tp(partition: u16) -> TopicPartition {
    TopicPartition::new(0, partition)
}
pub fn partition(v: &Value) -> u16 {
    v.as_str().and_then(|s| s.rsplit('-').next()).and_then(|p| p.parse().ok()).unwrap_or(0)
}

/// Name of a partition of topics `t` and `in`.
pub fn name(tp: TopicPartition) -> String {
    format!("{}-{}", if tp.topic == TopicId(0) { "t" } else { "in" }, tp.partition)
}

fn coordinator_fields(request: &CoordinatorRequest) -> Value {
    match request {
        CoordinatorRequest::Find(CoordinatorKey::Transaction(_)) => json!({ "type": "txn" }),
        CoordinatorRequest::Find(CoordinatorKey::Group(_)) => json!({ "type": "group" }),
        CoordinatorRequest::InitProducerId { producer, epoch, .. } => json!({ "pid": producer.0, "epoch": epoch.0 }),
        CoordinatorRequest::AddPartitions { producer, epoch, partitions, .. } => {
            let parts: Vec<String> = partitions.iter().map(|tp| name(*tp)).collect();
            json!({ "pid": producer.0, "epoch": epoch.0, "parts": parts })
        }
        CoordinatorRequest::AddOffsets { producer, epoch, .. } => {
            json!({ "pid": producer.0, "epoch": epoch.0, "group": "g" })
        }
        CoordinatorRequest::TxnOffsetCommit { producer, epoch, generation, offsets, v2, .. } => {
            let offsets: BTreeMap<String, i64> = offsets.iter().map(|(tp, offset)| (name(*tp), offset.0)).collect();
            json!({
                "pid": producer.0, "epoch": epoch.0, "group": "g", "gen": generation, "member": "", "offsets": offsets,
                "v": if *v2 { 5 } else { 4 }
            })
        }
        CoordinatorRequest::EndTxn { producer, epoch, commit, version, .. } => {
            json!({ "pid": producer.0, "epoch": epoch.0, "commit": commit, "v": version })
        }
    }
}
