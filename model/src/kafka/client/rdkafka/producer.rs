//! The producer: what the application calls, and the loop that does what is due.

mod calls;

use super::broker::State;
use super::config::RdConfig;
use super::connections::{ConnectionEvent, Connections, NetAction, NetInput};
use super::coordinators::Coordinators;
use super::errors::{RdError, TxnApi};
use super::idempotence::{Idempotence, bumped};
use super::metadata::{Metadata, Named};
use super::partition::{Consequence, Delivery, Membership, Outgoing, Partition, Pid};
use super::txn::{Call, CallError, Transaction, TxnState};
use crate::base::{
    Addr, Batch, BrokerId, Fix, Fixes, Millis, Offset, ProducerEpoch, ProducerId, Row, Sequence, Stream, TopicId,
    TopicPartition,
};
use crate::kafka::ErrorCode;
use crate::kafka::client::Leader;
use crate::kafka::messages::{InitProducerIdRequest, ProduceRequest, Reply, Request};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a request of the client was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Metadata.
    Metadata,
    /// InitProducerId of a producer that is only idempotent.
    InitProducerId,
    /// FindCoordinator for the transaction.
    FindTransaction,
    /// FindCoordinator for the group.
    FindGroup,
    /// A request of the transaction.
    Txn(TxnApi),
    /// A batch.
    Produce {
        /// Its partition.
        tp: TopicPartition,
        /// Its request.
        id: u64,
    },
}

/// Partitions are registered a moment after the first record, so that several share a request
/// (`rd_kafka_txn_schedule_register_partitions`).
const REGISTER_DELAY: Millis = Millis(1);

impl Named for Tag {
    const METADATA: Self = Self::Metadata;
}

/// What the producer tells.
#[derive(Clone, Debug)]
pub enum ProducerEvent {
    /// A delivery report for records in order.
    Delivered(Delivery),
    /// A batch was sent again.
    Retried {
        /// Its partition.
        tp: TopicPartition,
        /// Its first sequence number; none where not idempotent.
        sequence: Sequence,
        /// Which retry, from 1.
        attempt: u32,
    },
    /// A producer id was assigned or its epoch raised.
    EpochBumped(Pid),
    /// The instance is unusable from now on.
    Fatal(RdError),
    /// A call has ended.
    Called(Call, Result<(), CallError>),
}

/// A librdkafka producer instance.
#[derive(Clone, Debug)]
pub struct RdProducer {
    /// Its settings.
    pub config: RdConfig,
    pub(super) fixes: Fixes,
    pub(super) net: Connections<Tag>,
    pub(super) metadata: Metadata,
    pub(super) coordinators: Coordinators,
    pub(super) partitions: BTreeMap<TopicPartition, Partition>,
    pub(super) txn: Option<Transaction>,
    idempotence: Idempotence,
    pub(super) pid: Option<Pid>,
    fatal: Option<RdError>,
    flush: Option<Millis>,
    purge_due: bool,
    next_id: u64,
    queued_bytes: u64,
    queued_records: u64,
    retries: u64,
    failed: u64,
    events: VecDeque<ProducerEvent>,
    /// As the last [`Self::poll`] left it, but for records behind others: until [`Self::deadline`] nothing is due.
    settled: bool,
    /// Topics that Produce was refused for lack of rights: nothing is taken for them until metadata was renewed.
    pub(super) unauthorized: BTreeSet<TopicId>,
}

