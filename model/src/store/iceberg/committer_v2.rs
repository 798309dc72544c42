//! IcebergSink's committer (`IcebergWriteAggregator`, `IcebergCommitter`): the state is Flink's, in its `CommitterOperator`.

use super::commit::Commit;
use super::error::Exception;
use super::file::Files;
use super::flink::{Batch, DeltaManifests, END_OF_INPUT, Planner, SinkConfig, WriteResult, max_committed};
use super::table::{Mint, Table};
use crate::base::{Fix, Fixes};

/// What is to be committed of one checkpoint; also when it is empty. It keeps the ids of who wrote it, so a restored one is
/// looked up under them, whatever job or operator commits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcebergCommittable {
    /// Its files; none: nobody reported anything.
    pub manifests: Option<DeltaManifests>,
    /// Job that wrote it.
    pub job: u64,
    /// Operator that wrote it.
    pub operator: u64,
    /// Its checkpoint.
    pub checkpoint: i64,
}

/// Collects what all writers report, into one committable a checkpoint; runs once.
#[derive(Clone, Debug)]
pub struct WriteAggregator {
    job: u64,
    operator: u64,
    mint: Mint,
    results: Vec<WriteResult>,
}
impl WriteAggregator {
    /// An aggregator of this job and operator.
    pub const fn new(config: &SinkConfig, mint: Mint) -> Self {
        Self { job: config.job, operator: config.operator, mint, results: Vec::new() }
    }
    /// A writer has closed files.
    pub fn written(&mut self, result: WriteResult) {
        self.results.push(result);
    }
    /// Before a barrier.
    pub fn prepare(&mut self, checkpoint: i64, files: &mut Files) -> IcebergCommittable {
        let results = std::mem::take(&mut self.results);
        let some = !results.is_empty();
        let manifests = some.then(|| DeltaManifests::write(&WriteResult::merged(results), &mut self.mint, files));
        IcebergCommittable { manifests, job: self.job, operator: self.operator, checkpoint }
    }
    /// After the end of the input. No checkpoint ever completes that number: what is in it is lost, unless Flink commits it
    /// without checkpoints.
    pub fn finish(&mut self, files: &mut Files) -> IcebergCommittable {
        self.prepare(END_OF_INPUT, files)
    }
}

/// Commits what Flink's committer operator hands it, all of one checkpoint at a time.
#[derive(Clone, Debug)]
pub struct IcebergCommitter {
    planner: Planner,
    table: Table,
    asked: Option<Vec<IcebergCommittable>>,
    batch: Option<Batch>,
}
impl IcebergCommitter {
    /// A committer on a table that was just loaded. It uses that handle for good, and looks markers up in what the handle has:
    /// the table as it was after its own last commit.
    pub const fn new(config: SinkConfig, table: Table, mint: Mint) -> Self {
        Self { planner: Planner::new(config, mint), table, asked: None, batch: None }
    }
    /// `commit`. Those that are committed already are signalled so, and their manifests stay.
    pub fn commit(&mut self, committables: Vec<IcebergCommittable>) {
        self.asked = (!committables.is_empty()).then_some(committables);
    }
    /// The commit at hand; none: the call is over. An exception fails the task.
    pub fn next(&mut self, files: &mut Files, fixes: Fixes) -> Result<Option<&mut Commit>, Exception> {
        if let Some(asked) = self.asked.take() {
            self.batch = Some(self.begin(asked, files, fixes)?);
        }
        if self.batch.as_ref().is_some_and(|b| b.commits.is_empty()) {
            for key in self.batch.take().into_iter().flat_map(|b| b.temporary) {
                files.delete(&key);
            }
        }
        Ok(self.batch.as_mut().and_then(|b| b.commits.front_mut()))
    }
    fn begin(&mut self, mut asked: Vec<IcebergCommittable>, files: &Files, fixes: Fixes) -> Result<Batch, Exception> {
        asked.sort_by_key(|c| c.checkpoint);
        let Some(last) = asked.last().copied() else { return Ok(Batch::default()) };
        let config = &self.planner.config;
        // All are looked up under the ids of the last.
        let job = if fixes.has(Fix::RestoredKeepJobId) { last.job } else { config.job };
        let max = max_committed(self.table.metadata(), &config.branch, job, last.operator, fixes);
        asked.retain(|c| c.checkpoint > max);
        if asked.is_empty() {
            return Ok(Batch::default());
        }
        let (mut results, mut temporary) = (Vec::new(), Vec::new());
        for committable in asked {
            let manifests = committable.manifests.unwrap_or_default();
            results.push((committable.checkpoint, manifests.read(files)?));
            temporary.extend(manifests.keys());
        }
        let who = (job, last.operator, last.checkpoint);
        let commits = self.planner.plan(results, who, self.table.metadata(), fixes)?;
        Ok(Batch { commits, temporary })
    }
    /// The commit at hand is done.
    pub fn committed(&mut self) {
        if let Some(batch) = &mut self.batch {
            batch.commits.pop_front();
        }
    }
    /// The commit at hand with the handle it works on.
    pub fn at_work(&mut self) -> Option<(&mut Commit, &mut Table)> {
        let commit = self.batch.as_mut()?.commits.front_mut()?;
        Some((commit, &mut self.table))
    }
}
