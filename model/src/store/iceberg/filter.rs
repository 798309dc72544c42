//! Manifests without the files that a commit removes (`ManifestFilterManager`).

use super::error::Exception;
use super::file::{DataFile, Entry, FileName, Files, Key, ManifestFile, Object, Status};
use super::metadata::SnapshotId;
use super::operation::Filter;
use super::table::read_manifest;
use std::collections::{BTreeMap, BTreeSet};

/// What is to go.
#[derive(Clone, Debug, Default)]
pub(super) struct Removal {
    pub names: BTreeSet<FileName>,
    pub filter: Option<Filter>,
    pub partitions: BTreeSet<Option<i64>>,
    /// Delete files below this data sequence number apply to nothing any more.
    pub older_than: i64,
    /// Whether a name that is not found fails the commit.
    pub fails_missing: bool,
}

/// One of the two filters of a commit: over data files, or over delete files. What it made of a manifest is kept for the next
/// attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct ManifestFilter {
    made: BTreeMap<Key, ManifestFile>,
    /// What the manifests that it wrote have lost.
    removed: BTreeMap<Key, Vec<DataFile>>,
}

impl ManifestFilter {
    pub fn filter<'a>(
        &mut self,
        manifests: impl Iterator<Item = &'a ManifestFile>,
        removal: &Removal,
        writer: &mut ManifestWriter<'_>,
    ) -> Result<Vec<ManifestFile>, Exception> {
        let mut out = Vec::new();
        for manifest in manifests {
            let filtered = match self.made.get(&manifest.key) {
                Some(known) => *known,
                None => self.one(manifest, removal, writer)?,
            };
            self.made.insert(manifest.key, filtered);
            out.push(filtered);
        }
        let found = |name: &FileName| {
            out.iter().filter_map(|m| self.removed.get(&m.key)).flatten().any(|file| file.name == *name)
        };
        if removal.fails_missing && !removal.names.iter().all(found) {
            return Err(Exception::Validation);
        }
        Ok(out)
    }
    fn one(
        &mut self,
        manifest: &ManifestFile,
        removal: &Removal,
        writer: &mut ManifestWriter<'_>,
    ) -> Result<ManifestFile, Exception> {
        let by_age = manifest.deletes && manifest.min_sequence.is_some_and(|s| s < removal.older_than);
        let asks = !removal.names.is_empty() || removal.filter.is_some() || !removal.partitions.is_empty() || by_age;
        if !asks || !(manifest.added || manifest.existing) {
            return Ok(*manifest);
        }
        let entries = read_manifest(manifest, writer.files)?;
        let mut removed = Vec::new();
        let mut left = Vec::new();
        for entry in entries.iter().filter(|e| e.live()) {
            let file = entry.file;
            let old = manifest.deletes && entry.sequence.is_some_and(|s| 0 < s && s < removal.older_than);
            let marked = old || removal.names.contains(&file.name) || removal.partitions.contains(&file.partition);
            let matches = marked || removal.filter.is_some_and(|f| f.might(&file));
            let whole = marked || removal.filter.is_some_and(|f| f.must(&file));
            if matches && !whole && !manifest.deletes {
                // Some rows of the file match, and not all: that takes a rewrite.
                return Err(Exception::Validation);
            }
            if matches && whole {
                removed.push(file);
                left.push(Entry { status: Status::Deleted, snapshot: writer.snapshot, ..*entry });
            } else {
                left.push(Entry { status: Status::Existing, ..*entry });
            }
        }
        if removed.is_empty() {
            return Ok(*manifest);
        }
        let filtered = writer.write(manifest.deletes, left);
        self.removed.insert(filtered.key, removed);
        Ok(filtered)
    }
    /// Deletes what it wrote and what is not in `kept`.
    pub fn clean(&mut self, kept: &BTreeSet<Key>, files: &mut Files) {
        self.made.retain(|original, filtered| {
            let stays = kept.contains(&filtered.key);
            if !stays && filtered.key != *original {
                files.delete(&filtered.key);
            }
            stays
        });
    }
}

/// Writes the manifests of one commit.
pub(super) struct ManifestWriter<'a> {
    pub snapshot: SnapshotId,
    pub written: &'a mut u32,
    pub files: &'a mut Files,
}
impl ManifestWriter<'_> {
    pub fn write(&mut self, deletes: bool, entries: Vec<Entry>) -> ManifestFile {
        *self.written += 1;
        let key = Key::Manifest(self.snapshot, *self.written);
        let has = |status| entries.iter().any(|e: &Entry| e.status == status);
        // Without a live entry of a known number it is the number of the snapshot to come.
        let min_sequence = entries.iter().filter(|e| e.live()).filter_map(|e| e.sequence).min();
        let manifest = ManifestFile {
            key,
            deletes,
            snapshot: self.snapshot,
            sequence: None,
            min_sequence,
            added: has(Status::Added),
            existing: has(Status::Existing),
            deleted: has(Status::Deleted),
        };
        self.files.put(key, Object::Manifest(entries.into()));
        manifest
    }
}
