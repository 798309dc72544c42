//! The state of a classic group (`ClassicGroup`).

use super::super::messages::{
    GroupReply, JoinGroupMember, JoinGroupReply, JoinProtocol, MemberAssignment, Name, ProtocolMetadata, SyncGroupReply,
};
use super::super::records::{GroupMemberRecord, GroupMetadata};
use super::super::shard::Step;
use super::member::ClassicMember;
use crate::base::{Fix, Fixes, Millis, TopicId};
use crate::kafka::ErrorCode;
use crate::kafka::hash_order::hash_order;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Protocol type of consumers.
pub(super) const CONSUMER: &str = "consumer";

/// Where a group stands (`ClassicGroupState`); a dead one is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassicState {
    /// No members.
    Empty,
    /// The join round: members are (re)joining.
    PreparingRebalance,
    /// The sync round: the leader's assignment is awaited.
    CompletingRebalance,
    /// Every member has, or may fetch, its assignment.
    Stable,
}

/// A classic group. Members are in the order of their ids, which is that of Kafka's hash table only by chance: where Kafka
/// takes "the first" member, any other would be as good.
#[derive(Clone, Debug)]
pub struct ClassicGroup {
    pub(super) state: ClassicState,
    pub(super) previous_state: ClassicState,
    pub(super) state_since: Option<Millis>,
    pub(super) generation: i32,
    pub(super) protocol_type: Option<Name>,
    pub(super) protocol: Option<Name>,
    pub(super) leader: Option<Name>,
    pub(super) members: BTreeMap<Name, ClassicMember>,
    /// Instance id to member id.
    pub(super) static_members: BTreeMap<Name, Name>,
    /// Member ids given out that have not joined yet.
    pub(super) pending_join: BTreeSet<Name>,
    /// Members that have not sent their sync in this generation.
    pub(super) pending_sync: BTreeSet<Name>,
    /// Someone joined in the initial delay.
    pub(super) new_member_added: bool,
    /// Topics of all members, if they can be read.
    pub(super) subscribed: Option<BTreeSet<TopicId>>,
}

