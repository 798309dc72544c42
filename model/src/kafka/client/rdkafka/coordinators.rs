//! Coordinators of a producer: when librdkafka looks for them, and what an answer changes (K-22 to K-24, K-26).

use super::broker::{Handle, Role, State};
use super::errors::{RdError, TxnAction, TxnApi, group_action, retry_after, txn_action};
use super::metadata::Learned;
use super::partition::{Pid, retry_backoff};
use super::producer::{RdProducer, Tag};
use super::txn::{OffsetsCall, TxnState};
use crate::base::{BrokerId, Fix, Millis};
use crate::kafka::ErrorCode;
use crate::kafka::coordinator::group::messages::{GroupRequest, TxnOffsetCommitRequest};
use crate::kafka::messages::{Reply, Request};
use crate::kafka::txn_messages::{CoordinatorKey, CoordinatorReply, CoordinatorRequest, TransactionalId};

/// How often a look-up of the group's coordinator is repeated (`RD_KAFKA_REQUEST_DEFAULT_RETRIES`).
const GROUP_RETRIES: u32 = 2;
/// Delay of a coordinator look-up after its connection broke, an attempt failed, or it was decommissioned (K-22).
const QUERY_DELAY: Millis = Millis(500);

/// The coordinators a producer knows, and when it asks for them.
#[derive(Clone, Debug, Default)]
pub struct Coordinators {
    query: Option<Millis>,
    finding: bool,
    group: Group,
}

/// The group coordinator, as the cache of `send_offsets_to_transaction` has it.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    handle: Option<Handle>,
    /// Its broker went while nothing waited for it, and that was not noticed.
    dead: bool,
    asking: bool,
    not_before: Millis,
    tries: u32,
    /// The look-up is a repetition: what fails until `deaf` is not noticed.
    again: bool,
    deaf: Millis,
}

impl Coordinators {
    /// The transaction's is to be asked for at `at`, unless that is due anyway.
    pub fn query(&mut self, at: Millis) {
        if self.query.is_none() {
            self.query = Some(at);
        }
    }
    /// The group's is not the one that was cached.
    pub fn forget_group(&mut self) {
        self.group.handle = None;
        self.group.dead = false;
    }
    /// When something is due by time alone.
    pub fn deadline(&self) -> Millis {
        let group = if self.group.asking { Millis::MAX } else { self.group.not_before };
        let group = if group == Millis::ZERO { Millis::MAX } else { group };
        group.min(self.query.unwrap_or(Millis::MAX))
    }
}

impl RdProducer {
    /// Leaders may have moved: asks, unless an answer is awaited.
    pub(super) fn refresh_metadata(&mut self, now: Millis) {
        self.metadata.refresh(&mut self.net, &self.config, now);
    }
    pub(super) fn broker_up(&mut self, handle: Handle, now: Millis) {
        self.metadata.broker_up(handle, &mut self.net, &self.config, now);
    }
    /// A connection broke (`established`) or could not be made.
    pub(super) fn broker_down(&mut self, handle: Handle, established: bool, now: Millis) {
        if self.net.broker(handle).is_some_and(|b| b.role == Role::Coordinator) {
            self.coordinators.query(now + QUERY_DELAY);
        }
        if established {
            self.metadata.broker_down(&mut self.net, &self.config, now);
        } else if self.coordinators.group.handle == Some(handle) && self.coordinators.group.deaf <= now {
            // A failed attempt, and only that, makes send_offsets look the group's coordinator up again (K-26, R).
            self.coordinators.forget_group();
            self.coordinators.group.again = true;
        }
    }

    pub(super) fn metadata_answered(&mut self, handle: Handle, result: Result<Reply, RdError>, now: Millis) {
        let learned = self.metadata.answered(handle, result, &mut self.net, &self.config, now);
        let Some(Learned { gone, unknown }) = learned else { return };
        self.unauthorized.clear();
        for node in gone {
            self.decommissioned(node, now);
        }
        self.notice_gone_group(now);
        if !unknown.is_empty() && !self.fixes.has(Fix::SequenceSurvivesTopicLoss) {
            // Before 1.9.0 a topic that was missing for a moment lost its partition objects.
            let lost = self.partitions.values_mut().filter(|p| unknown.contains(&p.tp.topic));
            lost.for_each(super::partition::Partition::forget_numbering);
        }
    }
    /// A node is not in the metadata any more: its handle is gone, and with it the coordinator bound to it (K-22d).
    fn decommissioned(&mut self, node: BrokerId, now: Millis) {
        let bound = self.net.brokers.iter().find(|b| b.role == Role::Coordinator && b.bound == Some(node));
        if let Some(handle) = bound.map(|b| b.handle) {
            self.net.bind(handle, None, now, &self.config);
            self.coordinators.query(now + QUERY_DELAY);
        }
    }

