//! The Kafka connector (flink-connector-kafka 3.4): its source's enumerator, its sink's writer and committer.

mod committer;
mod enumerator;
mod naming;
mod sink_writer;

pub use committer::{CommitException, KafkaCommittable};
pub use enumerator::split_owner;
pub use naming::{AbortScan, TransactionalName};
pub use sink_writer::{DeliveryGuarantee, KafkaWriterState, OpenTransaction, TransactionalWriter};
