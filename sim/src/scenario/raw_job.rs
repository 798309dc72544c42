//! Flink as written: the cluster, and jobs as graphs of sources, operators and sinks.

use super::raw::{ProducerKeys, Settings};
use super::raw_keys::{FlinkKeys, JobKeys, SinkKeys, SourceKeys};
use super::units::{Duration, Size};
use model::base::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The Flink cluster: one JobManager and some TaskManagers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Flink {
    /// TaskManagers, counted from 0.
    #[schemars(range(min = 1, max = 64))]
    pub task_managers: u16,
    /// The cluster's keys.
    #[serde(skip_serializing_if = "Settings::is_empty")]
    pub config: Settings<FlinkKeys>,
    /// How long it has been up when the run begins: a young cluster waits for TaskManagers, an old one does not (R1.4).
    pub age: Duration,
}
impl Default for Flink {
    fn default() -> Self {
        Self { task_managers: 2, config: Settings::default(), age: Duration(Nanos::secs(3_600)) }
    }
}

/// A job: a graph from sources over operators to sinks. Operators that follow each other without a key are one task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Job {
    /// Name.
    pub name: String,
    /// Its keys: `execution.*`, `pipeline.*`, `restart-strategy.*`, `parallelism.default`.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub config: Settings<JobKeys>,
    /// The job whose id it runs under too, as in application mode with high availability; without, it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_id_as: Option<String>,
    /// Begins with the cluster; else a fault of kind `job` submits it.
    #[serde(default = "yes")]
    pub starts: bool,
    /// The job with whose newest retained checkpoint or savepoint it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<Resumes>,
    /// The lake whose object store keeps its checkpoints (`execution.checkpointing.dir`): a task's state is there before the task
    /// acknowledges. Without, it is kept at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<String>,
    /// What it reads.
    pub sources: Vec<JobSource>,
    /// What happens in between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<JobOperator>,
    /// What it writes.
    pub sinks: Vec<JobSink>,
}
impl Job {
    /// Topics into which a changelog is written.
    pub fn changelogs(&self) -> impl Iterator<Item = &str> {
        let group_window =
            |name: &str| self.operators.iter().any(|o| o.name == name && o.kind == OperatorKind::GroupWindow);
        self.sinks.iter().filter(move |s| group_window(&s.input)).filter_map(|s| s.topic.as_deref())
    }
    /// Whether what a node hands on are windows, each a row: those of a window operator, perhaps with other columns.
    pub fn holds_windows(&self, node: &str) -> bool {
        let mut at = node;
        // As many steps as there are operators: they may go round in a circle.
        for _ in &self.operators {
            match self.operators.iter().find(|o| o.name == at) {
                Some(o) if o.kind.is_window() => return true,
                Some(o) if o.kind == OperatorKind::Map => at = &o.input,
                _ => return false,
            }
        }
        false
    }
}

const fn yes() -> bool {
    true
}
/// With which state a job begins.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Resumes {
    /// The other job; the same operators, perhaps at another parallelism.
    pub from: String,
    /// What of it.
    pub state: ResumedState,
}
/// What is kept of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResumedState {
    /// Its newest checkpoint, if it was retained.
    Checkpoint,
    /// Its newest savepoint.
    Savepoint,
}

