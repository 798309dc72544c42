//! A partition's log: segments, leader epochs, producer state, transactions (kafka.md 1.1, 1.6, 3.2, 4.9, 5.1).
//!
//! [`UnifiedLog`] is the whole; each file beside it holds one rule or mechanism. The log answers at once and collects the
//! writes that its [`PartitionDisk`] is to take; both share sealed batches.

mod append;
mod config;
mod disk;
mod entry;
mod leader_epochs;
mod load;
mod producer;
mod read;
mod segment;
mod segments;
mod transaction_index;
mod truncate;
mod unified_log;

#[cfg(test)]
mod properties;

pub use append::{AppendOrigin, Appended, FollowerAppendError, LeaderAppend};
pub use config::LogConfig;
pub use disk::{LogWrite, PartitionDisk};
pub use entry::{AbortedTxn, Entry, Isolation};
pub use leader_epochs::{EpochEntry, LeaderEpochs, NegativeEpoch};
pub use producer::{AppendedBatch, ProducerSnapshot, ProducerState, VerificationGuard, Window};
pub use read::{LogRead, ReadLimit};
pub use segment::Chunk;
pub use transaction_index::AbortedEntry;
pub use unified_log::UnifiedLog;

use segments::Segments;
use transaction_index::TransactionIndex;
