//! Flink's keys (1.20): the cluster's, a job's, a Kafka sink's. Sources name the section or rule of the fidelity spec
//! (`flink.md`).

use super::table::{FC, FJ, FK, FS, key};
use super::{Key, Kind};
use Kind::{Decimal, Flag, Int, Text, Time, Word};

const INT: i64 = i32::MAX as i64;
/// The longest time that a key may name, ms: a year.
const LONG: i64 = 366 * 86_400_000;

const MODES: &[(&str, &str)] = &[("EXACTLY_ONCE", "EXACTLY_ONCE"), ("AT_LEAST_ONCE", "AT_LEAST_ONCE")];
const STRATEGIES: &[(&str, &str)] = &[
    ("default", "default"),
    ("none", "none"),
    ("off", "none"),
    ("disable", "none"),
    ("fixed-delay", "fixed-delay"),
    ("fixeddelay", "fixed-delay"),
    ("failure-rate", "failure-rate"),
    ("failurerate", "failure-rate"),
    ("exponential-delay", "exponential-delay"),
    ("exponentialdelay", "exponential-delay"),
];
const HA: &[(&str, &str)] = &[("NONE", "NONE"), ("ZOOKEEPER", "ZOOKEEPER"), ("KUBERNETES", "KUBERNETES")];
const RETENTION: &[(&str, &str)] = &[
    ("NO_EXTERNALIZED_CHECKPOINTS", "NO_EXTERNALIZED_CHECKPOINTS"),
    ("DELETE_ON_CANCELLATION", "DELETE_ON_CANCELLATION"),
    ("RETAIN_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"),
];
const PHASES: &[(&str, &str)] = &[("AUTO", "AUTO"), ("ONE_PHASE", "ONE_PHASE"), ("TWO_PHASE", "TWO_PHASE")];
const GUARANTEES: &[(&str, &str)] =
    &[("none", "none"), ("at-least-once", "at-least-once"), ("exactly-once", "exactly-once")];

const fn time(low: i64) -> Kind {
    Time(low, LONG)
}

