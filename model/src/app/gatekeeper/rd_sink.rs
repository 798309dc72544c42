//! The producer of a gatekeeper whose library is librdkafka, as confluent-kafka wraps it.

use super::config::RdSide;
use super::sink::Ended;
use crate::base::{BrokerId, Cx, Input, Millis, Offset, Row, SimTime, Stream, TopicId, TopicPartition};
use crate::kafka::client::rdkafka::{
    Call, CallError, ProducerEvent, RdError, RdGroupMetadata, RdProducer, RdProducerClient, TxnState,
};
use crate::kafka::messages::Message;
use crate::kafka::txn_messages::TransactionalId;

/// The producer.
#[derive(Clone, Debug)]
pub(super) struct RdSink {
    client: RdProducerClient,
    side: RdSide,
    random: Stream,
    /// What the full queue has refused: the application's thread offers it again and does nothing else (`_QUEUE_FULL`).
    refused: Option<(TopicPartition, Row)>,
}

impl RdSink {
    pub(super) fn start<W>(side: &RdSide, id: TransactionalId, cx: &mut Cx<'_, Message, W>) -> Self {
        let config = (*side.config).clone().in_transactions(id);
        let (stream, random) = (cx.stream("client"), cx.stream("partitioner"));
        let producer = RdProducer::new(config, side.bootstrap.to_vec(), cx.fixes, stream, cx.millis());
        Self { client: RdProducerClient::new(producer), side: side.clone(), random, refused: None }
    }
    pub(super) fn input<W>(&mut self, input: Input<Message>, cx: &Cx<'_, Message, W>) -> bool {
        self.client.input(input, cx)
    }
    pub(super) fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.client.run(cx);
        if let Some((tp, row)) = self.refused.take() {
            self.offer(tp, row, cx.millis());
        }
    }
    pub(super) fn deadline(&self) -> Option<SimTime> {
        self.client.deadline()
    }
    pub(super) fn poll<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<Ended> {
        while let Some(event) = self.client.poll(cx) {
            return Some(match event {
                ProducerEvent::Delivered(d) if d.result.is_err() => Ended::SendFailed,
                // It does not block, and what it throws shows in the state.
                ProducerEvent::Called(Call::Begin | Call::Flush, _) => continue,
                ProducerEvent::Called(_, Ok(())) => Ended::Done,
                ProducerEvent::Called(_, Err(CallError { fatal: true, .. })) => Ended::Fatal,
                ProducerEvent::Called(_, Err(CallError { retriable: true, .. })) => Ended::Again,
                ProducerEvent::Called(_, Err(CallError { abort: true, .. })) => Ended::Abortable,
                // Neither flag: the application has no way on but a new instance.
                ProducerEvent::Called(..) => Ended::Fatal,
                _ => continue,
            });
        }
        None
    }
    pub(super) fn is_fatal(&self) -> bool {
        self.client.producer.fatal_error().is_some()
    }
    pub(super) fn lists(&self, node: BrokerId) -> bool {
        self.client.producer.lists(node)
    }
    pub(super) fn must_abort(&self) -> bool {
        self.client.producer.txn_state() == Some(TxnState::Abortable)
    }
    pub(super) fn is_blocked(&self) -> bool {
        self.refused.is_some()
    }

    /// With -1 init gives up after twice the transaction's timeout, send_offsets after its time, commit and abort do not (K-28).
    pub(super) fn init(&mut self, now: Millis) {
        let timeout = self.side.config.transaction_timeout;
        self.client.producer.call(Call::Init, now + timeout + timeout);
    }
    pub(super) fn begin(&mut self) -> bool {
        self.client.producer.call(Call::Begin, Millis::MAX);
        self.client.producer.txn_state() == Some(TxnState::InTransaction)
    }
    pub(super) fn send(&mut self, topic: TopicId, row: Row, now: Millis) {
        let known = self.side.partitions.iter().find(|(t, _)| *t == topic);
        let partitions = known.map_or(1, |(_, partitions)| *partitions);
        let partition = self.side.partitioner.choose(row.key, partitions, &mut self.random);
        self.offer(TopicPartition { topic, partition }, row, now);
    }
    fn offer(&mut self, tp: TopicPartition, row: Row, now: Millis) {
        // Any other refusal stands in the state: the transaction is to be aborted, or the instance is fatal.
        if self.client.producer.send(tp, row, now) == Err(RdError::QueueFull) {
            self.refused = Some((tp, row));
        }
    }
    pub(super) fn send_offsets(&mut self, group: RdGroupMetadata, offsets: Vec<(TopicPartition, Offset)>, now: Millis) {
        let deadline = now + self.side.config.transaction_timeout;
        self.client.producer.send_offsets(group, offsets, deadline);
    }
    pub(super) fn commit(&mut self) {
        self.client.producer.call(Call::Commit, Millis::MAX);
    }
    pub(super) fn abort(&mut self) {
        self.refused = None;
        self.client.producer.call(Call::Abort, Millis::MAX);
    }
    pub(super) fn close<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.client.close(cx);
    }
}
