//! A scenario at work: the stage, the faults, the workload, the judge, and the outcome.
//!
//! A run has three parts. The cluster *forms*: nodes start, elect a controller, register, create the topics. Then comes the
//! scenario's time zero ([`Run::origin`]): applications and readers start, the workload is offered, faults take place. When
//! both are over everything *drains*, until nothing is left to wait for or the scenario's bound is reached.

mod aggregates;
pub mod build;
mod evidence;
pub mod factors;
pub mod faults;
mod finish;
mod gatekeepers;
mod ghosts;
mod internal;
mod jobs;
mod members;
mod plant;
mod seen;
mod stage;
mod stores;
mod unsent;
pub mod why;

pub use finish::{Finished, finish};
pub use ghosts::Shuffle;
pub use plant::Plant;
pub use seen::Seen;
pub use stage::Stage;
pub use why::{Displaced, Explained};

use crate::host::Drive;
use crate::judge::{Cast, FreshnessLaw, Judge, Markings, ResultLaw, TopicInfo};
use crate::scenario::data::{Fault as Planned, Scenario, When};
use crate::workload::{LineError, Source, instance_of};
use crate::world::{CrashPoint, Fault, Lifecycle, Recorder, World};
use build::Built;
use faults::FaultEngine;
use model::actor::Actor;
use model::app::{APP, EPOCH, Planned as Send};
use model::base::{Addr, Ghost, Nanos, ProcessId, Row, Signal, SimTime, TopicId};
use model::registry::payload;
use std::sync::Arc;
use unsent::Unsent;

/// Rows of one instance that are offered together: those of one millisecond, which is what a Kafka client's clock tells
/// apart.
#[derive(Clone, Debug, Default)]
struct Bundle {
    rows: Vec<Row>,
}

/// The workload of one application.
#[derive(Clone, Debug)]
struct Feed {
    source: Source,
    next: Option<Send>,
    topic: u16,
    /// Number of its first instance among the producers.
    first_producer: u16,
    instances: Vec<ProcessId>,
    bundles: Vec<Bundle>,
    unsent: Unsent,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Forming,
    Running,
    Draining { since: SimTime },
    Over,
}

/// What the run itself does; of the same instant in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Restart,
    Start,
    Fault,
    Offer,
    Look,
}

/// How long a cluster may take to form.
const FORMING: SimTime = SimTime(120_000_000_000);
/// How often it is looked at whether something is over.
const LOOK: Nanos = Nanos::millis(100);

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The seed.
    pub seed: u64,
    /// The world.
    pub world: World<Actor>,
    /// Who is which process.
    pub stage: Arc<Stage>,
    /// The same for the judge.
    pub cast: Arc<Cast>,
    /// Topics for the judge.
    pub topics: Arc<[TopicInfo]>,
    /// The judge and whoever else watches.
    pub seen: Seen,
    faults: FaultEngine,
    feeds: Vec<Feed>,
    /// Applications and readers still to be started, latest first.
    starts: Vec<(SimTime, ProcessId)>,
    phase: Phase,
    next_look: SimTime,
    /// When the run itself has something to do next, and what; `None` when that has to be looked at again.
    own_due: Option<(SimTime, Own)>,
    /// The scenario's time zero.
    pub origin: SimTime,
    workload_ended: Option<SimTime>,
    /// Since when nothing has been written, and how much the logs hold.
    quiet: Option<(SimTime, i64)>,
    /// Events that nobody was there to send.
    pub unsent: u64,
    /// A crash point of a sweep: how long after it the process is started again, and when that is.
    restart_after: Option<Nanos>,
    restart: Option<(SimTime, ProcessId)>,
    error: Option<LineError>,
    planted: Option<plant::Planted>,
}

