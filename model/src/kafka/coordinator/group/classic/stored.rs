//! What follows when a classic group's record is replicated, or could not be appended.

use super::super::messages::{GroupReply, MemberAssignment, Name};
use super::super::shard::{GroupCoordinatorShard, Step};
use super::group::{ClassicGroup, ClassicState};
use super::join::{SKIPS_ASSIGNMENT, current, refused};
use super::member::ClassicMember;
use super::rounds::answer_join;
use crate::base::Millis;
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::GroupId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a record of a classic group was written for. Its group is changed only now, not by the record.
#[derive(Clone, Debug)]
pub(in super::super) enum Stored {
    /// A new group: matters only if it failed.
    NewGroup {
        /// The JoinGroup.
        token: u64,
    },
    /// The leader's assignment.
    Assignment {
        /// Generation in which it was sent.
        generation: i32,
        /// By member.
        assignment: BTreeMap<Name, MemberAssignment>,
    },
    /// A static member under a new id.
    StaticReplaced {
        /// The old id.
        old: Name,
        /// Who led then.
        old_leader: Option<Name>,
        /// The new id.
        new: Name,
        /// The member before its join was taken.
        before: Box<ClassicMember>,
        /// Api version of the join.
        version: u8,
    },
}

/// Errors of an append, as classic members are told them (`appendGroupMetadataErrorToResponseError`).
pub(in super::super) fn append_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition | ErrorCode::NotEnoughReplicas | ErrorCode::RequestTimedOut => {
            ErrorCode::CoordinatorNotAvailable
        }
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => {
            ErrorCode::UnknownServerError
        }
        other => other,
    }
}

impl GroupCoordinatorShard {
    /// The record is replicated, or `result` says why it never was appended.
    pub(in super::super) fn classic_stored(
        &mut self,
        id: GroupId,
        stored: Stored,
        result: Result<(), ErrorCode>,
        now: Millis,
        step: &mut Step,
    ) {
        if let (Stored::NewGroup { token }, Err(error)) = (&stored, result) {
            // The group itself is gone again.
            return step.answer(*token, refused(append_error(error), None));
        }
        self.with_classic(id, |shard, group| match stored {
            Stored::NewGroup { .. } => {}
            Stored::Assignment { generation, assignment } => {
                if group.state == ClassicState::CompletingRebalance && group.generation == generation {
                    shard.assignment_stored(id, group, assignment, result, now, step);
                }
            }
            Stored::StaticReplaced { old, old_leader, new, before, version } => match result {
                Ok(()) => {
                    let leads = group.is_leader(&new);
                    let skips = version >= SKIPS_ASSIGNMENT;
                    let mut reply = current(group, &new, leads && skips, leads && skips);
                    if let GroupReply::Join(join) = &mut reply
                        && !skips
                    {
                        // An older client that finds itself leading would assign: it is told of the leader that was.
                        join.leader = old_leader;
                    }
                    answer_join(group, &new, reply, step);
                }
                Err(error) => shard.restore_static(id, group, &old, &new, *before, error, now, step),
            },
        });
    }

    fn assignment_stored(
        &mut self,
        id: GroupId,
        group: &mut ClassicGroup,
        assignment: BTreeMap<Name, MemberAssignment>,
        result: Result<(), ErrorCode>,
        now: Millis,
        step: &mut Step,
    ) {
        if let Err(error) = result {
            self.reset_assignment(id, group, append_error(error), now, step);
            return self.rebalance_or_complete_join(id, group, now, step);
        }
        for (name, member) in &mut group.members {
            member.assignment = assignment.get(name).cloned().unwrap_or_default();
        }
        self.propagate_assignment(id, group, ErrorCode::None, now, step);
        group.transition(ClassicState::Stable, now);
    }

    /// Gives a static member its old id back.
    fn restore_static(
        &mut self,
        id: GroupId,
        group: &mut ClassicGroup,
        old: &Name,
        new: &Name,
        before: ClassicMember,
        error: ErrorCode,
        now: Millis,
        step: &mut Step,
    ) {
        answer_join(group, new, refused(append_error(error), Some(&Arc::from(""))), step);
        let led = group.is_leader(new);
        group.members.remove(new);
        if let Some(instance) = &before.instance {
            group.static_members.insert(Arc::clone(instance), Arc::clone(old));
        }
        group.members.insert(Arc::clone(old), ClassicMember { id: Arc::clone(old), ..before });
        if led {
            group.leader = Some(Arc::clone(old));
        }
        self.schedule_session(id, group, old, now);
    }
}
