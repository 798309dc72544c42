//! Sequence numbers of every partition (`TxnPartitionMap`, `TxnPartitionEntry`), of idempotent and transactional producers.

use super::ProducerIdAndEpoch;
use crate::base::{Offset, Sequence, SmallMap, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::java::batch::{BatchId, ProducerBatch};
use crate::kafka::client::java::batches::Batches;
use crate::kafka::messages::ProducedPartition;
use std::collections::BTreeMap;

/// Sequence state of one partition.
#[derive(Clone, Debug)]
struct Entry {
    producer: ProducerIdAndEpoch,
    next: Sequence,
    last_acked: Sequence,
    last_offset: Offset,
    /// Batches that have a sequence and no final answer, in the order of their sequences: in flight or waiting for a retry.
    in_flight: Vec<(Sequence, BatchId)>,
}
impl Entry {
    const NEW: Self = Self {
        producer: ProducerIdAndEpoch::NONE,
        next: Sequence(0),
        last_acked: Sequence::NONE,
        last_offset: Offset::UNKNOWN,
        in_flight: Vec::new(),
    };
    fn add(&mut self, item: (Sequence, BatchId)) {
        let at = self.in_flight.partition_point(|other| *other < item);
        self.in_flight.insert(at, item);
    }
    fn is_next(&self, sequence: Sequence) -> bool {
        sequence.0.wrapping_sub(self.last_acked.0) == 1
    }
}

/// An answer to a produce request as far as the decision to retry needs it.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// The error.
    pub error: ErrorCode,
    /// Offset of the first record, -1 on error.
    pub base: Offset,
    /// Log start offset, -1 where unknown.
    pub log_start: Offset,
}
impl From<&ProducedPartition> for Verdict {
    fn from(p: &ProducedPartition) -> Self {
        Self { error: p.error, base: p.base, log_start: p.log_start }
    }
}
impl Verdict {
    /// What is made up for a request without answer.
    pub const fn of(error: ErrorCode) -> Self {
        Self { error, base: Offset::UNKNOWN, log_start: Offset::UNKNOWN }
    }
}

/// The numbers of all partitions.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    partitions: SmallMap<TopicPartition, Entry>,
    /// Partition and the sequence that follows the batch whose fate is unknown (P-23).
    unresolved: BTreeMap<TopicPartition, Sequence>,
}

impl Sequences {
    fn entry(&mut self, tp: TopicPartition) -> &mut Entry {
        self.partitions.or_insert_with(tp, || Entry::NEW)
    }
    /// The partition is known from now on.
    pub fn touch(&mut self, tp: TopicPartition) {
        self.entry(tp);
    }
    /// Whether numbers of the partition are kept.
    pub fn knows(&self, tp: TopicPartition) -> bool {
        self.partitions.get(tp).is_some()
    }
    /// Forgets everything: the next epoch begins at 0 everywhere.
    pub fn reset(&mut self) {
        self.partitions.clear();
        self.unresolved.clear();
    }
    /// Forgets one partition: the leader has lost its state.
    pub fn forget(&mut self, tp: TopicPartition) {
        self.partitions.remove(tp);
        self.unresolved.remove(&tp);
    }
    /// Numbers of the partition restart at 0 under `producer`; batches without final answer are numbered anew, also those on
    /// the wire, which keep their old numbers there (P-25).
    pub fn start_at_beginning(&mut self, tp: TopicPartition, producer: ProducerIdAndEpoch, batches: &mut Batches) {
        let entry = self.entry(tp);
        let mut next = Sequence(0);
        for (sequence, id) in &mut entry.in_flight {
            *sequence = next;
            if let Some(batch) = batches.find(tp, *id) {
                batch.reset(producer.tag(next));
                next = next.plus(batch.records() as i32);
            }
        }
        entry.producer = producer;
        entry.next = next;
        entry.last_acked = Sequence::NONE;
    }
    /// A failed batch leaves no gap: what was numbered after it moves up (`adjustSequencesDueToFailedBatch`). Nothing
    /// changes where a number would become negative; the real client logs an exception and goes on.
    pub fn close_gap(&mut self, batch: &ProducerBatch, batches: &mut Batches) {
        let (tp, base, records) = (batch.tp, batch.tag.base_sequence, batch.records() as i32);
        let Some(entry) = self.partitions.get_mut(tp).filter(|e| e.next.0 >= records) else { return };
        entry.next.0 -= records;
        for (sequence, id) in entry.in_flight.iter_mut().filter(|(s, _)| *s >= base) {
            if sequence.0 < records {
                return;
            }
            sequence.0 -= records;
            if let Some(batch) = batches.find(tp, *id) {
                let mut tag = batch.tag;
                tag.base_sequence = *sequence;
                batch.reset(tag);
            }
        }
    }

