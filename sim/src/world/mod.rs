//! The world: one event queue, processes with ports and lanes, hosts, disks, the network, the trace.
//!
//! The world owns every machine, under both hosts ([`crate::host`]); it is a value, so a run can be forked at any instant by
//! cloning it. It knows nothing of Kafka: it is generic over the [`Process`].

mod conns;
mod deadline;
mod faults;
mod flow;
mod host;
mod network;
mod queue;
mod slot;
mod step;
mod tcp;
mod trace;

pub use faults::{Armed, Crash, CrashPoint, Crashed, Fault};
pub use host::{HostSpec, Strain};
pub use network::{Connecting, Cut, DeadMode, Existing, Link, LinkRule, Trouble};
pub use slot::{EffectKind, EffectKinds};
pub use trace::{Digest, Item, Recorder, What};

use host::Host;
use model::base::{
    Addr, Aside, Asides, Chain, ConnId, Disk, Effect, Event, FileId, Fixes, Incarnation, Input, Lane, Port, Process,
    ProcessId, Row, Shown, Signal, SimTime, Streams,
};
use network::Network;
use queue::{Key, Queue};
use slot::Slot;
use std::collections::VecDeque;
use std::sync::Arc;

type Message<P> = <P as Process>::Message;
type Write<P> = <<P as Process>::Disk as Disk>::Write;
type EffectOf<P> = Effect<Message<P>, Write<P>>;

/// What a host does when the world's life cycle moves: madsim's clock and nodes, or nothing. Handed on as `dyn`, so that a
/// world is compiled once for all hosts.
pub trait Lifecycle {
    /// Simulated time moves to `to`.
    fn advance(&mut self, _to: SimTime) {}
    /// A process is up.
    fn up(&mut self, _process: ProcessId, _incarnation: Incarnation) {}
    /// A process is down.
    fn down(&mut self, _process: ProcessId) {}
}

/// The host without any life cycle of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLifecycle;
impl Lifecycle for NoLifecycle {}

/// What watches a run. Laws observe; a fork is a clone.
pub trait Observer: Clone {
    /// A process or the world reported an event.
    fn event(&mut self, _at: SimTime, _id: u64, _cause: u64, _process: ProcessId, _event: &Event) {}
    /// A process said something about ghosts.
    fn aside(&mut self, _at: SimTime, _process: ProcessId, _aside: &Aside) {}
    /// Rows reached a layer.
    fn shown(&mut self, _at: SimTime, _process: ProcessId, _shown: &Shown) {}
    /// A message is delivered.
    fn message(&mut self, _at: SimTime, _to: Addr, _from: Addr, _name: &'static str, _bytes: u32) {}
    /// A fault or act took place.
    fn fault(&mut self, _at: SimTime, _process: Option<ProcessId>, _what: &'static str) {}
    /// A process that was up is dead, and its memory gone.
    fn died(&mut self, _at: SimTime, _process: ProcessId) {}
}
impl Observer for () {}
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn event(&mut self, at: SimTime, id: u64, cause: u64, process: ProcessId, event: &Event) {
        self.0.event(at, id, cause, process, event);
        self.1.event(at, id, cause, process, event);
    }
    fn aside(&mut self, at: SimTime, process: ProcessId, aside: &Aside) {
        self.0.aside(at, process, aside);
        self.1.aside(at, process, aside);
    }
    fn shown(&mut self, at: SimTime, process: ProcessId, shown: &Shown) {
        self.0.shown(at, process, shown);
        self.1.shown(at, process, shown);
    }
    fn message(&mut self, at: SimTime, to: Addr, from: Addr, name: &'static str, bytes: u32) {
        self.0.message(at, to, from, name, bytes);
        self.1.message(at, to, from, name, bytes);
    }
    fn fault(&mut self, at: SimTime, process: Option<ProcessId>, what: &'static str) {
        self.0.fault(at, process, what);
        self.1.fault(at, process, what);
    }
    fn died(&mut self, at: SimTime, process: ProcessId) {
        self.0.died(at, process);
        self.1.died(at, process);
    }
}

/// Deterministic counts of work done (DESIGN: speed). In the outcome, pinned by snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Inputs given to processes.
    pub kernel_events: u64,
    /// Rows that entered a component: leader appends, rows shown to a layer, rows taken by an operator or a sink.
    pub record_hops: u64,
    /// Messages delivered.
    pub messages: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// Something that will happen.
#[derive(Clone, Debug)]
enum Due<M> {
    /// An input arrives at a port.
    Input { to: Addr, incarnation: Incarnation, input: Input<M>, cause: u64 },
    /// A message arrives over a connection, at its end `side`.
    Packet { conn: ConnId, side: u8, packet: network::Packet<M> },
    /// A port's deadline.
    Wake { process: ProcessId, incarnation: Incarnation, port: Port },
    /// A lane's work is done: the effects below leave.
    Resume { process: ProcessId, incarnation: Incarnation, lane: Lane },
    /// A flush is done.
    Flushed { process: ProcessId, incarnation: Incarnation, port: Port, file: FileId, mark: u64, cause: u64 },
    /// A retransmission in direction `side` (towards that end) of a connection.
    Retransmit { conn: ConnId, side: u8 },
    /// A SYN leaves (`arrived` false) or arrives.
    Syn { conn: ConnId, attempt: u32, arrived: bool, cause: u64 },
}

/// How the world is set up.
#[derive(Clone, Debug)]
pub struct WorldSpec {
    /// The run's seed.
    pub seed: u64,
    /// Fixes in force.
    pub fixes: Fixes,
    /// Links without a rule of their own.
    pub link: Link,
    /// Machines.
    pub hosts: Vec<HostSpec>,
}

/// The world.
#[derive(Clone, Debug)]
pub struct World<P: Process> {
    now: SimTime,
    queue: Queue<Due<Message<P>>>,
    slots: Vec<Slot<P>>,
    hosts: Vec<Host>,
    net: Network<Message<P>>,
    streams: Streams,
    fixes: Fixes,
    digest: Digest,
    recorder: Option<(Recorder, Chain)>,
    next_id: u64,
    /// Count of events that the world itself schedules (faults, workload).
    own_count: u64,
    faults: u32,
    armed: Vec<Armed>,
    crashed: VecDeque<Crashed>,
    /// Work done so far.
    pub work: Work,
    scratch: Vec<EffectOf<P>>,
    asides: Asides,
}

impl<P: Process> World<P> {
    /// A world with hosts and no process.
    pub fn new(spec: &WorldSpec) -> Self {
        let streams = Streams(spec.seed);
        Self {
            now: SimTime::ZERO,
            queue: Queue::new(),
            slots: Vec::new(),
            hosts: spec.hosts.iter().map(|h| Host::new(*h)).collect(),
            net: Network::new(streams, spec.link),
            streams,
            fixes: spec.fixes,
            digest: Digest::new(spec.seed),
            recorder: None,
            next_id: 0,
            own_count: 0,
            faults: 0,
            armed: Vec::new(),
            crashed: VecDeque::new(),
            work: Work::default(),
            scratch: Vec::new(),
            asides: Asides::default(),
        }
    }

