//! `RangeAssignor`: topic by topic, a run of partitions for each subscriber.

use super::{Assignment, Members, Name, Topics, by_instance_then_id};
use crate::kafka::hash_order::hash_order;
use std::sync::Arc;

/// Divides every topic by itself: subscribers in order get as many partitions as the division gives, the first ones one more.
pub fn range(topics: &Topics, members: &Members) -> Assignment {
    let mut assignment: Assignment = members.keys().map(|id| (Arc::clone(id), Vec::new())).collect();
    for topic in hash_order(topics.keys()) {
        let mut subscribers: Vec<_> = members.iter().filter(|(_, m)| m.topics.contains(topic)).collect();
        subscribers.sort_by(|a, b| by_instance_then_id(*a, *b));
        let (partitions, count) = (usize::from(topics[topic]), subscribers.len());
        let mut next = 0;
        for (i, (id, _)) in subscribers.into_iter().enumerate() {
            let len = partitions / count + usize::from(i < partitions % count);
            extend(&mut assignment, id, topic, next..next + len);
            next += len;
        }
    }
    assignment
}

fn extend(assignment: &mut Assignment, id: &Name, topic: &Name, partitions: std::ops::Range<usize>) {
    if let Some(list) = assignment.get_mut(id) {
        list.extend(partitions.map(|p| (Arc::clone(topic), p as u16)));
    }
}
