//! A broker's side of registration, heartbeats and controlled shutdown (`BrokerLifecycleManager`).
//!
//! One request is under way at a time. After an answer the next one follows at once, or 10, 50 or
//! `broker.heartbeat.interval.ms` later, by the state; after a failure always the interval (measured: a registration is
//! refused every 2.0 s, kafka-measured.md 1.3 #6). Finding the controller and asking it again is the [`Channel`]'s part.

mod channel;
#[cfg(test)]
mod tests;

use crate::base::{Addr, BrokerEpoch, BrokerId, Incarnation, Millis, Offset};
use crate::kafka::ErrorCode;
use crate::kafka::controller::messages::{
    BrokerHeartbeatRequest, BrokerRegistrationRequest, ControllerReply, ControllerRequest,
};
pub use channel::{Channel, ChannelAction};

/// Where a broker stands in its life (`BrokerState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerState {
    /// Registers, then catches up with the metadata up to its own registration.
    Starting,
    /// Caught up; recovers its logs and waits to be unfenced.
    Recovery,
    /// Unfenced.
    Running,
    /// Waits for the controller's permission to go (L-24).
    PendingControlledShutdown,
    /// Sends nothing more.
    ShuttingDown,
}

/// Settings.
#[derive(Clone, Debug)]
pub struct LifecycleConfig {
    /// `node.id`.
    pub broker: BrokerId,
    /// Which start of the process.
    pub incarnation: Incarnation,
    /// Its client listener.
    pub addr: Addr,
    /// Epoch from the clean-shutdown marker; unknown if it did not shut down cleanly (L-22, L-23).
    pub previous_epoch: BrokerEpoch,
    /// `broker.heartbeat.interval.ms`, 2000.
    pub heartbeat_interval: Millis,
    /// `broker.session.timeout.ms`, 9000. A request that found no controller for half of it counts as failed (KAFKA-14392).
    pub session_timeout: Millis,
    /// `initial.broker.registration.timeout.ms`, 60000: a broker that is not registered by then gives up.
    pub initial_registration_timeout: Millis,
    /// How long `BrokerServer.shutdown` waits for the controller's permission, 5 minutes.
    pub controlled_shutdown_timeout: Millis,
}
impl LifecycleConfig {
    /// Kafka's defaults for a broker without a clean-shutdown marker.
    pub fn new(broker: BrokerId, incarnation: Incarnation, addr: Addr) -> Self {
        Self {
            broker,
            incarnation,
            addr,
            previous_epoch: BrokerEpoch::UNKNOWN,
            heartbeat_interval: Millis(2000),
            session_timeout: Millis(9000),
            initial_registration_timeout: Millis(60_000),
            controlled_shutdown_timeout: Millis::secs(300),
        }
    }
}

/// What the broker knows when an input arrives.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Leader of the metadata quorum, as the broker's own Raft member knows it ([`super::Raft::leader`]).
    pub controller: Option<BrokerId>,
    /// Offset of the last metadata record replayed.
    pub metadata_offset: Offset,
}

/// An effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifecycleOutput {
    /// Send to the controller `node`, on the connection of this channel. The answer comes back through
    /// [`BrokerLifecycle::reply`], a lost or refused connection through [`BrokerLifecycle::disconnected`].
    Send {
        /// To whom.
        node: BrokerId,
        /// What.
        request: ControllerRequest,
    },
    /// Close the connection to `node`: it is not the controller any more, or does not answer.
    Disconnect(BrokerId),
    /// Registered, with this epoch; fetches and heartbeats carry it.
    Registered(BrokerEpoch),
    /// Caught up with the metadata (`initialCatchUpFuture`): the broker loads its logs, if it has not yet, and calls
    /// [`BrokerLifecycle::ready_to_unfence`] when it can serve.
    CaughtUp,
    /// Unfenced for the first time (`initialUnfenceFuture`): it serves.
    Unfenced,
    /// Not registered within `initial.broker.registration.timeout.ms`: the broker gives up, [`Self::ShutDown`] follows
    /// (`RegistrationTimeoutEvent`).
    RegistrationTimedOut,
    /// No more heartbeats; the process may end. `permitted`: the controller has let it go, so a clean-shutdown marker is
    /// written and a restart is a clean one.
    ShutDown {
        /// Whether the controller has moved everything away.
        permitted: bool,
    },
}

