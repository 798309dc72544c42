//! Serving fetches: reading the partitions of one and holding it until there is enough (`DelayedFetch`).

use super::fetch_session::{FetchContext, FetchSessionCache, Told};
use super::partitions::Partitions;
use crate::base::{Fix, Fixes, LeaderEpoch, Millis, Offset, PartitionMap, SmallMap, Stream, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::log::{Isolation, ReadLimit};
use crate::kafka::messages::{FetchPartition, FetchReply, FetchRequest, FetchedPartition};
use crate::kafka::partition::{Fetcher, Partition, PartitionCx};

/// A fetch that waited is answered.
#[derive(Clone, Debug)]
pub struct FetchAnswer {
    /// The broker's number of the request.
    pub token: u64,
    /// The answer.
    pub reply: FetchReply,
}

/// A partition of a fetch.
#[derive(Clone, Copy, Debug)]
struct WaitingPartition {
    wanted: FetchPartition,
    /// What the asker knows of it, in a session that goes on.
    told: Option<Told>,
    /// High watermark when a reader of committed data asked: what it may have seen if it races (KAFKA-9807).
    high_watermark_seen: Offset,
}

#[derive(Clone, Debug)]
struct WaitingFetch {
    fetcher: Fetcher,
    context: FetchContext,
    min_bytes: u32,
    max_bytes: u32,
    deadline: Millis,
    partitions: Vec<WaitingPartition>,
}

/// The fetch requests of a broker: its sessions and those that wait.
#[derive(Clone, Debug)]
pub struct DelayedFetches {
    fixes: Fixes,
    sessions: FetchSessionCache,
    /// By token, that is in the order of their coming.
    waiting: SmallMap<u64, WaitingFetch>,
    /// Who waits for a partition; tokens that have been answered are dropped when met.
    watchers: PartitionMap<Vec<u64>>,
    room: Room,
}

/// Lists that are empty between calls, kept for their memory.
#[derive(Clone, Debug, Default)]
struct Room {
    read: Vec<FetchedPartition>,
    /// Of fetches that waited.
    partitions: Vec<Vec<WaitingPartition>>,
}
impl Room {
    fn give_back(&mut self, mut partitions: Vec<WaitingPartition>) {
        partitions.clear();
        self.partitions.push(partitions);
    }
}

impl DelayedFetches {
    /// `fetch.max.bytes` of the broker: the most that a consumer is given at once.
    pub const MAX_BYTES: u32 = 57_671_680;

    /// None wait. Session ids are drawn from `ids`.
    pub fn new(ids: Stream, fixes: Fixes) -> Self {
        let sessions = FetchSessionCache::new(ids);
        Self { fixes, sessions, waiting: SmallMap::new(), watchers: PartitionMap::new(), room: Room::default() }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// When [`expire`](Self::expire) has to be called.
    pub fn deadline(&self) -> Option<Millis> {
        self.waiting.values().map(|w| w.deadline).min()
    }

    /// Takes a fetch (`KafkaApis.handleFetchRequest`, `ReplicaManager.fetchMessages`). Answered at once if there is enough,
    /// an error, a divergence or nothing to wait for; else the answer comes from [`check`](Self::check) or
    /// [`expire`](Self::expire) under `token`. Tokens ascend.
    pub fn fetch(
        &mut self,
        token: u64,
        request: &FetchRequest,
        partitions: &mut Partitions,
        cx: &mut PartitionCx<'_>,
    ) -> Option<FetchReply> {
        let fetcher = match request.replica {
            Some((replica, broker_epoch)) => Fetcher::Follower { replica, broker_epoch },
            None => Fetcher::Consumer { isolation: request.isolation, any_replica: false },
        };
        let max_bytes = match fetcher {
            Fetcher::Follower { .. } => request.max_bytes,
            Fetcher::Consumer { .. } => request.max_bytes.min(Self::MAX_BYTES),
        };
        let committed = fetcher.isolation() == Isolation::Committed;
        let mut waiting = self.room.partitions.pop().unwrap_or_default();
        let context = self.sessions.begin(request, |wanted, told| {
            let seen = partitions.get(wanted.tp).filter(|_| committed);
            let high_watermark_seen = seen.map_or(Offset::UNKNOWN, |p| p.log().high_watermark());
            waiting.push(WaitingPartition { wanted, told, high_watermark_seen });
        });
        let read = &mut self.room.read;
        read_partitions(&waiting, fetcher, max_bytes, true, partitions, cx, read);
        let min_bytes = request.min_bytes.min(max_bytes);
        let bytes: u64 = read.iter().map(|p| u64::from(p.bytes)).sum();
        let at_once = request.max_wait <= Millis::ZERO
            || waiting.is_empty()
            || bytes >= u64::from(min_bytes)
            || read.iter().any(|p| !p.error.is_ok() || p.diverging.is_some());
        if at_once {
            return Some(self.reply(context, waiting));
        }
        read.clear();
        let deadline = cx.now + request.max_wait;
        let fetch = WaitingFetch { fetcher, context, min_bytes, max_bytes, deadline, partitions: waiting };
        // Where a follower's read gave nothing and told nothing, its log ends with the leader's, in every partition.
        let at_ends = bytes == 0 && matches!(fetcher, Fetcher::Follower { .. });
        if !at_ends && self.is_complete(&fetch, partitions) {
            return Some(self.answer(fetch, partitions, cx));
        }
        let Self { waiting, watchers, .. } = self;
        waiting.insert(token, fetch);
        for w in &waiting[token].partitions {
            let tokens = watchers.or_default(w.wanted.tp);
            tokens.push(token);
            // A quiet partition beside busy ones collects tokens that were answered through those.
            if tokens.len() > 2 * waiting.len() + 8 {
                tokens.retain(|t| waiting.contains_key(*t));
            }
        }
        None
    }

    /// Makes the answer of what was read.
    fn reply(&mut self, context: FetchContext, waiting: Vec<WaitingPartition>) -> FetchReply {
        // A session that exists knows what is wanted of it.
        let of_full = match context {
            FetchContext::Full => waiting.iter().map(|p| p.wanted).collect(),
            _ => Vec::new(),
        };
        let reply = self.sessions.finish(context, &of_full, &mut self.room.read);
        self.room.give_back(waiting);
        reply
    }

    /// Looks at the fetches that wait for a partition whose log end, high watermark or role has changed. A fetch watched
    /// under several partitions is looked at as a whole. Puts the answers behind those in `answers`.
    pub fn check(
        &mut self,
        tp: TopicPartition,
        partitions: &mut Partitions,
        cx: &mut PartitionCx<'_>,
        answers: &mut Vec<FetchAnswer>,
    ) {
        // Taken out while they are looked at, and put back in the same room.
        let Some(mut tokens) = self.watchers.get_mut(tp).map(std::mem::take) else { return };
        tokens.retain(|token| {
            let Some(fetch) = self.waiting.get(*token) else { return false };
            let complete = self.is_complete(fetch, partitions);
            if complete {
                self.finish(*token, partitions, cx, answers);
            }
            !complete
        });
        if let Some(watchers) = self.watchers.get_mut(tp) {
            *watchers = tokens;
        }
    }

    /// Answers the fetches whose wait is over.
    pub fn expire(&mut self, partitions: &mut Partitions, cx: &mut PartitionCx<'_>) -> Vec<FetchAnswer> {
        let mut over: Vec<_> =
            self.waiting.iter().filter(|(_, w)| w.deadline <= cx.now).map(|(t, w)| (w.deadline, t)).collect();
        over.sort_unstable();
        let mut answers = Vec::new();
        for (_, token) in over {
            self.finish(token, partitions, cx, &mut answers);
        }
        self.forget_answered();
        answers
    }

    /// The connection of a waiting fetch is gone.
    pub fn cancel(&mut self, token: u64) {
        if self.waiting.remove(token).is_some() {
            self.forget_answered();
        }
    }

    fn forget_answered(&mut self) {
        let Self { waiting, watchers, .. } = self;
        watchers.values_mut().for_each(|tokens| tokens.retain(|t| waiting.contains_key(*t)));
    }

    fn finish(
        &mut self,
        token: u64,
        partitions: &mut Partitions,
        cx: &mut PartitionCx<'_>,
        answers: &mut Vec<FetchAnswer>,
    ) {
        if let Some(fetch) = self.waiting.remove(token) {
            answers.push(FetchAnswer { token, reply: self.answer(fetch, partitions, cx) });
        }
    }

    /// Reads again; a follower's position is not taken over a second time.
    fn answer(&mut self, fetch: WaitingFetch, partitions: &mut Partitions, cx: &mut PartitionCx<'_>) -> FetchReply {
        let WaitingFetch { fetcher, context, max_bytes, partitions: waiting, .. } = fetch;
        read_partitions(&waiting, fetcher, max_bytes, false, partitions, cx, &mut self.room.read);
        self.reply(context, waiting)
    }

    /// `DelayedFetch.tryComplete`: enough bytes below the bound of the fetcher's isolation, or something that the asker has
    /// to know. A follower waits for the log end, so that a high watermark that moves does not wake it (R-13, KAFKA-9731).
    fn is_complete(&self, fetch: &WaitingFetch, partitions: &mut Partitions) -> bool {
        let isolation = fetch.fetcher.isolation();
        let mut bytes = 0u64;
        for WaitingPartition { wanted, high_watermark_seen, .. } in &fetch.partitions {
            let Ok(partition) = partitions.get_or_error(wanted.tp) else { return true };
            let epoch = partition.check_leader_epoch(wanted.leader_epoch);
            let refused = epoch == Err(ErrorCode::FencedLeaderEpoch);
            if refused || (fetch.fetcher.leader_only() && !partition.is_leader()) {
                return true;
            }
            let bound = self.bound(partition, isolation, *high_watermark_seen);
            if wanted.offset > bound {
                // The leader's log was cut, or the reader is ahead of this leader's high watermark.
                return true;
            }
            if wanted.offset < bound {
                bytes += available(partition, wanted, isolation, bound, fetch.min_bytes);
            }
            if diverges(partition, wanted, self.fixes) {
                return true;
            }
        }
        bytes >= u64::from(fetch.min_bytes)
    }

    /// Upper bound of a read.
    fn bound(&self, partition: &mut Partition, isolation: Isolation, seen: Offset) -> Offset {
        let log = partition.log_mut();
        match isolation {
            Isolation::LogEnd => log.end(),
            Isolation::HighWatermark => log.locate_high_watermark(),
            Isolation::Committed if self.fixes.has(Fix::SingleHighWatermarkRead) => log.last_stable(),
            Isolation::Committed => match log.first_unstable() {
                Some(unstable) if unstable < seen => unstable,
                _ => log.high_watermark(),
            },
        }
    }
}

/// Bytes that a read would give, as far as it matters whether they reach `min_bytes`.
fn available(
    partition: &mut Partition,
    wanted: &FetchPartition,
    isolation: Isolation,
    bound: Offset,
    min_bytes: u32,
) -> u64 {
    if min_bytes <= 1 {
        return 1;
    }
    let limit = ReadLimit { max_bytes: wanted.max_bytes, min_one: true, high_watermark_seen: None };
    match partition.log_mut().read(wanted.offset, isolation, &limit) {
        // A read that ends at a segment border below the bound is always answered at once.
        Ok(read) if read.bytes < wanted.max_bytes && read.entries.last().is_some_and(|e| e.next() < bound) => {
            u64::from(u32::MAX)
        }
        Ok(read) => u64::from(read.bytes.min(wanted.max_bytes)),
        Err(_) => u64::from(u32::MAX),
    }
}

/// Whether the leader's log was cut or replaced under a waiting fetch so that the asker has to cut too.
fn diverges(partition: &Partition, wanted: &FetchPartition, fixes: Fixes) -> bool {
    if wanted.last_fetched_epoch == LeaderEpoch::UNKNOWN || !fixes.has(Fix::DivergingEpochAnswer) {
        return false;
    }
    match partition.log().end_offset_for(wanted.last_fetched_epoch) {
        Some((epoch, end)) => epoch < wanted.last_fetched_epoch || end < wanted.offset,
        None => true,
    }
}

/// reads the partitions in order; the budget shrinks, and until the first partition with data a read returns at
/// least one batch, however large (`ReplicaManager.readFromLog`). Into `read`, which is empty; what is no news in a session
/// that goes on is left out.
fn read_partitions(
    waiting: &[WaitingPartition],
    fetcher: Fetcher,
    max_bytes: u32,
    update: bool,
    partitions: &mut Partitions,
    cx: &mut PartitionCx<'_>,
    read: &mut Vec<FetchedPartition>,
) {
    let mut budget = max_bytes;
    let mut min_one = true;
    for WaitingPartition { wanted, told, high_watermark_seen } in waiting {
        let limit = ReadLimit {
            max_bytes: wanted.max_bytes.min(budget),
            min_one,
            high_watermark_seen: Some(*high_watermark_seen),
        };
        let partition = match partitions.get_or_error(wanted.tp) {
            Ok(partition) => partition,
            Err(error) => {
                read.push(FetchedPartition::failed(wanted.tp, error));
                continue;
            }
        };
        // Most partitions of a fetch have nothing for it.
        if let Some(state) = partition.fetch_at_end(wanted, fetcher, update, cx) {
            let tells = Told { high_watermark: state.high_watermark, log_start: state.log_start };
            if *told != Some(tells) {
                read.push(state.into_fetched(wanted.tp));
            }
            continue;
        }
        let mut answer = match partition.fetch(wanted, fetcher, &limit, update, cx) {
            Ok(read) => read.into_fetched(partition),
            Err(error) => partition.fetch_error(error),
        };
        // A first batch that was cut off is of no use to anybody.
        if answer.entries.is_empty() {
            answer.bytes = 0;
        }
        min_one &= answer.bytes == 0;
        budget = budget.saturating_sub(answer.bytes);
        read.push(answer);
    }
}

#[cfg(test)]
mod tests;
