//! Law of freshness: how old events are when a layer shows them, against an objective, and the alerts that an objective's
//! burn rate would have raised.
//!
//! An event is *bad* if it is not there `within` after it was sent; that is decided then, seen or not, so that an outage
//! shows while it lasts. The burn rate of a window is the share of bad events among those decided in it, over the share that
//! the objective allows. An alert fires while both of its windows burn faster than what would spend its share of the
//! period's budget in the long one (multi-window, multi-burn-rate: the short one ends it soon after recovery). Where nothing
//! is decided nothing fires: a producer that is silent is invisible to this law, as it is to the real alert.

use super::{Chunked, Evidence, Ledger, Sent};
use model::base::{Layer, Shown, SimTime};
use std::ops::Range;

/// What a layer promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// Its name in the outcome.
    pub name: String,
    /// The layer: a reader or a table.
    pub layer: Layer,
    /// Topics that it is read from: it shows every event sent there.
    pub direct: Vec<u16>,
    /// Topics whose events come to it through applications and jobs: those hold back what cannot be decoded, and copies that
    /// were sent again.
    pub through: Vec<u16>,
    /// How old an event may be, ms.
    pub within_ms: u32,
    /// The share of events that may be older, parts per million; not 0.
    pub budget: u32,
    /// The period of the budget, s.
    pub period_s: u32,
    /// How many times faster period and windows pass than they are called; at least 1.
    pub scale: u32,
}

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Somebody is woken.
    Page,
    /// Somebody looks at it tomorrow.
    Ticket,
}
impl Severity {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Ticket => "ticket",
        }
    }
}
/// A rule of alerting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Who is told.
    pub severity: Severity,
    /// The share of the budget that the long window may spend, in thousandths.
    pub spends: u32,
    /// The long window, s; the short one is a twelfth.
    pub long_s: u32,
}
impl Rule {
    /// The usual three (Google, The Site Reliability Workbook, chapter 5).
    pub const ALL: [Self; 3] = [
        Self { severity: Severity::Page, spends: 20, long_s: 3_600 },
        Self { severity: Severity::Page, spends: 50, long_s: 6 * 3_600 },
        Self { severity: Severity::Ticket, spends: 100, long_s: 3 * 86_400 },
    ];
    /// The burn rate above which it fires, in thousandths: 14.4, 6 and 1 over 30 days.
    pub const fn threshold(self, period_s: u32) -> u64 {
        self.spends as u64 * period_s as u64 / self.long_s as u64
    }
    /// Whether a burn rate above the threshold can be: it is at most 1 over the budget.
    pub const fn can_fire(self, period_s: u32, budget: u32) -> bool {
        MILLION * 1_000 > self.threshold(period_s) * budget as u64
    }
}
const MILLION: u64 = 1_000_000;

/// A time in which a rule's alert fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The rule.
    pub rule: Rule,
    /// When, ms.
    pub fired: Range<u64>,
}
/// What became of an objective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Events that were decided.
    pub events: u64,
    /// Of these, bad.
    pub bad: u64,
    /// In order of rules, then of time.
    pub alerts: Vec<Alert>,
    /// How old, in ms, all but one of a hundred were at most when they were first there: of the events sent in the first eighth
    /// of the time in which any were, and in the last. One that was never there is as old as it can be known to be.
    pub p99: [u64; 2],
}

