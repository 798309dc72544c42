//! A scenario ready to run: plain data in which nothing has to be looked up or parsed any more.

pub use super::data_fault::{Action, Chaos, Cut, Fault, FaultSpec, Target, Trigger, TriggerEvent, Trouble, When};
pub use super::data_job::{Call, Flink, Job, JobNode, NodeKind, Table, upwards};
pub use super::data_store::{ClickHouse, ClickHouseTable, Lake, LakeCatalog, TableView};
use super::expect::Expectation;
use super::keys::{Config, Profile};
pub use super::raw::{Decoder, Pace, Skew, TimeUnit, TransactionalIds};
pub use super::raw_fault::{Dead, EffectKind, Existing, New, Ports};
use crate::judge::{MarkingRule, Objective, Reading};
use model::app::{Gateway, Shopping};
use model::base::{BrokerId, Fixes, Nanos, SimTime, TopicId, TopicPartition};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything between two values of time, both included; the seed draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Smallest.
    pub low: Nanos,
    /// Largest.
    pub high: Nanos,
}

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name: `kafka/steady`.
    pub name: String,
    /// One line.
    pub description: String,
    /// What no source states; echoed in the outcome.
    pub assumptions: BTreeMap<String, Json>,
    /// Fixes in force.
    pub fixes: Fixes,
    /// Longest wait after the workload and the last fault.
    pub drain: Nanos,
    /// Bound of the liveness law.
    pub liveness: Nanos,
    /// The cluster.
    pub cluster: Cluster,
    /// Machines in the order of [`Cluster`], applications' instances, readers; see `Scenario::machine_of`.
    pub machines: Vec<Machine>,
    /// The network.
    pub network: Network,
    /// Costs of work on every machine.
    pub costs: Costs,
    /// Topics; [`TopicId`] is the place in this list.
    pub topics: Vec<Topic>,
    /// Applications.
    pub applications: Vec<Application>,
    /// Readers.
    pub readers: Vec<Reader>,
    /// `group.id`s, by number.
    pub groups: Vec<String>,
    /// Gatekeepers.
    pub gatekeepers: Vec<Gatekeeper>,
    /// The schema registry.
    pub registry: Option<Registry>,
    /// Faults as declared; [`Scenario::schedule`] draws from the seed what they leave open.
    pub faults: Vec<FaultSpec>,
    /// What must hold.
    pub expectations: Vec<Expectation>,
    /// How fresh events must be.
    pub objectives: Vec<Objective>,
    /// Rules that mark windows.
    pub markings: Vec<MarkingRule>,
    /// Prefixes of transactional ids that programs make up while they run.
    pub made_up_ids: Vec<Arc<str>>,
    /// The Flink cluster, if there are jobs.
    pub flink: Option<Flink>,
    /// Jobs.
    pub jobs: Vec<Job>,
    /// Keyed tables.
    pub tables: Vec<Table>,
    /// ClickHouse servers.
    pub clickhouse: Vec<ClickHouse>,
    /// Iceberg tables.
    pub lakes: Vec<Lake>,
}

impl Scenario {
    /// Every partition of some topics.
    pub fn partitions_of(&self, topics: &[TopicId]) -> Arc<[TopicPartition]> {
        let of = |t: &TopicId| (*t, self.topics[usize::from(t.0)].assignment.len() as u16);
        topics
            .iter()
            .map(of)
            .flat_map(|(topic, n)| (0..n).map(move |partition| TopicPartition { topic, partition }))
            .collect()
    }
    /// Names of what stores rows, by the numbers under which these are shown: keyed tables, Iceberg tables, then those of
    /// ClickHouse.
    pub fn stores(&self) -> impl Iterator<Item = &str> {
        let keyed = self.tables.iter().map(|t| t.name.as_str());
        let lakes = self.lakes.iter().map(|l| l.name.as_str());
        keyed.chain(lakes).chain(self.clickhouse.iter().flat_map(|c| &c.tables).map(|t| t.name.as_str()))
    }
}

