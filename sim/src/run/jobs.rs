//! Flink jobs, as a scenario configures them: their graphs as the JobManager runs them, and the processes.

use super::Stage;
use super::build::{java_consumer, java_producer};
use crate::judge::{Derivation, Into, ResultNode, ResultPlan, ResultSink};
use crate::scenario::data::{Job, JobNode, NodeKind, Scenario, upwards};
use crate::scenario::keys::{Config, Profile};
use crate::world::World;
use model::actor::{Actor, ActorConfig};
use model::base::{Addr, Millis, Nanos, Offset, ProcessId, TopicId};
use model::flink::barrier::{BarrierKind, Mode};
use model::flink::checkpoint::CheckpointConfig;
use model::flink::heartbeat::HeartbeatConfig;
use model::flink::kafka::DeliveryGuarantee;
use model::flink::key_groups::default_max_parallelism;
use model::flink::restart::RestartStrategy;
use model::flink::runtime::graph::{
    Chained, CheckpointStorage, Checkpointing, Exchange, JobEdge, JobGraph, Kind, SinkConfig, SourceConfig,
    UpsertConfig, Vertex,
};
use model::flink::runtime::ids::JobId;
use model::flink::runtime::job_manager::{self, JobManagerConfig, Resume, Submission};
use model::flink::runtime::operator::{Comparison, Condition, OperatorConfig};
use model::flink::runtime::task_manager::TaskManagerConfig;
use model::kafka::client::java_consumer::TopicHashes;
use model::kafka::txn_messages::TransactionalId;
use model::keyed_table::{KeyedTableConfig, SQL};
use model::lake::LakeClientConfig;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The TaskManagers of a cluster that has been up for long are registered when the run begins. Here they start with it: the
/// JobManager waits for them so long.
const REGISTERING: Millis = Millis(5_000);

/// Adds the processes of a Flink cluster to a world: the databases that jobs write, the JobManager, its TaskManagers.
pub(super) fn add(scenario: &Scenario, bootstrap: &Arc<[Addr]>, world: &mut World<Actor>, stage: &mut Stage) {
    let Some(flink) = &scenario.flink else { return };
    for (table, number) in scenario.tables.iter().zip(0..) {
        let config = KeyedTableConfig { number, key: table.key, version: table.version, row: table.row };
        stage.tables.push(world.add(table.machine as u32, ActorConfig::KeyedTable(Arc::new(config))));
        stage.machine.push(table.machine as u32);
    }
    super::stores::add_lakes(scenario, world, stage);
    let c = &flink.config;
    let heartbeat = HeartbeatConfig {
        interval: c.ms("heartbeat.interval"),
        timeout: c.ms("heartbeat.timeout"),
        rpc_failure_threshold: c.int("heartbeat.rpc-failure-threshold") as i32,
    };
    let ask_timeout = c.ms("pekko.ask.timeout");
    let age = Millis((flink.age.0 / 1_000_000) as i64);
    let config = JobManagerConfig {
        jobs: scenario.jobs.iter().map(|job| Arc::new(graph(job, scenario, bootstrap, stage))).collect(),
        heartbeat,
        ask_timeout,
        patient_for: (c.ms("slot.request.timeout") - age).max(REGISTERING),
        high_availability: c.word("high-availability.type") != "NONE",
        submissions: scenario.jobs.iter().map(submission).collect(),
    };
    let manager = world.add(flink.job_manager as u32, ActorConfig::JobManager(Arc::new(config)));
    stage.job_manager = Some(manager);
    stage.machine.push(flink.job_manager as u32);
    let config = Arc::new(TaskManagerConfig {
        slots: c.int("taskmanager.numberOfTaskSlots") as u16,
        job_manager: Addr { process: manager, port: job_manager::RPC },
        heartbeat,
        ask_timeout,
    });
    for machine in &flink.task_managers {
        stage.task_managers.push(world.add(*machine as u32, ActorConfig::TaskManager(Arc::clone(&config))));
        stage.machine.push(*machine as u32);
    }
}

/// For how long nothing may happen after jobs have read everything, until it is sure that they have written everything: a
/// checkpoint that has begun before completes, and the next.
pub(super) fn quiet(scenario: &Scenario) -> Nanos {
    let longest = scenario.jobs.iter().map(|j| j.config.ms("execution.checkpointing.interval")).max();
    let longest = longest.unwrap_or(Millis::ZERO);
    nanos(longest + longest) + Nanos::secs(2)
}

