//! The table: one row a key and default. Sources name the section or rule of the fidelity spec (`kafka.md`).

use super::{Key, Kind};
use Kind::{Bytes, Flag, Int, Ms, Secs, Text, Word, Words};

/// Sides, one bit each: server, feature, topic.
pub(super) const S: u16 = 1;
pub(super) const F: u16 = 2;
pub(super) const T: u16 = 4;
/// Java 4.3.1, producer and consumer.
pub(super) const JP: u16 = 8;
pub(super) const JC: u16 = 16;
/// Java 3.4 (old).
pub(super) const OP: u16 = 32;
pub(super) const OC: u16 = 64;
/// librdkafka.
pub(super) const RP: u16 = 128;
pub(super) const RC: u16 = 256;
/// Flink's cluster, a job, a Kafka sink.
pub(super) const FC: u16 = 512;
pub(super) const FJ: u16 = 1024;
pub(super) const FS: u16 = 2048;
/// A Kafka source of Flink's: keys of its own, beside those of its consumer.
pub(super) const FK: u16 = 4096;
/// ClickHouse: a Kafka table, a table of the MergeTree family.
pub(super) const CK: u16 = 8192;
pub(super) const CM: u16 = 16384;
const JAVA: u16 = JP | JC | OP | OC;
const RD: u16 = RP | RC;
const INT: i64 = i32::MAX as i64;
const LONG: i64 = i64::MAX;

pub(super) const fn key(
    name: &'static str,
    aliases: &'static [&'static str],
    sides: u16,
    kind: Kind,
    default: &'static str,
    source: &'static str,
) -> Key {
    Key { name, aliases, sides, kind, default, source }
}

/// Java names the classes.
const JAVA_ASSIGNORS: &[(&str, &str)] = &[
    ("range", "range"),
    ("roundrobin", "roundrobin"),
    ("sticky", "sticky"),
    ("cooperative-sticky", "cooperative-sticky"),
    ("org.apache.kafka.clients.consumer.RangeAssignor", "range"),
    ("org.apache.kafka.clients.consumer.RoundRobinAssignor", "roundrobin"),
    ("org.apache.kafka.clients.consumer.StickyAssignor", "sticky"),
    ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "cooperative-sticky"),
];
const RD_ASSIGNORS: &[(&str, &str)] =
    &[("range", "range"), ("roundrobin", "roundrobin"), ("cooperative-sticky", "cooperative-sticky")];

