//! One partition's log at one broker (`UnifiedLog`): where it stands, its high watermark, its transactions.

use super::producer::{ProducerAppend, ProducerState, ProducerStateManager, VerificationGuard};
use super::{AbortedEntry, Entry, LeaderEpochs, LogConfig, LogWrite, Segments};
use crate::base::{Fixes, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, Sequence};
use crate::kafka::ErrorCode;
use std::collections::BTreeMap;

/// A high watermark (`LogOffsetMetadata`).
#[derive(Clone, Copy, Debug)]
pub(super) struct HighWatermark {
    pub(super) offset: Offset,
    /// Its position in the log is known. If not, the first read that needs it pulls it back to the start of its batch.
    pub(super) located: bool,
}

/// One partition's log at one broker: batches in segments, leader epochs, producers and transactions, high watermark.
///
/// It changes in memory at once and collects what has to go to disk ([`UnifiedLog::take_writes`]). A clone copies pointers and
/// no batches. `now` is always the broker's wall clock in milliseconds on the scale of record time stamps, because the age of
/// a producer is the difference of the two.
#[derive(Clone, Debug)]
pub struct UnifiedLog {
    pub(super) config: LogConfig,
    pub(super) fixes: Fixes,
    pub(super) segments: Segments,
    pub(super) start: Offset,
    // Not the end of the last batch: a truncation into a batch leaves a hole (L-12).
    pub(super) end: Offset,
    pub(super) high_watermark: HighWatermark,
    pub(super) first_unstable: Option<Offset>,
    pub(super) recovery_point: Offset,
    pub(super) epochs: LeaderEpochs,
    pub(super) producers: ProducerStateManager,
    pub(super) writes: Vec<LogWrite>,
    /// What an append makes of its producers; of no meaning between appends, kept for its memory.
    pub(super) judged: Vec<ProducerAppend>,
}

impl UnifiedLog {
    /// An empty log that begins at offset 0.
    pub fn new(config: LogConfig, fixes: Fixes) -> Self {
        Self {
            config,
            fixes,
            segments: Segments::default(),
            start: Offset(0),
            end: Offset(0),
            high_watermark: HighWatermark { offset: Offset(0), located: false },
            first_unstable: None,
            recovery_point: Offset(0),
            epochs: LeaderEpochs::default(),
            producers: ProducerStateManager::new(&config, fixes, BTreeMap::new()),
            writes: Vec::new(),
            judged: Vec::new(),
        }
    }

