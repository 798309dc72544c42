//! Runner of flink-kafka/upsert.

use crate::harness::{Outcome, compare_lists, int, text};
use model::base::Fixes;
use model::flink::kafka::{KeyedRecord, UpsertBuffer, UpsertSource, record};
use model::flink::operator::{GroupCount, RowKind};
use serde_json::{Value, json};

const KINDS: [(RowKind, &str); 4] =
    [(RowKind::Insert, "+I"), (RowKind::UpdateBefore, "-U"), (RowKind::UpdateAfter, "+U"), (RowKind::Delete, "-D")];
fn kind(name: &str) -> Option<RowKind> {
    KINDS.iter().find(|(_, n)| *n == name).map(|(kind, _)| *kind)
}
fn name(kind: RowKind) -> &'static str {
    KINDS.iter().find(|(k, _)| *k == kind).map_or("", |(_, n)| n)
}

/// The query of a vector, its sink, and what a failure rewinds.
#[derive(Clone)]
struct Job<'a> {
    counts: Option<GroupCount<String>>,
    /// HAVING COUNT(*) < n.
    below: Option<i64>,
    buffer: UpsertBuffer<String, i64>,
    /// How far the input has been read.
    read: usize,
    input: &'a [Value],
}
impl Job<'_> {
    /// A row through the query into the sink.
    fn row(&mut self, item: &Value) -> Vec<KeyedRecord<String, i64>> {
        let Some(kind) = kind(text(&item[0])) else { return Vec::new() };
        let (key, value) = (text(&item[1]).to_owned(), int(&item[2]));
        let mut rows = match &mut self.counts {
            Some(counts) => counts.row(kind, key.clone()),
            None => vec![(kind, value)],
        };
        match self.below {
            Some(below) => rows.retain(|(_, count)| *count < below),
            // Without a filter the planner drops what an update takes away.
            None => rows.retain(|(kind, _)| *kind != RowKind::UpdateBefore),
        }
        rows.into_iter().flat_map(|(kind, value)| self.buffer.row(record(kind, key.clone(), value))).collect()
    }
    /// Reads on up to, not including, item `end`.
    fn read_to(&mut self, end: usize) -> Vec<KeyedRecord<String, i64>> {
        let input = self.input;
        let records = (self.read..end).flat_map(|i| self.row(&input[i])).collect();
        self.read = self.read.max(end);
        records
    }
}

fn sink(vector: &Value, input: &[Value]) -> Vec<Value> {
    let params = &vector["params"];
    let query = text(&params["query"]);
    let below = query.split_once("COUNT(*) < ").and_then(|(_, n)| n.trim().parse().ok());
    let buffer = UpsertBuffer::new(params["buffer"].as_u64().unwrap_or(0) as usize);
    let counts = query.contains("GROUP BY").then(GroupCount::default);
    let mut job = Job { counts, below, buffer, read: 0, input };
    let exactly_once = params["guarantee"] == "exactly-once";
    // Written into the open transaction.
    let mut open = Vec::new();
    let mut checkpoint = job.clone();
    let mut got = Vec::new();
    for (at, item) in input.iter().enumerate() {
        let mut records = Vec::new();
        match text(&item[0]) {
            "ckpt" => {
                records.extend(job.buffer.flush());
                job.read = at + 1;
                checkpoint = job.clone();
            }
            "fail" => {
                // The open transaction is aborted; what follows the checkpoint is written again.
                open.clear();
                job = checkpoint.clone();
                records.extend(job.read_to(at + 1));
            }
            _ => records.extend(job.read_to(at + 1)),
        }
        if exactly_once {
            open.append(&mut records);
            if item[0] == "ckpt" {
                records = std::mem::take(&mut open);
            }
        }
        let shown = |(key, value): KeyedRecord<String, i64>| json!([at, "kafka", key, value.map(|v| v.to_string())]);
        got.extend(records.into_iter().map(shown));
    }
    got
}

fn source(input: &[Value]) -> Vec<Value> {
    let mut source = UpsertSource::default();
    let mut got = Vec::new();
    for (at, item) in input.iter().enumerate() {
        if item[0] == "r" {
            let key = text(&item[1]).to_owned();
            let changes = source.record(key.clone(), item[2].as_str().map(str::to_owned));
            got.extend(changes.into_iter().map(|(kind, value)| json!([at, name(kind), key, value])));
        } else {
            // A snapshot holds the state whole.
            source = source.clone();
        }
    }
    got
}

/// Runs one vector.
pub fn run(vector: &Value, _fixes: Fixes) -> Outcome {
    let input = vector["input"].as_array().map_or(&[][..], Vec::as_slice);
    let got = if vector["op"] == "upsert_sink" { sink(vector, input) } else { source(input) };
    compare_lists(vector["output"].as_array().map_or(&[], Vec::as_slice), &got)
}