fn submission(job: &Job) -> Submission {
    let state = |savepoint| if savepoint { Resume::Savepoint } else { Resume::Checkpoint };
    Submission {
        at_start: job.starts,
        from: job.resumes.map(|(of, savepoint)| (JobId(of as u16), state(savepoint))),
        retain: job.config.word("execution.checkpointing.externalized-checkpoint-retention")
            == "RETAIN_ON_CANCELLATION",
    }
}

/// The processes of a Flink cluster that a run starts.
pub(super) fn processes(stage: &Stage) -> impl Iterator<Item = ProcessId> + '_ {
    let tables = stage.tables.iter().chain(&stage.lakes).copied();
    tables.chain(stage.job_manager).chain(stage.task_managers.iter().copied())
}

/// Where each node of a job is: its vertex, and its place in the chain. Operators that follow each other without a key and with
/// equal parallelism are one chain (1.2); calls stand behind their function in it, a committer of Iceberg in a vertex of its own.
pub(super) fn layout(job: &Job) -> Vec<(usize, usize)> {
    let mut placed: Vec<(usize, usize)> = Vec::new();
    // Parallelism and length of each chain.
    let mut vertices: Vec<(u16, usize)> = Vec::new();
    for node in &job.nodes {
        let keyed = matches!(node.kind, NodeKind::Operator(_, Some(_)));
        let upstream = node.input.map(|(of, _)| placed[of].0).filter(|_| !keyed);
        let vertex = upstream.filter(|vertex| vertices[*vertex].0 == node.parallelism).unwrap_or_else(|| {
            vertices.push((node.parallelism, 0));
            vertices.len() - 1
        });
        let length = &mut vertices[vertex].1;
        placed.push((vertex, *length));
        *length += 1 + usize::from(node.call.is_some());
        if matches!(node.kind, NodeKind::Lake(_)) {
            vertices.push((1, 1));
        }
    }
    placed
}
/// A job's graph.
fn graph(job: &Job, scenario: &Scenario, bootstrap: &Arc<[Addr]>, stage: &Stage) -> JobGraph {
    let c = &job.config;
    let mut graph = JobGraph {
        vertices: Vec::new(),
        edges: Vec::new(),
        checkpointing: checkpointing(c, job.checkpoints.map(|lake| super::stores::lake_client(lake, stage))),
        restart: restart(c),
        buffer_timeout: nanos(c.ms("execution.buffer-timeout.interval")),
    };
    let most = match c.int("pipeline.max-parallelism") {
        -1 => None,
        most => Some(most as u32),
    };
    let placed = layout(job);
    let shown = shown(scenario, job);
    for (node, at) in job.nodes.iter().zip(0..) {
        let (vertex, place) = placed[at];
        let upstream = node.input.map(|(of, side)| (placed[of], side));
        let above = upstream.filter(|_| place > 0).map(|((_, of), side)| (of, side));
        let kind = kind(job, node, scenario, bootstrap, stage);
        let (after, side) = (above.map(|(of, _)| of), above.is_some_and(|(_, side)| side));
        let chained = Chained { kind, after, side, shown: shown[at], record: node.record };
        if place == 0 {
            let parallelism = node.parallelism;
            let max_parallelism = most.unwrap_or_else(|| default_max_parallelism(u32::from(parallelism)));
            graph.vertices.push(Vertex { parallelism, max_parallelism, chain: Vec::new() });
            if let Some(((from, after), side)) = upstream {
                let exchange = match &node.kind {
                    NodeKind::Operator(_, Some(key)) => Exchange::Hash(*key),
                    _ => Exchange::Rebalance,
                };
                graph.edges.push(JobEdge { from: from as u16, after, side, to: vertex as u16, exchange });
            }
        }
        let chain = &mut graph.vertices[vertex].chain;
        debug_assert_eq!(chain.len(), place);
        chain.push(chained);
        chain.extend(calls(node, place, scenario, stage));
        committer(&mut graph, vertex);
    }
    graph
}
/// Behind a writer of an Iceberg table comes its committer, in a vertex of its own.
fn committer(graph: &mut JobGraph, writers: usize) {
    let Some(Chained { kind: Kind::LakeWriter(config), .. }) = graph.vertices[writers].chain.last() else { return };
    let kind = Kind::LakeCommitter(Arc::clone(config));
    let after = graph.vertices[writers].chain.len() - 1;
    let chained = Chained { kind, after: None, side: false, shown: None, record: Nanos::ZERO };
    graph.vertices.push(Vertex { parallelism: 1, max_parallelism: 1, chain: vec![chained] });
    let to = graph.vertices.len() as u16 - 1;
    graph.edges.push(JobEdge { from: writers as u16, after, side: false, to, exchange: Exchange::Rebalance });
}
/// The calls of an operator, right behind it in its chain.
fn calls(node: &JobNode, after: usize, scenario: &Scenario, stage: &Stage) -> Option<Chained> {
    let call = node.call?;
    let at = Addr { process: stage.tables[call.to], port: SQL };
    let config = UpsertConfig {
        one_by_one: true,
        max_retries: call.retries,
        timeout: call.timeout,
        ..UpsertConfig::new(at, scenario.tables[call.to].key)
    };
    let kind = Kind::Call(Arc::new(config));
    Some(Chained { kind, after: Some(after), side: false, shown: None, record: Nanos::ZERO })
}

