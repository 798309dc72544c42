//! The state of the connection to each node (`ClusterConnectionStates`), K-1.

use super::dice::{Backoff, Dice};
use crate::base::{Addr, BrokerId, Millis, SmallMap};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// None; a new attempt may begin when the reconnect back-off has passed.
    Disconnected,
    /// Begun, not established.
    Connecting,
    /// Established; the answer to ApiVersions is awaited.
    CheckingApiVersions,
    /// Requests may leave.
    Ready,
}

/// What is kept of one node. Growth of timeout and back-off is per node id: a bootstrap id and the broker behind it count
/// apart (recorded).
#[derive(Clone, Debug)]
struct NodeState {
    state: ConnectionState,
    addr: Addr,
    /// Begin of the last attempt, or the instant the connection was lost.
    last_attempt: Millis,
    failures: u32,
    setup_failures: u32,
    reconnect_backoff: Millis,
    setup_timeout: Millis,
}

/// Connections by node.
#[derive(Clone, Debug)]
pub struct ConnectionStates {
    nodes: SmallMap<BrokerId, NodeState>,
    /// Whether any may be connecting: else none can be late with it.
    any_connecting: bool,
    reconnect: Backoff,
    setup: Backoff,
}

impl ConnectionStates {
    /// No connection yet. `reconnect`: `reconnect.backoff.ms` to `.max.ms`; `setup`:
    /// `socket.connection.setup.timeout.ms` to `.max.ms`.
    pub const fn new(reconnect: Backoff, setup: Backoff) -> Self {
        Self { nodes: SmallMap::new(), any_connecting: false, reconnect, setup }
    }
    /// The state of `node`.
    pub fn state(&self, node: BrokerId) -> ConnectionState {
        self.nodes.get(node).map_or(ConnectionState::Disconnected, |n| n.state)
    }
    /// Whether a new attempt may begin.
    pub fn can_connect(&self, node: BrokerId, now: Millis) -> bool {
        self.nodes
            .get(node)
            .is_none_or(|n| n.state == ConnectionState::Disconnected && (now - n.last_attempt) >= n.reconnect_backoff)
    }
    /// Disconnected and inside the reconnect back-off (`isBlackedOut`).
    pub fn blacked_out(&self, node: BrokerId, now: Millis) -> bool {
        self.state(node) == ConnectionState::Disconnected && !self.can_connect(node, now)
    }
    /// Time until something can change (`connectionDelay`): for a connecting node the *whole* set-up timeout, wherever in it
    /// `now` lies.
    pub fn delay(&self, node: BrokerId, now: Millis) -> Millis {
        let Some(n) = self.nodes.get(node) else { return Millis::ZERO };
        match n.state {
            ConnectionState::Connecting => n.setup_timeout,
            ConnectionState::Disconnected => Millis((n.reconnect_backoff - (now - n.last_attempt)).0.max(0)),
            ConnectionState::CheckingApiVersions | ConnectionState::Ready => Millis::MAX,
        }
    }
    /// Begin of the last attempt or the last loss; zero if there was none.
    pub fn last_attempt(&self, node: BrokerId) -> Millis {
        self.nodes.get(node).map_or(Millis::ZERO, |n| n.last_attempt)
    }
    /// An attempt begins. Another address is another node: nothing is inherited.
    pub fn connecting(&mut self, node: BrokerId, addr: Addr, now: Millis, dice: &mut Dice) {
        self.any_connecting = true;
        match self.nodes.get_mut(node) {
            Some(n) if n.addr == addr => {
                n.state = ConnectionState::Connecting;
                n.last_attempt = now;
            }
            _ => {
                let fresh = NodeState {
                    state: ConnectionState::Connecting,
                    addr,
                    last_attempt: now,
                    failures: 0,
                    setup_failures: 0,
                    reconnect_backoff: self.reconnect.after(0, dice),
                    setup_timeout: self.setup.after(0, dice),
                };
                self.nodes.insert(node, fresh);
            }
        }
    }
    /// The connection is established.
    pub fn connected(&mut self, node: BrokerId, check_api_versions: bool, dice: &mut Dice) {
        let Some(n) = self.nodes.get_mut(node) else { return };
        if n.setup_failures > 0 {
            n.setup_failures = 0;
            n.setup_timeout = self.setup.after(0, dice);
        }
        if check_api_versions {
            n.state = ConnectionState::CheckingApiVersions;
        } else {
            self.ready(node, dice);
        }
    }
    /// Requests may leave; only now are failures forgotten.
    pub fn ready(&mut self, node: BrokerId, dice: &mut Dice) {
        let Some(n) = self.nodes.get_mut(node) else { return };
        n.state = ConnectionState::Ready;
        if n.failures > 0 {
            n.failures = 0;
            n.reconnect_backoff = self.reconnect.after(0, dice);
        }
    }
    /// The attempt failed or the connection was lost.
    pub fn disconnected(&mut self, node: BrokerId, now: Millis, dice: &mut Dice) {
        let Some(n) = self.nodes.get_mut(node) else { return };
        n.last_attempt = now;
        n.reconnect_backoff = self.reconnect.after(n.failures, dice);
        n.failures += 1;
        if n.state == ConnectionState::Connecting {
            n.setup_failures += 1;
            n.setup_timeout = self.setup.after(n.setup_failures, dice);
        } else if n.setup_failures > 0 {
            n.setup_failures = 0;
            n.setup_timeout = self.setup.after(0, dice);
        }
        n.state = ConnectionState::Disconnected;
    }
    /// Nodes that have been connecting for longer than their set-up timeout (strictly).
    pub fn setup_timed_out(&mut self, now: Millis) -> Vec<BrokerId> {
        self.any_connecting = self.any_connecting && self.connecting_nodes().next().is_some();
        if !self.any_connecting {
            return Vec::new();
        }
        self.connecting_nodes().filter(|(_, n)| now - n.last_attempt > n.setup_timeout).map(|(id, _)| id).collect()
    }
    /// First instant at which a set-up timeout can be noticed.
    pub fn next_setup_timeout(&self) -> Option<Millis> {
        self.connecting_nodes().map(|(_, n)| n.last_attempt + n.setup_timeout + Millis(1)).min()
    }
    fn connecting_nodes(&self) -> impl Iterator<Item = (BrokerId, &NodeState)> {
        self.nodes.iter().filter(|(_, n)| n.state == ConnectionState::Connecting)
    }
}
