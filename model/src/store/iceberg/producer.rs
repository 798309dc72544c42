//! A snapshot on its way into the table (`SnapshotProducer`, `MergingSnapshotProducer`; stores 2.2).

use super::cherry_pick::CherryPick;
use super::error::Exception;
use super::file::{DataFile, Entry, Files, Key, ManifestFile, Object, Status};
use super::filter::{ManifestFilter, ManifestWriter, Removal};
use super::metadata::{FlinkMarker, MAIN, Name, Snapshot, SnapshotId, SnapshotRef, TableMetadata, Update};
use super::operation::{Change, ChangeKind, Filter};
use super::table::Table;
use super::validate::validate;
use crate::base::{Fix, Fixes, Millis};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a snapshot is made from.
#[derive(Clone, Debug)]
enum Content {
    Change(Change),
    CherryPick(CherryPick),
}

/// One snapshot that is to be committed. Its id and the manifests of its own files are the same over all attempts; each
/// attempt writes a manifest list of its own.
#[derive(Clone, Debug)]
pub struct SnapshotProducer {
    id: SnapshotId,
    content: Content,
    branch: Name,
    stage_only: bool,
    marker: Option<FlinkMarker>,
    /// Manifests of added data files and of added delete files, once they are written.
    own: Option<[Option<ManifestFile>; 2]>,
    filters: [ManifestFilter; 2],
    lists: Vec<Key>,
    staged: Option<(Arc<Snapshot>, BTreeSet<Key>)>,
    written: u32,
}

