//! `RangeAssignor`: topic by topic, a run of partitions for each subscriber.

use super::{GroupAssignment, GroupSpec, MemberSpec};
use crate::base::TopicPartition;
use std::cmp::Ordering;
use std::sync::Arc;

/// Static members first, by instance id, then by member id.
fn order(a: &MemberSpec, b: &MemberSpec) -> Ordering {
    match (&a.instance, &b.instance) {
        (Some(x), Some(y)) => x.cmp(y),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.id.cmp(&b.id),
    }
}

/// Divides every topic by itself.
pub(super) fn assign(spec: &GroupSpec<'_>) -> GroupAssignment {
    let mut members: Vec<&MemberSpec> = spec.members.iter().collect();
    members.sort_by(|a, b| order(a, b));
    let mut assignment: GroupAssignment = members.iter().map(|m| (Arc::clone(&m.id), Default::default())).collect();
    for topic in spec.topics.keys() {
        let subscribers: Vec<_> = members.iter().filter(|m| m.topics.contains(topic)).collect();
        let (partitions, count) = (usize::from(spec.partitions(*topic)), subscribers.len());
        let mut next = 0;
        for (i, member) in subscribers.into_iter().enumerate() {
            let end = next + partitions / count + usize::from(i < partitions % count);
            if let Some(set) = assignment.get_mut(&member.id) {
                set.extend((next..end).map(|p| TopicPartition::new(topic.0, p as u16)));
            }
            next = end;
        }
    }
    assignment
}
