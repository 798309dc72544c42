//! Which snapshots go (`RemoveSnapshots`; stores 2.4).

use super::cleanup::clean_up;
use super::error::Exception;
use super::file::{FileName, Files};
use super::metadata::{MAIN, RefKind, SnapshotId, SnapshotRef, TableMetadata, Update};
use super::table::Table;
use crate::base::Millis;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is asked of an expiry.
#[derive(Clone, Debug, Default)]
pub struct Expiry {
    /// `expireOlderThan`; none: now less `history.expire.max-snapshot-age-ms`.
    pub older_than: Option<Millis>,
    /// `retainLast`; none: `history.expire.min-snapshots-to-keep`.
    pub retain_last: Option<u32>,
    /// `expireSnapshotId`.
    pub ids: BTreeSet<SnapshotId>,
    /// `cleanExpiredFiles(false)`.
    pub keep_files: bool,
}

/// An expiry on its way.
#[derive(Clone, Debug)]
pub struct ExpireSnapshots {
    what: Expiry,
    now: Millis,
    older_than: Millis,
    retain_last: u32,
    max_ref_age: Millis,
    base: Arc<TableMetadata>,
    deleted: Vec<FileName>,
}

impl ExpireSnapshots {
    /// Limits are taken from the table as it is now. With `gc.enabled=false` nothing may expire.
    pub fn new(what: Expiry, table: &Table, now: Millis) -> Result<Self, Exception> {
        let base = Arc::clone(table.metadata());
        if !base.enabled("gc.enabled") {
            return Err(Exception::Validation);
        }
        let age = base.property("history.expire.max-snapshot-age-ms", 432_000_000);
        let keep = base.property("history.expire.min-snapshots-to-keep", 1);
        let max_ref_age = Millis(base.property("history.expire.max-ref-age-ms", i64::MAX));
        let older_than = what.older_than.unwrap_or(Millis(now.0.saturating_sub(age)));
        let retain_last = what.retain_last.unwrap_or(keep as u32);
        Ok(Self { what, now, older_than, retain_last, max_ref_age, base, deleted: Vec::new() })
    }
    pub(super) fn attempt(&mut self, table: &Table) -> Result<Vec<Update>, Exception> {
        self.base = Arc::clone(table.metadata());
        let base = &self.base;
        if base.snapshots.is_empty() {
            return Ok(Vec::new());
        }
        let kept_refs: Vec<&SnapshotRef> = base.refs.iter().filter(|(n, r)| self.keeps(n, r)).map(|(_, r)| r).collect();
        if self.what.ids.iter().any(|id| kept_refs.iter().any(|r| r.snapshot == *id)) {
            return Err(Exception::IllegalArgument);
        }
        let mut kept: BTreeSet<SnapshotId> = kept_refs.iter().map(|r| r.snapshot).collect();
        let mut referenced = kept.clone();
        for at in &kept_refs {
            if let RefKind::Branch { min_snapshots, max_snapshot_age } = at.kind {
                let older_than = max_snapshot_age.map_or(self.older_than, |age| Millis(self.now.0 - age.0));
                let min = min_snapshots.unwrap_or(self.retain_last) as usize;
                let mut ours = 0;
                let stays = base.ancestors(Some(at.snapshot)).take_while(|s| {
                    ours += 1;
                    ours <= min || s.time >= older_than
                });
                kept.extend(stays.map(|s| s.id));
                referenced.extend(base.ancestors(Some(at.snapshot)).map(|s| s.id));
            }
        }
        // Rolled back or staged: no branch counts them.
        let loose = base.snapshots.values().filter(|s| !referenced.contains(&s.id) && s.time >= self.older_than);
        kept.extend(loose.map(|s| s.id));
        let dropped = base.refs.iter().filter(|(n, r)| !self.keeps(n, r));
        let mut updates: Vec<Update> = dropped.map(|(name, _)| Update::RemoveRef(Arc::clone(name))).collect();
        let gone = |id: &&SnapshotId| !kept.contains(id) || self.what.ids.contains(id);
        let gone: Vec<SnapshotId> = base.snapshots.keys().filter(gone).copied().collect();
        if !gone.is_empty() {
            updates.push(Update::RemoveSnapshots(gone));
        }
        Ok(updates)
    }
    /// Main stays; any other reference until its snapshot has reached its age.
    fn keeps(&self, name: &str, at: &SnapshotRef) -> bool {
        let age = self.base.snapshot(at.snapshot).map(|s| self.now.0 - s.time.0);
        name == MAIN || age.is_some_and(|age| age <= at.max_age.unwrap_or(self.max_ref_age).0)
    }
    /// It is committed: files that nobody needs any longer go. `after` is the table as it is now.
    pub(super) fn finish(&mut self, after: &TableMetadata, files: &mut Files) {
        if !self.what.keep_files && !self.base.snapshots.is_empty() {
            self.deleted = clean_up(&self.base, after, !self.what.ids.is_empty(), files);
        }
    }
    /// Data and delete files that it has deleted.
    pub fn deleted(&self) -> &[FileName] {
        &self.deleted
    }
}
