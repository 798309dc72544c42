//! The deadlines of a node's ports: told to the kernel when they have changed.

use super::config::{
    ADD_PARTITIONS, ALTER, BROKER, CONTROLLER, GROUPS, LIFECYCLE, MAIN, PRODUCER_IDS, TRANSACTIONS, TXN_MARKERS,
    fetcher_port,
};
use super::shutdown::Phase;
use super::{Node, NodeCx};
use crate::base::{Millis, Port, SimTime};
use crate::kafka::broker::ReplicaFetcher;
use crate::kafka::broker::link::Link;
use crate::kafka::quorum::BrokerLifecycle;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// What the kernel was told last; `MAX` for nothing.
    set: Millis,
    /// The thread has been nudged and has not run since.
    nudged: bool,
}

/// What each port was last set to. A node has few ports: a scan beats a tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines(Vec<Entry>);

impl Deadlines {
    fn entry(&mut self, port: Port) -> &mut Entry {
        let at = usize::from(port.0);
        if at >= self.0.len() {
            self.0.resize(at + 1, Entry { set: Millis::MAX, nudged: false });
        }
        &mut self.0[at]
    }
    /// The port's deadline has come: whatever was set is gone.
    pub(super) fn fired(&mut self, port: Port) {
        *self.entry(port) = Entry { set: Millis::MAX, nudged: false };
    }
    /// Wakes a thread at the end of this step, whatever its own deadline.
    pub(super) fn nudge(&mut self, port: Port) {
        self.entry(port).nudged = true;
    }
    #[inline]
    fn set(&mut self, port: Port, at: Millis, now: Millis, cx: &mut NodeCx<'_>) {
        let entry = self.entry(port);
        if entry.set != at || entry.nudged {
            self.change(port, at, now, cx);
        }
    }
    fn change(&mut self, port: Port, at: Millis, now: Millis, cx: &mut NodeCx<'_>) {
        let entry = self.entry(port);
        let at = if entry.nudged { at.min(now) } else { at };
        // One that is due fires once, however often it is said until then.
        if entry.set == at || (entry.set <= now && at <= now) {
            return;
        }
        entry.set = at;
        let at = (at < Millis::MAX).then(|| if at <= now { cx.now } else { SimTime::at(at) });
        cx.wake_port(port, at);
    }
}

impl Node {
    /// Tells the kernel every deadline that has changed in this step. One of records touches neither quorum nor lifecycle,
    /// and no timer.
    pub(super) fn set_deadlines(&mut self, of_records: bool, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        let due = &mut self.deadlines;
        if !of_records {
            let raft = self.raft.deadline().unwrap_or(Millis::MAX);
            let controller = self.controller.as_ref().map_or(Millis::MAX, |(_, c)| c.deadline());
            let links = self.raft_links.values().map(Link::deadline).min().unwrap_or(Millis::MAX);
            due.set(CONTROLLER, raft.min(controller).min(links), now, cx);
        }
        match self.phase {
            Phase::Running | Phase::ControlledShutdown => {}
            Phase::Closing { until } => return due.set(MAIN, until, now, cx),
            Phase::QuorumStopping | Phase::Stopped => return,
        }
        if !self.config.is_broker {
            return;
        }
        let ready = self.channels.has_ready() || self.verification.has_decided();
        let requests = if ready { Millis::ZERO } else { self.replicas.request_deadline() };
        due.set(BROKER, requests, now, cx);
        if !of_records {
            due.set(MAIN, self.replicas.timer_deadline(), now, cx);
            let life = self.lifecycle.as_ref().and_then(BrokerLifecycle::deadline).unwrap_or(Millis::MAX);
            due.set(LIFECYCLE, life.min(self.life_channel.deadline()), now, cx);
        }
        due.set(ALTER, self.alter_channel.deadline().min(self.replicas.alter_deadline()), now, cx);
        due.set(PRODUCER_IDS, self.ids_channel.deadline(), now, cx);
        due.set(ADD_PARTITIONS, self.verification.deadline(), now, cx);
        // Without the topic there is nothing to scan.
        if self.config.broker.transaction_state_topic.is_some() {
            due.set(TRANSACTIONS, self.transactions.deadline(), now, cx);
            let passes = self.transactions.coordinator.marker_deadline();
            due.set(TXN_MARKERS, passes.min(self.transactions.marker_links.deadline()), now, cx);
        }
        if self.config.broker.offsets_topic.is_some() {
            due.set(GROUPS, self.groups.deadline(), now, cx);
        }
        for fetcher in self.replicas.fetchers() {
            due.set(fetcher_port(fetcher.source()), ReplicaFetcher::deadline(fetcher).unwrap_or(Millis::MAX), now, cx);
        }
    }
}
