//! What a client asks to change, and what it wants checked.

use super::file::DataFile;
use super::metadata::{Operation, SnapshotId};

/// Which API builds the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// `newAppend`.
    Append,
    /// `newFastAppend`: looks at no manifest of its parent.
    FastAppend,
    /// `newDelete`.
    Delete,
    /// `newRewrite`: other files for the same rows.
    Rewrite,
    /// `newOverwrite`.
    Overwrite,
    /// `newRowDelta`: rows, and delete files for older rows.
    RowDelta,
    /// `newReplacePartitions`: the partitions of the added files lose all they had.
    ReplacePartitions,
}

/// An expression over partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Everything.
    All,
    /// Rows of one partition value.
    Partition(i64),
}
impl Filter {
    /// Whether rows of the file might match.
    pub(super) fn might(self, file: &DataFile) -> bool {
        match self {
            Self::All => true,
            Self::Partition(value) => file.partition.is_none_or(|p| p == value),
        }
    }
    /// Whether all of its rows do.
    pub(super) fn must(self, file: &DataFile) -> bool {
        match self {
            Self::All => true,
            Self::Partition(value) => file.partition == Some(value),
        }
    }
}

/// What must not have happened since [`Self::from`].
#[derive(Clone, Debug, Default)]
pub struct Validation {
    /// `validateFromSnapshot`; none: since the table began.
    pub from: Option<SnapshotId>,
    /// `conflictDetectionFilter`.
    pub conflict: Option<Filter>,
    /// `validateNoConflictingData`.
    pub data: bool,
    /// `validateNoConflictingDeletes`.
    pub deletes: bool,
    /// `validateDeletedFiles`: what [`Self::exist`] names must not be removed by a plain delete either.
    pub deleted: bool,
    /// `validateDataFilesExist`: what position deletes point at.
    pub exist: Vec<DataFile>,
    /// `validateFilesExist`: what is to be removed must be there.
    pub missing: bool,
}

/// A change of the table's files.
#[derive(Clone, Debug)]
pub struct Change {
    /// By which API.
    pub kind: ChangeKind,
    /// Data files to add.
    pub add: Vec<DataFile>,
    /// Delete files to add.
    pub deletes: Vec<DataFile>,
    /// Data files to remove.
    pub remove: Vec<DataFile>,
    /// Rows to remove.
    pub filter: Option<Filter>,
    /// `dataSequenceNumber` of the added files of a rewrite.
    pub sequence: Option<i64>,
    /// What is checked.
    pub validation: Validation,
}
impl Change {
    /// A change that only adds.
    pub fn adding(kind: ChangeKind, add: Vec<DataFile>, deletes: Vec<DataFile>) -> Self {
        let validation = Validation::default();
        Self { kind, add, deletes, remove: Vec::new(), filter: None, sequence: None, validation }
    }
    /// The name that the snapshot gets.
    pub(super) fn operation(&self) -> Operation {
        let removes = !self.remove.is_empty() || self.filter.is_some();
        match self.kind {
            ChangeKind::Append | ChangeKind::FastAppend => Operation::Append,
            ChangeKind::Delete => Operation::Delete,
            ChangeKind::Rewrite => Operation::Replace,
            ChangeKind::Overwrite if removes && self.add.is_empty() => Operation::Delete,
            ChangeKind::Overwrite if !removes && !self.add.is_empty() => Operation::Append,
            ChangeKind::RowDelta if self.add.is_empty() && !self.deletes.is_empty() => Operation::Delete,
            ChangeKind::Overwrite | ChangeKind::RowDelta | ChangeKind::ReplacePartitions => Operation::Overwrite,
        }
    }
    /// Whether a file that is to be removed and is not there fails the commit.
    pub(super) fn fails_missing(&self) -> bool {
        match self.kind {
            ChangeKind::Rewrite => true,
            ChangeKind::Overwrite => self.validation.deletes,
            _ => self.validation.missing,
        }
    }
}
