//! One partition's part of a fetch answer, being drained (`CompletedFetch`).

use crate::base::{BatchKind, LeaderEpoch, Marker, Offset, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::Slice;
use crate::kafka::log::{AbortedTxn, Entry};
use crate::kafka::messages::FetchedPartition;
use std::sync::Arc;

/// The batch that is being read.
#[derive(Clone, Copy, Debug)]
struct Current {
    /// Its index in the entries.
    entry: usize,
    /// First record of it that was not yet looked at; its number of records when it is done.
    row: u32,
}

/// A chunk: what one answer held for one partition.
#[derive(Clone, Debug)]
pub struct CompletedFetch {
    /// The partition.
    pub tp: TopicPartition,
    /// Its error.
    pub error: ErrorCode,
    /// High watermark in the answer.
    pub high_watermark: Offset,
    /// Last stable offset in the answer.
    pub last_stable: Offset,
    /// Offset that was asked for, then the next one to deliver.
    pub next_offset: Offset,
    /// Epoch of the last batch read, -1 before the first.
    pub last_epoch: LeaderEpoch,
    /// Whether its error and offset have been looked at.
    pub initialized: bool,
    consumed: bool,
    read_any: bool,
    entries: Arc<[Entry]>,
    cursor: usize,
    current: Option<Current>,
    /// Not yet begun, last one first.
    aborted: Vec<AbortedTxn>,
    active: Vec<ProducerId>,
}

impl CompletedFetch {
    /// The part of an answer to a fetch from `offset`.
    pub fn new(part: &FetchedPartition, offset: Offset) -> Self {
        let mut aborted = part.aborted.to_vec();
        // A client must not rely on the list's order (fetch, "aborted list out of order").
        aborted.sort_by_key(|a| std::cmp::Reverse(a.first));
        Self {
            tp: part.tp,
            error: part.error,
            high_watermark: part.high_watermark,
            last_stable: part.last_stable,
            next_offset: offset,
            last_epoch: LeaderEpoch::UNKNOWN,
            initialized: false,
            consumed: false,
            read_any: false,
            entries: part.entries.clone(),
            cursor: 0,
            current: None,
            aborted,
            active: Vec::new(),
        }
    }
    /// Nothing more comes out of it.
    pub fn is_consumed(&self) -> bool {
        self.consumed
    }
    /// Whether any record was taken from it.
    pub fn read_any(&self) -> bool {
        self.read_any
    }
    /// Whether the answer held batches.
    pub fn has_data(&self) -> bool {
        !self.entries.is_empty()
    }
    /// Ends it; true if it was not consumed before.
    pub fn drain(&mut self) -> bool {
        !std::mem::replace(&mut self.consumed, true)
    }

    /// Takes up to `limit` records, as slices of batches; gives their number. Works batch by batch and has the effect of
    /// Java's loop over records: it stops when it has `limit` records, before it looks whether there is another, so a
    /// chunk that ends exactly there is consumed only by the next call.
    pub fn take(&mut self, limit: u32, read_committed: bool, out: &mut Vec<Slice>) -> u32 {
        let mut taken = 0;
        while taken < limit && !self.consumed {
            let Some(current) = self.current.filter(|c| c.row < self.entries[c.entry].batch.records) else {
                self.next_batch(read_committed);
                continue;
            };
            let entry = &self.entries[current.entry];
            let records = entry.batch.records;
            if entry.batch.is_control() {
                self.next_offset = self.next_offset.max(entry.next());
                self.current = Some(Current { row: records, ..current });
                continue;
            }
            // Records below the offset asked for are skipped.
            let skip = (self.next_offset.0 - entry.base.0).clamp(0, i64::from(records)) as u32;
            let from = current.row.max(skip);
            let to = records.min(from.saturating_add(limit - taken));
            if from < to {
                out.push(Slice { tp: self.tp, base: entry.base, from, to, batch: entry.batch.clone() });
                taken += to - from;
                self.next_offset = entry.base.plus(i64::from(to));
                self.read_any = true;
            }
            self.current = Some(Current { row: to, ..current });
        }
        taken
    }

    /// Steps to the next batch, over one that is aborted; past the last one, the chunk is consumed.
    fn next_batch(&mut self, read_committed: bool) {
        let Some(entry) = self.entries.get(self.cursor) else {
            if let Some(current) = self.current {
                self.next_offset = self.entries[current.entry].next();
            }
            self.drain();
            return;
        };
        let batch = &entry.batch;
        self.last_epoch = entry.epoch;
        let mut row = 0;
        if read_committed && batch.producer.id != ProducerId::NONE {
            let last = entry.last();
            while let Some(txn) = self.aborted.pop_if(|a| a.first <= last) {
                if !self.active.contains(&txn.producer) {
                    self.active.push(txn.producer);
                }
            }
            match batch.kind {
                BatchKind::Control(Marker { commit: false, .. }) => self.active.retain(|p| *p != batch.producer.id),
                BatchKind::Transactional if self.active.contains(&batch.producer.id) => {
                    self.next_offset = entry.next();
                    row = batch.records;
                }
                _ => {}
            }
        }
        self.current = Some(Current { entry: self.cursor, row });
        self.cursor += 1;
    }
}
