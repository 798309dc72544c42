//! Reading from a partition: followers, consumers, end offsets (kafka.md L-10, L-13, R-1, R-14, R-15, X-1).

use super::{FollowerFetch, IsrState, Partition, PartitionCx};
use crate::base::{BrokerEpoch, BrokerId, Fix, LeaderEpoch, Millis, Offset, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::log::{AbortedTxn, Entry, Isolation, ReadLimit};
use crate::kafka::messages::{FetchPartition, FetchedPartition, OffsetSpec};
use std::sync::Arc;

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetcher {
    /// A follower: from the leader only, up to its log end.
    Follower {
        /// Which.
        replica: BrokerId,
        /// Broker epoch that the fetch carries; -1 is not compared.
        broker_epoch: BrokerEpoch,
    },
    /// A consumer.
    Consumer {
        /// High watermark or committed.
        isolation: Isolation,
        /// It may read from followers (KIP-392).
        any_replica: bool,
    },
}

impl Fetcher {
    /// Upper bound of its reads.
    pub const fn isolation(self) -> Isolation {
        match self {
            Self::Follower { .. } => Isolation::LogEnd,
            Self::Consumer { isolation, .. } => isolation,
        }
    }
    /// Whether only the leader serves it.
    pub const fn leader_only(self) -> bool {
        match self {
            Self::Follower { .. } => true,
            Self::Consumer { any_replica, .. } => !any_replica,
        }
    }
}

/// What a fetch read (`LogReadInfo`). Offsets are those from before the fetch was taken into account.
#[derive(Clone, Debug)]
pub struct PartitionRead {
    /// Whole batches.
    pub entries: Arc<[Entry]>,
    /// Bytes, with a batch that was cut off at the end.
    pub bytes: u32,
    /// Aborted transactions, for read_committed.
    pub aborted: Option<Vec<AbortedTxn>>,
    /// The leader's (epoch, end offset) where the logs part; no data then (L-10).
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// High watermark.
    pub high_watermark: Offset,
    /// Last stable offset.
    pub last_stable: Offset,
    /// Log start.
    pub log_start: Offset,
    /// Log end.
    pub log_end: Offset,
}

/// Where a log stands, for a fetch that finds nothing behind its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// High watermark.
    pub high_watermark: Offset,
    /// Last stable offset.
    pub last_stable: Offset,
    /// Log start.
    pub log_start: Offset,
}
impl LogState {
    /// As it goes over the wire.
    pub fn into_fetched(self, tp: TopicPartition) -> FetchedPartition {
        let Self { high_watermark, last_stable, log_start } = self;
        FetchedPartition { high_watermark, last_stable, log_start, ..FetchedPartition::failed(tp, ErrorCode::None) }
    }
}

/// Shares a list; an empty one, which is what nearly every read gives, without an allocation.
fn shared<T>(list: Vec<T>) -> Arc<[T]> {
    if list.is_empty() { Arc::default() } else { list.into() }
}

impl PartitionRead {
    /// As it goes over the wire.
    #[inline(always)]
    pub fn into_fetched(self, partition: &Partition) -> FetchedPartition {
        FetchedPartition {
            tp: partition.tp,
            error: ErrorCode::None,
            high_watermark: self.high_watermark,
            last_stable: self.last_stable,
            log_start: self.log_start,
            diverging: self.diverging,
            aborted: shared(self.aborted.unwrap_or_default()),
            entries: self.entries,
            bytes: self.bytes,
            leader: None,
        }
    }
}

