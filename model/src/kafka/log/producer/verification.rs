//! Verification entries: proof that the coordinator was asked before a transaction's first batch (KIP-890; T-10).

use crate::base::{Batch, Millis, ProducerEpoch, Sequence};

/// Handed out when the coordinator is asked about a transaction; the append must bring it back. A marker in between makes it
/// worthless, which is what keeps a late batch from opening a transaction that nobody will end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationGuard(pub(super) u64);

/// What stands for a producer between the question and its first batch.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct VerificationEntry {
    /// The guard that the append must show.
    pub guard: VerificationGuard,
    /// When it was made, on the broker's wall clock.
    pub made: Millis,
    /// Newest epoch that asked.
    pub epoch: ProducerEpoch,
    /// Lowest sequence number that asked under that epoch (KAFKA-14920).
    pub lowest: Sequence,
    /// Made for a client of transaction version 2, whose epochs start at sequence 0 (KAFKA-18202).
    pub tv2: bool,
}

impl VerificationEntry {
    /// Another request asks while the entry stands.
    pub fn asked_again(&mut self, epoch: ProducerEpoch, sequence: Sequence) {
        if epoch > self.epoch {
            (self.epoch, self.lowest) = (epoch, sequence);
        } else if epoch == self.epoch && sequence < self.lowest {
            self.lowest = sequence;
        }
    }
    /// Whether transactional data or a marker, being written, uses the entry up. A marker of exactly its epoch under TV2 is
    /// the late marker of the transaction before and leaves it.
    pub fn ends_with(&self, batch: &Batch) -> bool {
        !(self.tv2 && batch.is_control() && batch.producer.epoch == self.epoch)
    }
}
