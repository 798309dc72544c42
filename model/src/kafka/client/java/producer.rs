//! The Java producer of a simulated application (`KafkaProducer`): sender, accumulator and connections in one component.

use super::accumulator::Target;
use super::batch::Failure;
use super::config::ProducerConfig;
use super::dice::Dice;
use super::events::{Counters, ProducerEvent};
use super::idempotence::ProducerIdAndEpoch;
use super::network_client::NetworkClient;
use super::sender::{Pass, Sender};
use crate::base::{Batch, Cx, Event, Fixes, Input, Millis, ProducerTag, Row, SimTime, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::Network;
use crate::kafka::messages::Message;
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
        Self {
            client: NetworkClient::new(config.network(), network),
            sender: Sender::new(config.sender(fixes)),
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

    /// `send`. A producer at its end gives the error, and the record fails with it all the same. What cannot be queued
    /// yet waits for at most `max.block.ms`, and with it everything sent after it.
    pub fn send(&mut self, topic: TopicId, target: Target, row: Row, now: Millis) -> Result<(), ErrorCode> {
        let record = Blocked { topic, target, row };
        if !self.blocked.is_empty() || !self.append(record, now) {
            if self.blocked.is_empty() {
                self.blocked_since = now;
                self.disturbed = true;
            }
            self.blocked.push_back(record);
        }
        self.sender.fatal().map_or(Ok(()), Err)
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
        self.sender.abort_all(Failure::Closed);
        while let Some(record) = self.blocked.pop_front() {
            self.fail_blocked(record, Failure::Closed);
        }
    }
    /// Whether it was closed and has nothing left to do.
    pub fn closed(&self) -> bool {
        self.closing && self.blocked.is_empty() && !self.sender.accumulator.has_incomplete()
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
        let at = self.wake_at.min(block);
        (at < Millis::MAX).then(|| SimTime::at(at))
    }
    /// Lets the I/O thread work until it would sleep. Does nothing if there is no reason to wake it.
    pub fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        if self.disturbed || now >= self.wake_at || self.block_expired(now) {
            self.disturbed = false;
            self.work(now);
            if self.closed() {
                self.client.close_all();
                self.wake_at = Millis::MAX;
            }
            self.client.carry_out(cx);
        }
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
            let (timeout, sent) = match self.sender.run_once(&mut self.client, now) {
                Pass::Again => continue,
                Pass::Sleep(until) => {
                    self.wake_at = until;
                    return;
                }
                Pass::Poll { timeout, sent } => (timeout, sent),
            };
            let polled = self.client.poll(timeout, now);
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
            if !self.append(record, now) {
                if now - self.blocked_since < self.max_block {
                    return;
                }
                self.fail_blocked(record, Failure::Blocked);
            }
            self.blocked.pop_front();
            self.blocked_since = now;
        }
        self.sender.accumulator.exhausted = false;
    }
    fn append(&mut self, record: Blocked, now: Millis) -> bool {
        let Blocked { topic, target, row } = record;
        let partitions = self.partitions(topic);
        if partitions == 0 {
            self.client.metadata().add_topic(topic);
            return false;
        }
        let (view, dice) = (self.client.view(), &mut self.dice);
        let appended = self.sender.accumulator.append(topic, target, row, partitions, view, dice, now);
        match appended {
            Some(appended) => self.disturbed |= appended.new_batch || appended.full,
            None => self.sender.accumulator.exhausted = true,
        }
        appended.is_some()
    }
    fn partitions(&mut self, topic: TopicId) -> u16 {
        let view = self.client.view();
        if self.counts_version != view.version {
            self.counts_version = view.version;
            self.counts.clear();
        }
        if let Some((_, n)) = self.counts.iter().find(|(t, _)| *t == topic) {
            return *n;
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
        ProducerEvent::Fatal(error) => Event::ProducerFatal { error: error.code() },
        ProducerEvent::ErrorAnswer { api, error, node } => {
            Event::ClientError { api: *api, error: error.code(), node: *node }
        }
        ProducerEvent::Flushed(_) => return None,
    })
}
