//! Where the coordinator is: a logical connection that is bound anew by FindCoordinator (K-22, K-24, K-26).

use super::{Purpose, RdMember};
use crate::base::Millis;
use crate::kafka::ErrorCode;
use crate::kafka::client::rdkafka::{CoordinatorNews, RdNetwork};
use crate::kafka::client::{Network, Outcome};
use crate::kafka::messages::{Reply, Request};
use crate::kafka::txn_messages::{CoordinatorKey, CoordinatorReply, CoordinatorRequest};

/// After a failed connection, and after an answer that says that it is another.
const QUERY_DELAY: Millis = Millis(500);
/// `coordinator.query.interval.ms`.
const QUERY_INTERVAL: Millis = Millis(600_000);

/// When it is asked for next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coordinator {
    query: Millis,
    asking: bool,
}
impl Coordinator {
    pub(super) const fn new(now: Millis) -> Self {
        Self { query: now, asking: false }
    }
    pub(super) const fn deadline(&self) -> Millis {
        if self.asking { Millis::MAX } else { self.query }
    }
    fn query(&mut self, at: Millis) {
        self.query = self.query.min(at);
    }
}

impl RdMember {
    pub(super) fn look_for_coordinator(&mut self, now: Millis, net: &mut RdNetwork) {
        for news in net.coordinator_news() {
            let (CoordinatorNews::Down | CoordinatorNews::Decommissioned) = news;
            self.coordinator.query(now + QUERY_DELAY);
        }
        if self.coordinator.asking || now < self.coordinator.query {
            return;
        }
        // Without any broker it is asked again when there is one.
        let Some(node) = net.least_loaded(now) else {
            self.coordinator.query = now + QUERY_DELAY;
            return;
        };
        let body = Request::Coordinator(CoordinatorRequest::Find(CoordinatorKey::Group(self.config.group)));
        let correlation = net.send(node, body, true, now);
        self.in_flight.push((correlation, Purpose::Find));
        self.coordinator.asking = true;
        // While it is down it is asked for ten times as often.
        let interval = if net.coordinator_up() { QUERY_INTERVAL } else { Millis(QUERY_INTERVAL.0 / 10) };
        self.coordinator.query = now + interval;
    }
    pub(super) fn on_found(&mut self, outcome: &Outcome, now: Millis, net: &mut RdNetwork) {
        self.coordinator.asking = false;
        match outcome {
            Outcome::Reply(Reply::Coordinator(CoordinatorReply::Find {
                error: ErrorCode::None,
                node,
                addr: Some(addr),
            })) => net.bind_coordinator(Some((*node, *addr)), now),
            _ => self.coordinator.query(now + QUERY_DELAY),
        }
    }
    /// An answer says that it is another (`rd_kafka_cgrp_coord_dead`).
    pub(super) fn coordinator_dead(&mut self, now: Millis, net: &mut RdNetwork) {
        net.bind_coordinator(None, now);
        self.coordinator.query(now + QUERY_DELAY);
    }
}
