//! The network: links with latency and bandwidth, connections that behave as TCP does towards a peer that is gone.
//!
//! What a client learns of a dead peer decides how long it stalls (kafka.md 6.1), on two axes: what becomes of connections
//! that exist ([`Existing`]) and of new ones ([`Connecting`]). Cuts are between processes and per listener, so that a
//! broker can be cut off from its followers on the broker listener alone. Nothing is lost on an open path: a cut stalls a
//! connection, and what was sent into it arrives with the first retransmission after the cut has healed.

use super::conns::Conns;
use model::base::{Addr, Domain, Incarnation, KeyMap, Nanos, Port, ProcessId, SimTime, Stream, Streams};
use std::collections::VecDeque;

/// What becomes of existing connections when a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Existing {
    /// The kernel lives and says FIN or RST.
    #[default]
    Reset,
    /// Nothing is heard any more: the connection is half open.
    Silent,
}

/// What becomes of new connections to a process that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Connecting {
    /// The kernel lives and the port is closed: refused at once.
    #[default]
    Refuse,
    /// SYNs are dropped: nothing at all.
    Drop,
    /// The kernel accepts, and nothing ever answers (a frozen process, a full backlog).
    AcceptSilent,
    /// The name no longer resolves: fails at once, on the asking side.
    NoName,
}

/// How a dead process looks from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeadMode {
    /// Existing connections.
    pub existing: Existing,
    /// New connections.
    pub connecting: Connecting,
}

/// A cut: messages from `from` to `to` do not pass, on connections to one of `ports` (any if empty), whichever side opened
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number by which it is healed.
    pub id: u32,
    /// Sending side.
    pub from: Vec<ProcessId>,
    /// Receiving side.
    pub to: Vec<ProcessId>,
    /// Listeners whose connections are cut; empty: all.
    pub ports: Vec<Port>,
}

impl Cut {
    /// Whether packets `from` → `to` on connections to `listener` are meant. What a process says to itself passes no network.
    pub(super) fn concerns(&self, from: ProcessId, to: ProcessId, listener: Port) -> bool {
        from != to
            && self.from.contains(&from)
            && self.to.contains(&to)
            && (self.ports.is_empty() || self.ports.contains(&listener))
    }
}

/// Properties of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Least one-way latency.
    pub latency: Nanos,
    /// Uniform extra latency, at most this.
    pub jitter: Nanos,
    /// Bytes per second; 0: unlimited.
    pub bytes_per_second: u64,
    /// Packets lost, in millionths. TCP hides a loss behind a retransmission of at least 200 ms.
    pub loss_ppm: u32,
}
impl Default for Link {
    fn default() -> Self {
        Self { latency: Nanos::micros(150), jitter: Nanos::micros(100), bytes_per_second: 125_000_000, loss_ppm: 0 }
    }
}

/// An override of a link's properties between two sets of processes, in both directions; the last one that matches holds.
#[derive(Clone, Debug)]
pub struct LinkRule {
    /// Number by which it is taken back.
    pub id: u32,
    /// One side.
    pub a: Vec<ProcessId>,
    /// The other side; empty: everyone.
    pub b: Vec<ProcessId>,
    /// The properties.
    pub link: Link,
}

/// What is wrong with the packets that a [`Cut`] of the same sides would stop, on top of the links' own properties.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// Which packets, and the number by which it is taken back.
    pub on: Cut,
    /// Added to each packet.
    pub delay: Nanos,
    /// Bytes a second that are left to each pair of processes; 0: as many as before.
    pub bytes_per_second: u64,
    /// Packets lost, in millionths.
    pub loss_ppm: u32,
    /// Packets doubled, in millionths. The receiver's TCP drops the copy: what remains is its share of the bandwidth.
    pub doubled_ppm: u32,
}

/// A trouble, with when each narrowed pair is free again.
#[derive(Clone, Debug)]
pub(super) struct Troubled {
    pub(super) trouble: Trouble,
    free: KeyMap<u64, SimTime>,
}

/// One direction of a connection.
#[derive(Clone, Debug)]
pub(super) struct Direction<M> {
    /// Arrival of what was sent last: TCP keeps order.
    pub(super) last_arrival: SimTime,
    /// What waits for a retransmission, with the number of attempts made.
    pub(super) stalled: VecDeque<Packet<M>>,
    /// A retransmission is scheduled.
    pub(super) timer: bool,
    /// Doublings of the retransmission timeout so far.
    pub(super) attempt: u32,
}
impl<M> Default for Direction<M> {
    fn default() -> Self {
        Self { last_arrival: SimTime::ZERO, stalled: VecDeque::new(), timer: false, attempt: 0 }
    }
}

/// What goes into one direction of a connection.
#[derive(Clone, Debug)]
pub(super) enum Packet<M> {
    Data(M, u64),
    Fin(u64),
}

/// How far a connection has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// SYN sent.
    Opening,
    /// Established.
    Up,
}

