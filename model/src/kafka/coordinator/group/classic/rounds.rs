//! The join round: when it begins, what holds it back, how it ends.

use super::super::messages::{GroupReply, MemberAssignment, Name, SyncGroupReply};
use super::super::records::GroupRecord;
use super::super::shard::{GroupCoordinatorShard, Step, Then, Write};
use super::super::timers::{Due, Key};
use super::group::{ClassicGroup, ClassicState};
use super::join::{current, refused};
use crate::base::Millis;
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::GroupId;
use std::sync::Arc;

impl GroupCoordinatorShard {
    /// A member came, went or changed: a new round, or the present one may be complete
    /// (`maybePrepareRebalanceOrCompleteJoin`).
    pub(super) fn rebalance_or_complete_join(
        &mut self,
        id: GroupId,
        group: &mut ClassicGroup,
        now: Millis,
        step: &mut Step,
    ) {
        if group.state == ClassicState::PreparingRebalance {
            self.maybe_complete_join(id, group, now, step);
        } else {
            self.prepare_rebalance(id, group, now, step);
        }
    }

    /// Begins a join round. That of an empty group lasts `group.initial.rebalance.delay.ms`, so that all consumers of an
    /// application that starts take part in it.
    pub(super) fn prepare_rebalance(&mut self, id: GroupId, group: &mut ClassicGroup, now: Millis, step: &mut Step) {
        if group.state == ClassicState::CompletingRebalance {
            self.reset_assignment(id, group, ErrorCode::RebalanceInProgress, now, step);
        }
        group.pending_sync.clear();
        self.timers.cancel(&Key::Sync(id));
        let initial = group.state == ClassicState::Empty;
        if initial {
            let delay = self.config.initial_rebalance_delay;
            let rest = Millis((group.rebalance_timeout().0 - delay.0).max(0));
            self.timers.schedule(Key::Join(id), now + delay, Due::InitialDelay(delay, rest));
        }
        group.transition(ClassicState::PreparingRebalance, now);
        if initial {
            return;
        }
        if group.has_all_joined() {
            self.complete_join(id, group, now, step);
        } else {
            self.timers.schedule(Key::Join(id), now + group.rebalance_timeout(), Due::Plain);
        }
    }

    /// Ends the round if everybody has joined; that of an empty group ends by its timer only.
    pub(super) fn maybe_complete_join(&mut self, id: GroupId, group: &mut ClassicGroup, now: Millis, step: &mut Step) {
        let ripe = group.state == ClassicState::PreparingRebalance && group.previous_state != ClassicState::Empty;
        if ripe && group.has_all_joined() {
            self.complete_join(id, group, now, step);
        }
    }

    /// The timer of the join round.
    pub(super) fn join_timer(&mut self, id: GroupId, due: Due, now: Millis, step: &mut Step) {
        self.with_classic(id, |shard, group| match due {
            Due::InitialDelay(delay, rest) if group.new_member_added && rest > Millis::ZERO => {
                group.new_member_added = false;
                let next = shard.config.initial_rebalance_delay.min(rest);
                let rest = Millis((rest.0 - delay.0).max(0));
                shard.timers.schedule(Key::Join(id), now + next, Due::InitialDelay(next, rest));
            }
            _ => shard.complete_join(id, group, now, step),
        });
    }

    /// Ends the round: dynamic members that have not rejoined are out, a new generation begins
    /// (`completeClassicGroupJoin`).
    pub(super) fn complete_join(&mut self, id: GroupId, group: &mut ClassicGroup, now: Millis, step: &mut Step) {
        self.timers.cancel(&Key::Join(id));
        let missing = group.members.values().filter(|m| !m.is_awaiting_join() && m.instance.is_none());
        for member in missing.map(|m| Arc::clone(&m.id)).collect::<Vec<_>>() {
            group.remove(&member);
            self.timers.cancel(&Key::Heartbeat(id, member));
        }
        if !group.elect_joined_leader() && !group.members.is_empty() {
            // Only silent static members are left: they are waited for until their sessions end.
            self.timers.schedule(Key::Join(id), now + group.rebalance_timeout(), Due::Plain);
            return;
        }
        group.init_next_generation(now);
        if group.state == ClassicState::Empty {
            let record = group.to_record(|m| m.assignment.clone());
            let records = vec![GroupRecord::GroupMetadata(id, Some(Arc::new(record)))];
            step.write = Some(Write::not_replayed(records, Then::Nothing));
            return;
        }
        for member in group.members.keys().cloned().collect::<Vec<_>>() {
            let tell = group.is_leader(&member);
            let answer = current(group, &member, tell, false);
            answer_join(group, &member, answer, step);
            self.schedule_session(id, group, &member, now);
            if let Some(m) = group.members.get_mut(&member) {
                m.is_new = false;
            }
            group.pending_sync.insert(member);
        }
        self.timers.schedule(Key::Sync(id), now + group.rebalance_timeout(), Due::Generation(group.generation));
    }

    /// Takes all assignments back and answers the waiting syncs.
    pub(super) fn reset_assignment(
        &mut self,
        id: GroupId,
        group: &mut ClassicGroup,
        error: ErrorCode,
        now: Millis,
        step: &mut Step,
    ) {
        group.members.values_mut().for_each(|m| m.assignment = MemberAssignment::empty());
        self.propagate_assignment(id, group, error, now, step);
    }

    /// Answers the waiting syncs; their members' sessions begin anew.
    pub(super) fn propagate_assignment(
        &mut self,
        id: GroupId,
        group: &mut ClassicGroup,
        error: ErrorCode,
        now: Millis,
        step: &mut Step,
    ) {
        let protocol = if error.is_ok() { group.protocol.clone() } else { None };
        for member in group.members.keys().cloned().collect::<Vec<_>>() {
            let Some(m) = group.members.get_mut(&member) else { continue };
            let Some(token) = m.awaiting_sync.take() else { continue };
            let reply = SyncGroupReply { error, protocol: protocol.clone(), assignment: m.assignment.clone() };
            step.answer(token, GroupReply::Sync(reply));
            self.schedule_session(id, group, &member, now);
        }
    }
}

/// Answers a member's waiting join, if it has one.
pub(super) fn answer_join(group: &mut ClassicGroup, member: &Name, reply: GroupReply, step: &mut Step) {
    if let Some(token) = group.members.get_mut(member).and_then(|m| m.awaiting_join.take()) {
        step.answer(token, reply);
    }
}

/// Takes a member out; a join of it that waits is refused.
pub(super) fn put_out(group: &mut ClassicGroup, member: &Name, step: &mut Step) {
    answer_join(group, member, refused(ErrorCode::UnknownMemberId, Some(&Arc::from(""))), step);
    group.remove(member);
}
