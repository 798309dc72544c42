//! `StickyAssignor` and `CooperativeStickyAssignor`: balanced, and as much as possible stays where it is (KIP-54, KIP-429).

use super::constrained::Constrained;
use super::general::General;
use super::{Assignment, Members, Name, NamedPartition, Subscription, Topics};
use crate::base::{Fix, Fixes};
use crate::kafka::hash_order::hash_order;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StickyKind {
    /// `sticky`: every member gives everything up first; what it owned travels as user data.
    Eager,
    /// `cooperative-sticky`: what moves is first left out, so that its owner gives it up; the next round gives it on.
    Cooperative,
}

/// The assignor, as the group's leader keeps it.
#[derive(Clone, Debug)]
pub struct StickyAssignor {
    kind: StickyKind,
    fixes: Fixes,
    /// The highest generation ever seen in a claim.
    max_generation: i32,
}

/// What members own, after contradicting claims are settled.
pub(super) struct Claims {
    /// By member; every member has an entry.
    pub(super) owned: BTreeMap<Name, Vec<NamedPartition>>,
    /// Claimed by more than one member of the same generation: belongs to nobody.
    pub(super) disputed: BTreeSet<NamedPartition>,
}

/// Generation of a member that has none.
pub(super) const NO_GENERATION: i32 = -1;

impl StickyAssignor {
    /// A fresh one.
    pub fn new(kind: StickyKind, fixes: Fixes) -> Self {
        Self { kind, fixes, max_generation: NO_GENERATION }
    }
    /// Which of the two.
    pub fn kind(&self) -> StickyKind {
        self.kind
    }

    /// One rebalance.
    pub fn assign(&mut self, topics: &Topics, members: &Members) -> Assignment {
        let claims = self.settle_claims(topics, members);
        let (mut assignment, moving) = if all_subscribe_to_the_same(members) {
            let (assignment, moving) = Constrained::new(topics, &claims).build();
            (assignment, Some(moving))
        } else {
            let older = self.older_claims(members);
            (General::new(topics, members, claims.owned, older).build(), None)
        };
        if self.kind == StickyKind::Cooperative {
            let moving = moving.unwrap_or_else(|| transferring(members, &assignment));
            for (partition, to) in moving {
                if let Some(list) = assignment.get_mut(&to) {
                    list.retain(|p| *p != partition);
                }
            }
        }
        assignment
    }

    /// Who claims a partition from before the newest generation, the newest of such claims.
    fn older_claims(&self, members: &Members) -> BTreeMap<NamedPartition, Name> {
        let mut previous: BTreeMap<NamedPartition, (Name, i32)> = BTreeMap::new();
        for id in hash_order(members.keys()) {
            let (claimed, generation) = self.claim(&members[id]);
            for partition in claimed.into_iter().filter(|_| generation < self.max_generation) {
                if previous.get(&partition).is_none_or(|(_, known)| generation > *known) {
                    previous.insert(partition, (Arc::clone(id), generation));
                }
            }
        }
        previous.into_iter().map(|(partition, (id, _))| (partition, id)).collect()
    }

    /// Who owns what: a claim of a higher generation wins, of two equal ones neither is believed (KAFKA-12984, KAFKA-13406,
    /// KAFKA-14639). Without [`Fix::ClaimsCarryGeneration`] every claim is believed, so that two members may be given one partition.
    fn settle_claims(&mut self, topics: &Topics, members: &Members) -> Claims {
        let mut owned: BTreeMap<Name, Vec<NamedPartition>> = BTreeMap::new();
        let mut owner: BTreeMap<NamedPartition, &Name> = BTreeMap::new();
        let mut disputed = BTreeSet::new();
        for id in hash_order(members.keys()) {
            let (claimed, generation) = self.claim(&members[id]);
            self.max_generation = self.max_generation.max(generation);
            let mut mine = Vec::new();
            for partition in claimed {
                if !topics.contains_key(&partition.0) {
                    continue;
                }
                let other = owner.get(&partition).copied();
                let Some(other) = other.filter(|_| self.fixes.has(Fix::ClaimsCarryGeneration)) else {
                    owner.insert(partition.clone(), id);
                    mine.push(partition);
                    continue;
                };
                // Of the other one the subscription's generation counts, also where the claim came as user data.
                let others = members[other].generation.unwrap_or(NO_GENERATION);
                if generation < others {
                    continue;
                }
                // One that it names twice is disputed with itself.
                let list = if other == id { Some(&mut mine) } else { owned.get_mut(other) };
                if let Some(list) = list {
                    list.retain(|p| *p != partition);
                }
                owner.insert(partition.clone(), id);
                if generation > others {
                    mine.push(partition);
                } else {
                    disputed.insert(partition);
                }
            }
            owned.insert(Arc::clone(id), mine);
        }
        Claims { owned, disputed }
    }

    /// What a member claims and in which generation. User data groups partitions by topic.
    fn claim(&self, member: &Subscription) -> (Vec<NamedPartition>, i32) {
        if self.kind == StickyKind::Cooperative {
            return (member.owned.clone(), member.generation.unwrap_or(NO_GENERATION));
        }
        let Some((partitions, generation)) = &member.user_data else { return (Vec::new(), NO_GENERATION) };
        let topics: BTreeSet<&Name> = partitions.iter().map(|(t, _)| t).collect();
        let of_topic = |t| partitions.iter().filter(move |(o, _)| o == t).cloned();
        (hash_order(topics.into_iter()).into_iter().flat_map(of_topic).collect(), *generation)
    }
}

fn all_subscribe_to_the_same(members: &Members) -> bool {
    let mut sets = members.values().map(|m| m.topics.iter().collect::<BTreeSet<_>>());
    let first = sets.next();
    sets.all(|s| Some(s) == first)
}

/// Partitions that one member loses and another one gets.
fn transferring(members: &Members, assignment: &Assignment) -> BTreeMap<NamedPartition, Name> {
    let mut moving = BTreeMap::new();
    for (id, list) in assignment {
        let owned = &members[id].owned;
        moving.extend(list.iter().filter(|p| !owned.contains(p)).map(|p| (p.clone(), Arc::clone(id))));
    }
    let revoked: BTreeSet<_> =
        assignment.iter().flat_map(|(id, list)| members[id].owned.iter().filter(move |p| !list.contains(p))).collect();
    moving.retain(|p, _| revoked.contains(p));
    moving
}
