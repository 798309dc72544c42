//! All connections of one client instance: what is sent, what is lost, what times out.

use super::broker::{Broker, Handle, Link, OnWire, Role, State, Waiting};
use super::config::RdConfig;
use super::errors::RdError;
use crate::base::{Addr, BrokerId, Millis, Stream};
use crate::kafka::messages::{Reply, Request};
use std::collections::VecDeque;

/// What the network is to do.
#[derive(Clone, Debug)]
pub enum NetAction {
    /// Connect.
    Open {
        /// The new connection.
        link: Link,
        /// The listener.
        to: Addr,
    },
    /// Close.
    Close(Link),
    /// Send a request.
    Send {
        /// Over which connection.
        link: Link,
        /// Its correlation id.
        correlation: u32,
        /// The request.
        body: Request,
    },
}

/// What the network says.
#[derive(Clone, Debug)]
pub enum NetInput {
    /// A connection is established.
    Up(Link),
    /// A connection was refused, reset or closed by the other side.
    Lost(Link),
    /// An answer.
    Reply {
        /// Over which connection.
        link: Link,
        /// That of the request.
        correlation: u32,
        /// The answer.
        body: Reply,
    },
}

/// What became of the connections, for the client above.
#[derive(Clone, Debug)]
pub enum ConnectionEvent<T> {
    /// A handle is usable.
    Up(Handle),
    /// A handle that was usable is not any more.
    Lost(Handle),
    /// A connect attempt failed.
    Failed(Handle),
    /// A request is answered or failed.
    Answer {
        /// Who was asked.
        handle: Handle,
        /// The owner's name for the request.
        tag: T,
        /// The answer, `_TRANSPORT` or `_TIMED_OUT`.
        result: Result<Reply, RdError>,
    },
}

/// The connections. `T` names requests.
#[derive(Clone, Debug)]
pub struct Connections<T> {
    /// Handles, by number.
    pub brokers: Vec<Broker<T>>,
    bootstrap: Vec<Addr>,
    next_handle: u32,
    next_link: u32,
    next_correlation: u32,
    last_any: Option<Millis>,
    stream: Stream,
    actions: Vec<NetAction>,
    events: VecDeque<ConnectionEvent<T>>,
}

impl<T: Clone> Connections<T> {
    /// Not connected to anything. `stream` draws back-off jitter and the choice among brokers.
    pub fn new(bootstrap: Vec<Addr>, config: &RdConfig, stream: Stream) -> Self {
        let mut new = Self {
            brokers: Vec::new(),
            bootstrap,
            next_handle: 0,
            next_link: 0,
            next_correlation: 0,
            last_any: None,
            stream,
            actions: Vec::new(),
            events: VecDeque::new(),
        };
        new.add_bootstrap(config);
        new
    }

    fn add(&mut self, role: Role, addr: Option<Addr>, config: &RdConfig) -> Handle {
        let handle = Handle(self.next_handle);
        self.next_handle += 1;
        self.brokers.push(Broker::new(handle, role, addr, config));
        handle
    }
    fn add_bootstrap(&mut self, config: &RdConfig) {
        for addr in self.bootstrap.clone() {
            self.add(Role::Bootstrap, Some(addr), config);
        }
    }
    fn at(&self, handle: Handle) -> Option<usize> {
        self.brokers.binary_search_by_key(&handle, |b| b.handle).ok()
    }
    /// A handle that still exists.
    pub fn broker(&self, handle: Handle) -> Option<&Broker<T>> {
        self.at(handle).map(|i| &self.brokers[i])
    }
    /// The handle of a node.
    pub fn node(&self, id: BrokerId) -> Option<&Broker<T>> {
        self.brokers.iter().find(|b| b.role == Role::Node(id))
    }
    /// The logical connection to the transaction coordinator, made when it is first asked for.
    pub fn coordinator(&mut self, config: &RdConfig) -> Handle {
        match self.brokers.iter().find(|b| b.role == Role::Coordinator) {
            Some(b) => b.handle,
            None => self.add(Role::Coordinator, None, config),
        }
    }
    /// Draws from the client's stream.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }
    /// What the network is to do now, in order.
    pub fn take_actions(&mut self) -> Vec<NetAction> {
        std::mem::take(&mut self.actions)
    }
    /// The next event.
    pub fn next_event(&mut self) -> Option<ConnectionEvent<T>> {
        self.events.pop_front()
    }

