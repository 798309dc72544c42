//! Fetch sessions at the broker (KIP-227; X-12): which partitions a fetch reads and in which order, and which of them its
//! answer names.

use super::partitions::Partitions;
use super::slots::{Slot, SlotSet, Slots};
use crate::base::{BrokerId, Millis, Offset, SmallMap, Stream, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::messages::{FetchPartition, FetchReply, FetchRequest, FetchedPartition};

/// What the client of a session was told of a partition last. An answer without data that says the same is no news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// High watermark.
    pub high_watermark: Offset,
    /// Log start.
    pub log_start: Offset,
}
impl Told {
    const NOTHING: Self = Self { high_watermark: Offset::UNKNOWN, log_start: Offset::UNKNOWN };
}

/// A partition of a session: what is wanted, and what the client was told last.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedPartition {
    pub wanted: FetchPartition,
    pub slot: Slot,
    pub told: Told,
    /// High watermark when the fetch came that goes on or was the last: what a reader of committed data may have seen if it
    /// races (KAFKA-9807).
    pub seen: Offset,
}

impl CachedPartition {
    fn new(wanted: FetchPartition, slots: &mut Slots) -> Self {
        Self { wanted, slot: slots.of(wanted.tp), told: Told::NOTHING, seen: Offset::UNKNOWN }
    }

    /// Whether an incremental answer has to name the partition; takes over what it will say
    /// (`CachedPartition.maybeUpdateResponseData`).
    fn changed(&mut self, read: &FetchedPartition) -> bool {
        let tells = Told { high_watermark: read.high_watermark, log_start: read.log_start };
        let news = read.bytes > 0 || self.told != tells || !read.error.is_ok() || read.diverging.is_some();
        // After an error the partition is named again as soon as the error has gone.
        self.told = if read.error.is_ok() { tells } else { Told { high_watermark: Offset::UNKNOWN, ..tells } };
        news
    }
}

/// A session: its partitions in reading order.
///
/// Most of them stand still in most fetches: the client has what there is, and knows it. They are *quiet*: a fetch does not
/// look at them again until they change ([`FetchSession::wake`]). What it would have told of a follower that stands at their end
/// is that it stood there then: that is made up for when it is asked for ([`FetchSession::settle`]).
#[derive(Clone, Debug)]
pub(super) struct FetchSession {
    epoch: i32,
    pub partitions: Vec<CachedPartition>,
    members: SlotSet,
    /// Those that are not quiet.
    pub awake: SlotSet,
    /// Whose fetches they are, if a follower's.
    follower: Option<BrokerId>,
    /// When the last fetch came.
    fetched_at: Millis,
}

