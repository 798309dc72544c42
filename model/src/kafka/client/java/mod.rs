//! The Java client (`kafka-clients`), in the profiles `java` (4.3.1) and `java-3.4`.

mod accumulator;
mod batch;
mod batches;
mod calls;
mod config;
mod connection_states;
mod dice;
mod errors;
mod events;
mod metadata;
mod network_client;
mod network_config;
mod partitioner;
mod producer;
mod profile;
mod requests;
mod selector;
mod sender;
#[cfg(test)]
mod tests;
mod topic_queues;
mod transaction;
mod wiring;

pub use accumulator::{AccumulatorConfig, Appended, Ready, RecordAccumulator, Target};
pub use batch::{BatchId, Failure, ProducerBatch, size_upper_bound};
pub use batches::{Batches, Queue, partitions_of};
pub use calls::SendError;
pub use config::{ConfigError, ProducerConfig};
pub use connection_states::{ConnectionState, ConnectionStates};
pub use dice::{Backoff, Dice};
pub use errors::is_retriable;
pub use events::{Counters, ProducerEvent};
pub use metadata::{Metadata, UpdateInProgress};
pub use network_client::{Action, NetworkClient, Polled};
pub use network_config::{NetworkConfig, Sleep};
pub use partitioner::StickyPartitioner;
pub use producer::JavaProducer;
pub use profile::{DIFFERENCES, Difference, Feature, Profile};
pub use selector::{Arrival, Selector};
pub use sender::{Pass, Sender, SenderConfig};
pub use transaction::{
    Call, GroupMetadata, ProducerIdAndEpoch, Refusal, State, TransactionManager, TransactionRules, Transactional,
    Verdict,
};
