//! What applications send, as written.

use super::units::{Draw, Duration, Share, Size};
use model::base::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where events come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Generated: sessions of shoppers.
    Shoppers,
    /// Generated: requests of an API gateway, `rate` of them a second, each with an event when it starts and one when it
    /// ends. Columns: `request_id`, `type` (RequestStarted, RequestCompleted, RequestFailed), `tenant`, `usd` (millionths).
    Gateway,
    /// From a file.
    EventsFile,
}
/// How session keys are spread over events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Skew {
    /// Few sessions send most events (rank r has a weight of 1/r).
    Skewed,
    /// Every session sends alike.
    Even,
}
/// When events of a file are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// At `rate`.
    Rate,
    /// As far apart as their event times.
    EventTime,
}
/// Unit of event times in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimeUnit {
    /// Seconds since the Unix epoch.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}
/// What an application sends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Workload {
    /// Where events come from.
    pub kind: WorkloadKind,
    /// Events a second.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub rate: u32,
    /// How long events are sent (a file may end sooner).
    pub duration: Duration,
    /// Most events that are sent. One more in a file is an error.
    #[schemars(range(min = 1, max = 4_000_000_000_u32))]
    pub max_events: u32,
    /// Shoppers at a time: as many keys.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub sessions: u32,
    /// How keys are spread over events.
    pub skew: Skew,
    /// Events that cannot be decoded.
    pub poison: Share,
    /// Events with an event time far in the past.
    pub late: Share,
    /// How far: within 60 s to 600 s.
    pub late_by: Draw<Duration>,
    /// Events that are held back a little.
    pub out_of_order: Share,
    /// How long at most: up to 3 s.
    pub out_of_order_by: Duration,
    /// Events that are sent a second time with the same event id.
    pub resent: Share,
    /// Size of a record on the wire.
    pub payload: Draw<Size>,
    /// Of the gateway: tenants.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tenants: u32,
    /// Of the gateway: from the start of a request to its end.
    pub latency: Draw<Duration>,
    /// Of the gateway: what a request costs, in millionths of a dollar.
    pub cost: Draw<u32>,
    /// Of the gateway: requests that fail.
    pub failed: Share,
    /// Of the gateway: requests whose end nobody reports.
    pub lost: Share,
    /// JSON Lines as `kcat -J` prints them; relative to the scenario's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where the record's key stands in a line, as a JSON pointer. A string met on the way is read as JSON.
    pub key: String,
    /// Where the event id stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Where the event time stands.
    pub event_time: String,
    /// Its unit.
    pub event_time_unit: TimeUnit,
    /// When a file's events are sent.
    pub pace: Pace,
    /// Columns that jobs work with, up to four: `NAME = /pointer` for whole numbers, `NAME = /pointer * 1000000` to read
    /// decimals as whole millionths, `NAME = text /pointer` for texts. With `?` behind
    /// the pointer a line need not have it: then the column is 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}
impl Default for Workload {
    fn default() -> Self {
        Self {
            kind: WorkloadKind::Shoppers,
            rate: 1_000,
            duration: secs(60),
            max_events: 10_000_000,
            sessions: 200,
            skew: Skew::Skewed,
            poison: Share(1_000),
            late: Share(10_000),
            late_by: Draw::Fixed(secs(180)),
            out_of_order: Share(50_000),
            out_of_order_by: secs(3),
            resent: Share(20_000),
            payload: Draw::Range([Size(200), Size(400)]),
            tenants: 20,
            latency: Draw::Range([millis(20), secs(2)]),
            cost: Draw::Range([1_000, 200_000]),
            failed: Share(10_000),
            lost: Share(0),
            file: None,
            key: "/key".into(),
            event_id: None,
            event_time: "/ts".into(),
            event_time_unit: TimeUnit::Milliseconds,
            pace: Pace::Rate,
            columns: Vec::new(),
        }
    }
}

const fn secs(n: u64) -> Duration {
    Duration(Nanos::secs(n))
}
const fn millis(n: u64) -> Duration {
    Duration(Nanos::millis(n))
}
