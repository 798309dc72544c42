//! The world: one event queue, processes with ports and lanes, hosts, disks, the network, the trace.
//!
//! The world owns every machine, under both hosts ([`crate::host`]); it is a value, so a run can be forked at any instant by
//! cloning it. It knows nothing of Kafka: it is generic over the [`Process`].

mod faults;
mod flow;
mod host;
mod network;
mod queue;
mod slot;
mod tcp;
mod trace;

pub use faults::{Armed, Crash, CrashPoint, Crashed, Fault};
pub use host::{HostSpec, Strain};
pub use network::{Connecting, Cut, DeadMode, Existing, Link, LinkRule, Trouble};
pub use slot::{EffectKind, EffectKinds};
pub use trace::{Digest, Item, Recorder, What};

use flow::{Flow, Stall};
use host::Host;
use model::base::{
    Addr, Chain, ConnId, Cx, Disk, Effect, Event, Feed, FileId, Fixes, Incarnation, Input, Lane, Nanos, Port, Process,
    ProcessId, Row, Shown, Signal, SimTime, Streams, Wire,
};
use network::Network;
use queue::{Key, Queue};
use slot::Slot;
use std::collections::VecDeque;
use std::sync::Arc;

type Message<P> = <P as Process>::Message;
type Write<P> = <<P as Process>::Disk as Disk>::Write;
type EffectOf<P> = Effect<Message<P>, Write<P>>;

