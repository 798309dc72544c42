//! The request handler of clients and followers (`KafkaApis`).

use super::{Node, NodeCx};
use crate::base::{ConnEvent, ConnId, Input, Nanos, ProducerEpoch, ProducerId};
use crate::kafka::ErrorCode;
use crate::kafka::broker_messages::BrokerRequest;
use crate::kafka::messages::{FinalizedFeatures, InitProducerIdReply, Message, Reply, Request};
use crate::registry::messages::RegistryReply;

impl Node {
    pub(super) fn broker_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        if !self.phase.serves_requests() {
            return;
        }
        match input {
            Input::Wake => {
                self.replicas.expire_requests(cx.millis(), &mut self.outputs);
                self.append_verified(cx);
                // One a step: its answer leaves before the same connection has another one.
                if let Some((conn, correlation, body)) = self.channels.next() {
                    self.request(conn, correlation, body, cx);
                }
            }
            Input::Message { conn, message: Message::Request { correlation, body }, .. } => {
                if let Some(body) = self.channels.arrived(conn, correlation, body) {
                    self.request(conn, correlation, body, cx);
                }
            }
            Input::Connection(conn, ConnEvent::Reset) => {
                // A produce goes on waiting, its answer goes nowhere.
                if let Some(token) = self.channels.gone(conn) {
                    self.replicas.cancel_fetch(token);
                }
            }
            _ => {}
        }
        self.after_replicas(cx);
    }

    fn request(&mut self, conn: ConnId, correlation: u32, body: Request, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        let times = self.config.times;
        self.work = self.work + times.request;
        let reply = match body {
            Request::Produce(r) => {
                let records: u64 = r.batches.iter().map(|(_, b)| u64::from(b.records)).sum();
                self.work = self.work + Nanos(times.record.0 * records);
                if r.transactional_id.is_some() {
                    return self.produce_transactional(conn, correlation, r, cx);
                }
                let token = self.channels.token(conn, correlation);
                self.replicas.produce(now, token, r.acks, r.timeout, &r.batches, &mut self.outputs);
                return;
            }
            Request::Fetch(r) => {
                let token = self.channels.token(conn, correlation);
                self.replicas.fetch(now, token, &r, &mut self.outputs);
                return;
            }
            // HTTP at a broker's port: what no broker understands.
            Request::Registry(_) => Reply::Registry(RegistryReply::refused(400, 0)),
            Request::ApiVersions => Reply::ApiVersions(Some(FinalizedFeatures {
                epoch: self.image.offset(),
                transaction_version: self.transaction_version() as u8,
            })),
            Request::Metadata(r) => Reply::Metadata(self.metadata(&r)),
            Request::ListOffsets(r) => Reply::ListOffsets(self.replicas.list_offsets(&r)),
            Request::OffsetsForLeaderEpoch(r) => {
                Reply::OffsetsForLeaderEpoch(self.replicas.offsets_for_leader_epoch(&r))
            }
            Request::InitProducerId(_) => Reply::InitProducerId(match self.take_producer_id(now) {
                Some(producer) => InitProducerIdReply { error: ErrorCode::None, producer, epoch: ProducerEpoch(0) },
                // No block at hand: the client asks again.
                None => InitProducerIdReply {
                    error: ErrorCode::CoordinatorLoadInProgress,
                    producer: ProducerId::NONE,
                    epoch: ProducerEpoch::NONE,
                },
            }),
            Request::Group(r) => return self.group_request(conn, correlation, &r, cx),
            Request::Coordinator(r) => return self.coordinator_request(conn, correlation, r, cx),
            Request::Broker(BrokerRequest::WriteTxnMarkers(markers)) => {
                return self.write_txn_markers(conn, correlation, &markers, cx);
            }
            Request::Broker(BrokerRequest::AddPartitionsToTxn(transactions)) => {
                return self.leader_request(conn, correlation, &transactions, cx);
            }
            // Not served on this listener: the connection is closed, as for any api that a listener does not expose.
            Request::Controller(_) | Request::Quorum(_) => {
                self.channels.gone(conn);
                cx.close(conn);
                return;
            }
        };
        self.answer_client(conn, correlation, reply);
    }
}
