//! Table metadata: snapshots and references (`TableMetadata`).

use super::error::Exception;
use super::file::Key;
use crate::base::Millis;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A snapshot's id. The real ones are random; it is drawn once for a commit and stays the same over all its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId(pub u64);

/// Name of a branch, a tag or a property.
pub type Name = Arc<str>;
/// The branch that readers see.
pub const MAIN: &str = "main";

/// What a snapshot did (`DataOperations`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Added data files.
    Append,
    /// Other files for the same rows.
    Replace,
    /// Rows added and removed.
    Overwrite,
    /// Rows removed.
    Delete,
}
impl Operation {
    /// As the summary spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Replace => "replace",
            Self::Overwrite => "overwrite",
            Self::Delete => "delete",
        }
    }
}

/// What Flink's sink leaves in a summary (`SinkUtil`): `flink.job-id`, `flink.operator-id`, `flink.max-committed-checkpoint-id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlinkMarker {
    /// Job id.
    pub job: u64,
    /// Operator id; absent in tables of old writers.
    pub operator: Option<u64>,
    /// Greatest checkpoint in it.
    pub max_committed: i64,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// On which one it was made; that may have expired since.
    pub parent: Option<SnapshotId>,
    /// Sequence number.
    pub sequence: i64,
    /// When it was made, by the clock of who made it.
    pub time: Millis,
    /// What it did.
    pub operation: Operation,
    /// What Flink's sink wrote into the summary.
    pub marker: Option<FlinkMarker>,
    /// `source-snapshot-id`: of which one it is a copy.
    pub source: Option<SnapshotId>,
    /// `replace-partitions`.
    pub replaces_partitions: bool,
    /// Its manifest list.
    pub list: Key,
}

/// Whether a reference moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefKind {
    /// It does, and keeps its ancestors by its own rules, if it has any.
    Branch {
        /// `min-snapshots-to-keep`.
        min_snapshots: Option<u32>,
        /// `max-snapshot-age-ms`.
        max_snapshot_age: Option<Millis>,
    },
    /// It keeps one snapshot.
    Tag,
}
/// A branch or a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRef {
    /// Where it points.
    pub snapshot: SnapshotId,
    /// Branch or tag.
    pub kind: RefKind,
    /// `max-ref-age-ms`.
    pub max_age: Option<Millis>,
}
impl SnapshotRef {
    /// A branch without rules of its own.
    pub const fn branch(snapshot: SnapshotId) -> Self {
        let kind = RefKind::Branch { min_snapshots: None, max_snapshot_age: None };
        Self { snapshot, kind, max_age: None }
    }
    /// Whether it is a branch.
    pub const fn is_branch(&self) -> bool {
        matches!(self.kind, RefKind::Branch { .. })
    }
}

/// One step from a metadata to the next (`MetadataUpdate`).
#[derive(Clone, Debug)]
pub(super) enum Update {
    AddSnapshot(Arc<Snapshot>),
    SetRef(Name, SnapshotRef),
    RemoveRef(Name),
    RemoveSnapshots(Vec<SnapshotId>),
    SetProperties(Vec<(Name, Name)>),
}

/// All that a pointer names. A reader that has it sees the same table until its files are deleted (B6).
#[derive(Clone, Debug, Default)]
pub struct TableMetadata {
    /// `last-sequence-number`.
    pub last_sequence: i64,
    /// All snapshots that have not expired.
    pub snapshots: BTreeMap<SnapshotId, Arc<Snapshot>>,
    /// Branches and tags; without `main` the table is empty.
    pub refs: BTreeMap<Name, SnapshotRef>,
    /// Table properties.
    pub properties: BTreeMap<Name, Name>,
}

impl TableMetadata {
    /// A snapshot.
    pub fn snapshot(&self, id: SnapshotId) -> Option<&Arc<Snapshot>> {
        self.snapshots.get(&id)
    }
    /// The head of main.
    pub fn current(&self) -> Option<&Arc<Snapshot>> {
        self.refs.get(MAIN).and_then(|main| self.snapshot(main.snapshot))
    }
    /// What a commit to a branch goes on top of (`SnapshotUtil.latestSnapshot`): a branch that is not there yet begins at main.
    pub fn head(&self, branch: &str) -> Option<&Arc<Snapshot>> {
        match self.refs.get(branch) {
            Some(at) => self.snapshot(at.snapshot),
            None => self.current(),
        }
    }
    /// A snapshot and its parents, as far as they are still there.
    pub fn ancestors(&self, from: Option<SnapshotId>) -> impl Iterator<Item = &Arc<Snapshot>> {
        let first = from.and_then(|id| self.snapshot(id));
        std::iter::successors(first, |s| s.parent.and_then(|parent| self.snapshot(parent)))
    }
    /// Whether `ancestor` is `of` or one of its parents.
    pub fn is_ancestor(&self, of: SnapshotId, ancestor: SnapshotId) -> bool {
        self.ancestors(Some(of)).any(|s| s.id == ancestor)
    }
    /// A property, or its default.
    pub fn property(&self, key: &str, default: i64) -> i64 {
        self.properties.get(key).and_then(|value| value.parse().ok()).unwrap_or(default)
    }
    /// A property that is true unless it says otherwise.
    pub fn enabled(&self, key: &str) -> bool {
        self.properties.get(key).is_none_or(|value| value.eq_ignore_ascii_case("true"))
    }
    /// The metadata after the updates.
    pub(super) fn with(&self, updates: &[Update]) -> Result<Self, Exception> {
        let mut next = self.clone();
        for update in updates {
            match update {
                Update::AddSnapshot(snapshot) => {
                    next.last_sequence = snapshot.sequence;
                    next.snapshots.insert(snapshot.id, Arc::clone(snapshot));
                }
                Update::SetRef(name, to) => {
                    if next.snapshot(to.snapshot).is_none() {
                        return Err(Exception::Validation);
                    }
                    next.refs.insert(Arc::clone(name), *to);
                }
                Update::RemoveRef(name) => {
                    next.refs.remove(name);
                }
                Update::RemoveSnapshots(ids) => {
                    next.snapshots.retain(|id, _| !ids.contains(id));
                    let Self { refs, snapshots, .. } = &mut next;
                    refs.retain(|_, to| snapshots.contains_key(&to.snapshot));
                }
                Update::SetProperties(all) => next.properties.extend(all.iter().cloned()),
            }
        }
        Ok(next)
    }
}
