//! Heartbeats (`Heartbeat`, `HeartbeatThread`): sent by a thread of their own; what they find out is acted upon by the next
//! poll.

use super::channel::{GroupNetwork, Outgoing, Purpose};
use super::{Generation, GroupConfig, GroupError, GroupEvent, GroupMember, MemberState};
use crate::base::Millis;
use crate::kafka::ErrorCode;
use crate::kafka::coordinator::group::messages::{GroupRequest, HeartbeatRequest};
use std::sync::Arc;

/// The clocks of a membership.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    enabled: bool,
    in_flight: bool,
    /// The next one leaves.
    next: Millis,
    /// Since when the coordinator is silent.
    session: Millis,
    /// When the application polled last.
    polled: Millis,
    failures: u32,
    failure: Option<GroupError>,
    now: Millis,
    /// The thread waits: it looks for the coordinator from time to time.
    asleep_until: Millis,
}

impl Heartbeat {
    /// Of a member that has not joined.
    pub const fn new(now: Millis) -> Self {
        Self {
            enabled: false,
            in_flight: false,
            next: now,
            session: now,
            polled: now,
            failures: 0,
            failure: None,
            now,
            asleep_until: now,
        }
    }
    /// The application polls; a failure of the thread is thrown here.
    pub(super) const fn polled(&mut self, now: Millis) -> Result<(), GroupError> {
        self.polled = now;
        self.now = now;
        match self.failure.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
    pub(super) const fn now(&self) -> Millis {
        self.now
    }
    pub(super) const fn enable(&mut self, now: Millis) {
        if !self.enabled {
            self.enabled = true;
            self.session = now;
            self.polled = now;
            self.next = now;
        }
    }
    pub(super) const fn reset_session(&mut self, now: Millis) {
        self.session = now;
    }
    /// When the thread has something to do by the clock alone.
    pub(super) fn deadline(&self, config: &GroupConfig) -> Millis {
        if !self.enabled {
            return Millis::MAX;
        }
        let next = if self.in_flight { Millis::MAX } else { self.next };
        let due = next.min(self.session + config.session_timeout).min(self.polled + config.max_poll_interval);
        due.max(self.asleep_until)
    }
}

impl GroupMember {
    /// One turn of the heartbeat thread: beats when it is time, gives the coordinator up after `session.timeout.ms` of
    /// silence (K-30), and leaves when the application has not polled for `max.poll.interval.ms`.
    pub fn beat(&mut self, net: &mut impl GroupNetwork, now: Millis) {
        self.heartbeat.now = now;
        // Until JoinGroup is answered (`hasNotJoinedGroup`).
        if matches!(self.state, MemberState::Unjoined | MemberState::PreparingRebalance) {
            self.heartbeat.enabled = false;
        }
        if !self.heartbeat.enabled || now < self.heartbeat.asleep_until {
            return;
        }
        if self.coordinator_unknown(net, now) {
            // A look-up that nobody waits for is forgotten when it has failed: the next round asks again.
            if !self.forget_failed_look_up() {
                self.look_up(net, now);
                self.turn(net, now);
            }
            self.heartbeat.asleep_until = now + self.config.retry_backoff;
        } else if now - self.heartbeat.session >= self.config.session_timeout {
            self.mark_unknown(net, now);
        } else if now - self.heartbeat.polled >= self.config.max_poll_interval {
            self.heartbeat.enabled = false;
            self.leave(net, now);
        } else if now >= self.heartbeat.next && !self.heartbeat.in_flight {
            self.send_heartbeat(net, now);
        }
    }
    /// When the heartbeat thread has something to do by the clock alone.
    pub fn beat_at(&self, now: Millis) -> Millis {
        self.heartbeat.deadline(&self.config).max(now + Millis(1))
    }
    /// Sends a heartbeat now.
    pub fn send_heartbeat(&mut self, net: &mut impl GroupNetwork, now: Millis) {
        let Some(node) = self.coordinator else { return };
        self.heartbeat.now = now;
        self.heartbeat.in_flight = true;
        self.heartbeat.next = now + self.config.heartbeat_interval;
        let body = GroupRequest::Heartbeat(HeartbeatRequest {
            group: self.config.group,
            member: Arc::clone(&self.generation.member),
            instance: self.config.instance.clone(),
            generation: self.generation.id,
        });
        self.channel.send(node, Outgoing::Group(body), Purpose::Heartbeat(self.generation.clone()), now);
        self.turn(net, now);
    }
    pub(super) fn on_heartbeat(
        &mut self,
        sent: &Generation,
        error: ErrorCode,
        net: &mut impl GroupNetwork,
        now: Millis,
    ) {
        use ErrorCode as E;
        let failed = Err(GroupError::Code(error));
        let result = match error {
            E::None => Ok(()),
            E::CoordinatorNotAvailable | E::NotCoordinator => {
                self.mark_unknown(net, now);
                failed
            }
            E::RebalanceInProgress if self.state == MemberState::Stable => {
                self.rejoin_needed = true;
                failed
            }
            E::IllegalGeneration | E::UnknownMemberId | E::FencedInstanceId if self.generation == *sent => {
                self.reset_and_rejoin(error != E::IllegalGeneration);
                failed
            }
            // Of a membership, or a rebalance, that is over already.
            E::RebalanceInProgress | E::IllegalGeneration | E::UnknownMemberId | E::FencedInstanceId => Ok(()),
            E::GroupAuthorizationFailed => failed,
            unexpected => Err(GroupError::Unexpected(unexpected)),
        };
        self.heartbeat_ended(result, now);
    }
    pub(super) fn heartbeat_ended(&mut self, result: Result<(), GroupError>, now: Millis) {
        let heartbeat = &mut self.heartbeat;
        heartbeat.in_flight = false;
        match result {
            // A rebalance shows that the coordinator lives and knows the member.
            Ok(()) | Err(GroupError::Code(ErrorCode::RebalanceInProgress)) => {
                heartbeat.session = now;
                heartbeat.failures = 0;
            }
            Err(error) => {
                heartbeat.next = now + self.config.backoff.after(heartbeat.failures, &mut self.dice);
                heartbeat.failures += 1;
                if error == GroupError::Code(ErrorCode::FencedInstanceId) {
                    heartbeat.failure = Some(error);
                }
            }
        }
        self.events.push(GroupEvent::Heartbeat(result));
    }
}