/// The law.
#[derive(Clone, Debug, Default)]
pub struct FreshnessLaw {
    objectives: Vec<Objective>,
    /// By objective, by ghost: when it was first there, in ms and one more; 0 for not yet.
    first: Vec<Chunked<u32>>,
}
impl FreshnessLaw {
    /// For these objectives.
    pub fn new(objectives: Vec<Objective>) -> Self {
        Self { first: vec![Chunked::default(); objectives.len()], objectives }
    }
    /// Rows reached a layer.
    pub fn shown(&mut self, at: SimTime, shown: &Shown, ledger: &Ledger) {
        for (objective, first) in self.objectives.iter().zip(&mut self.first) {
            if objective.layer == shown.layer {
                let rows = &shown.batch.rows[shown.from as usize..shown.to as usize];
                let now = at.millis().0 as u32 + 1;
                // Not all rows are in the ledger.
                for row in rows.iter().filter(|r| r.ghost.open() < ledger.len()) {
                    let seen = first.grow(row.ghost.open() as usize);
                    if *seen == 0 {
                        *seen = now;
                    }
                }
            }
        }
    }
    /// What became of each objective.
    pub fn settle(&self, end: &Evidence<'_>) -> Vec<(&Objective, Kept)> {
        let end_ms = end.now.millis().0 as u64;
        let all = self.objectives.iter().zip(&self.first);
        all.map(|(objective, first)| {
            let expected = |sent: &Sent| {
                let is_held_back = sent.flags & (Sent::POISON | Sent::RESENT) != 0;
                objective.direct.contains(&sent.topic) || objective.through.contains(&sent.topic) && !is_held_back
            };
            let (mut decisions, mut ages) = (Vec::new(), Vec::new());
            for (ghost, sent) in end.ledger.iter().enumerate().filter(|(_, sent)| expected(sent)) {
                let due = u64::from(sent.at_ms) + u64::from(objective.within_ms);
                let seen = first.get(ghost).and_then(|at| at.checked_sub(1)).map(u64::from);
                let at = u64::from(sent.at_ms);
                ages.push((at, seen.unwrap_or(end_ms).saturating_sub(at)));
                match seen {
                    Some(seen) if seen <= due => decisions.push((seen, false)),
                    _ => decisions.push((due, true)),
                }
            }
            (objective, Kept { p99: eighths(&ages), ..objective.kept(decisions, end_ms) })
        })
        .collect()
    }
}

/// The age that 99 of 100 events do not exceed, of those sent in the first and in the last eighth of the time: `ages` are times
/// with ages, in any order.
fn eighths(ages: &[(u64, u64)]) -> [u64; 2] {
    let times = ages.iter().map(|(at, _)| *at);
    let (Some(from), Some(to)) = (times.clone().min(), times.max()) else { return [0; 2] };
    let eighth = (to - from) / 8;
    [from..=from + eighth, to - eighth..=to].map(|span| {
        let mut all: Vec<u64> = ages.iter().filter(|(at, _)| span.contains(at)).map(|(_, age)| *age).collect();
        all.sort_unstable();
        all[(all.len() * 99).div_ceil(100) - 1]
    })
}

