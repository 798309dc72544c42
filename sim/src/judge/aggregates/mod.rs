//! Laws of aggregates and of placement: where each event that reached a window stands in the end.
//!
//! *Aggregate*: windows, late output and windows still open hold every event once: none in both, none in neither, none counted
//! twice. *Placement*: events that are on time by definition stand in windows, late ones in the late output; a placement may be
//! consistent and wrong. An event is late by definition if its window was over for whoever knew every earlier send: its end
//! less a millisecond, with the lateness that is allowed, is at most the newest event time sent before less the bound.
//!
//! A window may fire again within the allowed lateness; the firing that holds all of an earlier one takes its place. Sessions
//! are events' own: whether one is late depends on what it touches, so the placement of late events is not judged there.

mod account;
#[cfg(test)]
mod account_tests;
mod check;
mod collect;
mod plan;
#[cfg(test)]
mod tests;

pub use account::{Facts, Standing, Taken, rule_of};
pub use check::{Appends, Checked, check, held_back};
pub use collect::{Foretold, judge};
pub use plan::{AggregatePlan, Guarantee, LateOutput, Shape};

use super::{ByEvent, Events, in_order};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// An event that a window should take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Its time, ms.
    pub time: i64,
    /// Its key, as the window counts it.
    pub key: i64,
    /// What it adds to the sum.
    pub value: i64,
    /// Late by definition.
    pub late: bool,
    /// A copy of an event that had been sent before.
    pub resent: bool,
    /// How often the topic that the job reads holds it.
    pub copies: u64,
    /// Whether it gets as far as the window depends on how long a join keeps its rows: by watermarks, so it may or may not.
    pub doubtful: bool,
}
/// A window's row, with the events that it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing<'a> {
    /// End of the window, ms.
    pub end: i64,
    /// What tells keys apart.
    pub key: u64,
    /// The events.
    pub events: &'a [u32],
}
/// Rows of windows, in order: there are as many as events where each stands for one, so all of their events are one list.
#[derive(Clone, Debug, Default)]
pub struct Firings {
    rows: Vec<(i64, u64, Range<usize>)>,
    events: Vec<u32>,
}
impl Firings {
    /// Adds a row; `fill` adds its events.
    pub fn push(&mut self, end: i64, key: u64, fill: impl FnOnce(&mut Vec<u32>)) {
        let from = self.events.len();
        fill(&mut self.events);
        self.rows.push((end, key, from..self.events.len()));
    }
    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = Firing<'_>> {
        self.rows.iter().map(|(end, key, of)| Firing { end: *end, key: *key, events: &self.events[of.clone()] })
    }
    /// The events of all of them.
    pub fn events(&self) -> &[u32] {
        &self.events
    }
}
/// What the law looks at.
#[derive(Clone, Debug)]
pub struct History {
    /// How time is cut.
    pub shape: Shape,
    /// `allowedLateness`, ms.
    pub lateness: i64,
    /// Events by number.
    pub events: ByEvent<Reached>,
    /// Rows of windows.
    pub firings: Firings,
    /// A row takes the place of an earlier one of its key and window: in a keyed table.
    pub replaces: bool,
    /// Rows of the late output.
    pub late: Vec<u32>,
    /// Events that open windows hold.
    pub open: Events,
}

/// What is wrong with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// It is in no window, not in the late output, and in no open window.
    Neither,
    /// It is in a window and in the late output.
    Both,
    /// It is counted more often than the topic that the job reads holds it.
    Twice,
    /// It is counted more than once, and no more often than that topic holds it.
    Copies,
    /// Of the windows that overlap at its time some that have fired do not hold it.
    Partial,
    /// It should not be where it is.
    Unexpected,
    /// It is on time and in the late output.
    OnTimeLate,
    /// It is late and in a window.
    LateInWindow,
}
impl What {
    /// The law, and the finding's name.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Neither => ("aggregate", "in-neither"),
            Self::Both => ("aggregate", "in-both"),
            Self::Twice | Self::Copies => ("aggregate", "counted-twice"),
            Self::Partial => ("aggregate", "in-some-of-its-windows"),
            Self::Unexpected => ("aggregate", "unexpected"),
            Self::OnTimeLate => ("placement", "on-time-late"),
            Self::LateInWindow => ("placement", "late-in-window"),
        }
    }
}

