//! Connections of one of this broker's threads to the listeners of other brokers (`InterBrokerSendThread`): one request at a
//! time on each, a fixed pause before the next connect.

use super::NodeCx;
use crate::base::{Addr, BrokerId, ConnEvent, ConnId, Millis, Port};
use crate::kafka::broker::link::{Link, LinkEvent};
use crate::kafka::broker_messages::BrokerRequest;
use crate::kafka::messages::Request;
use std::collections::BTreeMap;

/// `reconnect.backoff.ms` and its maximum, of these clients (T-30).
const RECONNECT_BACKOFF: Millis = Millis(50);

#[derive(Clone, Debug)]
struct BrokerLink {
    link: Link,
    /// No new connection before.
    not_before: Millis,
    /// A request that waits until then.
    held: Option<BrokerRequest>,
}

/// A connection to each broker that something was sent to.
#[derive(Clone, Debug)]
pub(super) struct BrokerLinks {
    port: Port,
    links: BTreeMap<BrokerId, BrokerLink>,
    correlation: u32,
}

impl BrokerLinks {
    /// Those of the thread of `port`.
    pub(super) fn new(port: Port) -> Self {
        Self { port, links: BTreeMap::new(), correlation: 0 }
    }
    /// Sends a request to a broker, which has none of this thread now.
    pub(super) fn send(
        &mut self,
        to: BrokerId,
        addr: Addr,
        request: BrokerRequest,
        timeout: Millis,
        cx: &mut NodeCx<'_>,
    ) {
        let port = self.port;
        let fresh = || BrokerLink { link: Link::new(port, addr, timeout), not_before: Millis::ZERO, held: None };
        let link = self.links.entry(to).or_insert_with(fresh);
        if cx.millis() < link.not_before {
            link.held = Some(request);
            return;
        }
        self.correlation += 1;
        link.link.send(self.correlation, Request::Broker(request), cx);
    }
    /// When [`expire`](Self::expire) has something to do.
    pub(super) fn deadline(&self) -> Millis {
        let one = |l: &BrokerLink| l.link.deadline().min(if l.held.is_some() { l.not_before } else { Millis::MAX });
        self.links.values().map(one).min().unwrap_or(Millis::MAX)
    }
    /// Gives up connections that take too long and those with a request that is not answered; gives their brokers. Sends what
    /// has waited long enough.
    pub(super) fn expire(&mut self, cx: &mut NodeCx<'_>) -> Vec<BrokerId> {
        let now = cx.millis();
        let mut lost = Vec::new();
        for (broker, l) in &mut self.links {
            if l.link.deadline() <= now && l.link.expire(cx) == LinkEvent::Lost {
                l.not_before = now + RECONNECT_BACKOFF;
                lost.push(*broker);
            }
            if l.not_before <= now
                && let Some(request) = l.held.take()
            {
                self.correlation += 1;
                l.link.send(self.correlation, Request::Broker(request), cx);
            }
        }
        lost
    }
    /// Something happened to a connection: gives the broker that is lost by it.
    pub(super) fn event(&mut self, conn: ConnId, event: ConnEvent, cx: &mut NodeCx<'_>) -> Option<BrokerId> {
        let now = cx.millis();
        let (broker, l) = self.links.iter_mut().find(|(_, l)| l.link.is(conn))?;
        if l.link.event(event, cx) == LinkEvent::None {
            return None;
        }
        l.not_before = now + RECONNECT_BACKOFF;
        Some(*broker)
    }
    /// An answer has come: gives the broker, if it is one waited for.
    pub(super) fn answered(&mut self, conn: ConnId, correlation: u32) -> Option<BrokerId> {
        let (broker, l) = self.links.iter_mut().find(|(_, l)| l.link.is(conn))?;
        l.link.answered(correlation).then_some(*broker)
    }
}
