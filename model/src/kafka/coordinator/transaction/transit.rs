//! The second half of a transition: the log has it, the cache takes it over (`completeTransitionTo`).

use super::metadata::{NO_START, TransactionMetadata, TransitionError, TxnTransitMetadata};
use super::state::TransactionState as S;
use crate::base::{Fix, Fixes, ProducerEpoch};

impl TransactionMetadata {
    /// Applies a transition that was prepared here and is now in the log. What does not follow from the state as it is now
    /// is refused: the cache changed in between in a way that no legal course explains.
    pub fn complete_transition_to(&mut self, to: TxnTransitMetadata, fixes: Fixes) -> Result<(), TransitionError> {
        if self.pending != Some(to.state) || !self.follows(&to) {
            return Err(TransitionError::IllegalState);
        }
        // Clocks of successive coordinators differ; before 2.6 a step back left the id pending for ever.
        if !fixes.has(Fix::TransitionIgnoresClock) && to.last_update < self.last_update {
            return Err(TransitionError::IllegalState);
        }
        self.producer = to.producer;
        self.previous_producer = to.previous_producer;
        self.next_producer = to.next_producer;
        self.epoch = to.epoch;
        self.last_epoch = to.last_epoch;
        self.timeout = to.timeout;
        self.state = to.state;
        self.partitions = to.partitions;
        self.start = to.start;
        self.last_update = to.last_update;
        self.client_version = to.client_version;
        self.pending = None;
        Ok(())
    }

    fn follows(&self, to: &TxnTransitMetadata) -> bool {
        let same_timeout = self.timeout == to.timeout;
        match to.state {
            S::Empty => {
                (to.epoch == self.epoch || self.is_epoch_raised(to)) && to.partitions.is_empty() && to.start == NO_START
            }
            S::Ongoing => self.is_producer_kept(to) && to.partitions.is_superset(&self.partitions) && same_timeout,
            S::PrepareCommit | S::PrepareAbort => {
                // Without a transaction there was no start; the abort brings one along.
                let empty_abort =
                    to.state == S::PrepareAbort && to.client_version.supports_epoch_bump() && self.state.is_idle();
                self.is_producer_kept(to)
                    && to.partitions == self.partitions
                    && same_timeout
                    && (to.start == self.start || empty_abort)
            }
            S::CompleteCommit | S::CompleteAbort => self.is_producer_kept(to) && same_timeout && to.start != NO_START,
            // Both are pending only: one is replaced by PrepareAbort, the other removes the entry.
            S::PrepareEpochFence | S::Dead => false,
        }
    }

    /// The next epoch, or the first of another producer id.
    fn is_epoch_raised(&self, to: &TxnTransitMetadata) -> bool {
        to.epoch.0 == self.epoch.0.wrapping_add(1) || (to.epoch == ProducerEpoch(0) && to.producer != self.producer)
    }
    /// Producer id and epoch go on as the version has it: V2 raises at PREPARE and may change the id at COMPLETE.
    fn is_producer_kept(&self, to: &TxnTransitMetadata) -> bool {
        if to.client_version.supports_epoch_bump() {
            match to.state {
                S::CompleteCommit | S::CompleteAbort if to.epoch == ProducerEpoch(0) => {
                    return to.last_epoch == self.last_epoch && to.previous_producer == self.producer;
                }
                S::PrepareCommit | S::PrepareAbort => {
                    return to.last_epoch == self.epoch && to.producer == self.producer;
                }
                _ => {}
            }
        }
        to.epoch == self.epoch && to.producer == self.producer
    }
}
