//! A producer's batch from its first record to its end (`ProducerBatch`).

use crate::base::{Batch, LeaderEpoch, Millis, ProducerTag, Row, Sequence, TopicPartition};
use crate::kafka::ErrorCode;
use crate::registry::payload;
use std::sync::Arc;

/// Identity of a batch within its producer, in the order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId(pub u64);

/// Why records failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The broker's answer, or REQUEST_TIMED_OUT and NETWORK_EXCEPTION for a lost request that is not tried again.
    Code(ErrorCode),
    /// `delivery.timeout.ms` has passed since the batch was created.
    Expired,
    /// `max.block.ms` has passed without metadata or buffer memory.
    Blocked,
    /// The producer was closed.
    Closed,
    /// The transaction was aborted without an error before (`TransactionAbortedException`).
    Aborted,
    /// A plain `KafkaException`: an error for which the client has no class, or numbers that were lost.
    Unspecific,
    /// A move that the state does not allow (`IllegalStateException`).
    IllegalState,
    /// The consumer group has moved on (`CommitFailedException`).
    CommitFailed,
    /// `TransactionAbortableException` with a cause: the error that ended the retries, or `delivery.timeout.ms` (`None`).
    Exhausted(Option<ErrorCode>),
    /// A plain `KafkaException` with a `TransactionAbortableException` as its cause: an abort that would have to be aborted.
    AbortRefused,
}
impl Failure {
    /// Lack of rights that concerns the producer as a whole.
    pub const fn is_authorization(self) -> bool {
        let Self::Code(error) = self else { return false };
        matches!(error, ErrorCode::ClusterAuthorizationFailed | ErrorCode::TransactionalIdAuthorizationFailed)
    }
    /// Later calls throw it as it is, not as the cause of another; it is an `ApiException`, so `send` gives a failed future.
    pub const fn is_thrown_bare(self) -> bool {
        let Self::Code(error) = self else { return false };
        matches!(error, ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch)
    }
    /// The protocol code, or the number that the trace uses for a local reason.
    pub const fn code(self) -> i16 {
        match self {
            Self::Code(e) => e.code(),
            Self::Expired => -102,
            Self::Blocked => -103,
            Self::Closed => -104,
            Self::Aborted => -105,
            Self::Unspecific => -106,
            Self::IllegalState => -107,
            Self::CommitFailed => -108,
            Self::Exhausted(Some(e)) => e.code(),
            Self::Exhausted(None) => -102,
            Self::AbortRefused => ErrorCode::TransactionAbortable.code(),
        }
    }
}

/// Largest size in bytes that a batch with this one record is reckoned to need
/// (`AbstractRecords.estimateSizeInBytesUpperBound`): every varint of its header at full width.
#[inline]
pub fn size_upper_bound(record_bytes: u32) -> u32 {
    // A record's own header: attributes, two deltas, and its length as a varint of 1 to 3 bytes here.
    let length = match record_bytes {
        0..=64 => 1,
        65..=8_193 => 2,
        8_194..=1_048_578 => 3,
        _ => 4,
    };
    const MAX_RECORD_OVERHEAD: u32 = 21;
    Batch::HEADER_BYTES + MAX_RECORD_OVERHEAD + record_bytes - 3 - length
}

/// A batch being filled, waiting, in flight or done.
#[derive(Clone, Debug)]
pub struct ProducerBatch {
    /// Its identity.
    pub id: BatchId,
    /// Where it goes.
    pub tp: TopicPartition,
    /// Instant of creation: `delivery.timeout.ms` counts from here.
    pub created: Millis,
    /// Attempts that ended; the next one is a retry if there is any.
    pub attempts: u32,
    /// It was put back into the queue after an attempt (`inRetry`).
    pub in_retry: bool,
    /// Wait before the next attempt, drawn when it was put back.
    pub backoff: Millis,
    /// Id, epoch and first sequence; of the *next* attempt, a batch on the wire may carry older ones.
    pub tag: ProducerTag,
    /// An epoch bump rewrote the sequence, and it has not left since (`sequenceHasBeenReset`): an answer still to come is
    /// to the old numbers.
    pub sequence_reset: bool,
    /// Its future is complete; a later answer changes nothing for the user.
    pub done: bool,
    /// It came from splitting a larger one.
    pub split: bool,
    /// Buffer memory that it holds in bytes.
    pub memory: u32,
    rows: Vec<Row>,
    sealed: Option<Arc<Batch>>,
    bytes: u32,
    limit: u32,
    /// Bytes of its largest record.
    largest: u32,
    closed: bool,
    last_attempt: Millis,
    leader_epoch: Option<LeaderEpoch>,
    attempts_at_leader_change: Option<u32>,
}

