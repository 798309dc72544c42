//! What a job's graph makes of everything that was sent, computed at once and by itself: no watermark, no state, no failure.
//! The judge's own arithmetic, apart from the model's operators.

use super::super::aggregates::Shape;
use super::{Beyond, Derivation, ResultNode, ResultPlan};
use model::base::{Ghost, KeyMap, Row};
use model::flink::runtime::graph::KeyColumn;
use model::flink::runtime::operator::{
    Comparison, Condition, Expr, GroupWindowConfig, OP, OperatorConfig, SqlWindowConfig, WindowConfig,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A row of a result: its time and its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// Event time, ms.
    pub time: i64,
    /// Columns.
    pub cols: [i64; 4],
}
impl Item {
    /// What identifies a row.
    pub const fn of(row: &Row) -> Self {
        Self { time: row.time.0, cols: row.cols }
    }
}

/// A row with its record's key and its event's number, which are no part of a result; of a row made of many there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The row.
    pub item: Item,
    /// The record's key.
    pub key: u64,
    /// The event.
    pub ghost: Ghost,
    /// Not a window that the watermark comes to only if the partitions that ended first hold it back no more.
    pub due: bool,
}

/// Rows of a node. Nodes that hand on what they are given share it.
pub type Records = Rc<Vec<Record>>;

/// Rows of a node, with the event time that its watermark comes to in the end: at most, and whatever partition holds it.
#[derive(Clone, Debug, Default)]
struct Stream {
    items: Records,
    watermark: i64,
    least: i64,
    /// The newest event of the partition that ended first.
    slowest: i64,
}

/// Rows that each node of the plan hands on. A window that no watermark reaches is pending: it is not among them. `slowest`
/// is the newest event of the partition that ended first, by source.
pub(super) fn evaluate(
    plan: &ResultPlan,
    sent: &BTreeMap<u16, Vec<Row>>,
    beyond: &Beyond,
    slowest: &BTreeMap<usize, i64>,
) -> Vec<Records> {
    let mut streams: Vec<Stream> = Vec::new();
    for (number, node) in plan.nodes.iter().enumerate() {
        let stream = match node {
            ResultNode::Nothing => Stream::default(),
            ResultNode::Same(of) => streams[*of].clone(),
            ResultNode::Source { from, bound, .. } => {
                let record = |row: &Row| Record { item: Item::of(row), key: row.key, ghost: row.ghost, due: true };
                let unread = |row: &&Row| beyond.get(&number).is_some_and(|b| b.contains(&row.ghost.open()));
                let items: Records = match from[..] {
                    [(_, Some(of))] => Rc::clone(&streams[of].items),
                    _ => {
                        let mut items: Vec<Record> = Vec::new();
                        for (topic, of) in from {
                            match of {
                                Some(of) => items.extend(streams[*of].items.iter()),
                                None => {
                                    let rows = sent.get(topic).map_or(&[][..], Vec::as_slice).iter();
                                    items.extend(rows.filter(|row| !unread(row)).map(record));
                                }
                            }
                        }
                        if from.len() > 1 {
                            // The ledger counts in the order of sending.
                            items.sort_by_key(|r| r.ghost.open());
                        }
                        items.into()
                    }
                };
                let slowest = slowest.get(&number).copied().unwrap_or(i64::MAX);
                Stream::timed(items, *bound, slowest)
            }
            // Event time begins here.
            ResultNode::Derived(of, Derivation(OperatorConfig::Assign(assign))) => {
                let input = &streams[*of];
                Stream::timed(input.items.clone(), Some(assign.strategy.bound()), input.slowest)
            }
            ResultNode::Derived(of, Derivation(operator)) => {
                let input = &streams[*of];
                Stream { items: derive(operator, input), ..*input }
            }
        };
        streams.push(stream);
    }
    streams.into_iter().map(|s| s.items).collect()
}

impl Stream {
    /// Rows whose watermark stays `bound` behind the newest; none without event time.
    fn timed(items: Records, bound: Option<i64>, slowest: i64) -> Self {
        let newest = items.iter().map(|r| r.item.time).max().unwrap_or(i64::MIN);
        let behind = |time: i64| bound.map_or(i64::MIN, |b| time.saturating_sub(b));
        Self { watermark: behind(newest), least: behind(newest.min(slowest)), items, slowest }
    }
}

