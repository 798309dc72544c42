//! The Kafka connector (flink-connector-kafka 3.4).

mod enumerator;

pub use enumerator::split_owner;