impl Run {
    /// A run from its beginning.
    ///
    /// # Errors
    /// If an events file cannot be opened.
    pub fn new(scenario: &Arc<Scenario>, seed: u64) -> Result<Self, LineError> {
        let Built { world, stage, cast, topics, plan } = build::build(scenario, seed);
        let streams = world.streams();
        let mut feeds = Vec::new();
        let mut first_producer = 0;
        for (number, app) in scenario.applications.iter().enumerate() {
            let instances = stage.applications[number].clone();
            let mut source = Source::new(&app.workload, streams, number as u64)?;
            let next = source.next_send()?;
            let bundles = vec![Bundle::default(); instances.len()];
            let count = instances.len() as u16;
            let (topic, unsent) = (app.topic.0, Unsent::default());
            feeds.push(Feed { source, next, topic, first_producer, instances, bundles, unsent });
            first_producer += count;
        }
        let faults = FaultEngine::new(scenario, &stage, Vec::new(), streams);
        let watcher = faults.watcher();
        let mut judge = Judge::new(&cast, &topics);
        judge.results = ResultLaw::new(plan);
        judge.freshness = FreshnessLaw::new(scenario.objectives.clone());
        judge.markings = Markings::new(scenario.markings.clone());
        let mut run = Self {
            scenario: Arc::clone(scenario),
            seed,
            seen: Seen::new(judge, watcher, cast.readers.len()),
            world,
            stage: Arc::new(stage),
            cast: Arc::new(cast),
            topics: topics.into(),
            faults,
            feeds,
            starts: Vec::new(),
            phase: Phase::Forming,
            next_look: SimTime::ZERO,
            own_due: None,
            origin: SimTime::ZERO,
            workload_ended: None,
            quiet: None,
            unsent: 0,
            restart_after: None,
            restart: None,
            error: None,
            planted: None,
        };
        run.seen.forming = true;
        Ok(run)
    }

    /// Kills a process at a crash point, once, and starts it again some time later: for sweeps.
    pub fn crash_once(&mut self, point: CrashPoint, restart_after: SimTime) {
        self.world.arm(point);
        self.restart_after = Some(Nanos(restart_after.0));
    }
    /// Keeps the trace of some simulated seconds.
    pub fn record(&mut self, recorder: Recorder) {
        self.world.record(recorder);
    }
    /// Plants a nondeterminism, to prove that it is found. Before the run begins.
    pub fn plant(&mut self, plant: Plant) {
        self.planted = Some(plant::Planted::new(plant));
    }
    /// Gives rows other ledger numbers, which must change nothing. Before the run begins.
    pub fn shuffle_ghosts(&mut self, shuffle: Shuffle) {
        self.seen.shuffle = Some(shuffle);
        self.world.number_folds_from(shuffle.folds());
    }
    /// Why the run could not go on.
    pub fn error(&self) -> Option<&LineError> {
        self.error.as_ref()
    }
    /// The faults.
    pub fn faults(&self) -> &FaultEngine {
        &self.faults
    }
    /// When the workload had been offered.
    pub fn workload_ended(&self) -> Option<SimTime> {
        self.workload_ended
    }
    /// What a process is called in the scenario.
    pub fn name_of(&self, process: ProcessId) -> String {
        if let Some(id) = self.stage.node_of(process) {
            return format!("broker {}", id.0);
        }
        let instance = self.stage.applications.iter().flatten().position(|p| *p == process);
        let of = |p: &Vec<ProcessId>| p.iter().position(|p| *p == process).map(|n| (n, p.len()));
        let reader = self.stage.readers.iter().enumerate().find_map(|(i, p)| Some((i, of(p)?)));
        match (instance, reader) {
            (Some(i), _) => self.cast.producers[i].clone(),
            (_, Some((i, (_, 1)))) => self.cast.readers[i].name.clone(),
            (_, Some((i, (n, _)))) => format!("{}/{n}", self.cast.readers[i].name),
            _ if self.stage.registries.contains(&process) => "registry".into(),
            _ if self.stage.gatekeepers.iter().flatten().any(|p| *p == process) => {
                let mut all = self.stage.gatekeepers.iter().zip(&self.scenario.gatekeepers);
                let found = all.find_map(|(p, g)| Some(format!("{}/{}", g.name, of(p)?.0)));
                found.unwrap_or_default()
            }
            _ if self.stage.tables.contains(&process) => {
                let at = of(&self.stage.tables).map_or(0, |(n, _)| n);
                format!("table {}", self.scenario.tables[at].name)
            }
            _ if self.stage.lakes.contains(&process) => {
                let at = of(&self.stage.lakes).map_or(0, |(n, _)| n);
                format!("lake {}", self.scenario.lakes[at].name)
            }
            _ if self.stage.clickhouse.contains(&process) => {
                let at = of(&self.stage.clickhouse).map_or(0, |(n, _)| n);
                format!("clickhouse {}", self.scenario.clickhouse[at].name)
            }
            _ if self.stage.job_manager == Some(process) => "job manager".into(),
            _ if self.stage.task_managers.contains(&process) => {
                format!("task manager {}", of(&self.stage.task_managers).map_or(0, |(n, _)| n))
            }
            // Machines and links are nobody's.
            _ => "the world".into(),
        }
    }
    /// What every process is called, by its number.
    pub fn names(&self) -> Vec<String> {
        (0..self.stage.machine.len() as u32).map(|p| self.name_of(ProcessId(p))).collect()
    }
    /// Whether the scenario's time zero has come.
    pub fn has_begun(&self) -> bool {
        self.phase != Phase::Forming
    }