/// Every key the model acts on.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    // The controller and a broker's life.
    key("broker.heartbeat.interval.ms", &[], S, Ms(1, INT), "2000", "10, C-1"),
    key("broker.session.timeout.ms", &[], S, Ms(1, INT), "9000", "10, C-1"),
    key("initial.broker.registration.timeout.ms", &[], S, Ms(0, INT), "60000", "10, L-26"),
    key("controller.quorum.election.timeout.ms", &[], S, Ms(1, INT), "1000", "10, C-5"),
    key("controller.quorum.election.backoff.max.ms", &[], S, Ms(1, INT), "1000", "10, C-5"),
    key("controller.quorum.fetch.timeout.ms", &[], S, Ms(1, INT), "2000", "10, C-5"),
    key("controller.quorum.request.timeout.ms", &[], S, Ms(1, INT), "2000", "10, C-5"),
    key("controller.quorum.retry.backoff.ms", &[], S, Ms(1, INT), "20", "10, C-5"),
    key("controller.quorum.append.linger.ms", &[], S, Ms(0, INT), "25", "10, C-5"),
    key("auto.leader.rebalance.enable", &[], S, Flag, "true", "10, R-25"),
    key("leader.imbalance.check.interval.seconds", &[], S, Secs(1, INT), "300", "10, R-25"),
    key("unclean.leader.election.interval.ms", &[], S, Ms(1, INT), "300000", "10, R-24"),
    key("eligible.leader.replicas.version", &[], F, Int(0, 1), "1", "10, R-22"),
    key("transaction.version", &[], F, Int(0, 2), "2", "10, 4.7"),
    // Replication.
    key("num.replica.fetchers", &[], S, Int(1, 64), "1", "10"),
    key("replica.fetch.max.bytes", &[], S, Bytes(0, INT), "1048576", "10, R-13"),
    key("replica.fetch.response.max.bytes", &[], S, Bytes(0, INT), "10485760", "10, R-13"),
    key("replica.fetch.wait.max.ms", &[], S, Ms(0, INT), "500", "10, R-13"),
    key("replica.fetch.min.bytes", &[], S, Bytes(0, INT), "1", "10, R-13"),
    key("replica.fetch.backoff.ms", &[], S, Ms(0, INT), "1000", "10, R-13"),
    key("replica.lag.time.max.ms", &[], S, Ms(1, LONG), "30000", "10, R-3, R-7"),
    key("replica.socket.timeout.ms", &[], S, Ms(1, INT), "30000", "10"),
    key("replica.high.watermark.checkpoint.interval.ms", &[], S, Ms(1, LONG), "5000", "10, L-21"),
    // The log: of a topic, and as a server's default for its topics.
    key("min.insync.replicas", &[], S | T, Int(1, INT), "1", "10, 1.2"),
    key("unclean.leader.election.enable", &[], S | T, Flag, "false", "10, R-24"),
    key("log.flush.interval.messages", &[], S, Int(1, LONG), "9223372036854775807", "10, L-20"),
    key("flush.messages", &[], T, Int(1, LONG), "9223372036854775807", "10, L-20"),
    key("log.flush.interval.ms", &[], S, Ms(0, LONG), "9223372036854775807", "10, L-20"),
    key("flush.ms", &[], T, Ms(0, LONG), "9223372036854775807", "10, L-20"),
    key("log.flush.offset.checkpoint.interval.ms", &[], S, Ms(0, INT), "60000", "10, L-20"),
    key("log.segment.bytes", &[], S, Bytes(1_048_576, INT), "1073741824", "LogConfig, L-20"),
    key("segment.bytes", &[], T, Bytes(1_048_576, INT), "1073741824", "LogConfig, L-20"),
    key("message.max.bytes", &[], S, Bytes(0, INT), "1048588", "ServerLogConfigs, 1.2"),
    key("max.message.bytes", &[], T, Bytes(0, INT), "1048588", "LogConfig, 1.2"),
    key("log.retention.ms", &[], S, Ms(-1, LONG), "604800000", "ServerLogConfigs (log.retention.hours 168)"),
    key("retention.ms", &[], T, Ms(-1, LONG), "604800000", "LogConfig"),
    key("log.retention.check.interval.ms", &[], S, Ms(1, LONG), "300000", "ServerLogConfigs"),
    key("producer.id.expiration.ms", &[], S, Ms(1, INT), "86400000", "10, P-16"),
    key("producer.id.expiration.check.interval.ms", &[], S, Ms(1, INT), "600000", "10, P-16"),
    // Transactions and groups, as far as partitions take part in them.
    key("transaction.partition.verification.enable", &[], S, Flag, "true", "10, 4.9"),
    key("transaction.state.log.num.partitions", &[], S, Int(1, INT), "50", "10, T-1"),
    key("transaction.state.log.replication.factor", &[], S, Int(1, 32_767), "3", "10, T-1"),
    key("transaction.state.log.min.isr", &[], S, Int(1, INT), "2", "10, T-1"),
    key("transaction.max.timeout.ms", &[], S, Ms(1, INT), "900000", "10, 4.4"),
    key("transaction.abort.timed.out.transaction.cleanup.interval.ms", &[], S, Ms(1, INT), "10000", "10, T-20"),
    key("transaction.remove.expired.transaction.cleanup.interval.ms", &[], S, Ms(1, INT), "3600000", "10, T-27"),
    key("transactional.id.expiration.ms", &[], S, Ms(1, INT), "604800000", "10, T-27"),
    key("add.partitions.to.txn.retry.backoff.ms", &[], S, Ms(0, INT), "20", "10, 4.8"),
    key("add.partitions.to.txn.retry.backoff.max.ms", &[], S, Ms(0, INT), "100", "10, 4.8"),
    key("offsets.topic.num.partitions", &[], S, Int(1, INT), "50", "10, T-1"),
    key("offsets.topic.replication.factor", &[], S, Int(1, 32_767), "3", "10, T-1"),
    key("offsets.retention.minutes", &[], S, Int(1, INT), "10080", "kafka/group_offsets"),
    key("offsets.retention.check.interval.ms", &[], S, Ms(1, LONG), "600000", "kafka/group_offsets"),
    key("offsets.commit.timeout.ms", &[], S, Ms(1, INT), "5000", "10, 5.4"),
    key("group.initial.rebalance.delay.ms", &[], S, Ms(0, INT), "3000", "10, 5.4"),
    key("group.min.session.timeout.ms", &[], S, Ms(1, INT), "6000", "10, 5.4"),
    key("group.max.session.timeout.ms", &[], S, Ms(1, INT), "1800000", "10, 5.4"),
    key("group.consumer.session.timeout.ms", &[], S, Ms(1, INT), "45000", "10, 5.4"),
    key("group.consumer.heartbeat.interval.ms", &[], S, Ms(1, INT), "5000", "10, 5.4"),
    key("group.consumer.assignment.interval.ms", &[], S, Ms(0, INT), "1000", "10, 5.4"),
    key("request.timeout.ms", &[], S, Ms(1, INT), "30000", "10, P-22"),
    // Every client.
    key("metadata.max.age.ms", &[], JAVA, Ms(0, LONG), "300000", "10, K-3"),
    key("topic.metadata.refresh.interval.ms", &[], RD, Ms(-1, 3_600_000), "300000", "10, K-3"),
    key("metadata.max.age.ms", &[], RD, Ms(1, 86_400_000), "900000", "10, K-3"),
    key("topic.metadata.refresh.fast.interval.ms", &[], RD, Ms(1, 60_000), "100", "10, K-3"),
    key("metadata.recovery.strategy", &[], JP | JC | RD, Word(&[("rebootstrap", "rebootstrap"), ("none", "none")]), "rebootstrap", "10, K-4"),
    key("metadata.recovery.rebootstrap.trigger.ms", &[], JP | JC, Ms(0, LONG), "300000", "10, K-4"),
    key("metadata.recovery.rebootstrap.trigger.ms", &[], RD, Ms(0, INT), "300000", "10, K-4"),
    key("reconnect.backoff.ms", &[], JAVA, Ms(0, LONG), "50", "10, K-1"),
    key("reconnect.backoff.ms", &[], RD, Ms(0, 3_600_000), "100", "10, K-21"),
    key("reconnect.backoff.max.ms", &[], JAVA, Ms(0, LONG), "1000", "10, K-1"),
    key("reconnect.backoff.max.ms", &[], RD, Ms(0, 3_600_000), "10000", "10, K-21"),
    key("retry.backoff.ms", &[], JAVA, Ms(0, LONG), "100", "10, P-21"),
    key("retry.backoff.ms", &[], RD, Ms(1, 300_000), "100", "10, P-21"),
    key("retry.backoff.max.ms", &[], JP | JC, Ms(0, LONG), "1000", "10, P-21"),
    key("retry.backoff.max.ms", &[], RD, Ms(1, 300_000), "1000", "10, P-21"),
    key("request.timeout.ms", &[], JAVA, Ms(0, INT), "30000", "10, P-22"),
    key("socket.connection.setup.timeout.ms", &[], JAVA, Ms(0, LONG), "10000", "10, K-1"),
    key("socket.connection.setup.timeout.max.ms", &[], JAVA, Ms(0, LONG), "30000", "10, K-1"),
    key("socket.connection.setup.timeout.ms", &[], RD, Ms(1_000, INT), "30000", "10, K-21"),
    key("socket.timeout.ms", &[], RD, Ms(10, 300_000), "60000", "10, P-22"),
    key("connections.max.idle.ms", &[], JAVA, Ms(-1, LONG), "540000", "ProducerConfig, ConsumerConfig"),
    key("connections.max.idle.ms", &[], RD, Ms(0, INT), "0", "librdkafka CONFIGURATION.md"),
    key("coordinator.query.interval.ms", &[], RD, Ms(1, 3_600_000), "600000", "10, K-26"),
    // Producers.
    key("acks", &[], JP | OP, Word(&[("all", "all"), ("-1", "all"), ("0", "0"), ("1", "1")]), "all", "10, 1.2"),
    key("acks", &["request.required.acks"], RP, Word(&[("all", "all"), ("-1", "all"), ("0", "0"), ("1", "1")]), "all", "10, 1.2"),
    key("enable.idempotence", &[], JP | OP, Flag, "true", "10, 3"),
    key("enable.idempotence", &[], RP, Flag, "false", "10, 3, P-30"),
    key("batch.size", &[], JP | OP, Bytes(0, INT), "16384", "10, P-20"),
    key("batch.size", &[], RP, Bytes(1, INT), "1000000", "10, P-20"),
    key("batch.num.messages", &[], RP, Int(1, 1_000_000), "10000", "10, P-20"),
    key("linger.ms", &[], JP, Ms(0, LONG), "5", "10, P-20"),
    key("linger.ms", &[], OP, Ms(0, LONG), "0", "KIP-1030: 5 only since 4.0"),
    key("linger.ms", &["queue.buffering.max.ms"], RP, Ms(0, 900_000), "5", "10, P-20"),
    key("buffer.memory", &[], JP | OP, Bytes(0, LONG), "33554432", "10"),
    key("queue.buffering.max.messages", &[], RP, Int(0, INT), "100000", "10"),
    key("queue.buffering.max.kbytes", &[], RP, Int(1, INT), "1048576", "10"),
    key("delivery.timeout.ms", &[], JP | OP, Ms(0, INT), "120000", "10, P-21"),
    key("message.timeout.ms", &["delivery.timeout.ms"], RP, Ms(0, INT), "300000", "10, P-21"),
    key("request.timeout.ms", &[], RP, Ms(1, 900_000), "30000", "10, P-30"),
    key("max.block.ms", &[], JP | OP, Ms(0, LONG), "60000", "10, K-7"),
    key("max.in.flight.requests.per.connection", &[], JP | OP, Int(1, INT), "5", "10, P-15"),
    key("max.in.flight.requests.per.connection", &["max.in.flight"], RP, Int(1, 1_000_000), "1000000", "10, P-15"),
    key("max.request.size", &[], JP | OP, Bytes(0, INT), "1048576", "10"),
    key("message.max.bytes", &[], RP, Bytes(1_000, 1_000_000_000), "1000000", "librdkafka CONFIGURATION.md"),
    key("retries", &[], JP | OP, Int(0, INT), "2147483647", "10, P-21"),
    key("retries", &["message.send.max.retries"], RP, Int(0, INT), "2147483647", "10, P-21"),
    key("transaction.timeout.ms", &[], JP | OP | RP, Ms(1_000, INT), "60000", "10, T-25"),
    key("partitioner", &[], RP, Word(&[
        ("consistent_random", "consistent_random"), ("consistent", "consistent"), ("random", "random"),
        ("murmur2", "murmur2"), ("murmur2_random", "murmur2_random"),
    ]), "consistent_random", "kafka-hash/partitioner"),
    key("partitioner.ignore.keys", &[], JP | OP, Flag, "false", "KIP-794"),
    // Consumers.
    key("isolation.level", &[], JC | OC, Word(&[("read_uncommitted", "read_uncommitted"), ("read_committed", "read_committed")]), "read_uncommitted", "10, X-1"),
    key("isolation.level", &[], RC, Word(&[("read_uncommitted", "read_uncommitted"), ("read_committed", "read_committed")]), "read_committed", "10, X-1"),
    key("auto.offset.reset", &[], JC | OC, Word(&[("latest", "latest"), ("earliest", "earliest"), ("none", "none")]), "latest", "10, X-30"),
    key("auto.offset.reset", &[], RC, Word(&[
        ("largest", "latest"), ("latest", "latest"), ("end", "latest"), ("smallest", "earliest"), ("earliest", "earliest"),
        ("beginning", "earliest"), ("error", "none"),
    ]), "largest", "10, X-30"),
    key("enable.auto.commit", &[], JC | OC | RC, Flag, "true", "10"),
    key("auto.commit.interval.ms", &[], JC | OC, Ms(0, INT), "5000", "10"),
    key("auto.commit.interval.ms", &[], RC, Ms(0, 86_400_000), "5000", "10"),
    key("fetch.max.bytes", &[], JC | OC | RC, Bytes(0, INT), "52428800", "10, X-11"),
    key("max.partition.fetch.bytes", &[], JC | OC, Bytes(0, INT), "1048576", "10, X-11"),
    key("max.partition.fetch.bytes", &["fetch.message.max.bytes"], RC, Bytes(1, 1_000_000_000), "1048576", "10, X-11"),
    key("fetch.max.wait.ms", &[], JC | OC, Ms(0, INT), "500", "10, X-11"),
    key("fetch.wait.max.ms", &["fetch.max.wait.ms"], RC, Ms(0, 300_000), "500", "10, X-11"),
    key("fetch.min.bytes", &[], JC | OC, Bytes(0, INT), "1", "10, X-11"),
    key("fetch.min.bytes", &[], RC, Bytes(1, 100_000_000), "1", "10, X-11"),
    key("fetch.queue.backoff.ms", &[], RC, Ms(0, 300_000), "1000", "10, X-14"),
    key("fetch.error.backoff.ms", &[], RC, Ms(0, 300_000), "500", "10, X-14"),
    key("queued.min.messages", &[], RC, Int(1, 10_000_000), "100000", "10, X-14"),
    key("queued.max.messages.kbytes", &[], RC, Int(1, 2_097_151), "65536", "10, X-14"),
    key("max.poll.records", &[], JC | OC, Int(1, INT), "500", "10, X-13"),
    key("max.poll.interval.ms", &[], JC | OC, Ms(1, INT), "300000", "10, X-13"),
    key("max.poll.interval.ms", &[], RC, Ms(1, 86_400_000), "300000", "10, X-13"),
    key("default.api.timeout.ms", &[], JC | OC, Ms(0, INT), "60000", "10"),
    key("group.id", &[], JC | OC | RC, Text, "", "10, 5.4"),
    key("group.instance.id", &[], JC | OC | RC, Text, "", "10, 5.4"),
    key("partition.assignment.strategy", &[], JC | OC, Words(JAVA_ASSIGNORS), "range,cooperative-sticky", "kafka/assignors"),
    key("partition.assignment.strategy", &[], RC, Words(RD_ASSIGNORS), "range,roundrobin", "kafka/assignors"),
    key("group.protocol", &[], JC | RC, Word(&[("classic", "classic"), ("consumer", "consumer")]), "classic", "10, 5.4"),
    key("session.timeout.ms", &[], JC | OC, Ms(1, INT), "45000", "10, 5.4"),
    key("session.timeout.ms", &[], RC, Ms(1, 3_600_000), "45000", "10, 5.4"),
    key("heartbeat.interval.ms", &[], JC | OC, Ms(1, INT), "3000", "10, 5.4"),
    key("heartbeat.interval.ms", &[], RC, Ms(1, 3_600_000), "3000", "10, 5.4"),
];
