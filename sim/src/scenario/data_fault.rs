//! What goes wrong in a scenario ready to run: whom it meets, when, and how.

use super::data::Range;
use super::raw_fault::{Dead, EffectKind, Ports};
use model::base::{BrokerId, JobAct, Nanos, SimTime, SwapOutcome, TopicId, TopicPartition};
/// Whom a fault meets: found out when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The active controller.
    Controller,
    /// The leader of a partition.
    LeaderOf(TopicPartition),
    /// The in-sync follower of a partition with the lowest number.
    FollowerOf(TopicPartition),
    /// Every replica of a partition.
    ReplicasOf(TopicPartition),
    /// A node.
    Broker(BrokerId),
    /// A node that is up; the fault stream draws.
    AnyBroker,
    /// Every node.
    AllBrokers,
    /// Every node that is not on the other side of the same fault.
    OtherBrokers,
    /// The node with the lowest number that leads no partition of the topic.
    LeadsNoneOf(TopicId),
    /// The coordinator of a group, by place in `Scenario::groups`.
    CoordinatorOfGroup(u16),
    /// The transaction coordinator of an instance of an application, by place in `Scenario::applications`, or of a
    /// gatekeeper: these are counted on. Of the first instance if none is named.
    CoordinatorOf(u16, u16),
    /// The transaction coordinator of the id under which a subtask of a job writes into a topic now: job, topic, subtask.
    CoordinatorOfSink(u16, TopicId, u16),
    /// An application, by place in `Scenario::applications`; all instances if none is named.
    Application(u16, Option<u16>),
    /// A reader, by place in `Scenario::readers`; all instances if none is named.
    Reader(u16, Option<u16>),
    /// A gatekeeper, by place in `Scenario::gatekeepers`; all instances if none is named.
    Gatekeeper(u16, Option<u16>),
    /// A process of the registry; all if none is named.
    Registry(Option<u16>),
    /// A keyed table's database, by place in `Scenario::tables`.
    Table(u16),
    /// A ClickHouse server, by place in `Scenario::clickhouse`.
    ClickHouse(u16),
    /// An Iceberg table's catalog and object store, by place in `Scenario::lakes`.
    Lake(u16),
    /// The JobManager.
    JobManager,
    /// A TaskManager; all if none is named.
    TaskManager(Option<u16>),
    /// The TaskManager that runs the first subtask of a job's first vertex, by place in `Scenario::jobs`.
    TaskManagerOf(u16),
    /// Every application, reader and gatekeeper.
    AllClients,
    /// Every process of a machine, by place in `Scenario::machines`.
    Machine(u16),
}

