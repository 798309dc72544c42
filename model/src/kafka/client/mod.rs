//! Clients: connections, producers, consumers, in the profiles `java`, `java-3.4` and `librdkafka`.

mod cluster;
mod network;
pub mod rdkafka;

pub use cluster::{ClusterView, Leader};
pub use network::Network;
