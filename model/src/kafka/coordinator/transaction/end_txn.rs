//! EndTxn: of a client, of a fencing, of a timeout (kafka.md 4.6, 4.7, 4.10).

use super::coordinator::TransactionCoordinator;
use super::effects::{ProducerIdManager, Step, Token, Told, TransactionReply};
use super::metadata::{TransactionMetadata, TransitionError, TxnTransitMetadata};
use super::state::{TransactionState as S, TransactionVersion};
use super::state_manager::{AfterAppend, PendingTransition};
use crate::base::{AbortedBy, Fix, Fixes, Millis, ProducerEpoch, ProducerId};
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::TransactionalId;

/// A request to end a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndRequest {
    /// The transactional id.
    pub id: TransactionalId,
    /// Producer id.
    pub producer: ProducerId,
    /// Producer epoch.
    pub epoch: ProducerEpoch,
    /// COMMIT, else ABORT.
    pub commit: bool,
    /// Whether a client asks; else the coordinator itself does.
    pub from_client: bool,
    /// V2 if the request says so (EndTxn v5 on), or of the cluster where the coordinator asks.
    pub version: TransactionVersion,
}

/// Who is told how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCallback {
    /// A client's EndTxn.
    EndTxn(Token),
    /// A client's InitProducerId that found a transaction: it is to come again.
    InitProducerId(Token),
    /// The scan for timed-out transactions.
    Nobody,
}

/// An end whose outcome is being stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndTxn {
    request: EndRequest,
    coordinator_epoch: i32,
    /// The epoch was raised for it, in memory only.
    epoch_fence: bool,
    callback: EndCallback,
}

/// Nothing to do: the answer is there already.
struct Answer {
    error: ErrorCode,
    /// Producer id and epoch of a retried end that is through.
    producer: ProducerId,
    epoch: ProducerEpoch,
}
impl From<ErrorCode> for Answer {
    fn from(error: ErrorCode) -> Self {
        Self { error, producer: ProducerId::NONE, epoch: ProducerEpoch::NONE }
    }
}
impl From<TransitionError> for Answer {
    fn from(error: TransitionError) -> Self {
        ErrorCode::from(error).into()
    }
}

impl TransactionCoordinator {
    /// A client's EndTxn.
    pub fn end_txn(&mut self, token: Token, request: &EndRequest, step: &mut Step<'_>) {
        self.end_transaction(request, EndCallback::EndTxn(token), step);
    }

    pub(super) fn end_transaction(&mut self, request: &EndRequest, callback: EndCallback, step: &mut Step<'_>) {
        match self.end_transition(request, step) {
            Err(answer) => answer_end(callback, &answer, step),
            Ok((coordinator_epoch, epoch_fence, to)) => {
                let end = EndTxn { request: *request, coordinator_epoch, epoch_fence, callback };
                let then = AfterAppend::EndTxn(end);
                self.append(PendingTransition { id: request.id, coordinator_epoch, to, then }, step);
            }
        }
    }
    fn end_transition(
        &mut self,
        request: &EndRequest,
        step: &mut Step<'_>,
    ) -> Result<(i32, bool, TxnTransitMetadata), Answer> {
        if self.state.is_empty_id(request.id) {
            return Err(ErrorCode::InvalidRequest.into());
        }
        let (fixes, lost_commit_is_fenced) = (self.fixes, self.config.lost_commit_is_fenced);
        let (coordinator_epoch, metadata) = self.state.get(request.id)?.ok_or(ErrorCode::InvalidProducerIdMapping)?;
        let (fence, to) = if request.version.supports_epoch_bump() {
            V2 { metadata, request, fixes, lost_commit_is_fenced }.prepare(step.wall, step.ids)?
        } else {
            prepare_v1(metadata, request, step.wall, fixes)?
        };
        Ok((coordinator_epoch, fence, to))
    }