impl FetchSession {
    fn new(follower: Option<BrokerId>, partitions: Vec<CachedPartition>) -> Self {
        let (members, awake) = (SlotSet::default(), SlotSet::default());
        let epoch = next_epoch(INITIAL_EPOCH);
        let mut session = Self { epoch, partitions, members, awake, follower, fetched_at: Millis::ZERO };
        session.count_anew();
        session
    }
    /// All of its partitions are members, and awake.
    fn count_anew(&mut self) {
        self.members.clear();
        self.partitions.iter().for_each(|p| self.members.insert(p.slot));
        self.awake.clone_from(&self.members);
    }
    fn position(&self, tp: TopicPartition) -> Option<usize> {
        self.partitions.iter().position(|p| p.wanted.tp == tp)
    }
    pub fn has(&self, slot: Slot) -> bool {
        self.members.has(slot)
    }
    /// The partitions that the next read looks at, in order.
    pub fn awake(&self) -> impl Iterator<Item = &CachedPartition> {
        self.partitions.iter().filter(|p| self.awake.has(p.slot))
    }
    /// A quiet partition is looked at again.
    pub fn wake(&mut self, slot: Slot, held: &mut Partitions) {
        if self.members.has(slot) && !self.awake.has(slot) {
            self.awake.insert(slot);
            let (follower, at) = (self.follower, self.fetched_at);
            for p in self.partitions.iter_mut().filter(|p| p.slot == slot) {
                p.seen = p.told.high_watermark;
                stood_at_end(follower, at, p.wanted.tp, held);
            }
        }
    }
    /// Tells the quiet partitions how long a follower has stood at their end.
    fn settle(&self, held: &mut Partitions) {
        if self.follower.is_some() {
            let quiet = self.partitions.iter().filter(|p| !self.awake.has(p.slot));
            quiet.for_each(|p| stood_at_end(self.follower, self.fetched_at, p.wanted.tp, held));
        }
    }
    /// All partitions are looked at again.
    fn wake_all(&mut self, held: &mut Partitions) {
        self.settle(held);
        for p in self.partitions.iter_mut().filter(|p| !self.awake.has(p.slot)) {
            p.seen = p.told.high_watermark;
        }
        self.awake.clone_from(&self.members);
    }
    fn update(&mut self, request: &FetchRequest, slots: &mut Slots, held: &mut Partitions) {
        for wanted in &request.partitions {
            match self.position(wanted.tp) {
                Some(i) => {
                    self.wake(self.partitions[i].slot, held);
                    self.partitions[i].wanted = *wanted;
                }
                None => {
                    let new = CachedPartition::new(*wanted, slots);
                    self.members.insert(new.slot);
                    self.awake.insert(new.slot);
                    self.partitions.push(new);
                }
            }
        }
        if !request.forget.is_empty() {
            self.wake_all(held);
            self.partitions.retain(|p| !request.forget.contains(&p.wanted.tp));
            self.count_anew();
        }
    }
}
fn stood_at_end(follower: Option<BrokerId>, at: Millis, tp: TopicPartition, held: &mut Partitions) {
    if let Some(follower) = follower
        && let Some(partition) = held.get_mut(tp)
    {
        partition.follower_stood_at_end(follower, at);
    }
}

/// What kind of fetch a request is; kept until its answer is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchContext {
    /// Wants no session.
    Sessionless,
    /// Opens a session with the partitions it names.
    Full,
    /// Goes on with a session.
    Incremental {
        /// Its id.
        session: u32,
        /// The session's epoch after this request.
        epoch: i32,
    },
    /// The session is not as the client thinks: answered at once.
    Error(ErrorCode),
}

/// The sessions of a broker. Slots are not limited: `max.incremental.fetch.session.cache.slots` is 1000, more than any
/// scenario has fetchers.
#[derive(Clone, Debug)]
pub struct FetchSessionCache {
    sessions: SmallMap<u32, FetchSession>,
    ids: Stream,
    slots: Slots,
}

const FINAL_EPOCH: i32 = -1;
const INITIAL_EPOCH: i32 = 0;

const fn next_epoch(epoch: i32) -> i32 {
    match epoch {
        FINAL_EPOCH => FINAL_EPOCH,
        i32::MAX => 1,
        e => e + 1,
    }
}

impl FetchSessionCache {
    /// No sessions. Ids are drawn from `ids`, so that one of an earlier incarnation of the broker is not taken for a new
    /// one.
    pub fn new(ids: Stream) -> Self {
        Self { sessions: SmallMap::new(), ids, slots: Slots::default() }
    }

    /// The slot of a partition, a new one where no fetch has named it.
    pub(super) fn give_slot(&mut self, tp: TopicPartition) -> Slot {
        self.slots.of(tp)
    }
    /// The slot of a partition that some fetch has named.
    pub(super) fn slot(&self, tp: TopicPartition) -> Option<Slot> {
        self.slots.get(tp)
    }

