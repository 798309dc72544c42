//! What is assigned and where each partition stands (`SubscriptionState`).

use super::config::AutoOffsetReset;
use crate::base::{BrokerId, LeaderEpoch, Millis, Offset, TopicPartition};
use crate::kafka::client::{ClusterView, Leader};
use crate::kafka::hash_order::{TopicHashes, copied_capacity, grown_capacity};
use crate::kafka::messages::OffsetSpec;
use std::collections::BTreeSet;

/// A position (`FetchPosition`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPosition {
    /// Next offset to deliver.
    pub offset: Offset,
    /// Leader epoch of the last batch read, -1 if unknown: then the position is never validated.
    pub epoch: LeaderEpoch,
    /// Leader when the position was set or last validated.
    pub leader: Leader,
}

/// State of a partition (`FetchStates`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchState {
    /// No position yet.
    Initializing,
    /// Has a valid position.
    Fetching,
    /// Its position is being looked up.
    AwaitReset,
    /// Its position is being checked against the leader's epochs.
    AwaitValidation,
}
impl FetchState {
    /// Legal edges.
    const fn allows(self, next: Self) -> bool {
        match self {
            Self::Initializing => !matches!(next, Self::Initializing),
            Self::Fetching | Self::AwaitValidation => !matches!(next, Self::Initializing),
            Self::AwaitReset => matches!(next, Self::Fetching | Self::AwaitReset),
        }
    }
}

/// An assigned partition (`TopicPartitionState`).
#[derive(Clone, Debug)]
pub struct PartitionState {
    /// The partition.
    pub tp: TopicPartition,
    /// Its state.
    pub state: FetchState,
    /// Where it stands; none in [`FetchState::Initializing`] and [`FetchState::AwaitReset`].
    pub position: Option<FetchPosition>,
    /// Paused by the application.
    pub paused: bool,
    /// No look-up of its position before this instant.
    pub retry_at: Option<Millis>,
    /// Which end it is reset to.
    pub reset: Option<OffsetSpec>,
    /// High watermark of the last answer; may go back after a failover.
    pub high_watermark: Offset,
    /// Last stable offset of the last answer.
    pub last_stable: Offset,
}
impl PartitionState {
    fn new(tp: TopicPartition) -> Self {
        Self {
            tp,
            state: FetchState::Initializing,
            position: None,
            paused: false,
            retry_at: None,
            reset: None,
            high_watermark: Offset::UNKNOWN,
            last_stable: Offset::UNKNOWN,
        }
    }
    /// Has a position that may be fetched from.
    pub fn has_valid_position(&self) -> bool {
        self.state == FetchState::Fetching
    }
    /// May be fetched and delivered.
    pub fn is_fetchable(&self) -> bool {
        !self.paused && self.has_valid_position()
    }
    fn backing_off(&self, now: Millis) -> bool {
        self.retry_at.is_some_and(|at| now < at)
    }
    /// Goes to `next` with `position` if the edge is legal.
    fn transition(&mut self, next: FetchState, position: Option<FetchPosition>) -> bool {
        if !self.state.allows(next) {
            return false;
        }
        self.state = next;
        self.position = position;
        self.retry_at = None;
        assert_eq!(matches!(next, FetchState::Fetching | FetchState::AwaitValidation), position.is_some());
        true
    }
    /// Takes a position as it is (`seekValidated`).
    pub fn seek_validated(&mut self, position: FetchPosition) {
        if self.transition(FetchState::Fetching, Some(position)) {
            self.reset = None;
        }
    }
    /// Takes a position and has it validated if its epoch is known (`seekUnvalidated`).
    pub fn seek_unvalidated(&mut self, position: FetchPosition) {
        self.seek_validated(position);
        self.validate(position);
    }
    fn validate(&mut self, position: FetchPosition) {
        let known = position.epoch != LeaderEpoch::UNKNOWN && position.leader.epoch != LeaderEpoch::UNKNOWN;
        let next = if known { FetchState::AwaitValidation } else { FetchState::Fetching };
        self.transition(next, Some(position));
    }
    /// A new leader or epoch: the position must be validated again (`maybeValidatePosition`).
    pub fn maybe_validate(&mut self, leader: Leader) {
        if self.state == FetchState::AwaitReset || leader.node == BrokerId::NONE {
            return;
        }
        if let Some(position) = self.position.filter(|p| p.leader != leader) {
            self.validate(FetchPosition { leader, ..position });
        }
    }
    /// The leader confirmed the position.
    pub fn complete_validation(&mut self) {
        self.transition(FetchState::Fetching, self.position);
    }
    /// Asks for the offset at one end of the log.
    pub fn request_reset(&mut self, spec: OffsetSpec) {
        if self.transition(FetchState::AwaitReset, None) {
            self.reset = Some(spec);
        }
    }
}

