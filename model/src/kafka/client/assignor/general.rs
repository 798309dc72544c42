//! The sticky assignors where members subscribe to different topics (`GeneralAssignmentBuilder`).

use super::movements::Movements;
use super::{Assignment, Members, Name, NamedPartition, Topics};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Keeps what is owned, gives the rest to whoever has least, then moves one partition at a time until it is balanced.
pub(super) struct General<'a> {
    topics: &'a Topics,
    members: &'a Members,
    current: Assignment,
    owner: BTreeMap<NamedPartition, Name>,
    /// Members that take part in balancing, by number of partitions, then id.
    by_size: BTreeSet<(usize, Name)>,
    /// Owner of an older generation.
    previous: BTreeMap<NamedPartition, Name>,
    movements: Movements,
    revocation_required: bool,
}

impl<'a> General<'a> {
    pub(super) fn new(
        topics: &'a Topics,
        members: &'a Members,
        current: Assignment,
        previous: BTreeMap<NamedPartition, Name>,
    ) -> Self {
        let owner =
            current.iter().flat_map(|(id, list)| list.iter().map(move |p| (p.clone(), Arc::clone(id)))).collect();
        Self {
            topics,
            members,
            current,
            owner,
            by_size: BTreeSet::new(),
            previous,
            movements: Movements::default(),
            revocation_required: false,
        }
    }

    pub(super) fn build(mut self) -> Assignment {
        self.keep_owned();
        let all = self.all_partitions();
        let unassigned = self.unassigned(&all);
        self.by_size = self.current.iter().map(|(id, list)| (list.len(), Arc::clone(id))).collect();
        self.balance(all, unassigned);
        self.current
    }

    fn subscribers(&self, topic: &Name) -> usize {
        self.members.values().filter(|m| m.topics.contains(topic)).count()
    }

    /// All partitions; topics with fewest possible owners first.
    fn all_partitions(&self) -> Vec<NamedPartition> {
        let mut topics: Vec<_> = self.topics.iter().map(|(t, n)| (self.subscribers(t), t, *n)).collect();
        topics.sort();
        topics.into_iter().flat_map(|(_, t, n)| (0..n).map(move |p| (Arc::clone(t), p))).collect()
    }

    fn keep_owned(&mut self) {
        for (id, list) in &mut self.current {
            let topics = &self.members[id].topics;
            let before = list.len();
            list.retain(|(topic, _)| topics.contains(topic));
            self.revocation_required |= list.len() != before;
        }
    }
    /// Who has no owner, by one walk over all partitions beside those that are kept, both in one order. A kept partition that
    /// does not exist any more is never met, so all behind it count as free, although they may be kept: they then have two
    /// owners, as in Kafka.
    fn unassigned(&self, all: &[NamedPartition]) -> Vec<NamedPartition> {
        let mut kept: Vec<_> = self.current.values().flatten().map(|p| (self.subscribers(&p.0), p)).collect();
        kept.sort();
        let mut kept = kept.into_iter().map(|(_, p)| p).peekable();
        all.iter().filter(|p| kept.next_if_eq(p).is_none()).cloned().collect()
    }

    fn balance(&mut self, mut all: Vec<NamedPartition>, mut unassigned: Vec<NamedPartition>) {
        let initializing = self.by_size.last().is_none_or(|(size, _)| *size == 0);
        for partition in &unassigned {
            self.give_to_smallest(partition);
        }
        let fixed: BTreeSet<&Name> = self.topics.keys().filter(|t| self.subscribers(t) < 2).collect();
        all.retain(|(t, _)| !fixed.contains(t));
        unassigned.retain(|(t, _)| !fixed.contains(t));
        let apart: Vec<Name> = self.members.keys().filter(|id| !self.can_take_part(id)).cloned().collect();
        let mut apart_assignment = Vec::new();
        for id in apart {
            if let Some(list) = self.current.remove(&id) {
                self.by_size.remove(&(list.len(), Arc::clone(&id)));
                apart_assignment.push((id, list));
            }
        }
        let before = (self.current.clone(), self.owner.clone());
        if !self.revocation_required {
            self.reassign(&unassigned);
        }
        let moved = self.reassign(&all);
        if !initializing && moved && score(&self.current) >= score(&before.0) {
            (self.current, self.owner) = before;
        }
        self.current.extend(apart_assignment);
    }

