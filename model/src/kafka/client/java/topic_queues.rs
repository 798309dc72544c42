//! The queues of one topic, and how its partitions are walked.

use super::batch::ProducerBatch;
use super::batches::{Queue, all_partitions};
use super::dice::Dice;
use super::partitioner::StickyPartitioner;
use crate::base::{BrokerId, TopicId};
use crate::kafka::client::{ClusterView, Leader};

#[derive(Clone, Debug)]
pub(super) struct TopicQueues {
    /// By partition number; `None` for those never written.
    pub(super) queues: Vec<Option<Queue>>,
    pub(super) sticky: StickyPartitioner,
    pub(super) leaders: Leaders,
    /// Room for the load of each partition, kept.
    pub(super) load: Vec<(u16, u32)>,
}

/// The leaders of a topic's partitions as one version of the cluster's view has them.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaders {
    version: Option<u64>,
    pub(super) known: Vec<Option<Leader>>,
    /// Its partitions in the order in which the view is walked.
    pub(super) order: Vec<u16>,
    /// What the sticky partitioner chooses from: those that have a leader, in that order, or by number all where none has.
    pub(super) choice: Vec<u16>,
}
impl Leaders {
    pub(super) fn renew(&mut self, topic: TopicId, view: &ClusterView) {
        if self.version == Some(view.version) {
            return;
        }
        self.version = Some(view.version);
        self.known.clear();
        self.choice.clear();
        for (tp, leader) in view.leaders.range(all_partitions(topic)) {
            self.known.resize(usize::from(tp.partition), None);
            self.known.push(Some(view.listed(*leader)));
        }
        self.order = view.walk().into_iter().filter(|tp| tp.topic == topic).map(|tp| tp.partition).collect();
        let known = &self.known;
        let has_leader = |p: &u16| known[usize::from(*p)].is_some_and(|l| l.node != BrokerId::NONE);
        self.choice.extend(self.order.iter().copied().filter(has_leader));
        if self.choice.is_empty() {
            self.choice.extend_from_slice(&self.order);
            self.choice.sort_unstable();
        }
    }
}

impl TopicQueues {
    /// A switch of the sticky partition may have been held back by a batch that is full, or gone, by now; the choice made
    /// now stands (`partitionChanged`).
    pub(super) fn switch_held_back(&mut self, mut partition: u16, dice: &mut Dice) -> Option<u16> {
        while self.queue(partition).back().is_none_or(ProducerBatch::is_full) {
            self.sticky.produced(0, true, &self.leaders.choice, dice);
            match self.sticky.peek(&self.leaders.choice, dice)? {
                same if same == partition => break,
                other => partition = other,
            }
        }
        Some(partition)
    }
    #[inline]
    pub(super) fn queue(&mut self, partition: u16) -> &mut Queue {
        let at = usize::from(partition);
        if self.queues.len() <= at {
            self.queues.resize(at + 1, None);
        }
        self.queues[at].get_or_insert_default()
    }
}
