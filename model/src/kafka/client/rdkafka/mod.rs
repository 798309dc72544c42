//! The `librdkafka` profile (2.16.0): connections, metadata, coordinator look-ups, the idempotent and transactional producer.
//!
//! Everything is a state machine without I/O: inputs only change state, [`RdProducer::poll`] does what is due and leaves
//! actions for the network and events for the application, [`RdProducer::deadline`] says when to poll next.

mod broker;
mod config;
mod connections;
mod coordinators;
mod errors;
mod formed;
mod idempotence;
mod metadata;
mod network;
mod partition;
mod producer;
#[cfg(test)]
mod tests;
mod transact;
mod txn;
mod wire;

pub use broker::{Backoff, Handle, Link, Role, State};
pub use config::{ConfigError, RdConfig};
pub use connections::{ConnectionEvent, Connections, NetAction, NetInput};
pub use errors::{PRODUCE, ProduceAction, RdError, TXN, TxnAction, TxnApi, TxnRow, produce_action, txn_action};
pub use idempotence::Idempotence;
pub use network::{COORDINATOR, CoordinatorNews, RdNetwork, RdNetworkClient};
pub use partition::{Consequence, Delivery, Membership, Outgoing, Partition, Pid, retry_backoff};
pub use producer::{ProducerEvent, RdProducer, Tag};
pub use txn::{Call, CallError, EDGES, RdGroupMetadata, Transaction, TxnState};
pub use wire::{RdProducerClient, Wires};
