//! A Flink cluster beside a Kafka cluster in one world.
#![allow(missing_docs, reason = "not a library")]

use model::actor::{Actor, ActorConfig};
use model::base::{Addr, Millis, Nanos, ProcessId, SimTime, TopicId, TopicPartition};
use model::flink::barrier::{BarrierKind, Mode};
use model::flink::checkpoint::{CheckpointConfig, CheckpointId};
use model::flink::heartbeat::HeartbeatConfig;
use model::flink::kafka::DeliveryGuarantee;
use model::flink::restart::RestartStrategy;
use model::flink::runtime::graph::{
    Chained, Checkpointing, Exchange, JobEdge, JobGraph, KeyColumn, Kind, SinkConfig, SourceConfig, Vertex,
};
use model::flink::runtime::ids::JobId;
use model::flink::runtime::job_manager::{self, JobManagerConfig, JobMaster, JobState};
use model::flink::runtime::operator::{Comparison, Condition, OperatorConfig};
use model::flink::runtime::task_manager::TaskManagerConfig;
use model::kafka::broker::node::config::BROKER;
use model::kafka::client::java::{NetworkConfig, ProducerConfig, Profile};
use model::kafka::client::java_consumer::{AutoOffsetReset, ConsumerConfig};
use model::kafka::txn_messages::TransactionalId;
use sim::host::Drive;
use sim::judge::Sent;
use sim::run::Run;
use sim::scenario::load_text;
use sim::world::{DeadMode, Fault, NoLifecycle};
use std::sync::Arc;

const SCENARIO: &str = r#"
description = "Events, filtered into another topic"
extends = "kafka/steady"
without = ["expectations", "change"]
[[topics]]
name = "clean"
partitions = 6
[workload]
duration = "40 s"
[[readers]]
name = "clean-reader"
topics = ["clean"]
config.isolation.level = "read_committed"
"#;

fn graph(bootstrap: &Arc<[Addr]>, parallelism: u16, guarantee: DeliveryGuarantee) -> JobGraph {
    let partitions = (0..6).map(|p| (TopicPartition::new(0, p), Arc::from("events"))).collect();
    let consumer = ConsumerConfig { auto_offset_reset: AutoOffsetReset::Earliest, ..ConsumerConfig::default() };
    let network = NetworkConfig::new(Arc::clone(bootstrap));
    let source =
        SourceConfig { partitions, consumer: Arc::new(consumer), network: Box::new(network), watermarks: None };
    let mut producer = ProducerConfig::new(Profile::Java34, Arc::clone(bootstrap));
    if guarantee == DeliveryGuarantee::ExactlyOnce {
        // Its writer takes the ids that it makes up.
        producer.transactional_id = Some(TransactionalId::default());
        producer.transaction_timeout = Millis::secs(600);
    }
    let sink = SinkConfig {
        topic: TopicId(1),
        guarantee,
        prefix: "clean".into(),
        prefix_number: 0,
        committer_retries: 10,
        producer: Box::new(producer),
    };
    let filter = OperatorConfig::Filter(Condition { column: 3, comparison: Comparison::Equal, value: 0 });
    let chained = |kind, after| Chained { kind, after, side: false, shown: None, record: Nanos::micros(5) };
    let vertex = |chain| Vertex { parallelism, max_parallelism: 128, chain };
    JobGraph {
        vertices: vec![
            vertex(vec![chained(Kind::Source(Arc::new(source)), None), chained(Kind::Operator(filter), Some(0))]),
            vertex(vec![chained(Kind::Sink(Arc::new(sink)), None)]),
        ],
        edges: vec![JobEdge { from: 0, after: 1, side: false, to: 1, exchange: Exchange::Hash(KeyColumn::Long(0)) }],
        checkpointing: Some(Checkpointing {
            config: CheckpointConfig::every(Millis::secs(5)),
            mode: Mode::Aligned,
            barriers: BarrierKind::Aligned,
        }),
        restart: RestartStrategy::EXPONENTIAL,
        buffer_timeout: Nanos::millis(100),
    }
}

