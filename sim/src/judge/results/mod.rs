//! Law of results: what jobs made of the events, against what they should have made of them.
//!
//! Three scopes are told apart. *State*: the last that the operator with state has handed on for each result is right, and
//! nothing wrong stands last. *Sink*: the topic, read from its beginning by a reader of committed data, holds each result
//! once and nothing else. *Reader*: the same of what readers were given. With money: what a reader that adds up everything
//! it is given bills, against what it should.

mod changelog;
mod readers;
mod reference;

pub use changelog::{Reading, standing};
pub use reference::{Item, Record, Records};

use super::aggregates::{self, AggregatePlan, Appends, Checked, Foretold, Placed};
use super::{Chunked, Events, Evidence, Findings, LayerCount, ReaderInfo, Testimony};
use model::base::{Ghost, KeyMap, Layer, Millis, Row, Shown};
use model::flink::runtime::operator::{JoinConfig, OperatorConfig};
use std::collections::{BTreeMap, BTreeSet};

/// An operator's computation.
#[derive(Clone, Debug)]
pub struct Derivation(pub OperatorConfig);

/// A node of a job's graph, as far as results depend on it.
#[derive(Clone, Debug)]
pub enum ResultNode {
    /// Rows of topics.
    Source {
        /// The topics, by number, each with the node whose rows it holds, where a job writes it.
        from: Vec<(u16, Option<usize>)>,
        /// How far its watermark stays behind the newest event, ms; none where it makes none.
        bound: Option<i64>,
        /// Whether a partition that is quiet holds its watermark no more.
        idles: bool,
        /// Where it ends, by partition; none where it does not.
        until: Option<Vec<u32>>,
    },
    /// What an operator makes of another node's rows.
    Derived(usize, Derivation),
    /// The rows of another node.
    Same(usize),
    /// Nothing that could be foretold: what comes late.
    Nothing,
}
/// A sink.
#[derive(Clone, Debug)]
pub struct ResultSink {
    /// Its name.
    pub name: String,
    /// Where it writes.
    pub into: Into,
    /// Its node.
    pub node: usize,
    /// The column that is an amount, where it writes sums.
    pub amount: Option<usize>,
    /// Its rows are a changelog.
    pub changelog: bool,
}
/// Where a sink writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Into {
    /// A topic, by number.
    Topic(u16),
    /// A keyed table: number and name.
    Table(u16, String),
}
impl ResultSink {
    /// Its topic, if it writes one.
    pub const fn topic(&self) -> Option<u16> {
        match self.into {
            Into::Topic(topic) => Some(topic),
            Into::Table(..) => None,
        }
    }
}
/// All jobs of a scenario.
#[derive(Clone, Debug, Default)]
pub struct ResultPlan {
    /// Nodes, each after those it depends on.
    pub nodes: Vec<ResultNode>,
    /// Sinks, by the number under which [`Layer::Emitted`] shows what belongs to them.
    pub sinks: Vec<ResultSink>,
    /// What the laws of aggregates and of results must know of sinks, by name of the sink.
    pub aggregates: Vec<AggregatePlan>,
    /// How each reader takes changelogs.
    pub readings: Vec<Reading>,
}
impl ResultPlan {
    /// The same with what `instead` gives in the place of a node; none where it gives nothing.
    fn with(&self, instead: impl Fn(&ResultNode) -> Option<ResultNode>) -> Option<Self> {
        let mut plan = self.clone();
        let mut changed = false;
        for node in &mut plan.nodes {
            if let Some(other) = instead(node) {
                *node = other;
                changed = true;
            }
        }
        changed.then_some(plan)
    }
}
/// A join that waits for ever. A join forgets when the watermark has passed its time to live, not when the events have: where
/// the watermark lags, it pairs what is further apart.
fn waiting(node: &ResultNode) -> Option<ResultNode> {
    let ResultNode::Derived(of, Derivation(OperatorConfig::Join(join))) = node else { return None };
    let patient = JoinConfig { ttl: Millis(i64::MAX), ..join.clone() };
    Some(ResultNode::Derived(*of, Derivation(OperatorConfig::Join(patient))))
}
/// What lets duplicates through.
fn letting_through(node: &ResultNode) -> Option<ResultNode> {
    match node {
        ResultNode::Derived(of, Derivation(OperatorConfig::Deduplicate(_))) => Some(ResultNode::Same(*of)),
        _ => None,
    }
}

