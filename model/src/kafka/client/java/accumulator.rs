//! Batches waiting to be sent (`RecordAccumulator`).

use super::batch::{BatchId, ProducerBatch, size_upper_bound};
use super::batches::{Batches, Queue};
use super::dice::{Backoff, Dice};
use super::partitioner::StickyPartitioner;
use super::topic_queues::{Leaders, TopicQueues};
use super::transaction::TransactionManager;
use crate::base::{BrokerId, LeaderEpoch, Millis, Row, SmallMap, SmallSet, TopicId, TopicPartition};
use crate::kafka::client::{ClusterView, Leader, partition_for_hash};
use std::collections::VecDeque;

/// Settings of the accumulator, by Kafka's keys.
#[derive(Clone, Copy, Debug)]
pub struct AccumulatorConfig {
    /// `batch.size` in bytes.
    pub batch_size: u32,
    /// `linger.ms`.
    pub linger: Millis,
    /// `buffer.memory` in bytes.
    pub buffer_memory: u64,
    /// `retry.backoff.ms` to `.max.ms`.
    pub retry_backoff: Backoff,
    /// `delivery.timeout.ms`.
    pub delivery_timeout: Millis,
    /// `partitioner.adaptive.partitioning.enable`.
    pub adaptive: bool,
    /// `partitioner.availability.timeout.ms`; zero for off.
    pub availability_timeout: Millis,
    /// A new leader ends the back-off of a retry (KAFKA-15415).
    pub leader_change_skips_backoff: bool,
}

/// Where a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This partition.
    Partition(u16),
    /// That of the key with this murmur2.
    Key(i32),
    /// Wherever the sticky partitioner is.
    Sticky,
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where the record went.
    pub partition: u16,
    /// A new batch was begun for it.
    pub new_batch: bool,
    /// A batch of the partition is full.
    pub full: bool,
}

/// What could go out now (`ReadyCheckResult`).
#[derive(Clone, Debug, Default)]
pub struct Ready {
    /// Leaders of partitions with a batch to send.
    pub nodes: SmallSet<BrokerId>,
    /// When to look again, from now; [`Millis::MAX`] for never.
    pub next_check: Millis,
    /// Topics with a batch for a partition without leader.
    pub leaderless: SmallSet<TopicId>,
}

#[derive(Clone, Copy, Debug)]
struct NodeLatency {
    ready: Millis,
    drained: Millis,
}

/// Nothing can go out before some instant, unless something changes.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    /// Version of the view that was looked at.
    version: u64,
    until: Millis,
}

/// The accumulator.
#[derive(Clone, Debug)]
pub struct RecordAccumulator {
    config: AccumulatorConfig,
    /// What the last look found, as long as no queue has changed since: the sender looks in each of its passes.
    quiet: Option<Quiet>,
    /// The batches.
    pub batches: Batches,
    muted: SmallSet<TopicPartition>,
    drain_index: SmallMap<BrokerId, usize>,
    latency: SmallMap<BrokerId, NodeLatency>,
    /// Partitions by leader in the order of a drain round, for one version of the view.
    by_node: SmallMap<BrokerId, Vec<TopicPartition>>,
    by_node_version: Option<u64>,
    free_memory: u64,
    last_id: u64,
    incomplete: SmallSet<BatchId>,
    /// Threads wait for memory: everything may go out at once.
    pub exhausted: bool,
    /// Flushes under way, by the batches they wait for.
    flushes: Vec<(u64, SmallSet<BatchId>)>,
    closed: bool,
    /// Empty lists of batches that are done, for new ones.
    spare_rows: Vec<Vec<Row>>,
}

impl RecordAccumulator {
    const SPARE_ROWS: usize = 16;

