//! Runner of flink-checkpoint/two_phase: pairs of writer and committer.

use crate::harness::{Outcome, compare_lists, int, list};
use model::base::Fixes;
use model::flink::checkpoint::CheckpointId;
use model::flink::sink::{
    Announcement, Answer, CommitFailure, CommitState, Committer, CommitterConfig, CommitterState, WriterGuard,
};
use model::flink::state::{ListState, Mode, repartition};
use serde_json::{Value, json};
use std::collections::BTreeMap;

struct Pair {
    writer: WriterGuard,
    written: Vec<String>,
    committer: Committer<String>,
    dead: bool,
}
/// A complete snapshot: its number, and the state of every committer.
type Snapshot = (CheckpointId, Vec<CommitterState<String>>);

struct Rig<'a> {
    config: CommitterConfig,
    fixes: Fixes,
    answers: &'a Value,
    /// Attempts at each committable, over all incarnations.
    tried: BTreeMap<String, usize>,
    pairs: Vec<Pair>,
    snapshots: Vec<Snapshot>,
    at: usize,
    got: Vec<Value>,
}
impl Rig<'_> {
    fn answer(&mut self, committable: &str) -> &'static str {
        let n = self.tried.entry(committable.to_owned()).or_default();
        *n += 1;
        match self.answers[committable][*n - 1].as_str() {
            Some("retry") => "retry",
            Some("known") => "known",
            Some("unknown") => "unknown",
            Some("already") => "already",
            Some("throw") => "throw",
            _ => "ok",
        }
    }
    /// Makes the calls that the committer wants.
    fn commit(&mut self, sub: usize) {
        while let Some(call) = self.pairs[sub].committer.call() {
            let (mut shown, mut answers) = (Vec::new(), Vec::new());
            for (committable, retries) in call.offered {
                let answer = self.answer(&committable);
                shown.push(json!([committable, answer, retries]));
                answers.push(match answer {
                    "retry" => Answer::Retry,
                    "known" => Answer::KnownReason,
                    "unknown" => Answer::UnknownReason,
                    "throw" => Answer::Threw,
                    _ => Answer::Done,
                });
                if matches!(answer, "unknown" | "throw") {
                    break;
                }
            }
            self.got.push(json!([self.at, "commit", sub, shown]));
            if let Err(why) = self.pairs[sub].committer.answered(&answers, self.fixes) {
                return self.fail(sub, why);
            }
        }
    }
    fn fail(&mut self, sub: usize, why: CommitFailure) {
        let exception = match why {
            CommitFailure::UnknownReason => "IllegalStateException",
            CommitFailure::Io => "IOException",
            CommitFailure::AnnouncedTwice => "UnsupportedOperationException",
        };
        self.got.push(json!([self.at, "task_failed", sub, exception]));
        self.pairs[sub].dead = true;
    }
    /// Hands what the writer announces to its committer.
    fn hand_over(&mut self, sub: usize, what: Announcement) {
        self.got.push(json!([self.at, "summary", what.subtask, what.subtasks, what.checkpoint.0, what.count]));
        let pair = &mut self.pairs[sub];
        if let Err(why) = pair.committer.announced(what) {
            return self.fail(sub, why);
        }
        for committable in pair.written.drain(..) {
            pair.committer.received(what, committable);
        }
    }
    fn checkpoint(&mut self, id: CheckpointId) {
        let mut states = Vec::new();
        for sub in 0..self.pairs.len() {
            let pair = &mut self.pairs[sub];
            if pair.dead {
                continue;
            }
            let count = pair.written.len();
            if let Some(what) = pair.writer.before_barrier(id, self.fixes, || count) {
                self.hand_over(sub, what);
            }
            let pair = &mut self.pairs[sub];
            if pair.dead {
                continue;
            }
            pair.writer.snapshot(id);
            let state = pair.committer.snapshot();
            self.got.push(json!([self.at, "snapshot", id.0, sub, shown(&state)]));
            states.push(state);
        }
        if states.len() == self.pairs.len() {
            self.snapshots.push((id, states));
        }
    }
    fn restart(&mut self, up_to: Option<i64>, parallelism: usize) {
        let from = self.snapshots.iter().rev().find(|(id, _)| up_to.is_some_and(|most| id.0 <= most)).cloned();
        self.got.push(json!([self.at, "restore_from", from.as_ref().map(|(id, _)| id.0)]));
        let id = from.as_ref().map(|(id, _)| *id);
        let states = from.map(|(_, states)| states).unwrap_or_default();
        let old: Vec<_> = states
            .into_iter()
            .map(|s| vec![ListState { name: "committer".into(), mode: Mode::SplitDistribute, elements: vec![s] }])
            .collect();
        let mut parts = if old.is_empty() { vec![Vec::new(); parallelism] } else { repartition(&old, parallelism) };
        self.pairs.clear();
        for (sub, part) in parts.iter_mut().enumerate() {
            let states: Vec<_> = part.drain(..).flat_map(|l| l.elements).collect();
            let committer = match id {
                Some(id) => Committer::restore(self.config, &states, id),
                None => Committer::new(self.config),
            };
            let writer = WriterGuard::new(sub as u32, parallelism as u32, id);
            self.pairs.push(Pair { writer, written: Vec::new(), committer, dead: false });
            self.commit(sub);
            if !self.pairs[sub].dead {
                let state = self.pairs[sub].committer.snapshot();
                self.got.push(json!([self.at, "restored", sub, shown(&state)]));
            }
        }
    }
}

