//! An application that sends in transactions, as the documentation of `KafkaProducer` tells it to: a batch of rows each, again
//! what was aborted, a call that gave up again, and a new producer where the old one can do no more.

use super::{KeyHash, java_producer, show, show_given_up};
use crate::base::{Batch, Cx, Input, Layer, Millis, Nanos, Offset, Row, SimTime, TopicId, TopicPartition};
use crate::kafka::client::java::{Call, Failure, JavaProducer, ProducerConfig, ProducerEvent, State, Target};
use crate::kafka::messages::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// How rows are dealt out over transactions: whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Rows of a transaction at most.
    pub rows: u32,
    /// From its first row to its commit.
    pub every: Nanos,
}

/// What the application's thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Initializing,
    Idle,
    Open {
        until: Millis,
    },
    Committing,
    Aborting,
    /// The first call of a producer was refused for good: the application ends, as after an exception that nobody catches.
    Ended,
}

/// Rows that were acknowledged by the brokers, and count when the transaction is committed.
type Written = (TopicPartition, Offset, Arc<Batch>);

/// The application.
#[derive(Clone, Debug)]
pub(super) struct TransactionalApp {
    config: Box<ProducerConfig>,
    batching: Batching,
    topic: TopicId,
    number: u16,
    producer: Box<JavaProducer>,
    stage: Stage,
    /// Not in a transaction yet, in the order of sending.
    waiting: VecDeque<Row>,
    /// In the present transaction.
    open: Vec<Row>,
    written: Vec<Written>,
    /// A send of this transaction has failed: it is to be aborted.
    spoilt: bool,
    /// Retries of earlier producers of this application.
    retries: u64,
    given_up: u64,
    committed: u64,
}

impl TransactionalApp {
    pub(super) fn new<W>(
        config: &ProducerConfig,
        batching: Batching,
        (number, topic): (u16, TopicId),
        cx: &mut Cx<'_, Message, W>,
    ) -> Self {
        let mut app = Self {
            config: Box::new(config.clone()),
            batching,
            topic,
            number,
            producer: Box::new(java_producer(config, cx)),
            stage: Stage::Initializing,
            waiting: VecDeque::new(),
            open: Vec::new(),
            written: Vec::new(),
            spoilt: false,
            retries: 0,
            given_up: 0,
            committed: 0,
        };
        app.call(Call::Init, cx.millis());
        app
    }

