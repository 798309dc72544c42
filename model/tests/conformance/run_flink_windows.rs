//! Runners of flink: windows of the DataStream API (tumbling, sliding, session, multi_source), and deduplication.

use crate::harness::{Outcome, compare_lists, int, text};
use crate::run_flink_sql::pane_shown;
use model::base::Fixes;
use model::flink::operator::{Accumulator, Assigner, KeepFirst, Late, Pane, RowKind, WindowOperator};
use model::flink::watermark::{Signal, Valve};
use serde_json::{Value, json};

fn items(vector: &Value) -> impl Iterator<Item = (usize, &Value)> {
    vector["input"].as_array().into_iter().flatten().enumerate()
}

/// The sum of a window's values, and which elements they came with.
#[derive(Clone, Default)]
pub struct Content {
    /// The sum.
    pub sum: i64,
    /// The elements.
    pub elements: Vec<usize>,
}
impl Accumulator for Content {
    type Value = (i64, usize);
    fn add(&mut self, (value, element): &(i64, usize)) {
        self.sum += value;
        self.elements.push(*element);
    }
    fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.elements.extend(other.elements);
    }
}

/// Sources, the channels between, and the operator.
struct Job {
    assigner: Assigner,
    lateness: i64,
    sources: usize,
    valve: Valve,
    idle: Vec<bool>,
    operator: WindowOperator<String, Content>,
    at: usize,
    got: Vec<Value>,
    fixes: Fixes,
}
impl Job {
    fn fired(&mut self, panes: Vec<Pane<String, Content>>) {
        let at = self.at;
        self.got.extend(panes.into_iter().map(|pane| pane_shown(at, pane)));
    }
    fn signal(&mut self, signal: Signal) {
        let watermark = match signal {
            Signal::Idle => return self.got.push(json!([self.at, "idle"])),
            Signal::Active => return self.got.push(json!([self.at, "active"])),
            Signal::Watermark(watermark) => watermark,
        };
        let mut panes = Vec::new();
        self.operator.watermark(watermark, &mut panes);
        // The order of keys is no promise.
        panes.sort_by(|a, b| (a.window, &a.key).cmp(&(b.window, &b.key)));
        self.fired(panes);
        self.got.push(json!([self.at, "wm", watermark]));
    }
    /// Whatever an idle source sends makes it active first.
    fn wake(&mut self, source: usize) {
        if std::mem::replace(&mut self.idle[source], false) {
            let signals = self.valve.status(source, true);
            signals.into_iter().flatten().for_each(|signal| self.signal(signal));
        }
    }
    fn watermark(&mut self, source: usize, watermark: i64) {
        self.wake(source);
        if let Some(signal) = self.valve.watermark(source, watermark) {
            self.signal(signal);
        }
    }
    fn item(&mut self, item: &Value) {
        let source = |place: usize| if self.sources > 1 { int(&item[place]) as usize } else { 0 };
        match text(&item[0]) {
            "e" => {
                self.wake(source(4));
                let mut panes = Vec::new();
                let value = (int(&item[2]), self.at);
                let late = self.operator.element(&text(&item[1]).to_owned(), int(&item[3]), &value, &mut panes);
                self.fired(panes);
                if late == Late(true) {
                    self.got.push(json!([self.at, "late"]));
                }
            }
            "w" => self.watermark(source(2), int(&item[1])),
            "idle" => {
                let source = source(1);
                self.idle[source] = true;
                let signals = self.valve.status(source, false);
                signals.into_iter().flatten().for_each(|signal| self.signal(signal));
            }
            "snap" => {
                let state = self.operator.snapshot();
                self.operator = WindowOperator::restore(self.assigner, self.lateness, &[state], |_| true, self.fixes);
                self.valve = Valve::new(self.sources, self.fixes);
                self.idle.fill(false);
            }
            _ => {
                (0..self.sources).for_each(|source| self.watermark(source, i64::MAX));
                if self.sources > 1 {
                    // Of the watermarks at the end only the last is kept.
                    let end = |v: &Value| v[0] == self.at && v[1] == "wm";
                    let last = self.got.iter().rposition(end);
                    let mut place = 0..;
                    self.got.retain(|v| place.next() == last || !end(v));
                }
            }
        }
    }
}

/// Runs one vector of a DataStream window.
pub fn data_stream(vector: &Value, fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let number = |key: &str| int(&params[key]);
    let (size, offset) = (number("size"), number("offset"));
    let assigner = match text(&vector["op"]) {
        "ds_tumbling" => Assigner::Tumbling { size, offset },
        "ds_sliding" => Assigner::Sliding { size, slide: number("slide"), offset },
        _ => Assigner::Session { gap: number("gap") },
    };
    let lateness = number("lateness");
    let sources = number("sources").max(1) as usize;
    let operator = WindowOperator::new(assigner, lateness, fixes);
    let (valve, idle, got) = (Valve::new(sources, fixes), vec![false; sources], Vec::new());
    let mut job = Job { assigner, lateness, sources, valve, idle, operator, at: 0, got, fixes };
    for (at, item) in items(vector) {
        job.at = at;
        job.item(item);
    }
    compare_lists(vector["output"].as_array().map_or(&[], Vec::as_slice), &job.got)
}

/// Runs one vector of flink/dedup.
pub fn dedup(vector: &Value, _fixes: Fixes) -> Outcome {
    let mut operator = KeepFirst::new(vector["op"] == "sql_dedup_rowtime");
    let mut got = Vec::new();
    for (at, item) in items(vector) {
        match text(&item[0]) {
            "e" => {
                let changes = operator.row(text(&item[1]), int(&item[3]), at);
                got.extend(changes.into_iter().flatten().map(|(kind, row)| match kind {
                    RowKind::Insert => json!([at, "+I", row]),
                    RowKind::UpdateBefore => json!([at, "-U", row]),
                    RowKind::UpdateAfter => json!([at, "+U", row]),
                    RowKind::Delete => json!([at, "-D", row]),
                }));
            }
            // A snapshot holds the state whole.
            "snap" => operator = operator.clone(),
            _ => {}
        }
    }
    compare_lists(vector["output"].as_array().map_or(&[], Vec::as_slice), &got)
}
