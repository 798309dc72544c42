//! The coordinator: InitProducerId and AddPartitionsToTxn, and what follows an append (`TransactionCoordinator`; kafka.md 4.4,
//! 4.5).

use super::config::TransactionConfig;
use super::effects::{AppendId, Step, Token, Told, TransactionReply};
use super::end_txn::{EndCallback, EndRequest};
use super::markers::TransactionMarkerChannelManager;
use super::metadata::{TWO_PHASE_COMMIT_TIMEOUT, TransactionMetadata, TransitionError, TxnTransitMetadata};
use super::state::{TransactionState as S, TransactionVersion};
use super::state_manager::{AfterAppend, PendingAppend, PendingTransition, TransactionStateManager};
use crate::base::{Fix, Fixes, Millis, ProducerEpoch, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::placement::IdTable;
use crate::kafka::txn_messages::TransactionalId;

/// InitProducerId of a transactional id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitProducerId {
    /// The transactional id.
    pub id: TransactionalId,
    /// `transaction.timeout.ms`.
    pub timeout: Millis,
    /// Producer id and epoch that the client holds, if it names them (KIP-360).
    pub expected: Option<(ProducerId, ProducerEpoch)>,
    /// The producer takes part in two-phase commit (KIP-939).
    pub enable_two_phase_commit: bool,
    /// An open transaction is to be kept (KIP-939).
    pub keep_prepared: bool,
}

/// AddPartitionsToTxn, or the part of it that a partition leader sends for a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddPartitions<'a> {
    /// The transactional id.
    pub id: TransactionalId,
    /// Producer id.
    pub producer: ProducerId,
    /// Producer epoch.
    pub epoch: ProducerEpoch,
    /// The partitions.
    pub partitions: &'a [TopicPartition],
    /// The version the client's transaction follows.
    pub version: TransactionVersion,
}

/// The transaction coordinator of a broker.
#[derive(Clone, Debug)]
pub struct TransactionCoordinator {
    pub(super) config: TransactionConfig,
    pub(super) fixes: Fixes,
    pub(super) state: TransactionStateManager,
    pub(super) markers: TransactionMarkerChannelManager,
    pub(super) next_abort_scan: Millis,
    pub(super) next_id_scan: Millis,
    pub(super) next_marker_pass: Millis,
    pub(super) told: Vec<Told>,
}

const fn init_error(error: ErrorCode) -> TransactionReply {
    TransactionReply::InitProducerId { error, producer: ProducerId::NONE, epoch: ProducerEpoch::NONE }
}

