//! Requests of a member that wait for their connection or their answer (`ConsumerNetworkClient`).

use super::commit::CommitOwner;
use super::state::{Generation, GroupError};
use crate::base::{BrokerId, Millis, Offset, TopicPartition};
use crate::kafka::client::Network;
use crate::kafka::client::java::NetworkClient;
use crate::kafka::coordinator::group::messages::GroupRequest;
use crate::kafka::messages::Request;
use std::collections::VecDeque;

/// Connections as a member uses them: those of [`Network`], and one of its own to the coordinator, whose id is that of no
/// broker.
pub trait GroupNetwork: Network {
    /// Sends to a node that is ready; gives the correlation id.
    fn send_group(&mut self, node: BrokerId, body: GroupRequest, now: Millis) -> u32;
    /// Ends the connection to a node: what is in flight there is lost (`disconnectAsync`).
    fn disconnect(&mut self, node: BrokerId, now: Millis);
}

impl GroupNetwork for NetworkClient {
    fn send_group(&mut self, node: BrokerId, body: GroupRequest, now: Millis) -> u32 {
        self.send(node, Request::Group(Box::new(body)), true, now)
    }
    fn disconnect(&mut self, node: BrokerId, now: Millis) {
        Self::disconnect(self, node, now);
    }
}

/// What a request was sent for.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// FindCoordinator.
    Find,
    /// JoinGroup, by the member of that generation.
    Join(Generation),
    /// SyncGroup, likewise.
    Sync(Generation),
    /// Heartbeat, likewise.
    Heartbeat(Generation),
    /// OffsetCommit, likewise, for whom, and of what.
    Commit(Generation, CommitOwner, Vec<(TopicPartition, Offset)>),
    /// OffsetFetch.
    Committed,
    /// LeaveGroup.
    Leave,
}

/// A request on its way out.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// To any broker.
    Plain(Request),
    /// To the coordinator.
    Group(GroupRequest),
}

#[derive(Clone, Debug)]
struct Unsent {
    node: BrokerId,
    body: Outgoing,
    purpose: Purpose,
    since: Millis,
}

/// The requests.
#[derive(Clone, Debug, Default)]
pub struct Channel {
    unsent: VecDeque<Unsent>,
    in_flight: Vec<(BrokerId, u32, Purpose)>,
}

impl Channel {
    /// Queues a request; it leaves at the next [`Channel::try_send`] that finds the node ready.
    pub fn send(&mut self, node: BrokerId, body: Outgoing, purpose: Purpose, now: Millis) {
        self.unsent.push_back(Unsent { node, body, purpose, since: now });
    }
    /// Sends what can be sent, in order for each node.
    pub fn try_send(&mut self, net: &mut impl GroupNetwork, now: Millis) {
        let mut blocked: Vec<BrokerId> = Vec::new();
        for request in std::mem::take(&mut self.unsent) {
            let node = request.node;
            if blocked.contains(&node) || !net.ready(node, now) {
                blocked.push(node);
                self.unsent.push_back(request);
                continue;
            }
            let correlation = match request.body {
                Outgoing::Plain(body) => net.send(node, body, true, now),
                Outgoing::Group(body) => net.send_group(node, body, now),
            };
            self.in_flight.push((node, correlation, request.purpose));
        }
    }
    /// Takes back unsent requests whose connection attempt failed, or that waited `timeout` (`checkDisconnects`,
    /// `failExpiredRequests`).
    pub fn failed(&mut self, timeout: Millis, net: &impl GroupNetwork, now: Millis) -> Vec<(Purpose, GroupError)> {
        let mut failed = Vec::new();
        for request in std::mem::take(&mut self.unsent) {
            if net.unavailable(request.node, now) {
                failed.push((request.purpose, GroupError::Disconnected));
            } else if now - request.since > timeout {
                failed.push((request.purpose, GroupError::TimedOut));
            } else {
                self.unsent.push_back(request);
            }
        }
        failed
    }
    /// What an ended request was for; `None` if it is not one of this member.
    pub fn complete(&mut self, node: BrokerId, correlation: u32) -> Option<Purpose> {
        let at = self.in_flight.iter().position(|(n, c, _)| (*n, *c) == (node, correlation))?;
        Some(self.in_flight.remove(at).2)
    }
    /// Time until an unsent request may leave.
    pub fn delay(&self, net: &impl GroupNetwork, now: Millis) -> Millis {
        self.unsent.iter().map(|r| net.poll_delay(r.node, now)).min().unwrap_or(Millis::MAX)
    }
}
