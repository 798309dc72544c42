//! Faults and acts, on concrete processes and hosts. Symbolic targets are resolved before they come here.

use super::network::{Cut, DeadMode, LinkRule};
use super::slot::EffectKind;
use super::{Due, Lifecycle, Observer, What, World};
use model::base::{Addr, Cx, Disk, Lane, Nanos, Port, Process, ProcessId, Signal, SimTime};

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
    /// A dead process looks another way from outside (its address is gone now, or the host answers again).
    Dead(ProcessId, DeadMode),
    /// Cuts links.
    Cut(Cut),
    /// Heals a cut.
    Heal(u32),
    /// Changes links.
    Link(LinkRule),
    /// Takes a change of links back.
    Unlink(u32),
    /// CPU speed of a host: time factor in thousandths.
    Cpu(u32, u64),
    /// Disk of a host: time factor of flushes in thousandths, and the stall of every write.
    SlowDisk(u32, u64, Nanos),
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
            Self::Signal(_, Signal::Drain) => "drain",
            Self::Signal(_, Signal::ElectPreferred) => "elect-preferred",
            Self::Signal(_, Signal::HideTopics(true)) => "hide-topics",
            Self::Signal(_, Signal::HideTopics(false)) => "show-topics",
            Self::Dead(..) => "dead-mode",
            Self::Cut(_) => "cut",
            Self::Heal(_) => "heal",
            Self::Link(_) => "link",
            Self::Unlink(_) => "unlink",
            Self::Cpu(..) => "cpu",
            Self::SlowDisk(..) => "slow-disk",
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
    pub fn inject(&mut self, fault: &Fault, life: &mut impl Lifecycle, seen: &mut impl Observer) {
        self.faults += 1;
        let process = fault.process();
        self.trace(process.unwrap_or(ProcessId(u32::MAX)), 0, What::Fault(self.faults, fault.name()), None);
        seen.fault(self.now, process, fault.name());
        match fault {
            Fault::Kill(p, dead) => self.kill(*p, *dead, life, seen),
            Fault::PowerLoss(processes, dead) => {
                for p in processes {
                    self.kill(*p, *dead, life, seen);
                    self.slots[p.0 as usize].disk.lose_power(&mut self.fault_stream);
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
            Fault::Link(rule) => self.net.rules.push(rule.clone()),
            Fault::Unlink(id) => self.net.rules.retain(|r| r.id != *id),
            Fault::Cpu(host, permille) => self.hosts[*host as usize].cpu_permille = *permille,
            Fault::SlowDisk(host, permille, stall) => {
                self.hosts[*host as usize].disk_permille = *permille;
                self.hosts[*host as usize].write_stall = *stall;
            }
            Fault::FullDisk(host, full) => self.hosts[*host as usize].disk_full = *full,
            Fault::Skew(p, ms) => self.slots[p.0 as usize].skew = *ms,
        }
    }

    /// Arms a crash point; it fires once.
    pub fn arm(&mut self, point: CrashPoint) {
        self.crash = Some(point);
    }
    /// The crash point that has fired since the last call: when, and whom it killed.
    pub fn take_crashed(&mut self) -> Option<(SimTime, ProcessId)> {
        self.crashed.take()
    }

    pub(super) fn crashes_at(&mut self, process: ProcessId, kind: EffectKind) -> bool {
        let count = &mut self.slots[process.0 as usize].effects[kind as usize];
        *count += 1;
        let hit = CrashPoint { process, kind, nth: *count - 1 };
        self.crash.is_some_and(|armed| armed == hit) && self.crash.take().is_some()
    }

    /// Kills a process that is up.
    pub(super) fn kill(
        &mut self,
        process: ProcessId,
        dead: DeadMode,
        life: &mut impl Lifecycle,
        _seen: &mut impl Observer,
    ) {
        let slot = &mut self.slots[process.0 as usize];
        slot.dead = dead;
        if slot.state.is_none() {
            return;
        }
        self.trace(process, 0, What::Killed, None);
        self.slots[process.0 as usize].clear();
        self.drop_connections(process);
        life.down(process);
    }

    /// Starts a process that is down, from what is on its disk.
    pub(super) fn start(&mut self, process: ProcessId, life: &mut impl Lifecycle, seen: &mut impl Observer) {
        if self.slots[process.0 as usize].state.is_some() {
            return;
        }
        let id = self.trace(process, 0, What::Started, None);
        let slot = &mut self.slots[process.0 as usize];
        slot.incarnation.0 += 1;
        let incarnation = slot.incarnation;
        let port = Port(0);
        let mut effects = std::mem::take(&mut self.scratch);
        let mut cx = Cx::new(
            self.now,
            process,
            incarnation,
            port,
            self.fixes,
            slot.skew,
            self.streams,
            &mut slot.next_connection,
            &mut effects,
        );
        let state = P::start(&slot.config, &slot.disk, &mut cx);
        let lane = state.lane(port);
        slot.state = Some(state);
        life.up(process, incarnation);
        self.apply(process, port, lane, id, effects, life, seen);
        self.pump(process, lane, life, seen);
    }

    /// The lanes of a thawed process go on in an order that the fault stream draws: so that what a zombie does first is not
    /// always the same.
    fn thaw(&mut self, process: ProcessId) {
        let slot = &mut self.slots[process.0 as usize];
        if !slot.frozen {
            return;
        }
        slot.frozen = false;
        let incarnation = slot.incarnation;
        let mut lanes: Vec<usize> = (0..slot.lane_count()).collect();
        self.fault_stream.shuffle(&mut lanes);
        let now = self.now;
        for lane in lanes {
            let lane = Lane(lane as u16);
            let waiting = self.slots[process.0 as usize].lane(lane);
            let stopped = waiting.resume || (!waiting.busy && !waiting.inbox.is_empty());
            if stopped {
                // A lane that only has to take its next input resumes an empty timeline.
                waiting.busy = true;
                waiting.resume = false;
                let key = self.key(now, process, process);
                self.queue.push(key, Due::Resume { process, incarnation, lane });
            }
        }
        for (port, at) in self.slots[process.0 as usize].deadlines() {
            self.slots[process.0 as usize].deadline(port).queued = None;
            self.set_deadline(process, port, Some(at));
        }
    }
}
