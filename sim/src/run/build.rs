//! From a scenario to a world: processes, machines, the network, and what the judge has to know of them.

use super::Stage;
use super::internal::{Internal, producers, transactional_ids};
use crate::judge::{Cast, Derived, ReaderInfo, ResultPlan, TopicInfo};
use crate::scenario::data::{Application, NodeKind, Reader, Scenario};
use crate::scenario::keys::{Config, Profile, Setting};
use crate::world::{HostSpec, Link, World, WorldSpec};
use model::actor::{Actor, ActorConfig};
use model::app::{
    Batching, ProducerAppConfig, ProducerClientConfig, RdPartitioner, ReaderAppConfig, ReaderClientConfig,
    TransactionalClient,
};
use model::base::{Addr, BrokerId, Fixes, Millis, Nanos, ProcessId, TopicId};
use model::kafka::broker::FetcherConfig;
use model::kafka::broker::node::config::{BROKER, BrokerConfig, NodeConfig, ServiceTimes, TopicSpec};
use model::kafka::client::java::{NetworkConfig, ProducerConfig, Profile as JavaProfile, Sleep};
use model::kafka::client::java_consumer::{AutoOffsetReset, ConsumerConfig, TopicHashes};
use model::kafka::client::rdkafka::RdConfig;
use model::kafka::client::rdkafka_consumer::RdConsumerConfig;
use model::kafka::controller::ControllerConfig;
use model::kafka::coordinator::transaction::TransactionConfig;
use model::kafka::log::LogConfig;
use model::kafka::messages::OffsetSpec;
use model::kafka::quorum::RaftConfig;
use model::kafka::txn_messages::TransactionalId;
use std::sync::Arc;

/// A scenario on its stage, not yet begun.
#[derive(Clone, Debug)]
pub struct Built {
    /// The world, with every process added and none started.
    pub world: World<Actor>,
    /// Who is which process.
    pub stage: Stage,
    /// The same for the judge.
    pub cast: Cast,
    /// Topics for the judge.
    pub topics: Vec<TopicInfo>,
    /// What jobs make of them.
    pub plan: ResultPlan,
}

