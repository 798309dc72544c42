//! Serving fetches: reading the partitions of one and holding it until there is enough (`DelayedFetch`).

use super::fetch_session::{FetchContext, FetchSession, FetchSessionCache, Told};
use super::partitions::Partitions;
use super::slots::Slot;
use crate::base::{Fix, Fixes, LeaderEpoch, Millis, Offset, SmallMap, Stream, TopicPartition};
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

/// A partition of a fetch that goes on with no session.
#[derive(Clone, Copy, Debug)]
struct WaitingPartition {
    wanted: FetchPartition,
    slot: Slot,
    /// As of [`CachedPartition::seen`](super::fetch_session::CachedPartition::seen).
    seen: Offset,
}

#[derive(Clone, Debug)]
struct WaitingFetch {
    fetcher: Fetcher,
    context: FetchContext,
    min_bytes: u32,
    max_bytes: u32,
    deadline: Millis,
    /// What it wants, if not what its session holds.
    own: Vec<WaitingPartition>,
}

/// The fetch requests of a broker: its sessions and those that wait.
#[derive(Clone, Debug)]
pub struct DelayedFetches {
    fixes: Fixes,
    sessions: FetchSessionCache,
    /// By token, that is in the order of their coming.
    waiting: SmallMap<u64, WaitingFetch>,
    room: Room,
}

/// Lists that are empty between calls, kept for their memory.
#[derive(Clone, Debug, Default)]
struct Room {
    read: Vec<FetchedPartition>,
    tokens: Vec<u64>,
}

impl DelayedFetches {
    /// `fetch.max.bytes` of the broker: the most that a consumer is given at once.
    pub const MAX_BYTES: u32 = 57_671_680;

    /// None wait. Session ids are drawn from `ids`.
    pub fn new(ids: Stream, fixes: Fixes) -> Self {
        let sessions = FetchSessionCache::new(ids);
        Self { fixes, sessions, waiting: SmallMap::new(), room: Room::default() }
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
        let context = self.sessions.begin(request, partitions, cx.now);
        let own = if let FetchContext::Incremental { .. } | FetchContext::Error(_) = context {
            Vec::new()
        } else {
            let mut own = |wanted: &FetchPartition| {
                let slot = self.sessions.give_slot(wanted.tp);
                WaitingPartition { wanted: *wanted, slot, seen: Offset::UNKNOWN }
            };
            request.partitions.iter().map(&mut own).collect()
        };
        let min_bytes = request.min_bytes.min(max_bytes);
        let deadline = cx.now + request.max_wait;
        let mut fetch = WaitingFetch { fetcher, context, min_bytes, max_bytes, deadline, own };
        self.read(&mut fetch, true, partitions, cx);
        let read = &mut self.room.read;
        let bytes: u64 = read.iter().map(|p| u64::from(p.bytes)).sum();
        let wants_nothing = fetch.own.is_empty() && !matches!(context, FetchContext::Incremental { .. });
        let at_once = request.max_wait <= Millis::ZERO
            || wants_nothing
            || bytes >= u64::from(min_bytes)
            || read.iter().any(|p| !p.error.is_ok() || p.diverging.is_some());
        if at_once {
            return Some(self.reply(fetch));
        }
        read.clear();
        // Where a follower's read gave nothing and told nothing, its log ends with the leader's, in every partition.
        let at_ends = bytes == 0 && matches!(fetcher, Fetcher::Follower { .. });
        if !at_ends && self.is_complete(&fetch, partitions) {
            return Some(self.answer(fetch, partitions, cx));
        }
        self.waiting.insert(token, fetch);
        None
    }

    /// Reads what a fetch wants, as far as there may be something.
    fn read(&mut self, fetch: &mut WaitingFetch, update: bool, partitions: &mut Partitions, cx: &mut PartitionCx<'_>) {
        let mut reading = Reading::new(fetch.fetcher, fetch.max_bytes, update, &mut self.room.read);
        if let Some(FetchSession { partitions: mine, awake, .. }) = self.sessions.session_mut(fetch.context) {
            for p in mine.iter_mut() {
                if awake.has(p.slot) && reading.one(&p.wanted, &mut p.seen, Some(p.told), partitions, cx) {
                    awake.remove(p.slot);
                }
            }
            return;
        }
        for p in &mut fetch.own {
            reading.one(&p.wanted, &mut p.seen, None, partitions, cx);
        }
    }

    /// Makes the answer of what was read.
    fn reply(&mut self, fetch: WaitingFetch) -> FetchReply {
        let follower = match fetch.fetcher {
            Fetcher::Follower { replica, .. } => Some(replica),
            Fetcher::Consumer { .. } => None,
        };
        // A session that exists knows what is wanted of it.
        let of_full = match fetch.context {
            FetchContext::Full => fetch.own.iter().map(|p| p.wanted).collect(),
            _ => Vec::new(),
        };
        self.sessions.finish(fetch.context, &of_full, follower, &mut self.room.read)
    }

    /// Looks at the fetches that wait for partitions whose log end, high watermark or role has changed, for one partition
    /// after the other. A fetch is looked at as a whole. Puts the answers behind those in `answers`.
    pub fn check(
        &mut self,
        changed: &[TopicPartition],
        partitions: &mut Partitions,
        cx: &mut PartitionCx<'_>,
        answers: &mut Vec<FetchAnswer>,
    ) {
        // All are awake before the first is looked at: an answer holds what is there.
        for tp in changed {
            if let Some(slot) = self.sessions.slot(*tp) {
                self.sessions.wake(slot, partitions);
            }
        }
        let mut tokens = std::mem::take(&mut self.room.tokens);
        for tp in changed {
            let Some(slot) = self.sessions.slot(*tp) else { continue };
            let waits = |fetch: &WaitingFetch| match self.sessions.session(fetch.context) {
                Some(session) => session.has(slot),
                None => fetch.own.iter().any(|p| p.slot == slot),
            };
            tokens.extend(self.waiting.iter().filter(|(_, fetch)| waits(fetch)).map(|(token, _)| token));
            for token in tokens.drain(..) {
                if self.waiting.get(token).is_some_and(|fetch| self.is_complete(fetch, partitions)) {
                    self.finish(token, partitions, cx, answers);
                }
            }
        }
        self.room.tokens = tokens;
    }

