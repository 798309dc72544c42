//! When a client asks for metadata, and what it does without (`NetworkClient.DefaultMetadataUpdater`).

use super::{NetworkClient, Polled, Purpose};
use crate::base::{Addr, BrokerId, Millis};
use crate::kafka::client::Lost;
use crate::kafka::client::java::connection_states::ConnectionState;
use crate::kafka::messages::Request;

impl NetworkClient {
    /// Sends a metadata request if one is due and a node can take it; gives the time until the next look.
    pub(super) fn maybe_update(&mut self, now: Millis) -> Millis {
        let wait = self.metadata.time_to_next_update(now);
        let wait = if self.update.is_some() { wait.max(self.config.request_timeout) } else { wait };
        if wait > Millis::ZERO {
            return wait;
        }
        self.attempts_since.get_or_insert(now);
        let (mut node, usable) = self.least_loaded_node(now);
        if !usable && self.config.rebootstrap_trigger.is_some() {
            self.rebootstrap(now);
            node = self.least_loaded_node(now).0;
        }
        let Some(node) = node else { return self.config.reconnect_backoff };
        if self.can_send(node) {
            let (request, update) = self.metadata.request(now);
            self.update = Some(update);
            self.push_request(node, Request::Metadata(request), Purpose::Metadata, now);
            return self.config.request_timeout;
        }
        // While any connection attempt is pending no second one is begun for metadata (K-3).
        let connecting = |(n, _): &(BrokerId, Addr)| self.states.state(*n) == ConnectionState::Connecting;
        if self.metadata.nodes().iter().any(connecting) {
            return self.config.reconnect_backoff;
        }
        if self.states.can_connect(node, now) {
            self.connect(node, now);
            return self.config.reconnect_backoff;
        }
        Millis::MAX
    }
    pub(super) fn rebootstrap(&mut self, now: Millis) {
        self.metadata.rebootstrap();
        self.attempts_since = Some(now);
    }
    /// No metadata for longer than the trigger (strictly): all connections are closed, the bootstrap list is next (K-4).
    pub(super) fn maybe_rebootstrap(&mut self, now: Millis, polled: &mut Polled) {
        let (Some(since), Some(trigger)) = (self.attempts_since, self.config.rebootstrap_trigger) else { return };
        if now - since <= trigger {
            return;
        }
        for (node, _) in self.metadata.nodes().to_vec() {
            self.close(node);
            if self.states.state(node) != ConnectionState::Disconnected {
                self.disconnected(node, Lost::Disconnected, now, polled);
            }
        }
        self.rebootstrap(now);
        polled.moved = true;
    }
}
