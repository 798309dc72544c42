//! Markers on their way: the thread that sends WriteTxnMarkers (`TxnMarkerSenderThread`), a connection to each broker.

use super::config::TXN_MARKERS;
use super::{Node, NodeCx};
use crate::base::{Addr, BrokerId, ConnId, Input, Millis};
use crate::kafka::broker::link::{Link, LinkEvent};
use crate::kafka::broker_messages::{BrokerReply, BrokerRequest};
use crate::kafka::coordinator::transaction::{TransactionCoordinator, TxnMarkerEntry};
use crate::kafka::messages::{Message, Reply, Request};
use std::collections::BTreeMap;

/// `reconnect.backoff.ms` and its maximum, of this client (T-30).
const RECONNECT_BACKOFF: Millis = Millis(50);

#[derive(Clone, Debug)]
struct MarkerLink {
    link: Link,
    /// No new connection before.
    not_before: Millis,
    /// A request that waits until then.
    held: Option<Vec<TxnMarkerEntry>>,
}

/// A connection to each broker that markers were sent to.
#[derive(Clone, Debug, Default)]
pub(super) struct MarkerLinks {
    links: BTreeMap<BrokerId, MarkerLink>,
    correlation: u32,
}

impl MarkerLinks {
    /// Sends markers to a broker, which has no request of ours now.
    pub(super) fn send(
        &mut self,
        to: BrokerId,
        addr: Addr,
        markers: Vec<TxnMarkerEntry>,
        timeout: Millis,
        cx: &mut NodeCx<'_>,
    ) {
        let fresh = || MarkerLink { link: Link::new(TXN_MARKERS, addr, timeout), not_before: Millis::ZERO, held: None };
        let link = self.links.entry(to).or_insert_with(fresh);
        if cx.millis() < link.not_before {
            link.held = Some(markers);
            return;
        }
        self.correlation += 1;
        link.link.send(self.correlation, Request::Broker(BrokerRequest::WriteTxnMarkers(markers)), cx);
    }
    pub(super) fn deadline(&self) -> Millis {
        let one = |l: &MarkerLink| l.link.deadline().min(if l.held.is_some() { l.not_before } else { Millis::MAX });
        self.links.values().map(one).min().unwrap_or(Millis::MAX)
    }
    /// Connections that take too long, requests that are not answered: the brokers that are lost.
    fn expire(&mut self, cx: &mut NodeCx<'_>) -> Vec<BrokerId> {
        let now = cx.millis();
        let mut lost = Vec::new();
        for (broker, l) in &mut self.links {
            if l.link.deadline() <= now && l.link.expire(cx) == LinkEvent::Lost {
                l.not_before = now + RECONNECT_BACKOFF;
                lost.push(*broker);
            }
        }
        lost
    }
    /// Sends what has waited long enough.
    fn release(&mut self, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        for l in self.links.values_mut().filter(|l| l.not_before <= now) {
            if let Some(markers) = l.held.take() {
                self.correlation += 1;
                l.link.send(self.correlation, Request::Broker(BrokerRequest::WriteTxnMarkers(markers)), cx);
            }
        }
    }
    fn of(&mut self, conn: ConnId) -> Option<(BrokerId, &mut MarkerLink)> {
        self.links.iter_mut().find(|(_, l)| l.link.is(conn)).map(|(b, l)| (*b, l))
    }
}

impl Node {
    pub(super) fn markers_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        if !self.phase.serves_requests() {
            return;
        }
        let mut lost = Vec::new();
        match input {
            Input::Wake => {
                lost = self.transactions.links.expire(cx);
                self.transactions.links.release(cx);
            }
            Input::Connection(conn, event) => {
                let now = cx.millis();
                if let Some((broker, l)) = self.transactions.links.of(conn)
                    && l.link.event(event, cx) == LinkEvent::Lost
                {
                    l.not_before = now + RECONNECT_BACKOFF;
                    lost.push(broker);
                }
            }
            Input::Message {
                conn,
                message: Message::Reply { correlation, body: Reply::Broker(BrokerReply::WriteTxnMarkers(results)) },
                ..
            } => {
                if let Some((broker, l)) = self.transactions.links.of(conn)
                    && l.link.answered(correlation)
                {
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