/// Which of the three exactly-onces held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes {
    /// In the job's state.
    pub state: bool,
    /// In the topic.
    pub sink: bool,
    /// At every reader of the topic.
    pub reader: bool,
    /// Sums that do not fit a `long`: the reference's stand at its end, a job's wrap.
    pub overflows: u64,
    /// Those readers.
    pub readers: Vec<String>,
}
/// A result that a reader bills wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// End of its window, ms.
    pub window_end: i64,
    /// Its key.
    pub key: i64,
    /// What it should come to.
    pub expected: i64,
    /// What the reader adds up.
    pub billed: i64,
    /// How many rows it was given for it.
    pub rows: u64,
}
/// What a reader bills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Billing {
    /// What it should.
    pub expected: i64,
    /// What it does.
    pub billed: i64,
    /// Where they differ, in order of time.
    pub wrong: Vec<Wrong>,
}
/// What the law found.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// By sink.
    pub scopes: BTreeMap<String, Scopes>,
    /// By reader.
    pub values: BTreeMap<String, Billing>,
    /// By topic and by reader.
    pub layers: BTreeMap<String, LayerCount>,
    /// Where events stand, by sink.
    pub placed: BTreeMap<String, Placed>,
    /// What the check by counts can tell, by sink.
    pub checks: BTreeMap<String, Checked>,
    /// What is wrong with what a reader was given of a topic, by the rule that accounts for it.
    pub given_by_rule: BTreeMap<String, BTreeMap<&'static str, u64>>,
}

/// Events that no bounded source reads, by its node.
type Beyond = BTreeMap<usize, BTreeSet<u32>>;

/// The law.
#[derive(Clone, Debug, Default)]
pub struct ResultLaw {
    plan: ResultPlan,
    /// Rows sent to topics that jobs read.
    sent: BTreeMap<u16, Vec<Row>>,
    /// What operators handed on, by sink, in order.
    emitted: Vec<Chunked<Item>>,
    /// What each reader was given of each sink's topic.
    given: BTreeMap<(u16, u16), Vec<(Item, Ghost)>>,
    /// When what checks by counts read was appended.
    pub(super) appends: Appends,
}

impl ResultLaw {
    /// For these jobs.
    pub fn new(plan: ResultPlan) -> Self {
        let sources = plan.nodes.iter().flat_map(|n| match n {
            ResultNode::Source { from, .. } => from.as_slice(),
            _ => &[],
        });
        let sent = sources.filter(|(_, of)| of.is_none()).map(|(topic, _)| (*topic, Vec::new())).collect();
        let appends = Appends::of(&plan.aggregates);
        Self { emitted: vec![Chunked::default(); plan.sinks.len()], plan, sent, given: BTreeMap::new(), appends }
    }
    /// Windowed results, and those whose rows stand for one event each.
    pub fn plans(&self) -> &[AggregatePlan] {
        &self.plan.aggregates
    }
    /// Whether there is a job that writes anything.
    pub fn has_sinks(&self) -> bool {
        !self.plan.sinks.is_empty()
    }
    /// Names of the sinks that hold windows.
    pub fn windowed(&self) -> impl Iterator<Item = &str> {
        self.plan.aggregates.iter().filter(|p| p.window.is_some()).map(|p| p.name.as_str())
    }
    /// A row is sent.
    pub fn sent(&mut self, topic: u16, row: &Row) {
        if let Some(rows) = self.sent.get_mut(&topic) {
            rows.push(*row);
        }
    }
    /// Rows reached somebody.
    pub fn shown(&mut self, shown: &Shown) {
        let rows = || shown.batch.rows[shown.from as usize..shown.to as usize].iter();
        match shown.layer {
            Layer::Emitted(sink) => {
                let emitted = &mut self.emitted[usize::from(sink)];
                let items = rows().map(Item::of);
                if self.plan.sinks[usize::from(sink)].changelog {
                    items.filter(changelog::adds).for_each(|i| emitted.push(changelog::result(&i)));
                } else {
                    items.for_each(|item| emitted.push(item));
                }
            }
            Layer::Read(reader) if self.plan.sinks.iter().any(|s| s.topic() == Some(shown.tp.topic.0)) => {
                self.given
                    .entry((reader, shown.tp.topic.0))
                    .or_default()
                    .extend(rows().map(|r| (Item::of(r), r.ghost)));
            }
            _ => {}
        }
    }

