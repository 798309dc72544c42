//! Metadata being applied: later than it is committed, at another time at every broker (C-9).

use super::config::METADATA;
use super::{Node, NodeCx};
use crate::base::{BrokerSet, Nanos, TopicPartition};
use crate::kafka::controller::Record;
use crate::kafka::log::UnifiedLog;
use crate::kafka::partition::{BrokerState, Partition, PartitionMetadata};
use std::collections::BTreeSet;

/// Partitions applied in one go: the new leaders of an outage announce themselves one after the other.
const AT_ONCE: usize = 4;

impl Node {
    /// More metadata is committed: it will be applied after a delay of this broker's own.
    pub(super) fn metadata_committed(&mut self, cx: &mut NodeCx<'_>) {
        if !self.config.is_broker || self.apply_at.is_some() {
            return;
        }
        let (least, most) = self.config.times.apply_delay;
        let at = cx.now + Nanos(self.apply_delay.between(least.0, most.0.max(least.0)));
        self.apply_at = Some(at);
        cx.wake_port(METADATA, Some(at));
    }

    pub(super) fn metadata_input(&mut self, cx: &mut NodeCx<'_>) {
        self.apply_at = None;
        if self.apply_queue.is_empty() && self.applied_end < self.committed_end {
            self.publish(cx);
        }
        let batch: Vec<_> = (0..AT_ONCE).map_while(|_| self.apply_queue.pop_front()).collect();
        cx.work(Nanos(self.config.times.apply_partition.0 * batch.len() as u64));
        for (tp, _) in batch {
            self.apply_partition(tp, cx);
        }
        self.after_partitions(cx);
        if self.apply_queue.is_empty() {
            self.maybe_ready(cx);
            self.nudge_life(cx);
        }
        if !self.apply_queue.is_empty() || self.applied_end < self.committed_end {
            self.apply_at = Some(cx.now);
            cx.wake_port(METADATA, Some(cx.now));
        }
    }

    /// The metadata cache is replaced first; then the partitions follow (`BrokerMetadataPublisher`).
    fn publish(&mut self, cx: &mut NodeCx<'_>) {
        let mut changed: BTreeSet<TopicPartition> = BTreeSet::new();
        let batches: Vec<_> = self.raft.log().committed(self.applied_end, self.committed_end).cloned().collect();
        for batch in &batches {
            for (i, record) in batch.records().iter().enumerate() {
                let offset = batch.base.plus(i as i64);
                if offset >= self.applied_end {
                    self.image.apply(record, offset);
                    changed.extend(touched(record));
                }
            }
        }
        self.applied_end = self.committed_end;
        let mut table = crate::kafka::partition::BrokerTable::default();
        for (id, b) in self.image.brokers() {
            table.set(id, BrokerState { epoch: b.epoch, fenced: b.fenced, shutting_down: b.in_controlled_shutdown });
        }
        self.brokers = table;
        cx.emit(crate::base::Event::MetadataApplied { offset: self.applied_end });
        // Leaders before followers (`ReplicaManager.applyDelta`).
        let me = self.config.id;
        let (leads, follows): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|tp| self.image.partition(*tp).is_some_and(|p| p.leader == me));
        self.apply_queue.extend(leads.into_iter().map(|tp| (tp, true)));
        self.apply_queue.extend(follows.into_iter().map(|tp| (tp, false)));
    }

    fn apply_partition(&mut self, tp: TopicPartition, cx: &mut NodeCx<'_>) {
        let Some(registration) = self.image.partition(tp).cloned() else { return };
        self.partitions.learn(tp);
        let me = self.config.id;
        if !registration.replicas.contains(&me) {
            self.unfollow(tp, None);
            self.partitions.remove(tp);
            return;
        }
        if self.partitions.get(tp).is_none() {
            let log = UnifiedLog::new(Self::log_config(&self.config, tp), cx.fixes);
            let config = self.partition_config(tp);
            self.partitions.insert(Partition::new(tp, me, config, log, None, cx.fixes));
        }
        let metadata = PartitionMetadata {
            leader: registration.leader,
            leader_epoch: registration.leader_epoch,
            partition_epoch: registration.partition_epoch,
            isr: BrokerSet::of(&registration.isr),
            replicas: &registration.replicas,
        };
        if registration.leader == me {
            self.unfollow(tp, None);
            self.with_partitions(cx, |partitions, _, _, pcx| {
                if let Some(p) = partitions.get_mut(tp) {
                    p.make_leader(&metadata, pcx);
                }
            });
            self.write_log(tp, cx);
            return;
        }
        let start = self.with_partitions(cx, |partitions, _, _, pcx| {
            let p = partitions.get_mut(tp)?;
            let new_epoch = p.make_follower(&metadata, pcx);
            let follows = p
                .leader()
                .is_some_and(|(leader, epoch)| leader == registration.leader && epoch == registration.leader_epoch);
            (new_epoch && follows).then(|| p.start_following(pcx))
        });
        self.write_log(tp, cx);
        match start {
            Some(start) if registration.has_leader() => {
                self.follow(tp, registration.leader, registration.leader_epoch, start, cx);
            }
            _ if !registration.has_leader() => self.unfollow(tp, None),
            _ => {}
        }
    }
}

fn touched(record: &Record) -> Option<TopicPartition> {
    match record {
        Record::Partition { tp, .. } => Some(*tp),
        Record::PartitionChange(change) => Some(change.tp),
        _ => None,
    }
}
