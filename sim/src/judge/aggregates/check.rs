//! The check that a user can run: by counts that can be queried, without any ghost.
//!
//! Per window: rows of the topic that the job reads, against what the windows' rows count and the rows of the late output. It
//! runs on a schedule, and looks at windows that ended some event time ago. Here it runs over what readers of committed data
//! could have seen at each of its times, so that it is known how soon it tells, how often it cries for what is only under
//! way, and what it cannot see.

use super::{AggregatePlan, LateOutput, Placed, Shape};
use crate::judge::results::Into;
use crate::judge::{Evidence, Testimony};
use crate::world::Observer;
use model::base::{Event, Nanos, Offset, ProcessId, Row, SimTime, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};

/// How often it runs, and how long ago in event time a window must have ended.
pub const PERIOD: Nanos = Nanos::secs(10);
/// See [`PERIOD`].
pub const GRACE_MS: i64 = 20_000;

/// When batches were appended, in topics that checks read.
#[derive(Clone, Debug, Default)]
pub struct Appends {
    topics: BTreeSet<u16>,
    at: BTreeMap<(TopicPartition, Offset), SimTime>,
}
impl Appends {
    /// Of the topics that a check of these results reads, and of windows that may wait for an idle source.
    pub fn of(plans: &[AggregatePlan]) -> Self {
        let checked =
            plans.iter().filter_map(tables).flat_map(|(raw, windows, late)| [raw, windows].into_iter().chain(late));
        let waiting = plans.iter().filter_map(may_wait);
        Self { topics: checked.chain(waiting).collect(), at: BTreeMap::new() }
    }
    /// When readers of committed data could see each batch of a topic.
    fn batches<'e>(&self, end: &'e Evidence<'_>, topic: u16) -> impl Iterator<Item = (SimTime, &'e [Row])> {
        end.partitions_of(topic).flat_map(move |tp| {
            let found = end.readable_by(tp).0.into_iter();
            found.map(move |(entry, by)| (self.at.get(&(tp, by)).copied().unwrap_or_default(), &entry.batch.rows[..]))
        })
    }
    /// When they could see each row.
    fn visible<'e>(&self, end: &'e Evidence<'_>, topic: u16) -> impl Iterator<Item = (SimTime, &'e Row)> {
        self.batches(end, topic).flat_map(|(at, rows)| rows.iter().map(move |row| (at, row)))
    }
}
impl Observer for Appends {
    fn event(&mut self, at: SimTime, _: u64, _: u64, _: ProcessId, event: &Event) {
        if let Event::Appended { tp, base, leader: true, .. } = *event
            && self.topics.contains(&tp.topic.0)
        {
            self.at.insert((tp, base), at);
        }
    }
}

/// The topic of windows that may wait until a part of their source is idle.
fn may_wait(plan: &AggregatePlan) -> Option<u16> {
    let Into::Topic(topic) = plan.into else { return None };
    (plan.idles && plan.window.is_some()).then_some(topic)
}
/// The longest time from when the last event of a window was sent until readers of committed data could see its row, ms; none
/// where no part of the source can be idle. With traffic that stops it is the idle timeout that makes it.
pub fn held_back(plan: &AggregatePlan, end: &Evidence<'_>, told: &Testimony<'_>, appends: &Appends) -> Option<u64> {
    let topic = may_wait(plan)?;
    let sent = |event: u32| end.ledger.get(event).map(|sent| u64::from(sent.at_ms));
    let waited = |(at, row): (SimTime, &Row)| {
        let mut last = None;
        told.members.each(row.ghost, &mut |event| last = last.max(sent(event)));
        Some((at.0 / 1_000_000).saturating_sub(last?))
    };
    Some(appends.visible(end, topic).filter_map(waited).max().unwrap_or(0))
}

/// What the check can tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The query.
    pub sql: String,
    /// Windows that it looked at.
    pub windows: u64,
    /// Of them wrong in the end.
    pub wrong: u64,
    /// Windows that it named at some time and that were right in the end: their rows were under way.
    pub false_alarms: u64,
    /// From when a wrong window was over in event time until it was named, at most, ms.
    pub detected_ms: u64,
    /// Events that stand wrong in windows whose counts agree.
    pub unseen: u64,
}

