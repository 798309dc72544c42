//! What is known of one transactional id, and the transitions it may make (`TransactionMetadata`).
//!
//! Every transition has two halves: a `prepare...` checks it, marks it as pending and gives what is to be stored;
//! [`TransactionMetadata::complete_transition_to`] applies it once the log has it (T-3).

use super::state::{TransactionState as S, TransactionVersion};
use crate::base::{Fix, Fixes, Millis, ProducerEpoch, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::TransactionalId;
use std::collections::BTreeSet;

/// Why a transition cannot be prepared or applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransitionError {
    /// Kafka throws `IllegalStateException`: the caller broke the state machine.
    IllegalState,
    /// Kafka throws `IllegalArgumentException`: a negative id or epoch.
    IllegalArgument,
    /// The asker is not the current producer: PRODUCER_FENCED.
    ProducerFenced,
}
impl From<TransitionError> for ErrorCode {
    fn from(error: TransitionError) -> Self {
        match error {
            TransitionError::IllegalState | TransitionError::IllegalArgument => Self::UnknownServerError,
            TransitionError::ProducerFenced => Self::ProducerFenced,
        }
    }
}

/// No transaction has begun.
pub const NO_START: Millis = Millis(-1);
/// Timeout of a producer that takes part in two-phase commit: none (KIP-939).
pub const TWO_PHASE_COMMIT_TIMEOUT: Millis = Millis(i32::MAX as i64);

/// The next state of an id: what goes to the log, and into the cache when it is there (`TxnTransitMetadata`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnTransitMetadata {
    /// Producer id.
    pub producer: ProducerId,
    /// Producer id of the state before.
    pub previous_producer: ProducerId,
    /// Producer id that the completion will switch to, -1 for none.
    pub next_producer: ProducerId,
    /// Producer epoch.
    pub epoch: ProducerEpoch,
    /// Epoch before the last raise that the client asked for; -1 when no retry of it is to be recognised.
    pub last_epoch: ProducerEpoch,
    /// `transaction.timeout.ms`.
    pub timeout: Millis,
    /// The state to come.
    pub state: S,
    /// Partitions of the transaction.
    pub partitions: BTreeSet<TopicPartition>,
    /// When the transaction began, [`NO_START`] without one.
    pub start: Millis,
    /// When this state was decided.
    pub last_update: Millis,
    /// The version the transaction follows.
    pub client_version: TransactionVersion,
}

/// One transactional id (T-2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionMetadata {
    /// The id.
    pub id: TransactionalId,
    /// Current producer id.
    pub producer: ProducerId,
    /// Producer id before the last transition; tells a retry over a change of ids.
    pub previous_producer: ProducerId,
    /// Producer id to switch to at completion, -1 for none.
    pub next_producer: ProducerId,
    /// Current producer epoch; -1 until the first one is stored.
    pub epoch: ProducerEpoch,
    /// The epoch before, where a retry with it is to be recognised; not stored (T-5).
    pub last_epoch: ProducerEpoch,
    /// `transaction.timeout.ms`.
    pub timeout: Millis,
    /// What the log says.
    pub state: S,
    /// The transition under way; only in memory.
    pub pending: Option<S>,
    /// Partitions of the transaction; while markers are out, those that lack one.
    pub partitions: BTreeSet<TopicPartition>,
    /// When the transaction began.
    pub start: Millis,
    /// Time of the last transition.
    pub last_update: Millis,
    /// Version that the transaction follows.
    pub client_version: TransactionVersion,
    /// A raised epoch could not be stored: the next fencing uses it again (KAFKA-9666); only in memory.
    pub failed_epoch_fence: bool,
}

