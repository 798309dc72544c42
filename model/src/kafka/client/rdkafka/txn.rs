//! The transaction state machine of librdkafka (TV1; findings 1 and 2 of the librdkafka recordings, K-25, K-28, P-33).
//!
//! It holds what the transaction is in, which call of the application waits, and which coordinator request is due. The
//! producer around it owns the records and the connections.

use super::errors::{RdError, TxnAction, TxnApi, txn_action};
use super::partition::Pid;
use crate::base::{Millis, Offset, TopicPartition};
use crate::kafka::coordinator::group::Name;
use crate::kafka::txn_messages::{CoordinatorRequest, GroupId, TransactionalId};

/// A call of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `init_transactions`.
    Init,
    /// `begin_transaction`.
    Begin,
    /// `commit_transaction`.
    Commit,
    /// `abort_transaction`.
    Abort,
    /// `send_offsets_to_transaction`.
    Offsets,
    /// `flush`.
    Flush,
}

/// Why a call failed, with the flags by which an application decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The error.
    pub error: RdError,
    /// The instance is unusable.
    pub fatal: bool,
    /// The same call may be made again.
    pub retriable: bool,
    /// The transaction must be aborted.
    pub abort: bool,
}
impl CallError {
    const fn plain(error: RdError) -> Self {
        Self { error, fatal: false, retriable: false, abort: false }
    }
    /// `fatal` set.
    pub const fn fatal(error: RdError) -> Self {
        Self { error, fatal: true, retriable: false, abort: false }
    }
    /// `retriable` set.
    pub const fn retriable(error: RdError) -> Self {
        Self { error, fatal: false, retriable: true, abort: false }
    }
    /// `txn_requires_abort` set.
    pub const fn abort(error: RdError) -> Self {
        Self { error, fatal: false, retriable: false, abort: true }
    }
}

/// State of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnState {
    /// `init_transactions` was never called.
    Uninitialized,
    /// Waits for coordinator and producer id.
    Initializing,
    /// No transaction.
    Ready,
    /// Records and offsets may be sent.
    InTransaction,
    /// Commit called: the records are awaited.
    Flushing,
    /// EndTxn(commit) due or sent.
    Committing,
    /// Only an abort helps.
    Abortable,
    /// Abort called: requests on the wire are awaited.
    Draining,
    /// EndTxn(abort) due or sent.
    Aborting,
    /// Aborted; the epoch is being raised.
    Bumping,
    /// Unusable.
    Fatal,
}
use TxnState as T;

/// Legal moves. [`TxnState::Fatal`] is legal from everywhere.
pub const EDGES: &[(TxnState, &[TxnState])] = &[
    (T::Uninitialized, &[T::Initializing]),
    (T::Initializing, &[T::Ready]),
    (T::Ready, &[T::InTransaction]),
    (T::InTransaction, &[T::Flushing, T::Draining, T::Abortable]),
    (T::Flushing, &[T::Committing, T::Ready, T::Abortable]),
    (T::Committing, &[T::Ready, T::Abortable]),
    (T::Abortable, &[T::Draining]),
    (T::Draining, &[T::Aborting, T::Bumping, T::Ready]),
    (T::Aborting, &[T::Bumping, T::Ready, T::Abortable]),
    (T::Bumping, &[T::Ready]),
    (T::Fatal, &[]),
];

/// `rd_kafka_consumer_group_metadata_t`: who commits for the group (KIP-447).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdGroupMetadata {
    /// `group.id`.
    pub group: GroupId,
    /// The member's generation; -1 where none is told, so that nothing is fenced by it.
    pub generation: i32,
    /// Its member id; empty where none is told.
    pub member: Name,
    /// Its `group.instance.id`.
    pub instance: Option<Name>,
}
impl RdGroupMetadata {
    /// Of a group alone: nothing is fenced by it.
    pub fn of_group(group: GroupId) -> Self {
        Self { group, generation: -1, member: Name::from(""), instance: None }
    }
}

