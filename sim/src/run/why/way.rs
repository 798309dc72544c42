//! The way of an event: from topic to topic, and where it waited for what.

use super::super::Run;
use super::super::faults::Phase;
use crate::judge::{AggregatePlan, CAUSES, Evidence, Journey, Place};
use crate::scenario::data::{NodeKind, Scenario};
use model::base::{Ghost, SimTime};
use serde::Serialize;
use std::collections::BTreeMap;

/// A topic on the way, and who writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The topic, by number.
    pub topic: u16,
    /// Its name.
    pub name: String,
    /// `gatekeeper gate`, `job clean`; empty for the applications that send.
    pub writer: String,
    /// The job that writes it, by number.
    job: Option<u16>,
}
/// How long an event was somewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// `in valid, for job clean`; `in clean, for the commit of job clean`.
    pub place: String,
    /// From when, ms of the run.
    pub from_ms: u64,
    /// How long, ms.
    pub ms: u64,
    /// What of the run explains it: a fault, a job that was down, or the turn of others.
    pub cause: String,
}

/// Nothing held it up but what was read, written or committed before it.
const BEHIND: &str = "behind others";

/// The ways of all events to one result.
pub(super) struct Way<'r> {
    run: &'r Run,
    reader: (String, u16),
    /// The job reads what is not committed too.
    pub(super) uncommitted: bool,
    /// One for each topic that the job reads.
    roads: Vec<Road>,
}
/// The topics on the way to one that the job reads.
struct Road {
    legs: Vec<Leg>,
    /// By leg: where each event stands.
    places: Vec<BTreeMap<u32, Place>>,
}

/// Topics from the first one to `topic`.
fn legs(scenario: &Scenario, topic: u16) -> Vec<Leg> {
    let mut legs = Vec::new();
    let mut next = Some(topic);
    while let Some(topic) = next.filter(|t| legs.iter().all(|l: &Leg| l.topic != *t)) {
        let gate = scenario.gatekeepers.iter().find(|g| g.valid.0 == topic);
        let writes = |kind: &NodeKind| matches!(kind, NodeKind::Sink { topic: t, .. } if t.0 == topic);
        let job = scenario.jobs.iter().position(|j| j.nodes.iter().any(|n| writes(&n.kind)));
        let reads = |job: usize| {
            scenario.jobs[job].nodes.iter().find_map(|n| match &n.kind {
                // Of several topics before the last the first is followed.
                NodeKind::Source { topics, .. } => topics.first().map(|t| t.0),
                _ => None,
            })
        };
        let (writer, above) = match (gate, job) {
            (Some(gate), _) => (format!("gatekeeper {}", gate.name), gate.consumer.topics.first().map(|t| t.0)),
            (None, Some(job)) => (format!("job {}", scenario.jobs[job].name), reads(job)),
            (None, None) => (String::new(), None),
        };
        let job = if gate.is_some() { None } else { job.map(|j| j as u16) };
        legs.push(Leg { topic, name: scenario.topics[usize::from(topic)].name.clone(), writer, job });
        next = above;
    }
    legs.reverse();
    legs
}

impl<'r> Way<'r> {
    pub(super) fn new(run: &'r Run, plan: &AggregatePlan, journey: &Journey, end: &Evidence<'_>) -> Self {
        let events = |ghost: Ghost| run.seen.judge.members.events(ghost);
        let road = |topic: &u16| {
            let legs = legs(&run.scenario, *topic);
            let places = legs.iter().map(|leg| journey.places(leg.topic, end, events)).collect();
            Road { legs, places }
        };
        let reader = (format!("job {}", run.scenario.jobs[usize::from(plan.job)].name), plan.job);
        Self { run, reader, uncommitted: plan.uncommitted, roads: plan.source.0.iter().map(road).collect() }
    }
    /// The road that an event came.
    fn road(&self, event: u32) -> Option<&Road> {
        let came = |road: &&Road| road.places.iter().any(|places| places.contains_key(&event));
        self.roads.iter().find(came).or(self.roads.first())
    }
    /// Where an event stands in the topic that the job reads, and in the one before.
    pub(super) fn last(&self, event: u32) -> Option<&Place> {
        self.road(event)?.places.last()?.get(&event)
    }
    pub(super) fn before(&self, event: u32) -> Option<&Place> {
        let places = &self.road(event)?.places;
        places[places.len().checked_sub(2)?].get(&event)
    }
    /// The name of the topic before the one that the job reads.
    pub(super) fn name_before(&self, event: u32) -> Option<&str> {
        let legs = &self.road(event)?.legs;
        legs.len().checked_sub(2).map(|at| legs[at].name.as_str())
    }
    pub(super) fn time(&self, event: u32) -> Option<i64> {
        self.last(event).map(|place| place.time)
    }
    fn ms(&self, at: SimTime) -> u64 {
        at.since(self.run.origin).0 / 1_000_000
    }

