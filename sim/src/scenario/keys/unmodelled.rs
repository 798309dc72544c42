//! Keys that exist in the product and that the model does not act on. Setting one is an error of its own kind: silence would
//! let people believe that it was taken into account.

use super::{Profile, Side};

/// Names of keys of `side` that are not modelled.
pub(super) fn names(side: Side) -> impl Iterator<Item = &'static str> {
    let (own, common): (&str, &str) = match side {
        Side::Server => (SERVER, SECURITY),
        Side::Feature => (FEATURE, ""),
        Side::Topic => (TOPIC, ""),
        Side::Producer(Profile::Librdkafka) => (RDKAFKA_PRODUCER, RDKAFKA),
        Side::Consumer(Profile::Librdkafka) => (RDKAFKA_CONSUMER, RDKAFKA),
        Side::Producer(_) => (JAVA_PRODUCER, JAVA),
        Side::Consumer(_) => (JAVA_CONSUMER, JAVA),
        Side::Flink => (FLINK_CLUSTER, ""),
        Side::Job => (FLINK_JOB, ""),
        Side::Sink => (FLINK_SINK, ""),
        Side::Source => (FLINK_SOURCE, JAVA),
        Side::KafkaEngine => (KAFKA_ENGINE, ""),
        Side::MergeTree => (MERGE_TREE, ""),
    };
    let security = if common == JAVA { SECURITY } else { "" };
    let consumer = if side == Side::Source { JAVA_CONSUMER } else { "" };
    [own, common, security, consumer].into_iter().flat_map(str::split_whitespace)
}
/// Whether the product knows the key and the model does not act on it.
pub(super) fn is_known(side: Side, name: &str) -> bool {
    names(side).any(|n| n == name)
}

const SECURITY: &str = "security.protocol security.providers sasl.mechanism sasl.jaas.config sasl.kerberos.service.name
    sasl.login.class sasl.login.callback.handler.class sasl.client.callback.handler.class ssl.protocol ssl.provider
    ssl.cipher.suites ssl.enabled.protocols ssl.keystore.type ssl.keystore.location ssl.keystore.password ssl.key.password
    ssl.truststore.type ssl.truststore.location ssl.truststore.password ssl.endpoint.identification.algorithm
    ssl.client.auth connections.max.reauth.ms";

const SERVER: &str = "node.id broker.id broker.rack process.roles listeners advertised.listeners
    listener.security.protocol.map inter.broker.listener.name controller.listener.names controller.quorum.voters
    controller.quorum.bootstrap.servers log.dir log.dirs metadata.log.dir num.network.threads num.io.threads
    num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads background.threads queued.max.requests
    queued.max.request.bytes socket.send.buffer.bytes socket.receive.buffer.bytes socket.request.max.bytes
    socket.listen.backlog.size replica.socket.receive.buffer.bytes max.connections max.connections.per.ip
    max.connections.per.ip.overrides max.connection.creation.rate connections.max.idle.ms connection.failed.authentication.delay.ms
    auto.create.topics.enable delete.topic.enable num.partitions default.replication.factor controlled.shutdown.enable
    compression.type compression.gzip.level compression.lz4.level compression.zstd.level log.cleanup.policy log.cleaner.enable
    log.cleaner.threads log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.size log.cleaner.io.buffer.load.factor
    log.cleaner.io.max.bytes.per.second log.cleaner.backoff.ms log.cleaner.min.cleanable.ratio log.cleaner.delete.retention.ms
    log.cleaner.min.compaction.lag.ms log.cleaner.max.compaction.lag.ms log.index.interval.bytes log.index.size.max.bytes
    log.message.timestamp.type log.message.timestamp.before.max.ms log.message.timestamp.after.max.ms log.preallocate
    log.retention.bytes log.retention.hours log.retention.minutes log.roll.ms log.roll.hours log.roll.jitter.ms
    log.roll.jitter.hours log.segment.delete.delay.ms log.flush.scheduler.interval.ms
    log.flush.start.offset.checkpoint.interval.ms log.dir.failure.timeout.ms log.local.retention.ms
    log.local.retention.bytes metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.ms
    metadata.max.retention.bytes leader.imbalance.per.broker.percentage replica.selector.class
    replica.fetch.auto.tuning fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
    fetch.max.bytes max.incremental.fetch.session.cache.slots offset.metadata.max.bytes offsets.load.buffer.size
    offsets.topic.segment.bytes offsets.topic.compression.codec
    transaction.state.log.load.buffer.size transaction.state.log.segment.bytes transaction.two.phase.commit.enable
    group.max.size group.coordinator.threads group.coordinator.append.linger.ms group.coordinator.rebalance.protocols
    group.consumer.max.size group.consumer.assignors group.consumer.migration.policy
    group.consumer.min.session.timeout.ms group.consumer.max.session.timeout.ms
    group.consumer.min.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms
    quota.window.num quota.window.size.seconds replication.quota.window.num replication.quota.window.size.seconds
    controller.quota.window.num controller.quota.window.size.seconds authorizer.class.name principal.builder.class
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms auto.include.jmx.reporter
    request.logger.filter cluster.link.enable remote.log.storage.system.enable unstable.api.versions.enable
    unstable.feature.versions.enable controller.performance.always.log.threshold.ms
    server.max.startup.time.ms create.topic.policy.class.name alter.config.policy.class.name";

