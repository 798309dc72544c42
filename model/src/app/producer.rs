//! An application that sends what the workload gives it.

use super::KeyHash;
use crate::base::{Cx, Input, Lane, Layer, Millis, Offset, Port, Row, Shown, Signal, SimTime, TopicId, TopicPartition};
use crate::kafka::client::java::{Dice, JavaProducer, ProducerConfig, ProducerEvent, Target};
use crate::kafka::messages::Message;
use std::sync::Arc;

/// The port of the application and its client.
pub const APP: Port = Port(1);

/// Which client library sends.
#[derive(Clone, Debug)]
pub enum ProducerClientConfig {
    /// The Java client.
    Java(Box<ProducerConfig>),
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
            ProducerClientConfig::Java(java) => {
                let dice = |name| Dice::Stream(cx.stream(name));
                Client::Java(Box::new(JavaProducer::new(java, cx.fixes, dice("network"), dice("records"))))
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
        let now = cx.millis();
        match input {
            Input::Offer(rows) => self.send(&rows, now),
            Input::Signal(Signal::Drain | Signal::Terminate) => {
                self.draining = true;
                match &mut self.client {
                    Client::Java(p) => {
                        p.flush();
                    }
                }
            }
            Input::Wake => self.deadline = None,
            other => match &mut self.client {
                Client::Java(p) => {
                    p.input(other);
                }
            },
        }
        self.run(cx);
    }

    fn send(&mut self, rows: &[Row], now: Millis) {
        let topic = self.config.topic;
        match &mut self.client {
            Client::Java(p) => {
                for row in rows {
                    let target = KeyHash::unpack(row.key).map_or(Target::Sticky, |k| Target::Key(k.murmur2));
                    // An error also comes as an event for these records.
                    let _ = p.send(topic, target, *row, now);
                }
                if self.draining {
                    p.flush();
                }
            }
        }
    }

    fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let number = self.config.number;
        match &mut self.client {
            Client::Java(p) => {
                p.run(cx);
                while let Some(event) = p.poll() {
                    match event {
                        ProducerEvent::Acked { tp, base, batch } => {
                            cx.show(shown(Layer::Acked(number), tp, base, batch));
                        }
                        ProducerEvent::Failed { tp, batch, .. } => {
                            cx.show(shown(Layer::Failed(number), tp, Offset::UNKNOWN, batch));
                        }
                        ProducerEvent::Fatal(_) => self.fatal = true,
                        _ => {}
                    }
                }
                let wanted = p.deadline().map(|at| at.max(cx.now));
                if wanted != self.deadline {
                    self.deadline = wanted;
                    cx.wake_port(APP, wanted);
                }
            }
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
        }
    }
    /// Whether it can do no more.
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }
    /// Records acknowledged.
    pub fn acknowledged(&self) -> u64 {
        match &self.client {
            Client::Java(p) => p.counters().acked,
        }
    }
    /// Batches sent again, and records that failed.
    pub fn counters(&self) -> (u64, u64) {
        match &self.client {
            Client::Java(p) => (p.counters().retries, p.counters().failed_sends),
        }
    }
}

fn shown(layer: Layer, tp: TopicPartition, base: Offset, batch: Arc<crate::base::Batch>) -> Shown {
    Shown { layer, tp, base, from: 0, to: batch.rows.len() as u32, batch }
}
