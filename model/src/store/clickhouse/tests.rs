//! What the recordings do not reach: back-pressure, loss of power, merges at any time, and the race of failing views.

use super::*;
use crate::base::{Domain, Fix, Fixes, Millis, Row, Streams};

const ALL: Fixes = Fixes::ALL;

fn row(id: u64, value: i64) -> Row {
    Row { key: id, cols: [value, 0, 0, 0], ..Row::default() }
}
fn engine(kind: RowKind) -> RowEngine {
    RowEngine { kind, order_by: vec![Column::Key], partition_by: Vec::new() }
}
const REPLACING: RowKind = RowKind::Replacing { version: None, deleted: None };

fn insert(table: &mut MergeTree<Row, RowEngine>, rows: &[Row]) -> Result<usize, TableError> {
    let settings = InsertSettings::default();
    let key = MergeTree::<Row, RowEngine>::key(rows, &settings);
    table.insert(rows, (key, 0), &settings, ALL).map(|parts| parts.len())
}

#[test]
fn the_fourth_part_is_refused_when_three_are_too_many_and_inserts_slow_down_before() {
    let config = TableConfig { parts_to_delay_insert: 1, parts_to_throw_insert: 3, ..TableConfig::default() };
    let mut table = MergeTree::new(engine(RowKind::MergeTree), config);
    let mut delays = Vec::new();
    for n in 0..4 {
        delays.push(table.insert_delay());
        assert_eq!(insert(&mut table, &[row(n, 0)]), if n < 3 { Ok(1) } else { Err(TableError::TooManyParts) });
    }
    assert_eq!(delays, [0, 500, 1000, 1000].map(Millis));
    assert!(table.optimize(None, true, false).is_ok());
    assert_eq!(insert(&mut table, &[row(9, 0)]), Ok(1), "merged, there is room again");
}

#[test]
fn power_takes_what_was_acknowledged_and_not_synced() {
    for (fsync, left) in [(false, 0), (true, 2)] {
        let mut table = MergeTree::new(engine(REPLACING), TableConfig { fsync, ..TableConfig::default() });
        insert(&mut table, &[row(1, 1), row(2, 1)]).ok();
        table.power_lost(|_| false);
        assert_eq!(table.rows().count(), left, "F7");
    }
}

#[test]
fn merges_at_any_time_change_no_final() {
    // K5, over every order in which neighbours can merge.
    let streams = Streams(7);
    for seed in 0..50 {
        let mut draw = streams.stream(Domain::Process, seed, "merges");
        let mut table = MergeTree::new(engine(REPLACING), TableConfig::default());
        for value in 0..12 {
            insert(&mut table, &[row(draw.below(4), value), row(draw.below(4), value + 100)]).ok();
            let before = table.select_final(|_| true);
            let candidate = table.merge_candidates().next();
            if let Some(range) = candidate {
                let from = range.start + draw.below(range.len() as u64 - 1) as usize;
                let to = from + 2 + draw.below((range.end - from - 1) as u64) as usize;
                table.merge(from..to.min(range.end), false);
            }
            assert_eq!(table.select_final(|_| true), before);
        }
    }
}

#[test]
fn an_older_value_that_is_delivered_again_wins_without_a_version() {
    let mut table = MergeTree::new(engine(REPLACING), TableConfig::default());
    for value in [1, 2, 1] {
        insert(&mut table, &[row(7, value)]).ok();
    }
    assert_eq!(table.select_final(|_| true)[0].cols[0], 1, "R1");
    let newer = RowKind::Replacing { version: Some(Column::Value(0)), deleted: None };
    let mut table = MergeTree::new(engine(newer), TableConfig::default());
    for value in [1, 2, 1] {
        insert(&mut table, &[row(7, value)]).ok();
    }
    assert_eq!(table.select_final(|_| true)[0].cols[0], 2, "R2");
}

