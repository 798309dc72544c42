//! What both committers of Flink's sink share (`SinkUtil`, `FlinkManifestUtil`; stores 2.3, flink.md 8).

use super::commit::Commit;
use super::error::Exception;
use super::file::{DataFile, Files, Key, Object};
use super::metadata::{FlinkMarker, Name, TableMetadata};
use super::operation::{Change, ChangeKind};
use super::producer::SnapshotProducer;
use super::table::Mint;
use crate::base::{Fix, Fixes};
use std::collections::VecDeque;
use std::sync::Arc;

/// Before the first checkpoint.
pub(super) const NO_CHECKPOINT: i64 = -1;
/// What is written after the last barrier goes under this one (`END_INPUT_CHECKPOINT_ID`).
pub(super) const END_OF_INPUT: i64 = i64::MAX;

/// What a sink operator knows of itself.
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// `flink.job-id`.
    pub job: u64,
    /// `flink.operator-id`.
    pub operator: u64,
    /// Branch that it writes to.
    pub branch: Name,
    /// `overwrite`: a commit replaces the partitions that it has files of.
    pub replace_partitions: bool,
}

/// Files that writers closed for one checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteResult {
    /// Data files.
    pub data: Vec<DataFile>,
    /// Delete files.
    pub deletes: Vec<DataFile>,
}
impl WriteResult {
    fn files(&self) -> usize {
        self.data.len() + self.deletes.len()
    }
    pub(super) fn merged(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut sum, one| {
            sum.data.extend(one.data);
            sum.deletes.extend(one.deletes);
            sum
        })
    }
}

/// Where the files of a checkpoint are listed until they are committed: temporary manifests in the table's storage. Operator
/// state holds their names only, so a state whose manifests are gone cannot be restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaManifests {
    /// Manifest of the data files, if there are any.
    pub data: Option<Key>,
    /// Manifest of the delete files.
    pub deletes: Option<Key>,
}
impl DeltaManifests {
    pub(super) fn write(result: &WriteResult, mint: &mut Mint, files: &mut Files) -> Self {
        let mut write = |list: &[DataFile]| {
            (!list.is_empty()).then(|| {
                let key = mint.temporary();
                files.put(key, Object::Temporary(list.into()));
                key
            })
        };
        Self { data: write(&result.data), deletes: write(&result.deletes) }
    }
    /// What they list.
    pub fn read(&self, files: &Files) -> Result<WriteResult, Exception> {
        let read = |key: Option<Key>| match key.map(|key| files.get(&key)) {
            None => Ok(Vec::new()),
            Some(Ok(Object::Temporary(list))) => Ok(list.to_vec()),
            Some(_) => Err(Exception::NotFound),
        };
        Ok(WriteResult { data: read(self.data)?, deletes: read(self.deletes)? })
    }
    pub(super) fn keys(self) -> impl Iterator<Item = Key> {
        self.data.into_iter().chain(self.deletes)
    }
}

/// Up to which checkpoint a job has committed: from the branch's head through its parents, the first snapshot of this job and
/// operator says, even if a parent says more. A snapshot without an operator id is everybody's.
pub fn max_committed(table: &TableMetadata, branch: &str, job: u64, operator: u64, fixes: Fixes) -> i64 {
    let head = table.refs.get(branch).map(|at| at.snapshot);
    let mine = |m: &FlinkMarker| {
        m.job == job && (m.operator.is_none_or(|o| o == operator) || !fixes.has(Fix::OperatorIdCompared))
    };
    let found = table.ancestors(head).filter_map(|s| s.marker).find(mine);
    found.map_or(NO_CHECKPOINT, |m| m.max_committed)
}

/// What one call of a committer commits, snapshot after snapshot, and what it deletes afterwards.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    pub commits: VecDeque<Commit>,
    pub temporary: Vec<Key>,
}

/// Turns results into snapshots, and counts the calls that found nothing.
#[derive(Clone, Debug)]
pub(super) struct Planner {
    pub config: SinkConfig,
    pub mint: Mint,
    /// `continuousEmptyCheckpoints`; a restart begins anew.
    empty: i64,
}
impl Planner {
    pub const fn new(config: SinkConfig, mint: Mint) -> Self {
        Self { config, mint, empty: 0 }
    }
    /// The snapshots for `results`, by checkpoint, under `job` and `operator`. One append up to `id` if there are no delete files;
    /// else a row delta for each checkpoint, since deletes must reach the rows of the checkpoint before. Nothing but empty
    /// results: nothing, but each `flink.max-continuous-empty-commits`-th time, so that the marker stays in reach of expiry.
    pub fn plan(
        &mut self,
        results: Vec<(i64, WriteResult)>,
        (job, operator, id): (u64, u64, i64),
        table: &TableMetadata,
        fixes: Fixes,
    ) -> Result<VecDeque<Commit>, Exception> {
        let files: usize = results.iter().map(|(_, r)| r.files()).sum();
        self.empty = if files == 0 { self.empty + 1 } else { 0 };
        let most = table.property("flink.max-continuous-empty-commits", 10);
        if files == 0 && (self.empty % most != 0 || !fixes.has(Fix::EmptyCommitsRenewMarker)) {
            return Ok(VecDeque::new());
        }
        self.empty = 0;
        let deletes = results.iter().any(|(_, r)| !r.deletes.is_empty());
        if deletes && self.config.replace_partitions {
            return Err(Exception::IllegalState);
        }
        let changes = if deletes && fixes.has(Fix::RowDeltaPerCheckpoint) {
            let delta = |r: WriteResult| Change::adding(ChangeKind::RowDelta, r.data, r.deletes);
            results.into_iter().map(|(checkpoint, r)| (checkpoint, delta(r))).collect()
        } else {
            let all = WriteResult::merged(results.into_iter().map(|(_, r)| r));
            let kind = match (self.config.replace_partitions, deletes) {
                (true, _) => ChangeKind::ReplacePartitions,
                (false, true) => ChangeKind::RowDelta,
                (false, false) => ChangeKind::Append,
            };
            vec![(id, Change::adding(kind, all.data, all.deletes))]
        };
        let commit = |(checkpoint, change)| {
            let marker = FlinkMarker { job, operator: Some(operator), max_committed: checkpoint };
            let branch = Arc::clone(&self.config.branch);
            SnapshotProducer::new(self.mint.snapshot(), change, branch).marked(marker).into()
        };
        Ok(changes.into_iter().map(commit).collect())
    }
}