/// The topic read, that of the windows, and that of late events if there is one, where counts can tell: the window takes the
/// topic's rows as they are, and each is in one window.
fn tables(plan: &AggregatePlan) -> Option<(u16, u16, Vec<u16>)> {
    let Into::Topic(windows) = plan.into else { return None };
    let direct = plan.window.is_some() && plan.direct && plan.plain && !plan.changelog;
    let tumbling = matches!(plan.shape, Shape::Sliding { size, slide, .. } if size == slide);
    let [topic] = plan.source.0[..] else { return None };
    // One topic that holds all late events is enough. Where there is a late output, and none is such a topic, a count over topics
    // misses some of them.
    let whole = plan.late.iter().filter(|l| l.through.is_none()).find_map(LateOutput::topic);
    let counted = plan.late.is_empty() || whole.is_some();
    (direct && tumbling && counted).then(|| (topic, windows, whole.into_iter().collect()))
}

/// Runs the check over a run; none where counts cannot tell.
pub fn check(plan: &AggregatePlan, placed: &Placed, end: &Evidence<'_>, appends: &Appends) -> Option<Checked> {
    let (raw, windows, late) = tables(plan)?;
    let end_of = |row: &Row| plan.shape.ends(row.time.0).next().unwrap_or(row.time.0);
    // What batches add to which side of which window, and when; and the newest event time of each.
    let mut seen: Vec<(SimTime, i64, i64, i64)> = Vec::new();
    let mut newest = Vec::new();
    let mut add = |at: SimTime, window: i64, sent: i64, accounted: i64| match seen.last_mut() {
        Some(last) if (last.0, last.1) == (at, window) => (last.2, last.3) = (last.2 + sent, last.3 + accounted),
        _ => seen.push((at, window, sent, accounted)),
    };
    for (at, rows) in appends.batches(end, raw) {
        rows.iter().for_each(|row| add(at, end_of(row), 1, 0));
        newest.extend(rows.iter().map(|row| row.time.0).max().map(|newest| (at, newest)));
    }
    appends.visible(end, windows).for_each(|(at, row)| add(at, row.cols[0], 0, row.cols[3]));
    for topic in &late {
        appends.visible(end, *topic).for_each(|(at, row)| add(at, end_of(row), 0, 1));
    }
    seen.sort_by_key(|(at, ..)| *at);
    let mut checked = Checked { sql: sql(plan, raw, windows, &late, end), ..Checked::default() };
    let counts = runs(&seen, newest, end.now, &mut checked);
    let disagree: BTreeSet<i64> = counts.into_iter().filter(|(_, (a, b))| a != b).map(|(end, _)| end).collect();
    let hidden = |event: &u32| placed.ends.get(event).is_none_or(|end| !disagree.contains(end));
    let events: BTreeSet<u32> = placed.findings.iter().map(|(event, _)| *event).collect();
    checked.unseen = events.iter().filter(|e| hidden(e)).count() as u64;
    Some(checked)
}

