//! Joining: JoinGroup, SyncGroup, and what becomes of the partitions (`rd_kafka_cgrp_join`, `rd_kafka_cgrp_handle_assignment`).

use super::{JoinState, Purpose, RdConsumer, RdMember};
use crate::base::{Millis, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::assignor::{Assignor, divide};
use crate::kafka::client::rdkafka::RdNetwork;
use crate::kafka::coordinator::group::Name;
use crate::kafka::coordinator::group::messages::{
    ConsumerSubscription, GroupRequest, JoinGroupReply, JoinGroupRequest, JoinProtocol, MemberAssignment,
    ProtocolMetadata, SyncGroupReply, SyncGroupRequest,
};
use crate::kafka::messages::Request;
use std::sync::Arc;

/// After a join that failed.
const JOIN_RETRY: Millis = Millis(1_000);

impl RdMember {
    pub(super) fn send_join(&mut self, now: Millis, net: &mut RdNetwork) {
        let cooperative = self.config.cooperative();
        let subscription = Arc::new(ConsumerSubscription {
            topics: self.config.topics.clone(),
            owned: if cooperative { self.owned.iter().copied().collect() } else { Vec::new() },
            generation: self.generation,
            user_data: None,
        });
        let protocol = |name: &Name| JoinProtocol {
            name: Arc::clone(name),
            metadata: ProtocolMetadata::Consumer(Arc::clone(&subscription)),
        };
        let body = GroupRequest::Join(JoinGroupRequest {
            group: self.config.group,
            member: Arc::clone(&self.member),
            instance: self.config.instance.clone(),
            client: Arc::clone(&self.config.client),
            session_timeout: self.config.session_timeout,
            rebalance_timeout: self.config.max_poll_interval,
            protocol_type: Name::from("consumer"),
            protocols: self.config.assignors.iter().map(protocol).collect(),
            // What librdkafka speaks at most.
            version: 5,
        });
        self.join = JoinState::WaitJoin;
        self.next_join = now + JOIN_RETRY;
        let body = Request::Group(Box::new(body));
        let timeout = body.least_timeout();
        let correlation = net.send_coordinator(body, timeout, now);
        self.in_flight.push((correlation, Purpose::Join));
    }
    /// The last try has failed: again, but not more often than once a second.
    pub(super) fn rejoin_after_error(&mut self, now: Millis) {
        if matches!(self.join, JoinState::WaitJoin | JoinState::WaitSync) {
            self.join = JoinState::Init;
            self.next_join = self.next_join.max(now);
        }
    }
    /// Joins at once.
    pub(super) fn rejoin(&mut self, now: Millis) {
        self.join = JoinState::Init;
        self.next_join = now;
    }
    pub(super) fn on_join(
        &mut self,
        reply: &JoinGroupReply,
        now: Millis,
        consumer: &mut RdConsumer,
        net: &mut RdNetwork,
    ) {
        use ErrorCode as E;
        if self.join != JoinState::WaitJoin {
            return;
        }
        match reply.error {
            E::None => {
                self.generation = reply.generation;
                self.member = reply.member.clone().unwrap_or_else(|| Name::from(""));
                self.protocol.clone_from(&reply.protocol);
                self.alive(now);
                let leads = reply.leader.as_ref() == Some(&self.member);
                let assignments = if leads { self.divide(reply) } else { Vec::new() };
                self.send_sync(assignments, now, net);
            }
            E::MemberIdRequired => {
                self.member = reply.member.clone().unwrap_or_else(|| Name::from(""));
                self.rejoin(now);
            }
            error => self.refused(error, now, consumer, net),
        }
    }
    /// What JoinGroup and SyncGroup are refused with alike.
    fn refused(&mut self, error: ErrorCode, now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        use ErrorCode as E;
        match error {
            E::UnknownMemberId => {
                self.member = Name::from("");
                self.rejoin_after_error(now);
            }
            E::IllegalGeneration => {
                self.generation = -1;
                self.rejoin_after_error(now);
            }
            E::CoordinatorNotAvailable | E::NotCoordinator => {
                self.coordinator_dead(now, net);
                self.rejoin_after_error(now);
            }
            E::FencedInstanceId => self.fenced(now, consumer, net),
            // The configuration is wrong: it is shown to the application, and tried again.
            _ => self.rejoin_after_error(now),
        }
    }
    /// Another member has the instance id (KIP-345): the client is fatal.
    pub(super) fn fenced(&mut self, now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        self.fatal = true;
        self.join = JoinState::Left;
        self.give_up_all(true, now, consumer, net);
    }
    fn divide(&mut self, reply: &JoinGroupReply) -> Vec<(Name, MemberAssignment)> {
        let protocol = self.protocol.clone().unwrap_or_else(|| Name::from(""));
        if self.assignor.as_ref().is_none_or(|a| a.name() != &*protocol) {
            self.assignor = Assignor::named(&protocol, self.fixes);
        }
        let Some(assignor) = &mut self.assignor else { return Vec::new() };
        divide(assignor, &reply.members, self.config.partitions.iter().copied(), &self.config.topic_names)
    }
    fn send_sync(&mut self, assignments: Vec<(Name, MemberAssignment)>, now: Millis, net: &mut RdNetwork) {
        self.join = JoinState::WaitSync;
        let body = GroupRequest::Sync(SyncGroupRequest {
            group: self.config.group,
            member: Arc::clone(&self.member),
            instance: self.config.instance.clone(),
            generation: self.generation,
            protocol_type: None,
            protocol: None,
            assignments,
        });
        // It waits for the leader, as long as the session may last.
        let correlation = net.send_coordinator(Request::Group(Box::new(body)), self.config.session_timeout, now);
        self.in_flight.push((correlation, Purpose::Sync));
    }
    pub(super) fn on_sync(
        &mut self,
        reply: &SyncGroupReply,
        now: Millis,
        consumer: &mut RdConsumer,
        net: &mut RdNetwork,
    ) {
        use ErrorCode as E;
        if self.join != JoinState::WaitSync {
            return;
        }
        match reply.error {
            E::None => {
                let partitions = match &reply.assignment {
                    MemberAssignment::Partitions(list) => list.to_vec(),
                    MemberAssignment::Opaque(_) => Vec::new(),
                };
                self.alive(now);
                self.next_heartbeat = now + self.config.heartbeat_interval;
                self.assigned(&partitions, now, consumer, net);
            }
            E::RebalanceInProgress => self.rejoin(now),
            error => self.refused(error, now, consumer, net),
        }
    }
    /// The assignment of a generation. A cooperative member first gives up what it lost, and joins once more for that.
    fn assigned(&mut self, to: &[TopicPartition], now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        self.join = JoinState::Steady;
        let gone: Vec<_> = self.owned.iter().copied().filter(|tp| !to.contains(tp)).collect();
        let new: Vec<_> = to.iter().copied().filter(|tp| !self.owned.contains(tp)).collect();
        if !gone.is_empty() {
            self.give_up(&gone, false, now, consumer, net);
        }
        self.given(&new);
        if !gone.is_empty() {
            self.join = JoinState::WaitUnassign;
        }
    }
    /// A new round has begun: an eager member gives up all that it has, a cooperative one joins with it.
    pub(super) fn rebalance(&mut self, now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        if !self.config.cooperative() {
            self.give_up_all(false, now, consumer, net);
        }
        self.join = JoinState::WaitUnassign;
    }
    /// The membership is over, and what it owned may have another owner.
    pub(super) fn lost(&mut self, now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        self.give_up_all(true, now, consumer, net);
        self.rejoin(now);
    }
    /// What was given up is committed, or could not be: the next round.
    pub(super) fn finish_unassign(&mut self, now: Millis) {
        if self.join == JoinState::WaitUnassign && !self.has(|p| matches!(p, Purpose::Commit(_))) {
            if self.commits.closing {
                self.join = JoinState::Left;
            } else {
                self.rejoin(now);
            }
        }
    }
}
