//! One partition at one broker (`kafka.cluster.Partition`): leader or follower, the ISR, the high watermark, produces that
//! wait for it (kafka.md 1.2 to 1.4).
//!
//! A state machine without I/O: methods take the time and what the broker knows ([`PartitionCx`]) and push what follows
//! ([`PartitionOutput`]). What has to go to disk collects in the log ([`UnifiedLog::take_writes`]); the broker writes it
//! before it sends anything that came of the same call.
//!
//! [`UnifiedLog::take_writes`]: crate::kafka::log::UnifiedLog::take_writes

mod brokers;
mod fetch;
mod follower;
mod isr;
mod leader;
mod purgatory;
mod replica;
#[cfg(test)]
mod tests;

pub use brokers::{BrokerState, BrokerTable};
pub use fetch::{Fetcher, PartitionRead};
pub use follower::Truncation;
pub use isr::{
    AfterAlterError, AlterPartition, AlterPartitionAnswer, IsrChange, IsrState, PendingIsr, after_alter_error,
};
pub use leader::{LeaderAppended, Produce};
pub use purgatory::{ProducePurgatory, WaitingProduce};
pub use replica::{FollowerFetch, Replica};

use super::broker::AlterPartitionManager;
use super::log::UnifiedLog;
use super::messages::ProducedPartition;
use crate::base::{
    BrokerEpoch, BrokerId, BrokerSet, Event, Fixes, LeaderEpoch, Millis, Offset, PartitionEpoch, TopicPartition,
};

/// Settings of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionConfig {
    /// `min.insync.replicas` of the topic. Default 1.
    pub min_insync_replicas: u32,
    /// `replica.lag.time.max.ms` of the broker. Default 30000.
    pub replica_lag_time_max: Millis,
}
impl Default for PartitionConfig {
    fn default() -> Self {
        Self { min_insync_replicas: 1, replica_lag_time_max: Millis(30_000) }
    }
}

/// A partition's registration in the metadata that the broker applies (`PartitionRegistration`).
#[derive(Clone, Copy, Debug)]
pub struct PartitionMetadata<'a> {
    /// The leader, -1 for none.
    pub leader: BrokerId,
    /// Its epoch.
    pub leader_epoch: LeaderEpoch,
    /// Version of the registration.
    pub partition_epoch: PartitionEpoch,
    /// The ISR committed.
    pub isr: BrokerSet,
    /// The assignment, in order, including replicas being added or removed.
    pub replicas: &'a [BrokerId],
}

/// What a call sees of its broker, and where its outputs go.
#[derive(Debug)]
pub struct PartitionCx<'a> {
    /// The broker's clock.
    pub now: Millis,
    /// Epoch of the broker's own registration.
    pub broker_epoch: BrokerEpoch,
    /// Other brokers, from the metadata cache.
    pub brokers: &'a BrokerTable,
    /// Takes ISR changes for the controller.
    pub alter: &'a mut AlterPartitionManager,
    /// What follows, in order.
    pub out: &'a mut Vec<PartitionOutput>,
}

/// What follows of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionOutput {
    /// The sender has taken an ISR change: the broker asks it for a request ([`AlterPartitionManager::poll`]).
    IsrChangeSubmitted(AlterPartition),
    /// The sender has refused one: an earlier one of this partition has no answer yet.
    IsrChangeRefused(TopicPartition),
    /// A change took effect (`isrExpands`, `isrShrinks`).
    IsrChanged(TopicPartition, IsrChange),
    /// A change failed (`failedIsrUpdates`).
    IsrChangeFailed(TopicPartition),
    /// A produce is answered for this partition.
    Produced {
        /// The broker's number of the request.
        token: u64,
        /// The answer.
        answer: ProducedPartition,
    },
    /// Log end, high watermark or role has changed: fetches that wait for this partition are to be checked.
    CheckFetches(TopicPartition),
    /// For trace and laws.
    Emit(Event),
}

/// One partition at one broker.
#[derive(Clone, Debug)]
pub struct Partition {
    tp: TopicPartition,
    me: BrokerId,
    config: PartitionConfig,
    fixes: Fixes,
    log: UnifiedLog,
    /// Whether metadata has named this broker a replica yet; until then the partition serves nothing.
    open: bool,
    /// High watermark from the checkpoint file, until the partition opens.
    checkpoint: Option<Offset>,
    leader: Option<BrokerId>,
    leader_epoch: LeaderEpoch,
    partition_epoch: PartitionEpoch,
    /// Log end when the present leader epoch began; only at its leader.
    epoch_start: Option<Offset>,
    /// The followers, ascending by id; empty unless leader.
    replicas: Vec<Replica>,
    isr: IsrState,
    waiting: ProducePurgatory,
}

impl Partition {
    /// A partition of broker `me` on its log. `checkpoint` is the high watermark of the checkpoint file; it is applied when
    /// metadata first makes this broker a replica (L-21).
    pub fn new(
        tp: TopicPartition,
        me: BrokerId,
        config: PartitionConfig,
        log: UnifiedLog,
        checkpoint: Option<Offset>,
        fixes: Fixes,
    ) -> Self {
        Self {
            tp,
            me,
            config,
            fixes,
            log,
            open: false,
            checkpoint,
            leader: None,
            leader_epoch: LeaderEpoch::UNKNOWN,
            partition_epoch: PartitionEpoch(0),
            epoch_start: None,
            replicas: Vec::new(),
            isr: IsrState::default(),
            waiting: ProducePurgatory::default(),
        }
    }

