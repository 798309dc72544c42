//! Fetch sessions at the broker (KIP-227; X-12): which partitions a fetch reads and in which order, and which of them its
//! answer names.

use super::slots::{Slot, Slots};
use crate::base::{Offset, SmallMap, Stream, TopicPartition};
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
struct CachedPartition {
    wanted: FetchPartition,
    slot: Slot,
    told: Told,
}

impl CachedPartition {
    fn new(wanted: FetchPartition, slots: &mut Slots) -> Self {
        Self { wanted, slot: slots.of(wanted.tp), told: Told::NOTHING }
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
#[derive(Clone, Debug)]
struct FetchSession {
    epoch: i32,
    partitions: Vec<CachedPartition>,
}

impl FetchSession {
    fn position(&self, tp: TopicPartition) -> Option<usize> {
        self.partitions.iter().position(|p| p.wanted.tp == tp)
    }
    fn update(&mut self, request: &FetchRequest, slots: &mut Slots) {
        for wanted in &request.partitions {
            match self.position(wanted.tp) {
                Some(i) => self.partitions[i].wanted = *wanted,
                None => self.partitions.push(CachedPartition::new(*wanted, slots)),
            }
        }
        if !request.forget.is_empty() {
            self.partitions.retain(|p| !request.forget.contains(&p.wanted.tp));
        }
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

    /// The slot of a partition that some fetch has named.
    pub fn slot(&self, tp: TopicPartition) -> Option<Slot> {
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

    /// Takes a request: its context; the partitions to read go to `want`, in order, those of a session that goes on with what
    /// its client was told (`FetchManager.newContext`).
    pub fn begin(
        &mut self,
        request: &FetchRequest,
        mut want: impl FnMut(FetchPartition, Slot, Option<Told>),
    ) -> FetchContext {
        let Self { sessions, slots, .. } = self;
        if matches!(request.session_epoch, FINAL_EPOCH | INITIAL_EPOCH) {
            // A session named by a full fetch is closed by it.
            sessions.remove(request.session);
            request.partitions.iter().for_each(|wanted| want(*wanted, slots.of(wanted.tp), None));
            let full = request.session_epoch == INITIAL_EPOCH;
            return if full { FetchContext::Full } else { FetchContext::Sessionless };
        }
        let Some(session) = sessions.get_mut(request.session) else {
            return FetchContext::Error(ErrorCode::FetchSessionIdNotFound);
        };
        if session.epoch != request.session_epoch {
            return FetchContext::Error(ErrorCode::InvalidFetchSessionEpoch);
        }
        session.update(request, slots);
        if session.partitions.is_empty() {
            sessions.remove(request.session);
            request.partitions.iter().for_each(|wanted| want(*wanted, slots.of(wanted.tp), None));
            return FetchContext::Sessionless;
        }
        session.epoch = next_epoch(session.epoch);
        session.partitions.iter().for_each(|p| want(p.wanted, p.slot, Some(p.told)));
        FetchContext::Incremental { session: request.session, epoch: session.epoch }
    }

    /// Makes the answer of what was `read`, which is empty after it (`updateAndGenerateResponseData`): an incremental one
    /// leaves out partitions with nothing new, which may lack in `read`, and a partition that returned data moves to the end
    /// of the session's order. Only a full fetch needs to say what is `wanted`.
    pub fn finish(
        &mut self,
        context: FetchContext,
        wanted: &[FetchPartition],
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
                self.sessions.insert(id, FetchSession { epoch: next_epoch(INITIAL_EPOCH), partitions });
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
        let mut wanted = Vec::new();
        (cache.begin(request, |partition, _, _| wanted.push(partition)), wanted)
    }
    fn order(partitions: &[FetchPartition]) -> Vec<u16> {
        partitions.iter().map(|p| p.tp.partition).collect()
    }

    #[test]
    fn a_partition_with_data_moves_to_the_end() {
        let mut cache = FetchSessionCache::new(Streams(1).stream(Domain::Process, 0, "fetch sessions"));
        let (context, partitions) = begin(&mut cache, &request(0, 0, vec![wanted(0, 0), wanted(1, 0), wanted(2, 0)]));
        let reply = cache.finish(context, &partitions, &mut vec![read(0, 100, 5), read(1, 0, 5), read(2, 0, 5)]);
        assert_eq!((reply.partitions.len(), cache.len()), (3, 1));
        // The full answer does not rotate; the incremental ones do.
        let (context, partitions) = begin(&mut cache, &request(reply.session, 1, vec![wanted(0, 5)]));
        assert_eq!(order(&partitions), [0, 1, 2]);
        let answer = cache.finish(context, &partitions, &mut vec![read(0, 100, 5), read(1, 0, 6), read(2, 0, 5)]);
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
        let id = cache.finish(context, &partitions, &mut vec![read(0, 0, 0)]).session;
        let (context, _) = begin(&mut cache, &request(id, 5, Vec::new()));
        assert_eq!(context, FetchContext::Error(ErrorCode::InvalidFetchSessionEpoch));
        let forget = FetchRequest { forget: vec![TopicPartition::new(0, 0)], ..request(id, 1, Vec::new()) };
        assert_eq!(begin(&mut cache, &forget).0, FetchContext::Sessionless);
        assert!(cache.is_empty());
    }
}
