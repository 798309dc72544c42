//! What others may have committed meanwhile (`MergingSnapshotProducer.validate…`).

use super::error::Exception;
use super::file::{Content, DataFile, Entry, Files, ManifestFile, Status};
use super::metadata::{Operation, Snapshot, SnapshotId, TableMetadata};
use super::operation::{Change, ChangeKind, Filter};
use super::table::{Table, read_manifest};
use std::collections::BTreeSet;

/// Which files a check is about.
#[derive(Clone, Debug)]
enum Scope {
    Filter(Filter),
    Partitions(BTreeSet<Option<i64>>),
}
impl Scope {
    fn has(&self, file: &DataFile) -> bool {
        match self {
            Self::Filter(filter) => filter.might(file),
            Self::Partitions(partitions) => partitions.contains(&file.partition),
        }
    }
}

struct History<'a> {
    base: &'a TableMetadata,
    from: Option<SnapshotId>,
    parent: SnapshotId,
    table: &'a mut Table,
    files: &'a Files,
}

impl History<'_> {
    /// Entries of manifests that snapshots with one of these operations wrote since `from`, with those snapshots
    /// (`validationHistory`). A history that has expired in between cannot be told.
    fn entries(
        &mut self,
        operations: &[Operation],
        deletes: bool,
    ) -> Result<(Vec<Entry>, BTreeSet<SnapshotId>), Exception> {
        let (mut manifests, mut snapshots): (Vec<ManifestFile>, _) = (Vec::new(), BTreeSet::new());
        let mut last = None;
        let since = self.base.ancestors(Some(self.parent)).take_while(|s| Some(s.id) != self.from);
        for snapshot in since {
            last = Some(snapshot);
            if operations.contains(&snapshot.operation) {
                snapshots.insert(snapshot.id);
                let all = self.table.manifests(snapshot, self.files)?;
                manifests.extend(all.iter().filter(|m| m.deletes == deletes && m.snapshot == snapshot.id));
            }
        }
        if last.is_some_and(|s| s.parent != self.from) {
            return Err(Exception::Validation);
        }
        let mut entries = Vec::new();
        for manifest in &manifests {
            entries.extend(read_manifest(manifest, self.files)?);
        }
        Ok((entries, snapshots))
    }
    fn start_sequence(&self) -> i64 {
        self.from.and_then(|id| self.base.snapshot(id)).map_or(0, |s| s.sequence)
    }
    /// `validateAddedDataFiles`.
    fn no_added_data(&mut self, scope: &Scope) -> Result<(), Exception> {
        let (entries, new) = self.entries(&[Operation::Append, Operation::Overwrite], false)?;
        let added = |e: &Entry| e.status == Status::Added && new.contains(&e.snapshot) && scope.has(&e.file);
        refuse(entries.iter().any(added))
    }
    /// `validateDeletedDataFiles`.
    fn no_deleted_data(&mut self, scope: &Scope) -> Result<(), Exception> {
        let (entries, new) = self.entries(&[Operation::Overwrite, Operation::Replace, Operation::Delete], false)?;
        let gone = |e: &Entry| e.status == Status::Deleted && new.contains(&e.snapshot) && scope.has(&e.file);
        refuse(entries.iter().any(gone))
    }
    /// `addedDeleteFiles`.
    fn added_deletes(&mut self, scope: &Scope) -> Result<Vec<Entry>, Exception> {
        let after = self.start_sequence();
        let (mut entries, _) = self.entries(&[Operation::Overwrite, Operation::Delete], true)?;
        entries.retain(|e| e.live() && e.sequence.is_some_and(|s| s > after) && scope.has(&e.file));
        Ok(entries)
    }
    /// `validateNoNewDeletesForDataFiles`. Equality deletes do not touch a rewrite that keeps the old data sequence number.
    fn no_new_deletes_for(&mut self, data: &[DataFile], scope: &Scope, ignore_equality: bool) -> Result<(), Exception> {
        let after = self.start_sequence();
        let deletes = self.added_deletes(scope)?;
        let applies = |delete: &Entry, file: &DataFile| {
            let partition = delete.file.partition.is_none() || delete.file.partition == file.partition;
            let sequence = delete.sequence.unwrap_or(0);
            partition
                && match delete.file.content {
                    Content::PositionDeletes => sequence >= after,
                    _ => !ignore_equality && sequence > after,
                }
        };
        refuse(data.iter().any(|file| deletes.iter().any(|delete| applies(delete, file))))
    }
    /// `validateDataFilesExist`: a plain delete is only looked at if asked to.
    fn exist(&mut self, required: &[DataFile], deletes_too: bool, scope: &Scope) -> Result<(), Exception> {
        let mut operations = vec![Operation::Overwrite, Operation::Replace];
        if deletes_too {
            operations.push(Operation::Delete);
        }
        let (entries, new) = self.entries(&operations, false)?;
        let gone = |e: &Entry| {
            e.status == Status::Deleted
                && new.contains(&e.snapshot)
                && required.iter().any(|file| file.name == e.file.name)
                && scope.has(&e.file)
        };
        refuse(entries.iter().any(gone))
    }
}

fn refuse(conflict: bool) -> Result<(), Exception> {
    if conflict { Err(Exception::Validation) } else { Ok(()) }
}

/// Checks the change against what came after [`super::Validation::from`]. Repeated at every attempt.
pub(super) fn validate(
    change: &Change,
    base: &TableMetadata,
    parent: Option<&Snapshot>,
    table: &mut Table,
    files: &Files,
) -> Result<(), Exception> {
    let Some(parent) = parent else { return Ok(()) };
    let checks = &change.validation;
    let mut history = History { base, from: checks.from, parent: parent.id, table, files };
    let scope = Scope::Filter(checks.conflict.unwrap_or(Filter::All));
    match change.kind {
        ChangeKind::Append | ChangeKind::FastAppend | ChangeKind::Delete => Ok(()),
        ChangeKind::Rewrite => {
            let keeps = change.sequence.is_some();
            history.no_new_deletes_for(&change.remove, &Scope::Filter(Filter::All), keeps)
        }
        ChangeKind::Overwrite => {
            if checks.data {
                let rows = change.filter.filter(|_| change.remove.is_empty());
                history.no_added_data(&Scope::Filter(checks.conflict.or(rows).unwrap_or(Filter::All)))?;
            }
            if let (true, Some(rows)) = (checks.deletes, change.filter) {
                let scope = Scope::Filter(checks.conflict.unwrap_or(rows));
                refuse(!history.added_deletes(&scope)?.is_empty())?;
                history.no_deleted_data(&scope)?;
            }
            if checks.deletes && !change.remove.is_empty() {
                history.no_new_deletes_for(&change.remove, &scope, false)?;
            }
            Ok(())
        }
        ChangeKind::RowDelta => {
            if checks.from.is_some_and(|from| !base.is_ancestor(parent.id, from)) {
                return Err(Exception::IllegalArgument);
            }
            if !checks.exist.is_empty() {
                history.exist(&checks.exist, checks.deleted, &scope)?;
            }
            if checks.data {
                history.no_added_data(&scope)?;
            }
            if checks.deletes {
                refuse(!history.added_deletes(&scope)?.is_empty())?;
            }
            Ok(())
        }
        ChangeKind::ReplacePartitions => {
            let scope = Scope::Partitions(change.add.iter().map(|file| file.partition).collect());
            if checks.data {
                history.no_added_data(&scope)?;
            }
            if checks.deletes {
                history.no_deleted_data(&scope)?;
                refuse(!history.added_deletes(&scope)?.is_empty())?;
            }
            Ok(())
        }
    }
}
