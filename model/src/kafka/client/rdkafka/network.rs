//! The connections of a consumer instance with the metadata behind them: what [`Network`] promises, kept by librdkafka.

use super::broker::{Handle, Role, State};
use super::config::RdConfig;
use super::connections::{ConnectionEvent, Connections, NetAction, NetInput};
use super::errors::RdError;
use super::metadata::{Metadata, Named};
use super::wire::Wires;
use crate::base::{Addr, BrokerId, Cx, Input, Millis, SimTime, Stream, TopicPartition};
use crate::kafka::client::{ClusterView, Completed, Leader, Lost, Network, Outcome};
use crate::kafka::messages::{Message, Reply, Request};

/// What a request of a consumer was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Metadata,
    User { node: BrokerId, correlation: u32, sent_at: Millis },
}
impl Named for Asked {
    const METADATA: Self = Self::Metadata;
}

/// The connections of one consumer instance. Sans-I/O: inputs only change state, [`RdNetwork::poll`] does what is due and
/// gives what ended, actions are taken out after it.
#[derive(Clone, Debug)]
pub struct RdNetwork {
    config: RdConfig,
    net: Connections<Asked>,
    metadata: Metadata,
    view: ClusterView,
    correlation: u32,
    completed: Vec<Completed>,
    /// The logical connection to the group coordinator, if this instance is in a group.
    coordinator: Option<Handle>,
    news: Vec<CoordinatorNews>,
}

/// What the group coordinator's connection says (K-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorNews {
    /// It broke, or an attempt failed.
    Down,
    /// Its node is not in the metadata any more; the connection is bound to none.
    Decommissioned,
}
/// In a [`Completed`]: the group coordinator's logical connection.
pub const COORDINATOR: BrokerId = BrokerId(i32::MAX);

impl RdNetwork {
    /// An instance created at `now` that reads `partitions`. Of `config` it uses what concerns connections; `stream` draws
    /// jitter and which broker is asked.
    pub fn new(
        config: RdConfig,
        bootstrap: Vec<Addr>,
        partitions: &[TopicPartition],
        stream: Stream,
        now: Millis,
    ) -> Self {
        // The topics of its partitions make it look for a broker.
        let mut metadata = Metadata::new(now, &config, false);
        for tp in partitions {
            metadata.use_partition(*tp);
        }
        Self {
            net: Connections::new(bootstrap, &config, stream),
            metadata,
            view: ClusterView::default(),
            correlation: 0,
            completed: Vec::new(),
            coordinator: None,
            news: Vec::new(),
            config,
        }
    }

    // ---- the group coordinator

    /// Binds the logical connection to a node, or to none.
    pub fn bind_coordinator(&mut self, node: Option<(BrokerId, Addr)>, now: Millis) {
        let handle = self.net.coordinator(&self.config);
        self.coordinator = Some(handle);
        self.net.bind(handle, node, now, &self.config);
    }
    /// Whether it can be sent to.
    pub fn coordinator_up(&self) -> bool {
        self.coordinator.and_then(|handle| self.net.broker(handle)).is_some_and(|b| b.state == State::Up)
    }
    /// Sends to it, to be answered within `timeout`.
    pub fn send_coordinator(&mut self, body: Request, timeout: Millis, now: Millis) -> u32 {
        self.correlation += 1;
        let tag = Asked::User { node: COORDINATOR, correlation: self.correlation, sent_at: now };
        let handle = self.net.coordinator(&self.config);
        self.net.send(handle, tag, body, now.saturating_add(timeout.max(self.config.socket_timeout())));
        self.correlation
    }
    /// Takes out what its connection has said.
    pub fn coordinator_news(&mut self) -> Vec<CoordinatorNews> {
        std::mem::take(&mut self.news)
    }
    /// Takes what the network says.
    pub fn input(&mut self, input: NetInput) {
        self.net.input(input, &self.config);
    }
    /// What the network is to do, in order.
    pub fn take_actions(&mut self) -> Vec<NetAction> {
        self.net.take_actions()
    }
    /// Lets the broker threads and the main thread do what is due; gives the requests that ended.
    pub fn poll(&mut self, now: Millis) -> Vec<Completed> {
        self.work(now);
        std::mem::take(&mut self.completed)
    }
    /// When to poll next, if nothing comes from the network before.
    pub fn deadline(&self) -> Millis {
        if !self.completed.is_empty() {
            return Millis::ZERO;
        }
        self.net.deadline().min(self.metadata.deadline())
    }

