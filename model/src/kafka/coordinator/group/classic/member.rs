//! A member of a classic group (`ClassicGroupMember`).

use super::super::messages::{JoinGroupRequest, JoinProtocol, MemberAssignment, Name, ProtocolMetadata};
use super::super::records::GroupMemberRecord;
use crate::base::Millis;
use std::sync::Arc;

/// One member, as the coordinator keeps it in memory.
#[derive(Clone, Debug)]
pub struct ClassicMember {
    /// Member id.
    pub id: Name,
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// `session.timeout.ms`.
    pub session_timeout: Millis,
    /// `max.poll.interval.ms`.
    pub rebalance_timeout: Millis,
    /// What it supports, in order of preference.
    pub protocols: Arc<[JoinProtocol]>,
    /// What it was given.
    pub assignment: MemberAssignment,
    /// Has never completed a join.
    pub(super) is_new: bool,
    /// The JoinGroup that waits for the round.
    pub(super) awaiting_join: Option<u64>,
    /// The SyncGroup that waits for the leader's.
    pub(super) awaiting_sync: Option<u64>,
}

impl ClassicMember {
    pub(super) fn joining(request: &JoinGroupRequest, id: &Name, token: u64) -> Self {
        Self {
            id: Arc::clone(id),
            instance: request.instance.clone(),
            session_timeout: request.session_timeout,
            rebalance_timeout: request.rebalance_timeout,
            protocols: Arc::clone(&request.protocols),
            assignment: MemberAssignment::empty(),
            is_new: true,
            awaiting_join: Some(token),
            awaiting_sync: None,
        }
    }
    pub(super) fn from_record(record: &GroupMemberRecord) -> Self {
        Self {
            id: Arc::clone(&record.id),
            instance: record.instance.clone(),
            session_timeout: record.session_timeout,
            rebalance_timeout: record.rebalance_timeout,
            protocols: Arc::from([record.protocol.clone()]),
            assignment: record.assignment.clone(),
            is_new: false,
            awaiting_join: None,
            awaiting_sync: None,
        }
    }
    /// Whether it waits for the join round.
    pub fn is_awaiting_join(&self) -> bool {
        self.awaiting_join.is_some()
    }
    /// Whether it waits for the leader's sync.
    pub fn is_awaiting_sync(&self) -> bool {
        self.awaiting_sync.is_some()
    }
    /// Silence does not count against a member that is waiting, unless it is new.
    pub(super) fn has_satisfied_heartbeat(&self) -> bool {
        !self.is_new && (self.is_awaiting_join() || self.is_awaiting_sync())
    }
    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|p| &*p.name == protocol)
    }
    /// Its side of `protocol`.
    pub(super) fn metadata(&self, protocol: &str) -> Option<&ProtocolMetadata> {
        self.protocols.iter().find(|p| &*p.name == protocol).map(|p| &p.metadata)
    }
}