    // ---- what a drain asks

    /// Whether a batch at the head of its queue must stay there for the sake of its sequence.
    pub fn must_wait(&self, first: &ProducerBatch, producer: ProducerIdAndEpoch) -> bool {
        let entry = self.partitions.get(first.tp);
        let head = entry.and_then(|e| e.in_flight.first());
        if first.has_sequence() {
            // Retries leave one at a time, in the order of their sequences.
            return head.is_some_and(|(sequence, _)| *sequence != first.tag.base_sequence);
        }
        let stale = entry.is_some_and(|e| e.producer != producer);
        (head.is_some() && stale) || self.unresolved.contains_key(&first.tp)
    }
    /// Gives a batch that leaves for the first time its place: under the present epoch, after what was numbered before.
    pub fn assign(&mut self, batch: &mut ProducerBatch, producer: ProducerIdAndEpoch, batches: &mut Batches) {
        let tp = batch.tp;
        let entry = self.entry(tp);
        if entry.producer != producer && entry.in_flight.is_empty() {
            self.start_at_beginning(tp, producer, batches);
        }
        let entry = self.entry(tp);
        batch.tag = producer.tag(entry.next);
        entry.next = entry.next.plus(batch.records() as i32);
        entry.add((batch.tag.base_sequence, batch.id));
    }
    /// Takes a batch that has its sequence already: a part of a split one.
    pub fn add_in_flight(&mut self, batch: &ProducerBatch) {
        self.entry(batch.tp).add((batch.tag.base_sequence, batch.id));
    }
    /// Forgets a batch.
    pub fn remove_in_flight(&mut self, batch: &ProducerBatch) {
        if let Some(entry) = self.partitions.get_mut(batch.tp) {
            entry.in_flight.retain(|(_, id)| *id != batch.id);
        }
    }

    // ---- answers

    /// Whether the batch follows the last acknowledged one.
    pub fn is_next(&self, batch: &ProducerBatch) -> bool {
        self.partitions.get(batch.tp).unwrap_or(&Entry::NEW).is_next(batch.tag.base_sequence)
    }
    /// The sequence after the batch of this partition whose fate is unknown.
    pub fn unresolved(&self, tp: TopicPartition) -> Option<Sequence> {
        self.unresolved.get(&tp).copied()
    }
    /// Nothing is unresolved any more.
    pub fn resolve(&mut self, tp: TopicPartition) {
        self.unresolved.remove(&tp);
    }
    /// Offset of the last record acknowledged here, -1 for none.
    pub fn last_offset(&self, tp: TopicPartition) -> Offset {
        self.partitions.get(tp).map_or(Offset::UNKNOWN, |e| e.last_offset)
    }
    /// A batch succeeded, perhaps after its future had failed.
    pub fn acknowledged(&mut self, batch: &ProducerBatch, base: Offset) {
        let entry = self.entry(batch.tp);
        entry.last_acked = entry.last_acked.max(batch.last_sequence());
        if base != Offset::UNKNOWN {
            entry.last_offset = entry.last_offset.max(Offset(base.0 + i64::from(batch.records()) - 1));
        }
        self.remove_in_flight(batch);
    }
    /// A batch that had been sent expired: no new batch of its partition leaves until those in flight are settled (P-23).
    pub fn mark_unresolved(&mut self, batch: &ProducerBatch) {
        let after = batch.last_sequence().plus(1);
        let known = self.unresolved.entry(batch.tp).or_insert(after);
        *known = (*known).max(after);
    }
    /// Takes the unresolved partitions whose batches are settled; true for those that have a gap.
    pub fn settled(&mut self) -> Vec<(TopicPartition, bool)> {
        let settled = |tp: &TopicPartition| self.partitions.get(*tp).is_none_or(|e| e.in_flight.is_empty());
        let settled: Vec<TopicPartition> = self.unresolved.keys().copied().filter(settled).collect();
        let gap = |tp: TopicPartition| self.partitions.get(tp).is_some_and(|entry| !entry.is_next(entry.next));
        let settled: Vec<_> = settled.into_iter().map(|tp| (tp, gap(tp))).collect();
        for (tp, _) in &settled {
            self.unresolved.remove(tp);
        }
        settled
    }
}
