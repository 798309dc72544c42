//! Joining: JoinGroup, SyncGroup, and what becomes of the partitions (`joinGroupIfNeeded`, `onJoinPrepare`, `onJoinComplete`).

use super::channel::{GroupNetwork, Outgoing, Purpose};
use super::{Generation, GroupError, GroupEvent, GroupMember, MemberState, Timer};
use crate::base::{Fix, Millis, Offset, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::assignor::{Assignor, divide};
use crate::kafka::coordinator::group::Name;
use crate::kafka::coordinator::group::messages::{
    ConsumerSubscription, GroupRequest, JoinGroupReply, JoinGroupRequest, JoinProtocol, LeaveGroupRequest,
    MemberAssignment, ProtocolMetadata, SyncGroupReply, SyncGroupRequest,
};
use std::sync::Arc;

/// JoinGroup and SyncGroup together (`joinFuture`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Join {
    No,
    Pending,
    /// Ended, and not looked at: the next poll does.
    Done(Result<Vec<TopicPartition>, GroupError>),
}

impl GroupMember {
    /// Joins as far as that goes without waiting.
    pub(super) fn ensure_active(
        &mut self,
        now: Millis,
        consumed: &impl Fn() -> Vec<(TopicPartition, Offset)>,
        net: &mut impl GroupNetwork,
    ) -> Result<bool, GroupError> {
        let timer = Timer::zero(now);
        while self.rejoin_needed || self.join != Join::No {
            if !self.ensure_ready(timer, net)? {
                return Ok(false);
            }
            if self.needs_prepare {
                if !self.prepare(consumed, net, now) {
                    return Ok(false);
                }
                self.needs_prepare = false;
            }
            if self.join == Join::No {
                self.state = MemberState::PreparingRebalance;
                self.join = Join::Pending;
                self.send_join(now);
            }
            self.turn(net, now);
            let Join::Done(result) = std::mem::replace(&mut self.join, Join::No) else {
                self.join = Join::Pending;
                return Ok(false);
            };
            match result {
                Ok(partitions) if !self.generation.is_reset() && self.state == MemberState::Stable => {
                    self.complete(partitions, now);
                    self.needs_prepare = true;
                }
                // A heartbeat's answer has ended the membership in between.
                Ok(_) => self.reset_and_rejoin(true),
                Err(error) => {
                    use ErrorCode as E;
                    let required = error == GroupError::Code(E::MemberIdRequired);
                    self.rejoin_needed |= !required;
                    let at_once = matches!(
                        error,
                        GroupError::Code(E::UnknownMemberId | E::IllegalGeneration | E::RebalanceInProgress)
                    );
                    if !required && !at_once {
                        return if error.is_retriable() { Ok(false) } else { Err(error) };
                    }
                }
            }
        }
        Ok(true)
    }
    /// Gives up what the protocol asks to give up before a JoinGroup; false while an automatic commit is awaited.
    fn prepare(
        &mut self,
        consumed: &impl Fn() -> Vec<(TopicPartition, Offset)>,
        net: &mut impl GroupNetwork,
        now: Millis,
    ) -> bool {
        if !self.commit_before_rejoin(consumed, net, now) {
            return false;
        }
        let owned: Vec<TopicPartition> = self.assigned.iter().copied().collect();
        if self.generation.id == -1 || self.generation.member.is_empty() {
            if !owned.is_empty() {
                self.events.push(GroupEvent::Lost(owned));
                self.assigned.clear();
            }
        } else if self.config.cooperative() {
            // Only what is not subscribed to any more.
            let topics = self.config.topics.as_deref().unwrap_or_default();
            let (kept, dropped): (Vec<_>, Vec<_>) = owned.into_iter().partition(|tp| topics.contains(&tp.topic));
            if !dropped.is_empty() {
                self.events.push(GroupEvent::Revoked(dropped));
                self.assigned = kept.into_iter().collect();
            }
        } else {
            self.events.push(GroupEvent::Revoked(owned));
            self.assigned.clear();
        }
        true
    }
    /// Takes the assignment; a cooperative member gives up what it lost and joins once more.
    fn complete(&mut self, partitions: Vec<TopicPartition>, now: Millis) {
        let new: Vec<TopicPartition> = {
            let mut new: Vec<_> = partitions.iter().copied().filter(|tp| !self.assigned.contains(tp)).collect();
            new.sort_unstable();
            new
        };
        if self.config.cooperative() {
            let gone: Vec<TopicPartition> =
                self.assigned.iter().copied().filter(|tp| !partitions.contains(tp)).collect();
            if !gone.is_empty() {
                self.events.push(GroupEvent::Revoked(gone));
                self.rejoin_needed = true;
            }
        }
        self.commits.restart_auto_commit(now);
        self.metadata = (Arc::clone(&self.generation.member), self.generation.id);
        self.assigned = partitions.into_iter().collect();
        self.events.push(GroupEvent::Assigned(new));
    }
    fn send_join(&mut self, now: Millis) {
        let Some(node) = self.coordinator else {
            self.join = Join::Done(Err(GroupError::Code(ErrorCode::CoordinatorNotAvailable)));
            return;
        };
        let cooperative = self.config.cooperative();
        let subscription = Arc::new(ConsumerSubscription {
            topics: self.config.topics.clone().unwrap_or_default(),
            owned: if cooperative { self.assigned.iter().copied().collect() } else { Vec::new() },
            generation: self.generation.id,
            user_data: None,
        });
        let protocols: Vec<JoinProtocol> = self
            .config
            .assignors
            .iter()
            .map(|name| JoinProtocol {
                name: Arc::clone(name),
                metadata: ProtocolMetadata::Consumer(Arc::clone(&subscription)),
            })
            .collect();
        let body = GroupRequest::Join(JoinGroupRequest {
            group: self.config.group,
            member: Arc::clone(&self.generation.member),
            instance: self.config.instance.clone(),
            client: Arc::clone(&self.config.client),
            session_timeout: self.config.session_timeout,
            rebalance_timeout: self.config.max_poll_interval,
            protocol_type: Name::from("consumer"),
            protocols: protocols.into(),
            version: 9,
        });
        self.channel.send(node, Outgoing::Group(body), Purpose::Join(self.generation.clone()), now);
    }
    pub(super) fn on_join(
        &mut self,
        sent: &Generation,
        reply: &JoinGroupReply,
        net: &mut impl GroupNetwork,
        now: Millis,
    ) {
        use ErrorCode as E;
        let error = GroupError::Code(reply.error);
        let failed = match reply.error {
            E::None if self.state != MemberState::PreparingRebalance => GroupError::Unjoined,
            E::None => {
                self.state = MemberState::CompletingRebalance;
                self.heartbeat.enable(now);
                let member = reply.member.clone().unwrap_or_else(|| Name::from(""));
                let leads = reply.leader.as_ref() == Some(&member);
                let protocol = Some(reply.protocol.clone().unwrap_or_else(|| Name::from("")));
                self.generation = Generation { id: reply.generation, member, protocol };
                self.divided = leads.then(|| (net.view().version, self.partitions(net)));
                let assignments = if leads { self.assign(reply, net) } else { Vec::new() };
                self.send_sync(assignments, now);
                return;
            }
            E::UnknownMemberId => {
                if self.generation == *sent {
                    self.reset_and_rejoin(true);
                }
                error
            }
            E::CoordinatorNotAvailable | E::NotCoordinator => {
                self.mark_unknown(net, now);
                error
            }
            E::MemberIdRequired => {
                self.generation = Generation::of(reply.member.clone().unwrap_or_else(|| Name::from("")));
                self.rejoin_needed = true;
                error
            }
            E::CoordinatorLoadInProgress
            | E::FencedInstanceId
            | E::InconsistentGroupProtocol
            | E::InvalidSessionTimeout
            | E::InvalidGroupId
            | E::GroupAuthorizationFailed
            | E::GroupMaxSizeReached
            | E::UnsupportedVersion
            | E::RebalanceInProgress => error,
            unexpected => GroupError::Unexpected(unexpected),
        };
        self.join = Join::Done(Err(failed));
    }
    fn send_sync(&mut self, assignments: Vec<(Name, MemberAssignment)>, now: Millis) {
        let Some(node) = self.coordinator else {
            self.join = Join::Done(Err(GroupError::Code(ErrorCode::CoordinatorNotAvailable)));
            return;
        };
        let body = GroupRequest::Sync(SyncGroupRequest {
            group: self.config.group,
            member: Arc::clone(&self.generation.member),
            instance: self.config.instance.clone(),
            generation: self.generation.id,
            protocol_type: Some(Name::from("consumer")),
            protocol: self.generation.protocol.clone().filter(|p| !p.is_empty()),
            assignments,
        });
        self.channel.send(node, Outgoing::Group(body), Purpose::Sync(self.generation.clone()), now);
    }
    pub(super) fn on_sync(
        &mut self,
        sent: &Generation,
        reply: &SyncGroupReply,
        net: &mut impl GroupNetwork,
        now: Millis,
    ) {
        use ErrorCode as E;
        let error = GroupError::Code(reply.error);
        let failed = match reply.error {
            E::None if self.generation.is_reset() || self.state != MemberState::CompletingRebalance => {
                GroupError::Code(E::IllegalGeneration)
            }
            E::None => {
                self.state = MemberState::Stable;
                self.rejoin_needed = false;
                let partitions = match &reply.assignment {
                    MemberAssignment::Partitions(list) => list.to_vec(),
                    MemberAssignment::Opaque(_) => Vec::new(),
                };
                self.join = Join::Done(Ok(partitions));
                return;
            }
            E::UnknownMemberId | E::IllegalGeneration => {
                if self.generation == *sent {
                    // With ILLEGAL_GENERATION the member id may still be good.
                    self.reset_and_rejoin(reply.error == E::UnknownMemberId);
                }
                error
            }
            E::CoordinatorNotAvailable | E::NotCoordinator => {
                self.mark_unknown(net, now);
                error
            }
            E::GroupAuthorizationFailed | E::RebalanceInProgress | E::FencedInstanceId => error,
            unexpected => GroupError::Unexpected(unexpected),
        };
        self.join = Join::Done(Err(failed));
    }
    /// The membership is over; what it owned is lost at the next poll.
    pub(super) fn reset_and_rejoin(&mut self, forget_member: bool) {
        self.state = MemberState::Unjoined;
        let member = if forget_member { Name::from("") } else { Arc::clone(&self.generation.member) };
        self.generation = Generation::of(member);
        self.rejoin_needed = true;
        self.needs_prepare |= self.fixes.has(Fix::LostMemberPreparesAgain);
    }
    /// `maybeLeaveGroup`: only a dynamic member says so; a static one stays until its session times out.
    pub fn leave(&mut self, net: &mut impl GroupNetwork, now: Millis) {
        let member = Arc::clone(&self.generation.member);
        let joined = self.state != MemberState::Unjoined && !member.is_empty();
        if self.config.instance.is_none()
            && joined
            && let Some(node) = self.coordinator
        {
            let body = LeaveGroupRequest { group: self.config.group, members: vec![(member, None)] };
            self.channel.send(node, Outgoing::Group(GroupRequest::Leave(body)), Purpose::Leave, now);
            self.turn(net, now);
        }
        self.reset_and_rejoin(true);
    }

