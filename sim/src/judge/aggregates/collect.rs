//! The history of one result, read off the logs, and what is known beside it.

use super::{
    AggregatePlan, Facts, Firings, History, LateOutput, Placed, Reached, Standing, Taken, What, rule_of, settle,
};
use crate::judge::results::{Into, Record, Records, standing};
use crate::judge::{ByEvent, Events, Evidence, Findings, OperatorAt, Sent, Testimony, Took, Violation};
use model::base::{Ghost, KeyMap, Row};
use model::kafka::log::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that each node of the plan hands on by the judge's own arithmetic: as configured, and if joins waited for ever and
/// duplicates were let through.
pub struct Foretold<'a> {
    /// As configured.
    pub rows: &'a [Records],
    /// If nothing were dropped.
    pub patient: &'a [Records],
}

/// Settles one result. `together` are those that write it: jobs that follow each other are one to whoever reads.
pub fn judge(
    together: &[&AggregatePlan],
    foretold: &Foretold<'_>,
    end: &Evidence<'_>,
    told: &Testimony<'_>,
    findings: &mut Findings,
) -> Placed {
    let plan = together[0];
    let mut rows = rows_in(&plan.into, end);
    if plan.rekeyed && plan.window.is_some() {
        // What was fired first may lie in a partition behind: the order is that of firing.
        rows.sort_by_key(|row| told.members.made(row.ghost).map(|made| made.nth));
    }
    // Of a changelog that stands which nothing has taken back.
    let (rows, updates) = if plan.changelog { standing(&rows) } else { (rows, 0) };
    let history = history(plan, together, &rows, foretold, end, told);
    let mut placed = settle(&history);
    placed.refired += updates;
    arithmetic(plan, &rows, &history, end, told, findings);
    if placed.findings.is_empty() {
        return placed;
    }
    let asked: Events = placed.findings.iter().map(|(event, _)| *event).collect();
    let facts = facts(plan, together, &rows, &history, foretold, &asked, end, told);
    for (event, what) in &placed.findings {
        let reached = history.events.get(*event);
        let excuse = rule_of(*what, *event, reached, &facts);
        let (law, rule) = what.names();
        // A row that stands for one event is no aggregate.
        let law = if plan.window.is_some() { law } else { "results" };
        *placed.by_rule.entry(excuse.map_or(Placed::UNACCOUNTED, |e| e.rules())).or_default() += 1;
        findings.add_with(law, rule, excuse, || Violation {
            at: end.now,
            law,
            rule,
            text: text(plan, *event, *what, reached, &facts),
            excuse,
            tp: None,
            event: Some(*event),
        });
    }
    placed
}

/// The rows that stand somewhere.
fn rows_in<'e>(into: &Into, end: &'e Evidence<'_>) -> Vec<&'e Row> {
    match into {
        Into::Topic(topic) => end.rows_of(*topic).collect(),
        Into::Table(table, _) => end.tables.get(usize::from(*table)).into_iter().flatten().collect(),
    }
}
/// Each place that late events go to, once: jobs that follow each other write one.
fn late_outputs<'a>(together: &[&'a AggregatePlan]) -> Vec<&'a LateOutput> {
    let mut outputs: Vec<&LateOutput> = Vec::new();
    for output in together.iter().flat_map(|p| &p.late) {
        if !outputs.iter().any(|known| known.into == output.into) {
            outputs.push(output);
        }
    }
    outputs
}

