//! Three nodes, six partitions on all of them with min ISR 2, and a producer that writes to each all the time.

use model::actor::{Actor, ActorConfig};
use model::app::{APP, KeyHash, ProducerAppConfig, ProducerClientConfig};
use model::base::{
    Addr, BrokerId, Event, EventTime, Fixes, Layer, Millis, ProcessId, Row, Shown, Signal, SimTime, TopicId,
    TopicPartition,
};
use model::kafka::broker::node::Node;
use model::kafka::broker::node::config::{BROKER, BrokerConfig, MAIN, NodeConfig, ServiceTimes, TopicSpec};
use model::kafka::client::java::{ProducerConfig, Profile};
use model::kafka::controller::ControllerConfig;
use model::kafka::quorum::RaftConfig;
use sim::world::{DeadMode, Fault, HostSpec, Link, NoLifecycle, Observer, World, WorldSpec};
use std::sync::Arc;

pub const PARTITIONS: u16 = 6;
const PRODUCER: ProcessId = ProcessId(3);

/// What happened, with times in ms of the run.
#[derive(Clone, Default)]
pub struct Seen {
    pub events: Vec<(i64, ProcessId, Event)>,
    /// Acknowledged rows: when, which partition, how many.
    pub acked: Vec<(i64, TopicPartition, u32)>,
    pub failed: u32,
}
impl Observer for Seen {
    fn event(&mut self, at: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        self.events.push((at.millis().0, process, *event));
    }
    fn shown(&mut self, at: SimTime, _: ProcessId, shown: &Shown) {
        match shown.layer {
            Layer::Acked(_) => self.acked.push((at.millis().0, shown.tp, shown.to - shown.from)),
            Layer::Failed(_) => self.failed += shown.to - shown.from,
            _ => {}
        }
    }
}

pub struct Cluster {
    pub world: World<Actor>,
    pub seen: Seen,
    sent: u32,
    next_send: i64,
    sending: bool,
}

impl Cluster {
    /// Formed, with load on every partition, at about 20 s.
    pub fn formed(seed: u64) -> Self {
        Self::with(seed, |_, _, _| {})
    }
    pub fn with(seed: u64, change: impl Fn(&mut BrokerConfig, &mut ControllerConfig, &mut ServiceTimes)) -> Self {
        let ids: Vec<BrokerId> = (1..=3).map(BrokerId).collect();
        let nodes = Arc::new(ids.iter().enumerate().map(|(i, id)| (*id, ProcessId(i as u32))).collect());
        let rotated = |n: usize| -> Arc<[BrokerId]> { (0..3).map(|i| ids[(n + i) % 3]).collect() };
        let topics: Arc<[TopicSpec]> = Arc::new([TopicSpec {
            topic: TopicId(0),
            assignments: (0..usize::from(PARTITIONS)).map(rotated).collect(),
            min_insync_replicas: Some(2),
            unclean_leader_election_enable: None,
            segment_bytes: 1 << 30,
            max_message_bytes: 1_048_588,
        }]);
        let spec = WorldSpec { seed, fixes: Fixes::ALL, link: Link::default(), hosts: vec![HostSpec::default(); 4] };
        let mut world = World::new(&spec);
        let (mut broker, mut controller, mut times) =
            (BrokerConfig::default(), ControllerConfig::default(), ServiceTimes::default());
        change(&mut broker, &mut controller, &mut times);
        for (i, id) in ids.iter().enumerate() {
            let config = NodeConfig {
                id: *id,
                is_broker: true,
                nodes: Arc::clone(&nodes),
                brokers: ids.clone().into(),
                raft: RaftConfig::new(*id, &ids),
                controller: Arc::new(controller),
                broker: broker.clone(),
                topics: Arc::clone(&topics),
                times,
            };
            world.add(i as u32, ActorConfig::Node(Arc::new(config)));
        }
        let bootstrap: Arc<[Addr]> = (0..3).map(|p| Addr { process: ProcessId(p), port: BROKER }).collect();
        let client = ProducerConfig { linger: Millis(20), ..ProducerConfig::new(Profile::Java, bootstrap) };
        let client = ProducerClientConfig::Java(Box::new(client));
        let config = ProducerAppConfig { number: 0, topic: TopicId(0), client };
        assert_eq!(world.add(3, ActorConfig::Producer(Arc::new(config))), PRODUCER);
        let mut cluster = Self { world, seen: Seen::default(), sent: 0, next_send: 0, sending: false };
        (0..3).for_each(|p| cluster.inject(Fault::Start(ProcessId(p))));
        cluster.until(15_000);
        assert!(cluster.full_isr(), "seed {seed}: not formed");
        cluster.inject(Fault::Start(PRODUCER));
        cluster.next_send = 15_500;
        cluster.sending = true;
        // Faults fall anywhere in the brokers' periods.
        cluster.until(20_000 + (seed as i64 * 379) % 4_000);
        cluster
    }

