//! The Java client's connections (`NetworkClient`): one machine for recordings and simulation, without I/O.
//!
//! What it wants done comes out as [`Action`]s, what happens goes in through `on_*`; both sides meet in
//! [`NetworkClient::poll`], as the real class meets its `Selector`.

mod updater;

use super::connection_states::{ConnectionState, ConnectionStates};
use super::dice::{Backoff, Dice};
use super::metadata::{Metadata, UpdateInProgress};
use super::network_config::{NetworkConfig, Sleep};
use super::selector::{Arrival, Selector};
use crate::base::{Addr, BrokerId, Event, Millis, SmallMap, TopicPartition};
use crate::kafka::client::{ClusterView, Completed, Leader, Lost, Network, Outcome};
use crate::kafka::messages::{FinalizedFeatures, MetadataReply, Reply, Request};
use std::collections::{BTreeSet, VecDeque};

/// What the client wants done.
#[derive(Clone, Debug)]
pub enum Action {
    /// Connect: [`NetworkClient::on_up`] or [`NetworkClient::on_closed`] answers, or nothing does.
    Open {
        /// The client's own number of this connection.
        channel: u64,
        /// For which node; negative for a bootstrap id.
        node: BrokerId,
        /// Where to.
        addr: Addr,
    },
    /// The client closes what it has to this node; `channel` is `None` if that is nothing.
    Close {
        /// The connection.
        channel: Option<u64>,
        /// The node.
        node: BrokerId,
    },
    /// Send a request.
    Send {
        /// Over which connection.
        channel: u64,
        /// To which node.
        node: BrokerId,
        /// Its correlation id.
        correlation: u32,
        /// The request.
        body: Request,
    },
    /// Metadata was taken over; the view shows it.
    MetadataUpdated,
    /// For the trace.
    Emit(Event),
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    User { expects_reply: bool },
    Metadata,
    ApiVersions,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    correlation: u32,
    purpose: Purpose,
    api: u8,
    sent_at: Millis,
    /// How long its answer may take.
    timeout: Millis,
    /// It left completely; until then nothing more may be sent on the connection.
    written: bool,
}
impl InFlight {
    fn late_at(&self) -> Millis {
        self.sent_at.saturating_add(self.timeout)
    }
}

/// What one poll brought.
#[derive(Clone, Debug, Default)]
pub struct Polled {
    /// Requests that ended.
    pub completed: Vec<Completed>,
    /// Something happened on a connection, so another round at this instant may find more to do.
    pub moved: bool,
}

/// The client's connections and metadata.
#[derive(Clone, Debug)]
pub struct NetworkClient {
    config: NetworkConfig,
    states: ConnectionStates,
    metadata: Metadata,
    update: Option<UpdateInProgress>,
    /// Begin of the attempts to get metadata that have not succeeded yet (K-4).
    attempts_since: Option<Millis>,
    in_flight: SmallMap<BrokerId, VecDeque<InFlight>>,
    /// No request has timed out until then: what is sent later times out later.
    none_late_before: Millis,
    /// A request was pushed since the last poll.
    unwritten: bool,
    need_api_versions: BTreeSet<BrokerId>,
    /// The newest feature levels that a connection has told (`ApiVersions`).
    features: Option<FinalizedFeatures>,
    /// Where each node was when metadata or a coordinator's answer named it last. Who keeps a `Node` connects to it whether
    /// or not the newest metadata lists it.
    named: SmallMap<BrokerId, Addr>,
    selector: Selector,
    /// Requests that the client itself gave up; the next poll tells.
    given_up: Vec<Completed>,
    correlation: u32,
    dice: Dice,
    sleep_until: Millis,
    pub(super) actions: Vec<Action>,
    /// Empty, kept for its memory.
    room: Vec<Completed>,
}

