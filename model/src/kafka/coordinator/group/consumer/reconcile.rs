//! A member's next step towards its target (`CurrentAssignmentBuilder`): first it gives up, then it is given what is free.

use super::super::records::{AssignedPartitions, CurrentAssignment, MemberState};
use super::group::ConsumerGroup;
use super::member::ConsumerMember;
use crate::base::{Fix, Fixes, TopicPartition};
use std::collections::BTreeSet;

/// What a step goes by.
pub(super) struct Reconciliation<'a> {
    pub(super) group: &'a ConsumerGroup,
    pub(super) member: &'a ConsumerMember,
    /// The member's target, and its epoch.
    pub(super) target: &'a BTreeSet<TopicPartition>,
    pub(super) target_epoch: i32,
    /// What the member reports that it owns.
    pub(super) owned: Option<&'a [TopicPartition]>,
    pub(super) fixes: Fixes,
}

impl Reconciliation<'_> {
    /// What the member has after this heartbeat.
    pub(super) fn step(&self) -> CurrentAssignment {
        let current = &self.member.current;
        match current.state {
            MemberState::Stable if current.epoch == self.target_epoch => current.clone(),
            MemberState::Stable | MemberState::UnreleasedPartitions => self.next(current.epoch),
            MemberState::UnrevokedPartitions if self.still_owns(&current.revoking) => current.clone(),
            // What it had to give up is given up; it may have to give up more for a newer target.
            MemberState::UnrevokedPartitions => self.next(current.epoch + 1),
        }
    }

    /// Whether the member may still own some of `partitions`: a member that reports nothing has not given anything up.
    fn still_owns(&self, partitions: &AssignedPartitions) -> bool {
        self.owned.is_none_or(|owned| owned.iter().any(|tp| partitions.contains_key(tp)))
    }
    fn is_free(&self, tp: TopicPartition) -> bool {
        !self.fixes.has(Fix::ReleaseBeforeAssign) || !self.group.owners.contains_key(&tp)
    }

    fn next(&self, epoch: i32) -> CurrentAssignment {
        let current = &self.member.current;
        let (mut assigned, mut revoking) = (AssignedPartitions::new(), AssignedPartitions::new());
        for (tp, since) in &current.assigned {
            if self.target.contains(tp) { &mut assigned } else { &mut revoking }.insert(*tp, *since);
        }
        let moved_to = |epoch, state, assigned, revoking| CurrentAssignment {
            epoch,
            previous_epoch: current.epoch,
            state,
            assigned,
            revoking,
        };
        if !revoking.is_empty() && self.still_owns(&revoking) {
            return moved_to(epoch, MemberState::UnrevokedPartitions, assigned, revoking);
        }
        let wanted = self.target.iter().copied().filter(|tp| !assigned.contains_key(tp));
        let (free, held): (Vec<_>, Vec<_>) = wanted.partition(|tp| self.is_free(*tp));
        assigned.extend(free.into_iter().map(|tp| (tp, self.target_epoch)));
        let state = if held.is_empty() { MemberState::Stable } else { MemberState::UnreleasedPartitions };
        moved_to(self.target_epoch, state, assigned, AssignedPartitions::new())
    }
}
