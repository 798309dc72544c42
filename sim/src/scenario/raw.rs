//! A scenario file as written: the one description of its shape. `sim schema` prints the JSON Schema of these types, and the
//! structural check walks that same schema, so the two cannot differ.

use super::keys::Profile;
use super::raw_fault::{Dead, Fault};
pub use super::raw_gatekeeper::{Decoder, Gatekeeper, Registry, TransactionalIds};
pub use super::raw_job::{
    Call, Flink, Generator, Job, JobOperator, JobSink, JobSource, OperatorKind, ResumedState, Table,
};
pub use super::raw_keys::{ConsumerKeys, FeatureKeys, ProducerKeys, ServerKeys, Settings, TopicKeys};
use super::raw_objective::{Marking, Objective};
pub use super::raw_store::{ClickHouse, ClickHouseTable, Lake, TableEngine, TableView};
pub use super::raw_workload::{Pace, Skew, TimeUnit, Workload, WorkloadKind};
use super::units::{Draw, Duration, Rate, Share, Size};
use model::base::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A scenario: a pipeline, its configuration, a workload, faults and what is expected to come out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Raw {
    /// Name; that of the file if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What happens and what comes out, in one line.
    pub description: String,
    /// Another scenario on which this one is laid: a name (`kafka/steady`) or a path relative to this file. Tables are merged,
    /// `[[...]]` tables by their `name`; all else is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    /// Parts of the extended scenario that are left out, as paths: `faults`, `readers.check`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Fixes that are not in force: published bugs and planted defects, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleared_fixes: Vec<String>,
    /// What no source states and the scenario takes for granted. Echoed in the outcome.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub assumptions: BTreeMap<String, Json>,
    /// How the run ends.
    #[serde(default)]
    pub run: Run,
    /// The Kafka cluster.
    #[serde(default)]
    pub cluster: Cluster,
    /// The machines that processes run on.
    #[serde(default)]
    pub hosts: Hosts,
    /// Machines that several processes share, or that differ from the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Machine>,
    /// The network between machines.
    #[serde(default)]
    pub network: Network,
    /// Topics. At least one.
    pub topics: Vec<Topic>,
    /// Applications that send the workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<Application>,
    /// Consumers: plain, or in a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<Reader>,
    /// Applications that consume, validate and produce in transactions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gatekeepers: Vec<Gatekeeper>,
    /// The schema registry, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Registry>,
    /// The Flink cluster that runs the jobs.
    #[serde(default)]
    pub flink: Flink,
    /// Flink jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Job>,
    /// Keyed tables that jobs write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// ClickHouse servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clickhouse: Vec<ClickHouse>,
    /// Iceberg tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lakes: Vec<Lake>,
    /// What the applications send, unless they have a workload of their own.
    #[serde(default)]
    pub workload: Workload,
    /// How fresh events must be where somebody looks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<Objective>,
    /// Rules that mark windows as approximate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub markings: Vec<Marking>,
    /// What goes wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// What must hold of the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
    /// The one change under which the expectations are violated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// How the run ends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Run {
    /// Longest time that is waited after the workload's end and the last fault for everything to arrive.
    pub drain: Duration,
    /// Bound of the liveness law: everything moves again this long after the last fault has healed.
    pub liveness: Duration,
}
impl Default for Run {
    fn default() -> Self {
        Self { drain: secs(180), liveness: secs(120) }
    }
}

/// The Kafka cluster.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Cluster {
    /// Nodes, numbered from 1. Each is broker and controller.
    #[schemars(range(min = 1, max = 63))]
    pub brokers: u16,
    /// Where controllers run.
    pub controllers: Controllers,
    /// Kafka's server keys, for every node.
    #[serde(skip_serializing_if = "Settings::is_empty")]
    pub config: Settings<ServerKeys>,
    /// Feature levels.
    #[serde(skip_serializing_if = "Settings::is_empty")]
    pub features: Settings<FeatureKeys>,
    /// Server keys of single nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
}
impl Default for Cluster {
    fn default() -> Self {
        Self {
            brokers: 3,
            controllers: Controllers::Combined,
            config: Settings::default(),
            features: Settings::default(),
            overrides: Vec::new(),
        }
    }
}
/// Where controllers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Controllers {
    /// `process.roles=broker,controller` on every node.
    Combined,
}
/// Server keys of one node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Override {
    /// Which node.
    pub broker: u16,
    /// Its keys.
    pub config: Settings<ServerKeys>,
}

