//! Serving fetches: reading the partitions of one and holding it until there is enough (`DelayedFetch`).

use super::fetch_session::{FetchContext, FetchSessionCache, Told};
use super::partitions::Partitions;
use super::slots::{Slot, SlotSet};
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

/// A partition of a fetch.
#[derive(Clone, Copy, Debug)]
struct WaitingPartition {
    wanted: FetchPartition,
    slot: Slot,
    /// Another read may find something: the first one did, or the partition has changed since.
    news: bool,
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
    /// Which partitions those are.
    members: SlotSet,
}
impl WaitingFetch {
    /// Notes that the partition in `slot` has changed.
    fn changed(&mut self, slot: Slot) {
        if self.members.has(slot) {
            self.partitions.iter_mut().filter(|p| p.slot == slot).for_each(|partition| partition.news = true);
        }
    }
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
    /// Of fetches that waited.
    waited: Vec<(Vec<WaitingPartition>, SlotSet)>,
}
impl Room {
    fn take(&mut self) -> (Vec<WaitingPartition>, SlotSet) {
        self.waited.pop().unwrap_or_default()
    }
    fn give_back(&mut self, mut partitions: Vec<WaitingPartition>, mut members: SlotSet) {
        partitions.clear();
        members.clear();
        self.waited.push((partitions, members));
    }
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
        let committed = fetcher.isolation() == Isolation::Committed;
        let (mut waiting, mut members) = self.room.take();
        let context = self.sessions.begin(request, |wanted, slot, told| {
            let seen = if committed { partitions.get(wanted.tp) } else { None };
            let high_watermark_seen = seen.map_or(Offset::UNKNOWN, |p| p.log().high_watermark());
            members.insert(slot);
            waiting.push(WaitingPartition { wanted, slot, news: true, told, high_watermark_seen });
        });
        let read = &mut self.room.read;
        read_partitions(&mut waiting, fetcher, max_bytes, true, partitions, cx, read);
        let min_bytes = request.min_bytes.min(max_bytes);
        let bytes: u64 = read.iter().map(|p| u64::from(p.bytes)).sum();
        let at_once = request.max_wait <= Millis::ZERO
            || waiting.is_empty()
            || bytes >= u64::from(min_bytes)
            || read.iter().any(|p| !p.error.is_ok() || p.diverging.is_some());
        if at_once {
            return Some(self.reply(context, waiting, members));
        }
        read.clear();
        let deadline = cx.now + request.max_wait;
        let fetch = WaitingFetch { fetcher, context, min_bytes, max_bytes, deadline, partitions: waiting, members };
        // Where a follower's read gave nothing and told nothing, its log ends with the leader's, in every partition.
        let at_ends = bytes == 0 && matches!(fetcher, Fetcher::Follower { .. });
        if !at_ends && self.is_complete(&fetch, |_| true, partitions) {
            return Some(self.answer(fetch, partitions, cx));
        }
        self.waiting.insert(token, fetch);
        None
    }

    /// Makes the answer of what was read.
    fn reply(&mut self, context: FetchContext, waiting: Vec<WaitingPartition>, members: SlotSet) -> FetchReply {
        // A session that exists knows what is wanted of it.
        let of_full = match context {
            FetchContext::Full => waiting.iter().map(|p| p.wanted).collect(),
            _ => Vec::new(),
        };
        let reply = self.sessions.finish(context, &of_full, &mut self.room.read);
        self.room.give_back(waiting, members);
        reply
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
        // All are noted before the first is looked at: an answer holds what is there.
        for tp in changed {
            let Some(slot) = self.sessions.slot(*tp) else { continue };
            self.waiting.values_mut().for_each(|fetch| fetch.changed(slot));
        }
        let mut tokens = std::mem::take(&mut self.room.tokens);
        for tp in changed {
            let Some(slot) = self.sessions.slot(*tp) else { continue };
            tokens.extend(self.waiting.iter().filter(|(_, fetch)| fetch.members.has(slot)).map(|(token, _)| token));
            for token in tokens.drain(..) {
                // Where nothing has changed it is as the first read left it.
                let complete = |fetch| self.is_complete(fetch, |partition| partition.news, partitions);
                if self.waiting.get(token).is_some_and(complete) {
                    self.finish(token, partitions, cx, answers);
                }
            }
        }
        self.room.tokens = tokens;
    }

    /// Metadata has been applied, or something else was done to partitions of which [`check`](Self::check) is not told: what
    /// waits is read whole when it is answered.
    pub fn all_may_have_changed(&mut self) {
        self.waiting.values_mut().flat_map(|fetch| &mut fetch.partitions).for_each(|partition| partition.news = true);
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
        if let Some(WaitingFetch { partitions, members, .. }) = self.waiting.remove(token) {
            self.room.give_back(partitions, members);
        }
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
        let WaitingFetch { fetcher, context, max_bytes, partitions: mut waiting, members, .. } = fetch;
        read_partitions(&mut waiting, fetcher, max_bytes, false, partitions, cx, &mut self.room.read);
        self.reply(context, waiting, members)
    }

    /// `DelayedFetch.tryComplete`: enough bytes below the bound of the fetcher's isolation, or something that the asker has
    /// to know. A follower waits for the log end, so that a high watermark that moves does not wake it (R-13, KAFKA-9731).
    /// Only `these` partitions are looked at.
    fn is_complete(
        &self,
        fetch: &WaitingFetch,
        these: impl Fn(&WaitingPartition) -> bool,
        partitions: &mut Partitions,
    ) -> bool {
        let isolation = fetch.fetcher.isolation();
        let mut bytes = 0u64;
        for WaitingPartition { wanted, high_watermark_seen, .. } in fetch.partitions.iter().filter(|p| these(p)) {
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
/// that goes on is left out. Partitions without news are not read again, and what a read finds of each is noted.
fn read_partitions(
    waiting: &mut [WaitingPartition],
    fetcher: Fetcher,
    max_bytes: u32,
    update: bool,
    partitions: &mut Partitions,
    cx: &mut PartitionCx<'_>,
    read: &mut Vec<FetchedPartition>,
) {
    let mut budget = max_bytes;
    let mut min_one = true;
    for WaitingPartition { wanted, news, told, high_watermark_seen, .. } in waiting.iter_mut().filter(|p| p.news) {
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
            *news = *told != Some(tells);
            if *news {
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