    pub(super) fn offer<W>(&mut self, rows: &[Row], cx: &mut Cx<'_, Message, W>) {
        self.waiting.extend(rows.iter().copied());
        if self.is_fatal() {
            self.give_up(cx);
        }
    }
    /// Whether it can do no more.
    pub(super) fn is_fatal(&self) -> bool {
        self.stage == Stage::Ended
    }
    pub(super) fn input(&mut self, input: Input<Message>) {
        self.producer.input(input);
    }
    /// Rows that are neither committed nor given up.
    pub(super) fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || !self.open.is_empty()
    }
    /// Rows committed.
    pub(super) const fn committed(&self) -> u64 {
        self.committed
    }
    /// Batches sent again, and rows whose fate is not known.
    pub(super) fn counters(&self) -> (u64, u64) {
        (self.retries + self.producer.counters().retries, self.given_up)
    }
    pub(super) fn deadline(&self) -> Option<SimTime> {
        let own = match self.stage {
            Stage::Open { until } => Some(SimTime::at(until)),
            _ => None,
        };
        [own, self.producer.deadline()].into_iter().flatten().min()
    }

    /// Works until there is nothing to do but wait.
    pub(super) fn run<W>(&mut self, draining: bool, cx: &mut Cx<'_, Message, W>) {
        loop {
            self.producer.run(cx);
            let mut moved = false;
            while let Some(event) = self.producer.poll() {
                match event {
                    ProducerEvent::Acked { tp, base, batch } => self.written.push((tp, base, batch)),
                    ProducerEvent::Failed { .. } => self.spoilt = true,
                    ProducerEvent::Called { call, result, .. } => {
                        self.returned(call, result, cx);
                        moved = true;
                    }
                    _ => {}
                }
            }
            moved |= self.act(draining, cx);
            if !moved {
                return;
            }
        }
    }

    /// A call has returned, or thrown.
    fn returned<W>(&mut self, call: Call, result: Result<(), Failure>, cx: &mut Cx<'_, Message, W>) {
        match (call, result) {
            (Call::Init, Ok(())) => self.stage = Stage::Idle,
            (Call::Commit, Ok(())) => {
                self.committed += self.open.len() as u64;
                self.open.clear();
                self.spoilt = false;
                for (tp, base, batch) in std::mem::take(&mut self.written) {
                    show(Layer::Acked(self.number), tp, base, batch, cx);
                }
                self.stage = Stage::Idle;
            }
            (Call::Abort, Ok(())) => self.take_back(),
            (Call::Commit, Err(_)) if self.producer.state() == Some(State::AbortableError) => {
                self.call(Call::Abort, cx.millis());
            }
            // `max.block.ms` is over, or an error that heals: the same call again (K-7). The end of a producer shows in its state.
            (call, Err(_)) if self.producer.state() != Some(State::FatalError) => {
                self.call(call, cx.millis());
            }
            _ => {}
        }
    }
    /// The transaction is no more: its rows go into the next.
    fn take_back(&mut self) {
        self.spoilt = false;
        self.written.clear();
        for row in self.open.drain(..).rev() {
            self.waiting.push_front(row);
        }
        self.stage = Stage::Idle;
    }

    /// One step of the application's thread; false if it waits.
    fn act<W>(&mut self, draining: bool, cx: &mut Cx<'_, Message, W>) -> bool {
        let now = cx.millis();
        match (self.producer.state(), self.stage) {
            (_, Stage::Ended) => return false,
            (Some(State::FatalError), _) => self.replace(cx),
            (Some(State::AbortableError), Stage::Open { .. }) => return self.call(Call::Abort, now),
            (_, Stage::Idle) if !self.waiting.is_empty() => {
                if self.producer.begin_transaction().is_err() {
                    return false;
                }
                self.stage = Stage::Open { until: now + Millis((self.batching.every.0 / 1_000_000) as i64) };
            }
            // The thread hangs in a send.
            (_, Stage::Open { .. }) if self.producer.is_blocked() => return false,
            (_, Stage::Open { .. }) if self.spoilt => return self.call(Call::Abort, now),
            (_, Stage::Open { until }) => {
                let full = self.open.len() >= self.batching.rows as usize;
                let due = full || now >= until || draining && self.waiting.is_empty();
                if due && !self.open.is_empty() {
                    return self.call(Call::Commit, now);
                } else if let Some(row) = self.waiting.pop_front() {
                    let target = KeyHash::unpack(row.key).map_or(Target::Sticky, |k| Target::Key(k.murmur2));
                    self.open.push(row);
                    // What it throws shows in the producer's state.
                    let _ = self.producer.send(self.topic, target, row, now);
                } else {
                    return false;
                }
            }
            _ => return false,
        }
        true
    }

    /// Calls what blocks; false if it is refused, because an error stands that the state tells.
    fn call(&mut self, call: Call, now: Millis) -> bool {
        let (stage, called) = match call {
            Call::Init => (Stage::Initializing, self.producer.init_transactions(now)),
            Call::Commit => (Stage::Committing, self.producer.commit_transaction(now)),
            Call::Abort => (Stage::Aborting, self.producer.abort_transaction(now)),
            Call::Offsets => return false,
        };
        if called.is_ok() {
            self.stage = stage;
        }
        called.is_ok()
    }

    /// Nothing more is sent.
    fn give_up<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let rows = self.open.drain(..).chain(self.waiting.drain(..)).collect();
        self.fail(rows, cx);
    }
    /// Nobody knows, or cares any more, whether these rows arrive.
    fn fail<W>(&mut self, rows: Vec<Row>, cx: &mut Cx<'_, Message, W>) {
        self.given_up += rows.len() as u64;
        if !rows.is_empty() {
            show_given_up(self.number, TopicPartition { topic: self.topic, partition: 0 }, rows.into(), cx);
        }
    }

    /// The producer is closed and another one takes over, under the same `transactional.id`: it waits until a transaction that
    /// was prepared is complete and aborts one that was open. Of a commit under way nobody knows how it ended: to send these
    /// rows again could double them, so they are given up.
    fn replace<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let stage = self.stage;
        if stage == Stage::Committing {
            let rows = std::mem::take(&mut self.open);
            self.fail(rows, cx);
        }
        self.take_back();
        self.producer.abort();
        self.producer.run(cx);
        if stage == Stage::Initializing {
            self.stage = Stage::Ended;
            return self.give_up(cx);
        }
        self.retries += self.producer.counters().retries;
        *self.producer = java_producer(&self.config, cx);
        self.stage = Stage::Initializing;
        self.call(Call::Init, cx.millis());
    }
}