/// For each node of a job, under which number the judge sees what it hands on: that of the sink below whose results it makes.
fn shown(scenario: &Scenario, job: &Job) -> Vec<Option<u16>> {
    let sinks = |j: &Job| j.nodes.iter().filter(|n| n.is_sink()).count() as u16;
    let first = scenario.jobs.iter().take_while(|j| j.name != job.name).map(sinks).sum::<u16>();
    let mut shown = vec![None; job.nodes.len()];
    for (node, number) in job.nodes.iter().filter(|n| n.is_sink()).zip(first..) {
        if let Some(at) = stateful_above(job, node) {
            shown[at].get_or_insert(number);
        }
    }
    shown
}
/// The nearest operator with state above a node, by its main output.
fn stateful_above(job: &Job, node: &JobNode) -> Option<usize> {
    let with_state = |at: usize| matches!(job.nodes[at].kind, NodeKind::Operator(_, Some(_)));
    upwards(&job.nodes, node.input).find(|(at, _)| with_state(*at)).and_then(|(at, side)| (!side).then_some(at))
}

fn kind(job: &Job, node: &JobNode, scenario: &Scenario, bootstrap: &Arc<[Addr]>, stage: &Stage) -> Kind {
    match &node.kind {
        NodeKind::Operator(operator, _) => Kind::Operator(operator.clone()),
        NodeKind::Lake(lake) => Kind::LakeWriter(Arc::new(super::stores::lake_sink(job, *lake, scenario, stage))),
        NodeKind::Upsert(table) => {
            let at = Addr { process: stage.tables[*table], port: SQL };
            Kind::Upsert(Arc::new(UpsertConfig::new(at, scenario.tables[*table].key)))
        }
        NodeKind::Source { topics, config, watermarks, until, replays, merge, group } => {
            let partitions = scenario.partitions_of(topics);
            let named =
                topics.iter().map(|topic| Arc::<str>::from(scenario.topics[usize::from(topic.0)].name.as_str()));
            let names: BTreeMap<TopicId, Arc<str>> = topics.iter().copied().zip(named).collect();
            let (network, consumer) = java_consumer(config, topics, scenario, bootstrap);
            let hashes = TopicHashes::of_names(scenario.topics.iter().map(|t| t.name.as_str()));
            let network = model::kafka::client::java::NetworkConfig { hashes: Some(hashes), ..network };
            Kind::Source(Arc::new(SourceConfig {
                partitions: partitions.iter().map(|tp| (*tp, Arc::clone(&names[&tp.topic]))).collect(),
                consumer: Arc::new(consumer),
                network: Box::new(network),
                replays: *replays,
                until: until.as_ref().map(|until| {
                    let ends = until.iter().map(|end| Offset(i64::from(*end)));
                    partitions.iter().copied().zip(ends).collect()
                }),
                commit_on_checkpoint: config.flag("commit.offsets.on.checkpoint"),
                commits: group.and_then(|group| super::members::commits(config, group)).map(Arc::new),
                watermarks: *watermarks,
                merge: *merge,
            }))
        }
        NodeKind::Sink { topic, config, producer, key } => {
            let guarantee = match config.word("sink.delivery-guarantee") {
                "exactly-once" => DeliveryGuarantee::ExactlyOnce,
                "at-least-once" => DeliveryGuarantee::AtLeastOnce,
                _ => DeliveryGuarantee::None,
            };
            let prefix = config.text("sink.transactional-id-prefix");
            let number = scenario.made_up_ids.iter().position(|p| *p == prefix).unwrap_or_default() as u8;
            let mut client = java_producer(Profile::Java34, producer, bootstrap);
            if guarantee == DeliveryGuarantee::ExactlyOnce {
                // Its writer takes the ids that it makes up.
                client.transactional_id = Some(TransactionalId::default());
                client.transaction_timeout = producer.ms("transaction.timeout.ms");
            }
            Kind::Sink(Arc::new(SinkConfig {
                topic: *topic,
                guarantee,
                prefix,
                prefix_number: number,
                committer_retries: config.int("sink.committer.retries") as u32,
                key: *key,
                producer: Box::new(client),
            }))
        }
    }
}

