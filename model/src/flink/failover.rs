//! Pipelined regions, and which tasks restart when one fails (`SchedulingPipelinedRegionComputeUtil`,
//! `RestartPipelinedRegionFailoverStrategy`).

use std::collections::{BTreeSet, VecDeque};

/// How the subtasks of two vertices are connected (`DistributionPattern`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Each producer feeds a few consumers: forward, rescale.
    Pointwise,
    /// Each producer feeds every consumer: key by, rebalance, broadcast.
    AllToAll,
}

/// What a result partition is (`ResultPartitionType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionType {
    /// `PIPELINED`, `PIPELINED_BOUNDED`: producer and consumer stand and fall together.
    Pipelined,
    /// `PIPELINED_APPROXIMATE`: the consumer may reconnect.
    Approximate,
    /// `BLOCKING` and its kin: stays when its producer has finished.
    Blocking,
}

/// An edge of the job graph.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The producing vertex.
    pub from: usize,
    /// The consuming vertex.
    pub to: usize,
    /// Who feeds whom.
    pub pattern: Pattern,
    /// What is between them.
    pub kind: PartitionType,
}

/// A subtask: vertex and index.
pub type TaskId = (usize, u32);
/// A result partition: the edge it feeds, and its producer's index.
pub type PartitionId = (usize, u32);

/// The graph of subtasks, cut into regions.
#[derive(Clone, Debug)]
pub struct Topology {
    parallelism: Vec<u32>,
    edges: Vec<Edge>,
    /// Of every subtask, by its number.
    region: Vec<usize>,
    regions: usize,
    /// First number of a vertex's subtasks.
    first: Vec<usize>,
    /// Which subtasks have been deployed at all; one still CREATED is left out of a restart.
    created: BTreeSet<TaskId>,
    lost: BTreeSet<PartitionId>,
}

