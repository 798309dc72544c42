//! Runners of flink: window aggregates of SQL (sql, sql_parallel, and those of restore), with the late filter beside them.

use crate::harness::{Outcome, compare_lists, int, text};
use crate::run_flink_windows::{Content, data_stream};
use model::base::{Fixes, Millis};
use model::flink::operator::{
    Assigner, LocalWindowAggregate, Pane, SessionAggregate, Slices, WindowAggregate, WindowOperator,
};
use model::flink::watermark::{Emitter, Signal, SqlAssigner, Valve};
use serde_json::{Value, json};

/// The operator that owns the windows.
#[derive(Clone)]
enum Windows {
    Sliced(WindowAggregate<String, Content>),
    Session(SessionAggregate<String, Content>),
    /// The older `GROUP BY TUMBLE(…)`: as in the DataStream API, late rows dropped.
    Group(WindowOperator<String, Content>),
}

/// A source subtask with what is chained to it.
struct Source {
    /// `WATERMARK FOR ts AS ts - delay`; none: the source's own watermarks.
    assigner: Option<SqlAssigner>,
    emitter: Emitter,
    /// What CURRENT_WATERMARK gives in the late filter.
    current: Option<i64>,
    local: Option<LocalWindowAggregate<String, Content>>,
}

struct Job<'a> {
    params: &'a Value,
    op: &'a str,
    fixes: Fixes,
    sources: Vec<Source>,
    valve: Valve,
    windows: Windows,
    at: usize,
    /// What the item led to, by its place in the listing.
    out: [Vec<Value>; 5],
    panes: Vec<Pane<String, Content>>,
}
const CW: usize = 0;
const LATE: usize = 1;
const FIRE: usize = 2;
const SOURCE_WATERMARK: usize = 3;
const WATERMARK: usize = 4;

