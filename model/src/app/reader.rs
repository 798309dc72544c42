//! An application that reads topics with a plain consumer and hands every record to the judge.

use super::APP;
use super::member::{JavaMember, MemberConfig};
use super::rd_member::{RdMemberConfig, RdReader};
use crate::base::{
    Addr, Cx, Event, Input, Lane, Layer, Millis, Nanos, Offset, Port, Shown, SimTime, SmallMap, TopicPartition,
};
use crate::kafka::client::Slice;
use crate::kafka::client::java::{Dice, NetworkClient, NetworkConfig};
use crate::kafka::client::java_consumer::{ConsumerConfig, JavaConsumer, TopicHashes};
use crate::kafka::client::rdkafka::{RdConfig, RdNetwork, RdNetworkClient};
use crate::kafka::client::rdkafka_consumer::{Consumed, RdConsumer, RdConsumerConfig, Start};
use crate::kafka::messages::{Message, OffsetSpec};
use std::sync::Arc;

/// Which client library reads.
#[derive(Clone, Debug)]
pub enum ReaderClientConfig {
    /// The Java client.
    Java(Box<NetworkConfig>, Arc<ConsumerConfig>, TopicHashes),
    /// The Java client in a group.
    Member(Arc<MemberConfig>),
    /// librdkafka in a group.
    RdMember(Arc<RdMemberConfig>),
    /// librdkafka. It begins at the end of the log that the policy names, at the earliest record if that is `error`.
    Librdkafka {
        /// Where to find the cluster.
        bootstrap: Arc<[Addr]>,
        /// What concerns connections.
        connections: Box<RdConfig>,
        /// What concerns reading.
        consumer: Arc<RdConsumerConfig>,
    },
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
    Member(Box<JavaMember>),
    RdMember(Box<RdReader>),
    Librdkafka(Box<RdNetworkClient>, Box<RdConsumer>),
}

/// The port of a client's own threads: librdkafka's fetch while the application works, Java's heartbeat thread shows that a
/// member lives.
pub(super) const THREADS: Port = Port(2);
/// Messages that a librdkafka application asks for at a time. Their order does not depend on it, only for how long
/// the client counts them as queued.
pub(super) const CONSUME: u32 = 1_000;

/// A reader.
#[derive(Clone, Debug)]
pub struct ReaderApp {
    config: Arc<ReaderAppConfig>,
    client: Client,
    positions: SmallMap<TopicPartition, Offset>,
    deadline: Option<SimTime>,
    /// librdkafka: the application has records in hand, or is about to look.
    consuming: bool,
}

impl ReaderApp {
    /// Starts it: it reads from where `auto.offset.reset` says.
    pub fn start<W>(config: &Arc<ReaderAppConfig>, cx: &mut Cx<'_, Message, W>) -> Self {
        let client = match &config.client {
            ReaderClientConfig::Java(network, consumer, hashes) => {
                let net = NetworkClient::new((**network).clone(), Dice::Stream(cx.stream("network")));
                let mut java = JavaConsumer::new(Arc::clone(consumer), hashes.clone());
                java.assign(&config.partitions);
                cx.wake_port(APP, Some(cx.now));
                Client::Java(Box::new(net), Box::new(java))
            }
            ReaderClientConfig::Member(member) => {
                let reader = (config.number, config.record, config.poll_every);
                Client::Member(Box::new(JavaMember::start(member, reader, cx)))
            }
            ReaderClientConfig::RdMember(member) => {
                let reader = (config.number, config.record, config.poll_every);
                Client::RdMember(Box::new(RdReader::start(member, reader, cx)))
            }
            ReaderClientConfig::Librdkafka { bootstrap, connections, consumer } => {
                let mut rd = RdConsumer::new(Arc::clone(consumer));
                let start = Start::End(consumer.auto_offset_reset.unwrap_or(OffsetSpec::Earliest));
                let assignment: Vec<_> = config.partitions.iter().map(|tp| (*tp, start)).collect();
                rd.assign(&assignment);
                let (connections, stream) = ((**connections).clone(), cx.stream("network"));
                let net = RdNetwork::new(connections, bootstrap.to_vec(), &config.partitions, stream, cx.millis());
                cx.wake_port(THREADS, Some(cx.now));
                Client::Librdkafka(Box::new(RdNetworkClient::new(net)), Box::new(rd))
            }
        };
        let config = Arc::clone(config);
        Self { config, client, positions: SmallMap::new(), deadline: None, consuming: false }
    }

    /// The Java client has one thread, librdkafka its own beside the application's.
    pub fn lane(&self, port: Port) -> Lane {
        match self.client {
            Client::Member(_) => return JavaMember::lane(port),
            Client::RdMember(_) => return RdReader::lane(port),
            _ => {}
        }
        Lane(u16::from(port == THREADS))
    }

    /// Takes an input.
    pub fn step<W>(&mut self, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match &mut self.client {
            Client::Member(member) => return member.step(input, cx),
            Client::RdMember(member) => return member.step(input, cx),
            _ => {}
        }
        let woken = matches!(input, Input::Wake);
        if !woken && !matches!(input, Input::Message { .. } | Input::Connection(..)) {
            return;
        }
        match &mut self.client {
            Client::Member(_) | Client::RdMember(_) => {}
            Client::Librdkafka(..) if cx.port == APP => return self.consume(cx),
            Client::Java(net, _) => {
                net.input(input);
            }
            Client::Librdkafka(net, _) => {
                net.input(input);
            }
        }
        if woken {
            self.deadline = None;
        }
        match &self.client {
            Client::Member(_) | Client::RdMember(_) => {}
            Client::Java(..) => self.turn(cx),
            Client::Librdkafka(..) => self.serve(cx),
        }
    }

