//! A client's view of the cluster.

use crate::base::{Addr, BrokerId, LeaderEpoch, TopicPartition};
use crate::kafka::hash_order::{TopicHashes, presized_capacity};
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
    /// Hashes of topic names, for the order in which a Java client walks partitions; without them, that of their numbers.
    pub hashes: Option<TopicHashes>,
}

impl ClusterView {
    /// The leader of a partition, if one is known.
    pub fn leader(&self, tp: TopicPartition) -> Option<Leader> {
        self.leaders.get(&tp).copied().filter(|l| l.node != BrokerId::NONE)
    }
    /// A leader, with its node only while that is listed: metadata of an older epoch replaces the nodes and keeps the leader
    /// (`Metadata.currentLeader`, `Cluster.leaderFor`).
    pub fn listed(&self, leader: Leader) -> Leader {
        if self.brokers.contains_key(&leader.node) { leader } else { Leader { node: BrokerId::NONE, ..leader } }
    }
    /// All partitions in the order in which a Java client walks them: that of the hash map that it makes of each metadata
    /// answer (`MetadataSnapshot`).
    pub fn walk(&self) -> Vec<TopicPartition> {
        let mut all: Vec<_> = self.leaders.keys().copied().collect();
        if let Some(hashes) = &self.hashes {
            hashes.sort(&mut all, presized_capacity);
        }
        all
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
    fn a_leader_whose_node_is_not_listed_has_none() {
        let mut view = ClusterView::default();
        let (tp, leader) = (TopicPartition::new(0, 0), Leader { node: BrokerId(3), epoch: LeaderEpoch(1) });
        view.learn(tp, leader);
        assert_eq!(view.listed(leader), Leader { node: BrokerId::NONE, ..leader });
        view.brokers.insert(BrokerId(3), Addr { process: crate::base::ProcessId(2), port: crate::base::Port(1) });
        assert_eq!(view.listed(leader), leader);
    }
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
