//! Sessions: heartbeats, their expiry, leaving.

use super::super::config::NEW_MEMBER_JOIN_TIMEOUT;
use super::super::messages::{GroupReply, HeartbeatRequest, LeaveGroupRequest, Name};
use super::super::shard::{Group, GroupCoordinatorShard, Step, Then};
use super::super::timers::{Due, Key};
use super::group::{ClassicGroup, ClassicState};
use super::rounds::put_out;
use crate::base::Millis;
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::GroupId;
use std::sync::Arc;

impl GroupCoordinatorShard {
    /// A member's session begins anew.
    pub(super) fn schedule_session(&mut self, id: GroupId, group: &ClassicGroup, member: &Name, now: Millis) {
        if let Some(m) = group.members.get(member) {
            self.timers.schedule(Key::Heartbeat(id, Arc::clone(member)), now + m.session_timeout, Due::Plain);
        }
    }
    pub(super) fn schedule_new_member(&mut self, id: GroupId, member: &Name, now: Millis) {
        self.timers.schedule(Key::Heartbeat(id, Arc::clone(member)), now + NEW_MEMBER_JOIN_TIMEOUT, Due::Plain);
    }
    /// After a load of the log.
    pub(in super::super) fn restart_classic_sessions(&mut self, id: GroupId, now: Millis) {
        self.with_classic(id, |shard, group| {
            for member in group.members.keys().cloned().collect::<Vec<_>>() {
                shard.schedule_session(id, group, &member, now);
            }
            if group.members.len() > shard.config.max_size {
                // Over capacity: a round gives consumers a chance to commit. It waits, since nobody has joined.
                shard.prepare_rebalance(id, group, now, &mut Step::default());
            }
        });
    }
    /// A plain commit is a sign of life (**R**), unless the group waits for its sync round.
    pub(in super::super) fn commit_keeps_session(&mut self, id: GroupId, member: &Name, now: Millis) {
        self.with_classic(id, |shard, group| {
            if matches!(group.state, ClassicState::Stable | ClassicState::PreparingRebalance) {
                shard.schedule_session(id, group, member, now);
            }
        });
    }

    /// Heartbeat.
    pub(in super::super) fn heartbeat(
        &mut self,
        token: u64,
        request: &HeartbeatRequest,
        now: Millis,
        step: &mut Step,
    ) -> Result<(), ErrorCode> {
        let id = request.group;
        let told = self.with_classic(id, |shard, group| {
            group.validate_member(&request.member, request.instance.as_ref())?;
            group.validate_generation(request.generation, shard.fixes)?;
            shard.schedule_session(id, group, &request.member, now);
            match group.state {
                ClassicState::Empty => Ok(ErrorCode::UnknownMemberId),
                ClassicState::PreparingRebalance => Ok(ErrorCode::RebalanceInProgress),
                ClassicState::CompletingRebalance | ClassicState::Stable => Ok(ErrorCode::None),
            }
        });
        let told = told.unwrap_or(Err(ErrorCode::UnknownMemberId))?;
        step.answer(token, GroupReply::Heartbeat(told));
        Ok(())
    }

    /// A session has ended, or a member id given out was not used in time.
    pub(super) fn session_expired(&mut self, id: GroupId, member: &Name, now: Millis, step: &mut Step) {
        self.with_classic(id, |shard, group| {
            let waits = group.state == ClassicState::PreparingRebalance;
            if group.pending_join.contains(member) {
                group.remove(member);
                if waits && group.has_all_joined() {
                    shard.complete_join(id, group, now, step);
                }
                return;
            }
            if group.members.get(member).is_none_or(|m| m.has_satisfied_heartbeat()) {
                return;
            }
            put_out(group, member, step);
            if !waits {
                shard.rebalance_or_complete_join(id, group, now, step);
            } else if group.has_all_joined() {
                shard.complete_join(id, group, now, step);
            }
        });
    }

    /// LeaveGroup.
    pub(in super::super) fn leave(&mut self, token: u64, request: &LeaveGroupRequest, now: Millis, step: &mut Step) {
        let id = request.group;
        if let Some(Group::Consumer(_)) = self.groups.get(&id) {
            let unknown = vec![ErrorCode::UnknownMemberId; request.members.len()];
            return step.answer(token, GroupReply::Leave(ErrorCode::None, unknown));
        }
        let left = self.with_classic(id, |shard, group| {
            let errors: Vec<ErrorCode> =
                request.members.iter().map(|(m, i)| shard.leave_one(id, group, m, i.as_ref(), step)).collect();
            if errors.contains(&ErrorCode::None) {
                match group.state {
                    ClassicState::Stable | ClassicState::CompletingRebalance => {
                        shard.rebalance_or_complete_join(id, group, now, step);
                    }
                    ClassicState::PreparingRebalance => shard.maybe_complete_join(id, group, now, step),
                    ClassicState::Empty => {}
                }
            }
            errors
        });
        let reply = match left {
            Some(errors) => GroupReply::Leave(ErrorCode::None, errors),
            None => GroupReply::Leave(ErrorCode::UnknownMemberId, Vec::new()),
        };
        match &mut step.write {
            // The group is empty now: told when that is in the log.
            Some(write) => write.then = Then::Reply(token, reply),
            None => step.answer(token, reply),
        }
    }

    fn leave_one(
        &mut self,
        id: GroupId,
        group: &mut ClassicGroup,
        member: &Name,
        instance: Option<&Name>,
        step: &mut Step,
    ) -> ErrorCode {
        let member = if member.is_empty() {
            match instance.and_then(|i| group.static_members.get(i)) {
                Some(holder) => Arc::clone(holder),
                None => return ErrorCode::UnknownMemberId,
            }
        } else if group.pending_join.contains(member) {
            Arc::clone(member)
        } else if let Err(error) = group.validate_member(member, instance) {
            return error;
        } else {
            Arc::clone(member)
        };
        self.timers.cancel(&Key::Heartbeat(id, Arc::clone(&member)));
        put_out(group, &member, step);
        ErrorCode::None
    }

    /// A timer of a classic group.
    pub(in super::super) fn classic_timer(&mut self, key: &Key, due: Due, now: Millis, step: &mut Step) {
        match (key, due) {
            (Key::Heartbeat(id, member), _) => self.session_expired(*id, member, now, step),
            (Key::Join(id), due) => self.join_timer(*id, due, now, step),
            (Key::Sync(id), Due::Generation(generation)) => self.sync_timer(*id, generation, now, step),
            _ => {}
        }
    }
}
