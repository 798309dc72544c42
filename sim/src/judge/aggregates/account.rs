//! By which rule the real product puts an event where it stands. A rule accounts for an event only by what was seen of that
//! event: by which operator it was taken, at which watermark, in which attempt, and in which firings it stands.

use super::{AggregatePlan, Guarantee, Reached, Shape, What};
use crate::judge::{Attempts, Excuse, Made, Took};
use std::collections::{BTreeMap, BTreeSet};

/// How each event was taken by some operator, in order.
pub type Taken = BTreeMap<u32, Vec<Took>>;

/// A firing that stands, as far as an account asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    /// End of its window, ms.
    pub end: i64,
    /// Its key, as the window counts it; none where the row does not tell.
    pub key: Option<i64>,
    /// Who made it.
    pub made: Made,
    /// The events.
    pub events: &'a [u32],
}

impl Standing<'_> {
    /// The same window, fired before the checkpoint that the attempt of the later firing began with.
    fn is_known_to(&self, later: &Self) -> bool {
        let (made, by) = (self.made.at, later.made.at);
        (self.end, self.key, made.job) == (later.end, later.key, by.job)
            && made.attempt < by.attempt
            && made.last < by.restored
    }
}

/// What is known of a run beside the result itself.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The result.
    pub plan: &'a AggregatePlan,
    /// How the window took each event about which there is a finding.
    pub window: Taken,
    /// The same of late filters.
    pub filters: Taken,
    /// The same of joins above the window.
    pub joins: Taken,
    /// The same of writers that may write a row again: of the result, and of its late output.
    pub writes: [Taken; 2],
    /// Firings that stand.
    pub firings: Vec<Standing<'a>>,
    /// Late events that no late output keeps, as it is configured.
    pub unkept: BTreeSet<u32>,
    /// The checkpoint that each attempt began with.
    pub attempts: Attempts,
    /// The newest attempt, where there was more than one.
    pub newest: Option<(u16, u32)>,
    /// The source has several subtasks.
    pub parallel: bool,
    /// Its state was taken up twice: by two jobs, or while the one that it is of goes on.
    pub twice: bool,
    /// The job was ended, or has not finished: the law of liveness has said so.
    pub over: bool,
    /// Events of rows that stand in transactions whose commit was refused and given up.
    pub dropped: BTreeSet<u32>,
    /// Committed records of these topics were lost, by this rule.
    pub loss: Option<Excuse>,
}

fn of(taken: &Taken, event: u32) -> &[Took] {
    taken.get(&event).map_or(&[], Vec::as_slice)
}
/// What was taken, with each that was taken later.
fn pairs(took: &[Took]) -> impl Iterator<Item = (&Took, &Took)> {
    took.iter().enumerate().flat_map(|(i, t)| took[i + 1..].iter().map(move |later| (t, later)))
}
/// How often at most one attempt took it.
fn most_in_one(took: &[Took]) -> u64 {
    let mut by_attempt: BTreeMap<(u16, u32), u64> = BTreeMap::new();
    took.iter().for_each(|t| *by_attempt.entry(t.attempt()).or_default() += 1);
    by_attempt.into_values().max().unwrap_or(0)
}

