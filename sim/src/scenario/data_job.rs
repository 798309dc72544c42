//! Flink in a scenario ready to run: the cluster, keyed tables, jobs as graphs.

use super::data::Column;
use super::keys::Config;
use model::base::{Millis, Nanos, TopicId};
use model::flink::runtime::graph::{KeyColumn, Watermarks};
use model::flink::runtime::operator::OperatorConfig;
use model::keyed_table::KeyColumns;

/// A Flink cluster.
#[derive(Clone, Debug)]
pub struct Flink {
    /// The JobManager's machine, by place in [`Scenario::machines`](super::data::Scenario::machines).
    pub job_manager: usize,
    /// The machine of each TaskManager.
    pub task_managers: Vec<usize>,
    /// Its keys.
    pub config: Config,
    /// How long it has been up when the run begins.
    pub age: Nanos,
}
/// A keyed table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name.
    pub name: String,
    /// Its machine, by place in [`Scenario::machines`](super::data::Scenario::machines).
    pub machine: usize,
    /// Its primary key; without, it keeps every row.
    pub key: Option<KeyColumns>,
    /// A column that a statement must not take back.
    pub version: Option<u8>,
    /// Work for one row of a statement.
    pub row: Nanos,
}
/// A job: sources, operators and sinks, each after what it takes its input from.
#[derive(Clone, Debug)]
pub struct Job {
    /// Name.
    pub name: String,
    /// Its keys.
    pub config: Config,
    /// It begins with the cluster.
    pub starts: bool,
    /// With whose state it begins, by place in [`Scenario::jobs`](super::data::Scenario::jobs), and whether that is a savepoint.
    pub resumes: Option<(usize, bool)>,
    /// Under whose id it runs, by place in [`Scenario::jobs`](super::data::Scenario::jobs).
    pub same_id_as: Option<usize>,
    /// Whose object store keeps its checkpoints, by place in [`Scenario::lakes`](super::data::Scenario::lakes).
    pub checkpoints: Option<usize>,
    /// Its graph.
    pub nodes: Vec<JobNode>,
}
/// The way up from an input to the source: nodes by place in their graph, each with whether it gives by its side output.
pub fn upwards(nodes: &[JobNode], input: Option<(usize, bool)>) -> impl Iterator<Item = (usize, bool)> {
    std::iter::successors(input, |(at, _)| nodes[*at].input)
}
/// A node of a job's graph.
#[derive(Clone, Debug)]
pub struct JobNode {
    /// Name.
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
    /// Whose output it takes, by place in the graph, and whether that is the side output. `None` for a source.
    pub input: Option<(usize, bool)>,
    /// Subtasks.
    pub parallelism: u16,
    /// Work for one record.
    pub record: Nanos,
    /// Columns of what it hands on.
    pub columns: Vec<Column>,
    /// Its calls to a service, of a map.
    pub call: Option<Call>,
}
/// Calls of a map.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// To whom, by place in [`Scenario::tables`](super::data::Scenario::tables).
    pub to: usize,
    /// How long one waits for its answer.
    pub timeout: Millis,
    /// How often it is made again.
    pub retries: u32,
}
impl JobNode {
    /// Whether it is an end of the graph.
    pub const fn is_sink(&self) -> bool {
        matches!(self.kind, NodeKind::Sink { .. } | NodeKind::Upsert(_) | NodeKind::Lake(_))
    }
}
/// What a node of a job's graph does.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Reads topics.
    Source {
        /// The topics.
        topics: Vec<TopicId>,
        /// The consumer's keys.
        config: Config,
        /// How event time passes.
        watermarks: Option<Watermarks>,
        /// Where each partition ends, of a bounded one.
        until: Option<Vec<u32>>,
        /// It can be read again.
        replays: bool,
        /// It merges its partitions by event time, and waits so long for one that has nothing.
        merge: Option<Millis>,
        /// The group that it commits offsets for, by place in [`Scenario::groups`](super::data::Scenario::groups).
        group: Option<u32>,
    },
    /// Computes, keyed or not.
    Operator(OperatorConfig, Option<KeyColumn>),
    /// Writes a topic.
    Sink {
        /// The topic.
        topic: TopicId,
        /// Its keys.
        config: Config,
        /// The producer's keys.
        producer: Config,
        /// The column that becomes the records' key.
        key: Option<u8>,
    },
    /// Upserts into a table, by place in [`Scenario::tables`](super::data::Scenario::tables).
    Upsert(usize),
    /// Appends to an Iceberg table, by place in [`Scenario::lakes`](super::data::Scenario::lakes).
    Lake(usize),
}
