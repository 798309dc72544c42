//! What a batch makes of its producer's state, and whether it may (`ProducerAppendInfo`; P-3 to P-13, T-34, T-35).

use super::super::{AppendOrigin, Entry};
use super::{AppendedBatch, ProducerState, VerificationEntry, Window};
use crate::base::{BatchKind, Marker, Offset, ProducerEpoch, ProducerId, Sequence};
use crate::kafka::ErrorCode;

/// A transaction that a marker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTxn {
    /// Whose.
    pub producer: ProducerId,
    /// Its first offset here.
    pub first: Offset,
    /// Offset of the marker.
    pub last: Offset,
    /// ABORT, else COMMIT.
    pub aborted: bool,
}

/// The batches of one producer in one append, judged one after the other; the log's own state changes only when all passed.
#[derive(Clone, Debug)]
pub struct ProducerAppend {
    id: ProducerId,
    origin: AppendOrigin,
    /// What was known: epoch and last sequence number.
    known: (ProducerEpoch, Sequence),
    updated: ProducerState,
    verification: Option<VerificationEntry>,
    started: Vec<Offset>,
    window: usize,
}

impl ProducerAppend {
    /// Begins with what is `known` of the producer. `window` batches are remembered.
    pub(super) fn new(
        id: ProducerId,
        origin: AppendOrigin,
        known: &ProducerState,
        verification: Option<VerificationEntry>,
        window: usize,
    ) -> Self {
        let updated = ProducerState { window: Window::EMPTY, ..*known };
        let known = (known.epoch, known.last_sequence());
        Self { id, origin, known, updated, verification, started: Vec::new(), window }
    }
    /// Whose batches these are.
    pub fn producer(&self) -> ProducerId {
        self.id
    }
    pub(super) fn updated(&self) -> &ProducerState {
        &self.updated
    }
    pub(super) fn started(&self) -> &[Offset] {
        &self.started
    }

    /// Judges one batch and takes it in. `transaction_version` is that of the request that brought a marker.
    pub fn append(&mut self, entry: &Entry, transaction_version: u8) -> Result<Option<CompletedTxn>, ErrorCode> {
        match entry.batch.kind {
            BatchKind::Control(marker) => self.append_marker(entry, marker, transaction_version),
            BatchKind::Plain | BatchKind::Transactional => self.append_data(entry).map(|()| None),
        }
    }

    fn append_data(&mut self, entry: &Entry) -> Result<(), ErrorCode> {
        let batch = &entry.batch;
        self.check_epoch(batch.producer.epoch, 0)?;
        if self.origin == AppendOrigin::Client {
            self.check_sequence(batch.producer.epoch, batch.producer.base_sequence)?;
        }
        let appended =
            AppendedBatch { last: entry.last(), last_sequence: batch.last_sequence(), delta: batch.records - 1 };
        self.updated.remember(batch.producer.epoch, appended, batch.max_timestamp, self.window);
        match (self.updated.txn_start, batch.is_transactional()) {
            // The one thing that even a follower refuses (P-12, P-17).
            (Some(_), false) => return Err(ErrorCode::InvalidTxnState),
            (None, true) => {
                self.updated.txn_start = Some(entry.base);
                self.started.push(entry.base);
            }
            _ => {}
        }
        Ok(())
    }

    fn append_marker(
        &mut self,
        entry: &Entry,
        marker: Marker,
        transaction_version: u8,
    ) -> Result<Option<CompletedTxn>, ErrorCode> {
        self.check_epoch(entry.batch.producer.epoch, transaction_version)?;
        if self.updated.coordinator_epoch > marker.coordinator_epoch && self.origin != AppendOrigin::Replication {
            return Err(ErrorCode::TransactionCoordinatorFenced);
        }
        // Without data here the marker only raises the epoch; it ends nothing and is not indexed (T-35).
        let completed = self.updated.txn_start.take().map(|first| CompletedTxn {
            producer: self.id,
            first,
            last: entry.base,
            aborted: !marker.commit,
        });
        self.updated.set_epoch(entry.batch.producer.epoch);
        self.updated.coordinator_epoch = marker.coordinator_epoch;
        self.updated.last_timestamp = entry.batch.max_timestamp;
        Ok(completed)
    }

    fn check_epoch(&self, epoch: ProducerEpoch, transaction_version: u8) -> Result<(), ErrorCode> {
        // A TV2 marker carries a raised epoch. An equal one is the repetition of a marker that is already here, accepted
        // only while nothing is open (KAFKA-19999); with something open it belongs to the transaction before (KAFKA-19446).
        let late_marker = transaction_version >= 2 && epoch == self.updated.epoch && self.updated.txn_start.is_some();
        if self.origin != AppendOrigin::Replication && (epoch < self.updated.epoch || late_marker) {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        Ok(())
    }

    fn check_sequence(&self, epoch: ProducerEpoch, first: Sequence) -> Result<(), ErrorCode> {
        let (known, known_last) = self.known;
        let unknown = known == ProducerEpoch::NONE;
        let verified_lower = self.verification.is_some_and(|v| first > v.lowest || (v.tv2 && unknown && first.0 != 0));
        let in_order = if epoch != self.updated.epoch {
            first.0 == 0 || self.updated.epoch == ProducerEpoch::NONE
        } else {
            let last = if !self.updated.window.batches().is_empty() {
                self.updated.last_sequence()
            } else if epoch == known {
                known_last
            } else {
                Sequence::NONE
            };
            // After NONE, which is -1, comes 0: an epoch known from a marker only starts there.
            unknown || first == last.plus(1)
        };
        if in_order && !verified_lower { Ok(()) } else { Err(ErrorCode::OutOfOrderSequenceNumber) }
    }
}
