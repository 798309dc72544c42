//! Kafka's transaction coordinator (kafka.md 4): who may write for a transactional id, and how its transactions end.
//!
//! | what | Kafka's class | file |
//! |---|---|---|
//! | one id and its transitions | `TransactionMetadata` | `metadata.rs`, `transit.rs`, `state.rs` |
//! | what is stored of it | `TransactionLog` | `record.rs` |
//! | all ids of a broker, appends, loading | `TransactionStateManager` | `state_manager.rs` |
//! | markers | `TransactionMarkerChannelManager` | `markers.rs` |
//! | requests | `TransactionCoordinator` | `coordinator.rs`, `end_txn.rs`, `completion.rs` |
//!
//! The coordinator does nothing by itself: a [`Step`] brings it the time and what it sees of its broker, and takes its
//! [`TransactionOutput`]s. An append is under way until its result is told; whatever happens to the id in between meets the
//! transition as pending.

mod completion;
mod config;
mod coordinator;
mod effects;
mod end_txn;
mod markers;
mod metadata;
mod record;
mod state;
mod state_manager;
mod transit;

pub use config::TransactionConfig;
pub use coordinator::{AddPartitions, InitProducerId, TransactionCoordinator};
pub use effects::{
    AppendId, MarkerDestination, PartitionLeaders, ProducerIdManager, Step, Token, Told, TransactionOutput,
    TransactionReply, TxnMarkerEntry,
};
pub use end_txn::EndRequest;
pub use metadata::{NO_START, TWO_PHASE_COMMIT_TIMEOUT, TransactionMetadata, TransitionError, TxnTransitMetadata};
pub use record::{TransactionLogRecord, TransactionLogValue, from_batch, to_batch};
pub use state::{TransactionState, TransactionVersion};
pub use state_manager::TransactionStateManager;

#[cfg(test)]
mod tests;
