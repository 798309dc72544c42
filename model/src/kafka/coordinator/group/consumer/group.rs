//! The state of a KIP-848 group (`ConsumerGroup`, `ModernGroup`). All of it comes from records, but for when topics are looked
//! at again.

use super::super::messages::Name;
use super::super::records::GroupRecord;
use super::member::ConsumerMember;
use crate::base::{Fix, Fixes, Millis, Offset, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::hash_order::hash_order;
use crate::kafka::txn_messages::GroupId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerGroupState {
    /// No members.
    Empty,
    /// The target is older than the group.
    Assigning,
    /// Some member does not have its target yet.
    Reconciling,
    /// Everybody has its target.
    Stable,
}

/// A KIP-848 group.
#[derive(Clone, Debug)]
pub struct ConsumerGroup {
    /// Group epoch: grows with every change of members, subscriptions or topics.
    pub(super) epoch: i32,
    /// Hash of the topics subscribed to that exist, with their numbers of partitions.
    pub(super) metadata_hash: u64,
    /// Group epoch of the target.
    pub(super) assignment_epoch: i32,
    /// When the target was computed.
    pub(super) assigned_at: Option<Millis>,
    pub(super) members: BTreeMap<Name, ConsumerMember>,
    /// Instance id to member id.
    pub(super) static_members: BTreeMap<Name, Name>,
    /// What each member is to own.
    pub(super) target: BTreeMap<Name, Arc<BTreeSet<TopicPartition>>>,
    /// How many members have a partition or have to give it up: at most one, as long as
    /// [`Fix::ReleaseBeforeAssign`] is in force.
    pub(super) owners: BTreeMap<TopicPartition, u32>,
    /// When the topics are looked at again.
    pub(super) refresh_at: Millis,
}

impl Default for ConsumerGroup {
    /// A group without members. Its epochs are 1 before anything has changed them: 0 is what a member joins with.
    fn default() -> Self {
        Self {
            epoch: 1,
            metadata_hash: 0,
            assignment_epoch: 1,
            assigned_at: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            target: BTreeMap::new(),
            owners: BTreeMap::new(),
            refresh_at: Millis::ZERO,
        }
    }
}

impl ConsumerGroup {
    /// Where it stands.
    pub fn state(&self) -> ConsumerGroupState {
        if self.members.is_empty() {
            ConsumerGroupState::Empty
        } else if self.epoch > self.assignment_epoch {
            ConsumerGroupState::Assigning
        } else if self.members.values().all(|m| m.is_reconciled_to(self.assignment_epoch)) {
            ConsumerGroupState::Stable
        } else {
            ConsumerGroupState::Reconciling
        }
    }
    /// Group epoch.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }
    /// Epoch of the target.
    pub fn assignment_epoch(&self) -> i32 {
        self.assignment_epoch
    }
    /// The members, by id.
    pub fn members(&self) -> impl Iterator<Item = &ConsumerMember> {
        self.members.values()
    }
    /// What a member is to own.
    pub fn target_of(&self, member: &str) -> impl Iterator<Item = TopicPartition> {
        self.target.get(member).into_iter().flat_map(|set| set.iter().copied())
    }
    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
    /// Whether some member subscribes to `topic`.
    pub fn is_subscribed(&self, topic: TopicId) -> bool {
        self.members.values().any(|m| m.is_subscribed(topic))
    }
    pub(in super::super) fn epoch_of(&self, member: &str) -> Option<i32> {
        self.members.get(member).map(|m| m.current.epoch)
    }
    /// The next heartbeat looks at the topics again.
    pub(in super::super) fn request_metadata_refresh(&mut self) {
        self.refresh_at = Millis::ZERO;
    }

    /// Whether a commit may be taken; `transactional`: whether it names neither member nor instance.
    pub(in super::super) fn validate_offset_commit(
        &self,
        member: &str,
        epoch: i32,
        offsets: &[(TopicPartition, Offset)],
        transactional: Option<bool>,
        fixes: Fixes,
    ) -> Result<(), ErrorCode> {
        let anonymous = transactional == Some(true) && fixes.has(Fix::TxnCommitWithoutMember);
        if epoch < 0 && (self.members.is_empty() || anonymous) {
            return Ok(());
        }
        let member = self.members.get(member).ok_or(ErrorCode::UnknownMemberId)?;
        let current = &member.current;
        let since = |tp: &TopicPartition| current.assigned.get(tp).is_some_and(|since| *since <= epoch);
        let older = fixes.has(Fix::CommitByAssignmentEpoch) && epoch >= 0 && epoch < current.epoch;
        if epoch == current.epoch || (older && offsets.iter().all(|(tp, _)| since(tp))) {
            Ok(())
        } else {
            Err(ErrorCode::StaleMemberEpoch)
        }
    }

    /// The records that delete the group, which has no members any more.
    pub(in super::super) fn tombstones(&self, id: GroupId) -> Vec<GroupRecord> {
        vec![
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(id, None),
            GroupRecord::ConsumerGroupPartitionMetadata(id),
            GroupRecord::ConsumerGroupMetadata(id, None),
        ]
    }

    /// The members as they will be once `updated` has taken its place, in the order in which Java walks them.
    pub(super) fn members_with<'a>(&'a self, updated: &'a ConsumerMember) -> Vec<&'a ConsumerMember> {
        let replaced = updated.subscription.instance.as_ref().and_then(|i| self.static_members.get(i));
        let mut members: BTreeMap<&Name, &ConsumerMember> = self.members.iter().collect();
        if let Some(old) = replaced {
            members.remove(old);
        }
        members.insert(&updated.id, updated);
        hash_order(members.keys().copied()).iter().map(|id| members[id]).collect()
    }
}

/// Hash of the topics that `members` subscribe to and that exist, with their numbers of partitions; 0 for none
/// (`Utils.computeGroupHash`).
pub(super) fn metadata_hash<'a>(
    members: impl Iterator<Item = &'a ConsumerMember>,
    topics: &BTreeMap<TopicId, u16>,
) -> u64 {
    let subscribed: BTreeSet<TopicId> = members.flat_map(|m| m.subscription.topics.iter().copied()).collect();
    let bytes: Vec<u8> = subscribed
        .iter()
        .filter_map(|t| topics.get(t).map(|n| (t.0, *n)))
        .flat_map(|(t, n)| [t.to_le_bytes(), n.to_le_bytes()].concat())
        .collect();
    if bytes.is_empty() { 0 } else { xxhash_rust::xxh3::xxh3_64(&bytes) }
}
