//! By which rule the real product puts an event where it stands.

use super::{AggregatePlan, Guarantee, Reached, Shape, What};
use crate::judge::Excuse;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a run beside the result itself.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The result.
    pub plan: &'a AggregatePlan,
    /// The watermarks at which the window took each event, in order.
    pub window: BTreeMap<u32, Vec<i64>>,
    /// The same of late filters.
    pub filters: BTreeMap<u32, Vec<i64>>,
    /// The same of joins above the window.
    pub joins: BTreeMap<u32, Vec<i64>>,
    /// The job came back from a failure, or took up the state of another.
    pub restored: bool,
    /// Its state was taken up twice: by two jobs, or while the one that it is of goes on.
    pub twice: bool,
    /// The job was ended, or has not finished: the law of liveness has said so.
    pub over: bool,
    /// Events of rows that stand in transactions whose commit was refused and given up.
    pub dropped: BTreeSet<u32>,
    /// Committed records of these topics were lost, by this rule.
    pub loss: Option<Excuse>,
}
impl Facts<'_> {
    fn guarantees(&self) -> impl Iterator<Item = Guarantee> + '_ {
        self.plan.late.iter().map(|l| l.guarantee).chain([self.plan.guarantee])
    }
    /// Something may be written twice: it is written again after a restore.
    fn again(&self) -> Option<Excuse> {
        let twice = self.guarantees().any(|g| g != Guarantee::ExactlyOnce);
        (self.restored && twice).then_some(Excuse::AtLeastOnce)
    }
    /// State may hold something twice, or not at all.
    fn inexact(&self) -> Option<Excuse> {
        let state = self.twice.then_some(Excuse::StateTwice);
        state.or_else(|| (self.restored && self.plan.inexact).then_some(Excuse::InexactState))
    }
    /// What was buffered at a failure may be gone.
    fn gone(&self) -> Option<Excuse> {
        let buffered = self.guarantees().any(|g| g == Guarantee::None);
        let lost = (self.restored && buffered).then_some(Excuse::NoGuarantee);
        let inexact = (self.restored && self.plan.inexact).then_some(Excuse::InexactState);
        let unread = (self.restored && !self.plan.replays).then_some(Excuse::NoReplay);
        lost.or(inexact).or(unread).or(self.loss)
    }
}

/// The rule for a finding about an event; none: the product never does that.
pub fn rule_of(what: What, event: u32, reached: Option<&Reached>, facts: &Facts<'_>) -> Option<Excuse> {
    let plan = facts.plan;
    let Some(reached) = reached else {
        return plan.uncommitted.then_some(Excuse::ReadUncommitted);
    };
    let none = Vec::new();
    let of = |decisions: &BTreeMap<u32, Vec<i64>>| decisions.get(&event).unwrap_or(&none).clone();
    let (window, filters) = (of(&facts.window), of(&facts.filters));
    // Late from here on: for its window, and for a filter, which may look at its own time.
    let over = plan.shape.over(reached.time) + plan.lateness;
    let (took, refused) = (window.iter().any(|w| *w < over), window.iter().any(|w| *w >= over));
    let filter = plan.late.iter().any(|l| l.filter.is_some());
    let filtered = filters.iter().any(|w| *w >= reached.time);
    // Windows of slices fire again when a restore has set back the clock of their timers: the first of cumulating ones with
    // all that was gathered (T8).
    let anew = (facts.restored && plan.shape.overlaps()).then_some(Excuse::Reopened);
    match what {
        What::OnTimeLate if filter => filtered.then_some(Excuse::ByWatermark),
        What::OnTimeLate => refused.then_some(Excuse::ByWatermark),
        What::LateInWindow => {
            // Its watermark had been there, or begins anew.
            let back = facts.restored && window.contains(&i64::MIN);
            took.then_some(if back { Excuse::Reopened } else { Excuse::ByWatermark })
        }
        What::Neither => neither(event, reached, facts, (&window, &filters), took, refused),
        What::Both if filter => (filtered && took).then_some(Excuse::TwoWatermarks).or_else(|| facts.again()),
        What::Both => facts.again().filter(|_| took && refused),
        What::Twice => {
            let session = matches!(plan.shape, Shape::Session { .. }) && plan.lateness > 0;
            let fires_again = session.then_some(Excuse::FiresAgain);
            facts.again().or_else(|| facts.inexact()).or(fires_again).or(anew)
        }
        What::Partial => {
            let first = plan.shape.ends(reached.time).next().unwrap_or(reached.time) - 1 + plan.lateness;
            let partly = window.iter().any(|w| *w >= first).then_some(Excuse::PartlyLate);
            let dropped = facts.dropped.contains(&event).then_some(Excuse::DroppedCommit);
            partly.or(dropped).or_else(|| facts.gone())
        }
        What::Unexpected => anew,
    }
}

fn neither(
    event: u32,
    reached: &Reached,
    facts: &Facts<'_>,
    (window, filters): (&[i64], &[i64]),
    took: bool,
    refused: bool,
) -> Option<Excuse> {
    if facts.dropped.contains(&event) {
        return Some(Excuse::DroppedCommit);
    }
    let plan = facts.plan;
    if window.is_empty() {
        let join = facts.joins.get(&event).is_some_and(|w| w.iter().any(|w| *w >= reached.time));
        let over = facts.over.then_some(Excuse::JobOver);
        return join.then_some(Excuse::JoinState).or(over).or_else(|| facts.gone());
    }
    if refused {
        if plan.late.is_empty() {
            return Some(Excuse::DroppedLate);
        }
        // The window judges by the watermark that it restored, the filter by none or by one that is behind.
        if plan.late.iter().any(|l| l.filter.is_some()) {
            let null = filters.contains(&i64::MIN);
            let behind = filters.iter().any(|w| *w < plan.shape.over(reached.time));
            let behind = behind.then_some(Excuse::WatermarkBehind);
            return null.then_some(Excuse::WatermarkNull).or(behind).or_else(|| facts.gone());
        }
    }
    // In a table the window that a restore has opened anew takes the place of what it had.
    let replaced = took && facts.restored && matches!(plan.into, crate::judge::results::Into::Table(..));
    replaced.then_some(Excuse::Reopened).or_else(|| facts.gone()).or(facts.over.then_some(Excuse::JobOver))
}
