//! JoinGroup (`classicGroupJoin` and what follows of it).

use super::super::messages::{GroupReply, JoinGroupReply, JoinGroupRequest, Name, SyncGroupReply};
use super::super::records::GroupRecord;
use super::super::shard::{Cx, Group, GroupCoordinatorShard, Step, Then, Write};
use super::super::timers::{Due, Key};
use super::group::{ClassicGroup, ClassicState};
use super::member::ClassicMember;
use super::stored::Stored;
use crate::base::{Fix, Millis};
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::GroupId;
use std::sync::Arc;

/// From this version on a dynamic member is first given an id and joins with it (KIP-394).
const REQUIRES_MEMBER_ID: u8 = 4;
/// From this version on a returning static leader is told to keep the assignment (KIP-814).
pub(super) const SKIPS_ASSIGNMENT: u8 = 9;

impl GroupCoordinatorShard {
    /// JoinGroup. The answer may come with a later step.
    pub(in super::super) fn join(&mut self, token: u64, request: &JoinGroupRequest, cx: &mut Cx<'_>, step: &mut Step) {
        let id = request.group;
        let mut records = Vec::new();
        if let Some(Group::Consumer(group)) = self.groups.get(&id) {
            if !group.is_empty() {
                // A classic member in a KIP-848 group would need a migration policy, which is off here.
                return step.answer(token, refused(ErrorCode::InconsistentGroupProtocol, None));
            }
            records.extend(group.tombstones(id));
            self.groups.remove(&id);
        }
        let is_new = !self.groups.contains_key(&id);
        if is_new {
            if !request.member.is_empty() {
                return step.answer(token, refused(ErrorCode::UnknownMemberId, Some(&request.member)));
            }
            self.groups.insert(id, Group::Classic(Box::default()));
        }
        self.with_classic(id, |shard, group| shard.join_classic(token, request, group, cx, step));
        if is_new && step.write.is_none() {
            let empty = ClassicGroup::new().to_record(|m| m.assignment.clone());
            records.push(GroupRecord::GroupMetadata(id, Some(Arc::new(empty))));
            let write = Write::not_replayed(records, Then::Classic(id, Stored::NewGroup { token }));
            step.write = Some(Write { created: Some(id), ..write });
        }
    }

    fn join_classic(
        &mut self,
        token: u64,
        request: &JoinGroupRequest,
        group: &mut ClassicGroup,
        cx: &mut Cx<'_>,
        step: &mut Step,
    ) {
        let member = &request.member;
        if !self.accepts(group, member) {
            group.remove(member);
            return step.answer(token, refused(ErrorCode::GroupMaxSizeReached, Some(&Arc::from(""))));
        }
        if !group.supports_protocols(&request.protocol_type, &request.protocols) {
            return step.answer(token, refused(ErrorCode::InconsistentGroupProtocol, Some(member)));
        }
        if member.is_empty() {
            self.join_new(token, request, group, cx, step);
        } else {
            self.join_existing(token, request, group, cx.now, step);
        }
    }

    /// `group.max.size`: in the join round those count who wait in it, else the members.
    fn accepts(&self, group: &ClassicGroup, member: &Name) -> bool {
        let known = group.members.get(member);
        match group.state {
            ClassicState::Empty => true,
            ClassicState::PreparingRebalance => {
                known.is_some_and(ClassicMember::is_awaiting_join) || group.awaiting_join() < self.config.max_size
            }
            _ => known.is_some() || group.members.len() < self.config.max_size,
        }
    }

    fn join_new(
        &mut self,
        token: u64,
        request: &JoinGroupRequest,
        group: &mut ClassicGroup,
        cx: &mut Cx<'_>,
        step: &mut Step,
    ) {
        let member = (cx.fresh_id)(request.instance.as_ref().unwrap_or(&request.client));
        match &request.instance {
            Some(instance) => match group.static_members.get(instance).cloned() {
                Some(old) => self.replace_static(token, request, group, &old, &member, cx.now, step),
                None => self.add_member(token, request, group, &member, cx.now, step),
            },
            None if request.version >= REQUIRES_MEMBER_ID && self.fixes.has(Fix::MemberIdBeforeJoin) => {
                group.pending_join.insert(Arc::clone(&member));
                let at = cx.now + request.session_timeout;
                self.timers.schedule(Key::Heartbeat(request.group, Arc::clone(&member)), at, Due::Plain);
                step.answer(token, refused(ErrorCode::MemberIdRequired, Some(&member)));
            }
            None => self.add_member(token, request, group, &member, cx.now, step),
        }
    }

    fn join_existing(
        &mut self,
        token: u64,
        request: &JoinGroupRequest,
        group: &mut ClassicGroup,
        now: Millis,
        step: &mut Step,
    ) {
        let id = &request.member;
        if group.pending_join.contains(id) {
            // Only dynamic members are given an id before they join: Kafka throws.
            if request.instance.is_some() {
                return step.answer(token, refused(ErrorCode::UnknownServerError, Some(id)));
            }
            return self.add_member(token, request, group, &Arc::clone(id), now, step);
        }
        if let Err(error) = group.validate_member(id, request.instance.as_ref()) {
            return step.answer(token, refused(error, Some(id)));
        }
        let same = group.members[id].protocols == request.protocols;
        let answer_now = match group.state {
            ClassicState::Empty => return step.answer(token, refused(ErrorCode::UnknownMemberId, Some(id))),
            ClassicState::PreparingRebalance => false,
            ClassicState::CompletingRebalance => same,
            ClassicState::Stable => same && !group.is_leader(id),
        };
        if answer_now {
            // In the sync round the leader may not have had its answer, so it is told the members again.
            let tell = group.is_leader(id);
            return step.answer(token, current(group, id, tell, false));
        }
        update_member(group, id, request, token);
        self.rebalance_or_complete_join(request.group, group, now, step);
    }