impl Facts<'_> {
    /// What an event was taken by so far: writers, the window, joins.
    fn everywhere(&self, event: u32) -> impl Iterator<Item = &Took> {
        let [result, late] = &self.writes;
        [&self.window, &self.joins, result, late].into_iter().flat_map(move |taken| of(taken, event))
    }
    /// An attempt since `earlier`, up to that of `later`, began with a checkpoint that this did not go into, so that it was to be
    /// taken again: by that attempt, or by one that began with a checkpoint which that one had made before it came to it.
    fn comes_again(&self, earlier: &Took, later: &Took) -> bool {
        let (from, to) = (earlier.attempt(), later.attempt());
        let between = self.attempts.iter().filter(|(attempt, _)| (from..=to).contains(*attempt) && **attempt != from);
        from != to && between.map(|(_, restored)| *restored).fold(later.at.restored, i64::min) <= earlier.at.last
    }
    /// Whether an event came again because an attempt began with a checkpoint that it had not gone into.
    fn came_again(&self, took: &[Took]) -> bool {
        pairs(took).any(|(earlier, later)| self.comes_again(earlier, later))
    }
    /// What was written of it since the checkpoint that a later attempt began with is written again: no attempt by itself has
    /// written more of it than there is.
    fn written_again(&self, event: u32, copies: u64) -> bool {
        self.writes
            .iter()
            .map(|taken| of(taken, event))
            .any(|took| self.came_again(took) && most_in_one(took) <= copies)
    }
    /// The window has taken it in two attempts.
    fn taken_again(&self, event: u32) -> bool {
        self.came_again(of(&self.window, event))
    }
    /// State may hold it twice: it was in the state that an attempt began with, and came again; or two jobs have it.
    fn inexact(&self, event: u32) -> Option<Excuse> {
        let took = of(&self.window, event);
        let jobs: BTreeSet<u16> = took.iter().map(|t| t.at.job).chain(self.fired_by(event)).collect();
        let state = (self.twice && jobs.len() > 1).then_some(Excuse::StateTwice);
        let stands = self.plan.inexact && pairs(took).any(|(earlier, later)| earlier.stands_in(later));
        // Without checkpoints nothing is in the state that an attempt begins with.
        let anew = self.plan.inexact && self.came_again(took);
        state.or((stands || anew).then_some(Excuse::InexactState))
    }
    /// In a table a window that a restore has opened anew takes the place of what it had, without an event of before.
    fn replaced(&self, event: u32, reached: &Reached) -> Option<Excuse> {
        let plan = self.plan;
        let of_key = |f: &&Standing<'_>| f.key.is_none_or(|key| key == reached.key);
        let ends: Vec<i64> = match plan.shape {
            // How far its session went before is not known: the next that stands is the one that ends where it ended.
            Shape::Session { gap } => {
                let next = self.firings.iter().filter(of_key).map(|f| f.end).filter(|end| *end >= reached.time + gap);
                next.min().into_iter().collect()
            }
            shape => shape.ends(reached.time).collect(),
        };
        let opened = |t: &Took| {
            self.firings.iter().filter(of_key).any(|f| {
                let later = (f.made.at.job, f.made.at.attempt) != t.attempt() && f.made.at.restored > t.at.last;
                ends.contains(&f.end) && later && !f.events.contains(&event)
            })
        };
        (plan.replaces && of(&self.window, event).iter().any(opened)).then_some(Excuse::Reopened)
    }
    /// In a table whose key windows share, another may have taken the place of an event's.
    fn overwritten(&self, event: u32) -> Option<Excuse> {
        (self.plan.key_shared && !of(&self.window, event).is_empty()).then_some(Excuse::KeyShared)
    }
    fn fired_by(&self, event: u32) -> impl Iterator<Item = u16> {
        self.firings.iter().filter(move |f| f.events.contains(&event)).map(|f| f.made.at.job)
    }
    /// It may be gone with an attempt that failed.
    fn gone(&self, event: u32) -> Option<Excuse> {
        let newest = self.newest?;
        let older = |took: &[Took]| !took.is_empty() && took.iter().all(|t| t.attempt() != newest);
        let plan = self.plan;
        let writers = [plan.guarantee].into_iter().chain(plan.late.first().map(|l| l.guarantee));
        let buffered = self
            .writes
            .iter()
            .zip(writers)
            .any(|(taken, guarantee)| guarantee == Guarantee::None && older(of(taken, event)));
        if buffered {
            return Some(Excuse::NoGuarantee);
        }
        // What the window, or the writer, has taken in failed attempts only: the state above it knew it already.
        let last = if plan.window.is_some() { &self.window } else { &self.writes[0] };
        let inexact = plan.inexact && older(of(last, event));
        // What no attempt but failed ones has seen; or what a join waits with for another that none has.
        let unseen = self.everywhere(event).all(|t| t.attempt() != newest);
        let waits = of(last, event).is_empty() && of(&self.joins, event).iter().any(|t| t.attempt() == newest);
        let inexact = (inexact || plan.inexact && waits).then_some(Excuse::InexactState);
        inexact.or((!plan.replays && (unseen || waits)).then_some(Excuse::NoReplay))
    }
    /// Firings of windows that had fired before the checkpoint that their attempt began with: the clock of SQL's timers does not
    /// know of it (T8), and the first watermark fires them; those of older SQL are opened by what comes late (L1), and hold what
    /// their panes still hold for later windows. Those that hold an event, by the end of the window: all, and so.
    fn fired_anew(&self, event: u32) -> BTreeMap<i64, (u64, u64)> {
        let mut by_end: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
        for firing in self.firings.iter().filter(|f| f.events.contains(&event)) {
            let at = firing.made.at;
            let sliced = self.plan.sliced && firing.made.first && at.restored > 0 && at.began >= firing.end - 1;
            let opened = || self.firings.iter().any(|f| f.is_known_to(firing));
            let anew = sliced || self.plan.paned && opened();
            let (all, anews) = by_end.entry(firing.end).or_default();
            (*all, *anews) = (*all + 1, *anews + u64::from(anew));
        }
        by_end
    }
}