/// Where `send_offsets_to_transaction` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsCall {
    /// The consumer group.
    pub group: RdGroupMetadata,
    /// Next offset of each partition.
    pub offsets: Vec<(TopicPartition, Offset)>,
    /// AddOffsetsToTxn has succeeded: the call's timeout does not count any more (K-26, R).
    pub added: bool,
}

/// The transaction of one producer.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The transactional id.
    pub id: TransactionalId,
    /// `transaction.timeout.ms`.
    pub timeout: Millis,
    /// State.
    pub state: TxnState,
    /// Why it must be aborted, or the instance is unusable.
    pub error: Option<RdError>,
    /// The abort must raise the epoch.
    pub bump: bool,
    /// Partitions that wait for AddPartitionsToTxn.
    pub pending: Vec<TopicPartition>,
    /// Something was registered, or a request to do so is unanswered: EndTxn is needed.
    pub registered: bool,
    /// Records of the transaction that failed.
    pub failed_records: u64,
    /// Offsets that are being sent.
    pub offsets: Option<OffsetsCall>,
    /// The call that waits, and until when.
    pub call: Option<(Call, Millis)>,
    /// A call that timed out and must be made again before any other.
    left: Option<Call>,
    /// How a call that timed out ended afterwards.
    ended: Option<Result<(), CallError>>,
    /// Requests unanswered.
    asked: Vec<TxnApi>,
    /// Requests that may not leave before, and how often each was tried again in a row.
    not_before: Vec<(TxnApi, Millis)>,
    tries: Vec<TxnApi>,
    /// Answers to AddOffsetsToTxn that nobody waits for any more: their call timed out.
    stray_offsets: u32,
}

impl Transaction {
    /// A producer that has not called `init_transactions`.
    pub fn new(id: TransactionalId, timeout: Millis) -> Self {
        Self {
            id,
            timeout,
            state: T::Uninitialized,
            error: None,
            bump: false,
            pending: Vec::new(),
            registered: false,
            failed_records: 0,
            offsets: None,
            call: None,
            left: None,
            ended: None,
            asked: Vec::new(),
            not_before: Vec::new(),
            tries: Vec::new(),
            stray_offsets: 0,
        }
    }

    /// Moves to another state; an illegal move is a defect of the model.
    pub fn enter(&mut self, to: TxnState) {
        debug_assert!(
            to == T::Fatal || EDGES.iter().any(|(from, next)| *from == self.state && next.contains(&to)),
            "illegal move from {:?} to {to:?}",
            self.state
        );
        self.state = to;
    }
    /// Whether records may be taken from the application.
    pub fn may_enqueue(&self) -> bool {
        self.state == T::InTransaction && self.left.is_none()
    }
    /// Whether records of registered partitions may leave.
    pub fn may_send(&self) -> bool {
        matches!(self.state, T::InTransaction | T::Flushing)
    }
    /// Whether an abort is under way.
    pub fn aborting(&self) -> bool {
        matches!(self.state, T::Draining | T::Aborting | T::Bumping)
    }