    /// What was sent and stands in its topic; none if that is all.
    fn present(&self, end: &Evidence<'_>) -> Option<BTreeMap<u16, Vec<Row>>> {
        let there = |topic: u16| -> Events {
            let rows = end.partitions_of(topic).flat_map(|tp| end.committed(tp)).flat_map(|e| e.batch.rows.iter());
            rows.map(|r| r.ghost).filter(|g| g.in_ledger()).map(Ghost::open).collect()
        };
        let there: Vec<Events> = self.sent.keys().map(|topic| there(*topic)).collect();
        let is_there = |row: &&Row, there: &Events| there.contains(row.ghost.open());
        let mut all = self.sent.values().zip(&there);
        if all.all(|(rows, there)| rows.iter().all(|row| is_there(&row, there))) {
            return None;
        }
        let present =
            self.sent.iter().zip(&there).map(|((topic, rows), there)| {
                (*topic, rows.iter().filter(|row| is_there(row, there)).copied().collect())
            });
        Some(present.collect())
    }
    /// Rows that stand behind the end of each bounded source: nothing that it could have read.
    fn behind_ends(&self, end: &Evidence<'_>) -> Beyond {
        let mut beyond = Beyond::new();
        for (number, node) in self.plan.nodes.iter().enumerate() {
            let ResultNode::Source { from, until: Some(until), .. } = node else { continue };
            let partitions = from.iter().flat_map(|(topic, of)| end.partitions_of(*topic).map(move |tp| (tp, of)));
            let read = partitions.zip(until).filter(|((_, of), _)| of.is_none());
            let rows = read.flat_map(|((tp, _), last)| {
                let last = *last;
                let rows = end.committed(tp).flat_map(|e| e.batch.rows.iter().zip(e.base.0..));
                rows.filter(move |(_, offset)| *offset >= i64::from(last)).map(|(row, _)| row.ghost.open())
            });
            beyond.insert(number, rows.collect());
        }
        beyond
    }
    /// The newest event of the partition that ended first, by source: what a watermark comes to whatever is read when.
    fn slowest(&self, end: &Evidence<'_>) -> BTreeMap<usize, i64> {
        let mut slowest = BTreeMap::new();
        for (number, node) in self.plan.nodes.iter().enumerate() {
            // Where a bounded source ends, event time does.
            let ResultNode::Source { from, bound: Some(_), idles, until: None } = node else { continue };
            let partitions = from.iter().flat_map(|(topic, _)| end.partitions_of(*topic));
            let newest = partitions.filter_map(|tp| {
                let times = end.committed(tp).flat_map(|e| e.batch.rows.iter().map(|r| r.time.0));
                times.max().or((!idles).then_some(i64::MIN))
            });
            slowest.insert(number, newest.min().unwrap_or(i64::MIN));
        }
        slowest
    }
    /// Settles the account.
    pub fn settle(&self, end: &Evidence<'_>, told: &Testimony<'_>, findings: &mut Findings) -> Results {
        let mut results = Results::default();
        if self.plan.sinks.is_empty() {
            return results;
        }
        let beyond = self.behind_ends(end);
        let slowest = self.slowest(end);
        let evaluate = |plan: &ResultPlan, sent: &_| reference::evaluate(plan, sent, &beyond, &slowest);
        let expected = evaluate(&self.plan, &self.sent);
        let lagging = self.plan.with(waiting).map(|plan| evaluate(&plan, &self.sent));
        // What did not get into its topic is missing there, and is nothing that a job could have lost.
        let present = self.present(end);
        let sent = present.as_ref().unwrap_or(&self.sent);
        let there = present.as_ref().map(|present| evaluate(&self.plan, present));
        let there = there.as_ref().unwrap_or(&expected);
        let drops = self.plan.nodes.iter().any(|node| letting_through(node).is_some());
        let patient = if drops || present.is_some() {
            self.plan.with(|node| waiting(node).or_else(|| letting_through(node))).map(|plan| evaluate(&plan, sent))
        } else {
            None
        };
        // Where nothing is dropped and all is there, a plan that waits is the lagging one.
        let patient = patient.as_ref().or(lagging.as_ref().filter(|_| !drops && present.is_none()));
        let foretold = Foretold { rows: there, patient: patient.unwrap_or(there) };
        for (at, plan) in self.plan.aggregates.iter().enumerate() {
            // Jobs that write the same, one after the other, are one to whoever reads it.
            let together: Vec<_> = self.plan.aggregates.iter().filter(|p| p.into == plan.into).collect();
            let first = self.plan.aggregates[..at].iter().find(|p| p.into == plan.into);
            let placed = match first.and_then(|p| results.placed.get(&p.name)) {
                Some(placed) => placed.clone(),
                None => aggregates::judge(&together, &foretold, end, told, findings),
            };
            if let Some(checked) = aggregates::check(plan, &placed, end, &self.appends) {
                results.checks.insert(plan.name.clone(), checked);
            }
            let held_back_ms = aggregates::held_back(plan, end, told, &self.appends);
            results.placed.insert(plan.name.clone(), Placed { held_back_ms, ..placed });
        }
        for ((reader, topic), given) in &self.given {
            let by_rule = readers::account(end, (*reader, *topic), given, findings);
            let of = results.given_by_rule.entry(end.cast.readers[usize::from(*reader)].name.clone()).or_default();
            by_rule.into_iter().for_each(|(rule, n)| *of.entry(rule).or_default() += n);
        }
        for sink in &self.plan.sinks {
            // Jobs that write the same, one after the other, are one to whoever reads it.
            let together = self.plan.sinks.iter().zip(&self.emitted).filter(|(other, _)| other.into == sink.into);
            let emitted = || together.clone().flat_map(|(_, emitted)| emitted.iter());
            // What it has written, and what each that reads it was given; a table is read as it stands.
            let (name, stored): (_, Vec<Item>) = match &sink.into {
                Into::Topic(topic) => {
                    (&end.topics[usize::from(*topic)].name, end.rows_of(*topic).map(Item::of).collect())
                }
                Into::Table(table, name) => {
                    let rows = end.tables.get(usize::from(*table)).map_or(&[][..], Vec::as_slice);
                    (name, rows.iter().map(Item::of).collect())
                }
            };
            // A changelog stands for what it comes to.
            let written = stored.len() as u64;
            let stored = if sink.changelog { Reading::Changelog.of(&stored) } else { stored };
            let lagging = lagging.as_ref().map_or(&[][..], |rows| &rows[sink.node]);
            let asked = asked_for(&expected[sink.node], lagging, emitted().chain(&stored));
            let wanted = Wanted::of(&asked);
            // Each with how it takes a changelog; a table, as it stands, is one already.
            let readers: Vec<(&String, Option<Reading>, Vec<Item>)> = match &sink.into {
                Into::Topic(topic) => {
                    let readers = end.cast.readers.iter().zip(0u16..).filter(|(r, _)| r.topics.contains(topic));
                    let given = |number| self.given.get(&(number, *topic)).into_iter().flatten().map(|(i, _)| *i);
                    let reading = |number| self.plan.readings.get(usize::from(number)).filter(|_| sink.changelog);
                    let of = |(info, number)| {
                        let info: &ReaderInfo = info;
                        (&info.name, reading(number).copied(), given(number).collect())
                    };
                    readers.map(of).collect()
                }
                Into::Table(_, name) => vec![(name, None, stored.clone())],
            };
            let of_store = LayerCount { rows: written, ..wanted.count(&stored) };
            let state = state_holds(&wanted, asked.iter().copied(), &emitted, &of_store);
            let mut reader = true;
            let mut names = Vec::new();
            let of_amounts: BTreeMap<Item, u64> = match sink.amount {
                Some(_) => asked.iter().fold(BTreeMap::new(), |mut all, item| {
                    *all.entry(*item).or_default() += 1;
                    all
                }),
                None => BTreeMap::new(),
            };
            for (name, reading, given) in readers {
                names.push(name.clone());
                let rows = given.len() as u64;
                let given = match reading {
                    Some(reading) => reading.of(&given),
                    None => given,
                };
                let of_reader = LayerCount { rows, ..wanted.count(&given) };
                reader &= of_reader.exact();
                if let Some(amount) = sink.amount {
                    results.values.insert(name.clone(), billing(&of_amounts, &given, amount));
                }
                results.layers.insert(name.clone(), of_reader);
            }
            if let (true, Some(topic)) = (sink.changelog, sink.topic()) {
                results.values.extend(changelog::tables(end, topic, &of_amounts));
            }
            let full = |i: &&Item| sink.amount.is_some_and(|a| matches!(i.cols[a], i64::MAX | i64::MIN));
            let overflows = of_amounts.keys().filter(full).count() as u64;
            results
                .scopes
                .insert(sink.name.clone(), Scopes { state, sink: of_store.exact(), reader, overflows, readers: names });
            results.layers.insert(name.clone(), of_store);
        }
        results
    }
}

