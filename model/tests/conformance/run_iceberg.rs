//! Runner of iceberg: committers of Flink's sinks and other clients on one table, with a catalog that fails as it is told.

use crate::harness::{Outcome, compare_lists, int, list, text};
use crate::iceberg_client::{Names, operation};
use crate::iceberg_view::View;
use model::base::{Fixes, Millis, Row};
use model::flink::checkpoint::CheckpointId;
use model::flink::sink::{Announcement, Answer, Committer, CommitterConfig, CommitterState};
use model::store::iceberg::{
    Catalog, CatalogKind, Commit, DataFile, DeltaWriter, Exception, FileName, Files, FilesCommitter,
    FilesCommitterState, IcebergCommittable, IcebergCommitter, Key, MAIN, Mint, Next, RowKind, SinkConfig, Snapshot,
    Swap, SwapError, Table, TableMetadata, WriteAggregator, WriteResult, rows,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The operators of IcebergSink that commit.
pub(crate) struct SinkV2 {
    aggregator: WriteAggregator,
    pub(crate) operator: Committer<IcebergCommittable>,
    committer: IcebergCommitter,
}
/// The committing side of a sink.
pub(crate) enum Sink {
    V1(Box<FilesCommitter>),
    V2(Box<SinkV2>),
}
#[derive(Clone)]
enum State {
    V1(FilesCommitterState),
    V2(CommitterState<IcebergCommittable>),
}
struct Client {
    table: Table,
    commit: Commit,
}

pub(crate) struct Rig {
    params: Value,
    fixes: Fixes,
    pub(crate) now: Millis,
    pub(crate) catalog: Catalog,
    pub(crate) files: Files,
    pub(crate) names: Names,
    /// The running incarnation; none while it is inside a call, or dead.
    pub(crate) sink: Option<Sink>,
    pub(crate) dead: bool,
    incarnation: u32,
    states: BTreeMap<i64, State>,
    writers: Vec<DeltaWriter>,
    faults: BTreeMap<String, VecDeque<Value>>,
    late: VecDeque<Swap>,
    clients: BTreeMap<String, Client>,
    mints: u32,
    pub(crate) data_deleted: Vec<FileName>,
    at: usize,
    pub(crate) got: Vec<Value>,
}

impl Rig {
    fn event(&mut self, what: Value) {
        let mut item = vec![json!(self.at)];
        item.extend(list(&what).iter().cloned());
        self.got.push(Value::Array(item));
    }
    pub(crate) fn mint(&mut self) -> Mint {
        self.mints += 1;
        Mint::new(self.mints)
    }
    fn sink_config(&mut self, job: &str, operator: &str) -> SinkConfig {
        SinkConfig {
            job: self.names.number(job),
            operator: self.names.number(operator),
            branch: self.params["branch"].as_str().unwrap_or(MAIN).into(),
            replace_partitions: int(&self.params["overwrite"]) == 1,
        }
    }
    fn start(&mut self, from: Option<i64>, job: &str, operator: &str) {
        let Some(kind) = self.params["sink"].as_str().map(str::to_owned) else { return };
        self.incarnation += 1;
        self.dead = false;
        let upsert = int(&self.params["upsert"]) == 1;
        self.writers = (0..int(&self.params["writers"]))
            .map(|_| {
                self.mints += 1;
                DeltaWriter::new(self.mints, upsert)
            })
            .collect();
        let config = self.sink_config(job, operator);
        let table = Table::new(self.catalog.load());
        let state = from.and_then(|n| self.states.get(&n).cloned());
        self.sink = Some(if kind == "v1" {
            let state = match &state {
                Some(State::V1(state)) => Some(state),
                _ => None,
            };
            Sink::V1(Box::new(FilesCommitter::new(config, table, self.mint(), state, self.fixes)))
        } else {
            let operator = match (&state, from) {
                (Some(State::V2(state)), Some(n)) => {
                    Committer::restore(CommitterConfig::default(), std::slice::from_ref(state), CheckpointId(n))
                }
                _ => Committer::new(CommitterConfig::default()),
            };
            let aggregator = WriteAggregator::new(&config, self.mint());
            let committer = IcebergCommitter::new(config, table, self.mint());
            Sink::V2(Box::new(SinkV2 { aggregator, operator, committer }))
        });
        self.work();
    }
    /// The sink makes the commits that it wants to make. Meanwhile another incarnation may take its place.
    fn work(&mut self) {
        let (Some(mut sink), incarnation) = (self.sink.take(), self.incarnation) else { return };
        let result = match &mut sink {
            Sink::V1(committer) => self.work_v1(committer),
            Sink::V2(sink) => self.work_v2(sink),
        };
        if let Err(why) = result {
            self.event(json!(["failed", "sink", why.class()]));
        }
        if self.incarnation == incarnation {
            self.dead = result.is_err();
            self.sink = result.is_ok().then_some(sink);
        }
    }
    fn work_v1(&mut self, committer: &mut FilesCommitter) -> Result<(), Exception> {
        while committer.next(&mut self.files, self.fixes)?.is_some() {
            let Some((commit, table)) = committer.at_work() else { break };
            self.drive("sink", commit, table)?;
            committer.committed();
        }
        Ok(())
    }
    fn work_v2(&mut self, sink: &mut SinkV2) -> Result<(), Exception> {
        while let Some(call) = sink.operator.call() {
            let offered: Vec<_> = call.offered.into_iter().map(|(c, _)| c).collect();
            let answers = vec![Answer::Done; offered.len()];
            sink.committer.commit(offered);
            loop {
                if sink.committer.next(&mut self.files, self.fixes)?.is_none() {
                    break;
                }
                let Some((commit, table)) = sink.committer.at_work() else { break };
                self.drive("sink", commit, table)?;
                sink.committer.committed();
            }
            sink.operator.answered(&answers, self.fixes).map_err(|_| Exception::IllegalState)?;
        }
        Ok(())
    }
    /// A commit from its first attempt to its end.
    fn drive(&mut self, who: &str, commit: &mut Commit, table: &mut Table) -> Result<(), Exception> {
        loop {
            self.now = self.now + Millis(1);
            table.refreshed(self.catalog.load());
            let Some(swap) = commit.attempt(table, &mut self.files, self.now, self.fixes)? else { break };
            let answer = self.swap(who, swap);
            if commit.answered(answer, table, &mut self.files, self.now, self.fixes)? == Next::Done {
                table.refreshed(self.catalog.load());
                commit.finish(table, &mut self.files);
                break;
            }
        }
        self.data_deleted.extend(commit.expiry().into_iter().flat_map(|e| e.deleted()));
        Ok(())
    }
    fn swap(&mut self, who: &str, swap: Swap) -> Result<(), SwapError> {
        let fault = self.faults.get_mut(who).and_then(VecDeque::pop_front).unwrap_or_default();
        let kind = text(&fault[0]).to_owned();
        let answer = match kind.as_str() {
            "fail" => Err(SwapError::CommitFailed),
            "unknown" => Err(SwapError::Unknown),
            "late" => {
                self.late.push_back(swap);
                Err(SwapError::Unknown)
            }
            "error" => Err(SwapError::Io),
            "forbidden" => Err(SwapError::Forbidden),
            "unavailable" => Err(SwapError::Unavailable),
            _ => {
                for item in list(&fault[1]) {
                    self.item(item);
                }
                let landed = self.catalog.swap(swap, self.fixes);
                let shown = match (kind.as_str(), landed) {
                    ("landed_unknown" | "landed_fail", Ok(())) => kind.as_str(),
                    (_, Ok(())) => "ok",
                    (_, Err(_)) => "conflict",
                };
                if who != "other" {
                    self.event(json!(["swap", who, shown]));
                }
                return match (shown, landed) {
                    ("landed_unknown", _) => Err(SwapError::Unknown),
                    ("landed_fail", _) => Err(SwapError::CommitFailed),
                    _ => landed,
                };
            }
        };
        self.event(json!(["swap", who, kind]));
        answer
    }
    fn client(&mut self, kind: &str, what: &Value) -> Result<Client, Exception> {
        let mut table = Table::new(self.catalog.load());
        let partitioned = int(&self.params["partitioned"]) == 1;
        let commit = operation(self, &mut table, kind, what, partitioned)?;
        Ok(Client { table, commit })
    }
    fn run_client(&mut self, who: &str, mut client: Client) {
        match self.drive(who, &mut client.commit, &mut client.table) {
            Ok(()) if who != "other" => self.event(json!(["done", who])),
            Ok(()) => {}
            Err(why) => self.event(json!(["failed", who, why.class()])),
        }
        self.clients.insert(who.to_owned(), client);
    }
    fn barrier(&mut self, n: i64) {
        for writer in 0..self.writers.len() {
            let result = self.writers[writer].close(&mut self.files);
            self.written(n, result);
        }
    }
    fn written(&mut self, n: i64, result: WriteResult) {
        match &mut self.sink {
            Some(Sink::V1(committer)) => committer.written(n, result),
            Some(Sink::V2(sink)) => sink.aggregator.written(result),
            None => {}
        }
    }
    fn announce(sink: &mut SinkV2, committable: IcebergCommittable) {
        let checkpoint = CheckpointId(committable.checkpoint);
        let what = Announcement { subtask: 0, subtasks: 1, checkpoint, count: 1 };
        if sink.operator.announced(what).is_ok() {
            sink.operator.received(what, committable);
        }
    }
    fn item(&mut self, item: &Value) {
        match text(&item[0]) {
            "write" => {
                let partitioned = int(&self.params["partitioned"]) == 1;
                let mut close = |all: &Value| -> Vec<DataFile> {
                    list(all).iter().map(|f| self.names.file(text(f), partitioned, &mut self.files)).collect()
                };
                let result = WriteResult { data: close(&item[2]), deletes: close(&item[3]) };
                self.written(int(&item[1]), result);
            }
            "row" => {
                let kind = match text(&item[2]) {
                    "+I" => RowKind::Insert,
                    "-U" => RowKind::UpdateBefore,
                    "+U" => RowKind::UpdateAfter,
                    _ => RowKind::Delete,
                };
                let data = self.names.number(text(&item[4])) as i64;
                let row = Row { key: int(&item[3]) as u64, cols: [data, 0, 0, 0], ..Row::default() };
                if self.sink.is_some() {
                    self.writers[int(&item[1]) as usize].row(kind, row);
                }
            }
            "ckpt" => {
                let n = int(&item[1]);
                self.barrier(n);
                let state = match &mut self.sink {
                    Some(Sink::V1(committer)) => State::V1(committer.snapshot(n, &mut self.files, self.fixes)),
                    Some(Sink::V2(sink)) => {
                        let committable = sink.aggregator.prepare(n, &mut self.files);
                        Self::announce(sink, committable);
                        State::V2(sink.operator.snapshot())
                    }
                    None => return,
                };
                self.states.insert(n, state);
            }
            "complete" => {
                let n = int(&item[1]);
                match &mut self.sink {
                    Some(Sink::V1(committer)) => committer.complete(n, self.fixes),
                    Some(Sink::V2(sink)) => sink.operator.complete(CheckpointId(n)),
                    None => return,
                }
                self.work();
            }
            "end" => {
                self.barrier(i64::MAX);
                match &mut self.sink {
                    Some(Sink::V1(committer)) => committer.end_input(&mut self.files),
                    Some(Sink::V2(sink)) => {
                        let committable = sink.aggregator.finish(&mut self.files);
                        Self::announce(sink, committable);
                        sink.operator.end();
                    }
                    None => return,
                }
                self.work();
            }
            "restart" => {
                self.sink = None;
                self.start(item[1].as_i64(), text(&item[2]), text(&item[3]));
            }
            "fault" => {
                let fault = json!([item[2], item[3]]);
                self.faults.entry(text(&item[1]).to_owned()).or_default().push_back(fault);
            }
            "late" => {
                let outcome = match self.late.pop_front().map(|swap| self.catalog.swap(swap, self.fixes)) {
                    None => "none",
                    Some(Ok(())) => "landed",
                    Some(Err(_)) => "refused",
                };
                self.event(json!(["late", outcome]));
            }
            "do" => match self.client(text(&item[1]), &item[2]) {
                Ok(client) => self.run_client("other", client),
                Err(why) => self.event(json!(["failed", "other", why.class()])),
            },
            "begin" => match self.client(text(&item[2]), &item[3]) {
                Ok(client) => {
                    self.clients.insert(text(&item[1]).to_owned(), client);
                }
                Err(why) => self.event(json!(["failed", item[1], why.class()])),
            },
            "commit" => {
                let who = text(&item[1]);
                if let Some(client) = self.clients.remove(who) {
                    self.run_client(who, client);
                }
            }
            "age" => {
                let mut metadata: TableMetadata = (*self.catalog.load().1).clone();
                for (n, hours) in item[1].as_object().into_iter().flatten() {
                    let id = self.names.snapshot(n.parse().unwrap_or(0));
                    if let Some(snapshot) = metadata.snapshots.get_mut(&id) {
                        let time = Millis(self.now.0 - int(hours) * 3_600_000);
                        *snapshot = Arc::new(Snapshot { time, ..(**snapshot).clone() });
                    }
                }
                self.catalog.set(metadata);
            }
            "clean_temp" => {
                let all: Vec<Key> = self.files.keys().filter(|k| matches!(k, Key::Temporary(..))).copied().collect();
                for key in all {
                    self.files.delete(&key);
                }
            }
            _ => {
                let (_, metadata) = self.catalog.load();
                let of = match item[1].as_i64() {
                    Some(n) => metadata.snapshot(self.names.snapshot(n)),
                    None => metadata.current(),
                };
                let shown = match of.map(|s| rows(s, &self.files)) {
                    Some(Err(why)) => json!(why.class()),
                    found => {
                        let found = found.and_then(Result::ok).unwrap_or_default();
                        let mut found: Vec<_> =
                            found.iter().map(|r| (r.key, self.names.name(r.cols[0] as u64).to_owned())).collect();
                        found.sort();
                        json!(found)
                    }
                };
                self.event(json!(["rows", shown]));
            }
        }
    }
}

/// Runs one vector of the iceberg families.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let mut metadata = TableMetadata::default();
    for (key, value) in params["props"].as_object().into_iter().flatten() {
        metadata.properties.insert(key.as_str().into(), text(value).into());
    }
    let mut rig = Rig {
        params: params.clone(),
        fixes,
        now: Millis(1_000_000_000_000),
        catalog: Catalog::new(CatalogKind::Pointer, metadata),
        files: Files::default(),
        names: Names::default(),
        sink: None,
        dead: false,
        incarnation: 0,
        states: BTreeMap::new(),
        writers: Vec::new(),
        faults: BTreeMap::new(),
        late: VecDeque::new(),
        clients: BTreeMap::new(),
        mints: 0,
        data_deleted: Vec::new(),
        at: 0,
        got: Vec::new(),
    };
    let mut view = View::new(!params["writers"].is_null());
    rig.start(None, "A", "x");
    view.look(&mut rig, -1);
    for (at, item) in list(&vector["input"]).iter().enumerate() {
        rig.at = at;
        rig.now = rig.now + Millis(5);
        rig.item(item);
        view.look(&mut rig, at as i64);
    }
    compare_lists(list(&vector["output"]), &rig.got)
}