impl Partition {
    /// One partition of a fetch (`Partition.fetchRecords`). `update` is false for a second read out of the purgatory, which
    /// tells nothing new of a follower.
    ///
    /// Errors: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE.
    // Inlined with what it calls, so that the answer, which is large, is made in its place.
    #[inline(always)]
    pub fn fetch(
        &mut self,
        from: &FetchPartition,
        fetcher: Fetcher,
        limit: &ReadLimit,
        update: bool,
        cx: &mut PartitionCx<'_>,
    ) -> Result<PartitionRead, ErrorCode> {
        self.check_fetch(from, fetcher)?;
        let read = self.read(from, fetcher.isolation(), limit)?;
        if let Fetcher::Follower { replica, broker_epoch } = fetcher
            && update
            && read.diverging.is_none()
        {
            let fetch = FollowerFetch {
                offset: self.batch_start(from.offset, &read),
                log_start: from.log_start,
                leader_end: read.log_end,
                at: cx.now,
                broker_epoch,
            };
            self.update_follower(replica, fetch, cx)?;
        }
        Ok(read)
    }

    /// The same for a fetch from the log's very end, which finds neither data nor an error nor a divergence: what it finds then.
    /// `None`, and nothing has happened, where it may be otherwise.
    pub fn fetch_at_end(
        &mut self,
        from: &FetchPartition,
        fetcher: Fetcher,
        update: bool,
        cx: &mut PartitionCx<'_>,
    ) -> Option<LogState> {
        let end = self.log.end();
        let epoch = from.last_fetched_epoch;
        let same_epoch = epoch == LeaderEpoch::UNKNOWN || self.log.latest_epoch() == Some(epoch);
        if from.offset != end || !same_epoch || self.check_fetch(from, fetcher).is_err() {
            return None;
        }
        let state = LogState {
            high_watermark: self.log.high_watermark(),
            last_stable: self.log.last_stable(),
            log_start: self.log.start(),
        };
        match fetcher {
            Fetcher::Follower { replica, broker_epoch } if update => {
                let log_start = from.log_start;
                let fetch = FollowerFetch { offset: end, log_start, leader_end: end, at: cx.now, broker_epoch };
                self.update_follower(replica, fetch, cx).ok()?;
            }
            Fetcher::Follower { .. } => {}
            Fetcher::Consumer { .. } => {
                self.log.locate_high_watermark();
            }
        }
        Some(state)
    }

    /// Whether another fetch like the one that found nothing at the log's end finds and does nothing new until something changes
    /// here: but that a follower has stood there then ([`Self::follower_stood_at_end`]).
    pub fn is_quiet(&self, fetcher: Fetcher) -> bool {
        match fetcher {
            // One that is not in the ISR may join it by any fetch.
            Fetcher::Follower { replica, .. } => matches!(self.isr, IsrState::Committed(isr) if isr.has(replica)),
            Fetcher::Consumer { isolation, .. } => match isolation {
                Isolation::Committed => self.log.last_stable() == self.log.end(),
                _ => self.log.high_watermark() == self.log.end(),
            },
        }
    }
    /// A follower has fetched from the log's end at `at`, and nothing has changed since the fetch before.
    pub fn follower_stood_at_end(&mut self, replica: BrokerId, at: Millis) {
        if let Some(r) = self.replicas.iter_mut().find(|r| r.id == replica) {
            r.stood_at_end(at);
        }
    }

    /// The answer for a partition that could not be read; names the new leader where the error says that it moved (KIP-951).
    pub fn fetch_error(&self, error: ErrorCode) -> FetchedPartition {
        let moved = matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
        FetchedPartition {
            leader: if moved { self.leader() } else { None },
            ..FetchedPartition::failed(self.tp, error)
        }
    }

    /// `Partition.readRecords`: the epoch check of L-10, then the log.
    #[inline(always)]
    fn read(
        &mut self,
        from: &FetchPartition,
        isolation: Isolation,
        limit: &ReadLimit,
    ) -> Result<PartitionRead, ErrorCode> {
        let mut read = PartitionRead {
            entries: Arc::default(),
            bytes: 0,
            aborted: None,
            diverging: self.diverging(from)?,
            high_watermark: self.log.high_watermark(),
            last_stable: self.log.last_stable(),
            log_start: self.log.start(),
            log_end: self.log.end(),
        };
        if read.diverging.is_none() {
            let data = self.log.read(from.offset, isolation, limit)?;
            (read.entries, read.bytes, read.aborted) = (data.entries, data.bytes, data.aborted);
        }
        Ok(read)
    }