fn sums(throws_on: Option<(Column, i64)>) -> View {
    View {
        source: Source::Base,
        filter: None,
        throws_on,
        query: Query::Sum { by: [Column::Key; 2], amount: Column::Value(0), count: true },
        target: Target::Sums(MergeTree::new(Summing, TableConfig::default())),
    }
}

#[test]
fn a_view_that_throws_leaves_the_one_before_it_to_a_race_and_the_one_after_it_empty() {
    let mut seen = [0; 2];
    for seed in 0..40 {
        let base = MergeTree::new(engine(RowKind::MergeTree), TableConfig::default());
        let views = vec![sums(None), sums(Some((Column::Value(0), 777))), sums(None)];
        let mut pipeline = Pipeline { base, views };
        let mut race = Streams(1).stream(Domain::Process, seed, "race");
        let block = [row(1, 777)];
        let result = pipeline.insert(&[&block], &InsertSettings::default(), ViewSettings::default(), &mut race, ALL);
        assert_eq!(result, Err(PipelineError::View(1)));
        assert_eq!(pipeline.base.rows().count(), 1);
        let counts: Vec<_> = pipeline.views.iter().map(|v| v.target.count()).collect();
        assert_eq!(counts[1..], [0, 0]);
        seen[counts[0]] += 1;
    }
    assert!(seen.iter().all(|n| *n > 5), "{seen:?}");
}

#[test]
fn the_table_may_be_a_block_ahead_of_a_view_that_threw() {
    let mut seen = [0; 4];
    for seed in 0..40 {
        let base = MergeTree::new(engine(RowKind::MergeTree), TableConfig::default());
        let mut pipeline = Pipeline { base, views: vec![sums(Some((Column::Value(0), 777)))] };
        let mut race = Streams(1).stream(Domain::Process, seed, "race");
        let blocks = [[row(1, 1)], [row(2, 777)], [row(3, 1)]];
        let blocks: Vec<&[Row]> = blocks.iter().map(|b| &b[..]).collect();
        let settings = InsertSettings::default();
        assert!(pipeline.insert(&blocks, &settings, ViewSettings::default(), &mut race, ALL).is_err());
        assert_eq!(pipeline.views[0].target.count(), 1);
        seen[pipeline.base.rows().count()] += 1;
    }
    assert!(seen[2] > 5 && seen[3] > 5, "V4b: {seen:?}");
}

#[test]
fn equal_sums_of_different_blocks_are_both_kept() {
    for (fixes, rows) in [(ALL, 2), (ALL.without(Fix::TargetKeyOfSourceBlock), 1)] {
        let base = MergeTree::new(engine(RowKind::MergeTree), TableConfig::default());
        let window = TableConfig { deduplication_window: 10, ..TableConfig::default() };
        let view = View { target: Target::Sums(MergeTree::new(Summing, window)), ..sums(None) };
        let mut pipeline = Pipeline { base, views: vec![view] };
        let mut race = Streams(1).stream(Domain::Process, 0, "race");
        let (one, same) = ([row(1, 2), row(1, 3)], [row(1, 3), row(1, 2)]);
        for block in [one, same, one] {
            let result =
                pipeline.insert(&[&block], &InsertSettings::default(), ViewSettings::default(), &mut race, fixes);
            assert_eq!(result, Ok(()));
        }
        assert_eq!(pipeline.views[0].target.count(), rows);
    }
}

#[test]
fn a_block_that_leaves_no_row_leaves_no_key() {
    let config = TableConfig { deduplication_window: 10, ..TableConfig::default() };
    let mut table = MergeTree::new(Summing, config);
    let settings = InsertSettings { token: Some(1), ..InsertSettings::default() };
    let mut parts = |amount| {
        let rows = [SumRow { key: [1, 1], sums: [amount, 0] }];
        table.insert(&rows, (dedup::BlockKey::Token(1), 0), &settings, ALL).map(|parts| parts.len())
    };
    assert_eq!([0, 5, 7].map(&mut parts), [Ok(0), Ok(1), Ok(0)]);
}