    /// How many sessions stand.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Takes a request at `now`: its context. A session that goes on knows what is wanted of it; of another fetch it is what
    /// the request names (`FetchManager.newContext`).
    pub fn begin(&mut self, request: &FetchRequest, held: &mut Partitions, now: Millis) -> FetchContext {
        if matches!(request.session_epoch, FINAL_EPOCH | INITIAL_EPOCH) {
            // A session named by a full fetch is closed by it.
            self.close(request.session, held);
            let full = request.session_epoch == INITIAL_EPOCH;
            return if full { FetchContext::Full } else { FetchContext::Sessionless };
        }
        let Some(session) = self.sessions.get_mut(request.session) else {
            return FetchContext::Error(ErrorCode::FetchSessionIdNotFound);
        };
        if session.epoch != request.session_epoch {
            return FetchContext::Error(ErrorCode::InvalidFetchSessionEpoch);
        }
        session.update(request, &mut self.slots, held);
        if session.partitions.is_empty() {
            self.close(request.session, held);
            return FetchContext::Sessionless;
        }
        session.epoch = next_epoch(session.epoch);
        session.fetched_at = now;
        FetchContext::Incremental { session: request.session, epoch: session.epoch }
    }
    fn close(&mut self, id: u32, held: &mut Partitions) {
        if let Some(session) = self.sessions.remove(id) {
            session.settle(held);
        }
    }
    /// The session of a fetch that goes on with one.
    pub(super) fn session(&self, context: FetchContext) -> Option<&FetchSession> {
        let FetchContext::Incremental { session, .. } = context else { return None };
        self.sessions.get(session)
    }
    /// The same, to read its partitions.
    pub(super) fn session_mut(&mut self, context: FetchContext) -> Option<&mut FetchSession> {
        let FetchContext::Incremental { session, .. } = context else { return None };
        self.sessions.get_mut(session)
    }
    /// A partition has changed.
    pub(super) fn wake(&mut self, slot: Slot, held: &mut Partitions) {
        self.sessions.values_mut().for_each(|session| session.wake(slot, held));
    }
    /// Every partition may have changed, and what is known of followers is about to be looked at.
    pub(super) fn wake_all(&mut self, held: &mut Partitions) {
        self.sessions.values_mut().for_each(|session| session.wake_all(held));
    }

    /// Makes the answer of what was `read`, which is empty after it (`updateAndGenerateResponseData`): an incremental one
    /// leaves out partitions with nothing new, which may lack in `read`, and a partition that returned data moves to the end
    /// of the session's order. Only a full fetch needs to say what is `wanted`, and by which `follower`.
    pub fn finish(
        &mut self,
        context: FetchContext,
        wanted: &[FetchPartition],
        follower: Option<BrokerId>,
        read: &mut Vec<FetchedPartition>,
    ) -> FetchReply {
        let reply = |error, session, partitions| FetchReply { error, session, partitions };
        match context {
            FetchContext::Error(error) => {
                read.clear();
                reply(error, 0, Vec::new())
            }
            FetchContext::Sessionless => reply(ErrorCode::None, 0, std::mem::take(read)),
            FetchContext::Full => {
                let mut partitions = Vec::with_capacity(read.len());
                for answer in read.iter() {
                    if let Some(w) = wanted.iter().find(|w| w.tp == answer.tp) {
                        let mut cached = CachedPartition::new(*w, &mut self.slots);
                        cached.told = Told { high_watermark: answer.high_watermark, log_start: answer.log_start };
                        partitions.push(cached);
                    }
                }
                let id = self.new_id();
                self.sessions.insert(id, FetchSession::new(follower, partitions));
                reply(ErrorCode::None, id, std::mem::take(read))
            }
            FetchContext::Incremental { session: id, epoch } => {
                let Some(session) = self.sessions.get_mut(id).filter(|s| s.epoch == epoch) else {
                    read.clear();
                    return reply(ErrorCode::InvalidFetchSessionEpoch, id, Vec::new());
                };
                let mut named = Vec::new();
                for answer in read.drain(..) {
                    let Some(at) = session.position(answer.tp) else { continue };
                    let news = session.partitions[at].changed(&answer);
                    if answer.bytes > 0 {
                        session.partitions[at..].rotate_left(1);
                    }
                    if news {
                        named.push(answer);
                    }
                }
                reply(ErrorCode::None, id, named)
            }
        }
    }

