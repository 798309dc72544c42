//! A job as the JobManager runs it: vertices of chained operators, and edges between them (`JobGraph`).

use super::operator::OperatorConfig;
use crate::base::{Addr, Millis, Nanos, Offset, TopicPartition};
use crate::flink::barrier::{BarrierKind, Mode};
use crate::flink::binary_row::long_row_hash;
use crate::flink::checkpoint::CheckpointConfig;
use crate::flink::kafka::DeliveryGuarantee;
use crate::flink::key_groups::long_hash;
use crate::flink::restart::RestartStrategy;
use crate::flink::source::Strategy;
use crate::kafka::client::java::{NetworkConfig, ProducerConfig};
use crate::kafka::client::java_consumer::ConsumerConfig;
use crate::kafka::client::java_consumer::group::GroupConfig;
use crate::keyed_table::KeyColumns;
use std::sync::Arc;

/// How records find their way from one subtask to the next vertex's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// To the subtask of the same index.
    Forward,
    /// To each subtask in turn.
    Rebalance,
    /// By the key group of this column (`keyBy`).
    Hash(KeyColumn),
}

/// What a stream is keyed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyColumn {
    /// A whole number: its `Long.hashCode`.
    Long(u8),
    /// A text, as [`text_value`](crate::base::text_value) numbers it: its `String.hashCode` is the lower half.
    Text(u8),
    /// A key of SQL: a row of one BIGINT, whose hash is that of its bytes. A text goes by its number.
    Sql(u8),
}
impl KeyColumn {
    /// The column.
    pub const fn column(self) -> usize {
        match self {
            Self::Long(column) | Self::Text(column) | Self::Sql(column) => column as usize,
        }
    }
    /// Java's `hashCode` of a value.
    pub fn hash_code(self, value: i64) -> i32 {
        match self {
            Self::Long(_) => long_hash(value),
            Self::Text(_) => value as i32,
            Self::Sql(_) => long_row_hash(value),
        }
    }
}

/// Reads topics (`KafkaSource`).
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Partitions, each with its topic's name, which decides its first owner (S1). A split that no checkpoint knows begins
    /// where the consumer's `auto.offset.reset` says.
    pub partitions: Arc<[(TopicPartition, Arc<str>)]>,
    /// The consumer.
    pub consumer: Arc<ConsumerConfig>,
    /// Its connections.
    pub network: Box<NetworkConfig>,
    /// It can be read again from an offset. One that cannot (a socket) is stood in for by a topic of which whoever was not
    /// there gets nothing: no checkpoint keeps where it was, and each start but the first begins at the end.
    pub replays: bool,
    /// Where each partition's part of a bounded source ends (`setBounded(OffsetsInitializer.offsets(...))`).
    pub until: Option<Arc<[(TopicPartition, Offset)]>>,
    /// The group that it tells of its progress, if `group.id` is set (S8).
    pub commits: Option<Arc<GroupConfig>>,
    /// `commit.offsets.on.checkpoint`; else only what the client commits by itself.
    pub commit_on_checkpoint: bool,
    /// Its `WatermarkStrategy`; none is `noWatermarks()`.
    pub watermarks: Option<Watermarks>,
    /// What no connector does: each subtask hands records on in the order of their event time over all of its splits, and
    /// waits so long for one that has none.
    pub merge: Option<Millis>,
}

/// How a source makes watermarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// How.
    pub strategy: Strategy,
    /// `withIdleness`, `scan.watermark.idle-timeout`.
    pub idle_timeout: Option<Millis>,
    /// `pipeline.auto-watermark-interval`.
    pub interval: Millis,
    /// `withWatermarkAlignment`, `scan.watermark.alignment.*`.
    pub alignment: Option<Alignment>,
}

/// How far a source may be ahead of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// `scan.watermark.alignment.group`, by number within the job.
    pub group: u16,
    /// `scan.watermark.alignment.max-drift`.
    pub max_drift: Millis,
    /// `scan.watermark.alignment.update-interval`.
    pub update_interval: Millis,
}

/// Writes a topic (`KafkaSink`).
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// The topic, and how many partitions it has.
    pub topic: crate::base::TopicId,
    /// `sink.delivery-guarantee`.
    pub guarantee: DeliveryGuarantee,
    /// `sink.transactional-id-prefix`.
    pub prefix: Arc<str>,
    /// The prefix by number, among all of the scenario: equal prefixes have one.
    pub prefix_number: u8,
    /// `sink.committer.retries`.
    pub committer_retries: u32,
    /// `key.fields`: the column that becomes the record's key, as its eight bytes; without, a row keeps the key that it has.
    pub key: Option<u8>,
    /// The producer.
    pub producer: Box<ProducerConfig>,
}

/// Writes a table (`JdbcSink`): upserts by its primary key, to which it converges, at least once; plain inserts without one.
/// Or calls another service out of a function, row by row, under a key that the service knows again or without one.
#[derive(Clone, Debug)]
pub struct UpsertConfig {
    /// Where the table's database listens.
    pub table: Addr,
    /// Its primary key: of rows with one key a batch holds the last. Without, all of them are inserted.
    pub key: Option<KeyColumns>,
    /// Each row is a statement of its own, which its caller waits for.
    pub one_by_one: bool,
    /// `sink.buffer-flush.max-rows`.
    pub buffer_flush_max_rows: u32,
    /// `sink.buffer-flush.interval`; zero: never by time.
    pub buffer_flush_interval: Millis,
    /// `sink.max-retries`.
    pub max_retries: u32,
    /// How long the driver waits for an answer, or a connection.
    pub timeout: Millis,
}
impl UpsertConfig {
    /// The defaults of SQL.
    pub const fn new(table: Addr, key: Option<KeyColumns>) -> Self {
        Self {
            table,
            key,
            one_by_one: false,
            buffer_flush_max_rows: 100,
            buffer_flush_interval: Millis::secs(1),
            max_retries: 3,
            timeout: Millis::secs(60),
        }
    }
}