fn history(
    plan: &AggregatePlan,
    together: &[&AggregatePlan],
    rows: &[&Row],
    foretold: &Foretold<'_>,
    end: &Evidence<'_>,
    told: &Testimony<'_>,
) -> History {
    let events = events(plan, foretold, end, told);
    let mut firings = Firings::default();
    for row in rows {
        let key = window_key(plan, row, &events, told);
        firings.push(row.time.0 + 1, key, |events| told.members.each(row.ghost, &mut |event| events.push(event)));
    }
    // What goes to two places is late once.
    let mut late: ByEvent<u64> = ByEvent::default();
    for output in late_outputs(together) {
        let mut here: ByEvent<u64> = ByEvent::default();
        for row in rows_in(&output.into, end) {
            told.members.each(row.ghost, &mut |event| *here.or_default(event) += 1);
        }
        for (event, times) in here.iter() {
            let most = late.or_default(event);
            *most = (*most).max(*times);
        }
    }
    let late = late.iter().flat_map(|(event, times)| (0..*times).map(move |_| event)).collect();
    let mut open = Events::default();
    let holding = together.iter().flat_map(|p| p.window.into_iter().chain(p.local));
    for ghost in holding.filter_map(|at| end.open.get(&at)).flatten() {
        told.members.each(*ghost, &mut |event| open.insert(event, ()));
    }
    History {
        shape: plan.shape,
        // A row of a changelog takes the place of another by taking it back, not by holding its events.
        lateness: if plan.changelog { 0 } else { plan.lateness },
        events,
        firings,
        replaces: plan.replaces,
        late,
        open,
    }
}

/// What tells apart the windows that end at one time: the key that the window counts by, whatever key the sink gives its records.
fn window_key(plan: &AggregatePlan, row: &Row, events: &ByEvent<Reached>, told: &Testimony<'_>) -> u64 {
    if plan.window.is_none() {
        return row.key;
    }
    if plan.plain {
        return row.cols[1] as u64;
    }
    // The columns are others than the window's: the events know.
    let of_event = || told.members.events(row.ghost).first().and_then(|event| events.get(*event));
    of_event().map_or(row.key, |reached| reached.key as u64)
}

/// Events that the window should take: those that the topic holds which its job reads.
fn events(plan: &AggregatePlan, foretold: &Foretold<'_>, end: &Evidence<'_>, told: &Testimony<'_>) -> ByEvent<Reached> {
    let (topics, node) = &plan.source;
    let mut copies: ByEvent<u64> = ByEvent::default();
    for tp in topics.iter().flat_map(|topic| end.partitions_of(*topic)) {
        let entries: Vec<&Entry> = if plan.uncommitted { end.committed(tp).collect() } else { end.readable(tp).0 };
        for row in entries.iter().flat_map(|e| e.batch.rows.iter()) {
            told.members.each(row.ghost, &mut |event| *copies.or_default(event) += 1);
        }
    }
    // The newest event time sent before each.
    let mut before: ByEvent<i64> = ByEvent::default();
    let mut newest = i64::MIN;
    for record in foretold.rows[*node].iter() {
        if record.ghost.in_ledger() {
            before.insert(record.ghost.open(), newest);
        }
        newest = newest.max(record.item.time);
    }
    // Which of two copies gets through a deduplication is decided there: its rows are those that came to it.
    let mut copied: ByEvent<()> = ByEvent::default();
    if let Some((node, column)) = plan.unique {
        let mut first: KeyMap<i64, u32> = KeyMap::new();
        for record in foretold.patient[node].iter().filter(|r| r.ghost.in_ledger()) {
            let (value, event) = (record.item.cols[usize::from(column)], record.ghost.open());
            let first = *first.entry(value, || event);
            if first != event {
                copied.insert(first, ());
                copied.insert(event, ());
            }
        }
    }
    let surely = foretold.rows[plan.input].iter().filter(|r| r.ghost.in_ledger());
    let surely: Events = surely.map(|r| r.ghost.open()).collect();
    let mut events = ByEvent::default();
    for (records, doubtful) in [(&foretold.patient[plan.input], true), (&foretold.rows[plan.input], false)] {
        for Record { item, ghost, .. } in records.iter().filter(|r| r.ghost.in_ledger()) {
            let event = ghost.open();
            if doubtful && surely.contains(event) {
                continue;
            }
            let Some(copies) = copies.get(event).copied() else { continue };
            let (key, sum) = plan.columns;
            let value = sum.map_or(0, |c| item.cols[usize::from(c)]);
            // A sum that an event does not change is not handed on again (L4).
            let unseen = plan.changelog && sum.is_some() && value == 0;
            let known = before.get(event).copied().unwrap_or(i64::MIN).saturating_sub(plan.bound);
            let reached = Reached {
                time: item.time,
                key: item.cols[usize::from(key)],
                value,
                late: plan.window.is_some() && plan.shape.over(item.time) + plan.lateness <= known,
                resent: end.ledger.get(event).is_some_and(|sent| sent.flags & Sent::RESENT != 0),
                copies,
                doubtful: doubtful || unseen || copied.contains(event),
            };
            events.insert(event, reached);
        }
    }
    events
}

