//! Faults as written: one flat table each, so that a file reads from left to right. Which keys belong to which kind is data
//! ([`Kind::keys`]), checked when the scenario is resolved.

use super::raw::OneOrMore;
use super::units::{Draw, Duration, Rate, Share, Shift};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// SIGKILL; the page cache survives. With `restart-after` it comes back.
    Kill,
    /// The machine loses power: unflushed data is lost, peers hear nothing.
    PowerLoss,
    /// A dead process starts.
    Restart,
    /// SIGTERM: a controlled shutdown. With `restart-after` it comes back.
    Stop,
    /// SIGSTOP; with `duration` it thaws by itself.
    Freeze,
    /// SIGCONT.
    Thaw,
    /// No packets between two groups of processes.
    Partition,
    /// A slow, lossy, doubling or flapping link.
    Link,
    /// A slow or full disk.
    Disk,
    /// Fewer cores.
    Cpu,
    /// A clock that is off or jumps. Stamps only; timers run on.
    Clock,
    /// Preferred leader election by hand.
    MoveLeaders,
    /// One node after the other is stopped and started.
    RollingRestart,
    /// A broker answers metadata requests as if a topic were not there.
    ForgetTopic,
    /// A schema registry answers something else than the truth.
    Registry,
    /// Commits to an Iceberg table end otherwise than they should, or are told otherwise.
    LakeCommits,
    /// An Iceberg table is compacted, and its old snapshots expire.
    MaintainLake,
    /// The operator raises the level of a feature (`kafka-features upgrade`).
    UpgradeFeature,
    /// A user acts upon a Flink job: submits, cancels, stops it, takes a savepoint.
    Job,
    /// Faults drawn from the seed.
    Chaos,
}

/// What becomes of a commit to an Iceberg table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CommitOutcome {
    /// Refused (409), although nothing stands against it.
    Refused,
    /// Landed, and told as refused.
    LandedRefused,
    /// Not landed; the answer says that nobody knows (5xx).
    Unknown,
    /// Landed; the answer says that nobody knows.
    LandedUnknown,
    /// No answer; it lands `delay` later.
    Late,
}

/// What a user does about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// `flink run` of a job that does not start by itself.
    Submit,
    /// `flink cancel`.
    Cancel,
    /// `flink stop`: a savepoint, then the end.
    Stop,
    /// `flink stop --drain`: the end of all event time, a savepoint, then the end.
    Drain,
    /// `flink savepoint`.
    Savepoint,
}

impl Kind {
    /// Keys that the kind needs, and keys that it may have, besides name and time.
    pub const fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Kill | Self::PowerLoss | Self::Stop => (&["target"], &["dead", "restart-after"]),
            Self::Restart | Self::Thaw | Self::MaintainLake => (&["target"], &[]),
            Self::Freeze => (&["target"], &["duration"]),
            Self::Partition => (&["from", "to"], &["ports", "one-way", "duration"]),
            Self::Link => {
                (&["from", "to"], &["ports", "one-way", "duration", "delay", "bandwidth", "loss", "doubled", "flap"])
            }
            Self::Disk => (&["target"], &["duration", "slower", "bandwidth", "full"]),
            Self::Cpu => (&["target", "share"], &["duration"]),
            Self::Clock => (&["target", "shift"], &["duration"]),
            Self::MoveLeaders => (&[], &["topics"]),
            Self::RollingRestart => (&[], &["target", "pause", "dead", "killed", "controller-last", "restart-after"]),
            Self::ForgetTopic => (&["topics"], &["target", "duration", "answers"]),
            Self::Registry => (&["status"], &["target", "duration"]),
            Self::LakeCommits => (&["target", "outcome"], &["commits", "delay"]),
            Self::UpgradeFeature => (&["transaction-version"], &[]),
            Self::Job => (&["job", "act"], &[]),
            Self::Chaos => {
                (&["faults", "duration"], &["kinds", "target", "lasts", "dead-modes", "most-down", "topics"])
            }
        }
    }
}

/// What happens to connections that a dead machine had open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Existing {
    /// Its kernel tells the peers (FIN or RST).
    #[default]
    Reset,
    /// Silence.
    Silent,
}
/// What happens to connects to a dead machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum New {
    /// Refused at once.
    #[default]
    Refuse,
    /// Silently dropped.
    Drop,
    /// Accepted, then silence.
    Accept,
    /// The name does not resolve.
    NoName,
}
/// What the network tells the others about a dead machine (6.1): the decisive pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Dead {
    /// Open connections.
    pub existing: Existing,
    /// New connects.
    pub new: New,
}

