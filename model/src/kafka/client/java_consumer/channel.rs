//! Requests that wait for their connection or for their answer (`ConsumerNetworkClient`).

use super::subscription::FetchPosition;
use crate::base::{BrokerId, Millis, TopicPartition};
use crate::kafka::client::{Completed, Network};
use crate::kafka::messages::{OffsetSpec, Request};
use std::collections::VecDeque;

/// What a request was sent for, with what its answer is judged by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Records.
    Fetch,
    /// Positions at one end of the log.
    Reset(Vec<(TopicPartition, OffsetSpec)>),
    /// Confirmation of positions.
    Validate(Vec<(TopicPartition, FetchPosition)>),
}

#[derive(Clone, Debug)]
struct Unsent {
    body: Request,
    purpose: Purpose,
    since: Millis,
}

/// The consumer's requests.
#[derive(Clone, Debug, Default)]
pub struct Channel {
    /// By node, in the order in which nodes were first given something.
    unsent: Vec<(BrokerId, VecDeque<Unsent>)>,
    /// Queues of nodes with nothing unsent, for the next.
    spare: Vec<VecDeque<Unsent>>,
    in_flight: Vec<(BrokerId, u32, Purpose)>,
}

impl Channel {
    /// Queues a request; it leaves at the next [`Channel::try_send`] that finds the node ready.
    pub fn send(&mut self, node: BrokerId, body: Request, purpose: Purpose, now: Millis) {
        let request = Unsent { body, purpose, since: now };
        match self.unsent.iter_mut().find(|(n, _)| *n == node) {
            Some((_, queue)) => queue.push_back(request),
            None => {
                let mut queue = self.spare.pop().unwrap_or_default();
                queue.push_back(request);
                self.unsent.push((node, queue));
            }
        }
    }
    fn put_by_empty(&mut self) {
        self.spare.extend(self.unsent.extract_if(.., |(_, queue)| queue.is_empty()).map(|(_, queue)| queue));
    }
    /// Sends what can be sent; gives the time until more can.
    pub fn try_send(&mut self, now: Millis, net: &mut impl Network) -> Millis {
        let mut delay = Millis::MAX;
        for (node, queue) in &mut self.unsent {
            if !queue.is_empty() {
                delay = delay.min(net.poll_delay(*node, now));
            }
            while !queue.is_empty() && net.ready(*node, now) {
                if let Some(Unsent { body, purpose, .. }) = queue.pop_front() {
                    let correlation = net.send(*node, body, true, now);
                    self.in_flight.push((*node, correlation, purpose));
                }
            }
        }
        self.put_by_empty();
        delay
    }
    /// Takes back unsent requests whose connection attempt failed, or that waited `timeout` (`checkDisconnects`,
    /// `failExpiredRequests`).
    pub fn failed(&mut self, now: Millis, timeout: Millis, net: &impl Network) -> Vec<(BrokerId, Purpose)> {
        let mut failed = Vec::new();
        for (node, queue) in &mut self.unsent {
            let all = net.unavailable(*node, now);
            while let Some(request) = queue.pop_front_if(|r| all || now - r.since > timeout) {
                failed.push((*node, request.purpose));
            }
        }
        self.put_by_empty();
        failed
    }
    /// What an ended request was for; `None` if it is not one of this consumer.
    pub fn complete(&mut self, done: &Completed) -> Option<Purpose> {
        let at = self.in_flight.iter().position(|(node, c, _)| (*node, *c) == (done.node, done.correlation))?;
        Some(self.in_flight.remove(at).2)
    }
    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }
    /// Time until an unsent request may leave.
    pub fn delay(&self, now: Millis, net: &impl Network) -> Millis {
        self.unsent.iter().map(|(node, _)| net.poll_delay(*node, now)).min().unwrap_or(Millis::MAX)
    }
}
