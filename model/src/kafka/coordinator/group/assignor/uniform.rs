//! `uniform` where all members subscribe to the same topics (`UniformHomogeneousAssignmentBuilder`): every member keeps what
//! it has up to its quota, the rest fills those below theirs.

use super::{GroupAssignment, GroupSpec};
use crate::base::TopicPartition;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Divides all partitions of all topics by the members; the first ones get one more.
pub(super) fn assign(spec: &GroupSpec<'_>) -> GroupAssignment {
    let mut assignment = GroupAssignment::new();
    let Some(topics) = spec.members.first().map(|m| &m.topics).filter(|t| !t.is_empty()) else { return assignment };
    let all = topics.iter().flat_map(|t| (0..spec.partitions(*t)).map(|p| TopicPartition::new(t.0, p)));
    let held: BTreeSet<TopicPartition> = spec.members.iter().flat_map(|m| m.assigned.iter().copied()).collect();
    let total = all.clone().count();
    let mut free: Vec<TopicPartition> = all.filter(|tp| !held.contains(tp)).collect();
    let mut unfilled = Vec::new();
    for (i, member) in spec.members.iter().enumerate() {
        let mut quota = total / spec.members.len() + usize::from(i < total % spec.members.len());
        let mut kept = BTreeSet::new();
        for tp in member.assigned.iter().filter(|tp| topics.contains(&tp.topic)) {
            if quota > 0 {
                quota -= 1;
                kept.insert(*tp);
            } else {
                free.push(*tp);
            }
        }
        if quota > 0 {
            unfilled.push((Arc::clone(&member.id), quota));
        }
        assignment.insert(Arc::clone(&member.id), kept);
    }
    let mut free = free.into_iter();
    for (id, quota) in unfilled {
        if let Some(set) = assignment.get_mut(&id) {
            set.extend(free.by_ref().take(quota));
        }
    }
    assignment
}
