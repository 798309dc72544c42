//! A rule that marks windows as approximate, from what an operator can see, and how right it is.
//!
//! An exactly-once pipeline places events by a clock without such a guarantee, so that window tables are approximate during and
//! after an incident. Three signals say of a window that it is: a job was restarted around it (`numRestarts`); more than a share
//! of its events were old when a table showed them (freshness, by event time); more than a share of them stand in the late
//! output. None looks at a ghost. Against them stand the windows that lack an event which was on time, as the ledger knows.

use super::Placed;
use model::base::{Layer, Shown, SimTime};
use std::collections::BTreeMap;
use std::ops::Range;

/// The rule, as a scenario sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkingRule {
    /// Its name in the outcome.
    pub name: String,
    /// The sink of the windows.
    pub aggregate: String,
    /// Where somebody sees the events that windows are made of.
    pub events: Layer,
    /// Where somebody sees the late output.
    pub late: Layer,
    /// An event that is shown so long after its time is old, ms.
    pub old_ms: i64,
    /// The share of a window's events that may be old, or late, parts per million.
    pub share: u32,
    /// How far around a restart windows are marked, ms.
    pub margin_ms: i64,
}

/// What is seen of the events of one second of event time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Second {
    rows: u64,
    old: u64,
    late: u64,
}

/// Windows that a signal marks, and how many of them lack something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Windows marked.
    pub windows: u64,
    /// Of these, such as lack an on-time event.
    pub right: u64,
}
impl Marked {
    fn count(&mut self, marks: bool, right: bool) {
        self.windows += u64::from(marks);
        self.right += u64::from(marks && right);
    }
}
/// How right a rule was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Windows that events on time belong to.
    pub windows: u64,
    /// Windows that lack an on-time event.
    pub wrong: u64,
    /// On-time events that their windows lack.
    pub displaced: u64,
    /// Of these, in windows that are marked.
    pub displaced_marked: u64,
    /// By any signal; by restarts; by old events; by late events.
    pub marked: [Marked; 4],
}

