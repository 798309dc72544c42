//! Metadata being applied: later than it is committed, at another time at every broker (C-9; `MetadataLoader`,
//! `BrokerMetadataPublisher`).
//!
//! The cache is replaced at once, then the partitions follow: replicas that go, leaders one after the other, followers all
//! together. A new leader writes its epoch to disk before it leads the next partition, so after a leadership return the old
//! leaders stop long before the last new one has announced itself. The first metadata loads the logs and starts the
//! fetchers, whether or not the broker is registered by then (L-26).

use super::config::METADATA;
use super::disk::{CLEAN_SHUTDOWN, NodeWrite};
use super::{Node, NodeCx};
use crate::base::{BrokerSet, Chain, Event, Feed, LeaderEpoch, Millis, Nanos, Offset, SimTime, Stream, TopicPartition};
use crate::kafka::controller::{PartitionRegistration, Record, TopicConfig};
use crate::kafka::log::{PartitionDisk, UnifiedLog};
use crate::kafka::partition::{BrokerState, BrokerTable, PartitionMetadata};
use std::collections::{BTreeSet, VecDeque};

/// Leaders whose epoch is not new take no disk write: so many are applied in one go.
const AT_ONCE: usize = 16;

/// The logs on their way from disk (`LogManager.startup`).
#[derive(Clone, Debug, Default)]
pub(super) struct Loading {
    done: bool,
    clean: bool,
    takes: Nanos,
    /// What recovery cut off.
    cut: Vec<Event>,
}
impl Loading {
    pub(super) fn opened(&mut self, tp: TopicPartition, log: &UnifiedLog, disk: &PartitionDisk) {
        let (from, to) = (disk.end(), log.end());
        let high_watermark = disk.high_watermark();
        if to < from {
            self.cut.push(Event::Truncated { tp, from, to, high_watermark, follower: false });
        }
        self.cut.push(Event::LogOpened { tp, end: to, high_watermark: high_watermark.min(to) });
    }
    pub(super) fn takes(&mut self, clean: bool, time: Nanos) {
        self.clean = clean;
        self.takes = time;
    }
    pub(super) fn is_done(&self) -> bool {
        self.done
    }
}

/// How far this broker is with the metadata log.
#[derive(Clone, Debug)]
pub(super) struct Publisher {
    pub(super) loading: Loading,
    /// The cache holds everything below.
    applied: Offset,
    /// Sum over these records: equal sums, equal logs.
    history: u64,
    /// Every partition has followed up to here: what heartbeats report (`lastAppliedOffset`).
    reported: Offset,
    at: Option<SimTime>,
    leaders: VecDeque<TopicPartition>,
    followers: Vec<TopicPartition>,
    delay: Stream,
}
impl Publisher {
    pub(super) fn new(delay: Stream) -> Self {
        Self {
            loading: Loading::default(),
            applied: Offset(0),
            history: 0,
            reported: Offset(0),
            at: None,
            leaders: VecDeque::new(),
            followers: Vec::new(),
            delay,
        }
    }
    /// Offset of the last record applied, -1 for none.
    pub(super) fn last_applied(&self) -> Offset {
        self.reported.plus(-1)
    }
    /// The first metadata has been applied (`firstPublishFuture`).
    pub(super) fn has_published(&self) -> bool {
        self.reported > Offset(0)
    }
    fn is_idle(&self) -> bool {
        self.leaders.is_empty() && self.followers.is_empty()
    }
}

impl Node {
    /// More metadata is committed: it will be applied after a delay of this broker's own.
    pub(super) fn metadata_committed(&mut self, cx: &mut NodeCx<'_>) {
        if !self.config.is_broker || self.publisher.at.is_some() {
            return;
        }
        let (least, most) = self.config.times.apply_delay;
        let delay = self.publisher.delay.between(least.0, most.0.max(least.0));
        self.look_at_metadata(cx.now + Nanos(delay), cx);
    }
    fn look_at_metadata(&mut self, at: SimTime, cx: &mut NodeCx<'_>) {
        self.publisher.at = Some(at);
        cx.wake_port(METADATA, Some(at));
    }

    /// One step of applying. What a step applies has taken the work of the step before, so that nothing is seen early.
    pub(super) fn metadata_input(&mut self, cx: &mut NodeCx<'_>) {
        self.publisher.at = None;
        if !self.phase.serves_requests() {
            return;
        }
        if self.publisher.is_idle() {
            if self.publisher.applied < self.committed_end {
                self.publish(cx);
            }
        } else {
            self.apply_chunk(cx);
        }
        if self.publisher.is_idle() {
            self.published(cx);
        }
        let next = self.next_chunk();
        self.work_ahead = self.work_ahead + next.1;
        if next.0 > 0 || self.publisher.applied < self.committed_end {
            self.look_at_metadata(cx.now, cx);
        }
    }