/// Writes an Iceberg table, append only.
#[derive(Clone, Debug)]
pub struct LakeSinkConfig {
    /// Catalog and object store.
    pub client: crate::lake::LakeClientConfig,
    /// `table.exec.iceberg.use-v2-sink`: IcebergSink, else FlinkSink.
    pub v2: bool,
    /// The operator's id.
    pub operator: u64,
    /// The job's id, where it is not that of the submission (`$internal.pipeline.job-id`).
    pub job: Option<u64>,
}

/// What an operator of a chain is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The head of a chain that reads Kafka.
    Source(Arc<SourceConfig>),
    /// Anything between.
    Operator(OperatorConfig),
    /// An end of a chain that writes to Kafka.
    Sink(Arc<SinkConfig>),
    /// An end of a chain that writes to a keyed table.
    Upsert(Arc<UpsertConfig>),
    /// The calls of a function to a service, after the function: its thread stands until all are answered. What the function
    /// makes of the rows goes on in the same turn.
    Call(Arc<UpsertConfig>),
    /// A writer of an Iceberg table, which hands what it has written on to a committer.
    LakeWriter(Arc<LakeSinkConfig>),
    /// The committer, alone in its vertex, and one of it.
    LakeCommitter(Arc<LakeSinkConfig>),
}

/// An operator in a chain.
#[derive(Clone, Debug)]
pub struct Chained {
    /// What it is.
    pub kind: Kind,
    /// Whose output it takes: an earlier operator of the chain; `None` for the task's own input.
    pub after: Option<usize>,
    /// The side output of that one: late rows of a window.
    pub side: bool,
    /// What it hands on is shown to the judge under this number ([`Layer::Emitted`](crate::base::Layer::Emitted)).
    pub shown: Option<u16>,
    /// What one record costs it.
    pub record: Nanos,
}

/// A vertex: a chain of operators that one task runs.
#[derive(Clone, Debug)]
pub struct Vertex {
    /// Subtasks.
    pub parallelism: u16,
    /// Key groups.
    pub max_parallelism: u32,
    /// The chain, each operator after the one whose output it takes.
    pub chain: Vec<Chained>,
}

/// An edge: from the output of an operator to a vertex.
#[derive(Clone, Debug)]
pub struct JobEdge {
    /// The producing vertex.
    pub from: u16,
    /// Which operator of its chain.
    pub after: usize,
    /// Its side output.
    pub side: bool,
    /// The consuming vertex.
    pub to: u16,
    /// How records are dealt out.
    pub exchange: Exchange,
}
impl JobEdge {
    /// Whether subtask `producer` of `from` has a channel to subtask `consumer`.
    pub fn connects(&self, producer: u16, consumer: u16) -> bool {
        match self.exchange {
            Exchange::Forward => producer == consumer,
            Exchange::Rebalance | Exchange::Hash(_) => true,
        }
    }
}

/// How checkpoints are taken.
#[derive(Clone, Copy, Debug)]
pub struct Checkpointing {
    /// When.
    pub config: CheckpointConfig,
    /// `execution.checkpointing.mode` and `unaligned.enabled`.
    pub mode: Mode,
    /// What their barriers demand.
    pub barriers: BarrierKind,
    /// Where state is kept; without, nothing is uploaded.
    pub storage: Option<CheckpointStorage>,
}

/// An object store for checkpoints (`execution.checkpointing.dir`).
#[derive(Clone, Copy, Debug)]
pub struct CheckpointStorage {
    /// Where it is.
    pub client: crate::lake::LakeClientConfig,
    /// `s3.upload.min.part.size`.
    pub part: u32,
    /// `execution.checkpointing.data-inline-threshold`.
    pub inline: u32,
    /// `execution.checkpointing.incremental`: what a completed checkpoint has is not uploaded again.
    pub incremental: bool,
}

/// A job.
#[derive(Clone, Debug)]
pub struct JobGraph {
    /// Vertices, producers before consumers.
    pub vertices: Vec<Vertex>,
    /// Edges.
    pub edges: Vec<JobEdge>,
    /// Checkpoints, if it takes any.
    pub checkpointing: Option<Checkpointing>,
    /// `restart-strategy.*`.
    pub restart: RestartStrategy,
    /// `execution.buffer-timeout.interval`.
    pub buffer_timeout: Nanos,
}
impl JobGraph {
    /// Slots that it needs: one for each subtask of its widest vertex, for all vertices share one slot-sharing group (R1.2).
    pub fn slots(&self) -> u16 {
        self.vertices.iter().map(|v| v.parallelism).max().unwrap_or(0)
    }
    /// Every subtask: vertex and index, producers before consumers.
    pub fn subtasks(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.vertices.iter().zip(0u16..).flat_map(|(v, number)| (0..v.parallelism).map(move |i| (number, i)))
    }
}
