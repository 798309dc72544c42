//! The partitions that a broker holds.

use crate::base::{PartitionMap, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::partition::Partition;
use std::collections::BTreeSet;

/// A broker's partitions, and which others its metadata knows.
#[derive(Clone, Debug, Default)]
pub struct Partitions {
    hosted: PartitionMap<Box<Partition>>,
    known: BTreeSet<TopicPartition>,
}

impl Partitions {
    /// Metadata names the partition, whoever holds it.
    pub fn learn(&mut self, tp: TopicPartition) {
        self.known.insert(tp);
    }
    /// This broker holds a replica.
    pub fn insert(&mut self, partition: Partition) {
        self.known.insert(partition.tp());
        self.hosted.insert(partition.tp(), Box::new(partition));
    }
    /// This broker holds a replica no longer.
    pub fn remove(&mut self, tp: TopicPartition) -> Option<Partition> {
        self.hosted.remove(tp).map(|partition| *partition)
    }
    /// The partition, if held here.
    pub fn get(&self, tp: TopicPartition) -> Option<&Partition> {
        self.hosted.get(tp).map(|partition| &**partition)
    }
    /// The partition, if held here.
    pub fn get_mut(&mut self, tp: TopicPartition) -> Option<&mut Partition> {
        self.hosted.get_mut(tp).map(|partition| &mut **partition)
    }
    /// The partition, else NOT_LEADER_OR_FOLLOWER where metadata knows it and UNKNOWN_TOPIC_OR_PARTITION where not
    /// (`ReplicaManager.getPartitionOrError`).
    pub fn get_or_error(&mut self, tp: TopicPartition) -> Result<&mut Partition, ErrorCode> {
        let Self { hosted, known } = self;
        hosted.get_mut(tp).map(|partition| &mut **partition).ok_or_else(|| match known.contains(&tp) {
            true => ErrorCode::NotLeaderOrFollower,
            false => ErrorCode::UnknownTopicOrPartition,
        })
    }
    /// The partitions held, by topic and number.
    pub fn iter(&self) -> impl Iterator<Item = &Partition> {
        self.hosted.values().map(|partition| &**partition)
    }
    /// The partitions held, by topic and number.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.hosted.values_mut().map(|partition| &mut **partition)
    }
}
