//! A Flink cluster beside a Kafka cluster, with a job that a test makes.

use model::actor::{Actor, ActorConfig};
use model::base::{
    Addr, BatchKind, JobAct, Millis, Nanos, ProcessId, ProducerId, Row, Signal, SimTime, TopicId, TopicPartition,
};
use model::flink::barrier::{BarrierKind, Mode};
use model::flink::checkpoint::CheckpointConfig;
use model::flink::kafka::DeliveryGuarantee;
use model::flink::restart::RestartStrategy;
use model::flink::runtime::graph::{
    Chained, Checkpointing, Exchange, JobEdge, JobGraph, KeyColumn, Kind, SinkConfig, SourceConfig, Vertex, Watermarks,
};
use model::flink::runtime::ids::JobId;
use model::flink::runtime::job_manager::{self, JobManagerConfig, JobMaster};
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
use std::collections::BTreeMap;
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

/// Reads all of `events`.
pub fn source(bootstrap: &Arc<[Addr]>, watermarks: Option<Watermarks>) -> Kind {
    let partitions = (0..6).map(|p| (TopicPartition::new(0, p), Arc::from("events"))).collect();
    let consumer = ConsumerConfig { auto_offset_reset: AutoOffsetReset::Earliest, ..ConsumerConfig::default() };
    let network = Box::new(NetworkConfig::new(Arc::clone(bootstrap)));
    Kind::Source(Arc::new(SourceConfig {
        partitions,
        consumer: Arc::new(consumer),
        network,
        commits: None,
        commit_on_checkpoint: false,
        replays: true,
        until: None,
        watermarks,
        merge: None,
    }))
}
/// Writes `clean`.
pub fn sink(bootstrap: &Arc<[Addr]>, guarantee: DeliveryGuarantee, timeout: Millis) -> SinkConfig {
    let mut producer = ProducerConfig::new(Profile::Java34, Arc::clone(bootstrap));
    if guarantee == DeliveryGuarantee::ExactlyOnce {
        // Its writer takes the ids that it makes up.
        producer.transactional_id = Some(TransactionalId::default());
        producer.transaction_timeout = timeout;
    }
    SinkConfig {
        topic: TopicId(1),
        guarantee,
        prefix: "clean".into(),
        prefix_number: 0,
        committer_retries: 10,
        key: None,
        producer: Box::new(producer),
    }
}
/// An operator of a chain.
pub fn chained(kind: Kind, after: Option<usize>) -> Chained {
    Chained { kind, after, side: false, shown: None, record: Nanos::micros(5) }
}
/// Two vertices, the second behind the last operator of the first, keyed.
pub fn graph(first: Vec<Chained>, key: KeyColumn, second: Vec<Chained>, parallelism: u16) -> JobGraph {
    let vertex = |chain| Vertex { parallelism, max_parallelism: 128, chain };
    let edge = JobEdge { from: 0, after: first.len() - 1, side: false, to: 1, exchange: Exchange::Hash(key) };
    JobGraph {
        vertices: vec![vertex(first), vertex(second)],
        edges: vec![edge],
        checkpointing: Some(Checkpointing {
            config: CheckpointConfig::every(Millis::secs(5)),
            mode: Mode::Aligned,
            barriers: BarrierKind::Aligned,
            storage: None,
        }),
        restart: RestartStrategy::EXPONENTIAL,
        buffer_timeout: Nanos::millis(100),
    }
}

