//! Changes of references and properties (`ManageSnapshots`, `UpdateProperties`).

use super::error::Exception;
use super::metadata::{MAIN, Name, RefKind, SnapshotId, SnapshotRef, TableMetadata, Update};
use crate::base::Millis;
use std::sync::Arc;

/// A change that makes no snapshot.
#[derive(Clone, Debug)]
pub enum Manage {
    /// `UpdateProperties`.
    SetProperties(Vec<(Name, Name)>),
    /// `rollbackTo`: main goes back to an ancestor.
    RollbackTo(SnapshotId),
    /// `setCurrentSnapshot`: main goes to any snapshot.
    SetCurrent(SnapshotId),
    /// `createBranch` or `createTag`, with the reference's own limits.
    Create {
        /// Its name.
        name: Name,
        /// Where.
        at: SnapshotId,
        /// Branch or tag.
        kind: RefKind,
        /// `max-ref-age-ms`.
        max_age: Option<Millis>,
    },
    /// `removeBranch`.
    DropBranch(Name),
    /// `removeTag`.
    DropTag(Name),
    /// `fastForwardBranch`.
    FastForward(Name, Name),
}

impl Manage {
    pub(super) fn attempt(&self, base: &TableMetadata) -> Result<Vec<Update>, Exception> {
        let set = |name: &Name, to: SnapshotRef| vec![Update::SetRef(Arc::clone(name), to)];
        let main: Name = MAIN.into();
        let move_main = |to: SnapshotId| match base.refs.get(MAIN) {
            Some(at) if at.snapshot == to => Vec::new(),
            Some(at) => set(&main, SnapshotRef { snapshot: to, ..*at }),
            None => set(&main, SnapshotRef::branch(to)),
        };
        let removable = |name: &Name, branch: bool| match base.refs.get(name) {
            Some(at) if at.is_branch() == branch && &**name != MAIN => Ok(vec![Update::RemoveRef(Arc::clone(name))]),
            _ => Err(Exception::IllegalArgument),
        };
        match self {
            Self::SetProperties(all) if all.is_empty() => Ok(Vec::new()),
            Self::SetProperties(all) => Ok(vec![Update::SetProperties(all.clone())]),
            Self::RollbackTo(to) => {
                let current = base.current().map(|c| c.id);
                if base.snapshot(*to).is_none() || !base.ancestors(current).any(|s| s.id == *to) {
                    return Err(Exception::Validation);
                }
                Ok(move_main(*to))
            }
            Self::SetCurrent(to) if base.snapshot(*to).is_none() => Err(Exception::Validation),
            Self::SetCurrent(to) => Ok(move_main(*to)),
            Self::Create { name, .. } if base.refs.contains_key(name) => Err(Exception::IllegalArgument),
            Self::Create { at, .. } if base.snapshot(*at).is_none() => Err(Exception::Validation),
            Self::Create { name, at, kind, max_age } => {
                Ok(set(name, SnapshotRef { snapshot: *at, kind: *kind, max_age: *max_age }))
            }
            Self::DropBranch(name) => removable(name, true),
            Self::DropTag(name) => removable(name, false),
            Self::FastForward(name, to) => {
                let to = *base.refs.get(to).ok_or(Exception::IllegalArgument)?;
                match base.refs.get(name) {
                    None => Ok(set(name, SnapshotRef::branch(to.snapshot))),
                    Some(at) if !at.is_branch() => Err(Exception::IllegalArgument),
                    Some(at) if at.snapshot == to.snapshot => Ok(Vec::new()),
                    Some(at) if !base.is_ancestor(to.snapshot, at.snapshot) => Err(Exception::IllegalArgument),
                    Some(at) => Ok(set(name, SnapshotRef { snapshot: to.snapshot, ..*at })),
                }
            }
        }
    }
}