/// Builds the world of a scenario.
pub fn build(scenario: &Scenario, seed: u64) -> Built {
    let spec = WorldSpec { seed, fixes: scenario.fixes, link: link(scenario), hosts: hosts(scenario) };
    let mut world = World::new(&spec);
    let mut stage = Stage::default();
    for node in &scenario.cluster.nodes {
        stage.nodes.insert(node.id, ProcessId(stage.machine.len() as u32));
        stage.machine.push(node.machine as u32);
    }
    let mut cast = Cast {
        brokers: stage.nodes.iter().map(|(id, p)| (*p, *id)).collect(),
        elr: scenario.cluster.features.int("eligible.leader.replicas.version") > 0,
        sinks_in_transactions: scenario.jobs.iter().flat_map(|job| &job.nodes).any(|node| {
            matches!(&node.kind, NodeKind::Sink { config, .. } if config.word("sink.delivery-guarantee") == "exactly-once")
        }),
        ..Cast::default()
    };
    let nodes = Arc::new(stage.nodes.clone());
    let brokers: Arc<[BrokerId]> = stage.nodes.keys().copied().collect();
    let internal = Internal::of(scenario);
    let topics: Arc<[TopicSpec]> = scenario.topics.iter().map(topic_spec).chain(internal.specs(scenario)).collect();
    for node in &scenario.cluster.nodes {
        let config = NodeConfig {
            id: node.id,
            is_broker: true,
            nodes: Arc::clone(&nodes),
            brokers: Arc::clone(&brokers),
            raft: raft(node.id, &brokers, &node.config),
            controller: Arc::new(controller(&node.config, &scenario.cluster.features)),
            broker: internal.enter(broker(&node.config), scenario, &node.config),
            topics: Arc::clone(&topics),
            times: times(scenario),
        };
        world.add(node.machine as u32, ActorConfig::Node(Arc::new(config)));
    }
    let bootstrap: Arc<[Addr]> = stage.nodes.values().map(|p| Addr { process: *p, port: BROKER }).collect();
    cast.producers = producers(scenario);
    let ids = transactional_ids(scenario);
    cast.ids = ids.iter().map(|id| id.0).collect();
    for app in &scenario.applications {
        let mut instances = Vec::new();
        for machine in &app.instances {
            let number = cast.idempotent.len() as u16;
            cast.idempotent.push(idempotent(app));
            cast.acks.push(acks(&app.config));
            let speaks = match app.profile {
                Profile::Java => scenario.cluster.features.int("transaction.version") as u8,
                Profile::Java34 | Profile::Librdkafka => 1,
            };
            cast.transaction_versions.push(app.transaction.as_ref().map(|_| speaks));
            cast.commit_every.push(app.transaction.as_ref().map_or(Nanos::ZERO, |t| t.every));
            let partitions = scenario.topics[usize::from(app.topic.0)].assignment.len() as u16;
            let id = ids[usize::from(number)];
            let client = producer_client(app, id, partitions, &bootstrap, &scenario.cluster.features);
            let config = ProducerAppConfig { number, topic: app.topic, client };
            let process = world.add(*machine as u32, ActorConfig::Producer(Arc::new(config)));
            cast.senders.insert(process, number);
            instances.push(process);
            stage.machine.push(*machine as u32);
        }
        stage.applications.push(instances);
    }
    for (number, reader) in scenario.readers.iter().enumerate() {
        cast.readers.push(ReaderInfo {
            name: reader.name.clone(),
            committed: reader.config.word("isolation.level") == "read_committed",
            topics: reader.topics.iter().map(|t| t.0).collect(),
            group: reader.group,
        });
        let mut instances = Vec::new();
        for (instance, machine) in reader.instances.iter().enumerate() {
            let config = reader_config(reader, number as u16, instance, scenario, &bootstrap);
            instances.push(world.add(*machine as u32, ActorConfig::Reader(Arc::new(config))));
            stage.machine.push(*machine as u32);
        }
        stage.readers.push(instances);
    }
    super::gatekeepers::add(scenario, &bootstrap, &mut world, &mut stage, &mut cast);
    super::jobs::add(scenario, &bootstrap, &mut world, &mut stage);
    super::stores::add(scenario, &bootstrap, &mut world, &mut stage);
    let mut topics: Vec<TopicInfo> = scenario.topics.iter().map(topic_info).chain(internal.infos(scenario)).collect();
    for gatekeeper in &scenario.gatekeepers {
        let from = gatekeeper.consumer.topics[0].0;
        for (topic, poison) in [(gatekeeper.valid, false), (gatekeeper.dead_letters, true)] {
            topics[usize::from(topic.0)].derived = Some(Derived { from, poison });
        }
    }
    let plan = super::jobs::plan(scenario);
    plan.sinks.iter().filter_map(|sink| sink.topic()).for_each(|topic| topics[usize::from(topic)].results = true);
    Built { world, stage, cast, topics, plan }
}

fn hosts(scenario: &Scenario) -> Vec<HostSpec> {
    let spec = |m: &crate::scenario::data::Machine| HostSpec {
        cores: u32::from(m.cores),
        flush: m.disk_flush,
        bytes_per_second: m.disk_bandwidth,
    };
    scenario.machines.iter().map(spec).collect()
}
fn link(scenario: &Scenario) -> Link {
    let latency = scenario.network.latency;
    Link {
        latency: latency.low,
        jitter: Nanos(latency.high.0.saturating_sub(latency.low.0)),
        bytes_per_second: scenario.network.bandwidth,
        loss_ppm: 0,
    }
}
fn times(scenario: &Scenario) -> ServiceTimes {
    let c = &scenario.costs;
    ServiceTimes {
        request: c.request,
        record: c.record,
        apply_delay: (c.apply_metadata.low, c.apply_metadata.high),
        start: (c.start.low, c.start.high),
        load_partition: c.load_log,
        recover_partition: c.recover_log,
        ..ServiceTimes::default()
    }
}

