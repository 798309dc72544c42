//! The sticky assignors where all members subscribe to the same topics (`ConstrainedAssignmentBuilder`).

use super::sticky::Claims;
use super::{Assignment, Name, NamedPartition, Topics};
use crate::kafka::hash_order::hash_order;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Everybody ends with `min` or `min + 1` partitions, `expected` members with the latter.
pub(super) struct Constrained<'a> {
    topics: &'a Topics,
    claims: &'a Claims,
    min: usize,
    max: usize,
    /// Members that get one more than `min`: how many there may be, and how many there are.
    expected: usize,
    over: usize,
    assignment: Assignment,
    assigned: BTreeSet<NamedPartition>,
    /// Taken from its owner for being beyond its quota.
    revoked: BTreeMap<NamedPartition, Name>,
    under_min: Vec<Name>,
    exactly_min: VecDeque<Name>,
    /// What changes hands: its new owner gets it only when the old one has given it up.
    moving: BTreeMap<NamedPartition, Name>,
}

impl<'a> Constrained<'a> {
    pub(super) fn new(topics: &'a Topics, claims: &'a Claims) -> Self {
        let total: usize = topics.values().map(|n| usize::from(*n)).sum();
        let members = claims.owned.len().max(1);
        Self {
            topics,
            claims,
            min: total / members,
            max: total.div_ceil(members),
            expected: total % members,
            over: 0,
            assignment: claims.owned.keys().map(|id| (Arc::clone(id), Vec::new())).collect(),
            assigned: BTreeSet::new(),
            revoked: BTreeMap::new(),
            under_min: Vec::new(),
            exactly_min: VecDeque::new(),
            moving: BTreeMap::new(),
        }
    }

    pub(super) fn build(mut self) -> (Assignment, BTreeMap<NamedPartition, Name>) {
        for id in hash_order(self.claims.owned.keys()) {
            self.keep(id);
        }
        self.under_min.sort();
        self.exactly_min.make_contiguous().sort();
        self.deal_out();
        (self.assignment, self.moving)
    }

    /// Leaves a member what it owns, up to its quota; by number of the partition, then by topic, so that what goes beyond
    /// is spread over the topics.
    fn keep(&mut self, id: &Name) {
        let claims = self.claims;
        let mut owned: Vec<&NamedPartition> =
            claims.owned[id].iter().filter(|p| !claims.disputed.contains(*p)).collect();
        owned.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        let kept = if owned.len() < self.min {
            self.under_min.push(Arc::clone(id));
            owned.len()
        } else if owned.len() >= self.max && self.over < self.expected {
            self.over += 1;
            if self.over == self.expected {
                self.exactly_min.clear();
            }
            self.max
        } else {
            if self.over < self.expected {
                self.exactly_min.push_back(Arc::clone(id));
            }
            self.min
        };
        for (i, partition) in owned.into_iter().enumerate() {
            if i < kept {
                self.assigned.insert(partition.clone());
                if let Some(list) = self.assignment.get_mut(id) {
                    list.push(partition.clone());
                }
            } else {
                self.revoked.insert(partition.clone(), Arc::clone(id));
            }
        }
    }

    /// Deals out what is left: in turn to those below the minimum, then one each to those at it.
    fn deal_out(&mut self) {
        let topics = self.topics;
        let mut turn = 0;
        for (topic, partitions) in topics {
            for partition in (0..*partitions).map(|p| (Arc::clone(topic), p)) {
                if self.assigned.contains(&partition) {
                    continue;
                }
                if turn >= self.under_min.len() {
                    turn = 0;
                }
                let from_under = self.under_min.get(turn).cloned();
                let Some(id) = from_under.clone().or_else(|| self.exactly_min.pop_front()) else { return };
                let count = self.give(partition, &id);
                if from_under.is_some() {
                    if count == self.min {
                        self.under_min.remove(turn);
                        self.exactly_min.push_back(id);
                    } else {
                        turn += 1;
                    }
                }
            }
        }
    }

    fn give(&mut self, partition: NamedPartition, id: &Name) -> usize {
        let moved = self.revoked.get(&partition).is_some_and(|from| from != id);
        if moved || self.claims.disputed.contains(&partition) {
            self.moving.insert(partition.clone(), Arc::clone(id));
        }
        self.assignment.get_mut(id).map_or(0, |list| {
            list.push(partition);
            list.len()
        })
    }
}
