//! The Kafka connector (flink-connector-kafka 3.4): its source's enumerator, its sink's writer and committer, and
//! upsert-kafka.

mod committer;
mod enumerator;
mod naming;
mod sink_writer;
mod upsert;

pub use committer::{CommitException, KafkaCommittable};
pub use enumerator::split_owner;
pub use naming::{AbortScan, TransactionalName};
pub use sink_writer::{DeliveryGuarantee, KafkaWriterState, OpenTransaction, TransactionalWriter};
pub use upsert::{KeyedRecord, UpsertBuffer, UpsertSource, record};
