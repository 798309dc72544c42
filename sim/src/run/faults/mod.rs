//! The faults of a run: from a drawn schedule with symbolic targets to faults on concrete processes, at the right moments.
//!
//! The engine stands beside the world: the run asks it when something is due, tells it what it has seen, and lets it act
//! between two events. It is a value like the world, so a fork of a run clones both.
//!
//! Faults overlap. What two of them do to one process is kept as holds: a process that several faults hold down starts
//! again when the last of them lets go, one that several freeze thaws with the last, disks, cores and clocks show what all
//! faults in force make of them together. An explicit restart or thaw lets go of all.
//!
//! A fault whose target means nobody yet (no controller, no leader) waits for somebody, and one of a chaos schedule that
//! would take out more nodes than [`crate::scenario::data::Chaos::most_down`] waits for a node to come back; after
//! [`PATIENCE`] it is skipped, and the log says so.
//!
//! | file | what |
//! |---|---|
//! | `targets.rs` | whom a target means now |
//! | `triggers.rs` | events that start faults |
//! | `begin.rs` | a fault begins |
//! | `end.rs` | it is undone |
//! | `holds.rs` | who is held down, frozen, cut off, and by which faults |
//! | `rolling.rs` | one node after the other |

mod begin;
mod end;
mod holds;
mod rolling;
mod targets;
mod triggers;

pub use triggers::Watcher;

use super::Stage;
use crate::scenario::Scenario;
use crate::scenario::data::{self, Action, EffectKind, Fault, FaultSpec, Target, TriggerEvent, When};
use crate::world::{self, Armed, Crash, Crashed, EffectKinds, Lifecycle, Observer, World};
use holds::Holds;
use model::actor::Actor;
use model::base::{Domain, Event, Nanos, ProcessId, SimTime, Stream, Streams};
use rolling::Roll;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use targets::{Plan, Wanted};
use triggers::Triggers;

/// How often the engine looks whether a condition holds that no event tells.
const POLL: Nanos = Nanos::millis(100);
/// How long a fault waits for its target, or for a node to come back.
pub const PATIENCE: Nanos = Nanos::secs(120);
/// After so long a process that was told to stop is killed (systemd's `DefaultTimeoutStopSec`).
pub const STOP_PATIENCE: Nanos = Nanos::secs(90);

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It began.
    Begins,
    /// It was undone.
    Ends,
    /// It found no target, or no node could be spared.
    Skipped,
}
impl Phase {
    /// As the outcome says it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begins => "begins",
            Self::Ends => "ends",
            Self::Skipped => "skipped",
        }
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRecord {
    /// When.
    pub at: SimTime,
    /// The fault's name in the scenario.
    pub name: String,
    /// What it does: [`Action::name`].
    pub what: &'static str,
    /// What became of it.
    pub phase: Phase,
    /// Whom it meets, as written and as it turned out.
    pub target: String,
    /// The same as processes.
    pub processes: Vec<ProcessId>,
}

/// Something to do at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Todo {
    /// The crash point is armed as soon as its process is known.
    Arm,
    /// The fault begins.
    Begin,
    /// Its crash point has fired in this process.
    Crashed(ProcessId),
    /// It ends.
    End,
    /// It lets go of a process that it held down.
    Release(ProcessId),
    /// The link goes or comes back.
    Flap,
    /// See who has stopped.
    Stopping,
    /// The next step of a rolling restart.
    Roll,
}

/// How far a fault is.
#[derive(Clone, Debug)]
struct State {
    stream: Stream,
    /// Since when it waits to begin.
    waits: Option<SimTime>,
    /// When it began.
    began: Option<SimTime>,
    over: bool,
    /// Whom it meets.
    on: Vec<ProcessId>,
    /// Of a stop: who has not died yet.
    stopping: Vec<ProcessId>,
    /// Numbers of its cuts and troubles in the world.
    ids: Vec<u32>,
    /// The two sides of a link that flaps.
    sides: (Vec<ProcessId>, Vec<ProcessId>),
    /// Numbers of the cuts while its link is down.
    flap: Vec<u32>,
    target: String,
    roll: Roll,
}