/// The assigned partitions.
#[derive(Clone, Debug)]
pub struct SubscriptionState {
    /// Sorted by partition, for look-up.
    partitions: Vec<PartitionState>,
    /// The order of `PartitionStates`: as a hash table gave the assignment, drained and failed ones to the end.
    order: Vec<TopicPartition>,
    hashes: TopicHashes,
    policy: AutoOffsetReset,
}

impl SubscriptionState {
    /// Nothing assigned.
    pub fn new(policy: AutoOffsetReset, hashes: TopicHashes) -> Self {
        Self { partitions: Vec::new(), order: Vec::new(), hashes, policy }
    }
    /// The order of Java's hash tables over partitions.
    pub fn hashes(&self) -> &TopicHashes {
        &self.hashes
    }
    /// The policy, if there is one.
    pub fn policy(&self) -> Option<OffsetSpec> {
        self.policy.spec()
    }
    /// Replaces the assignment; partitions that stay keep their state (`assignFromUser`).
    pub fn assign(&mut self, tps: &[TopicPartition]) {
        let mut seen = BTreeSet::new();
        let mut order: Vec<_> = tps.iter().copied().filter(|tp| seen.insert(*tp)).collect();
        self.hashes.sort(&mut order, copied_capacity);
        self.hashes.sort(&mut order, grown_capacity);
        // `PartitionStates.update` groups by topic, topics in order of first appearance.
        let mut topics = Vec::new();
        order.iter().for_each(|tp| {
            if !topics.contains(&tp.topic) {
                topics.push(tp.topic)
            }
        });
        order.sort_by_key(|tp| topics.iter().position(|t| *t == tp.topic));
        let mut partitions: Vec<_> =
            order.iter().map(|tp| self.get(*tp).cloned().unwrap_or_else(|| PartitionState::new(*tp))).collect();
        partitions.sort_by_key(|p| p.tp);
        (self.partitions, self.order) = (partitions, order);
    }
    /// A partition, if assigned.
    pub fn get(&self, tp: TopicPartition) -> Option<&PartitionState> {
        self.partitions.binary_search_by_key(&tp, |p| p.tp).ok().map(|i| &self.partitions[i])
    }
    /// A partition, if assigned, to change.
    pub fn get_mut(&mut self, tp: TopicPartition) -> Option<&mut PartitionState> {
        self.partitions.binary_search_by_key(&tp, |p| p.tp).ok().map(|i| &mut self.partitions[i])
    }
    /// All partitions, by topic and number.
    pub fn iter(&self) -> impl Iterator<Item = &PartitionState> {
        self.partitions.iter()
    }
    /// All partitions, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut PartitionState> {
        self.partitions.iter_mut()
    }
    /// All partitions in the order of `PartitionStates`: as assigned, those drained or failed last at the end.
    pub fn order(&self) -> &[TopicPartition] {
        &self.order
    }
    /// Whether a partition may be fetched and delivered.
    pub fn is_fetchable(&self, tp: TopicPartition) -> bool {
        self.get(tp).is_some_and(PartitionState::is_fetchable)
    }
    /// Whether every partition has a valid position.
    pub fn all_positions_valid(&self) -> bool {
        self.partitions.iter().all(PartitionState::has_valid_position)
    }
    /// Moves a drained or failed partition to the end.
    pub fn move_to_end(&mut self, tp: TopicPartition) {
        if let Some(at) = self.order.iter().position(|o| *o == tp) {
            let tp = self.order.remove(at);
            self.order.push(tp);
        }
    }
    /// Partitions that satisfy `wanted`, as a grown `HashSet` or `HashMap` of them is walked.
    pub fn grown_set(&self, wanted: impl Fn(&PartitionState) -> bool) -> Vec<TopicPartition> {
        let mut set = self.filtered(wanted);
        self.hashes.sort(&mut set, grown_capacity);
        set
    }
    /// Partitions that satisfy `wanted`, in the order of [`SubscriptionState::order`].
    pub fn filtered(&self, wanted: impl Fn(&PartitionState) -> bool) -> Vec<TopicPartition> {
        self.order.iter().copied().filter(|tp| self.get(*tp).is_some_and(&wanted)).collect()
    }
    /// Partitions to validate now.
    pub fn needing_validation(&self, now: Millis) -> Vec<TopicPartition> {
        self.grown_set(|p| p.state == FetchState::AwaitValidation && !p.backing_off(now))
    }
    /// Partitions to reset now.
    pub fn needing_reset(&self, now: Millis) -> Vec<TopicPartition> {
        self.grown_set(|p| p.state == FetchState::AwaitReset && !p.backing_off(now))
    }
    /// Gives partitions without a position to the reset policy; without one, those partitions come back as the error.
    pub fn reset_initializing(&mut self) -> Result<(), Vec<TopicPartition>> {
        let Some(spec) = self.policy() else {
            let without = self.grown_set(|p| p.state == FetchState::Initializing);
            return if without.is_empty() { Ok(()) } else { Err(without) };
        };
        self.partitions.iter_mut().filter(|p| p.state == FetchState::Initializing).for_each(|p| p.request_reset(spec));
        Ok(())
    }
    /// No look-up for these partitions before `at`.
    pub fn set_retry(&mut self, tps: impl IntoIterator<Item = TopicPartition>, at: Millis) {
        for tp in tps {
            if let Some(p) = self.get_mut(tp) {
                p.retry_at = Some(at);
            }
        }
    }
}

