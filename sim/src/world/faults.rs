//! Faults and acts, on concrete processes and hosts. Symbolic targets are resolved before they come here.

use super::network::{Cut, DeadMode, LinkRule, Trouble};
use super::slot::{EffectKind, EffectKinds};
use super::{EffectOf, Lifecycle, Observer, What, World};
use model::base::{Addr, Cx, Disk, Domain, JobAct, Lane, Nanos, Port, Process, ProcessId, Signal, SimTime, Stream};

/// Where a process is to be killed: just before the `nth` effect of a kind that it ever has (from 0, over incarnations).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CrashPoint {
    /// Whom.
    pub process: ProcessId,
    /// At which kind of effect.
    pub kind: EffectKind,
    /// At which of them.
    pub nth: u64,
}

/// What happens at a crash point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// SIGKILL.
    Kill(DeadMode),
    /// The machine loses power, with all that runs on it.
    PowerLoss(DeadMode),
    /// SIGSTOP.
    Freeze,
}
impl Crash {
    /// Name, for trace and outcome: that of the fault.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill(_) => "kill",
            Self::PowerLoss(_) => "power-loss",
            Self::Freeze => "freeze",
        }
    }
}

/// A crash point, armed. It fires once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed {
    /// Number by which the one who armed it knows it.
    pub id: u32,
    /// In which process.
    pub process: ProcessId,
    /// Which effects count.
    pub kinds: EffectKinds,
    /// Just before which of all effects of these kinds that the process ever has, from 0, over incarnations.
    pub nth: u64,
    /// What happens.
    pub how: Crash,
}

/// A crash point that has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crashed {
    /// When.
    pub at: SimTime,
    /// In which process.
    pub process: ProcessId,
    /// Number of the crash point; [`Crashed::BARE`] if it came with [`World::arm`].
    pub id: u32,
}
impl Crashed {
    /// The number of a point armed by [`World::arm`].
    pub const BARE: u32 = u32::MAX;
}

/// A fault or act.
#[derive(Clone, Debug)]
pub enum Fault {
    /// SIGKILL. The page cache survives.
    Kill(ProcessId, DeadMode),
    /// Power is lost under these processes (those of a host, as a rule): what was not flushed is lost, up to a prefix.
    PowerLoss(Vec<ProcessId>, DeadMode),
    /// Starts a process that is down.
    Start(ProcessId),
    /// SIGSTOP.
    Freeze(ProcessId),
    /// SIGCONT.
    Thaw(ProcessId),
    /// A signal to a port.
    Signal(Addr, Signal),
    /// A dead process looks another way from outside (its address is gone now, or the host answers again). Of a running one:
    /// it will look so if it ends by itself. Forgotten at its next start.
    Dead(ProcessId, DeadMode),
    /// Cuts links.
    Cut(Cut),
    /// Heals a cut.
    Heal(u32),
    /// Changes links.
    Link(LinkRule),
    /// Takes a change of links back.
    Unlink(u32),
    /// Troubles links.
    Trouble(Trouble),
    /// Takes a trouble back.
    Untrouble(u32),
    /// CPU speed of a host: time factor in thousandths.
    Cpu(u32, u64),
    /// Disk of a host: time factor of flushes in thousandths, and the stall of every write and flush.
    SlowDisk(u32, u64, Nanos),
    /// Disk of a host: bytes a second that are left; `None`: what it is built for.
    DiskBandwidth(u32, Option<u64>),
    /// Disk of a host full or not.
    FullDisk(u32, bool),
    /// A process's wall clock is off by this many ms.
    Skew(ProcessId, i64),
}

