//! The consumer of a gatekeeper: a member of a group that commits nothing by itself.

use super::config::{ConsumerSide, GatekeeperConfig};
use crate::app::member::is_final;
use crate::app::reader::CONSUME;
use crate::base::{Cx, Input, LeaderEpoch, Millis, Offset, SimTime, TopicPartition};
use crate::kafka::client::java::{Dice, NetworkClient};
use crate::kafka::client::java_consumer::group::GroupMember;
use crate::kafka::client::java_consumer::{JavaConsumer, SubscribedConsumer};
use crate::kafka::client::rdkafka::{RdNetwork, RdNetworkClient};
use crate::kafka::client::rdkafka_consumer::group::RdMember;
use crate::kafka::client::rdkafka_consumer::{Consumed, RdConsumer, Start};
use crate::kafka::client::{Moved, Slice};
use crate::kafka::coordinator::group::Name;
use crate::kafka::messages::Message;

/// What a poll gives.
#[derive(Clone, Debug)]
pub(super) enum Polled {
    Nothing,
    Records(Vec<Slice>),
    /// It cannot go on.
    Ended,
}

/// The consumer.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Java { net: Box<NetworkClient>, consumer: Box<SubscribedConsumer>, instance: Option<Name>, retry_at: Millis },
    Librdkafka { net: Box<RdNetworkClient>, consumer: Box<RdConsumer>, member: Box<RdMember>, instance: Option<Name> },
}

