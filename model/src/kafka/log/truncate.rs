//! Segments come and go: rolling, truncation (L-12), and producer state made to follow.

use super::{LogWrite, Segments, UnifiedLog};
use crate::base::{Millis, Offset, ProducerId};
use crate::kafka::log::producer::{ProducerAppend, ProducerStateManager};
use crate::kafka::log::{AppendOrigin, Entry};
use std::collections::BTreeMap;

impl UnifiedLog {
    /// Closes the active segment and writes a producer snapshot at the base of the new one. Gives that base. An empty active
    /// segment stays.
    pub fn roll(&mut self) -> Offset {
        self.roll_at(self.end)
    }
    pub(super) fn roll_at(&mut self, first: Offset) -> Offset {
        let base = first.max(self.end);
        self.segments.roll(base);
        self.writes.push(LogWrite::Roll(base));
        // A follower's new segment may begin above its log end.
        self.producers.set_map_end(base);
        self.producers.take_snapshot(&mut self.writes);
        self.bound_high_watermark();
        base
    }

    /// Cuts the log to end at `to`: whole batches go, also one that `to` lies inside, but the log end is `to`. Producer state
    /// is rebuilt, the high watermark follows (L-12). False: `to` is not below the log end; even then epoch entries that
    /// start at the log end go, for a leader that appended nothing may have left one.
    pub fn truncate_to(&mut self, to: Offset, now: Millis) -> bool {
        assert!(to.0 >= 0, "a log is cut at an offset");
        if to >= self.end {
            let changed = self.epochs.truncate_from_end(self.end);
            self.epochs_changed(changed);
            return false;
        }
        if self.segments.first_base() > to {
            self.truncate_fully(to, now);
            return true;
        }
        for base in self.segments.truncate(to) {
            self.producers.delete_snapshot(base, &mut self.writes);
        }
        self.writes.push(LogWrite::Truncate(to));
        self.end = to;
        self.recovery_point = self.recovery_point.min(to);
        let changed = self.epochs.truncate_from_end(to);
        self.epochs_changed(changed);
        if to < self.start {
            self.start = to;
            self.writes.push(LogWrite::LogStart(to));
        }
        rebuild(&mut self.producers, &self.segments, (self.start, to), false, now, &mut self.writes);
        if self.high_watermark.offset >= self.end {
            self.set_high_watermark(self.end);
        }
        true
    }

    /// Empties the log and begins it anew at `start`: a follower whose offsets the leader no longer has.
    pub fn truncate_fully(&mut self, start: Offset, now: Millis) {
        self.segments = Segments::starting_at(start);
        self.writes.push(LogWrite::TruncateFully(start));
        self.end = start;
        self.start = start;
        self.writes.push(LogWrite::LogStart(start));
        self.recovery_point = self.recovery_point.min(start);
        let changed = !self.epochs.entries().is_empty();
        self.epochs.clear();
        self.epochs_changed(changed);
        self.producers.truncate_fully(start, &mut self.writes);
        rebuild(&mut self.producers, &self.segments, (start, start), false, now, &mut self.writes);
        self.set_high_watermark(start);
    }
}

/// Makes producer state follow the log of `start..end` (`UnifiedLog.rebuildProducerState`): back to the newest snapshot within,
/// then the batches behind it, with snapshots at the last two segment bases and at the end.
///
/// `clean`: after a clean stop a log without any snapshot is taken to have had no producers, and is not scanned.
pub(super) fn rebuild(
    producers: &mut ProducerStateManager,
    segments: &Segments,
    (start, end): (Offset, Offset),
    clean: bool,
    now: Millis,
    writes: &mut Vec<LogWrite>,
) {
    let last_two: Vec<Offset> = segments.bases().rev().take(2).collect();
    if clean && !producers.has_snapshot() {
        for at in last_two.iter().rev().copied().chain([end]) {
            producers.set_map_end(at);
            producers.take_snapshot(writes);
        }
        return;
    }
    let was_empty = producers.is_empty() && producers.map_end() >= end;
    producers.truncate_and_reload(start, end, now, writes);
    if end > producers.map_end() && !was_empty {
        for segment in segments.between(producers.map_end(), end) {
            let from = segment.base().max(producers.map_end()).max(start);
            producers.set_map_end(from);
            if last_two.contains(&segment.base()) || segment.base() == end {
                producers.take_snapshot(writes);
            }
            replay(producers, segment.entries_from(from).take_while(|e| e.base < end));
        }
    }
    producers.set_map_end(end);
    producers.take_snapshot(writes);
}

/// Takes in batches of the log in one go (`loadProducersFromRecords`): transactions complete when all are in.
fn replay<'a>(producers: &mut ProducerStateManager, entries: impl Iterator<Item = &'a Entry>) {
    let mut appends: BTreeMap<ProducerId, ProducerAppend> = BTreeMap::new();
    let mut completed = Vec::new();
    for entry in entries.filter(|e| e.batch.producer.id != ProducerId::NONE) {
        let id = entry.batch.producer.id;
        let append = appends.entry(id).or_insert_with(|| producers.prepare(id, AppendOrigin::Replication));
        // As in `ProducerStateManager::replay`, a refusal is passed over.
        completed.extend(append.append(entry, 0).unwrap_or_default());
        producers.use_up_verification(&entry.batch);
    }
    appends.values().for_each(|a| producers.update(a));
    completed.iter().for_each(|txn| producers.complete(txn));
}