impl<'a> Job<'a> {
    fn new(vector: &'a Value, fixes: Fixes) -> Self {
        let (params, op) = (&vector["params"], text(&vector["op"]));
        let mut job = Self {
            params,
            op,
            fixes,
            sources: Vec::new(),
            valve: Valve::new(0, fixes),
            windows: Windows::Group(WindowOperator::new(Assigner::Session { gap: 1 }, 0, fixes)),
            at: 0,
            out: Default::default(),
            panes: Vec::new(),
        };
        job.windows = match op {
            "sql_session" => Windows::Session(SessionAggregate::new(int(&params["gap"]), fixes)),
            "sql_group_tumble" | "sql_group_session" => Windows::Group(WindowOperator::new(job.group(), 0, fixes)),
            _ => Windows::Sliced(WindowAggregate::new(job.slices(), fixes)),
        };
        job.deploy();
        job
    }
    fn slices(&self) -> Slices {
        let size = int(&self.params["size"]);
        match self.op {
            "sql_hop" => Slices::Hop { size, slide: int(&self.params["slide"]) },
            "sql_cumulate" => Slices::Cumulate { size, step: int(&self.params["step"]) },
            _ => Slices::Tumble { size },
        }
    }
    fn group(&self) -> Assigner {
        match self.op {
            "sql_group_tumble" => Assigner::Tumbling { size: int(&self.params["size"]), offset: 0 },
            _ => Assigner::Session { gap: int(&self.params["gap"]) },
        }
    }
    /// Everything that keeps nothing over a restore.
    fn deploy(&mut self) {
        let sources = int(&self.params["sources"]).max(1) as usize;
        let delay = self.params["delay"].as_i64();
        let two_phase = self.params["phases"] == 2;
        let source = |_| Source {
            assigner: delay.map(|delay| SqlAssigner::new(Millis(delay), Millis::ZERO, None, self.fixes)),
            emitter: Emitter::default(),
            current: None,
            local: two_phase.then(|| LocalWindowAggregate::new(self.slices())),
        };
        self.sources = (0..sources).map(source).collect();
        self.valve = Valve::new(sources, self.fixes);
    }
    fn row(&mut self, source: usize, key: &str, value: i64, timestamp: i64) {
        let current = self.sources[source].current;
        self.out[CW].push(json!([self.at, "cw", current]));
        if matches!(self.op, "sql_tumble" | "sql_group_tumble") {
            let size = int(&self.params["size"]);
            let end = timestamp - timestamp.rem_euclid(size) + size;
            if current.is_some_and(|current| end - 1 <= current) {
                self.out[LATE].push(json!([self.at, "late"]));
            }
        }
        let (key, value) = (key.to_owned(), (value, self.at));
        match (&mut self.sources[source].local, &mut self.windows) {
            (Some(local), _) => local.row(key, timestamp, &value),
            (None, Windows::Sliced(windows)) => {
                windows.row(key, timestamp, &value);
            }
            (None, Windows::Session(windows)) => {
                windows.row(&key, timestamp, &value);
            }
            (None, Windows::Group(windows)) => {
                windows.element(&key, timestamp, &value, &mut self.panes);
            }
        }
        let assigner = &mut self.sources[source].assigner;
        if let Some(Signal::Watermark(watermark)) = assigner.as_mut().and_then(|a| a.row(timestamp, Millis::ZERO)[1]) {
            self.watermark(source, watermark);
        }
    }
    /// A watermark passes what is chained to the source, and the exchange.
    fn watermark(&mut self, source: usize, watermark: i64) {
        let chained = &mut self.sources[source];
        if !chained.emitter.signal(Signal::Watermark(watermark)).contains(&Some(Signal::Watermark(watermark))) {
            return;
        }
        if chained.assigner.is_some() {
            self.out[SOURCE_WATERMARK].push(json!([self.at, "src_wm", watermark]));
        }
        chained.current = Some(watermark);
        let mut partials = Vec::new();
        if let Some(local) = &mut chained.local {
            local.watermark(watermark, &mut partials);
        }
        self.partials(partials);
        let Some(Signal::Watermark(watermark)) = self.valve.watermark(source, watermark) else { return };
        let forwarded = match &mut self.windows {
            Windows::Sliced(windows) => windows.watermark(watermark, &mut self.panes),
            Windows::Session(windows) => windows.watermark(watermark, &mut self.panes),
            Windows::Group(windows) => {
                windows.watermark(watermark, &mut self.panes);
                watermark
            }
        };
        self.out[WATERMARK].push(json!([self.at, "wm", forwarded]));
    }
    fn partials(&mut self, partials: Vec<model::flink::operator::Partial<String, Content>>) {
        if let Windows::Sliced(windows) = &mut self.windows {
            partials.into_iter().for_each(|partial| {
                windows.partial(partial);
            });
        }
    }
    fn barrier(&mut self) {
        for source in 0..self.sources.len() {
            let mut partials = Vec::new();
            if let Some(local) = &mut self.sources[source].local {
                local.before_barrier(&mut partials);
            }
            self.partials(partials);
        }
        if let Windows::Sliced(windows) = &mut self.windows {
            windows.before_barrier();
        }
    }
    fn restore(&mut self) {
        self.barrier();
        self.windows = match &self.windows {
            Windows::Sliced(windows) => {
                let state = [windows.snapshot()];
                Windows::Sliced(WindowAggregate::restore(self.slices(), &state, |_| true, self.fixes))
            }
            Windows::Session(windows) => {
                let state = [windows.snapshot()];
                Windows::Session(SessionAggregate::restore(int(&self.params["gap"]), &state, |_| true, self.fixes))
            }
            Windows::Group(windows) => {
                Windows::Group(WindowOperator::restore(self.group(), 0, &[windows.snapshot()], |_| true, self.fixes))
            }
        };
        self.deploy();
    }
    fn item(&mut self, item: &Value) {
        let source = |place: usize| if self.sources.len() > 1 { int(&item[place]) as usize } else { 0 };
        match text(&item[0]) {
            "e" => self.row(source(4), text(&item[1]), int(&item[2]), int(&item[3])),
            "w" => self.watermark(source(2), int(&item[1])),
            "ckpt" => self.barrier(),
            "snap" => self.restore(),
            _ => {
                (0..self.sources.len()).for_each(|source| self.watermark(source, i64::MAX));
                if self.sources.len() > 1 {
                    let last = self.out[WATERMARK].pop();
                    self.out[WATERMARK] = last.into_iter().collect();
                }
            }
        }
    }
    fn tell(&mut self, got: &mut Vec<Value>) {
        // The order of keys is no promise.
        self.panes.sort_by(|a, b| (a.window, &a.key).cmp(&(b.window, &b.key)));
        let at = self.at;
        let fired = self.panes.drain(..).map(|pane| pane_shown(at, pane));
        self.out[FIRE].extend(fired);
        if self.sources.len() > 1 {
            // Watermarks of source subtasks are not listed.
            self.out[SOURCE_WATERMARK].clear();
        }
        self.out.iter_mut().for_each(|list| got.append(list));
    }
}

/// A firing as it is listed.
pub fn pane_shown(at: usize, pane: Pane<String, Content>) -> Value {
    let Pane { key, window, mut content } = pane;
    content.elements.sort_unstable();
    let (count, sum) = (content.elements.len(), content.sum);
    json!([at, "fire", key, window.start, window.end, count, sum, content.elements])
}

/// Runs one vector of flink/sql or sql_parallel.
pub fn sql(vector: &Value, fixes: Fixes) -> Outcome {
    let mut job = Job::new(vector, fixes);
    let mut got = Vec::new();
    for (at, item) in vector["input"].as_array().into_iter().flatten().enumerate() {
        job.at = at;
        job.item(item);
        job.tell(&mut got);
    }
    compare_lists(vector["output"].as_array().map_or(&[], Vec::as_slice), &got)
}

/// Runs one vector of flink/restore, whichever operator it is about.
pub fn restore(vector: &Value, fixes: Fixes) -> Outcome {
    if text(&vector["op"]).starts_with("ds_") { data_stream(vector, fixes) } else { sql(vector, fixes) }
}
