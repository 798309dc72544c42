//! One broker handle: its connection, its reconnect back-off, what waits for it (K-21).

use super::config::RdConfig;
use crate::base::{Addr, BrokerId, Millis, Stream};
use crate::kafka::messages::Request;
use std::collections::VecDeque;

/// A broker handle of one client instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(pub u32);
/// A connection of one client instance; whoever does the I/O maps it to the world's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link(pub u32);

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An address of `bootstrap.servers`, its node id not known.
    Bootstrap,
    /// A node of the cluster.
    Node(BrokerId),
    /// The logical connection to the transaction (of a consumer: group) coordinator, bound to a node by FindCoordinator (K-22).
    Coordinator,
}

/// State of a handle's connection (`rd_kafka_broker_state_t`, as far as outcomes tell the states apart).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not connected, and nobody asks for it (sparse connections). Its partitions count as available.
    Idle,
    /// Wants to connect; waits for the back-off.
    Trying,
    /// TCP connect under way.
    Connecting,
    /// ApiVersions under way.
    Handshake,
    /// Usable.
    Up,
}

/// A request that waits for its connection.
#[derive(Clone, Debug)]
pub struct Waiting<T> {
    /// The owner's name for it; `None`: nobody waits for an answer (acks=0).
    pub tag: Option<T>,
    /// The request.
    pub body: Request,
    /// When it fails, sent or not.
    pub deadline: Millis,
}
/// A request on the wire.
#[derive(Clone, Debug)]
pub struct OnWire<T> {
    /// Its correlation id.
    pub correlation: u32,
    /// The owner's name for it.
    pub tag: T,
    /// When it fails.
    pub deadline: Millis,
}

/// Reconnect back-off of one handle (`rd_kafka_broker_update_reconnect_backoff`).
///
/// Every connect attempt doubles it and so does its failure: x4 an attempt. The loss of an *established* connection does
/// not. It begins anew if the last due time is more than `reconnect.backoff.max.ms` past. So a connection that lived longer
/// than that shows 0.15-0.3, 0.6-1.2, 2.4-4.8 s after its loss (real clusters, M4), and a young one, whose own attempt has
/// doubled it once, 0.3-0.6, 1.2-2.4, 4.8-9.6 s (recordings): one rule, two sequences.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    current: i64,
    /// The next attempt may start then.
    pub due: Millis,
}
impl Backoff {
    /// A fresh handle connects at once.
    pub fn new(config: &RdConfig) -> Self {
        Self { current: config.reconnect_backoff.0, due: Millis::ZERO }
    }
    /// An attempt began at `start`, or one that had begun then failed: the back-off counts from there. Jitter -25 % to
    /// +50 %, cut at the maximum *after* it.
    pub fn raise(&mut self, start: Millis, config: &RdConfig, stream: &mut Stream) {
        let max = config.reconnect_backoff_max.0;
        if self.due + config.reconnect_backoff_max < start {
            self.current = config.reconnect_backoff.0;
        }
        self.due = start + Millis(stream.jitter(self.current, 750, 1500).min(max));
        self.current = (self.current * 2).min(max);
    }
}

/// A broker handle.
#[derive(Clone, Debug)]
pub struct Broker<T> {
    /// Its number; never given twice.
    pub handle: Handle,
    /// What it stands for.
    pub role: Role,
    /// Where it connects to; `None`: a coordinator that is not known.
    pub addr: Option<Addr>,
    /// The node behind a coordinator connection.
    pub bound: Option<BrokerId>,
    /// Connection state.
    pub state: State,
    /// The connection, while there is one.
    pub link: Option<Link>,
    /// Start of the last connect attempt.
    pub started: Millis,
    /// Back-off.
    pub backoff: Backoff,
    /// Somebody wants it connected although no request waits in its queue.
    pub asked: bool,
    /// Records wait for it: its thread is awake.
    pub busy: bool,
    /// When its thread notices that a connect attempt has lasted too long.
    pub give_up: Millis,
    /// Requests that wait for the connection.
    pub queue: VecDeque<Waiting<T>>,
    /// Requests on the wire, oldest first.
    pub wire: Vec<OnWire<T>>,
    /// Correlation id of the ApiVersions request.
    pub hello: u32,
}

impl<T> Broker<T> {
    /// A handle that was never connected.
    pub fn new(handle: Handle, role: Role, addr: Option<Addr>, config: &RdConfig) -> Self {
        Self {
            handle,
            role,
            addr,
            bound: None,
            state: State::Idle,
            link: None,
            started: Millis::ZERO,
            backoff: Backoff::new(config),
            asked: false,
            busy: false,
            give_up: Millis::MAX,
            queue: VecDeque::new(),
            wire: Vec::new(),
            hello: 0,
        }
    }
    /// Whether a connection is wanted: a logical one always is, others only with something to send.
    pub fn needed(&self) -> bool {
        self.addr.is_some() && (self.role == Role::Coordinator || self.asked || !self.queue.is_empty())
    }
    /// Whether it is a real broker, not a logical connection.
    pub fn real(&self) -> bool {
        self.role != Role::Coordinator
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Domain, Streams};

    /// Delays after a connection of that age breaks, each attempt refused at once.
    fn delays(age: i64, seed: u64) -> Vec<i64> {
        let config = RdConfig::default();
        let mut stream = Streams(seed).stream(Domain::Process, 0, "t");
        let mut b = Backoff::new(&config);
        b.raise(Millis::ZERO, &config, &mut stream);
        let mut now = Millis(age);
        (0..5)
            .map(|_| {
                b.raise(now, &config, &mut stream);
                b.raise(now, &config, &mut stream);
                let wait = (b.due - now).0;
                now = b.due;
                wait
            })
            .collect()
    }

    #[test]
    fn young_connections_back_off_as_recorded_old_ones_as_measured() {
        for seed in 0..200 {
            let young = delays(2_000, seed);
            let old = delays(60_000, seed);
            let ranges = |d: &[i64], r: [(i64, i64); 5]| d.iter().zip(r).all(|(d, (a, b))| (a..=b).contains(d));
            assert!(
                ranges(&young, [(300, 600), (1200, 2400), (4800, 9600), (7500, 10_000), (7500, 10_000)]),
                "{young:?}"
            );
            assert!(ranges(&old, [(150, 300), (600, 1200), (2400, 4800), (7500, 10_000), (7500, 10_000)]), "{old:?}");
        }
    }
}
