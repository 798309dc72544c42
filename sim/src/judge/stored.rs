//! Law of stores: what can be read in a topic is in the table that reads it (stores 9: K1 to K3, K6).
//!
//! A table of ClickHouse is at least once: a block that was inserted and whose offsets were not committed comes again. Plain
//! rows may be doubled by that. They are told apart by their number in the ledger; where the table replaces rows by key, by the
//! id of the event, for of copies that were sent in one block it stores one (C5). Under FINAL an event is there once. A result
//! of many events is told apart by all that it is; where the table replaces rows, by its sorting key: of a window that fired
//! twice it keeps the newer row (R8).

use super::results::{Billing, Item};
use super::{ByEvent, Evidence, Excuse, Findings, Law, LayerCount, Sent, StoredTable, Violation};
use crate::world::Observer;
use model::base::{Event, KeyMap, ProcessId, Row, SimTime, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};

/// The law.
#[derive(Clone, Debug, Default)]
pub struct StoredLaw {
    /// Processes to which something has happened by which blocks may come again.
    disturbed: BTreeSet<ProcessId>,
    /// Power is being lost: whoever dies now, dies by that.
    dark_now: bool,
    /// Processes whose machine has lost its power.
    dark: BTreeSet<ProcessId>,
    /// What was found, by name of the layer, once settled.
    pub counts: BTreeMap<String, LayerCount>,
    /// What views come to.
    pub values: BTreeMap<String, Billing>,
}

impl Observer for StoredLaw {
    fn event(&mut self, _: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        match event {
            Event::BlockInserted { failed: true, .. } | Event::PartitionRevoked { .. } => {
                self.disturbed.insert(process);
            }
            _ => {}
        }
    }
    fn fault(&mut self, _: SimTime, process: Option<ProcessId>, what: &'static str) {
        self.dark_now = what == "power-loss";
        if let Some(process) = process.filter(|_| what != "start") {
            self.disturbed.insert(process);
        }
    }
    fn died(&mut self, _: SimTime, process: ProcessId) {
        self.disturbed.insert(process);
        if self.dark_now {
            self.dark.insert(process);
        }
    }
}

/// What tells rows apart: the number in the ledger, the event's id, all that a result is, or its sorting key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Id {
    Sent(u32),
    Event(i64),
    Result(Item),
    Key(Vec<i64>),
}
fn sent(row: &Row) -> Id {
    if row.ghost.in_ledger() { Id::Sent(row.ghost.open()) } else { Id::Result(Item::of(row)) }
}
/// What FINAL of a table tells apart.
fn latest(row: &Row, table: &StoredTable) -> Id {
    match row.ghost.in_ledger() {
        true => Id::Event(row.cols[0]),
        false if table.replaces => Id::Key(table.key.iter().map(|column| column.of(row)).collect()),
        false => Id::Result(Item::of(row)),
    }
}

impl Law for StoredLaw {
    const NAME: &'static str = "stored";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        for table in &end.stored {
            let readable: Vec<&Row> = readable(end, table).collect();
            let last = |row: &Row| latest(row, table);
            let id = |row: &Row| if table.replaces { last(row) } else { sent(row) };
            let wanted = if table.replaces { Wanted::Some } else { Wanted::All };
            let plain = count(readable.iter().map(|r| id(r)), table.rows.iter().map(id), wanted);
            let latest = count(readable.iter().map(|r| last(r)), table.latest.iter().map(last), Wanted::One);
            let disturbed = self.disturbed.contains(&table.process);
            let may_miss = table.may_miss || self.dark.contains(&table.process);
            let missing = may_miss.then_some(Excuse::StoreLoses);
            let mut say = |rule: &'static str, many: u64, excuse: Option<Excuse>, name: &str, what: &str| {
                if many > 0 {
                    let text = format!("{name}: {many} rows {what}");
                    let (at, law) = (end.now, Self::NAME);
                    findings.add(Violation { at, law, rule, text, excuse, tp: None, event: None });
                }
            };
            // A table that is not at the end of its topics misses what it has not read: that is liveness.
            if end.stores_behind.is_empty() {
                say("K1", plain.missing, missing, &table.name, "can be read in the topic and are not there");
                say("K2", latest.missing, missing, &table.final_name, "are not shown by FINAL");
            }
            say("K1", plain.unexpected, None, &table.name, "are in no topic that it reads");
            let again = disturbed.then_some(Excuse::StoreRedelivery);
            say("K3", plain.duplicates, again, &table.name, "are there again");
            for (name, sum, total) in &table.views {
                let expected: i64 = readable.iter().map(|row| sum.map_or(1, |column| column.of(row))).sum();
                let billing = Billing { expected, billed: *total, wrong: Vec::new() };
                self.values.insert(name.clone(), billing);
            }
            for (name, mut layer, rows) in
                [(&table.name, plain, &table.rows), (&table.final_name, latest, &table.latest)]
            {
                let poison = |row: &&Row| {
                    let sent = row.ghost.in_ledger().then(|| end.ledger.get(row.ghost.open())).flatten();
                    sent.is_some_and(|sent| sent.flags & Sent::POISON != 0)
                };
                layer.poison = rows.iter().filter(poison).count() as u64;
                self.counts.insert(name.clone(), layer);
            }
        }
    }
}

