//! The producer's id, sequences and transaction (`TransactionManager`): what the user's calls and the coordinators' answers
//! make of it. The I/O thread around it is [`Sender`](super::Sender).

mod answers;
mod batches;
mod queue;
mod reflection;
mod results;
mod sequences;
mod state;
#[cfg(test)]
mod tests;

pub use batches::{Forgotten, Retry};
pub use queue::{Body, Destination, GroupMetadata, Handler};
pub use results::{Call, ResultId};
pub use sequences::Verdict;
pub use state::State;

use super::batch::Failure;
use crate::base::{BrokerId, Millis, Offset, ProducerEpoch, ProducerId, ProducerTag, Sequence, TopicPartition};
use crate::kafka::txn_messages::{CoordinatorKey, TransactionalId};
use queue::{Coordinators, Queue};
use results::Results;
use sequences::Sequences;
use std::collections::{BTreeMap, BTreeSet};

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
    /// The tag of a batch that begins at this sequence.
    pub const fn tag(self, base_sequence: Sequence) -> ProducerTag {
        ProducerTag { id: self.id, epoch: self.epoch, base_sequence }
    }
}

/// Why a call throws at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The state does not allow it, or another call that gave up has to be made again first.
    IllegalState,
    /// The producer has failed with this error; thrown bare for a fenced producer, else as the cause.
    InError(Failure),
}

/// A move that the state machine forbids. On the I/O thread it ends the producer (KAFKA-14831).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllegalMove;
impl From<IllegalMove> for Refusal {
    fn from(_: IllegalMove) -> Self {
        Self::IllegalState
    }
}

/// What versions of the client do differently; see [`DIFFERENCES`](super::DIFFERENCES) and the fix bits for the tickets.
#[derive(Clone, Copy, Debug)]
pub struct TransactionRules {
    /// KAFKA-18019: INVALID_PRODUCER_ID_MAPPING ends the producer; before, abort and bump.
    pub unmapped_id_is_fatal: bool,
    /// KAFKA-14831: an illegal move on the I/O thread ends the producer; before, it went on in the state it had.
    pub illegal_move_is_fatal: bool,
    /// KAFKA-19176: retries that ran out make the transaction abortable as such (TransactionAbortableException).
    pub exhausted_is_abortable: bool,
    /// KAFKA-19250: TRANSACTION_ABORTABLE to an abort ends the producer; before, the abort hung.
    pub abortable_abort_is_fatal: bool,
    /// KAFKA-13668: lack of rights at InitProducerId can be tried again; before, fatal.
    pub init_authorization_heals: bool,
    /// KIP-588: INVALID_PRODUCER_EPOCH from a partition leader leaves an abort; before, fatal.
    pub old_epoch_is_abortable: bool,
    /// KIP-360: the epoch is raised by the client where numbers are lost; before, fatal.
    pub client_bumps_epoch: bool,
    /// KIP-890: transaction.version 2 is spoken.
    pub speaks_v2: bool,
    /// KAFKA-18227: the change to transaction.version 2 raises the epoch.
    pub upgrade_bumps_epoch: bool,
    /// KAFKA-13412: a call that gave up is resumed by the same call, whatever came in between.
    pub calls_resume: bool,
    /// Any retriable error to TxnOffsetCommit is retried (3.8); before, two of them, the others were fatal.
    pub offsets_retry_all: bool,
}

/// `transactional.id` and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transactional {
    /// `transactional.id`.
    pub id: TransactionalId,
    /// `transaction.timeout.ms`.
    pub timeout: Millis,
}

/// Producer id, sequences and transaction of one producer.
#[derive(Clone, Debug)]
pub struct TransactionManager {
    transactional: Option<Transactional>,
    rules: TransactionRules,
    state: State,
    producer: ProducerIdAndEpoch,
    last_error: Option<Failure>,
    sequences: Sequences,
    to_rewrite: BTreeSet<TopicPartition>,
    bump_required: bool,
    queue: Queue,
    in_flight: Option<(u32, Handler)>,
    coordinators: Coordinators,
    /// The coordinator was reached, so it is known that it can raise epochs.
    coordinator_bumps: bool,
    results: Results,
    /// Something was added or written in this transaction: it needs an EndTxn.
    started: bool,
    /// TV1: written to, not asked for yet.
    new_partitions: BTreeSet<TopicPartition>,
    /// TV1: asked for.
    pending_partitions: BTreeSet<TopicPartition>,
    partitions: BTreeSet<TopicPartition>,
    pending_offsets: BTreeMap<TopicPartition, Offset>,
    /// `transaction.version` is 2 in the cluster's finalized features, as the connections have told.
    cluster_v2: bool,
    /// The version of the present transaction.
    v2: bool,
}