    pub fn now(&self) -> i64 {
        self.world.now().millis().0
    }
    pub fn inject(&mut self, fault: Fault) {
        self.world.inject(&fault, &mut NoLifecycle, &mut self.seen);
    }
    pub fn kill(&mut self, p: ProcessId) {
        self.inject(Fault::Kill(p, DeadMode::default()));
    }
    pub fn terminate(&mut self, p: ProcessId) {
        self.inject(Fault::Signal(Addr { process: p, port: MAIN }, Signal::Terminate));
    }
    /// Lets the world run to `ms`; a record for every partition is sent every 100 ms.
    pub fn until(&mut self, ms: i64) {
        while self.sending && self.next_send <= ms {
            self.run_to(self.next_send);
            let rows: Vec<Row> = (0..i32::from(PARTITIONS))
                .map(|p| Row {
                    bytes: 100,
                    time: EventTime(self.next_send),
                    key: KeyHash { murmur2: p, crc32: p as u32 }.pack(),
                    ..Row::default()
                })
                .collect();
            self.sent += rows.len() as u32;
            let to = Addr { process: PRODUCER, port: APP };
            self.world.offer(self.world.now(), to, rows.into());
            self.next_send += 100;
        }
        self.run_to(ms);
    }
    fn run_to(&mut self, ms: i64) {
        let at = SimTime::at(Millis(ms));
        while self.world.next_at().is_some_and(|t| t <= at) {
            self.world.turn(&mut NoLifecycle, &mut self.seen);
        }
        self.world.idle_until(at, &mut NoLifecycle);
    }
    pub fn pass(&mut self, ms: i64) {
        self.until(self.now() + ms);
    }

    pub fn node(&self, p: ProcessId) -> &Node {
        self.world.process(p).and_then(Actor::node).expect("is up")
    }
    pub fn controller(&self) -> ProcessId {
        let mut active = (0..3).map(ProcessId).filter(|p| self.world.is_up(*p) && self.node(*p).is_active_controller());
        let found = active.next().expect("one is active");
        assert_eq!(active.next(), None, "one is active");
        found
    }
    pub fn other_than_controller(&self, n: u32) -> ProcessId {
        let active = self.controller();
        ProcessId((active.0 + 1 + n % 2) % 3)
    }
    /// Every node that is up knows that every ISR is whole.
    pub fn full_isr(&self) -> bool {
        (0..3).map(ProcessId).all(|p| {
            let Some(node) = self.world.process(p).and_then(Actor::node) else { return false };
            node.serves() && tps().all(|tp| node.image().partition(tp).is_some_and(|r| r.isr.len() == 3))
        })
    }
    pub fn led_by(&self, p: ProcessId) -> Vec<TopicPartition> {
        let node = self.node(p);
        tps().filter(|tp| node.image().partition(*tp).is_some_and(|r| r.leader == node.id())).collect()
    }

    /// Ends the load, lets everything come to rest and looks whether each record sent is there exactly once.
    pub fn settle_and_check(&mut self, seed: u64) {
        self.sending = false;
        self.pass(45_000);
        assert!(self.full_isr(), "seed {seed}: ISRs are not whole again");
        assert_eq!(self.seen.failed, 0, "seed {seed}: failed sends");
        let acked: u32 = self.seen.acked.iter().map(|(_, _, n)| n).sum();
        assert_eq!(acked, self.sent, "seed {seed}: acknowledged of what was sent");
        for tp in tps() {
            let of: u32 = self.seen.acked.iter().filter(|(_, t, _)| *t == tp).map(|(_, _, n)| n).sum();
            for p in (0..3).map(ProcessId) {
                let log = self.node(p).partitions().get(tp).expect("held").log();
                assert_eq!((log.end().0, log.high_watermark().0), (i64::from(of), i64::from(of)), "seed {seed}: {tp}");
            }
        }
    }

    /// Time from `since` to the first event for which `is` holds.
    pub fn after(&self, since: i64, is: impl Fn(ProcessId, &Event) -> bool) -> Option<i64> {
        self.seen.events.iter().find(|(at, p, e)| *at >= since && is(*p, e)).map(|(at, _, _)| at - since)
    }
    /// Time from `since` until `broker` was fenced.
    pub fn fenced(&self, since: i64, broker: BrokerId) -> Option<i64> {
        self.after(since, |_, e| matches!(e, Event::Fencing { broker: b, fenced: true } if *b == broker))
    }
    /// The longest time without an acknowledgement of a partition from `since` on.
    pub fn longest_gap(&self, since: i64, tp: TopicPartition) -> i64 {
        let times = self.seen.acked.iter().filter(|(at, t, _)| *t == tp && *at >= since).map(|(at, _, _)| *at);
        let (gap, _) = times.fold((0, since), |(gap, last), at| (gap.max(at - last), at));
        gap
    }
}

pub fn tps() -> impl Iterator<Item = TopicPartition> {
    (0..PARTITIONS).map(|p| TopicPartition::new(0, p))
}
pub fn id(p: ProcessId) -> BrokerId {
    BrokerId(p.0 as i32 + 1)
}
