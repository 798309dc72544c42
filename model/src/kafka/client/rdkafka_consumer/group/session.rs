//! Heartbeats and the end of a membership (`rd_kafka_cgrp_heartbeat`, K-30).

use super::{JoinState, Purpose, RdConsumer, RdMember};
use crate::base::Millis;
use crate::kafka::ErrorCode;
use crate::kafka::client::rdkafka::RdNetwork;
use crate::kafka::coordinator::group::Name;
use crate::kafka::coordinator::group::messages::{GroupRequest, HeartbeatRequest, LeaveGroupRequest};
use crate::kafka::messages::Request;
use std::sync::Arc;

impl RdMember {
    /// The coordinator has answered.
    pub(super) fn alive(&mut self, now: Millis) {
        self.session_until = now.saturating_add(self.config.session_timeout);
    }
    pub(super) fn send_heartbeat(&mut self, now: Millis, net: &mut RdNetwork) {
        if self.has(|p| matches!(p, Purpose::Heartbeat)) {
            return;
        }
        let body = GroupRequest::Heartbeat(HeartbeatRequest {
            group: self.config.group,
            member: Arc::clone(&self.member),
            instance: self.config.instance.clone(),
            generation: self.generation,
        });
        self.next_heartbeat = now + self.config.heartbeat_interval;
        let correlation = net.send_coordinator(Request::Group(Box::new(body)), self.config.session_timeout, now);
        self.in_flight.push((correlation, Purpose::Heartbeat));
    }
    pub(super) fn on_heartbeat(
        &mut self,
        error: ErrorCode,
        now: Millis,
        consumer: &mut RdConsumer,
        net: &mut RdNetwork,
    ) {
        use ErrorCode as E;
        if !matches!(self.join, JoinState::Steady | JoinState::WaitUnassign) {
            return;
        }
        match error {
            E::None => self.alive(now),
            E::RebalanceInProgress => {
                self.alive(now);
                match self.join {
                    JoinState::Steady if self.away => self.revoke_due = true,
                    JoinState::Steady => self.rebalance(now, consumer, net),
                    _ => {}
                }
            }
            E::UnknownMemberId => {
                self.member = Name::from("");
                self.lost(now, consumer, net);
            }
            E::IllegalGeneration => {
                self.generation = -1;
                self.lost(now, consumer, net);
            }
            E::FencedInstanceId => self.fenced(now, consumer, net),
            E::CoordinatorNotAvailable | E::NotCoordinator => self.coordinator_dead(now, net),
            _ => {}
        }
    }
    /// No answer for `session.timeout.ms`: the assignment is dropped without asking anybody (K-30).
    pub(super) fn check_session(&mut self, now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        if self.join == JoinState::Steady && now > self.session_until {
            self.member = Name::from("");
            self.lost(now, consumer, net);
        }
    }
    /// The application has worked for longer than `max.poll.interval.ms`: the member leaves, and joins when it is back.
    pub(super) fn check_poll_interval(&mut self, now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        let late = self.polled.is_some_and(|at| now - at > self.config.max_poll_interval);
        if late && self.join != JoinState::Left {
            self.leave(now, net);
            self.give_up_all(true, now, consumer, net);
            self.join = JoinState::Left;
        }
    }
    /// LeaveGroup, which a static member does not send when it only goes away for a while.
    pub(super) fn leave(&mut self, now: Millis, net: &mut RdNetwork) {
        if self.config.instance.is_none() && !self.member.is_empty() && net.coordinator_up() {
            let members = vec![(Arc::clone(&self.member), None)];
            let body = GroupRequest::Leave(LeaveGroupRequest { group: self.config.group, members });
            let correlation = net.send_coordinator(Request::Group(Box::new(body)), Millis::ZERO, now);
            self.in_flight.push((correlation, Purpose::Leave));
        }
        self.member = Name::from("");
        self.generation = -1;
    }
    /// `rd_kafka_consumer_close`: commits and gives up what it has, then leaves; over when [`RdMember::is_closed`].
    pub fn close(&mut self, now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        if !std::mem::replace(&mut self.commits.closing, true) {
            self.give_up_all(false, now, consumer, net);
            self.join = JoinState::WaitUnassign;
        }
    }
    /// Whether a close is over; the first to ask sends LeaveGroup.
    pub fn is_closed(&mut self, now: Millis, net: &mut RdNetwork) -> bool {
        let over = self.commits.closing && self.join == JoinState::Left;
        if over {
            self.leave(now, net);
        }
        over
    }
}
