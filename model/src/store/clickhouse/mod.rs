//! ClickHouse (26.9): tables of the MergeTree family, materialized views, the Kafka table engine.
//!
//! A [`MergeTree`] is a set of immutable parts; an [`Engine`] says what a merge makes of rows with one key. A [`Pipeline`] pushes
//! a block into a table and on into its views. [`KafkaConsumer`] and [`KeeperConsumer`] decide what a block is and when its
//! offsets are committed.

mod aggregate;
mod column;
mod dedup;
mod engine;
mod kafka;
mod keeper;
mod merge_tree;
mod partition;
mod view;

#[cfg(test)]
mod tests;

pub use aggregate::{AggregateRow, AggregateStates, SumRow, Summing};
pub use column::Column;
pub use dedup::{BlockKey, DeduplicateInsert, DeduplicationLog};
pub use engine::{Engine, RowEngine, RowKind};
pub use kafka::{CommitError, CycleError, ErrorMode, KafkaConfig, KafkaConsumer, Message, Payload, Wants};
pub use keeper::{KeeperConsumer, KeeperNodes, KeeperWants};
pub use merge_tree::{Changed, InsertSettings, MergeTree, Part, TableConfig, TableError};
pub use partition::{PartitionBy, PartitionId};
pub use view::{Pipeline, PipelineError, Query, Source, Target, View, ViewSettings};