/// What should stand: what is due, and of what the order of reading decides just what was handed on. A result that is right
/// for a join that waited longer stands for its own.
fn asked_for<'a>(expected: &[Record], lagging: &[Record], found: impl Iterator<Item = &'a Item>) -> Vec<Item> {
    let mut wanted: Vec<Item> = expected.iter().filter(|r| r.due).map(|r| r.item).collect();
    if lagging.is_empty() && wanted.len() == expected.len() {
        return wanted;
    }
    let due: BTreeSet<Item> = wanted.iter().copied().collect();
    let found: BTreeSet<Item> = found.copied().collect();
    let others = expected.iter().chain(lagging).map(|r| r.item);
    let others: BTreeSet<Item> = others.filter(|i| !due.contains(i) && found.contains(i)).collect();
    let result = |i: &Item| (i.time, i.cols[0], i.cols[1]);
    let instead: BTreeSet<_> = others.iter().map(result).collect();
    wanted.retain(|i| found.contains(i) || !instead.contains(&result(i)));
    wanted.extend(others);
    wanted
}

/// Whether what the operator with state handed on last is what is wanted. Where nothing with state stands above the sink, what
/// is stored tells.
fn state_holds<'a, I: Iterator<Item = &'a Item>>(
    wanted: &Wanted,
    mut expected: impl Iterator<Item = Item>,
    emitted: &impl Fn() -> I,
    stored: &LayerCount,
) -> bool {
    if emitted().next().is_none() {
        return wanted.all == 0 || stored.missing == 0;
    }
    // Time and the first two columns tell results apart.
    let result = |item: &Item| (item.time, [item.cols[0], item.cols[1]]);
    let mut last: KeyMap<(i64, [i64; 2]), Item> = KeyMap::new();
    emitted().for_each(|item| {
        last.insert(result(item), *item);
    });
    let last = |item: &Item| last.get(&result(item)) == Some(item);
    expected.all(|item| last(&item)) && emitted().filter(|item| last(item)).all(|item| wanted.times(item) > 0)
}