    /// A random usable broker (`rd_kafka_broker_any_up`); never a logical connection.
    pub fn any_up(&mut self) -> Option<Handle> {
        let up: Vec<Handle> =
            self.brokers.iter().filter(|b| b.real() && b.state == State::Up).map(|b| b.handle).collect();
        if up.is_empty() { None } else { Some(up[self.stream.below(up.len() as u64) as usize]) }
    }
    /// Whether no real broker is usable or being connected.
    pub fn all_down(&self) -> bool {
        self.brokers
            .iter()
            .filter(|b| b.real())
            .all(|b| !matches!(b.state, State::Up | State::Connecting | State::Handshake))
    }
    /// Connects to some broker, as a client does that needs any (`rd_kafka_connect_any`): a random one that is idle, not
    /// more often than every half `reconnect.backoff.ms`. If it is too soon it gives the time at which to come again.
    pub fn connect_any(&mut self, now: Millis, config: &RdConfig) -> Option<Millis> {
        let interval = Millis((config.reconnect_backoff.0 / 2).clamp(11, 1000));
        if !self.all_down() {
            return None;
        }
        if let Some(at) = self.last_any.filter(|at| *at + interval > now) {
            return Some(at + interval);
        }
        let idle: Vec<usize> = (0..self.brokers.len())
            .filter(|i| self.brokers[*i].real() && matches!(self.brokers[*i].state, State::Idle))
            .collect();
        if idle.is_empty() {
            return None;
        }
        self.last_any = Some(now);
        let pick = idle[self.stream.below(idle.len() as u64) as usize];
        self.brokers[pick].asked = true;
        self.brokers[pick].busy = true;
        None
    }
    /// Drops all real brokers and begins again with `bootstrap.servers` (`metadata.recovery.strategy` = rebootstrap).
    pub fn rebootstrap(&mut self, config: &RdConfig) {
        let old: Vec<Handle> = self.brokers.iter().filter(|b| b.real()).map(|b| b.handle).collect();
        old.into_iter().for_each(|h| self.remove(h));
        self.add_bootstrap(config);
    }

    /// Takes the brokers of a metadata answer. A bootstrap handle with a node's address becomes that node's; a node that is
    /// not listed any more is decommissioned (K-22d). Gives the nodes that went.
    pub fn learn(&mut self, brokers: &[(BrokerId, Addr)], config: &RdConfig) -> Vec<BrokerId> {
        for (id, addr) in brokers {
            if let Some(b) = self.brokers.iter_mut().find(|b| b.role == Role::Node(*id)) {
                b.addr = Some(*addr);
            } else if let Some(b) = self.brokers.iter_mut().find(|b| b.role == Role::Bootstrap && b.addr == Some(*addr))
            {
                b.role = Role::Node(*id);
            } else {
                self.add(Role::Node(*id), Some(*addr), config);
            }
        }
        let gone: Vec<(Handle, BrokerId)> = self
            .brokers
            .iter()
            .filter_map(|b| match b.role {
                Role::Node(id) if !brokers.iter().any(|(known, _)| *known == id) => Some((b.handle, id)),
                _ => None,
            })
            .collect();
        gone.iter().for_each(|(h, _)| self.remove(*h));
        gone.into_iter().map(|(_, id)| id).collect()
    }
    fn remove(&mut self, handle: Handle) {
        let Some(i) = self.at(handle) else { return };
        let broker = self.brokers.remove(i);
        if let Some(link) = broker.link {
            self.actions.push(NetAction::Close(link));
        }
        let tags = broker.wire.into_iter().map(|w| w.tag).chain(broker.queue.into_iter().filter_map(|w| w.tag));
        for tag in tags {
            self.events.push_back(ConnectionEvent::Answer { handle, tag, result: Err(RdError::Transport) });
        }
    }

