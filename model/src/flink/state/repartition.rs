//! Operator state and key groups on a change of parallelism (`RoundRobinOperatorStateRepartitioner`,
//! `StateAssignmentOperation`).

use crate::flink::key_groups::{KeyGroupRange, range_of};
use crate::kafka::hash_order::hash_order;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How operator state is handed out on a restore (`OperatorStateHandle.Mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// List state: every element goes to one subtask.
    SplitDistribute,
    /// Union list state: every subtask gets all elements.
    Union,
    /// Broadcast state: every subtask gets one of the copies.
    Broadcast,
}

/// What a subtask snapshotted under one state name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListState<T> {
    /// The name of its descriptor.
    pub name: Arc<str>,
    /// How it is handed out.
    pub mode: Mode,
    /// Its elements.
    pub elements: Vec<T>,
}

/// One named state of all old subtasks: those that have it, in their order.
type Parts<'a, T> = Vec<&'a ListState<T>>;

/// What each of `new` subtasks gets of what the old ones snapshotted, one list of named states each.
///
/// List state is cut into contiguous blocks of its concatenation; the first blocks hold one element more, and a further named
/// state begins where the extra elements of the one before ended. At the same parallelism list and broadcast state stay where
/// they are, imbalance and all.
pub fn repartition<T: Clone>(old: &[Vec<ListState<T>>], new: usize) -> Vec<Vec<ListState<T>>> {
    let same = old.len() == new;
    let mut result: Vec<Vec<ListState<T>>> = if same {
        old.iter().map(|s| s.iter().filter(|l| l.mode != Mode::Union).cloned().collect()).collect()
    } else {
        vec![Vec::new(); new]
    };
    if !same {
        distribute(&named(old, Mode::SplitDistribute), &mut result);
    }
    for (name, parts) in named(old, Mode::Union) {
        let all: Vec<T> = parts.iter().flat_map(|p| p.elements.iter().cloned()).collect();
        for subtask in &mut result {
            subtask.push(ListState { name: name.clone(), mode: Mode::Union, elements: all.clone() });
        }
    }
    for (name, copies) in named(old, Mode::Broadcast) {
        // At the same parallelism only a state that some subtask lacks, because it had finished, is dealt again.
        if same && copies.len() == new {
            continue;
        }
        for (i, subtask) in result.iter_mut().enumerate() {
            subtask.retain(|l| l.mode != Mode::Broadcast || l.name != name);
            subtask.push(copies[i % copies.len()].clone());
        }
    }
    result
}

/// The states of one mode by name, in the order in which a `HashMap` of the names is walked.
fn named<T>(old: &[Vec<ListState<T>>], mode: Mode) -> Vec<(Arc<str>, Parts<'_, T>)> {
    let mut by_name: BTreeMap<Arc<str>, Parts<'_, T>> = BTreeMap::new();
    for state in old.iter().flatten().filter(|s| s.mode == mode) {
        by_name.entry(state.name.clone()).or_default().push(state);
    }
    let order: Vec<Arc<str>> = hash_order(by_name.keys()).into_iter().cloned().collect();
    order.into_iter().map(|name| (name.clone(), by_name.remove(&name).unwrap_or_default())).collect()
}

fn distribute<T: Clone>(states: &[(Arc<str>, Parts<'_, T>)], result: &mut [Vec<ListState<T>>]) {
    let new = result.len();
    let mut start = 0;
    for (name, parts) in states {
        let mut elements = parts.iter().flat_map(|p| p.elements.iter().cloned());
        let total: usize = parts.iter().map(|p| p.elements.len()).sum();
        let (base, extra) = (total / new, total % new);
        for i in 0..new {
            let block: Vec<T> = elements.by_ref().take(base + usize::from(i < extra)).collect();
            if !block.is_empty() {
                let state = ListState { name: name.clone(), mode: Mode::SplitDistribute, elements: block };
                result[(start + i) % new].push(state);
            }
        }
        start = (start + extra) % new;
    }
}

/// Where the key groups of each of `new` subtasks come from: its range, and of which old subtask which part.
pub fn key_group_parts(max: u32, old: u32, new: u32) -> Vec<(KeyGroupRange, Vec<(u32, KeyGroupRange)>)> {
    let parts = |range: KeyGroupRange| {
        let part = |subtask| range_of(subtask, max, old).intersect(range).map(|part| (subtask, part));
        (0..old).filter_map(part).collect()
    };
    (0..new).map(|subtask| range_of(subtask, max, new)).map(|range| (range, parts(range))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(name: &str, elements: &[u32]) -> ListState<u32> {
        ListState { name: name.into(), mode: Mode::SplitDistribute, elements: elements.to_vec() }
    }
    fn sizes(result: &[Vec<ListState<u32>>]) -> Vec<usize> {
        result.iter().map(|s| s.iter().map(|l| l.elements.len()).sum()).collect()
    }

    #[test]
    fn blocks_are_contiguous_and_the_next_state_starts_behind_the_extra_ones() {
        let old = [vec![list("s", &[0, 1, 2, 3]), list("t", &[10, 11, 12, 13])]];
        let new = repartition(&old, 3);
        assert_eq!(new[0][0].elements, [0, 1]);
        assert_eq!(sizes(&new), [3, 3, 2]);
        assert_eq!(new[1][1].elements, [10, 11]);
    }

    #[test]
    fn at_the_same_parallelism_nothing_moves() {
        let old = [vec![list("s", &[0, 1, 2, 3])], vec![]];
        assert_eq!(sizes(&repartition(&old, 2)), [4, 0]);
    }
}