/// The life cycle of one broker incarnation.
#[derive(Clone, Debug)]
pub struct BrokerLifecycle {
    config: LifecycleConfig,
    state: BrokerState,
    channel: Channel,
    registered: bool,
    epoch: BrokerEpoch,
    ready_to_unfence: bool,
    first_shutdown_answer: bool,
    /// A request came due while another was under way: it follows the answer at once.
    immediate: bool,
    next_at: Option<Millis>,
    give_up_at: Millis,
    outputs: Vec<LifecycleOutput>,
}

impl BrokerLifecycle {
    /// Starts the broker: it registers as soon as it knows a controller.
    pub fn start(config: LifecycleConfig, around: Surroundings, now: Millis) -> Self {
        let mut lifecycle = Self {
            channel: Channel::new(Millis(config.session_timeout.0 / 2)),
            state: BrokerState::Starting,
            registered: false,
            epoch: BrokerEpoch::UNKNOWN,
            ready_to_unfence: false,
            first_shutdown_answer: true,
            immediate: false,
            next_at: Some(now),
            give_up_at: now + config.initial_registration_timeout,
            outputs: Vec::new(),
            config,
        };
        lifecycle.wake(around, now);
        lifecycle
    }

    /// Takes the effects of the last inputs.
    pub fn outputs(&mut self) -> std::vec::Drain<'_, LifecycleOutput> {
        self.outputs.drain(..)
    }
    /// When [`BrokerLifecycle::wake`] is due.
    pub fn deadline(&self) -> Option<Millis> {
        if self.state == BrokerState::ShuttingDown {
            return None;
        }
        let give_up = (self.give_up_at < Millis::MAX).then_some(self.give_up_at);
        [self.next_at, self.channel.deadline(), give_up].into_iter().flatten().min()
    }
    /// A deadline has come, or a controller has become known.
    pub fn wake(&mut self, around: Surroundings, now: Millis) {
        if self.state != BrokerState::ShuttingDown && now >= self.give_up_at {
            if !self.registered {
                self.outputs.push(LifecycleOutput::RegistrationTimedOut);
            }
            self.shut_down(false);
        }
        if self.state == BrokerState::ShuttingDown {
            return;
        }
        if self.next_at.is_some_and(|at| at <= now) {
            self.next_at = None;
            self.communicate(around, now);
        }
        self.poll_channel(around, now);
    }

    /// The controller has answered.
    pub fn reply(&mut self, reply: &ControllerReply, around: Surroundings, now: Millis) {
        if self.state == BrokerState::ShuttingDown || !self.channel.awaiting() {
            return;
        }
        match *reply {
            ControllerReply::BrokerRegistration { error, .. } | ControllerReply::BrokerHeartbeat { error, .. }
                if error == ErrorCode::NotController =>
            {
                self.channel.not_controller(now);
            }
            ControllerReply::BrokerRegistration { error, epoch } => {
                self.channel.done();
                self.on_registration(error, epoch, now);
            }
            ControllerReply::BrokerHeartbeat { error, caught_up, fenced, should_shutdown } => {
                self.channel.done();
                self.on_heartbeat(error, caught_up, fenced, should_shutdown, now);
            }
            _ => return,
        }
        self.wake(around, now);
    }
    /// The connection to the controller `node` is lost or was refused.
    pub fn disconnected(&mut self, node: BrokerId, around: Surroundings, now: Millis) {
        self.channel.disconnected(node, now);
        self.wake(around, now);
    }

    /// The broker has recovered its logs and applied its metadata: it may be unfenced (`setReadyToUnfence`).
    pub fn ready_to_unfence(&mut self, around: Surroundings, now: Millis) {
        self.ready_to_unfence = true;
        self.schedule(Millis::ZERO, now);
        self.wake(around, now);
    }
    /// The process was told to stop (SIGTERM). A running broker asks the controller for permission, at once and then until
    /// it has it; any other just stops.
    pub fn begin_controlled_shutdown(&mut self, around: Surroundings, now: Millis) {
        match self.state {
            BrokerState::PendingControlledShutdown | BrokerState::ShuttingDown => {}
            BrokerState::Running => {
                self.state = BrokerState::PendingControlledShutdown;
                self.give_up_at = now + self.config.controlled_shutdown_timeout;
                self.schedule(Millis::ZERO, now);
                self.wake(around, now);
            }
            BrokerState::Starting | BrokerState::Recovery => self.shut_down(false),
        }
    }

    /// The present state.
    pub fn state(&self) -> BrokerState {
        self.state
    }
    /// Epoch of the registration; unknown before it.
    pub fn epoch(&self) -> BrokerEpoch {
        self.epoch
    }

    // ---- what is due

    fn communicate(&mut self, around: Surroundings, now: Millis) {
        if self.channel.busy() {
            self.immediate = true;
            return;
        }
        let request = if self.registered {
            ControllerRequest::BrokerHeartbeat(BrokerHeartbeatRequest {
                broker: self.config.broker,
                epoch: self.epoch,
                metadata_offset: around.metadata_offset,
                want_fence: !self.ready_to_unfence,
                want_shutdown: self.state == BrokerState::PendingControlledShutdown,
            })
        } else {
            ControllerRequest::BrokerRegistration(BrokerRegistrationRequest {
                broker: self.config.broker,
                incarnation: self.config.incarnation,
                previous_epoch: self.config.previous_epoch,
                addr: self.config.addr,
            })
        };
        self.channel.submit(request, now);
    }

    fn poll_channel(&mut self, around: Surroundings, now: Millis) {
        for action in self.channel.poll(around.controller, now) {
            match action {
                ChannelAction::Send { node, request } => self.outputs.push(LifecycleOutput::Send { node, request }),
                ChannelAction::Disconnect(node) => self.outputs.push(LifecycleOutput::Disconnect(node)),
                ChannelAction::TimedOut => self.schedule_after_failure(now),
            }
        }
    }

    fn schedule(&mut self, delay: Millis, now: Millis) {
        let delay = if std::mem::take(&mut self.immediate) { Millis::ZERO } else { delay };
        self.next_at = Some(now + delay);
    }
    fn schedule_after_failure(&mut self, now: Millis) {
        self.immediate = false;
        self.schedule(self.config.heartbeat_interval, now);
    }

    // ---- answers

    fn on_registration(&mut self, error: ErrorCode, epoch: BrokerEpoch, now: Millis) {
        if !error.is_ok() {
            return self.schedule_after_failure(now);
        }
        self.epoch = epoch;
        self.registered = true;
        self.give_up_at = Millis::MAX;
        self.outputs.push(LifecycleOutput::Registered(epoch));
        self.schedule(Millis::ZERO, now);
    }

    fn on_heartbeat(&mut self, error: ErrorCode, caught_up: bool, fenced: bool, should_shutdown: bool, now: Millis) {
        if !error.is_ok() {
            return self.schedule_after_failure(now);
        }
        let interval = self.config.heartbeat_interval;
        match self.state {
            BrokerState::Starting => {
                if caught_up {
                    self.state = BrokerState::Recovery;
                    self.outputs.push(LifecycleOutput::CaughtUp);
                }
                // Soon again, in case that there is nothing to recover.
                self.schedule(Millis(10), now);
            }
            BrokerState::Recovery => {
                if !fenced {
                    self.state = BrokerState::Running;
                    self.outputs.push(LifecycleOutput::Unfenced);
                }
                self.schedule(interval, now);
            }
            BrokerState::Running => self.schedule(interval, now),
            BrokerState::PendingControlledShutdown if should_shutdown => self.shut_down(true),
            BrokerState::PendingControlledShutdown => {
                let first = std::mem::take(&mut self.first_shutdown_answer);
                self.schedule(if first { Millis(50) } else { interval }, now);
            }
            BrokerState::ShuttingDown => {}
        }
    }

    fn shut_down(&mut self, permitted: bool) {
        self.state = BrokerState::ShuttingDown;
        self.next_at = None;
        self.outputs.push(LifecycleOutput::ShutDown { permitted });
    }
}