    fn new_id(&mut self) -> u32 {
        loop {
            let id = self.ids.between(1, i32::MAX as u64) as u32;
            if !self.sessions.contains_key(id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Domain, LeaderEpoch, Millis, Streams};
    use crate::kafka::log::Isolation;

    fn wanted(partition: u16, offset: i64) -> FetchPartition {
        FetchPartition {
            tp: TopicPartition::new(0, partition),
            offset: Offset(offset),
            leader_epoch: LeaderEpoch(1),
            last_fetched_epoch: LeaderEpoch::UNKNOWN,
            log_start: Offset(0),
            max_bytes: 1_048_576,
        }
    }
    fn request(session: u32, session_epoch: i32, partitions: Vec<FetchPartition>) -> FetchRequest {
        FetchRequest {
            replica: None,
            max_wait: Millis(500),
            min_bytes: 1,
            max_bytes: 1 << 20,
            isolation: Isolation::HighWatermark,
            session,
            session_epoch,
            partitions,
            forget: Vec::new(),
        }
    }
    fn read(partition: u16, bytes: u32, high_watermark: i64) -> FetchedPartition {
        let failed = FetchedPartition::failed(TopicPartition::new(0, partition), ErrorCode::None);
        FetchedPartition { bytes, high_watermark: Offset(high_watermark), log_start: Offset(0), ..failed }
    }
    fn begin(cache: &mut FetchSessionCache, request: &FetchRequest) -> (FetchContext, Vec<FetchPartition>) {
        let context = cache.begin(request, &mut Partitions::default(), Millis(1));
        let of_session = cache.session(context).map(|s| s.partitions.iter().map(|p| p.wanted).collect());
        (context, of_session.unwrap_or_else(|| request.partitions.clone()))
    }
    fn order(partitions: &[FetchPartition]) -> Vec<u16> {
        partitions.iter().map(|p| p.tp.partition).collect()
    }

    #[test]
    fn a_partition_with_data_moves_to_the_end() {
        let mut cache = FetchSessionCache::new(Streams(1).stream(Domain::Process, 0, "fetch sessions"));
        let (context, partitions) = begin(&mut cache, &request(0, 0, vec![wanted(0, 0), wanted(1, 0), wanted(2, 0)]));
        let reply = cache.finish(context, &partitions, None, &mut vec![read(0, 100, 5), read(1, 0, 5), read(2, 0, 5)]);
        assert_eq!((reply.partitions.len(), cache.len()), (3, 1));
        // The full answer does not rotate; the incremental ones do.
        let (context, partitions) = begin(&mut cache, &request(reply.session, 1, vec![wanted(0, 5)]));
        assert_eq!(order(&partitions), [0, 1, 2]);
        let answer = cache.finish(context, &partitions, None, &mut vec![read(0, 100, 5), read(1, 0, 6), read(2, 0, 5)]);
        let named: Vec<_> = answer.partitions.iter().map(|p| p.tp.partition).collect();
        assert_eq!(named, [0, 1], "data, and a new high watermark");
        let (_, partitions) = begin(&mut cache, &request(reply.session, 2, Vec::new()));
        assert_eq!(order(&partitions), [1, 2, 0]);
    }

    #[test]
    fn unknown_sessions_and_epochs_are_refused() {
        let mut cache = FetchSessionCache::new(Streams(1).stream(Domain::Process, 0, "fetch sessions"));
        let (context, _) = begin(&mut cache, &request(7, 3, Vec::new()));
        assert_eq!(context, FetchContext::Error(ErrorCode::FetchSessionIdNotFound));
        let (context, partitions) = begin(&mut cache, &request(0, 0, vec![wanted(0, 0)]));
        let id = cache.finish(context, &partitions, None, &mut vec![read(0, 0, 0)]).session;
        let (context, _) = begin(&mut cache, &request(id, 5, Vec::new()));
        assert_eq!(context, FetchContext::Error(ErrorCode::InvalidFetchSessionEpoch));
        let forget = FetchRequest { forget: vec![TopicPartition::new(0, 0)], ..request(id, 1, Vec::new()) };
        assert_eq!(begin(&mut cache, &forget).0, FetchContext::Sessionless);
        assert!(cache.is_empty());
    }
}
