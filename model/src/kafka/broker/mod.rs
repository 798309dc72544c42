//! A broker's parts around its partitions: fetches of others and its own, the way to the controller.

mod add_partitions;
mod alter_partition;
mod delayed_fetch;
mod fetch_session;
mod fetcher;
mod link;
pub mod node;
mod partitions;
mod replica_manager;
mod session_handler;
mod slots;

#[cfg(test)]
mod replication_tests;

pub use add_partitions::{AddPartitionsToTxnManager, Asked, Asking, SupportedOperation, produce_error};
pub use alter_partition::AlterPartitionManager;
pub use delayed_fetch::{DelayedFetches, FetchAnswer};
pub use fetch_session::{FetchContext, FetchSessionCache};
pub use fetcher::{FetcherAction, FetcherConfig, ReplicaFetcher};
pub use partitions::Partitions;
pub use replica_manager::{ReplicaManager, ReplicaManagerConfig, ReplicaOutput, VerifiedBatch};
pub use session_handler::FetchSessionHandler;
