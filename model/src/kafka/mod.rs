//! Kafka 4.3 as it is: logs, replication, the controller, clients. Rule ids (`L-3`, `R-12`) are those of the fidelity spec.

pub mod broker;
pub mod broker_messages;
pub mod client;
pub mod controller;
pub mod coordinator;
mod error;
pub mod hash_order;
pub mod log;
mod message_wire;
pub mod messages;
pub mod partition;
pub mod placement;
pub mod quorum;
pub mod txn_messages;

pub use error::ErrorCode;