impl NetworkClient {
    /// A client that knows its bootstrap list alone.
    pub fn new(config: NetworkConfig, mut dice: Dice) -> Self {
        let reconnect = Backoff::new(config.reconnect_backoff, config.reconnect_backoff_max);
        let setup = Backoff::new(config.setup_timeout, config.setup_timeout_max);
        let retry = Backoff::new(config.retry_backoff, config.retry_backoff_max);
        let mut metadata = Metadata::new(
            config.metadata_max_age,
            retry,
            config.bootstrap.clone(),
            config.topics.clone(),
            config.back_off_equivalent,
            &mut dice,
        );
        metadata.set_hashes(config.hashes.clone());
        Self {
            states: ConnectionStates::new(reconnect, setup),
            metadata,
            update: None,
            attempts_since: None,
            in_flight: SmallMap::new(),
            none_late_before: Millis::ZERO,
            unwritten: false,
            need_api_versions: BTreeSet::new(),
            features: None,
            named: SmallMap::new(),
            selector: Selector::default(),
            given_up: Vec::new(),
            correlation: 0,
            dice,
            sleep_until: Millis::MAX,
            actions: Vec::new(),
            room: Vec::new(),
            config,
        }
    }
    /// The settings.
    pub const fn config(&self) -> &NetworkConfig {
        &self.config
    }
    /// The random numbers, for the parts built on this client.
    pub const fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }
    /// The metadata, for what [`Network`] does not show.
    pub const fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }
    /// Takes an answer that was had before the client began, as if by an earlier update.
    pub fn preload(&mut self, reply: &MetadataReply, now: Millis) {
        let (_, update) = self.metadata.request(now);
        self.metadata.update(update, reply, now, &mut self.dice);
        self.name(reply);
    }
    fn name(&mut self, reply: &MetadataReply) {
        for b in reply.brokers.iter() {
            self.named.insert(b.id, b.addr);
        }
    }
    /// Takes out what is to be done, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    // ---- what the network did; noticed by the next poll

    /// A connection is established.
    pub fn on_up(&mut self, channel: u64) {
        self.selector.up(channel);
    }
    /// A connection was refused or ended by the other side.
    pub fn on_closed(&mut self, channel: u64) {
        self.selector.closed(channel);
    }
    /// An answer came.
    pub fn on_reply(&mut self, channel: u64, correlation: u32, body: Reply) {
        self.selector.reply(channel, correlation, body);
    }
    /// The selector, for whoever gives channels their connections.
    pub const fn selector(&mut self) -> &mut Selector {
        &mut self.selector
    }

    // ---- KafkaClient

    /// Ready for sending, without beginning to connect (`isReady`).
    pub fn is_ready(&self, node: BrokerId, now: Millis) -> bool {
        !self.update_due(now) && self.can_send(node)
    }
    fn can_send(&self, node: BrokerId) -> bool {
        self.states.state(node) == ConnectionState::Ready && self.selector.is_up(node) && self.room_for(node)
    }
    fn room_for(&self, node: BrokerId) -> bool {
        self.in_flight
            .get(node)
            .is_none_or(|q| q.back().is_none_or(|last| last.written && q.len() < self.config.max_in_flight))
    }
    fn update_due(&self, now: Millis) -> bool {
        self.update.is_none() && self.metadata.time_to_next_update(now) == Millis::ZERO
    }
    /// The least loaded node, and whether there is one or at least a usable connection (`leastLoadedNode`).
    pub fn least_loaded_node(&mut self, now: Millis) -> (Option<BrokerId>, bool) {
        let nodes = self.metadata.nodes();
        let offset = self.dice.below(nodes.len() as u64) as usize;
        let (mut ready, mut connecting, mut connectable) = (None::<(usize, BrokerId)>, None, None::<BrokerId>);
        let mut usable = false;
        for i in 0..nodes.len() {
            let node = nodes[(offset + i) % nodes.len()].0;
            let state = self.states.state(node);
            usable |= state == ConnectionState::Ready && self.selector.is_up(node);
            if self.can_send(node) {
                let load = self.in_flight(node);
                if load == 0 {
                    return (Some(node), true);
                }
                if ready.is_none_or(|(least, _)| load < least) {
                    ready = Some((load, node));
                }
            } else if matches!(state, ConnectionState::Connecting | ConnectionState::CheckingApiVersions) {
                connecting = Some(node);
            } else if self.states.can_connect(node, now)
                && connectable.is_none_or(|c| self.states.last_attempt(c) > self.states.last_attempt(node))
            {
                connectable = Some(node);
            }
        }
        let found = ready.map(|(_, node)| node).or(connecting).or(connectable);
        (found, found.is_some() || usable)
    }
    /// First instant at which a poll may find something to do by the clock alone; [`Millis::MAX`] for never.
    pub fn deadline(&self, now: Millis) -> Millis {
        match self.config.sleep {
            Sleep::Select => self.sleep_until,
            Sleep::Exact => self.sleep_until.min(self.next_due(now)),
        }
    }
    /// First instant at which a timeout, a back-off or the age of the metadata makes something due.
    pub fn next_due(&self, now: Millis) -> Millis {
        let mut due = self.states.next_setup_timeout().unwrap_or(Millis::MAX);
        for request in self.in_flight.values().flatten() {
            due = due.min(request.late_at() + Millis(1));
        }
        if let (Some(since), Some(trigger)) = (self.attempts_since, self.config.rebootstrap_trigger) {
            due = due.min(since + trigger + Millis(1));
        }
        if self.update.is_none() {
            due = due.min(match self.metadata.time_to_next_update(now) {
                // It goes out when a node leaves its reconnect back-off.
                Millis::ZERO => {
                    let out = self.metadata.nodes().iter().filter(|(node, _)| self.states.blacked_out(*node, now));
                    out.map(|(node, _)| now + self.states.delay(*node, now)).min().unwrap_or(Millis::MAX)
                }
                wait => now + wait,
            });
        }
        due
    }
    /// One round (`poll`): sends a due metadata request, takes what the network brought, looks at the timeouts. `timeout`:
    /// how long the caller would sleep.
    pub fn poll(&mut self, timeout: Millis, now: Millis) -> Polled {
        let metadata_timeout = self.maybe_update(now);
        let mut completed = std::mem::take(&mut self.room);
        completed.append(&mut self.given_up);
        let mut polled = Polled { moved: !completed.is_empty(), completed };
        self.written(now, &mut polled);
        let (mut gone, mut up) = (Vec::new(), Vec::new());
        while let Some(arrival) = self.selector.arrival() {
            polled.moved = true;
            match arrival {
                Arrival::Reply(node, correlation, body) => self.received(node, correlation, body, now, &mut polled),
                Arrival::Gone(node) => gone.push(node),
                Arrival::Up(node) => up.push(node),
            }
        }
        for node in gone {
            self.disconnected(node, Lost::Disconnected, now, &mut polled);
        }
        for node in up {
            self.connected(node);
        }
        self.ask_api_versions(now);
        for node in self.states.setup_timed_out(now) {
            self.close(node);
            self.disconnected(node, Lost::Disconnected, now, &mut polled);
        }
        if now > self.none_late_before {
            for node in self.request_timed_out(now) {
                self.close(node);
                self.disconnected(node, Lost::TimedOut, now, &mut polled);
            }
            let first = self.in_flight.values().flatten().map(InFlight::late_at).min();
            self.none_late_before = first.unwrap_or_else(|| now + self.config.request_timeout);
        }
        self.maybe_rebootstrap(now, &mut polled);
        self.sleep_until = match self.config.sleep {
            Sleep::Exact => now + metadata_timeout,
            Sleep::Select => {
                let sleep = timeout.min(metadata_timeout).min(self.config.request_timeout);
                now + sleep.max(Millis::ZERO) + Millis(self.dice.below(2) as i64)
            }
        };
        polled
    }
    /// Ends the connection to a node (`disconnect`): the node turned out to be the wrong one. What is in flight there is lost,
    /// as the next poll tells; metadata is not asked for.
    pub fn disconnect(&mut self, node: BrokerId, now: Millis) {
        if matches!(self.states.state(node), ConnectionState::Disconnected) {
            return;
        }
        self.close(node);
        self.states.disconnected(node, now, &mut self.dice);
        self.need_api_versions.remove(&node);
        self.actions.push(Action::Emit(Event::Connection { node, up: false }));
        for r in self.in_flight.remove(node).unwrap_or_default() {
            match r.purpose {
                Purpose::User { .. } => {
                    let outcome = Outcome::Lost(Lost::Disconnected);
                    self.given_up.push(Completed { node, correlation: r.correlation, sent_at: r.sent_at, outcome });
                }
                Purpose::Metadata => self.metadata_failed(now),
                Purpose::ApiVersions => {}
            }
        }
    }
    /// Feature levels of the cluster, as far as connections have told.
    pub const fn features(&self) -> Option<FinalizedFeatures> {
        self.features
    }
    /// Takes back what a poll gave, for its memory.
    pub fn reuse(&mut self, polled: Polled) {
        self.room = polled.completed;
        self.room.clear();
    }
    /// Closes every connection (`close`).
    pub fn close_all(&mut self) {
        for (node, channel) in self.selector.close_all() {
            self.actions.push(Action::Close { channel: Some(channel), node });
        }
        self.in_flight.clear();
    }

    // ---- connections

    fn connect(&mut self, node: BrokerId, now: Millis) {
        let Some(addr) = self.metadata.addr(node).or_else(|| self.named.get(node).copied()) else { return };
        self.states.connecting(node, addr, now, &mut self.dice);
        let channel = self.selector.open(node);
        self.actions.push(Action::Open { channel, node, addr });
    }
    fn close(&mut self, node: BrokerId) {
        let channel = self.selector.close(node);
        self.actions.push(Action::Close { channel, node });
    }
    fn connected(&mut self, node: BrokerId) {
        self.actions.push(Action::Emit(Event::Connection { node, up: true }));
        self.states.connected(node, self.config.api_versions, &mut self.dice);
        if self.config.api_versions {
            self.need_api_versions.insert(node);
        }
    }
    fn ask_api_versions(&mut self, now: Millis) {
        while let Some(node) = self.need_api_versions.pop_first() {
            self.push_request(node, Request::ApiVersions, Purpose::ApiVersions, now);
        }
    }
    fn push_request(&mut self, node: BrokerId, body: Request, purpose: Purpose, now: Millis) -> u32 {
        let correlation = self.correlation;
        self.correlation += 1;
        let timeout = self.config.request_timeout.max(body.least_timeout());
        let request = InFlight { correlation, purpose, api: body.key(), sent_at: now, timeout, written: false };
        self.in_flight.or_default(node).push_back(request);
        self.unwritten = true;
        // The end of a connection can be known before a poll has seen it: then the request is lost at once.
        if let Some(channel) = self.selector.channel(node) {
            self.actions.push(Action::Send { channel, node, correlation, body });
        }
        correlation
    }
    /// What was sent before this poll has left completely.
    fn written(&mut self, now: Millis, polled: &mut Polled) {
        if !std::mem::take(&mut self.unwritten) {
            return;
        }
        for (node, queue) in self.in_flight.iter_mut() {
            for request in queue.iter_mut().filter(|r| !r.written) {
                request.written = true;
                polled.moved = true;
            }
            let silent = |r: &InFlight| r.purpose == Purpose::User { expects_reply: false };
            if queue.iter().any(silent) {
                for r in queue.iter().filter(|r| silent(r)) {
                    let outcome = Outcome::Sent;
                    polled.completed.push(Completed { node, correlation: r.correlation, sent_at: now, outcome });
                }
                queue.retain(|r| !silent(r));
            }
        }
    }
    fn received(&mut self, node: BrokerId, correlation: u32, body: Reply, now: Millis, polled: &mut Polled) {
        let Some(request) = self.in_flight.get_mut(node).and_then(VecDeque::pop_front) else { return };
        assert_eq!(request.correlation, correlation, "answers come in the order of the requests");
        match request.purpose {
            Purpose::User { .. } => {
                let (sent_at, outcome) = (request.sent_at, Outcome::Reply(body));
                polled.completed.push(Completed { node, correlation, sent_at, outcome });
            }
            Purpose::ApiVersions => {
                self.states.ready(node, &mut self.dice);
                if let Reply::ApiVersions(Some(told)) = body
                    && self.features.is_none_or(|known| known.epoch <= told.epoch)
                {
                    self.features = Some(told);
                }
            }
            Purpose::Metadata => self.metadata_received(&body, now),
        }
    }
    fn metadata_received(&mut self, body: &Reply, now: Millis) {
        let Some(update) = self.update.take() else { return };
        match body {
            Reply::Metadata(reply) => {
                if self.metadata.update(update, reply, now, &mut self.dice) {
                    self.name(reply);
                    self.attempts_since = None;
                    self.actions.push(Action::MetadataUpdated);
                }
            }
            Reply::RebootstrapRequired if self.config.rebootstrap_trigger.is_some() => {
                self.metadata.request_update(true);
                // Long ago, so that this very poll begins again with the bootstrap list.
                self.attempts_since = Some(Millis(i64::MIN / 4));
            }
            _ => self.metadata.failed(now, &mut self.dice),
        }
    }
    fn request_timed_out(&self, now: Millis) -> Vec<BrokerId> {
        let late = |r: &InFlight| now > r.late_at();
        self.in_flight.iter().filter(|(_, q)| q.iter().any(late)).map(|(node, _)| node).collect()
    }
    /// The connection is gone (`processDisconnection`): everything in flight on it is lost, and metadata is asked for,
    /// because the loss may come from it being stale.
    fn disconnected(&mut self, node: BrokerId, why: Lost, now: Millis, polled: &mut Polled) {
        polled.moved = true;
        self.states.disconnected(node, now, &mut self.dice);
        self.need_api_versions.remove(&node);
        self.actions.push(Action::Emit(Event::Connection { node, up: false }));
        let error = if why == Lost::TimedOut { -101 } else { -100 };
        for r in self.in_flight.remove(node).unwrap_or_default() {
            self.actions.push(Action::Emit(Event::ClientError { api: r.api, error, node }));
            match r.purpose {
                Purpose::User { .. } => {
                    let outcome = Outcome::Lost(why);
                    let (correlation, sent_at) = (r.correlation, r.sent_at);
                    polled.completed.push(Completed { node, correlation, sent_at, outcome });
                }
                Purpose::Metadata => self.metadata_failed(now),
                Purpose::ApiVersions => {}
            }
        }
        // A loss while an update is due counts as a failed update, so that it is backed off.
        if self.update_due(now) {
            self.metadata_failed(now);
        }
        self.metadata.request_update(false);
    }
    fn metadata_failed(&mut self, now: Millis) {
        self.metadata.failed(now, &mut self.dice);
        self.update = None;
    }
}

