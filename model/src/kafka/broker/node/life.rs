//! Registration and heartbeats (L-26; `BrokerServer.startup`).

use super::config::{BROKER, LIFECYCLE};
use super::shutdown::Phase;
use super::{Node, NodeCx};
use crate::base::{BrokerEpoch, Event, Input};
use crate::kafka::messages::{Message, Reply};
use crate::kafka::quorum::{BrokerLifecycle, LifecycleConfig, LifecycleOutput, Surroundings};
use std::sync::Arc;

impl Node {
    pub(super) fn around(&self) -> Surroundings {
        Surroundings { controller: self.raft.leader(), metadata_offset: self.publisher.last_applied() }
    }

    fn start_life(&mut self, cx: &mut NodeCx<'_>) {
        let Some(addr) = self.config.addr(self.config.id, BROKER) else { return };
        let config = LifecycleConfig {
            previous_epoch: self.previous_epoch.unwrap_or(BrokerEpoch::UNKNOWN),
            heartbeat_interval: self.config.broker.heartbeat_interval,
            session_timeout: self.config.broker.session_timeout,
            initial_registration_timeout: self.config.broker.initial_registration_timeout,
            ..LifecycleConfig::new(self.config.id, self.incarnation, addr)
        };
        self.lifecycle = Some(BrokerLifecycle::start(config, self.around(), cx.millis()));
        self.after_life(cx);
    }

    pub(super) fn life_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        let (around, now) = (self.around(), cx.millis());
        let Some(life) = &mut self.lifecycle else {
            if self.phase == Phase::Running && self.config.is_broker {
                self.start_life(cx);
            }
            return;
        };
        match input {
            Input::Wake => {
                if let Some(node) = self.life_channel.expire(cx) {
                    life.disconnected(node, around, now);
                }
                life.wake(around, now);
            }
            Input::Connection(conn, event) => {
                if let Some(node) = self.life_channel.event(conn, event, cx) {
                    life.disconnected(node, around, now);
                }
            }
            Input::Message { message: Message::Reply { correlation, body: Reply::Controller(reply) }, .. }
                if self.life_channel.accept(correlation) =>
            {
                life.reply(&reply, around, now);
            }
            _ => {}
        }
        self.after_life(cx);
    }

    /// The lifecycle thread looks again: another controller is known.
    pub(super) fn nudge_life(&mut self) {
        if self.lifecycle.is_some() {
            self.deadlines.nudge(LIFECYCLE);
        }
    }

    pub(super) fn after_life(&mut self, cx: &mut NodeCx<'_>) {
        while let Some(life) = &mut self.lifecycle {
            let outputs: Vec<_> = life.outputs().collect();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                match output {
                    LifecycleOutput::Send { node, request } => {
                        let config = Arc::clone(&self.config);
                        self.life_channel.send(node, request, &config, cx);
                    }
                    LifecycleOutput::Disconnect(node) => self.life_channel.disconnect(node, cx),
                    LifecycleOutput::Registered(epoch) => {
                        self.broker_epoch = epoch;
                        self.replicas.set_broker_epoch(epoch);
                    }
                    LifecycleOutput::CaughtUp => {
                        self.caught_up = true;
                        self.maybe_ready(cx);
                    }
                    LifecycleOutput::Unfenced => {}
                    LifecycleOutput::RegistrationTimedOut => {
                        cx.emit(Event::RegistrationTimedOut { broker: self.config.id });
                    }
                    LifecycleOutput::ShutDown { .. } => self.close_broker(cx),
                }
            }
        }
    }

    /// Caught up as the controller says, and the first metadata is applied: the listener opens, and the broker asks to be
    /// unfenced.
    pub(super) fn maybe_ready(&mut self, cx: &mut NodeCx<'_>) {
        if !self.caught_up || !self.publisher.has_published() || !self.phase.serves_requests() {
            return;
        }
        self.caught_up = false;
        cx.listen(BROKER, true);
        let (around, now) = (self.around(), cx.millis());
        if let Some(life) = &mut self.lifecycle {
            life.ready_to_unfence(around, now);
        }
        self.after_life(cx);
    }
}
