//! A new target (`TargetAssignmentBuilder`).

use super::super::assignor::{GroupSpec, MemberSpec, ServerAssignor};
use super::super::messages::Name;
use super::super::records::GroupRecord;
use super::group::ConsumerGroup;
use super::member::ConsumerMember;
use crate::base::{Millis, TopicId, TopicPartition};
use crate::kafka::hash_order::hash_order;
use crate::kafka::txn_messages::GroupId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A target by member.
pub(super) type Target = BTreeMap<Name, BTreeSet<TopicPartition>>;

impl ConsumerGroup {
    /// The assignor that most members name; a tie goes by Java's order of names. Without any vote `uniform`.
    fn preferred_assignor(members: &[&ConsumerMember]) -> ServerAssignor {
        let mut votes: BTreeMap<Name, usize> = BTreeMap::new();
        for name in members.iter().filter_map(|m| m.subscription.assignor.as_ref()) {
            *votes.entry(Arc::clone(name)).or_default() += 1;
        }
        let most = votes.values().max().copied();
        let chosen = hash_order(votes.keys()).into_iter().find(|name| Some(votes[*name]) == most);
        chosen.and_then(|name| ServerAssignor::named(name)).unwrap_or(ServerAssignor::Uniform)
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
        let target = Self::preferred_assignor(&members).assign(&spec);
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