/// Reads a topic (`KafkaSource` of connector 3.4).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct JobSource {
    /// Name.
    pub name: String,
    /// The topic; several, with the same columns, stand behind each other with `;` between them, as in the connector's `topic`.
    pub topic: String,
    /// The consumer's keys. With `group.id` the group is told of completed checkpoints; nothing begins from there.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub config: Settings<SourceKeys>,
    /// It can be read again from an offset. One that cannot, as a socket, gives each start but the first only what comes from
    /// then on; no checkpoint keeps a place in it.
    #[serde(default = "yes")]
    pub replay: bool,
    /// A bounded source ends before these offsets, one a partition; what the topic holds beyond is nobody's. Without, it does not
    /// end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Vec<u32>>,
    /// How event time passes; without, it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Watermark>,
    /// A counterfactual that no connector offers: each subtask hands records on in the order of their event time over all of its
    /// partitions. It waits for every one, and for one that has nothing so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterfactual_merge: Option<Duration>,
    /// Work for one record.
    #[serde(default = "per_record")]
    pub record: Duration,
}
impl JobSource {
    /// Its topics.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.topic.split(';').map(str::trim)
    }
}
/// Which code makes the watermarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// `WatermarkStrategy.forBoundedOutOfOrderness`: one millisecond below the bound.
    #[default]
    Bounded,
    /// `WATERMARK FOR ts AS ts - delay`, pushed into the source.
    Sql,
}
/// How event time passes at a source.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Watermark {
    /// How far behind the newest event the watermark is.
    pub bound: Duration,
    /// A partition that gives nothing for so long is idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Duration>,
    /// Which code makes it.
    #[serde(default)]
    pub generator: Generator,
    /// The source makes it, for each partition apart. Else an operator behind it does, of all that its subtask reads: that of
    /// SQL (`WatermarkAssigner`), or `assignTimestampsAndWatermarks` with the generator `bounded`.
    #[serde(default = "yes")]
    pub pushed_down: bool,
    /// Waits for other sources and readers of the job (`scan.watermark.alignment.*`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Alignment>,
}
/// Watermark alignment.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Alignment {
    /// Sources of a job with the same name wait for each other.
    #[serde(default = "one_group")]
    pub group: String,
    /// How far a source may be ahead.
    pub max_drift: Duration,
    /// How often a reader reports, and the coordinator tells how far they may go.
    #[serde(default = "one_second")]
    pub update_interval: Duration,
}
fn one_group() -> String {
    "group".into()
}
const fn one_second() -> Duration {
    Duration(Nanos::secs(1))
}

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OperatorKind {
    /// Hands on rows that meet `where`.
    Filter,
    /// Hands on rows with other `columns`.
    Map,
    /// Keyed: pairs the first row that meets `left` with the first that meets `right`.
    Join,
    /// Keyed: a tumbling (`size`), sliding (`size`, `slide`) or session (`gap`) window with a sum and a count.
    Window,
    /// Keyed: hands on the first row of each key.
    Deduplicate,
    /// Keyed: an aggregate over one of SQL's window table functions: TUMBLE (`size`), HOP (`size`, `slide`), CUMULATE (`size`,
    /// `step`) or SESSION (`gap`), with a sum and a count. What is late is dropped.
    SqlWindow,
    /// Keyed: `GROUP BY TUMBLE(...)` (`size`), `HOP(...)` (`size`, `slide`) or `SESSION(...)` (`gap`) of older SQL, with a sum,
    /// or a count if no `sum` is given. What it hands on is a changelog whose column `op` says what a row does: 0 inserts, 1
    /// takes back before an update, 2 puts in after it. With `table.exec.emit.late-fire.enabled` at the job, which sessions do
    /// not have, an event that comes late updates its window, for as long as `table.exec.emit.allow-lateness`; else it is
    /// dropped.
    GroupWindow,
    /// `WHERE window_end - INTERVAL '0.001' SECOND <= CURRENT_WATERMARK(rowtime)`: hands on rows whose tumbling window of
    /// `size` is over; without `size`, rows that are not later than the watermark. Before the first watermark, none.
    LateFilter,
}
impl OperatorKind {
    /// Whether it makes windows.
    pub const fn is_window(self) -> bool {
        matches!(self, Self::Window | Self::SqlWindow | Self::GroupWindow)
    }
}
/// An operator.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct JobOperator {
    /// Name.
    pub name: String,
    /// What it does.
    pub kind: OperatorKind,
    /// Whose output it takes: a source or an operator; `NAME.late` for what a window was too late for.
    pub input: String,
    /// Subtasks, instead of `parallelism.default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub parallelism: Option<u16>,
    /// The column that rows are keyed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `COLUMN = VALUE`, with `=`, `<>`, `<`, `>=`; texts stand between single quotes.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Columns of the result, up to four: `NAME`, `NAME = COLUMN`, `NAME = left.COLUMN`, `NAME = event_time`, `NAME = 17`,
    /// `NAME = record_key` for the number that stands for the record's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// Of a join: rows of the left kind, as `where`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// Of a join: rows of the right kind, whose time the pair has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<String>,
    /// Of a map: each row is a call to a service, which the task waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Call>,
    /// How long state is kept: of a join in event time; of a deduplication in processing time, for ever if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// Of a deduplication: what a key and its value take in a checkpoint; 17 bytes if not given, a number, a flag and a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Size>,
    /// Length of a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Duration>,
    /// From one start of a sliding window to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slide: Option<Duration>,
    /// By how much a cumulating window is longer than the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Duration>,
    /// Silence that ends a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Duration>,
    /// `allowedLateness`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_lateness: Option<Duration>,
    /// The column that a window sums up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
    /// Size of a window's result as a record.
    #[serde(default = "result_bytes")]
    pub bytes: Size,
    /// Work for one record.
    #[serde(default = "per_record")]
    pub record: Duration,
}

/// Calls of a function to a service outside.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Call {
    /// The service: a table. Its primary key is the idempotency key of the calls; without one each call takes effect.
    pub to: String,
    /// How long one waits for its answer.
    #[serde(default = "answer")]
    pub timeout: Duration,
    /// How often a call is made again before the function throws.
    #[serde(default = "again")]
    pub retries: u32,
}
const fn answer() -> Duration {
    Duration(Nanos::secs(10))
}
const fn again() -> u32 {
    3
}

/// A table with a primary key, in a database of its own; without a key, every row is kept.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Table {
    /// Name.
    pub name: String,
    /// The columns of its primary key, one or two; none keeps every row.
    #[serde(default)]
    pub key: Vec<String>,
    /// A column that a statement must not take back (`WHERE excluded.version >= version`); without, the last statement wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Work for one row of a statement.
    #[serde(default = "per_row")]
    pub row: Duration,
}
const fn per_row() -> Duration {
    Duration(Nanos::micros(50))
}

/// Writes a topic (`KafkaSink` of connector 3.4) or upserts into a table.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct JobSink {
    /// Name.
    pub name: String,
    /// Whose output it writes.
    pub input: String,
    /// The topic; else a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The column that becomes the key of the topic's records (`key.fields`); without, a row keeps the key that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The keyed table that rows are upserted into, as the JDBC sink does, at least once; else a topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The Iceberg table that rows are appended to, by FlinkSink, or by IcebergSink with `table.exec.iceberg.use-v2-sink`; else a
    /// topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lake: Option<String>,
    /// Its keys.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub config: Settings<SinkKeys>,
    /// The producer's keys (`properties.*`).
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub producer: Settings<ProducerKeys>,
    /// Work for one record.
    #[serde(default = "per_record")]
    pub record: Duration,
}

const fn per_record() -> Duration {
    Duration(Nanos::micros(5))
}
const fn result_bytes() -> Size {
    Size(96)
}