    fn work(&mut self, now: Millis) {
        loop {
            self.stay_connected();
            self.net.poll(now, &self.config);
            while let Some(event) = self.net.next_event() {
                self.on_event(event, now);
            }
            if self.metadata.ticks(&mut self.net, now) {
                self.metadata.refresh_unavailable(&mut self.net, &self.config, now);
            }
            self.metadata.due(&mut self.net, &self.config, now);
            self.net.poll(now, &self.config);
            if !self.net.has_events() {
                break;
            }
        }
        if self.view.version != self.metadata.version() {
            self.view.version = self.metadata.version();
            self.view.leaders = self.metadata.delegations().collect();
        }
    }
    /// A consumer holds the connections to the leaders of its partitions (`rd_kafka_broker_persistent_connection_add`): it
    /// re-establishes them without having anything to send, and while it does their partitions count as unavailable.
    fn stay_connected(&mut self) {
        for (_, leader) in self.metadata.delegations() {
            if let Some(handle) = self.net.node(leader.node).map(|b| b.handle) {
                self.net.ask(handle, true);
            }
        }
    }
    fn on_event(&mut self, event: ConnectionEvent<Asked>, now: Millis) {
        match event {
            ConnectionEvent::Up(handle) => self.metadata.broker_up(handle, &mut self.net, &self.config, now),
            ConnectionEvent::Lost(handle) => {
                self.coordinator_down(handle);
                self.metadata.broker_down(&mut self.net, &self.config, now);
            }
            ConnectionEvent::Failed(handle) => self.coordinator_down(handle),
            ConnectionEvent::Answer { handle, tag: Asked::Metadata, result } => self.answered(handle, result, now),
            ConnectionEvent::Answer { tag: Asked::User { node, correlation, sent_at }, result, .. } => {
                let outcome = match result {
                    Ok(reply) => Outcome::Reply(reply),
                    Err(RdError::TimedOut) => Outcome::Lost(Lost::TimedOut),
                    Err(_) => Outcome::Lost(Lost::Disconnected),
                };
                self.completed.push(Completed { node, correlation, sent_at, outcome });
            }
        }
    }
    fn answered(&mut self, handle: Handle, result: Result<Reply, RdError>, now: Millis) {
        if let Ok(Reply::Metadata(reply)) = &result {
            self.view.brokers = reply.brokers.iter().map(|b| (b.id, b.addr)).collect();
        }
        let learned = self.metadata.answered(handle, result, &mut self.net, &self.config, now);
        let bound = self.coordinator.and_then(|handle| self.net.broker(handle)?.bound);
        if learned.is_some_and(|l| bound.is_some_and(|node| l.gone.contains(&node))) {
            self.bind_coordinator(None, now);
            self.news.push(CoordinatorNews::Decommissioned);
        }
    }
    fn coordinator_down(&mut self, handle: Handle) {
        if self.coordinator == Some(handle) {
            self.news.push(CoordinatorNews::Down);
        }
    }
    fn state(&self, node: BrokerId) -> Option<State> {
        self.net.node(node).map(|b| b.state)
    }
}

