//! An application that reads topics with a plain consumer and hands every record to the judge.

use super::APP;
use crate::base::{Cx, Event, Input, Lane, Layer, Millis, Nanos, Offset, Port, Shown, SimTime, TopicPartition};
use crate::kafka::client::Slice;
use crate::kafka::client::java::{Dice, NetworkClient, NetworkConfig};
use crate::kafka::client::java_consumer::{ConsumerConfig, JavaConsumer, TopicHashes};
use crate::kafka::messages::Message;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which client library reads.
#[derive(Clone, Debug)]
pub enum ReaderClientConfig {
    /// The Java client.
    Java(Box<NetworkConfig>, Arc<ConsumerConfig>, TopicHashes),
}

/// How a reader is started.
#[derive(Clone, Debug)]
pub struct ReaderAppConfig {
    /// Its number among the readers of the scenario.
    pub number: u16,
    /// What it reads.
    pub partitions: Arc<[TopicPartition]>,
    /// Its client.
    pub client: ReaderClientConfig,
    /// What it does with one record.
    pub record: Nanos,
    /// From the end of one poll to the next.
    pub poll_every: Nanos,
}

#[derive(Clone, Debug)]
enum Client {
    Java(Box<NetworkClient>, Box<JavaConsumer>),
}

/// A reader.
#[derive(Clone, Debug)]
pub struct ReaderApp {
    config: Arc<ReaderAppConfig>,
    client: Client,
    positions: BTreeMap<TopicPartition, Offset>,
    deadline: Option<SimTime>,
}

impl ReaderApp {
    /// Starts it: it reads from where `auto.offset.reset` says.
    pub fn start<W>(config: &Arc<ReaderAppConfig>, cx: &mut Cx<'_, Message, W>) -> Self {
        let client = match &config.client {
            ReaderClientConfig::Java(network, consumer, hashes) => {
                let net = NetworkClient::new((**network).clone(), Dice::Stream(cx.stream("network")));
                let mut java = JavaConsumer::new(Arc::clone(consumer), hashes.clone());
                java.assign(&config.partitions);
                Client::Java(Box::new(net), Box::new(java))
            }
        };
        cx.wake_port(APP, Some(cx.now));
        Self { config: Arc::clone(config), client, positions: BTreeMap::new(), deadline: None }
    }

    /// One thread.
    pub fn lane(&self, _: Port) -> Lane {
        Lane(0)
    }

    /// Takes an input.
    pub fn step<W>(&mut self, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match input {
            Input::Wake => self.deadline = None,
            Input::Message { .. } | Input::Connection(..) => match &mut self.client {
                Client::Java(net, _) => {
                    net.input(input);
                }
            },
            _ => return,
        }
        self.turn(cx);
    }

    fn turn<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        let Client::Java(net, consumer) = &mut self.client;
        let mut delivered = Vec::new();
        let mut records = 0u64;
        let mut again = Millis::MAX;
        for _ in 0..64 {
            let polled = net.poll(Millis::ZERO, now);
            for done in &polled.completed {
                consumer.on_completed(done, now, &mut **net);
            }
            match consumer.poll(now, &mut **net) {
                Ok(Some(fetched)) => {
                    records += u64::from(fetched.records);
                    delivered.extend(fetched.slices);
                    again = now;
                    break;
                }
                Ok(None) => {}
                // A reader that is told of a lost position reads on from the beginning of what there is: its application
                // has nothing better to do. The judge sees the reset.
                Err(_) => again = again.min(now + Millis(100)),
            }
            if !polled.moved && polled.completed.is_empty() {
                break;
            }
        }
        net.poll(Millis::ZERO, now);
        net.carry_out(cx);
        let busy = records > 0;
        if busy {
            cx.work(Nanos(self.config.record.0 * records));
        }
        self.deliver(&delivered, cx);
        let Client::Java(net, consumer) = &mut self.client;
        let at = if again == now {
            cx.now + self.config.poll_every
        } else {
            SimTime::at(again.min(net.deadline(now)).min(consumer.wake_at(now, &**net))).max(cx.now)
        };
        if self.deadline != Some(at) {
            self.deadline = Some(at);
            cx.wake_port(APP, Some(at));
        }
    }

    fn deliver<W>(&mut self, slices: &[Slice], cx: &mut Cx<'_, Message, W>) {
        let layer = Layer::Read(self.config.number);
        for s in slices {
            let (tp, next) = (s.tp, s.next());
            let before = self.positions.insert(tp, next);
            if before.is_some_and(|b| s.first() < b) {
                cx.emit(Event::Position { tp, offset: s.first(), reset: true });
            }
            cx.show(Shown { layer, tp, base: s.base, from: s.from, to: s.to, batch: Arc::clone(&s.batch) });
        }
    }

    /// Its number among the readers.
    pub fn number(&self) -> u16 {
        self.config.number
    }
    /// Where it stands.
    pub fn position(&self, tp: TopicPartition) -> Option<Offset> {
        match &self.client {
            Client::Java(_, consumer) => consumer.position(tp),
        }
    }
    /// What it reads.
    pub fn partitions(&self) -> &[TopicPartition] {
        &self.config.partitions
    }
}