fn holds(condition: Condition, item: &Item) -> bool {
    let left = item.cols[usize::from(condition.column)];
    match condition.comparison {
        Comparison::Equal => left == condition.value,
        Comparison::NotEqual => left != condition.value,
        Comparison::Less => left < condition.value,
        Comparison::AtLeast => left >= condition.value,
    }
}
fn columns(exprs: &[Expr; 4], left: &Item, right: &Record) -> [i64; 4] {
    exprs.map(|e| match e {
        Expr::Column(c) => right.item.cols[usize::from(c)],
        Expr::Left(c) => left.cols[usize::from(c)],
        Expr::Time => right.item.time,
        Expr::Key => right.key as i64,
        Expr::Constant(value) => value,
    })
}

fn derive(operator: &OperatorConfig, stream: &Stream) -> Records {
    let input = &stream.items;
    let derived = match operator {
        OperatorConfig::Filter(condition) => input.iter().filter(|r| holds(*condition, &r.item)).copied().collect(),
        OperatorConfig::Map(exprs) => {
            let mapped = |r: &Record| Item { cols: columns(exprs, &r.item, r), ..r.item };
            input.iter().map(|r| Record { item: mapped(r), ..*r }).collect()
        }
        OperatorConfig::Deduplicate(config) => {
            let mut seen: KeyMap<i64, ()> = KeyMap::with_capacity(input.len());
            input.iter().filter(|r| seen.insert(r.item.cols[config.key.column()], ()).is_none()).copied().collect()
        }
        // What a local aggregate hands on becomes a result behind it; what is late depends on the watermark.
        OperatorConfig::LocalWindow(_) | OperatorConfig::LateFilter(_) => Vec::new(),
        OperatorConfig::Assign(_) => return Rc::clone(input),
        OperatorConfig::Join(config) => {
            let mut waiting: KeyMap<i64, [Option<Record>; 2]> = KeyMap::new();
            let mut out = Vec::new();
            for record in input.iter() {
                let item = &record.item;
                let side = match (holds(config.left, item), holds(config.right, item)) {
                    (true, _) => 0,
                    (_, true) => 1,
                    _ => continue,
                };
                let key = item.cols[config.key.column()];
                let pair = waiting.entry(key, Default::default);
                pair[side].get_or_insert(*record);
                if let [Some(left), Some(right)] = pair {
                    if (right.item.time - left.item.time).abs() <= config.ttl.0 {
                        let cols = columns(&config.columns, &left.item, right);
                        out.push(Record { item: Item { cols, ..right.item }, ..*right });
                    }
                    waiting.remove(&key);
                }
            }
            out
        }
        OperatorConfig::Window(WindowConfig { key, sum, .. })
        | OperatorConfig::SqlWindow(SqlWindowConfig { key, sum, .. }) => {
            Shape::of(operator).map(|shape| windows(shape, *key, *sum, stream)).unwrap_or_default()
        }
        // What its changelog comes to: each result put in once.
        OperatorConfig::GroupWindow(GroupWindowConfig { key, sum, .. }) => {
            let mut results = Shape::of(operator).map(|shape| windows(shape, *key, *sum, stream)).unwrap_or_default();
            for Record { item, .. } in &mut results {
                let [_, _, added, count] = item.cols;
                (item.cols[2], item.cols[OP]) = (if sum.is_some() { added } else { count }, 0);
            }
            results
        }
    };
    derived.into()
}

