//! A segment's batches, stored so that a clone copies pointers (L-1).

use super::{Entry, TransactionIndex};
use crate::base::Offset;
use std::sync::Arc;

/// Batches in a sealed chunk. Bounds what a clone of a log copies one by one: the unsealed tail.
pub const CHUNK: usize = 128;

/// A sealed run of 128 batches, shared by live log, disk and clones: 24 bytes a batch, the batch itself apart. Invisible from
/// outside: where a chunk ends means nothing to a reader.
#[derive(Debug)]
pub struct Chunk {
    entries: Box<[Entry]>,
}
impl Chunk {
    /// Offset of its first record.
    pub fn base(&self) -> Offset {
        self.entries[0].base
    }
}

/// One segment file with its transaction index.
#[derive(Clone, Debug)]
pub struct Segment {
    base: Offset,
    sealed: Arc<Vec<Arc<Chunk>>>,
    tail: Vec<Entry>,
    bytes: u64,
    /// Aborted transactions whose marker stands in this segment.
    pub aborted: TransactionIndex,
}

/// A batch's place in its segment, in batches.
pub(super) type Place = usize;

impl Segment {
    /// An empty segment that begins at `base`.
    pub fn new(base: Offset) -> Self {
        Self { base, sealed: Arc::default(), tail: Vec::new(), bytes: 0, aborted: TransactionIndex::default() }
    }
    /// Its base offset: what its file is named after.
    pub fn base(&self) -> Offset {
        self.base
    }
    /// Size of its file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Whether it has no batch.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
    /// The offset behind its last batch; its base when empty (`readNextOffset`).
    pub fn next_offset(&self) -> Offset {
        self.len().checked_sub(1).map_or(self.base, |last| self.at(last).next())
    }

