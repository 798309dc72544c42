//! The client's connections in the simulated world: effects out, inputs in.

use super::broker::Link;
use super::connections::{NetAction, NetInput};
use super::producer::{ProducerEvent, RdProducer};
use crate::base::{ConnEvent, ConnId, Cx, Event, Input, Sequence, SimTime};
use crate::kafka::messages::Message;
use std::collections::BTreeMap;

/// Which connection of the world is which of the client's.
#[derive(Clone, Debug, Default)]
pub struct Wires {
    links: BTreeMap<ConnId, Link>,
    connections: BTreeMap<Link, ConnId>,
}
impl Wires {
    /// An input of the process as one for the client's connections, if it is one.
    pub fn input(&mut self, input: Input<Message>) -> Option<NetInput> {
        match input {
            Input::Message { conn, message: Message::Reply { correlation, body }, .. } => {
                Some(NetInput::Reply { link: *self.links.get(&conn)?, correlation, body })
            }
            Input::Connection(conn, ConnEvent::Up) => Some(NetInput::Up(*self.links.get(&conn)?)),
            Input::Connection(conn, ConnEvent::Refused | ConnEvent::Reset) => {
                let link = self.links.remove(&conn)?;
                self.connections.remove(&link);
                Some(NetInput::Lost(link))
            }
            _ => None,
        }
    }
    /// The instance is destroyed: its connections close.
    pub fn close<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.connections.clear();
        std::mem::take(&mut self.links).into_keys().for_each(|conn| cx.close(conn));
    }
    /// Does what the client's connections want.
    pub fn carry_out<W>(&mut self, actions: Vec<NetAction>, cx: &mut Cx<'_, Message, W>) {
        for action in actions {
            match action {
                NetAction::Open { link, to } => {
                    let conn = cx.open(to);
                    self.links.insert(conn, link);
                    self.connections.insert(link, conn);
                }
                NetAction::Close(link) => {
                    if let Some(conn) = self.connections.remove(&link) {
                        self.links.remove(&conn);
                        cx.close(conn);
                    }
                }
                NetAction::Send { link, correlation, body } => {
                    if let Some(conn) = self.connections.get(&link) {
                        cx.send(*conn, Message::Request { correlation, body });
                    }
                }
            }
        }
    }
}

/// A librdkafka producer within a simulated process.
#[derive(Clone, Debug)]
pub struct RdProducerClient {
    /// The producer itself: `send`, `call`, `send_offsets`.
    pub producer: RdProducer,
    wires: Wires,
    wake_at: Option<SimTime>,
}
impl RdProducerClient {
    /// Wraps a producer.
    pub fn new(producer: RdProducer) -> Self {
        Self { producer, wires: Wires::default(), wake_at: None }
    }
    /// Takes an input of the process; false if it is not the client's. Call [`Self::run`] afterwards.
    pub fn input<W>(&mut self, input: Input<Message>, cx: &Cx<'_, Message, W>) -> bool {
        match self.wires.input(input) {
            Some(input) => {
                self.producer.input(input, cx.millis());
                true
            }
            None => false,
        }
    }
    /// `rd_kafka_destroy`, without waiting for what is not sent.
    pub fn close<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.wires.close(cx);
    }
    /// Does what is due.
    pub fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        // Records come one by one, and most of them only wait with others.
        if self.producer.is_settled() && self.wake_at.is_none_or(|at| SimTime::at(now) < at) {
            return;
        }
        self.producer.poll(now);
        self.wires.carry_out(self.producer.take_actions(), cx);
        let at = self.producer.deadline(now);
        // Something due in this very millisecond was done; it is looked at again in the next.
        self.wake_at = (at < crate::base::Millis::MAX).then(|| SimTime::at(at.max(now + crate::base::Millis(1))));
    }
    /// The next event for the application, told to the trace.
    pub fn poll<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<ProducerEvent> {
        let event = self.producer.poll_event()?;
        if let Some(traced) = traced(&event) {
            cx.emit(traced);
        }
        Some(event)
    }
    /// When to run again, if nothing comes before.
    pub fn deadline(&self) -> Option<SimTime> {
        self.wake_at
    }
}

fn traced(event: &ProducerEvent) -> Option<Event> {
    Some(match event {
        ProducerEvent::Delivered(d) => match d.result {
            Ok(base) => {
                Event::Acked { tp: d.tp, base, records: d.batch.records, sequence: d.batch.producer.base_sequence }
            }
            Err(error) => Event::SendFailed { tp: d.tp, records: d.batch.records, error: error.number() },
        },
        ProducerEvent::Retried { tp, sequence, attempt } => {
            Event::Retried { tp: *tp, sequence: Sequence(sequence.0), attempt: *attempt }
        }
        ProducerEvent::EpochBumped((producer, epoch)) => {
            Event::ProducerEpochBumped { producer: *producer, epoch: *epoch }
        }
        ProducerEvent::Fatal(error) => Event::ProducerFatal { error: error.number() },
        ProducerEvent::Called(..) => return None,
    })
}
