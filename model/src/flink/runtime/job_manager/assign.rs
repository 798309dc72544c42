//! Which subtask gets what of a checkpoint (`StateAssignmentOperation`): the same job, at the same parallelism or another.

use super::super::graph::JobGraph;
use super::super::operator::KeyGroups;
use super::super::state::{OperatorState, Restored, Snapshot, State};
use super::super::task::ChannelState;
use crate::flink::checkpoint::Completed;
use crate::flink::state::{ListState, Mode, repartition};

/// What subtask `me` of `new` begins with, of a checkpoint that the subtasks of `old` have taken. Keyed state goes by key
/// group; splits and committables are list state, dealt in contiguous blocks, and stay where they are if nothing was rescaled.
pub fn assign(completed: &Completed<State>, old: &JobGraph, new: &JobGraph, me: (u16, u16)) -> Restored {
    let handed_in: Vec<&[OperatorState]> = old
        .subtasks()
        .zip(0usize..)
        .filter(|(subtask, _)| subtask.0 == me.0)
        .map(|(_, task)| match completed.tasks.get(&task).map(|state| &**state) {
            Some(Snapshot::Task(operators)) => operators.as_slice(),
            _ => &[],
        })
        .collect();
    let vertex = &new.vertices[usize::from(me.0)];
    let groups = KeyGroups::new(me.1, vertex.parallelism, vertex.max_parallelism);
    let operator = |place: usize| {
        let parts: Vec<Option<&OperatorState>> = handed_in.iter().map(|operators| operators.get(place)).collect();
        if parts.len() == usize::from(vertex.parallelism) {
            return parts[usize::from(me.1)].into_iter().cloned().collect();
        }
        let mut mine: Vec<OperatorState> = Vec::new();
        let keyed = parts.iter().flatten().filter(|p| matches!(p, OperatorState::Keyed(s) if s.concerns(groups)));
        mine.extend(keyed.map(|part| (*part).clone()));
        let splits = dealt(&parts, vertex.parallelism, me.1, |part| match part {
            OperatorState::Splits(splits) => splits.clone(),
            _ => Vec::new(),
        });
        if !splits.is_empty() {
            mine.push(OperatorState::Splits(splits));
        }
        let sinks = dealt(&parts, vertex.parallelism, me.1, |part| match part {
            OperatorState::Sink(state) => vec![state.clone()],
            _ => Vec::new(),
        });
        mine.extend(sinks.into_iter().map(OperatorState::Sink));
        mine
    };
    let mut operators: Vec<Vec<OperatorState>> = (0..vertex.chain.len()).map(operator).collect();
    if ChannelState::fits(old, new) {
        let channels = handed_in.get(usize::from(me.1)).and_then(|operators| operators.get(vertex.chain.len()));
        operators.push(channels.into_iter().cloned().collect());
    }
    Restored { checkpoint: completed.id, operators }
}

/// Whether a job can begin with a checkpoint of another: what was on its way over channels goes only to the same ones.
pub fn fits(completed: &Completed<State>, old: &JobGraph, new: &JobGraph) -> bool {
    let holds = |state: &State| matches!(&**state, Snapshot::Task(operators) if operators.iter().any(|o| matches!(o, OperatorState::Channels(_))));
    ChannelState::fits(old, new) || !completed.tasks.values().any(holds)
}

/// A subtask's block of what the old ones hold as a list.
fn dealt<T: Clone>(
    parts: &[Option<&OperatorState>],
    parallelism: u16,
    me: u16,
    elements: impl Fn(&OperatorState) -> Vec<T>,
) -> Vec<T> {
    let list = |part: &Option<&OperatorState>| {
        let elements = part.map(&elements).unwrap_or_default();
        vec![ListState { name: "state".into(), mode: Mode::SplitDistribute, elements }]
    };
    let old: Vec<_> = parts.iter().map(list).collect();
    let mine = repartition(&old, usize::from(parallelism)).swap_remove(usize::from(me));
    mine.into_iter().flat_map(|list| list.elements).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::graph::{Chained, Kind, Vertex};
    use super::super::super::operator::{Comparison, Condition, OperatorConfig};
    use super::super::super::task::Split;
    use super::*;
    use crate::base::{Millis, Nanos, Offset, TopicPartition};
    use crate::flink::checkpoint::{self, CheckpointId};
    use crate::flink::restart::RestartStrategy;
    use std::sync::Arc;

    fn graph(parallelism: u16) -> JobGraph {
        let filter = Condition { column: 0, comparison: Comparison::Equal, value: 0 };
        let kind = Kind::Operator(OperatorConfig::Filter(filter));
        let chain = vec![Chained { kind, after: None, side: false, shown: None, record: Nanos::ZERO }];
        JobGraph {
            vertices: vec![Vertex { parallelism, max_parallelism: 128, chain }],
            edges: Vec::new(),
            checkpointing: None,
            restart: RestartStrategy::None,
            buffer_timeout: Nanos::ZERO,
        }
    }
    fn splits(partitions: std::ops::Range<u16>) -> OperatorState {
        let split = |p| Split { tp: TopicPartition::new(0, p), next: Some(Offset(i64::from(p))) };
        OperatorState::Splits(partitions.map(split).collect())
    }
    /// Partitions of each new subtask.
    fn after(old: &[OperatorState], parallelism: u16) -> Vec<Vec<u16>> {
        let tasks = old.iter().enumerate().map(|(i, s)| (i, Arc::new(Snapshot::Task(vec![s.clone()]))));
        let completed = Completed {
            id: CheckpointId(4),
            kind: checkpoint::Kind::Periodic,
            timestamp: Millis::ZERO,
            tasks: tasks.collect(),
            coordinators: [].into(),
        };
        let (old, new) = (graph(old.len() as u16), graph(parallelism));
        let of = |me| match assign(&completed, &old, &new, (0, me)).of(0) {
            [OperatorState::Splits(splits)] => splits.iter().map(|s| s.tp.partition).collect(),
            [] => Vec::new(),
            other => panic!("{other:?}"),
        };
        (0..parallelism).map(of).collect()
    }

    #[test]
    fn splits_stay_or_are_dealt_in_blocks() {
        let old = [splits(0..4), splits(4..6)];
        assert_eq!(after(&old, 2), [vec![0, 1, 2, 3], vec![4, 5]]);
        assert_eq!(after(&old, 4), [vec![0, 1], vec![2, 3], vec![4], vec![5]]);
        assert_eq!(after(&old, 1), [vec![0, 1, 2, 3, 4, 5]]);
    }
}