/// Both clusters.
pub struct Cluster {
    /// The run that holds them.
    pub run: Run,
    /// Its process.
    pub job_manager: ProcessId,
    /// Their processes.
    pub task_managers: Vec<ProcessId>,
}
impl Cluster {
    /// A cluster that runs the job that is made for these brokers.
    pub fn new(job: impl Fn(&Arc<[Addr]>) -> JobGraph) -> Self {
        Self::with(&[], job)
    }
    /// The same with these keys of the scenario set.
    pub fn with(set: &[String], job: impl Fn(&Arc<[Addr]>) -> JobGraph) -> Self {
        Self::managed(set, |bootstrap| JobManagerConfig::new(vec![Arc::new(job(bootstrap))]))
    }
    /// The same with a JobManager that is made for these brokers.
    pub fn managed(set: &[String], config: impl Fn(&Arc<[Addr]>) -> JobManagerConfig) -> Self {
        let mut cluster = Self::empty(set);
        cluster.manage(config);
        cluster
    }
    /// A Kafka cluster alone.
    pub fn empty(set: &[String]) -> Self {
        let loaded = load_text("flink-test.toml", SCENARIO.as_bytes(), set).unwrap_or_else(|p| panic!("{p:?}"));
        let mut scenario = loaded.scenario;
        scenario.made_up_ids = vec!["clean".into(), "late".into()];
        let run = Run::new(&Arc::new(scenario), 42).expect("no file");
        Self { run, job_manager: ProcessId(u32::MAX), task_managers: Vec::new() }
    }
    /// Adds Flink's processes.
    pub fn manage(&mut self, config: impl Fn(&Arc<[Addr]>) -> JobManagerConfig) {
        let nodes = self.run.stage.nodes.values();
        let bootstrap: Arc<[Addr]> = nodes.map(|p| Addr { process: *p, port: BROKER }).collect();
        let config = config(&bootstrap);
        let heartbeat = config.heartbeat;
        self.job_manager = self.run.world.add(0, ActorConfig::JobManager(Arc::new(config)));
        let config = Arc::new(TaskManagerConfig {
            slots: 1,
            job_manager: Addr { process: self.job_manager, port: job_manager::RPC },
            heartbeat,
            ask_timeout: Millis::secs(10),
        });
        let add = |host| self.run.world.add(host, ActorConfig::TaskManager(Arc::clone(&config)));
        self.task_managers = [1, 2].map(add).into();
    }
    /// Forms the Kafka cluster.
    pub fn begin(&mut self) {
        while self.run.origin == SimTime::ZERO && self.run.turn(&mut NoLifecycle) {}
    }
    /// Starts Flink.
    pub fn start_flink(&mut self) {
        for process in std::iter::once(self.job_manager).chain(self.task_managers.clone()) {
            self.inject(&Fault::Start(process));
        }
    }
    /// Forms the Kafka cluster, then starts Flink.
    pub fn start(&mut self) {
        self.begin();
        self.start_flink();
    }
    /// Runs up to an instant.
    pub fn until(&mut self, at: SimTime) {
        while self.run.world.now() < at && self.run.turn(&mut NoLifecycle) {}
    }
    /// The job's master.
    pub fn job(&self) -> &JobMaster {
        self.job_of(0)
    }
    /// A job's master.
    pub fn job_of(&self, number: u16) -> &JobMaster {
        let manager = self.run.world.process(self.job_manager).and_then(Actor::job_manager);
        manager.and_then(|m| m.job(JobId(number))).expect("the job")
    }
    /// Acts on a job.
    pub fn act(&mut self, job: u16, act: JobAct) {
        let to = Addr { process: self.job_manager, port: job_manager::RPC };
        self.inject(&Fault::Signal(to, Signal::Job(job, act)));
    }
    /// Runs so many seconds past the scenario's time zero.
    pub fn secs(&mut self, secs: u64) {
        self.until(self.run.origin + Nanos::secs(secs));
    }
    /// Kills a process now and starts it again so many seconds past the scenario's time zero.
    pub fn kill_until(&mut self, process: ProcessId, secs: u64) {
        self.inject(&Fault::Kill(process, DeadMode::default()));
        self.secs(secs);
        self.inject(&Fault::Start(process));
    }
    /// Makes a fault.
    pub fn inject(&mut self, fault: &Fault) {
        self.run.world.inject(fault, &mut NoLifecycle, &mut self.run.seen);
    }
    /// Runs to the end.
    pub fn rest(&mut self) {
        while self.run.turn(&mut NoLifecycle) {}
    }
    /// Records that the reader of the output was given, and different events among them.
    pub fn read(&self) -> (u64, u64) {
        let times = self.run.seen.judge.layer.given(1);
        (times.clone().sum(), times.filter(|n| *n > 0).count() as u64)
    }
    /// Events that are to come out.
    pub fn wanted(&self) -> u64 {
        let ledger = &self.run.seen.judge.ledger;
        u64::from(ledger.len()) - ledger.count(Sent::POISON)
    }
    /// How often an event has occurred.
    pub fn events(&mut self, name: &str) -> u64 {
        self.run.seen.judge.coverage.settle();
        self.run.seen.judge.coverage.events.get(name).copied().unwrap_or(0)
    }
    /// How far the job's sources are, over all TaskManagers.
    pub fn position(&self) -> i64 {
        let managers = self.task_managers.iter().filter_map(|p| self.run.world.process(*p)?.task_manager());
        managers.map(|m| m.position(JobId(0))).sum()
    }
    /// The committed rows of a topic, partition after partition.
    pub fn committed(&self, topic: u16) -> Vec<Row> {
        let mut rows = Vec::new();
        for partition in 0..6 {
            let tp = TopicPartition::new(topic, partition);
            let nodes = self.run.stage.nodes.values().filter_map(|p| self.run.world.process(*p).and_then(Actor::node));
            let leader = nodes.filter_map(|n| n.partitions().get(tp)).find(|p| p.is_leader()).expect("a leader");
            let log = leader.log();
            let mut open: BTreeMap<ProducerId, Vec<Row>> = BTreeMap::new();
            for entry in log.entries_from(log.start()).filter(|e| e.last() < log.high_watermark()) {
                let batch = &entry.batch;
                match batch.kind {
                    BatchKind::Plain => rows.extend_from_slice(&batch.rows),
                    BatchKind::Transactional => {
                        open.entry(batch.producer.id).or_default().extend_from_slice(&batch.rows)
                    }
                    BatchKind::Control(marker) => {
                        let ended = open.remove(&batch.producer.id).unwrap_or_default();
                        rows.extend(ended.into_iter().filter(|_| marker.commit));
                    }
                }
            }
        }
        rows
    }
}
