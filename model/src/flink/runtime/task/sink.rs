//! An end of a chain: a `KafkaWriter` with its producer (7.3).

use super::super::graph::{DeliveryGuarantee, SinkConfig};
use crate::app::KeyHash;
use crate::base::{Cx, Input, Millis, Row, SimTime};
use crate::kafka::client::java::{Dice, JavaProducer, ProducerEvent, Target};
use crate::kafka::messages::Message;
use std::sync::Arc;

/// A sink's subtask.
#[derive(Clone, Debug)]
pub struct Sink {
    config: Arc<SinkConfig>,
    producer: Box<JavaProducer>,
    failed: bool,
    /// A flush that the task's thread waits for.
    flushing: Option<u64>,
}
impl Sink {
    /// Opens the writer.
    pub fn new<W>(config: &Arc<SinkConfig>, cx: &mut Cx<'_, Message, W>) -> Self {
        let dice = |name| Dice::Stream(cx.stream(name));
        let producer = JavaProducer::new(&config.producer, cx.fixes, dice("sink network"), dice("sink records"));
        Self { config: Arc::clone(config), producer: Box::new(producer), failed: false, flushing: None }
    }
    /// Writes rows; the sink's own port has to run afterwards.
    pub fn write(&mut self, rows: &[Row], now: Millis) {
        for row in rows {
            let target = KeyHash::unpack(row.key).map_or(Target::Sticky, |k| Target::Key(k.murmur2));
            self.failed |= self.producer.send(self.config.topic, target, *row, now).is_err();
        }
    }
    /// A barrier: what was written has to be acknowledged, as far as the guarantee says so.
    pub fn flush(&mut self) {
        if self.config.guarantee != DeliveryGuarantee::None {
            self.flushing = self.producer.flush();
        }
    }
    /// Whether the task's thread hangs in it.
    pub fn is_waiting(&self) -> bool {
        self.flushing.is_some() || self.producer.is_blocked()
    }
    /// Whether a record could not be sent: the next call throws.
    pub const fn is_failed(&self) -> bool {
        self.failed
    }
    /// The task ends: what is queued goes out, unless it is a crash.
    pub fn close(&mut self) {
        self.producer.close();
    }
    /// Whether everything has gone out after [`Sink::close`].
    pub fn closed(&self) -> bool {
        self.producer.closed()
    }

    // ---- the producer's thread

    /// Takes an input of the producer's port.
    pub fn input(&mut self, input: Input<Message>) {
        self.producer.input(input);
    }
    /// Lets the producer work; says when it wants to again.
    pub fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<SimTime> {
        self.producer.run(cx);
        while let Some(event) = self.producer.poll() {
            match event {
                ProducerEvent::Failed { .. } | ProducerEvent::Fatal(_) | ProducerEvent::Threw => self.failed = true,
                ProducerEvent::Flushed(number) => {
                    self.flushing.take_if(|n| *n == number);
                }
                _ => {}
            }
        }
        self.producer.deadline()
    }
}
