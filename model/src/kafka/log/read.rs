//! Reading (`UnifiedLog.read`, `LocalLog.read`; ).

use super::segment::{Place, Segment};
use super::{AbortedTxn, Entry, Isolation, UnifiedLog};
use crate::base::{Fix, Offset};
use crate::kafka::ErrorCode;
use std::sync::Arc;

/// Limits of a read.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    /// Bytes to be returned at most; a batch may be cut off in the middle.
    pub max_bytes: u32,
    /// The first batch comes whole even when it is larger.
    pub min_one: bool,
    /// The high watermark when the fetch looked at it first. Only the code before KAFKA-9807 reads it twice: it compares this
    /// one with the first unstable offset, and then, meanwhile risen, takes the present one as the bound.
    pub high_watermark_seen: Option<Offset>,
}

/// What a read gives.
#[derive(Clone, Debug, Default)]
pub struct LogRead {
    /// The whole batches, in order; the first may begin below the offset asked for.
    pub entries: Arc<[Entry]>,
    /// Bytes returned, with the part of a batch that was cut off.
    pub bytes: u32,
    /// For read_committed, the aborted transactions that may concern these batches.
    pub aborted: Option<Vec<AbortedTxn>>,
}

/// `log.index.interval.bytes`: the offset index has an entry about every so many bytes.
const INDEX_INTERVAL: u64 = 4096;

impl UnifiedLog {
    /// Reads from `from` up to the bound of `isolation`. OFFSET_OUT_OF_RANGE below the log start and above the log end; between
    /// the bound and the log end the answer is empty. A read ends at the end of a segment, even when there is room.
    ///
    /// Changes the log in one way: a high watermark inside a batch is pulled back to its start.
    pub fn read(&mut self, from: Offset, isolation: Isolation, limit: &ReadLimit) -> Result<LogRead, ErrorCode> {
        if from < self.start {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let upper = match isolation {
            Isolation::LogEnd => self.end,
            Isolation::HighWatermark => self.locate_high_watermark(),
            Isolation::Committed => self.stable_bound(limit.high_watermark_seen),
        };
        let committed = isolation == Isolation::Committed;
        if from > self.end {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        if from >= upper {
            return Ok(LogRead { aborted: committed.then(Vec::new), ..LogRead::default() });
        }
        let Some(floor) = self.segments.floor(from) else { return Err(ErrorCode::OffsetOutOfRange) };
        for i in floor..self.segments.count() {
            let Some(segment) = self.segments.get(i) else { break };
            let place = segment.find(from);
            if place == segment.len() {
                continue;
            }
            let (entries, bytes) = read_segment(segment, place, upper, limit);
            let aborted = committed.then(|| self.aborted_for(i, from, bytes));
            return Ok(LogRead { entries, bytes, aborted });
        }
        Ok(LogRead::default())
    }

    fn stable_bound(&mut self, seen: Option<Offset>) -> Offset {
        let high_watermark = self.locate_high_watermark();
        if !self.fixes.has(Fix::LastStableBounds) {
            return high_watermark;
        }
        let compared = match seen {
            Some(seen) if !self.fixes.has(Fix::SingleHighWatermarkRead) => seen,
            _ => high_watermark,
        };
        self.first_unstable.filter(|o| *o < compared).unwrap_or(high_watermark)
    }

    /// Aborted transactions that end at or above `from` and begin below the next entry of the offset index behind the bytes
    /// read, which in most segments is the segment's end: more than the reader needs, and harmless to it.
    fn aborted_for(&self, segment: usize, from: Offset, bytes: u32) -> Vec<AbortedTxn> {
        let mut found = Vec::new();
        let segments = segment..self.segments.count();
        if segments.filter_map(|i| self.segments.get(i)).all(|s| s.aborted.is_empty()) {
            return found;
        }
        let upper = self
            .segments
            .get(segment)
            .and_then(|s| index_bound(s, from, bytes))
            .unwrap_or_else(|| self.segments.get(segment + 1).map_or(self.end, Segment::base));
        self.segments.collect_aborted(segment, from, upper, &mut |e| found.push(e.into()));
        found
    }
}

/// The batches from `place` on that lie below `upper` and within the limit, and their bytes.
fn read_segment(segment: &Segment, place: Place, upper: Offset, limit: &ReadLimit) -> (Arc<[Entry]>, u32) {
    let (mut bytes, mut max) = (0u32, limit.max_bytes);
    let mut end = place;
    while end < segment.len() {
        let entry = segment.at(end);
        if end == place && limit.min_one {
            max = max.max(entry.batch.bytes);
        }
        if entry.base >= upper {
            break;
        }
        if entry.batch.bytes > max - bytes {
            bytes = max;
            break;
        }
        bytes += entry.batch.bytes;
        end += 1;
    }
    (if end == place { Arc::default() } else { segment.share(place, end - place) }, bytes)
}

/// Where the offset index has its next entry behind `bytes` bytes from `from`; `None`: not in this segment. The entries are
/// not kept, so that one is taken to stand right behind the read; the real one may stand up to an interval earlier.
fn index_bound(segment: &Segment, from: Offset, bytes: u32) -> Option<Offset> {
    let mut walked = 0u64;
    for entry in segment.entries_from(from) {
        walked += u64::from(entry.batch.bytes);
        if walked > u64::from(bytes) + INDEX_INTERVAL {
            return Some(entry.last());
        }
    }
    None
}
