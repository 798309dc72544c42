//! Producer id, epoch and sequence numbers (`TransactionManager`, `TxnPartitionMap`): the part of every idempotent
//! producer. The transactional part (states between READY and the end of a transaction, coordinator requests) joins here.

use super::batch::{BatchId, Failure, ProducerBatch};
use super::batches::Batches;
use crate::base::{Offset, ProducerEpoch, ProducerId, ProducerTag, Sequence, SmallMap, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::messages::{InitProducerIdReply, ProducedPartition};
use std::collections::{BTreeMap, BTreeSet};

/// Where the producer stands (`TransactionManager.State`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No producer id, none asked for.
    Uninitialized,
    /// InitProducerId is on its way.
    Initializing,
    /// Has a producer id.
    Ready,
    /// The producer can do no more.
    FatalError,
}
impl State {
    /// The name as the client logs it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uninitialized => "UNINITIALIZED",
            Self::Initializing => "INITIALIZING",
            Self::Ready => "READY",
            Self::FatalError => "FATAL_ERROR",
        }
    }
}

/// Producer id and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdAndEpoch {
    /// The id, -1 for none.
    pub id: ProducerId,
    /// The epoch, -1 for none.
    pub epoch: ProducerEpoch,
}
impl ProducerIdAndEpoch {
    /// No id.
    pub const NONE: Self = Self { id: ProducerId::NONE, epoch: ProducerEpoch::NONE };
    const fn tag(self, base_sequence: Sequence) -> ProducerTag {
        ProducerTag { id: self.id, epoch: self.epoch, base_sequence }
    }
}

/// Sequence state of one partition (`TxnPartitionEntry`).
#[derive(Clone, Debug)]
struct Entry {
    producer: ProducerIdAndEpoch,
    next: Sequence,
    last_acked: Sequence,
    /// Batches that have a sequence and no final answer, in the order of their sequences: in flight or waiting for a retry.
    in_flight: Vec<(Sequence, BatchId)>,
}
impl Entry {
    const NEW: Self = Self {
        producer: ProducerIdAndEpoch::NONE,
        next: Sequence(0),
        last_acked: Sequence::NONE,
        in_flight: Vec::new(),
    };
    fn add(&mut self, item: (Sequence, BatchId)) {
        let at = self.in_flight.partition_point(|other| *other < item);
        self.in_flight.insert(at, item);
    }
    fn is_next(&self, sequence: Sequence) -> bool {
        sequence.0.wrapping_sub(self.last_acked.0) == 1
    }
}

/// An answer to a produce request as far as the decision to retry needs it.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// The error.
    pub error: ErrorCode,
    /// Offset of the first record, -1 on error.
    pub base: Offset,
    /// Log start offset, -1 where unknown.
    pub log_start: Offset,
}
impl From<&ProducedPartition> for Verdict {
    fn from(p: &ProducedPartition) -> Self {
        Self { error: p.error, base: p.base, log_start: p.log_start }
    }
}
impl Verdict {
    /// What is made up for a request without answer.
    pub const fn of(error: ErrorCode) -> Self {
        Self { error, base: Offset::UNKNOWN, log_start: Offset::UNKNOWN }
    }
}

/// What became of an answer to InitProducerId.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitOutcome {
    /// There is a producer id.
    Ready,
    /// Asked again after `retry.backoff.ms`.
    Retry,
    /// Refused for lack of rights: everything queued fails, then it is asked anew.
    Refused(ErrorCode),
    /// The producer can do no more.
    Fatal(ErrorCode),
}

/// Sequences and producer id of an idempotent producer.
#[derive(Clone, Debug)]
pub struct TransactionManager {
    state: State,
    producer: ProducerIdAndEpoch,
    last_error: Option<ErrorCode>,
    partitions: SmallMap<TopicPartition, Entry>,
    /// Partition and the sequence that follows the batch whose fate is unknown (P-23).
    unresolved: BTreeMap<TopicPartition, Sequence>,
    bump_required: bool,
    to_rewrite: BTreeSet<TopicPartition>,
    /// InitProducerId is to be sent; `true` for a retry, which waits `retry.backoff.ms` first.
    pending: Option<bool>,
    in_flight: Option<u32>,
    unmapped_id_is_fatal: bool,
}

