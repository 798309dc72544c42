//! `uniform` where members subscribe to different topics (`UniformHeterogeneousAssignmentBuilder`): keeps what is assigned,
//! gives the rest to whoever has least, then balances topic by topic until nothing moves.

use super::{GroupAssignment, GroupSpec};
use crate::base::{TopicId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Passes over all topics at most.
const MAX_PASSES: usize = 16;

/// The assignment at work. Members go by their place in the spec.
pub(super) struct Balancer<'a> {
    spec: &'a GroupSpec<'a>,
    /// Subscribers of each topic, in order of members.
    subscribers: BTreeMap<TopicId, Vec<usize>>,
    owner: BTreeMap<TopicPartition, usize>,
    sizes: Vec<usize>,
}

impl<'a> Balancer<'a> {
    pub(super) fn new(spec: &'a GroupSpec<'a>) -> Self {
        let mut subscribers: BTreeMap<TopicId, Vec<usize>> = BTreeMap::new();
        let (mut owner, mut sizes) = (BTreeMap::new(), vec![0; spec.members.len()]);
        for (i, member) in spec.members.iter().enumerate() {
            for topic in &member.topics {
                subscribers.entry(*topic).or_default().push(i);
            }
            for tp in member.assigned.iter().filter(|tp| member.topics.contains(&tp.topic)) {
                owner.insert(*tp, i);
                sizes[i] += 1;
            }
        }
        Self { spec, subscribers, owner, sizes }
    }

    pub(super) fn build(mut self) -> GroupAssignment {
        let topics = self.sorted_topics();
        for topic in &topics {
            self.assign_rest(*topic);
        }
        let topics: Vec<_> = topics.into_iter().filter(|t| self.subscribers[t].len() >= 2).collect();
        self.balance(&topics);
        let mut assignment: GroupAssignment =
            self.spec.members.iter().map(|m| (Arc::clone(&m.id), BTreeSet::new())).collect();
        for (tp, i) in self.owner {
            if let Some(set) = assignment.get_mut(&self.spec.members[i].id) {
                set.insert(tp);
            }
        }
        assignment
    }

    /// Topics with most partitions a subscriber first, then with fewest subscribers.
    fn sorted_topics(&self) -> Vec<TopicId> {
        let mut topics: Vec<TopicId> = self.subscribers.keys().copied().collect();
        topics.sort_by(|a, b| {
            let of = |t: &TopicId| (u64::from(self.spec.partitions(*t)), self.subscribers[t].len() as u64);
            let ((pa, sa), (pb, sb)) = (of(a), of(b));
            (pb * sa).cmp(&(pa * sb)).then(sa.cmp(&sb)).then(a.cmp(b))
        });
        topics
    }

    fn assign_rest(&mut self, topic: TopicId) {
        let free: Vec<TopicPartition> = (0..self.spec.partitions(topic))
            .map(|p| TopicPartition { topic, partition: p })
            .filter(|tp| !self.owner.contains_key(tp))
            .collect();
        if free.is_empty() {
            return;
        }
        let mut least = Least::new(&self.subscribers[&topic], &self.sizes);
        for tp in free {
            let member = least.next(&self.sizes);
            self.give(tp, member);
        }
    }

    fn give(&mut self, tp: TopicPartition, member: usize) {
        if let Some(old) = self.owner.insert(tp, member) {
            self.sizes[old] -= 1;
        }
        self.sizes[member] += 1;
    }

    /// Goes round the topics until a whole round has moved nothing.
    fn balance(&mut self, topics: &[TopicId]) {
        let mut last_moved = None;
        for _ in 0..MAX_PASSES {
            for (i, topic) in topics.iter().enumerate() {
                if last_moved == Some(i) {
                    return;
                }
                if self.balance_topic(*topic) || last_moved.is_none() {
                    last_moved = Some(i);
                }
            }
        }
    }

    /// Moves partitions of one topic from the fullest to the emptiest of its subscribers.
    fn balance_topic(&mut self, topic: TopicId) -> bool {
        let members = &self.subscribers[&topic];
        let sizes = || members.iter().map(|m| self.sizes[*m]);
        let (Some(min), Some(max)) = (sizes().min(), sizes().max()) else { return false };
        if max - min <= 1 {
            return false;
        }
        // What each of them has of the topic; the highest number goes first.
        let mut held: BTreeMap<usize, Vec<TopicPartition>> = BTreeMap::new();
        for partition in 0..self.spec.partitions(topic) {
            let tp = TopicPartition { topic, partition };
            if let Some(owner) = self.owner.get(&tp) {
                held.entry(*owner).or_default().push(tp);
            }
        }
        let mut least = Least::new(members, &self.sizes);
        let mut most = Most::new(members, &self.sizes);
        let mut moved = false;
        while most.count > least.count + 1 {
            let Some((from, tp)) = most.next(&self.sizes, &mut held) else { break };
            let to = least.next(&self.sizes);
            if most.count <= least.count + 1 {
                break;
            }
            debug_assert_ne!(from, to);
            self.give(tp, to);
            moved = true;
        }
        moved
    }
}

/// Gives the member with fewest partitions, over and over: members of equal number in turn, then those of the next number.
struct Least {
    members: Vec<usize>,
    end: usize,
    next: usize,
    count: i64,
}
impl Least {
    fn new(members: &[usize], sizes: &[usize]) -> Self {
        let mut members = members.to_vec();
        members.sort_by_key(|m| (sizes[*m], *m));
        let count = members.first().map_or(0, |m| sizes[*m] as i64) - 1;
        Self { members, end: 0, next: 0, count }
    }
    fn next(&mut self, sizes: &[usize]) -> usize {
        if self.next >= self.end {
            self.count += 1;
            while self.members.get(self.end).is_some_and(|m| sizes[*m] as i64 == self.count) {
                self.end += 1;
            }
            self.next = 0;
        }
        self.next += 1;
        self.members[self.next - 1]
    }
}

/// Gives the member with most partitions that has one of the topic, and that partition.
struct Most {
    members: Vec<usize>,
    /// The members of equal number are `start..end`, of which `next` is the next one.
    start: usize,
    end: usize,
    next: i64,
    count: i64,
}
impl Most {
    fn new(members: &[usize], sizes: &[usize]) -> Self {
        let mut members = members.to_vec();
        members.sort_by_key(|m| (sizes[*m], *m));
        let (len, count) = (members.len(), members.last().map_or(0, |m| sizes[*m] as i64) + 1);
        Self { members, start: len, end: len, next: len as i64 - 1, count }
    }
    fn next(
        &mut self,
        sizes: &[usize],
        held: &mut BTreeMap<usize, Vec<TopicPartition>>,
    ) -> Option<(usize, TopicPartition)> {
        loop {
            if self.next < self.start as i64 {
                self.widen(sizes);
            }
            let at = usize::try_from(self.next).ok()?;
            self.next -= 1;
            let member = self.members[at];
            if let Some(tp) = held.get_mut(&member).and_then(Vec::pop) {
                return Some((member, tp));
            }
            // It has none left of this topic: out of the range.
            self.end -= 1;
            self.members.swap(at, self.end);
        }
    }
    fn widen(&mut self, sizes: &[usize]) {
        if self.end <= self.start && self.start > 0 {
            self.count = sizes[self.members[self.start - 1]] as i64;
        } else {
            self.count -= 1;
        }
        while self.start > 0 && sizes[self.members[self.start - 1]] as i64 == self.count {
            self.start -= 1;
        }
        self.next = self.end as i64 - 1;
    }
}
