//! The follower: where to begin, what to append, where to cut (kafka.md L-2, L-11, L-12, R-13).
//!
//! Pure rules over one partition; the connection to the leader, its session and its pauses are the replica fetcher's.

use super::{Partition, PartitionCx, PartitionOutput};
use crate::base::{BrokerSet, Event, Fix, LeaderEpoch, Offset};
use crate::kafka::ErrorCode;
use crate::kafka::log::{Appended, Entry, FollowerAppendError, Isolation, ReadLimit};
use crate::kafka::messages::FetchedPartition;

/// Where a follower is to cut (`OffsetTruncationState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// The new log end.
    pub to: Offset,
    /// The logs agree below it. Otherwise the next fetch asks again.
    pub complete: bool,
}

impl Partition {
    /// Where a follower begins to fetch under a new leader or leader epoch, and the epoch of its last batch: its log end,
    /// for the leader says where the logs part (`ReplicaManager.initialFetchOffset`). Before KIP-101 it first cut back to
    /// its own high watermark.
    pub fn start_following(&mut self, cx: &mut PartitionCx<'_>) -> (Offset, LeaderEpoch) {
        if !self.fixes.has(Fix::TruncateByLeaderEpoch) {
            self.truncate_to(self.log.high_watermark(), cx);
        }
        (self.log.end(), self.last_fetched_epoch())
    }

    /// The epoch that goes with a fetch at the log end, so that the leader can tell a divergence (L-10); -1 for an empty
    /// log, and before KIP-101.
    pub fn last_fetched_epoch(&self) -> LeaderEpoch {
        if self.fixes.has(Fix::TruncateByLeaderEpoch) {
            self.log.latest_epoch().unwrap_or(LeaderEpoch::UNKNOWN)
        } else {
            LeaderEpoch::UNKNOWN
        }
    }

    /// The epoch that goes with the fetches after one that did not diverge. Before KIP-320 leaders checked no epoch of a
    /// fetch, and followers asked where the logs part only when they began to follow.
    pub fn epoch_of_next_fetch(&self) -> LeaderEpoch {
        if self.fixes.has(Fix::FetchEpochCheck) { self.last_fetched_epoch() } else { LeaderEpoch::UNKNOWN }
    }

    /// Appends what a fetch at `offset` under `fetched_under` brought and takes over the high watermark, at most to the own
    /// log end, and the log start (`ReplicaFetcherThread.processPartitionData`). Batches of a newer epoch than that
    /// of the fetch are left out (L-2, KAFKA-18723). Gives the offset to fetch from next.
    ///
    /// Errors stop the fetching of this partition until metadata comes: the log end moved under the fetch, or the batches
    /// do not follow on it.
    pub fn append_fetched(
        &mut self,
        fetched: &FetchedPartition,
        offset: Offset,
        fetched_under: LeaderEpoch,
        cx: &mut PartitionCx<'_>,
    ) -> Result<Offset, FollowerAppendError> {
        if offset != self.log.end() {
            return Err(FollowerAppendError::UnexpectedOffset);
        }
        let appended = self.append_to_follower(&fetched.entries, fetched_under, cx)?;
        self.follow_high_watermark(fetched.high_watermark, cx);
        if fetched.log_start > self.log.start() {
            self.log.increment_log_start(fetched.log_start).map_err(FollowerAppendError::Refused)?;
        }
        Ok(appended.map_or(offset, |a| a.last.plus(1)))
    }

    /// Appends batches at their offsets (`Partition.appendRecordsToFollowerOrFutureReplica`): none of a newer epoch than
    /// `fetched_under`.
    pub fn append_to_follower(
        &mut self,
        entries: &[Entry],
        fetched_under: LeaderEpoch,
        cx: &mut PartitionCx<'_>,
    ) -> Result<Option<Appended>, FollowerAppendError> {
        if entries.is_empty() {
            return Ok(None);
        }
        let mut result = self.log.append_as_follower(entries, Some(fetched_under));
        let (start, end) = (self.log.start(), self.log.end());
        let around = entries[0].base < end && entries.last().is_some_and(|e| e.last() >= end);
        if matches!(result, Err(FollowerAppendError::UnexpectedOffset)) && start == end && around {
            // The leader's log begins inside its first batch: an empty follower begins with that batch.
            self.truncate_fully(entries[0].base, cx);
            result = self.log.append_as_follower(entries, Some(fetched_under));
        }
        let Some(appended) = result? else { return Ok(None) };
        for entry in entries.iter().take_while(|e| e.base <= appended.last) {
            let event = self.appended_event(&entry.batch, entry.base, entry.epoch, false);
            cx.out.push(PartitionOutput::Emit(event));
        }
        cx.out.push(PartitionOutput::CheckFetches(self.tp));
        Ok(Some(appended))
    }