/// What a machine can do and what work costs on it. No source states these figures: they stand among the assumptions of the
/// outcome.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Hosts {
    /// Processor cores.
    #[schemars(range(min = 1, max = 1024))]
    pub cores: u16,
    /// Disk throughput.
    pub disk_bandwidth: Rate,
    /// What one flush takes besides its bytes.
    pub disk_flush: Duration,
    /// Disk size.
    pub disk_capacity: Size,
    /// From the start of a broker process until it acts (a JVM's start).
    pub start: Draw<Duration>,
    /// Loading one partition's log after a clean stop.
    pub load_log: Duration,
    /// Recovering one partition's log after an unclean stop (L-22).
    pub recover_log: Duration,
    /// From the arrival of a metadata record until a broker acts on it (C-9).
    pub apply_metadata: Draw<Duration>,
    /// Work for one request.
    pub request: Duration,
    /// Work for one record of a request.
    pub record: Duration,
}
impl Default for Hosts {
    fn default() -> Self {
        Self {
            cores: 4,
            disk_bandwidth: Rate(400_000_000),
            disk_flush: millis(4),
            disk_capacity: Size(1 << 40),
            start: Draw::Range([secs(2), secs(5)]),
            load_log: millis(5),
            recover_log: millis(20),
            apply_metadata: Draw::Range([millis(1), millis(50)]),
            request: Duration(Nanos::micros(60)),
            record: Duration(Nanos(500)),
        }
    }
}
/// A machine of its own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Machine {
    /// Name.
    pub name: String,
    /// Processes that run on it: `broker 1`, `application shop`, `reader check`.
    pub runs: Vec<String>,
    /// Processor cores, instead of `[hosts]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub cores: Option<u16>,
    /// Disk throughput, instead of `[hosts]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bandwidth: Option<Rate>,
    /// Flush time, instead of `[hosts]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_flush: Option<Duration>,
}

/// The network between machines.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Network {
    /// One way between two machines.
    pub latency: Draw<Duration>,
    /// Of a machine's link, each way.
    pub bandwidth: Rate,
    /// What the network tells the others about a dead machine, unless a fault says otherwise.
    pub dead: Dead,
    /// Pairs that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
}
impl Default for Network {
    fn default() -> Self {
        Self {
            latency: Draw::Range([Duration(Nanos::micros(100)), Duration(Nanos::micros(400))]),
            bandwidth: Rate(125_000_000),
            dead: Dead::default(),
            links: Vec::new(),
        }
    }
}
/// A pair of machines with a link of its own, both ways.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Link {
    /// One end.
    pub from: String,
    /// The other.
    pub to: String,
    /// One way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Draw<Duration>>,
    /// Each way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
}

/// A topic.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Topic {
    /// Name.
    pub name: String,
    /// Partitions.
    #[serde(default = "six")]
    #[schemars(range(min = 1, max = 4096))]
    pub partitions: u16,
    /// Replicas of each.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 63))]
    pub replication_factor: u16,
    /// What its values are.
    #[serde(default, skip_serializing_if = "Values::is_rows")]
    pub values: Values,
    /// Of Avro: its records are as large as the workload's `payload` says, as with other fields that nobody looks at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filled: bool,
    /// Kafka's topic keys.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub config: Settings<TopicKeys>,
    /// Replicas of each partition by node number, the preferred leader first; spread round robin if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Vec<Vec<u16>>>,
}

/// What the values of a topic are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// Of the workload's sizes; nobody decodes them.
    #[default]
    Rows,
    /// Avro in the Confluent wire format; sizes are those of the bytes.
    Avro,
}
impl Values {
    /// Whether nobody decodes them.
    pub fn is_rows(&self) -> bool {
        *self == Self::Rows
    }
}