/// Lets the check run again and again; gives what each window comes to in the end.
fn runs(
    seen: &[(SimTime, i64, i64, i64)],
    mut newest: Vec<(SimTime, i64)>,
    end: SimTime,
    checked: &mut Checked,
) -> BTreeMap<i64, (i64, i64)> {
    // Those of each partition come in order.
    newest.sort();
    let mut counts: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    // When each window was over in event time, and when it was first named.
    let mut over: BTreeMap<i64, SimTime> = BTreeMap::new();
    let mut running: BTreeSet<i64> = BTreeSet::new();
    let mut named: BTreeMap<i64, SimTime> = BTreeMap::new();
    let (mut at, mut next, mut next_new, mut time) = (SimTime::ZERO, 0, 0, i64::MIN);
    while at <= end {
        at += PERIOD;
        while let Some((_, window, sent, accounted)) = seen.get(next).filter(|(when, ..)| *when <= at) {
            let count = counts.entry(*window).or_insert_with(|| {
                running.insert(*window);
                (0, 0)
            });
            (count.0, count.1) = (count.0 + sent, count.1 + accounted);
            next += 1;
        }
        while let Some((when, event_time)) = newest.get(next_new).filter(|(when, _)| *when <= at) {
            if *event_time > time {
                time = *event_time;
                while let Some(window) = running.first().copied().filter(|w| *w <= time) {
                    running.remove(&window);
                    over.insert(window, *when);
                }
            }
            next_new += 1;
        }
        for (window, (sent, accounted)) in counts.iter().filter(|(w, _)| **w <= time.saturating_sub(GRACE_MS)) {
            if sent != accounted {
                named.entry(*window).or_insert(at);
            }
        }
    }
    counts.retain(|window, _| *window <= time.saturating_sub(GRACE_MS));
    checked.windows = counts.len() as u64;
    for (window, (sent, accounted)) in &counts {
        match (sent == accounted, named.get(window)) {
            (true, Some(_)) => checked.false_alarms += 1,
            (false, named) => {
                checked.wrong += 1;
                let since = over.get(window).copied().unwrap_or_default();
                let took = named.map_or(0, |at| at.since(since).0 / 1_000_000);
                checked.detected_ms = checked.detected_ms.max(took);
            }
            (true, None) => {}
        }
    }
    counts
}

/// The query, for Flink's or any other SQL over the topics.
fn sql(plan: &AggregatePlan, raw: u16, windows: u16, late: &[u16], end: &Evidence<'_>) -> String {
    let name = |topic: u16| &end.topics[usize::from(topic)].name;
    let Shape::Sliding { size, .. } = plan.shape else { return String::new() };
    let per_window = |topic: u16| {
        format!(
            "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE `{}`, DESCRIPTOR(ts), INTERVAL '{}' SECOND)) \
             GROUP BY window_start, window_end",
            name(topic),
            seconds(size)
        )
    };
    let counted = format!("SELECT window_end, SUM(`count`) AS n FROM `{}` GROUP BY window_end", name(windows));
    let accounted = late.iter().map(|l| per_window(*l)).fold(counted, |all, one| format!("{all} UNION ALL {one}"));
    format!(
        "SELECT r.window_end, r.n AS sent, COALESCE(a.n, 0) AS accounted FROM ({}) r LEFT JOIN \
         (SELECT window_end, SUM(n) AS n FROM ({accounted}) GROUP BY window_end) a ON a.window_end = r.window_end \
         WHERE r.n <> COALESCE(a.n, 0) AND r.window_end <= (SELECT MAX(ts) FROM `{}`) - INTERVAL '{}' SECOND",
        per_window(raw),
        name(raw),
        seconds(GRACE_MS)
    )
}
/// Seconds as an INTERVAL of SQL has them.
fn seconds(ms: i64) -> String {
    match ms % 1_000 {
        0 => (ms / 1_000).to_string(),
        rest => format!("{}.{rest:03}", ms / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_a_false_alarm_and_what_is_lost_is_named_for_good() {
        let s = |n| SimTime::ZERO + Nanos::secs(n);
        // Window 10 000: two sent, both counted at 61 s only. Window 20 000: two sent, one counted. 30 000: right at once.
        let seen = [
            (s(1), 10_000, 1, 0),
            (s(2), 10_000, 1, 0),
            (s(12), 20_000, 1, 0),
            (s(13), 20_000, 1, 0),
            (s(22), 30_000, 1, 0),
            (s(30), 20_000, 0, 1),
            (s(34), 30_000, 0, 1),
            (s(61), 10_000, 0, 2),
        ];
        let newest = vec![(s(1), 1_000), (s(13), 13_000), (s(22), 22_000), (s(31), 35_000), (s(42), 60_000)];
        let mut checked = Checked::default();
        let counts = runs(&seen, newest, s(100), &mut checked);
        assert_eq!(counts[&20_000], (2, 1));
        assert_eq!([checked.windows, checked.wrong, checked.false_alarms], [3, 1, 1]);
        // Over at 22 s, named by the run at 50 s: the first that finds it twenty seconds old in event time.
        assert_eq!(checked.detected_ms, 28_000);
    }
}