/// What was seen, by rule.
#[derive(Clone, Debug, Default)]
pub struct Markings {
    rules: Vec<MarkingRule>,
    /// What event time is at the beginning of simulated time, ms.
    zero: i64,
    seen: Vec<BTreeMap<i64, Second>>,
}
impl Markings {
    /// For these rules.
    pub fn new(rules: Vec<MarkingRule>) -> Self {
        Self { seen: vec![BTreeMap::new(); rules.len()], rules, zero: 0 }
    }
    /// Event time begins with `epoch` at `origin`.
    pub fn begin(&mut self, epoch: i64, origin: SimTime) {
        self.zero = epoch - origin.millis().0;
    }
    /// Rows reached a layer.
    pub fn shown(&mut self, at: SimTime, shown: &Shown) {
        for (rule, seen) in self.rules.iter().zip(&mut self.seen) {
            let late = shown.layer == rule.late;
            if !late && shown.layer != rule.events {
                continue;
            }
            for row in &shown.batch.rows[shown.from as usize..shown.to as usize] {
                let second = seen.entry(row.time.0.div_euclid(1_000)).or_default();
                if late {
                    second.late += 1;
                } else {
                    second.rows += 1;
                    second.old += u64::from(at.millis().0 + self.zero - row.time.0 > rule.old_ms);
                }
            }
        }
    }
    /// How right each rule was: `placed` is where the events of its windows stand, `restarts` are those of all jobs, in ms.
    pub fn settle<'a>(
        &'a self,
        placed: impl Fn(&str) -> Option<&'a Placed>,
        restarts: &[Range<i64>],
    ) -> Vec<(&'a str, Marks)> {
        let in_event_time = |r: &Range<i64>| r.start + self.zero..r.end + self.zero;
        let restarts: Vec<_> = restarts.iter().map(in_event_time).collect();
        let rules = self.rules.iter().zip(&self.seen);
        rules
            .filter_map(|(rule, seen)| Some((&*rule.name, rule.settle(seen, placed(&rule.aggregate)?, &restarts))))
            .collect()
    }
}
impl MarkingRule {
    fn settle(&self, seen: &BTreeMap<i64, Second>, placed: &Placed, restarts: &[Range<i64>]) -> Marks {
        let mut marks = Marks::default();
        for (end, window) in placed.windows.iter().filter(|(_, window)| window.on_time > 0) {
            let seconds = seen.range(window.from.div_euclid(1_000)..end.div_euclid(1_000)).map(|(_, second)| second);
            let sum = seconds.fold(Second::default(), |sum, second| Second {
                rows: sum.rows + second.rows,
                old: sum.old + second.old,
                late: sum.late + second.late,
            });
            let above = |part: u64| part * 1_000_000 > sum.rows * u64::from(self.share);
            let near = |r: &Range<i64>| r.start - self.margin_ms < *end && window.from < r.end + self.margin_ms;
            let signals = [restarts.iter().any(near), above(sum.old), above(sum.late)];
            let (wrong, marked) = (window.displaced > 0, signals.contains(&true));
            marks.windows += 1;
            marks.wrong += u64::from(wrong);
            marks.displaced += window.displaced;
            marks.displaced_marked += if marked { window.displaced } else { 0 };
            for (count, marks) in marks.marked.iter_mut().zip([marked].into_iter().chain(signals)) {
                count.count(marks, wrong);
            }
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::super::WindowPlaced;
    use super::*;
    use model::base::{Batch, EventTime, Millis, Offset, ProducerTag, Row, TopicPartition};
    use std::sync::Arc;

    fn rule() -> MarkingRule {
        MarkingRule {
            name: "r".into(),
            aggregate: "windows".into(),
            events: Layer::Stored(0),
            late: Layer::Stored(1),
            old_ms: 5_000,
            share: 100_000,
            margin_ms: 1_000,
        }
    }
    fn show(markings: &mut Markings, layer: Layer, at: i64, times: &[i64]) {
        let rows: Vec<_> = times.iter().map(|t| Row { time: EventTime(*t), ..Row::default() }).collect();
        let to = rows.len() as u32;
        let batch = Arc::new(Batch::data(rows.into(), [].into(), ProducerTag::NONE, false));
        let tp = TopicPartition::new(0, 0);
        markings.shown(SimTime::at(Millis(at)), &Shown { layer, tp, base: Offset::UNKNOWN, from: 0, to, batch });
    }

    #[test]
    fn each_signal_marks_its_windows_and_is_held_against_what_they_lack() {
        let mut markings = Markings::new(vec![rule()]);
        markings.begin(0, SimTime::ZERO);
        let of = |from: i64| (0..10).map(|n| from + n * 1_000).collect::<Vec<_>>();
        // The second window's events are old, two of ten of the third are late; the fifth is around a restart.
        for (from, at) in [(0, 5_000), (10_000, 40_000), (20_000, 25_000), (30_000, 35_000), (40_000, 45_000)] {
            show(&mut markings, Layer::Stored(0), at, &of(from));
        }
        show(&mut markings, Layer::Stored(1), 40_000, &[20_000, 21_000]);
        show(&mut markings, Layer::Stored(1), 40_000, &[40_000]);
        show(&mut markings, Layer::Stored(2), 40_000, &[0; 10]);
        let window = |(end, displaced): (i64, u64)| (end, WindowPlaced { from: end - 10_000, on_time: 10, displaced });
        let lacks = [(10_000, 0), (20_000, 0), (30_000, 2), (40_000, 7), (50_000, 1)];
        let mut placed = Placed { windows: lacks.map(window).into(), ..Placed::default() };
        // Nobody looks at a window that only late events belong to.
        placed.windows.insert(0, WindowPlaced { from: -10_000, on_time: 0, displaced: 0 });
        show(&mut markings, Layer::Stored(1), 40_000, &[-5_000]);
        let restart = 41_500..42_000;
        let all = markings.settle(|_| Some(&placed), std::slice::from_ref(&restart));
        let [("r", marks)] = all[..] else { panic!("{all:?}") };
        assert_eq!((marks.windows, marks.wrong, marks.displaced, marks.displaced_marked), (5, 3, 10, 3));
        // One late event of ten is not more than the share.
        assert_eq!(marks.marked.map(|m| (m.windows, m.right)), [(3, 2), (1, 1), (1, 0), (1, 1)]);
        assert!(markings.settle(|_| None, &[]).is_empty());
    }
}