/// A window's row must be the sum and the count of the events that it was made of.
fn arithmetic(
    plan: &AggregatePlan,
    rows: &[&Row],
    history: &History,
    end: &Evidence<'_>,
    told: &Testimony<'_>,
    findings: &mut Findings,
) {
    if !plan.plain {
        return;
    }
    for (row, firing) in rows.iter().zip(history.firings.iter()) {
        if firing.events.is_empty() && told.members.made(row.ghost).is_some() {
            // T5, W5: what fires holds something.
            let (law, rule) = ("results", "empty");
            findings.add_with(law, rule, None, || Violation {
                at: end.now,
                law,
                rule,
                text: format!("{}: {:?} is made of no event", plan.name, row.cols),
                excuse: None,
                tp: None,
                event: None,
            });
        }
        let known = || firing.events.iter().map(|e| history.events.get(*e));
        if known().any(|reached| reached.is_none()) {
            continue;
        }
        let sum = known().flatten().fold(0_i64, |sum, r| sum.wrapping_add(r.value));
        let keys = known().flatten().all(|r| r.key == row.cols[1]);
        let many = firing.events.len();
        let right = match (plan.changelog, plan.columns.1) {
            (false, _) => (row.cols[2], row.cols[3]) == (sum, many as i64),
            (true, Some(_)) => row.cols[2] == sum,
            (true, None) => row.cols[2] == many as i64,
        };
        if row.cols[0] != firing.end || !right || !keys {
            let (law, rule) = ("results", "sum");
            findings.add_with(law, rule, None, || Violation {
                at: end.now,
                law,
                rule,
                text: format!("{}: {:?} is made of {many} events of {sum} in all", plan.name, row.cols),
                excuse: None,
                tp: None,
                event: None,
            });
        }
    }
}

/// How operators took each event that is asked for.
fn taken(at: impl IntoIterator<Item = OperatorAt>, asked: &Events, told: &Testimony<'_>) -> Taken {
    let mut all = Taken::new();
    let of_asked = |ghost: Ghost| {
        let mut found = false;
        told.members.each(ghost, &mut |event| found |= asked.contains(event));
        found
    };
    for at in at {
        for (ghost, took) in told.decisions.of(at, of_asked) {
            told.members.each(ghost, &mut |event| {
                if asked.contains(event) {
                    all.entry(event).or_default().extend(&took);
                }
            });
        }
    }
    all
}

/// What the windows of SQL cannot have judged by: less than what every subtask knew when the checkpoint was taken that their
/// attempt began with. The watermark is state (T6), so such a decision is no evidence of anything.
fn without_forgotten(mut window: Taken, at: &[OperatorAt], told: &Testimony<'_>) -> Taken {
    // By subtask: the greatest watermark behind each barrier, as of the newest attempt.
    let mut known: BTreeMap<u16, BTreeMap<i64, i64>> = BTreeMap::new();
    let mut floors: BTreeMap<(u16, u32), i64> = BTreeMap::new();
    let mut newest = (0, 0);
    for took in told.decisions.all(at.iter().copied()) {
        if took.attempt() < newest {
            // It goes on without knowing that it is over.
            continue;
        }
        if took.attempt() > newest {
            newest = took.attempt();
            // What did not go into that checkpoint never was.
            known.values_mut().for_each(|marks| marks.retain(|last, _| *last < took.at.restored));
            let of = |marks: &BTreeMap<i64, i64>| marks.values().copied().max().unwrap_or(i64::MIN);
            let floor = known.values().map(of).min().unwrap_or(i64::MIN);
            floors.insert(newest, floor);
        }
        let mark = known.entry(took.at.subtask).or_default().entry(took.at.last).or_insert(i64::MIN);
        *mark = (*mark).max(took.watermark);
    }
    let forgot = |t: &Took| floors.get(&t.attempt()).is_some_and(|floor| t.watermark < *floor);
    window.values_mut().for_each(|took| took.retain(|t| !forgot(t)));
    window
}

