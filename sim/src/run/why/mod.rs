//! Why events stand where they do: for each that a windowed result misplaces, the way it took, where it waited longest and
//! for what, and the record that moved the watermark past it meanwhile.

mod mover;
mod prove;
mod way;

pub use mover::{Mover, Spot, Trail};
pub use prove::{Delayed, Trial, Until, prove};
pub use way::{Leg, Wait};

use super::{Run, evidence};
use crate::judge::{AggregatePlan, Findings, Journey, Members, OperatorAt, Placed, Sent, Taken, What};
use model::base::{Domain, SimTime, Streams};
use mover::Movers;
use serde::Serialize;
use std::collections::BTreeMap;
use way::Way;

/// An event that stands in the wrong place, and how it came there.
#[derive(Clone, Debug, Serialize)]
pub struct Displaced {
    /// Its number in the ledger.
    pub event: u32,
    /// The result that misplaces it, by the name of its sink.
    pub result: String,
    /// What is wrong: `on-time-late`, `in-neither`, ...
    pub what: &'static str,
    /// Its time, ms.
    pub time: i64,
    /// When it was sent, ms of the run.
    pub sent_ms: u64,
    /// Where it was, and how long.
    pub waits: Vec<Wait>,
    /// Which of them was the longest.
    pub longest: usize,
    /// When the operator that judges it took it, ms of the run, and at which watermark; none if it had none.
    pub taken: Option<(u64, Option<i64>)>,
    /// The record that moved the watermark past it.
    pub mover: Option<Mover>,
    /// Where all of that stands, for [`prove`].
    #[serde(skip)]
    pub trail: Option<Trail>,
}
/// Events that were displaced alike.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Group {
    /// How many.
    pub events: u64,
    /// How long they waited there: the shortest, the middle and the longest, ms.
    pub waited_ms: (u64, u64, u64),
    /// How many were passed by a record of another partition of the topic before; by one of their own; by none that is known.
    pub passed_by: (u64, u64, u64),
    /// The first of them.
    pub example: Option<Displaced>,
}
/// What stands together: result, what is wrong, where the longest wait was, and for what.
pub type Kind = (String, &'static str, String, String);

/// All explanations of a run.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    /// By kind; the counts add up to all misplaced events.
    pub groups: BTreeMap<Kind, Group>,
    /// Every one.
    pub all: Vec<Displaced>,
    /// How many findings no rule accounts for.
    pub unaccounted: u64,
}

/// Explains a run that has kept its [`Journey`].
pub fn explain(run: &Run, journey: &Journey) -> Explained {
    let judge = &run.seen.judge;
    let end = evidence::gather(run);
    let results = judge.settle_results(&end, &mut Findings::default());
    let ms = |at: SimTime| at.since(run.origin).0 / 1_000_000;
    let mut explained = Explained::default();
    let mut stream = Streams(run.seed).stream(Domain::Schedule, 0, "experiments");
    for plan in judge.results.plans().iter().filter(|plan| plan.window.is_some()) {
        let Some(placed) = results.placed.get(&plan.name).filter(|p| !p.findings.is_empty()) else { continue };
        explained.unaccounted += placed.by_rule.get(Placed::UNACCOUNTED).copied().unwrap_or(0);
        let way = Way::new(run, plan, journey, &end);
        let judges = Judges::new(plan, journey, &judge.members);
        let mut movers: BTreeMap<OperatorAt, Movers> = BTreeMap::new();
        for (event, what) in &placed.findings {
            let Some(sent) = end.ledger.get(*event) else { continue };
            let over = placed.ends.get(event).map(|end| end - 1 + plan.lateness);
            let (mut waits, last) = way.of(*event, u64::from(sent.at_ms));
            let copied = placed.copied.contains(event);
            if copied {
                waits = vec![way.of_copies(*event, SimTime(u64::from(sent.at_ms) * 1_000_000))];
            }
            let decided = judges.decision(*event, *what, over).filter(|_| !copied);
            if let Some((_, taken)) = decided {
                way.until_taken(*event, &mut waits, last, taken.at);
            }
            let longest = (0..waits.len()).max_by_key(|i| (waits[*i].ms, usize::MAX - i)).unwrap_or_default();
            let mover = decided.zip(over).and_then(|((at, taken), over)| {
                let of = movers.entry(at).or_insert_with(|| Movers::new(journey.taken(at), &way));
                of.past(taken, (over, plan.bound), *event, ms, &mut stream)
            });
            let (mover, trail) = mover.unzip();
            // What was sent too late by definition no failure has displaced.
            let trail = trail.filter(|_| sent.flags & Sent::LATE == 0);
            let decided = decided.map(|(_, taken)| taken);
            let displaced = Displaced {
                event: *event,
                result: plan.name.clone(),
                what: what.names().1,
                time: way.time(*event).unwrap_or_default(),
                sent_ms: u64::from(sent.at_ms).saturating_sub(run.origin.0 / 1_000_000),
                longest,
                taken: decided.map(|t| (ms(t.at), (t.watermark != i64::MIN).then_some(t.watermark))),
                waits,
                mover,
                trail,
            };
            explained.add(displaced);
        }
    }
    explained.settle();
    explained
}