    /// What has to go to disk since the last call, in order.
    pub fn take_writes(&mut self) -> Vec<LogWrite> {
        std::mem::take(&mut self.writes)
    }
    /// The same, one by one: the list keeps its memory.
    pub fn drain_writes(&mut self) -> std::vec::Drain<'_, LogWrite> {
        self.writes.drain(..)
    }
    /// Clean shutdown (L-22): everything is flushed; snapshot, recovery point and high watermark are written. The caller
    /// flushes the file.
    pub fn close(&mut self) {
        self.producers.take_snapshot(&mut self.writes);
        self.recovery_point = self.end;
        self.writes.push(LogWrite::RecoveryPoint(self.end));
        self.checkpoint_high_watermark();
    }

    // ---- where it stands

    /// Log start offset: the first that may be read.
    pub fn start(&self) -> Offset {
        self.start
    }
    /// Log end offset: the next to be written.
    pub fn end(&self) -> Offset {
        self.end
    }
    /// High watermark: everything below is replicated.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark.offset
    }
    /// Last stable offset: every transaction below is decided.
    pub fn last_stable(&self) -> Offset {
        let high_watermark = self.high_watermark();
        self.first_unstable.filter(|o| *o < high_watermark).unwrap_or(high_watermark)
    }
    /// First offset of a transaction that is open or whose marker is not below the high watermark.
    pub fn first_unstable(&self) -> Option<Offset> {
        self.first_unstable
    }
    /// First offset of the oldest open transaction.
    pub fn first_undecided(&self) -> Option<Offset> {
        self.producers.first_undecided()
    }
    /// Everything below is known to survive power loss.
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// The batches from the one that holds `offset`, or the next behind it, up to the log end: for checks, not for readers.
    pub fn entries_from(&self, offset: Offset) -> impl Iterator<Item = &Entry> {
        self.segments.entries_from(offset)
    }

    // ---- leader epochs

    /// The leader epoch cache.
    pub fn epochs(&self) -> &LeaderEpochs {
        &self.epochs
    }
    /// The newest leader epoch.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.latest().map(|e| e.epoch)
    }
    /// Where `epoch` ends here (L-4): the epoch found and its end offset; `None` is undefined.
    pub fn end_offset_for(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.epochs.end_offset_for(epoch, self.end, self.fixes)
    }
    /// `epoch` begins at `at`: a new leader assigns its epoch to its log end before any write (L-3). Panics on negatives.
    pub fn assign_epoch(&mut self, epoch: LeaderEpoch, at: Offset) {
        let changed = self.epochs.assign(epoch, at).expect("leader epochs come from the controller");
        self.epochs_changed(changed);
    }
    pub(super) fn epochs_changed(&mut self, changed: bool) {
        if changed {
            self.writes.push(LogWrite::Epochs(self.epochs.entries().into()));
        }
    }

    // ---- high watermark

    /// Sets the high watermark, kept within `start()..=end()`; it may go back (`updateHighWatermark`). Gives the new value.
    pub fn set_high_watermark(&mut self, to: Offset) -> Offset {
        let end = self.end;
        self.put_high_watermark(if to < self.start {
            HighWatermark { offset: self.start, located: false }
        } else if to >= end {
            HighWatermark { offset: end, located: true }
        } else {
            HighWatermark { offset: to, located: false }
        });
        self.high_watermark.offset
    }
    /// Leader: raises the high watermark (`maybeIncrementHighWatermark`). Gives the old value if it moved. Panics above `end()`.
    pub fn increase_high_watermark(&mut self, to: Offset) -> Option<Offset> {
        assert!(to <= self.end, "a high watermark never exceeds the log end");
        let old = self.locate_high_watermark();
        (old < to).then(|| {
            self.put_high_watermark(HighWatermark { offset: to, located: to == self.end });
            old
        })
    }
    /// Follower: takes over the leader's high watermark, bounded by the own log end; it may go back (R-13,
    /// `maybeUpdateHighWatermark`). Gives the new value if it changed.
    pub fn follow_high_watermark(&mut self, to: Offset) -> Option<Offset> {
        let old = self.high_watermark.offset;
        Some(self.set_high_watermark(to)).filter(|new| *new != old)
    }
    /// Writes the high watermark to disk (L-21).
    pub fn checkpoint_high_watermark(&mut self) {
        self.writes.push(LogWrite::HighWatermark(self.high_watermark.offset));
    }
    /// The high watermark; one that lies inside a batch is pulled back to the start of it (`fetchHighWatermarkMetadata`).
    pub fn locate_high_watermark(&mut self) -> Offset {
        if !self.high_watermark.located {
            let offset = self.locate(self.high_watermark.offset);
            self.put_high_watermark(HighWatermark { offset, located: true });
        }
        self.high_watermark.offset
    }
    pub(super) fn put_high_watermark(&mut self, to: HighWatermark) {
        self.high_watermark = to;
        self.producers.replicated_to(to.offset);
        self.refresh_first_unstable();
    }
    /// After the log end moved: a high watermark at or above it is the log end (`updateHighWatermarkWithLogEndOffset`).
    pub(super) fn bound_high_watermark(&mut self) {
        if self.high_watermark.offset >= self.end {
            self.put_high_watermark(HighWatermark { offset: self.end, located: true });
        }
    }
    /// Start of the batch that holds `offset`, or of the next behind it; the log end if there is none.
    fn locate(&self, offset: Offset) -> Offset {
        if offset >= self.end {
            return offset;
        }
        self.segments.entries_from(offset).next().map_or(self.end, |e| e.base)
    }
    /// `maybeIncrementFirstUnstableOffset`: a transaction that began below the log start is unstable from the start of the
    /// batch that holds the log start.
    pub(super) fn refresh_first_unstable(&mut self) {
        let first = self.producers.first_unstable();
        self.first_unstable = first.map(|o| if o < self.start { self.locate(self.start) } else { o });
    }

    // ---- log start, flushing

    /// DeleteRecords: the log now begins at `to`, not above the high watermark. Says whether it moved.
    pub fn increment_log_start(&mut self, to: Offset) -> Result<bool, ErrorCode> {
        if to > self.high_watermark.offset {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        if to <= self.start {
            return Ok(false);
        }
        self.start = to;
        self.writes.push(LogWrite::LogStart(to));
        self.recovery_point = self.recovery_point.max(to);
        let changed = self.epochs.truncate_from_start(to);
        self.epochs_changed(changed);
        self.producers.log_start_moved(to);
        self.refresh_first_unstable();
        Ok(true)
    }
    /// Deletes segments that lie wholly below the log start and the high watermark. Says how many went.
    pub fn delete_old_segments(&mut self) -> usize {
        let (start, high_watermark) = (self.start, self.high_watermark.offset);
        let n = self.segments.bases().skip(1).take_while(|next| *next <= start && *next <= high_watermark).count();
        if n > 0 {
            for base in self.segments.remove_oldest(n) {
                self.producers.delete_snapshot(base, &mut self.writes);
            }
            self.writes.push(LogWrite::DeleteSegments(n as u32));
        }
        n
    }
    /// The disk has made everything below `offset` survive power loss.
    pub fn flushed_to(&mut self, offset: Offset) {
        self.recovery_point = self.recovery_point.max(offset.min(self.end));
    }
    /// Writes the recovery point to disk: after an unclean stop, segments from there on are scanned (L-20, L-22).
    pub fn checkpoint_recovery_point(&mut self) {
        self.writes.push(LogWrite::RecoveryPoint(self.recovery_point));
    }

    // ---- producers and transactions

    /// What is known of a producer.
    pub fn producer(&self, id: ProducerId) -> Option<&ProducerState> {
        self.producers.producer(id)
    }
    /// All producers, by id.
    pub fn producers(&self) -> impl Iterator<Item = (ProducerId, &ProducerState)> {
        self.producers.producers()
    }
    /// Whether a transaction of exactly (`id`, `epoch`) is open here (T-11).
    pub fn ongoing(&self, id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.producers.ongoing(id, epoch)
    }
    /// Before a transactional batch is appended (T-10): the guard to bring back with it, or `None` when its transaction is
    /// open here. `tv2`: the client speaks transaction version 2.
    pub fn start_verification(
        &mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        sequence: Sequence,
        tv2: bool,
        now: Millis,
    ) -> Result<Option<VerificationGuard>, ErrorCode> {
        self.producers.start_verification(id, epoch, sequence, tv2, now)
    }
    /// The guard that stands for a producer.
    pub fn verification_guard(&self, id: ProducerId) -> Option<VerificationGuard> {
        self.producers.verification_guard(id)
    }
    /// Forgets old producers and verification entries (P-16); the broker calls it every ten minutes.
    pub fn expire_producers(&mut self, now: Millis) {
        self.producers.expire(now);
    }
    /// Whether a transaction is open longer than any client may ask for, and five minutes more.
    pub fn has_late_transaction(&self, now: Millis) -> bool {
        self.producers.has_late_transaction(now)
    }
    /// Writes a producer snapshot at the log end, unless there is one.
    pub fn take_snapshot(&mut self) {
        self.producers.take_snapshot(&mut self.writes);
    }
    /// Offsets of the producer snapshots.
    pub fn snapshots(&self) -> Vec<Offset> {
        self.producers.snapshots().collect()
    }
    /// Aborted transactions that concern a reader up to `to`, from the index of the segment that holds `from` on
    /// (`collectAbortedTransactions`).
    pub fn aborted_between(&self, from: Offset, to: Offset) -> Vec<AbortedEntry> {
        let mut found = Vec::new();
        if let Some(first) = self.segments.floor(from) {
            self.segments.collect_aborted(first, self.start, to, &mut |e| found.push(e));
        }
        found
    }
}