impl Network for RdNetwork {
    fn ready(&mut self, node: BrokerId, _now: Millis) -> bool {
        let Some(broker) = self.net.node(node) else { return false };
        let (handle, up) = (broker.handle, broker.state == State::Up);
        if !up {
            self.net.ask(handle, true);
        }
        up
    }
    /// A connection says by itself when it is usable.
    fn poll_delay(&self, node: BrokerId, _now: Millis) -> Millis {
        if self.state(node) == Some(State::Up) { Millis::ZERO } else { Millis::MAX }
    }
    fn unavailable(&self, node: BrokerId, now: Millis) -> bool {
        self.net.node(node).is_none_or(|b| matches!(b.state, State::Idle | State::Trying) && b.backoff.due > now)
    }
    fn send(&mut self, node: BrokerId, body: Request, expects_reply: bool, now: Millis) -> u32 {
        self.correlation += 1;
        let correlation = self.correlation;
        // A fetch may be held by the broker: that long it does not count.
        let held = if let Request::Fetch(fetch) = &body { fetch.max_wait } else { Millis::ZERO };
        let deadline = now.saturating_add(self.config.socket_timeout()).saturating_add(held);
        match self.net.node(node).map(|b| b.handle) {
            Some(handle) if expects_reply => {
                self.net.send(handle, Asked::User { node, correlation, sent_at: now }, body, deadline);
            }
            Some(handle) => {
                self.net.send_only(handle, body, deadline);
                self.completed.push(Completed { node, correlation, sent_at: now, outcome: Outcome::Sent });
            }
            None => {
                let outcome = Outcome::Lost(Lost::Disconnected);
                self.completed.push(Completed { node, correlation, sent_at: now, outcome });
            }
        }
        correlation
    }
    fn in_flight(&self, node: BrokerId) -> usize {
        let user = |tag: &Asked| matches!(tag, Asked::User { .. });
        self.net.node(node).map_or(0, |b| {
            let queued = b.queue.iter().filter(|w| w.tag.as_ref().is_some_and(user)).count();
            queued + b.wire.iter().filter(|w| user(&w.tag)).count()
        })
    }
    fn least_loaded(&mut self, _now: Millis) -> Option<BrokerId> {
        let handle = self.net.any_up()?;
        match self.net.broker(handle)?.role {
            Role::Node(id) => Some(id),
            _ => None,
        }
    }
    fn request_update(&mut self, now: Millis) {
        self.metadata.refresh(&mut self.net, &self.config, now);
    }
    fn update_requested(&self) -> bool {
        self.metadata.wanted()
    }
    fn view(&self) -> &ClusterView {
        &self.view
    }
    fn learn_leader(&mut self, tp: TopicPartition, leader: Leader) -> bool {
        self.metadata.leader_hint(tp, leader, &self.net)
    }
}

/// A consumer's connections within a simulated process.
#[derive(Clone, Debug)]
pub struct RdNetworkClient {
    /// What the consumer is handed.
    pub network: RdNetwork,
    wires: Wires,
}
impl RdNetworkClient {
    /// Wraps connections.
    pub fn new(network: RdNetwork) -> Self {
        Self { network, wires: Wires::default() }
    }
    /// Takes an input of the process; false if it is not of one of these connections.
    pub fn input(&mut self, input: Input<Message>) -> bool {
        match self.wires.input(input) {
            Some(input) => {
                self.network.input(input);
                true
            }
            None => false,
        }
    }
    /// Sends what was left by the last round, and turns everything wanted into effects.
    pub fn carry_out<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.network.work(cx.millis());
        self.wires.carry_out(self.network.take_actions(), cx);
    }
    /// Closes every connection: the process that had them ends.
    pub fn close_all<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.wires.close(cx);
    }
    /// When to run again, if nothing comes before; `other` is due too.
    pub fn wake_at(&self, other: Millis, now: Millis) -> Option<SimTime> {
        let at = self.network.deadline().min(other);
        // Something due in this very millisecond was done; it is looked at again in the next.
        (at < Millis::MAX).then(|| SimTime::at(at.max(now + Millis(1))))
    }
}
