//! The Java producer of a simulated application (`KafkaProducer`): sender, accumulator and connections in one component.

use super::accumulator::Target;
use super::batch::Failure;
use super::calls::SendError;
use super::config::ProducerConfig;
use super::dice::Dice;
use super::events::{Counters, ProducerEvent};
use super::network_client::NetworkClient;
use super::sender::{Pass, Sender};
use super::transaction::{GroupMetadata, ProducerIdAndEpoch, Refusal, State};
use crate::base::{Batch, Cx, Event, Fixes, Input, Millis, Offset, ProducerTag, Row, SimTime, TopicId, TopicPartition};
use crate::kafka::client::Network;
use crate::kafka::messages::Message;
use crate::kafka::txn_messages::TransactionalId;
use std::collections::VecDeque;
use std::sync::Arc;

/// A send that the application's thread hangs in: no metadata of the topic, or no buffer memory.
#[derive(Clone, Copy, Debug)]
struct Blocked {
    topic: TopicId,
    target: Target,
    row: Row,
}

/// A producer. A step of its process gives it inputs ([`JavaProducer::input`]) and records ([`JavaProducer::send`]), then
/// lets it work once ([`JavaProducer::run`]), then wakes it at [`JavaProducer::deadline`].
#[derive(Clone, Debug)]
pub struct JavaProducer {
    client: NetworkClient,
    sender: Sender,
    dice: Dice,
    max_block: Millis,
    /// Sends of a thread that blocks in the first of them.
    blocked: VecDeque<Blocked>,
    blocked_since: Millis,
    /// Partition counts for one version of the metadata.
    counts: Vec<(TopicId, u16)>,
    counts_version: u64,
    flushes: u64,
    wake_at: Millis,
    /// Something happened that the I/O thread wakes for.
    disturbed: bool,
    closing: bool,
    events: VecDeque<ProducerEvent>,
}

impl JavaProducer {
    /// A producer that begins to connect at its first [`JavaProducer::run`]. Two streams: `network` for connections and
    /// metadata, `records` for partitions and retries.
    pub fn new(config: &ProducerConfig, fixes: Fixes, network: Dice, records: Dice) -> Self {
        let mut sender = Sender::new(config.sender(fixes));
        sender.set_transaction_version(config.transaction_version);
        Self {
            client: NetworkClient::new(config.network(), network),
            sender,
            dice: records,
            max_block: config.max_block,
            blocked: VecDeque::new(),
            blocked_since: Millis::ZERO,
            counts: Vec::new(),
            counts_version: 0,
            flushes: 0,
            wake_at: Millis::ZERO,
            disturbed: true,
            closing: false,
            events: VecDeque::new(),
        }
    }

    // ---- the application

    /// `send`. What cannot be queued yet waits for at most `max.block.ms`, and with it everything sent after it. An error
    /// here is the exception that the caller sees; a record that was queued before it can still go out.
    #[inline]
    pub fn send(&mut self, topic: TopicId, target: Target, row: Row, now: Millis) -> Result<(), SendError> {
        let sent = if self.blocked.is_empty() { self.append(topic, target, &row, now) } else { Err(SendError::Full) };
        if sent == Err(SendError::Full) {
            if self.blocked.is_empty() {
                self.blocked_since = now;
                self.disturbed = true;
            }
            self.blocked.push_back(Blocked { topic, target, row });
            return Ok(());
        }
        sent
    }

    // ---- transactions

