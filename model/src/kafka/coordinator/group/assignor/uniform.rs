//! `uniform` where all members subscribe to the same topics (`UniformHomogeneousAssignmentBuilder`): every member keeps what
//! it has up to its quota, the rest fills those below theirs.

use super::{GroupAssignment, GroupSpec};
use crate::base::TopicPartition;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Divides all partitions of all topics by the members. Who holds more than the quotient keeps one more, as long as that
/// goes; what is left of the remainder goes to the last of the others (**R**).
pub(super) fn assign(spec: &GroupSpec<'_>) -> GroupAssignment {
    let mut assignment = GroupAssignment::new();
    let Some(topics) = spec.members.first().map(|m| &m.topics).filter(|t| !t.is_empty()) else { return assignment };
    let all = topics.iter().flat_map(|t| (0..spec.partitions(*t)).map(|p| TopicPartition::new(t.0, p)));
    let held: BTreeSet<TopicPartition> = spec.members.iter().flat_map(|m| m.assigned.iter().copied()).collect();
    let total = all.clone().count();
    let (min, mut extra) = (total / spec.members.len(), total % spec.members.len());
    let mut free: Vec<TopicPartition> = all.filter(|tp| !held.contains(tp)).collect();
    let mut unfilled = Vec::new();
    for member in &spec.members {
        let has: Vec<_> = member.assigned.iter().copied().filter(|tp| topics.contains(&tp.topic)).collect();
        let mut quota = min;
        if has.len() > min && extra > 0 {
            extra -= 1;
            quota += 1;
        }
        let (kept, beyond) = has.split_at(quota.min(has.len()));
        free.extend(beyond);
        if kept.len() <= min {
            unfilled.push((Arc::clone(&member.id), min - kept.len()));
        }
        assignment.insert(Arc::clone(&member.id), kept.iter().copied().collect());
    }
    let plain = unfilled.len() - extra;
    let mut free = free.into_iter();
    for (i, (id, quota)) in unfilled.into_iter().enumerate() {
        if let Some(set) = assignment.get_mut(&id) {
            set.extend(free.by_ref().take(quota + usize::from(i >= plain)));
        }
    }
    assignment
}