    /// Binds the coordinator connection to a node, or to none. A change closes it, even in the middle of connecting, and
    /// the next attempt does not wait for the old node's back-off (K-24).
    pub fn bind(&mut self, handle: Handle, node: Option<(BrokerId, Addr)>, now: Millis, config: &RdConfig) {
        let Some(i) = self.at(handle) else { return };
        let broker = &mut self.brokers[i];
        if broker.bound == node.map(|n| n.0) && broker.addr == node.map(|n| n.1) {
            return;
        }
        broker.bound = node.map(|n| n.0);
        broker.addr = node.map(|n| n.1);
        let connecting = matches!(broker.state, State::Connecting | State::Handshake);
        self.lose(i);
        let broker = &mut self.brokers[i];
        if connecting {
            // The attempt that is given up has failed, and its back-off counts from now (R: 0.1 to 0.3 s).
            broker.backoff.raise(now, config, &mut self.stream);
        } else {
            broker.backoff.due = Millis::ZERO;
        }
    }

    /// Queues a request. It fails with `_TIMED_OUT` at `deadline`, with `_TRANSPORT` if its connection is lost after it was
    /// sent or the handle is gone.
    pub fn send(&mut self, handle: Handle, tag: T, body: Request, deadline: Millis) {
        match self.at(handle) {
            Some(i) => self.brokers[i].queue.push_back(Waiting { tag: Some(tag), body, deadline }),
            None => self.events.push_back(ConnectionEvent::Answer { handle, tag, result: Err(RdError::Transport) }),
        }
    }
    /// Queues a request that is not answered.
    pub fn send_only(&mut self, handle: Handle, body: Request, deadline: Millis) {
        if let Some(i) = self.at(handle) {
            self.brokers[i].queue.push_back(Waiting { tag: None, body, deadline });
        }
    }
    /// Whether events wait.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }
    /// Somebody wants this broker connected; `busy`: a partition has records for it.
    pub fn ask(&mut self, handle: Handle, busy: bool) {
        if let Some(i) = self.at(handle)
            && self.brokers[i].state != State::Up
        {
            self.brokers[i].asked = true;
            self.brokers[i].busy |= busy;
        }
    }

    /// Takes what the network says.
    pub fn input(&mut self, input: NetInput, config: &RdConfig) {
        let link = match &input {
            NetInput::Up(l) | NetInput::Lost(l) => *l,
            NetInput::Reply { link, .. } => *link,
        };
        let Some(i) = self.brokers.iter().position(|b| b.link == Some(link)) else { return };
        match input {
            NetInput::Up(_) => {
                self.next_correlation += 1;
                let correlation = self.next_correlation;
                let broker = &mut self.brokers[i];
                broker.state = State::Handshake;
                broker.hello = correlation;
                self.actions.push(NetAction::Send { link, correlation, body: Request::ApiVersions });
            }
            NetInput::Lost(_) => {
                self.brokers[i].link = None;
                self.fail(i, config);
            }
            NetInput::Reply { correlation, body, .. } => {
                let broker = &mut self.brokers[i];
                if broker.state == State::Handshake && correlation == broker.hello {
                    broker.state = State::Up;
                    broker.asked = false;
                    broker.busy = false;
                    self.events.push_back(ConnectionEvent::Up(broker.handle));
                } else if let Some(at) = broker.wire.iter().position(|w| w.correlation == correlation) {
                    let OnWire { tag, .. } = broker.wire.remove(at);
                    let handle = broker.handle;
                    self.events.push_back(ConnectionEvent::Answer { handle, tag, result: Ok(body) });
                }
            }
        }
    }

    /// The connection is gone, for whatever reason: what was on the wire has failed.
    fn lose(&mut self, i: usize) {
        let broker = &mut self.brokers[i];
        let was = broker.state;
        broker.state = State::Idle;
        broker.asked = false;
        broker.busy = false;
        if let Some(link) = broker.link.take() {
            self.actions.push(NetAction::Close(link));
        }
        let handle = broker.handle;
        let failed: Vec<T> = broker.wire.drain(..).map(|w| w.tag).collect();
        match was {
            State::Up => self.events.push_back(ConnectionEvent::Lost(handle)),
            State::Connecting | State::Handshake => self.events.push_back(ConnectionEvent::Failed(handle)),
            State::Idle | State::Trying => {}
        }
        for tag in failed {
            self.events.push_back(ConnectionEvent::Answer { handle, tag, result: Err(RdError::Transport) });
        }
    }
    fn fail(&mut self, i: usize, config: &RdConfig) {
        let attempt = matches!(self.brokers[i].state, State::Connecting | State::Handshake);
        self.lose(i);
        if attempt {
            let broker = &mut self.brokers[i];
            broker.backoff.raise(broker.started, config, &mut self.stream);
        }
    }