/// What one window lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowPlaced {
    /// Its beginning, ms.
    pub from: i64,
    /// Events of it that were on time.
    pub on_time: u64,
    /// Of these, such as are not in it, and are in no window that is open.
    pub displaced: u64,
}
/// Where events stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// On-time events in windows.
    pub on_time_in_windows: u64,
    /// On-time events in the late output.
    pub on_time_late: u64,
    /// Late events in windows.
    pub late_in_windows: u64,
    /// Events in windows that were sent again: copies of events that had been sent before.
    pub resent_in_windows: u64,
    /// Late events in the late output.
    pub late_in_late: u64,
    /// Events of windows still open.
    pub pending: u64,
    /// Events in both.
    pub in_both: u64,
    /// Events in neither.
    pub in_neither: u64,
    /// Events counted more than once.
    pub counted_twice: u64,
    /// Events that lack in some of their windows.
    pub partial: u64,
    /// Rows of the late output and events in windows that should not be there.
    pub unexpected: u64,
    /// Firings of a window beyond its first.
    pub refired: u64,
    /// The longest that a window's row kept readers waiting, ms, where a part of the source can be idle.
    pub held_back_ms: Option<u64>,
    /// By session: late events in windows are not judged.
    pub sessions: bool,
    /// What is wrong, by event.
    pub findings: Vec<(u32, What)>,
    /// Of those events, the end of the last window that each belongs to.
    pub ends: BTreeMap<u32, i64>,
    /// Of those events, such as the topic that the job reads holds more than once.
    pub copied: BTreeSet<u32>,
    /// Windows that do not overlap, by their end.
    pub windows: BTreeMap<i64, WindowPlaced>,
    /// Findings by the rule that accounts for them; [`Placed::UNACCOUNTED`] of the rest.
    pub by_rule: BTreeMap<&'static str, u64>,
}
impl Placed {
    /// What no rule accounts for.
    pub const UNACCOUNTED: &'static str = "unaccounted";
    /// Consistent and right.
    pub const fn exact(&self) -> bool {
        self.in_both + self.in_neither + self.counted_twice + self.partial + self.unexpected + self.on_time_late == 0
            && (self.late_in_windows == 0 || self.sessions)
    }
}

/// Rows of each window that stand, by window: later ones have taken the place of earlier ones. And how many fired again.
fn standing(history: &History) -> (Vec<Firing<'_>>, u64) {
    let mut by_window: Vec<Firing<'_>> = history.firings.iter().collect();
    by_window.sort_by_key(|f| (f.end, f.key));
    let mut refired = 0;
    let mut standing = Vec::with_capacity(by_window.len());
    for of_window in by_window.chunk_by(|a, b| (a.end, a.key) == (b.end, b.key)) {
        let from = standing.len();
        for firing in of_window {
            refired += u64::from(standing.len() > from);
            if history.replaces {
                standing.truncate(from);
            } else if history.lateness > 0 && standing.len() > from {
                let all: BTreeSet<u32> = firing.events.iter().copied().collect();
                let replaced = |earlier: &Firing<'_>| earlier.events.iter().all(|e| all.contains(e));
                let kept: Vec<_> = standing.drain(from..).filter(|earlier| !replaced(earlier)).collect();
                standing.extend(kept);
            }
            standing.push(*firing);
        }
    }
    (standing, refired)
}

