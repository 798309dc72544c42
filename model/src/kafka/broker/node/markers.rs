//! Markers on their way: the thread that sends WriteTxnMarkers (`TxnMarkerSenderThread`).

use super::{Node, NodeCx};
use crate::base::Input;
use crate::kafka::broker_messages::BrokerReply;
use crate::kafka::coordinator::transaction::TransactionCoordinator;
use crate::kafka::messages::{Message, Reply};

impl Node {
    pub(super) fn markers_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        if !self.phase.serves_requests() {
            return;
        }
        let mut lost = Vec::new();
        match input {
            Input::Wake => lost = self.transactions.marker_links.expire(cx),
            Input::Connection(conn, event) => lost.extend(self.transactions.marker_links.event(conn, event, cx)),
            Input::Message {
                conn,
                message: Message::Reply { correlation, body: Reply::Broker(BrokerReply::WriteTxnMarkers(results)) },
                ..
            } => {
                if let Some(broker) = self.transactions.marker_links.answered(conn, correlation) {
                    self.coordinate(cx, |c, step| c.markers_answered(broker, &results, step));
                }
            }
            _ => {}
        }
        for broker in lost {
            self.coordinate(cx, |c, step| c.markers_disconnected(broker, step));
        }
        if self.transactions.coordinator.marker_deadline() <= cx.millis() {
            self.coordinate(cx, TransactionCoordinator::marker_pass);
        }
    }
}
