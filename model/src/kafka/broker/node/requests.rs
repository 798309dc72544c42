//! The request handler of clients and followers (`KafkaApis`).

use super::config::BROKER;
use super::{Node, NodeCx, PendingProduce};
use crate::base::{
    BrokerId, ConnEvent, ConnId, Input, LeaderEpoch, Millis, Nanos, Offset, ProducerEpoch, ProducerId, TopicId,
    TopicPartition,
};
use crate::kafka::ErrorCode;
use crate::kafka::log::Isolation;
use crate::kafka::messages::{
    BrokerInfo, FetchReply, FetchRequest, InitProducerIdReply, ListOffsetsReply, ListOffsetsRequest, Message,
    MetadataReply, MetadataRequest, OffsetsForLeaderEpochReply, OffsetsForLeaderEpochRequest, PartitionInfo,
    ProduceReply, ProduceRequest, ProducedPartition, Reply, Request,
};
use crate::kafka::partition::Produce;

impl Node {
    pub(super) fn broker_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        match input {
            Input::Wake => {
                self.fired(BROKER);
                self.expire_requests(cx);
            }
            Input::Message { conn, message: Message::Request { correlation, body }, .. } => {
                if self.stopping && !self.serves() {
                    return;
                }
                self.request(conn, correlation, body, cx);
            }
            Input::Connection(conn, ConnEvent::Reset) => {
                self.produces.retain(|_, p| p.conn != conn);
                let gone: Vec<_> = self.fetch_tokens.iter().filter(|(_, (c, _))| *c == conn).map(|(t, _)| *t).collect();
                for token in gone {
                    self.fetch_tokens.remove(&token);
                    self.fetches.cancel(token);
                }
            }
            _ => {}
        }
        self.after_partitions(cx);
    }

    fn request(&mut self, conn: ConnId, correlation: u32, body: Request, cx: &mut NodeCx<'_>) {
        match body {
            Request::Produce(r) => self.produce(conn, correlation, &r, cx),
            Request::Fetch(r) => self.fetch(conn, correlation, &r, cx),
            Request::ApiVersions => {
                cx.work(self.config.times.request);
                self.reply(conn, correlation, Reply::ApiVersions, cx);
            }
            Request::Metadata(r) => {
                cx.work(self.config.times.request);
                let reply = self.metadata(&r);
                self.reply(conn, correlation, Reply::Metadata(reply), cx);
            }
            Request::ListOffsets(r) => {
                cx.work(self.config.times.request);
                let reply = self.list_offsets(&r);
                self.reply(conn, correlation, Reply::ListOffsets(reply), cx);
            }
            Request::OffsetsForLeaderEpoch(r) => {
                cx.work(self.config.times.request);
                let reply = self.offsets_for_leader_epoch(&r);
                self.reply(conn, correlation, Reply::OffsetsForLeaderEpoch(reply), cx);
            }
            Request::InitProducerId(_) => {
                cx.work(self.config.times.request);
                let reply = match self.take_producer_id(cx) {
                    Some(producer) => InitProducerIdReply { error: ErrorCode::None, producer, epoch: ProducerEpoch(0) },
                    // No block at hand: the client asks again (`RPCProducerIdManager`).
                    None => InitProducerIdReply {
                        error: ErrorCode::CoordinatorLoadInProgress,
                        producer: ProducerId::NONE,
                        epoch: ProducerEpoch::NONE,
                    },
                };
                self.reply(conn, correlation, Reply::InitProducerId(reply), cx);
            }
            Request::Controller(_) | Request::Quorum(_) | Request::Coordinator(_) => {}
        }
    }

    fn cost(&self, records: u64) -> Nanos {
        Nanos(self.config.times.request.0 + self.config.times.record.0 * records)
    }

    fn produce(&mut self, conn: ConnId, correlation: u32, r: &ProduceRequest, cx: &mut NodeCx<'_>) {
        cx.work(self.cost(r.batches.iter().map(|(_, b)| u64::from(b.records)).sum()));
        self.next_token += 1;
        let token = self.next_token;
        let pending = PendingProduce {
            conn,
            correlation,
            acks: r.acks,
            order: r.batches.iter().map(|(tp, _)| *tp).collect(),
            done: Vec::with_capacity(r.batches.len()),
        };
        self.produces.insert(token, pending);
        if r.acks == -1 {
            self.produce_deadline = self.produce_deadline.min(cx.millis() + r.timeout);
        }
        for (tp, batch) in &r.batches {
            let how = Produce::client(token, r.acks, r.timeout);
            let refused = self.with_partitions(cx, |partitions, _, _, pcx| match partitions.get_or_error(*tp) {
                Ok(partition) => {
                    let _ = partition.produce(batch, &how, pcx);
                    None
                }
                Err(error) => Some(error),
            });
            self.write_log(*tp, cx);
            if let Some(error) = refused {
                let answer = ProducedPartition {
                    tp: *tp,
                    error,
                    base: Offset::UNKNOWN,
                    log_start: Offset::UNKNOWN,
                    leader: self.leader_hint(*tp, error),
                };
                self.produced(token, answer, cx);
            }
        }
    }

    fn leader_hint(&self, tp: TopicPartition, error: ErrorCode) -> Option<(BrokerId, LeaderEpoch)> {
        let known = self.image.partition(tp).filter(|p| p.has_leader())?;
        (error == ErrorCode::NotLeaderOrFollower).then_some((known.leader, known.leader_epoch))
    }

    /// One partition of a produce request is decided; the last one sends the answer.
    pub(super) fn produced(&mut self, token: u64, answer: ProducedPartition, cx: &mut NodeCx<'_>) {
        let Some(pending) = self.produces.get_mut(&token) else { return };
        pending.done.push(answer);
        if pending.done.len() < pending.order.len() {
            return;
        }
        let mut pending = self.produces.remove(&token).expect("just seen");
        if pending.acks == 0 {
            // No answer; an error closes the connection, which is all that such a client is told.
            if pending.done.iter().any(|p| !p.error.is_ok()) {
                cx.close(pending.conn);
            }
            return;
        }
        let place = |tp| pending.order.iter().position(|o| *o == tp);
        pending.done.sort_by_key(|p| place(p.tp));
        let reply = ProduceReply { partitions: std::mem::take(&mut pending.done) };
        self.reply(pending.conn, pending.correlation, Reply::Produce(reply), cx);
    }

    fn fetch(&mut self, conn: ConnId, correlation: u32, r: &FetchRequest, cx: &mut NodeCx<'_>) {
        cx.work(self.config.times.request);
        self.next_token += 1;
        let token = self.next_token;
        self.fetch_tokens.insert(token, (conn, correlation));
        let reply = self.with_partitions(cx, |partitions, fetches, _, pcx| fetches.fetch(token, r, partitions, pcx));
        if let Some(reply) = reply {
            self.fetched(token, reply, cx);
        }
    }

    /// A fetch is answered.
    pub(super) fn fetched(&mut self, token: u64, reply: FetchReply, cx: &mut NodeCx<'_>) {
        if let Some((conn, correlation)) = self.fetch_tokens.remove(&token) {
            self.reply(conn, correlation, Reply::Fetch(reply), cx);
        }
    }

    fn expire_requests(&mut self, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        if self.produce_deadline <= now {
            self.with_partitions(cx, |partitions, _, _, pcx| {
                partitions.iter_mut().for_each(|p| p.expire(pcx));
            });
            self.produce_deadline = self.partitions.iter().filter_map(|p| p.deadline()).min().unwrap_or(Millis::MAX);
        }
        let answers = self.with_partitions(cx, |partitions, fetches, _, pcx| fetches.expire(partitions, pcx));
        for answer in answers {
            self.fetched(answer.token, answer.reply, cx);
        }
    }

    /// Metadata as this broker has it. A leader that is not alive here is LEADER_NOT_AVAILABLE
    /// (`KRaftMetadataCache.getPartitionMetadata`).
    fn metadata(&mut self, r: &MetadataRequest) -> MetadataReply {
        let brokers = self.image.brokers().filter(|(_, b)| !b.fenced).map(|(id, b)| BrokerInfo { id, addr: b.addr });
        let brokers = brokers.collect();
        let mut partitions = Vec::new();
        let mut unknown = Vec::new();
        let all: Vec<_> = match &r.topics {
            Some(topics) => topics.to_vec(),
            None => self.image.topics().map(|(id, _)| id).collect(),
        };
        for topic in all {
            let hidden = self.hide_topics || self.hides(topic);
            let Some(image) = self.image.topic(topic).filter(|_| !hidden) else {
                // Who asks for all topics is not told of one that does not exist.
                if r.topics.is_some() {
                    unknown.push(topic);
                }
                continue;
            };
            for (n, p) in image.partitions.iter().enumerate() {
                let alive = p.has_leader() && self.image.is_alive(p.leader);
                partitions.push(PartitionInfo {
                    tp: TopicPartition { topic, partition: n as u16 },
                    error: if alive { ErrorCode::None } else { ErrorCode::LeaderNotAvailable },
                    leader: if alive { p.leader } else { BrokerId::NONE },
                    epoch: p.leader_epoch,
                });
            }
        }
        MetadataReply { brokers, partitions: partitions.into(), unknown: unknown.into() }
    }

    /// Whether this answer leaves a topic out: that is counted.
    fn hides(&mut self, topic: TopicId) -> bool {
        let Some(answers) = self.hidden.get_mut(&topic) else { return false };
        *answers -= u32::from(*answers < u32::MAX);
        if *answers == 0 {
            self.hidden.remove(&topic);
        }
        true
    }

    fn list_offsets(&mut self, r: &ListOffsetsRequest) -> ListOffsetsReply {
        let partitions = r.partitions.iter().map(|(tp, spec, epoch)| {
            // A follower asks without isolation, and only the leader answers.
            let answer =
                self.partitions.get_or_error(*tp).and_then(|p| p.list_offset(*spec, r.isolation, *epoch, true));
            match answer {
                Ok((offset, epoch)) => (*tp, ErrorCode::None, offset, epoch),
                Err(error) => (*tp, error, Offset::UNKNOWN, LeaderEpoch::UNKNOWN),
            }
        });
        debug_assert!(matches!(r.isolation, Isolation::LogEnd | Isolation::HighWatermark | Isolation::Committed));
        ListOffsetsReply { partitions: partitions.collect() }
    }

    fn offsets_for_leader_epoch(&mut self, r: &OffsetsForLeaderEpochRequest) -> OffsetsForLeaderEpochReply {
        let partitions = r.partitions.iter().map(|(tp, epoch, current)| {
            let answer = self.partitions.get_or_error(*tp).and_then(|p| p.end_offset_for_epoch(*epoch, *current, true));
            match answer {
                Ok((epoch, end)) => (*tp, ErrorCode::None, epoch, end),
                Err(error) => (*tp, error, LeaderEpoch::UNKNOWN, Offset::UNKNOWN),
            }
        });
        OffsetsForLeaderEpochReply { partitions: partitions.collect() }
    }
}
