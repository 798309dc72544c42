//! Registration, heartbeats, controlled shutdown (L-24, L-26).

use super::config::{BROKER, LIFECYCLE};
use super::disk::{CLEAN_SHUTDOWN, NodeWrite};
use super::{Node, NodeCx};
use crate::base::{BrokerEpoch, Input, Millis};
use crate::kafka::messages::{Message, Reply};
use crate::kafka::quorum::{BrokerLifecycle, LifecycleConfig, LifecycleOutput, Surroundings};
use std::sync::Arc;

impl Node {
    fn around(&self) -> Surroundings {
        Surroundings { controller: self.raft.leader(), metadata_offset: self.applied_end.plus(-1) }
    }

    pub(super) fn start_life(&mut self, previous: Option<BrokerEpoch>, cx: &mut NodeCx<'_>) {
        let Some(addr) = self.config.addr(self.config.id, BROKER) else { return };
        let config = LifecycleConfig {
            previous_epoch: previous.unwrap_or(BrokerEpoch::UNKNOWN),
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
        match input {
            Input::Wake => {
                self.fired(LIFECYCLE);
                if let Some(node) = self.life_channel.expire(cx) {
                    self.life(|l| l.disconnected(node, around, now));
                }
                self.life(|l| l.wake(around, now));
            }
            Input::Connection(conn, event) => {
                if let Some(node) = self.life_channel.event(conn, event, cx) {
                    self.life(|l| l.disconnected(node, around, now));
                }
            }
            Input::Message { message: Message::Reply { correlation, body: Reply::Controller(reply) }, .. } => {
                if self.life_channel.accept(correlation) {
                    self.life(|l| l.reply(&reply, around, now));
                }
            }
            _ => {}
        }
        self.after_life(cx);
    }

    fn life(&mut self, with: impl FnOnce(&mut BrokerLifecycle)) {
        if let Some(l) = &mut self.lifecycle {
            with(l);
        }
    }

    /// The lifecycle thread looks again: a controller has become known, or metadata was applied.
    pub(super) fn nudge_life(&mut self, cx: &mut NodeCx<'_>) {
        if self.lifecycle.is_some() {
            self.deadlines.remove(&LIFECYCLE);
            cx.wake_port(LIFECYCLE, Some(cx.now));
        }
    }

    pub(super) fn after_life(&mut self, cx: &mut NodeCx<'_>) {
        loop {
            let outputs: Vec<_> = match &mut self.lifecycle {
                Some(l) => l.outputs().collect(),
                None => return,
            };
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
                    LifecycleOutput::Registered(epoch) => self.broker_epoch = epoch,
                    LifecycleOutput::CaughtUp => {
                        self.caught_up = true;
                        self.maybe_ready(cx);
                    }
                    LifecycleOutput::Unfenced => cx.listen(BROKER, true),
                    LifecycleOutput::ShutDown { .. } => self.stop(cx),
                }
            }
        }
    }

    /// Caught up, and everything applied: it may be unfenced.
    pub(super) fn maybe_ready(&mut self, cx: &mut NodeCx<'_>) {
        if self.caught_up && self.apply_queue.is_empty() && self.applied_end == self.committed_end {
            self.caught_up = false;
            let (around, now) = (self.around(), cx.millis());
            self.life(|l| l.ready_to_unfence(around, now));
            self.after_life(cx);
        }
    }

    /// SIGTERM.
    pub(super) fn terminate(&mut self, cx: &mut NodeCx<'_>) {
        if std::mem::replace(&mut self.stopping, true) {
            return;
        }
        let (around, now) = (self.around(), cx.millis());
        if self.lifecycle.is_some() {
            self.life(|l| l.begin_controlled_shutdown(around, now));
            self.after_life(cx);
        } else {
            self.stop(cx);
        }
    }

    /// The broker part is done: logs are closed, the marker is written, then the quorum part shuts down (L-22, L-24).
    fn stop(&mut self, cx: &mut NodeCx<'_>) {
        self.stopping = true;
        cx.listen(BROKER, false);
        let all: Vec<_> = self.partitions.iter().map(|p| p.tp()).collect();
        for tp in all {
            if let Some(p) = self.partitions.get_mut(tp) {
                p.log_mut().close();
            }
            self.write_log(tp, cx);
            cx.flush(super::disk::partition_file(tp));
        }
        let epoch = (self.broker_epoch != BrokerEpoch::UNKNOWN).then_some(self.broker_epoch);
        cx.write(CLEAN_SHUTDOWN, NodeWrite::CleanShutdown(epoch));
        // `KafkaRaftServer.shutdown` gives the quorum five seconds.
        self.raft.shutdown(Millis(5_000), cx.millis());
        self.after_raft(cx);
    }
}
