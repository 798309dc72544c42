//! What stands where the real client has its sockets (`Selector`): which channel a node has, and what came over it.

use crate::base::{BrokerId, ConnId, SmallMap};
use crate::kafka::messages::Reply;
use std::collections::VecDeque;

/// Something that came and that no poll has seen yet.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// An answer.
    Reply(BrokerId, u32, Reply),
    /// The connection was refused or ended.
    Gone(BrokerId),
    /// The connection is established.
    Up(BrokerId),
}

#[derive(Clone, Copy, Debug)]
struct Channel {
    number: u64,
    up: bool,
}

/// At most one channel for each node.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    channels: SmallMap<BrokerId, Channel>,
    /// Simulated connections by channel; outlives the channel until the connection is closed too.
    conns: SmallMap<u64, ConnId>,
    arrived: VecDeque<Arrival>,
    last: u64,
}

impl Selector {
    /// A new channel for `node`.
    pub fn open(&mut self, node: BrokerId) -> u64 {
        self.last += 1;
        self.channels.insert(node, Channel { number: self.last, up: false });
        self.last
    }
    /// Drops the channel of `node` and what came over it.
    pub fn close(&mut self, node: BrokerId) -> Option<u64> {
        self.arrived.retain(|a| !matches!(a, Arrival::Reply(n, ..) | Arrival::Gone(n) | Arrival::Up(n) if *n == node));
        self.channels.remove(node).map(|c| c.number)
    }
    /// Drops all channels; gives them with their nodes.
    pub fn close_all(&mut self) -> Vec<(BrokerId, u64)> {
        self.arrived.clear();
        std::mem::take(&mut self.channels).iter().map(|(node, c)| (node, c.number)).collect()
    }
    /// The channel of `node`.
    pub fn channel(&self, node: BrokerId) -> Option<u64> {
        self.channels.get(node).map(|c| c.number)
    }
    /// Whether the channel of `node` is established and nothing is known of its end (`isChannelReady`).
    pub fn is_up(&self, node: BrokerId) -> bool {
        self.channels.get(node).is_some_and(|c| c.up)
    }
    /// Gives a channel the simulated connection it runs over.
    pub fn bind(&mut self, channel: u64, conn: ConnId) {
        self.conns.insert(channel, conn);
    }
    /// The channel that runs over `conn`.
    pub fn channel_of(&self, conn: ConnId) -> Option<u64> {
        self.conns.iter().find(|(_, c)| **c == conn).map(|(channel, _)| channel)
    }
    /// The connection of a channel.
    pub fn conn_of(&self, channel: u64) -> Option<ConnId> {
        self.conns.get(channel).copied()
    }
    /// Forgets the connection of a channel.
    pub fn unbind(&mut self, channel: u64) -> Option<ConnId> {
        self.conns.remove(channel)
    }
    fn node_of(&self, channel: u64) -> Option<BrokerId> {
        self.channels.iter().find(|(_, c)| c.number == channel).map(|(node, _)| node)
    }
    /// A channel is established.
    pub fn up(&mut self, channel: u64) {
        let Some(node) = self.node_of(channel) else { return };
        if let Some(c) = self.channels.get_mut(node) {
            c.up = true;
        }
        self.arrived.push_back(Arrival::Up(node));
    }
    /// A channel is gone.
    pub fn closed(&mut self, channel: u64) {
        let Some(node) = self.node_of(channel) else { return };
        self.channels.remove(node);
        self.arrived.retain(|a| !matches!(a, Arrival::Up(n) if *n == node));
        self.arrived.push_back(Arrival::Gone(node));
    }
    /// An answer came over a channel.
    pub fn reply(&mut self, channel: u64, correlation: u32, body: Reply) {
        if let Some(node) = self.node_of(channel) {
            self.arrived.push_back(Arrival::Reply(node, correlation, body));
        }
    }
    /// The first arrival no poll has seen.
    pub fn arrival(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }
}