impl ProducerBatch {
    /// An empty batch that takes records up to `limit` bytes, and its first one in any case.
    pub fn new(id: BatchId, tp: TopicPartition, limit: u32, created: Millis) -> Self {
        Self {
            id,
            tp,
            created,
            attempts: 0,
            in_retry: false,
            backoff: Millis::ZERO,
            tag: ProducerTag::NONE,
            sequence_reset: false,
            done: false,
            split: false,
            memory: 0,
            rows: Vec::new(),
            sealed: None,
            bytes: Batch::HEADER_BYTES,
            limit,
            largest: 0,
            closed: false,
            last_attempt: created,
            leader_epoch: None,
            attempts_at_leader_change: None,
        }
    }
    /// The same batch with `rows`, an empty list, to collect in.
    pub fn filling(self, rows: Vec<Row>) -> Self {
        debug_assert!(rows.is_empty() && self.rows.is_empty());
        Self { rows, ..self }
    }
    /// What it collected in, once it is sealed; not of the largest batches, which would be kept for small ones.
    pub fn spare_rows(&mut self) -> Option<Vec<Row>> {
        const KEPT: std::ops::RangeInclusive<usize> = 1..=256;
        let sealed = self.sealed.is_some() && KEPT.contains(&self.rows.capacity());
        sealed.then(|| std::mem::take(&mut self.rows))
    }
    /// Adds a record; false if there is no room.
    pub fn try_append(&mut self, row: &Row) -> bool {
        let room = self.has_room_for(row);
        if room {
            self.append(row);
        }
        room
    }
    /// Whether a record may be added.
    #[inline]
    pub fn has_room_for(&self, row: &Row) -> bool {
        let fits = self.bytes < self.limit && self.bytes + row.bytes <= self.limit;
        !self.closed && (fits || self.rows.is_empty())
    }
    /// Adds a record for which there is room.
    #[inline]
    pub fn append(&mut self, row: &Row) {
        self.bytes += row.bytes;
        self.largest = self.largest.max(row.bytes);
        self.rows.push(*row);
    }
    /// Nothing more fits, or nothing more may be added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.closed || (!self.rows.is_empty() && self.bytes >= self.limit)
    }
    /// Takes no more records.
    pub const fn close(&mut self) {
        self.closed = true;
    }
    /// It leaves with the numbers it has, or is given next.
    pub const fn leaves(&mut self) {
        self.closed = true;
        self.sequence_reset = false;
    }
    /// Size in bytes, batch header included.
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }
    /// Number of records.
    pub fn records(&self) -> u32 {
        self.sealed.as_ref().map_or(self.rows.len() as u32, |b| b.records)
    }
    /// Whether it has been given sequence numbers (or their place in a producer id that was lost).
    pub fn has_sequence(&self) -> bool {
        self.tag.base_sequence != Sequence::NONE
    }
    /// Its last sequence number under its present tag.
    pub fn last_sequence(&self) -> Sequence {
        self.tag.base_sequence.plus(self.records() as i32 - 1)
    }
    /// Time since creation or the last attempt.
    pub fn waited(&self, now: Millis) -> Millis {
        Millis((now - self.last_attempt).0.max(0))
    }
    /// Instant at which waiting for `wait` ends.
    pub fn until(&self, wait: Millis) -> Millis {
        self.last_attempt + wait
    }
    /// Whether `delivery.timeout.ms` has passed.
    pub fn expired(&self, timeout: Millis, now: Millis) -> bool {
        timeout <= now - self.created
    }
    /// It goes back into the queue.
    pub fn reenqueued(&mut self, backoff: Millis, now: Millis) {
        self.attempts += 1;
        self.last_attempt = self.last_attempt.max(now);
        self.in_retry = true;
        self.backoff = backoff;
    }
    /// Notes the partition's leader epoch; a newer one lets the retry under way skip its back-off (KAFKA-15415), also if
    /// the node stays the same.
    pub fn note_leader_epoch(&mut self, epoch: Option<LeaderEpoch>) {
        if epoch.is_some() && epoch > self.leader_epoch {
            self.attempts_at_leader_change = Some(self.attempts);
            self.leader_epoch = epoch;
        }
    }
    /// Whether it still waits for its back-off.
    pub fn backing_off(&self, now: Millis) -> bool {
        self.attempts > 0 && self.attempts_at_leader_change != Some(self.attempts) && self.waited(now) < self.backoff
    }
    /// Gives it other sequence numbers after an epoch bump; what is on the wire keeps its own.
    pub fn reset(&mut self, tag: ProducerTag) {
        self.tag = tag;
        self.sequence_reset = true;
        if let Some(sealed) = &mut self.sealed {
            *sealed = Arc::new(sealed.retagged(tag));
        }
    }
    /// The batch as it goes over the wire. Closes it.
    pub fn seal(&mut self, transactional: bool) -> Arc<Batch> {
        self.closed = true;
        let tag = self.tag;
        let rows = &mut self.rows;
        self.sealed
            .get_or_insert_with(|| {
                let (sealed, raw) = payload::seal(rows).unwrap_or_else(|| (rows[..].into(), Arc::default()));
                let batch = Batch::data(sealed, raw, tag, transactional);
                rows.clear();
                Arc::new(batch)
            })
            .clone()
    }
    /// Splits it after MESSAGE_TOO_LARGE: into batches of `batch.size`, or, if it is itself such a part, of half its size
    /// but at least its largest record. The parts are as new as tries go and as old as their records.
    pub fn split(&self, batch_size: u32, mut next_id: impl FnMut() -> BatchId) -> Vec<Self> {
        let target = if self.split { size_upper_bound(self.largest).max(self.bytes / 2) } else { batch_size };
        let sealed = self.sealed.as_ref().map_or(&self.rows[..], |b| &b.rows);
        let mut parts: Vec<Self> = Vec::new();
        for row in sealed {
            if !parts.last_mut().is_some_and(|part| part.try_append(row)) {
                let limit = target.max(size_upper_bound(row.bytes));
                let mut part = Self::new(next_id(), self.tp, limit, self.created);
                part.split = true;
                part.try_append(row);
                parts.push(part);
            }
        }
        let mut sequence = self.tag.base_sequence;
        for part in &mut parts {
            part.closed = true;
            if self.has_sequence() {
                part.tag = ProducerTag { base_sequence: sequence, ..self.tag };
                sequence = sequence.plus(part.records() as i32);
            }
        }
        parts
    }
}
