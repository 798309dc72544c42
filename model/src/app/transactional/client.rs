//! The client libraries of an application that sends in transactions: what its documentation lets it tell apart.

use crate::app::producer::RdPartitioner;
use crate::app::{KeyHash, java_producer};
use crate::base::{Addr, Batch, Cx, Input, Millis, Offset, Row, SimTime, Stream, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::java::{
    self, Failure, JavaProducer, ProducerConfig, ProducerEvent, SendError, State, Target,
};
use crate::kafka::client::rdkafka::{self, CallError, RdConfig, RdError, RdProducer, RdProducerClient};
use crate::kafka::messages::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// How an application's client is made.
#[derive(Clone, Debug)]
pub enum TransactionalClient {
    /// `KafkaProducer`.
    Java(Box<ProducerConfig>),
    /// A librdkafka instance, as confluent-kafka wraps it.
    Librdkafka {
        /// Its settings.
        config: Box<RdConfig>,
        /// `bootstrap.servers`.
        bootstrap: Arc<[Addr]>,
        /// Its partitioner.
        partitioner: RdPartitioner,
        /// Partitions of the topic.
        partitions: u16,
        /// How long commit and abort may take before they return `_TIMED_OUT`; not given, what the documentation recommends
        /// (-1).
        timeout: Option<Millis>,
    },
}

const TOO_LARGE: Failure = Failure::Code(ErrorCode::MessageTooLarge);

/// A call of the application's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Init,
    Begin,
    Commit,
    Abort,
}
/// What the end of a call tells the application to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It has succeeded.
    Done,
    /// The same call again: `TimeoutException`, or `retriable` is set.
    Again,
    /// The transaction is to be aborted: `KafkaException`, or `txn_requires_abort` is set.
    Abort,
    /// The instance can do no more: it is closed and another one made.
    Over,
}
/// What became of a record that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// The queue is full: later again.
    Full,
    /// It is larger than the client sends: its future has failed.
    TooLarge,
    /// `send` has thrown.
    No(Verdict),
}

/// Rows that were acknowledged by the brokers, and count when the transaction is committed.
pub(super) type Written = (TopicPartition, Offset, Arc<Batch>);

/// What the client says.
#[derive(Clone, Debug)]
pub(super) enum Happened {
    Written(Written),
    /// The broker takes these for too large.
    TooLarge(Arc<Batch>),
    Returned(Call, Verdict),
}

/// A client at work.
#[derive(Clone, Debug)]
pub(super) enum Client {
    Java(Box<JavaClient>),
    Librdkafka(Box<RdClient>),
}