/// Which ports a network fault cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ports {
    /// Every one.
    #[default]
    All,
    /// The broker listener: clients and followers.
    Broker,
    /// The controller listener: heartbeats, quorum, metadata.
    Controller,
}

/// What a crash point stops at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EffectKind {
    /// A write to the page cache.
    Write,
    /// A flush.
    Flush,
    /// A connect.
    Open,
    /// A close.
    Close,
    /// A message sent.
    Send,
    /// Any of them.
    Any,
}
/// Dies just before its nth effect of a kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CrashPoint {
    /// Which process.
    pub process: String,
    /// Which effects count.
    pub effect: EffectKind,
    /// Which of them, from 1.
    #[schemars(range(min = 1))]
    pub nth: u64,
}

/// An event of the run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Trigger {
    /// Its name: one of the trace (`truncated`, `became-leader`, `fencing`...), `fault-begins` or `fault-ends`, `workload-ends`.
    pub event: String,
    /// Only those that this process reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Only those of this partition: `events/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Only those of this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Only those of the checkpoint with this number; of `job-running`, that it was restored from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u32>,
    /// Only those of the fault with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Only those that come after this event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Box<Trigger>>,
    /// Which of them, from 1.
    #[serde(default = "first")]
    #[schemars(range(min = 1))]
    pub count: u32,
    /// Counted from this time on.
    #[serde(default)]
    pub from: Duration,
    /// How long after it.
    #[serde(default)]
    pub delay: Duration,
}
const fn first() -> u32 {
    1
}

/// Up for a while, down for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Flap {
    /// Up this long.
    pub up: Draw<Duration>,
    /// Down this long.
    pub down: Draw<Duration>,
}

/// A fault. It has exactly one of `at`, `on` and `crash-point`; `at` may be a range from which the seed draws.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fault {
    /// Name, for triggers and for scenarios that extend this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What goes wrong.
    pub kind: Kind,
    /// When, from the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Draw<Duration>>,
    /// On which event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Trigger>,
    /// At which effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash_point: Option<CrashPoint>,
    /// Whom: `controller`, `leader of events/3`, `follower of events/3`, `replicas of events/3`, `broker 2`, `any broker`,
    /// `all brokers`, `other brokers`, `broker that leads none of events`, `coordinator of shop`, `coordinator of shop/1`, `application shop`,
    /// `reader check`, `machine rack-a`. Found out when the fault begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<OneOrMore>,
    /// One side of a network fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<OneOrMore>,
    /// The other side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<OneOrMore>,
    /// Which ports of both sides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Ports>,
    /// Only packets from `from` to `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<bool>,
    /// How long it lasts; to the end of the run if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Draw<Duration>>,
    /// How long after its death a process starts again; never if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_after: Option<Draw<Duration>>,
    /// What the network tells the others meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<Dead>,
    /// Time added to each packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Draw<Duration>>,
    /// Bytes a second that are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// Packets lost. A connection sends them again, later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Share>,
    /// Packets doubled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubled: Option<Share>,
    /// The link comes and goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flap: Option<Flap>,
    /// Time added to each write and flush.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower: Option<Draw<Duration>>,
    /// No write succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<bool>,
    /// Share of the machine's cores that is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// How far the clock is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<Shift>,
    /// Topics concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    /// Metadata answers that are false, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub answers: Option<u32>,
    /// HTTP status of every answer of a registry; 200: with another schema than the one asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 200, max = 599))]
    pub status: Option<u16>,
    /// What becomes of commits to an Iceberg table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<CommitOutcome>,
    /// Of how many; of one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub commits: Option<u32>,
    /// Which job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// What the user does about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<Act>,
    /// New level of the feature `transaction.version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2))]
    pub transaction_version: Option<u8>,
    /// Pause between a node's return to every ISR and the next node's turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Duration>,
    /// Each node is killed, not stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed: Option<bool>,
    /// The active controller comes last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_last: Option<bool>,
    /// Chaos: how many faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Draw<u32>>,
    /// Chaos: which kinds; all if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<Kind>>,
    /// Chaos: how long each lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Draw<Duration>>,
    /// Chaos: what the network may tell the others; every pair if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_modes: Option<Vec<Dead>>,
    /// Chaos: how many nodes may be down or cut off at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_down: Option<u32>,
}
