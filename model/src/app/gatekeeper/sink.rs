//! The producer of a gatekeeper.

use super::config::{GatekeeperConfig, ProducerSide};
use crate::app::{KeyHash, java_producer};
use crate::base::{Cx, Input, Millis, Offset, Row, SimTime, TopicId, TopicPartition};
use crate::kafka::client::java::{GroupMetadata, JavaProducer, ProducerConfig, ProducerEvent, State, Target};
use crate::kafka::coordinator::group::Name;
use crate::kafka::messages::Message;
use crate::kafka::txn_messages::GroupId;

/// How a call, or a send, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// The transaction is to be aborted.
    Abortable,
    /// The time of the call is over, or its error heals: the same call again.
    Again,
    /// The producer can do no more.
    Fatal,
    /// Records of the transaction were not stored.
    SendFailed,
}

/// The producer.
#[derive(Clone, Debug)]
pub(super) enum Sink {
    Java(Box<JavaProducer>),
}

impl Sink {
    pub(super) fn start<W>(config: &GatekeeperConfig, start: u32, cx: &mut Cx<'_, Message, W>) -> Self {
        let ProducerSide::Java(producer) = &config.producer;
        // Each start of the process has ids of its own where they are fresh.
        let start = cx.incarnation.0.saturating_sub(1).saturating_mul(8).saturating_add(start);
        let producer = ProducerConfig { transactional_id: Some(config.ids.of_start(start)), ..(**producer).clone() };
        Self::Java(Box::new(java_producer(&producer, cx)))
    }
    pub(super) fn input(&mut self, input: Input<Message>) -> bool {
        let Self::Java(producer) = self;
        producer.input(input)
    }
    pub(super) fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let Self::Java(producer) = self;
        producer.run(cx);
    }
    pub(super) fn deadline(&self) -> Option<SimTime> {
        let Self::Java(producer) = self;
        producer.deadline()
    }
    /// The next thing that has ended.
    pub(super) fn poll<W>(&mut self, _: &mut Cx<'_, Message, W>) -> Option<Ended> {
        let Self::Java(producer) = self;
        loop {
            return Some(match producer.poll()? {
                ProducerEvent::Failed { .. } => Ended::SendFailed,
                ProducerEvent::Called { result: Ok(()), .. } => Ended::Done,
                ProducerEvent::Called { result: Err(_), .. } => match producer.state() {
                    Some(State::FatalError) => Ended::Fatal,
                    Some(State::AbortableError) => Ended::Abortable,
                    _ => Ended::Again,
                },
                _ => continue,
            });
        }
    }
    pub(super) fn is_fatal(&self) -> bool {
        let Self::Java(producer) = self;
        producer.state() == Some(State::FatalError)
    }
    pub(super) fn must_abort(&self) -> bool {
        let Self::Java(producer) = self;
        producer.state() == Some(State::AbortableError)
    }
    /// The application's thread hangs in a send.
    pub(super) fn is_blocked(&self) -> bool {
        let Self::Java(producer) = self;
        producer.is_blocked()
    }
    // What these throw at once shows in the producer's state, which is looked at before anything else is done.
    pub(super) fn init(&mut self, now: Millis) {
        let Self::Java(producer) = self;
        let _ = producer.init_transactions(now);
    }
    pub(super) fn begin(&mut self) -> bool {
        let Self::Java(producer) = self;
        producer.begin_transaction().is_ok()
    }
    pub(super) fn send(&mut self, topic: TopicId, key: Option<KeyHash>, row: Row, now: Millis) {
        let Self::Java(producer) = self;
        let target = key.map_or(Target::Sticky, |key| Target::Key(key.murmur2));
        let _ = producer.send(topic, target, row, now);
    }
    pub(super) fn send_offsets(
        &mut self,
        group: GroupId,
        offsets: Vec<(TopicPartition, Offset)>,
        member: Option<(Name, i32, Option<Name>)>,
        now: Millis,
    ) {
        let Self::Java(producer) = self;
        let group = match member {
            Some((member, generation, instance)) => GroupMetadata { group, generation, member, instance },
            None => GroupMetadata::of_group(group),
        };
        let _ = producer.send_offsets(offsets, group, now);
    }
    pub(super) fn commit(&mut self, now: Millis) {
        let Self::Java(producer) = self;
        let _ = producer.commit_transaction(now);
    }
    pub(super) fn abort(&mut self, now: Millis) {
        let Self::Java(producer) = self;
        let _ = producer.abort_transaction(now);
    }
    /// The process ends: what is under way stays where it is.
    pub(super) fn close<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let Self::Java(producer) = self;
        producer.abort();
        producer.run(cx);
        producer.network().close_all();
        producer.network().carry_out(cx);
    }
}
