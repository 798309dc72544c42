//! An application that sends what the workload gives it.

use super::transactional::{Batching, TransactionalApp, TransactionalClient};
use super::{KeyHash, java_producer, show, show_given_up};
use crate::base::{
    Cx, Fixes, Input, Lane, Layer, Millis, Offset, Port, Row, Signal, SimTime, Stream, TopicId, TopicPartition,
};
use crate::kafka::client::java::{self, JavaProducer, ProducerConfig, Target};
use crate::kafka::client::partition_for_hash;
use crate::kafka::client::rdkafka::{self, Call, RdConfig, RdError, RdProducer, RdProducerClient};
use crate::kafka::messages::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// The port of the application and its client.
pub const APP: Port = Port(1);

/// How librdkafka chooses a partition (`partitioner`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdPartitioner {
    /// CRC-32 of the key; random for an empty or missing one. The default.
    ConsistentRandom,
    /// CRC-32 of the key; an empty or missing one counts as a key.
    Consistent,
    /// The Java client's hash; random for a missing key.
    Murmur2Random,
    /// The Java client's hash; a missing key counts as an empty one.
    Murmur2,
    /// Random.
    Random,
}
impl RdPartitioner {
    pub(super) fn choose(self, key: u64, partitions: u16, random: &mut Stream) -> u16 {
        let hash = KeyHash::unpack(key);
        let crc = |h: KeyHash| (h.crc32 % u32::from(partitions)) as u16;
        let murmur = |h: KeyHash| partition_for_hash(h.murmur2, partitions);
        let fixed = match self {
            Self::ConsistentRandom => hash.filter(|h| *h != KeyHash::EMPTY).map(crc),
            Self::Consistent => Some(crc(hash.unwrap_or(KeyHash::EMPTY))),
            Self::Murmur2Random => hash.map(murmur),
            Self::Murmur2 => Some(murmur(hash.unwrap_or(KeyHash::EMPTY))),
            Self::Random => None,
        };
        fixed.unwrap_or_else(|| random.below(u64::from(partitions)) as u16)
    }
}

/// Which client library sends.
#[derive(Clone, Debug)]
pub enum ProducerClientConfig {
    /// The Java client.
    Java(Box<ProducerConfig>),
    /// Either with a `transactional.id`.
    Transactional(TransactionalClient, Batching),
    /// librdkafka.
    Librdkafka {
        /// Its settings.
        config: Box<RdConfig>,
        /// `bootstrap.servers`.
        bootstrap: Arc<[crate::base::Addr]>,
        /// Its partitioner.
        partitioner: RdPartitioner,
        /// Partitions of the topic.
        partitions: u16,
    },
}

/// How a sending application is started.
#[derive(Clone, Debug)]
pub struct ProducerAppConfig {
    /// Its number among the producers of the scenario.
    pub number: u16,
    /// Where it sends to.
    pub topic: TopicId,
    /// Its client.
    pub client: ProducerClientConfig,
}

#[derive(Clone, Debug)]
enum Client {
    Java(Box<JavaProducer>),
    Transactional(Box<TransactionalApp>),
    Librdkafka(Box<RdApp>),
}

/// What an application around librdkafka keeps: the records that its full queue has refused, in order.
#[derive(Clone, Debug)]
struct RdApp {
    client: RdProducerClient,
    partitioner: RdPartitioner,
    partitions: u16,
    random: Stream,
    refused: VecDeque<(TopicPartition, Row)>,
}

/// An application that sends.
#[derive(Clone, Debug)]
pub struct ProducerApp {
    config: Arc<ProducerAppConfig>,
    client: Client,
    deadline: Option<SimTime>,
    draining: bool,
    fatal: bool,
}

impl ProducerApp {
    /// Starts it.
    pub fn start<W>(config: &Arc<ProducerAppConfig>, cx: &mut Cx<'_, Message, W>) -> Self {
        let client = match &config.client {
            ProducerClientConfig::Java(java) => Client::Java(Box::new(java_producer(java, cx))),
            ProducerClientConfig::Transactional(client, batching) => {
                let place = (config.number, config.topic);
                Client::Transactional(Box::new(TransactionalApp::new(client, *batching, place, cx)))
            }
            ProducerClientConfig::Librdkafka { config, bootstrap, partitioner, partitions } => {
                let producer = rd_producer(config, bootstrap, cx.fixes, cx.stream("client"), cx.millis());
                Client::Librdkafka(Box::new(RdApp {
                    client: RdProducerClient::new(producer),
                    partitioner: *partitioner,
                    partitions: *partitions,
                    random: cx.stream("partitioner"),
                    refused: VecDeque::new(),
                }))
            }
        };
        cx.wake_port(APP, Some(cx.now));
        Self { config: Arc::clone(config), client, deadline: None, draining: false, fatal: false }
    }

