//! Applying metadata (`ReplicaManager.applyDelta`): first the replicas that go, then the leaders one after the other, then
//! the followers all at once; fetchers stop and start where the leader epoch is new.
//!
//! A caller for whom this takes time calls the parts: [`ReplicaManager::publish`], [`ReplicaManager::stop_replica`],
//! [`ReplicaManager::stop_fetching`], [`ReplicaManager::lead`] for one leader after the other, [`ReplicaManager::follow`],
//! [`ReplicaManager::shutdown_idle_fetchers`].

use super::{ReplicaManager, ReplicaOutput};
use crate::base::{BrokerId, Millis, TopicPartition};
use crate::kafka::log::{LogConfig, UnifiedLog};
use crate::kafka::partition::{BrokerTable, Partition, PartitionConfig, PartitionMetadata};

impl ReplicaManager {
    /// Applies the brokers, and the changed partitions of which this broker holds a replica.
    pub fn apply(
        &mut self,
        now: Millis,
        brokers: BrokerTable,
        changed: &[(TopicPartition, PartitionMetadata<'_>)],
        out: &mut Vec<ReplicaOutput>,
    ) {
        self.publish(brokers);
        let (lead, follow): (Vec<_>, Vec<_>) = changed.iter().partition(|(_, m)| m.leader == self.me);
        lead.iter().for_each(|(tp, _)| self.stop_fetching(*tp));
        for (tp, metadata) in lead {
            self.lead(now, tp, &metadata, out);
        }
        self.follow(now, &follow, out);
        self.shutdown_idle_fetchers(out);
        self.drive(now, out);
    }

    /// The metadata cache is replaced: what is known of the brokers is new at once, before any partition follows.
    pub fn publish(&mut self, brokers: BrokerTable) {
        self.all_may_change();
        self.brokers = brokers;
    }
    /// Makes the replica of a partition on an empty log, if there is none (`getOrCreatePartition`).
    pub fn create_replica(&mut self, tp: TopicPartition, partition: PartitionConfig, log: LogConfig) {
        if self.partitions.get(tp).is_none() {
            let log = UnifiedLog::new(log, self.fixes);
            self.partitions.insert(Partition::new(tp, self.me, partition, log, None, self.fixes));
        }
    }
    /// This broker holds no replica any more; its log is deleted. Who waits for it is answered.
    pub fn stop_replica(&mut self, now: Millis, tp: TopicPartition, out: &mut Vec<ReplicaOutput>) {
        self.unfollow(tp);
        let Some(held) = self.partitions.get(tp) else { return };
        // Nobody leads here now: produces that wait are told so, as of any leadership that is lost.
        let epoch = held.leader_epoch();
        let nobody = PartitionMetadata {
            leader: BrokerId::NONE,
            leader_epoch: epoch,
            partition_epoch: held.partition_epoch(),
            isr: Default::default(),
            replicas: &[],
        };
        self.all_may_change();
        self.on_partition(now, tp, |p, cx| p.make_follower(&nobody, cx));
        self.partitions.remove(tp);
        self.timers.forget(tp);
        self.settle(now, out);
    }
    /// The partition is not followed any more: this broker is about to lead it.
    pub fn stop_fetching(&mut self, tp: TopicPartition) {
        self.unfollow(tp);
    }
    /// SIGTERM has come: from here on replicas that are in no ISR are not followed any more (`beginControlledShutdown`).
    pub fn begin_controlled_shutdown(&mut self) {
        self.in_controlled_shutdown = true;
    }

    /// This broker leads the partition (`applyLocalLeadersDelta`, for one).
    pub fn lead(
        &mut self,
        now: Millis,
        tp: TopicPartition,
        metadata: &PartitionMetadata<'_>,
        out: &mut Vec<ReplicaOutput>,
    ) {
        // A leader that stays one under a new epoch wakes nobody.
        self.all_may_change();
        self.on_partition(now, tp, |p, cx| p.make_leader(metadata, cx));
        self.settle(now, out);
    }

    /// Others lead these partitions, or nobody does (`applyLocalFollowersDelta`): every one steps down before the first is
    /// fetched.
    pub fn follow(
        &mut self,
        now: Millis,
        changed: &[(TopicPartition, PartitionMetadata<'_>)],
        out: &mut Vec<ReplicaOutput>,
    ) {
        self.all_may_change();
        let mut start = Vec::new();
        for (tp, metadata) in changed {
            let Some(new_epoch) = self.on_partition(now, *tp, |p, cx| p.make_follower(metadata, cx)) else { continue };
            let out_of_isr = metadata.leader == BrokerId::NONE || !metadata.isr.has(self.me);
            if self.in_controlled_shutdown && out_of_isr {
                self.unfollow(*tp);
            } else if new_epoch {
                self.unfollow(*tp);
                start.push((*tp, metadata.leader, metadata.leader_epoch));
            }
        }
        for (tp, leader, epoch) in start {
            // A leader that is not registered has no address.
            if self.brokers.get(leader).is_none() {
                continue;
            }
            if let Some(from) = self.on_partition(now, tp, |p, cx| p.start_following(cx)) {
                self.follow_from(leader, tp, epoch, from, out);
            }
        }
        self.settle(now, out);
    }
}