fn facts<'a>(
    plan: &'a AggregatePlan,
    together: &[&AggregatePlan],
    rows: &[&Row],
    history: &'a History,
    foretold: &Foretold<'_>,
    asked: &Events,
    end: &Evidence<'_>,
    told: &Testimony<'_>,
) -> Facts<'a> {
    let accounts: Vec<_> = together.iter().map(|p| told.jobs.of(p.job)).collect();
    let topics: Vec<u16> = match plan.into {
        Into::Topic(topic) => vec![topic],
        Into::Table(..) => Vec::new(),
    };
    let topics: Vec<u16> = topics.into_iter().chain(plan.late.iter().filter_map(LateOutput::topic)).collect();
    let ours = |topic: u16| plan.source.0.contains(&topic) || topics.contains(&topic);
    let windows: Vec<OperatorAt> = together.iter().filter_map(|p| p.window).collect();
    let late = || together.iter().flat_map(|p| &p.late);
    let filters: Vec<OperatorAt> = late().filter_map(|l| l.filter).collect();
    let joins = || together.iter().flat_map(|p| p.joins.iter().copied());
    let writers: Vec<OperatorAt> = together.iter().map(|p| p.writer).chain(late().map(|l| l.writer)).collect();
    let taken = |at: &mut dyn Iterator<Item = OperatorAt>| taken(at, asked, told);
    let window = taken(&mut windows.iter().copied());
    let window = if plan.sliced { without_forgotten(window, &windows, told) } else { window };
    let all = || windows.iter().chain(&filters).chain(&writers).copied().chain(joins());
    let attempts: BTreeSet<(u16, u32)> = told.decisions.all(all()).map(Took::attempt).collect();
    let down = accounts.iter().any(|a| !a.downtimes.is_empty());
    let newest = attempts.last().copied().filter(|_| attempts.len() > 1 || down);
    let of_filters: BTreeSet<u16> = told.decisions.all(filters.iter().copied()).map(|t| t.at.subtask).collect();
    let standing = rows.iter().zip(history.firings.iter()).filter_map(|(row, firing)| {
        let key = plan.plain.then_some(row.cols[1]);
        let made = told.members.made(row.ghost)?;
        Some(Standing { end: firing.end, key, made, events: firing.events })
    });
    Facts {
        plan,
        window,
        filters: taken(&mut filters.iter().copied()),
        joins: taken(&mut joins()),
        writes: [taken(&mut together.iter().map(|p| p.writer)), taken(&mut late().map(|l| l.writer))],
        firings: standing.collect(),
        unkept: unkept(together, foretold, asked, told),
        attempts: told.decisions.attempts().iter().chain(told.jobs.attempts()).map(|(k, v)| (*k, *v)).collect(),
        newest,
        parallel: of_filters.len() > 1,
        twice: together.iter().filter_map(|p| p.resumes).any(|of| {
            let takers = together.iter().filter(|p| p.resumes == Some(of)).count();
            takers > 1 || !told.jobs.of(of).ended
        }),
        over: accounts.iter().any(|a| a.ended) || !end.jobs.is_empty(),
        dropped: dropped(&topics, accounts.iter().map(|a| a.commits_dropped).sum(), history, end, told),
        loss: end.excuses.losses().iter().filter(|l| ours(l.tp.topic.0)).find_map(|l| l.excuse),
    }
}

