//! What this broker's metadata cache tells clients (C-9): cluster metadata, and leaders in the answers to produces and fetches
//! (KIP-951).

use super::Node;
use crate::base::{BrokerId, LeaderEpoch, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::messages::{BrokerInfo, FetchReply, MetadataReply, MetadataRequest, PartitionInfo, ProduceReply};

impl Node {
    /// Metadata as this broker has it. A leader that is not alive here is LEADER_NOT_AVAILABLE
    /// (`KRaftMetadataCache.getPartitionMetadata`).
    pub(super) fn metadata(&mut self, r: &MetadataRequest) -> MetadataReply {
        let brokers = self.image.brokers().filter(|(_, b)| !b.fenced).map(|(id, b)| BrokerInfo { id, addr: b.addr });
        let brokers = brokers.collect();
        let mut partitions = Vec::new();
        let mut unknown = Vec::new();
        let all: Vec<_> = match &r.topics {
            Some(topics) => topics.to_vec(),
            None => self.image.topics().map(|(id, _)| id).collect(),
        };
        for topic in all {
            let hidden = self.hide_topics || self.hides(topic);
            let Some(image) = self.image.topic(topic).filter(|_| !hidden) else {
                unknown.push(topic);
                continue;
            };
            for (n, p) in image.partitions.iter().enumerate() {
                let alive = p.has_leader() && self.image.is_alive(p.leader);
                partitions.push(PartitionInfo {
                    tp: TopicPartition { topic, partition: n as u16 },
                    error: if alive { ErrorCode::None } else { ErrorCode::LeaderNotAvailable },
                    leader: if alive { p.leader } else { BrokerId::NONE },
                    epoch: p.leader_epoch,
                });
            }
        }
        MetadataReply { brokers, partitions: partitions.into(), unknown: unknown.into() }
    }

    /// Whether this answer leaves a topic out on an operator's order: that is counted.
    fn hides(&mut self, topic: TopicId) -> bool {
        let Some(answers) = self.hidden.get_mut(&topic) else { return false };
        *answers -= u32::from(*answers < u32::MAX);
        if *answers == 0 {
            self.hidden.remove(&topic);
        }
        true
    }

    /// `KafkaApis.getCurrentLeader` for a partition that is not held here; the replicas name their own leaders.
    fn leader_in_cache(&self, tp: TopicPartition) -> Option<(BrokerId, LeaderEpoch)> {
        let known = self.image.partition(tp).filter(|p| p.has_leader())?;
        Some((known.leader, known.leader_epoch))
    }
    pub(super) fn add_leader_hints(&self, reply: &mut ProduceReply) {
        for p in reply.partitions.iter_mut().filter(|p| p.error == ErrorCode::NotLeaderOrFollower) {
            p.leader = p.leader.or_else(|| self.leader_in_cache(p.tp));
        }
    }
    pub(super) fn add_fetch_leader_hints(&self, reply: &mut FetchReply) {
        let moved = |e| matches!(e, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
        for p in reply.partitions.iter_mut().filter(|p| moved(p.error)) {
            p.leader = p.leader.or_else(|| self.leader_in_cache(p.tp));
        }
    }
}
