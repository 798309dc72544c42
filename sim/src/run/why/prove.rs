//! Whether explanations are true: the run once more, forked before a record could be read, which the job's source then hands
//! on only behind the displaced event. An ordinary run knows nothing of it.

use super::super::{Run, evidence};
use super::{Displaced, Explained, Spot, Trail};
use crate::host::Drive;
use crate::judge::{AggregatePlan, Findings, Journey, Taken};
use crate::scenario::data::Scenario;
use crate::workload::LineError;
use crate::world::NoLifecycle;
use model::base::{Addr, Domain, HoldBack, Nanos, Offset, Signal, SimTime, Streams};
use model::flink::runtime::task_manager::RPC;
use serde::Serialize;
use std::sync::Arc;

/// A decision of the fork is the same as one of the run if it is at most this much before it.
const A_LITTLE: Nanos = Nanos::secs(2);

/// What comes later than it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delayed {
    /// The mover, and what is behind it in its partition, as a partition has an order.
    Mover,
    /// Another record alone.
    Other,
    /// Another record and what is behind it, of a partition that had come past the event before.
    OtherAndBehind,
}
/// An experiment with one displaced event.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// The event.
    pub event: u32,
    /// The result that misplaces it.
    pub result: String,
    /// What is wrong with it in the run itself.
    pub what: &'static str,
    /// What was delayed.
    pub delayed: Delayed,
    /// The record, by number.
    pub record: u32,
    /// What is wrong with the event in the fork; nothing if it stands in its window.
    pub then: Option<&'static str>,
    /// The window took it in the fork.
    pub taken: bool,
}
impl Trial {
    /// The event stands where it should.
    pub const fn placed(&self) -> bool {
        self.taken && self.then.is_none()
    }
}
/// How far a fork goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until the window has taken the event: by its watermark then the event is late or not.
    Taken,
    /// To its end, where the law of placement settles.
    End,
}

/// One to be made.
struct Planned<'e> {
    of: &'e Displaced,
    trail: Trail,
    delayed: Delayed,
    record: Spot,
}
impl Planned<'_> {
    fn hold(&self, job: u16) -> HoldBack {
        let (own, record) = (self.trail.own, self.record);
        let to = if self.delayed == Delayed::Other { record.offset.plus(1) } else { Offset(i64::MAX) };
        let ahead = (own.tp == record.tp).then_some(own.offset);
        HoldBack { job, tp: record.tp, from: record.offset, to, ahead }
    }
}

/// Makes the experiments with `many` of the displaced events of a run, drawn by its seed: the mover of each delayed, and as a
/// control other records. In the order of the run; `told` hears how many are done, and of how many.
///
/// # Errors
/// As [`Run::new`].
pub fn prove(
    scenario: &Arc<Scenario>,
    seed: u64,
    explained: &Explained,
    (many, until): (usize, Until),
    told: &dyn Fn(usize, usize),
) -> Result<Vec<Trial>, LineError> {
    let mut known: Vec<(&Displaced, Trail)> = explained.all.iter().filter_map(|d| Some((d, d.trail?))).collect();
    Streams(seed).stream(Domain::Schedule, 0, "events to prove").shuffle(&mut known);
    known.truncate(many);
    let mut all: Vec<Planned<'_>> = Vec::new();
    for (of, trail) in known {
        let mut plan = |delayed, record| all.push(Planned { of, trail, delayed, record });
        plan(Delayed::Mover, trail.mover);
        trail.other.into_iter().for_each(|record| plan(Delayed::Other, record));
        trail.beyond.into_iter().for_each(|record| plan(Delayed::OtherAndBehind, record));
    }
    all.sort_by_key(|planned| (planned.record.since, planned.of.event, planned.delayed));
    let mut run = Run::new(scenario, seed)?;
    let mut trials = Vec::new();
    for planned in &all {
        while is_before(&run, planned.record.since) && run.turn(&mut NoLifecycle) {}
        trials.push(experiment(run.clone(), planned, until));
        told(trials.len(), all.len());
    }
    Ok(trials)
}
/// Nothing of that instant has happened.
fn is_before(run: &Run, at: SimTime) -> bool {
    run.world.next_at().is_none_or(|next| next < at)
}

fn experiment(mut run: Run, planned: &Planned<'_>, until: Until) -> Trial {
    let of = planned.of;
    let plan = run.seen.judge.results.plans().iter().find(|plan| plan.name == of.result).cloned();
    let watermark = plan.and_then(|plan| drive(&mut run, &plan, planned, until));
    let late = watermark.is_some_and(|watermark| watermark >= planned.trail.over);
    let then = if until == Until::End { settled(&run, of) } else { late.then_some(of.what) };
    let (event, result) = (of.event, of.result.clone());
    let record = planned.record.event;
    Trial { event, result, what: of.what, delayed: planned.delayed, record, then, taken: watermark.is_some() }
}
/// What is wrong with the event in a run that is over.
fn settled(run: &Run, of: &Displaced) -> Option<&'static str> {
    let end = evidence::gather(run);
    let results = run.seen.judge.settle_results(&end, &mut Findings::default());
    let placed = results.placed.get(&of.result)?;
    placed.findings.iter().find(|(event, _)| *event == of.event).map(|(_, what)| what.names().1)
}
/// Runs a fork: every TaskManager, also one that starts again, holds the record back until the window has taken the event.
/// Gives the watermark at which it did; after a restart it may take it again, as it did in the run itself.
fn drive(run: &mut Run, plan: &AggregatePlan, planned: &Planned<'_>, until: Until) -> Option<i64> {
    let window = plan.window?;
    let hold = planned.hold(plan.job);
    let managers = run.stage.task_managers.clone();
    let mut told = vec![None; managers.len()];
    run.seen.journey = Some(Journey::default());
    let (mut looked_at, mut taken) = (0, None);
    loop {
        for (process, told) in managers.iter().zip(&mut told) {
            let now = run.world.is_up(*process).then(|| run.world.incarnation(*process));
            if std::mem::replace(told, now) != now && now.is_some() {
                run.world.signal(Addr { process: *process, port: RPC }, Signal::HoldBack(hold));
            }
        }
        if !run.turn(&mut NoLifecycle) {
            return taken;
        }
        let of_window = run.seen.journey.as_ref().map_or(&[][..], |journey| journey.taken(window));
        let members = &run.seen.judge.members;
        let holds = |t: &&Taken| t.rows.iter().any(|ghost| members.events(*ghost).contains(&planned.of.event));
        let news = of_window.get(looked_at..).unwrap_or_default();
        looked_at = of_window.len();
        if let Some(now) = news.iter().rfind(holds) {
            taken = Some(now.watermark);
            if now.at + A_LITTLE >= planned.trail.decided {
                break;
            }
        }
    }
    if until == Until::End {
        run.seen.journey = None;
        for process in managers {
            if run.world.is_up(process) {
                run.world.signal(Addr { process, port: RPC }, Signal::LetGo);
            }
        }
        while run.turn(&mut NoLifecycle) {}
    }
    taken
}
