//! One request in flight per node, with back-off after a failure (`RequestManager`).

use crate::base::{BrokerId, Millis, Stream};
use std::collections::BTreeMap;

/// What stands between this node and another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// A request is waiting for its answer.
    AwaitingResponse { correlation: u32, sent: Millis },
    /// The last request failed.
    BackingOff { since: Millis },
}

/// The requests in flight; a node that is not listed is ready.
#[derive(Clone, Debug)]
pub(super) struct RequestManager {
    connections: BTreeMap<BrokerId, Connection>,
    /// Whom to ask for the leader: the other voters.
    bootstrap: Vec<BrokerId>,
    retry_backoff: Millis,
    request_timeout: Millis,
}

impl RequestManager {
    pub(super) fn new(bootstrap: Vec<BrokerId>, retry_backoff: Millis, request_timeout: Millis) -> Self {
        Self { connections: BTreeMap::new(), bootstrap, retry_backoff, request_timeout }
    }

    /// The instant at which the connection is ready again by itself.
    fn until(&self, connection: Connection) -> Millis {
        match connection {
            Connection::AwaitingResponse { sent, .. } => sent + self.request_timeout,
            Connection::BackingOff { since } => since + self.retry_backoff,
        }
    }

    /// Forgets what has timed out or backed off for long enough.
    fn expire(&mut self, now: Millis) {
        let (backoff, timeout) = (self.retry_backoff, self.request_timeout);
        self.connections.retain(|_, connection| match connection {
            Connection::AwaitingResponse { sent, .. } => now < *sent + timeout,
            Connection::BackingOff { since } => now < *since + backoff,
        });
    }

    /// `None` if a request may be sent now, else when one may at the latest.
    pub(super) fn busy_until(&mut self, node: BrokerId, now: Millis) -> Option<Millis> {
        self.expire(now);
        self.connections.get(&node).map(|c| self.until(*c))
    }

    /// Whether the request in flight to `node` has had no answer for `controller.quorum.request.timeout.ms`.
    pub(super) fn timed_out(&self, node: BrokerId, now: Millis) -> bool {
        matches!(self.connections.get(&node), Some(c @ Connection::AwaitingResponse { .. }) if now >= self.until(*c))
    }
    pub(super) fn backing_off(&self, node: BrokerId, now: Millis) -> bool {
        matches!(self.connections.get(&node), Some(c @ Connection::BackingOff { .. }) if now < self.until(*c))
    }
    /// Whether any request is in flight; then no other fetch is sent.
    pub(super) fn any_in_flight(&mut self, now: Millis) -> bool {
        self.expire(now);
        self.connections.values().any(|c| matches!(c, Connection::AwaitingResponse { .. }))
    }

    /// A voter to ask for the leader, from a random start; none while a request is in flight.
    pub(super) fn ready_bootstrap(&mut self, now: Millis, random: &mut Stream) -> Option<BrokerId> {
        if self.bootstrap.is_empty() || self.any_in_flight(now) {
            return None;
        }
        let start = random.below(self.bootstrap.len() as u64) as usize;
        let (before, from) = self.bootstrap.split_at(start);
        from.iter().chain(before).copied().find(|node| !self.connections.contains_key(node))
    }
    /// When it is worth asking for [`RequestManager::ready_bootstrap`] again.
    pub(super) fn bootstrap_ready_at(&mut self, now: Millis) -> Millis {
        self.expire(now);
        let in_flight = |c: &&Connection| matches!(c, Connection::AwaitingResponse { .. });
        if let Some(c) = self.connections.values().find(in_flight) {
            return self.until(*c);
        }
        self.connections.values().map(|c| self.until(*c)).min().unwrap_or(Millis::MAX)
    }

    pub(super) fn sent(&mut self, node: BrokerId, correlation: u32, now: Millis) {
        self.connections.insert(node, Connection::AwaitingResponse { correlation, sent: now });
    }
    /// Whether the answer is still waited for.
    pub(super) fn expected(&self, node: BrokerId, correlation: u32) -> bool {
        matches!(self.connections.get(&node), Some(Connection::AwaitingResponse { correlation: c, .. }) if *c == correlation)
    }
    /// The answer was dealt with; a failed one makes the node back off.
    pub(super) fn answered(&mut self, node: BrokerId, correlation: u32, success: bool, now: Millis) {
        if self.expected(node, correlation) {
            if success {
                self.connections.remove(&node);
            } else {
                self.connections.insert(node, Connection::BackingOff { since: now });
            }
        }
    }
    /// The connection is gone: a request in flight has failed.
    pub(super) fn disconnected(&mut self, node: BrokerId, now: Millis) {
        if let Some(Connection::AwaitingResponse { .. }) = self.connections.get(&node) {
            self.connections.insert(node, Connection::BackingOff { since: now });
        }
    }
    pub(super) fn reset(&mut self, node: BrokerId) {
        self.connections.remove(&node);
    }
    /// A new role begins with a clean slate: answers to what the old one asked are ignored.
    pub(super) fn reset_all(&mut self) {
        self.connections.clear();
    }
}