    /// follower's high watermark = min(leader's, own log end); may go back. Gives the new value if it changed.
    pub fn follow_high_watermark(&mut self, to: Offset, cx: &mut PartitionCx<'_>) -> Option<Offset> {
        let changed = self.log.follow_high_watermark(to)?;
        cx.out.push(PartitionOutput::Emit(Event::HighWatermark {
            tp: self.tp,
            offset: changed,
            epoch: self.leader_epoch,
            leader: false,
            isr: BrokerSet::default(),
            maximal: BrokerSet::default(),
            end: self.log.end(),
        }));
        Some(changed)
    }

    /// L-11: where to cut when the leader answers that its log parts from ours within or after `leader.0`, which ends there
    /// at `leader.1` (`AbstractFetcherThread.getOffsetTruncationState`). `fetch_offset` is where the partition was fetching.
    pub fn truncation(&mut self, leader: (LeaderEpoch, Offset), fetch_offset: Offset) -> Truncation {
        let (epoch, leader_end) = leader;
        let end = self.log.end();
        let cut = if leader_end == Offset::UNKNOWN {
            Truncation { to: fetch_offset, complete: true }
        } else {
            match self.log.end_offset_for(epoch).filter(|_| epoch != LeaderEpoch::UNKNOWN) {
                // We do not know the leader's epoch: cut to the end of the nearest one below and ask again.
                Some((own, own_end)) if own != epoch => Truncation { to: own_end.min(end), complete: false },
                Some((_, own_end)) => Truncation { to: own_end.min(leader_end).min(end), complete: true },
                None => Truncation { to: leader_end.min(end), complete: true },
            }
        };
        if self.fixes.has(Fix::TruncationStopsAtDivergence) {
            return cut;
        }
        Truncation { to: self.batch_before(cut.to), ..cut }
    }

    /// Start of the batch that ends below `offset`.
    fn batch_before(&mut self, offset: Offset) -> Offset {
        let one = ReadLimit { max_bytes: 1, min_one: true, high_watermark_seen: None };
        let read = if offset > self.log.start() {
            self.log.read(offset.plus(-1), Isolation::LogEnd, &one)
        } else {
            Err(ErrorCode::OffsetOutOfRange)
        };
        read.ok().and_then(|r| r.entries.first().map(|e| e.base)).unwrap_or(offset)
    }

    /// Cuts the log (`Partition.truncateTo`, L-12).
    pub fn truncate_to(&mut self, to: Offset, cx: &mut PartitionCx<'_>) {
        let (from, high_watermark) = (self.log.end(), self.log.high_watermark());
        self.log.truncate_to(to, cx.now);
        self.truncated(from, high_watermark, cx);
    }

    /// Drops the log and begins anew at `start` (`Partition.truncateFullyAndStartAt`): the leader no longer has what would
    /// follow here.
    pub fn truncate_fully(&mut self, start: Offset, cx: &mut PartitionCx<'_>) {
        let (from, high_watermark) = (self.log.end(), self.log.high_watermark());
        self.log.truncate_fully(start, cx.now);
        self.truncated(from, high_watermark, cx);
    }

    fn truncated(&mut self, from: Offset, high_watermark: Offset, cx: &mut PartitionCx<'_>) {
        let to = self.log.end();
        if to != from {
            let event = Event::Truncated { tp: self.tp, from, to, high_watermark, follower: true };
            cx.out.push(PartitionOutput::Emit(event));
            cx.out.push(PartitionOutput::CheckFetches(self.tp));
        }
    }
}