    /// `initTransactions`. The number given comes back with [`ProducerEvent::Called`], at the latest after `max.block.ms`.
    pub fn init_transactions(&mut self, now: Millis) -> Result<u64, Refusal> {
        self.disturbed = true;
        self.sender.init_transactions(now + self.max_block)
    }
    /// `beginTransaction`.
    pub fn begin_transaction(&mut self) -> Result<(), Refusal> {
        self.sender.begin_transaction()
    }
    /// `sendOffsetsToTransaction`.
    pub fn send_offsets(
        &mut self,
        offsets: Vec<(TopicPartition, Offset)>,
        group: GroupMetadata,
        now: Millis,
    ) -> Result<u64, Refusal> {
        self.disturbed = true;
        self.sender.send_offsets(offsets, group, now + self.max_block)
    }
    /// `commitTransaction`.
    pub fn commit_transaction(&mut self, now: Millis) -> Result<u64, Refusal> {
        self.disturbed = true;
        self.sender.commit_transaction(now + self.max_block)
    }
    /// `abortTransaction`.
    pub fn abort_transaction(&mut self, now: Millis) -> Result<u64, Refusal> {
        self.disturbed = true;
        self.sender.abort_transaction(now + self.max_block)
    }
    /// Takes another `transactional.id`, with the connections that it has; nothing may be open.
    pub fn rename(&mut self, id: TransactionalId) {
        self.sender.rename(id);
    }
    /// Goes on in a transaction that another producer has begun, to commit it.
    pub fn resume_transaction(&mut self, producer: ProducerIdAndEpoch) {
        self.sender.resume(producer);
    }
    /// State of ids and transaction; `None` without idempotence.
    pub fn state(&self) -> Option<State> {
        self.sender.state()
    }
    /// `flush`: everything sent so far goes out without lingering; [`ProducerEvent::Flushed`] with this number tells that
    /// all of it is done, or nothing if nothing was pending (`None`).
    pub fn flush(&mut self) -> Option<u64> {
        self.flushes += 1;
        self.disturbed = true;
        self.sender.accumulator.begin_flush(self.flushes).then_some(self.flushes)
    }
    /// `close()`: what is queued still goes out; [`JavaProducer::closed`] tells when it is done.
    pub fn close(&mut self) {
        self.closing = true;
        self.disturbed = true;
        self.sender.accumulator.close();
    }
    /// `close(0)`: what is not done fails.
    pub fn abort(&mut self) {
        self.close();
        self.sender.force_close();
        while let Some(record) = self.blocked.pop_front() {
            self.fail_blocked(record, Failure::Closed);
        }
    }
    /// Its process lets go of it without a word to any broker: what is open stays open.
    pub fn drop_connections(&mut self) {
        self.client.close_all();
        self.disturbed = true;
    }
    /// Whether it was closed and has nothing left to do. An open transaction is aborted first (K-8).
    pub fn closed(&self) -> bool {
        self.closing && !self.has_incomplete() && !self.sender.has_ongoing_transaction()
    }
    /// Whether the application's thread hangs in a send.
    pub fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }
    /// Whether any record is neither acknowledged nor failed.
    pub fn has_incomplete(&self) -> bool {
        self.is_blocked() || self.sender.accumulator.has_incomplete()
    }
    /// The next thing that happened.
    pub fn poll(&mut self) -> Option<ProducerEvent> {
        self.events.pop_front()
    }
    /// Retries, failed and acknowledged records so far.
    pub const fn counters(&self) -> Counters {
        self.sender.counters()
    }
    /// Producer id and epoch.
    pub fn identity(&self) -> ProducerIdAndEpoch {
        self.sender.producer()
    }
    /// The connections.
    pub const fn network(&mut self) -> &mut NetworkClient {
        &mut self.client
    }

    // ---- the process around it

    /// Takes an input of the process; false if it is for somebody else.
    pub fn input(&mut self, input: Input<Message>) -> bool {
        let ours = self.client.input(input);
        self.disturbed |= ours;
        ours
    }
    /// When to run again.
    pub fn deadline(&self) -> Option<SimTime> {
        let block = if self.blocked.is_empty() { Millis::MAX } else { self.blocked_since + self.max_block };
        let at = self.wake_at.min(block).min(self.sender.next_give_up());
        (at < Millis::MAX).then(|| SimTime::at(at))
    }
    /// Lets the I/O thread work until it would sleep. Does nothing if there is no reason to wake it.
    pub fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        if self.disturbed || now >= self.wake_at || self.block_expired(now) || now >= self.sender.next_give_up() {
            self.disturbed = false;
            self.work(now);
            if self.closed() {
                self.client.close_all();
                self.wake_at = Millis::MAX;
            }
            self.client.carry_out(cx);
        }
        self.sender.settle_calls(now);
        for event in self.sender.drain_events() {
            if let Some(traced) = trace(&event) {
                cx.emit(traced);
            }
            self.events.push_back(event);
        }
    }
    fn work(&mut self, now: Millis) {
        loop {
            self.unblock(now);
            self.sender.settle_calls(now);
            if self.closing && !self.has_incomplete() {
                self.sender.abort_open_transaction();
            }
            let (timeout, sent) = match self.sender.run_once(&mut self.client, now) {
                Pass::Again => continue,
                Pass::Sleep(until) => {
                    self.wake_at = until;
                    return;
                }
                Pass::Poll { timeout, sent } => (timeout, sent),
            };
            let polled = self.client.poll(timeout, now);
            if let Some(features) = self.client.features() {
                self.sender.set_transaction_version(features.transaction_version);
            }
            for ended in &polled.completed {
                self.sender.on_completed(ended, &mut self.client, &mut self.dice, now);
            }
            let moved = polled.moved;
            self.client.reuse(polled);
            if sent || moved {
                continue;
            }
            // A node could take more, but what it could take is held back by its sequence: the real thread spins until
            // something comes or becomes due.
            let spins = timeout == Millis::ZERO;
            self.wake_at = if spins {
                self.client.next_due(now).min(self.sender.next_timer(now))
            } else {
                self.client.deadline(now)
            };
            return;
        }
    }
    fn block_expired(&self, now: Millis) -> bool {
        !self.blocked.is_empty() && now - self.blocked_since >= self.max_block
    }
    /// Queues what the application's thread hangs in, as far as that is possible now.
    fn unblock(&mut self, now: Millis) {
        while let Some(record) = self.blocked.front().copied() {
            if self.append(record.topic, record.target, &record.row, now) == Err(SendError::Full) {
                if now - self.blocked_since < self.max_block {
                    return;
                }
                // `doSend` catches the time-out: the transaction has to be aborted, the future has failed.
                let _ = self.sender.send_failed(Failure::Blocked, false);
                self.fail_blocked(record, Failure::Blocked);
            }
            self.blocked.pop_front();
            self.blocked_since = now;
        }
        self.sender.accumulator.exhausted = false;
    }
    #[inline]
    fn append(&mut self, topic: TopicId, target: Target, row: &Row, now: Millis) -> Result<(), SendError> {
        let partitions = self.partitions(topic);
        if partitions == 0 {
            self.client.metadata().add_topic(topic);
            return Err(SendError::Full);
        }
        let (view, dice) = (self.client.view(), &mut self.dice);
        match self.sender.send(topic, target, row, partitions, view, dice, now) {
            Ok(appended) => {
                self.disturbed |= appended.new_batch || appended.full;
                Ok(())
            }
            Err(SendError::Full) => {
                self.sender.accumulator.exhausted = true;
                Err(SendError::Full)
            }
            Err(error) => {
                self.disturbed = true;
                if let SendError::Failed { why, queued: false } = error {
                    self.fail_blocked(Blocked { topic, target, row: *row }, why);
                }
                Err(error)
            }
        }
    }
    #[inline]
    fn partitions(&mut self, topic: TopicId) -> u16 {
        let of_now = self.counts_version == self.client.view().version;
        match self.counts.iter().find(|(t, _)| of_now && *t == topic) {
            Some((_, n)) => *n,
            None => self.count_partitions(topic),
        }
    }
    fn count_partitions(&mut self, topic: TopicId) -> u16 {
        let view = self.client.view();
        if self.counts_version != view.version {
            self.counts_version = view.version;
            self.counts.clear();
        }
        let n = super::batches::partitions_of(view, topic) as u16;
        self.counts.push((topic, n));
        n
    }
    fn fail_blocked(&mut self, record: Blocked, why: Failure) {
        let partition = match record.target {
            Target::Partition(partition) => partition,
            Target::Key(_) | Target::Sticky => 0,
        };
        let tp = TopicPartition { topic: record.topic, partition };
        let batch = Batch::data([record.row].into(), Arc::new([]), ProducerTag::NONE, false);
        self.sender.fail_unqueued(tp, Arc::new(batch), why);
    }
}

/// What the trace shows of it.
fn trace(event: &ProducerEvent) -> Option<Event> {
    Some(match event {
        ProducerEvent::Acked { tp, base, batch } => {
            let sequence = batch.producer.base_sequence;
            Event::Acked { tp: *tp, base: *base, records: batch.records, sequence }
        }
        ProducerEvent::Failed { tp, batch, why } => {
            Event::SendFailed { tp: *tp, records: batch.records, error: why.code() }
        }
        ProducerEvent::Retried { tp, sequence, attempt } => {
            Event::Retried { tp: *tp, sequence: *sequence, attempt: *attempt }
        }
        ProducerEvent::Identity(p) => Event::ProducerEpochBumped { producer: p.id, epoch: p.epoch },
        ProducerEvent::Fatal(why) => Event::ProducerFatal { error: why.code() },
        ProducerEvent::ErrorAnswer { api, error, node } => {
            Event::ClientError { api: *api, error: error.code(), node: *node }
        }
        ProducerEvent::Flushed(_) | ProducerEvent::Called { .. } | ProducerEvent::Threw => return None,
    })
}