    fn give_to_smallest(&mut self, partition: &NamedPartition) {
        let Some(entry) = self.by_size.iter().find(|(_, id)| self.members[id].topics.contains(&partition.0)).cloned()
        else {
            return;
        };
        self.by_size.remove(&entry);
        if let Some(list) = self.current.get_mut(&entry.1) {
            list.push(partition.clone());
        }
        self.owner.insert(partition.clone(), Arc::clone(&entry.1));
        self.by_size.insert((entry.0 + 1, entry.1));
    }

    /// How many partitions a member could have.
    fn most_of(&self, id: &Name) -> usize {
        self.topics.iter().filter(|(t, _)| self.members[id].topics.contains(t)).map(|(_, n)| usize::from(*n)).sum()
    }
    fn can_take_part(&self, id: &Name) -> bool {
        let list = &self.current[id];
        list.len() < self.most_of(id) || list.iter().any(|(t, _)| self.subscribers(t) >= 2)
    }
    fn size(&self, id: &Name) -> Option<usize> {
        self.current.get(id).map(Vec::len)
    }

    fn is_balanced(&self) -> bool {
        let (Some((min, _)), Some((max, _))) = (self.by_size.first(), self.by_size.last()) else { return true };
        if min + 1 >= *max {
            return true;
        }
        self.by_size.iter().all(|(size, id)| {
            *size == self.most_of(id)
                || self.members[id].topics.iter().filter_map(|t| self.topics.get(t).map(|n| (t, *n))).all(
                    |(topic, n)| {
                        (0..n).all(|p| {
                            let partition = (Arc::clone(topic), p);
                            let other = self.owner.get(&partition).filter(|o| *o != id).and_then(|o| self.size(o));
                            other.is_none_or(|other| size + 1 >= other)
                        })
                    },
                )
        })
    }

    /// Walks over the partitions again and again, moving each whose owner has two more than somebody who could have it.
    fn reassign(&mut self, partitions: &[NamedPartition]) -> bool {
        let mut performed = false;
        loop {
            let mut modified = false;
            for partition in partitions {
                if self.is_balanced() {
                    break;
                }
                let Some(size) = self.owner.get(partition).and_then(|id| self.size(id)) else { continue };
                // As in Kafka, without a look at whether it still subscribes.
                let previous = self.previous.get(partition).cloned();
                if let Some(to) = previous.filter(|id| self.size(id).is_some_and(|s| size > s + 1)) {
                    self.move_to(partition, &to);
                    modified = true;
                    continue;
                }
                let able = |(_, id): &&(usize, Name)| self.members[id].topics.contains(&partition.0);
                if self.by_size.iter().filter(able).any(|(s, _)| size > s + 1)
                    && let Some(to) = self.by_size.iter().find(able).map(|(_, id)| Arc::clone(id))
                {
                    self.move_to(partition, &to);
                    modified = true;
                }
            }
            performed |= modified;
            if !modified {
                return performed;
            }
        }
    }

    fn move_to(&mut self, partition: &NamedPartition, to: &Name) {
        let from = Arc::clone(&self.owner[partition]);
        let partition = self.movements.actual(partition, &from, to);
        let from = Arc::clone(&self.owner[&partition]);
        for id in [&from, to] {
            self.by_size.remove(&(self.current[id].len(), Arc::clone(id)));
        }
        self.movements.moved(&partition, &from, to);
        if let Some(list) = self.current.get_mut(&from)
            && let Some(at) = list.iter().position(|p| *p == partition)
        {
            list.remove(at);
        }
        if let Some(list) = self.current.get_mut(to) {
            list.push(partition.clone());
        }
        self.owner.insert(partition, Arc::clone(to));
        for id in [&from, to] {
            self.by_size.insert((self.current[id].len(), Arc::clone(id)));
        }
    }
}

/// Sum of the differences between every two members.
fn score(assignment: &Assignment) -> usize {
    let sizes: Vec<usize> = assignment.values().map(Vec::len).collect();
    sizes.iter().enumerate().map(|(i, a)| sizes[i + 1..].iter().map(|b| a.abs_diff(*b)).sum::<usize>()).sum()
}