/// A connection between two ports. Index 0 of the arrays is the opener, 1 the listener.
#[derive(Clone, Debug)]
pub(super) struct Conn<M> {
    pub(super) ends: [Addr; 2],
    /// Incarnation that holds each end; `None` once that end has closed it or died.
    pub(super) held: [Option<Incarnation>; 2],
    /// That end went without a word: whoever sends to it learns of it by RST once its kernel is back, or never.
    pub(super) vanished: [bool; 2],
    pub(super) phase: Phase,
    pub(super) directions: [Direction<M>; 2],
}

/// Smallest retransmission timeout of Linux (`TCP_RTO_MIN`).
pub(super) const RTO_MIN: Nanos = Nanos::millis(200);
/// Largest retransmission timeout of Linux (`TCP_RTO_MAX`).
pub(super) const RTO_MAX: Nanos = Nanos::secs(120);
/// Retransmissions before a connection is given up (`tcp_retries2`).
pub(super) const DATA_RETRIES: u32 = 15;
/// SYN retransmissions before a connect fails (`tcp_syn_retries`); the first after 1 s, doubling.
pub(super) const SYN_RETRIES: u32 = 6;

/// Wait before the retransmission that follows `attempt` earlier ones.
pub(super) fn retransmission_timeout(attempt: u32) -> Nanos {
    Nanos((RTO_MIN.0 << attempt.min(20)).min(RTO_MAX.0))
}
/// Wait before SYN number `attempt` + 1.
pub(super) fn syn_timeout(attempt: u32) -> Nanos {
    Nanos::secs(1 << attempt.min(6))
}

/// Cuts and connections, over links.
#[derive(Clone, Debug)]
pub(super) struct Network<M> {
    pub(super) conns: Conns<M>,
    pub(super) cuts: Vec<Cut>,
    pub(super) links: Links,
}

impl<M> Network<M> {
    pub(super) fn new(streams: Streams, default_link: Link) -> Self {
        Self { conns: Conns::new(), cuts: Vec::new(), links: Links::new(streams, default_link) }
    }

    /// Whether `from` → `to` is cut on connections to `listener`.
    pub(super) fn cut(&self, from: ProcessId, to: ProcessId, listener: Port) -> bool {
        self.cuts.iter().any(|c| c.concerns(from, to, listener))
    }
}

/// The way from one process to another.
#[derive(Clone, Debug)]
struct Path {
    latency: Stream,
    /// When what was sent has gone onto the wire.
    free: SimTime,
}

/// The links between processes, and what is wrong with them.
#[derive(Clone, Debug)]
pub(super) struct Links {
    pub(super) rules: Vec<LinkRule>,
    troubles: Vec<Troubled>,
    default_link: Link,
    streams: Streams,
    /// By sender and receiver, made when first used.
    paths: Vec<Vec<Option<Path>>>,
}

impl Links {
    fn new(streams: Streams, default_link: Link) -> Self {
        Self { rules: Vec::new(), troubles: Vec::new(), default_link, streams, paths: Vec::new() }
    }
    pub(super) fn troubled(&self, from: ProcessId, to: ProcessId, listener: Port) -> bool {
        self.troubles.iter().any(|t| t.trouble.on.concerns(from, to, listener))
    }
    pub(super) fn trouble(&mut self, trouble: Trouble) {
        self.troubles.push(Troubled { trouble, free: KeyMap::new() });
    }
    pub(super) fn untrouble(&mut self, id: u32) {
        self.troubles.retain(|t| t.trouble.on.id != id);
    }

    fn link(&self, from: ProcessId, to: ProcessId) -> Link {
        let matches = |r: &&LinkRule| {
            let side = |set: &[ProcessId], p| set.is_empty() || set.contains(&p);
            (r.a.contains(&from) && side(&r.b, to)) || (r.a.contains(&to) && side(&r.b, from))
        };
        self.rules.iter().rev().find(matches).map_or(self.default_link, |r| r.link)
    }

    /// When something of `bytes` sent now on a connection to `listener` arrives: latency, then the link's bandwidth, then a
    /// loss, then whatever troubles the link.
    pub(super) fn arrival(
        &mut self,
        now: SimTime,
        from: ProcessId,
        to: ProcessId,
        listener: Port,
        bytes: u32,
    ) -> SimTime {
        let link = self.link(from, to);
        let id = u64::from(from.0) << 32 | u64::from(to.0);
        let Self { troubles, streams, paths, .. } = self;
        let new = || Path { latency: streams.stream(Domain::Network, id, "latency"), free: SimTime::ZERO };
        let Path { latency: stream, free } = path(paths, from, to).get_or_insert_with(new);
        // Loopback of one process still takes a moment, so that cause precedes effect.
        let mut at = now + link.latency;
        if link.jitter.0 > 0 {
            at += Nanos(stream.below(link.jitter.0));
        }
        if let Some(nanos) = (u64::from(bytes) * 1_000_000_000).checked_div(link.bytes_per_second) {
            *free = (*free).max(now) + Nanos(nanos);
            at = at.max(*free + link.latency);
        }
        at += lost(stream, link.loss_ppm);
        for Troubled { trouble, free } in troubles {
            if !trouble.on.concerns(from, to, listener) {
                continue;
            }
            at += trouble.delay + lost(stream, trouble.loss_ppm);
            let doubled = trouble.doubled_ppm > 0 && stream.chance(u64::from(trouble.doubled_ppm), 1_000_000);
            let bytes = u64::from(bytes) << u32::from(doubled);
            if let Some(nanos) = (bytes * 1_000_000_000).checked_div(trouble.bytes_per_second) {
                let free = free.entry(id, || SimTime::ZERO);
                *free = (*free).max(now) + Nanos(nanos);
                at = at.max(*free + link.latency + trouble.delay);
            }
        }
        at
    }
}

