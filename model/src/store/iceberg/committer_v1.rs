//! FlinkSink's committer (`IcebergFilesCommitter`): one operator that collects files and commits them.

use super::commit::Commit;
use super::error::Exception;
use super::file::Files;
use super::flink::{
    Batch, DeltaManifests, END_OF_INPUT, NO_CHECKPOINT, Planner, SinkConfig, WriteResult, max_committed,
};
use super::table::{Mint, Table};
use crate::base::{Fix, Fixes};
use std::collections::BTreeMap;

/// Its operator state. The greatest committed checkpoint is not in it; that is looked up in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesCommitterState {
    /// Job that wrote it.
    pub job: u64,
    /// What is not committed, by checkpoint; none: nobody reported anything.
    pub pending: BTreeMap<i64, Option<DeltaManifests>>,
}

/// `commitUpToCheckpoint` under way.
#[derive(Clone, Debug)]
struct Call {
    pending: BTreeMap<i64, Option<DeltaManifests>>,
    job: u64,
    id: i64,
    /// Restored files are in no map of this incarnation.
    restored: bool,
    /// What the greatest committed checkpoint is afterwards.
    then: Option<i64>,
    batch: Option<Batch>,
}

/// The operator. While [`Self::next`] has a commit, its task does nothing else.
#[derive(Clone, Debug)]
pub struct FilesCommitter {
    planner: Planner,
    table: Table,
    max_committed: i64,
    pending: BTreeMap<i64, Option<DeltaManifests>>,
    results: BTreeMap<i64, Vec<WriteResult>>,
    call: Option<Call>,
}

impl FilesCommitter {
    /// An incarnation on a table that was just loaded. Restored files above what the job of the state has committed, under this
    /// operator's id, are committed at once, under that job's id; without state nothing is looked up (I8).
    pub fn new(
        config: SinkConfig,
        table: Table,
        mint: Mint,
        state: Option<&FilesCommitterState>,
        fixes: Fixes,
    ) -> Self {
        let (mut max, mut call) = (NO_CHECKPOINT, None);
        if let Some(state) = state {
            let job = if fixes.has(Fix::RestoredKeepJobId) { state.job } else { config.job };
            max = max_committed(table.metadata(), &config.branch, job, config.operator, fixes);
            let open = |(id, files): (&i64, &Option<DeltaManifests>)| (*id > max).then_some((*id, *files));
            let pending: BTreeMap<_, _> = state.pending.iter().filter_map(open).collect();
            let last = pending.last_key_value().map(|(id, _)| *id);
            call = last.map(|id| Call { pending, job, id, restored: true, then: None, batch: None });
        }
        let planner = Planner::new(config, mint);
        Self { planner, table, max_committed: max, pending: BTreeMap::new(), results: BTreeMap::new(), call }
    }
    /// A writer has closed files for a checkpoint.
    pub fn written(&mut self, checkpoint: i64, result: WriteResult) {
        self.results.entry(checkpoint).or_default().push(result);
    }
    /// Its snapshot at a barrier: what has come is listed in temporary manifests, each checkpoint for itself, also one that was
    /// aborted in between (Iceberg 10526).
    pub fn snapshot(&mut self, checkpoint: i64, files: &mut Files, fixes: Fixes) -> FilesCommitterState {
        if !fixes.has(Fix::ResultsByCheckpoint) {
            let all: Vec<_> = std::mem::take(&mut self.results).into_values().flatten().collect();
            if !all.is_empty() {
                self.results.insert(checkpoint, all);
            }
        }
        self.list(checkpoint, files);
        FilesCommitterState { job: self.planner.config.job, pending: self.pending.clone() }
    }
    fn list(&mut self, checkpoint: i64, files: &mut Files) {
        self.pending.insert(checkpoint, None);
        for (id, results) in std::mem::take(&mut self.results) {
            let manifests = DeltaManifests::write(&WriteResult::merged(results), &mut self.planner.mint, files);
            self.pending.insert(id, Some(manifests));
        }
    }
    /// The checkpoint is complete. One that is not above the greatest committed is skipped, and what is pending below it waits
    /// for the next that is.
    pub fn complete(&mut self, checkpoint: i64, fixes: Fixes) {
        if checkpoint > self.max_committed || !fixes.has(Fix::OldNotificationsSkipped) {
            self.commit_up_to(checkpoint, Some(checkpoint));
        }
    }
    /// The end of the input commits at once. The greatest committed checkpoint in memory stays what it was.
    pub fn end_input(&mut self, files: &mut Files) {
        self.list(END_OF_INPUT, files);
        self.commit_up_to(END_OF_INPUT, None);
    }
    fn commit_up_to(&mut self, id: i64, then: Option<i64>) {
        let pending = self.pending.range(..=id).map(|(id, files)| (*id, *files)).collect();
        let job = self.planner.config.job;
        self.call = Some(Call { pending, job, id, restored: false, then, batch: None });
    }
    /// The commit at hand. None: nothing is left to do, and the temporary manifests of what was committed are deleted. An
    /// exception fails the task.
    pub fn next(&mut self, files: &mut Files, fixes: Fixes) -> Result<Option<&mut Commit>, Exception> {
        let Some(call) = &mut self.call else { return Ok(None) };
        if call.batch.is_none() {
            let mut results = Vec::new();
            let mut temporary = Vec::new();
            for (id, manifests) in call.pending.iter().filter_map(|(id, m)| Some((*id, (*m)?))) {
                results.push((id, manifests.read(files)?));
                temporary.extend(manifests.keys());
            }
            let who = (call.job, self.planner.config.operator, call.id);
            let commits = self.planner.plan(results, who, self.table.metadata(), fixes)?;
            call.batch = Some(Batch { commits, temporary });
        }
        if call.batch.as_ref().is_some_and(|b| b.commits.is_empty()) {
            self.finish(files);
            return Ok(None);
        }
        Ok(self.call.as_mut().and_then(|c| c.batch.as_mut()).and_then(|b| b.commits.front_mut()))
    }
    fn finish(&mut self, files: &mut Files) {
        let Some(call) = self.call.take() else { return };
        for key in call.batch.into_iter().flat_map(|b| b.temporary) {
            files.delete(&key);
        }
        if !call.restored {
            self.pending.retain(|id, _| *id > call.id);
        }
        if let Some(max) = call.then {
            self.max_committed = max;
            // The table is loaded anew after each notification.
            self.table.forget();
        }
    }
    /// The commit at hand is done.
    pub fn committed(&mut self) {
        if let Some(batch) = self.call.as_mut().and_then(|c| c.batch.as_mut()) {
            batch.commits.pop_front();
        }
    }
    /// The commit at hand with the handle it works on.
    pub fn at_work(&mut self) -> Option<(&mut Commit, &mut Table)> {
        let commit = self.call.as_mut()?.batch.as_mut()?.commits.front_mut()?;
        Some((commit, &mut self.table))
    }
    /// The greatest committed checkpoint, as it believes.
    pub const fn max_committed(&self) -> i64 {
        self.max_committed
    }
    /// What is not committed.
    pub const fn pending(&self) -> &BTreeMap<i64, Option<DeltaManifests>> {
        &self.pending
    }
}
