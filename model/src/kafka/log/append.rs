//! Appending, as leader and as follower (`UnifiedLog.append`; kafka.md 1.2, 3.2, L-2).

use super::producer::{AppendedBatch, CompletedTxn, VerificationGuard};
use super::{AbortedEntry, Entry, LogWrite, UnifiedLog};
use crate::base::{Batch, LeaderEpoch, Offset, ProducerId};
use crate::kafka::ErrorCode;
use std::sync::Arc;

/// Who wrote a batch, which decides what is judged (P-17, P-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A producer: sequences, epochs, duplicates, verification.
    Client,
    /// A coordinator of this broker (offset commits, markers): epochs and verification.
    Coordinator,
    /// The leader's log: nothing but L-2.
    Replication,
}

/// How a leader appends.
#[derive(Clone, Copy, Debug)]
pub struct LeaderAppend {
    /// Its leader epoch.
    pub epoch: LeaderEpoch,
    /// Who wrote the batch: client or coordinator.
    pub origin: AppendOrigin,
    /// What [`UnifiedLog::start_verification`] gave.
    pub guard: Option<VerificationGuard>,
    /// Transaction version of the request that brought a marker (T-34); 0 for data.
    pub transaction_version: u8,
}
impl LeaderAppend {
    /// A producer's batch, without guard.
    pub const fn client(epoch: LeaderEpoch) -> Self {
        Self { epoch, origin: AppendOrigin::Client, guard: None, transaction_version: 0 }
    }
    /// A marker from the transaction coordinator.
    pub const fn marker(epoch: LeaderEpoch, transaction_version: u8) -> Self {
        Self { epoch, origin: AppendOrigin::Coordinator, guard: None, transaction_version }
    }
}

/// Where a batch stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub first: Offset,
    /// Offset of the last record.
    pub last: Offset,
    /// It was here before: the offsets are those of the first time (P-3).
    pub duplicate: bool,
}

/// Why a follower could not append what it fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowerAppendError {
    /// The first batch lies below the log end (`UnexpectedAppendOffsetException`).
    #[error("the leader sent offsets that are already in the log")]
    UnexpectedOffset,
    /// Offsets do not increase (`OffsetsOutOfOrderException`).
    #[error("the leader sent batches whose offsets do not increase")]
    OutOfOrder,
    /// The producer state does not admit it (P-17).
    #[error("the producer state refuses the batch: {0}")]
    Refused(ErrorCode),
}

/// What producer state makes of an append.
enum Judged {
    /// What it makes of its producers is in [`UnifiedLog::judged`].
    New {
        completed: Vec<CompletedTxn>,
    },
    Duplicate(AppendedBatch),
}

impl UnifiedLog {
    /// Appends a batch as leader under the next offsets. Takes one batch (L-1): more are INVALID_RECORD. Panics without any.
    ///
    /// A refused batch leaves two traces, as in Kafka: the leader epoch may have been assigned and a full segment closed.
    pub fn append_as_leader(&mut self, batches: &[Arc<Batch>], how: &LeaderAppend) -> Result<Appended, ErrorCode> {
        assert!(!batches.is_empty(), "an append brings a batch");
        if batches.iter().any(|b| b.bytes > self.config.max_message_bytes) {
            return Err(ErrorCode::MessageTooLarge);
        }
        let [batch] = batches else { return Err(ErrorCode::InvalidRecord) };
        if how.origin == AppendOrigin::Client
            && (batch.is_control() || (batch.has_sequence() && batch.producer.base_sequence.0 < 0))
        {
            return Err(ErrorCode::InvalidRecord);
        }
        if batch.bytes > self.config.segment_bytes {
            return Err(ErrorCode::RecordListTooLarge);
        }
        let entry = Entry { base: self.end, epoch: how.epoch, batch: Arc::clone(batch) };
        self.append(std::slice::from_ref(&entry), how)
    }

