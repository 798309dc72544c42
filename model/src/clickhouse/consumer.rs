//! A consumer of a Kafka table: librdkafka's threads, and what the engine makes of their messages (`KafkaConsumer`).

use super::KafkaTableConfig;
use crate::app::tell_moved;
use crate::base::{Cx, Input, Millis, Nanos, Offset, Port, SimTime, TopicPartition};
use crate::kafka::client::rdkafka::{RdNetwork, RdNetworkClient};
use crate::kafka::client::rdkafka_consumer::group::RdMember;
use crate::kafka::client::rdkafka_consumer::{Consumed, RdConsumer};
use crate::kafka::client::{Moved, Slice};
use crate::kafka::messages::Message as Wire;
use crate::registry::{Library, check, unframe};
use crate::store::clickhouse::{CycleError, KafkaConsumer, Message, Payload};
use std::sync::Arc;

/// What a consumer waits for, besides messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// Nothing.
    No,
    /// The insert of its block: until when it computes, how it ended, and how many parts are still to be flushed.
    Inserting { until: SimTime, ok: bool, flushes: u32 },
    /// The answer to its commit.
    Committing,
}

/// A consumer.
#[derive(Clone, Debug)]
pub(super) struct Consumer {
    config: Arc<KafkaTableConfig>,
    net: Box<RdNetworkClient>,
    rd: Box<RdConsumer>,
    pub(super) member: Box<RdMember>,
    pub(super) engine: KafkaConsumer,
    pub(super) busy: Busy,
    /// It has committed, and waits for the others of its cycle.
    pub(super) finished: bool,
    /// The last poll of the cycle gave nothing.
    pub(super) stalled: bool,
    /// The poll under way ends then, or with that many messages.
    poll: Option<(Millis, usize)>,
    messages: Vec<Message>,
    deadline: Option<SimTime>,
}

impl Consumer {
    pub(super) fn start<W>(config: &Arc<KafkaTableConfig>, threads: Port, cx: &mut Cx<'_, Wire, W>) -> Self {
        let now = cx.millis();
        let client = &config.client;
        let stream = cx.stream(&format!("network {}", threads.0));
        let mut net = RdNetwork::new(
            client.connections.clone(),
            client.bootstrap.to_vec(),
            &client.group.partitions,
            stream,
            now,
        );
        net.bind_coordinator(None, now);
        cx.wake_port(threads, Some(cx.now));
        Self {
            net: Box::new(RdNetworkClient::new(net)),
            rd: Box::new(RdConsumer::new(Arc::clone(&client.consumer))),
            member: Box::new(RdMember::new(Arc::clone(&client.group), cx.fixes, now)),
            engine: KafkaConsumer::new(config.kafka, now),
            config: Arc::clone(config),
            busy: Busy::No,
            finished: false,
            stalled: false,
            poll: None,
            messages: Vec::new(),
            deadline: None,
        }
    }
    pub(super) fn owns(&self, tp: TopicPartition) -> bool {
        self.member.owned().contains(&tp)
    }
    pub(super) fn position(&self, tp: TopicPartition) -> Option<Offset> {
        self.rd.stands_at(tp)
    }
    pub(super) fn is_idle(&self) -> bool {
        self.busy == Busy::No && self.engine.is_idle() && self.rd.queue().messages() == 0
    }

    /// librdkafka's threads take an input. Whether the cycle has something to do now.
    pub(super) fn threads<W>(&mut self, input: Input<Wire>, cx: &mut Cx<'_, Wire, W>) -> bool {
        match input {
            Input::Wake => self.deadline = None,
            input @ (Input::Message { .. } | Input::Connection(..)) => {
                self.net.input(input);
            }
            _ => return false,
        }
        let now = cx.millis();
        loop {
            let net = &mut self.net.network;
            let completed = net.poll(now);
            for done in &completed {
                if !self.member.on_completed(done, now, &mut self.rd, net) {
                    self.rd.on_completed(done, now, net);
                }
            }
            self.member.serve(now, &mut self.rd, net);
            self.rd.serve(now, net);
            if completed.is_empty() {
                break;
            }
        }
        self.net.carry_out(cx);
        let moved = self.member.take_moved();
        // The callback runs inside a poll; what is lost without being asked shows at the commit.
        if self.poll.is_some() && moved.iter().any(|m| matches!(m, Moved::Revoked(..))) {
            self.engine.revoked(cx.fixes);
            self.poll = None;
        }
        let revoked = moved.iter().any(|m| matches!(m, Moved::Revoked(..)));
        tell_moved(self.config.client.group.group.0, moved, cx);
        let own = self.rd.wake_at(now, &self.net.network).min(self.member.wake_at(now, &self.net.network));
        let at = self.net.wake_at(own, now);
        if self.deadline != at {
            self.deadline = at;
            cx.wake(at);
        }
        match self.busy {
            Busy::No => revoked || self.poll.is_some_and(|(_, most)| self.rd.queue().messages() >= most as u64),
            Busy::Committing => self.member.commit_result().is_some(),
            Busy::Inserting { .. } => false,
        }
    }
    /// Its threads are to look now, or a little later.
    pub(super) fn wake<W>(&mut self, threads: Port, after: Nanos, cx: &mut Cx<'_, Wire, W>) {
        self.deadline = Some(cx.now + after);
        cx.wake_port(threads, self.deadline);
    }

