//! A client's handle of a table (`BaseTable` over `TableOperations`).

use super::catalog::Pointer;
use super::error::Exception;
use super::file::{Entry, Files, Key, ManifestFile, Object};
use super::metadata::{Snapshot, SnapshotId, TableMetadata};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Gives the commits, manifests and temporary files of one client names that nobody else gives.
#[derive(Clone, Copy, Debug)]
pub struct Mint {
    client: u32,
    next: u32,
}
impl Mint {
    /// The names of a client; every incarnation is another one.
    pub const fn new(client: u32) -> Self {
        Self { client, next: 0 }
    }
    /// A new snapshot id.
    pub fn snapshot(&mut self) -> SnapshotId {
        self.next += 1;
        SnapshotId(u64::from(self.client) << 32 | u64::from(self.next))
    }
    pub(super) fn temporary(&mut self) -> Key {
        self.next += 1;
        Key::Temporary(self.client, self.next)
    }
}

/// The metadata as a client last read it.
#[derive(Clone, Debug)]
pub struct Table {
    pointer: Pointer,
    metadata: Arc<TableMetadata>,
    /// Manifest lists that were read since the metadata changed: a snapshot object keeps its own.
    lists: BTreeMap<Key, Arc<[ManifestFile]>>,
}

impl Table {
    /// A handle that was just loaded.
    pub fn new(loaded: (Pointer, Arc<TableMetadata>)) -> Self {
        Self { pointer: loaded.0, metadata: loaded.1, lists: BTreeMap::new() }
    }
    /// It has been read anew (`refresh`). The same pointer: nothing is read again, and what was read is kept.
    pub fn refreshed(&mut self, loaded: (Pointer, Arc<TableMetadata>)) {
        if loaded.0 != self.pointer {
            *self = Self::new(loaded);
        }
    }
    /// It is loaded anew (`TableLoader.loadTable`): what was read before is not kept, whatever the pointer.
    pub(super) fn forget(&mut self) {
        self.lists.clear();
    }
    /// The metadata.
    pub fn metadata(&self) -> &Arc<TableMetadata> {
        &self.metadata
    }
    pub(super) const fn pointer(&self) -> Pointer {
        self.pointer
    }
    /// The manifests of a snapshot (`Snapshot.allManifests`).
    pub(super) fn manifests(&mut self, of: &Snapshot, files: &Files) -> Result<Arc<[ManifestFile]>, Exception> {
        if let Some(list) = self.lists.get(&of.list) {
            return Ok(Arc::clone(list));
        }
        let list = read_list(of.list, files)?;
        self.lists.insert(of.list, Arc::clone(&list));
        Ok(list)
    }
}

/// Reads a manifest list.
pub(super) fn read_list(key: Key, files: &Files) -> Result<Arc<[ManifestFile]>, Exception> {
    match files.get(&key) {
        Ok(Object::ManifestList(list)) => Ok(Arc::clone(list)),
        _ => Err(Exception::NotFound),
    }
}
/// Reads a manifest; what an entry leaves to its list is filled in.
pub(super) fn read_manifest(manifest: &ManifestFile, files: &Files) -> Result<Vec<Entry>, Exception> {
    match files.get(&manifest.key) {
        Ok(Object::Manifest(entries)) => {
            Ok(entries.iter().map(|e| Entry { sequence: e.sequence.or(manifest.sequence), ..*e }).collect())
        }
        _ => Err(Exception::NotFound),
    }
}
