//! How the leader of a classic group divides partitions: the assignors of the Java client
//! (`partition.assignment.strategy`; KIP-54, KIP-429).
//!
//! They sort by topic names and member ids and walk Java's hash tables, so they work on names. All of them ignore racks.

mod constrained;
mod general;
mod leader;
mod movements;
mod range;
mod round_robin;
mod sticky;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use leader::divide;
pub use range::range;
pub use round_robin::round_robin;
pub use sticky::{StickyAssignor, StickyKind};

/// A topic's or member's name.
pub type Name = Arc<str>;
/// A partition by its topic's name.
pub type NamedPartition = (Name, u16);
/// What each member gets, in Kafka's order.
pub type Assignment = BTreeMap<Name, Vec<NamedPartition>>;
/// Number of partitions of each topic that exists.
pub type Topics = BTreeMap<Name, u16>;

/// One member's side of a rebalance (`ConsumerPartitionAssignor.Subscription`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// `group.instance.id`.
    pub instance: Option<Name>,
    /// Topics subscribed to, in the member's order.
    pub topics: Vec<Name>,
    /// What the member says that it owns.
    pub owned: Vec<NamedPartition>,
    /// Generation in which it was given that; `None` if it has never been given anything.
    pub generation: Option<i32>,
    /// What the member's own `sticky` assignor remembers of its last assignment, and of which generation. It outlives the
    /// revocation before an eager rebalance, so `sticky` goes by it and not by `owned`.
    pub user_data: Option<(Vec<NamedPartition>, i32)>,
}

/// Every member's subscription.
pub type Members = BTreeMap<Name, Subscription>;

/// An assignor by its protocol name, with what it keeps between rebalances.
#[derive(Clone, Debug)]
pub enum Assignor {
    /// `range`.
    Range,
    /// `roundrobin`.
    RoundRobin,
    /// `sticky` or `cooperative-sticky`.
    Sticky(StickyAssignor),
}

impl Assignor {
    /// The assignor of that protocol name.
    pub fn named(name: &str, fixes: crate::base::Fixes) -> Option<Self> {
        Some(match name {
            "range" => Self::Range,
            "roundrobin" => Self::RoundRobin,
            "sticky" => Self::Sticky(StickyAssignor::new(StickyKind::Eager, fixes)),
            "cooperative-sticky" => Self::Sticky(StickyAssignor::new(StickyKind::Cooperative, fixes)),
            _ => return None,
        })
    }
    /// Its protocol name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky(s) if s.kind() == StickyKind::Eager => "sticky",
            Self::Sticky(_) => "cooperative-sticky",
        }
    }
    /// One rebalance. Topics that nobody subscribes to or that have no partition are left out
    /// (`AbstractPartitionAssignor.assign`).
    pub fn assign(&mut self, topics: &Topics, members: &Members) -> Assignment {
        let wanted: Topics = topics
            .iter()
            .filter(|(t, n)| **n > 0 && members.values().any(|m| m.topics.contains(t)))
            .map(|(t, n)| (Arc::clone(t), *n))
            .collect();
        match self {
            Self::Range => range(&wanted, members),
            Self::RoundRobin => round_robin(&wanted, members),
            Self::Sticky(sticky) => sticky.assign(&wanted, members),
        }
    }
}

/// Members in the order of `MemberInfo`: static ones first, by instance id, then by member id.
fn by_instance_then_id(a: (&Name, &Subscription), b: (&Name, &Subscription)) -> Ordering {
    match (&a.1.instance, &b.1.instance) {
        (Some(x), Some(y)) => x.cmp(y),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.0.cmp(b.0),
    }
}

#[cfg(test)]
mod tests;
