//! What the layers above see of a client's connections and of its metadata.

use super::{ClusterView, Leader};
use crate::base::{Addr, BrokerId, Millis, TopicPartition};
use crate::kafka::messages::{Reply, Request};

/// Why a request will get no answer (`ClientResponse.wasDisconnected`, `wasTimedOut`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its connection ended.
    Disconnected,
    /// It, or another request on its connection, was unanswered for longer than `request.timeout.ms`, so the client
    /// closed the connection (K-2).
    TimedOut,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was answered.
    Reply(Reply),
    /// It is on the wire and expects no answer (acks=0).
    Sent,
    /// It will never be answered; whether the broker has it is unknown.
    Lost(Lost),
}

/// A request that ended: what `KafkaClient.poll` gives back.
#[derive(Clone, Debug)]
pub struct Completed {
    /// The node it was sent to.
    pub node: BrokerId,
    /// What [`Network::send`] gave.
    pub correlation: u32,
    /// When it was sent.
    pub sent_at: Millis,
    /// How it ended.
    pub outcome: Outcome,
}

/// A client's connections, as producer and consumer use them (`KafkaClient`), with the metadata behind them
/// (`Metadata`). The simulation has the modelled `NetworkClient` behind it, recordings a mock with the same contract.
pub trait Network {
    /// Whether a request can leave to `node` now; begins to connect if it may (`NetworkClient.ready`). False while a
    /// metadata update is due: that goes first.
    fn ready(&mut self, node: BrokerId, now: Millis) -> bool;
    /// Time until something can change for `node`: rest of its reconnect back-off, the whole set-up timeout while it
    /// connects, or [`Millis::MAX`] (`NetworkClient.pollDelayMs`).
    fn poll_delay(&self, node: BrokerId, now: Millis) -> Millis;
    /// Disconnected and in its reconnect back-off (`ConsumerNetworkClient.isUnavailable`).
    fn unavailable(&self, node: BrokerId, now: Millis) -> bool;
    /// Sends to a node that is ready; gives the correlation id. `expects_reply` is false for acks=0.
    fn send(&mut self, node: BrokerId, body: Request, expects_reply: bool, now: Millis) -> u32;
    /// Requests in flight to `node`.
    fn in_flight(&self, node: BrokerId) -> usize;
    /// The node for a request that any broker can answer (`NetworkClient.leastLoadedNode`).
    fn least_loaded(&mut self, now: Millis) -> Option<BrokerId>;
    /// Asks for new metadata (`Metadata.requestUpdate(false)`); sent when its back-off allows.
    fn request_update(&mut self, now: Millis);
    /// Whether an update was asked for and has not come (`Metadata.updateRequested`).
    fn update_requested(&self) -> bool;
    /// Brokers and leaders as the client knows them (`Metadata.fetch`).
    fn view(&self) -> &ClusterView;
    /// Takes a leader from an error answer (KIP-951, `Metadata.updatePartitionLeadership`); true if it is newer than the
    /// one known.
    fn learn_leader(&mut self, tp: TopicPartition, leader: Leader) -> bool;
    /// A coordinator's answer named a node and its listener; metadata need not know it. Who asks for no coordinator needs
    /// none.
    fn learn_addr(&mut self, _node: BrokerId, _addr: Addr) {}
}
