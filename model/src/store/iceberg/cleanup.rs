//! Which files go with expired snapshots (`IncrementalFileCleanup`, `ReachableFileCleanup`; stores 2.4).

use super::file::{Entry, FileName, Files, Key, ManifestFile, Status};
use super::metadata::{Snapshot, SnapshotId, TableMetadata};
use super::table::{read_list, read_manifest};
use std::collections::{BTreeMap, BTreeSet};

/// What a cleanup deletes. What it cannot read it leaves alone.
#[derive(Default)]
struct Doomed {
    data: BTreeSet<FileName>,
    manifests: BTreeSet<Key>,
    lists: BTreeSet<Key>,
}

pub(super) fn clean_up(before: &TableMetadata, after: &TableMetadata, by_id: bool, files: &mut Files) -> Vec<FileName> {
    let expired: Vec<&Snapshot> =
        before.snapshots.values().filter(|s| after.snapshot(s.id).is_none()).map(|s| &**s).collect();
    if expired.is_empty() {
        return Vec::new();
    }
    let main = |of: &TableMetadata| -> BTreeSet<SnapshotId> {
        of.ancestors(of.current().map(|c| c.id)).map(|s| s.id).collect()
    };
    let (main_before, main_after) = (main(before), main(after));
    // One unbroken line below main, before and after: then what a snapshot removed is gone for everybody.
    let one_line =
        expired.iter().all(|s| main_before.contains(&s.id)) && after.snapshots.keys().all(|id| main_after.contains(id));
    let doomed = if one_line && !by_id {
        incremental(before, after, &expired, &main_before, files)
    } else {
        reachable(after, &expired, files)
    };
    for key in doomed.manifests.iter().chain(&doomed.lists) {
        files.delete(key);
    }
    let mut deleted = Vec::new();
    for name in doomed.data {
        if files.delete(&Key::File(name)) {
            deleted.push(name);
        }
    }
    deleted
}

fn entries(manifest: &ManifestFile, files: &Files) -> Vec<Entry> {
    read_manifest(manifest, files).unwrap_or_default()
}
fn manifests(of: &Snapshot, files: &Files) -> Vec<ManifestFile> {
    read_list(of.list, files).map(|list| list.to_vec()).unwrap_or_default()
}

/// Files that an expired snapshot of main removed. What a snapshot that stays has removed is left on disk.
fn incremental(
    before: &TableMetadata,
    after: &TableMetadata,
    expired: &[&Snapshot],
    ancestors: &BTreeSet<SnapshotId>,
    files: &Files,
) -> Doomed {
    let mut doomed = Doomed::default();
    let picked: BTreeSet<SnapshotId> =
        before.snapshots.values().filter(|s| ancestors.contains(&s.id)).filter_map(|s| s.source).collect();
    let mut valid = BTreeSet::new();
    let mut scan = BTreeMap::new();
    let mut revert = BTreeMap::new();
    for snapshot in after.snapshots.values() {
        for manifest in manifests(snapshot, files) {
            valid.insert(manifest.key);
            let by_expired = after.snapshot(manifest.snapshot).is_none();
            let counts = ancestors.contains(&manifest.snapshot) || picked.contains(&manifest.snapshot);
            if by_expired && counts && manifest.deleted {
                scan.insert(manifest.key, manifest);
            }
        }
    }
    for snapshot in expired {
        // Its changes are in the table under another snapshot, and expire with that.
        let copied = |id: &SnapshotId| ancestors.contains(id) || picked.contains(id);
        if picked.contains(&snapshot.id) || snapshot.source.as_ref().is_some_and(copied) {
            continue;
        }
        for manifest in manifests(snapshot, files).into_iter().filter(|m| !valid.contains(&m.key)) {
            doomed.manifests.insert(manifest.key);
            let of_ancestor = ancestors.contains(&manifest.snapshot);
            let of_expired = expired.iter().any(|s| s.id == manifest.snapshot);
            if of_ancestor && manifest.deleted {
                scan.insert(manifest.key, manifest);
            } else if !of_ancestor && of_expired && manifest.added {
                revert.insert(manifest.key, manifest);
            }
        }
        doomed.lists.insert(snapshot.list);
    }
    for manifest in scan.values() {
        let removed = entries(manifest, files).into_iter().filter(|e| e.status == Status::Deleted);
        doomed.data.extend(removed.filter(|e| after.snapshot(e.snapshot).is_none()).map(|e| e.file.name));
    }
    for manifest in revert.values() {
        let added = entries(manifest, files).into_iter().filter(|e| e.status == Status::Added);
        doomed.data.extend(added.map(|e| e.file.name));
    }
    doomed
}

/// Files that are live in an expired snapshot and in none that stays.
fn reachable(after: &TableMetadata, expired: &[&Snapshot], files: &Files) -> Doomed {
    let mut doomed = Doomed { lists: expired.iter().map(|s| s.list).collect(), ..Doomed::default() };
    let mut kept = BTreeMap::new();
    for snapshot in after.snapshots.values() {
        kept.extend(manifests(snapshot, files).into_iter().map(|m| (m.key, m)));
    }
    let mut live = BTreeSet::new();
    for manifest in expired.iter().flat_map(|s| manifests(s, files)) {
        if !kept.contains_key(&manifest.key) && doomed.manifests.insert(manifest.key) {
            live.extend(entries(&manifest, files).into_iter().filter(Entry::live).map(|e| e.file.name));
        }
    }
    if !live.is_empty() {
        for manifest in kept.values() {
            for entry in entries(manifest, files).iter().filter(|e| e.live()) {
                live.remove(&entry.file.name);
            }
        }
    }
    doomed.data = live;
    doomed
}