impl SnapshotProducer {
    /// A change of a branch.
    pub fn new(id: SnapshotId, change: Change, branch: Name) -> Self {
        Self::of(id, Content::Change(change), branch)
    }
    /// A copy of a staged snapshot on top of main (`cherrypick`).
    pub fn cherry_pick(id: SnapshotId, of: SnapshotId, table: &mut Table, files: &Files) -> Result<Self, Exception> {
        let pick = CherryPick::new(of, table, files)?;
        Ok(Self::of(id, Content::CherryPick(pick), MAIN.into()))
    }
    fn of(id: SnapshotId, content: Content, branch: Name) -> Self {
        Self {
            id,
            content,
            branch,
            stage_only: false,
            marker: None,
            own: None,
            filters: [ManifestFilter::default(), ManifestFilter::default()],
            lists: Vec::new(),
            staged: None,
            written: 0,
        }
    }
    /// `stageOnly`: no branch moves to it.
    #[must_use]
    pub fn staged_only(mut self) -> Self {
        self.stage_only = true;
        self
    }
    /// What the summary says of a Flink job.
    #[must_use]
    pub fn marked(mut self, marker: FlinkMarker) -> Self {
        self.marker = Some(marker);
        self
    }
    /// What this attempt changes, on top of the metadata in the handle.
    pub(super) fn attempt(
        &mut self,
        table: &mut Table,
        files: &mut Files,
        now: Millis,
    ) -> Result<Vec<Update>, Exception> {
        let base = Arc::clone(table.metadata());
        if base.refs.get(&self.branch).is_some_and(|r| !r.is_branch()) {
            return Err(Exception::IllegalArgument);
        }
        let parent = base.head(&self.branch).cloned();
        if let Content::CherryPick(pick) = &self.content
            && let Some(same) = pick.fast_forward(&base)
        {
            let known = base.snapshot(same).cloned().ok_or(Exception::Validation)?;
            self.staged = Some((known, BTreeSet::new()));
            return Ok(self.move_branch(&base, same));
        }
        let manifests = self.apply(&base, parent.as_deref(), table, files)?;
        let snapshot = Arc::new(self.write_list(&base, parent.as_deref(), &manifests, files, now));
        self.staged = Some((Arc::clone(&snapshot), manifests.iter().map(|m| m.key).collect()));
        if base.snapshot(self.id).is_some() {
            // An attempt before this one has landed after all.
            return Ok(self.move_branch(&base, self.id));
        }
        let mut updates = vec![Update::AddSnapshot(snapshot)];
        if !self.stage_only {
            updates.extend(self.move_branch(&base, self.id));
        }
        Ok(updates)
    }
    /// `setBranchSnapshot`: nothing, if it is there already.
    fn move_branch(&self, base: &TableMetadata, to: SnapshotId) -> Vec<Update> {
        match base.refs.get(&self.branch) {
            Some(at) if at.snapshot == to => Vec::new(),
            Some(at) => vec![Update::SetRef(Arc::clone(&self.branch), SnapshotRef { snapshot: to, ..*at })],
            None => vec![Update::SetRef(Arc::clone(&self.branch), SnapshotRef::branch(to))],
        }
    }
    fn apply(
        &mut self,
        base: &TableMetadata,
        parent: Option<&Snapshot>,
        table: &mut Table,
        files: &mut Files,
    ) -> Result<Vec<ManifestFile>, Exception> {
        let change = match &self.content {
            Content::Change(change) => {
                validate(change, base, parent, table, files)?;
                change
            }
            Content::CherryPick(pick) => {
                pick.validate(base)?;
                pick.change()
            }
        };
        if change.kind == ChangeKind::ReplacePartitions && change.add.is_empty() {
            // "Cannot determine partition spec: no data files have been added".
            return Err(Exception::IllegalState);
        }
        let old = match parent {
            Some(parent) => table.manifests(parent, files)?,
            None => Arc::new([]),
        };
        let mut writer = ManifestWriter { snapshot: self.id, written: &mut self.written, files };
        let (mut data, mut deletes): (Vec<_>, Vec<_>) = old.iter().partition(|m| !m.deletes);
        if change.kind != ChangeKind::FastAppend {
            let mut removal = removal(change);
            data = self.filters[0].filter(data.iter(), &removal, &mut writer)?;
            // A delete file applies to older data only; below all of it, it is dropped.
            let numbers = data.iter().filter_map(|m| m.min_sequence);
            removal.older_than = numbers.fold(base.last_sequence, i64::min);
            (removal.names, removal.fails_missing) = (BTreeSet::new(), false);
            deletes = self.filters[1].filter(deletes.iter(), &removal, &mut writer)?;
            let keep = |m: &ManifestFile| m.added || m.existing || m.snapshot == writer.snapshot;
            data.retain(keep);
            deletes.retain(keep);
        }
        let [own_data, own_deletes] = *self.own.get_or_insert_with(|| {
            // Added to a `DataFileSet` or a `DeleteFileSet`: the same file twice in one operation is one file.
            let add = |files: &[DataFile], sequence| {
                let mut names = BTreeSet::new();
                let files = files.iter().filter(|file| names.insert(file.name));
                files
                    .map(|f| Entry { status: Status::Added, snapshot: writer.snapshot, sequence, file: *f })
                    .collect::<Vec<_>>()
            };
            let (data, deletes) = (add(&change.add, change.sequence), add(&change.deletes, None));
            let mut write =
                |deletes, entries: Vec<Entry>| (!entries.is_empty()).then(|| writer.write(deletes, entries));
            [write(false, data), write(true, deletes)]
        });
        Ok(own_data.into_iter().chain(data).chain(own_deletes).chain(deletes).collect())
    }
    fn write_list(
        &mut self,
        base: &TableMetadata,
        parent: Option<&Snapshot>,
        manifests: &[ManifestFile],
        files: &mut Files,
        now: Millis,
    ) -> Snapshot {
        let sequence = base.last_sequence + 1;
        let list = Key::ManifestList(self.id, self.lists.len() as u32 + 1);
        let numbered = manifests.iter().map(|m| {
            let sequence = m.sequence.unwrap_or(sequence);
            ManifestFile { sequence: Some(sequence), min_sequence: Some(m.min_sequence.unwrap_or(sequence)), ..*m }
        });
        files.put(list, Object::ManifestList(numbered.collect()));
        self.lists.push(list);
        let (operation, replaces_partitions, source) = match &self.content {
            Content::Change(change) => (change.operation(), change.kind == ChangeKind::ReplacePartitions, None),
            Content::CherryPick(pick) => (pick.operation(), pick.replaces_partitions(), pick.source()),
        };
        Snapshot {
            id: self.id,
            parent: parent.map(|p| p.id),
            sequence,
            time: now,
            operation,
            marker: self.marker,
            source,
            replaces_partitions,
            list,
        }
    }
    /// It is in the table: what earlier attempts wrote goes. If the attempt that landed was not the last one, what goes is what
    /// the table refers to.
    pub(super) fn finish(&mut self, files: &mut Files) {
        let Some((snapshot, kept)) = self.staged.clone() else { return };
        self.clean(&kept, files);
        for list in self.lists.iter().filter(|list| **list != snapshot.list) {
            files.delete(list);
        }
    }
    /// It failed. What was written for it goes only if it is certain that it is not in the table (Iceberg 2317).
    pub(super) fn failed(&mut self, why: Exception, files: &mut Files, fixes: Fixes) {
        if why.cleanable() || !fixes.has(Fix::UnknownCommitKeepsFiles) {
            for list in self.lists.drain(..) {
                files.delete(&list);
            }
            self.clean(&BTreeSet::new(), files);
        }
    }
    fn clean(&mut self, kept: &BTreeSet<Key>, files: &mut Files) {
        self.filters.iter_mut().for_each(|filter| filter.clean(kept, files));
        let own = self.own.iter().flatten().flatten();
        let unused: Vec<_> = own.map(|m| m.key).filter(|key| !kept.contains(key)).collect();
        if !unused.is_empty() {
            unused.iter().for_each(|key| {
                files.delete(key);
            });
            self.own = None;
        }
    }
}

fn removal(change: &Change) -> Removal {
    let mut removal = Removal {
        names: change.remove.iter().map(|file| file.name).collect(),
        filter: change.filter,
        fails_missing: change.fails_missing(),
        ..Removal::default()
    };
    if change.kind == ChangeKind::ReplacePartitions {
        removal.partitions = change.add.iter().map(|file| file.partition).collect();
        if removal.partitions.contains(&None) {
            removal.filter = Some(Filter::All);
        }
    }
    removal
}
