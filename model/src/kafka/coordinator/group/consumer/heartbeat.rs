//! ConsumerGroupHeartbeat (`consumerGroupHeartbeat`).

use super::super::config::METADATA_REFRESH_INTERVAL;
use super::super::messages::{
    ConsumerGroupHeartbeatReply, ConsumerGroupHeartbeatRequest, GroupReply, JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH,
};
use super::super::records::{CurrentAssignment, GroupRecord, MemberState};
use super::super::shard::{Group, GroupCoordinatorShard, Step, Then, Write};
use super::super::timers::{Due, Key};
use super::group::{ConsumerGroup, metadata_hash};
use super::member::ConsumerMember;
use super::reconcile::Reconciliation;
use crate::base::{Millis, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::GroupId;
use std::collections::BTreeSet;
use std::sync::Arc;

impl GroupCoordinatorShard {
    /// ConsumerGroupHeartbeat.
    pub(in super::super) fn consumer_heartbeat(
        &mut self,
        token: u64,
        request: &ConsumerGroupHeartbeatRequest,
        now: Millis,
        step: &mut Step,
    ) -> Result<(), ErrorCode> {
        if matches!(request.epoch, LEAVE_EPOCH | STATIC_LEAVE_EPOCH) {
            return self.consumer_leave(token, request, step);
        }
        let id = request.group;
        let mut records = Vec::new();
        let fresh = ConsumerGroup::default();
        let group = match self.groups.get(&id) {
            Some(Group::Consumer(group)) => &**group,
            None if request.epoch == JOIN_EPOCH => &fresh,
            Some(group) if request.epoch == JOIN_EPOCH && group.is_empty() => {
                records.push(GroupRecord::GroupMetadata(id, None));
                &fresh
            }
            _ => return Err(ErrorCode::GroupIdNotFound),
        };
        if group.members.len() >= self.config.consumer_max_size && !group.members.contains_key(&request.member) {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        let (member, is_new) = find_member(group, request, &mut records)?;
        let mut updated = member.updated(request);
        let mut bump = false;
        // A new member's record is written in any case: it names its client too.
        if updated.subscription != member.subscription || is_new {
            let value = Some(Arc::new(updated.subscription.clone()));
            records.push(GroupRecord::ConsumerGroupMemberMetadata(id, Arc::clone(&updated.id), value));
            bump = updated.subscription.topics != member.subscription.topics;
        }
        let mut epoch = group.epoch;
        let look_at_topics = bump || now >= group.refresh_at;
        if look_at_topics {
            let hash = metadata_hash(group.members_with(&updated).into_iter(), &self.topics);
            if bump || hash != group.metadata_hash {
                epoch += 1;
                records.push(GroupRecord::ConsumerGroupMetadata(id, Some((epoch, hash))));
            }
        }
        let due = group.assigned_at.is_none_or(|at| now >= at + self.config.consumer_assignment_interval);
        let (target, target_epoch) = if epoch > group.assignment_epoch && due {
            let (mut target, changes) = group.new_target(id, epoch, &updated, &self.topics, now);
            records.extend(changes);
            (target.remove(&updated.id).unwrap_or_default(), epoch)
        } else {
            (present_target(group, &updated), group.assignment_epoch)
        };
        if bump || !updated.is_reconciled_to(target_epoch) {
            let fixes = self.fixes;
            let owned = request.owned.as_deref();
            let next = Reconciliation { group, member: &updated, target: &target, target_epoch, owned, fixes }.step();
            if next != updated.current {
                self.move_member(id, &mut updated, next, now, &mut records);
            }
        }
        if look_at_topics && let Some(Group::Consumer(group)) = self.groups.get_mut(&id) {
            group.refresh_at = now + METADATA_REFRESH_INTERVAL;
        }
        self.schedule_consumer_session(id, &updated.id, now);

        let full = request.rebalance_timeout.is_some() && request.topics.is_some() && request.owned.is_some();
        let news = !updated.current.assigned.keys().eq(member.current.assigned.keys());
        let tell = request.epoch == JOIN_EPOCH || full || news;
        let reply = GroupReply::ConsumerHeartbeat(ConsumerGroupHeartbeatReply {
            error: ErrorCode::None,
            epoch: updated.current.epoch,
            interval: self.config.consumer_heartbeat_interval,
            assignment: tell.then(|| updated.current.assigned.keys().copied().collect()),
        });
        if records.is_empty() {
            step.answer(token, reply);
        } else {
            step.write = Some(Write::replayed(records, Then::Reply(token, reply)));
        }
        Ok(())
    }

    fn move_member(
        &mut self,
        id: GroupId,
        member: &mut ConsumerMember,
        next: CurrentAssignment,
        now: Millis,
        records: &mut Vec<GroupRecord>,
    ) {
        member.current = next;
        let value = Some(Arc::new(member.current.clone()));
        records.push(GroupRecord::ConsumerGroupCurrentMemberAssignment(id, Arc::clone(&member.id), value));
        let key = Key::Rebalance(id, Arc::clone(&member.id));
        if member.current.state == MemberState::UnrevokedPartitions {
            let at = now + member.subscription.rebalance_timeout;
            self.timers.schedule(key, at, Due::Epoch(member.current.epoch));
        } else {
            self.timers.cancel(&key);
        }
    }
}

/// The member that a heartbeat is of; made if it joins, true then. A static member that comes back under another id takes over what the
/// old one has; the records of that are written.
fn find_member(
    group: &ConsumerGroup,
    request: &ConsumerGroupHeartbeatRequest,
    records: &mut Vec<GroupRecord>,
) -> Result<(ConsumerMember, bool), ErrorCode> {
    let known = |member: &ConsumerMember| (member.clone(), false);
    let made = || (ConsumerMember::new(&request.member), true);
    let joins = request.epoch == JOIN_EPOCH;
    let owned = request.owned.as_deref();
    let Some(instance) = &request.instance else {
        return match group.members.get(&request.member) {
            Some(member) => member.check_epoch(request.epoch, owned).map(|()| known(member)),
            None if joins => Ok(made()),
            None => Err(ErrorCode::UnknownMemberId),
        };
    };
    let holder = group.static_members.get(instance).and_then(|id| group.members.get(id));
    match holder {
        // Nobody has the instance yet; a member that is here already goes on under it.
        None if joins => Ok(group.members.get(&request.member).map_or_else(made, known)),
        None => Err(ErrorCode::UnknownMemberId),
        Some(holder) if joins => {
            if holder.current.epoch != STATIC_LEAVE_EPOCH {
                return Err(ErrorCode::UnreleasedInstanceId);
            }
            let mut member = ConsumerMember { id: Arc::clone(&request.member), ..holder.clone() };
            (member.current.epoch, member.current.previous_epoch) = (0, 0);
            replace_member(group, request.group, holder, &member, records);
            Ok((member, false))
        }
        Some(holder) if holder.id != request.member => Err(ErrorCode::FencedInstanceId),
        Some(holder) => holder.check_epoch(request.epoch, owned).map(|()| known(holder)),
    }
}

fn replace_member(
    group: &ConsumerGroup,
    id: GroupId,
    old: &ConsumerMember,
    new: &ConsumerMember,
    records: &mut Vec<GroupRecord>,
) {
    let target = group.target.get(&old.id).cloned().unwrap_or_default();
    records.extend(super::fence::removal(id, &old.id));
    let name = || Arc::clone(&new.id);
    records.extend([
        GroupRecord::ConsumerGroupMemberMetadata(id, name(), Some(Arc::new(new.subscription.clone()))),
        GroupRecord::ConsumerGroupTargetAssignmentMember(id, name(), Some(target)),
        GroupRecord::ConsumerGroupCurrentMemberAssignment(id, name(), Some(Arc::new(new.current.clone()))),
    ]);
}

/// A member's part of the target as it is: that of the one whose place it takes, if it is static. A member that names its
/// instance for the first time has none until the next target (`ModernGroup.targetAssignment`).
fn present_target(group: &ConsumerGroup, member: &ConsumerMember) -> BTreeSet<TopicPartition> {
    let holder = match &member.subscription.instance {
        Some(instance) => group.static_members.get(instance),
        None => Some(&member.id),
    };
    holder.and_then(|id| group.target.get(id)).map(|set| (**set).clone()).unwrap_or_default()
}
