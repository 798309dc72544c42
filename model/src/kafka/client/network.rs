//! What the layers above see of a client's connections.

use crate::base::{BrokerId, Millis};
use crate::kafka::messages::Request;

/// A client's connections, as producer and consumer use them (`KafkaClient`). The simulation has the modelled
/// `NetworkClient` behind it, recordings a mock with the same contract.
pub trait Network {
    /// Whether a request can leave to `node` now; begins to connect if it may (`NetworkClient.ready`).
    fn ready(&mut self, node: BrokerId, now: Millis) -> bool;
    /// Time until something can change for `node`: rest of its reconnect back-off, set-up timeout, or
    /// [`Millis::MAX`] (`NetworkClient.pollDelayMs`).
    fn poll_delay(&self, node: BrokerId, now: Millis) -> Millis;
    /// Disconnected and in its reconnect back-off (`ConsumerNetworkClient.isUnavailable`).
    fn unavailable(&self, node: BrokerId, now: Millis) -> bool;
    /// Sends to a node that is ready; gives the correlation id. `expects_reply` is false for acks=0.
    fn send(&mut self, node: BrokerId, body: Request, expects_reply: bool, now: Millis) -> u32;
    /// Requests in flight to `node`.
    fn in_flight(&self, node: BrokerId) -> usize;
    /// The node for a request that any broker can answer (`NetworkClient.leastLoadedNode`).
    fn least_loaded(&mut self, now: Millis) -> Option<BrokerId>;
    /// Asks for new metadata (`Metadata.requestUpdate`).
    fn request_update(&mut self, now: Millis);
}
