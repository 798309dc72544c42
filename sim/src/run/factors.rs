//! In what runs of one schedule differ: what bears on how far a fault displaces events, as the run shows it around its first
//! fault. For a sweep that asks where the spread of a figure comes from; an ordinary run keeps none of it.

use super::internal::{coordinators, group_coordinators, transaction_log};
use super::{Run, evidence};
use crate::judge::Journey;
use crate::run::faults::Phase;
use crate::scenario::data::NodeKind;
use crate::world::Observer;
use model::base::{Addr, BrokerId, Event, Nanos, ProcessId, SimTime, TopicPartition};
use model::flink::runtime::ids::JobId;
use std::collections::BTreeMap;

/// Values by name: times in ms, sizes in KiB, flags and counts; sets of partitions as bits. A set or a broker has no order.
pub type Factors = BTreeMap<String, i64>;

/// How often it is looked at what no event tells.
const LOOK: Nanos = Nanos::millis(100);
/// A connection that goes within this time of the fault was open when it struck; later ones are attempts.
const RESET: Nanos = Nanos::millis(500);
/// Markers of one commit are not further apart.
const ONE_COMMIT: u64 = 300_000_000;

/// What is heard of a run, by time.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Heartbeats of brokers, at the controller.
    beats: Vec<(SimTime, ProcessId)>,
    /// Checkpoints of jobs.
    checkpoints: Vec<(SimTime, u16)>,
    fenced: Vec<(SimTime, BrokerId)>,
    /// Connections of Java clients that went down, or did not come up.
    down: Vec<(SimTime, BrokerId)>,
}
impl Observer for Heard {
    fn event(&mut self, at: SimTime, _: u64, _: u64, _: ProcessId, event: &Event) {
        match *event {
            Event::CheckpointTriggered { job, .. } => self.checkpoints.push((at, job)),
            Event::Fencing { broker, fenced: true } => self.fenced.push((at, broker)),
            Event::Connection { node, up: false } => self.down.push((at, node)),
            _ => {}
        }
    }
    fn message(&mut self, at: SimTime, _: Addr, from: Addr, name: &'static str, _: u32) {
        if name == "BrokerHeartbeat" {
            self.beats.push((at, from.process));
        }
    }
}

/// Who led what before the fault, and where transactional ids of sinks were kept.
#[derive(Clone, Debug, Default)]
struct Before {
    leaders: BTreeMap<TopicPartition, BrokerId>,
    /// `clean-events/0`, and its coordinator's partition.
    sinks: Vec<(String, TopicPartition)>,
}
impl Before {
    fn of(run: &Run) -> Self {
        let Some(image) = evidence::newest_image(run) else { return Self::default() };
        let leader = |tp| image.partition(tp).filter(|p| p.has_leader()).map(|p| (tp, p.leader));
        let leaders = evidence::partitions(run).filter_map(leader).collect();
        let mut sinks = Vec::new();
        let log = transaction_log(&run.scenario);
        let managers = || run.stage.task_managers.iter().filter_map(|p| run.world.process(*p)?.task_manager());
        for (job, number) in run.scenario.jobs.iter().zip(0..) {
            for node in &job.nodes {
                let NodeKind::Sink { topic, .. } = node.kind else { continue };
                for subtask in 0..node.parallelism {
                    let id = managers().find_map(|m| m.transactional_id(JobId(number), topic, subtask));
                    let Some((id, (of, partitions, ids))) = id.zip(log.as_ref()) else { continue };
                    let tp = TopicPartition { topic: *of, partition: ids.partition(id.0, *partitions) };
                    sinks.push((format!("{}/{subtask}", node.name), tp));
                }
            }
        }
        Self { leaders, sinks }
    }
}

