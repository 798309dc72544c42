//! The outcome of a run, as `--format json` prints it. Versioned by [`SCHEMA`]: fields may be added, never renamed or removed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Version of the outcome's shape.
pub const SCHEMA: u32 = 1;

/// Whether all expectations hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// They do.
    #[default]
    Holds,
    /// At least one does not.
    Violated,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name of the scenario.
    pub scenario: String,
    /// Values that `--set` changed, as given.
    pub set: Vec<String>,
    /// Seed of the run.
    pub seed: u64,
    /// Host that ran it: `loop` or `madsim`.
    pub host: String,
    /// Last link of the digest chain, in hexadecimal: the run's identity.
    pub digest: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Simulated time at the end, in ms.
    pub simulated_ms: u64,
    /// What no source states.
    pub assumptions: BTreeMap<String, Json>,
    /// Product versions, and fixes that are not in force.
    pub fixes: String,
    /// Work done.
    pub work: Work,
    /// What was sent.
    pub ledger: Ledger,
    /// What arrived, by layer: a topic or a reader.
    pub layers: BTreeMap<String, Layer>,
    /// Windows against late output.
    pub aggregates: BTreeMap<String, Aggregate>,
    /// What the check by counts, which a user can run, can tell of a windowed result: by sink, where it can be run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<String, Check>,
    /// Which exactly-onces held, by job or sink.
    pub scopes: BTreeMap<String, Scope>,
    /// Money, by reader.
    pub values: BTreeMap<String, Value>,
    /// Jobs by name.
    #[serde(default)]
    pub jobs: BTreeMap<String, Job>,
    /// Producers by name.
    pub producers: BTreeMap<String, Producer>,
    /// Times without progress.
    pub stalls: Vec<Stall>,
    /// Restarts of jobs.
    pub restarts: Vec<Restart>,
    /// How long one transaction held readers of committed data back in one partition, at most, in ms: by topic, where
    /// somebody sends in transactions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pinned_ms: BTreeMap<String, u64>,
    /// Rows in transactions that were aborted or never ended, by topic: readers of uncommitted data find them, others do not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aborted_rows: BTreeMap<String, u64>,
    /// Transactions that coordinators have aborted, by who wanted it, where somebody sends in transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborts: Option<Aborts>,
    /// Liveness checks by name.
    pub liveness: BTreeMap<String, Liveness>,
    /// Event-to-visible latency by layer.
    pub freshness_ms: BTreeMap<String, Freshness>,
    /// What became of objectives of freshness, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objectives: BTreeMap<String, ObjectiveKept>,
    /// How right rules were that mark windows, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub markings: BTreeMap<String, Marking>,
    /// Faults as they happened.
    pub faults: Vec<FaultDone>,
    /// Findings of laws that no rule of the real product excuses.
    pub alarms: u64,
    /// Findings of laws, the first of each kind, with the rule by which the real product does the same.
    pub violations: Vec<Violation>,
    /// Expectations with what was found.
    pub expectations: Vec<Expected>,
    /// The command that makes this run again.
    pub reproduce: String,
}

/// What became of an objective of freshness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectiveKept {
    /// Events that were decided: seen in time, or grown too old.
    pub events: u64,
    /// Those that grew too old.
    pub bad: u64,
    /// Times in which an alert fired.
    pub alerts: Vec<BurnAlert>,
    /// Of these, pages.
    pub pages: u64,
    /// Of these, tickets.
    pub tickets: u64,
    /// 99th percentile of age when first there, in ms, of events sent in the first eighth of the time.
    pub first_eighth_p99_ms: u64,
    /// The same of the last eighth.
    pub last_eighth_p99_ms: u64,
}
/// How right a rule was that marks windows as approximate by what an operator can see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Marking {
    /// Windows that events on time belong to.
    pub windows: u64,
    /// Windows that lack an event which was on time.
    pub wrong: u64,
    /// Windows that the rule marks.
    pub marked: u64,
    /// Of these, wrong ones.
    pub right: u64,
    /// Per cent of the marked windows that are wrong; 100 if none is marked.
    pub precision: u64,
    /// Per cent of the wrong windows that are marked; 100 if none is wrong.
    pub recall: u64,
    /// On-time events that their windows lack.
    pub displaced: u64,
    /// Of these, in windows that are marked.
    pub displaced_marked: u64,
    /// Windows marked by each signal, and how many of them are wrong.
    pub by: BTreeMap<String, [u64; 2]>,
}
/// A time in which an alert on a burn rate fired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BurnAlert {
    /// `page` or `ticket`.
    pub severity: String,
    /// The long window, hours by name (it passes faster by the objective's scale).
    pub window_h: u32,
    /// From when, ms.
    pub from_ms: u64,
    /// Until when, ms.
    pub to_ms: u64,
}

/// Work done, the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Inputs given to processes.
    pub kernel_events: u64,
    /// Rows that entered a modelled component.
    pub record_hops: u64,
    /// Messages over the network.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}
