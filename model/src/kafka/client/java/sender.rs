//! The producer's I/O thread (`Sender`): what it sends, what it makes of the answers.

use super::accumulator::{AccumulatorConfig, Ready, RecordAccumulator};
use super::batch::{BatchId, Failure, ProducerBatch};
use super::calls::Waiting;
use super::dice::Dice;
use super::errors::{is_invalid_metadata, is_retriable};
use super::events::{Counters, ProducerEvent};
use super::requests::Held;
use super::transaction::{
    Forgotten, ProducerIdAndEpoch, Retry, State, TransactionManager, TransactionRules, Transactional, Verdict,
};
use crate::base::{Batch, BrokerId, Millis, Offset, SmallMap, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::{Completed, Leader, Lost, Network, Outcome};
use crate::kafka::messages::{ProduceRequest, ProducedPartition, Reply, Request};
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
    /// `transactional.id` and `transaction.timeout.ms`.
    pub transactional: Option<Transactional>,
    /// What the version does differently with ids and transactions.
    pub rules: TransactionRules,
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

/// The I/O thread with everything it works on but the network.
#[derive(Clone, Debug)]
pub struct Sender {
    pub(super) config: SenderConfig,
    /// Batches waiting.
    pub accumulator: RecordAccumulator,
    pub(super) manager: Option<TransactionManager>,
    requests: SmallMap<u32, Vec<BatchId>>,
    /// Batches in flight that are not done, oldest first.
    in_flight: SmallMap<TopicPartition, Vec<BatchId>>,
    /// No batch expires before this: so the thread need not look at all of them in each pass.
    none_expires_before: Millis,
    pub(super) held: Held,
    pub(super) events: Vec<ProducerEvent>,
    counters: Counters,
    /// Calls made so far.
    pub(super) calls: u64,
    pub(super) waiting: Vec<Waiting>,
    /// What was told last.
    told: (ProducerIdAndEpoch, bool),
    /// What the last pass found and took out; kept for the memory.
    ready: Ready,
    drained: Vec<(BrokerId, Vec<BatchId>)>,
}

impl Sender {
    /// A sender with nothing to do.
    pub fn new(config: SenderConfig) -> Self {
        Self {
            accumulator: RecordAccumulator::new(config.accumulator),
            manager: config.idempotent.then(|| TransactionManager::new(config.transactional, config.rules)),
            config,
            requests: SmallMap::new(),
            in_flight: SmallMap::new(),
            none_expires_before: Millis::ZERO,
            held: Held::No,
            events: Vec::new(),
            counters: Counters::default(),
            calls: 0,
            waiting: Vec::new(),
            told: (ProducerIdAndEpoch::NONE, false),
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
    /// The error that ended the producer.
    pub fn fatal(&self) -> Option<Failure> {
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
        let pass = self.pass(net, now);
        self.tell_changes();
        pass
    }
    fn pass(&mut self, net: &mut impl Network, now: Millis) -> Pass {
        if let Some(pass) = self.held_pass(net, now) {
            return pass;
        }
        if let Some(manager) = &mut self.manager {
            if manager.resolve_sequences().is_err() {
                return self.threw();
            }
            if let Some(why) = manager.fatal() {
                self.abort_all(why);
                // The real thread wakes every retry.backoff.ms, for nothing.
                return Pass::Poll { timeout: Millis::MAX, sent: false };
            }
            match manager.heal_authorization() {
                Ok(None) => {}
                Ok(Some(why)) => {
                    self.abort_all(why);
                    return Pass::Again;
                }
                Err(_) => return self.threw(),
            }
            if manager.bump_and_reset_if_needed(&mut self.accumulator.batches).is_err() {
                return self.threw();
            }
            if let Some(pass) = self.transactional_pass(net, now) {
                return pass;
            }
        }
        self.send_producer_data(net, now)
    }
    /// Tells when id or epoch have changed, or the producer has come to its end.
    fn tell_changes(&mut self) {
        let Some(manager) = &self.manager else { return };
        let (producer, fatal) = (manager.producer(), manager.fatal());
        if producer != self.told.0 {
            self.told.0 = producer;
            self.events.push(ProducerEvent::Identity(producer));
        }
        if let Some(why) = fatal.filter(|_| !self.told.1) {
            self.told.1 = true;
            self.events.push(ProducerEvent::Fatal(why));
        }
    }
    fn send_producer_data(&mut self, net: &mut impl Network, now: Millis) -> Pass {
        let completing = self.state().is_some_and(State::is_completing);
        let mut ready = std::mem::take(&mut self.ready);
        self.accumulator.ready(net.view(), completing, now, &mut ready);
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
        let transactional = self.manager.as_ref().is_some_and(|m| m.transactional().is_some());
        // Before transaction.version 2 the leader must not take the request for one that adds the partition (KIP-890).
        let v1 = transactional && self.manager.as_ref().is_some_and(|m| !m.is_v2());
        let mut batches = Vec::with_capacity(ids.len());
        for id in &ids {
            let Some(batch) = self.accumulator.batches.sent.get_mut(*id) else { continue };
            if batch.attempts > 0 {
                let (tp, sequence, attempt) = (batch.tp, batch.tag.base_sequence, batch.attempts);
                self.events.push(ProducerEvent::Retried { tp, sequence, attempt });
            }
            batches.push((batch.tp, batch.seal(transactional)));
        }
        let version = self.config.produce_version.min(if v1 { PRODUCE_V1 } else { u8::MAX });
        let (acks, timeout) = (self.config.acks, self.config.request_timeout);
        let transactional_id = self.manager.as_ref().and_then(|m| m.transactional()).map(|t| t.id);
        let body = Request::Produce(ProduceRequest { acks, timeout, version, transactional_id, batches });
        let correlation = net.send(node, body, acks != 0, now);
        self.requests.insert(correlation, ids);
    }

    // ---- answers

    /// Takes a request that ended.
    pub fn on_completed(&mut self, ended: &Completed, net: &mut impl Network, dice: &mut Dice, now: Millis) {
        if !self.coordinator_answered(ended, net) {
            self.produced(ended, net, dice, now);
        }
        self.tell_changes();
    }
    fn produced(&mut self, ended: &Completed, net: &mut impl Network, dice: &mut Dice, now: Millis) {
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
                    if self.complete(id, verdict, net, dice, now).is_err() {
                        return;
                    }
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
                    if self.complete(id, Verdict::of(error), net, dice, now).is_err() {
                        return;
                    }
                }
            }
        }
    }
    /// One batch of a request that ended (`completeBatch`). An exception of it ends the processing of the answer; the
    /// network client catches it.
    fn complete(
        &mut self,
        id: BatchId,
        answer: Verdict,
        net: &mut impl Network,
        dice: &mut Dice,
        now: Millis,
    ) -> Result<(), Forgotten> {
        let Some(mut batch) = self.accumulator.batches.sent.remove(id) else { return Ok(()) };
        let tp = batch.tp;
        match answer.error {
            ErrorCode::None => {
                if let Err(Forgotten) = self.succeed(&mut batch, answer.base) {
                    // Nobody completes it: it stays in flight until delivery.timeout.ms.
                    if !batch.done {
                        self.accumulator.batches.sent.insert(id, batch);
                    }
                    return Err(Forgotten);
                }
            }
            ErrorCode::MessageTooLarge if batch.records() > 1 && !batch.done => {
                if let Some(manager) = &mut self.manager {
                    manager.remove_in_flight(&batch);
                }
                self.accumulator.split(&batch, &mut self.manager);
                batch.done = true;
                self.forget(&mut batch);
            }
            error => {
                if self.can_retry(&mut batch, answer, now) {
                    self.counters.retries += 1;
                    self.leave_flight(&batch);
                    self.accumulator.reenqueue(batch, self.manager.is_some(), dice, now);
                } else if error == ErrorCode::DuplicateSequenceNumber {
                    self.succeed(&mut batch, Offset::UNKNOWN)?;
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
        Ok(())
    }
    fn can_retry(&mut self, batch: &mut ProducerBatch, answer: Verdict, now: Millis) -> bool {
        if batch.done
            || batch.expired(self.config.accumulator.delivery_timeout, now)
            || batch.attempts >= self.config.retries
        {
            return false;
        }
        let Some(manager) = &mut self.manager else { return is_retriable(answer.error) };
        match manager.can_retry(batch, answer) {
            Retry::No => false,
            Retry::AsIs => true,
            Retry::FromBeginning => {
                let batches = &mut self.accumulator.batches;
                batches.sent.insert(batch.id, batch.clone());
                manager.start_at_beginning(batch.tp, batches);
                if let Some(renumbered) = batches.sent.remove(batch.id) {
                    *batch = renumbered;
                }
                true
            }
        }
    }
    fn succeed(&mut self, batch: &mut ProducerBatch, base: Offset) -> Result<(), Forgotten> {
        if let Some(manager) = &mut self.manager {
            manager.on_completed(batch, base)?;
        }
        if !std::mem::replace(&mut batch.done, true) {
            self.counters.acked += u64::from(batch.records());
            self.events.push(ProducerEvent::Acked { tp: batch.tp, base, batch: batch.seal(false) });
            self.forget(batch);
        }
        Ok(())
    }
    fn fail(&mut self, batch: &mut ProducerBatch, why: Failure, adjust: bool) {
        if std::mem::replace(&mut batch.done, true) {
            return;
        }
        self.tell_failed(batch, why);
        if let Some(manager) = &mut self.manager {
            manager.on_failed(batch, why, adjust, &mut self.accumulator.batches);
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
    /// Fails what has not left and need not any more: the transaction will be aborted. The pass goes on
    /// (`maybeSendAndPollTransactionalRequest`).
    pub(super) fn abort_undrained(&mut self, why: Failure) {
        for mut batch in self.accumulator.take_undrained() {
            batch.done = true;
            self.tell_failed(&mut batch, why);
            self.forget(&mut batch);
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

/// The last version of Produce by which a leader does not add the partition to the transaction itself.
const PRODUCE_V1: u8 = 11;

/// Whether the leader named in an answer counts (KIP-951).
const fn leader_moved(answer: &ProducedPartition) -> bool {
    matches!(answer.error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch)
}