/// Settles the account of one windowed result.
pub fn settle(history: &History) -> Placed {
    let sessions = matches!(history.shape, Shape::Session { .. });
    let (stand, refired) = standing(history);
    let mut placed = Placed { refired, sessions, ..Placed::default() };
    let last = stand.iter().map(|f| f.end).max().unwrap_or(i64::MIN);
    // Events with the ends of the windows that hold them, in the order of the windows.
    let mut in_windows: Vec<(u32, i64)> = Vec::with_capacity(history.firings.events().len());
    let mut misplaced: BTreeSet<u32> = BTreeSet::new();
    for firing in stand {
        for event in firing.events {
            match history.events.get(*event) {
                Some(reached) if sessions || history.shape.ends(reached.time).any(|end| end == firing.end) => {}
                _ => {
                    misplaced.insert(*event);
                }
            }
            in_windows.push((*event, firing.end));
        }
    }
    let in_windows = in_order(&in_windows);
    let mut by_event = in_windows.chunk_by(|a, b| a.0 == b.0).peekable();
    let mut in_late: ByEvent<u64> = ByEvent::default();
    history.late.iter().for_each(|event| *in_late.or_default(*event) += 1);
    misplaced.extend(history.late.iter().filter(|event| !history.events.contains(**event)));
    for event in &misplaced {
        placed.unexpected += 1;
        placed.findings.push((*event, What::Unexpected));
    }
    for (event, reached) in history.events.iter() {
        // Those of no event that should be there are among the misplaced.
        while by_event.next_if(|of| of[0].0 < event).is_some() {}
        let ends = by_event.next_if(|of| of[0].0 == event).unwrap_or_default();
        let late = in_late.get(event).copied().unwrap_or(0);
        let open = history.open.contains(event);
        let find = |wrong: bool, what: What, placed: &mut Placed| {
            if wrong {
                placed.findings.push((event, what));
            }
            u64::from(wrong)
        };
        match (!ends.is_empty(), late > 0) {
            (false, false) if open => placed.pending += 1,
            (false, false) if reached.doubtful => {}
            // Between windows that lie apart it belongs to none.
            (false, false) if history.shape.ends(reached.time).next().is_none() => {}
            (false, false) => placed.in_neither += find(true, What::Neither, &mut placed),
            (windows, late) => {
                placed.in_both += find(windows && late, What::Both, &mut placed);
                placed.on_time_in_windows += u64::from(windows && !reached.late);
                placed.resent_in_windows += u64::from(windows && reached.resent);
                placed.late_in_late += u64::from(late && reached.late);
                placed.on_time_late += find(late && !reached.late, What::OnTimeLate, &mut placed);
                let wrong = windows && reached.late;
                placed.late_in_windows += u64::from(wrong);
                find(wrong && !sessions, What::LateInWindow, &mut placed);
            }
        }
        if let Shape::Sliding { size, slide, .. } = history.shape
            && size == slide
        {
            let end = history.shape.over(reached.time) + 1;
            let window = placed.windows.entry(end).or_default();
            window.from = end - size;
            window.on_time += u64::from(!reached.late);
            let decided = !reached.doubtful || late > 0;
            window.displaced += u64::from(ends.is_empty() && !open && !reached.late && decided);
        }
        let of = |held: &(u32, i64)| ends.iter().filter(|other| *other == held).count() as u64;
        let overlapping = history.shape.overlaps();
        let counted = if overlapping { ends.iter().map(of).max().unwrap_or(0) } else { ends.len() as u64 };
        let many = counted.max(late);
        placed.counted_twice += find(many > reached.copies, What::Twice, &mut placed);
        placed.counted_twice += find(many > 1 && many <= reached.copies, What::Copies, &mut placed);
        if overlapping && !ends.is_empty() && !open {
            let lacks = history.shape.ends(reached.time).any(|end| end <= last && !ends.contains(&(event, end)));
            placed.partial += find(lacks && !reached.doubtful, What::Partial, &mut placed);
        }
    }
    let of = |event: &u32| history.events.get(*event).map(|r| (*event, history.shape.over(r.time) + 1));
    placed.ends = placed.findings.iter().filter_map(|(event, _)| of(event)).collect();
    let copied = |event: &u32| history.events.get(*event).is_some_and(|r| r.copies > 1);
    placed.copied = placed.findings.iter().map(|(event, _)| *event).filter(copied).collect();
    placed
}