impl Topology {
    /// The graph of vertices with these parallelisms. Vertices are given in topological order.
    pub fn new(parallelism: Vec<u32>, edges: Vec<Edge>) -> Self {
        let mut first = Vec::with_capacity(parallelism.len());
        let mut tasks = 0;
        for p in &parallelism {
            first.push(tasks);
            tasks += *p as usize;
        }
        let mut topology = Self {
            parallelism,
            edges,
            region: (0..tasks).collect(),
            regions: 0,
            first,
            created: BTreeSet::new(),
            lost: BTreeSet::new(),
        };
        topology.cut();
        topology
    }
    fn number(&self, task: TaskId) -> usize {
        self.first[task.0] + task.1 as usize
    }
    fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.parallelism.iter().enumerate().flat_map(|(vertex, p)| (0..*p).map(move |sub| (vertex, sub)))
    }
    /// The subtasks that consume a partition.
    fn consumers(&self, (edge, producer): PartitionId) -> impl Iterator<Item = TaskId> {
        let Edge { from, to, pattern, .. } = self.edges[edge];
        let (sources, targets) = (self.parallelism[from], self.parallelism[to]);
        (0..targets)
            .filter(move |t| pattern == Pattern::AllToAll || feeds(producer, *t, sources, targets))
            .map(move |t| (to, t))
    }
    /// Every connection between subtasks, as (edge, producer, consumer).
    fn connections(&self) -> Vec<(usize, TaskId, TaskId)> {
        let mut all = Vec::new();
        for (edge, e) in self.edges.iter().enumerate() {
            for producer in 0..self.parallelism[e.from] {
                all.extend(self.consumers((edge, producer)).map(|consumer| (edge, (e.from, producer), consumer)));
            }
        }
        all
    }
    /// Joins what pipelined edges connect, and then what forms a cycle of regions through other edges.
    fn cut(&mut self) {
        let connections = self.connections();
        for (edge, from, to) in &connections {
            if self.edges[*edge].kind == PartitionType::Pipelined {
                self.join(*from, *to);
            }
        }
        let n = self.region.len();
        let mut reach = vec![BTreeSet::new(); n];
        for (_, from, to) in &connections {
            let (a, b) = (self.region[self.number(*from)], self.region[self.number(*to)]);
            if a != b {
                reach[a].insert(b);
            }
        }
        for region in 0..n {
            let mut seen: BTreeSet<usize> = reach[region].clone();
            let mut queue: VecDeque<usize> = seen.iter().copied().collect();
            while let Some(next) = queue.pop_front() {
                queue.extend(reach[next].iter().filter(|r| seen.insert(**r)));
            }
            reach[region] = seen;
        }
        for a in 0..n {
            for b in a + 1..n {
                if reach[a].contains(&b) && reach[b].contains(&a) {
                    let (low, high) = (a.min(b), a.max(b));
                    self.region.iter_mut().filter(|r| **r == high).for_each(|r| *r = low);
                }
            }
        }
        self.regions = self.region.iter().collect::<BTreeSet<_>>().len();
    }
    fn join(&mut self, a: TaskId, b: TaskId) {
        let (a, b) = (self.region[self.number(a)], self.region[self.number(b)]);
        if a != b {
            let (low, high) = (a.min(b), a.max(b));
            self.region.iter_mut().filter(|r| **r == high).for_each(|r| *r = low);
        }
    }
    /// The regions, each the list of its subtasks.
    pub fn regions(&self) -> Vec<Vec<TaskId>> {
        let mut names: Vec<usize> = self.region.clone();
        names.sort_unstable();
        names.dedup();
        debug_assert_eq!(names.len(), self.regions);
        names.into_iter().map(|r| self.tasks().filter(|t| self.region[self.number(*t)] == r).collect()).collect()
    }
    /// Notes whether a subtask is only CREATED.
    pub fn set_created(&mut self, task: TaskId, created: bool) {
        if created {
            self.created.insert(task);
        } else {
            self.created.remove(&task);
        }
    }
    /// Notes whether a partition can be read.
    pub fn set_available(&mut self, partition: PartitionId, available: bool) {
        if available {
            self.lost.remove(&partition);
        } else {
            self.lost.insert(partition);
        }
    }
    /// What restarts when `failed` fails: its region, the regions that produce what one of these cannot read, and all their
    /// consumers. `unreadable` is the partition that the failure names (`PartitionException`): lost for this decision.
    pub fn restart(&self, failed: TaskId, unreadable: Option<PartitionId>) -> Vec<TaskId> {
        let connections = self.connections();
        let of = |task: &TaskId| self.region[self.number(*task)];
        let mut chosen = BTreeSet::from([of(&failed)]);
        let mut queue = VecDeque::from([of(&failed)]);
        while let Some(region) = queue.pop_front() {
            for (edge, from, to) in &connections {
                let partition = (*edge, from.1);
                let lost = self.lost.contains(&partition) || unreadable == Some(partition);
                if of(to) == region && lost && chosen.insert(of(from)) {
                    queue.push_back(of(from));
                }
                if of(from) == region && chosen.insert(of(to)) {
                    queue.push_back(of(to));
                }
            }
        }
        self.tasks().filter(|t| chosen.contains(&of(t)) && !self.created.contains(t)).collect()
    }
}

/// Whether a pointwise edge connects the two subtasks (`VertexInputInfoComputationUtils`).
const fn feeds(producer: u32, consumer: u32, producers: u32, consumers: u32) -> bool {
    if producers >= consumers {
        let (from, to) = (consumer * producers / consumers, (consumer + 1) * producers / consumers);
        from <= producer && producer < to
    } else {
        let (from, to) = ((producer * consumers).div_ceil(producers), ((producer + 1) * consumers).div_ceil(producers));
        from <= consumer && consumer < to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: usize, to: usize, pattern: Pattern, kind: PartitionType) -> Edge {
        Edge { from, to, pattern, kind }
    }

    #[test]
    fn a_streaming_job_with_a_shuffle_is_one_region_and_a_forward_job_one_a_subtask() {
        let shuffled = Topology::new(vec![2, 2], vec![edge(0, 1, Pattern::AllToAll, PartitionType::Pipelined)]);
        assert_eq!(shuffled.regions().len(), 1);
        let forward = Topology::new(vec![2, 2], vec![edge(0, 1, Pattern::Pointwise, PartitionType::Pipelined)]);
        assert_eq!(forward.restart((0, 1), None), [(0, 1), (1, 1)]);
    }

    #[test]
    fn every_subtask_is_fed_by_a_pointwise_edge() {
        for (producers, consumers) in [(1, 4), (4, 1), (3, 2), (2, 3), (5, 5)] {
            let fed = (0..consumers).all(|c| (0..producers).any(|p| feeds(p, c, producers, consumers)));
            let read = (0..producers).all(|p| (0..consumers).any(|c| feeds(p, c, producers, consumers)));
            assert!(fed && read);
        }
    }
}