/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// Events, each counted once.
    pub events: u64,
    /// Of them not decodable.
    pub poison: u64,
    /// Of them late by definition.
    pub late: u64,
    /// Of them out of order.
    pub out_of_order: u64,
    /// Sends of an event that had been sent before.
    pub resent: u64,
    /// Events neither poison nor late.
    pub on_time: u64,
}
/// One layer against the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// Isolation level it was read with.
    pub isolation: String,
    /// Rows.
    pub rows: u64,
    /// Different sends among them.
    pub unique: u64,
    /// Sends that should be there.
    pub missing: u64,
    /// Rows that should not.
    pub unexpected: u64,
    /// Rows beyond the first of a send.
    pub duplicates: u64,
    /// Poison that leaked.
    pub poison: u64,
    /// All of these are zero.
    pub exact: bool,
}
/// The check by counts: rows read against what windows and late output account for, every ten seconds, of windows that ended
/// twenty seconds ago in event time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The query that runs on a schedule.
    pub sql: String,
    /// Windows that it looked at.
    pub windows: u64,
    /// Of them wrong in the end.
    pub wrong: u64,
    /// Windows that it named and that were right in the end: their rows were under way.
    pub false_alarms: u64,
    /// From when a wrong window was over in event time until it was named, at most, ms.
    pub detected_ms: u64,
    /// Events that stand wrong in windows whose counts agree: what it cannot see.
    pub unseen: u64,
}
/// Windows and late output against the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Aggregate {
    /// On-time events in windows.
    pub on_time_in_windows: u64,
    /// On-time events in the late output.
    pub on_time_late: u64,
    /// Late events in windows.
    pub late_in_windows: u64,
    /// Copies of events that had been sent before: what a deduplication should have left out.
    pub resent_in_windows: u64,
    /// Late events in the late output.
    pub late_in_late: u64,
    /// Events of windows still open.
    pub pending: u64,
    /// Events in both.
    pub in_both: u64,
    /// Events in neither.
    pub in_neither: u64,
    /// Events counted twice.
    pub counted_twice: u64,
    /// Events that windows which overlap hold in part.
    #[serde(default)]
    pub in_some: u64,
    /// Events that should be in neither windows nor late output.
    #[serde(default)]
    pub unexpected: u64,
    /// Firings of a window beyond its first.
    #[serde(default)]
    pub refired: u64,
    /// Where a part of the source can be idle: the longest time from when the last event of a window was sent until its row could
    /// be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back_ms: Option<u64>,
    /// Consistent and right.
    pub exact: bool,
    /// What is wrong, by the rule of the real product that accounts for it; `unaccounted` is an alarm each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_rule: BTreeMap<String, u64>,
}
/// Which of the three exactly-onces held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scope {
    /// In state.
    pub state: bool,
    /// At the sink.
    pub sink: bool,
    /// For readers.
    pub reader: bool,
    /// Windows whose true sum does not fit a Java `long`: the job's wraps there, and is wrong in every scope.
    pub overflows: u64,
    /// What is wrong with its rows and with what readers were given of them, by the rule of the real product that accounts for
    /// it; `unaccounted` is an alarm each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_rule: BTreeMap<String, u64>,
}
/// Money: what a reader that adds up everything it is given comes to. In the parts that the workload counts in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// What should be billed.
    pub expected: i64,
    /// What was.
    pub billed: i64,
    /// The difference.
    pub difference: i64,
    /// Results that are billed wrongly: how many, and the first of them.
    pub wrong: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_wrong: Vec<WrongResult>,
}
/// A result that is billed wrongly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrongResult {
    /// End of its window, ms since the epoch.
    pub window_end: i64,
    /// Its key.
    pub key: String,
    /// What it should come to.
    pub expected: i64,
    /// What was billed.
    pub billed: i64,
    /// Rows that the reader was given for it.
    pub rows: u64,
}
/// A job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// What it is at, at the end: scheduling, running, restarting, canceling, canceled, failed, finished; refused, where the state
    /// that it was to begin with was not to be had; unknown to the JobManager; gone with it.
    pub state: String,
    /// How often it was started again.
    pub restarts: u64,
    /// The newest completed checkpoint; 0 for none.
    pub checkpoint: u64,
    /// Checkpoints that failed or never began.
    pub checkpoints_failed: u64,
    /// Transactions whose commit was refused: swallowed, and the job went on (7.3).
    pub commits_dropped: u64,
    /// The longest time from the trigger of a checkpoint to its completion, ms.
    pub longest_checkpoint_ms: u64,
    /// The longest time that a task's thread stood in a sink, ms; below a second it is 0.
    pub longest_in_sink_ms: u64,
    /// The longest time that the thread of the first source stood, in a chained sink or before full outputs, ms; likewise.
    pub longest_source_stood_ms: u64,
    /// Commits of source offsets, one a subtask and completed checkpoint, that the group coordinator took.
    pub offset_commits: u64,
    /// Those that it refused, or that were lost: nothing comes of that but the lag.
    pub offset_commits_failed: u64,
    /// By source with a `group.id`: records between the group's committed offsets and the ends of the partitions, at the end of
    /// the run.
    pub committed_lag: BTreeMap<String, u64>,
    /// The same up to the last stable offset: what lies behind it no reader of committed data can have read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub readable_lag: BTreeMap<String, u64>,
    /// The longest time without all its tasks, or from the death of its JobManager until they ran again, ms; to the end of the
    /// run if they did not.
    pub longest_down_ms: u64,
}
/// A producer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Producer {
    /// Records that failed for good.
    pub failed_sends: u64,
    /// Batches sent again.
    pub retries: u64,
    /// Records acknowledged.
    pub acknowledged: u64,
    /// Clients that could not go on: errors after which an instance is of no more use.
    pub fatal: u64,
    /// Which errors, by code; the client's own are below -99.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fatal_errors: BTreeMap<String, u64>,
    /// Rows in the memory of its process, undecided, when that died: they may be in the log or not.
    pub forgotten: u64,
    /// Its transactions, if it sends in such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Transactions>,
}
/// The transactions of a producer, as far as its application knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transactions {
    /// The commit has returned.
    pub committed: u64,
    /// Rows in them.
    pub rows_committed: u64,
    /// Aborted: by the application, or by the client that took over.
    pub aborted: u64,
    /// Rows in them.
    pub rows_aborted: u64,
    /// The client died in the commit: it may have come about or not.
    pub unknown: u64,
    /// Rows in them.
    pub rows_unknown: u64,
}
/// Transactions that coordinators have aborted, by who wanted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Aborts {
    /// The producer, with EndTxn.
    pub client: u64,
    /// Nobody: `transaction.timeout.ms` was over.
    pub expiry: u64,
    /// The next producer with the same `transactional.id`.
    pub init: u64,
}
/// A time without progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// From, in ms.
    pub from_ms: u64,
    /// To, in ms.
    pub to_ms: u64,
    /// Its length, in ms.
    pub ms: u64,
    /// Of whom, on which partition.
    #[serde(rename = "where")]
    pub place: String,
    /// The cause found.
    pub why: String,
}
/// A restart of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restart {
    /// When, in ms.
    pub at_ms: u64,
    /// Which job.
    pub job: String,
    /// Why.
    pub why: String,
    /// When it was restored, in ms; the end of the run if it was not.
    pub restored_ms: u64,
    /// From which checkpoint; 0 for none.
    #[serde(default)]
    pub checkpoint: u64,
}
/// A liveness check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Liveness {
    /// Whether it holds.
    pub holds: bool,
    /// What was seen.
    pub detail: String,
}
/// How late and how far apart records reach a reader, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Freshness {
    /// How many of its rows have an age: not results of a file's events, whose times are no times of the run.
    pub events: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
    /// From the last beginning or end of a fault until all that had been sent before it was shown; 0 without faults.
    pub caught_up: u64,
    /// Event time between the foremost and the hindmost partition: mean over the records delivered.
    pub skew_mean: u64,
    /// The same, largest.
    pub skew_max: u64,
}
/// A fault as it happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultDone {
    /// When, in ms.
    pub at_ms: u64,
    /// What.
    pub what: String,
    /// Whom it met.
    pub target: String,
}
/// What a law found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// When, in ms.
    pub at_ms: u64,
    /// Name of the law, with the rule.
    pub law: String,
    /// What was seen.
    pub detail: String,
    /// The real product does the same by this rule; empty where it does not.
    pub by_rule: String,
}
/// An expectation with what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Expected {
    /// As the scenario has it.
    pub text: String,
    /// Whether it holds.
    pub holds: bool,
    /// What was found.
    pub actual: Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_that_others_read_are_there() {
        let mut outcome = Outcome { schema: SCHEMA, ..Outcome::default() };
        outcome.stalls.push(Stall { place: "events/0".into(), ..Stall::default() });
        let json = serde_json::to_value(&outcome).unwrap();
        for path in [
            "/schema",
            "/scenario",
            "/seed",
            "/host",
            "/digest",
            "/simulated_ms",
            "/assumptions",
            "/fixes",
            "/work/kernel_events",
            "/work/record_hops",
            "/ledger/out_of_order",
            "/ledger/on_time",
            "/layers",
            "/aggregates",
            "/scopes",
            "/values",
            "/producers",
            "/stalls/0/where",
            "/restarts",
            "/liveness",
            "/freshness_ms",
            "/faults",
            "/expectations",
            "/reproduce",
        ] {
            assert!(json.pointer(path).is_some(), "{path}");
        }
        assert_eq!(json["verdict"], "holds");
        assert_eq!(serde_json::from_value::<Outcome>(json).unwrap(), outcome);
    }
}
