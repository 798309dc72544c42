//! Runner of librdkafka/fetch_order: measurements of real time, so only what time does not move is compared. With one
//! broker that is the whole order of delivery; with three, what each broker was asked for.

use crate::harness::Outcome;
use model::base::{
    Addr, Batch, BrokerId, EventTime, Fixes, LeaderEpoch, Millis, Offset, Port, ProcessId, ProducerTag, TopicPartition,
};
use model::kafka::ErrorCode;
use model::kafka::client::rdkafka_consumer::{Consumed, RdConsumer, RdConsumerConfig, Start};
use model::kafka::client::{ClusterView, Completed, Leader, Network, Outcome as Ended};
use model::kafka::log::Entry;
use model::kafka::messages::{FetchReply, FetchRequest, FetchedPartition, Reply, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records of a batch, and its size, as recorded.
const BATCH: (i64, u32) = (50, 50_511);
/// Round trip of a fetch in ms.
const ROUND: i64 = 20;
/// The recordings' lists end after so many runs and fetches.
const CUT: (usize, usize) = (120, 40);

/// Brokers that hold `records` of every partition and answer after [`ROUND`].
struct Brokers {
    view: ClusterView,
    records: i64,
    batch: Arc<Batch>,
    in_flight: Vec<(Millis, Completed)>,
    sent: u32,
    /// What each broker answered with: partition, offset, bytes.
    fetches: BTreeMap<i32, Vec<Value>>,
}

impl Brokers {
    fn fetch(&mut self, node: BrokerId, f: &FetchRequest) -> (FetchReply, u32) {
        let mut total = 0;
        let mut told = Vec::new();
        let mut read = |tp: TopicPartition, offset: Offset, max: u32| {
            let (mut entries, mut bytes, mut base) = (Vec::new(), 0, offset);
            while base.0 < self.records {
                let fits = bytes + BATCH.1 <= max && total + bytes + BATCH.1 <= f.max_bytes;
                if !fits && total + bytes > 0 {
                    break;
                }
                entries.push(Entry { base, epoch: LeaderEpoch(0), batch: self.batch.clone() });
                bytes += BATCH.1;
                base = base.plus(BATCH.0);
            }
            total += bytes;
            if bytes > 0 {
                told.push(json!([tp.partition, offset.0, bytes]));
            }
            let (error, end) = (ErrorCode::None, Offset(self.records));
            FetchedPartition {
                tp,
                error,
                high_watermark: end,
                last_stable: end,
                log_start: Offset(0),
                diverging: None,
                aborted: Arc::new([]),
                entries: entries.into(),
                bytes,
                leader: None,
            }
        };
        let partitions = f.partitions.iter().map(|p| read(p.tp, p.offset, p.max_bytes)).collect();
        if !told.is_empty() {
            self.fetches.entry(node.0).or_default().push(json!(told));
        }
        (FetchReply { error: ErrorCode::None, session: 0, partitions }, total)
    }
}

impl Network for Brokers {
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
        let Request::Fetch(f) = body else { panic!("positions are given") };
        let (reply, bytes) = self.fetch(node, &f);
        self.sent += 1;
        let wait = if bytes == 0 { f.max_wait.0 } else { ROUND + i64::from(node.0) };
        let outcome = Ended::Reply(Reply::Fetch(reply));
        let done = Completed { node, correlation: self.sent, sent_at: now, outcome };
        self.in_flight.push((now + Millis(wait), done));
        self.sent
    }
    fn in_flight(&self, node: BrokerId) -> usize {
        self.in_flight.iter().filter(|(_, done)| done.node == node).count()
    }
    fn least_loaded(&mut self, _now: Millis) -> Option<BrokerId> {
        None
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

/// Runs one measurement of librdkafka/fetch_order.
pub fn fetch_order(vector: &Value, _fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let int = |key: &str| params[key].as_i64().unwrap_or_else(|| panic!("no {key}"));
    let (brokers, partitions, records, rate) =
        (int("brokers"), int("partitions"), int("records_per_partition"), int("rate"));
    let conf = |key: &str| params["conf"][key].as_u64();
    let default = RdConsumerConfig::default();
    let config = RdConsumerConfig {
        fetch_max_bytes: conf("fetch.max.bytes").map(|b| b as u32),
        max_partition_fetch_bytes: conf("max.partition.fetch.bytes")
            .map_or(default.max_partition_fetch_bytes, |b| b as u32),
        queued_min_messages: conf("queued.min.messages").unwrap_or(default.queued_min_messages),
        queued_max_messages_kbytes: conf("queued.max.messages.kbytes").unwrap_or(default.queued_max_messages_kbytes),
        fetch_queue_backoff: conf("fetch.queue.backoff.ms").map_or(default.fetch_queue_backoff, |ms| Millis(ms as i64)),
        ..default
    };
    let batch = Batch::sized(BATCH.0 as u32, BATCH.1, ProducerTag::NONE, false, EventTime(0));
    let mut net = Brokers {
        view: ClusterView { version: 1, ..ClusterView::default() },
        records,
        batch: Arc::new(batch),
        in_flight: Vec::new(),
        sent: 0,
        fetches: BTreeMap::new(),
    };
    let tps: Vec<_> = (0..partitions as u16).map(|p| TopicPartition::new(0, p)).collect();
    for id in 0..brokers as i32 {
        net.view.brokers.insert(BrokerId(id), Addr { process: ProcessId(id as u32), port: Port(0) });
    }
    for tp in &tps {
        let leader = Leader { node: BrokerId(i32::from(tp.partition) % brokers as i32), epoch: LeaderEpoch(0) };
        net.view.learn(*tp, leader);
    }
    let mut consumer = RdConsumer::new(Arc::new(config));
    consumer.assign(&tps.iter().map(|tp| (*tp, Start::At(Offset(0)))).collect::<Vec<_>>());

    let mut runs: Vec<(u16, i64)> = Vec::new();
    let (mut now, mut delivered) = (Millis::ZERO, 0);
    while delivered < records * partitions {
        if now > Millis(600_000) {
            return Outcome::Failed(format!("{delivered} delivered in 600 s"));
        }
        net.in_flight.sort_by_key(|(at, done)| (*at, done.correlation));
        let due = net.in_flight.partition_point(|(at, _)| *at <= now);
        for (_, done) in net.in_flight.drain(..due).collect::<Vec<_>>() {
            consumer.on_completed(&done, now, &mut net);
        }
        consumer.serve(now, &mut net);
        // A call every `consume_max / rate`; at rate 0 whatever is there.
        let mut out = Vec::new();
        let max = int("consume_max") as u32;
        let mut taken = i64::from(consumer.consume(max, &mut out));
        while rate == 0 && taken > 0 && out.len() < 100_000 {
            let more = i64::from(consumer.consume(max, &mut out));
            if more == 0 {
                break;
            }
            taken += more;
        }
        for what in &out {
            let Consumed::Records(s) = what else { return Outcome::Failed(format!("delivered: {what:?}")) };
            match runs.last_mut().filter(|(p, _)| *p == s.tp.partition) {
                Some((_, n)) => *n += i64::from(s.records()),
                None => runs.push((s.tp.partition, i64::from(s.records()))),
            }
        }
        delivered += taken;
        let next =
            net.in_flight.iter().map(|(at, _)| *at).min().unwrap_or(Millis::MAX).min(consumer.wake_at(now, &net));
        now = if rate > 0 && taken > 0 { now + Millis(taken * 1000 / rate) } else { next };
    }

    let result = &vector["result"];
    if brokers == 1 {
        if result["runs"].as_array().is_some_and(|r| r.len() == CUT.0) {
            runs.truncate(CUT.0);
        }
        let have = json!(runs);
        return match result["runs"] == have {
            true => Outcome::Passed,
            false => Outcome::Failed(format!("recorded {}\n      model    {have}", result["runs"])),
        };
    }
    // Which of two brokers answers first is chance, and with the queue full so is who of them gets room in it.
    let cut = result["fetches"].as_array().is_some_and(|f| f.len() == CUT.1);
    let by_chance = conf("queued.max.messages.kbytes").is_some();
    for node in 0..brokers {
        let recorded = result["fetches"].as_array().expect("fetches").iter().filter(|f| f[1] == node);
        let mut want: Vec<Value> = recorded.map(|f| f[2].clone()).collect();
        let mut have = net.fetches.remove(&(node as i32)).unwrap_or_default();
        if cut {
            have.truncate(want.len());
        }
        if by_chance {
            let parts = |fetches: Vec<Value>| {
                let mut all: Vec<_> = fetches.iter().flat_map(|f| f.as_array().expect("parts").clone()).collect();
                all.sort_by_key(|p| (p[0].as_i64(), p[1].as_i64()));
                all
            };
            (want, have) = (parts(want), parts(have));
        }
        if let Some(i) = (0..want.len().max(have.len())).find(|i| want.get(*i) != have.get(*i)) {
            let (want, have) = (want.get(i), have.get(i));
            return Outcome::Failed(format!("broker {node}, fetch {i}: recorded {want:?}\n      model    {have:?}"));
        }
    }
    Outcome::Passed
}