    /// Begins a call. `Ok(true)`: it may start or go on; `Ok(false)`: it has ended in the background, successfully.
    ///
    /// # Errors
    /// The error the call returns at once.
    pub fn begin_call(&mut self, call: Call, deadline: Millis) -> Result<bool, CallError> {
        if self.call.is_some() || self.left.is_some_and(|l| l != call) {
            return Err(CallError::retriable(RdError::Conflict));
        }
        if self.state == T::Fatal {
            self.left = None;
            return Err(CallError::fatal(self.error.unwrap_or(RdError::Fatal)));
        }
        if self.left.take().is_some() {
            if let Some(result) = self.ended.take() {
                return result.map(|()| false);
            }
            self.call = Some((call, deadline));
            return Ok(true);
        }
        let legal = match call {
            Call::Init => matches!(self.state, T::Uninitialized),
            Call::Begin => self.state == T::Ready,
            Call::Commit | Call::Offsets => self.state == T::InTransaction,
            Call::Abort => matches!(self.state, T::InTransaction | T::Abortable),
            Call::Flush => true,
        };
        if !legal {
            return Err(match self.error {
                Some(error) if self.state == T::Abortable => CallError::abort(error),
                _ => CallError::plain(RdError::State),
            });
        }
        self.call = Some((call, deadline));
        Ok(true)
    }
    /// Ends the call that waits; a call that timed out before remembers the result. Gives what the application gets now.
    pub fn end_call(&mut self, result: Result<(), CallError>) -> Option<(Call, Result<(), CallError>)> {
        match self.call.take() {
            Some((call, _)) => Some((call, result)),
            None => {
                if self.left.is_some() {
                    self.ended = Some(result);
                }
                None
            }
        }
    }
    /// Ends a call whose time is over: `_TIMED_OUT`, and only the same call may follow, except after `send_offsets`.
    pub fn time_out(&mut self, now: Millis) -> Option<(Call, Result<(), CallError>)> {
        let (call, deadline) = self.call?;
        if deadline > now || self.offsets.as_ref().is_some_and(|o| o.added) {
            return None;
        }
        self.call = None;
        if call == Call::Offsets {
            self.offsets = None;
            if self.asking(TxnApi::AddOffsets) {
                self.asked.retain(|a| *a != TxnApi::AddOffsets);
                self.stray_offsets += 1;
            }
        } else {
            self.left = Some(call);
        }
        Some((call, Err(CallError::retriable(RdError::TimedOut))))
    }

    /// The transaction must be aborted. True if that is news: then everything queued is to be purged.
    pub fn fail(&mut self, error: RdError, bump: bool) -> bool {
        if self.state == T::Fatal {
            return false;
        }
        self.bump |= bump;
        if self.error.is_some() || !matches!(self.state, T::InTransaction | T::Flushing | T::Committing) {
            return false;
        }
        self.error = Some(error);
        self.pending.clear();
        self.offsets = None;
        self.enter(T::Abortable);
        true
    }
    /// The instance is unusable; the first such error stays. A commit or abort that waits for records has to be made again,
    /// as after a time-out, before another call is told so.
    pub fn poison(&mut self, error: RdError) {
        if self.state != T::Fatal {
            if matches!(self.state, T::Flushing | T::Draining) {
                self.left = self.call.map(|(call, _)| call);
            }
            self.error = Some(error);
            self.enter(T::Fatal);
        }
    }
    /// A transaction has ended: what it registered is forgotten.
    pub fn reset(&mut self) {
        self.error = None;
        self.bump = false;
        self.pending.clear();
        self.registered = false;
        self.failed_records = 0;
        self.offsets = None;
    }