    /// Lets time pass: gives up, connects, sends.
    pub fn poll(&mut self, now: Millis, config: &RdConfig) {
        for i in 0..self.brokers.len() {
            let broker = &self.brokers[i];
            let pending = matches!(broker.state, State::Connecting | State::Handshake);
            if pending && broker.give_up <= now {
                self.fail(i, config);
            }
            self.expire(i, now, config);
            let broker = &mut self.brokers[i];
            if broker.state == State::Idle && broker.needed() {
                broker.state = State::Trying;
            }
            if broker.state == State::Trying
                && broker.backoff.due <= now
                && let Some(to) = broker.addr
            {
                broker.backoff.raise(now, config, &mut self.stream);
                broker.started = now;
                // A thread with something to send looks soon (R: 3 to 57 ms late after 5 s, 23 to 122 after 30 s); an idle
                // one wakes up once a second.
                let awake = broker.busy || !broker.queue.is_empty() || broker.role == Role::Coordinator;
                let late = if awake { 20 + config.setup_timeout.0 as u64 / 300 } else { 1_000 };
                let late = Millis(self.stream.below(late) as i64);
                broker.give_up = now.saturating_add(config.setup_timeout) + late;
                broker.state = State::Connecting;
                let link = Link(self.next_link);
                self.next_link += 1;
                broker.link = Some(link);
                self.actions.push(NetAction::Open { link, to });
            }
            if broker.state == State::Up
                && let Some(link) = broker.link
            {
                while let Some(Waiting { tag, body, deadline }) = broker.queue.pop_front() {
                    self.next_correlation += 1;
                    let correlation = self.next_correlation;
                    if let Some(tag) = tag {
                        // A dead request is found by a scan, somewhat late (R: 59.9 s is seen at 60.0 to 60.1).
                        let late = Millis(self.stream.between(100, 200) as i64);
                        let deadline = deadline.saturating_add(late);
                        broker.wire.push(OnWire { correlation, tag, deadline });
                    }
                    self.actions.push(NetAction::Send { link, correlation, body });
                }
            }
        }
    }

    fn expire(&mut self, i: usize, now: Millis, config: &RdConfig) {
        let broker = &mut self.brokers[i];
        let handle = broker.handle;
        let mut late: Vec<T> = Vec::new();
        broker.queue.retain(|w| {
            let keep = w.deadline > now;
            if !keep && let Some(tag) = &w.tag {
                late.push(tag.clone());
            }
            keep
        });
        let unsent = late.len();
        late.extend(broker.wire.extract_if(.., |w| w.deadline <= now).map(|w| w.tag));
        let dead = late.len() > unsent;
        for tag in late {
            self.events.push_back(ConnectionEvent::Answer { handle, tag, result: Err(RdError::TimedOut) });
        }
        if dead {
            // `socket.max.fails` 1: one request that nobody answered, and the connection is given up.
            self.fail(i, config);
        }
    }

    /// When [`Self::poll`] has something to do by time alone.
    pub fn deadline(&self) -> Millis {
        let mut at = Millis::MAX;
        for b in &self.brokers {
            at = at.min(match b.state {
                State::Connecting | State::Handshake => b.give_up,
                State::Trying => b.backoff.due,
                State::Idle if b.needed() => b.backoff.due,
                State::Up if !b.queue.is_empty() => Millis::ZERO,
                State::Idle | State::Up => Millis::MAX,
            });
            at = at.min(b.queue.iter().map(|w| w.deadline).min().unwrap_or(Millis::MAX));
            at = at.min(b.wire.iter().map(|w| w.deadline).min().unwrap_or(Millis::MAX));
        }
        at
    }
}