/// Watches a run.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    before: Before,
    next: SimTime,
    /// When a gatekeeper's producer was first seen to know the dead node no more.
    decommissioned: Option<SimTime>,
}
impl Watch {
    /// Before the run begins.
    pub fn begin(run: &mut Run) -> Self {
        run.seen.heard = Some(Heard::default());
        run.seen.journey = Some(Journey::default());
        Self::default()
    }
    /// After a turn.
    pub fn look(&mut self, run: &Run) {
        let now = run.world.now();
        if !run.has_begun() || now < self.next {
            return;
        }
        self.next = now + LOOK;
        match first(run) {
            None => self.before = Before::of(run),
            Some((_, processes)) if self.decommissioned.is_none() => {
                let Some(dead) = processes.iter().find_map(|p| run.stage.node_of(*p)) else { return };
                let mut gates =
                    run.stage.gatekeepers.iter().flatten().filter_map(|p| run.world.process(*p)?.gatekeeper());
                self.decommissioned = gates.any(|gate| !gate.lists(dead)).then_some(now);
            }
            Some(_) => {}
        }
    }
    /// What it has come to.
    pub fn factors(&self, run: &mut Run) -> Factors {
        let mut factors = Factors::new();
        let (heard, journey) = (run.seen.heard.take().unwrap_or_default(), run.seen.journey.take().unwrap_or_default());
        let Some((at, processes)) = first(run) else { return factors };
        for (job, number) in run.scenario.jobs.iter().zip(0u16..) {
            let last = heard.checkpoints.iter().rev().find(|(when, of)| *when <= at && *of == number);
            factors.extend(last.map(|(when, _)| (format!("phase-of-checkpoint.{}", job.name), ms(*when, at))));
        }
        if let Some((process, dead)) = processes.iter().find_map(|p| Some((*p, run.stage.node_of(*p)?))) {
            self.of_broker(run, &heard, at, process, dead, &mut factors);
        }
        self.of_data(run, &journey, at, &mut factors);
        factors
    }

    /// What the brokers were to each other and to their clients.
    fn of_broker(
        &self,
        run: &Run,
        heard: &Heard,
        at: SimTime,
        process: ProcessId,
        dead: BrokerId,
        factors: &mut Factors,
    ) {
        let mut put = |name: String, value: i64| factors.insert(name, value);
        put("broker".into(), i64::from(dead.0));
        if let Some((when, _)) = heard.beats.iter().rev().find(|(when, of)| *when <= at && *of == process) {
            put("phase-of-heartbeat".into(), ms(*when, at));
        }
        let scenario = &run.scenario;
        for topic in &scenario.topics {
            let led = self.before.leaders.iter().filter(|(tp, leader)| tp.topic == topic.id && **leader == dead);
            put(format!("leads.{}", topic.name), led.map(|(tp, _)| 1_i64 << tp.partition.min(62)).sum());
        }
        let on_dead = |tp: &TopicPartition| self.before.leaders.get(tp) == Some(&dead);
        let gates = coordinators(scenario);
        for (gate, at) in scenario.gatekeepers.iter().zip(&gates[scenario.applications.len()..]) {
            put(format!("coordinator.{}", gate.name), at.iter().filter(|tp| on_dead(tp)).count() as i64);
        }
        for (name, at) in &self.before.sinks {
            put(format!("coordinator.{name}"), i64::from(on_dead(at)));
        }
        for (group, at) in scenario.groups.iter().zip(group_coordinators(scenario)) {
            put(format!("coordinator.group {group}"), i64::from(on_dead(&at)));
        }
        let fenced = heard.fenced.iter().find(|(when, broker)| *when > at && *broker == dead).map(|(when, _)| *when);
        let Some(fenced) = fenced else { return };
        put("fencing".into(), ms(at, fenced));
        let ends =
            || heard.down.iter().filter(|(when, node)| *node == dead && *when > at + RESET).map(|(when, _)| *when);
        put("connects-ended-before-fencing".into(), ends().filter(|end| *end < fenced).count() as i64);
        put("connect-ended-after-fencing".into(), ends().find(|end| *end >= fenced).map_or(-1, |end| ms(fenced, end)));
        put("decommissioned".into(), self.decommissioned.map_or(-1, |when| ms(at, when)));
    }