/// The faults of a run. See the module.
#[derive(Clone, Debug)]
pub struct FaultEngine {
    plan: Arc<Plan>,
    states: Vec<State>,
    todo: BTreeMap<(SimTime, u64), (usize, Todo)>,
    todos: u64,
    triggers: Triggers,
    holds: Holds,
    /// Numbers of cuts and troubles given.
    ids: u32,
    log: Vec<FaultRecord>,
}

/// The world with what every act on it needs.
struct Hands<'a, O> {
    world: &'a mut World<Actor>,
    life: &'a mut dyn Lifecycle,
    seen: &'a mut O,
}
impl<O: Observer> Hands<'_, O> {
    fn now(&self) -> SimTime {
        self.world.now()
    }
    fn inject(&mut self, fault: &world::Fault) {
        self.world.inject(fault, self.life, self.seen);
    }
}

impl FaultEngine {
    /// The engine for the faults of a schedule ([`Scenario::schedule`]). `streams` are the run's.
    pub fn new(scenario: &Scenario, stage: &Stage, faults: Vec<Fault<Nanos>>, streams: Streams) -> Self {
        let chaos = |name: &str| {
            scenario.faults.iter().find_map(|spec| match spec {
                FaultSpec::Chaos(c) if name.strip_prefix(&c.name).is_some_and(|rest| rest.starts_with('-')) => {
                    Some(c.most_down)
                }
                _ => None,
            })
        };
        let declared: BTreeSet<&str> = (scenario.faults.iter())
            .filter_map(|spec| match spec {
                FaultSpec::One(fault) => Some(fault.name.as_str()),
                FaultSpec::Chaos(_) => None,
            })
            .collect();
        let most_down =
            faults.iter().map(|f| if declared.contains(&*f.name) { None } else { chaos(&f.name) }).collect();
        let state = |f: &Fault<Nanos>| State {
            // By name, so that a fault less moves no draw of another.
            stream: streams.stream(Domain::Fault, 0, &f.name),
            waits: None,
            began: None,
            over: false,
            on: Vec::new(),
            stopping: Vec::new(),
            ids: Vec::new(),
            sides: (Vec::new(), Vec::new()),
            flap: Vec::new(),
            target: String::new(),
            roll: Roll::default(),
        };
        let states = faults.iter().map(state).collect();
        let mut engine = Self {
            plan: Arc::new(Plan::new(scenario, stage, faults, most_down)),
            states,
            todo: BTreeMap::new(),
            todos: 0,
            triggers: Triggers::default(),
            holds: Holds::default(),
            ids: 0,
            log: Vec::new(),
        };
        let plan = Arc::clone(&engine.plan);
        for (i, fault) in plan.faults.iter().enumerate() {
            match &fault.when {
                When::At(at) => engine.at(SimTime::ZERO + *at, i, Todo::Begin),
                When::On(trigger) => engine.triggers.add(i, trigger),
                When::CrashPoint { .. } => engine.at(SimTime::ZERO, i, Todo::Arm),
            }
        }
        engine
    }

    /// The scenario's time zero: crash points count from here on.
    pub fn starting_at(mut self, origin: SimTime) -> Self {
        let arms: Vec<_> = self.todo.iter().filter(|(_, t)| t.1 == Todo::Arm).map(|(key, _)| *key).collect();
        for key in arms {
            if let Some(todo) = self.todo.remove(&key) {
                self.todo.insert((origin, key.1), todo);
            }
        }
        self
    }

