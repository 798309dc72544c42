//! What a partition keeps on disk, and what power loss leaves of it (kafka.md L-20).

use super::producer::ProducerSnapshot;
use super::segment::Chunk;
use super::{AbortedEntry, Entry, EpochEntry, Segments};
use crate::base::{Chain, Feed, Offset, Stream};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One write of a log to its disk. Starting from any prefix of them is legal.
#[derive(Clone, Debug)]
pub enum LogWrite {
    /// A batch to the active segment.
    Append(Entry),
    /// Not a write of Kafka: log and disk share these batches from now on. Changes no content.
    Seal(Arc<Chunk>),
    /// An entry to the active segment's transaction index.
    Aborted(AbortedEntry),
    /// A new segment at this base.
    Roll(Offset),
    /// Cut to this offset.
    Truncate(Offset),
    /// Empty, and begun anew at this offset.
    TruncateFully(Offset),
    /// So many of the oldest segments go.
    DeleteSegments(u32),
    /// Every segment above the one with this base goes (recovery).
    KeepThrough(Offset),
    /// The transaction index of the segment with this base, whole (recovery).
    Index(Offset, Arc<[AbortedEntry]>),
    /// The leader epoch checkpoint, whole.
    Epochs(Arc<[EpochEntry]>),
    /// A producer snapshot.
    Snapshot(Offset, Arc<ProducerSnapshot>),
    /// A producer snapshot goes.
    DropSnapshot(Offset),
    /// Checkpoint of the high watermark.
    HighWatermark(Offset),
    /// Checkpoint of the recovery point.
    RecoveryPoint(Offset),
    /// Checkpoint of the log start.
    LogStart(Offset),
}

impl Feed for LogWrite {
    fn feed(&self, c: &mut Chain) {
        let (tag, offset) = match self {
            Self::Append(entry) => (1, entry.base),
            Self::Seal(chunk) => (2, chunk.base()),
            Self::Aborted(entry) => (3, entry.last),
            Self::Roll(offset) => (4, *offset),
            Self::Truncate(offset) => (5, *offset),
            Self::TruncateFully(offset) => (6, *offset),
            Self::DeleteSegments(n) => (7, Offset(i64::from(*n))),
            Self::KeepThrough(offset) => (8, *offset),
            Self::Index(offset, _) => (9, *offset),
            Self::Epochs(_) => (10, Offset::UNKNOWN),
            Self::Snapshot(offset, _) => (11, *offset),
            Self::DropSnapshot(offset) => (12, *offset),
            Self::HighWatermark(offset) => (13, *offset),
            Self::RecoveryPoint(offset) => (14, *offset),
            Self::LogStart(offset) => (15, *offset),
        };
        c.u8(tag);
        offset.feed(c);
        match self {
            Self::Append(entry) => entry.feed(c),
            Self::Aborted(entry) => entry.feed(c),
            Self::Index(_, entries) => entries.feed(c),
            Self::Epochs(entries) => entries.feed(c),
            Self::Snapshot(_, snapshot) => snapshot.feed(c),
            _ => {}
        }
    }
}

/// The files of one partition and its lines in the broker's checkpoints.
///
/// Batches and transaction index are in the page cache until they are flushed. Checkpoints (epochs, high watermark, recovery
/// point, log start) are written with a flush of their own and survive.
#[derive(Clone, Debug, Default)]
pub struct PartitionDisk {
    pub(super) segments: Segments,
    pub(super) epochs: Arc<[EpochEntry]>,
    pub(super) snapshots: BTreeMap<Offset, Arc<ProducerSnapshot>>,
    pub(super) high_watermark: Offset,
    pub(super) recovery_point: Offset,
    pub(super) log_start: Offset,
    /// Everything below survives power loss.
    flushed: Offset,
    /// Where power was lost in the middle of a write: recovery finds half a batch there and drops what comes behind it.
    pub(super) torn: Option<Offset>,
}

