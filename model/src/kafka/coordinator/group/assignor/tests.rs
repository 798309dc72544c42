//! Properties of the coordinator's assignors.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;

fn spec<'a>(topics: &'a BTreeMap<TopicId, u16>, masks: &[u8], before: &GroupAssignment) -> GroupSpec<'a> {
    let member = |(i, mask): (usize, &u8)| {
        let id: Name = Arc::from(format!("m{i}").as_str());
        let wanted: BTreeSet<TopicId> = (0..3).filter(|b| mask & (1 << b) != 0).map(TopicId).collect();
        MemberSpec {
            instance: None,
            topics: wanted.iter().copied().filter(|t| topics.contains_key(t)).collect(),
            homogeneous_with: wanted,
            assigned: before.get(&id).cloned().unwrap_or_default(),
            id,
        }
    };
    GroupSpec { members: masks.iter().enumerate().map(member).collect(), topics }
}

proptest! {
    /// Everything subscribed to is assigned once, to a subscriber; `uniform` asked again moves nothing, and with equal
    /// subscriptions no two members differ by more than one.
    #[test]
    fn all_partitions_are_assigned_once(
        uniform in any::<bool>(),
        counts in proptest::collection::vec(1u16..9, 1..4),
        first in proptest::collection::vec(1u8..8, 1..6),
        then in proptest::collection::vec(1u8..8, 1..6),
    ) {
        let topics: BTreeMap<TopicId, u16> = counts.iter().enumerate().map(|(i, n)| (TopicId(i as u16), *n)).collect();
        let assignor = if uniform { ServerAssignor::Uniform } else { ServerAssignor::Range };
        let mut before = GroupAssignment::new();
        for masks in [&first, &then, &then] {
            let spec = spec(&topics, masks, &before);
            let after = assignor.assign(&spec);
            let mut seen = BTreeSet::new();
            for member in &spec.members {
                for tp in after.get(&member.id).into_iter().flatten() {
                    prop_assert!(seen.insert(*tp), "{tp} twice");
                    prop_assert!(member.topics.contains(&tp.topic));
                }
            }
            let wanted: usize = topics.iter().filter(|(t, _)| spec.members.iter().any(|m| m.topics.contains(t)))
                .map(|(_, n)| usize::from(*n)).sum();
            prop_assert_eq!(seen.len(), wanted);
            if uniform && spec.is_homogeneous() && wanted > 0 {
                let sizes: Vec<usize> = after.values().map(BTreeSet::len).collect();
                prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            }
            before = after;
        }
        prop_assert_eq!(assignor.assign(&spec(&topics, &then, &before)), before);
    }
}