    /// The coordinator request that is due, if any (level-triggered: asking twice gives the same until [`Self::sent`]). Versions
    /// are the newest that librdkafka has (K-20).
    pub fn wants(&self, now: Millis, pid: Option<Pid>) -> Option<(TxnApi, CoordinatorRequest)> {
        let free = |api| !self.asked.contains(&api) && self.due_at(api) <= now;
        let (producer, epoch) = pid.unwrap_or((crate::base::ProducerId::NONE, crate::base::ProducerEpoch::NONE));
        let id = self.id;
        match self.state {
            T::Initializing | T::Bumping if free(TxnApi::InitProducerId) => Some((
                TxnApi::InitProducerId,
                CoordinatorRequest::InitProducerId { id, timeout: self.timeout, producer, epoch },
            )),
            T::InTransaction | T::Flushing => {
                if !self.pending.is_empty() && free(TxnApi::AddPartitions) {
                    let mut partitions = self.pending.clone();
                    partitions.sort_unstable();
                    return Some((
                        TxnApi::AddPartitions,
                        CoordinatorRequest::AddPartitions { id, producer, epoch, partitions, version: 0 },
                    ));
                }
                let offsets = self.offsets.as_ref().filter(|o| !o.added && free(TxnApi::AddOffsets))?;
                Some((
                    TxnApi::AddOffsets,
                    CoordinatorRequest::AddOffsets { id, producer, epoch, group: offsets.group.group, version: 0 },
                ))
            }
            T::Committing if free(TxnApi::Commit) => {
                Some((TxnApi::Commit, CoordinatorRequest::EndTxn { id, producer, epoch, commit: true, version: 1 }))
            }
            T::Aborting if free(TxnApi::Abort) => {
                Some((TxnApi::Abort, CoordinatorRequest::EndTxn { id, producer, epoch, commit: false, version: 1 }))
            }
            _ => None,
        }
    }
    /// A request left (or waits for its connection).
    pub fn sent(&mut self, api: TxnApi) {
        self.asked.push(api);
        // Partitions count from the request on, offsets only when it has succeeded (R).
        self.registered |= api == TxnApi::AddPartitions;
    }
    /// Whether a request of that kind is unanswered.
    pub fn asking(&self, api: TxnApi) -> bool {
        self.asked.contains(&api)
    }
    /// Whether this is the answer to an AddOffsetsToTxn whose call has timed out: it changes nothing but that the group may be
    /// in the transaction.
    pub fn is_stray(&mut self, api: TxnApi, error: Option<RdError>) -> bool {
        let stray = api == TxnApi::AddOffsets && self.stray_offsets > 0;
        if stray {
            self.stray_offsets -= 1;
            self.registered |= error.is_none();
        }
        stray
    }
    /// A request was answered or failed; gives what to do about an error. `wait` gives the time until the next try from the
    /// action and the number of tries.
    pub fn settled(
        &mut self,
        api: TxnApi,
        error: Option<RdError>,
        now: Millis,
        wait: impl FnOnce(TxnAction, u32) -> Millis,
    ) -> Option<TxnAction> {
        self.asked.retain(|a| *a != api);
        let action = error.map(|error| txn_action(api, error));
        match action {
            Some(action @ (TxnAction::Retry(_) | TxnAction::Find(_))) => {
                self.tries.push(api);
                let tries = self.tries.iter().filter(|a| **a == api).count() as u32;
                self.not_until(api, now + wait(action, tries));
            }
            _ => self.tries.retain(|a| *a != api),
        }
        action
    }
    /// A request may leave from `at` on.
    pub fn not_until(&mut self, api: TxnApi, at: Millis) {
        self.not_before.retain(|(a, _)| *a != api);
        self.not_before.push((api, at));
    }
    /// When a request of that kind may leave.
    pub fn due_at(&self, api: TxnApi) -> Millis {
        self.not_before.iter().find(|(a, _)| *a == api).map_or(Millis::ZERO, |(_, at)| *at)
    }
    /// When a request or the waiting call has something to do by time alone.
    pub fn deadline(&self, now: Millis) -> Millis {
        let call = self.call.filter(|_| !self.offsets.as_ref().is_some_and(|o| o.added)).map(|(_, at)| at);
        let requests = self.not_before.iter().map(|(_, at)| *at).filter(|at| *at > now).min();
        call.unwrap_or(Millis::MAX).min(requests.unwrap_or(Millis::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timed_out_call_must_be_made_again() {
        let mut t = Transaction::new(TransactionalId(0), Millis(60_000));
        assert_eq!(t.begin_call(Call::Commit, Millis(9)), Err(CallError::plain(RdError::State)));
        assert_eq!(t.begin_call(Call::Init, Millis(1_000)), Ok(true));
        t.enter(T::Initializing);
        assert!(t.time_out(Millis(999)).is_none());
        assert!(t.time_out(Millis(1_000)).is_some());
        assert_eq!(t.begin_call(Call::Begin, Millis(9)), Err(CallError::retriable(RdError::Conflict)));
        t.enter(T::Ready);
        assert!(t.end_call(Ok(())).is_none());
        assert_eq!(t.begin_call(Call::Init, Millis(9_000)), Ok(false));
        assert_eq!(t.begin_call(Call::Begin, Millis(9_000)), Ok(true));
    }

    #[test]
    fn the_first_abortable_error_stays_and_a_later_bump_counts() {
        let mut t = Transaction::new(TransactionalId(0), Millis(60_000));
        t.state = T::InTransaction;
        assert!(t.fail(RdError::TimedOut, false));
        assert!(!t.fail(RdError::Transport, true));
        assert_eq!((t.error, t.bump), (Some(RdError::TimedOut), true));
    }
}