impl TransactionManager {
    /// Nothing known yet. `unmapped_id_is_fatal`: INVALID_PRODUCER_ID_MAPPING ends the producer (KAFKA-18019).
    pub const fn new(unmapped_id_is_fatal: bool) -> Self {
        Self {
            unmapped_id_is_fatal,
            state: State::Uninitialized,
            producer: ProducerIdAndEpoch::NONE,
            last_error: None,
            partitions: SmallMap::new(),
            unresolved: BTreeMap::new(),
            bump_required: false,
            to_rewrite: BTreeSet::new(),
            pending: None,
            in_flight: None,
        }
    }
    /// The state.
    pub const fn state(&self) -> State {
        self.state
    }
    /// Producer id and epoch in use for new batches.
    pub const fn producer(&self) -> ProducerIdAndEpoch {
        self.producer
    }
    /// The error that ended the producer.
    pub fn fatal(&self) -> Option<ErrorCode> {
        self.last_error.filter(|_| self.state == State::FatalError)
    }

    // ---- InitProducerId

    /// A request of the manager is unanswered: nothing else is sent meanwhile.
    pub const fn has_in_flight_request(&self) -> bool {
        self.in_flight.is_some()
    }
    /// Takes the next request to send; `true` if it is a retry.
    pub const fn next_request(&mut self) -> Option<bool> {
        self.pending.take()
    }
    /// Puts a request back that could not be sent.
    pub const fn retry(&mut self) {
        self.pending = Some(true);
    }
    /// The request has left.
    pub const fn sent(&mut self, correlation: u32) {
        self.in_flight = Some(correlation);
    }
    /// Whether `correlation` is the request in flight; it then is no longer.
    pub fn take_in_flight(&mut self, correlation: u32) -> bool {
        let ours = self.in_flight == Some(correlation);
        if ours {
            self.in_flight = None;
        }
        ours
    }
    /// Takes the answer to InitProducerId.
    pub fn on_init_reply(&mut self, reply: &InitProducerIdReply) -> InitOutcome {
        match reply.error {
            ErrorCode::None => {
                self.producer = ProducerIdAndEpoch { id: reply.producer, epoch: reply.epoch };
                self.state = State::Ready;
                self.last_error = None;
                InitOutcome::Ready
            }
            e if is_retriable(e) => {
                self.retry();
                InitOutcome::Retry
            }
            e @ (ErrorCode::ClusterAuthorizationFailed | ErrorCode::TransactionalIdAuthorizationFailed) => {
                self.state = State::Uninitialized;
                InitOutcome::Refused(e)
            }
            ErrorCode::InvalidProducerEpoch => self.fatal_error(ErrorCode::ProducerFenced),
            e => self.fatal_error(e),
        }
    }
    const fn fatal_error(&mut self, error: ErrorCode) -> InitOutcome {
        self.state = State::FatalError;
        self.last_error = Some(error);
        InitOutcome::Fatal(error)
    }

    // ---- epoch bump

