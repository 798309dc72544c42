//! A client's view of the cluster.

use crate::base::{Addr, BrokerId, LeaderEpoch, TopicPartition};
use crate::kafka::messages::MetadataReply;
use std::collections::BTreeMap;

/// A partition's leader as a client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The node; -1 when there is none.
    pub node: BrokerId,
    /// Its leader epoch.
    pub epoch: LeaderEpoch,
}

/// Brokers and leaders from the last metadata answers.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    /// Brokers alive, by id.
    pub brokers: BTreeMap<BrokerId, Addr>,
    /// Leaders.
    pub leaders: BTreeMap<TopicPartition, Leader>,
    /// Raised by every update.
    pub version: u64,
}

impl ClusterView {
    /// The leader of a partition, if one is known.
    pub fn leader(&self, tp: TopicPartition) -> Option<Leader> {
        self.leaders.get(&tp).copied().filter(|l| l.node != BrokerId::NONE)
    }
    /// Takes a metadata answer. A leader with an older epoch than the one known is ignored (C-9, `Metadata.updateLatestMetadata`).
    pub fn update(&mut self, reply: &MetadataReply) {
        self.version += 1;
        self.brokers = reply.brokers.iter().map(|b| (b.id, b.addr)).collect();
        for p in reply.partitions.iter() {
            self.learn(p.tp, Leader { node: p.leader, epoch: p.epoch });
        }
    }
    /// Takes one leader, from metadata or from an error answer (KIP-951); true if it was news.
    pub fn learn(&mut self, tp: TopicPartition, leader: Leader) -> bool {
        let known = self.leaders.entry(tp).or_insert(Leader { node: BrokerId::NONE, epoch: LeaderEpoch::UNKNOWN });
        let news = leader.epoch >= known.epoch && *known != leader;
        if news {
            *known = leader;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_leader_is_ignored() {
        let mut view = ClusterView::default();
        let tp = TopicPartition::new(0, 0);
        let leader = |node, epoch| Leader { node: BrokerId(node), epoch: LeaderEpoch(epoch) };
        assert!(view.learn(tp, leader(1, 5)));
        assert!(!view.learn(tp, leader(2, 4)));
        assert!(view.learn(tp, leader(2, 6)));
        assert_eq!(view.leader(tp), Some(leader(2, 6)));
    }
}