impl RdProducer {
    /// Whether it knows a node: one that the metadata does not list any more is decommissioned (K-22d).
    pub fn lists(&self, node: BrokerId) -> bool {
        self.net.node(node).is_some()
    }
    /// An instance created at `now`. `stream` draws jitter and which broker is asked.
    pub fn new(config: RdConfig, bootstrap: Vec<Addr>, fixes: Fixes, stream: Stream, now: Millis) -> Self {
        let idempotence = match (config.idempotence, config.transactional) {
            (_, Some(_)) => Idempotence::Asked,
            (true, None) => Idempotence::Wanted(now),
            (false, None) => Idempotence::Off,
        };
        Self {
            net: Connections::new(bootstrap, &config, stream),
            // An id is wanted, whatever the topics.
            metadata: Metadata::new(now, &config, config.idempotence && config.transactional.is_none()),
            coordinators: Coordinators::default(),
            partitions: BTreeMap::new(),
            txn: config.transactional.map(|id| Transaction::new(id, config.transaction_timeout)),
            idempotence,
            pid: None,
            fatal: None,
            flush: None,
            purge_due: false,
            next_id: 0,
            queued_bytes: 0,
            queued_records: 0,
            retries: 0,
            failed: 0,
            events: VecDeque::new(),
            settled: false,
            unauthorized: BTreeSet::new(),
            fixes,
            config,
        }
    }

    /// Batches sent again.
    pub fn retries(&self) -> u64 {
        self.retries
    }
    /// Records that failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }
    /// The producer id in use.
    pub fn pid(&self) -> Option<Pid> {
        self.pid
    }
    /// Why the instance is unusable, if it is.
    pub fn fatal_error(&self) -> Option<RdError> {
        self.fatal
    }
    /// Records taken and not reported yet.
    pub fn unreported(&self) -> u64 {
        self.queued_records
    }
    /// The state of the transaction.
    pub fn txn_state(&self) -> Option<TxnState> {
        self.txn.as_ref().map(|t| t.state)
    }
    /// The connections, to look at.
    pub fn connections(&self) -> &Connections<Tag> {
        &self.net
    }
    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<ProducerEvent> {
        self.events.pop_front()
    }
    /// What the network is to do, in order.
    pub fn take_actions(&mut self) -> Vec<NetAction> {
        self.net.take_actions()
    }
    /// Takes what the network says. Answers that arrive together are taken together, before the next [`Self::poll`].
    pub fn input(&mut self, input: NetInput, now: Millis) {
        self.settled = false;
        self.net.input(input, &self.config);
        while let Some(event) = self.net.next_event() {
            self.on_event(event, now);
        }
    }

    /// Takes a record.
    ///
    /// # Errors
    /// `_FATAL` after a fatal error, `_STATE` outside a transaction, `_QUEUE_FULL`.
    pub fn send(&mut self, tp: TopicPartition, row: Row, now: Millis) -> Result<(), RdError> {
        if self.fatal.is_some() {
            return Err(RdError::Fatal);
        }
        if self.txn.as_ref().is_some_and(|t| !t.may_enqueue()) {
            return Err(RdError::State);
        }
        if self.unauthorized.contains(&tp.topic) {
            return Err(RdError::Code(ErrorCode::TopicAuthorizationFailed));
        }
        if self.queued_records >= u64::from(self.config.queue_max_messages)
            || self.queued_bytes + u64::from(row.bytes) > u64::from(self.config.queue_max_kbytes) * 1024
        {
            return Err(RdError::QueueFull);
        }
        self.queued_records += 1;
        self.queued_bytes += u64::from(row.bytes);
        let partition = self.partitions.entry(tp).or_insert_with(|| Partition::new(tp));
        self.settled &= partition.takes_more(&self.config);
        partition.push(row, now);
        self.settled &= partition.takes_more(&self.config);
        if let Some(txn) = &mut self.txn
            && partition.membership == Membership::Out
        {
            self.settled = false;
            partition.membership = Membership::Pending;
            if txn.pending.is_empty() && txn.due_at(TxnApi::AddPartitions) <= now {
                txn.not_until(TxnApi::AddPartitions, now + REGISTER_DELAY);
            }
            txn.pending.push(tp);
        }
        self.settled &= !self.metadata.use_partition(tp);
        Ok(())
    }