impl Objective {
    /// What became of it: `decisions` are times in ms with whether the event was bad, in any order; the run is over at `end`.
    fn kept(&self, decisions: Vec<(u64, bool)>, end: u64) -> Kept {
        // A thirtieth of the shortest short window: ten seconds of five minutes.
        let shortest = Rule::ALL.map(|rule| rule.long_s / 12).into_iter().min().unwrap_or(1);
        let width = (u64::from(shortest) * 1_000 / 30 / u64::from(self.scale)).max(1);
        let mut kept = Kept::default();
        // By end of its bucket: decided and bad up to then.
        let mut sums = vec![(0, 0); (end / width + 2) as usize];
        for (at, bad) in decisions.into_iter().filter(|(at, _)| *at <= end) {
            let sum: &mut (u64, u64) = &mut sums[(at / width + 1) as usize];
            *sum = (sum.0 + 1, sum.1 + u64::from(bad));
            kept.events += 1;
            kept.bad += u64::from(bad);
        }
        for i in 1..sums.len() {
            sums[i] = (sums[i].0 + sums[i - 1].0, sums[i].1 + sums[i - 1].1);
        }
        for rule in Rule::ALL {
            let buckets = |window_s: u32| (u64::from(window_s) * 1_000 / u64::from(self.scale) / width).max(1) as usize;
            let burns = |i: usize, window: usize| {
                let from = sums[i.saturating_sub(window)];
                let (all, bad) = (sums[i].0 - from.0, sums[i].1 - from.1);
                bad * MILLION * 1_000 > rule.threshold(self.period_s) * all * u64::from(self.budget)
            };
            let (long, short) = (buckets(rule.long_s), buckets(rule.long_s / 12));
            let mut since = None;
            for i in 1..sums.len() {
                let at = (i as u64 * width).min(end);
                match (burns(i, long) && burns(i, short), since) {
                    (true, None) => since = Some(at),
                    (false, Some(from)) => {
                        kept.alerts.push(Alert { rule, fired: from..at });
                        since = None;
                    }
                    _ => {}
                }
            }
            if let Some(from) = since {
                kept.alerts.push(Alert { rule, fired: from..end });
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objective(budget: u32) -> Objective {
        Objective {
            name: "o".into(),
            layer: Layer::Read(0),
            direct: vec![0],
            through: vec![],
            within_ms: 10_000,
            budget,
            period_s: 30 * 86_400,
            scale: 1,
        }
    }
    /// Ten events a second from `from` to `to`, seconds; so many of each hundred are bad.
    fn decided(from: u64, to: u64, bad: u64) -> Vec<(u64, bool)> {
        (from * 10..to * 10).map(|n| (n * 100, n % 100 < bad)).collect()
    }
    fn fired(kept: &Kept, rule: Rule) -> Vec<Range<u64>> {
        kept.alerts.iter().filter(|a| a.rule == rule).map(|a| a.fired.clone()).collect()
    }

    #[test]
    fn thresholds_are_those_of_the_book() {
        assert_eq!(Rule::ALL.map(|rule| rule.threshold(30 * 86_400)), [14_400, 6_000, 1_000]);
        // 93 % allows a burn rate of 14.28 at most.
        assert!(!Rule::ALL[0].can_fire(30 * 86_400, 70_000) && Rule::ALL[0].can_fire(30 * 86_400, 69_000));
    }

    #[test]
    fn all_bad_pages_after_52_seconds_and_ends_with_the_short_window() {
        // 99.9 %, an hour of good events, then everything bad for two minutes: 14.4 x 0.001 x 3600 s = 51.8 s.
        let mut all = decided(0, 3_600, 0);
        all.extend(decided(3_600, 3_720, 100));
        all.extend(decided(3_720, 7_200, 0));
        let kept = objective(1_000).kept(all, 7_200_000);
        assert_eq!((kept.events, kept.bad), (72_000, 1_200));
        let [page] = &fired(&kept, Rule::ALL[0])[..] else { panic!("{kept:?}") };
        assert!((3_651_000..=3_665_000).contains(&page.start), "{page:?}");
        assert!((4_010_000..=4_030_000).contains(&page.end), "five minutes after recovery: {page:?}");
    }

    #[test]
    fn what_burns_slowly_is_a_ticket_and_no_page() {
        let mut all = decided(0, 3_600, 0);
        all.extend(decided(3_600, 9_000, 1));
        let kept = objective(5_000).kept(all, 9_000_000);
        assert!(fired(&kept, Rule::ALL[0]).is_empty() && fired(&kept, Rule::ALL[1]).is_empty());
        assert_eq!(fired(&kept, Rule::ALL[2]).len(), 1);
    }

    #[test]
    fn the_first_and_the_last_eighth_have_a_percentile_each() {
        let mut ages: Vec<_> = (0..=800).map(|at| (at, 5)).collect();
        assert_eq!(eighths(&ages), [5, 5]);
        // Of 101 events one may be older; of the last, two are.
        (ages[0].1, ages[799].1, ages[800].1, ages[400].1) = (9, 8, 9, 99);
        assert_eq!(eighths(&ages), [5, 8]);
        assert_eq!(eighths(&[]), [0, 0]);
    }

    #[test]
    fn time_can_pass_faster_and_silence_fires_nothing() {
        let mut all = decided(0, 60, 0);
        all.extend(decided(60, 62, 100));
        let quick = Objective { scale: 60, ..objective(1_000) };
        let kept = quick.kept(all, 300_000);
        let [page] = &fired(&kept, Rule::ALL[0])[..] else { panic!("{kept:?}") };
        assert!((60_800..=61_400).contains(&page.start) && page.end <= 67_400, "{page:?}");
        assert_eq!(objective(1_000).kept(Vec::new(), 300_000), Kept::default());
    }
}
