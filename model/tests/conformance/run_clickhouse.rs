//! Runner of clickhouse: tables of the MergeTree family, deduplicated inserts, materialized views.

use crate::harness::{Outcome, compare_lists, int, list, text};
use model::base::{Domain, EventTime, Fixes, Ghost, Row, Streams};
use model::store::clickhouse::{
    AggregateStates, Changed, Column, DeduplicateInsert, InsertSettings, MergeTree, Part, PartitionBy, PartitionId,
    Pipeline, Query, RowEngine, RowKind, Source, SumRow, Summing, TableConfig, Target, View, ViewSettings,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

type Table = MergeTree<Row, RowEngine>;

/// Days since 1970 of `YYYY-MM-DD`, and back.
fn day(date: &str) -> Option<i64> {
    let mut parts = date.split('-').map(str::parse::<i64>);
    let (y, m, d) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let (y, m) = if m > 2 { (y, m - 3) } else { (y - 1, m + 9) };
    Some(365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + d - 1 - 719_468)
}
fn date(day_number: i64) -> String {
    let year = (1970..).find(|y| day(&format!("{}-1-1", y + 1)).is_some_and(|d| d > day_number)).unwrap_or(1970);
    let month = (1..=12).rev().find(|m| day(&format!("{year}-{m}-1")).is_some_and(|d| d <= day_number)).unwrap_or(1);
    let first = day(&format!("{year}-{month}-1")).unwrap_or(0);
    format!("{year}-{month:02}-{:02}", day_number - first + 1)
}

/// Where the columns of a recording lie in a row. `seq` tells one row from the next and is nothing that a table looks at.
struct Columns {
    names: Vec<String>,
    texts: Vec<Arc<str>>,
}
impl Columns {
    /// All strings of the rows, as numbers in their own order.
    fn new(cols: &Value, rows: &[&Value]) -> Self {
        let mut texts: Vec<Arc<str>> = rows
            .iter()
            .flat_map(|row| list(row))
            .filter_map(Value::as_str)
            .filter(|t| day(t).is_none())
            .map(Into::into)
            .collect();
        texts.sort();
        texts.dedup();
        Self { names: list(cols).iter().map(|n| text(n).to_owned()).collect(), texts }
    }
    fn column(&self, name: &str) -> Column {
        let time = ["win", "w", "day"].into_iter().find(|n| self.names.iter().any(|c| c == n)).unwrap_or_default();
        let fixed = [("id", Column::Key), ("key", Column::Key), (time, Column::Time)];
        if let Some((_, column)) = fixed.into_iter().find(|(n, _)| *n == name) {
            return column;
        }
        let others: Vec<_> = self.names.iter().filter(|n| !["id", "key", time, "seq"].contains(&n.as_str())).collect();
        Column::Value(others.iter().position(|n| *n == name).unwrap_or(0) as u8)
    }
    fn number(&self, value: &Value) -> i64 {
        match value.as_str() {
            Some(t) => day(t).unwrap_or_else(|| self.texts.iter().position(|x| &**x == t).unwrap_or(0) as i64),
            None => int(value),
        }
    }
    fn row(&self, values: &Value) -> Row {
        let mut row = Row::default();
        for (name, value) in self.names.iter().zip(list(values)) {
            let number = self.number(value);
            match self.column(name) {
                _ if name == "seq" => row.ghost = Ghost::new(number as u32),
                Column::Key => row.key = number as u64,
                Column::Time => row.time = EventTime(number),
                Column::Value(n) => row.cols[usize::from(n)] = number,
            }
        }
        row
    }
    fn rows(&self, values: &Value) -> Vec<Row> {
        list(values).iter().map(|v| self.row(v)).collect()
    }
    fn shown(&self, name: &str, row: &Row) -> Value {
        match name {
            "seq" => json!(row.ghost.open()),
            "day" => json!(date(self.column(name).of(row))),
            "key" | "region" | "k" => json!(&*self.texts[self.column(name).of(row) as usize]),
            _ => json!(self.column(name).of(row)),
        }
    }
    /// Rows with the columns of the recording, sorted by all of them.
    fn show(&self, names: &[String], rows: impl IntoIterator<Item = Row>) -> Value {
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(|row| {
                let sort: Vec<i64> = names
                    .iter()
                    .map(|n| if n == "seq" { i64::from(row.ghost.open()) } else { self.column(n).of(&row) })
                    .collect();
                (sort, names.iter().map(|n| self.shown(n, &row)).collect::<Vec<_>>())
            })
            .collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        json!(rows.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>())
    }
    fn partition_by(&self, expression: &str) -> Vec<PartitionBy> {
        let one = |name: &str| match (name, self.column(name)) {
            ("day", column) => PartitionBy::Date(column),
            ("region", column) => PartitionBy::Text(column, self.texts.clone().into()),
            (_, column) => PartitionBy::Number(column),
        };
        match expression {
            "" => Vec::new(),
            e if e.starts_with("toYYYYMMDD") => vec![PartitionBy::DayOfSeconds(self.column("win"))],
            e => e.trim_matches(['(', ')']).split(',').map(|name| one(name.trim())).collect(),
        }
    }
    fn engine(&self, kind: RowKind, order_by: &Value, partition_by: &Value) -> RowEngine {
        let order_by = list(order_by).iter().map(|n| self.column(text(n))).collect();
        RowEngine { kind, order_by, partition_by: self.partition_by(text(partition_by)) }
    }
    /// The engine's text, with the version column in it.
    fn kind(&self, engine: &str) -> RowKind {
        let Some(rest) = engine.strip_prefix("ReplacingMergeTree") else { return RowKind::MergeTree };
        let version = rest.trim_matches(['(', ')']);
        RowKind::Replacing { version: (!version.is_empty()).then(|| self.column(version)), deleted: None }
    }
}

fn blocks(rows: &[Row], size: &Value) -> Vec<Vec<Row>> {
    match int(size) as usize {
        0 => vec![rows.to_vec()],
        size => rows.chunks(size).map(<[Row]>::to_vec).collect(),
    }
}
fn all_rows(vector: &Value) -> Vec<&Value> {
    list(&vector["ops"]).iter().flat_map(|op| list(&op["rows"])).collect()
}
fn token(op: &Value) -> Option<u64> {
    let name = op["token"].as_str()?;
    Some(name.bytes().fold(0, |n, b| n << 8 | u64::from(b)))
}
fn added(parts: &[Part<Row>]) -> Value {
    let mut parts: Vec<_> = parts.iter().map(|p| (p.to_string(), p.rows.len())).collect();
    parts.sort();
    json!(parts)
}
fn sorted(list_of: &Value) -> Value {
    let mut all = list(list_of).to_vec();
    all.sort_by_key(|v| text(if v.is_array() { &v[0] } else { v }).to_owned());
    Value::Array(all)
}
/// Rows in an order that both sides can be brought into: what a SELECT without ORDER BY gives is a set.
fn any_order(rows: &Value) -> Value {
    let mut all = list(rows).to_vec();
    all.sort_by_key(Value::to_string);
    if rows.is_null() { Value::Null } else { Value::Array(all) }
}
/// What of an operation the model says, beside what was recorded; for keys that the recording has.
fn beside(op: &Value, got: &[(&str, Value)]) -> (Value, Value) {
    let (mut recorded, mut model) = (Map::new(), Map::new());
    for (key, value) in got.iter().filter(|(key, _)| !op[*key].is_null()) {
        let lists_parts = *key == "add" || *key == "remove";
        recorded.insert((*key).to_owned(), if lists_parts { sorted(&op[*key]) } else { op[*key].clone() });
        model.insert((*key).to_owned(), value.clone());
    }
    (Value::Object(recorded), Value::Object(model))
}
fn verdict(pairs: Vec<(Value, Value)>) -> Outcome {
    let (recorded, model): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    compare_lists(&recorded, &model)
}
fn optimized(table: &mut Table, op: &Value) -> (Changed<Row>, Value) {
    let partition = op["partition_id"].as_str().map(|id| PartitionId(id.into()));
    match table.optimize(partition.as_ref(), int(&op["final"]) == 1, int(&op["cleanup"]) == 1) {
        Ok(changed) => (changed, Value::Null),
        Err(error) => (Changed::default(), json!(error.code())),
    }
}
fn removed(changed: &Changed<Row>) -> Value {
    let mut names: Vec<_> = changed.removed.iter().map(ToString::to_string).collect();
    names.sort();
    json!(names)
}

/// Runs one vector of clickhouse/rmt.
pub fn replacing(vector: &Value, fixes: Fixes) -> Outcome {
    let columns = Columns::new(&vector["cols"], &all_rows(vector));
    let column = |key: &str| vector[key].as_str().map(|name| columns.column(name));
    let kind = RowKind::Replacing { version: column("version"), deleted: column("is_deleted") };
    let engine = columns.engine(kind, &vector["order_by"], &vector["partition_by"]);
    let config = TableConfig { cleanup_allowed: int(&vector["cleanup_allowed"]) == 1, ..TableConfig::default() };
    let mut table = Table::new(engine, config);
    let mut pairs = Vec::new();
    for op in list(&vector["ops"]) {
        let show = |rows: Vec<Row>| columns.show(&columns.names, rows);
        let mut got = Vec::new();
        match text(&op["op"]) {
            "insert" => {
                let optimize_on_insert = int(&op["optimize_on_insert"]) == 1;
                let settings = InsertSettings { optimize_on_insert, ..InsertSettings::default() };
                let mut parts = Vec::new();
                for (index, block) in blocks(&columns.rows(&op["rows"]), &op["block_rows"]).iter().enumerate() {
                    let key = (Table::key(block, &settings), index as u32);
                    parts.extend(table.insert(block, key, &settings, fixes).unwrap_or_default());
                }
                got.extend([("add", added(&parts)), ("remove", json!([]))]);
            }
            "optimize" => {
                let (changed, error) = optimized(&mut table, op);
                got.extend([("add", added(&changed.added)), ("remove", removed(&changed)), ("error", error)]);
            }
            "read" => {
                let per_partition = show(table.select_final_per_partition());
                let all = show(table.select_final(|_| true));
                // It is recorded only where it differs.
                let differs = if per_partition == all { Value::Null } else { per_partition };
                got.extend([("plain", show(table.rows().copied().collect())), ("final", all)]);
                pairs.push((op["final_per_partition"].clone(), differs));
            }
            _ => {
                let (column, least) = (columns.column(text(&op["col"])), int(&op["ge"]));
                let passes = |row: &Row| column.of(row) >= least;
                let after = table.select_final(|_| true).into_iter().filter(passes).collect();
                got.extend([("where", show(after)), ("prewhere", show(table.select_final(passes)))]);
            }
        }
        got.push(("count", json!(table.rows().count())));
        got.push(("count_final", json!(table.select_final(|_| true).len())));
        pairs.push(beside(op, &got));
    }
    verdict(pairs)
}

/// Runs one vector of clickhouse/dedup.
pub fn dedup(vector: &Value, fixes: Fixes) -> Outcome {
    let columns = Columns::new(&vector["cols"], &all_rows(vector));
    let kind = columns.kind(text(&vector["engine"]));
    let engine = columns.engine(kind, &vector["order_by"], &vector["partition_by"]);
    let deduplication_window = int(&vector["window"]) as usize;
    let mut table = Table::new(engine, TableConfig { deduplication_window, ..TableConfig::default() });
    let mut pairs = Vec::new();
    for op in list(&vector["ops"]) {
        let mut got = Vec::new();
        if op["op"] == "insert" {
            let switch = match text(&op["deduplicate_insert"]) {
                "disable" => DeduplicateInsert::Disable,
                "backward_compatible_choice" => DeduplicateInsert::BackwardCompatibleChoice,
                _ => DeduplicateInsert::Enable,
            };
            let deduplicate = switch.on(op["insert_deduplicate"].as_i64() != Some(0));
            let settings = InsertSettings { deduplicate, token: token(op), ..InsertSettings::default() };
            let mut parts = Vec::new();
            for (index, block) in blocks(&columns.rows(&op["rows"]), &op["block_rows"]).iter().enumerate() {
                let key = (Table::key(block, &settings), index as u32);
                parts.extend(table.insert(block, key, &settings, fixes).unwrap_or_default());
            }
            got.extend([("add", added(&parts)), ("count", json!(table.rows().count()))]);
        } else {
            let (changed, _) = optimized(&mut table, op);
            got.extend([("add", added(&changed.added)), ("remove", removed(&changed))]);
        }
        pairs.push(beside(op, &got));
    }
    pairs.push((vector["rows"].clone(), columns.show(&columns.names, table.rows().copied())));
    verdict(pairs)
}

fn view(columns: &Columns, def: &Value, names: &[&str]) -> View {
    let window = TableConfig { deduplication_window: int(&def["window"]) as usize, ..TableConfig::default() };
    let (by, amount) = ([columns.column("w"), columns.column("k")], columns.column("amt"));
    let sums = || Target::Sums(MergeTree::new(Summing, window));
    let (query, target) = match text(&def["kind"]) {
        kind @ ("sum" | "net") => (Query::Sum { by, amount, count: kind == "sum" }, sums()),
        "agg" => {
            let (id, version) = (columns.column("id"), columns.column("ver"));
            (Query::Aggregate { by, amount, id, version }, Target::States(MergeTree::new(AggregateStates, window)))
        }
        "chain" => (Query::Resum(1), sums()),
        _ => {
            let engine = columns.engine(RowKind::MergeTree, &json!(["id"]), &Value::Null);
            (Query::Copy, Target::Rows(Table::new(engine, window)))
        }
    };
    View {
        source: names.iter().position(|n| def["source"] == *n).map_or(Source::Base, Source::View),
        filter: def["filter"].as_str().map(|_| (amount, 0)),
        throws_on: def["fails_on_amt"].as_i64().map(|value| (amount, value)),
        query,
        target,
    }
}

/// What a SELECT with sum() and GROUP BY, or the merge of states, reads of a target.
fn read(columns: &Columns, def: &Value, target: &Target, under_final: bool) -> Value {
    let name = |n: i64| columns.texts[n as usize].to_string();
    match target {
        Target::Rows(table) => {
            let names: Vec<String> = ["id", "w", "k", "amt"].map(str::to_owned).into();
            columns.show(&names, table.rows().copied())
        }
        Target::Sums(table) => {
            let rows: Vec<SumRow> =
                if under_final { table.select_final(|_| true) } else { table.rows().copied().collect() };
            let mut groups: BTreeMap<[i64; 2], [i64; 2]> = BTreeMap::new();
            for row in rows {
                groups.entry(row.key).or_default().iter_mut().zip(row.sums).for_each(|(sum, n)| *sum += n);
            }
            let shown = groups.into_iter().map(|(key, [a, b])| match text(&def["kind"]) {
                "sum" => json!([key[0], name(key[1]), a, b]),
                "net" => json!([key[0], name(key[1]), a]),
                _ => json!([name(key[0]), a, b]),
            });
            Value::Array(shown.collect())
        }
        Target::States(table) => {
            let merged = table.select_final(|_| true).into_iter();
            let shown =
                merged.map(|r| json!([r.key[0], name(r.key[1]), r.count, r.sum, r.max, r.unique.len(), r.greatest.1]));
            Value::Array(shown.collect())
        }
    }
}

/// Runs one vector of clickhouse/mv.
pub fn views(vector: &Value, fixes: Fixes) -> Outcome {
    let base = &vector["base"];
    let columns = Columns::new(&base["cols"], &all_rows(vector));
    let engine = columns.engine(columns.kind(text(&base["engine"])), &base["order_by"], &Value::Null);
    let deduplication_window = int(&base["window"]) as usize;
    let table = Table::new(engine, TableConfig { deduplication_window, ..TableConfig::default() });
    let definitions = list(&vector["views"]);
    let names: Vec<&str> = definitions.iter().map(|d| text(&d["name"])).collect();
    let views = definitions.iter().map(|def| view(&columns, def, &names)).collect();
    let mut pipeline = Pipeline { base: table, views };
    // What it decides is not compared: the recording calls it undetermined.
    let mut race = Streams(0).stream(Domain::Process, 0, "views");
    let mut pairs = Vec::new();
    for op in list(&vector["ops"]) {
        let mut got = Vec::new();
        match text(&op["op"]) {
            "insert" => {
                let settings = InsertSettings { token: token(op), ..InsertSettings::default() };
                let (deduplicate, ignore_errors) =
                    (int(&op["dedup_in_views"]) == 1, int(&op["ignore_view_errors"]) == 1);
                let blocks = blocks(&columns.rows(&op["rows"]), &op["block_rows"]);
                let blocks: Vec<&[Row]> = blocks.iter().map(Vec::as_slice).collect();
                let result =
                    pipeline.insert(&blocks, &settings, ViewSettings { deduplicate, ignore_errors }, &mut race, fixes);
                let error = result.map_or_else(|e| json!(e.code()), |()| Value::Null);
                pairs.push((op["error"].clone(), error));
            }
            "optimize" => {
                let failed = match names.iter().position(|n| op["table"] == *n) {
                    Some(view) => pipeline.views[view].target.optimize(),
                    None => pipeline.base.optimize(None, int(&op["final"]) == 1, false).map(drop),
                };
                pairs.push((Value::Null, failed.map_or_else(|e| json!(e.code()), |()| Value::Null)));
            }
            _ => {
                let columns_of = &columns.names;
                let plain = columns.show(columns_of, pipeline.base.rows().copied());
                let under_final = columns.show(columns_of, pipeline.base.select_final(|_| true));
                pairs.push((any_order(&op["b"]), any_order(&plain)));
                pairs.push((any_order(&op["b_final"]), any_order(&under_final)));
                for (view, def) in pipeline.views.iter().zip(definitions) {
                    let plain = read(&columns, def, &view.target, false);
                    let under_final = read(&columns, def, &view.target, true);
                    let name = text(&def["name"]);
                    pairs.push((any_order(&op[name]), any_order(&plain)));
                    let final_name = format!("{name}_final");
                    if !op[&final_name].is_null() {
                        pairs.push((any_order(&op[&final_name]), any_order(&under_final)));
                    }
                }
            }
        }
        if let Some(recorded) = op["counts"].as_object() {
            let mut counts = Map::new();
            for name in recorded.keys() {
                let count = match names.iter().position(|n| n == name) {
                    Some(view) => pipeline.views[view].target.count(),
                    None => pipeline.base.rows().count(),
                };
                counts.insert(name.clone(), json!(count));
            }
            got.push(("counts", Value::Object(counts)));
        }
        pairs.push(beside(op, &got));
    }
    verdict(pairs)
}
