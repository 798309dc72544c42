//! A job as the JobManager runs it: vertices of chained operators, and edges between them (`JobGraph`).

use super::operator::OperatorConfig;
use crate::base::{Addr, Millis, Nanos, TopicPartition};
use crate::flink::barrier::{BarrierKind, Mode};
use crate::flink::checkpoint::CheckpointConfig;
use crate::flink::kafka::DeliveryGuarantee;
use crate::flink::key_groups::long_hash;
use crate::flink::restart::RestartStrategy;
use crate::flink::source::Strategy;
use crate::kafka::client::java::{NetworkConfig, ProducerConfig};
use crate::kafka::client::java_consumer::ConsumerConfig;
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
}
impl KeyColumn {
    /// The column.
    pub const fn column(self) -> usize {
        match self {
            Self::Long(column) | Self::Text(column) => column as usize,
        }
    }
    /// Java's `hashCode` of a value.
    pub const fn hash_code(self, value: i64) -> i32 {
        match self {
            Self::Long(_) => long_hash(value),
            Self::Text(_) => value as i32,
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
    /// Its `WatermarkStrategy`; none is `noWatermarks()`.
    pub watermarks: Option<Watermarks>,
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
    /// The producer.
    pub producer: Box<ProducerConfig>,
}

/// Writes a keyed table (`JdbcSink` with upserts). At least once; the table converges by key.
#[derive(Clone, Debug)]
pub struct UpsertConfig {
    /// Where the table's database listens.
    pub table: Addr,
    /// Its primary key: of rows with one key a batch holds the last.
    pub key: KeyColumns,
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
    pub const fn new(table: Addr, key: KeyColumns) -> Self {
        Self {
            table,
            key,
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
