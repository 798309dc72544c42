//! An objective of freshness as written.

use super::units::{Duration, Share};
use model::base::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How old events may be where somebody looks, and how many may be older. Its alerts fire as a multi-window,
/// multi-burn-rate rule would: over an hour and 5 minutes, 6 hours and 30 minutes, 3 days and 6 hours.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Objective {
    /// Its name in the outcome.
    pub name: String,
    /// Where somebody looks: a reader of events, an Iceberg table, a table of ClickHouse.
    pub layer: String,
    /// How old an event may be when it is seen.
    pub within: Duration,
    /// The share of events that must not be older: `"99 %"`.
    pub share: Share,
    /// The period of the budget.
    #[serde(default = "period")]
    pub period: Duration,
    /// How many times faster the period and the windows pass: with 60 an hour's window is a minute of the run.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub scale: u32,
}
const fn period() -> Duration {
    Duration(Nanos::secs(30 * 86_400))
}
const fn one() -> u32 {
    1
}

/// A rule that marks windows as approximate, from what an operator can see: restarts of jobs, how old events were when a table
/// showed them, what stands in the late output. The outcome says how right it was.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Marking {
    /// Its name in the outcome.
    pub name: String,
    /// The sink of the windows, which do not overlap.
    pub aggregate: String,
    /// Where somebody sees the events: a reader, an Iceberg table, a table of ClickHouse.
    pub events: String,
    /// Where somebody sees the late output: the same.
    pub late: String,
    /// An event that is shown so long after its time is old.
    #[serde(default = "old")]
    pub old: Duration,
    /// A window is marked if more than this share of its events are old, or late.
    #[serde(default = "some")]
    pub share: Share,
    /// How far around a restart windows are marked.
    #[serde(default = "margin")]
    pub margin: Duration,
}
const fn old() -> Duration {
    Duration(Nanos::secs(15))
}
const fn some() -> Share {
    Share(50_000)
}
const fn margin() -> Duration {
    Duration(Nanos::secs(10))
}