/// Late events that no late output keeps: filters on the way to it do not let them through; or its writer wrote them, and
/// others have taken their place.
fn unkept(together: &[&AggregatePlan], foretold: &Foretold<'_>, asked: &Events, told: &Testimony<'_>) -> BTreeSet<u32> {
    let outputs: Vec<&LateOutput> = together.iter().flat_map(|p| &p.late).collect();
    if outputs.is_empty() || outputs.iter().any(|l| l.through.is_none() && !l.replaces) {
        return BTreeSet::new();
    }
    let mut unkept: BTreeSet<u32> = asked.iter().map(|(event, ())| event).collect();
    for output in outputs {
        let through: Option<Events> = output.through.map(|node| {
            let ghosts = foretold.rows[node].iter().map(|r| r.ghost);
            ghosts.filter(|g| g.in_ledger()).map(Ghost::open).collect()
        });
        let wrote = if output.replaces { taken([output.writer], asked, told) } else { Taken::new() };
        unkept.retain(|event| {
            let let_through = through.as_ref().is_none_or(|through| through.contains(*event));
            !let_through || wrote.contains_key(event)
        });
    }
    unkept
}

/// Which transaction of a partition has written each event last, of those that it holds in order: what an attempt had written
/// and the next one wrote again is the next one's to commit.
fn written_last<T: Ord + Copy>(transactions: impl Iterator<Item = (T, Vec<u32>)>) -> BTreeMap<u32, T> {
    transactions.flat_map(|(of, events)| events.into_iter().map(move |event| (event, of))).collect()
}

/// Events of the transactions whose commit was given up: those that hold something that stands nowhere else, and they may not
/// be more than commits were given up (I3).
fn dropped(topics: &[u16], commits: u64, history: &History, end: &Evidence<'_>, told: &Testimony<'_>) -> BTreeSet<u32> {
    if commits == 0 {
        return BTreeSet::new();
    }
    let there: Events = history.firings.events().iter().chain(&history.late).copied().collect();
    let there = |event: &u32| there.contains(*event) || history.open.contains(*event);
    let mut lost: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for tp in end.replicas.keys().filter(|tp| topics.contains(&tp.topic.0)) {
        let mut hidden = end.readable(*tp).1;
        hidden.sort_by_key(|entry| entry.base);
        let written = hidden.iter().map(|entry| {
            let ghosts = entry.batch.rows.iter().map(|r| r.ghost);
            let events = ghosts.flat_map(|g: Ghost| told.members.events(g)).collect();
            ((entry.batch.producer.id, entry.batch.producer.epoch), events)
        });
        for (event, of) in written_last(written) {
            lost.entry(of).or_default().insert(event);
        }
    }
    lost.retain(|_, events| events.iter().any(|e| !there(e)));
    if lost.len() as u64 > commits {
        return BTreeSet::new();
    }
    lost.into_values().flatten().collect()
}

fn text(plan: &AggregatePlan, event: u32, what: What, reached: Option<&Reached>, facts: &Facts<'_>) -> String {
    let (_, rule) = what.names();
    let Some(reached) = reached else {
        return format!("{}: event {event} {rule}", plan.name);
    };
    if plan.window.is_none() {
        return format!("{}: event {event} of {} is {rule}", plan.name, reached.time);
    }
    let at = |taken: &Taken| {
        let all = taken.get(&event).map_or(&[][..], Vec::as_slice);
        let watermark = |w: i64| if w == i64::MIN { "none".into() } else { w.to_string() };
        let shown = all.iter().map(|t| format!("{} (attempt {})", watermark(t.watermark), t.at.attempt & 0xFFFF));
        shown.collect::<Vec<String>>().join(", ")
    };
    let over = plan.shape.over(reached.time) + plan.lateness;
    let (window, filter) = (at(&facts.window), at(&facts.filters));
    let filter = if filter.is_empty() { filter } else { format!(", the filter at {filter}") };
    let took = if window.is_empty() {
        "no window has taken it".to_owned()
    } else {
        format!("the window took it at watermark {window}")
    };
    format!("{}: event {event} of {} is {rule}: its window is over at {over}, {took}{filter}", plan.name, reached.time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_again_is_the_last_writers() {
        let written = [('a', vec![1, 2, 3]), ('b', vec![7]), ('c', vec![1, 2])];
        let last = written_last(written.into_iter());
        assert_eq!(last.into_iter().collect::<Vec<_>>(), [(1, 'c'), (2, 'c'), (3, 'a'), (7, 'b')]);
    }
}