/// What a reader of committed data finds in the topics of a table.
fn readable<'e>(end: &'e Evidence<'_>, table: &'e StoredTable) -> impl Iterator<Item = &'e Row> {
    let partitions = end.replicas.keys().filter(|tp: &&TopicPartition| table.topics.contains(&tp.topic.0));
    partitions.flat_map(|tp| end.readable(*tp).0).flat_map(|entry| entry.batch.rows.iter())
}

/// How many of equal rows should be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// As many as can be read.
    All,
    /// One at least, and no more than can be read.
    Some,
    /// One.
    One,
}
/// How many rows of each kind should be there, and how many are. Events, of which there are many, by their numbers.
#[derive(Default)]
struct Tally {
    sent: ByEvent<(u32, u32)>,
    events: KeyMap<i64, (u32, u32)>,
    others: KeyMap<Id, (u32, u32)>,
}
impl Tally {
    fn of(&mut self, id: Id) -> &mut (u32, u32) {
        match id {
            Id::Sent(event) => self.sent.or_default(event),
            Id::Event(event) => self.events.entry(event, Default::default),
            other => self.others.entry(other, Default::default),
        }
    }
}
/// What is there against what should be.
fn count(wanted: impl Iterator<Item = Id>, found: impl Iterator<Item = Id>, many: Wanted) -> LayerCount {
    let mut count = LayerCount::default();
    let mut tally = Tally::default();
    for id in wanted {
        let (want, _) = tally.of(id);
        *want += 1;
        count.missing += u64::from(*want == 1 || many == Wanted::All);
    }
    for id in found {
        let (want, there) = tally.of(id);
        let want = if many == Wanted::One { (*want).min(1) } else { *want };
        *there += 1;
        count.rows += 1;
        count.unique += u64::from(*there == 1);
        count.unexpected += u64::from(want == 0);
        count.duplicates += u64::from(want > 0 && *there > want);
        count.missing -= u64::from(*there <= want && (*there == 1 || many == Wanted::All));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::Ghost;
    use model::store::clickhouse::Column;

    #[test]
    fn rows_are_counted_against_what_can_be_read() {
        let ids = |list: &[u32]| list.iter().map(|n| Id::Sent(*n)).collect::<Vec<_>>().into_iter();
        let all = |wanted: &[u32], found: &[u32], many| {
            let c = count(ids(wanted), ids(found), many);
            (c.rows, c.unique, c.missing, c.unexpected, c.duplicates)
        };
        assert_eq!(all(&[1, 2, 3], &[3, 1, 2], Wanted::All), (3, 3, 0, 0, 0));
        assert_eq!(all(&[1, 2, 3], &[1, 1, 4], Wanted::All), (3, 2, 2, 1, 1));
        // Twice in the topic: twice in the table, or where it replaces rows, once or twice; under FINAL once.
        assert_eq!(all(&[1, 1, 2], &[1, 1, 2], Wanted::All), (3, 2, 0, 0, 0));
        assert_eq!(all(&[1, 1, 2], &[1, 2], Wanted::All), (2, 2, 1, 0, 0));
        assert_eq!(all(&[1, 1, 2], &[1, 2], Wanted::Some), (2, 2, 0, 0, 0));
        assert_eq!(all(&[1, 1, 2], &[1, 1, 1], Wanted::Some), (3, 1, 1, 0, 1));
        assert_eq!(all(&[1, 1, 2], &[2], Wanted::Some), (1, 1, 1, 0, 0));
        assert_eq!(all(&[1, 1, 2], &[1, 2], Wanted::One), (2, 2, 0, 0, 0));
        assert_eq!(all(&[], &[], Wanted::One), (0, 0, 0, 0, 0));
    }

    #[test]
    fn results_of_a_table_that_replaces_are_told_apart_by_its_key() {
        let table = |replaces| StoredTable {
            name: "t".into(),
            final_name: "t-final".into(),
            process: ProcessId(0),
            topics: vec![0],
            rows: Vec::new(),
            latest: Vec::new(),
            views: Vec::new(),
            replaces,
            key: vec![Column::Value(0), Column::Value(1)],
            may_miss: false,
        };
        let window = |end, key, sum| Row { cols: [end, key, sum, 1], ghost: Ghost::NONE, ..Row::default() };
        let (one, other) = (window(10, 3, 100), window(10, 4, 100));
        let again = window(10, 3, 7);
        let of = |row: &Row, replaces| latest(row, &table(replaces));
        assert_ne!(of(&one, true), of(&other, true));
        assert_eq!(of(&one, true), of(&again, true), "it fired again: the newer row stays");
        assert_ne!(of(&one, false), of(&again, false));
        let event = Row { ghost: Ghost::new(7), ..one };
        assert_eq!(of(&event, true), Id::Event(10));
    }
}
