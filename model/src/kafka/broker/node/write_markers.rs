//! Markers that arrive (`KafkaApis.handleWriteTxnMarkersRequest`): each goes to the partitions that this broker leads, with
//! acks=all; the answer leaves when every one is decided.

use super::{Node, NodeCx};
use crate::base::{Batch, ConnId, Event, EventTime, Fix, Marker, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::broker_messages::BrokerReply;
use crate::kafka::coordinator::transaction::TxnMarkerEntry;
use crate::kafka::log::AppendOrigin;
use crate::kafka::messages::Reply;
use crate::kafka::partition::Produce;
use std::sync::Arc;

impl Node {
    pub(super) fn write_txn_markers(
        &mut self,
        conn: ConnId,
        correlation: u32,
        markers: &[TxnMarkerEntry],
        cx: &mut NodeCx<'_>,
    ) {
        let request = self.channels.token(conn, correlation);
        self.transactions.marker_requests.begin(request, markers.iter().map(|m| &m.partitions));
        for (m, marker) in markers.iter().enumerate() {
            let control = Marker { commit: marker.commit, coordinator_epoch: marker.coordinator_epoch };
            let batch = Arc::new(Batch::marker(marker.producer, marker.epoch, control, EventTime(cx.wall().0)));
            for (p, tp) in marker.partitions.iter().enumerate() {
                if !cx.fixes.has(Fix::ReplayedMarkerAccepted) && !self.has_open_transaction(*tp, marker.producer) {
                    self.transactions.marker_requests.decided(request, m, p, ErrorCode::InvalidTxnState);
                    continue;
                }
                let token = self.channels.own_token();
                self.transactions.marker_appends.insert(token, (request, m, p));
                let how = Produce {
                    origin: AppendOrigin::Coordinator,
                    transaction_version: marker.version as u8,
                    ..Produce::client(token, -1, self.config.broker.transactions.request_timeout)
                };
                let (producer, epoch, commit) = (marker.producer, marker.epoch, marker.commit);
                cx.emit(Event::MarkerArrived { tp: *tp, producer, epoch, commit });
                self.replicas.append(cx.millis(), &how, &[(*tp, Arc::clone(&batch))], &mut self.outputs);
            }
        }
    }
    fn has_open_transaction(&self, tp: TopicPartition, producer: ProducerId) -> bool {
        let state = self.replicas.partitions().get(tp).and_then(|p| p.log().producer(producer));
        state.is_some_and(|state| state.txn_start.is_some())
    }
    /// Answers the requests whose markers are all decided.
    pub(super) fn answer_markers(&mut self) {
        for (token, results) in self.transactions.marker_requests.take_done() {
            if let Some((conn, correlation)) = self.channels.take(token) {
                self.answer_client(conn, correlation, Reply::Broker(BrokerReply::WriteTxnMarkers(results)));
            }
        }
    }
}