/// The Kafka cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Nodes, each with its server keys.
    pub nodes: Vec<Node>,
    /// Feature levels.
    pub features: Config,
}
/// A node: broker and controller.
#[derive(Clone, Debug)]
pub struct Node {
    /// `node.id`, from 1.
    pub id: BrokerId,
    /// Its server keys.
    pub config: Config,
    /// Its machine, by place in [`Scenario::machines`].
    pub machine: usize,
}
/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name; of a machine that nobody declared, that of its only process.
    pub name: String,
    /// Cores.
    pub cores: u16,
    /// Bytes a second.
    pub disk_bandwidth: u64,
    /// What one flush takes besides its bytes.
    pub disk_flush: Nanos,
    /// Bytes.
    pub disk_capacity: u64,
}
/// What work costs. Assumptions, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Start of a broker process.
    pub start: Range,
    /// Loading a log after a clean stop.
    pub load_log: Nanos,
    /// Recovering a log after an unclean stop.
    pub recover_log: Nanos,
    /// From the arrival of a metadata record until a broker acts on it.
    pub apply_metadata: Range,
    /// One request.
    pub request: Nanos,
    /// One record of a request.
    pub record: Nanos,
}
/// The network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// One way.
    pub latency: Range,
    /// Bytes a second of a machine's link, each way.
    pub bandwidth: u64,
    /// Pairs of machines that differ, both ways.
    pub links: Vec<Link>,
}
/// A pair of machines that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Machines of one side.
    pub from: Vec<usize>,
    /// Machines of the other.
    pub to: Vec<usize>,
    /// One way.
    pub latency: Range,
    /// Bytes a second.
    pub bandwidth: u64,
}
/// A topic.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its number.
    pub id: TopicId,
    /// Name.
    pub name: String,
    /// Replicas of each partition, the preferred leader first.
    pub assignment: Vec<Vec<BrokerId>>,
    /// Its keys; those not set have their server's value.
    pub config: Config,
    /// Its values are Avro, under this schema's id.
    pub schema: Option<u32>,
    /// Records in Avro are as large as the workload says: other fields take what is left.
    pub filled: bool,
}
/// Round robin from broker 1, each partition one further: what `kafka-topics --create` does on an empty cluster, but for its
/// random start.
pub fn spread(partitions: u16, replicas: u16, brokers: u16) -> Vec<Vec<BrokerId>> {
    let broker = |n: u16| BrokerId(i32::from(n % brokers) + 1);
    (0..partitions).map(|p| (0..replicas).map(|r| broker(p % brokers + r)).collect()).collect()
}
/// An application that sends.
#[derive(Clone, Debug)]
pub struct Application {
    /// Name.
    pub name: String,
    /// Client library.
    pub profile: Profile,
    /// Where it sends to.
    pub topic: TopicId,
    /// Its client's keys.
    pub config: Config,
    /// Sends in transactions.
    pub transaction: Option<Transaction>,
    /// The machine of each instance, by place in [`Scenario::machines`]; sessions are dealt out over instances.
    pub instances: Vec<usize>,
    /// What it sends.
    pub workload: Workload,
    /// When it starts.
    pub start: SimTime,
}
/// How an application deals out its rows over transactions.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Rows at most.
    pub rows: u32,
    /// From the first row to the commit.
    pub every: Nanos,
    /// `transactional.id` of all instances; each one's name if not given.
    pub id: Option<String>,
    /// In a million: transactions that the application aborts by itself.
    pub aborts_ppm: u32,
    /// How long a call of librdkafka may take.
    pub timeout: Option<Nanos>,
    /// It goes on with an instance that can do no more.
    pub keeps_fatal: bool,
}
/// A consumer.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Name.
    pub name: String,
    /// Client library.
    pub profile: Profile,
    /// What it reads.
    pub topics: Vec<TopicId>,
    /// Its client's keys.
    pub config: Config,
    /// The machine of each instance, by place in [`Scenario::machines`].
    pub instances: Vec<usize>,
    /// From the end of one poll to the next.
    pub poll_every: Nanos,
    /// What it does with one record.
    pub record: Nanos,
    /// Its group, by place in [`Scenario::groups`].
    pub group: Option<u32>,
    /// How long one poll of a member blocks at most.
    pub poll_timeout: Nanos,
    /// From the start of one instance to that of the next.
    pub stagger: Nanos,
    /// Records go to a worker thread.
    pub hand_over: bool,
    /// When it starts.
    pub start: SimTime,
    /// How it takes changelogs.
    pub reads: Reading,
}
/// A schema registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    /// The machine of each process.
    pub instances: Vec<usize>,
    /// Work for one request.
    pub request: Nanos,
}
/// A gatekeeper.
#[derive(Clone, Debug)]
pub struct Gatekeeper {
    /// Name.
    pub name: String,
    /// As a consumer: client, keys, group, machines, start.
    pub consumer: Reader,
    /// The producer's client library.
    pub producing: Profile,
    /// The producer's keys.
    pub producer: Config,
    /// Where valid rows go.
    pub valid: TopicId,
    /// Where the others go.
    pub dead_letters: TopicId,
    /// Rows of a transaction, and how long it lasts.
    pub transaction: (u32, Nanos),
    /// Its `transactional.id`s.
    pub ids: TransactionalIds,
    /// The offsets name the member.
    pub group_metadata: bool,
    /// Every exception counts as poison.
    pub trusts_exceptions: bool,
    /// Poison ends the process.
    pub crashes_on_poison: bool,
    /// A transaction without new offsets is committed too.
    pub commit_without_offsets: bool,
    /// It merges its partitions by event time, and waits so long for one that has nothing.
    pub merge: Option<Nanos>,
    /// A record by the clock.
    pub punctuate_every: Option<Nanos>,
    /// From a fatal error to the new start.
    pub restart_after: Nanos,
    /// Which library decodes.
    pub decoder: Decoder,
}
/// Where events come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The generator.
    Shoppers(Shopping),
    /// Requests of an API gateway.
    Gateway(Gateway),
    /// A file.
    EventsFile(EventsFile),
}
/// Events from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsFile {
    /// The file.
    pub file: EventsIn,
    /// Pointer to the key.
    pub key: Pointer,
    /// Pointer to the event id; the line's number where none is given.
    pub event_id: Option<Pointer>,
    /// Pointer to the event time.
    pub event_time: Pointer,
    /// Unit of the event time.
    pub event_time_unit: TimeUnit,
    /// Columns that jobs work with.
    pub columns: Vec<FileColumn>,
    /// When events are sent.
    pub pace: Pace,
    /// Events a second, for [`Pace::Rate`].
    pub rate: u32,
    /// Most events.
    pub max_events: u32,
    /// Nothing is sent after this.
    pub duration: Nanos,
}
/// A column of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// It holds texts, as [`text_value`](model::base::text_value) numbers them; else whole numbers.
    pub text: bool,
    /// The value that each row has there, if the job says so.
    pub always: Option<i64>,
}
impl Column {
    /// One of whole numbers.
    pub fn number(name: &str) -> Self {
        Self { name: name.to_owned(), text: false, always: None }
    }
}
/// A column of a file's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileColumn {
    /// Which.
    pub column: Column,
    /// Where its value stands.
    pub pointer: Pointer,
    /// A number is read in this part of a whole: 1,000,000 for millionths.
    pub factor: u32,
    /// Where nothing stands, it is 0.
    pub optional: bool,
}
/// Where the lines are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventsIn {
    /// On disk.
    Disk(PathBuf),
    /// In the binary: name and text.
    Embedded(PathBuf, &'static str),
}
impl EventsIn {
    /// The file's path.
    pub fn path(&self) -> &Path {
        let (Self::Disk(path) | Self::Embedded(path, _)) = self;
        path
    }
}
/// A JSON pointer (RFC 6901), taken apart. A string met on the way is read as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(pub Vec<String>);
impl Pointer {
    /// Takes a pointer apart.
    ///
    /// # Errors
    /// What a pointer looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix('/').ok_or("a JSON pointer begins with `/`, as in `/payload/event_id`")?;
        Ok(Self(rest.split('/').map(|t| t.replace("~1", "/").replace("~0", "~")).collect()))
    }
}