impl ClassicGroup {
    /// An empty group.
    pub fn new() -> Self {
        Self {
            state: ClassicState::Empty,
            previous_state: ClassicState::Empty,
            state_since: None,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_join: BTreeSet::new(),
            pending_sync: BTreeSet::new(),
            new_member_added: false,
            subscribed: None,
        }
    }
    /// The group as of its record: members are taken for stable.
    pub fn from_record(record: &GroupMetadata) -> Self {
        let mut group = Self::new();
        if !record.members.is_empty() {
            (group.state, group.previous_state) = (ClassicState::Stable, ClassicState::Stable);
        }
        group.state_since = record.state_since;
        group.generation = record.generation;
        group.protocol_type = record.protocol_type.clone();
        group.protocol = record.protocol.clone();
        group.leader = record.leader.clone();
        for member in &record.members {
            group.add(ClassicMember::from_record(member));
        }
        group.subscribed = group.compute_subscribed();
        group
    }
    /// The record that stores the group with these assignments.
    pub(super) fn to_record(&self, assignment: impl Fn(&ClassicMember) -> MemberAssignment) -> GroupMetadata {
        let member = |m: &ClassicMember| {
            let name = self.protocol.clone().unwrap_or_else(|| Arc::from(""));
            let metadata = m.metadata(&name).cloned().unwrap_or_else(|| ProtocolMetadata::Opaque(Arc::from([])));
            GroupMemberRecord {
                id: Arc::clone(&m.id),
                instance: m.instance.clone(),
                session_timeout: m.session_timeout,
                rebalance_timeout: m.rebalance_timeout,
                protocol: JoinProtocol { name, metadata },
                assignment: assignment(m),
            }
        };
        GroupMetadata {
            protocol_type: self.protocol_type.clone(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_since: self.state_since,
            members: self.members.values().map(member).collect(),
        }
    }

    /// Where it stands.
    pub fn state(&self) -> ClassicState {
        self.state
    }
    /// Generation.
    pub fn generation(&self) -> i32 {
        self.generation
    }
    /// Member id of the leader.
    pub fn leader(&self) -> Option<&Name> {
        self.leader.as_ref()
    }
    /// The protocol selected.
    pub fn protocol(&self) -> Option<&Name> {
        self.protocol.as_ref()
    }
    /// The members, by id.
    pub fn members(&self) -> impl Iterator<Item = &ClassicMember> {
        self.members.values()
    }
    /// How many member ids have been given out and not used.
    pub fn pending_joins(&self) -> usize {
        self.pending_join.len()
    }
    /// Whether it holds offsets only: no member has ever joined.
    pub fn is_simple(&self) -> bool {
        self.protocol_type.is_none() && self.state == ClassicState::Empty && self.pending_join.is_empty()
    }
    pub(super) fn is_leader(&self, member: &str) -> bool {
        self.leader.as_deref() == Some(member)
    }
    pub(in super::super) fn is_consumer_type(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }
    /// Whether some member may still need offsets of `topic`; where subscriptions cannot be read, consumers may need all.
    pub fn is_subscribed(&self, topic: TopicId) -> bool {
        self.subscribed.as_ref().map_or(self.is_consumer_type(), |topics| topics.contains(&topic))
    }

    pub(super) fn add(&mut self, member: ClassicMember) {
        if let Some(instance) = &member.instance {
            self.static_members.insert(Arc::clone(instance), Arc::clone(&member.id));
        }
        if self.leader.is_none() {
            self.leader = Some(Arc::clone(&member.id));
        }
        self.pending_join.remove(&member.id);
        self.members.insert(Arc::clone(&member.id), member);
    }
    /// Takes a member, or a member id given out, away; the first of the rest leads if it led.
    pub(super) fn remove(&mut self, id: &str) -> Option<ClassicMember> {
        let removed = self.members.remove(id);
        if let Some(instance) = removed.as_ref().and_then(|m| m.instance.as_ref()) {
            self.static_members.remove(instance);
        }
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending_join.remove(id);
        self.pending_sync.remove(id);
        removed
    }
    pub(super) fn has_all_joined(&self) -> bool {
        self.pending_join.is_empty() && self.members.values().all(ClassicMember::is_awaiting_join)
    }
    pub(super) fn awaiting_join(&self) -> usize {
        self.members.values().filter(|m| m.is_awaiting_join()).count()
    }
    /// The longest of its members.
    pub(super) fn rebalance_timeout(&self) -> Millis {
        self.members.values().map(|m| m.rebalance_timeout).max().unwrap_or(Millis::ZERO)
    }
    /// Keeps the leader if it has joined, else takes the first that has; false if nobody has.
    pub(super) fn elect_joined_leader(&mut self) -> bool {
        let Some(leader) = &self.leader else { return false };
        if self.members.get(leader).is_some_and(ClassicMember::is_awaiting_join) {
            return true;
        }
        let joined = self.members.values().find(|m| m.is_awaiting_join()).map(|m| Arc::clone(&m.id));
        let found = joined.is_some();
        if found {
            self.leader = joined;
        }
        found
    }
    /// The checks of every request that names a member: static fencing first, then membership.
    pub(super) fn validate_member(&self, id: &str, instance: Option<&Name>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance {
            match self.static_members.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(holder) if **holder != *id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    pub(super) fn validate_generation(&self, generation: i32, fixes: Fixes) -> Result<(), ErrorCode> {
        let fenced = generation != self.generation && fixes.has(Fix::GenerationFencing);
        if fenced { Err(ErrorCode::IllegalGeneration) } else { Ok(()) }
    }

    pub(super) fn transition(&mut self, to: ClassicState, now: Millis) {
        self.previous_state = self.state;
        self.state = to;
        self.state_since = Some(now);
    }
    pub(super) fn init_next_generation(&mut self, now: Millis) {
        self.generation += 1;
        self.protocol = if self.members.is_empty() { None } else { self.select_protocol() };
        self.subscribed = self.compute_subscribed();
        let to = if self.members.is_empty() { ClassicState::Empty } else { ClassicState::CompletingRebalance };
        self.transition(to, now);
        self.pending_sync.clear();
    }

    fn supported_by_all(&self, protocol: &str) -> bool {
        self.members.values().all(|m| m.supports(protocol))
    }
    /// Whether a member of this type and with these protocols may be in the group.
    pub(super) fn supports_protocols(&self, protocol_type: &str, protocols: &[JoinProtocol]) -> bool {
        if self.state == ClassicState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type) && protocols.iter().any(|p| self.supported_by_all(&p.name))
    }
    /// Each member votes for the first of its protocols that all support; a tie goes by Java's order of names.
    pub(super) fn select_protocol(&self) -> Option<Name> {
        let mut votes: BTreeMap<Name, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(p) = member.protocols.iter().find(|p| self.supported_by_all(&p.name)) {
                *votes.entry(Arc::clone(&p.name)).or_default() += 1;
            }
        }
        let most = votes.values().max().copied()?;
        hash_order(votes.keys()).into_iter().find(|name| votes[*name] == most).cloned()
    }
    fn compute_subscribed(&self) -> Option<BTreeSet<TopicId>> {
        if !self.is_consumer_type() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol = self.protocol.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            match member.metadata(protocol) {
                Some(ProtocolMetadata::Consumer(subscription)) => topics.extend(subscription.topics.iter().copied()),
                _ => return None,
            }
        }
        Some(topics)
    }
    /// The members as their leader sees them.
    pub(super) fn for_leader(&self) -> Vec<JoinGroupMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let opaque = || ProtocolMetadata::Opaque(Arc::from([]));
        self.members
            .values()
            .map(|m| JoinGroupMember {
                id: Arc::clone(&m.id),
                instance: m.instance.clone(),
                metadata: m.metadata(protocol).cloned().unwrap_or_else(opaque),
            })
            .collect()
    }

    /// Answers everybody who waits with `error`: the coordinator moves.
    pub(in super::super) fn refuse_all(&mut self, error: ErrorCode, step: &mut Step) {
        for member in self.members.values_mut() {
            if let Some(token) = member.awaiting_join.take() {
                step.answer(token, GroupReply::Join(JoinGroupReply::refused(error, Some(Arc::clone(&member.id)))));
            }
            if let Some(token) = member.awaiting_sync.take() {
                step.answer(token, GroupReply::Sync(SyncGroupReply::refused(error)));
            }
        }
    }

    /// Whether a commit may be taken. `transactional` ones pass in the sync round, and without a member always.
    pub(in super::super) fn validate_offset_commit(
        &self,
        member: &str,
        instance: Option<&Name>,
        generation: i32,
        transactional: bool,
        fixes: Fixes,
    ) -> Result<(), ErrorCode> {
        if generation < 0 && self.state == ClassicState::Empty {
            return Ok(());
        }
        if generation >= 0 || !member.is_empty() || instance.is_some() {
            self.validate_member(member, instance)?;
            self.validate_generation(generation, fixes)?;
        } else if !transactional && self.state != ClassicState::Empty {
            return Err(ErrorCode::UnknownMemberId);
        }
        if !transactional && self.state == ClassicState::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }
    /// From when offsets age, for one committed at `at`; `None` while they do not (KIP-211).
    pub(in super::super) fn offsets_age_from(&self, at: Millis) -> Option<Millis> {
        if self.protocol_type.is_none() {
            return Some(at);
        }
        match self.state {
            ClassicState::Empty => Some(self.state_since.unwrap_or(at)),
            ClassicState::Stable if self.is_consumer_type() && self.subscribed.is_some() => Some(at),
            _ => None,
        }
    }
}
impl Default for ClassicGroup {
    fn default() -> Self {
        Self::new()
    }
}