    /// An empty one.
    pub fn new(config: AccumulatorConfig) -> Self {
        Self {
            free_memory: config.buffer_memory,
            config,
            quiet: None,
            batches: Batches::default(),
            muted: SmallSet::new(),
            drain_index: SmallMap::new(),
            latency: SmallMap::new(),
            by_node: SmallMap::new(),
            by_node_version: None,
            last_id: 0,
            incomplete: SmallSet::new(),
            exhausted: false,
            flushes: Vec::new(),
            closed: false,
            spare_rows: Vec::new(),
        }
    }
    /// Whether any batch is not done.
    pub fn has_incomplete(&self) -> bool {
        !self.incomplete.is_empty()
    }

    // ---- records in

    /// Adds a record; `None` if there is no memory for the batch it needs. The topic must have `partitions` partitions.
    #[inline]
    pub fn append(
        &mut self,
        topic: TopicId,
        target: Target,
        row: &Row,
        partitions: u16,
        view: &ClusterView,
        dice: &mut Dice,
        now: Millis,
    ) -> Option<Appended> {
        // Nearly always the partition is known, and its last batch has room.
        let known = match target {
            Target::Partition(p) => Some(p),
            Target::Key(murmur2) => Some(partition_for_hash(murmur2, partitions)),
            Target::Sticky => None,
        };
        if let Some(partition) = known
            && let Some(queues) = self.batches.topics.get_mut(topic)
            && let Some(Some(queue)) = queues.queues.get_mut(usize::from(partition))
        {
            let several = queue.len() > 1;
            if let Some(last) = queue.back_mut().filter(|last| last.has_room_for(row)) {
                last.append(row);
                let full = several || last.is_full();
                if full {
                    self.quiet = None;
                }
                return Some(Appended { partition, new_batch: false, full });
            }
        }
        self.append_by_the_book(topic, target, row, partitions, view, dice, now)
    }
    fn append_by_the_book(
        &mut self,
        topic: TopicId,
        target: Target,
        row: &Row,
        partitions: u16,
        view: &ClusterView,
        dice: &mut Dice,
        now: Millis,
    ) -> Option<Appended> {
        let batch_size = self.config.batch_size;
        let queues = self.batches.topics.or_insert_with(topic, || TopicQueues {
            queues: Vec::new(),
            sticky: StickyPartitioner::new(batch_size.max(1)),
            leaders: Leaders::default(),
            load: Vec::new(),
        });
        let sticky = target == Target::Sticky;
        if sticky {
            queues.leaders.renew(topic, view);
        }
        let mut partition = match target {
            Target::Partition(p) => p,
            Target::Key(murmur2) => partition_for_hash(murmur2, partitions),
            Target::Sticky => queues.sticky.peek(&queues.leaders.choice, dice)?,
        };
        if sticky {
            let first = partition;
            partition = queues.switch_held_back(partition, dice)?;
            if partition != first {
                // A queue may have come into being, and that counts for the load.
                self.quiet = None;
            }
        }
        let queue = queues.queue(partition);
        let several = queue.len() > 1;
        let mut last = queue.back_mut();
        let before = last.as_deref().map_or(0, ProducerBatch::bytes);
        let appended = if let Some(last) = last.as_deref_mut()
            && last.try_append(row)
        {
            let full = several || last.is_full();
            if full {
                self.quiet = None;
            }
            (last.bytes() - before, Appended { partition, new_batch: false, full })
        } else {
            self.quiet = None;
            if let Some(last) = last {
                last.close();
            }
            let size = batch_size.max(size_upper_bound(row.bytes));
            if u64::from(size) > self.free_memory {
                return None;
            }
            if sticky {
                // The batch is closed now; the switch that it held back comes first.
                match queues.switch_held_back(partition, dice)? {
                    same if same == partition => {}
                    _ => return self.append_by_the_book(topic, target, row, partitions, view, dice, now),
                }
            }
            let queue = queues.queue(partition);
            self.free_memory -= u64::from(size);
            self.last_id += 1;
            let id = BatchId(self.last_id);
            let rows = self.spare_rows.pop().unwrap_or_default();
            let mut batch = ProducerBatch::new(id, TopicPartition { topic, partition }, size, now).filling(rows);
            batch.memory = size;
            batch.try_append(row);
            self.incomplete.insert(id);
            let bytes = batch.bytes();
            queue.push_back(batch);
            let full = queue.len() > 1 || queue[queue.len() - 1].is_full();
            (bytes, Appended { partition, new_batch: true, full })
        };
        if sticky {
            let enable = queues.queue(partition).back().is_none_or(ProducerBatch::is_full);
            queues.sticky.produced(appended.0, enable, &queues.leaders.choice, dice);
        }
        Some(appended.1)
    }

