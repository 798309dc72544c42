//! A staged snapshot made part of main (`CherryPickOperation`).

use super::error::Exception;
use super::file::{DataFile, Entry, Files, Status};
use super::metadata::{Operation, Snapshot, SnapshotId, TableMetadata};
use super::operation::{Change, ChangeKind};
use super::table::{Table, read_manifest};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct CherryPick {
    picked: Arc<Snapshot>,
    change: Change,
    /// Neither an append nor a replacement of partitions: only main may move to it.
    fast_forward_only: bool,
}

impl CherryPick {
    pub fn new(of: SnapshotId, table: &mut Table, files: &Files) -> Result<Self, Exception> {
        let base = Arc::clone(table.metadata());
        let picked = base.snapshot(of).cloned().ok_or(Exception::Validation)?;
        let mut change = Change::adding(ChangeKind::Append, Vec::new(), Vec::new());
        let replaces = picked.operation == Operation::Overwrite && picked.replaces_partitions;
        if replaces || picked.operation == Operation::Append {
            let mut entries = Vec::new();
            for manifest in table.manifests(&picked, files)?.iter().filter(|m| !m.deletes && m.snapshot == of) {
                entries.extend(read_manifest(manifest, files)?);
            }
            let with = |status| -> Vec<DataFile> {
                entries.iter().filter(|e: &&Entry| e.status == status && e.snapshot == of).map(|e| e.file).collect()
            };
            change.add = with(Status::Added);
            if replaces {
                let on = picked.parent.zip(base.current().map(|c| c.id));
                if picked.parent.is_some() && !on.is_some_and(|(parent, current)| base.is_ancestor(current, parent)) {
                    return Err(Exception::Validation);
                }
                change.kind = ChangeKind::Overwrite;
                change.remove = with(Status::Deleted);
                change.validation.deletes = true;
            }
        }
        let fast_forward_only = !replaces && picked.operation != Operation::Append;
        Ok(Self { picked, change, fast_forward_only })
    }
    /// The snapshot itself, if it is a child of the head.
    pub fn fast_forward(&self, base: &TableMetadata) -> Option<SnapshotId> {
        (self.picked.parent == base.current().map(|c| c.id)).then_some(self.picked.id)
    }
    pub fn validate(&self, base: &TableMetadata) -> Result<(), Exception> {
        if self.fast_forward_only {
            return Err(Exception::Validation);
        }
        let head = base.current().map(|c| c.id);
        if base.ancestors(head).any(|s| s.id == self.picked.id || s.source == Some(self.picked.id)) {
            return Err(Exception::CherrypickAncestor);
        }
        Ok(())
    }
    pub const fn change(&self) -> &Change {
        &self.change
    }
    pub fn operation(&self) -> Operation {
        self.picked.operation
    }
    pub fn replaces_partitions(&self) -> bool {
        self.picked.replaces_partitions
    }
    pub fn source(&self) -> Option<SnapshotId> {
        (!self.fast_forward_only).then_some(self.picked.id)
    }
}
