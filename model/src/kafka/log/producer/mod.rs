//! What a log knows of its producers: sequences, epochs, open transactions (kafka.md 3.2, 4.9).

mod append;
mod manager;
mod state;
mod verification;

pub use append::{CompletedTxn, ProducerAppend};
pub use manager::{ProducerSnapshot, ProducerStateManager};
pub use state::{AppendedBatch, ProducerState, Window};
pub(super) use verification::VerificationEntry;
pub use verification::VerificationGuard;