fn shown(state: &CommitterState<String>) -> Value {
    let checkpoints = state.entries().map(|(id, subtasks, from)| {
        let from: Vec<Value> = from
            .map(|(sub, expected, requests)| {
                let requests: Vec<Value> = requests.iter().map(|r| json!([r.committable, name(r.state)])).collect();
                json!([sub, expected, requests])
            })
            .collect();
        json!([id.0, subtasks, from])
    });
    Value::Array(checkpoints.collect())
}
const fn name(state: CommitState) -> &'static str {
    match state {
        CommitState::Received => "RECEIVED",
        CommitState::Retry => "RETRY",
        CommitState::Failed => "FAILED",
        CommitState::Committed => "COMMITTED",
    }
}

/// Runs one vector.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let retries = params["retries"].as_u64().map_or(CommitterConfig::default().retries, |n| n as u32);
    let config = CommitterConfig { retries, checkpointing: params["checkpointing"] != false };
    let parallelism = int(&params["parallelism"]) as usize;
    let pair = |sub| Pair {
        writer: WriterGuard::new(sub as u32, parallelism as u32, None),
        written: Vec::new(),
        committer: Committer::new(config),
        dead: false,
    };
    let pairs = (0..parallelism).map(pair).collect();
    let (tried, snapshots, got) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut rig = Rig { config, fixes, answers: &params["answers"], tried, pairs, snapshots, at: 0, got };
    for (at, item) in list(&vector["input"]).iter().enumerate() {
        rig.at = at;
        let first = int(&item[1]);
        match item[0].as_str().unwrap_or_default() {
            "e" if !rig.pairs[first as usize].dead => {
                rig.pairs[first as usize].written.push(item[2].as_str().unwrap_or_default().to_owned());
            }
            "ckpt" => rig.checkpoint(CheckpointId(first)),
            "complete" => {
                let told = item[2].as_array().map(|subs| subs.iter().map(|s| int(s) as usize).collect::<Vec<_>>());
                for sub in told.unwrap_or_else(|| (0..rig.pairs.len()).collect()) {
                    if !rig.pairs[sub].dead {
                        rig.pairs[sub].committer.complete(CheckpointId(first));
                        rig.commit(sub);
                    }
                }
            }
            "end" => {
                let pair = &mut rig.pairs[first as usize];
                if !pair.dead {
                    let count = pair.written.len();
                    let what = pair.writer.end(fixes, || count);
                    rig.hand_over(first as usize, what);
                    rig.pairs[first as usize].committer.end();
                    rig.commit(first as usize);
                }
            }
            "restart" => rig.restart(item[1].as_i64(), int(&item[2]) as usize),
            _ => {}
        }
    }
    compare_lists(list(&vector["output"]), &rig.got)
}
