//! Starting from disk (`LogLoader`; kafka.md L-21, L-22).

use super::producer::ProducerStateManager;
use super::truncate::rebuild;
use super::unified_log::HighWatermark;
use super::{AbortedEntry, LeaderEpochs, LogConfig, LogWrite, PartitionDisk, Segments, UnifiedLog};
use crate::base::{Fixes, Millis, Offset};

impl UnifiedLog {
    /// The log as `disk` gives it. Without a clean stop, segments from the recovery point on are scanned: a torn batch and all
    /// behind it go, leader epochs, producer state and transaction index are made from the batches. After any start each
    /// producer is known by its last batch only. The high watermark is the checkpoint, within the log.
    ///
    /// What loading repairs on disk is among the writes.
    pub fn open(disk: &PartitionDisk, clean: bool, now: Millis, config: LogConfig, fixes: Fixes) -> Self {
        let mut loader = Loader {
            config,
            fixes,
            now,
            segments: disk.segments.clone(),
            epochs: LeaderEpochs::from_entries(&disk.epochs),
            snapshots: ProducerStateManager::new(&config, fixes, disk.snapshots.clone()),
            log_start: disk.log_start,
            writes: Vec::new(),
        };
        if !clean {
            loader.recover(disk.recovery_point, disk.torn);
        }
        loader.drop_what_ends_below_the_start();
        loader.finish(clean, disk)
    }
}

struct Loader {
    config: LogConfig,
    fixes: Fixes,
    now: Millis,
    segments: Segments,
    epochs: LeaderEpochs,
    /// Holds the snapshots on disk; producers are loaded into a fresh one each time.
    snapshots: ProducerStateManager,
    log_start: Offset,
    writes: Vec<LogWrite>,
}

impl Loader {
    fn recover(&mut self, recovery_point: Offset, torn: Option<Offset>) {
        let mut i = self.segments.floor(recovery_point).unwrap_or(0);
        while let Some(segment) = self.segments.get(i) {
            let base = segment.base();
            self.recover_segment(i);
            // A torn batch ends the segment: what comes behind was written later and goes.
            let ends_torn = torn.is_some_and(|at| self.segments.floor(at) == Some(i));
            if ends_torn {
                self.segments.keep_through(i);
                self.writes.push(LogWrite::KeepThrough(base));
                return;
            }
            i += 1;
        }
    }

    /// `LogLoader.recoverSegment`, `LogSegment.recover`: batch by batch, then a snapshot at the end of the segment, so that
    /// the next one does not need this one again.
    fn recover_segment(&mut self, i: usize) {
        let Some(base) = self.segments.get(i).map(|s| s.base()) else { return };
        let mut producers = self.snapshots.with_snapshots_only(&self.config, self.fixes);
        rebuild(&mut producers, &self.segments, (self.log_start, base), false, self.now, &mut self.writes);
        let mut index: Vec<AbortedEntry> = Vec::new();
        let mut epochs_changed = false;
        let Some(segment) = self.segments.get_mut(i) else { return };
        for entry in segment.entries() {
            if self.epochs.latest().is_none_or(|latest| latest.epoch < entry.epoch) {
                epochs_changed |= self.epochs.assign(entry.epoch, entry.base).unwrap_or(false);
            }
            if let Some(txn) = producers.replay(entry) {
                if txn.aborted {
                    let last_stable = producers.last_stable(&txn);
                    index.push(AbortedEntry { producer: txn.producer, first: txn.first, last: txn.last, last_stable });
                }
                producers.complete(&txn);
            }
            producers.set_map_end(entry.next());
        }
        if segment.aborted.entries() != index {
            segment.aborted.reset();
            index.iter().for_each(|e| segment.aborted.push(*e));
            self.writes.push(LogWrite::Index(base, index.into()));
        }
        if epochs_changed {
            self.writes.push(LogWrite::Epochs(self.epochs.entries().into()));
        }
        producers.take_snapshot(&mut self.writes);
        self.snapshots = producers;
    }

    /// A log that ends below its checkpointed start has lost everything that counts (`deleteSegmentsIfLogStartGreaterThanLogEnd`).
    fn drop_what_ends_below_the_start(&mut self) {
        if self.segments.active().next_offset() < self.log_start {
            self.segments = Segments::starting_at(self.log_start);
            self.writes.push(LogWrite::TruncateFully(self.log_start));
            self.epochs.clear();
            self.writes.push(LogWrite::Epochs(self.epochs.entries().into()));
            self.snapshots.truncate_fully(self.log_start, &mut self.writes);
        }
    }

    fn finish(mut self, clean: bool, disk: &PartitionDisk) -> UnifiedLog {
        let end = self.segments.active().next_offset();
        let start = self.log_start.max(self.segments.first_base());
        // Both, without short circuit: epochs above the end and below the start go.
        if self.epochs.truncate_from_end(end) | self.epochs.truncate_from_start(self.log_start) {
            self.writes.push(LogWrite::Epochs(self.epochs.entries().into()));
        }
        let mut producers = self.snapshots.with_snapshots_only(&self.config, self.fixes);
        let bases: Vec<Offset> = self.segments.bases().collect();
        producers.delete_stray_snapshots(&bases, &mut self.writes);
        rebuild(&mut producers, &self.segments, (start, end), clean, self.now, &mut self.writes);
        let mut log = UnifiedLog {
            config: self.config,
            fixes: self.fixes,
            segments: self.segments,
            start,
            end,
            high_watermark: HighWatermark { offset: start, located: false },
            first_unstable: None,
            recovery_point: if clean { end } else { disk.recovery_point.min(end) },
            epochs: self.epochs,
            producers,
            writes: self.writes,
            judged: Vec::new(),
        };
        log.refresh_first_unstable();
        log.set_high_watermark(disk.high_watermark);
        log
    }
}