/// A fault as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultSpec {
    /// One fault, perhaps with times left open.
    One(Fault<Range>),
    /// Many, drawn from the seed.
    Chaos(Chaos),
}
/// A fault; `T` is [`Range`] as declared and [`Nanos`] once drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault<T> {
    /// Its name, unique in the scenario.
    pub name: String,
    /// When it begins.
    pub when: When<T>,
    /// What happens.
    pub action: Action<T>,
    /// How long it lasts; `None` to the end. Of a kill or a stop: until the restart.
    pub lasts: Option<T>,
}
/// When a fault begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When<T> {
    /// At a time from the start of the run.
    At(T),
    /// On an event.
    On(Trigger),
    /// Just before an effect of a process.
    CrashPoint {
        /// Which process.
        process: Target,
        /// Which effects count.
        effect: EffectKind,
        /// Which of them, from 1.
        nth: u64,
    },
}
/// An event that starts a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Which events count.
    pub event: TriggerEvent,
    /// Only those that this process reports.
    pub of: Option<Target>,
    /// Only those of this partition.
    pub partition: Option<TopicPartition>,
    /// Only those of this job, by number.
    pub job: Option<u16>,
    /// Only those of this checkpoint.
    pub checkpoint: Option<u32>,
    /// Only those that come after this one.
    pub after: Option<Box<Trigger>>,
    /// Which of them, from 1.
    pub count: u32,
    /// Counted from this time on.
    pub from: SimTime,
    /// How long after it the fault begins.
    pub delay: Nanos,
}
/// What a trigger waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerEvent {
    /// A trace event of this name ([`model::base::Event::name`]).
    Traced(&'static str),
    /// The fault of this name begins.
    FaultBegins(String),
    /// The fault of this name ends.
    FaultEnds(String),
    /// The last event of the workload has been offered.
    WorkloadEnds,
}
/// What a fault does. Where it lasts, the end undoes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<T> {
    /// SIGKILL, or power loss of the machine.
    Kill {
        /// Whom.
        target: Vec<Target>,
        /// What the network tells the others meanwhile.
        dead: Dead,
        /// Unflushed data is lost.
        power: bool,
    },
    /// SIGTERM.
    Stop {
        /// Whom.
        target: Vec<Target>,
        /// What the network tells the others meanwhile.
        dead: Dead,
    },
    /// Starts what is dead.
    Restart {
        /// Whom.
        target: Vec<Target>,
    },
    /// SIGSTOP.
    Freeze {
        /// Whom.
        target: Vec<Target>,
    },
    /// SIGCONT.
    Thaw {
        /// Whom.
        target: Vec<Target>,
    },
    /// No packets pass.
    Partition(Cut),
    /// Packets pass badly.
    Link {
        /// Between whom.
        cut: Cut,
        /// How badly.
        trouble: Trouble<T>,
    },
    /// A bad disk.
    Disk {
        /// Whose.
        target: Vec<Target>,
        /// Added to each write and flush.
        slower: Option<T>,
        /// Bytes a second that are left.
        bandwidth: Option<u64>,
        /// No write succeeds.
        full: bool,
    },
    /// Fewer cores.
    Cpu {
        /// Whose.
        target: Vec<Target>,
        /// Parts per million that are left.
        share: u32,
    },
    /// A clock that is off.
    Clock {
        /// Whose.
        target: Vec<Target>,
        /// How far, in ns.
        shift: i64,
    },
    /// Preferred leader election.
    MoveLeaders {
        /// Of these topics.
        topics: Vec<TopicId>,
    },
    /// A user acts upon a job, by place in `Scenario::jobs`.
    Job {
        /// Which.
        job: u16,
        /// How.
        act: JobAct,
    },
    /// Another level of `transaction.version`.
    UpgradeFeature {
        /// The level.
        transaction_version: u8,
    },
    /// One node after the other.
    RollingRestart {
        /// Which nodes.
        target: Vec<Target>,
        /// Killed, else stopped.
        killed: bool,
        /// The active controller comes last.
        controller_last: bool,
        /// From death to start.
        restart: T,
        /// From full ISRs to the next node's turn.
        pause: Nanos,
        /// What the network tells the others meanwhile.
        dead: Dead,
    },
    /// What becomes of commits to Iceberg tables.
    LakeCommits {
        /// Whose.
        target: Vec<Target>,
        /// What.
        outcome: SwapOutcome,
        /// Of how many.
        commits: u32,
    },
    /// Iceberg tables are compacted, and their old snapshots expire.
    MaintainLake {
        /// Which.
        target: Vec<Target>,
    },
    /// False answers of a registry.
    Registry {
        /// Whose.
        target: Vec<Target>,
        /// HTTP status of every answer; 200: another schema than the one asked for.
        status: u16,
    },
    /// False metadata answers.
    ForgetTopic {
        /// Whose answers.
        target: Vec<Target>,
        /// Topics left out.
        topics: Vec<TopicId>,
        /// How many answers at most.
        answers: Option<u32>,
    },
}
/// Two groups of processes and the ports between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// One side.
    pub from: Vec<Target>,
    /// The other.
    pub to: Vec<Target>,
    /// Which listeners: packets of connections to other ones pass.
    pub ports: Ports,
    /// Only packets from `from` to `to` are concerned.
    pub one_way: bool,
}
/// What a bad link does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble<T> {
    /// Added to each packet.
    pub delay: Option<T>,
    /// Bytes a second that are left.
    pub bandwidth: Option<u64>,
    /// Packets lost, parts per million.
    pub loss: u32,
    /// Packets doubled, parts per million.
    pub doubled: u32,
    /// Up and down times of a flapping link. Drawn anew each time, so they stay ranges.
    pub flap: Option<(Range, Range)>,
}
/// Many faults, drawn from the seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chaos {
    /// Its name; the faults are called `NAME-0`, `NAME-1`...
    pub name: String,
    /// Between these times.
    pub from: Nanos,
    /// See `from`.
    pub to: Nanos,
    /// How many, both included.
    pub faults: (u32, u32),
    /// Which kinds.
    pub kinds: Vec<super::raw_fault::Kind>,
    /// Whom, besides whom a kind always means.
    pub target: Vec<Target>,
    /// How long each lasts.
    pub lasts: Range,
    /// What the network may tell the others.
    pub dead: Vec<Dead>,
    /// How many nodes may be down or cut off at a time.
    pub most_down: u32,
    /// Topics for kinds that need some.
    pub topics: Vec<TopicId>,
}
