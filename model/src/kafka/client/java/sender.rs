//! The producer's I/O thread (`Sender`): what it sends, what it makes of the answers.

use super::accumulator::{AccumulatorConfig, Ready, RecordAccumulator};
use super::batch::{BatchId, Failure, ProducerBatch};
use super::dice::Dice;
use super::events::{Counters, ProducerEvent};
use super::idempotence::{
    InitOutcome, ProducerIdAndEpoch, State, TransactionManager, Verdict, is_invalid_metadata, is_retriable,
};
use crate::base::{Batch, BrokerId, Millis, Offset, ProducerEpoch, ProducerId, SmallMap, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::{Completed, Leader, Lost, Network, Outcome};
use crate::kafka::messages::{InitProducerIdRequest, ProduceRequest, ProducedPartition, Reply, Request};
use std::sync::Arc;

/// Settings of the sender, by Kafka's keys.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// `acks`: -1 all, 1, 0.
    pub acks: i8,
    /// `enable.idempotence`.
    pub idempotent: bool,
    /// `request.timeout.ms`; also the broker-side limit of acks=all.
    pub request_timeout: Millis,
    /// `retries`.
    pub retries: u32,
    /// `retry.backoff.ms`.
    pub retry_backoff: Millis,
    /// `max.request.size` in bytes.
    pub max_request_size: u32,
    /// INVALID_PRODUCER_ID_MAPPING ends the producer (KAFKA-18019).
    pub unmapped_id_is_fatal: bool,
    /// Error answers may name the new leader (KIP-951).
    pub leader_in_errors: bool,
    /// `max.in.flight.requests.per.connection` is 1: a partition with a batch in flight is left alone.
    pub one_in_flight: bool,
    /// Version of Produce requests; from 10 on the answer may name a new leader (KIP-951).
    pub produce_version: u8,
    /// The accumulator's.
    pub accumulator: AccumulatorConfig,
}

/// What the I/O thread does after one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// It polls the network for at most this long.
    Poll {
        /// How long; zero if a node could take more at once.
        timeout: Millis,
        /// Requests left in this pass.
        sent: bool,
    },
    /// It sleeps until then and does not even read the network.
    Sleep(Millis),
    /// It begins the next pass at once.
    Again,
}

/// Where the thread is held up (`maybeSendAndPollTransactionalRequest`).
#[derive(Clone, Copy, Debug)]
enum Held {
    No,
    /// Waits for a connection: answers are processed, no batch is sent (K-5).
    Awaiting {
        node: BrokerId,
        since: Millis,
        retry: bool,
    },
    /// Sleeps, then sends InitProducerId.
    BeforeRequest {
        node: BrokerId,
        until: Millis,
    },
    /// Sleeps, then asks for metadata and begins again.
    BackingOff {
        until: Millis,
    },
}

/// The I/O thread with everything it works on but the network.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SenderConfig,
    /// Batches waiting.
    pub accumulator: RecordAccumulator,
    manager: Option<TransactionManager>,
    requests: SmallMap<u32, Vec<BatchId>>,
    /// Batches in flight that are not done, oldest first.
    in_flight: SmallMap<TopicPartition, Vec<BatchId>>,
    /// No batch expires before this: so the thread need not look at all of them in each pass.
    none_expires_before: Millis,
    held: Held,
    events: Vec<ProducerEvent>,
    counters: Counters,
    /// What the last pass found and took out; kept for the memory.
    ready: Ready,
    drained: Vec<(BrokerId, Vec<BatchId>)>,
}

