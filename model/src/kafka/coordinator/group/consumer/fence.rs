//! How a member goes: it leaves, is silent too long, or does not give up in time what it must.

use super::super::messages::{
    ConsumerGroupHeartbeatReply, ConsumerGroupHeartbeatRequest, GroupReply, Name, STATIC_LEAVE_EPOCH,
};
use super::super::records::{CurrentAssignment, GroupRecord, MemberState};
use super::super::shard::{Group, GroupCoordinatorShard, Step, Then, Write};
use super::super::timers::{Due, Key};
use super::group::{ConsumerGroup, metadata_hash};
use crate::base::Millis;
use crate::kafka::ErrorCode;
use crate::kafka::hash_order::timeline_order;
use crate::kafka::txn_messages::GroupId;
use std::sync::Arc;

/// The records that take a member out.
pub(super) fn removal(id: GroupId, member: &Name) -> [GroupRecord; 3] {
    [
        GroupRecord::ConsumerGroupCurrentMemberAssignment(id, Arc::clone(member), None),
        GroupRecord::ConsumerGroupTargetAssignmentMember(id, Arc::clone(member), None),
        GroupRecord::ConsumerGroupMemberMetadata(id, Arc::clone(member), None),
    ]
}

impl GroupCoordinatorShard {
    pub(super) fn consumer_group(&self, id: GroupId) -> Option<&ConsumerGroup> {
        match self.groups.get(&id) {
            Some(Group::Consumer(group)) => Some(group),
            _ => None,
        }
    }

    /// A heartbeat of epoch -1 or -2.
    pub(super) fn consumer_leave(
        &mut self,
        token: u64,
        request: &ConsumerGroupHeartbeatRequest,
        step: &mut Step,
    ) -> Result<(), ErrorCode> {
        let id = request.group;
        let group = self.consumer_group(id).ok_or(ErrorCode::GroupIdNotFound)?;
        let member = match &request.instance {
            None => group.members.get(&request.member).ok_or(ErrorCode::UnknownMemberId)?,
            Some(instance) => {
                let holder = group.static_members.get(instance).ok_or(ErrorCode::UnknownMemberId)?;
                if *holder != request.member {
                    return Err(ErrorCode::FencedInstanceId);
                }
                &group.members[holder]
            }
        };
        let stays = request.instance.is_some() && request.epoch == STATIC_LEAVE_EPOCH;
        let records = if stays {
            // What it has is kept for the session timeout; whoever takes its place has had it since ever.
            let current = CurrentAssignment {
                epoch: STATIC_LEAVE_EPOCH,
                assigned: member.current.assigned.keys().map(|tp| (*tp, 0)).collect(),
                revoking: Default::default(),
                ..member.current.clone()
            };
            let name = Arc::clone(&member.id);
            vec![GroupRecord::ConsumerGroupCurrentMemberAssignment(id, name, Some(Arc::new(current)))]
        } else {
            let name = Arc::clone(&member.id);
            self.fence(id, &name)
        };
        let reply = GroupReply::ConsumerHeartbeat(ConsumerGroupHeartbeatReply {
            error: ErrorCode::None,
            epoch: request.epoch,
            interval: Millis::ZERO,
            assignment: None,
        });
        step.write = Some(Write::replayed(records, Then::Reply(token, reply)));
        Ok(())
    }

    /// The records that take a member out and raise the group epoch; its timers are off.
    fn fence(&mut self, id: GroupId, member: &Name) -> Vec<GroupRecord> {
        let mut records = Vec::from(removal(id, member));
        if let Some(group) = self.consumer_group(id) {
            let hash = metadata_hash(group.members.values().filter(|m| m.id != *member), &self.topics);
            records.push(GroupRecord::ConsumerGroupMetadata(id, Some((group.epoch + 1, hash))));
        }
        self.timers.cancel(&Key::Session(id, Arc::clone(member)));
        self.timers.cancel(&Key::Rebalance(id, Arc::clone(member)));
        records
    }

    pub(in super::super) fn consumer_session_expired(&mut self, id: GroupId, member: &Name, step: &mut Step) {
        if self.consumer_group(id).is_some_and(|g| g.members.contains_key(member)) {
            let records = self.fence(id, member);
            step.write = Some(Write::replayed(records, Then::Nothing));
        }
    }

    /// The member has had its rebalance timeout to leave the epoch in which it was told to give something up.
    pub(in super::super) fn consumer_rebalance_expired(
        &mut self,
        id: GroupId,
        member: &Name,
        due: Due,
        step: &mut Step,
    ) {
        let epoch = self.consumer_group(id).and_then(|g| g.epoch_of(member));
        if let Due::Epoch(told) = due
            && epoch == Some(told)
        {
            let records = self.fence(id, member);
            step.write = Some(Write::replayed(records, Then::Nothing));
        }
    }

    pub(super) fn schedule_consumer_session(&mut self, id: GroupId, member: &Name, now: Millis) {
        let at = now + self.config.consumer_session_timeout;
        self.timers.schedule(Key::Session(id, Arc::clone(member)), at, Due::Plain);
    }

    /// After a load of the log.
    pub(in super::super) fn restart_consumer_sessions(&mut self, id: GroupId, now: Millis) {
        let Some(group) = self.consumer_group(id) else { return };
        // In the order in which Kafka walks them, ids standing for the order in which they joined: of sessions that end at one
        // time the first scheduled ends first.
        let order = timeline_order(group.members.keys()).into_iter();
        let members: Vec<_> = order.map(|id| group.members[id].clone()).collect();
        for member in members {
            self.schedule_consumer_session(id, &member.id, now);
            if member.current.state == MemberState::UnrevokedPartitions {
                let at = now + member.subscription.rebalance_timeout;
                self.timers.schedule(Key::Rebalance(id, member.id), at, Due::Epoch(member.current.epoch));
            }
        }
    }
}