    /// What stood, what it came to meanwhile, and how that was drained.
    fn of_data(&self, run: &Run, journey: &Journey, at: SimTime, factors: &mut Factors) {
        let stalls = &run.seen.judge.stalls;
        let (mut longest, mut end) = (0, at);
        let mut stood = |name: String, from: SimTime, to: SimTime, factors: &mut Factors| {
            let length = ms(from.max(at), to);
            longest = longest.max(length);
            end = end.max(to);
            let of = factors.entry(name).or_default();
            *of = (*of).max(length);
        };
        let name = |tp: TopicPartition| format!("{}/{}", run.topics[usize::from(tp.topic.0)].name, tp.partition);
        let sent: Vec<u16> = run.scenario.applications.iter().map(|app| app.topic.0).collect();
        for tp in evidence::partitions(run).filter(|tp| sent.contains(&tp.topic.0)) {
            factors.insert(format!("stall.{}", name(tp)), 0);
        }
        for stall in stalls.stalls.iter().filter(|s| s.to > at && sent.contains(&s.tp.topic.0)) {
            stood(format!("stall.{}", name(stall.tp)), stall.from, stall.to, factors);
        }
        for (gate, from, to) in stalls.of_gatekeepers.iter().filter(|(_, _, to)| *to > at) {
            stood(format!("stall.{}", run.scenario.gatekeepers[usize::from(*gate)].name), *from, *to, factors);
        }
        factors.insert("stall".into(), longest);

        let evidence = evidence::gather(run);
        let waited = run.scenario.gatekeepers.iter().flat_map(|g| g.consumer.topics.iter().copied().chain([g.valid]));
        for topic in waited {
            let mut large = 0;
            for tp in evidence.partitions_of(topic.0) {
                let kib = (journey.appended_bytes(tp, &evidence, at, end + LOOK) / 1_024) as i64;
                large += i64::from(kib >= 1_024);
                factors.insert(format!("backlog.{}", name(tp)), kib);
            }
            factors.insert(format!("over-1-mib.{}", run.topics[usize::from(topic.0)].name), large);
        }
        let members = &run.seen.judge.members;
        for plan in run.seen.judge.results.plans().iter().filter(|plan| plan.window.is_some()) {
            let Some(window) = plan.window else { continue };
            let mut rows: BTreeMap<(u16, i64), i64> = BTreeMap::new();
            for taken in journey.taken(window).iter().filter(|t| t.at > at) {
                *rows.entry((taken.subtask, taken.watermark)).or_default() += taken.rows.len() as i64;
            }
            factors.insert(format!("rows-per-tick.{}", plan.name), rows.values().copied().max().unwrap_or(0));
            for topic in &plan.source.0 {
                let places = journey.places(*topic, &evidence, |ghost| members.events(ghost));
                let sent = |event: u32| evidence.ledger.get(event).map(|s| SimTime(u64::from(s.at_ms) * 1_000_000));
                let waited = |event: &u32| sent(*event).is_some_and(|sent| (at..end).contains(&sent));
                let mut commits: Vec<u64> =
                    places.iter().filter(|(event, _)| waited(event)).map(|(_, place)| place.readable.0).collect();
                commits.sort_unstable();
                let gaps = commits.windows(2).filter(|pair| pair[1] - pair[0] > ONE_COMMIT).count();
                let commits = if commits.is_empty() { 0 } else { gaps + 1 };
                factors.insert(format!("commits.{}", run.topics[usize::from(*topic)].name), commits as i64);
            }
        }
    }
}

/// When the first fault struck, and whom.
fn first(run: &Run) -> Option<(SimTime, &[ProcessId])> {
    let first = run.faults().log().iter().find(|f| f.phase == Phase::Begins)?;
    Some((first.at, &first.processes))
}
fn ms(from: SimTime, to: SimTime) -> i64 {
    (to.0.saturating_sub(from.0) / 1_000_000) as i64
}
