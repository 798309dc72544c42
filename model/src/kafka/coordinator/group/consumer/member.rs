//! A member of a KIP-848 group (`ConsumerGroupMember`).

use super::super::messages::{ConsumerGroupHeartbeatRequest, Name};
use super::super::records::{AssignedPartitions, CurrentAssignment, MemberState, MemberSubscription};
use crate::base::{Millis, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One member: what it said, and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerMember {
    /// Member id.
    pub id: Name,
    /// What it said.
    pub subscription: MemberSubscription,
    /// What it has.
    pub current: CurrentAssignment,
}

impl ConsumerMember {
    /// A member that has said nothing and has nothing.
    pub(super) fn new(id: &Name) -> Self {
        Self {
            id: Arc::clone(id),
            subscription: MemberSubscription {
                instance: None,
                topics: BTreeSet::new(),
                assignor: None,
                rebalance_timeout: Millis(-1),
            },
            current: CurrentAssignment {
                epoch: 0,
                previous_epoch: 0,
                state: MemberState::Stable,
                assigned: AssignedPartitions::new(),
                revoking: AssignedPartitions::new(),
            },
        }
    }
    /// The member after what the request changes.
    pub(super) fn updated(&self, request: &ConsumerGroupHeartbeatRequest) -> Self {
        let mut member = self.clone();
        let said = &mut member.subscription;
        if request.instance.is_some() {
            said.instance.clone_from(&request.instance);
        }
        if let Some(topics) = &request.topics {
            said.topics = topics.iter().copied().collect();
        }
        if request.assignor.is_some() {
            said.assignor.clone_from(&request.assignor);
        }
        if let Some(timeout) = request.rebalance_timeout {
            said.rebalance_timeout = timeout;
        }
        member
    }
    /// Whether it has what the target of that epoch gives it.
    pub(super) fn is_reconciled_to(&self, epoch: i32) -> bool {
        self.current.state == MemberState::Stable && self.current.epoch == epoch
    }
    /// The check of a heartbeat's epoch: the present one; the one before from a member that owns no more than it may (an
    /// answer was lost); 0 joins again.
    pub(super) fn check_epoch(&self, epoch: i32, owned: Option<&[TopicPartition]>) -> Result<(), ErrorCode> {
        let current = &self.current;
        let subset = |owned: &[TopicPartition]| owned.iter().all(|tp| current.assigned.contains_key(tp));
        let lost_answer = epoch == current.previous_epoch && owned.is_some_and(subset);
        if epoch == 0 || epoch == current.epoch || (epoch < current.epoch && lost_answer) {
            Ok(())
        } else {
            Err(ErrorCode::FencedMemberEpoch)
        }
    }
    /// Whether it subscribes to `topic`.
    pub fn is_subscribed(&self, topic: TopicId) -> bool {
        self.subscription.topics.contains(&topic)
    }
}
