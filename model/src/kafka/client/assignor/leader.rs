//! What the leader of a classic group makes of the members' subscriptions (`onLeaderElected`).

use super::{Assignor, Members, Name, NamedPartition, Subscription, Topics};
use crate::base::{TopicId, TopicPartition};
use crate::kafka::coordinator::group::messages::{JoinGroupMember, MemberAssignment, ProtocolMetadata};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Divides `partitions`, all that there are of everybody's topics, among the members. `names` are those of topics, by number.
pub fn divide(
    assignor: &mut Assignor,
    members: &[JoinGroupMember],
    partitions: impl Iterator<Item = TopicPartition>,
    names: &[Name],
) -> Vec<(Name, MemberAssignment)> {
    let name = |topic: TopicId| -> Name {
        names.get(usize::from(topic.0)).cloned().unwrap_or_else(|| format!("topic-{}", topic.0).into())
    };
    let mut numbers: BTreeMap<Name, TopicId> = BTreeMap::new();
    let mut topics = Topics::new();
    for tp in partitions {
        let name = name(tp.topic);
        *topics.entry(Arc::clone(&name)).or_insert(0) += 1;
        numbers.insert(name, tp.topic);
    }
    let named = |list: &[TopicPartition]| -> Vec<NamedPartition> {
        list.iter().map(|tp| (name(tp.topic), tp.partition)).collect()
    };
    let subscription = |member: &JoinGroupMember| match &member.metadata {
        ProtocolMetadata::Consumer(s) => Subscription {
            instance: member.instance.clone(),
            topics: s.topics.iter().map(|t| name(*t)).collect(),
            owned: named(&s.owned),
            generation: (s.generation >= 0).then_some(s.generation),
            user_data: s.user_data.as_ref().map(|(list, generation)| (named(list), *generation)),
        },
        ProtocolMetadata::Opaque(_) => Subscription::default(),
    };
    let members: Members = members.iter().map(|m| (Arc::clone(&m.id), subscription(m))).collect();
    let number =
        |(name, partition): NamedPartition| numbers.get(&name).map(|topic| TopicPartition { topic: *topic, partition });
    let given = |list: Vec<NamedPartition>| MemberAssignment::Partitions(list.into_iter().filter_map(number).collect());
    assignor.assign(&topics, &members).into_iter().map(|(id, list)| (id, given(list))).collect()
}