    /// Carries out a bump that was asked for, and asks for a producer id if there is none
    /// (`bumpIdempotentEpochAndResetIdIfNeeded`). True if id or epoch changed.
    pub fn bump_and_reset_if_needed(&mut self, batches: &mut Batches) -> bool {
        let bump = std::mem::take(&mut self.bump_required);
        if bump {
            if self.producer.epoch.0 == i16::MAX {
                self.producer = ProducerIdAndEpoch::NONE;
                self.state = State::Uninitialized;
            } else {
                self.producer.epoch.0 += 1;
            }
            for tp in std::mem::take(&mut self.to_rewrite) {
                self.start_at_beginning(tp, batches);
                self.unresolved.remove(&tp);
            }
        }
        if self.state != State::Initializing && self.producer.id == ProducerId::NONE {
            self.state = State::Initializing;
            self.pending = Some(false);
        }
        bump
    }
    fn request_bump(&mut self, tp: TopicPartition) {
        self.bump_required = true;
        self.to_rewrite.insert(tp);
    }
    /// Numbers of the partition restart at 0 under the present id and epoch; batches without final answer are numbered
    /// anew, also those on the wire, which keep their old numbers there (P-25).
    fn start_at_beginning(&mut self, tp: TopicPartition, batches: &mut Batches) {
        let producer = self.producer;
        let entry = self.partitions.or_insert_with(tp, || Entry::NEW);
        let mut next = Sequence(0);
        for (sequence, id) in &mut entry.in_flight {
            *sequence = next;
            if let Some(batch) = batches.find(tp, *id) {
                batch.reset(producer.tag(next));
                next = next.plus(batch.records() as i32);
            }
        }
        entry.producer = producer;
        entry.next = next;
        entry.last_acked = Sequence::NONE;
    }

    // ---- what a drain asks

    /// Whether a batch at the head of its queue must stay there (`shouldStopDrainBatchesForPartition`). It ends the drain
    /// of the whole node.
    pub fn must_wait(&self, first: &ProducerBatch) -> bool {
        if self.state == State::FatalError || self.producer.id == ProducerId::NONE {
            return true;
        }
        let entry = self.partitions.get(first.tp);
        let head = entry.and_then(|e| e.in_flight.first());
        if first.has_sequence() {
            // Retries leave one at a time, in the order of their sequences.
            return head.is_some_and(|(sequence, _)| *sequence != first.tag.base_sequence);
        }
        let stale = entry.is_some_and(|e| e.producer != self.producer);
        (head.is_some() && stale) || self.unresolved.contains_key(&first.tp)
    }
    /// Gives a batch that leaves for the first time its place: under the present epoch, after what was numbered before.
    pub fn assign(&mut self, batch: &mut ProducerBatch, batches: &mut Batches) {
        let tp = batch.tp;
        let entry = self.partitions.or_insert_with(tp, || Entry::NEW);
        if entry.producer != self.producer && entry.in_flight.is_empty() {
            self.start_at_beginning(tp, batches);
        }
        let entry = self.partitions.or_insert_with(tp, || Entry::NEW);
        batch.tag = self.producer.tag(entry.next);
        entry.next = entry.next.plus(batch.records() as i32);
        entry.add((batch.tag.base_sequence, batch.id));
    }
    /// Takes a batch that has its sequence already: a part of a split one.
    pub fn add_in_flight(&mut self, batch: &ProducerBatch) {
        let entry = self.partitions.or_insert_with(batch.tp, || Entry::NEW);
        entry.add((batch.tag.base_sequence, batch.id));
    }
    /// Forgets a batch.
    pub fn remove_in_flight(&mut self, batch: &ProducerBatch) {
        if let Some(entry) = self.partitions.get_mut(batch.tp) {
            entry.in_flight.retain(|(_, id)| *id != batch.id);
        }
    }

    // ---- answers