    /// The partition.
    pub fn tp(&self) -> TopicPartition {
        self.tp
    }
    /// Its log.
    pub fn log(&self) -> &UnifiedLog {
        &self.log
    }
    /// Its log, for what is no matter of replication: writes to disk, checkpoints, expiry of producers.
    pub fn log_mut(&mut self) -> &mut UnifiedLog {
        &mut self.log
    }
    /// Settings in force.
    pub fn config(&self) -> PartitionConfig {
        self.config
    }
    /// A new `min.insync.replicas`. Nothing is looked at by that alone.
    pub fn set_min_insync_replicas(&mut self, n: u32) {
        self.config.min_insync_replicas = n;
    }
    /// Whether this broker leads.
    pub fn is_leader(&self) -> bool {
        self.leader == Some(self.me)
    }
    /// The leader and its epoch as known here.
    pub fn leader(&self) -> Option<(BrokerId, LeaderEpoch)> {
        self.leader.filter(|l| *l != BrokerId::NONE).map(|l| (l, self.leader_epoch))
    }
    /// Leader epoch known here; -1 before any metadata.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }
    /// Partition epoch known here.
    pub fn partition_epoch(&self) -> PartitionEpoch {
        self.partition_epoch
    }
    /// Log end when this leadership began.
    pub fn epoch_start(&self) -> Option<Offset> {
        self.epoch_start
    }
    /// The ISR; empty unless leader.
    pub fn isr(&self) -> &IsrState {
        &self.isr
    }
    /// The followers, ascending by id; none unless leader.
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }
    /// The produces that wait for the high watermark.
    pub fn waiting(&self) -> &ProducePurgatory {
        &self.waiting
    }
    /// When [`expire`](Self::expire) has to be called.
    pub fn deadline(&self) -> Option<Millis> {
        self.waiting.deadline()
    }

    /// Applies metadata that names this broker leader; true if it was not leader before (`Partition.makeLeader`; L-3, R-12).
    /// Metadata with an older partition epoch is ignored, with an equal one applied.
    pub fn make_leader(&mut self, metadata: &PartitionMetadata<'_>, cx: &mut PartitionCx<'_>) -> bool {
        if metadata.partition_epoch < self.partition_epoch {
            return false;
        }
        self.open_log();
        let new_leader = !self.is_leader();
        let new_epoch = metadata.leader_epoch > self.leader_epoch;
        self.assign(metadata.replicas);
        self.isr = IsrState::Committed(metadata.isr);
        if new_epoch {
            let start = self.log.end();
            // Followers may hold entries of later epochs than any in this log; with this epoch in the cache they are told
            // where to cut (L-3, KIP-101).
            self.log.assign_epoch(metadata.leader_epoch, start);
            for r in &mut self.replicas {
                r.reset(cx.now, start, new_leader, metadata.isr.has(r.id));
            }
            self.leader_epoch = metadata.leader_epoch;
            self.epoch_start = Some(start);
            cx.out.push(PartitionOutput::Emit(Event::BecameLeader {
                tp: self.tp,
                epoch: self.leader_epoch,
                end: start,
            }));
        }
        self.partition_epoch = metadata.partition_epoch;
        self.leader = Some(self.me);
        if self.increase_high_watermark(cx.now, cx) {
            self.complete_waiting(cx);
        }
        new_leader
    }

    /// Applies metadata that names another broker leader, or none; true if the leader epoch is new, so that fetching has to
    /// start anew (`Partition.makeFollower`). Waiting produces are answered NOT_LEADER_OR_FOLLOWER.
    pub fn make_follower(&mut self, metadata: &PartitionMetadata<'_>, cx: &mut PartitionCx<'_>) -> bool {
        let current = metadata.partition_epoch >= self.partition_epoch;
        let new_epoch = current && metadata.leader_epoch > self.leader_epoch;
        if current {
            self.open_log();
            self.leader = Some(metadata.leader);
            self.leader_epoch = metadata.leader_epoch;
            self.partition_epoch = metadata.partition_epoch;
            self.epoch_start = None;
            self.replicas.clear();
            self.isr = IsrState::default();
            if new_epoch {
                cx.out.push(PartitionOutput::Emit(Event::BecameFollower {
                    tp: self.tp,
                    epoch: self.leader_epoch,
                    leader: metadata.leader,
                }));
            }
        }
        // The replica manager checks what waits for the partition, whether or not the metadata was news.
        self.complete_waiting(cx);
        cx.out.push(PartitionOutput::CheckFetches(self.tp));
        new_epoch
    }

    fn open_log(&mut self) {
        self.open = true;
        if let Some(offset) = self.checkpoint.take() {
            self.log.set_high_watermark(offset);
        }
    }

    /// Keeps what is known of replicas that stay (`updateAssignmentAndIsr`).
    fn assign(&mut self, replicas: &[BrokerId]) {
        self.replicas.retain(|r| replicas.contains(&r.id));
        for id in replicas.iter().copied().filter(|id| *id != self.me) {
            if let Err(at) = self.replicas.binary_search_by_key(&id, |r| r.id) {
                self.replicas.insert(at, Replica::unknown(id));
            }
        }
    }

    fn replica(&self, id: BrokerId) -> Option<&Replica> {
        self.replicas.iter().find(|r| r.id == id)
    }

    /// `min.insync.replicas`, at most the number of replicas assigned.
    fn effective_min_isr(&self) -> u32 {
        self.config.min_insync_replicas.min(self.replicas.len() as u32 + 1)
    }
}