impl Client {
    pub(super) fn new<W>(config: &TransactionalClient, cx: &mut Cx<'_, Message, W>) -> Self {
        match config {
            TransactionalClient::Java(config) => {
                let producer = java_producer(config, cx);
                Self::Java(Box::new(JavaClient { producer, returned: VecDeque::new() }))
            }
            TransactionalClient::Librdkafka { config, bootstrap, partitioner, partitions, timeout } => {
                let (stream, random) = (cx.stream("client"), cx.stream("partitioner"));
                let producer = RdProducer::new((**config).clone(), bootstrap.to_vec(), cx.fixes, stream, cx.millis());
                Self::Librdkafka(Box::new(RdClient {
                    client: RdProducerClient::new(producer),
                    transaction_timeout: config.transaction_timeout,
                    timeout: *timeout,
                    partitioner: *partitioner,
                    partitions: *partitions,
                    random,
                    refused: None,
                }))
            }
        }
    }
    pub(super) fn input<W>(&mut self, input: Input<Message>, cx: &Cx<'_, Message, W>) {
        match self {
            Self::Java(c) => drop(c.producer.input(input)),
            Self::Librdkafka(c) => drop(c.client.input(input, cx)),
        }
    }
    pub(super) fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        match self {
            Self::Java(c) => c.producer.run(cx),
            Self::Librdkafka(c) => c.client.run(cx),
        }
    }
    pub(super) fn deadline(&self) -> Option<SimTime> {
        match self {
            Self::Java(c) => c.producer.deadline(),
            Self::Librdkafka(c) => c.client.deadline(),
        }
    }
    /// Begins a call; its end comes with [`Client::poll`], perhaps at once.
    pub(super) fn call(&mut self, call: Call, now: Millis) {
        match self {
            Self::Java(c) => c.call(call, now),
            Self::Librdkafka(c) => c.call(call, now),
        }
    }
    pub(super) fn send(&mut self, topic: TopicId, row: Row, now: Millis) -> Taken {
        match self {
            Self::Java(c) => c.send(topic, row, now),
            Self::Librdkafka(c) => c.send(topic, row, now),
        }
    }
    /// Whether the application's thread hangs in a send.
    pub(super) fn is_blocked(&self) -> bool {
        matches!(self, Self::Java(c) if c.producer.is_blocked())
    }
    /// The next thing that the application sees.
    pub(super) fn poll<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<Happened> {
        match self {
            Self::Java(c) => c.poll(),
            Self::Librdkafka(c) => c.poll(cx),
        }
    }
    /// The instance is closed without waiting for anything.
    pub(super) fn close<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        match self {
            Self::Java(c) => {
                c.producer.abort();
                c.producer.run(cx);
            }
            Self::Librdkafka(c) => c.client.close(cx),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct JavaClient {
    producer: JavaProducer,
    /// Calls that have thrown at once, or do not block.
    returned: VecDeque<(Call, Verdict)>,
}
impl JavaClient {
    fn call(&mut self, call: Call, now: Millis) {
        let producer = &mut self.producer;
        let called = match call {
            Call::Init => producer.init_transactions(now),
            Call::Begin => {
                let begun = producer.begin_transaction();
                let verdict = if begun.is_ok() { Verdict::Done } else { self.standing(call) };
                return self.returned.push_back((call, verdict));
            }
            Call::Commit => producer.commit_transaction(now),
            Call::Abort => producer.abort_transaction(now),
        };
        if called.is_err() {
            self.returned.push_back((call, self.standing(call)));
        }
    }
    /// What is left to do after an exception that is no `TimeoutException`, by the error that stands.
    fn standing(&self, call: Call) -> Verdict {
        match (self.producer.state(), call) {
            (Some(State::AbortableError), Call::Begin | Call::Commit) => Verdict::Abort,
            // A lack of rights that was healed (KAFKA-13668).
            (Some(State::Uninitialized), Call::Init) => Verdict::Again,
            _ => Verdict::Over,
        }
    }
    fn send(&mut self, topic: TopicId, row: Row, now: Millis) -> Taken {
        let target = KeyHash::unpack(row.key).map_or(Target::Sticky, |k| Target::Key(k.murmur2));
        match self.producer.send(topic, target, row, now) {
            // A future that has failed is seen by the commit.
            Err(SendError::Failed { why: TOO_LARGE, .. }) => Taken::TooLarge,
            Ok(()) | Err(SendError::Failed { .. }) => Taken::Yes,
            Err(SendError::Full) => Taken::Full,
            Err(SendError::Thrown(_)) => Taken::No(self.standing(Call::Commit)),
        }
    }
    fn poll(&mut self) -> Option<Happened> {
        if let Some((call, verdict)) = self.returned.pop_front() {
            return Some(Happened::Returned(call, verdict));
        }
        while let Some(event) = self.producer.poll() {
            match event {
                ProducerEvent::Acked { tp, base, batch } => return Some(Happened::Written((tp, base, batch))),
                ProducerEvent::Failed { batch, why: TOO_LARGE, .. } => return Some(Happened::TooLarge(batch)),
                ProducerEvent::Called { call, result, .. } => {
                    let call = match call {
                        java::Call::Init => Call::Init,
                        java::Call::Commit => Call::Commit,
                        java::Call::Abort => Call::Abort,
                        java::Call::Offsets => continue,
                    };
                    let verdict = match result {
                        Ok(()) => Verdict::Done,
                        // Until it has ended, no other call is allowed (K-7).
                        Err(Failure::Blocked) => Verdict::Again,
                        Err(_) => self.standing(call),
                    };
                    return Some(Happened::Returned(call, verdict));
                }
                _ => {}
            }
        }
        None
    }
}

#[derive(Clone, Debug)]
pub(super) struct RdClient {
    client: RdProducerClient,
    /// `transaction.timeout.ms`.
    transaction_timeout: Millis,
    timeout: Option<Millis>,
    partitioner: RdPartitioner,
    partitions: u16,
    random: Stream,
    /// The partition of the record that a full queue has refused: drawn once.
    refused: Option<u16>,
}
impl RdClient {
    /// With -1 init gives up after twice the transaction's timeout, commit and abort do not (K-28).
    fn call(&mut self, call: Call, now: Millis) {
        let until = self.timeout.map_or(Millis::MAX, |timeout| now + timeout);
        let (call, deadline) = match call {
            Call::Init => (rdkafka::Call::Init, now + self.transaction_timeout + self.transaction_timeout),
            Call::Begin => (rdkafka::Call::Begin, Millis::MAX),
            Call::Commit => (rdkafka::Call::Commit, until),
            Call::Abort => (rdkafka::Call::Abort, until),
        };
        self.client.producer.call(call, deadline);
    }
    fn send(&mut self, topic: TopicId, row: Row, now: Millis) -> Taken {
        let drawn = self.refused.take();
        let partition = drawn.unwrap_or_else(|| self.partitioner.choose(row.key, self.partitions, &mut self.random));
        match self.client.producer.send(TopicPartition { topic, partition }, row, now) {
            Ok(()) => Taken::Yes,
            Err(RdError::QueueFull) => {
                self.refused = Some(partition);
                Taken::Full
            }
            Err(RdError::Fatal) => Taken::No(Verdict::Over),
            Err(_) => Taken::No(Verdict::Abort),
        }
    }
    fn poll<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<Happened> {
        while let Some(event) = self.client.poll(cx) {
            match event {
                rdkafka::ProducerEvent::Delivered(d) => match d.result {
                    Ok(base) => return Some(Happened::Written((d.tp, base, d.batch))),
                    Err(RdError::Code(ErrorCode::MessageTooLarge)) => return Some(Happened::TooLarge(d.batch)),
                    Err(_) => {}
                },
                rdkafka::ProducerEvent::Called(call, result) => {
                    let call = match call {
                        rdkafka::Call::Init => Call::Init,
                        rdkafka::Call::Begin => Call::Begin,
                        rdkafka::Call::Commit => Call::Commit,
                        rdkafka::Call::Abort => Call::Abort,
                        rdkafka::Call::Offsets | rdkafka::Call::Flush => continue,
                    };
                    let verdict = match result {
                        Ok(()) => Verdict::Done,
                        Err(CallError { fatal: true, .. }) => Verdict::Over,
                        Err(CallError { retriable: true, .. }) => Verdict::Again,
                        Err(CallError { abort: true, .. }) => Verdict::Abort,
                        // Neither flag: the application has no way on but a new instance.
                        Err(_) => Verdict::Over,
                    };
                    return Some(Happened::Returned(call, verdict));
                }
                _ => {}
            }
        }
        None
    }
}