    /// The broker of the group's coordinator is gone: not in the metadata any more, or dropped when all were down and the
    /// instance began again with `bootstrap.servers`. Noticed only while TxnOffsetCommit waits for it; else 2.16.0 keeps the
    /// dead handle (issue 5511).
    fn notice_gone_group(&mut self, now: Millis) {
        let group = &mut self.coordinators.group;
        if group.dead || group.handle.is_none_or(|handle| self.net.broker(handle).is_some()) {
            return;
        }
        let waits = self.txn.as_ref().is_some_and(|t| t.offsets.as_ref().is_some_and(|o| o.added));
        if !waits && !self.fixes.has(Fix::GoneGroupCoordinatorForgotten) {
            group.dead = true;
            return;
        }
        self.coordinators.forget_group();
        if let Some(txn) = &mut self.txn {
            txn.settled(TxnApi::TxnOffsetCommit, None, now, |_, _| Millis::ZERO);
        }
    }

    pub(super) fn cluster_due(&mut self, now: Millis) {
        if self.metadata.ticks(&mut self.net, now) {
            self.expire(now);
            if !self.unauthorized.is_empty() {
                self.refresh_metadata(now);
            }
            self.metadata.refresh_unavailable(&mut self.net, &self.config, now);
        }
        self.metadata.due(&mut self.net, &self.config, now);
        self.query_due(now);
        self.notice_gone_group(now);
    }

    // ---- the transaction coordinator

    fn query_due(&mut self, now: Millis) {
        if self.coordinators.query.is_none_or(|at| at > now) || self.coordinators.finding {
            return;
        }
        let Some(id) = self.txn.as_ref().map(|t| t.id) else { return };
        if let Some(handle) = self.net.any_up() {
            self.coordinators.query = None;
            self.coordinators.finding = true;
            let body = Request::Coordinator(CoordinatorRequest::Find(CoordinatorKey::Transaction(id)));
            self.net.send(handle, Tag::FindTransaction, body, now + self.config.socket_timeout());
        } else {
            self.metadata.demand_any(&mut self.net, &self.config, now);
            self.coordinators.query = Some(now + QUERY_DELAY);
        }
    }
    /// Answer to FindCoordinator for the transaction. The same node again changes nothing and schedules nothing: that is
    /// K-23's trap.
    pub(super) fn coordinator_found(&mut self, result: Result<Reply, RdError>, now: Millis) {
        self.coordinators.finding = false;
        let error = match result {
            Ok(Reply::Coordinator(CoordinatorReply::Find { error: ErrorCode::None, node, addr: Some(addr) })) => {
                let handle = self.net.coordinator(&self.config);
                self.net.bind(handle, Some((node, addr)), now, &self.config);
                return;
            }
            Ok(Reply::Coordinator(CoordinatorReply::Find { error, .. })) => RdError::Code(error),
            Ok(_) => RdError::Code(ErrorCode::UnknownServerError),
            Err(error) => error,
        };
        match txn_action(TxnApi::FindTransaction, error) {
            TxnAction::Fatal => self.raise_fatal(error),
            action => self.coordinators.query(now + retry_after(action)),
        }
    }
    /// An answer said that it is not the coordinator (K-22a).
    pub(super) fn forget_coordinator(&mut self, now: Millis) {
        let handle = self.net.coordinator(&self.config);
        self.net.bind(handle, None, now, &self.config);
        self.coordinators.query(now + QUERY_DELAY);
    }

    // ---- the group coordinator of send_offsets