    pub(super) fn end_call(&mut self, result: Result<(), CallError>) {
        if let Some((call, result)) = self.txn.as_mut().and_then(|t| t.end_call(result)) {
            self.events.push_back(ProducerEvent::Called(call, result));
        }
    }
    fn report(&mut self, deliveries: Vec<Delivery>) {
        for d in deliveries {
            let records = u64::from(d.batch.records);
            self.queued_records -= records;
            self.queued_bytes -= u64::from(d.batch.bytes - Batch::HEADER_BYTES);
            if d.result.is_err() {
                self.failed += records;
                if let Some(txn) = &mut self.txn {
                    txn.failed_records += records;
                }
            }
            self.events.push_back(ProducerEvent::Delivered(d));
        }
    }
    fn purge(&mut self, abort: bool) {
        let mut out = Vec::new();
        self.partitions.values_mut().for_each(|p| p.purge(abort, &mut out));
        self.report(out);
    }

    // ---- what happens

    fn on_event(&mut self, event: ConnectionEvent<Tag>, now: Millis) {
        match event {
            ConnectionEvent::Up(handle) => self.broker_up(handle, now),
            ConnectionEvent::Lost(handle) => self.broker_down(handle, true, now),
            ConnectionEvent::Failed(handle) => self.broker_down(handle, false, now),
            ConnectionEvent::Answer { handle, tag, result } => self.answered(handle, tag, result, now),
        }
    }

    fn answered(&mut self, handle: super::broker::Handle, tag: Tag, result: Result<Reply, RdError>, now: Millis) {
        match (tag, result) {
            (Tag::Metadata, result) => self.metadata_answered(handle, result, now),
            (Tag::FindTransaction, result) => self.coordinator_found(result, now),
            (Tag::FindGroup, result) => self.group_found(result, now),
            (Tag::InitProducerId, result) => self.id_answered(result, now),
            (Tag::Txn(api), result) => self.txn_answered(handle, api, result, now),
            (Tag::Produce { tp, id }, result) => self.produce_answered(tp, id, result, now),
        }
    }

    fn id_answered(&mut self, result: Result<Reply, RdError>, now: Millis) {
        match result {
            Ok(Reply::InitProducerId(r)) if r.error.is_ok() => self.assign((r.producer, r.epoch)),
            Ok(Reply::InitProducerId(r))
                if matches!(
                    r.error,
                    ErrorCode::ClusterAuthorizationFailed | ErrorCode::TransactionalIdAuthorizationFailed
                ) =>
            {
                self.raise_fatal(RdError::Code(r.error));
            }
            _ => self.idempotence = Idempotence::Wanted(now + Idempotence::RETRY),
        }
    }
    pub(super) fn assign(&mut self, pid: Pid) {
        self.pid = Some(pid);
        self.idempotence = Idempotence::Assigned;
        self.events.push_back(ProducerEvent::EpochBumped(pid));
    }

