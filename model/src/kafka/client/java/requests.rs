//! How requests to coordinators leave (`Sender.maybeSendAndPollTransactionalRequest`): one at a time, and the I/O thread itself
//! waits for connections and back-offs (K-5).

use super::batch::Failure;
use super::events::ProducerEvent;
use super::sender::{Pass, Sender};
use super::transaction::{Body, Destination, Handler, State};
use crate::base::{BrokerId, Millis};
use crate::kafka::ErrorCode;
use crate::kafka::client::{Completed, Network, Outcome};
use crate::kafka::coordinator::group::Name;
use crate::kafka::coordinator::group::messages::{GroupReply, GroupRequest, TxnOffsetCommitRequest};
use crate::kafka::messages::{InitProducerIdRequest, Reply, Request};
use crate::kafka::txn_messages::{CoordinatorReply, CoordinatorRequest};

/// Where the thread is held up.
#[derive(Clone, Debug)]
pub(super) enum Held {
    No,
    /// Waits for a connection: answers are processed, no batch is sent.
    Awaiting {
        node: BrokerId,
        since: Millis,
        handler: Handler,
    },
    /// Sleeps, then sends the request.
    BeforeRequest {
        node: BrokerId,
        until: Millis,
        handler: Handler,
    },
    /// Sleeps, then asks for metadata and begins again.
    BackingOff {
        until: Millis,
        handler: Handler,
    },
}

impl Sender {
    /// Goes on where the thread was held up; `None` if it was not.
    pub(super) fn held_pass(&mut self, net: &mut impl Network, now: Millis) -> Option<Pass> {
        match &self.held {
            Held::BeforeRequest { until, .. } | Held::BackingOff { until, .. } if now < *until => {
                return Some(Pass::Sleep(*until));
            }
            _ => {}
        }
        match std::mem::replace(&mut self.held, Held::No) {
            Held::No => None,
            Held::BeforeRequest { node, handler, .. } => Some(self.send_request(node, handler, net, now)),
            Held::BackingOff { handler, .. } => {
                net.request_update(now);
                if let Some(manager) = &mut self.manager {
                    manager.retry(handler);
                }
                Some(Pass::Again)
            }
            Held::Awaiting { node, since, handler } => {
                let left = since + self.config.request_timeout - now;
                if net.unavailable(node, now) || left <= Millis::ZERO {
                    Some(self.not_reached(handler, now))
                } else if net.ready(node, now) {
                    Some(self.reached(node, handler, net, now))
                } else {
                    self.held = Held::Awaiting { node, since, handler };
                    Some(Pass::Poll { timeout: left, sent: false })
                }
            }
        }
    }
    /// Sends the next request, if one is due; `None` if batches may be sent in this pass.
    pub(super) fn transactional_pass(&mut self, net: &mut impl Network, now: Millis) -> Option<Pass> {
        let manager = self.manager.as_mut()?;
        let backoff = self.config.retry_backoff;
        if manager.has_in_flight_request() {
            return Some(Pass::Poll { timeout: backoff, sent: false });
        }
        if matches!(manager.state(), State::AbortableError | State::Aborting) && self.accumulator.has_incomplete() {
            let why = manager.last_error().unwrap_or(Failure::Aborted);
            self.abort_undrained(why);
        }
        let manager = self.manager.as_mut()?;
        let handler = match manager.next_request(self.accumulator.has_incomplete()) {
            Ok(next) => next?,
            Err(_) => return Some(self.threw()),
        };
        let destination = handler.destination(manager.transactional().is_some());
        let any = destination == Destination::Any;
        let node = if any { net.least_loaded(now) } else { manager.target(destination) };
        Some(match node {
            Some(node) if net.ready(node, now) => self.reached(node, handler, net, now),
            Some(node) if !net.unavailable(node, now) => {
                self.held = Held::Awaiting { node, since: now, handler };
                Pass::Poll { timeout: self.config.request_timeout, sent: false }
            }
            None if any => {
                manager.retry(handler);
                Pass::Poll { timeout: backoff, sent: false }
            }
            _ => self.not_reached(handler, now),
        })
    }
    /// The I/O thread met an illegal move; it begins its next pass.
    pub(super) fn threw(&mut self) -> Pass {
        self.events.push(ProducerEvent::Threw);
        Pass::Again
    }
    /// A coordinator that cannot be reached is looked up at once; where any node would do, the thread sleeps first.
    fn not_reached(&mut self, handler: Handler, now: Millis) -> Pass {
        let Some(manager) = &mut self.manager else { return Pass::Again };
        let destination = handler.destination(manager.transactional().is_some());
        if destination == Destination::Any {
            let until = now + self.config.retry_backoff;
            self.held = Held::BackingOff { until, handler };
            return Pass::Sleep(until);
        }
        manager.look_up(destination);
        manager.retry(handler);
        Pass::Again
    }
    fn reached(&mut self, node: BrokerId, handler: Handler, net: &mut impl Network, now: Millis) -> Pass {
        let Some(manager) = &mut self.manager else { return Pass::Again };
        if handler.destination(manager.transactional().is_some()) == Destination::Transaction {
            manager.coordinator_reached();
        }
        if handler.retry {
            let backoff = self.config.retry_backoff;
            let until = now + handler.backoff.map_or(backoff, |b| b.min(backoff));
            self.held = Held::BeforeRequest { node, until, handler };
            return Pass::Sleep(until);
        }
        self.send_request(node, handler, net, now)
    }
    fn send_request(&mut self, node: BrokerId, handler: Handler, net: &mut impl Network, now: Millis) -> Pass {
        if let Some(manager) = &mut self.manager {
            let correlation = net.send(node, request(&handler.body, manager.transactional()), true, now);
            manager.sent(correlation, handler);
        }
        Pass::Poll { timeout: self.config.retry_backoff, sent: true }
    }
    /// Takes the end of a request to a coordinator; false if it was none.
    pub(super) fn coordinator_answered(&mut self, ended: &Completed, net: &mut impl Network) -> bool {
        let Some(manager) = &mut self.manager else { return false };
        let Some(handler) = manager.take_in_flight(ended.correlation) else { return false };
        let as_coordinator;
        let reply = match &ended.outcome {
            // Offsets of a member: the same answer in the group's own words.
            Outcome::Reply(Reply::Group(GroupReply::TxnOffsetCommit(_, errors))) => {
                as_coordinator = Reply::Coordinator(CoordinatorReply::TxnOffsetCommit(errors.clone()));
                Some(&as_coordinator)
            }
            Outcome::Reply(reply) => Some(reply),
            Outcome::Sent | Outcome::Lost(_) => None,
        };
        if let Some((api, error)) = reply.and_then(error_of) {
            self.events.push(ProducerEvent::ErrorAnswer { api, error, node: ended.node });
        }
        if let Some(Reply::Coordinator(CoordinatorReply::Find { node, addr: Some(addr), .. })) = reply {
            net.learn_addr(*node, *addr);
        }
        // The network client catches what an answer throws; the state shows it.
        let _ = manager.on_answer(handler, reply);
        true
    }
}