    /// The metadata cache is replaced.
    fn publish(&mut self, cx: &mut NodeCx<'_>) {
        if !self.publisher.loading.done {
            self.load_logs(cx);
        }
        let mut changed: BTreeSet<TopicPartition> = BTreeSet::new();
        let (from, to) = (self.publisher.applied, self.committed_end);
        for batch in self.raft.log().committed(from, to) {
            for (i, record) in batch.records().iter().enumerate() {
                let offset = batch.base.plus(i as i64);
                if offset < from {
                    continue;
                }
                let mut history = Chain::new(self.publisher.history);
                record.feed(&mut history);
                self.publisher.history = history.link();
                self.image.apply(record, offset);
                match record {
                    Record::Partition { tp, .. } => {
                        self.replicas.partitions_mut().learn(*tp);
                        changed.insert(*tp);
                    }
                    Record::PartitionChange(change) => drop(changed.insert(change.tp)),
                    Record::Config { topic, config: TopicConfig::MinInsyncReplicas(n) } => {
                        let of_topic = self.replicas.partitions_mut().iter_mut().filter(|p| p.tp().topic == *topic);
                        of_topic.for_each(|p| p.set_min_insync_replicas(u32::from(*n)));
                    }
                    _ => {}
                }
            }
        }
        self.publisher.applied = to;
        for tp in changed.iter().filter(|tp| Some(tp.topic) == self.config.broker.transaction_state_topic) {
            self.transactions.partition_changed(tp.partition);
        }
        let mut table = BrokerTable::default();
        for (id, b) in self.image.brokers() {
            table.set(id, BrokerState { epoch: b.epoch, fenced: b.fenced, shutting_down: b.in_controlled_shutdown });
        }
        self.replicas.publish(table);
        cx.emit(Event::MetadataApplied { offset: to, history: self.publisher.history });
        self.sort_out(changed, cx);
    }

    /// Replicas that go, go; leaders-to-be stop fetching; the rest follows in steps.
    fn sort_out(&mut self, changed: BTreeSet<TopicPartition>, cx: &mut NodeCx<'_>) {
        let me = self.config.id;
        for tp in changed {
            let Some(registration) = self.image.partition(tp) else { continue };
            if !registration.replicas.contains(&me) {
                let held = self.replicas.partitions().get(tp).is_some();
                self.replicas.stop_replica(cx.millis(), tp, &mut self.outputs);
                self.after_replicas(cx);
                if held {
                    cx.write(super::disk::partition_file(tp), NodeWrite::Delete);
                }
            } else if registration.leader == me {
                self.replicas.stop_fetching(tp);
                self.publisher.leaders.push_back(tp);
            } else {
                self.publisher.followers.push(tp);
            }
        }
    }

    /// `LogManager.startup`: recovery's repairs reach the disk, the marker of a clean stop goes.
    fn load_logs(&mut self, cx: &mut NodeCx<'_>) {
        let loading = std::mem::take(&mut self.publisher.loading);
        cx.write(CLEAN_SHUTDOWN, NodeWrite::CleanShutdown(None));
        self.replicas.touch_all();
        self.after_replicas(cx);
        loading.cut.iter().for_each(|event| cx.emit(*event));
        cx.emit(Event::Recovered { clean: loading.clean });
        self.work_ahead = self.work_ahead + loading.takes;
        self.publisher.loading.done = true;
    }

    /// How many partitions the next step applies, and the time that takes: leaders up to one whose epoch is new, or else
    /// all followers.
    fn next_chunk(&self) -> (usize, Nanos) {
        let times = &self.config.times;
        let mut cost = Nanos::ZERO;
        let mut n = 0;
        for tp in self.publisher.leaders.iter().take(AT_ONCE) {
            n += 1;
            if self.is_new_epoch(*tp) {
                return (n, cost + times.lead_partition);
            }
            cost = cost + times.apply_partition;
        }
        if n > 0 {
            return (n, cost);
        }
        let followers = self.publisher.followers.len();
        (followers, Nanos(times.apply_partition.0 * followers as u64))
    }
    fn is_new_epoch(&self, tp: TopicPartition) -> bool {
        let known = self.replicas.partitions().get(tp).map_or(LeaderEpoch::UNKNOWN, |p| p.leader_epoch());
        self.image.partition(tp).is_some_and(|r| r.leader_epoch > known)
    }

    fn apply_chunk(&mut self, cx: &mut NodeCx<'_>) {
        let (now, n) = (cx.millis(), self.next_chunk().0);
        if self.publisher.leaders.is_empty() {
            self.apply_followers(now);
        } else {
            for tp in self.publisher.leaders.drain(..n).collect::<Vec<_>>() {
                self.ensure_replica(tp);
                let Some(registration) = self.image.partition(tp) else { continue };
                self.replicas.lead(now, tp, &metadata_of(registration), &mut self.outputs);
            }
        }
        self.after_replicas(cx);
    }
    fn apply_followers(&mut self, now: Millis) {
        let followers = std::mem::take(&mut self.publisher.followers);
        followers.iter().for_each(|tp| self.ensure_replica(*tp));
        let image = &self.image;
        let changed: Vec<_> =
            followers.iter().filter_map(|tp| Some((*tp, metadata_of(image.partition(*tp)?)))).collect();
        self.replicas.follow(now, &changed, &mut self.outputs);
    }
    fn ensure_replica(&mut self, tp: TopicPartition) {
        if self.replicas.partitions().get(tp).is_none() {
            let mut config = self.partition_config(tp);
            if let Some(n) = self.image.topic(tp.topic).and_then(|t| t.min_insync_replicas) {
                config.min_insync_replicas = u32::from(n);
            }
            self.replicas.create_replica(tp, config, self.log_config(tp));
        }
    }

    /// Everything has followed.
    fn published(&mut self, cx: &mut NodeCx<'_>) {
        if self.publisher.reported == self.publisher.applied {
            return;
        }
        self.publisher.reported = self.publisher.applied;
        self.replicas.shutdown_idle_fetchers(&mut self.outputs);
        self.after_replicas(cx);
        self.update_coordinator(cx);
        self.update_groups(cx);
        self.maybe_ready(cx);
    }
}

fn metadata_of(registration: &PartitionRegistration) -> PartitionMetadata<'_> {
    PartitionMetadata {
        leader: registration.leader,
        leader_epoch: registration.leader_epoch,
        partition_epoch: registration.partition_epoch,
        isr: BrokerSet::of(&registration.isr),
        replicas: &registration.replicas,
    }
}
