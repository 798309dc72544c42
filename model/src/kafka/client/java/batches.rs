//! The batches of a producer: queued by partition, and those of requests in flight.

use super::batch::{BatchId, ProducerBatch};
use super::topic_queues::TopicQueues;
use crate::base::{SmallMap, TopicId, TopicPartition};
use crate::kafka::client::ClusterView;
use std::collections::VecDeque;

/// The queue of one partition: batches in retry, in order of sequence, then new ones; only the last takes records.
pub type Queue = VecDeque<ProducerBatch>;

/// Every batch that is not forgotten: queued, or referred to by a request in flight.
#[derive(Clone, Debug, Default)]
pub struct Batches {
    pub(super) topics: SmallMap<TopicId, TopicQueues>,
    /// Batches of requests that are unanswered; some may be done already.
    pub sent: SmallMap<BatchId, ProducerBatch>,
}

impl Batches {
    /// A batch wherever it is.
    pub fn find(&mut self, tp: TopicPartition, id: BatchId) -> Option<&mut ProducerBatch> {
        if self.sent.contains_key(id) {
            return self.sent.get_mut(id);
        }
        self.queue_mut(tp)?.iter_mut().find(|b| b.id == id)
    }
    pub(super) fn queue_mut(&mut self, tp: TopicPartition) -> Option<&mut Queue> {
        self.topics.get_mut(tp.topic)?.queues.get_mut(usize::from(tp.partition))?.as_mut()
    }
    pub(super) fn queues_mut(&mut self) -> impl Iterator<Item = &mut Queue> {
        self.topics.values_mut().flat_map(|t| t.queues.iter_mut().flatten())
    }
    pub(super) fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.topics.values().flat_map(|t| t.queues.iter().flatten())
    }
}

/// Number of partitions of a topic in the view.
pub fn partitions_of(view: &ClusterView, topic: TopicId) -> usize {
    view.leaders.range(all_partitions(topic)).count()
}

pub(super) const fn all_partitions(topic: TopicId) -> std::ops::RangeInclusive<TopicPartition> {
    TopicPartition { topic, partition: 0 }..=TopicPartition { topic, partition: u16::MAX }
}