fn checkpointing(c: &Config, objects: Option<LakeClientConfig>) -> Option<Checkpointing> {
    let interval = c.ms("execution.checkpointing.interval");
    if interval == Millis::ZERO {
        return None;
    }
    let config = CheckpointConfig {
        min_pause: c.ms("execution.checkpointing.min-pause"),
        timeout: c.ms("execution.checkpointing.timeout"),
        max_concurrent: c.int("execution.checkpointing.max-concurrent-checkpoints") as usize,
        tolerable: c.int("execution.checkpointing.tolerable-failed-checkpoints") as u32,
        retained: c.int("execution.checkpointing.num-retained") as usize,
        after_finish: c.flag("execution.checkpointing.checkpoints-after-tasks-finish"),
        ..CheckpointConfig::every(interval)
    };
    let storage = objects.map(|client| CheckpointStorage {
        client,
        part: c.int("s3.upload.min.part.size") as u32,
        inline: c.int("execution.checkpointing.data-inline-threshold") as u32,
        incremental: c.flag("execution.checkpointing.incremental"),
    });
    let (mode, barriers) = match c.word("execution.checkpointing.mode") {
        "AT_LEAST_ONCE" => (Mode::AtLeastOnce, BarrierKind::AtLeastOnce),
        _ if c.flag("execution.checkpointing.unaligned.enabled") => {
            let barriers = match c.ms("execution.checkpointing.aligned-checkpoint-timeout") {
                Millis::ZERO => BarrierKind::Unaligned,
                timeout => BarrierKind::Timeoutable(timeout),
            };
            (Mode::Alternating, barriers)
        }
        _ => (Mode::Aligned, BarrierKind::Aligned),
    };
    Some(Checkpointing { config, mode, barriers, storage })
}
fn restart(c: &Config) -> RestartStrategy {
    let key = |strategy: &str, name: &str| format!("restart-strategy.{strategy}.{name}");
    let ms = |strategy: &str, name: &str| c.ms(&key(strategy, name));
    let n = |strategy: &str, name: &str| c.int(&key(strategy, name)) as u32;
    let decimal = |strategy: &str, name: &str| c.int(&key(strategy, name)) as f64 / 1_000.0;
    let strategy = match c.word("restart-strategy.type") {
        "default" if c.int("execution.checkpointing.interval") == 0 => "none",
        "default" => "exponential-delay",
        named => named,
    };
    match strategy {
        "fixed-delay" => {
            RestartStrategy::FixedDelay { attempts: n(strategy, "attempts"), delay: ms(strategy, "delay") }
        }
        "failure-rate" => RestartStrategy::FailureRate {
            max: n(strategy, "max-failures-per-interval"),
            interval: ms(strategy, "failure-rate-interval"),
            delay: ms(strategy, "delay"),
        },
        "exponential-delay" => RestartStrategy::ExponentialDelay {
            initial: ms(strategy, "initial-backoff"),
            max: ms(strategy, "max-backoff"),
            multiplier: decimal(strategy, "backoff-multiplier"),
            reset: ms(strategy, "reset-backoff-threshold"),
            jitter: decimal(strategy, "jitter-factor"),
            attempts: n(strategy, "attempts-before-reset-backoff"),
        },
        _ => RestartStrategy::None,
    }
}

