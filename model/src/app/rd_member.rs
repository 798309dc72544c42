//! A reader in a group, on librdkafka: its threads fetch, commit and keep the membership while the application works.

use super::reader::{CONSUME, THREADS};
use super::{APP, tell_moved};
use crate::base::{
    Addr, Cx, Event, Input, Lane, Layer, Nanos, Offset, Port, Shown, Signal, SimTime, SmallMap, TopicPartition,
};
use crate::kafka::client::Slice;
use crate::kafka::client::rdkafka::{RdConfig, RdNetwork, RdNetworkClient};
use crate::kafka::client::rdkafka_consumer::group::{RdGroupConfig, RdMember};
use crate::kafka::client::rdkafka_consumer::{Consumed, RdConsumer, RdConsumerConfig};
use crate::kafka::messages::Message;
use std::sync::Arc;

/// How a member is started.
#[derive(Clone, Debug)]
pub struct RdMemberConfig {
    /// Where to find the cluster.
    pub bootstrap: Arc<[Addr]>,
    /// What concerns connections.
    pub connections: RdConfig,
    /// What concerns fetching.
    pub consumer: Arc<RdConsumerConfig>,
    /// Membership.
    pub group: Arc<RdGroupConfig>,
}

/// What the application is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It waits for messages.
    Waiting,
    /// It works on some, or is about to look for more.
    Working,
    /// It waits for its commit.
    Committing,
    /// It has closed its consumer, and waits for the end of that.
    Closing,
}

/// The member.
#[derive(Clone, Debug)]
pub(super) struct RdReader {
    config: Arc<RdMemberConfig>,
    number: u16,
    record: Nanos,
    poll_every: Nanos,
    net: Box<RdNetworkClient>,
    consumer: Box<RdConsumer>,
    member: Box<RdMember>,
    stage: Stage,
    terminated: bool,
    /// Worked on and not committed by hand yet.
    to_commit: bool,
    given: SmallMap<TopicPartition, Offset>,
    deadline: Option<SimTime>,
}

impl RdReader {
    pub(super) fn start<W>(
        config: &Arc<RdMemberConfig>,
        (number, record, poll_every): (u16, Nanos, Nanos),
        cx: &mut Cx<'_, Message, W>,
    ) -> Self {
        let now = cx.millis();
        let (bootstrap, partitions) = (config.bootstrap.to_vec(), &config.group.partitions);
        let mut net = RdNetwork::new(config.connections.clone(), bootstrap, partitions, cx.stream("network"), now);
        net.bind_coordinator(None, now);
        cx.wake_port(THREADS, Some(cx.now));
        Self {
            config: Arc::clone(config),
            number,
            record,
            poll_every,
            net: Box::new(RdNetworkClient::new(net)),
            consumer: Box::new(RdConsumer::new(Arc::clone(&config.consumer))),
            member: Box::new(RdMember::new(Arc::clone(&config.group), cx.fixes, now)),
            stage: Stage::Waiting,
            terminated: false,
            to_commit: false,
            given: SmallMap::new(),
            deadline: None,
        }
    }
    pub(super) const fn lane(port: Port) -> Lane {
        Lane(if port.0 == APP.0 { 0 } else { 1 })
    }
    pub(super) fn position(&self, tp: TopicPartition) -> Option<Offset> {
        self.consumer.stands_at(tp)
    }
    pub(super) fn is_busy(&self) -> bool {
        self.stage == Stage::Working || self.consumer.queue().messages() > 0
    }
    pub(super) fn owns(&self, tp: TopicPartition) -> bool {
        self.member.owned().contains(&tp)
    }

    pub(super) fn step<W>(&mut self, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match (cx.port, input) {
            (_, Input::Signal(Signal::Terminate)) => {
                self.terminated = true;
                self.wake(cx);
            }
            (APP, Input::Wake) => self.work(cx),
            (_, Input::Wake) => {
                self.deadline = None;
                self.serve(cx);
            }
            (_, input @ (Input::Message { .. } | Input::Connection(..))) => {
                self.net.input(input);
                self.serve(cx);
            }
            _ => {}
        }
    }
    /// The threads look now.
    fn wake<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.deadline = Some(cx.now);
        cx.wake_port(THREADS, Some(cx.now));
    }

    /// One round of librdkafka's threads.
    fn serve<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        loop {
            let net = &mut self.net.network;
            let completed = net.poll(now);
            for done in &completed {
                if !self.member.on_completed(done, now, &mut self.consumer, net) {
                    self.consumer.on_completed(done, now, net);
                }
            }
            if self.terminated && self.stage == Stage::Waiting {
                self.stage = Stage::Closing;
                self.member.close(now, &mut self.consumer, net);
            }
            self.member.serve(now, &mut self.consumer, net);
            self.consumer.serve(now, net);
            if completed.is_empty() {
                break;
            }
        }
        let closed = self.stage == Stage::Closing && self.member.is_closed(now, &mut self.net.network);
        self.net.carry_out(cx);
        tell_moved(self.config.group.group.0, self.member.take_moved(), cx);
        if closed || self.member.is_fatal() {
            return cx.exit();
        }
        let has_work = match self.stage {
            Stage::Waiting => self.consumer.queue().messages() > 0,
            Stage::Committing => self.member.commit_done(),
            Stage::Working | Stage::Closing => false,
        };
        if has_work {
            self.stage = Stage::Working;
            cx.wake_port(APP, Some(cx.now));
        }
        let own = self.consumer.wake_at(now, &self.net.network).min(self.member.wake_at(now, &self.net.network));
        let at = self.net.wake_at(own, now);
        if self.deadline != at {
            self.deadline = at;
            cx.wake_port(THREADS, at);
        }
    }

    /// The application: takes what there is, works on it, commits if it has to, looks again.
    fn work<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        if self.stage != Stage::Working {
            return;
        }
        let now = cx.millis();
        if std::mem::take(&mut self.to_commit) {
            self.member.commit(now, &mut self.net.network);
            if !self.member.commit_done() {
                self.stage = Stage::Committing;
                return self.wake(cx);
            }
        }
        let mut consumed = Vec::new();
        let taken = if self.terminated { 0 } else { self.consumer.consume(CONSUME, &mut consumed) };
        self.member.polled(taken > 0, now);
        if consumed.is_empty() {
            self.stage = Stage::Waiting;
            return self.wake(cx);
        }
        self.to_commit = self.config.group.auto_commit.is_none();
        self.wake(cx);
        let slices = consumed.into_iter().filter_map(|c| if let Consumed::Records(s) = c { Some(s) } else { None });
        let slices: Vec<Slice> = slices.collect();
        slices.iter().for_each(|slice| self.member.store(slice));
        let busy = Nanos(self.record.0 * u64::from(taken));
        cx.work(busy);
        for s in slices {
            if self.given.insert(s.tp, s.next()).is_some_and(|before| s.first() < before) {
                cx.emit(Event::Position { tp: s.tp, offset: s.first(), reset: true });
            }
            let layer = Layer::Read(self.number);
            cx.show(Shown { layer, tp: s.tp, base: s.base, from: s.from, to: s.to, batch: s.batch });
        }
        cx.wake_port(APP, Some(cx.now + busy + self.poll_every));
    }
}