    pub(super) fn offsets_due(&mut self, now: Millis) {
        let Some(txn) = &mut self.txn else { return };
        let Some(offsets) = txn.offsets.as_ref().filter(|o| o.added && txn.state == TxnState::InTransaction) else {
            return;
        };
        if txn.asking(TxnApi::TxnOffsetCommit) {
            return;
        }
        match self.coordinators.group.handle {
            // A handle that was decommissioned before the look-up is kept: the call never returns (issue 5511, K-26).
            Some(handle) => {
                if self.coordinators.group.not_before > now || txn.due_at(TxnApi::TxnOffsetCommit) > now {
                    return;
                }
                let Some(broker) = self.net.broker(handle) else { return };
                if broker.state != State::Up {
                    // It waits until the broker is up, without a limit of its own.
                    return self.net.ask(handle, false);
                }
                let Some((producer, epoch)) = self.pid() else { return };
                let Some(txn) = &mut self.txn else { return };
                let Some(o) = txn.offsets.as_ref() else { return };
                let request = offset_commit(txn.id, (producer, epoch), o);
                txn.sent(TxnApi::TxnOffsetCommit);
                let deadline = now + self.config.socket_timeout();
                self.net.send(handle, Tag::Txn(TxnApi::TxnOffsetCommit), request, deadline);
            }
            None if !self.coordinators.group.asking && self.coordinators.group.not_before <= now => {
                let group = offsets.group.group;
                let Some(handle) = self.net.any_up() else { return };
                self.coordinators.group.asking = true;
                let body = Request::Coordinator(CoordinatorRequest::Find(CoordinatorKey::Group(group)));
                self.net.send(handle, Tag::FindGroup, body, now + self.config.socket_timeout());
            }
            None => {}
        }
    }
    pub(super) fn group_found(&mut self, result: Result<Reply, RdError>, now: Millis) {
        self.coordinators.group.asking = false;
        self.coordinators.group.not_before = Millis::ZERO;
        if let Ok(Reply::Coordinator(CoordinatorReply::Find { error: ErrorCode::None, node, .. })) = result {
            self.coordinators.group.tries = 0;
            self.coordinators.group.handle = self.net.node(node).map(|b| b.handle);
            self.coordinators.group.dead = false;
            self.coordinators.group.deaf = if self.coordinators.group.again { now + QUERY_DELAY } else { Millis::ZERO };
            self.coordinators.group.again = false;
            return;
        }
        let error = match result {
            Ok(Reply::Coordinator(CoordinatorReply::Find { error, .. })) => RdError::Code(error),
            Ok(_) => RdError::Code(ErrorCode::UnknownServerError),
            Err(error) => error,
        };
        let shown = if let RdError::Code(code) = error { RdError::of(code) } else { error };
        let action = group_action(error);
        // A lost connection makes a request of its own; only answers use up the repetitions of one.
        let again = action == Some(TxnAction::Retry(100)) && error != RdError::Transport;
        self.coordinators.group.tries = if again { self.coordinators.group.tries + 1 } else { 0 };
        match action {
            // Nothing asks again.
            None => self.coordinators.group.asking = true,
            Some(_) if self.coordinators.group.tries > GROUP_RETRIES => self.coordinators.group.asking = true,
            Some(TxnAction::Retry(100)) => {
                let tries = self.coordinators.group.tries.max(1);
                let wait = retry_backoff(tries, &self.config, self.net.stream());
                self.coordinators.group.not_before = now + wait;
            }
            Some(TxnAction::Fatal) => self.raise_fatal(shown),
            Some(TxnAction::Abort) => self.fail_transaction(shown, false),
            Some(action) => self.coordinators.group.not_before = now + retry_after(action),
        }
    }
}

/// TxnOffsetCommit v3; where a member is named the group's coordinator fences it (KIP-447).
fn offset_commit(id: TransactionalId, (producer, epoch): Pid, call: &OffsetsCall) -> Request {
    let (of, offsets) = (&call.group, call.offsets.clone());
    let (group, generation) = (of.group, of.generation);
    if of.member.is_empty() {
        return Request::Coordinator(CoordinatorRequest::TxnOffsetCommit {
            id,
            producer,
            epoch,
            group,
            generation,
            offsets,
            v2: false,
        });
    }
    let (member, instance) = (of.member.clone(), of.instance.clone());
    Request::Group(Box::new(GroupRequest::TxnOffsetCommit(TxnOffsetCommitRequest {
        id,
        v2: false,
        group,
        producer,
        epoch,
        member,
        instance,
        generation,
        offsets,
    })))
}
