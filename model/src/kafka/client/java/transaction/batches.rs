//! What becomes of batches: numbers given, retries allowed, errors that reach the transaction.

use super::{IllegalMove, ProducerIdAndEpoch, Refusal, State, TransactionManager, Verdict};
use crate::base::{Offset, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::java::batch::{Failure, ProducerBatch};
use crate::kafka::client::java::batches::Batches;
use crate::kafka::client::java::errors::is_retriable;

/// What becomes of a failed batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It failed for good.
    No,
    /// It goes back into its queue.
    AsIs,
    /// The same, after the partition's numbers have been begun anew with it.
    FromBeginning,
}

/// The numbers of a partition are not kept any more: the client throws where it would note an acknowledged batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten;

impl TransactionManager {
    // ---- the idempotent producer's epoch

    /// Carries out a bump that was asked for, and asks for a producer id if there is none
    /// (`bumpIdempotentEpochAndResetIdIfNeeded`). A transactional producer does this at the end of a transaction instead.
    /// An InitProducerId that left the producer in an abortable error leads nowhere: there is no transaction to abort.
    pub fn bump_and_reset_if_needed(&mut self, batches: &mut Batches) -> Result<(), IllegalMove> {
        if self.transactional.is_some() {
            return Ok(());
        }
        if std::mem::take(&mut self.bump_required) {
            if self.producer.epoch.0 == i16::MAX {
                self.producer = ProducerIdAndEpoch::NONE;
                let moved = self.move_to(State::Uninitialized, None);
                self.on_io_thread(moved)?;
            } else {
                self.producer.epoch.0 += 1;
            }
            for tp in std::mem::take(&mut self.to_rewrite) {
                self.sequences.start_at_beginning(tp, self.producer, batches);
                self.sequences.resolve(tp);
            }
        }
        if self.state != State::Initializing && self.producer.id == ProducerId::NONE {
            let moved = self.move_to(State::Initializing, None);
            self.on_io_thread(moved)?;
            let body = super::Body::Init { bump: false, producer: ProducerIdAndEpoch::NONE };
            self.queue.add(super::Handler::new(body, None));
        }
        Ok(())
    }
    fn request_bump(&mut self, tp: TopicPartition) {
        self.bump_required = true;
        self.to_rewrite.insert(tp);
    }

    // ---- what a drain asks

    /// Whether a batch at the head of its queue must stay there (`shouldStopDrainBatchesForPartition`). It ends the drain
    /// of the whole node.
    pub fn must_wait(&self, first: &ProducerBatch) -> bool {
        self.state == State::FatalError
            || (self.transactional.is_some() && !self.partitions.contains(&first.tp))
            || self.producer.id == ProducerId::NONE
            || self.sequences.must_wait(first, self.producer)
    }
    /// Gives a batch that leaves for the first time its place.
    pub fn assign(&mut self, batch: &mut ProducerBatch, batches: &mut Batches) {
        self.sequences.assign(batch, self.producer, batches);
    }
    /// Takes a batch that has its sequence already: a part of a split one.
    pub fn add_in_flight(&mut self, batch: &ProducerBatch) {
        self.sequences.add_in_flight(batch);
    }
    /// Forgets a batch.
    pub fn remove_in_flight(&mut self, batch: &ProducerBatch) {
        self.sequences.remove_in_flight(batch);
    }

    // ---- answers to Produce