/// The rule for a finding about an event; none: the product never does that.
pub fn rule_of(what: What, event: u32, reached: Option<&Reached>, facts: &Facts<'_>) -> Option<Excuse> {
    let plan = facts.plan;
    let Some(reached) = reached else {
        return plan.uncommitted.then_some(Excuse::ReadUncommitted);
    };
    let (window, filters) = (of(&facts.window, event), of(&facts.filters, event));
    // Late from here on: for its window, and for a filter, which may look at its own time.
    let over = plan.shape.over(reached.time) + plan.lateness;
    let taken = |t: &&Took| t.watermark < over;
    let (took, refused) = (window.iter().any(|t| taken(&t)), window.iter().any(|t| !taken(&t)));
    let filter = plan.late.iter().any(|l| l.filter.is_some());
    let filtered = filters.iter().any(|t| t.watermark >= reached.time);
    let again = |by: bool| by.then_some(Excuse::AtLeastOnce);
    match what {
        What::OnTimeLate if filter => filtered.then_some(Excuse::ByWatermark),
        What::OnTimeLate => refused.then_some(Excuse::ByWatermark),
        What::LateInWindow => {
            // Its watermark had been there, or begins anew.
            let back = window.iter().any(|t| t.at.restored > 0 && t.watermark == i64::MIN);
            took.then_some(if back { Excuse::Reopened } else { Excuse::ByWatermark })
        }
        What::Neither => neither(event, reached, facts, took, refused),
        // One subtask of a filter and the window behind it see the same watermark in the same order.
        What::Both if filter && filtered && took && facts.parallel => Some(Excuse::TwoWatermarks),
        What::Both => {
            let copies = (reached.copies > 1 && took && (refused || filtered)).then_some(Excuse::CopiesRead);
            copies.or(again(facts.taken_again(event) && took && (refused || filtered)).filter(|_| may_repeat(plan)))
        }
        What::Twice => twice(event, reached.copies, facts),
        What::Copies => Some(Excuse::CopiesRead),
        What::Partial => {
            let first = plan.shape.ends(reached.time).next().unwrap_or(reached.time) - 1 + plan.lateness;
            let partly = window.iter().any(|t| t.watermark >= first).then_some(Excuse::PartlyLate);
            let dropped = facts.dropped.contains(&event).then_some(Excuse::DroppedCommit);
            let replaced = facts.replaced(event, reached).or_else(|| facts.overwritten(event));
            partly.or(dropped).or(replaced).or_else(|| facts.gone(event)).or(facts.loss)
        }
        What::Unexpected => {
            // The first of cumulating windows fire with all that was gathered since.
            let ends: Vec<i64> = plan.shape.ends(reached.time).collect();
            let by_end = facts.fired_anew(event);
            let mut wrong = by_end.iter().filter(|(end, _)| !ends.contains(end)).peekable();
            let anew = wrong.peek().is_some() && wrong.all(|(_, (all, anew))| all == anew);
            anew.then_some(Excuse::Reopened)
        }
    }
}
fn may_repeat(plan: &AggregatePlan) -> bool {
    plan.late.iter().map(|l| l.guarantee).chain([plan.guarantee]).any(|g| g != Guarantee::ExactlyOnce)
}