impl Source {
    pub(super) fn start<W>(config: &GatekeeperConfig, cx: &mut Cx<'_, Message, W>) -> Self {
        let now = cx.millis();
        match &config.consumer {
            ConsumerSide::Java(member) => {
                let net = NetworkClient::new(member.network.clone(), Dice::Stream(cx.stream("consumer network")));
                let java = JavaConsumer::new(member.consumer.clone(), member.hashes.clone());
                let dice = Dice::Stream(cx.stream("group"));
                let group = GroupMember::new(member.group.clone(), cx.fixes, dice, now);
                Self::Java {
                    net: Box::new(net),
                    consumer: Box::new(SubscribedConsumer::new(java, group, member.poll_timeout)),
                    instance: member.group.instance.clone(),
                    retry_at: now,
                }
            }
            ConsumerSide::Librdkafka(member) => {
                let (bootstrap, partitions) = (member.bootstrap.to_vec(), &member.group.partitions);
                let stream = cx.stream("consumer network");
                let mut net = RdNetwork::new(member.connections.clone(), bootstrap, partitions, stream, now);
                net.bind_coordinator(None, now);
                Self::Librdkafka {
                    net: Box::new(RdNetworkClient::new(net)),
                    consumer: Box::new(RdConsumer::new(member.consumer.clone())),
                    member: Box::new(RdMember::new(member.group.clone(), cx.fixes, now)),
                    instance: member.group.instance.clone(),
                }
            }
        }
    }
    /// Takes an input; false if it is of no connection of its own.
    pub(super) fn input(&mut self, input: Input<Message>) -> bool {
        match self {
            Self::Java { net, .. } => net.input(input),
            Self::Librdkafka { net, .. } => net.input(input),
        }
    }
    /// The connections move; true if something happened.
    pub(super) fn network(&mut self, now: Millis) -> bool {
        match self {
            Self::Java { net, consumer, .. } => {
                let polled = net.poll(Millis::ZERO, now);
                for done in &polled.completed {
                    consumer.on_completed(done, now, &mut **net);
                }
                let moved = polled.moved || !polled.completed.is_empty();
                net.reuse(polled);
                moved
            }
            Self::Librdkafka { net, consumer, member, .. } => {
                let completed = net.network.poll(now);
                for done in &completed {
                    if !member.on_completed(done, now, consumer, &mut net.network) {
                        consumer.on_completed(done, now, &mut net.network);
                    }
                }
                member.serve(now, consumer, &mut net.network);
                consumer.serve(now, &mut net.network);
                !completed.is_empty()
            }
        }
    }
    /// The inside of a blocking poll.
    pub(super) fn poll(&mut self, now: Millis) -> Polled {
        match self {
            Self::Java { retry_at, .. } if now < *retry_at => Polled::Nothing,
            Self::Java { net, consumer, retry_at, .. } => match consumer.poll(now, &mut **net) {
                Ok(Some(fetched)) if fetched.records > 0 => Polled::Records(fetched.slices),
                Ok(_) => Polled::Nothing,
                Err(error) if is_final(&error) => Polled::Ended,
                Err(_) => {
                    *retry_at = now + Millis(100);
                    Polled::Nothing
                }
            },
            Self::Librdkafka { consumer, member, .. } => {
                let mut consumed = Vec::new();
                let taken = consumer.consume(CONSUME, &mut consumed);
                member.polled(taken > 0, now);
                if member.is_fatal() {
                    return Polled::Ended;
                }
                let records = |c| if let Consumed::Records(slice) = c { Some(slice) } else { None };
                let slices: Vec<_> = consumed.into_iter().filter_map(records).collect();
                if slices.is_empty() { Polled::Nothing } else { Polled::Records(slices) }
            }
        }
    }
    /// The heartbeat thread, whatever the application does.
    pub(super) fn beat(&mut self, now: Millis) {
        if let Self::Java { net, consumer, .. } = self {
            consumer.beat(now, &mut **net);
        }
    }
    pub(super) fn take_moved(&mut self) -> Vec<Moved> {
        match self {
            Self::Java { consumer, .. } => consumer.take_moved(),
            Self::Librdkafka { member, .. } => member.take_moved(),
        }
    }
    pub(super) fn owns(&self, tp: TopicPartition) -> bool {
        match self {
            Self::Java { consumer, .. } => consumer.member().assigned().contains(&tp),
            Self::Librdkafka { member, .. } => member.owned().contains(&tp),
        }
    }
    /// The partitions that are its own.
    pub(super) fn partitions(&self) -> Vec<TopicPartition> {
        match self {
            Self::Java { consumer, .. } => consumer.member().assigned().iter().copied().collect(),
            Self::Librdkafka { member, .. } => member.owned().iter().copied().collect(),
        }
    }
    pub(super) fn position(&self, tp: TopicPartition) -> Option<Offset> {
        match self {
            Self::Java { consumer, .. } => consumer.position(tp),
            Self::Librdkafka { consumer, .. } => consumer.stands_at(tp),
        }
    }
    pub(super) fn seek(&mut self, tp: TopicPartition, offset: Offset, now: Millis) {
        match self {
            Self::Java { net, consumer, .. } => consumer.seek(tp, offset, LeaderEpoch::UNKNOWN, now, &mut **net),
            Self::Librdkafka { consumer, .. } => consumer.seek(tp, Start::At(offset), now),
        }
    }
    /// Member id, generation and instance id, as they are now.
    pub(super) fn group_metadata(&self) -> (Name, i32, Option<Name>) {
        let ((member, generation), instance) = match self {
            Self::Java { consumer, instance, .. } => (consumer.member().group_metadata(), instance),
            Self::Librdkafka { member, instance, .. } => (member.group_metadata(), instance),
        };
        (member, generation, instance.clone())
    }
    pub(super) fn carry_out<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        match self {
            Self::Java { net, .. } => net.carry_out(cx),
            Self::Librdkafka { net, .. } => net.carry_out(cx),
        }
    }
    /// When it has something to do by the clock alone.
    pub(super) fn deadline(&self, now: Millis) -> Option<SimTime> {
        match self {
            Self::Java { net, consumer, retry_at, .. } => {
                let at = consumer.wake_at(now, &**net).min(consumer.member().beat_at(now));
                let at = if *retry_at > now { at.max(*retry_at) } else { at };
                Some(SimTime::at(at.max(now + Millis(1)).min(net.deadline(now))))
            }
            Self::Librdkafka { net, consumer, member, .. } => {
                let own = consumer.wake_at(now, &net.network).min(member.wake_at(now, &net.network));
                net.wake_at(own, now)
            }
        }
    }
    /// Leaves the group and closes every connection.
    pub(super) fn close<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        match self {
            Self::Java { net, consumer, .. } => {
                consumer.leave(now, &mut **net);
                net.close_all();
                net.carry_out(cx);
            }
            Self::Librdkafka { net, consumer, member, .. } => {
                member.close(now, consumer, &mut net.network);
                member.serve(now, consumer, &mut net.network);
                member.is_closed(now, &mut net.network);
                net.carry_out(cx);
                net.close_all(cx);
            }
        }
    }
}