impl Sender {
    /// A sender with nothing to do.
    pub fn new(config: SenderConfig) -> Self {
        Self {
            accumulator: RecordAccumulator::new(config.accumulator),
            manager: config.idempotent.then(|| TransactionManager::new(config.unmapped_id_is_fatal)),
            config,
            requests: SmallMap::new(),
            in_flight: SmallMap::new(),
            none_expires_before: Millis::ZERO,
            held: Held::No,
            events: Vec::new(),
            counters: Counters::default(),
            ready: Ready::default(),
            drained: Vec::new(),
        }
    }
    /// The same, one by one: the list keeps its memory.
    pub fn drain_events(&mut self) -> std::vec::Drain<'_, ProducerEvent> {
        self.events.drain(..)
    }
    /// Takes out what happened, in order.
    pub fn take_events(&mut self) -> Vec<ProducerEvent> {
        std::mem::take(&mut self.events)
    }
    /// The counters.
    pub const fn counters(&self) -> Counters {
        self.counters
    }
    /// State of the transaction manager; `None` without idempotence.
    pub fn state(&self) -> Option<State> {
        self.manager.as_ref().map(TransactionManager::state)
    }
    /// Producer id and epoch for new batches.
    pub fn producer(&self) -> ProducerIdAndEpoch {
        self.manager.as_ref().map_or(ProducerIdAndEpoch::NONE, TransactionManager::producer)
    }
    /// The error that ended the producer: `send` throws it, *after* its record was queued.
    pub fn fatal(&self) -> Option<ErrorCode> {
        self.manager.as_ref().and_then(TransactionManager::fatal)
    }
    /// The next instant after `now` at which the clock alone changes something.
    pub fn next_timer(&self, now: Millis) -> Millis {
        let expiry = self.accumulator.next_expiry().min(self.next_in_flight_expiry());
        self.accumulator.next_timer(now).min(if expiry > now { expiry } else { Millis::MAX })
    }

    // ---- one pass of the I/O thread

    /// One pass up to its poll (`runOnce`).
    pub fn run_once(&mut self, net: &mut impl Network, now: Millis) -> Pass {
        match self.held {
            Held::BeforeRequest { until, .. } | Held::BackingOff { until } if now < until => return Pass::Sleep(until),
            Held::BeforeRequest { node, .. } => return self.send_init(node, net, now),
            Held::BackingOff { .. } => {
                self.held = Held::No;
                net.request_update(now);
            }
            Held::Awaiting { node, since, retry } => return self.await_ready(node, since, retry, net, now),
            Held::No => {}
        }
        if let Some(manager) = &mut self.manager {
            manager.resolve_sequences();
            if let Some(error) = manager.fatal() {
                self.abort_all(Failure::Code(error));
                // The real thread wakes every retry.backoff.ms, for nothing.
                return Pass::Poll { timeout: Millis::MAX, sent: false };
            }
            if manager.bump_and_reset_if_needed(&mut self.accumulator.batches) {
                self.events.push(ProducerEvent::Identity(manager.producer()));
            }
            if manager.has_in_flight_request() {
                return Pass::Poll { timeout: self.config.retry_backoff, sent: false };
            }
            if let Some(retry) = manager.next_request() {
                return match net.least_loaded(now) {
                    Some(node) if net.ready(node, now) => self.request_ready(node, retry, net, now),
                    Some(node) => {
                        self.held = Held::Awaiting { node, since: now, retry };
                        Pass::Poll { timeout: self.config.request_timeout, sent: false }
                    }
                    None => self.back_off(now),
                };
            }
        }
        self.send_producer_data(net, now)
    }
    fn await_ready(&mut self, node: BrokerId, since: Millis, retry: bool, net: &mut impl Network, now: Millis) -> Pass {
        let left = since + self.config.request_timeout - now;
        if net.unavailable(node, now) || left <= Millis::ZERO {
            self.back_off(now)
        } else if net.ready(node, now) {
            self.request_ready(node, retry, net, now)
        } else {
            Pass::Poll { timeout: left, sent: false }
        }
    }
    fn request_ready(&mut self, node: BrokerId, retry: bool, net: &mut impl Network, now: Millis) -> Pass {
        if retry {
            let until = now + self.config.retry_backoff;
            self.held = Held::BeforeRequest { node, until };
            return Pass::Sleep(until);
        }
        self.send_init(node, net, now)
    }
    fn send_init(&mut self, node: BrokerId, net: &mut impl Network, now: Millis) -> Pass {
        self.held = Held::No;
        let body = InitProducerIdRequest { producer: ProducerId::NONE, epoch: ProducerEpoch::NONE };
        let correlation = net.send(node, Request::InitProducerId(body), true, now);
        if let Some(manager) = &mut self.manager {
            manager.sent(correlation);
        }
        Pass::Poll { timeout: self.config.retry_backoff, sent: true }
    }
    /// No node for the request: the thread sleeps, then asks for metadata and tries again.
    fn back_off(&mut self, now: Millis) -> Pass {
        if let Some(manager) = &mut self.manager {
            manager.retry();
        }
        let until = now + self.config.retry_backoff;
        self.held = Held::BackingOff { until };
        Pass::Sleep(until)
    }
    fn send_producer_data(&mut self, net: &mut impl Network, now: Millis) -> Pass {
        let mut ready = std::mem::take(&mut self.ready);
        self.accumulator.ready(net.view(), now, &mut ready);
        if !ready.leaderless.is_empty() {
            net.request_update(now);
        }
        let mut not_ready = Millis::MAX;
        let accumulator = &mut self.accumulator;
        ready.nodes.retain(|node| {
            let can_send = net.ready(node, now);
            accumulator.note_latency(node, can_send, now);
            if !can_send {
                not_ready = not_ready.min(net.poll_delay(node, now));
            }
            can_send
        });
        let max_size = self.config.max_request_size;
        let mut drained = std::mem::take(&mut self.drained);
        self.accumulator.drain(net.view(), &ready.nodes, max_size, &mut self.manager, now, &mut drained);
        for id in drained.iter().flat_map(|(_, ids)| ids) {
            let tp = self.accumulator.batches.sent[*id].tp;
            self.in_flight.or_default(tp).push(*id);
            if self.config.one_in_flight {
                self.accumulator.mute(tp);
            }
        }
        self.expire(now);
        let sent = !drained.is_empty();
        for (node, ids) in drained.drain(..) {
            self.send_produce(node, ids, net, now);
        }
        self.drained = drained;
        let timeout = if ready.nodes.is_empty() {
            let wait = ready.next_check.min(not_ready);
            if wait <= self.none_expires_before - now {
                wait
            } else {
                let expiry = self.accumulator.next_expiry().min(self.next_in_flight_expiry());
                wait.min(Millis((expiry - now).0.max(0)))
            }
        } else {
            Millis::ZERO
        };
        self.ready = ready;
        Pass::Poll { timeout, sent }
    }
    fn next_in_flight_expiry(&self) -> Millis {
        let oldest = self.in_flight.values().filter_map(|ids| ids.first());
        let created = oldest.map(|id| self.accumulator.batches.sent[*id].created).min();
        created.map_or(Millis::MAX, |c| c + self.config.accumulator.delivery_timeout)
    }
    /// Fails what `delivery.timeout.ms` has passed for, queued or in flight (P-23).
    fn expire(&mut self, now: Millis) {
        if now < self.none_expires_before {
            return;
        }
        for batch in self.accumulator.take_expired(now) {
            self.expire_batch(batch);
        }
        let timeout = self.config.accumulator.delivery_timeout;
        let mut late = Vec::new();
        for ids in self.in_flight.values() {
            let sent = &self.accumulator.batches.sent;
            late.extend(ids.iter().copied().take_while(|id| sent[*id].expired(timeout, now)));
        }
        for id in late {
            if let Some(batch) = self.accumulator.batches.sent.remove(id) {
                // Its answer may still come.
                let batch = self.expire_batch(batch);
                self.accumulator.batches.sent.insert(id, batch);
            }
        }
        // What comes later is younger, or a part of one of these.
        let sent = &self.accumulator.batches.sent;
        let in_flight = self.in_flight.values().flatten().map(|id| sent[*id].created);
        let oldest = in_flight.chain(self.accumulator.queued_since()).fold(now, Millis::min);
        self.none_expires_before = oldest + timeout;
    }
    fn expire_batch(&mut self, mut batch: ProducerBatch) -> ProducerBatch {
        self.fail(&mut batch, Failure::Expired, false);
        if let Some(manager) = self.manager.as_mut().filter(|_| batch.in_retry) {
            manager.mark_unresolved(&batch);
        }
        batch
    }
    fn send_produce(&mut self, node: BrokerId, ids: Vec<BatchId>, net: &mut impl Network, now: Millis) {
        let mut batches = Vec::with_capacity(ids.len());
        for id in &ids {
            let Some(batch) = self.accumulator.batches.sent.get_mut(*id) else { continue };
            if batch.attempts > 0 {
                let (tp, sequence, attempt) = (batch.tp, batch.tag.base_sequence, batch.attempts);
                self.events.push(ProducerEvent::Retried { tp, sequence, attempt });
            }
            batches.push((batch.tp, batch.seal(false)));
        }
        let (acks, timeout, version) = (self.config.acks, self.config.request_timeout, self.config.produce_version);
        let body = Request::Produce(ProduceRequest { acks, timeout, version, batches });
        let correlation = net.send(node, body, acks != 0, now);
        self.requests.insert(correlation, ids);
    }

    // ---- answers

    /// Takes a request that ended.
    pub fn on_completed(&mut self, ended: &Completed, net: &mut impl Network, dice: &mut Dice, now: Millis) {
        if self.manager.as_mut().is_some_and(|m| m.take_in_flight(ended.correlation)) {
            self.on_init(ended);
            return;
        }
        let Some(ids) = self.requests.remove(ended.correlation) else { return };
        match &ended.outcome {
            Outcome::Reply(Reply::Produce(reply)) => {
                let mut hints = Vec::new();
                for id in ids {
                    let Some(tp) = self.accumulator.batches.sent.get(id).map(|b| b.tp) else { continue };
                    let answer = reply.partitions.iter().find(|p| p.tp == tp);
                    let verdict = answer.map_or(Verdict::of(ErrorCode::UnknownServerError), Verdict::from);
                    if !verdict.error.is_ok() {
                        let (api, error, node) = (0, verdict.error, ended.node);
                        self.events.push(ProducerEvent::ErrorAnswer { api, error, node });
                    }
                    self.complete(id, verdict, net, dice, now);
                    hints.extend(
                        answer
                            .filter(|p| self.config.leader_in_errors && leader_moved(p))
                            .and_then(|p| Some((tp, p.leader?))),
                    );
                }
                for (tp, (node, epoch)) in hints {
                    net.learn_leader(tp, Leader { node, epoch });
                }
            }
            outcome => {
                let error = match outcome {
                    Outcome::Sent => ErrorCode::None,
                    Outcome::Lost(Lost::TimedOut) => ErrorCode::RequestTimedOut,
                    Outcome::Lost(Lost::Disconnected) => ErrorCode::NetworkException,
                    Outcome::Reply(_) => ErrorCode::UnknownServerError,
                };
                for id in ids {
                    self.complete(id, Verdict::of(error), net, dice, now);
                }
            }
        }
    }
    fn on_init(&mut self, ended: &Completed) {
        let Some(manager) = &mut self.manager else { return };
        let Outcome::Reply(Reply::InitProducerId(reply)) = &ended.outcome else {
            manager.retry();
            return;
        };
        if !reply.error.is_ok() {
            let (api, error, node) = (22, reply.error, ended.node);
            self.events.push(ProducerEvent::ErrorAnswer { api, error, node });
        }
        match manager.on_init_reply(reply) {
            InitOutcome::Ready => self.events.push(ProducerEvent::Identity(manager.producer())),
            InitOutcome::Retry => {}
            InitOutcome::Refused(error) => self.abort_all(Failure::Code(error)),
            InitOutcome::Fatal(error) => self.events.push(ProducerEvent::Fatal(error)),
        }
    }
    /// One batch of a request that ended (`completeBatch`).
    fn complete(&mut self, id: BatchId, answer: Verdict, net: &mut impl Network, dice: &mut Dice, now: Millis) {
        let Some(mut batch) = self.accumulator.batches.sent.remove(id) else { return };
        let tp = batch.tp;
        match answer.error {
            ErrorCode::None => self.succeed(&mut batch, answer.base),
            ErrorCode::MessageTooLarge if batch.records() > 1 && !batch.done => {
                if let Some(manager) = &mut self.manager {
                    manager.remove_in_flight(&batch);
                }
                self.accumulator.split(&batch, &mut self.manager);
                batch.done = true;
                self.forget(&mut batch);
            }
            error => {
                if self.can_retry(&batch, answer, now) {
                    self.counters.retries += 1;
                    self.leave_flight(&batch);
                    self.accumulator.reenqueue(batch, self.manager.is_some(), dice, now);
                } else if error == ErrorCode::DuplicateSequenceNumber {
                    self.succeed(&mut batch, Offset::UNKNOWN);
                } else {
                    // Out of retries: it may have been accepted, its number is not free.
                    let adjust = batch.attempts < self.config.retries;
                    self.fail(&mut batch, Failure::Code(error), adjust);
                }
                if is_invalid_metadata(error) {
                    net.request_update(now);
                }
            }
        }
        if self.config.one_in_flight {
            self.accumulator.unmute(tp);
        }
    }
    fn can_retry(&mut self, batch: &ProducerBatch, answer: Verdict, now: Millis) -> bool {
        if batch.done
            || batch.expired(self.config.accumulator.delivery_timeout, now)
            || batch.attempts >= self.config.retries
        {
            return false;
        }
        match &mut self.manager {
            Some(manager) => manager.can_retry(batch, answer),
            None => is_retriable(answer.error),
        }
    }
    fn succeed(&mut self, batch: &mut ProducerBatch, base: Offset) {
        if let Some(manager) = &mut self.manager {
            manager.on_completed(batch);
        }
        if !std::mem::replace(&mut batch.done, true) {
            self.counters.acked += u64::from(batch.records());
            self.events.push(ProducerEvent::Acked { tp: batch.tp, base, batch: batch.seal(false) });
            self.forget(batch);
        }
    }
    fn fail(&mut self, batch: &mut ProducerBatch, why: Failure, adjust: bool) {
        if std::mem::replace(&mut batch.done, true) {
            return;
        }
        self.tell_failed(batch, why);
        if let Some(manager) = &mut self.manager {
            let was = manager.fatal();
            manager.on_failed(batch, why, adjust);
            if let Some(error) = manager.fatal().filter(|_| was.is_none()) {
                self.events.push(ProducerEvent::Fatal(error));
            }
        }
        self.forget(batch);
    }
    fn tell_failed(&mut self, batch: &mut ProducerBatch, why: Failure) {
        self.counters.failed_sends += u64::from(batch.records());
        self.events.push(ProducerEvent::Failed { tp: batch.tp, batch: batch.seal(false), why });
    }
    /// Fails records that were never queued.
    pub fn fail_unqueued(&mut self, tp: TopicPartition, batch: Arc<Batch>, why: Failure) {
        self.counters.failed_sends += u64::from(batch.records);
        self.events.push(ProducerEvent::Failed { tp, batch, why });
    }
    /// Fails everything that is not done (`maybeAbortBatches`).
    pub fn abort_all(&mut self, why: Failure) {
        if !self.accumulator.has_incomplete() {
            return;
        }
        for mut batch in self.accumulator.take_all() {
            batch.done = true;
            self.tell_failed(&mut batch, why);
            self.forget(&mut batch);
        }
        for id in std::mem::take(&mut self.in_flight).into_values().flatten() {
            if let Some(mut batch) = self.accumulator.batches.sent.remove(id) {
                batch.done = true;
                self.tell_failed(&mut batch, why);
                self.forget(&mut batch);
                self.accumulator.batches.sent.insert(id, batch);
            }
        }
    }
    fn leave_flight(&mut self, batch: &ProducerBatch) {
        // An empty list stays, for its memory.
        if let Some(ids) = self.in_flight.get_mut(batch.tp) {
            ids.retain(|id| *id != batch.id);
        }
    }
    fn forget(&mut self, batch: &mut ProducerBatch) {
        self.leave_flight(batch);
        let events = &mut self.events;
        self.accumulator.complete(batch, |flush| events.push(ProducerEvent::Flushed(flush)));
    }
}

/// Whether the leader named in an answer counts (KIP-951).
const fn leader_moved(answer: &ProducedPartition) -> bool {
    matches!(answer.error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch)
}