fn path(paths: &mut Vec<Vec<Option<Path>>>, from: ProcessId, to: ProcessId) -> &mut Option<Path> {
    let (from, to) = (from.0 as usize, to.0 as usize);
    if paths.len() <= from {
        paths.resize(from + 1, Vec::new());
    }
    let paths = &mut paths[from];
    if paths.len() <= to {
        paths.resize(to + 1, None);
    }
    &mut paths[to]
}

/// What a loss costs: TCP sends again after a timeout that doubles.
fn lost(stream: &mut Stream, ppm: u32) -> Nanos {
    let mut late = Nanos::ZERO;
    if ppm > 0 {
        let mut attempt = 0;
        while attempt < 6 && stream.chance(u64::from(ppm), 1_000_000) {
            late = late + retransmission_timeout(attempt);
            attempt += 1;
        }
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retransmissions_double_up_to_two_minutes() {
        assert_eq!(retransmission_timeout(0), Nanos::millis(200));
        assert_eq!(retransmission_timeout(3), Nanos::millis(1600));
        assert_eq!(retransmission_timeout(40), RTO_MAX);
        assert_eq!((0..SYN_RETRIES).map(|i| syn_timeout(i).0 / 1_000_000_000).sum::<u64>(), 63);
    }

    #[test]
    fn a_narrow_link_queues() {
        let slow = Link { latency: Nanos::ZERO, jitter: Nanos::ZERO, bytes_per_second: 1000, loss_ppm: 0 };
        let mut net = Links::new(Streams(1), slow);
        let first = net.arrival(SimTime::ZERO, ProcessId(0), ProcessId(1), Port(0), 500);
        let second = net.arrival(SimTime::ZERO, ProcessId(0), ProcessId(1), Port(0), 500);
        assert_eq!((first.0, second.0), (500_000_000, 1_000_000_000));
    }

    #[test]
    fn a_cut_has_a_direction_and_ports() {
        let mut net = Network::<()>::new(Streams(1), Link::default());
        let (a, b) = (ProcessId(1), ProcessId(2));
        net.cuts.push(Cut { id: 1, from: vec![a], to: vec![b], ports: vec![Port(5)] });
        assert!(net.cut(a, b, Port(5)));
        assert!(!net.cut(b, a, Port(5)));
        assert!(!net.cut(a, b, Port(6)));
    }

    #[test]
    fn a_process_is_never_cut_from_itself() {
        let mut net = Network::<()>::new(Streams(1), Link::default());
        let all = vec![ProcessId(1), ProcessId(2)];
        net.cuts.push(Cut { id: 1, from: all.clone(), to: all, ports: vec![] });
        assert!(net.cut(ProcessId(1), ProcessId(2), Port(0)));
        assert!(!net.cut(ProcessId(1), ProcessId(1), Port(0)));
    }

    #[test]
    fn trouble_comes_on_top_and_goes() {
        let plain = Link { latency: Nanos::millis(1), jitter: Nanos::ZERO, bytes_per_second: 0, loss_ppm: 0 };
        let mut net = Links::new(Streams(1), plain);
        let (a, b) = (ProcessId(1), ProcessId(2));
        let on = Cut { id: 4, from: vec![a], to: vec![b], ports: vec![Port(5)] };
        net.trouble(Trouble {
            on,
            delay: Nanos::millis(9),
            bytes_per_second: 1000,
            loss_ppm: 0,
            doubled_ppm: 1_000_000,
        });
        let at = |net: &mut Links, from, to, port| net.arrival(SimTime::ZERO, from, to, port, 100).millis().0;
        assert_eq!(at(&mut net, a, b, Port(5)), 210);
        assert_eq!(at(&mut net, a, b, Port(5)), 410);
        assert_eq!(at(&mut net, b, a, Port(5)), 1);
        assert_eq!(at(&mut net, a, b, Port(6)), 1);
        net.untrouble(4);
        assert_eq!(at(&mut net, a, b, Port(5)), 1);
        let on = Cut { id: 5, from: vec![a], to: vec![b], ports: vec![] };
        net.trouble(Trouble { on, delay: Nanos::ZERO, bytes_per_second: 0, loss_ppm: 500_000, doubled_ppm: 0 });
        let late = (0..1000).filter(|_| at(&mut net, a, b, Port(5)) > 200).count();
        assert!((400..600).contains(&late), "{late}");
    }
}