    /// Metadata has been applied, ISRs are about to be looked at or have changed, or something else is done to partitions of
    /// which [`check`](Self::check) is not told: sessions say what they had not told yet, and look at everything again.
    pub fn all_may_change(&mut self, partitions: &mut Partitions) {
        self.sessions.wake_all(partitions);
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
        answers
    }

    /// The connection of a waiting fetch is gone.
    pub fn cancel(&mut self, token: u64) {
        self.waiting.remove(token);
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
    fn answer(&mut self, mut fetch: WaitingFetch, partitions: &mut Partitions, cx: &mut PartitionCx<'_>) -> FetchReply {
        self.read(&mut fetch, false, partitions, cx);
        self.reply(fetch)
    }

    /// `DelayedFetch.tryComplete`: enough bytes below the bound of the fetcher's isolation, or something that the asker has
    /// to know. A follower waits for the log end, so that a high watermark that moves does not wake it (R-13, KAFKA-9731).
    /// Where nothing has changed it is as the last read left it.
    fn is_complete(&self, fetch: &WaitingFetch, partitions: &mut Partitions) -> bool {
        let mut bytes = 0u64;
        let mut enough = |wanted, seen| match self.waits_for(fetch, wanted, seen, partitions) {
            Some(available) => {
                bytes += available;
                false
            }
            None => true,
        };
        let told = match self.sessions.session(fetch.context) {
            Some(session) => session.awake().any(|p| enough(&p.wanted, p.seen)),
            None => fetch.own.iter().any(|p| enough(&p.wanted, p.seen)),
        };
        told || bytes >= u64::from(fetch.min_bytes)
    }
    /// How many bytes a partition has for a fetch that waits; `None` where it has something that the asker must know.
    fn waits_for(
        &self,
        fetch: &WaitingFetch,
        wanted: &FetchPartition,
        seen: Offset,
        partitions: &mut Partitions,
    ) -> Option<u64> {
        let isolation = fetch.fetcher.isolation();
        let partition = partitions.get_or_error(wanted.tp).ok()?;
        let refused = partition.check_leader_epoch(wanted.leader_epoch) == Err(ErrorCode::FencedLeaderEpoch);
        if refused || (fetch.fetcher.leader_only() && !partition.is_leader()) {
            return None;
        }
        let bound = self.bound(partition, isolation, seen);
        if wanted.offset > bound || diverges(partition, wanted, self.fixes) {
            // The leader's log was cut, or the reader is ahead of this leader's high watermark.
            return None;
        }
        Some(if wanted.offset < bound { available(partition, wanted, isolation, bound, fetch.min_bytes) } else { 0 })
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

/// reads partitions in order; the budget shrinks, and until the first partition with data a read returns at least one
/// batch, however large (`ReplicaManager.readFromLog`). What is no news in a session that goes on is left out.
struct Reading<'r> {
    fetcher: Fetcher,
    budget: u32,
    min_one: bool,
    /// A follower's position is taken over.
    update: bool,
    read: &'r mut Vec<FetchedPartition>,
}
impl<'r> Reading<'r> {
    fn new(fetcher: Fetcher, max_bytes: u32, update: bool, read: &'r mut Vec<FetchedPartition>) -> Self {
        Self { fetcher, budget: max_bytes, min_one: true, update, read }
    }
    /// Reads one; whether it is quiet from now on.
    fn one(
        &mut self,
        wanted: &FetchPartition,
        seen: &mut Offset,
        told: Option<Told>,
        partitions: &mut Partitions,
        cx: &mut PartitionCx<'_>,
    ) -> bool {
        let partition = match partitions.get_or_error(wanted.tp) {
            Ok(partition) => partition,
            Err(error) => {
                self.read.push(FetchedPartition::failed(wanted.tp, error));
                return false;
            }
        };
        if self.update {
            let committed = self.fetcher.isolation() == Isolation::Committed;
            *seen = if committed { partition.log().high_watermark() } else { Offset::UNKNOWN };
        }
        // Most partitions of a fetch have nothing for it.
        if let Some(state) = partition.fetch_at_end(wanted, self.fetcher, self.update, cx) {
            let tells = Told { high_watermark: state.high_watermark, log_start: state.log_start };
            if told != Some(tells) {
                self.read.push(state.into_fetched(wanted.tp));
                return false;
            }
            return partition.is_quiet(self.fetcher);
        }
        let limit = ReadLimit {
            max_bytes: wanted.max_bytes.min(self.budget),
            min_one: self.min_one,
            high_watermark_seen: Some(*seen),
        };
        let mut answer = match partition.fetch(wanted, self.fetcher, &limit, self.update, cx) {
            Ok(read) => read.into_fetched(partition),
            Err(error) => partition.fetch_error(error),
        };
        // A first batch that was cut off is of no use to anybody.
        if answer.entries.is_empty() {
            answer.bytes = 0;
        }
        self.min_one &= answer.bytes == 0;
        self.budget = self.budget.saturating_sub(answer.bytes);
        self.read.push(answer);
        false
    }
}

#[cfg(test)]
mod tests;