    fn produce_answered(&mut self, tp: TopicPartition, id: u64, result: Result<Reply, RdError>, now: Millis) {
        if let Ok(Reply::Produce(r)) = &result
            && let Some((node, epoch)) = r.partitions.iter().find(|p| p.tp == tp).and_then(|p| p.leader)
        {
            self.metadata.leader_hint(tp, Leader { node, epoch }, &self.net);
        }
        let result = match result {
            Ok(Reply::Produce(r)) => match r.partitions.iter().find(|p| p.tp == tp) {
                Some(p) if p.error.is_ok() => Ok(p.base),
                Some(p) => Err(RdError::Code(p.error)),
                None => Err(RdError::Code(ErrorCode::UnknownServerError)),
            },
            Ok(_) => Err(RdError::Code(ErrorCode::UnknownServerError)),
            Err(error) => Err(error),
        };
        if result == Err(RdError::Code(ErrorCode::TopicAuthorizationFailed)) {
            self.unauthorized.insert(tp.topic);
        }
        let Some(partition) = self.partitions.get_mut(&tp) else { return };
        let (mut consequences, mut out) = (Vec::new(), Vec::new());
        partition.answered(id, result, now, &self.config, self.net.stream(), &mut consequences, &mut out);
        self.report(out);
        for c in consequences {
            self.follow(c, now);
        }
    }
    fn follow(&mut self, consequence: Consequence, now: Millis) {
        match consequence {
            Consequence::Refresh => self.refresh_metadata(now),
            Consequence::Bump(error) => {
                self.idempotence.drain();
                let gap = error == RdError::Code(ErrorCode::OutOfOrderSequenceNumber);
                if !gap || self.fixes.has(Fix::TransactionalGapAborts) {
                    self.fail_transaction(error, true);
                }
            }
            Consequence::AbortTransaction { error, bump } => {
                if bump {
                    self.idempotence.drain();
                }
                self.fail_transaction(error, bump);
            }
            Consequence::Fatal(error) => self.raise_fatal(error),
        }
    }
    pub(super) fn fail_transaction(&mut self, error: RdError, bump: bool) {
        let Some(txn) = &mut self.txn else { return };
        if txn.fail(error, bump) {
            // The records are dropped by the broker's thread, in its next turn: what answers that are already there put
            // back is dropped with them, what comes back later waits for the abort.
            self.purge_due = true;
            self.end_call(Err(CallError::abort(error)));
        }
    }
    pub(super) fn raise_fatal(&mut self, error: RdError) {
        if self.fatal.is_some() {
            return;
        }
        self.fatal = Some(error);
        if let Some(txn) = &mut self.txn {
            txn.poison(error);
        }
        self.events.push_back(ProducerEvent::Fatal(error));
        let committing = self.txn.as_ref().is_some_and(|t| matches!(t.call, Some((Call::Commit, _))));
        let told = !committing || self.fixes.has(Fix::RefusedCommitTold);
        self.end_call(if told { Err(CallError::fatal(error)) } else { Ok(()) });
    }

    // ---- what is due

    /// Does what is due at `now`.
    pub fn poll(&mut self, now: Millis) {
        loop {
            self.net.poll(now, &self.config);
            while let Some(event) = self.net.next_event() {
                self.on_event(event, now);
            }
            self.cluster_due(now);
            self.id_due(now);
            self.txn_due(now);
            self.offsets_due(now);
            if self.purge_due || self.fatal.is_some() {
                self.purge_due = false;
                self.purge(self.txn.is_some());
            }
            self.serve(now);
            self.calls_due(now);
            self.net.poll(now, &self.config);
            if !self.net.has_events() {
                break;
            }
        }
        self.settled = true;
    }
    /// Nothing has come since the last [`Self::poll`] but records that stand behind others of their partition: before
    /// [`Self::deadline`], which they do not move, another would do nothing.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// When to poll next, if nothing comes from the network before.
    pub fn deadline(&self, now: Millis) -> Millis {
        let mut at = self
            .net
            .deadline()
            .min(self.metadata.deadline())
            .min(self.coordinators.deadline())
            .min(self.flush.unwrap_or(Millis::MAX));
        if let Idempotence::Wanted(t) = self.idempotence {
            at = at.min(t);
        }
        if let Some(txn) = &self.txn {
            at = at.min(txn.deadline(now));
        }
        let flushing = self.flushing();
        for p in self.partitions.values().filter(|p| p.queued() > 0 && self.may_send(p)) {
            let t = p.deadline(&self.config, flushing);
            if t > now {
                at = at.min(t);
            }
        }
        at
    }
    fn flushing(&self) -> bool {
        self.flush.is_some() || self.txn.as_ref().is_some_and(|t| t.state == TxnState::Flushing)
    }
    fn may_send(&self, p: &Partition) -> bool {
        self.txn.as_ref().is_none_or(|t| t.may_send() && p.membership == Membership::In)
    }