    /// Partitions of the topics that it subscribes to, as its metadata has them now.
    fn partitions(&self, net: &impl GroupNetwork) -> Vec<TopicPartition> {
        let topics = self.config.topics.as_deref().unwrap_or_default();
        net.view().leaders.keys().copied().filter(|tp| topics.contains(&tp.topic)).collect()
    }
    /// Whether a leader's metadata has other partitions than those that it divided (`rejoinNeededOrPending`): then it joins again.
    /// Nobody else looks.
    pub(super) fn must_divide_again(&mut self, net: &impl GroupNetwork) -> bool {
        let Some((version, before)) = &mut self.divided else { return false };
        if self.join != Join::No || *version == net.view().version {
            return false;
        }
        *version = net.view().version;
        let topics = self.config.topics.as_deref().unwrap_or_default();
        !before.iter().eq(net.view().leaders.keys().filter(|tp| topics.contains(&tp.topic)))
    }
    /// The leader divides the partitions of everybody's topics.
    fn assign(&mut self, reply: &JoinGroupReply, net: &impl GroupNetwork) -> Vec<(Name, MemberAssignment)> {
        let protocol = self.generation.protocol.clone().unwrap_or_else(|| Name::from(""));
        if reply.skip_assignment {
            return Vec::new();
        }
        if self.assignor.as_ref().is_none_or(|a| a.name() != &*protocol) {
            self.assignor = Assignor::named(&protocol, self.fixes);
        }
        let Some(assignor) = &mut self.assignor else { return Vec::new() };
        divide(assignor, &reply.members, net.view().leaders.keys().copied(), &self.config.topic_names)
    }
}