    /// L-10: where the asker's log parts from this one. Comes before the range check, so that a follower that is ahead
    /// within an older epoch is told where to cut. An epoch unknown here as it is newer: OFFSET_OUT_OF_RANGE.
    fn diverging(&self, from: &FetchPartition) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
        let asked = from.last_fetched_epoch;
        if asked == LeaderEpoch::UNKNOWN {
            return Ok(None);
        }
        let Some((epoch, end)) = self.log.end_offset_for(asked) else {
            // Before KIP-279 an epoch that the leader does not know was no reason to cut.
            let cut = self.fixes.has(Fix::DivergingEpochAnswer);
            return if cut { Err(ErrorCode::OffsetOutOfRange) } else { Ok(None) };
        };
        if from.offset < self.log.start() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        if epoch < asked && !self.fixes.has(Fix::DivergingEpochAnswer) {
            return Ok(None);
        }
        Ok((epoch < asked || end < from.offset).then_some((epoch, end)))
    }

    /// Start of the batch that holds `offset`: what a follower's position is taken to be.
    fn batch_start(&mut self, offset: Offset, read: &PartitionRead) -> Offset {
        match read.entries.first() {
            Some(first) => first.base,
            None if offset >= read.log_end => offset,
            // Nothing fitted into the limit.
            None => {
                let one = ReadLimit { max_bytes: 1, min_one: true, high_watermark_seen: None };
                let batch = self.log.read(offset, Isolation::LogEnd, &one);
                batch.ok().and_then(|r| r.entries.first().map(|e| e.base)).unwrap_or(offset)
            }
        }
    }

    /// takes over a follower's position (`Partition.updateFollowerFetchState`). A fetch of an older incarnation of the
    /// follower is refused and leaves no trace.
    fn update_follower(
        &mut self,
        id: BrokerId,
        fetch: FollowerFetch,
        cx: &mut PartitionCx<'_>,
    ) -> Result<(), ErrorCode> {
        let registered = cx.brokers.alive_epoch(id).filter(|_| self.fixes.has(Fix::AlterPartitionBrokerEpoch));
        if fetch.broker_epoch != BrokerEpoch::UNKNOWN && registered.is_some_and(|epoch| epoch > fetch.broker_epoch) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let Some(replica) = self.replicas.iter_mut().find(|r| r.id == id) else {
            return Err(ErrorCode::NotLeaderOrFollower);
        };
        let before = replica.end;
        replica.fetched(fetch);
        self.maybe_expand_isr(id, cx);
        if before != fetch.offset && self.increase_high_watermark(cx.now, cx) {
            self.complete_waiting(cx);
        }
        Ok(())
    }

    /// a request under an older leader epoch is FENCED_LEADER_EPOCH, under a newer one UNKNOWN_LEADER_EPOCH; -1 is
    /// not checked. Before KIP-320 nothing was.
    pub fn check_leader_epoch(&self, epoch: LeaderEpoch) -> Result<(), ErrorCode> {
        match epoch {
            LeaderEpoch::UNKNOWN => Ok(()),
            _ if !self.fixes.has(Fix::FetchEpochCheck) => Ok(()),
            e if e < self.leader_epoch => Err(ErrorCode::FencedLeaderEpoch),
            e if e > self.leader_epoch => Err(ErrorCode::UnknownLeaderEpoch),
            _ => Ok(()),
        }
    }

    /// Whether the partition serves the fetch at all.
    fn check_fetch(&self, from: &FetchPartition, fetcher: Fetcher) -> Result<(), ErrorCode> {
        self.check_leader_epoch(from.leader_epoch)?;
        self.check_role(fetcher.leader_only())?;
        if let Fetcher::Follower { replica, .. } = fetcher
            && self.replica(replica).is_none()
        {
            // With a leader epoch that fits, this broker's assignment must be older than the asker's.
            let checked = from.leader_epoch != LeaderEpoch::UNKNOWN;
            return Err(if checked { ErrorCode::UnknownLeaderEpoch } else { ErrorCode::NotLeaderOrFollower });
        }
        Ok(())
    }
    fn check_role(&self, leader_only: bool) -> Result<(), ErrorCode> {
        let serves = self.open && (self.is_leader() || !leader_only);
        if serves { Ok(()) } else { Err(ErrorCode::NotLeaderOrFollower) }
    }

    /// ListOffsets (`Partition.fetchOffsetForTimestamp`): offset and its leader epoch. [`Isolation::LogEnd`] is a replica's
    /// request. L-13: a client is told OFFSET_NOT_AVAILABLE for latest while high watermark or last stable offset is below
    /// the start of this leadership, for it might be below what the last leader told.
    pub fn list_offset(
        &self,
        spec: OffsetSpec,
        isolation: Isolation,
        leader_epoch: LeaderEpoch,
        leader_only: bool,
    ) -> Result<(Offset, LeaderEpoch), ErrorCode> {
        self.check_leader_epoch(leader_epoch)?;
        self.check_role(leader_only)?;
        match spec {
            OffsetSpec::Earliest => {
                let start = self.log.start();
                let earliest = self.log.epochs().earliest().filter(|e| e.start <= start);
                Ok((start, earliest.map_or(LeaderEpoch::UNKNOWN, |e| e.epoch)))
            }
            OffsetSpec::Latest => {
                let latest = match isolation {
                    Isolation::LogEnd => return Ok((self.log.end(), self.leader_epoch)),
                    Isolation::HighWatermark => self.log.high_watermark(),
                    Isolation::Committed => self.log.last_stable(),
                };
                let behind = self.epoch_start.is_some_and(|start| latest < start);
                if behind { Err(ErrorCode::OffsetNotAvailable) } else { Ok((latest, self.leader_epoch)) }
            }
        }
    }

    /// OffsetsForLeaderEpoch (L-4; `Partition.lastOffsetForLeaderEpoch`): epoch and its end, -1 where undefined.
    pub fn end_offset_for_epoch(
        &self,
        epoch: LeaderEpoch,
        current_epoch: LeaderEpoch,
        leader_only: bool,
    ) -> Result<(LeaderEpoch, Offset), ErrorCode> {
        self.check_leader_epoch(current_epoch)?;
        self.check_role(leader_only)?;
        Ok(self.log.end_offset_for(epoch).unwrap_or((LeaderEpoch::UNKNOWN, Offset::UNKNOWN)))
    }

    /// DeleteRecords up to `to`, -1 for the high watermark; gives the low watermark: the least log start of the replicas
    /// that are alive (`Partition.deleteRecordsOnLeader`). Errors: NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE.
    pub fn delete_records(&mut self, to: Offset, cx: &mut PartitionCx<'_>) -> Result<Offset, ErrorCode> {
        if !self.is_leader() {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let to = if to == Offset::UNKNOWN { self.log.high_watermark() } else { to };
        if to < Offset(0) {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        self.log.increment_log_start(to)?;
        let alive = self.replicas.iter().filter(|r| cx.brokers.alive_epoch(r.id).is_some());
        Ok(alive.map(|r| r.log_start).fold(self.log.start(), Offset::min))
    }
}

impl FetchedPartition {
    /// An answer that is an error: nothing else is known.
    pub fn failed(tp: TopicPartition, error: ErrorCode) -> Self {
        Self {
            tp,
            error,
            high_watermark: Offset::UNKNOWN,
            last_stable: Offset::UNKNOWN,
            log_start: Offset::UNKNOWN,
            diverging: None,
            aborted: Arc::default(),
            entries: Arc::default(),
            bytes: 0,
            leader: None,
        }
    }
}
