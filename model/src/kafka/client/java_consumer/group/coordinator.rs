//! Where the coordinator is (`ensureCoordinatorReady`, `lookupCoordinator`).

use super::channel::{GroupNetwork, Outgoing, Purpose};
use super::{GroupError, GroupMember, Timer};
use crate::base::{BrokerId, Millis};
use crate::kafka::ErrorCode;
use crate::kafka::messages::Request;
use crate::kafka::txn_messages::{CoordinatorKey, CoordinatorReply, CoordinatorRequest};

/// The look-up. A result that nobody waited for stays until the next look-up takes it for its own: that one then asks nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Find {
    result: FindResult,
    /// A blocking call waits for the result.
    awaited: bool,
    attempts: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FindResult {
    #[default]
    No,
    Pending,
    Done(Result<(), GroupError>),
}

impl GroupMember {
    /// Whether the coordinator is unknown; it is where its connection has failed.
    pub(super) fn coordinator_unknown(&mut self, net: &impl GroupNetwork, now: Millis) -> bool {
        if self.coordinator.is_some_and(|node| net.unavailable(node, now)) {
            self.coordinator = None;
        }
        self.coordinator.is_none()
    }
    /// Whether a blocking call waits for the result of a look-up.
    pub(super) const fn is_awaited(&self) -> bool {
        self.find.awaited
    }
    /// An answer said that it is not the coordinator: its connection is ended.
    pub(super) fn mark_unknown(&mut self, net: &mut impl GroupNetwork, now: Millis) {
        if let Some(node) = self.coordinator.take() {
            net.disconnect(node, now);
        }
    }
    /// Looks the coordinator up, unless it is known, as long as the timer allows; true when it is known.
    pub(super) fn ensure_ready(&mut self, timer: Timer, net: &mut impl GroupNetwork) -> Result<bool, GroupError> {
        let now = timer.now;
        loop {
            if !self.find.awaited {
                if !self.coordinator_unknown(net, now) {
                    return Ok(true);
                }
                if now < self.asleep_until {
                    return Ok(false);
                }
                self.look_up(net, now);
            }
            self.turn(net, now);
            let result = match self.find.result {
                FindResult::Pending => {
                    self.find.awaited = !timer.expired();
                    return Ok(false);
                }
                FindResult::Done(result) => result,
                // No node to ask.
                FindResult::No => Err(GroupError::Disconnected),
            };
            self.find.awaited = false;
            self.find.result = FindResult::No;
            match result {
                Err(error) if !error.is_retriable() => return Err(error),
                Err(_) => {
                    self.back_off(timer);
                    net.request_update(now);
                }
                Ok(()) if self.coordinator.is_some_and(|node| net.unavailable(node, now)) => {
                    self.mark_unknown(net, now);
                    self.back_off(timer);
                }
                Ok(()) => {}
            }
            if timer.expired() || !self.coordinator_unknown(net, now) {
                return Ok(!self.coordinator_unknown(net, now));
            }
        }
    }
    fn back_off(&mut self, timer: Timer) {
        let wait = self.config.backoff.after(self.find.attempts, &mut self.dice);
        self.find.attempts += 1;
        self.asleep_until = timer.sleep(wait);
    }
    /// Asks, unless it was asked already. False if there is nobody to ask.
    pub(super) fn look_up(&mut self, net: &mut impl GroupNetwork, now: Millis) -> bool {
        if self.find.result != FindResult::No {
            return true;
        }
        let Some(node) = net.least_loaded(now) else { return false };
        self.find.result = FindResult::Pending;
        let body = Request::Coordinator(CoordinatorRequest::Find(CoordinatorKey::Group(self.config.group)));
        self.channel.send(node, Outgoing::Plain(body), Purpose::Find, now);
        true
    }
    /// Forgets the result of a look-up that failed, unless a call waits for it; true if there was one.
    pub(super) fn forget_failed_look_up(&mut self) -> bool {
        let failed = !self.find.awaited && matches!(self.find.result, FindResult::Done(Err(_)));
        if failed {
            self.find.result = FindResult::No;
        }
        failed
    }
    /// The result of the look-up as it stands.
    pub(super) const fn found_result(&self) -> Option<Result<(), GroupError>> {
        match self.find.result {
            FindResult::Done(result) => Some(result),
            _ => None,
        }
    }
    pub(super) fn on_found(&mut self, reply: &CoordinatorReply, net: &mut impl GroupNetwork, now: Millis) {
        let result = match reply {
            CoordinatorReply::Find { error: ErrorCode::None, node, addr } => {
                let own = BrokerId(i32::MAX - node.0);
                if let Some(addr) = addr {
                    net.learn_addr(own, *addr);
                }
                self.coordinator = Some(own);
                self.find.attempts = 0;
                net.ready(own, now);
                self.heartbeat.reset_session(now);
                Ok(())
            }
            CoordinatorReply::Find { error, .. } => Err(GroupError::Code(*error)),
            _ => Err(GroupError::Unexpected(ErrorCode::UnknownServerError)),
        };
        self.found(result, net, now);
    }
    pub(super) fn found(&mut self, result: Result<(), GroupError>, net: &mut impl GroupNetwork, now: Millis) {
        self.find.result = FindResult::Done(result);
        self.commits_found(result, net, now);
    }
}