impl Network for NetworkClient {
    fn ready(&mut self, node: BrokerId, now: Millis) -> bool {
        if self.is_ready(node, now) {
            return true;
        }
        if self.states.can_connect(node, now) {
            self.connect(node, now);
        }
        false
    }
    fn poll_delay(&self, node: BrokerId, now: Millis) -> Millis {
        self.states.delay(node, now)
    }
    fn unavailable(&self, node: BrokerId, now: Millis) -> bool {
        self.states.blacked_out(node, now)
    }
    fn send(&mut self, node: BrokerId, body: Request, expects_reply: bool, now: Millis) -> u32 {
        let ready = self.states.state(node) == ConnectionState::Ready && self.room_for(node);
        assert!(ready, "send only to a node that is ready");
        self.push_request(node, body, Purpose::User { expects_reply }, now)
    }
    fn in_flight(&self, node: BrokerId) -> usize {
        self.in_flight.get(node).map_or(0, VecDeque::len)
    }
    fn least_loaded(&mut self, now: Millis) -> Option<BrokerId> {
        self.least_loaded_node(now).0
    }
    fn request_update(&mut self, _now: Millis) {
        self.metadata.request_update(false);
    }
    fn update_requested(&self) -> bool {
        self.metadata.update_requested()
    }
    fn view(&self) -> &ClusterView {
        self.metadata.view()
    }
    fn learn_leader(&mut self, tp: TopicPartition, leader: Leader) -> bool {
        self.metadata.learn_leader(tp, leader)
    }
    fn learn_addr(&mut self, node: BrokerId, addr: Addr) {
        self.named.insert(node, addr);
    }
}