    // ---- forming

    fn start_nodes(&mut self, life: &mut dyn Lifecycle) {
        for process in self.stage.nodes.values().copied().collect::<Vec<_>>() {
            self.world.inject(&Fault::Start(process), life, &mut self.seen);
        }
    }

    /// Every broker serves, every partition has its whole ISR, and every broker knows it.
    fn formed(&self) -> bool {
        self.stage.nodes.values().all(|p| {
            let Some(node) = self.world.process(*p).and_then(Actor::node) else { return false };
            node.serves()
                && evidence::partitions(self).all(|tp| {
                    let replicas = usize::from(self.topics[usize::from(tp.topic.0)].replication_factor);
                    node.image().partition(tp).is_some_and(|r| r.isr.len() == replicas && r.has_leader())
                })
        })
    }

    /// Time zero: the next whole second at least a second away, so that what has formed comes to rest.
    fn begin(&mut self) {
        let second = 1_000_000_000;
        self.origin = SimTime((self.world.now().0 / second + 2) * second);
        self.phase = Phase::Running;
        let after = |d: SimTime| self.origin + Nanos(d.0);
        let apps = self.scenario.applications.iter().zip(&self.stage.applications);
        self.starts = apps.flat_map(|(app, p)| p.iter().map(move |p| (app.start, *p))).collect();
        let readers = self.scenario.readers.iter().zip(&self.stage.readers);
        self.starts.extend(readers.flat_map(|(r, p)| {
            p.iter().zip(0..).map(move |(p, n)| (r.start + Nanos(r.stagger.0.saturating_mul(n)), *p))
        }));
        let gatekeepers = self.scenario.gatekeepers.iter().map(|g| &g.consumer).zip(&self.stage.gatekeepers);
        self.starts.extend(gatekeepers.flat_map(|(r, p)| {
            p.iter().zip(0..).map(move |(p, n)| (r.start + Nanos(r.stagger.0.saturating_mul(n)), *p))
        }));
        self.starts.extend(self.stage.registries.iter().map(|p| (SimTime::ZERO, *p)));
        let servers = self.scenario.clickhouse.iter().zip(&self.stage.clickhouse);
        self.starts.extend(servers.map(|(c, p)| (c.start, *p)));
        self.starts.extend(jobs::processes(&self.stage).map(|p| (SimTime::ZERO, p)));
        self.starts.iter_mut().for_each(|(at, _)| *at = after(*at));
        self.starts.sort_by(|a, b| b.cmp(a));
        let drawn = self.scenario.schedule(self.seed).into_iter().map(|f| shift(f, self.origin)).collect();
        let engine = FaultEngine::new(&self.scenario, &self.stage, drawn, self.world.streams());
        self.faults = engine.starting_at(self.origin);
        self.seen.begin(self.faults.watcher());
        self.next_look = self.origin;
        self.seen.judge.markings.begin(EPOCH.0, self.origin);
        if self.seen.judge.results.has_sinks() {
            let first = self.feeds.iter().filter_map(|f| f.next.as_ref()).min_by_key(|n| n.at);
            let origin = self.origin.millis().0;
            self.seen.event_base = first.map(|n| n.event_time.0 - n.at.millis().0 - origin);
        }
        self.note_end_of_workload(self.origin);
    }