struct Cluster {
    run: Run,
    job_manager: ProcessId,
    task_managers: Vec<ProcessId>,
}
impl Cluster {
    fn new(parallelism: u16, guarantee: DeliveryGuarantee) -> Self {
        let loaded = load_text("flink-test.toml", SCENARIO.as_bytes(), &[]).unwrap_or_else(|p| panic!("{p:?}"));
        let mut scenario = loaded.scenario;
        scenario.made_up_ids = vec!["clean".into()];
        let mut run = Run::new(&Arc::new(scenario), 42).expect("no file");
        let bootstrap: Arc<[Addr]> = run.stage.nodes.values().map(|p| Addr { process: *p, port: BROKER }).collect();
        let config = JobManagerConfig {
            jobs: vec![Arc::new(graph(&bootstrap, parallelism, guarantee))],
            heartbeat: HeartbeatConfig::default(),
            ask_timeout: Millis::secs(10),
            patient_for: Millis::secs(300),
        };
        let job_manager = run.world.add(0, ActorConfig::JobManager(Arc::new(config)));
        let config = TaskManagerConfig {
            slots: 1,
            job_manager: Addr { process: job_manager, port: job_manager::RPC },
            heartbeat: HeartbeatConfig::default(),
            ask_timeout: Millis::secs(10),
        };
        let config = Arc::new(config);
        let add = |run: &mut Run, host| run.world.add(host, ActorConfig::TaskManager(Arc::clone(&config)));
        let task_managers = vec![add(&mut run, 1), add(&mut run, 2)];
        Self { run, job_manager, task_managers }
    }
    fn until(&mut self, at: SimTime) {
        while self.run.world.now() < at && self.run.turn(&mut NoLifecycle) {}
    }
    fn start(&mut self) {
        while self.run.origin == SimTime::ZERO && self.run.turn(&mut NoLifecycle) {}
        for process in std::iter::once(self.job_manager).chain(self.task_managers.clone()) {
            self.run.world.inject(&Fault::Start(process), &mut NoLifecycle, &mut self.run.seen);
        }
    }
    fn job(&self) -> &JobMaster {
        let manager = self.run.world.process(self.job_manager).and_then(Actor::job_manager);
        manager.and_then(|m| m.job(JobId(0))).expect("the job")
    }
    fn inject(&mut self, fault: &Fault) {
        self.run.world.inject(fault, &mut NoLifecycle, &mut self.run.seen);
    }
    fn rest(&mut self) {
        while self.run.turn(&mut NoLifecycle) {}
    }
    /// Records that the reader of the output was given, and different events among them.
    fn read(&self) -> (u64, u64) {
        let times = self.run.seen.judge.layer.given(1);
        (times.clone().sum(), times.filter(|n| *n > 0).count() as u64)
    }
    /// Events that are to come out.
    fn wanted(&self) -> u64 {
        let ledger = &self.run.seen.judge.ledger;
        u64::from(ledger.len()) - ledger.count(Sent::POISON)
    }
}

use DeliveryGuarantee::{AtLeastOnce, ExactlyOnce, None as NoGuarantee};

#[test]
fn a_job_copies_what_passes_its_filter() {
    for (parallelism, guarantee) in [(1, AtLeastOnce), (2, NoGuarantee), (2, ExactlyOnce)] {
        let mut cluster = Cluster::new(parallelism, guarantee);
        cluster.start();
        cluster.rest();
        assert_eq!(cluster.read(), (cluster.wanted(), cluster.wanted()), "{guarantee:?}");
        assert_eq!(cluster.job().state(), JobState::Running);
        assert!(cluster.job().completed >= Some(CheckpointId(5)), "{:?}", cluster.job().completed);
        assert_eq!(cluster.job().restarted, 0);
    }
}

#[test]
fn a_killed_task_manager_costs_duplicates_or_nothing() {
    for guarantee in [AtLeastOnce, ExactlyOnce] {
        let mut cluster = Cluster::new(2, guarantee);
        cluster.start();
        let (origin, victim) = (cluster.run.origin, cluster.task_managers[0]);
        cluster.until(origin + Nanos::secs(12));
        cluster.inject(&Fault::Kill(victim, DeadMode::default()));
        cluster.until(origin + Nanos::secs(14));
        cluster.inject(&Fault::Start(victim));
        cluster.rest();
        let (all, different) = cluster.read();
        let job = cluster.job();
        assert!(job.restarted >= 1);
        assert_eq!(different, cluster.wanted(), "{guarantee:?}: nothing is lost");
        match guarantee {
            ExactlyOnce => assert_eq!(all, different, "nothing comes twice"),
            _ => assert!(all > different, "what was replayed comes twice"),
        }
    }
}
