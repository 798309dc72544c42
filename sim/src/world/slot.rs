//! A process's place in the world: its state, disk, lanes, deadlines and connections.

use super::network::DeadMode;
use model::base::{ConnId, Disk, Effect, Incarnation, Input, Lane, Port, Process, SimTime};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Kinds of effects, for crash points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EffectKind {
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A connection opened.
    Open,
    /// A connection closed.
    Close,
    /// A message sent.
    Send,
    /// A deadline set.
    Wake,
    /// Work.
    Work,
    /// A listener opened or closed.
    Listen,
    /// An event.
    Emit,
    /// Rows shown.
    Show,
    /// Exit.
    Exit,
}
impl EffectKind {
    /// How many kinds there are.
    pub const COUNT: usize = 11;
    /// Every kind, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Write,
        Self::Flush,
        Self::Open,
        Self::Close,
        Self::Send,
        Self::Wake,
        Self::Work,
        Self::Listen,
        Self::Emit,
        Self::Show,
        Self::Exit,
    ];
    /// Name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Open => "open",
            Self::Close => "close",
            Self::Send => "send",
            Self::Wake => "wake",
            Self::Work => "work",
            Self::Listen => "listen",
            Self::Emit => "emit",
            Self::Show => "show",
            Self::Exit => "exit",
        }
    }
    /// Whether a crash here can differ from one at the next effect: what only tells the judge cannot.
    pub const fn is_real(self) -> bool {
        !matches!(self, Self::Emit | Self::Show)
    }
    pub(super) const fn of<M, W>(effect: &Effect<M, W>) -> Self {
        match effect {
            Effect::Write(..) => Self::Write,
            Effect::Flush(_) => Self::Flush,
            Effect::Open { .. } => Self::Open,
            Effect::Close(_) => Self::Close,
            Effect::Send { .. } => Self::Send,
            Effect::Wake { .. } => Self::Wake,
            Effect::Work(_) => Self::Work,
            Effect::Listen { .. } => Self::Listen,
            Effect::Emit(_) => Self::Emit,
            Effect::Show(_) => Self::Show,
            Effect::Exit => Self::Exit,
        }
    }
}

/// Kinds of effects that count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectKinds(u16);
impl EffectKinds {
    /// These.
    pub fn of(kinds: &[EffectKind]) -> Self {
        Self(kinds.iter().fold(0, |set, kind| set | 1 << *kind as u16))
    }
    /// Whether `kind` is among them.
    pub const fn has(self, kind: EffectKind) -> bool {
        self.0 & 1 << kind as u16 != 0
    }
    /// How many of `counts`, which has one number for each kind in order, are of these kinds.
    pub fn count(self, counts: &[u64; EffectKind::COUNT]) -> u64 {
        EffectKind::ALL.iter().filter(|k| self.has(**k)).map(|k| counts[*k as usize]).sum()
    }
}

/// A lane: what it computes, and what waits for it.
#[derive(Clone, Debug)]
pub(super) struct Waiting<M, W> {
    /// Computing: the rest of the timeline leaves later.
    pub(super) busy: bool,
    /// When it goes on. An entry of the queue that says another time is of work that was paced anew since.
    pub(super) until: SimTime,
    /// What it waits for is work on a core, not a disk.
    pub(super) works: bool,
    /// Work was done while the process was frozen.
    pub(super) resume: bool,
    pub(super) inbox: VecDeque<(Port, Input<M>, u64)>,
    pub(super) timeline: VecDeque<(Port, u64, Effect<M, W>)>,
}
impl<M, W> Waiting<M, W> {
    /// Whether an entry of the queue that is due now lets it go on.
    pub(super) fn resumes(&self, now: SimTime) -> bool {
        self.busy && self.until == now
    }
}
impl<M, W> Default for Waiting<M, W> {
    fn default() -> Self {
        Self {
            busy: false,
            until: SimTime::ZERO,
            works: false,
            resume: false,
            inbox: VecDeque::new(),
            timeline: VecDeque::new(),
        }
    }
}