/// Every key of Flink that the model knows.
#[rustfmt::skip]
pub const FLINK: &[Key] = &[
    // The cluster.
    key("heartbeat.interval", &[], FC, time(1), "10 s", "13, H1"),
    key("heartbeat.timeout", &[], FC, time(1), "50 s", "13, H1"),
    key("heartbeat.rpc-failure-threshold", &[], FC, Int(-1, INT), "2", "13, H4"),
    key("pekko.ask.timeout", &["akka.ask.timeout"], FC, time(1), "10 s", "13, C5a"),
    key("taskmanager.numberOfTaskSlots", &[], FC, Int(1, 64), "1", "13, R1.2"),
    key("slot.request.timeout", &[], FC, time(1), "5 min", "13, R1.4"),
    key("high-availability.type", &[], FC, Word(HA), "NONE", "HighAvailabilityOptions"),
    // A job.
    key("parallelism.default", &[], FJ, Int(1, 64), "1", "CoreOptions"),
    key("pipeline.max-parallelism", &[], FJ, Int(-1, 32_768), "-1", "13, 1.3"),
    key("pipeline.auto-watermark-interval", &[], FJ, time(1), "200 ms", "13, 4.3"),
    key("table.exec.source.idle-timeout", &[], FJ, time(0), "0 ms", "13, 4.5: none is off"),
    key("table.optimizer.agg-phase-strategy", &[], FJ, Word(PHASES), "AUTO", "13, T1"),
    key("table.exec.emit.late-fire.enabled", &[], FJ, Flag, "false", "L2 to L4: of group windows, not of table functions"),
    key("table.exec.emit.late-fire.delay", &[], FJ, time(0), "0 ms", "L3: to be given with late fire; 0 is every element"),
    key("table.exec.emit.allow-lateness", &[], FJ, time(0), "0 ms", "L2: counts with late fire only"),
    key("execution.buffer-timeout.interval", &["execution.buffer-timeout"], FJ, time(1), "100 ms", "13, 1.4"),
    key("execution.checkpointing.interval", &[], FJ, time(0), "0 ms", "13: none is off"),
    key("table.exec.iceberg.use-v2-sink", &[], FJ, Flag, "false", "8.1"),
    key("execution.checkpointing.mode", &[], FJ, Word(MODES), "EXACTLY_ONCE", "13, 2.3, 2.4"),
    key("execution.checkpointing.timeout", &[], FJ, time(10), "10 min", "13"),
    key("execution.checkpointing.min-pause", &[], FJ, time(0), "0 ms", "13"),
    key("execution.checkpointing.max-concurrent-checkpoints", &[], FJ, Int(1, INT), "1", "13"),
    key("execution.checkpointing.tolerable-failed-checkpoints", &[], FJ, Int(0, INT), "0", "13"),
    key("execution.checkpointing.num-retained", &["state.checkpoints.num-retained"], FJ, Int(1, INT), "1", "13"),
    key("execution.checkpointing.checkpoints-after-tasks-finish", &[], FJ, Flag, "true", "13"),
    key("execution.checkpointing.externalized-checkpoint-retention", &[], FJ, Word(RETENTION), "NO_EXTERNALIZED_CHECKPOINTS", "13"),
    key("execution.checkpointing.unaligned.enabled", &["execution.checkpointing.unaligned"], FJ, Flag, "false", "13, 2.5"),
    key("execution.checkpointing.aligned-checkpoint-timeout", &["execution.checkpointing.unaligned.aligned-checkpoint-timeout"], FJ, time(0), "0 ms", "13, 2.5"),
    key("execution.checkpointing.incremental", &["state.backend.incremental"], FJ, Flag, "false", "CheckpointingOptions"),
    key("execution.checkpointing.data-inline-threshold", &["state.storage.fs.memory-threshold"], FJ, Int(0, 1_048_576), "20480", "CheckpointingOptions"),
    key("s3.upload.min.part.size", &[], FJ, Int(5_242_880, 1_073_741_824), "5242880", "AbstractS3FileSystemFactory"),
    key("restart-strategy.type", &[], FJ, Word(STRATEGIES), "default", "13: exponential-delay with checkpointing, none without"),
    key("restart-strategy.fixed-delay.attempts", &[], FJ, Int(0, INT), "1", "13"),
    key("restart-strategy.fixed-delay.delay", &[], FJ, time(0), "1 s", "13"),
    key("restart-strategy.failure-rate.max-failures-per-interval", &[], FJ, Int(0, INT), "1", "13"),
    key("restart-strategy.failure-rate.failure-rate-interval", &[], FJ, time(1), "1 min", "13"),
    key("restart-strategy.failure-rate.delay", &[], FJ, time(0), "1 s", "13"),
    key("restart-strategy.exponential-delay.initial-backoff", &[], FJ, time(1), "1 s", "13"),
    key("restart-strategy.exponential-delay.max-backoff", &[], FJ, time(1), "1 min", "13"),
    key("restart-strategy.exponential-delay.backoff-multiplier", &[], FJ, Decimal, "1.5", "13"),
    key("restart-strategy.exponential-delay.reset-backoff-threshold", &[], FJ, time(1), "1 h", "13"),
    key("restart-strategy.exponential-delay.jitter-factor", &[], FJ, Decimal, "0.1", "13"),
    key("restart-strategy.exponential-delay.attempts-before-reset-backoff", &[], FJ, Int(1, INT), "2147483647", "13"),
    // A source.
    key("commit.offsets.on.checkpoint", &[], FK, Flag, "true", "4.1, S8"),
    // A sink.
    key("sink.delivery-guarantee", &[], FS, Word(GUARANTEES), "none", "13: KafkaSinkBuilder; SQL has at-least-once"),
    key("sink.transactional-id-prefix", &[], FS, Text, "kafka-sink", "13: KafkaSinkBuilder 3.x"),
    key("sink.committer.retries", &[], FS, Int(0, INT), "10", "13"),
];
