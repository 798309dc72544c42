//! SyncGroup: the leader's assignment goes to the log, then to the members.

use super::super::messages::{GroupReply, Name, SyncGroupReply, SyncGroupRequest};
use super::super::records::GroupRecord;
use super::super::shard::{GroupCoordinatorShard, Step, Then, Write};
use super::super::timers::Key;
use super::group::{ClassicGroup, ClassicState};
use super::stored::Stored;
use crate::base::Millis;
use crate::kafka::ErrorCode;
use crate::kafka::txn_messages::GroupId;
use std::collections::BTreeMap;
use std::sync::Arc;

impl GroupCoordinatorShard {
    /// SyncGroup. The answer may come with a later step.
    pub(in super::super) fn sync(&mut self, token: u64, request: &SyncGroupRequest, step: &mut Step) {
        let id = request.group;
        let refusal = self.with_classic(id, |shard, group| {
            if group.state == ClassicState::Empty {
                return Err(ErrorCode::UnknownMemberId);
            }
            validate(group, request)?;
            match group.state {
                ClassicState::Empty | ClassicState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
                ClassicState::CompletingRebalance => {
                    shard.sync_in_round(token, request, group, step);
                    Ok(())
                }
                ClassicState::Stable => {
                    shard.synced(id, group, &request.member);
                    let assignment = group.members[&request.member].assignment.clone();
                    let reply = SyncGroupReply { error: ErrorCode::None, protocol: group.protocol.clone(), assignment };
                    step.answer(token, GroupReply::Sync(reply));
                    Ok(())
                }
            }
        });
        if let Err(error) = refusal.unwrap_or(Err(ErrorCode::UnknownMemberId)) {
            step.answer(token, GroupReply::Sync(SyncGroupReply::refused(error)));
        }
    }

    fn sync_in_round(&mut self, token: u64, request: &SyncGroupRequest, group: &mut ClassicGroup, step: &mut Step) {
        let id = request.group;
        if let Some(member) = group.members.get_mut(&request.member) {
            member.awaiting_sync = Some(token);
        }
        self.synced(id, group, &request.member);
        if !group.is_leader(&request.member) {
            return;
        }
        let assignment: BTreeMap<Name, _> = request.assignments.iter().cloned().collect();
        let record = group.to_record(|m| assignment.get(&m.id).cloned().unwrap_or_default());
        let records = vec![GroupRecord::GroupMetadata(id, Some(Arc::new(record)))];
        let stored = Stored::Assignment { generation: request.generation, assignment };
        step.write = Some(Write::not_replayed(records, Then::Classic(id, stored)));
    }

    /// A member has sent its sync; with the last one the round's timer is off.
    fn synced(&mut self, id: GroupId, group: &mut ClassicGroup, member: &Name) {
        group.pending_sync.remove(member);
        if group.pending_sync.is_empty() {
            self.timers.cancel(&Key::Sync(id));
        }
    }

    /// The sync round has lasted too long: whoever has not synced is out, and a new join round begins.
    pub(super) fn sync_timer(&mut self, id: GroupId, generation: i32, now: Millis, step: &mut Step) {
        self.with_classic(id, |shard, group| {
            let waiting = matches!(group.state, ClassicState::CompletingRebalance | ClassicState::Stable);
            if generation != group.generation || !waiting || group.pending_sync.is_empty() {
                return;
            }
            for member in std::mem::take(&mut group.pending_sync) {
                group.remove(&member);
                shard.timers.cancel(&Key::Heartbeat(id, member));
            }
            shard.prepare_rebalance(id, group, now, step);
        });
    }
}

fn validate(group: &ClassicGroup, request: &SyncGroupRequest) -> Result<(), ErrorCode> {
    group.validate_member(&request.member, request.instance.as_ref())?;
    if request.generation != group.generation {
        return Err(ErrorCode::IllegalGeneration);
    }
    let differs = |asked: &Option<Name>, has: &Option<Name>| asked.is_some() && has.is_some() && asked != has;
    if differs(&request.protocol_type, &group.protocol_type) || differs(&request.protocol, &group.protocol) {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    Ok(())
}