    /// The outcome is in the log, so the client is told, and the markers leave. Or it is not.
    pub(super) fn outcome_stored(&mut self, end: EndTxn, error: ErrorCode, step: &mut Step<'_>) {
        let request = &end.request;
        if error.is_ok() && !request.commit {
            let by = match end.callback {
                EndCallback::EndTxn(_) => AbortedBy::Client,
                EndCallback::Nobody => AbortedBy::Expiry,
                EndCallback::InitProducerId(_) => AbortedBy::Init,
            };
            self.told.push(Told::Aborts { id: request.id, by });
        }
        if !error.is_ok() {
            // The raised epoch stays in memory and fences its producer; V2 did not raise it there.
            let raised = !request.version.supports_epoch_bump() || !self.fixes.has(Fix::FenceRaisesOnce);
            if end.epoch_fence
                && raised
                && let Ok(Some((epoch, metadata))) = self.state.get(request.id)
                && epoch == end.coordinator_epoch
            {
                metadata.failed_epoch_fence = true;
            }
            return answer_end(end.callback, &error.into(), step);
        }
        match self.completion(&end, step.wall) {
            Err(error) => answer_end(end.callback, &error.into(), step),
            Ok((stored, to)) => {
                let answer = match request.version.supports_epoch_bump() {
                    false => ErrorCode::None.into(),
                    true if self.fixes.has(Fix::OverflowAnswersNewId) => {
                        Answer { error: ErrorCode::None, producer: to.producer, epoch: to.epoch }
                    }
                    true => Answer { error: ErrorCode::None, producer: stored.0, epoch: stored.1 },
                };
                // The client is not kept waiting for the markers (T-30).
                answer_end(end.callback, &answer, step);
                self.add_markers_to_send(request.id, end.coordinator_epoch, request.commit, stored, to, step);
            }
        }
    }
    /// Producer id and epoch of the markers, and the end to be stored after them.
    fn completion(
        &mut self,
        end: &EndTxn,
        now: Millis,
    ) -> Result<((ProducerId, ProducerEpoch), TxnTransitMetadata), ErrorCode> {
        let request = &end.request;
        let Some((epoch, metadata)) = self.state.get(request.id)? else { return Err(ErrorCode::UnknownServerError) };
        if epoch != end.coordinator_epoch {
            return Err(ErrorCode::NotCoordinator);
        }
        if metadata.producer != request.producer {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        let raised = request.version.supports_epoch_bump() && metadata.epoch.0.wrapping_sub(1) == request.epoch.0;
        if metadata.epoch != request.epoch && !raised {
            return Err(ErrorCode::ProducerFenced);
        }
        if metadata.pending_transition_in_progress() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let decided = if request.commit { S::PrepareCommit } else { S::PrepareAbort };
        if metadata.state != decided {
            return Err(ErrorCode::InvalidTxnState);
        }
        let stored = (metadata.producer, metadata.epoch);
        Ok((stored, metadata.prepare_complete(now)?))
    }
}

fn answer_end(callback: EndCallback, answer: &Answer, step: &mut Step<'_>) {
    match callback {
        EndCallback::Nobody => {}
        EndCallback::EndTxn(token) => {
            let Answer { error, producer, epoch } = *answer;
            step.reply(token, TransactionReply::EndTxn { error, producer, epoch });
        }
        EndCallback::InitProducerId(token) => {
            let error = if answer.error.is_ok() { ErrorCode::ConcurrentTransactions } else { answer.error };
            let (producer, epoch) = (ProducerId::NONE, ProducerEpoch::NONE);
            step.reply(token, TransactionReply::InitProducerId { error, producer, epoch });
        }
    }
}

const fn outcome(commit: bool) -> S {
    if commit { S::PrepareCommit } else { S::PrepareAbort }
}

/// EndTxn before V2: the epoch stays, so a retry looks like the next transaction's end (4.6).
fn prepare_v1(
    metadata: &mut TransactionMetadata,
    request: &EndRequest,
    now: Millis,
    fixes: Fixes,
) -> Result<(bool, TxnTransitMetadata), Answer> {
    if metadata.producer != request.producer {
        return Err(ErrorCode::InvalidProducerIdMapping.into());
    }
    if (request.from_client && request.epoch != metadata.epoch) || request.epoch < metadata.epoch {
        return Err(ErrorCode::ProducerFenced.into());
    }
    let fence = metadata.pending == Some(S::PrepareEpochFence);
    if metadata.pending_transition_in_progress() && !fence {
        return Err(ErrorCode::ConcurrentTransactions.into());
    }
    let (same, other) =
        if request.commit { (S::PrepareCommit, S::PrepareAbort) } else { (S::PrepareAbort, S::PrepareCommit) };
    match metadata.state {
        S::Ongoing => {
            if fence && !request.commit {
                clear_fence(metadata, request.epoch);
            }
            let (version, none) = (TransactionVersion::V0, ProducerId::NONE);
            let to = metadata.prepare_abort_or_commit(outcome(request.commit), version, none, now, false, fixes)?;
            Ok((fence, to))
        }
        state if state == same => Err(ErrorCode::ConcurrentTransactions.into()),
        state if state == other => Err(ErrorCode::InvalidTxnState.into()),
        S::CompleteCommit if request.commit => Err(ErrorCode::None.into()),
        S::CompleteAbort if !request.commit => Err(ErrorCode::None.into()),
        S::Dead | S::PrepareEpochFence => Err(TransitionError::IllegalState.into()),
        _ => Err(ErrorCode::InvalidTxnState.into()),
    }
}
/// The abort takes the place of the fencing, whose epoch is in force from now on, stored or not.
fn clear_fence(metadata: &mut TransactionMetadata, epoch: ProducerEpoch) {
    metadata.pending = None;
    metadata.epoch = epoch;
    metadata.last_epoch = ProducerEpoch::NONE;
}

/// EndTxn under V2: the epoch tells a retry from the next transaction's end (4.7).
struct V2<'a> {
    metadata: &'a mut TransactionMetadata,
    request: &'a EndRequest,
    fixes: Fixes,
    lost_commit_is_fenced: bool,
}
impl V2<'_> {
    fn prepare(self, now: Millis, ids: &mut dyn ProducerIdManager) -> Result<(bool, TxnTransitMetadata), Answer> {
        let (m, r) = (&*self.metadata, self.request);
        let fence = m.pending == Some(S::PrepareEpochFence);
        // The epoch ran out, and the answer that named the new producer id was lost.
        let retry_on_overflow =
            !fence && m.previous_producer == r.producer && r.epoch.0 == i16::MAX - 1 && m.epoch == ProducerEpoch(0);
        let retry_on_raise = !fence && i32::from(m.epoch.0) == i32::from(r.epoch.0) + 1;
        let current = r.epoch == m.epoch;
        let valid_epoch = if fence {
            (!r.from_client || current) && r.epoch >= m.epoch
        } else {
            match m.state {
                S::PrepareCommit | S::PrepareAbort => retry_on_raise,
                S::CompleteCommit | S::CompleteAbort => retry_on_raise || retry_on_overflow || current,
                S::Ongoing | S::Empty | S::Dead | S::PrepareEpochFence => current,
            }
        };
        let pending = m.pending_transition_in_progress() && !fence;
        if pending && self.fixes.has(Fix::EndChecksPendingFirst) {
            return Err(ErrorCode::ConcurrentTransactions.into());
        }
        if m.producer != r.producer && !retry_on_overflow {
            return Err(ErrorCode::InvalidProducerIdMapping.into());
        }
        if !valid_epoch {
            return Err(ErrorCode::ProducerFenced.into());
        }
        if pending {
            return Err(ErrorCode::ConcurrentTransactions.into());
        }
        let retry = retry_on_raise || retry_on_overflow;
        let no_partition_added = match (m.state, r.commit) {
            (S::Ongoing, _) => false,
            (S::Empty, false) => true,
            (S::CompleteCommit | S::CompleteAbort, false) if !retry => true,
            (S::CompleteCommit, true) | (S::CompleteAbort, false) if retry => {
                return Err(Answer { error: ErrorCode::None, producer: m.producer, epoch: m.epoch });
            }
            (S::CompleteAbort, true) if retry && self.lost_commit_is_fenced => {
                return Err(ErrorCode::ProducerFenced.into());
            }
            (S::PrepareCommit, true) | (S::PrepareAbort, false) => {
                return Err(ErrorCode::ConcurrentTransactions.into());
            }
            (S::Dead | S::PrepareEpochFence, _) => return Err(TransitionError::IllegalState.into()),
            _ => return Err(ErrorCode::InvalidTxnState.into()),
        };
        let rotates = m.is_producer_epoch_exhausted() && (!fence || self.fixes.has(Fix::ExhaustedEpochAborts));
        let next_producer = if rotates { ids.generate() } else { Ok(ProducerId::NONE) };
        if fence {
            // The abort raises the epoch itself. Without a producer id at hand there is none now, and no fencing either.
            self.metadata.pending = None;
            if !self.fixes.has(Fix::FenceRaisesOnce) {
                clear_fence(self.metadata, r.epoch);
            }
        }
        let next_producer = next_producer?;
        let (to, fixes) = (outcome(r.commit), self.fixes);
        let to = self.metadata.prepare_abort_or_commit(to, r.version, next_producer, now, no_partition_added, fixes)?;
        Ok((fence, to))
    }
}