/// The same graphs for the judge: what should come out, if every event were there at once.
pub(super) fn plan(scenario: &Scenario) -> ResultPlan {
    let mut nodes: Vec<ResultNode> = Vec::new();
    let mut sinks = Vec::new();
    // Services that are called: they stand behind the sinks, whose numbers operators are shown under.
    let mut called = Vec::new();
    // The node whose rows a topic holds, where a job writes it.
    let mut writers: Vec<(u16, usize)> = Vec::new();
    for gatekeeper in &scenario.gatekeepers {
        let input = nodes.len();
        nodes.push(ResultNode::Source {
            from: vec![(gatekeeper.consumer.topics[0].0, None)],
            bound: None,
            idles: false,
            until: None,
        });
        for (topic, poison) in [(gatekeeper.valid, 0), (gatekeeper.dead_letters, 1)] {
            // The last of the shoppers' columns.
            let condition = Condition { column: 3, comparison: Comparison::Equal, value: poison };
            writers.push((topic.0, nodes.len()));
            nodes.push(ResultNode::Derived(input, Derivation(OperatorConfig::Filter(condition))));
        }
    }
    for job in &scenario.jobs {
        let first = nodes.len();
        for node in &job.nodes {
            let input = node.input.map(|(at, side)| (first + at, side));
            nodes.push(match (&node.kind, input) {
                (NodeKind::Source { topics, watermarks, until, .. }, _) => {
                    let written = |topic: u16| writers.iter().find(|(t, _)| *t == topic).map(|(_, at)| *at);
                    let from = topics.iter().map(|topic| (topic.0, written(topic.0))).collect();
                    // Event time ends with a bounded source.
                    let bound = watermarks.map(|w| w.strategy.bound());
                    let bound = if until.is_some() { Some(i64::MIN) } else { bound };
                    let idles = watermarks.is_some_and(|w| w.idle_timeout.is_some());
                    ResultNode::Source { from, bound, idles, until: until.clone() }
                }
                // What is late depends on the watermark.
                (NodeKind::Operator(OperatorConfig::LateFilter(_), _), _) => ResultNode::Nothing,
                (NodeKind::Operator(OperatorConfig::LocalWindow(_), _), Some((of, _))) => ResultNode::Same(of),
                (NodeKind::Operator(operator, _), Some((of, false))) => {
                    ResultNode::Derived(of, Derivation(operator.clone()))
                }
                (NodeKind::Sink { .. } | NodeKind::Upsert(_) | NodeKind::Lake(_), Some((of, false))) => {
                    ResultNode::Same(of)
                }
                _ => ResultNode::Nothing,
            });
            let at = nodes.len() - 1;
            if let Some(call) = node.call {
                let name = scenario.tables[call.to].name.clone();
                called.push(ResultSink {
                    name: name.clone(),
                    into: Into::Table(call.to as u16, name),
                    node: at,
                    amount: None,
                    changelog: false,
                });
            }
            let into = match node.kind {
                NodeKind::Sink { topic, .. } => {
                    writers.push((topic.0, at));
                    Some(Into::Topic(topic.0))
                }
                // Among the tables they come behind those with a key.
                NodeKind::Lake(lake) => {
                    let number = (scenario.tables.len() + lake) as u16;
                    Some(Into::Table(number, scenario.lakes[lake].name.clone()))
                }
                NodeKind::Upsert(table) => Some(Into::Table(table as u16, scenario.tables[table].name.clone())),
                _ => None,
            };
            if let Some(into) = into {
                let window = stateful_above(job, node).map(|of| &job.nodes[of]);
                let sums = match window.map(|of| &of.kind) {
                    Some(NodeKind::Operator(OperatorConfig::Window(w), _)) => w.sum.is_some(),
                    Some(NodeKind::Operator(OperatorConfig::SqlWindow(w), _)) => w.sum.is_some(),
                    // A changelog holds a sum or a count.
                    Some(NodeKind::Operator(OperatorConfig::GroupWindow(_), _)) => true,
                    _ => false,
                };
                sinks.push(ResultSink {
                    name: node.name.clone(),
                    into,
                    node: at,
                    amount: sums.then_some(2),
                    changelog: window.is_some_and(super::aggregates::is_changelog),
                });
            }
        }
    }
    sinks.append(&mut called);
    let aggregates = super::aggregates::plans(scenario, &mut nodes);
    let readings = scenario.readers.iter().map(|r| r.reads).collect();
    ResultPlan { nodes, sinks, aggregates, readings }
}

const fn nanos(ms: Millis) -> Nanos {
    Nanos::millis(ms.0 as u64)
}