impl TransactionMetadata {
    /// A fresh id: a producer id, no epoch yet.
    pub fn new(id: TransactionalId, producer: ProducerId, timeout: Millis, now: Millis) -> Self {
        Self {
            id,
            producer,
            previous_producer: ProducerId::NONE,
            next_producer: ProducerId::NONE,
            epoch: ProducerEpoch::NONE,
            last_epoch: ProducerEpoch::NONE,
            timeout,
            state: S::Empty,
            pending: None,
            partitions: BTreeSet::new(),
            start: NO_START,
            last_update: now,
            client_version: TransactionVersion::V0,
            failed_epoch_fence: false,
        }
    }

    /// Whether an epoch leaves no room for another transaction (`isEpochExhausted`): the last one, 32767, is kept for
    /// fencing.
    pub const fn is_epoch_exhausted(epoch: ProducerEpoch) -> bool {
        epoch.0 >= i16::MAX - 1
    }
    /// Whether the next epoch needs a new producer id.
    pub const fn is_producer_epoch_exhausted(&self) -> bool {
        Self::is_epoch_exhausted(self.epoch)
    }
    /// Whether a transition is under way.
    pub const fn pending_transition_in_progress(&self) -> bool {
        self.pending.is_some()
    }
    /// Whether it never times out (KIP-939).
    pub fn is_two_phase_commit(&self) -> bool {
        self.timeout == TWO_PHASE_COMMIT_TIMEOUT
    }

    /// The state as it is, to be stored: no transition, nothing pending.
    pub fn prepare_no_transit(&self) -> TxnTransitMetadata {
        TxnTransitMetadata {
            producer: self.producer,
            previous_producer: self.previous_producer,
            next_producer: self.next_producer,
            epoch: self.epoch,
            last_epoch: self.last_epoch,
            timeout: self.timeout,
            state: self.state,
            partitions: self.partitions.clone(),
            start: self.start,
            last_update: self.last_update,
            client_version: self.client_version,
        }
    }
    /// Everything kept but the state, and the producer id remembered as the previous one.
    fn to(&self, state: S) -> TxnTransitMetadata {
        TxnTransitMetadata { state, previous_producer: self.producer, ..self.prepare_no_transit() }
    }

    /// Raises the epoch ahead of an abort that the client did not ask for. Not stored by itself.
    pub fn prepare_fence_producer_epoch(&mut self, fixes: Fixes) -> Result<TxnTransitMetadata, TransitionError> {
        let again = self.failed_epoch_fence && fixes.has(Fix::FailedFenceKeepsEpoch);
        let last = self.epoch.0 == i16::MAX;
        if last && !again && !fixes.has(Fix::ExhaustedEpochAborts) {
            return Err(TransitionError::IllegalState);
        }
        let epoch = if again || last { self.epoch } else { next(self.epoch) };
        self.prepare(TxnTransitMetadata { epoch, ..self.to(S::PrepareEpochFence) })
    }

    /// InitProducerId: the next epoch, or the current one again for a retry. `expected` is the epoch that the client holds.
    pub fn prepare_increment_producer_epoch(
        &mut self,
        timeout: Millis,
        expected: Option<ProducerEpoch>,
        now: Millis,
    ) -> Result<TxnTransitMetadata, TransitionError> {
        if self.is_producer_epoch_exhausted() {
            return Err(TransitionError::IllegalState);
        }
        let (epoch, last_epoch) = match expected {
            None => (next(self.epoch), ProducerEpoch::NONE),
            Some(e) if self.epoch == ProducerEpoch::NONE || e == self.epoch => (next(self.epoch), self.epoch),
            // The answer to a raise was lost: the same answer again.
            Some(e) if e == self.last_epoch => (self.epoch, self.last_epoch),
            Some(_) => return Err(TransitionError::ProducerFenced),
        };
        self.prepare(TxnTransitMetadata { epoch, last_epoch, ..self.to_empty(timeout, now) })
    }