/// An operator that judges lateness: what it took, and by event where that stands.
type Operator<'j> = (OperatorAt, &'j [Taken], BTreeMap<u32, Vec<usize>>);

/// What the operators that judge lateness took.
struct Judges<'j> {
    /// Filters first, for their rows are the events themselves; then the window.
    all: Vec<Operator<'j>>,
}
impl<'j> Judges<'j> {
    fn new(plan: &AggregatePlan, journey: &'j Journey, members: &Members) -> Self {
        let operators = plan.late.iter().filter_map(|l| l.filter).chain(plan.window);
        let all = operators.map(|at| {
            let taken = journey.taken(at);
            let mut of: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            for (i, t) in taken.iter().enumerate() {
                for event in t.rows.iter().flat_map(|ghost| members.events(*ghost)) {
                    of.entry(event).or_default().push(i);
                }
            }
            (at, taken, of)
        });
        Self { all: all.collect() }
    }
    /// The decision that put an event where it is: the last one that found it late, else the last at all. What is in neither
    /// was dropped by the window; all else the filter decides, where there is one.
    fn decision(&self, event: u32, what: What, over: Option<i64>) -> Option<(OperatorAt, &'j Taken)> {
        let mut order: Vec<_> = self.all.iter().collect();
        if what == What::Neither {
            order.reverse();
        }
        order.into_iter().find_map(|(at, taken, of)| {
            let all = of.get(&event)?;
            let late = |i: &&usize| over.is_some_and(|over| taken[**i].watermark >= over);
            let i = all.iter().rev().find(late).or(all.last())?;
            Some((*at, &taken[*i]))
        })
    }
}

impl Explained {
    fn add(&mut self, displaced: Displaced) {
        self.all.push(displaced);
    }
    fn settle(&mut self) {
        let mut waited: BTreeMap<Kind, Vec<u64>> = BTreeMap::new();
        for d in &self.all {
            let wait = d.waits.get(d.longest);
            let (place, cause) = wait.map_or((String::new(), String::new()), |w| (w.place.clone(), w.cause.clone()));
            let kind = (d.result.clone(), d.what, place, cause);
            waited.entry(kind.clone()).or_default().push(wait.map_or(0, |w| w.ms));
            let group = self.groups.entry(kind).or_default();
            group.events += 1;
            let (other, same, none) = &mut group.passed_by;
            match &d.mover {
                Some(mover) if mover.same_partition => *same += 1,
                Some(_) => *other += 1,
                None => *none += 1,
            }
            group.example.get_or_insert_with(|| d.clone());
        }
        for (kind, mut all) in waited {
            all.sort_unstable();
            if let Some(group) = self.groups.get_mut(&kind) {
                group.waited_ms = (all[0], all[all.len() / 2], all[all.len() - 1]);
            }
        }
    }
}
