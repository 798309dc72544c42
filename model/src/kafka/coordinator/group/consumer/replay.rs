//! Records of KIP-848 groups, applied.

use super::super::messages::LEAVE_EPOCH;
use super::super::records::{CurrentAssignment, GroupRecord};
use super::super::shard::{Group, GroupCoordinatorShard};
use super::group::ConsumerGroup;
use super::member::ConsumerMember;
use crate::kafka::txn_messages::GroupId;
use std::sync::Arc;

impl GroupCoordinatorShard {
    /// Applies one record. A tombstone of what is not there is passed over: after compaction it may be all that is left.
    pub(in super::super) fn replay_consumer(&mut self, record: &GroupRecord) {
        let id = match record {
            GroupRecord::ConsumerGroupMetadata(id, _)
            | GroupRecord::ConsumerGroupPartitionMetadata(id)
            | GroupRecord::ConsumerGroupMemberMetadata(id, ..)
            | GroupRecord::ConsumerGroupTargetAssignmentMetadata(id, _)
            | GroupRecord::ConsumerGroupTargetAssignmentMember(id, ..)
            | GroupRecord::ConsumerGroupCurrentMemberAssignment(id, ..) => *id,
            GroupRecord::OffsetCommit(..) | GroupRecord::GroupMetadata(..) => return,
        };
        let Some(group) = self.consumer_group_for_replay(id, record.is_tombstone()) else { return };
        match record {
            GroupRecord::ConsumerGroupMetadata(_, Some((epoch, hash))) => {
                (group.epoch, group.metadata_hash) = (*epoch, *hash);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(_, value) => {
                group.assignment_epoch = value.map_or(0, |(epoch, _)| epoch);
                group.assigned_at = value.map(|(_, at)| at);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMember(_, member, Some(target)) => {
                group.target.insert(Arc::clone(member), Arc::clone(target));
            }
            GroupRecord::ConsumerGroupTargetAssignmentMember(_, member, None) => {
                group.target.remove(member);
            }
            GroupRecord::ConsumerGroupMemberMetadata(_, member, Some(subscription)) => {
                if let Some(instance) = &subscription.instance {
                    group.static_members.insert(Arc::clone(instance), Arc::clone(member));
                }
                group.member_mut(member).subscription = (**subscription).clone();
            }
            GroupRecord::ConsumerGroupMemberMetadata(_, member, None) => group.remove_member(member),
            GroupRecord::ConsumerGroupCurrentMemberAssignment(_, member, Some(current)) => {
                group.set_current(member, (**current).clone());
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(_, member, None) => {
                if group.members.contains_key(member) {
                    let nothing = ConsumerMember::new(member).current;
                    let left = CurrentAssignment { epoch: LEAVE_EPOCH, previous_epoch: LEAVE_EPOCH, ..nothing };
                    group.set_current(member, left);
                }
            }
            GroupRecord::ConsumerGroupMetadata(_, None)
            | GroupRecord::ConsumerGroupPartitionMetadata(_)
            | GroupRecord::OffsetCommit(..)
            | GroupRecord::GroupMetadata(..) => {}
        }
    }

    /// The group that a record is about; made by anything but a tombstone, also in the place of a simple group.
    fn consumer_group_for_replay(&mut self, id: GroupId, tombstone: bool) -> Option<&mut ConsumerGroup> {
        let replace = match self.groups.get(&id) {
            None => !tombstone,
            Some(Group::Classic(group)) => !tombstone && group.is_simple(),
            Some(Group::Consumer(_)) => false,
        };
        if replace {
            self.groups.insert(id, Group::Consumer(Box::default()));
        }
        match self.groups.get_mut(&id) {
            Some(Group::Consumer(group)) => Some(group),
            _ => None,
        }
    }
}

impl ConsumerGroup {
    fn member_mut(&mut self, member: &Arc<str>) -> &mut ConsumerMember {
        self.members.entry(Arc::clone(member)).or_insert_with(|| ConsumerMember::new(member))
    }
    fn set_current(&mut self, member: &Arc<str>, current: CurrentAssignment) {
        let before = std::mem::replace(&mut self.member_mut(member).current, current.clone());
        for tp in before.assigned.keys().chain(before.revoking.keys()) {
            if let Some(count) = self.owners.get_mut(tp) {
                *count -= 1;
                if *count == 0 {
                    self.owners.remove(tp);
                }
            }
        }
        for tp in current.assigned.keys().chain(current.revoking.keys()) {
            *self.owners.entry(*tp).or_default() += 1;
        }
    }
    fn remove_member(&mut self, member: &Arc<str>) {
        let Some(removed) = self.members.remove(member) else { return };
        if let Some(instance) = &removed.subscription.instance
            && self.static_members.get(instance) == Some(member)
        {
            self.static_members.remove(instance);
        }
    }
}
