//! A writer without transactions: NONE and AT_LEAST_ONCE.

use super::super::super::graph::SinkConfig;
use crate::base::{Cx, Fix, Input, Millis, Row, SimTime};
use crate::kafka::client::KeyHash;
use crate::kafka::client::java::{Dice, JavaProducer, ProducerEvent, Target};
use crate::kafka::messages::Message;
use std::sync::Arc;

/// The partition that a row goes to, as the client's own partitioner has it.
pub(super) fn target(row: &Row) -> Target {
    KeyHash::unpack(row.key).map_or(Target::Sticky, |k| Target::Key(k.murmur2))
}

/// The row as a record: its key is that of the sink's `key.fields`, if it has any.
pub(super) fn record(config: &SinkConfig, row: &Row) -> Row {
    let key = config.key.map(|column| KeyHash::of(&row.cols[usize::from(column)].to_be_bytes()).pack());
    Row { key: key.unwrap_or(row.key), ..*row }
}

/// A writer with its producer.
#[derive(Clone, Debug)]
pub struct Plain {
    config: Arc<SinkConfig>,
    producer: Box<JavaProducer>,
    failed: bool,
    /// A flush that the task's thread waits for.
    flushing: Option<u64>,
}
impl Plain {
    pub(super) fn new<W>(config: &Arc<SinkConfig>, cx: &mut Cx<'_, Message, W>) -> Self {
        let dice = |name| Dice::Stream(cx.stream(name));
        let producer = JavaProducer::new(&config.producer, cx.fixes, dice("sink network"), dice("sink records"));
        Self { config: Arc::clone(config), producer: Box::new(producer), failed: false, flushing: None }
    }
    pub(super) fn write(&mut self, rows: &[Row], now: Millis) {
        for row in rows {
            let row = record(&self.config, row);
            self.failed |= self.producer.send(self.config.topic, target(&row), row, now).is_err();
        }
    }
    pub(super) fn flush(&mut self, end: bool) {
        if self.config.guarantee.flushes(end) {
            self.flushing = self.producer.flush();
        }
    }
    pub(super) fn is_waiting(&self) -> bool {
        self.flushing.is_some() || self.producer.is_blocked()
    }
    pub(super) const fn is_failed(&self) -> bool {
        self.failed
    }
    /// What is queued still goes out.
    pub(super) fn close(&mut self) {
        self.producer.close();
    }
    pub(super) fn closed(&self) -> bool {
        self.producer.closed()
    }
    pub(super) fn input(&mut self, input: Input<Message>) {
        self.producer.input(input);
    }
    pub(super) fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<SimTime> {
        self.producer.run(cx);
        while let Some(event) = self.producer.poll() {
            match event {
                ProducerEvent::Failed { .. } | ProducerEvent::Fatal(_) | ProducerEvent::Threw => {
                    self.failed |= cx.fixes.has(Fix::SinkTellsSendErrors);
                }
                ProducerEvent::Flushed(number) => {
                    self.flushing.take_if(|n| *n == number);
                }
                _ => {}
            }
        }
        self.producer.deadline()
    }
}