    /// Everything happens on the client's port.
    pub fn lane(&self, _: Port) -> Lane {
        Lane(0)
    }

    /// Takes an input.
    pub fn step<W>(&mut self, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match input {
            Input::Offer(rows) => self.send(&rows, cx),
            Input::Signal(Signal::Drain | Signal::Terminate) => self.draining = true,
            Input::Wake => self.deadline = None,
            other => match &mut self.client {
                Client::Java(p) => {
                    p.input(other);
                }
                Client::Transactional(app) => app.input(other, cx),
                Client::Librdkafka(app) => {
                    app.client.input(other, cx);
                }
            },
        }
        self.run(cx);
    }

    fn send<W>(&mut self, rows: &[Row], cx: &mut Cx<'_, Message, W>) {
        let (topic, now, number) = (self.config.topic, cx.millis(), self.config.number);
        match &mut self.client {
            Client::Java(p) => {
                for row in rows {
                    let target = KeyHash::unpack(row.key).map_or(Target::Sticky, |k| Target::Key(k.murmur2));
                    // An error also comes as an event for these records.
                    let _ = p.send(topic, target, *row, now);
                }
            }
            Client::Transactional(app) => app.offer(rows, cx),
            Client::Librdkafka(app) => {
                for row in rows {
                    let partition = app.partitioner.choose(row.key, app.partitions, &mut app.random);
                    app.refused.push_back((TopicPartition { topic, partition }, *row));
                }
                app.retry_refused(now, number, cx);
            }
        }
    }

    fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let number = self.config.number;
        let wanted = match &mut self.client {
            Client::Java(p) => {
                if self.draining {
                    p.flush();
                }
                p.run(cx);
                while let Some(event) = p.poll() {
                    match event {
                        java::ProducerEvent::Acked { tp, base, batch } => {
                            show(Layer::Acked(number), tp, base, batch, cx)
                        }
                        java::ProducerEvent::Failed { tp, batch, .. } => {
                            show(Layer::Failed(number), tp, Offset::UNKNOWN, batch, cx);
                        }
                        java::ProducerEvent::Fatal(_) => self.fatal = true,
                        _ => {}
                    }
                }
                p.deadline()
            }
            Client::Transactional(app) => {
                app.run(self.draining, cx);
                self.fatal = app.is_fatal();
                app.deadline()
            }
            Client::Librdkafka(app) => {
                if self.draining && app.client.producer.unreported() > 0 {
                    app.client.producer.call(Call::Flush, Millis::MAX);
                }
                app.client.run(cx);
                while let Some(event) = app.client.poll(cx) {
                    match event {
                        rdkafka::ProducerEvent::Delivered(d) => match d.result {
                            Ok(base) => show(Layer::Acked(number), d.tp, base, d.batch, cx),
                            Err(_) => show(Layer::Failed(number), d.tp, Offset::UNKNOWN, d.batch, cx),
                        },
                        rdkafka::ProducerEvent::Fatal(_) => self.fatal = true,
                        _ => {}
                    }
                }
                if !app.refused.is_empty() {
                    app.retry_refused(cx.millis(), number, cx);
                    app.client.run(cx);
                }
                app.client.deadline()
            }
        };
        let wanted = wanted.map(|at| at.max(cx.now));
        if wanted != self.deadline {
            self.deadline = wanted;
            cx.wake_port(APP, wanted);
        }
    }

    /// Its number among the producers.
    pub fn number(&self) -> u16 {
        self.config.number
    }
    /// Whether records are neither acknowledged nor failed.
    pub fn is_busy(&self) -> bool {
        match &self.client {
            Client::Java(p) => p.has_incomplete(),
            Client::Transactional(app) => app.is_busy(),
            Client::Librdkafka(app) => app.client.producer.unreported() > 0 || !app.refused.is_empty(),
        }
    }
    /// Whether it can do no more.
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }
}

impl RdApp {
    /// Gives the queue what it refused, as an application does that polls and tries again (`_QUEUE_FULL`). A producer that
    /// is fatal takes nothing: its records fail.
    fn retry_refused<W>(&mut self, now: Millis, number: u16, cx: &mut Cx<'_, Message, W>) {
        while let Some((tp, row)) = self.refused.front().copied() {
            match self.client.producer.send(tp, row, now) {
                Ok(()) => {}
                Err(RdError::QueueFull) => return,
                Err(_) => {
                    show_given_up(number, tp, [row].into(), cx);
                }
            }
            self.refused.pop_front();
        }
    }
}

fn rd_producer(
    config: &RdConfig,
    bootstrap: &Arc<[crate::base::Addr]>,
    fixes: Fixes,
    stream: Stream,
    now: Millis,
) -> RdProducer {
    RdProducer::new(config.clone(), bootstrap.to_vec(), fixes, stream, now)
}
