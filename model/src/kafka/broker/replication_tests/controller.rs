//! The controller's decisions, at once and never wrong.

use super::cluster::{Cluster, Registered};
use crate::base::{BrokerEpoch, BrokerId, BrokerSet, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::partition::{AlterPartition, AlterPartitionAnswer};

impl Cluster {
    /// The controller's choice: the first in the assignment that is in the ISR and active; never an empty ISR.
    pub(super) fn elect(&mut self) {
        for registered in self.image.partitions.values_mut() {
            let active = |id: &BrokerId| self.image.brokers.alive_epoch(*id).is_some();
            let fenced = registered.isr.iter().filter(|id| !active(id));
            let left = fenced.fold(registered.isr, BrokerSet::without);
            let isr = if left.is_empty() { registered.isr } else { left };
            let keeps = active(&registered.leader) && isr.has(registered.leader);
            let choice = registered.replicas.iter().find(|id| active(id) && isr.has(**id));
            let leader = if keeps { registered.leader } else { choice.copied().unwrap_or(BrokerId::NONE) };
            if isr != registered.isr || leader != registered.leader {
                registered.partition_epoch.0 += 1;
                if leader != registered.leader {
                    registered.leader_epoch.0 += 1;
                    self.found.elections += 1;
                }
                (registered.isr, registered.leader) = (isr, leader);
            }
        }
        self.publish();
    }
    /// Leadership moves to another member of the ISR, as a preferred election does.
    pub fn move_leader(&mut self) {
        let p = self.draw(0, self.image.partitions.len() as i64 - 1) as u16;
        let choice = self.random.below(3);
        let registered = self.image.partitions.get_mut(&TopicPartition::new(0, p)).unwrap();
        let members: Vec<_> = registered.isr.iter().collect();
        let leader = members[choice as usize % members.len()];
        if leader != registered.leader && self.image.brokers.alive_epoch(leader).is_some() {
            registered.leader = leader;
            registered.leader_epoch.0 += 1;
            registered.partition_epoch.0 += 1;
            self.found.elections += 1;
            self.publish();
        }
    }
    pub(super) fn decide(&mut self, change: &AlterPartition) -> AlterPartitionAnswer {
        let registered = self.image.partitions.get_mut(&change.tp).unwrap();
        let eligible = change.isr.iter().all(|(id, epoch)| {
            let registered = self.image.brokers.eligible_epoch(*id);
            registered.is_some_and(|e| *epoch == BrokerEpoch::UNKNOWN || e == *epoch)
        });
        let error = if change.leader_epoch < registered.leader_epoch {
            ErrorCode::FencedLeaderEpoch
        } else if change.partition_epoch < registered.partition_epoch {
            ErrorCode::InvalidUpdateVersion
        } else if !eligible {
            ErrorCode::IneligibleReplica
        } else {
            registered.isr = change.isr.iter().fold(BrokerSet::default(), |s, (id, _)| s.with(*id));
            registered.partition_epoch.0 += 1;
            ErrorCode::None
        };
        let Registered { leader_epoch, partition_epoch, isr, .. } = *registered;
        AlterPartitionAnswer { tp: change.tp, error, leader_epoch, partition_epoch, isr }
    }
}
