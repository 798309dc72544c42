//! Markers that arrive (`KafkaApis.handleWriteTxnMarkersRequest`): each goes to the partitions that this broker leads, with
//! acks=all; the answer leaves when every one is decided.

use super::{Node, NodeCx};
use crate::base::{Batch, ConnId, EventTime, Fix, Marker, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::broker_messages::BrokerReply;
use crate::kafka::coordinator::transaction::TxnMarkerEntry;
use crate::kafka::log::AppendOrigin;
use crate::kafka::messages::Reply;
use crate::kafka::partition::Produce;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
struct MarkerRequest {
    results: Vec<Vec<(TopicPartition, ErrorCode)>>,
    missing: usize,
}
/// Place of a partition's answer: request, marker, partition.
type Place = (u64, usize, usize);

/// Requests without an answer. They are numbered by their tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct MarkerRequests {
    requests: BTreeMap<u64, MarkerRequest>,
    appends: BTreeMap<u64, Place>,
    /// Decided, not answered yet.
    done: Vec<(u64, BrokerReply)>,
}
impl MarkerRequests {
    /// An append is decided; false if it was no marker's.
    pub(super) fn produced(&mut self, token: u64, error: ErrorCode) -> bool {
        let Some(place) = self.appends.remove(&token) else { return false };
        self.decided(place, error);
        true
    }
    fn decided(&mut self, (request, marker, partition): Place, error: ErrorCode) {
        let Some(r) = self.requests.get_mut(&request) else { return };
        r.results[marker][partition].1 = error;
        r.missing -= 1;
        if r.missing == 0
            && let Some(r) = self.requests.remove(&request)
        {
            self.done.push((request, BrokerReply::WriteTxnMarkers(r.results)));
        }
    }
}

impl Node {
    pub(super) fn write_txn_markers(
        &mut self,
        conn: ConnId,
        correlation: u32,
        markers: &[TxnMarkerEntry],
        cx: &mut NodeCx<'_>,
    ) {
        let request = self.channels.token(conn, correlation);
        let unknown = |tp: &TopicPartition| (*tp, ErrorCode::UnknownServerError);
        let results: Vec<Vec<_>> = markers.iter().map(|m| m.partitions.iter().map(unknown).collect()).collect();
        let missing = results.iter().map(Vec::len).sum();
        self.transactions.marker_requests.requests.insert(request, MarkerRequest { results, missing });
        for (m, marker) in markers.iter().enumerate() {
            let control = Marker { commit: marker.commit, coordinator_epoch: marker.coordinator_epoch };
            let batch = Arc::new(Batch::marker(marker.producer, marker.epoch, control, EventTime(cx.wall().0)));
            for (p, tp) in marker.partitions.iter().enumerate() {
                let place = (request, m, p);
                if !cx.fixes.has(Fix::ReplayedMarkerAccepted) && !self.has_open_transaction(*tp, marker.producer) {
                    self.transactions.marker_requests.decided(place, ErrorCode::InvalidTxnState);
                    continue;
                }
                let token = self.channels.own_token();
                self.transactions.marker_requests.appends.insert(token, place);
                let timeout = self.config.broker.transactions.request_timeout;
                let how = Produce {
                    origin: AppendOrigin::Coordinator,
                    transaction_version: marker.version as u8,
                    ..Produce::client(token, -1, timeout)
                };
                self.replicas.append(cx.millis(), &how, &[(*tp, Arc::clone(&batch))], &mut self.outputs);
            }
        }
    }
    fn has_open_transaction(&self, tp: TopicPartition, producer: ProducerId) -> bool {
        let Some(partition) = self.replicas.partitions().get(tp) else { return false };
        partition.log().producers().any(|(id, state)| id == producer && state.txn_start.is_some())
    }
    /// Answers the requests whose markers are all decided.
    pub(super) fn answer_markers(&mut self) {
        for (token, reply) in std::mem::take(&mut self.transactions.marker_requests.done) {
            if let Some((conn, correlation)) = self.channels.take(token) {
                self.answer_client(conn, correlation, Reply::Broker(reply));
            }
        }
    }
}