    /// Adds a process on `host`, not yet started. Ids are given in order from 0.
    pub fn add(&mut self, host: u32, config: P::Config) -> ProcessId {
        assert!((host as usize) < self.hosts.len(), "host {host} does not exist");
        assert!((self.slots.len() as u32) < Key::PROCESSES, "too many processes");
        self.slots.push(Slot::new(host, Arc::new(config)));
        ProcessId(self.slots.len() as u32 - 1)
    }

    /// Simulated time.
    pub fn now(&self) -> SimTime {
        self.now
    }
    /// Seed streams of the run.
    pub fn streams(&self) -> Streams {
        self.streams
    }
    /// When something happens next.
    pub fn next_at(&self) -> Option<SimTime> {
        self.queue.next_at()
    }
    /// Events that wait.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }
    /// Number of processes.
    pub fn processes(&self) -> u32 {
        self.slots.len() as u32
    }
    /// A running process, for symbolic targets and the judge.
    pub fn process(&self, id: ProcessId) -> Option<&P> {
        self.slots[id.0 as usize].state.as_ref()
    }
    /// A process's disk.
    pub fn disk(&self, id: ProcessId) -> &P::Disk {
        &self.slots[id.0 as usize].disk
    }
    /// A process's disk, to put what an earlier life left there before the run begins.
    pub fn disk_mut(&mut self, id: ProcessId) -> &mut P::Disk {
        &mut self.slots[id.0 as usize].disk
    }
    /// Whether a process is up (perhaps frozen).
    pub fn is_up(&self, id: ProcessId) -> bool {
        self.slots[id.0 as usize].state.is_some()
    }
    /// Since when a process is up, or down.
    pub fn since(&self, id: ProcessId) -> SimTime {
        self.slots[id.0 as usize].since
    }
    /// Whether a process is frozen.
    pub fn is_frozen(&self, id: ProcessId) -> bool {
        self.slots[id.0 as usize].frozen
    }
    /// Whether packets `from` → `to` are cut, on connections to this listener.
    pub fn is_cut(&self, from: ProcessId, to: ProcessId, listener: Port) -> bool {
        self.net.cut(from, to, listener)
    }
    /// Whether packets `from` → `to` meet trouble, on connections to this listener.
    pub fn is_troubled(&self, from: ProcessId, to: ProcessId, listener: Port) -> bool {
        self.net.links.troubled(from, to, listener)
    }
    /// How far a process's wall clock is off, in ms.
    pub fn skew(&self, id: ProcessId) -> i64 {
        self.slots[id.0 as usize].skew
    }
    /// What faults have made of a host.
    pub fn strain(&self, host: u32) -> Strain {
        self.hosts[host as usize].strain()
    }
    /// How often a process has been started.
    pub fn incarnation(&self, id: ProcessId) -> Incarnation {
        self.slots[id.0 as usize].incarnation
    }
    /// The digest so far.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
    /// How many effects of each kind a process has had: the space of crash points.
    pub fn effects_of(&self, id: ProcessId) -> &[u64; EffectKind::COUNT] {
        &self.slots[id.0 as usize].effects
    }