/// Results that are wanted, and how often each.
struct Wanted {
    /// The place of each in `many`.
    places: KeyMap<Item, u32>,
    /// How often.
    many: Vec<u64>,
    /// How many in all.
    all: u64,
}
impl Wanted {
    fn of(items: &[Item]) -> Self {
        let (mut places, mut many) = (KeyMap::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for item in items {
            let place = *places.entry(*item, || many.len() as u32) as usize;
            if place == many.len() {
                many.push(0);
            }
            many[place] += 1;
        }
        Self { places, many, all: items.len() as u64 }
    }
    fn times(&self, item: &Item) -> u64 {
        self.places.get(item).map_or(0, |place| self.many[*place as usize])
    }
    /// What was found, against this.
    fn count(&self, found: &[Item]) -> LayerCount {
        let mut times = vec![0; self.many.len()];
        let mut others: KeyMap<Item, ()> = KeyMap::new();
        let mut count = LayerCount { rows: found.len() as u64, missing: self.all, ..LayerCount::default() };
        for item in found {
            let Some(place) = self.places.get(item).map(|place| *place as usize) else {
                count.unexpected += 1;
                others.insert(*item, ());
                continue;
            };
            let n: &mut u64 = &mut times[place];
            *n += 1;
            count.unique += u64::from(*n == 1);
            if *n > self.many[place] {
                count.duplicates += 1;
            } else {
                count.missing -= 1;
            }
        }
        count.unique += others.len() as u64;
        count
    }
}

fn billing(wanted: &BTreeMap<Item, u64>, given: &[Item], amount: usize) -> Billing {
    let mut by_result: BTreeMap<(i64, i64), (i64, i64, u64)> = BTreeMap::new();
    for (item, n) in wanted {
        let (expected, ..) = by_result.entry((item.cols[0], item.cols[1])).or_default();
        *expected = expected.saturating_add(item.cols[amount].saturating_mul(*n as i64));
    }
    for item in given {
        let (_, billed, rows) = by_result.entry((item.cols[0], item.cols[1])).or_default();
        (*billed, *rows) = (billed.saturating_add(item.cols[amount]), *rows + 1);
    }
    let mut billing = Billing::default();
    for ((window_end, key), (expected, billed, rows)) in by_result {
        billing.expected = billing.expected.saturating_add(expected);
        billing.billed = billing.billed.saturating_add(billed);
        if billed != expected {
            billing.wrong.push(Wrong { window_end, key, expected, billed, rows });
        }
    }
    billing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cols: [i64; 4], due: bool) -> Record {
        Record { item: Item { time: cols[0] - 1, cols }, key: Row::NO_KEY, ghost: Ghost::NONE, due }
    }