    /// Appends what was fetched from the leader, offsets as given; batches of a newer leader epoch than the fetch's are left
    /// out (L-2, KAFKA-18723). `Ok(None)`: nothing was left to append.
    pub fn append_as_follower(
        &mut self,
        entries: &[Entry],
        fetched_under: Option<LeaderEpoch>,
    ) -> Result<Option<Appended>, FollowerAppendError> {
        let taken = fetched_under
            .map_or(entries.len(), |limit| entries.iter().position(|e| e.epoch > limit).unwrap_or(entries.len()));
        let entries = &entries[..taken];
        let Some(first) = entries.first() else { return Ok(None) };
        if entries.windows(2).any(|pair| pair[1].last() <= pair[0].last()) {
            return Err(FollowerAppendError::OutOfOrder);
        }
        if first.base < self.end {
            return Err(FollowerAppendError::UnexpectedOffset);
        }
        let how = LeaderAppend { origin: AppendOrigin::Replication, ..LeaderAppend::client(first.epoch) };
        self.append(entries, &how).map(Some).map_err(FollowerAppendError::Refused)
    }

    fn append(&mut self, entries: &[Entry], how: &LeaderAppend) -> Result<Appended, ErrorCode> {
        // Before the producer state is asked: the epoch of a refused batch stays in the cache.
        for entry in entries {
            if self.latest_epoch() != Some(entry.epoch) {
                self.assign_epoch(entry.epoch, entry.base);
            }
        }
        let bytes = entries.iter().map(|e| u64::from(e.batch.bytes)).sum::<u64>();
        let active = self.segments.active();
        if !active.is_empty() && active.bytes() + bytes > u64::from(self.config.segment_bytes) {
            self.roll_at(entries[0].base);
        }
        let completed = match self.judge(entries, how)? {
            Judged::Duplicate(old) => return Ok(Appended { first: old.first(), last: old.last, duplicate: true }),
            Judged::New { completed } => completed,
        };
        for entry in entries {
            self.write_entry(entry.clone());
        }
        self.bound_high_watermark();
        self.judged.iter().for_each(|p| self.producers.update(p));
        self.judged.clear();
        for txn in &completed {
            self.complete(txn);
        }
        self.producers.set_map_end(self.end);
        self.refresh_first_unstable();
        Ok(Appended { first: entries[0].base, last: self.end.plus(-1), duplicate: false })
    }

    fn write_entry(&mut self, entry: Entry) {
        self.end = entry.next();
        if let Some(chunk) = self.segments.active_mut().push(entry.clone()) {
            self.writes.push(LogWrite::Seal(chunk));
        }
        self.writes.push(LogWrite::Append(entry));
    }
    /// A marker ends a transaction: an abort enters the index of the active segment.
    fn complete(&mut self, txn: &CompletedTxn) {
        if txn.aborted {
            let last_stable = self.producers.last_stable(txn);
            let entry = AbortedEntry { producer: txn.producer, first: txn.first, last: txn.last, last_stable };
            self.segments.active_mut().aborted.push(entry);
            self.writes.push(LogWrite::Aborted(entry));
        }
        self.producers.complete(txn);
    }

    /// `analyzeAndValidateProducerState`: all batches pass, or none is appended.
    fn judge(&mut self, entries: &[Entry], how: &LeaderAppend) -> Result<Judged, ErrorCode> {
        // A list: a leader's append has one producer, a fetched one few.
        self.judged.clear();
        let mut completed = Vec::new();
        for entry in entries {
            let batch = &entry.batch;
            let id = batch.producer.id;
            if id == ProducerId::NONE {
                continue;
            }
            if how.origin == AppendOrigin::Client
                && let Some(old) = self.producers.producer(id).and_then(|p| p.duplicate_of(batch))
            {
                return Ok(Judged::Duplicate(old));
            }
            if how.origin != AppendOrigin::Replication && batch.is_transactional() {
                self.check_verified(batch, how.guard)?;
            }
            let at = self.judged.iter().rposition(|p| p.producer() == id).unwrap_or_else(|| {
                self.judged.push(self.producers.prepare(id, how.origin));
                self.judged.len() - 1
            });
            completed.extend(self.judged[at].append(entry, how.transaction_version)?);
            self.producers.use_up_verification(batch);
        }
        Ok(Judged::New { completed })
    }
    /// P-4, P-5: of a transaction that is not open here, first the epoch is judged (KAFKA-19690), then the guard.
    fn check_verified(&self, batch: &Batch, guard: Option<VerificationGuard>) -> Result<(), ErrorCode> {
        let (id, epoch) = (batch.producer.id, batch.producer.epoch);
        if self.producers.ongoing(id, epoch) {
            return Ok(());
        }
        if self.producers.producer(id).is_some_and(|p| epoch < p.epoch) {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if self.producers.misses_verification(batch, guard) { Err(ErrorCode::InvalidTxnState) } else { Ok(()) }
    }
}