/// The leader that metadata names for a partition ([`ClusterView::listed`]).
pub fn current_leader(view: &ClusterView, tp: TopicPartition) -> Leader {
    let none = Leader { node: BrokerId::NONE, epoch: LeaderEpoch::UNKNOWN };
    view.listed(view.leaders.get(&tp).copied().unwrap_or(none))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(node: i32, epoch: i32) -> Leader {
        Leader { node: BrokerId(node), epoch: LeaderEpoch(epoch) }
    }

    #[test]
    fn a_new_leader_sends_a_position_with_epoch_into_validation() {
        let tp = TopicPartition::new(0, 0);
        let mut p = PartitionState::new(tp);
        p.seek_unvalidated(FetchPosition { offset: Offset(5), epoch: LeaderEpoch::UNKNOWN, leader: leader(0, 0) });
        p.maybe_validate(leader(1, 1));
        assert_eq!(p.state, FetchState::Fetching, "without an epoch there is nothing to validate");
        p.seek_validated(FetchPosition { offset: Offset(5), epoch: LeaderEpoch(0), leader: leader(1, 1) });
        p.maybe_validate(leader(1, 1));
        assert_eq!(p.state, FetchState::Fetching);
        p.maybe_validate(leader(2, 2));
        assert_eq!(p.state, FetchState::AwaitValidation);
        p.request_reset(OffsetSpec::Earliest);
        p.maybe_validate(leader(0, 3));
        assert_eq!((p.state, p.position), (FetchState::AwaitReset, None));
    }

    #[test]
    fn an_assignment_keeps_what_stays() {
        let mut s = SubscriptionState::new(AutoOffsetReset::None, TopicHashes::of_names(["t"]));
        let tp = |p| TopicPartition::new(0, p);
        s.assign(&[tp(0), tp(1)]);
        s.get_mut(tp(1)).unwrap().paused = true;
        s.assign(&[tp(2), tp(1)]);
        assert!(s.get(tp(0)).is_none() && s.get(tp(1)).unwrap().paused);
        assert_eq!(s.reset_initializing(), Err(vec![tp(2), tp(1)]));
    }
}
