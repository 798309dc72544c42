//! Stores at the edge of a pipeline, as pure state machines: an Iceberg table with its Flink committers, ClickHouse, an
//! S3-like object store, a keyed table. Rule ids (`C1`, `I3`, `U4`, `O2`) are those of the fidelity spec for stores.
//!
//! A write has four outcomes: applied and told so, refused, applied though the answer is lost, applied later than its client
//! believes. The machines take requests at the instant at which they arrive; who loses or delays them is outside.

pub mod clickhouse;
pub mod iceberg;
pub mod keyed_table;
pub mod object_store;