    // ---- batches out

    /// What could go out now (`ready`), into `ready` in the place of what was found before. `completing`: a transaction is
    /// being ended.
    pub fn ready(&mut self, view: &ClusterView, completing: bool, now: Millis, ready: &mut Ready) {
        ready.nodes.clear();
        ready.next_check = Millis::MAX;
        ready.leaderless.clear();
        let config = self.config;
        let hurry = self.exhausted || self.closed || completing || !self.flushes.is_empty();
        if let Some(Quiet { until, .. }) = self.quiet.filter(|q| q.version == view.version && now < q.until && !hurry) {
            ready.next_check = if until < Millis::MAX { until - now } else { until };
            return;
        }
        for (topic, queues) in self.batches.topics.iter_mut() {
            queues.leaders.renew(topic, view);
            let written = queues.queues.iter().flatten().count();
            let measured = config.adaptive && written >= queues.leaders.order.len();
            queues.load.clear();
            for (partition, queue) in queues.queues.iter_mut().enumerate() {
                let Some(queue) = queue else { continue };
                let tp = TopicPartition { topic, partition: partition as u16 };
                let known = queues.leaders.known.get(partition).copied().flatten();
                let leader = known.map(|l| l.node).filter(|node| *node != BrokerId::NONE);
                let len = queue.len();
                let Some(first) = queue.front_mut() else {
                    if measured && leader.is_some() {
                        queues.load.push((tp.partition, 0));
                    }
                    continue;
                };
                if config.leader_change_skips_backoff {
                    first.note_leader_epoch(known.map(|l| l.epoch).filter(|e| *e != LeaderEpoch::UNKNOWN));
                }
                let Some(leader) = leader else {
                    ready.leaderless.insert(topic);
                    continue;
                };
                let silent = config.availability_timeout > Millis::ZERO
                    && self.latency.get(leader).is_some_and(|l| l.ready - l.drained > config.availability_timeout);
                if measured && !silent {
                    queues.load.push((tp.partition, len as u32));
                }
                if ready.nodes.contains(leader) || self.muted.contains(tp) {
                    continue;
                }
                let backing_off = first.backing_off(now);
                let wait = if backing_off { first.backoff } else { config.linger };
                let full = len > 1 || first.is_full();
                if (full || hurry || first.waited(now) >= wait) && !backing_off {
                    ready.nodes.insert(leader);
                } else {
                    let left = Millis((wait - first.waited(now)).0.max(0));
                    ready.next_check = ready.next_check.min(left);
                }
            }
            queues.sticky.update_load(measured.then_some(&queues.load), written);
        }
        let nothing = ready.nodes.is_empty() && ready.leaderless.is_empty();
        self.quiet = nothing.then(|| {
            let until = if ready.next_check < Millis::MAX { now + ready.next_check } else { Millis::MAX };
            Quiet { version: view.version, until }
        });
    }
    /// Notes that the sender looked at a node with something to send and could, or could not, send to it.
    pub fn note_latency(&mut self, node: BrokerId, can_drain: bool, now: Millis) {
        if self.config.availability_timeout > Millis::ZERO {
            let stats = self.latency.or_insert_with(node, || NodeLatency { ready: now, drained: now });
            stats.ready = now;
            if can_drain {
                stats.drained = now;
            }
        }
    }
    /// Takes at most one batch a partition for each node, up to `max_size` bytes (`drain`). The batches move to
    /// [`Batches::sent`], their ids by node to `drained`.
    pub fn drain(
        &mut self,
        view: &ClusterView,
        nodes: &SmallSet<BrokerId>,
        max_size: u32,
        manager: &mut Option<TransactionManager>,
        now: Millis,
        drained: &mut Vec<(BrokerId, Vec<BatchId>)>,
    ) {
        if self.by_node_version != Some(view.version) {
            self.by_node_version = Some(view.version);
            self.by_node.clear();
            let mut order = view.walk();
            if view.hashes.is_none() {
                order.reverse();
            }
            for tp in order {
                self.by_node.or_default(view.listed(view.leaders[&tp]).node).push(tp);
            }
        }
        for node in nodes.iter() {
            let batches = self.drain_node(node, view, max_size, manager, now);
            if !batches.is_empty() {
                drained.push((node, batches));
            }
        }
    }
    fn drain_node(
        &mut self,
        node: BrokerId,
        view: &ClusterView,
        max_size: u32,
        manager: &mut Option<TransactionManager>,
        now: Millis,
    ) -> Vec<BatchId> {
        let mut drained = Vec::new();
        let Some(parts) = self.by_node.get(node).filter(|p| !p.is_empty()) else { return drained };
        let index = self.drain_index.or_default(node);
        let start = *index % parts.len();
        let mut size = 0;
        for step in 0..parts.len() {
            *index = (start + step) % parts.len();
            let tp = parts[*index];
            if self.muted.contains(tp) {
                continue;
            }
            let Some(queue) = self.batches.queue_mut(tp) else { continue };
            let Some(first) = queue.front_mut() else { continue };
            if self.config.leader_change_skips_backoff {
                first.note_leader_epoch(epoch_of(view, tp));
            }
            if first.backing_off(now) {
                continue;
            }
            // A batch that its sequence holds back ends the round of the whole node, as one that is too large does.
            if size + first.bytes() > max_size && !drained.is_empty() {
                break;
            }
            if manager.as_ref().is_some_and(|m| m.must_wait(first)) {
                break;
            }
            let Some(mut batch) = queue.pop_front() else { continue };
            self.quiet = None;
            batch.leaves();
            if let Some(manager) = manager.as_mut().filter(|_| !batch.has_sequence()) {
                manager.assign(&mut batch, &mut self.batches);
            }
            size += batch.bytes();
            drained.push(batch.id);
            self.batches.sent.insert(batch.id, batch);
        }
        drained
    }
    /// Puts a batch back for another try: in the order of sequences, or without them at the head of the queue, in front
    /// of younger ones (the reordering of a producer without idempotence).
    pub fn reenqueue(&mut self, mut batch: ProducerBatch, idempotent: bool, dice: &mut Dice, now: Millis) {
        let backoff = self.config.retry_backoff.after(batch.attempts, dice);
        batch.reenqueued(backoff, now);
        self.insert(batch, idempotent);
    }
    fn insert(&mut self, batch: ProducerBatch, idempotent: bool) {
        self.quiet = None;
        let Some(queues) = self.batches.topics.get_mut(batch.tp.topic) else { return };
        let queue = queues.queue(batch.tp.partition);
        let sequence = batch.tag.base_sequence;
        let behind = |other: &ProducerBatch| other.has_sequence() && other.tag.base_sequence < sequence;
        let at = if idempotent { queue.iter().position(|b| !behind(b)).unwrap_or(queue.len()) } else { 0 };
        queue.insert(at, batch);
    }
    /// Splits a batch that is too large and puts the parts into the queue (`splitAndReenqueue`).
    pub fn split(&mut self, batch: &ProducerBatch, manager: &mut Option<TransactionManager>) -> u32 {
        let mut last = self.last_id;
        let parts = batch.split(self.config.batch_size, || {
            last += 1;
            BatchId(last)
        });
        self.last_id = last;
        let n = parts.len() as u32;
        for (_, waits_for) in self.flushes.iter_mut().filter(|(_, w)| w.contains(batch.id)) {
            waits_for.extend(parts.iter().map(|p| p.id));
        }
        for part in parts.into_iter().rev() {
            self.incomplete.insert(part.id);
            if let Some(manager) = manager {
                manager.add_in_flight(&part);
            }
            self.insert(part, manager.is_some());
        }
        n
    }
    /// Takes queued batches whose `delivery.timeout.ms` has passed.
    pub fn take_expired(&mut self, now: Millis) -> Vec<ProducerBatch> {
        self.quiet = None;
        let timeout = self.config.delivery_timeout;
        let mut expired = Vec::new();
        for queue in self.batches.queues_mut() {
            while queue.front().is_some_and(|b| b.expired(timeout, now)) {
                expired.extend(queue.pop_front());
            }
        }
        expired
    }
    /// When the first queued batch of a partition expires.
    pub fn next_expiry(&self) -> Millis {
        let first = self.batches.queues().filter_map(VecDeque::front).map(|b| b.created).min();
        first.map_or(Millis::MAX, |created| created + self.config.delivery_timeout)
    }
    /// The next instant after `now` at which a queued batch changes by the clock alone: end of linger or back-off.
    pub fn next_timer(&self, now: Millis) -> Millis {
        let firsts = self.batches.queues().filter_map(VecDeque::front);
        let ends = firsts.map(|b| b.until(if b.attempts > 0 { b.backoff } else { self.config.linger }));
        ends.filter(|at| *at > now).min().unwrap_or(Millis::MAX)
    }
    /// When the queued batches were created.
    pub(super) fn queued_since(&self) -> impl Iterator<Item = Millis> {
        self.batches.queues().flatten().map(|b| b.created)
    }
    /// Takes every queued batch: the producer is at its end.
    pub fn take_all(&mut self) -> Vec<ProducerBatch> {
        self.quiet = None;
        self.batches.queues_mut().flat_map(|q| q.drain(..)).collect()
    }
    /// Takes the batches that the transaction can do without: of an idempotent or transactional producer those without a
    /// sequence, they have never left (`abortUndrainedBatches`).
    pub fn take_undrained(&mut self) -> Vec<ProducerBatch> {
        self.quiet = None;
        let mut taken = Vec::new();
        for queue in self.batches.queues_mut() {
            let (left, gone) = std::mem::take(queue).into_iter().partition(ProducerBatch::has_sequence);
            *queue = left;
            let gone: Queue = gone;
            taken.extend(gone);
        }
        taken
    }