const FEATURE: &str = "metadata.version group.version kraft.version share.version streams.version";

const TOPIC: &str = "cleanup.policy compression.type compression.gzip.level compression.lz4.level compression.zstd.level
    delete.retention.ms file.delete.delay.ms follower.replication.throttled.replicas leader.replication.throttled.replicas
    index.interval.bytes segment.index.bytes segment.ms segment.jitter.ms max.compaction.lag.ms min.compaction.lag.ms
    min.cleanable.dirty.ratio message.timestamp.type message.timestamp.before.max.ms message.timestamp.after.max.ms
    preallocate retention.bytes local.retention.ms local.retention.bytes remote.storage.enable
    remote.log.copy.disable remote.log.delete.on.disable";

const JAVA: &str = "bootstrap.servers client.id client.dns.lookup client.rack interceptor.classes metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms enable.metrics.push auto.include.jmx.reporter
    receive.buffer.bytes send.buffer.bytes config.providers";
const JAVA_PRODUCER: &str = "key.serializer value.serializer compression.type compression.gzip.level
    compression.lz4.level compression.zstd.level partitioner.class partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms metadata.max.idle.ms transactional.id transaction.two.phase.commit.enable";
const JAVA_CONSUMER: &str = "key.deserializer value.deserializer group.remote.assignor
    allow.auto.create.topics check.crcs exclude.internal.topics
    internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported
    share.acknowledgement.mode";

const RDKAFKA: &str = "bootstrap.servers metadata.broker.list client.id client.rack client.dns.lookup
    builtin.features debug log_level log.queue log.thread.name log.connection.close statistics.interval.ms
    enable.metrics.push enable.random.seed broker.address.family broker.address.ttl broker.version.fallback api.version.request
    api.version.request.timeout.ms api.version.fallback.ms socket.blocking.max.ms socket.send.buffer.bytes
    socket.receive.buffer.bytes socket.keepalive.enable socket.nagle.disable socket.max.fails
    receive.message.max.bytes message.copy.max.bytes topic.blacklist topic.metadata.refresh.sparse
    topic.metadata.propagation.max.ms metadata.request.timeout.ms reconnect.backoff.jitter.ms allow.auto.create.topics
    plugin.library.paths security.protocol sasl.mechanism sasl.mechanisms sasl.username sasl.password
    sasl.kerberos.service.name sasl.kerberos.principal ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.key.location
    ssl.key.password ssl.cipher.suites ssl.endpoint.identification.algorithm enable.ssl.certificate.verification
    enabled_events open_cb interceptors";
const RDKAFKA_PRODUCER: &str = "transactional.id compression.codec compression.type compression.level
    queue.buffering.backpressure.threshold queuing.strategy produce.offset.report delivery.report.only.error
    enable.gapless.guarantee sticky.partitioning.linger.ms dr_cb dr_msg_cb";
const RDKAFKA_CONSUMER: &str = "group.protocol.type group.remote.assignor
    enable.auto.offset.store enable.partition.eof check.crcs offset.store.method
    offset.store.path offset.store.sync.interval.ms auto.commit.enable consume.callback.max.messages message.max.bytes";

const FLINK_CLUSTER: &str = "high-availability.storageDir high-availability.cluster-id
    jobmanager.rpc.address jobmanager.rpc.port jobmanager.memory.process.size taskmanager.memory.process.size
    taskmanager.memory.flink.size taskmanager.memory.segment-size taskmanager.memory.managed.fraction
    taskmanager.network.memory.buffers-per-channel taskmanager.network.memory.floating-buffers-per-gate
    taskmanager.network.memory.max-buffers-per-channel taskmanager.registration.timeout slot.idle.timeout
    pekko.tcp.timeout task.cancellation.interval task.cancellation.timeout jobmanager.execution.failover-strategy
    jobmanager.scheduler cluster.fine-grained-resource-management.enabled metrics.reporters rest.port";
const FLINK_JOB: &str = "pipeline.name pipeline.operator-chaining.enabled pipeline.object-reuse
    pipeline.watermark-alignment.allow-unaligned-source-splits execution.runtime-mode
    execution.checkpointing.dir execution.checkpointing.savepoint-dir
    execution.checkpointing.interval-during-backlog state.backend.type
    state.checkpoints.dir state.savepoints.dir table.exec.state.ttl
    table.exec.mini-batch.enabled table.exec.emit.early-fire.enabled table.exec.emit.early-fire.delay";
const FLINK_SOURCE: &str = "partition.discovery.interval.ms client.id.prefix register.consumer.metrics
    scan.startup.mode scan.topic-partition-discovery.interval scan.bounded.mode";
const KAFKA_ENGINE: &str = "kafka_broker_list kafka_topic_list kafka_commit_on_select kafka_row_delimiter kafka_schema
    kafka_client_id kafka_max_rows_per_message kafka_consumers_pool_ttl_ms kafka_keeper_path kafka_replica_name";
const MERGE_TREE: &str = "replicated_deduplication_window replicated_deduplication_window_seconds max_parts_in_total
    index_granularity min_age_to_force_merge_seconds merge_selecting_sleep_ms ttl_only_drop_parts insert_deduplicate
    deduplicate_insert parallel_view_processing do_not_merge_across_partitions_select_final";
const FLINK_SINK: &str = "connector topic properties.bootstrap.servers format key.format value.format key.fields
    sink.partitioner sink.parallelism sink.semantic";