impl Fault {
    /// Name, for trace and outcome.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Kill(..) => "kill",
            Self::PowerLoss(..) => "power-loss",
            Self::Start(_) => "start",
            Self::Freeze(_) => "freeze",
            Self::Thaw(_) => "thaw",
            Self::Signal(_, Signal::Terminate) => "terminate",
            Self::Signal(_, Signal::Answer(_)) => "registry-answers",
            Self::Signal(_, Signal::UpgradeTransactions(_)) => "upgrade-feature",
            Self::Signal(_, Signal::Drain) => "drain",
            Self::Signal(_, Signal::Swaps(..)) => "lake-commits",
            Self::Signal(_, Signal::Maintain) => "maintain-lake",
            Self::Signal(_, Signal::Job(_, JobAct::Submit)) => "submit-job",
            Self::Signal(_, Signal::Job(_, JobAct::Cancel)) => "cancel-job",
            Self::Signal(_, Signal::Job(_, JobAct::Stop { .. })) => "stop-job",
            Self::Signal(_, Signal::Job(_, JobAct::Savepoint)) => "savepoint",
            Self::Signal(_, Signal::ElectPreferred | Signal::ElectPreferredOf(_)) => "elect-preferred",
            Self::Signal(_, Signal::HideTopics(true) | Signal::HideTopic(..)) => "hide-topics",
            Self::Signal(_, Signal::HideTopics(false) | Signal::ShowTopic(_)) => "show-topics",
            Self::Signal(_, Signal::HoldBack(_)) => "hold-back",
            Self::Signal(_, Signal::LetGo) => "let-go",
            Self::Dead(..) => "dead-mode",
            Self::Cut(_) => "cut",
            Self::Heal(_) => "heal",
            Self::Link(_) => "link",
            Self::Unlink(_) => "unlink",
            Self::Trouble(_) => "trouble",
            Self::Untrouble(_) => "untrouble",
            Self::Cpu(..) => "cpu",
            Self::SlowDisk(..) => "slow-disk",
            Self::DiskBandwidth(..) => "disk-bandwidth",
            Self::FullDisk(..) => "full-disk",
            Self::Skew(..) => "clock-skew",
        }
    }
    fn process(&self) -> Option<ProcessId> {
        match self {
            Self::Kill(p, _)
            | Self::Start(p)
            | Self::Freeze(p)
            | Self::Thaw(p)
            | Self::Dead(p, _)
            | Self::Skew(p, _) => Some(*p),
            Self::Signal(a, _) => Some(a.process),
            _ => None,
        }
    }
}

impl<P: Process> World<P> {
    /// Lets a fault take place now.
    pub fn inject(&mut self, fault: &Fault, life: &mut dyn Lifecycle, seen: &mut impl Observer) {
        self.faults += 1;
        let process = fault.process();
        self.trace(process.unwrap_or(ProcessId(u32::MAX)), 0, What::Fault(self.faults, fault.name()));
        seen.fault(self.now, process, fault.name());
        match fault {
            Fault::Kill(p, dead) => self.kill(*p, *dead, life, seen),
            Fault::PowerLoss(processes, dead) => {
                for p in processes {
                    self.lose_power(*p, *dead, life, seen);
                }
            }
            Fault::Start(p) => self.start(*p, life, seen),
            Fault::Freeze(p) => {
                let slot = &mut self.slots[p.0 as usize];
                slot.frozen = slot.state.is_some();
            }
            Fault::Thaw(p) => self.thaw(*p),
            Fault::Signal(to, signal) => self.signal(*to, *signal),
            Fault::Dead(p, dead) => self.slots[p.0 as usize].dead = *dead,
            Fault::Cut(cut) => self.net.cuts.push(cut.clone()),
            Fault::Heal(id) => self.net.cuts.retain(|c| c.id != *id),
            Fault::Link(rule) => self.net.links.rules.push(rule.clone()),
            Fault::Unlink(id) => self.net.links.rules.retain(|r| r.id != *id),
            Fault::Trouble(trouble) => self.net.links.trouble(trouble.clone()),
            Fault::Untrouble(id) => self.net.links.untrouble(*id),
            Fault::Cpu(host, permille) => self.pace(*host, *permille),
            Fault::SlowDisk(host, permille, stall) => self.slow_disk(*host, *permille, *stall),
            Fault::DiskBandwidth(host, left) => self.hosts[*host as usize].limit_disk(self.now, *left),
            Fault::FullDisk(host, full) => self.hosts[*host as usize].disk_full = *full,
            Fault::Skew(p, ms) => self.slots[p.0 as usize].skew = *ms,
        }
    }

    /// Arms a crash point that kills; it fires once.
    pub fn arm(&mut self, point: CrashPoint) {
        let CrashPoint { process, kind, nth } = point;
        let how = Crash::Kill(DeadMode::default());
        self.arm_crash(Armed { id: Crashed::BARE, process, kinds: EffectKinds::of(&[kind]), nth, how });
    }
    /// Arms a crash point beside those that are.
    pub fn arm_crash(&mut self, armed: Armed) {
        self.armed.push(armed);
    }
    /// The next crash point that has fired and was not taken yet.
    pub fn take_crashed(&mut self) -> Option<Crashed> {
        self.crashed.pop_front()
    }

    /// Counts an effect that is about to leave: the crash point that stands before it.
    #[inline]
    pub(super) fn crashes_at(&mut self, process: ProcessId, kind: EffectKind) -> Option<Armed> {
        self.slots[process.0 as usize].effects[kind as usize] += 1;
        if self.armed.is_empty() { None } else { self.crash_point(process, kind) }
    }
    #[cold]
    fn crash_point(&mut self, process: ProcessId, kind: EffectKind) -> Option<Armed> {
        let counts = &self.slots[process.0 as usize].effects;
        let hit = |a: &Armed| a.process == process && a.kinds.has(kind) && a.kinds.count(counts) == a.nth + 1;
        let place = self.armed.iter().position(hit)?;
        Some(self.armed.remove(place))
    }