/// The content of every window that the watermark reaches in the end.
fn windows(shape: Shape, key: KeyColumn, sum: Option<u8>, stream: &Stream) -> Vec<Record> {
    let Stream { items: input, watermark, least, .. } = stream;
    let value = |i: &Item| sum.map_or(0, |c| i.cols[usize::from(c)]);
    let key = |i: &Item| i.cols[key.column()];
    // By end and key: of one key no two windows end together.
    let mut places: KeyMap<(i64, i64), usize> = KeyMap::new();
    let mut sums: Vec<((i64, i64), (i64, i64))> = Vec::new();
    let mut add = |end: i64, item: &Item| {
        let window = (end, key(item));
        let place = *places.entry(window, || sums.len());
        if place == sums.len() {
            sums.push((window, (0, 0)));
        }
        let (_, (sum, count)) = &mut sums[place];
        (*sum, *count) = (sum.saturating_add(value(item)), *count + 1);
    };
    match shape {
        Shape::Session { gap } => {
            let mut by_key: BTreeMap<i64, Vec<&Item>> = BTreeMap::new();
            input.iter().for_each(|r| by_key.entry(key(&r.item)).or_default().push(&r.item));
            for mut items in by_key.into_values() {
                items.sort_by_key(|i| i.time);
                let mut from = 0;
                for at in 1..=items.len() {
                    if at < items.len() && items[at].time - items[at - 1].time <= gap {
                        continue;
                    }
                    let end = items[at - 1].time + gap;
                    items[from..at].iter().for_each(|i| add(end, i));
                    from = at;
                }
            }
        }
        Shape::Sliding { .. } | Shape::Cumulating { .. } => {
            input.iter().for_each(|r| shape.ends(r.item.time).for_each(|end| add(end, &r.item)));
        }
    }
    sums.sort_unstable();
    let fired = sums.into_iter().filter(|((end, _), _)| end - 1 <= *watermark);
    let item = |((end, key), (sum, count))| Item { time: end - 1, cols: [end, key, sum, count] };
    let record = |item: Item| Record { item, key: Row::NO_KEY, ghost: Ghost::NONE, due: item.time <= *least };
    fired.map(|window| record(item(window))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::{EventTime, Millis};
    use model::flink::operator::{Assigner, Slices};
    use model::flink::runtime::operator::{JoinConfig, SqlWindows};

    fn row(time: i64, cols: [i64; 4]) -> Row {
        Row { time: EventTime(time), cols, ..Row::default() }
    }

    #[test]
    fn requests_join_and_are_summed_by_minute() {
        let equal = |column, value| Condition { column, comparison: Comparison::Equal, value };
        let join = JoinConfig {
            key: KeyColumn::Long(0),
            left: equal(1, 0),
            right: equal(1, 1),
            columns: [Expr::Column(0), Expr::Left(2), Expr::Column(3), Expr::Constant(0)],
            ttl: Millis::secs(600),
        };
        let window = WindowConfig {
            key: KeyColumn::Long(1),
            assigner: Assigner::Tumbling { size: 60_000, offset: 0 },
            lateness: Millis::ZERO,
            sum: Some(2),
            bytes: 96,
        };
        let plan = ResultPlan {
            nodes: vec![
                ResultNode::Source { from: vec![(0, None)], bound: Some(5_001), idles: false, until: None },
                ResultNode::Derived(0, Derivation(OperatorConfig::Join(join))),
                ResultNode::Derived(1, Derivation(OperatorConfig::Window(window))),
            ],
            sinks: Vec::new(),
            aggregates: Vec::new(),
            readings: Vec::new(),
        };
        // Request 1 of tenant 7: starts in the first minute, ends in the second. Request 2 never ends, 3 never began.
        let rows = vec![
            row(59_000, [1, 0, 7, 0]),
            row(60_500, [2, 0, 7, 0]),
            row(61_000, [1, 1, 0, 410]),
            row(62_000, [3, 1, 0, 5]),
            row(130_000, [4, 0, 7, 0]),
        ];
        let results = evaluate(&plan, &BTreeMap::from([(0, rows)]), &Beyond::new(), &BTreeMap::new());
        let items = |of: usize| results[of].iter().map(|r| r.item).collect::<Vec<_>>();
        assert_eq!(items(1), [Item { time: 61_000, cols: [1, 7, 410, 0] }]);
        assert_eq!(items(2), [Item { time: 119_999, cols: [120_000, 7, 410, 1] }]);
    }

    #[test]
    fn cumulating_windows_grow_and_those_that_no_watermark_reaches_are_pending() {
        let config = SqlWindowConfig {
            key: KeyColumn::Sql(1),
            windows: SqlWindows::Sliced(Slices::Cumulate { size: 10, step: 5 }),
            two_phase: true,
            sum: Some(2),
            bytes: 96,
        };
        let plan = ResultPlan {
            nodes: vec![
                ResultNode::Source { from: vec![(0, None)], bound: Some(5), idles: false, until: None },
                ResultNode::Derived(0, Derivation(OperatorConfig::SqlWindow(config))),
            ],
            sinks: Vec::new(),
            aggregates: Vec::new(),
            readings: Vec::new(),
        };
        let rows = vec![row(2, [0, 7, 100, 0]), row(6, [1, 7, 20, 0]), row(16, [2, 7, 3, 0])];
        let sent = BTreeMap::from([(0, rows.clone())]);
        let results = evaluate(&plan, &sent, &Beyond::new(), &BTreeMap::new());
        let item = |end, sum, count| Item { time: end - 1, cols: [end, 7, sum, count] };
        assert_eq!(results[1].iter().map(|r| r.item).collect::<Vec<_>>(), [item(5, 100, 1), item(10, 120, 2)]);
        // The partition that ended first has nothing newer than 12: the second window may stay open.
        let results = evaluate(&plan, &BTreeMap::from([(0, rows)]), &Beyond::new(), &BTreeMap::from([(0, 12)]));
        assert_eq!(results[1].iter().map(|r| r.due).collect::<Vec<_>>(), [true, false]);
    }
}
