//! Properties of the assignors, and what a contradicting claim does.

use super::*;
use crate::base::{Fix, Fixes};
use proptest::prelude::*;

fn name(n: &str) -> Name {
    Arc::from(n)
}
fn claims(generation: i32, partitions: &[u16]) -> Subscription {
    Subscription {
        instance: None,
        topics: vec![name("t")],
        owned: partitions.iter().map(|p| (name("t"), *p)).collect(),
        generation: Some(generation),
        user_data: None,
    }
}
fn owners(assignment: &Assignment, partition: u16) -> usize {
    assignment.values().filter(|list| list.contains(&(name("t"), partition))).count()
}

#[test]
fn of_two_claims_the_newer_generation_wins_and_equal_ones_both_lose() {
    let topics: Topics = [(name("t"), 4)].into();
    let mut sticky = Assignor::named("cooperative-sticky", Fixes::ALL).unwrap();
    let members: Members = [(name("a"), claims(1, &[0, 1])), (name("b"), claims(2, &[1, 2, 3]))].into();
    let assignment = sticky.assign(&topics, &members);
    assert!(assignment[&name("b")].contains(&(name("t"), 1)), "{assignment:?}");
    let members: Members = [(name("a"), claims(2, &[0, 1])), (name("b"), claims(2, &[1, 2]))].into();
    let assignment = sticky.assign(&topics, &members);
    assert_eq!(owners(&assignment, 1), 0, "given up by both first: {assignment:?}");
}

#[test]
fn without_generations_two_members_own_one_partition() {
    let topics: Topics = [(name("t"), 4)].into();
    let mut sticky = Assignor::named("cooperative-sticky", Fixes::ALL.without(Fix::ClaimsCarryGeneration)).unwrap();
    let members: Members = [(name("a"), claims(1, &[0, 1])), (name("b"), claims(2, &[1, 2]))].into();
    assert_eq!(owners(&sticky.assign(&topics, &members), 1), 2);
}

proptest! {
    /// Whatever members claim of their topics, nobody shares a partition, nobody gets what it does not subscribe to, and a second round of
    /// the cooperative assignor leaves nothing over.
    #[test]
    fn every_partition_has_one_owner(
        kind in 0usize..4,
        counts in proptest::collection::vec(1u16..6, 1..4),
        members in proptest::collection::vec((1u8..8, -1i32..4, proptest::collection::vec((0u16..3, 0u16..6), 0..5)), 1..6),
    ) {
        let topic = |i: usize| name(["t", "u", "v"][i]);
        let topics: Topics = counts.iter().enumerate().map(|(i, n)| (topic(i), *n)).collect();
        let kinds = ["range", "roundrobin", "sticky", "cooperative-sticky"];
        let mut members: Members = members.into_iter().enumerate().map(|(i, (mask, generation, owned))| {
            let mut owned: Vec<_> = owned.into_iter().map(|(t, p)| (topic(usize::from(t)), p))
                .filter(|(t, p)| topics.get(t).is_some_and(|n| p < n)).collect();
            owned.sort();
            owned.dedup();
            let topics: Vec<Name> = (0..3).filter(|b| mask & (1 << b) != 0).map(topic).collect();
            owned.retain(|(t, _)| topics.contains(t));
            let user_data = Some((owned.clone(), generation));
            (name(&format!("m{i}")), Subscription { instance: None, topics, owned, generation: Some(generation).filter(|g| *g >= 0), user_data })
        }).collect();
        let mut assignor = Assignor::named(kinds[kind], Fixes::ALL).unwrap();
        for round in 0..3 {
            let assignment = assignor.assign(&topics, &members);
            let mut seen = std::collections::BTreeSet::new();
            for (id, list) in &assignment {
                for p in list {
                    prop_assert!(seen.insert(p.clone()), "{p:?} twice");
                    prop_assert!(members[id].topics.contains(&p.0));
                }
            }
            if kind != 3 || round == 2 {
                let wanted: usize = topics.iter().filter(|(t, _)| members.values().any(|m| m.topics.contains(t)))
                    .map(|(_, n)| usize::from(*n)).sum();
                prop_assert_eq!(seen.len(), wanted);
            }
            for (id, m) in &mut members {
                m.owned = assignment[id].clone();
                m.generation = Some(10 + round);
                m.user_data = Some((m.owned.clone(), 10 + round));
            }
        }
    }
}