    /// Keeps the trace of some seconds.
    pub fn record(&mut self, recorder: Recorder) {
        self.recorder = Some((recorder, Chain::new(0)));
    }
    /// What was kept.
    pub fn recorded(&self) -> &[Item] {
        self.recorder.as_ref().map_or(&[], |(r, _)| &r.items)
    }
    /// Takes out what was kept so far, and keeps on keeping.
    pub fn take_recorded(&mut self) -> Vec<Item> {
        self.recorder.as_mut().map(|(r, _)| std::mem::take(&mut r.items)).unwrap_or_default()
    }

    /// Ends the run: closes the last second of the digest and gives the run's identity.
    pub fn finish(&mut self) -> u64 {
        self.digest.advance(self.now);
        self.digest.finish()
    }

    /// Gives rows made of many other numbers, which must change nothing. Before the run begins.
    pub fn number_folds_from(&mut self, first: u32) {
        self.asides = Asides::numbered_from(first);
    }
    /// Gives rows to an application at `at`.
    pub fn offer(&mut self, at: SimTime, to: Addr, rows: Arc<[Row]>) {
        let incarnation = self.slots[to.process.0 as usize].incarnation;
        let key = self.own_key(at.max(self.now), to.process);
        self.queue.push(key, Due::Input { to, incarnation, input: Input::Offer(rows), cause: 0 });
    }
    /// Gives a signal to a port of a process now.
    pub fn signal(&mut self, to: Addr, signal: Signal) {
        let incarnation = self.slots[to.process.0 as usize].incarnation;
        let key = self.own_key(self.now, to.process);
        self.queue.push(key, Due::Input { to, incarnation, input: Input::Signal(signal), cause: 0 });
    }
    /// Moves the clock to `to` without an event, for faults between two events. Nothing may be due before.
    pub fn idle_until(&mut self, to: SimTime, life: &mut dyn Lifecycle) {
        assert!(self.queue.next_at().is_none_or(|at| at >= to), "something is due before {to}");
        if to > self.now {
            self.now = to;
            self.digest.advance(to);
            life.advance(to);
        }
    }

    /// Lets the next event happen; `None` when nothing waits.
    pub fn turn(&mut self, life: &mut dyn Lifecycle, seen: &mut impl Observer) -> Option<SimTime> {
        let (at, due) = self.queue.pop()?;
        debug_assert!(at >= self.now, "time runs backwards");
        if at > self.now {
            self.now = at;
            self.digest.advance(at);
            life.advance(at);
        }
        match due {
            Due::Input { to, incarnation, input, cause } => {
                if self.slots[to.process.0 as usize].runs(incarnation) {
                    self.deliver(to, input, cause, life, seen);
                }
            }
            Due::Packet { conn, side, packet } => self.packet_arrives(conn, side, packet, life, seen),
            Due::Wake { process, incarnation, port } => self.deadline(process, incarnation, port, life, seen),
            Due::Resume { process, incarnation, lane } => {
                let slot = &mut self.slots[process.0 as usize];
                if slot.runs(incarnation) && slot.lane(lane).resumes(self.now) {
                    if slot.frozen {
                        slot.lane(lane).resume = true;
                    } else {
                        self.resume(process, lane, life, seen);
                    }
                }
            }
            Due::Flushed { process, incarnation, port, file, mark, cause } => {
                // The kernel finishes a flush that has begun even when the process has died since.
                let slot = &mut self.slots[process.0 as usize];
                slot.disk.flushed(file, mark);
                if slot.runs(incarnation) {
                    self.deliver(Addr { process, port }, Input::Flushed(file), cause, life, seen);
                }
            }
            Due::Retransmit { conn, side } => self.retransmit(conn, side),
            Due::Syn { conn, attempt, arrived, cause } => self.syn(conn, attempt, arrived, cause),
        }
        Some(self.now)
    }

    fn own_key(&mut self, at: SimTime, to: ProcessId) -> Key {
        self.own_count += 1;
        Key::new(at, to, Key::WORLD, self.own_count)
    }
    fn key(&mut self, at: SimTime, to: ProcessId, from: ProcessId) -> Key {
        let slot = &mut self.slots[from.0 as usize];
        slot.count += 1;
        Key::new(at, to, from, slot.count)
    }
}

#[cfg(test)]
mod tests;
