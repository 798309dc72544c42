//! What lies in the object store: data and delete files, manifests, manifest lists.

use super::metadata::SnapshotId;
use crate::base::Row;
use crate::store::object_store::ObjectStore;
use std::sync::Arc;

/// A data or delete file; the name is the identity, and names are unique to their writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(pub u64);

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Rows.
    Data,
    /// Keys whose rows in older files are gone.
    EqualityDeletes,
    /// Rows of named files that are gone.
    PositionDeletes,
}

/// A file as manifests list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataFile {
    /// Its name.
    pub name: FileName,
    /// What it holds.
    pub content: Content,
    /// Value of the partition it lies in; none in a table without partitions.
    pub partition: Option<i64>,
    /// Number of rows, keys or positions.
    pub records: u32,
}

/// What a manifest says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Added by the entry's snapshot.
    Added,
    /// Added earlier, and still there.
    Existing,
    /// Removed by the entry's snapshot.
    Deleted,
}

/// A line of a manifest (`ManifestEntry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What happened to the file.
    pub status: Status,
    /// Which snapshot did it.
    pub snapshot: SnapshotId,
    /// Data sequence number; none: that of the snapshot that brings the manifest.
    pub sequence: Option<i64>,
    /// The file.
    pub file: DataFile,
}
impl Entry {
    /// Whether the file is there.
    pub fn live(&self) -> bool {
        self.status != Status::Deleted
    }
}

/// A line of a manifest list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Where the manifest is.
    pub key: Key,
    /// Whether it lists delete files.
    pub deletes: bool,
    /// Which snapshot wrote it.
    pub snapshot: SnapshotId,
    /// Sequence number of that snapshot; none until its list is written.
    pub sequence: Option<i64>,
    /// Least data sequence number of what is live in it; none: that of its snapshot.
    pub min_sequence: Option<i64>,
    /// Whether entries were added by that snapshot.
    pub added: bool,
    /// Whether entries are older.
    pub existing: bool,
    /// Whether entries were removed by that snapshot.
    pub deleted: bool,
}

/// Name of an object. Whoever writes it has a number of its own, so names never collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A manifest list: of which commit, and which of its attempts.
    ManifestList(SnapshotId, u32),
    /// A manifest: by which commit, the how many-th.
    Manifest(SnapshotId, u32),
    /// A temporary manifest of a Flink committer: whose, the how many-th.
    Temporary(u32, u32),
    /// A data or delete file.
    File(FileName),
}

/// What lies under a key. Immutable and shared.
#[derive(Clone, Debug)]
pub enum Object {
    /// A manifest list.
    ManifestList(Arc<[ManifestFile]>),
    /// A manifest.
    Manifest(Arc<[Entry]>),
    /// Files that a Flink committer has not committed yet.
    Temporary(Arc<[DataFile]>),
    /// A data file; without rows where only its name matters.
    Rows(Arc<[Row]>),
    /// An equality delete file: keys.
    Keys(Arc<[u64]>),
    /// A position delete file.
    Positions(Arc<[(FileName, u32)]>),
}

/// The object store of the table.
pub type Files = ObjectStore<Key, Object>;
