//! The catalog: one pointer, moved by compare and swap (stores 2.1).

use super::error::{Exception, SwapError};
use super::metadata::{Name, SnapshotId, TableMetadata, Update};
use crate::base::{Fix, Fixes};
use std::sync::Arc;

/// Which metadata file a pointer names: the how many-th of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pointer(pub u64);

/// What a swap compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogKind {
    /// JDBC, and the in-memory one: the whole pointer. Changes of properties conflict with appends.
    Pointer,
    /// REST: of each reference that is set, where it was (`assert-ref-snapshot-id`). The server applies the updates to what it has.
    References,
}

/// A commit on its way. It may arrive after its client is gone; nothing fences it.
#[derive(Clone, Debug)]
pub struct Swap {
    pub(super) base: Pointer,
    /// The metadata that the client wrote for it.
    pub(super) next: Arc<TableMetadata>,
    pub(super) updates: Vec<Update>,
    /// Where the references were that it sets.
    pub(super) expects: Vec<(Name, Option<SnapshotId>)>,
}

/// The catalog's entry of one table.
#[derive(Clone, Debug)]
pub struct Catalog {
    kind: CatalogKind,
    pointer: Pointer,
    metadata: Arc<TableMetadata>,
}

impl Catalog {
    /// A table that was just made.
    pub fn new(kind: CatalogKind, metadata: TableMetadata) -> Self {
        Self { kind, pointer: Pointer(0), metadata: Arc::new(metadata) }
    }
    /// The table at a pointer.
    pub const fn at(kind: CatalogKind, pointer: Pointer, metadata: Arc<TableMetadata>) -> Self {
        Self { kind, pointer, metadata }
    }
    /// What a client reads.
    pub fn load(&self) -> (Pointer, Arc<TableMetadata>) {
        (self.pointer, Arc::clone(&self.metadata))
    }
    /// The swap arrives: visible from here on, or refused.
    pub fn swap(&mut self, swap: Swap, fixes: Fixes) -> Result<(), SwapError> {
        let next = match self.kind {
            CatalogKind::Pointer if swap.base != self.pointer && fixes.has(Fix::CatalogCompares) => {
                return Err(SwapError::CommitFailed);
            }
            CatalogKind::Pointer => swap.next,
            CatalogKind::References => {
                let moved = |(name, at): &(Name, Option<SnapshotId>)| {
                    self.metadata.refs.get(name).map(|r| r.snapshot) != *at && fixes.has(Fix::CatalogCompares)
                };
                // A commit to another branch took the sequence number: retried with a new one (`RetryableValidationException`).
                let behind = swap.updates.iter().any(
                    |u| matches!(u, Update::AddSnapshot(s) if s.sequence <= self.metadata.last_sequence && s.parent.is_some()),
                );
                if swap.expects.iter().any(moved) || behind {
                    return Err(SwapError::CommitFailed);
                }
                Arc::new(self.metadata.with(&swap.updates).map_err(SwapError::Refused)?)
            }
        };
        self.metadata = next;
        self.pointer = Pointer(self.pointer.0 + 1);
        Ok(())
    }
    /// Another metadata, whatever was there: for who makes up a history.
    pub fn set(&mut self, metadata: TableMetadata) {
        self.metadata = Arc::new(metadata);
        self.pointer = Pointer(self.pointer.0 + 1);
    }
}

impl Swap {
    /// What turns `metadata` at `base` into the next. Nothing, if nothing changes.
    pub(super) fn of(base: Pointer, metadata: &TableMetadata, updates: Vec<Update>) -> Result<Option<Self>, Exception> {
        if updates.is_empty() {
            return Ok(None);
        }
        let set = updates.iter().filter_map(|u| match u {
            Update::SetRef(name, _) => Some((Arc::clone(name), metadata.refs.get(name).map(|r| r.snapshot))),
            _ => None,
        });
        let expects = set.collect();
        let next = Arc::new(metadata.with(&updates)?);
        Ok(Some(Self { base, next, updates, expects }))
    }
}