/// What a host does when the world's life cycle moves: madsim's clock and nodes, or nothing.
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
    /// Rows reached a layer.
    fn shown(&mut self, _at: SimTime, _process: ProcessId, _shown: &Shown) {}
    /// A message is delivered.
    fn message(&mut self, _at: SimTime, _to: Addr, _from: Addr, _name: &'static str, _bytes: u32) {}
    /// A fault or act took place.
    fn fault(&mut self, _at: SimTime, _process: Option<ProcessId>, _what: &'static str) {}
}
impl Observer for () {}
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn event(&mut self, at: SimTime, id: u64, cause: u64, process: ProcessId, event: &Event) {
        self.0.event(at, id, cause, process, event);
        self.1.event(at, id, cause, process, event);
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
}

/// Deterministic counts of work done (DESIGN: speed). In the outcome, pinned by snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Inputs given to processes.
    pub kernel_events: u64,
    /// Rows that entered a component: leader appends and rows shown to a layer.
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
        }
    }

    /// Adds a process on `host`, not yet started. Ids are given in order from 0.
    pub fn add(&mut self, host: u32, config: P::Config) -> ProcessId {
        assert!((host as usize) < self.hosts.len(), "host {host} does not exist");
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
        self.net.troubled(from, to, listener)
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
    pub fn idle_until(&mut self, to: SimTime, life: &mut impl Lifecycle) {
        assert!(self.queue.next_at().is_none_or(|at| at >= to), "something is due before {to}");
        if to > self.now {
            self.now = to;
            self.digest.advance(to);
            life.advance(to);
        }
    }

    /// Lets the next event happen; `None` when nothing waits.
    pub fn turn(&mut self, life: &mut impl Lifecycle, seen: &mut impl Observer) -> Option<SimTime> {
        let (key, due) = self.queue.pop()?;
        debug_assert!(key.at >= self.now, "time runs backwards");
        if key.at > self.now {
            self.now = key.at;
            self.digest.advance(key.at);
            life.advance(key.at);
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
        Key { at, link: u64::from(to.0) << 32 | u64::from(u32::MAX), count: self.own_count }
    }
    fn key(&mut self, at: SimTime, to: ProcessId, from: ProcessId) -> Key {
        let slot = &mut self.slots[from.0 as usize];
        slot.count += 1;
        Key { at, link: u64::from(to.0) << 32 | u64::from(from.0), count: slot.count }
    }
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Digest and trace of one item. `content` feeds what the item itself cannot carry: a message's content.
    fn trace(&mut self, process: ProcessId, cause: u64, what: What, content: Option<&dyn Fn(&mut Chain)>) -> u64 {
        let id = self.id();
        let now = self.now;
        let chain = self.digest.chain();
        trace::feed_head(chain, 0, now, process, cause);
        what.feed(chain);
        if let Some(content) = content {
            content(chain);
        }
        if let Some((recorder, own)) = self.recorder.as_mut().filter(|(r, _)| r.wants(now)) {
            trace::feed_head(own, 0, now, process, cause);
            what.feed(own);
            let content = content.map_or(0, |content| {
                let mut apart = Chain::new(0);
                content(&mut apart);
                apart.link()
            });
            own.u64(content);
            let digest = own.link();
            recorder.items.push(Item { id, cause, at: now, process, what, digest, content });
        }
        id
    }

    /// An input reaches a port: its lane takes it now, or when it is free.
    fn deliver(
        &mut self,
        to: Addr,
        input: Input<Message<P>>,
        cause: u64,
        life: &mut impl Lifecycle,
        seen: &mut impl Observer,
    ) {
        let slot = &mut self.slots[to.process.0 as usize];
        let Some(state) = slot.state.as_ref() else { return };
        let lane = state.lane(to.port);
        let frozen = slot.frozen;
        let waiting = slot.lane(lane);
        if frozen || waiting.busy || !waiting.inbox.is_empty() {
            waiting.inbox.push_back((to.port, input, cause));
            return;
        }
        self.step(to.process, to.port, lane, input, cause, life, seen);
        self.pump(to.process, lane, life, seen);
    }

    /// Gives a free lane what waits for it.
    fn pump(&mut self, process: ProcessId, lane: Lane, life: &mut impl Lifecycle, seen: &mut impl Observer) {
        loop {
            let slot = &mut self.slots[process.0 as usize];
            if slot.state.is_none() || slot.frozen {
                return;
            }
            let waiting = slot.lane(lane);
            if waiting.busy {
                return;
            }
            let Some((port, input, cause)) = waiting.inbox.pop_front() else { return };
            self.step(process, port, lane, input, cause, life, seen);
        }
    }

    fn step(
        &mut self,
        process: ProcessId,
        port: Port,
        lane: Lane,
        input: Input<Message<P>>,
        cause: u64,
        life: &mut impl Lifecycle,
        seen: &mut impl Observer,
    ) {
        self.work.kernel_events += 1;
        let id = match &input {
            Input::Message { conn, from, message } => {
                let bytes = message.bytes();
                self.work.messages += 1;
                self.work.bytes += u64::from(bytes);
                let name = message.name();
                seen.message(self.now, Addr { process, port }, *from, name, bytes);
                let what = What::Message { port, from: *from, conn: *conn, name, bytes };
                self.trace(process, cause, what, Some(&|c| c.u8(message.kind())))
            }
            Input::Connection(conn, event) => {
                self.trace(process, cause, What::Connection { port, conn: *conn, event: *event }, None)
            }
            Input::Wake => self.trace(process, cause, What::Wake(port), None),
            Input::Flushed(file) => self.trace(process, cause, What::Flushed(port, *file), None),
            Input::Signal(signal) => self.trace(process, cause, What::Signal(port), Some(&|c| signal.feed(c))),
            Input::Offer(rows) => {
                self.trace(process, cause, What::Offer(port, rows.len() as u32), Some(&|c| rows.feed(c)))
            }
        };
        let mut effects = std::mem::take(&mut self.scratch);
        let slot = &mut self.slots[process.0 as usize];
        let state = slot.state.as_mut().expect("only a running process steps");
        let mut cx = Cx::new(
            self.now,
            process,
            slot.incarnation,
            port,
            self.fixes,
            slot.skew,
            self.streams,
            &mut slot.next_connection,
            &mut effects,
        );
        state.step(port, input, &mut cx);
        self.apply(process, port, lane, id, effects, life, seen);
    }

    /// Applies effects in order, until work makes the rest wait.
    fn apply(
        &mut self,
        process: ProcessId,
        port: Port,
        lane: Lane,
        cause: u64,
        mut effects: Vec<EffectOf<P>>,
        life: &mut impl Lifecycle,
        seen: &mut impl Observer,
    ) {
        let mut rest = effects.drain(..);
        let mut stall = Stall::default();
        while let Some(effect) = rest.next() {
            if stall.holds(&effect) {
                let waiting = self.slots[process.0 as usize].lane(lane);
                waiting.timeline.push_back((port, cause, effect));
                waiting.timeline.extend(rest.map(|e| (port, cause, e)));
                self.scratch = effects;
                self.resume_at(self.now + stall.time, process, lane, false);
                return;
            }
            if let Some(armed) = self.crashes_at(process, EffectKind::of(&effect)) {
                if armed.how == Crash::Freeze {
                    let waiting = self.stop_before(process, lane, &effect);
                    waiting.timeline.push_back((port, cause, effect));
                    waiting.timeline.extend(rest.map(|e| (port, cause, e)));
                } else {
                    drop(rest);
                }
                self.scratch = effects;
                self.crash(armed, life, seen);
                return;
            }
            match self.effect(process, port, cause, effect, life, seen) {
                Flow::On => {}
                Flow::Stalled(file, time) => stall.add(file, time),
                Flow::Dead => {
                    drop(rest);
                    self.scratch = effects;
                    return;
                }
                Flow::Later(at) => {
                    let waiting = self.slots[process.0 as usize].lane(lane);
                    waiting.timeline.extend(rest.map(|e| (port, cause, e)));
                    self.scratch = effects;
                    self.resume_at(at, process, lane, true);
                    return;
                }
            }
        }
        drop(rest);
        self.scratch = effects;
        if stall.time > Nanos::ZERO {
            self.resume_at(self.now + stall.time, process, lane, false);
        }
    }

    /// A lane's work is done: the effects below it leave, up to the next work.
    fn resume(&mut self, process: ProcessId, lane: Lane, life: &mut impl Lifecycle, seen: &mut impl Observer) {
        let mut stall = Stall::default();
        loop {
            let Some((port, cause, effect)) = self.slots[process.0 as usize].lane(lane).timeline.pop_front() else {
                if stall.time > Nanos::ZERO {
                    self.resume_at(self.now + stall.time, process, lane, false);
                    return;
                }
                self.slots[process.0 as usize].lane(lane).busy = false;
                break;
            };
            if stall.holds(&effect) {
                self.slots[process.0 as usize].lane(lane).timeline.push_front((port, cause, effect));
                self.resume_at(self.now + stall.time, process, lane, false);
                return;
            }
            if let Some(armed) = self.crashes_at(process, EffectKind::of(&effect)) {
                if armed.how == Crash::Freeze {
                    self.stop_before(process, lane, &effect).timeline.push_front((port, cause, effect));
                }
                self.crash(armed, life, seen);
                return;
            }
            match self.effect(process, port, cause, effect, life, seen) {
                Flow::On => {}
                Flow::Stalled(file, time) => stall.add(file, time),
                Flow::Dead => return,
                Flow::Later(at) => {
                    self.resume_at(at, process, lane, true);
                    return;
                }
            }
        }
        self.pump(process, lane, life, seen);
    }

    fn effect(
        &mut self,
        process: ProcessId,
        port: Port,
        cause: u64,
        effect: EffectOf<P>,
        life: &mut impl Lifecycle,
        seen: &mut impl Observer,
    ) -> Flow {
        let index = process.0 as usize;
        match effect {
            Effect::Write(file, write) => {
                self.trace(process, cause, What::Write(file), Some(&|c| write.feed(c)));
                let host = &mut self.hosts[self.slots[index].host as usize];
                if host.disk_full {
                    // A broker with one log directory halts when it fails (`LogManager.handleLogDirFailure`).
                    self.end(process, life, seen);
                    return Flow::Dead;
                }
                host.written(self.now, P::Disk::bytes(&write));
                let stall = host.write_stall;
                self.slots[index].disk.apply(file, &write);
                if stall > Nanos::ZERO {
                    return Flow::Stalled(file, stall);
                }
            }
            Effect::Flush(file) => {
                let id = self.trace(process, cause, What::Flush(file), None);
                let mark = self.slots[index].disk.mark(file);
                let at = self.hosts[self.slots[index].host as usize].flushed_at(self.now);
                let incarnation = self.slots[index].incarnation;
                let key = self.key(at, process, process);
                self.queue.push(key, Due::Flushed { process, incarnation, port, file, mark, cause: id });
            }
            Effect::Open { conn, from, to } => {
                let id = self.trace(process, cause, What::Open(conn, to), None);
                self.open(process, from, conn, to, id);
            }
            Effect::Close(conn) => {
                let id = self.trace(process, cause, What::Close(conn), None);
                self.close(process, port, conn, id);
            }
            Effect::Send { conn, message } => {
                let what = What::Send { conn, name: message.name(), bytes: message.bytes() };
                let id = self.trace(process, cause, what, Some(&|c| message.feed(c)));
                self.send(process, port, conn, message, id);
            }
            Effect::Wake { port, at } => {
                self.trace(process, cause, What::Deadline(port, at), None);
                self.set_deadline(process, port, at);
            }
            Effect::Work(d) => {
                self.trace(process, cause, What::Work(d), None);
                if d > Nanos::ZERO {
                    let host = self.slots[index].host as usize;
                    return Flow::Later(self.hosts[host].work(self.now, d));
                }
            }
            Effect::Listen { port, open } => {
                self.trace(process, cause, What::Listen(port, open), None);
                self.slots[index].listen(port, open);
            }
            Effect::Emit(event) => {
                let id = self.trace(process, cause, What::Emit(event), None);
                if let Event::Appended { base, last, leader: true, .. } = event {
                    self.work.record_hops += (last.0 - base.0 + 1) as u64;
                }
                seen.event(self.now, id, cause, process, &event);
            }
            Effect::Show(shown) => {
                let rows = shown.to - shown.from;
                self.work.record_hops += u64::from(rows);
                self.trace(
                    process,
                    cause,
                    What::Shown(shown.layer, rows),
                    Some(&|c| {
                        shown.tp.feed(c);
                        shown.base.feed(c);
                        c.u32(shown.from);
                        shown.batch.feed(c);
                    }),
                );
                seen.shown(self.now, process, &shown);
            }
            Effect::Exit => {
                self.trace(process, cause, What::Exited, None);
                self.end(process, life, seen);
                return Flow::Dead;
            }
        }
        Flow::On
    }

    fn deadline(
        &mut self,
        process: ProcessId,
        incarnation: Incarnation,
        port: Port,
        life: &mut impl Lifecycle,
        seen: &mut impl Observer,
    ) {
        let now = self.now;
        let slot = &mut self.slots[process.0 as usize];
        if !slot.runs(incarnation) {
            return;
        }
        let frozen = slot.frozen;
        let deadline = slot.deadline(port);
        if deadline.queued.is_some_and(|q| q <= now) {
            deadline.queued = None;
        }
        match deadline.at {
            // Not while frozen: thawing looks at every deadline again.
            Some(at) if at <= now && !frozen => {
                slot.deadline(port).at = None;
                self.deliver(Addr { process, port }, Input::Wake, 0, life, seen);
            }
            Some(at) if at > now => self.set_deadline(process, port, Some(at)),
            _ => {}
        }
    }

    /// One queue entry a port: a later deadline waits for the earlier entry to come and look again.
    fn set_deadline(&mut self, process: ProcessId, port: Port, at: Option<SimTime>) {
        let now = self.now;
        let slot = &mut self.slots[process.0 as usize];
        let incarnation = slot.incarnation;
        let deadline = slot.deadline(port);
        deadline.at = at;
        if let Some(at) = at.map(|at| at.max(now))
            && deadline.queued.is_none_or(|q| at < q)
        {
            deadline.queued = Some(at);
            let key = self.key(at, process, process);
            self.queue.push(key, Due::Wake { process, incarnation, port });
        }
    }
}

#[cfg(test)]
mod tests;
