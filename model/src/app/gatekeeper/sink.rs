//! The producer of a gatekeeper.

use super::config::{GatekeeperConfig, ProducerSide};
use super::rd_sink::RdSink;
use crate::app::{KeyHash, java_producer};
use crate::base::{BrokerId, Cx, Input, Millis, Offset, Row, SimTime, TopicId, TopicPartition};
use crate::kafka::client::java::{GroupMetadata, JavaProducer, ProducerConfig, ProducerEvent, State, Target};
use crate::kafka::client::rdkafka::RdGroupMetadata;
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
    Librdkafka(Box<RdSink>),
}

impl Sink {
    pub(super) fn start<W>(config: &GatekeeperConfig, start: u32, cx: &mut Cx<'_, Message, W>) -> Self {
        // Each start of the process has ids of its own where they are fresh.
        let start = cx.incarnation.0.saturating_sub(1).saturating_mul(8).saturating_add(start);
        let id = config.ids.of_start(start);
        match &config.producer {
            ProducerSide::Java(producer) => {
                let producer = ProducerConfig { transactional_id: Some(id), ..(**producer).clone() };
                Self::Java(Box::new(java_producer(&producer, cx)))
            }
            ProducerSide::Librdkafka(side) => Self::Librdkafka(Box::new(RdSink::start(side, id, cx))),
        }
    }
    pub(super) fn input<W>(&mut self, input: Input<Message>, cx: &Cx<'_, Message, W>) -> bool {
        match self {
            Self::Java(producer) => producer.input(input),
            Self::Librdkafka(producer) => producer.input(input, cx),
        }
    }
    pub(super) fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        match self {
            Self::Java(producer) => producer.run(cx),
            Self::Librdkafka(producer) => producer.run(cx),
        }
    }
    pub(super) fn deadline(&self) -> Option<SimTime> {
        match self {
            Self::Java(producer) => producer.deadline(),
            Self::Librdkafka(producer) => producer.deadline(),
        }
    }
    /// The next thing that has ended.
    pub(super) fn poll<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<Ended> {
        match self {
            Self::Java(producer) => poll_java(producer),
            Self::Librdkafka(producer) => producer.poll(cx),
        }
    }
    /// Whether the producer knows a node: a Java client forgets none that it needs.
    pub(super) fn lists(&self, node: BrokerId) -> bool {
        match self {
            Self::Java(_) => true,
            Self::Librdkafka(producer) => producer.lists(node),
        }
    }
    pub(super) fn is_fatal(&self) -> bool {
        match self {
            Self::Java(producer) => producer.state() == Some(State::FatalError),
            Self::Librdkafka(producer) => producer.is_fatal(),
        }
    }
    pub(super) fn must_abort(&self) -> bool {
        match self {
            Self::Java(producer) => producer.state() == Some(State::AbortableError),
            Self::Librdkafka(producer) => producer.must_abort(),
        }
    }
    /// The application's thread hangs in a send.
    pub(super) fn is_blocked(&self) -> bool {
        match self {
            Self::Java(producer) => producer.is_blocked(),
            Self::Librdkafka(producer) => producer.is_blocked(),
        }
    }
    // What these throw at once shows in the producer's state, which is looked at before anything else is done.
    pub(super) fn init(&mut self, now: Millis) {
        match self {
            Self::Java(producer) => drop(producer.init_transactions(now)),
            Self::Librdkafka(producer) => producer.init(now),
        }
    }
    pub(super) fn begin(&mut self) -> bool {
        match self {
            Self::Java(producer) => producer.begin_transaction().is_ok(),
            Self::Librdkafka(producer) => producer.begin(),
        }
    }
    pub(super) fn send(&mut self, topic: TopicId, key: Option<KeyHash>, row: Row, now: Millis) {
        match self {
            Self::Java(producer) => {
                let target = key.map_or(Target::Sticky, |key| Target::Key(key.murmur2));
                let _ = producer.send(topic, target, row, now);
            }
            Self::Librdkafka(producer) => producer.send(topic, row, now),
        }
    }
    pub(super) fn send_offsets(
        &mut self,
        group: GroupId,
        offsets: Vec<(TopicPartition, Offset)>,
        member: Option<(Name, i32, Option<Name>)>,
        now: Millis,
    ) {
        match self {
            Self::Java(producer) => {
                let group = match member {
                    Some((member, generation, instance)) => GroupMetadata { group, generation, member, instance },
                    None => GroupMetadata::of_group(group),
                };
                let _ = producer.send_offsets(offsets, group, now);
            }
            Self::Librdkafka(producer) => {
                let group = match member {
                    Some((member, generation, instance)) => RdGroupMetadata { group, generation, member, instance },
                    None => RdGroupMetadata::of_group(group),
                };
                producer.send_offsets(group, offsets, now);
            }
        }
    }
    pub(super) fn commit(&mut self, now: Millis) {
        match self {
            Self::Java(producer) => drop(producer.commit_transaction(now)),
            Self::Librdkafka(producer) => producer.commit(),
        }
    }
    pub(super) fn abort(&mut self, now: Millis) {
        match self {
            Self::Java(producer) => drop(producer.abort_transaction(now)),
            Self::Librdkafka(producer) => producer.abort(),
        }
    }
    /// The process ends: what is under way stays where it is.
    pub(super) fn close<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        match self {
            Self::Java(producer) => {
                producer.abort();
                producer.run(cx);
                producer.network().close_all();
                producer.network().carry_out(cx);
            }
            Self::Librdkafka(producer) => producer.close(cx),
        }
    }
}

fn poll_java(producer: &mut JavaProducer) -> Option<Ended> {
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