/// What an application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationKind {
    /// Sends its workload to a topic.
    Producer,
    /// Reserved: consumes, validates and produces in transactions.
    Gatekeeper,
    /// Reserved: sums up what is to be paid.
    Billing,
}
/// An application.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Application {
    /// Name.
    pub name: String,
    /// What it does.
    #[serde(default = "producer")]
    pub kind: ApplicationKind,
    /// Its client library.
    #[serde(default = "java")]
    pub profile: Profile,
    /// The topic it sends to; the only one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The client's keys. A producer of its own.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub config: Settings<ProducerKeys>,
    /// Sends in transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<Transaction>,
    /// Processes; sessions are dealt out over them.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub instances: u16,
    /// A workload of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// When it starts.
    #[serde(default)]
    pub start: Duration,
}

/// How an application deals out its rows over transactions: whichever bound is reached first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Transaction {
    /// Rows at most.
    #[schemars(range(min = 1))]
    pub rows: u32,
    /// From the first row to the commit.
    pub every: Duration,
    /// `transactional.id`; the instance's name if not given. All instances have this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Transactions that the application aborts by itself; it sends their rows again.
    pub aborts: Share,
    /// librdkafka: how long a commit or an abort may take before it is called again; not given, as the documentation
    /// recommends (-1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// After a fatal error it goes on with the same instance; else another one takes its place.
    pub keeps_fatal: bool,
}
impl Default for Transaction {
    fn default() -> Self {
        Self { rows: 500, every: secs(1), id: None, aborts: Share(0), timeout: None, keeps_fatal: false }
    }
}

/// A consumer: plain, of whole topics, or with `group.id` in a group, whose members share the partitions.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Reader {
    /// Name; also that of its layer in the outcome.
    pub name: String,
    /// Its client library.
    #[serde(default = "java")]
    pub profile: Profile,
    /// What it reads; every topic if not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// The client's keys, `isolation.level` among them.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub config: Settings<ConsumerKeys>,
    /// Time between the end of one poll and the next.
    #[serde(default)]
    pub poll_every: Duration,
    /// What the application does with one record.
    #[serde(default)]
    pub record: Duration,
    /// Processes; more than one are members of a group.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub instances: u16,
    /// How long one poll of a member blocks at most.
    #[serde(default = "poll_timeout")]
    pub poll_timeout: Duration,
    /// From the start of one process to that of the next.
    #[serde(default)]
    pub stagger: Duration,
    /// Records go to a worker thread, and the next poll does not wait for it.
    #[serde(default)]
    pub hand_over: bool,
    /// When it starts; late, it finds a backlog.
    #[serde(default)]
    pub start: Duration,
    /// How it takes the rows of a changelog, which a `group-window` hands on.
    #[serde(default, skip_serializing_if = "Reads::is_rows")]
    pub reads: Reads,
}
/// How a reader takes the rows of a changelog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// Each as a result of its own, whatever its `op` says.
    #[default]
    Rows,
    /// It adds what is inserted, and takes away what is retracted.
    Changelog,
    /// It adds what is inserted, and passes over what is retracted.
    IgnoresRetractions,
}
impl Reads {
    fn is_rows(&self) -> bool {
        *self == Self::Rows
    }
}

/// Something that must hold of the outcome.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Expectation {
    /// A path into the outcome, a comparison, a value: `layers.events.missing = 0`, `max(stalls.*.ms) in 7000..=10700`.
    /// `*` stands for every name or place.
    pub that: OneOrMore,
    /// Why it is so: rule ids, measured rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The one change under which the expectations are violated: a paired run shows it. Exactly one of the three keys.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Change {
    /// `PATH=VALUE`, as `--set` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// A fix that is cleared, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clear_fix: Option<String>,
    /// A fault that is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_fault: Option<Fault>,
    /// What comes out then, in one line.
    pub then: String,
}

/// One text or several.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMore {
    /// One.
    One(String),
    /// Several.
    More(Vec<String>),
}
impl OneOrMore {
    /// All of them.
    pub fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::More(texts) => texts,
        }
    }
}

const fn secs(n: u64) -> Duration {
    Duration(Nanos::secs(n))
}
const fn millis(n: u64) -> Duration {
    Duration(Nanos::millis(n))
}
const fn six() -> u16 {
    6
}
const fn three() -> u16 {
    3
}
pub(super) const fn one() -> u16 {
    1
}
pub(super) const fn poll_timeout() -> Duration {
    millis(100)
}
pub(super) const fn java() -> Profile {
    Profile::Java
}
const fn producer() -> ApplicationKind {
    ApplicationKind::Producer
}