fn raft(id: BrokerId, voters: &[BrokerId], c: &Config) -> RaftConfig {
    RaftConfig {
        fetch_timeout: c.ms("controller.quorum.fetch.timeout.ms"),
        election_timeout: c.ms("controller.quorum.election.timeout.ms"),
        election_backoff_max: c.ms("controller.quorum.election.backoff.max.ms"),
        request_timeout: c.ms("controller.quorum.request.timeout.ms"),
        retry_backoff: c.ms("controller.quorum.retry.backoff.ms"),
        append_linger: c.ms("controller.quorum.append.linger.ms"),
        ..RaftConfig::new(id, voters)
    }
}
fn controller(c: &Config, features: &Config) -> ControllerConfig {
    ControllerConfig {
        broker_session_timeout: c.ms("broker.session.timeout.ms"),
        auto_leader_rebalance_enable: c.flag("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval: Millis::secs(c.int("leader.imbalance.check.interval.seconds")),
        unclean_leader_election_enable: c.flag("unclean.leader.election.enable"),
        unclean_leader_election_interval: c.ms("unclean.leader.election.interval.ms"),
        min_insync_replicas: c.int("min.insync.replicas") as u16,
        eligible_leader_replicas: features.int("eligible.leader.replicas.version") > 0,
        ..ControllerConfig::default()
    }
}
fn broker(c: &Config) -> BrokerConfig {
    BrokerConfig {
        replica_lag_time_max: c.ms("replica.lag.time.max.ms"),
        high_watermark_checkpoint_interval: c.ms("replica.high.watermark.checkpoint.interval.ms"),
        producer_expiration_check_interval: c.ms("producer.id.expiration.check.interval.ms"),
        heartbeat_interval: c.ms("broker.heartbeat.interval.ms"),
        session_timeout: c.ms("broker.session.timeout.ms"),
        initial_registration_timeout: c.ms("initial.broker.registration.timeout.ms"),
        min_insync_replicas: c.int("min.insync.replicas") as u16,
        fetcher: FetcherConfig {
            wait_max: c.ms("replica.fetch.wait.max.ms"),
            min_bytes: c.int("replica.fetch.min.bytes") as u32,
            max_bytes: c.int("replica.fetch.max.bytes") as u32,
            response_max_bytes: c.int("replica.fetch.response.max.bytes") as u32,
            backoff: c.ms("replica.fetch.backoff.ms"),
            socket_timeout: c.ms("replica.socket.timeout.ms"),
            ..FetcherConfig::default()
        },
        log: LogConfig {
            segment_bytes: c.int("log.segment.bytes") as u32,
            max_message_bytes: c.int("message.max.bytes") as u32,
            producer_expiration: c.ms("producer.id.expiration.ms"),
            max_transaction_timeout: c.ms("transaction.max.timeout.ms"),
            transaction_verification: c.flag("transaction.partition.verification.enable"),
        },
        transactions: TransactionConfig {
            state_log_num_partitions: c.int("transaction.state.log.num.partitions") as u16,
            max_timeout: c.ms("transaction.max.timeout.ms"),
            transactional_id_expiration: c.ms("transactional.id.expiration.ms"),
            abort_timed_out_interval: c.ms("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            remove_expired_interval: c.ms("transaction.remove.expired.transaction.cleanup.interval.ms"),
            ..TransactionConfig::default()
        },
        ..BrokerConfig::default()
    }
}
fn topic_spec(topic: &crate::scenario::data::Topic) -> TopicSpec {
    let c = &topic.config;
    TopicSpec {
        topic: topic.id,
        assignments: topic.assignment.iter().map(|a| a.clone().into()).collect(),
        min_insync_replicas: Some(c.int("min.insync.replicas") as u16),
        unclean_leader_election_enable: Some(c.flag("unclean.leader.election.enable")),
        segment_bytes: c.int("segment.bytes") as u32,
        max_message_bytes: c.int("max.message.bytes") as u32,
    }
}
fn topic_info(topic: &crate::scenario::data::Topic) -> TopicInfo {
    TopicInfo {
        name: topic.name.clone(),
        partitions: topic.assignment.len() as u16,
        replication_factor: topic.assignment.first().map_or(1, Vec::len) as u16,
        min_isr: topic.config.int("min.insync.replicas") as u16,
        unclean: topic.config.flag("unclean.leader.election.enable"),
        events: true,
        derived: None,
        results: false,
    }
}

const fn java(profile: Profile) -> JavaProfile {
    match profile {
        Profile::Java34 => JavaProfile::Java34,
        Profile::Java | Profile::Librdkafka => JavaProfile::Java,
    }
}
/// Whether the producer is meant to be idempotent: as set, or by the default of its version, cleared fixes or not.
fn idempotent(app: &Application) -> bool {
    let c = &app.config;
    if app.transaction.is_some() {
        return true;
    }
    if app.profile == Profile::Librdkafka || c.is_set("enable.idempotence") {
        return c.flag("enable.idempotence");
    }
    java_producer(app.profile, c, &Arc::from([])).idempotent(Fixes::ALL)
}
/// The value of a key that one version of a client may lack.
fn ms_or(c: &Config, name: &str, other: Millis) -> Millis {
    if c.has(name) { c.ms(name) } else { other }
}
fn acks(c: &Config) -> i8 {
    match c.word("acks") {
        "0" => 0,
        "1" => 1,
        _ => -1,
    }
}
pub(super) fn java_producer(profile: Profile, c: &Config, bootstrap: &Arc<[Addr]>) -> ProducerConfig {
    let set = |name: &str| c.is_set(name).then(|| c.get(name));
    let number = |name: &str| match set(name) {
        Some(Setting::Int(n)) => Some(n),
        _ => None,
    };
    let defaults = ProducerConfig::new(java(profile), Arc::clone(bootstrap));
    ProducerConfig {
        acks: set("acks").map(|_| acks(c)),
        enable_idempotence: set("enable.idempotence").map(|_| c.flag("enable.idempotence")),
        max_in_flight: number("max.in.flight.requests.per.connection").map(|n| n.min(i64::from(u16::MAX)) as u16),
        retries: number("retries").map(|n| n as u32),
        batch_size: c.int("batch.size") as u32,
        linger: c.ms("linger.ms"),
        buffer_memory: c.int("buffer.memory") as u64,
        max_request_size: c.int("max.request.size") as u32,
        max_block: c.ms("max.block.ms"),
        delivery_timeout: c.ms("delivery.timeout.ms"),
        request_timeout: c.ms("request.timeout.ms"),
        retry_backoff: c.ms("retry.backoff.ms"),
        retry_backoff_max: ms_or(c, "retry.backoff.max.ms", defaults.retry_backoff_max),
        reconnect_backoff: c.ms("reconnect.backoff.ms"),
        reconnect_backoff_max: c.ms("reconnect.backoff.max.ms"),
        setup_timeout: c.ms("socket.connection.setup.timeout.ms"),
        setup_timeout_max: c.ms("socket.connection.setup.timeout.max.ms"),
        metadata_max_age: c.ms("metadata.max.age.ms"),
        rebootstrap: c.has("metadata.recovery.strategy") && c.word("metadata.recovery.strategy") == "rebootstrap",
        rebootstrap_trigger: ms_or(c, "metadata.recovery.rebootstrap.trigger.ms", defaults.rebootstrap_trigger),
        ..defaults
    }
}
/// Settings of a librdkafka instance: those that the scenario sets, by its own reading of its keys.
pub(super) fn rd_instance(c: &Config) -> RdConfig {
    let mut config = RdConfig::default();
    for (name, setting, set) in c.iter() {
        // A key of librdkafka that the instance does not act on (the partitioner, the consumer's) is read elsewhere.
        if set {
            let _ = config.set(name, &setting.to_string());
        }
    }
    config
}
pub(super) fn partitioner(c: &Config) -> RdPartitioner {
    match c.word("partitioner") {
        "consistent" => RdPartitioner::Consistent,
        "random" => RdPartitioner::Random,
        "murmur2" => RdPartitioner::Murmur2,
        "murmur2_random" => RdPartitioner::Murmur2Random,
        _ => RdPartitioner::ConsistentRandom,
    }
}
fn producer_client(
    app: &Application,
    id: TransactionalId,
    partitions: u16,
    bootstrap: &Arc<[Addr]>,
    features: &Config,
) -> ProducerClientConfig {
    if let Some(t) = &app.transaction {
        let client = match app.profile {
            Profile::Librdkafka => TransactionalClient::Librdkafka {
                config: Box::new(rd_instance(&app.config).in_transactions(id)),
                bootstrap: Arc::clone(bootstrap),
                partitioner: partitioner(&app.config),
                partitions,
                timeout: t.timeout.map(|t| Millis((t.0 / 1_000_000) as i64)),
            },
            Profile::Java | Profile::Java34 => TransactionalClient::Java(Box::new(ProducerConfig {
                transactional_id: Some(id),
                transaction_timeout: app.config.ms("transaction.timeout.ms"),
                transaction_version: features.int("transaction.version") as u8,
                ..java_producer(app.profile, &app.config, bootstrap)
            })),
        };
        let batching = Batching { rows: t.rows, every: t.every, aborts_ppm: t.aborts_ppm, keeps_fatal: t.keeps_fatal };
        return ProducerClientConfig::Transactional(client, batching);
    }
    match app.profile {
        Profile::Librdkafka => ProducerClientConfig::Librdkafka {
            config: Box::new(rd_instance(&app.config)),
            bootstrap: Arc::clone(bootstrap),
            partitioner: partitioner(&app.config),
            partitions,
        },
        Profile::Java | Profile::Java34 => {
            ProducerClientConfig::Java(Box::new(java_producer(app.profile, &app.config, bootstrap)))
        }
    }
}

pub(super) fn reader_config(
    reader: &Reader,
    number: u16,
    instance: usize,
    scenario: &Scenario,
    bootstrap: &Arc<[Addr]>,
) -> ReaderAppConfig {
    let partitions = scenario.partitions_of(&reader.topics);
    let client = match reader.profile {
        Profile::Librdkafka => ReaderClientConfig::Librdkafka {
            bootstrap: Arc::clone(bootstrap),
            connections: Box::new(rd_instance(&reader.config)),
            consumer: Arc::new(rd_consumer(&reader.config)),
        },
        Profile::Java | Profile::Java34 => java_reader(reader, scenario, bootstrap),
    };
    let client = match reader.group {
        Some(group) => super::members::member(client, reader, group, instance, scenario),
        None => client,
    };
    ReaderAppConfig { number, partitions, client, record: reader.record, poll_every: reader.poll_every }
}
/// A plain reader of the judge reads everything; one that is to begin at the end says so.
fn begins_at_end(c: &Config) -> bool {
    c.word("auto.offset.reset") == "latest" && c.is_set("auto.offset.reset")
}
fn java_reader(reader: &Reader, scenario: &Scenario, bootstrap: &Arc<[Addr]>) -> ReaderClientConfig {
    let (network, consumer) = java_consumer(&reader.config, &reader.topics, scenario, bootstrap);
    let hashes = TopicHashes::of_names(scenario.topics.iter().map(|t| t.name.as_str()));
    ReaderClientConfig::Java(Box::new(network), Arc::new(consumer), hashes)
}
/// A Java consumer of these topics: its connections, and itself.
pub(super) fn java_consumer(
    c: &Config,
    topics: &[TopicId],
    scenario: &Scenario,
    bootstrap: &Arc<[Addr]>,
) -> (NetworkConfig, ConsumerConfig) {
    let network = NetworkConfig {
        topics: Some(topics.iter().copied().collect()),
        request_timeout: ms_or(c, "request.timeout.ms", Millis(30_000)),
        setup_timeout: c.ms("socket.connection.setup.timeout.ms"),
        setup_timeout_max: ms_or(c, "socket.connection.setup.timeout.max.ms", Millis(30_000)),
        reconnect_backoff: c.ms("reconnect.backoff.ms"),
        reconnect_backoff_max: c.ms("reconnect.backoff.max.ms"),
        retry_backoff: c.ms("retry.backoff.ms"),
        retry_backoff_max: ms_or(c, "retry.backoff.max.ms", Millis(1_000)),
        metadata_max_age: c.ms("metadata.max.age.ms"),
        rebootstrap_trigger: (c.has("metadata.recovery.strategy")
            && c.word("metadata.recovery.strategy") == "rebootstrap")
            .then(|| ms_or(c, "metadata.recovery.rebootstrap.trigger.ms", Millis(300_000))),
        // Its application polls again and again, so that nothing due is overslept. To wake for each of these polls would
        // be a third of all events of a run.
        sleep: Sleep::Exact,
        ..NetworkConfig::new(Arc::clone(bootstrap))
    };
    let consumer = ConsumerConfig {
        fixes: scenario.fixes,
        fetch_min_bytes: c.int("fetch.min.bytes") as u32,
        fetch_max_wait: c.ms("fetch.max.wait.ms"),
        fetch_max_bytes: c.int("fetch.max.bytes") as u32,
        max_partition_fetch_bytes: c.int("max.partition.fetch.bytes") as u32,
        max_poll_records: c.int("max.poll.records") as u32,
        read_committed: c.word("isolation.level") == "read_committed",
        auto_offset_reset: match c.word("auto.offset.reset") {
            "none" => AutoOffsetReset::None,
            _ if begins_at_end(c) => AutoOffsetReset::Latest,
            _ => AutoOffsetReset::Earliest,
        },
        request_timeout: ms_or(c, "request.timeout.ms", Millis(30_000)),
        retry_backoff: c.ms("retry.backoff.ms"),
        ..ConsumerConfig::default()
    };
    (network, consumer)
}
pub(super) fn rd_consumer(c: &Config) -> RdConsumerConfig {
    RdConsumerConfig {
        queued_min_messages: c.int("queued.min.messages") as u64,
        queued_max_messages_kbytes: c.int("queued.max.messages.kbytes") as u64,
        fetch_queue_backoff: c.ms("fetch.queue.backoff.ms"),
        fetch_error_backoff: c.ms("fetch.error.backoff.ms"),
        fetch_wait_max: c.ms("fetch.wait.max.ms"),
        fetch_min_bytes: c.int("fetch.min.bytes") as u32,
        // Not set, it follows from the size of the queue.
        fetch_max_bytes: c.is_set("fetch.max.bytes").then(|| c.int("fetch.max.bytes") as u32),
        max_partition_fetch_bytes: c.int("max.partition.fetch.bytes") as u32,
        read_committed: c.word("isolation.level") == "read_committed",
        auto_offset_reset: match c.word("auto.offset.reset") {
            "none" => None,
            _ if begins_at_end(c) => Some(OffsetSpec::Latest),
            _ => Some(OffsetSpec::Earliest),
        },
        ..RdConsumerConfig::default()
    }
}