impl TransactionManager {
    /// Nothing known yet. Without `transactional` it serves an idempotent producer.
    pub fn new(transactional: Option<Transactional>, rules: TransactionRules) -> Self {
        Self {
            transactional,
            rules,
            state: State::Uninitialized,
            producer: ProducerIdAndEpoch::NONE,
            last_error: None,
            sequences: Sequences::default(),
            to_rewrite: BTreeSet::new(),
            bump_required: false,
            queue: Queue::default(),
            in_flight: None,
            coordinators: Coordinators::default(),
            coordinator_bumps: false,
            results: Results::default(),
            started: false,
            new_partitions: BTreeSet::new(),
            pending_partitions: BTreeSet::new(),
            partitions: BTreeSet::new(),
            pending_offsets: BTreeMap::new(),
            cluster_v2: false,
            v2: false,
        }
    }
    /// The state.
    pub const fn state(&self) -> State {
        self.state
    }
    /// `transactional.id`, if the producer has one.
    pub const fn transactional(&self) -> Option<Transactional> {
        self.transactional
    }
    /// Producer id and epoch in use for new batches.
    pub const fn producer(&self) -> ProducerIdAndEpoch {
        self.producer
    }
    /// The error that stands.
    pub const fn last_error(&self) -> Option<Failure> {
        self.last_error
    }
    /// The error that ended the producer.
    pub fn fatal(&self) -> Option<Failure> {
        self.last_error.filter(|_| self.state == State::FatalError)
    }
    /// Whether writes go the way of transaction.version 2.
    pub const fn is_v2(&self) -> bool {
        self.v2
    }
    /// A transaction is open and neither committing nor aborting.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::InTransaction | State::AbortableError)
    }
    /// What blocked calls wait for.
    pub const fn results(&mut self) -> &mut Results {
        &mut self.results
    }

    // ---- what the user calls

    /// `initTransactions`.
    pub fn init_transactions(&mut self) -> Result<ResultId, Refusal> {
        self.initialize(ProducerIdAndEpoch::NONE)
    }
    fn initialize(&mut self, producer: ProducerIdAndEpoch) -> Result<ResultId, Refusal> {
        self.check_error()?;
        // At the end of a transaction the move comes with the answer to EndTxn.
        let bump = producer != ProducerIdAndEpoch::NONE;
        self.resumable(Call::Init, |m| {
            if !bump {
                m.move_to(State::Initializing, None)?;
            }
            let result = m.results.open();
            m.queue.add(Handler::new(Body::Init { bump, producer }, Some(result)));
            Ok(result)
        })
    }
    /// The user has seen `initTransactions` succeed: the version of the first transaction is known.
    pub const fn initialized(&mut self) {
        self.learn_version(true);
    }
    /// `beginTransaction`.
    pub fn begin_transaction(&mut self) -> Result<(), Refusal> {
        self.check_pending()?;
        self.check_error()?;
        Ok(self.move_to(State::InTransaction, None)?)
    }
    /// `prepareTransaction` (KIP-939; in 4.3 not reachable through the public producer).
    pub fn prepare_transaction(&mut self) -> Result<(), Refusal> {
        self.check_pending()?;
        self.check_error()?;
        Ok(self.move_to(State::Prepared, None)?)
    }
    /// `commitTransaction`.
    pub fn commit_transaction(&mut self) -> Result<ResultId, Refusal> {
        self.resumable(Call::Commit, |m| {
            m.check_error()?;
            m.move_to(State::Committing, None)?;
            m.complete(true)
        })
    }
    /// `abortTransaction`.
    pub fn abort_transaction(&mut self) -> Result<ResultId, Refusal> {
        self.resumable(Call::Abort, |m| {
            if m.state != State::AbortableError {
                m.check_error()?;
            }
            m.move_to(State::Aborting, None)?;
            m.new_partitions.clear();
            m.complete(false)
        })
    }
    fn complete(&mut self, commit: bool) -> Result<ResultId, Refusal> {
        self.ask_for_new_partitions();
        // The transaction ends as it began; the next one may be of another version.
        let (producer, v2) = (self.producer, self.v2);
        self.learn_version(false);
        let result = (!self.bump_required).then(|| self.results.open());
        self.queue.add(Handler::new(Body::End { producer, commit, v2 }, result));
        result.map_or_else(|| self.initialize(producer), Ok)
    }
    /// `sendOffsetsToTransaction`.
    pub fn send_offsets(
        &mut self,
        offsets: Vec<(TopicPartition, Offset)>,
        group: GroupMetadata,
    ) -> Result<ResultId, Refusal> {
        self.check_pending()?;
        self.check_error()?;
        if self.state != State::InTransaction {
            return Err(Refusal::IllegalState);
        }
        let result = self.results.open();
        if self.v2 {
            self.started = true;
            self.commit_offsets(Some(result), &offsets, group);
        } else {
            self.queue.add(Handler::new(Body::AddOffsets(self.producer, group, offsets), Some(result)));
        }
        Ok(result)
    }
    fn commit_offsets(&mut self, result: Option<ResultId>, offsets: &[(TopicPartition, Offset)], group: GroupMetadata) {
        self.pending_offsets.extend(offsets.iter().copied());
        // Everything not yet committed goes along.
        let offsets = self.pending_offsets.iter().map(|(tp, offset)| (*tp, *offset)).collect();
        let (producer, v2) = (self.producer, self.v2);
        self.queue.add(Handler::new(Body::CommitOffsets { producer, group, offsets, v2 }, result));
    }
    /// A record was queued for this partition (`maybeAddPartition`): it enters the transaction. The record stays queued where
    /// this refuses.
    #[inline]
    pub fn add_partition(&mut self, tp: TopicPartition) -> Result<(), Refusal> {
        self.check_error()?;
        self.check_pending()?;
        if self.transactional.is_none() { Ok(()) } else { self.add_to_transaction(tp) }
    }
    fn add_to_transaction(&mut self, tp: TopicPartition) -> Result<(), Refusal> {
        if self.producer.id == ProducerId::NONE || self.state != State::InTransaction {
            return Err(Refusal::IllegalState);
        }
        if self.v2 {
            self.sequences.touch(tp);
            self.partitions.insert(tp);
            self.started = true;
        } else if !self.partitions.contains(&tp) && !self.pending_partitions.contains(&tp) {
            self.sequences.touch(tp);
            self.new_partitions.insert(tp);
        }
        Ok(())
    }
    #[inline]
    fn check_error(&self) -> Result<(), Refusal> {
        match self.last_error.filter(|_| self.state.is_error()) {
            Some(error) => Err(Refusal::InError(error)),
            None => Ok(()),
        }
    }
    fn check_pending(&self) -> Result<(), Refusal> {
        if self.rules.calls_resume && self.results.pending().is_some() { Err(Refusal::IllegalState) } else { Ok(()) }
    }
    /// The same call joins one that has not been seen to end; any other is refused (K-7).
    fn resumable(
        &mut self,
        call: Call,
        begin: impl FnOnce(&mut Self) -> Result<ResultId, Refusal>,
    ) -> Result<ResultId, Refusal> {
        match self.results.pending() {
            Some((id, pending)) if self.rules.calls_resume => {
                return if pending == call { Ok(id) } else { Err(Refusal::IllegalState) };
            }
            // Before KAFKA-13412 only as long as the state is still that of the call.
            Some((id, _)) if self.state == call.state() => return Ok(id),
            _ => {}
        }
        let result = begin(self)?;
        self.results.begin(result, call);
        Ok(result)
    }
    /// Finalized features came with a connection.
    pub const fn set_cluster_version(&mut self, transaction_version: u8) {
        self.cluster_v2 = transaction_version >= 2;
    }
    const fn learn_version(&mut self, initializing: bool) {
        let before = self.v2;
        self.v2 = self.cluster_v2 && self.rules.speaks_v2;
        if !initializing && !before && self.v2 && self.rules.upgrade_bumps_epoch {
            self.bump_required = true;
        }
    }

    // ---- moves

    fn move_to(&mut self, next: State, error: Option<Failure>) -> Result<(), IllegalMove> {
        if !self.state.may_become(next) {
            return Err(IllegalMove);
        }
        self.state = next;
        self.last_error = error;
        Ok(())
    }
    /// An illegal move on the I/O thread.
    fn on_io_thread<T>(&mut self, moved: Result<T, IllegalMove>) -> Result<T, IllegalMove> {
        if moved.is_err() && self.rules.illegal_move_is_fatal {
            self.state = State::FatalError;
            self.last_error = Some(Failure::IllegalState);
        }
        moved
    }
    fn become_abortable(&mut self, why: Failure) -> Result<(), IllegalMove> {
        if self.state == State::Aborting { Ok(()) } else { self.move_to(State::AbortableError, Some(why)) }
    }
    fn become_fatal(&mut self, why: Failure) {
        self.state = State::FatalError;
        self.last_error = Some(why);
        self.results.fail_pending(why);
    }
    /// The producer was closed by force: nothing more is sent.
    pub fn close(&mut self) {
        self.become_fatal(Failure::Closed);
    }
    /// Lack of rights at InitProducerId: the user may try again (KAFKA-13668). Gives the error while it stands.
    pub fn heal_authorization(&mut self) -> Result<Option<Failure>, IllegalMove> {
        let Some(why) = self.last_error.filter(|e| self.state == State::AbortableError && e.is_authorization()) else {
            return Ok(None);
        };
        let waiting: Vec<_> = self.queue.iter().map(|handler| handler.result).collect();
        for result in waiting {
            self.results.fail(result, why);
        }
        let moved = self.move_to(State::Uninitialized, None);
        self.on_io_thread(moved)?;
        self.results.fail_pending(why);
        Ok(Some(why))
    }

    // ---- requests

    fn ask_for_new_partitions(&mut self) {
        if !self.new_partitions.is_empty() {
            self.pending_partitions.append(&mut self.new_partitions);
            // In the order of Java's hashes for one topic: descending.
            let partitions = self.pending_partitions.iter().rev().copied().collect();
            self.queue.add(Handler::new(Body::AddPartitions(self.producer, partitions), None));
        }
    }
    /// Takes the next request to send. EndTxn waits while any batch is `incomplete`; one of an empty transaction is not sent.
    pub fn next_request(&mut self, incomplete: bool) -> Result<Option<Handler>, IllegalMove> {
        self.ask_for_new_partitions();
        if self.queue.peek().is_none_or(|next| next.is_end() && incomplete) {
            return Ok(None);
        }
        let next = self.queue.poll();
        let find = next.as_ref().is_some_and(|h| matches!(h.body, Body::Find(_)));
        if self.state == State::FatalError || (self.state == State::AbortableError && !find) {
            if let (Some(handler), Some(error)) = (next, self.last_error) {
                self.results.fail(handler.result, error);
            }
            return Ok(None);
        }
        match next {
            Some(handler) if handler.is_end() && !self.started => {
                self.results.done(handler.result);
                let moved = self.transaction_ended();
                self.on_io_thread(moved)?;
                Ok(self.queue.poll())
            }
            next => Ok(next),
        }
    }
    fn transaction_ended(&mut self) -> Result<(), IllegalMove> {
        let next = if self.bump_required { State::Initializing } else { State::Ready };
        self.move_to(next, None)?;
        self.bump_required = false;
        self.started = false;
        self.new_partitions.clear();
        self.pending_partitions.clear();
        self.partitions.clear();
        Ok(())
    }
    /// A request of the manager is unanswered: nothing else is sent meanwhile.
    pub const fn has_in_flight_request(&self) -> bool {
        self.in_flight.is_some()
    }
    /// The request has left.
    pub fn sent(&mut self, correlation: u32, handler: Handler) {
        self.in_flight = Some((correlation, handler));
    }
    /// Takes the request in flight, if `correlation` is it.
    pub fn take_in_flight(&mut self, correlation: u32) -> Option<Handler> {
        self.in_flight.take_if(|(ours, _)| *ours == correlation).map(|(_, handler)| handler)
    }
    /// Puts a request back that has to be tried again.
    pub fn retry(&mut self, mut handler: Handler) {
        handler.retry = true;
        self.queue.add(handler);
    }
    /// The node a request goes to; `None` where it has to be looked up first, or any will do.
    pub const fn target(&self, destination: Destination) -> Option<BrokerId> {
        match destination {
            Destination::Any => None,
            Destination::Transaction => self.coordinators.transaction,
            Destination::Group(_) => self.coordinators.group,
        }
    }
    /// The coordinator of a request is not known or not reached: it is looked up.
    pub fn look_up(&mut self, destination: Destination) {
        let key = match (destination, self.transactional) {
            (Destination::Transaction, Some(t)) => {
                self.coordinators.transaction = None;
                CoordinatorKey::Transaction(t.id)
            }
            (Destination::Group(group), _) => {
                self.coordinators.group = None;
                CoordinatorKey::Group(group)
            }
            _ => return,
        };
        self.queue.add(Handler::new(Body::Find(key), None));
    }
    /// A connection to the transaction coordinator stands: it is known what it can do.
    pub const fn coordinator_reached(&mut self) {
        self.coordinator_bumps = self.rules.client_bumps_epoch;
    }
    const fn bumps_itself(&self) -> bool {
        self.coordinator_bumps && !self.v2
    }
    const fn survives_lost_numbers(&self) -> bool {
        self.coordinator_bumps || self.v2
    }
}

impl Call {
    /// The state that the call leads to.
    const fn state(self) -> State {
        match self {
            Self::Init => State::Initializing,
            Self::Offsets => State::InTransaction,
            Self::Commit => State::Committing,
            Self::Abort => State::Aborting,
        }
    }
}