fn twice(event: u32, copies: u64, facts: &Facts<'_>) -> Option<Excuse> {
    let plan = facts.plan;
    if plan.window.is_none() {
        let state = facts.twice.then_some(Excuse::StateTwice);
        let again = facts.written_again(event, copies).then_some(Excuse::AtLeastOnce);
        return again.or(state).or_else(|| facts.inexact(event));
    }
    let by_end = facts.fired_anew(event);
    let anew = by_end.values().filter(|(all, _)| *all > copies).all(|(all, anew)| all - anew <= copies);
    let many = by_end.values().any(|(all, _)| *all > copies);
    if many && anew && plan.shape.overlaps() {
        return Some(Excuse::Reopened);
    }
    // The same window, fired by two attempts, or its late events written by two.
    let most = if plan.lateness > 0 { u64::MAX } else { copies * (by_end.len() as u64).max(1) };
    let again = facts.written_again(event, most);
    let session = matches!(plan.shape, Shape::Session { .. }) && plan.lateness > 0;
    let fires_again = session.then_some(Excuse::FiresAgain);
    again.then_some(Excuse::AtLeastOnce).or_else(|| facts.inexact(event)).or(fires_again)
}

fn neither(event: u32, reached: &Reached, facts: &Facts<'_>, took: bool, refused: bool) -> Option<Excuse> {
    if facts.dropped.contains(&event) {
        return Some(Excuse::DroppedCommit);
    }
    let plan = facts.plan;
    let (window, filters) = (of(&facts.window, event), of(&facts.filters, event));
    let over = plan.shape.over(reached.time) + plan.lateness;
    let gone = || facts.gone(event).or(facts.loss);
    if window.is_empty() {
        let join = of(&facts.joins, event).iter().any(|t| t.watermark >= reached.time);
        let ended = facts.over.then_some(Excuse::JobOver);
        return join.then_some(Excuse::JoinState).or(ended).or_else(gone);
    }
    if refused {
        if plan.late.is_empty() || facts.unkept.contains(&event) {
            return Some(Excuse::DroppedLate);
        }
        // The window judges by the watermark that it restored, the filter by none or by one that is behind. Without a restore
        // the window is ahead of the filter only if the filter's part of the source is idle.
        if plan.late.iter().any(|l| l.filter.is_some()) {
            let restored = window.iter().any(|t| t.at.restored > 0 && t.at.began >= over);
            let idle = facts.parallel && plan.idles;
            let (restored, idle) = (restored.then_some(()), idle.then_some(()));
            let null = filters.iter().any(|t| t.watermark == i64::MIN).then_some(Excuse::WatermarkNull);
            let behind = filters.iter().any(|t| t.watermark < over).then_some(Excuse::WatermarkBehind);
            return restored.and(null).or(restored.or(idle).and(behind)).or_else(gone);
        }
    }
    let replaced = took.then(|| facts.replaced(event, reached)).flatten();
    let replaced = replaced.or_else(|| took.then(|| facts.overwritten(event)).flatten());
    replaced.or_else(gone).or(facts.over.then_some(Excuse::JobOver))
}
