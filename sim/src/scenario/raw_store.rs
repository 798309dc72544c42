//! Stores at the edge as written: ClickHouse servers with tables that read topics.

use super::raw::{ConsumerKeys, Settings};
use super::raw_keys::{KafkaEngineKeys, MergeTreeKeys};
use super::units::{Draw, Duration, Rate, Size};
use model::base::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A ClickHouse server (26.9).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClickHouse {
    /// Name.
    pub name: String,
    /// Its tables.
    pub tables: Vec<ClickHouseTable>,
    /// From one background merge of neighbouring parts to the next; "0 s": it never merges. The product specifies neither when
    /// nor which.
    #[serde(default = "merges")]
    pub merges: Draw<Duration>,
    /// When it starts.
    #[serde(default)]
    pub start: Duration,
}
const fn merges() -> Draw<Duration> {
    Draw::Range([Duration(Nanos::secs(5)), Duration(Nanos::secs(60))])
}

/// Engine of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TableEngine {
    /// Rows stay what they are.
    #[default]
    MergeTree,
    /// The newest row of each sorting key stays, in merges and under FINAL.
    ReplacingMergeTree,
}

/// A table with a Kafka table in front of it: a materialized view copies what that reads.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClickHouseTable {
    /// Name; also that of its layer in the outcome, and with `-final` that of what FINAL shows.
    pub name: String,
    /// The topics that it reads (`kafka_topic_list`).
    pub topics: Vec<String>,
    /// Its engine.
    #[serde(default)]
    pub engine: TableEngine,
    /// ORDER BY: columns of the topic, `key` for the record's key, `time` for its timestamp.
    #[serde(default = "event_id")]
    pub order_by: Vec<String>,
    /// Version column of a `ReplacingMergeTree`; without, the last row inserted wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// PARTITION BY: columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition_by: Vec<String>,
    /// Settings of the Kafka table.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub kafka: Settings<KafkaEngineKeys>,
    /// librdkafka's keys, as the server's `<kafka>` section sets them with underscores.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub consumer: Settings<ConsumerKeys>,
    /// Settings of the table and of inserts into it.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings<MergeTreeKeys>,
    /// Views upon the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<TableView>,
    /// What an insert takes besides its rows.
    #[serde(default = "per_block")]
    pub block: Duration,
    /// What a row of an insert takes.
    #[serde(default = "per_row")]
    pub row: Duration,
}
fn event_id() -> Vec<String> {
    vec!["event_id".into()]
}
const fn per_block() -> Duration {
    Duration(Nanos::millis(20))
}
const fn per_row() -> Duration {
    Duration(Nanos::micros(2))
}

/// A materialized view upon a table that keeps sums in a `SummingMergeTree`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TableView {
    /// Name; also that of its value in the outcome.
    pub name: String,
    /// GROUP BY.
    pub by: String,
    /// The column that is summed up; rows are counted if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
    /// Its query throws on a block that holds such a row: `COLUMN = NUMBER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throws_on: Option<String>,
}

/// How a catalog compares when it swaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LakeCatalog {
    /// The head of the branch.
    #[default]
    Rest,
    /// The whole pointer.
    Jdbc,
}
/// An Iceberg table: its catalog, and the object store that it lies in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lake {
    /// Name of the table; also that of its layer in the outcome.
    pub name: String,
    /// Its catalog.
    #[serde(default)]
    pub catalog: LakeCatalog,
    /// Work of the catalog for one request.
    #[serde(default = "catalog_request")]
    pub catalog_request: Duration,
    /// Work of the object store for one request.
    #[serde(default = "object_request")]
    pub object_request: Duration,
    /// Bytes a second that go through the object store.
    #[serde(default = "object_bandwidth")]
    pub bandwidth: Rate,
    /// Requests a second above which the object store answers 503 SlowDown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests_per_second: Option<u32>,
    /// Memory of the object store: near its end every request takes longer (a hypothesis).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Memory that the index takes for an object.
    #[serde(default = "index_entry")]
    pub index_entry: Size,
    /// Bytes that a snapshot takes in the table's metadata file, which each commit writes anew as a whole.
    #[serde(default = "metadata_entry")]
    pub metadata_entry: Size,
}
const fn metadata_entry() -> Size {
    Size(0)
}
const fn catalog_request() -> Duration {
    Duration(Nanos::millis(10))
}
const fn object_request() -> Duration {
    Duration(Nanos::millis(15))
}
const fn object_bandwidth() -> Rate {
    Rate(100_000_000)
}
const fn index_entry() -> Size {
    Size(1_024)
}
