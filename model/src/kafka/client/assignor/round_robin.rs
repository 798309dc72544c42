//! `RoundRobinAssignor`: all partitions in order, to the members in turn.

use super::{Assignment, Members, Topics, by_instance_then_id};
use std::sync::Arc;

/// Deals the partitions out by name of topic and number; a member that does not subscribe to a topic is passed over.
pub fn round_robin(topics: &Topics, members: &Members) -> Assignment {
    let mut assignment: Assignment = members.keys().map(|id| (Arc::clone(id), Vec::new())).collect();
    let mut circle: Vec<_> = members.iter().collect();
    circle.sort_by(|a, b| by_instance_then_id(*a, *b));
    let mut at = 0;
    for (topic, partitions) in topics {
        for partition in 0..*partitions {
            // Every topic here has a subscriber.
            while !circle[at].1.topics.contains(topic) {
                at = (at + 1) % circle.len();
            }
            if let Some(list) = assignment.get_mut(circle[at].0) {
                list.push((Arc::clone(topic), partition));
            }
            at = (at + 1) % circle.len();
        }
    }
    assignment
}
