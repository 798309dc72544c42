//! Stores of a scenario ready to run.

use super::data::Range;
use super::keys::Config;
pub use super::raw_store::LakeCatalog;
use model::base::{Nanos, SimTime, TopicId};
use model::store::clickhouse::{Column, RowEngine, View};

/// A ClickHouse server.
#[derive(Clone, Debug)]
pub struct ClickHouse {
    /// Name.
    pub name: String,
    /// Its machine, by place in [`Scenario::machines`](super::data::Scenario::machines).
    pub machine: usize,
    /// Its tables.
    pub tables: Vec<ClickHouseTable>,
    /// From one merge to the next; it never merges if that is zero.
    pub merges: Range,
    /// When it starts.
    pub start: SimTime,
}
/// A table with a Kafka table in front.
#[derive(Clone, Debug)]
pub struct ClickHouseTable {
    /// Name.
    pub name: String,
    /// The topics that it reads.
    pub topics: Vec<TopicId>,
    /// Its group, by place in [`Scenario::groups`](super::data::Scenario::groups).
    pub group: u32,
    /// Its engine.
    pub engine: RowEngine,
    /// Settings of the Kafka table.
    pub kafka: Config,
    /// librdkafka's keys.
    pub consumer: Config,
    /// Settings of the table and of inserts.
    pub settings: Config,
    /// Views, with empty targets.
    pub views: Vec<TableView>,
    /// What an insert takes besides its rows.
    pub block: Nanos,
    /// What a row of an insert takes.
    pub row: Nanos,
}
/// A view.
#[derive(Clone, Debug)]
pub struct TableView {
    /// Name.
    pub name: String,
    /// What it does.
    pub view: View,
    /// What it sums up; rows if it is none.
    pub sum: Option<Column>,
}
/// An Iceberg table with its catalog and object store.
#[derive(Clone, Debug)]
pub struct Lake {
    /// Name.
    pub name: String,
    /// The machine, by place in [`Scenario::machines`](super::data::Scenario::machines).
    pub machine: usize,
    /// Its catalog.
    pub catalog: LakeCatalog,
    /// Work of the catalog for one request.
    pub catalog_request: Nanos,
    /// Work of the object store for one request.
    pub object_request: Nanos,
    /// Bytes a second.
    pub bandwidth: u64,
    /// Requests a second.
    pub requests_per_second: Option<u32>,
    /// Memory, and what an object takes of it.
    pub memory: Option<(u64, u64)>,
    /// Bytes of a snapshot in its metadata file.
    pub metadata_entry: u64,
}