    /// Whether a failed batch is sent again (`canRetry`); may ask for an epoch bump.
    pub fn can_retry(&mut self, batch: &ProducerBatch, answer: Verdict) -> Retry {
        let from_beginning = answer.error == ErrorCode::UnknownProducerId
            && self.transactional.is_some()
            && answer.log_start != Offset::UNKNOWN
            && !batch.sequence_reset;
        if from_beginning {
            // Everything acknowledged has been deleted, and the state with it: nothing is lost by beginning at 0.
            let deleted = self.sequences.last_offset(batch.tp) < answer.log_start;
            return if deleted { Retry::FromBeginning } else { Retry::No };
        }
        if self.retries_as_is(batch, answer) { Retry::AsIs } else { Retry::No }
    }
    /// Numbers of the partition restart at 0 in the present epoch.
    pub fn start_at_beginning(&mut self, tp: TopicPartition, batches: &mut Batches) {
        self.sequences.start_at_beginning(tp, self.producer, batches);
    }
    fn retries_as_is(&mut self, batch: &ProducerBatch, answer: Verdict) -> bool {
        let tp = batch.tp;
        let transactional = self.transactional.is_some();
        match answer.error {
            // Log start unknown: the leader moved; the answer to the retry will know. Reset already: this answer is to the
            // numbers from before.
            ErrorCode::UnknownProducerId if answer.log_start == Offset::UNKNOWN || batch.sequence_reset => true,
            ErrorCode::UnknownProducerId => {
                self.request_bump(tp);
                true
            }
            ErrorCode::OutOfOrderSequenceNumber => {
                let unresolved = self.sequences.unresolved(tp);
                if unresolved.is_none() && (batch.sequence_reset || !self.sequences.is_next(batch)) {
                    // An earlier batch is missing and will be sent again: wait for it.
                    return true;
                }
                if !transactional && unresolved.is_none_or(|after| after == batch.tag.base_sequence) {
                    self.request_bump(tp);
                }
                !transactional
            }
            error => is_retriable(error),
        }
    }
    /// A batch succeeded, perhaps after its future had failed. In a transaction whose partition has been forgotten
    /// (UNKNOWN_PRODUCER_ID to another batch) the answer is lost to an exception (`TxnPartitionMap.updateLastAckedOffset`).
    pub fn on_completed(&mut self, batch: &ProducerBatch, base: Offset) -> Result<(), Forgotten> {
        if self.transactional.is_some() && base != Offset::UNKNOWN && !self.sequences.knows(batch.tp) {
            return Err(Forgotten);
        }
        self.sequences.acknowledged(batch, base);
        Ok(())
    }
    /// A batch failed for good (`handleFailedBatch`). `adjust`: its number was surely not accepted.
    pub fn on_failed(&mut self, batch: &ProducerBatch, why: Failure, adjust: bool, batches: &mut Batches) {
        let moved = self.set_error(why);
        if self.on_io_thread(moved).is_err() {
            return;
        }
        self.sequences.remove_in_flight(batch);
        if self.state == State::FatalError {
            return;
        }
        let transactional = self.transactional.is_some();
        match why {
            // UnknownProducerIdException is an OutOfOrderSequenceException.
            Failure::Code(ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId) if !transactional => {
                self.request_bump(batch.tp)
            }
            Failure::Code(ErrorCode::UnknownProducerId) => self.sequences.forget(batch.tp),
            _ if !adjust => {}
            _ if transactional => self.sequences.close_gap(batch, batches),
            _ => self.request_bump(batch.tp),
        }
    }
    /// What an error of a batch does to the producer (`maybeTransitionToErrorState`).
    fn set_error(&mut self, why: Failure) -> Result<(), IllegalMove> {
        if self.ends_producer(why) {
            self.become_fatal(why);
        } else if self.transactional.is_some() {
            if self.bumps_itself() && !self.state.is_completing() {
                self.bump_required = true;
            }
            self.become_abortable(self.wrapped(why))?;
        }
        Ok(())
    }
    /// `send` itself failed, in the user's thread.
    pub fn on_send_failed(&mut self, why: Failure) -> Result<(), Refusal> {
        Ok(self.set_error(why)?)
    }
    const fn ends_producer(&self, why: Failure) -> bool {
        let Failure::Code(error) = why else { return false };
        match error {
            ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::ProducerFenced
            | ErrorCode::UnsupportedVersion => true,
            ErrorCode::InvalidProducerIdMapping => self.rules.unmapped_id_is_fatal,
            ErrorCode::InvalidProducerEpoch => self.transactional.is_some() && !self.rules.old_epoch_is_abortable,
            _ => false,
        }
    }
    /// An error that ended its retries is told as the abortable one, with the cause (KAFKA-19176).
    const fn wrapped(&self, why: Failure) -> Failure {
        match why {
            Failure::Code(error)
                if self.rules.exhausted_is_abortable
                    && (is_retriable(error) || matches!(error, ErrorCode::InvalidTxnState)) =>
            {
                Failure::Exhausted(Some(error))
            }
            Failure::Expired if self.rules.exhausted_is_abortable => Failure::Exhausted(None),
            _ => why,
        }
    }
    /// A batch that had been sent expired (P-23).
    pub fn mark_unresolved(&mut self, batch: &ProducerBatch) {
        self.sequences.mark_unresolved(batch);
    }
    /// Partitions whose batches are settled: without a gap they go on, with one the epoch is raised, or the transaction has
    /// to be aborted (`maybeResolveSequences`).
    pub fn resolve_sequences(&mut self) -> Result<(), IllegalMove> {
        for (tp, gap) in self.sequences.settled() {
            if !gap {
                continue;
            }
            if self.transactional.is_none() {
                self.request_bump(tp);
            } else if self.survives_lost_numbers() {
                self.bump_required |= self.bumps_itself();
                let moved = self.become_abortable(Failure::Unspecific);
                self.on_io_thread(moved)?;
            } else {
                self.become_fatal(Failure::Unspecific);
            }
        }
        Ok(())
    }
}