    // ---- bookkeeping

    /// A batch is done: its memory is free again. Tells the flushes that waited for it alone.
    pub fn complete(&mut self, batch: &mut ProducerBatch, mut flushed: impl FnMut(u64)) {
        self.free_memory += u64::from(batch.memory);
        self.incomplete.remove(batch.id);
        if self.spare_rows.len() < Self::SPARE_ROWS {
            self.spare_rows.extend(batch.spare_rows());
        }
        self.flushes.retain_mut(|(flush, waits_for)| {
            waits_for.remove(batch.id);
            if waits_for.is_empty() {
                flushed(*flush);
            }
            !waits_for.is_empty()
        });
    }
    /// Begins a flush of everything not done; false if there is nothing.
    pub fn begin_flush(&mut self, flush: u64) -> bool {
        if self.has_incomplete() {
            self.flushes.push((flush, self.incomplete.clone()));
        }
        self.has_incomplete()
    }
    /// The producer closes: everything may go out at once.
    pub const fn close(&mut self) {
        self.closed = true;
    }
    /// Nothing more is taken from a partition until it is unmuted.
    pub fn mute(&mut self, tp: TopicPartition) {
        self.quiet = None;
        self.muted.insert(tp);
    }
    /// Ends that.
    pub fn unmute(&mut self, tp: TopicPartition) {
        self.quiet = None;
        self.muted.remove(tp);
    }
}

fn epoch_of(view: &ClusterView, tp: TopicPartition) -> Option<LeaderEpoch> {
    view.leaders.get(&tp).map(|l: &Leader| l.epoch).filter(|e| *e != LeaderEpoch::UNKNOWN)
}
