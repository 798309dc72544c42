//! Identities of a Flink cluster.

use crate::base::{Chain, Feed, Incarnation, ProcessId};

/// A job, numbered in the order of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u16);

/// One start of a TaskManager (`ResourceID`): a restarted one is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    /// Its process.
    pub process: ProcessId,
    /// Which start of it.
    pub incarnation: Incarnation,
}

/// A subtask of a job (`ExecutionVertexID`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubtaskId {
    /// The job.
    pub job: JobId,
    /// The vertex, by number in the job's graph.
    pub vertex: u16,
    /// Its index among the vertex's subtasks.
    pub index: u16,
}

/// One attempt to run a subtask (`ExecutionAttemptID`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The subtask.
    pub subtask: SubtaskId,
    /// Counts the attempts, from 0.
    pub attempt: u32,
}

/// A channel between two attempts: an edge of the graph, the consumer, and which of its producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId {
    /// The edge, by number in the job's graph.
    pub edge: u16,
    /// Who produces.
    pub producer: AttemptId,
    /// Who consumes.
    pub consumer: AttemptId,
}

impl Feed for JobId {
    fn feed(&self, chain: &mut Chain) {
        chain.u16(self.0);
    }
}
impl Feed for ResourceId {
    fn feed(&self, chain: &mut Chain) {
        chain.halves(self.process.0, self.incarnation.0);
    }
}
impl Feed for AttemptId {
    fn feed(&self, chain: &mut Chain) {
        let SubtaskId { job, vertex, index } = self.subtask;
        chain.u64(u64::from(job.0) << 32 | u64::from(vertex) << 16 | u64::from(index));
        chain.u32(self.attempt);
    }
}
impl Feed for ChannelId {
    fn feed(&self, chain: &mut Chain) {
        chain.u16(self.edge);
        self.producer.feed(chain);
        self.consumer.feed(chain);
    }
}
