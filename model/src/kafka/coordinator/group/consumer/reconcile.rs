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
        let unsubscribed = current.assigned.keys().any(|tp| !self.member.is_subscribed(tp.topic));
        match current.state {
            MemberState::Stable if current.epoch == self.target_epoch && !unsubscribed => current.clone(),
            MemberState::UnrevokedPartitions if self.still_owns(&current.revoking) => {
                if unsubscribed {
                    self.give_up_unsubscribed()
                } else {
                    current.clone()
                }
            }
            // Also from unrevoked: a newer target may want more of it, in the epoch in which it is (**R**).
            _ => self.next(),
        }
    }

    /// Whether the member may still own some of `partitions`: a member that reports nothing has not given anything up.
    fn still_owns(&self, partitions: &AssignedPartitions) -> bool {
        self.owned.is_none_or(|owned| owned.iter().any(|tp| partitions.contains_key(tp)))
    }
    /// Nobody has it, or nobody but this member, which has just given it up and gets it back.
    fn is_free(&self, tp: TopicPartition) -> bool {
        let own = self.member.current.revoking.contains_key(&tp);
        own || !self.group.owners.contains_key(&tp) || !self.fixes.has(Fix::ReleaseBeforeAssign)
    }

    /// To be owned: in the target, and still subscribed to. What is not subscribed to any more goes at once, the target may be
    /// computed later (KAFKA-19431).
    fn is_wanted(&self, tp: TopicPartition) -> bool {
        self.target.contains(&tp) && self.member.is_subscribed(tp.topic)
    }
    fn give_up_unsubscribed(&self) -> CurrentAssignment {
        let mut next = self.member.current.clone();
        next.previous_epoch = next.epoch;
        let gone = next.assigned.extract_if(.., |tp, _| !self.member.is_subscribed(tp.topic)).collect::<Vec<_>>();
        next.revoking.extend(gone);
        next
    }

    fn next(&self) -> CurrentAssignment {
        let current = &self.member.current;
        let (mut assigned, mut revoking) = (AssignedPartitions::new(), AssignedPartitions::new());
        for (tp, since) in &current.assigned {
            if self.is_wanted(*tp) { &mut assigned } else { &mut revoking }.insert(*tp, *since);
        }
        let moved_to = |epoch, state, assigned, revoking| CurrentAssignment {
            epoch,
            previous_epoch: current.epoch,
            state,
            assigned,
            revoking,
        };
        if !revoking.is_empty() && self.still_owns(&revoking) {
            return moved_to(current.epoch, MemberState::UnrevokedPartitions, assigned, revoking);
        }
        let wanted = self.target.iter().copied().filter(|tp| self.is_wanted(*tp) && !assigned.contains_key(tp));
        let (free, held): (Vec<_>, Vec<_>) = wanted.partition(|tp| self.is_free(*tp));
        assigned.extend(free.into_iter().map(|tp| (tp, self.target_epoch)));
        let state = if held.is_empty() { MemberState::Stable } else { MemberState::UnreleasedPartitions };
        moved_to(self.target_epoch, state, assigned, AssignedPartitions::new())
    }
}