/// The request for the wire.
fn request(body: &Body, transactional: Option<super::Transactional>) -> Request {
    let Some(super::Transactional { id, timeout }) = transactional else {
        let none = super::ProducerIdAndEpoch::NONE;
        return Request::InitProducerId(InitProducerIdRequest { producer: none.id, epoch: none.epoch });
    };
    if let Body::CommitOffsets { producer: p, group, offsets, v2 } = body
        && !group.member.is_empty()
    {
        // A member is named: the group's coordinator fences it (KIP-447).
        return Request::Group(Box::new(GroupRequest::TxnOffsetCommit(TxnOffsetCommitRequest {
            id,
            v2: *v2,
            group: group.group,
            producer: p.id,
            epoch: p.epoch,
            member: Name::clone(&group.member),
            instance: group.instance.clone(),
            generation: group.generation,
            offsets: offsets.clone(),
        })));
    }
    Request::Coordinator(match body.clone() {
        Body::Find(key) => CoordinatorRequest::Find(key),
        Body::Init { producer: p, .. } => {
            CoordinatorRequest::InitProducerId { id, timeout, producer: p.id, epoch: p.epoch }
        }
        Body::AddPartitions(p, partitions) => {
            CoordinatorRequest::AddPartitions { id, producer: p.id, epoch: p.epoch, partitions, version: 3 }
        }
        Body::AddOffsets(p, group, _) => {
            CoordinatorRequest::AddOffsets { id, producer: p.id, epoch: p.epoch, group: group.group, version: 4 }
        }
        Body::CommitOffsets { producer: p, group, offsets, v2 } => CoordinatorRequest::TxnOffsetCommit {
            id,
            producer: p.id,
            epoch: p.epoch,
            group: group.group,
            generation: group.generation,
            offsets,
            v2,
        },
        Body::End { producer: p, commit, v2 } => {
            CoordinatorRequest::EndTxn { id, producer: p.id, epoch: p.epoch, commit, version: if v2 { 5 } else { 4 } }
        }
    })
}

/// Api key and error of an answer that is one.
fn error_of(reply: &Reply) -> Option<(u8, ErrorCode)> {
    let first = |list: &[(_, ErrorCode)]| list.iter().map(|(_, e)| *e).find(|e| !e.is_ok());
    let error = match reply {
        Reply::InitProducerId(r) => Some(r.error),
        Reply::Coordinator(r) => match r {
            CoordinatorReply::Find { error, .. }
            | CoordinatorReply::InitProducerId { error, .. }
            | CoordinatorReply::AddOffsets(error)
            | CoordinatorReply::EndTxn { error, .. } => Some(*error),
            CoordinatorReply::AddPartitions(list) | CoordinatorReply::TxnOffsetCommit(list) => first(list),
        },
        _ => None,
    };
    error.filter(|e| !e.is_ok()).map(|e| (reply.key(), e))
}