    /// One poll for at most so many messages (`rd_kafka_consume_batch_queue`): it ends when it has them, or after
    /// `kafka_poll_timeout_ms`. Whether it is over; else [`Consumer::poll_ends`] says when.
    pub(super) fn polled(
        &mut self,
        most: usize,
        threads: Port,
        cx: &mut Cx<'_, Wire, impl Sized>,
    ) -> Result<bool, CycleError> {
        let now = cx.millis();
        let (until, _) = match self.poll {
            Some(poll) => poll,
            None => {
                // What waits for a poll is served now.
                self.member.in_poll(true);
                self.member.polled(false, now);
                self.wake(threads, Nanos::ZERO, cx);
                *self.poll.insert((now + self.config.kafka.poll_timeout, most))
            }
        };
        if now < until && self.rd.queue().messages() < most as u64 {
            return Ok(false);
        }
        self.poll = None;
        let mut consumed = Vec::new();
        self.rd.consume(most as u32, &mut consumed);
        self.wake(threads, Nanos::ZERO, cx);
        let mut messages = std::mem::take(&mut self.messages);
        messages.clear();
        for slice in consumed.iter().filter_map(|c| if let Consumed::Records(s) = c { Some(s) } else { None }) {
            self.parse(slice, &mut messages);
        }
        self.stalled = messages.is_empty();
        let result = self.engine.polled(&messages);
        self.messages = messages;
        result.map(|()| true)
    }
    pub(super) fn poll_ends(&self) -> Option<SimTime> {
        self.poll.map(|(until, _)| SimTime::at(until))
    }
    /// Messages of a batch. What they hold is decided by the format alone.
    fn parse(&self, slice: &Slice, messages: &mut Vec<Message>) {
        let rows = &slice.batch.rows[slice.from as usize..slice.to as usize];
        for (row, offset) in rows.iter().zip(slice.first().0..) {
            let bytes = &slice.batch.raw[row.raw.start as usize..(row.raw.start + row.raw.len) as usize];
            let parses = self.config.shapes.as_ref().is_none_or(|shapes| {
                let frame = unframe(bytes).ok();
                let shape = frame.as_ref().and_then(|f| shapes.get(&f.schema));
                frame.as_ref().zip(shape).is_some_and(|(f, shape)| check(shape, f.body, Library::Java).is_ok())
            });
            let payload = if parses { Payload::Row(*row) } else { Payload::Broken };
            messages.push(Message { partition: slice.tp, offset: Offset(offset), payload });
        }
    }

    /// The server ends: the poll under way is not waited for, and none follows.
    pub(super) const fn stops_polling(&mut self) {
        self.poll = None;
    }
    /// It does something else than polling.
    pub(super) fn leaves_poll(&mut self, now: Millis) {
        self.poll = None;
        self.member.in_poll(false);
        self.member.polled(true, now);
    }
    /// Commits these offsets; the answer comes to its threads.
    pub(super) fn commit<W>(
        &mut self,
        offsets: impl Iterator<Item = (TopicPartition, Offset)>,
        threads: Port,
        cx: &mut Cx<'_, Wire, W>,
    ) {
        self.busy = Busy::Committing;
        self.member.commit_offsets(offsets.collect(), cx.millis(), &mut self.net.network);
        self.wake(threads, Nanos::ZERO, cx);
    }
    /// Leaves the group; the process ends.
    pub(super) fn close<W>(&mut self, cx: &mut Cx<'_, Wire, W>) {
        let now = cx.millis();
        self.member.close(now, &mut self.rd, &mut self.net.network);
        self.member.serve(now, &mut self.rd, &mut self.net.network);
        self.member.is_closed(now, &mut self.net.network);
        self.net.carry_out(cx);
        self.net.close_all(cx);
    }
    /// Leaves the group and joins anew: it reads from its committed offsets again.
    pub(super) fn rewind<W>(&mut self, threads: Port, cx: &mut Cx<'_, Wire, W>) {
        let now = cx.millis();
        self.poll = None;
        self.busy = Busy::No;
        self.member.in_poll(true);
        self.member.polled(false, now);
        self.member.resubscribe(now, &mut self.rd, &mut self.net.network);
        self.engine.rewound(now);
        self.wake(threads, Nanos::ZERO, cx);
    }
}