    /// One round of the Java client: at most one poll that gives records.
    fn turn<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let Client::Java(net, consumer) = &mut self.client else { return };
        let now = cx.millis();
        let mut delivered = Vec::new();
        let mut records = 0u64;
        let mut again = Millis::MAX;
        for _ in 0..64 {
            let polled = net.poll(Millis::ZERO, now);
            for done in &polled.completed {
                consumer.on_completed(done, now, &mut **net);
            }
            let nothing = !polled.moved && polled.completed.is_empty();
            net.reuse(polled);
            match consumer.poll(now, &mut **net) {
                Ok(Some(fetched)) => {
                    records += u64::from(fetched.records);
                    delivered = fetched.slices;
                    again = now;
                    break;
                }
                Ok(None) => {}
                // A reader that is told of a lost position reads on from the beginning of what there is: its application
                // has nothing better to do. The judge sees the reset.
                Err(_) => again = again.min(now + Millis(100)),
            }
            if nothing {
                break;
            }
        }
        let polled = net.poll(Millis::ZERO, now);
        net.reuse(polled);
        net.carry_out(cx);
        let at = if again == now {
            cx.now + self.config.poll_every
        } else {
            SimTime::at(again.min(net.deadline(now)).min(consumer.wake_at(now, &**net))).max(cx.now)
        };
        self.deliver(&delivered, records, cx);
        self.wake(APP, Some(at), cx);
    }

    /// One round of librdkafka's threads: answers to the queue, requests to the brokers. Wakes an application that waits.
    fn serve<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let Client::Librdkafka(net, consumer) = &mut self.client else { return };
        let now = cx.millis();
        loop {
            let completed = net.network.poll(now);
            for done in &completed {
                consumer.on_completed(done, now, &mut net.network);
            }
            consumer.serve(now, &mut net.network);
            if completed.is_empty() {
                break;
            }
        }
        net.carry_out(cx);
        let at = net.wake_at(consumer.wake_at(now, &net.network), now);
        if !self.consuming && consumer.queue().messages() > 0 {
            self.consuming = true;
            cx.wake_port(APP, Some(cx.now));
        }
        self.wake(THREADS, at, cx);
    }

    /// The librdkafka application: takes what there is, works on it, looks again.
    fn consume<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let Client::Librdkafka(_, consumer) = &mut self.client else { return };
        let mut consumed = Vec::new();
        let taken = consumer.consume(CONSUME, &mut consumed);
        self.consuming = !consumed.is_empty();
        if !self.consuming {
            return;
        }
        // The queue has room again: its threads look.
        self.wake(THREADS, Some(cx.now), cx);
        // Errors are for a log; reading goes on by itself, or has stopped for good (`auto.offset.reset` = error).
        let slices = consumed.into_iter().filter_map(|c| if let Consumed::Records(s) = c { Some(s) } else { None });
        let delivered: Vec<_> = slices.collect();
        self.deliver(&delivered, u64::from(taken), cx);
        let busy = Nanos(self.config.record.0 * u64::from(taken));
        cx.wake_port(APP, Some(cx.now + busy + self.config.poll_every));
    }

    fn wake<W>(&mut self, port: Port, at: Option<SimTime>, cx: &mut Cx<'_, Message, W>) {
        if self.deadline != at {
            self.deadline = at;
            cx.wake_port(port, at);
        }
    }

    /// The application is given records and works on them.
    fn deliver<W>(&mut self, slices: &[Slice], records: u64, cx: &mut Cx<'_, Message, W>) {
        let layer = Layer::Read(self.config.number);
        for s in slices {
            let (tp, next) = (s.tp, s.next());
            let before = self.positions.insert(tp, next);
            if before.is_some_and(|b| s.first() < b) {
                cx.emit(Event::Position { tp, offset: s.first(), reset: true });
            }
            cx.show(Shown { layer, tp, base: s.base, from: s.from, to: s.to, batch: Arc::clone(&s.batch) });
        }
        if records > 0 {
            cx.work(Nanos(self.config.record.0 * records));
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
            Client::Member(member) => member.position(tp),
            Client::RdMember(member) => member.position(tp),
            Client::Librdkafka(_, consumer) => consumer.stands_at(tp),
        }
    }
    /// What it reads; of a member of a group, what all members read together.
    pub fn partitions(&self) -> &[TopicPartition] {
        &self.config.partitions
    }
    /// Whether it has records that it has not worked on yet.
    pub fn is_busy(&self) -> bool {
        match &self.client {
            Client::Member(member) => member.is_busy(),
            Client::RdMember(member) => member.is_busy(),
            _ => false,
        }
    }
    /// Whether it reads a partition now.
    pub fn owns(&self, tp: TopicPartition) -> bool {
        match &self.client {
            Client::Member(member) => member.owns(tp),
            Client::RdMember(member) => member.owns(tp),
            _ => self.config.partitions.contains(&tp),
        }
    }
}