    /// Whether a failed batch is sent again (`canRetry`); may ask for an epoch bump.
    pub fn can_retry(&mut self, batch: &ProducerBatch, answer: Verdict) -> bool {
        let tp = batch.tp;
        match answer.error {
            ErrorCode::UnknownProducerId => {
                // Log start unknown: the leader moved; the answer to the retry will know. Reset already: this answer is
                // to the numbers from before. Otherwise the broker has lost the state, a new epoch may start at 0.
                if answer.log_start != Offset::UNKNOWN && !batch.sequence_reset {
                    self.request_bump(tp);
                }
                true
            }
            ErrorCode::OutOfOrderSequenceNumber => {
                let sequence = batch.tag.base_sequence;
                let next = self.partitions.get(tp).unwrap_or(&Entry::NEW).is_next(sequence);
                match self.unresolved.get(&tp) {
                    // An earlier batch is missing and will be sent again: wait for it.
                    None if batch.sequence_reset || !next => {}
                    None => self.request_bump(tp),
                    Some(after) if *after == sequence => self.request_bump(tp),
                    Some(_) => {}
                }
                true
            }
            error => is_retriable(error),
        }
    }
    /// A batch succeeded, perhaps after its future had failed.
    pub fn on_completed(&mut self, batch: &ProducerBatch) {
        let entry = self.partitions.or_insert_with(batch.tp, || Entry::NEW);
        entry.last_acked = entry.last_acked.max(batch.last_sequence());
        self.remove_in_flight(batch);
    }
    /// A batch failed for good. `adjust`: its number was surely not accepted, so a new epoch can begin without it.
    pub fn on_failed(&mut self, batch: &ProducerBatch, why: Failure, adjust: bool) {
        let error = match why {
            Failure::Code(error) => Some(error),
            _ => None,
        };
        let unmapped = self.unmapped_id_is_fatal && error == Some(ErrorCode::InvalidProducerIdMapping);
        if let Some(error) = error.filter(|e| is_fatal(*e) || unmapped) {
            self.fatal_error(error);
        }
        self.remove_in_flight(batch);
        if self.state == State::FatalError {
            return;
        }
        let gap = matches!(error, Some(ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId));
        if gap || adjust {
            self.request_bump(batch.tp);
        }
    }
    /// A batch that had been sent expired: no new batch of its partition leaves until those in flight are settled (P-23).
    pub fn mark_unresolved(&mut self, batch: &ProducerBatch) {
        let after = batch.last_sequence().plus(1);
        let known = self.unresolved.entry(batch.tp).or_insert(after);
        *known = (*known).max(after);
    }
    /// Partitions whose batches are settled: without a gap they go on, with one the epoch is raised.
    pub fn resolve_sequences(&mut self) {
        let settled = |tp: &TopicPartition| self.partitions.get(*tp).is_none_or(|e| e.in_flight.is_empty());
        let settled: Vec<TopicPartition> = self.unresolved.keys().copied().filter(settled).collect();
        for tp in settled {
            let gap = self.partitions.get(tp).is_some_and(|entry| !entry.is_next(entry.next));
            if gap {
                self.request_bump(tp);
            }
            self.unresolved.remove(&tp);
        }
    }
}
/// Errors that end any producer (`maybeTransitionToErrorState`).
const fn is_fatal(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::ProducerFenced
            | ErrorCode::UnsupportedVersion
    )
}

/// Errors whose exception is a `RetriableException`.
pub const fn is_retriable(error: ErrorCode) -> bool {
    is_invalid_metadata(error)
        || matches!(
            error,
            ErrorCode::CorruptMessage
                | ErrorCode::RequestTimedOut
                | ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::NotCoordinator
                | ErrorCode::NotEnoughReplicas
                | ErrorCode::NotEnoughReplicasAfterAppend
                | ErrorCode::NotController
                | ErrorCode::ConcurrentTransactions
                | ErrorCode::FetchSessionIdNotFound
                | ErrorCode::InvalidFetchSessionEpoch
                | ErrorCode::UnknownLeaderEpoch
                | ErrorCode::OffsetNotAvailable
                | ErrorCode::UnstableOffsetCommit
                | ErrorCode::ThrottlingQuotaExceeded
                | ErrorCode::FetchSessionTopicIdError
        )
}

/// Errors whose exception is an `InvalidMetadataException`: they also ask for metadata.
pub const fn is_invalid_metadata(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::NetworkException
            | ErrorCode::KafkaStorageError
            | ErrorCode::ListenerNotFound
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::PreferredLeaderNotAvailable
            | ErrorCode::EligibleLeadersNotAvailable
            | ErrorCode::ElectionNotNeeded
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
    )
}