    /// InitProducerId when the epoch is exhausted: a new producer id. `record_last` if the client named its own.
    pub fn prepare_producer_id_rotation(
        &mut self,
        producer: ProducerId,
        timeout: Millis,
        now: Millis,
        record_last: bool,
    ) -> Result<TxnTransitMetadata, TransitionError> {
        let last_epoch = if record_last { self.epoch } else { ProducerEpoch::NONE };
        self.prepare(TxnTransitMetadata {
            producer,
            epoch: ProducerEpoch(0),
            last_epoch,
            ..self.to_empty(timeout, now)
        })
    }
    fn to_empty(&self, timeout: Millis, now: Millis) -> TxnTransitMetadata {
        TxnTransitMetadata {
            timeout,
            partitions: BTreeSet::new(),
            start: NO_START,
            last_update: now,
            ..self.to(S::Empty)
        }
    }

    /// Opens a transaction or adds to the open one.
    pub fn prepare_add_partitions(
        &mut self,
        added: &[TopicPartition],
        now: Millis,
        version: TransactionVersion,
    ) -> Result<TxnTransitMetadata, TransitionError> {
        let start = if self.state.is_idle() { now } else { self.start };
        let mut to = TxnTransitMetadata { start, last_update: now, client_version: version, ..self.to(S::Ongoing) };
        to.partitions.extend(added);
        self.prepare(to)
    }

    /// The outcome of the transaction. V2 raises the epoch, but that of an abort not beyond the last; an abort without
    /// partitions has no start but needs one.
    pub fn prepare_abort_or_commit(
        &mut self,
        state: S,
        version: TransactionVersion,
        next_producer: ProducerId,
        now: Millis,
        no_partition_added: bool,
        fixes: Fixes,
    ) -> Result<TxnTransitMetadata, TransitionError> {
        let mut to = TxnTransitMetadata {
            next_producer,
            last_update: now,
            client_version: version,
            start: if no_partition_added { now } else { self.start },
            ..self.to(state)
        };
        if version.supports_epoch_bump() {
            let stays = self.epoch.0 == i16::MAX && state == S::PrepareAbort && fixes.has(Fix::ExhaustedEpochAborts);
            to.epoch = if stays { self.epoch } else { next(self.epoch) };
            to.last_epoch = self.epoch;
        }
        self.prepare(to)
    }

    /// Every marker is written, or is about to be: the end of the transaction, and of an exhausted producer id.
    pub fn prepare_complete(&mut self, now: Millis) -> Result<TxnTransitMetadata, TransitionError> {
        // The raised epoch is in the log, otherwise there would be nothing to complete.
        self.failed_epoch_fence = false;
        let state = if self.state == S::PrepareCommit { S::CompleteCommit } else { S::CompleteAbort };
        let mut to = TxnTransitMetadata {
            next_producer: ProducerId::NONE,
            partitions: BTreeSet::new(),
            last_update: now,
            ..self.to(state)
        };
        if self.client_version.supports_epoch_bump() && self.next_producer != ProducerId::NONE {
            to.producer = self.next_producer;
            to.epoch = ProducerEpoch(0);
        }
        self.prepare(to)
    }

    /// The id has expired.
    pub fn prepare_dead(&mut self) -> Result<TxnTransitMetadata, TransitionError> {
        let to = TxnTransitMetadata { partitions: BTreeSet::new(), ..self.to(S::Dead) };
        self.prepare(to)
    }

    fn prepare(&mut self, to: TxnTransitMetadata) -> Result<TxnTransitMetadata, TransitionError> {
        if self.pending.is_some() {
            return Err(TransitionError::IllegalState);
        }
        if to.producer.0 < 0 || (to.state != S::Dead && to.epoch.0 < 0) {
            return Err(TransitionError::IllegalArgument);
        }
        if !to.state.may_follow(self.state) {
            return Err(TransitionError::IllegalState);
        }
        self.pending = Some(to.state);
        Ok(to)
    }
}

/// The epoch after; past the last one it turns negative, as a Java short does, and is refused as an argument.
const fn next(epoch: ProducerEpoch) -> ProducerEpoch {
    ProducerEpoch(epoch.0.wrapping_add(1))
}