    // ---- the workload

    fn next_offer(&self) -> Option<SimTime> {
        let first = self.feeds.iter().filter_map(|f| f.next.as_ref()).map(|n| n.at).min()?;
        Some(self.origin + Nanos(first.millis().0 as u64 * 1_000_000))
    }

    /// Offers the sends of one millisecond.
    fn offer(&mut self, at: SimTime) {
        let until = SimTime((at + Nanos::millis(1)).since(self.origin).0);
        for feed in &mut self.feeds {
            let topic = &self.scenario.topics[usize::from(feed.topic)];
            let mut next = feed.next.take();
            while let Some(send) = &next
                && send.at < until
            {
                let instance = instance_of(send.key, feed.instances.len());
                if self.world.is_up(feed.instances[instance]) {
                    let producer = feed.first_producer + instance as u16;
                    let flags = feed.unsent.flags(send);
                    let number = self.seen.judge.ledger.enter(at, TopicId(feed.topic), producer, flags);
                    let ghost = self.seen.shuffle.map_or(Ghost::new(number), |s| s.ghost(number));
                    let row = match topic.schema {
                        Some(schema) if topic.filled => payload::as_filled_avro(send.row(), schema),
                        Some(schema) => payload::as_avro(send.row(), schema),
                        None => send.row(),
                    };
                    self.seen.judge.results.sent(feed.topic, &Row { ghost: Ghost::new(number), ..send.row() });
                    feed.bundles[instance].rows.push(Row { ghost, ..row });
                } else {
                    self.unsent += 1;
                    feed.unsent.note(send);
                }
                next = feed.source.next_send().unwrap_or_else(|error| {
                    self.error.get_or_insert(error);
                    None
                });
            }
            feed.next = next;
            for (bundle, process) in feed.bundles.iter_mut().zip(&feed.instances) {
                if !bundle.rows.is_empty() {
                    let rows = &mut bundle.rows;
                    if let Some(planted) = &mut self.planted {
                        planted.perturb(rows);
                    }
                    self.world.offer(at, Addr { process: *process, port: APP }, rows[..].into());
                    rows.clear();
                }
            }
        }
        self.note_end_of_workload(at);
    }
    /// Nothing is left to be sent: of a file without events that is so from the beginning.
    fn note_end_of_workload(&mut self, at: SimTime) {
        if self.feeds.iter().all(|f| f.next.is_none()) {
            self.workload_ended = Some(at);
            self.faults.workload_ended(at);
        }
    }

    // ---- the end

    /// Nothing more is to be expected: everything is decided and delivered.
    fn at_rest(&self) -> bool {
        let producers = self.stage.applications.iter().flatten();
        let decided = producers.filter_map(|p| self.world.process(*p).and_then(Actor::producer)).all(|a| !a.is_busy());
        // What the schedule leaves down comes no more into any ISR.
        let whole = if self.faults.left_down().is_empty() { self.formed() } else { true };
        decided
            && whole
            && evidence::caught_up(self)
            && evidence::gatekeepers_behind(self).is_empty()
            && stores::behind(self).is_empty()
    }

    /// Whether jobs have written what they had to: that is sure when nothing has been written for long enough.
    fn is_quiet(&mut self, now: SimTime) -> bool {
        if self.scenario.jobs.is_empty() {
            return true;
        }
        if !evidence::jobs_behind(self).is_empty() {
            self.quiet = None;
            return false;
        }
        let ends = evidence::ends(self);
        let (since, before) = *self.quiet.get_or_insert((now, ends));
        if before != ends {
            self.quiet = Some((now, ends));
        }
        before == ends && now.since(since) >= jobs::quiet(&self.scenario)
    }