    fn add_member(
        &mut self,
        token: u64,
        request: &JoinGroupRequest,
        group: &mut ClassicGroup,
        member: &Name,
        now: Millis,
        step: &mut Step,
    ) {
        if group.members.is_empty() {
            group.protocol_type = Some(Arc::clone(&request.protocol_type));
        }
        if group.state == ClassicState::PreparingRebalance && group.previous_state == ClassicState::Empty {
            group.new_member_added = true;
        }
        group.add(ClassicMember::joining(request, member, token));
        self.schedule_new_member(request.group, member, now);
        self.rebalance_or_complete_join(request.group, group, now, step);
    }

    /// A static member comes back without its member id: a new id takes its place, whatever the old one waited for is
    /// fenced. In the stable state nothing else changes if the same protocol is selected.
    fn replace_static(
        &mut self,
        token: u64,
        request: &JoinGroupRequest,
        group: &mut ClassicGroup,
        old: &Name,
        new: &Name,
        now: Millis,
        step: &mut Step,
    ) {
        let id = request.group;
        let before = swap_member_id(group, old, new, step);
        self.schedule_session(id, group, new, now);
        let old_leader = if before.led { Some(Arc::clone(old)) } else { group.leader.clone() };
        let replaced = group.members[new].clone();
        update_member(group, new, request, token);
        match group.state {
            ClassicState::Stable if group.protocol.is_some() && group.protocol == group.select_protocol() => {
                let record = group.to_record(|m| m.assignment.clone());
                let stored = Stored::StaticReplaced {
                    old: Arc::clone(old),
                    old_leader,
                    new: Arc::clone(new),
                    before: Box::new(replaced),
                    version: request.version,
                };
                let records = vec![GroupRecord::GroupMetadata(id, Some(Arc::new(record)))];
                step.write = Some(Write::not_replayed(records, Then::Classic(id, stored)));
            }
            ClassicState::Stable => self.rebalance_or_complete_join(id, group, now, step),
            ClassicState::CompletingRebalance => self.prepare_rebalance(id, group, now, step),
            ClassicState::PreparingRebalance | ClassicState::Empty => self.maybe_complete_join(id, group, now, step),
        }
    }
}

/// What [`swap_member_id`] found.
struct Swapped {
    led: bool,
}

/// Gives a member another id; requests that wait under the old one are fenced.
fn swap_member_id(group: &mut ClassicGroup, old: &Name, new: &Name, step: &mut Step) -> Swapped {
    let led = group.is_leader(old);
    if let Some(mut member) = group.members.remove(old) {
        if let Some(token) = member.awaiting_join.take() {
            step.answer(token, refused(ErrorCode::FencedInstanceId, Some(old)));
        }
        if let Some(token) = member.awaiting_sync.take() {
            step.answer(token, GroupReply::Sync(SyncGroupReply::refused(ErrorCode::FencedInstanceId)));
        }
        if let Some(instance) = &member.instance {
            group.static_members.insert(Arc::clone(instance), Arc::clone(new));
        }
        member.id = Arc::clone(new);
        member.is_new = false;
        group.members.insert(Arc::clone(new), member);
    }
    if led {
        group.leader = Some(Arc::clone(new));
    }
    Swapped { led }
}

fn update_member(group: &mut ClassicGroup, id: &Name, request: &JoinGroupRequest, token: u64) {
    if let Some(member) = group.members.get_mut(id) {
        member.protocols = Arc::clone(&request.protocols);
        member.rebalance_timeout = request.rebalance_timeout;
        member.session_timeout = request.session_timeout;
        // A request that waits already is never answered: its client has given it up.
        member.awaiting_join = Some(token);
    }
}

/// A refused JoinGroup.
pub(super) fn refused(error: ErrorCode, member: Option<&Name>) -> GroupReply {
    GroupReply::Join(JoinGroupReply::refused(error, member.cloned()))
}

/// The answer that tells a member the present generation.
pub(super) fn current(group: &ClassicGroup, member: &Name, tell_members: bool, skip_assignment: bool) -> GroupReply {
    GroupReply::Join(JoinGroupReply {
        error: ErrorCode::None,
        member: Some(Arc::clone(member)),
        generation: group.generation,
        protocol: group.protocol.clone(),
        leader: group.leader.clone(),
        skip_assignment,
        members: if tell_members { group.for_leader() } else { Vec::new() },
    })
}

impl GroupCoordinatorShard {
    /// Runs `f` on a classic group; `None` if there is none of that id.
    pub(super) fn with_classic<R>(
        &mut self,
        id: GroupId,
        f: impl FnOnce(&mut Self, &mut ClassicGroup) -> R,
    ) -> Option<R> {
        match self.groups.remove(&id)? {
            Group::Classic(mut group) => {
                let result = f(self, &mut group);
                self.groups.insert(id, Group::Classic(group));
                Some(result)
            }
            other => {
                self.groups.insert(id, other);
                None
            }
        }
    }
}