    /// A part of the run's observer that keeps what [`FaultEngine::absorb`] wants to know.
    pub fn watcher(&self) -> Watcher {
        self.triggers.watcher()
    }
    /// Takes in what a watcher has seen; whether that was anything.
    pub fn absorb(&mut self, watcher: &mut Watcher) -> bool {
        if watcher.seen.is_empty() {
            return false;
        }
        for (at, process, event) in watcher.seen.drain(..) {
            self.on_event(at, process, &event);
        }
        true
    }
    /// A process reported an event.
    pub fn on_event(&mut self, at: SimTime, process: ProcessId, event: &Event) {
        let begin = self.triggers.event(at, process, event);
        self.begin_at(begin);
    }
    /// The last event of the workload has been offered.
    pub fn workload_ended(&mut self, at: SimTime) {
        let begin = self.triggers.happened(at, &TriggerEvent::WorkloadEnds);
        self.begin_at(begin);
    }
    /// A crash point has fired ([`World::take_crashed`]).
    pub fn on_crashed(&mut self, crashed: Crashed) {
        if (crashed.id as usize) < self.states.len() {
            self.at(crashed.at, crashed.id as usize, Todo::Crashed(crashed.process));
        }
    }

    /// When the engine wants to act next. It may lie before the world's time: then at once.
    pub fn next_at(&self) -> Option<SimTime> {
        let timed = self.todo.first_key_value().map(|((at, _), _)| *at);
        timed.into_iter().chain(self.triggers.next_at()).min()
    }

    /// Does everything that is due at the world's time.
    pub fn due(&mut self, world: &mut World<Actor>, life: &mut dyn Lifecycle, seen: &mut impl Observer) {
        let mut hands = Hands { world, life, seen };
        let plan = Arc::clone(&self.plan);
        loop {
            let begin = self.triggers.settle(&plan, hands.world);
            self.begin_at(begin);
            let Some(entry) = self.todo.first_entry().filter(|e| e.key().0 <= hands.now()) else { return };
            let (i, todo) = entry.remove();
            match todo {
                Todo::Arm => {
                    if !self.arm(i, hands.world) {
                        self.wait(i, Todo::Arm, hands.now());
                    }
                }
                Todo::Begin => self.begin(i, &mut hands),
                Todo::Crashed(process) => self.crashed(i, process, &mut hands),
                Todo::End => self.end(i, &mut hands),
                Todo::Release(process) => self.release(i, process, &mut hands),
                Todo::Flap => self.flap(i, &mut hands),
                Todo::Stopping => self.stopping(i, &mut hands),
                Todo::Roll => self.roll(i, &mut hands),
            }
        }
    }

    /// What has happened so far, in order.
    pub fn log(&self) -> &[FaultRecord] {
        &self.log
    }
    /// Whether nothing timed is left. Faults whose event never came do not count, nor does a link that flaps to the end.
    pub fn is_over(&self) -> bool {
        let endless = |(i, todo): &(usize, Todo)| *todo == Todo::Flap && self.plan.faults[*i].lasts.is_none();
        self.todo.values().all(endless) && self.triggers.next_at().is_none()
    }
    /// When the last fault began or ended, once it [is over](FaultEngine::is_over); `None` before, and if there was none.
    pub fn healed_at(&self) -> Option<SimTime> {
        let last = self.log.iter().rev().find(|r| r.phase != Phase::Skipped).map(|r| r.at);
        last.filter(|_| self.is_over())
    }
    /// Who is down, frozen, cut off or has a full disk. Once it [is over](FaultEngine::is_over): for good.
    pub fn left_down(&self) -> Vec<ProcessId> {
        let mut left = self.holds.out();
        for (i, state) in self.states.iter().enumerate() {
            if let Action::Disk { full: true, .. } = self.plan.faults[i].action
                && state.began.is_some()
                && !state.over
            {
                let hosts = self.plan.hosts(&state.on);
                left.extend(self.plan.nodes().filter(|p| hosts.contains(&self.plan.host(*p))));
            }
        }
        left.into_iter().collect()
    }