    fn look(&mut self, life: &mut dyn Lifecycle) {
        let now = self.world.now();
        self.next_look = now + LOOK;
        match self.phase {
            Phase::Running
                if self.workload_ended.is_some()
                    && self.starts.is_empty()
                    && self.faults.is_over()
                    && self.restart.is_none() =>
            {
                self.phase = Phase::Draining { since: now };
                for process in self.stage.applications.iter().flatten().copied().collect::<Vec<_>>() {
                    self.world.inject(&Fault::Signal(Addr { process, port: APP }, Signal::Drain), life, &mut self.seen);
                }
            }
            Phase::Draining { since } => {
                let bound = since + Nanos(self.scenario.drain.0.max(self.scenario.liveness.0));
                if now >= bound || self.is_quiet(now) && self.at_rest() {
                    self.phase = Phase::Over;
                }
            }
            _ => {}
        }
    }

    fn after_turn(&mut self) {
        while let Some(crashed) = self.world.take_crashed() {
            self.own_due = None;
            if let Some(after) = self.restart_after.take() {
                self.restart = Some((crashed.at + after, crashed.process));
            } else {
                self.faults.on_crashed(crashed);
            }
        }
        if self.faults.absorb(&mut self.seen.watcher) {
            self.own_due = None;
        }
    }
    /// When the run itself has something to do, and what.
    fn find_own_due(&self) -> (SimTime, Own) {
        let mut due = (self.next_look, Own::Look);
        let others = [
            (self.next_offer(), Own::Offer),
            (self.faults.next_at(), Own::Fault),
            (self.starts.last().map(|(at, _)| *at), Own::Start),
            (self.restart.map(|(at, _)| at), Own::Restart),
        ];
        for (at, what) in others {
            if let Some(at) = at.filter(|at| *at <= due.0) {
                due = (at, what);
            }
        }
        due
    }
}

impl Drive for Run {
    fn turn(&mut self, life: &mut dyn Lifecycle) -> bool {
        if self.phase == Phase::Forming {
            if self.world.now() == SimTime::ZERO && !self.stage.nodes.values().any(|p| self.world.is_up(*p)) {
                self.start_nodes(life);
            }
            // Where every node has given up nothing is due any more, and time goes on all the same.
            if self.world.turn(life, &mut self.seen).is_none() {
                self.world.idle_until(self.next_look, life);
            }
            if self.world.now() >= self.next_look {
                self.next_look = self.world.now() + LOOK;
                if self.formed() || self.world.now() >= FORMING {
                    self.begin();
                }
            }
            return true;
        }
        if self.phase == Phase::Over || self.error.is_some() {
            return false;
        }
        // What the run itself has to do comes before the world's events of the same instant.
        let (at, own) = self.own_due.unwrap_or_else(|| self.find_own_due());
        self.own_due = Some((at, own));
        if self.world.next_at().is_some_and(|world| world < at) {
            self.world.turn(life, &mut self.seen);
            self.after_turn();
            return true;
        }
        self.own_due = None;
        self.world.idle_until(at.max(self.world.now()), life);
        match own {
            Own::Restart | Own::Start => {
                let next = if own == Own::Restart { self.restart.take() } else { self.starts.pop() };
                let (_, process) = next.expect("what is due");
                self.world.inject(&Fault::Start(process), life, &mut self.seen);
            }
            Own::Fault => self.faults.due(&mut self.world, life, &mut self.seen),
            Own::Offer => self.offer(at),
            Own::Look => self.look(life),
        }
        true
    }
}

/// Times of a fault count from the scenario's time zero.
fn shift(fault: Planned<Nanos>, origin: SimTime) -> Planned<Nanos> {
    let when = match fault.when {
        When::At(at) => When::At(at + Nanos(origin.0)),
        When::On(trigger) => When::On(trigger.counted_from(origin)),
        point @ When::CrashPoint { .. } => point,
    };
    Planned { when, ..fault }
}