    pub(super) fn len(&self) -> Place {
        self.sealed.len() * CHUNK + self.tail.len()
    }
    pub(super) fn at(&self, place: Place) -> &Entry {
        match self.sealed.get(place / CHUNK) {
            Some(chunk) => &chunk.entries[place % CHUNK],
            None => &self.tail[place - self.sealed.len() * CHUNK],
        }
    }
    /// The first batch that ends at or above `offset` (`translateOffset`).
    pub(super) fn find(&self, offset: Offset) -> Place {
        // Most who ask are at the end, or a few batches behind.
        for (i, entry) in self.tail.iter().enumerate().rev().take(4) {
            if entry.base <= offset {
                return self.sealed.len() * CHUNK + i + usize::from(entry.last() < offset);
            }
        }
        let chunk = self.sealed.partition_point(|c| c.base() <= offset);
        let in_tail = self.tail.first().is_some_and(|e| e.base <= offset);
        let after = if in_tail || (chunk == 0 && self.sealed.is_empty()) {
            self.sealed.len() * CHUNK + self.tail.partition_point(|e| e.base <= offset)
        } else if chunk == 0 {
            0
        } else {
            (chunk - 1) * CHUNK + self.sealed[chunk - 1].entries.partition_point(|e| e.base <= offset)
        };
        match after.checked_sub(1) {
            Some(last) if self.at(last).last() >= offset => last,
            _ => after,
        }
    }
    /// `n` batches from `place` on, to be shared.
    pub(super) fn share(&self, place: Place, n: usize) -> Arc<[Entry]> {
        (place..place + n).map(|place| self.at(place).clone()).collect()
    }
    /// The batches from the one that holds `offset`, or the next behind it.
    pub fn entries_from(&self, offset: Offset) -> impl Iterator<Item = &Entry> {
        (self.find(offset)..self.len()).map(|place| self.at(place))
    }
    /// All batches.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        (0..self.len()).map(|place| self.at(place))
    }

    /// Appends a batch. When the tail is full it is sealed before, and the chunk given back, so that the disk can share it.
    pub fn push(&mut self, entry: Entry) -> Option<Arc<Chunk>> {
        debug_assert!(entry.base >= self.next_offset(), "offsets only grow");
        let sealed = (self.tail.len() == CHUNK).then(|| self.seal());
        self.bytes += u64::from(entry.batch.bytes);
        self.tail.push(entry);
        sealed
    }
    fn seal(&mut self) -> Arc<Chunk> {
        let entries = std::mem::replace(&mut self.tail, Vec::with_capacity(CHUNK));
        let chunk = Arc::new(Chunk { entries: entries.into_boxed_slice() });
        Arc::make_mut(&mut self.sealed).push(Arc::clone(&chunk));
        chunk
    }
    /// Appends a batch and leaves the tail unsealed, for the disk: it is given the chunk by [`Segment::adopt`].
    pub fn push_unsealed(&mut self, entry: Entry) {
        self.bytes += u64::from(entry.batch.bytes);
        self.tail.push(entry);
    }
    /// Shares `chunk` in the place of the same batches at the head of the tail.
    pub fn adopt(&mut self, chunk: &Arc<Chunk>) {
        if self.tail.len() >= CHUNK && self.tail[0].base == chunk.base() {
            self.tail.drain(..CHUNK);
            Arc::make_mut(&mut self.sealed).push(Arc::clone(chunk));
        }
    }

    /// Drops the batch that holds `to` and all behind it, and index entries of markers at or above `to`
    /// (`LogSegment.truncateTo`). Nothing happens when no batch reaches `to`.
    pub fn truncate(&mut self, to: Offset) {
        let keep = self.find(to);
        if keep == self.len() {
            return;
        }
        self.bytes -= (keep..self.len()).map(|place| u64::from(self.at(place).batch.bytes)).sum::<u64>();
        let chunks = keep / CHUNK;
        if chunks < self.sealed.len() {
            self.tail = self.sealed[chunks].entries[..keep % CHUNK].to_vec();
            Arc::make_mut(&mut self.sealed).truncate(chunks);
        } else {
            self.tail.truncate(keep - self.sealed.len() * CHUNK);
        }
        self.aborted.truncate(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Batch, EventTime, LeaderEpoch, ProducerTag};

    fn entry(base: i64, records: u32) -> Entry {
        let batch = Arc::new(Batch::sized(records, 61 + 15 * records, ProducerTag::NONE, false, EventTime(0)));
        Entry { base: Offset(base), epoch: LeaderEpoch(0), batch }
    }
    /// Batches of 1, 2, 3, 1, 2, 3... records.
    fn filled(batches: u32) -> Segment {
        let mut segment = Segment::new(Offset(0));
        for i in 0..batches {
            segment.push(entry(segment.next_offset().0, 1 + i % 3));
        }
        segment
    }

    #[test]
    fn every_offset_is_found_whatever_chunk_holds_it() {
        let segment = filled(3 * CHUNK as u32 + 7);
        for offset in 0..segment.next_offset().0 {
            let found = segment.entries_from(Offset(offset)).next().unwrap();
            assert!(found.base.0 <= offset && offset <= found.last().0);
        }
        assert!(segment.entries_from(segment.next_offset()).next().is_none());
        assert_eq!(segment.entries().count(), 3 * CHUNK + 7);
    }

    #[test]
    fn truncation_to_any_offset_equals_building_anew() {
        let whole = filled(2 * CHUNK as u32 + 5);
        for to in 0..=whole.next_offset().0 {
            let mut cut = whole.clone();
            cut.truncate(Offset(to));
            let kept: Vec<_> = whole.entries().filter(|e| e.last().0 < to).map(|e| e.base).collect();
            assert_eq!(cut.entries().map(|e| e.base).collect::<Vec<_>>(), kept);
            assert_eq!(cut.bytes(), cut.entries().map(|e| u64::from(e.batch.bytes)).sum::<u64>());
        }
    }

    #[test]
    fn a_hole_is_skipped() {
        let mut segment = Segment::new(Offset(0));
        segment.push(entry(0, 3));
        segment.push(entry(10, 2));
        assert_eq!(segment.entries_from(Offset(4)).next().unwrap().base, Offset(10));
    }

    #[test]
    fn the_disk_shares_the_chunks_of_the_log() {
        let (mut live, mut disk) = (Segment::new(Offset(0)), Segment::new(Offset(0)));
        for _ in 0..=CHUNK {
            let next = entry(live.next_offset().0, 1);
            if let Some(chunk) = live.push(next.clone()) {
                disk.adopt(&chunk);
            }
            disk.push_unsealed(next);
        }
        assert!(Arc::ptr_eq(&live.sealed[0], &disk.sealed[0]));
        assert_eq!(disk.next_offset(), live.next_offset());
    }
}