    fn id_due(&mut self, now: Millis) {
        match self.idempotence {
            Idempotence::Wanted(at) if at <= now => {
                if let Some(handle) = self.net.any_up() {
                    let body = InitProducerIdRequest { producer: ProducerId::NONE, epoch: ProducerEpoch::NONE };
                    let deadline = now + self.config.socket_timeout();
                    self.net.send(handle, Tag::InitProducerId, Request::InitProducerId(body), deadline);
                    self.idempotence = Idempotence::Asked;
                } else {
                    self.idempotence = Idempotence::Wanted(now + Idempotence::RETRY);
                }
            }
            Idempotence::Draining if self.partitions.values().all(|p| p.flying_records() == 0) => {
                if self.txn.as_ref().is_some_and(|t| t.bump) {
                    self.idempotence = Idempotence::AwaitingAbort;
                } else if let Some(pid) = self.pid {
                    self.assign(bumped(pid));
                }
            }
            _ => {}
        }
    }

    fn serve(&mut self, now: Millis) {
        if self.fatal.is_some() {
            return;
        }
        let flushing = self.flushing();
        let pid = self.pid.filter(|_| self.idempotence == Idempotence::Assigned);
        let mut out: Vec<Outgoing> = Vec::new();
        let mut done = Vec::new();
        for (tp, partition) in &mut self.partitions {
            let may = self.txn.as_ref().is_none_or(|t| t.may_send() && partition.membership == Membership::In);
            if !may || partition.queued() == 0 {
                continue;
            }
            let Some(broker) = self.net.node(self.metadata.leader(*tp).node) else { continue };
            let (handle, state) = (broker.handle, broker.state);
            if state != State::Up {
                self.net.ask(handle, true);
                continue;
            }
            partition.serve(now, pid, &self.config, flushing, &mut self.next_id, &mut out);
            for o in out.drain(..) {
                if o.attempt > 0 {
                    self.retries += 1;
                    let sequence = o.batch.producer.base_sequence;
                    self.events.push_back(ProducerEvent::Retried { tp: *tp, sequence, attempt: o.attempt });
                }
                let body = Request::Produce(ProduceRequest {
                    acks: self.config.acks,
                    timeout: self.config.request_timeout,
                    version: 10,
                    transactional_id: self.config.transactional,
                    batches: vec![(*tp, o.batch)],
                });
                let deadline = now.saturating_add(self.config.socket_timeout().min(o.expires_in));
                if self.config.acks == 0 {
                    self.net.send_only(handle, body, deadline);
                    let (none, stream) = (&mut Vec::new(), self.net.stream());
                    partition.answered(o.id, Ok(Offset::UNKNOWN), now, &self.config, stream, none, &mut done);
                } else {
                    self.net.send(handle, Tag::Produce { tp: *tp, id: o.id }, body, deadline);
                }
            }
        }
        self.report(done);
    }

    /// Fails records that are too old; once a second. The thread of a partition's broker drains and raises the epoch for
    /// the gap they leave (`rd_kafka_toppar_producer_serve`), sent before or not. Partitions without a leader belong to the
    /// internal broker, which only fails them (`rd_kafka_broker_toppars_timeout_scan`): the next record shows the gap. That those
    /// whose broker was decommissioned are none of these is inferred from mechanism C of kafka-measured.md 3: one abort, 62 to 76 s.
    pub(super) fn expire(&mut self, now: Millis) {
        let timeout = self.config.message_timeout();
        let mut out = Vec::new();
        let mut gap = false;
        for p in self.partitions.values_mut() {
            gap |= p.expire(now, timeout, &mut out) && !self.metadata.is_leaderless(p.tp);
        }
        self.report(out);
        if gap && self.idempotence == Idempotence::Assigned {
            self.follow(Consequence::Bump(RdError::TimedOut), now);
        }
    }

    fn calls_due(&mut self, now: Millis) {
        if let Some(deadline) = self.flush {
            let idle = self.partitions.values().all(Partition::idle);
            if idle || deadline <= now {
                self.flush = None;
                let result = if idle { Ok(()) } else { Err(CallError::retriable(RdError::TimedOut)) };
                self.events.push_back(ProducerEvent::Called(Call::Flush, result));
            }
        }
        if let Some((call, result)) = self.txn.as_mut().and_then(|t| t.time_out(now)) {
            self.events.push_back(ProducerEvent::Called(call, result));
        }
    }
}