    /// Where an event waited until it could be read by the job, and its last place.
    pub(super) fn of(&self, event: u32, sent_ms: u64) -> (Vec<Wait>, Option<&Place>) {
        let mut waits = Vec::new();
        let mut since = SimTime(sent_ms * 1_000_000);
        let mut place = None;
        let Some(Road { legs, places }) = self.road(event) else { return (waits, place) };
        for (i, leg) in legs.iter().enumerate() {
            let Some(at) = places[i].get(&event) else { break };
            let text = match i {
                0 => format!("on the way into {}", leg.name),
                _ => format!("in {}, for {}", legs[i - 1].name, leg.writer),
            };
            self.push(&mut waits, text, since, at.appended, leg.job);
            if at.readable > at.appended {
                let text = format!("in {}, for the commit of {}", leg.name, leg.writer);
                self.push(&mut waits, text, at.appended, at.readable, leg.job);
            }
            since = at.readable;
            place = Some(at);
        }
        (waits, place.filter(|_| self.last(event).is_some()))
    }
    /// From there until the job took it.
    pub(super) fn until_taken(&self, event: u32, waits: &mut Vec<Wait>, last: Option<&Place>, taken: SimTime) {
        let (reader, job) = &self.reader;
        let name = self.road(event).and_then(|road| road.legs.last()).map_or("", |l| l.name.as_str());
        let from = last.map_or(taken, |place| place.readable).min(taken);
        self.push(waits, format!("in {name}, for {reader}"), from, taken, Some(*job));
    }
    /// Where an event stands that the topic before the job holds more than once: of which copy a finding tells is not known.
    pub(super) fn of_copies(&self, event: u32, at: SimTime) -> Wait {
        let leg = self.road(event).and_then(|road| road.legs.last());
        let (name, writer) = leg.map_or(("", ""), |l| (&l.name, &l.writer));
        let again = if writer.is_empty() { "its sender" } else { writer };
        let place = format!("in {name}, which holds it more than once");
        Wait { place, from_ms: self.ms(at), ms: 0, cause: format!("{again} wrote it again") }
    }
    /// A wait; two where the job was down at first: the time that it was, and the time until it came to this event.
    fn push(&self, waits: &mut Vec<Wait>, place: String, from: SimTime, to: SimTime, job: Option<u16>) {
        let downtimes = job.map(|job| self.run.seen.judge.jobs.of(job).downtimes).unwrap_or_default();
        let up =
            downtimes.iter().filter(|d| d.at < to).filter_map(|d| d.until).filter(|up| (from..to).contains(up)).max();
        let Some(up) = up.filter(|up| *up > from) else {
            waits.push(self.wait(place, from, to, job));
            return;
        };
        let behind = format!("{place}, which ran again");
        waits.push(self.wait(place, from, up, job));
        waits.push(Wait { cause: BEHIND.into(), ..self.wait(behind, up, to, None) });
    }
    fn wait(&self, place: String, from: SimTime, to: SimTime, job: Option<u16>) -> Wait {
        let to = to.max(from);
        let cause = self.cause(from, to, job);
        Wait { place, from_ms: self.ms(from), ms: to.since(from).0 / 1_000_000, cause }
    }

    /// What of the run bears on the time between: the job that should have gone on was down, else a fault, else others were
    /// served first.
    fn cause(&self, from: SimTime, to: SimTime, job: Option<u16>) -> String {
        let faults = self.faults(from, to);
        if let Some(job) = job {
            let account = self.run.seen.judge.jobs.of(job);
            let meets = |d: &&crate::judge::Downtime| d.at < to && d.until.is_none_or(|until| until > from);
            if let Some(down) = account.downtimes.iter().find(meets) {
                let name = &self.run.scenario.jobs[usize::from(job)].name;
                let because = CAUSES.get(usize::from(down.cause)).copied().unwrap_or("it failed");
                let faults = if faults.is_empty() { self.faults_before(down.at) } else { faults };
                let behind = if faults.is_empty() { String::new() } else { format!(", by {faults}") };
                return format!("job {name} was down: {because}{behind}");
            }
        }
        if faults.is_empty() { BEHIND.into() } else { faults }
    }
    /// Faults that last in a time.
    fn faults(&self, from: SimTime, to: SimTime) -> String {
        let log = self.run.faults().log();
        let began = log.iter().filter(|f| f.phase == Phase::Begins && f.at < to);
        let lasting = began.filter(|f| {
            let ended = log.iter().find(|e| e.phase == Phase::Ends && e.name == f.name && e.at >= f.at);
            ended.is_none_or(|e| e.at > from)
        });
        let all: Vec<String> = lasting.map(|f| format!("{} of {}", f.what, f.target)).collect();
        all.join(" and ")
    }
    /// The last fault that had begun by then.
    fn faults_before(&self, at: SimTime) -> String {
        let log = self.run.faults().log();
        let last = log.iter().rev().find(|f| f.phase == Phase::Begins && f.at <= at);
        last.map_or_else(String::new, |f| format!("{} of {}", f.what, f.target))
    }
}