    fn at(&mut self, at: SimTime, fault: usize, todo: Todo) {
        self.todos += 1;
        self.todo.insert((at, self.todos), (fault, todo));
    }
    fn begin_at(&mut self, begin: Vec<(SimTime, usize)>) {
        for (at, fault) in begin {
            self.at(at, fault, Todo::Begin);
        }
    }
    /// Tries again in a while, or gives up.
    fn wait(&mut self, i: usize, todo: Todo, now: SimTime) {
        let since = *self.states[i].waits.get_or_insert(now);
        if now.since(since) < PATIENCE {
            self.at(now + POLL, i, todo);
        } else {
            self.states[i].over = true;
            self.states[i].target = self.plan.describe(self.targets(i), &[]);
            self.record(i, Phase::Skipped, now);
        }
    }
    fn record(&mut self, i: usize, phase: Phase, at: SimTime) {
        let (fault, state) = (&self.plan.faults[i], &self.states[i]);
        self.log.push(FaultRecord {
            at,
            name: fault.name.clone(),
            what: fault.action.name(),
            phase,
            target: state.target.clone(),
            processes: state.on.clone(),
        });
    }
    /// Targets as written, of the first side where there are two.
    fn targets(&self, i: usize) -> &[Target] {
        match &self.plan.faults[i].action {
            Action::Kill { target, .. }
            | Action::Stop { target, .. }
            | Action::Restart { target }
            | Action::Freeze { target }
            | Action::Thaw { target }
            | Action::Disk { target, .. }
            | Action::Cpu { target, .. }
            | Action::Clock { target, .. }
            | Action::RollingRestart { target, .. }
            | Action::Registry { target, .. }
            | Action::LakeCommits { target, .. }
            | Action::MaintainLake { target }
            | Action::ForgetTopic { target, .. } => target,
            Action::Partition(cut) | Action::Link { cut, .. } => &cut.from,
            Action::Job { .. } => &[Target::JobManager],
            Action::MoveLeaders { .. } | Action::UpgradeFeature { .. } => &[Target::Controller],
        }
    }

    /// Arms a fault's crash point, which counts from now on; false while nobody is meant.
    fn arm(&mut self, i: usize, world: &mut World<Actor>) -> bool {
        let When::CrashPoint { process: target, effect, nth } = self.plan.faults[i].when else { return true };
        let whose = self.plan.resolve(&[target], Wanted::Running, &[], world, &mut self.states[i].stream);
        let Some(process) = whose.and_then(|list| list.first().copied()) else { return false };
        let kinds = kinds(effect);
        let from = kinds.count(world.effects_of(process));
        let how = match self.plan.faults[i].action {
            Action::Kill { dead, power: false, .. } => Crash::Kill(dead.mode()),
            Action::Kill { dead, power: true, .. } => Crash::PowerLoss(dead.mode()),
            _ => Crash::Freeze,
        };
        self.states[i].waits = None;
        world.arm_crash(Armed { id: i as u32, process, kinds, nth: from + nth.saturating_sub(1), how });
        true
    }
}

/// Effects as scenarios name them. Those that only tell the judge are no place to crash.
fn kinds(effect: EffectKind) -> EffectKinds {
    use world::EffectKind as Kind;
    match effect {
        EffectKind::Write => EffectKinds::of(&[Kind::Write]),
        EffectKind::Flush => EffectKinds::of(&[Kind::Flush]),
        EffectKind::Open => EffectKinds::of(&[Kind::Open]),
        EffectKind::Close => EffectKinds::of(&[Kind::Close]),
        EffectKind::Send => EffectKinds::of(&[Kind::Send]),
        EffectKind::Any => EffectKinds::of(&[Kind::Write, Kind::Flush, Kind::Open, Kind::Close, Kind::Send]),
    }
}

impl data::Dead {
    /// The same for the world.
    pub fn mode(self) -> world::DeadMode {
        world::DeadMode {
            existing: match self.existing {
                data::Existing::Reset => world::Existing::Reset,
                data::Existing::Silent => world::Existing::Silent,
            },
            connecting: match self.new {
                data::New::Refuse => world::Connecting::Refuse,
                data::New::Drop => world::Connecting::Drop,
                data::New::Accept => world::Connecting::AcceptSilent,
                data::New::NoName => world::Connecting::NoName,
            },
        }
    }
}
