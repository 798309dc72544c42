//! Clients: connections, producers, consumers, in the profiles `java`, `java-3.4` and `librdkafka`.

mod cluster;
pub mod java;
pub mod java_consumer;
mod network;
pub mod rdkafka_consumer;
mod slice;

pub use cluster::{ClusterView, Leader};
pub use network::{Completed, Lost, Network, Outcome};
pub use slice::Slice;