impl TransactionCoordinator {
    /// The coordinator of a broker that starts now: it coordinates nothing yet, its scans run an interval from now on.
    pub fn new(config: TransactionConfig, ids: IdTable, fixes: Fixes, now: Millis) -> Self {
        Self {
            config,
            fixes,
            state: TransactionStateManager::new(config, ids, fixes),
            markers: TransactionMarkerChannelManager::new(config.marker_requests_per_broker, fixes),
            next_abort_scan: now + config.abort_timed_out_interval,
            next_id_scan: now + config.remove_expired_interval,
            next_marker_pass: Millis::MAX,
            told: Vec::new(),
        }
    }
    /// What has happened since this was asked last.
    pub fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }
    /// The ids it knows.
    pub fn state(&self) -> &TransactionStateManager {
        &self.state
    }

    // ---- InitProducerId

    /// A producer id and epoch for a transactional id; fences whoever holds them, and aborts its transaction first.
    pub fn init_producer_id(&mut self, token: Token, request: &InitProducerId, step: &mut Step<'_>) {
        match self.init_transition(request, step) {
            Err(error) => step.reply(token, init_error(error)),
            // The client comes again until the abort is through; then the epoch is raised once more.
            Ok((_, to)) if to.state == S::PrepareEpochFence => self.end_transaction(
                &EndRequest {
                    id: request.id,
                    producer: to.producer,
                    epoch: to.epoch,
                    commit: false,
                    from_client: false,
                    version: step.version,
                },
                EndCallback::InitProducerId(token),
                step,
            ),
            Ok((coordinator_epoch, to)) => {
                let then = AfterAppend::InitProducerId(token);
                self.append(PendingTransition { id: request.id, coordinator_epoch, to, then }, step);
            }
        }
    }

    fn init_transition(
        &mut self,
        request: &InitProducerId,
        step: &mut Step<'_>,
    ) -> Result<(i32, TxnTransitMetadata), ErrorCode> {
        let two_phase_commit = request.enable_two_phase_commit;
        if self.state.is_empty_id(request.id) {
            return Err(ErrorCode::InvalidRequest);
        }
        if two_phase_commit && !self.config.two_phase_commit_enable {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        if request.keep_prepared {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if request.timeout <= Millis::ZERO || (!two_phase_commit && request.timeout > self.config.max_timeout) {
            return Err(ErrorCode::InvalidTransactionTimeout);
        }
        let timeout = if two_phase_commit { TWO_PHASE_COMMIT_TIMEOUT } else { request.timeout };
        if self.state.get(request.id)?.is_none() {
            let producer = step.ids.generate()?;
            self.state.put(TransactionMetadata::new(request.id, producer, timeout, step.wall))?;
        }
        let fixes = self.fixes;
        let (coordinator_epoch, metadata) = self.state.get(request.id)?.ok_or(ErrorCode::NotCoordinator)?;
        if metadata.pending_transition_in_progress() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if request.expected.is_some_and(|(producer, epoch)| !may_init(metadata, producer, epoch)) {
            return Err(ErrorCode::ProducerFenced);
        }
        let expected = request.expected.map(|(_, epoch)| epoch);
        let to = match metadata.state {
            // What was decided stays decided: the client waits for it.
            S::PrepareCommit | S::PrepareAbort => return Err(ErrorCode::ConcurrentTransactions),
            S::Empty | S::CompleteCommit | S::CompleteAbort => {
                let current = expected.is_none_or(|epoch| epoch == metadata.epoch);
                if metadata.is_producer_epoch_exhausted() && current {
                    let producer = step.ids.generate()?;
                    metadata.prepare_producer_id_rotation(producer, timeout, step.wall, expected.is_some())
                } else {
                    metadata.prepare_increment_producer_epoch(timeout, expected, step.wall)
                }
            }
            S::Ongoing => metadata.prepare_fence_producer_epoch(fixes),
            S::Dead | S::PrepareEpochFence => Err(TransitionError::IllegalState),
        };
        Ok((coordinator_epoch, to?))
    }

    // ---- AddPartitionsToTxn

    /// Adds partitions to the transaction; opens one if there is none.
    pub fn add_partitions(&mut self, token: Token, request: &AddPartitions<'_>, step: &mut Step<'_>) {
        match self.add_transition(request, step.wall) {
            Err(error) => step.reply(token, TransactionReply::AddPartitions(error)),
            Ok((_, to)) if !self.fixes.has(Fix::AddPartitionsStored) => {
                let error = self.apply_unstored(request.id, to);
                step.reply(token, TransactionReply::AddPartitions(error));
            }
            Ok((coordinator_epoch, to)) => {
                let then = AfterAppend::AddPartitions(token);
                self.append(PendingTransition { id: request.id, coordinator_epoch, to, then }, step);
            }
        }
    }
    fn apply_unstored(&mut self, id: TransactionalId, to: TxnTransitMetadata) -> ErrorCode {
        let fixes = self.fixes;
        match self.state.get(id) {
            Ok(Some((_, metadata))) => {
                metadata.complete_transition_to(to, fixes).map_or_else(Into::into, |()| ErrorCode::None)
            }
            Ok(None) => ErrorCode::NotCoordinator,
            Err(error) => error,
        }
    }

    fn add_transition(
        &mut self,
        request: &AddPartitions<'_>,
        now: Millis,
    ) -> Result<(i32, TxnTransitMetadata), ErrorCode> {
        if self.state.is_empty_id(request.id) {
            return Err(ErrorCode::InvalidRequest);
        }
        let pending_first = self.fixes.has(Fix::AddChecksPendingFirst);
        let (coordinator_epoch, metadata) = self.state.get(request.id)?.ok_or(ErrorCode::InvalidProducerIdMapping)?;
        let pending = metadata.pending_transition_in_progress();
        if pending && pending_first {
            // Until it is through nobody knows which producer id and epoch are the current ones.
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if metadata.producer != request.producer {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if metadata.epoch != request.epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if pending || metadata.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if metadata.state == S::Ongoing && request.partitions.iter().all(|tp| metadata.partitions.contains(tp)) {
            return Err(ErrorCode::None);
        }
        Ok((coordinator_epoch, metadata.prepare_add_partitions(request.partitions, now, request.version)?))
    }

    /// Whether partitions are in the transaction, asked by their leader before an append (TV1; kafka.md 4.9).
    pub fn verify_partitions(&mut self, request: &AddPartitions<'_>) -> Vec<(TopicPartition, ErrorCode)> {
        let answer = |tp: &TopicPartition, error| (*tp, error);
        match self.verifiable(request) {
            Err(error) => request.partitions.iter().map(|tp| answer(tp, error)).collect(),
            Ok(metadata) => {
                let one = |tp: &TopicPartition| match metadata.partitions.contains(tp) {
                    true => answer(tp, ErrorCode::None),
                    false => answer(tp, ErrorCode::TransactionAbortable),
                };
                request.partitions.iter().map(one).collect()
            }
        }
    }
    fn verifiable(&mut self, request: &AddPartitions<'_>) -> Result<&TransactionMetadata, ErrorCode> {
        if self.state.is_empty_id(request.id) {
            return Err(ErrorCode::InvalidRequest);
        }
        let (_, metadata) = self.state.get(request.id)?.ok_or(ErrorCode::InvalidProducerIdMapping)?;
        // No look at what is pending: the question is about the state as it is.
        if metadata.producer != request.producer {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if metadata.epoch != request.epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if metadata.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        Ok(metadata)
    }

    // ---- appends

    pub(super) fn append(&mut self, pending: PendingTransition, step: &mut Step<'_>) {
        let (id, to) = (pending.id, pending.to.clone());
        match self.state.append(pending, step) {
            Ok(()) => self.tell_state(id, &to, false),
            Err((error, then)) => self.after_append(then, &to, error, step),
        }
    }
    fn tell_state(&mut self, id: TransactionalId, to: &TxnTransitMetadata, stored: bool) {
        let (producer, epoch, state) = (to.producer, to.epoch, to.state);
        self.told.push(Told::State { id, producer, epoch, state, stored });
    }
    /// An append of [`TransactionOutput::Append`](super::TransactionOutput::Append) is replicated (NONE), or was refused.
    pub fn appended(&mut self, append: AppendId, log: ErrorCode, step: &mut Step<'_>) {
        match self.state.take_append(append) {
            None => {}
            Some(PendingAppend::Tombstones { partition, coordinator_epoch, ids }) => {
                self.state.tombstones_appended(partition, coordinator_epoch, &ids, log);
            }
            Some(PendingAppend::Transition(pending)) => {
                let error = match self.state.update_cache(&pending, log) {
                    Ok(()) => {
                        self.tell_state(pending.id, &pending.to, true);
                        ErrorCode::None
                    }
                    Err(Some(error)) => error,
                    Err(None) => return,
                };
                self.after_append(pending.then, &pending.to, error, step);
            }
        }
    }
    fn after_append(&mut self, then: AfterAppend, to: &TxnTransitMetadata, error: ErrorCode, step: &mut Step<'_>) {
        match then {
            AfterAppend::InitProducerId(token) => {
                let reply = if error.is_ok() {
                    TransactionReply::InitProducerId { error, producer: to.producer, epoch: to.epoch }
                } else {
                    init_error(error)
                };
                step.reply(token, reply);
            }
            AfterAppend::AddPartitions(token) => step.reply(token, TransactionReply::AddPartitions(error)),
            AfterAppend::EndTxn(end) => self.outcome_stored(end, error, step),
            AfterAppend::Complete(pending) => {
                // Other errors say that the partition has moved: its new coordinator completes the transaction.
                if error == ErrorCode::CoordinatorNotAvailable {
                    self.markers.retry_append(pending);
                    self.next_marker_pass = self.next_marker_pass.min(step.now + self.config.request_timeout);
                }
            }
        }
    }
}

/// Whether a client may ask for the next epoch with the producer id it names: the current one, or the one before if its
/// epoch was exhausted (a retry over the change of ids), or any while there is no epoch yet.
fn may_init(metadata: &TransactionMetadata, producer: ProducerId, epoch: ProducerEpoch) -> bool {
    metadata.epoch == ProducerEpoch::NONE
        || producer == metadata.producer
        || (producer == metadata.previous_producer && TransactionMetadata::is_epoch_exhausted(epoch))
}
