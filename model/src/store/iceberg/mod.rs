//! An Apache Iceberg table (format version 2) and the two committers of its Flink sink, as Iceberg 1.10.0 has them.
//!
//! [`Catalog`] holds the pointer to the table's metadata; [`Files`] holds all else. A client reads the pointer into its [`Table`],
//! builds an operation as a [`Commit`], and swaps. [`FilesCommitter`] is FlinkSink's (v1), [`IcebergCommitter`] IcebergSink's
//! (v2); [`DeltaWriter`] is the writer before both.

mod catalog;
mod cherry_pick;
mod cleanup;
mod commit;
mod committer_v1;
mod committer_v2;
mod error;
mod expire;
mod file;
mod filter;
mod flink;
mod manage;
mod metadata;
mod operation;
mod producer;
mod read;
mod table;
mod validate;
mod writer;

#[cfg(test)]
mod tests;

pub use catalog::{Catalog, CatalogKind, Pointer, Swap};
pub use commit::{Commit, Next};
pub use committer_v1::{FilesCommitter, FilesCommitterState};
pub use committer_v2::{IcebergCommittable, IcebergCommitter, WriteAggregator};
pub use error::{Exception, SwapError};
pub use expire::{ExpireSnapshots, Expiry};
pub use file::{Content, DataFile, Entry, FileName, Files, Key, ManifestFile, Object, Status};
pub use flink::{DeltaManifests, SinkConfig, WriteResult, max_committed};
pub use manage::Manage;
pub use metadata::{FlinkMarker, MAIN, Name, Operation, RefKind, Snapshot, SnapshotId, SnapshotRef, TableMetadata};
pub use operation::{Change, ChangeKind, Filter, Validation};
pub use producer::SnapshotProducer;
pub use read::{live_files, newly_listed, rows};
pub use table::{Mint, Table};
pub use writer::{AppendWriter, DeltaWriter, RowKind};
