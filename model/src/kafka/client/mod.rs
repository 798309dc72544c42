//! Clients: connections, producers, consumers, in the profiles `java`, `java-3.4` and `librdkafka`.

pub mod assignor;
mod cluster;
mod hash;
pub mod java;
pub mod java_consumer;
mod key_hash;
mod merge;
mod moved;
mod network;
pub mod rdkafka;
pub mod rdkafka_consumer;
mod slice;

pub use super::hash_order::TopicHashes;
pub use cluster::{ClusterView, Leader};
pub use hash::{consistent_random, crc32, murmur2, partition_for_hash};
pub use key_hash::KeyHash;
pub use merge::Merge;
pub use moved::Moved;
pub use network::{Completed, Lost, Network, Outcome};
pub use slice::Slice;