    /// An effect does not leave yet: it will be counted when it does.
    pub(super) fn uncount(&mut self, process: ProcessId, effect: &EffectOf<P>) {
        self.slots[process.0 as usize].effects[EffectKind::of(effect) as usize] -= 1;
    }

    /// A crash point fires.
    pub(super) fn crash(&mut self, armed: Armed, life: &mut dyn Lifecycle, seen: &mut impl Observer) {
        let Armed { id, process, how, .. } = armed;
        self.faults += 1;
        self.trace(process, 0, What::Fault(self.faults, how.name()));
        seen.fault(self.now, Some(process), how.name());
        match how {
            Crash::Kill(dead) => self.kill(process, dead, life, seen),
            Crash::PowerLoss(dead) => {
                let host = self.slots[process.0 as usize].host;
                let on_host = (0..self.processes()).filter(|p| self.slots[*p as usize].host == host);
                for p in on_host.collect::<Vec<_>>() {
                    self.lose_power(ProcessId(p), dead, life, seen);
                }
            }
            Crash::Freeze => self.slots[process.0 as usize].frozen = true,
        }
        self.crashed.push_back(Crashed { at: self.now, process, id });
    }

    /// What chance does to a process draws from a stream for this one time.
    fn shake(&mut self, process: ProcessId, purpose: &str) -> Stream {
        let slot = &mut self.slots[process.0 as usize];
        slot.shaken += 1;
        self.streams.stream(Domain::Fault, u64::from(process.0) << 32 | u64::from(slot.shaken), purpose)
    }

    fn lose_power(&mut self, process: ProcessId, dead: DeadMode, life: &mut dyn Lifecycle, seen: &mut impl Observer) {
        self.kill(process, dead, life, seen);
        let mut stream = self.shake(process, "power loss");
        self.slots[process.0 as usize].disk.lose_power(&mut stream);
    }

    /// A process ends by itself.
    pub(super) fn end(&mut self, process: ProcessId, life: &mut dyn Lifecycle, seen: &mut impl Observer) {
        let dead = self.slots[process.0 as usize].dead;
        self.kill(process, dead, life, seen);
    }

    /// Kills a process that is up.
    pub(super) fn kill(
        &mut self,
        process: ProcessId,
        dead: DeadMode,
        life: &mut dyn Lifecycle,
        seen: &mut impl Observer,
    ) {
        let slot = &mut self.slots[process.0 as usize];
        slot.dead = dead;
        if slot.state.is_none() {
            return;
        }
        self.trace(process, 0, What::Killed);
        let now = self.now;
        let slot = &mut self.slots[process.0 as usize];
        slot.clear();
        slot.since = now;
        self.drop_connections(process);
        seen.died(now, process);
        life.down(process);
    }

    /// Starts a process that is down, from what is on its disk.
    pub(super) fn start(&mut self, process: ProcessId, life: &mut dyn Lifecycle, seen: &mut impl Observer) {
        if self.slots[process.0 as usize].state.is_some() {
            return;
        }
        let id = self.trace(process, 0, What::Started);
        let slot = &mut self.slots[process.0 as usize];
        slot.incarnation.0 += 1;
        slot.since = self.now;
        slot.dead = DeadMode::default();
        let incarnation = slot.incarnation;
        let port = Port(0);
        let mut cx = Cx::new(
            self.now,
            process,
            incarnation,
            port,
            self.fixes,
            slot.skew,
            self.streams,
            &mut slot.next_connection,
            &mut self.asides,
            &mut self.scratch,
        );
        let state = P::start(&slot.config, &slot.disk, &mut cx);
        let lane = state.lane(port);
        slot.state = Some(state);
        life.up(process, incarnation);
        self.apply(process, port, lane, id, life, seen);
        self.pump(process, lane, life, seen);
    }

    /// The lanes of a thawed process go on in an order that is drawn: so that what a zombie does first is not
    /// always the same.
    fn thaw(&mut self, process: ProcessId) {
        let slot = &mut self.slots[process.0 as usize];
        if !slot.frozen {
            return;
        }
        slot.frozen = false;
        let mut lanes: Vec<usize> = (0..slot.lane_count()).collect();
        self.shake(process, "thaw").shuffle(&mut lanes);
        let now = self.now;
        for lane in lanes {
            let lane = Lane(lane as u16);
            let waiting = self.slots[process.0 as usize].lane(lane);
            let stopped = waiting.resume || (!waiting.busy && !waiting.inbox.is_empty());
            if stopped {
                // A lane that only has to take its next input resumes an empty timeline.
                waiting.resume = false;
                self.resume_at(now, process, lane, false);
            }
        }
        for (port, at) in self.slots[process.0 as usize].deadlines() {
            self.slots[process.0 as usize].deadline(port).queued = None;
            self.set_deadline(process, port, Some(at));
        }
    }
}