/// A port's deadline.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deadline {
    /// When the component wants to be woken.
    pub(super) at: Option<SimTime>,
    /// The earliest queue entry for it.
    pub(super) queued: Option<SimTime>,
}

#[derive(Clone, Debug)]
pub(super) struct Slot<P: Process> {
    pub(super) host: u32,
    pub(super) config: Arc<P::Config>,
    pub(super) disk: P::Disk,
    pub(super) state: Option<P>,
    pub(super) incarnation: Incarnation,
    pub(super) frozen: bool,
    /// How it looks from outside when it is down; of a running process: how it will look if it ends by itself.
    pub(super) dead: DeadMode,
    pub(super) skew: i64,
    /// Since when it is up or down.
    pub(super) since: SimTime,
    /// How often it has lost power or been thawed: each time draws from a stream of its own.
    pub(super) shaken: u32,
    /// Connections with a live end here, in the order of their ids.
    pub(super) conns: BTreeSet<ConnId>,
    listening: Vec<Port>,
    lanes: Vec<Waiting<P::Message, <P::Disk as Disk>::Write>>,
    deadlines: Vec<(Port, Deadline)>,
    pub(super) next_connection: u64,
    pub(super) count: u64,
    pub(super) effects: [u64; EffectKind::COUNT],
}

impl<P: Process> Slot<P> {
    pub(super) fn new(host: u32, config: Arc<P::Config>) -> Self {
        Self {
            host,
            config,
            disk: P::Disk::default(),
            state: None,
            incarnation: Incarnation(0),
            frozen: false,
            dead: DeadMode::default(),
            skew: 0,
            since: SimTime::ZERO,
            shaken: 0,
            conns: BTreeSet::new(),
            listening: Vec::new(),
            lanes: Vec::new(),
            deadlines: Vec::new(),
            next_connection: 0,
            count: 0,
            effects: [0; EffectKind::COUNT],
        }
    }
    pub(super) fn runs(&self, incarnation: Incarnation) -> bool {
        self.state.is_some() && self.incarnation == incarnation
    }
    pub(super) fn lane(&mut self, lane: Lane) -> &mut Waiting<P::Message, <P::Disk as Disk>::Write> {
        let index = usize::from(lane.0);
        if index >= self.lanes.len() {
            self.lanes.resize_with(index + 1, Waiting::default);
        }
        &mut self.lanes[index]
    }
    /// Whether something waits that a lane could take now.
    #[inline]
    pub(super) fn has_waiting(&self, lane: Lane) -> bool {
        self.lanes.get(usize::from(lane.0)).is_some_and(|waiting| !waiting.busy && !waiting.inbox.is_empty())
    }
    pub(super) fn lane_count(&self) -> usize {
        self.lanes.len()
    }
    pub(super) fn deadline(&mut self, port: Port) -> &mut Deadline {
        let index = self.deadlines.iter().position(|(p, _)| *p == port).unwrap_or_else(|| {
            self.deadlines.push((port, Deadline::default()));
            self.deadlines.len() - 1
        });
        &mut self.deadlines[index].1
    }
    pub(super) fn deadlines(&self) -> Vec<(Port, SimTime)> {
        self.deadlines.iter().filter_map(|(port, d)| Some((*port, d.at?))).collect()
    }
    pub(super) fn listens(&self, port: Port) -> bool {
        self.listening.contains(&port)
    }
    pub(super) fn listen(&mut self, port: Port, open: bool) {
        self.listening.retain(|p| *p != port);
        if open {
            self.listening.push(port);
        }
    }
    /// Everything that dies with the process; the disk stays.
    pub(super) fn clear(&mut self) {
        self.state = None;
        self.frozen = false;
        self.listening.clear();
        self.lanes.clear();
        self.deadlines.clear();
    }
}
