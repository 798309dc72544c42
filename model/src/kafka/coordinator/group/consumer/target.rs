//! A new target (`TargetAssignmentBuilder`).

use super::super::assignor::{GroupSpec, MemberSpec, ServerAssignor};
use super::super::messages::Name;
use super::super::records::GroupRecord;
use super::group::ConsumerGroup;
use super::member::ConsumerMember;
use crate::base::{Millis, TopicId, TopicPartition};
use crate::kafka::txn_messages::GroupId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A target by member.
pub(super) type Target = BTreeMap<Name, BTreeSet<TopicPartition>>;

impl ConsumerGroup {
    /// The assignor that most members name once `updated` has taken the place of `old`; without any vote `uniform`.
    ///
    /// Of a tie the first takes it of one bucket that both names share: `uniform` stands before `range` there, but a name
    /// that gets its first vote now is put at its head (`HashMap.compute`).
    fn preferred_assignor(&self, old: Option<&ConsumerMember>, updated: &ConsumerMember) -> ServerAssignor {
        let vote = |m: &ConsumerMember| m.subscription.assignor.as_deref().and_then(ServerAssignor::named);
        let count = |named| self.members.values().filter(|m| vote(m) == Some(named)).count();
        let mut votes = [ServerAssignor::Uniform, ServerAssignor::Range].map(|named| (named, count(named))).to_vec();
        if let Some(left) = old.and_then(vote) {
            votes.iter_mut().filter(|(named, _)| *named == left).for_each(|(_, n)| *n -= 1);
        }
        votes.retain(|(_, n)| *n > 0);
        if let Some(new) = vote(updated) {
            match votes.iter_mut().find(|(named, _)| *named == new) {
                Some((_, n)) => *n += 1,
                None => votes.insert(0, (new, 1)),
            }
        }
        let most = votes.iter().map(|(_, n)| *n).max();
        votes.iter().find(|(_, n)| Some(*n) == most).map_or(ServerAssignor::Uniform, |(named, _)| *named)
    }

    /// Computes the target of `epoch` with `updated` in its place: the new target, and the records of what changes.
    pub(super) fn new_target(
        &self,
        id: GroupId,
        epoch: i32,
        updated: &ConsumerMember,
        topics: &BTreeMap<TopicId, u16>,
        now: Millis,
    ) -> (Target, Vec<GroupRecord>) {
        let members = self.members_with(updated);
        let replaced = updated.subscription.instance.as_ref().and_then(|i| self.static_members.get(i));
        let has = |member: &ConsumerMember| {
            let before = if member.id == updated.id { replaced.unwrap_or(&member.id) } else { &member.id };
            self.target.get(before).map(|set| (**set).clone()).unwrap_or_default()
        };
        let spec = GroupSpec {
            members: members
                .iter()
                .map(|m| MemberSpec {
                    id: Arc::clone(&m.id),
                    instance: m.subscription.instance.clone(),
                    homogeneous_with: m.subscription.topics.clone(),
                    topics: m.subscription.topics.iter().copied().filter(|t| topics.contains_key(t)).collect(),
                    assigned: has(m),
                })
                .collect(),
            topics,
        };
        let old = self.members.get(replaced.unwrap_or(&updated.id));
        let target = self.preferred_assignor(old, updated).assign(&spec);
        let mut records = Vec::new();
        for member in &members {
            let new = target.get(&member.id).cloned().unwrap_or_default();
            if self.target.get(&member.id).is_none_or(|old| **old != new) {
                let value = Some(Arc::new(new));
                records.push(GroupRecord::ConsumerGroupTargetAssignmentMember(id, Arc::clone(&member.id), value));
            }
        }
        records.push(GroupRecord::ConsumerGroupTargetAssignmentMetadata(id, Some((epoch, now))));
        (target, records)
    }
}