    #[test]
    fn what_is_found_is_counted_against_what_is_wanted() {
        let items = |list: &[i64]| list.iter().map(|n| Item { time: *n, cols: [0; 4] }).collect::<Vec<_>>();
        let of = |wanted: &[i64], found: &[i64]| {
            let c = Wanted::of(&items(wanted)).count(&items(found));
            (c.rows, c.unique, c.missing, c.duplicates, c.unexpected)
        };
        assert_eq!(of(&[1, 2, 2], &[2, 1, 2]), (3, 2, 0, 0, 0));
        assert_eq!(of(&[1, 2, 2], &[2]), (1, 1, 2, 0, 0));
        assert_eq!(of(&[1, 2], &[1, 1, 3, 3]), (4, 2, 1, 1, 2));
        assert_eq!(of(&[], &[]), (0, 0, 0, 0, 0));
    }

    #[test]
    fn a_window_that_a_slow_partition_may_keep_open_is_wanted_once_it_has_fired() {
        let expected = [record([10, 7, 5, 1], true), record([20, 7, 6, 2], false)];
        let due = Item { time: 9, cols: [10, 7, 5, 1] };
        let open = Item { time: 19, cols: [20, 7, 6, 2] };
        assert_eq!(asked_for(&expected, &[], [].iter()), [due]);
        assert_eq!(asked_for(&expected, &[], [open].iter()), [due, open]);
        // Fired with something else in it: wrong, and what should be there is not asked for.
        let other = Item { time: 19, cols: [20, 7, 9, 3] };
        assert_eq!(asked_for(&expected, &[], [other].iter()), [due]);
    }

    #[test]
    fn a_result_of_a_join_that_waited_longer_stands_for_its_own() {
        let expected = [record([10, 7, 5, 1], true)];
        let lagging = [record([10, 7, 8, 2], true)];
        let (short, long) = (Item { time: 9, cols: [10, 7, 5, 1] }, Item { time: 9, cols: [10, 7, 8, 2] });
        assert_eq!(asked_for(&expected, &lagging, [long].iter()), [long]);
        assert_eq!(asked_for(&expected, &lagging, [short].iter()), [short]);
        assert_eq!(asked_for(&expected, &lagging, [].iter()), [short]);
    }
}
