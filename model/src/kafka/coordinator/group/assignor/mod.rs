//! The assignors of the coordinator (`group.consumer.assignors`): `uniform`, which is sticky, and `range`.

mod range;
mod uniform;
mod uniform_balance;

use super::messages::Name;
use crate::base::{TopicId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};

/// One member, as an assignor sees it.
#[derive(Clone, Debug)]
pub(super) struct MemberSpec {
    pub(super) id: Name,
    pub(super) instance: Option<Name>,
    /// All topics subscribed to; members that differ in them are assigned one by one.
    pub(super) homogeneous_with: BTreeSet<TopicId>,
    /// Those that exist.
    pub(super) topics: BTreeSet<TopicId>,
    /// The target it has.
    pub(super) assigned: BTreeSet<TopicPartition>,
}
/// A group, as an assignor sees it: members in the order in which Java walks them. Topics go by their numbers, where Kafka
/// walks a table of random ids.
#[derive(Clone, Debug)]
pub(super) struct GroupSpec<'a> {
    pub(super) members: Vec<MemberSpec>,
    pub(super) topics: &'a BTreeMap<TopicId, u16>,
}
impl GroupSpec<'_> {
    fn is_homogeneous(&self) -> bool {
        self.members.windows(2).all(|pair| pair[0].homogeneous_with == pair[1].homogeneous_with)
    }
    fn partitions(&self, topic: TopicId) -> u16 {
        self.topics.get(&topic).copied().unwrap_or(0)
    }
}

/// What each member is to own.
pub(super) type GroupAssignment = BTreeMap<Name, BTreeSet<TopicPartition>>;

/// An assignor by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerAssignor {
    Uniform,
    Range,
}
impl ServerAssignor {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "uniform" => Some(Self::Uniform),
            "range" => Some(Self::Range),
            _ => None,
        }
    }
    pub(super) fn assign(self, spec: &GroupSpec<'_>) -> GroupAssignment {
        match self {
            Self::Range => range::assign(spec),
            Self::Uniform if spec.is_homogeneous() => uniform::assign(spec),
            Self::Uniform => uniform_balance::Balancer::new(spec).build(),
        }
    }
}

#[cfg(test)]
mod tests;