impl PartitionDisk {
    /// Applies a write to the page cache.
    pub fn apply(&mut self, write: &LogWrite) {
        match write {
            LogWrite::Append(entry) => self.segments.active_mut().push_unsealed(entry.clone()),
            LogWrite::Seal(chunk) => self.segments.active_mut().adopt(chunk),
            LogWrite::Aborted(entry) => self.segments.active_mut().aborted.push(*entry),
            LogWrite::Roll(base) => self.segments.roll(*base),
            LogWrite::Truncate(to) => {
                self.segments.truncate(*to);
                self.cut_points(*to);
            }
            LogWrite::TruncateFully(start) => {
                self.segments = Segments::starting_at(*start);
                self.cut_points(*start);
            }
            LogWrite::DeleteSegments(n) => drop(self.segments.remove_oldest(*n as usize)),
            LogWrite::KeepThrough(base) => {
                if let Some(i) = self.segments.floor(*base) {
                    self.segments.keep_through(i);
                }
                self.torn = None;
                self.cut_points(self.end());
            }
            LogWrite::Index(base, entries) => {
                if let Some(segment) = self.segments.floor(*base).and_then(|i| self.segments.get_mut(i)) {
                    segment.aborted.reset();
                    entries.iter().for_each(|e| segment.aborted.push(*e));
                }
            }
            LogWrite::Epochs(entries) => self.epochs = Arc::clone(entries),
            LogWrite::Snapshot(at, snapshot) => drop(self.snapshots.insert(*at, Arc::clone(snapshot))),
            LogWrite::DropSnapshot(at) => drop(self.snapshots.remove(at)),
            LogWrite::HighWatermark(offset) => self.high_watermark = *offset,
            LogWrite::RecoveryPoint(offset) => self.recovery_point = *offset,
            LogWrite::LogStart(offset) => self.log_start = *offset,
        }
    }
    fn cut_points(&mut self, to: Offset) {
        self.recovery_point = self.recovery_point.min(to);
        self.flushed = self.flushed.min(to);
    }

    /// Everything written so far survives power loss from now on.
    pub fn flushed(&mut self) {
        self.flushed = self.end();
    }
    /// Everything below `mark`, where the log ended when the flush began, survives power loss.
    pub fn flushed_up_to(&mut self, mark: Offset) {
        self.flushed = self.flushed.max(mark.min(self.end()));
    }
    /// Up to where the log survives power loss.
    pub fn flushed_to(&self) -> Offset {
        self.flushed
    }
    /// The offset behind the last batch.
    pub fn end(&self) -> Offset {
        self.segments.active().next_offset()
    }
    /// The batches from the one that holds `offset`, or the next behind it.
    pub fn entries_from(&self, offset: Offset) -> impl Iterator<Item = &Entry> {
        self.segments.entries_from(offset)
    }
    /// Its batches, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.segments.entries_from(Offset(0))
    }
    /// The high watermark as checkpointed.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }
    /// The recovery point as checkpointed.
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// Power is lost: what was flushed stays, and of the batches behind it a random number, none to all (L-20).
    pub fn lose_power(&mut self, stream: &mut Stream) {
        let unflushed = self.segments.entries_from(self.flushed).filter(|e| e.base >= self.flushed).count();
        if unflushed == 0 {
            return;
        }
        let kept = stream.below(unflushed as u64 + 1) as usize;
        let cut = self.segments.entries_from(self.flushed).filter(|e| e.base >= self.flushed).nth(kept);
        if let Some(to) = cut.map(|e| e.base) {
            self.cut(to, true);
        }
        self.lose_snapshots_above(self.flushed);
    }
    /// The log file ends in the batch at `to`, with some bytes of that batch if `torn`. The transaction index ends with it.
    pub fn cut(&mut self, to: Offset, torn: bool) {
        self.segments.truncate(to);
        self.flushed = self.flushed.min(to);
        self.torn = torn.then_some(to);
    }
    /// Producer snapshots above `offset` are lost. They are flushed together with the segment before them.
    pub fn lose_snapshots_above(&mut self, offset: Offset) {
        self.snapshots.retain(|at, _| *at <= offset);
    }
    /// The transaction indexes are lost.
    pub fn lose_indexes(&mut self) {
        for i in 0..self.segments.count() {
            if let Some(segment) = self.segments.get_mut(i) {
                segment.aborted.reset();
            }
        }
    }
    /// The recovery point checkpoint is set back, or was never ahead.
    pub fn set_recovery_point(&mut self, to: Offset) {
        self.recovery_point = to;
    }
}
