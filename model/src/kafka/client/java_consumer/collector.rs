//! Chunks waiting to be delivered, and their delivery (`FetchBuffer`, `FetchCollector`; X-13).

use super::completed::CompletedFetch;
use super::config::ConsumerConfig;
use super::delivery::Fetched;
use super::error::ConsumerError;
use super::subscription::{FetchPosition, SubscriptionState};
use crate::base::{Millis, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::Network;
use crate::kafka::hash_order::grown_capacity;
use std::collections::VecDeque;

/// Chunks in the order of the answers; the one being drained is apart.
#[derive(Clone, Debug, Default)]
pub struct FetchBuffer {
    queue: VecDeque<CompletedFetch>,
    next_in_line: Option<CompletedFetch>,
}

impl FetchBuffer {
    /// Adds a chunk behind the others.
    pub fn add(&mut self, fetch: CompletedFetch) {
        self.queue.push_back(fetch);
    }
    /// Partitions with a chunk, drained or not yet looked at. May repeat one.
    pub fn partitions(&self) -> impl Iterator<Item = TopicPartition> {
        let draining = self.next_in_line.iter().filter(|f| !f.is_consumed());
        draining.chain(&self.queue).map(|f| f.tp)
    }
    /// Drops chunks of partitions that are no longer assigned.
    pub fn retain(&mut self, keep: impl Fn(TopicPartition) -> bool) {
        self.queue.retain(|f| keep(f.tp));
        self.next_in_line.take_if(|f| !keep(f.tp));
    }

    /// Takes at most `max.poll.records` records: the chunk in line to its end, then the next in answer order.
    /// An error comes out only when nothing was taken before it; else it waits for the next call.
    pub fn collect(
        &mut self,
        subscription: &mut SubscriptionState,
        config: &ConsumerConfig,
        now: Millis,
        net: &mut impl Network,
    ) -> Result<Fetched, ConsumerError> {
        let mut fetched = Fetched::default();
        let mut paused = Vec::new();
        let result = self.fill(&mut fetched, &mut paused, subscription, config, now, net);
        self.queue.extend(paused);
        match result {
            Err(e) if fetched.is_empty() || matches!(e, ConsumerError::IllegalState(_)) => return Err(e),
            _ => {}
        }
        sort_as_map(&mut fetched, subscription);
        Ok(fetched)
    }

    fn fill(
        &mut self,
        fetched: &mut Fetched,
        paused: &mut Vec<CompletedFetch>,
        subscription: &mut SubscriptionState,
        config: &ConsumerConfig,
        now: Millis,
        net: &mut impl Network,
    ) -> Result<(), ConsumerError> {
        while fetched.records < config.max_poll_records {
            let Some(fetch) = self.next_in_line.as_mut().filter(|f| !f.is_consumed()) else {
                let Some(next) = self.queue.front_mut() else { return Ok(()) };
                let usable = next.initialized || {
                    let usable = initialize(next, subscription, now, net);
                    if !next.error.is_ok() {
                        subscription.move_to_end(next.tp);
                    }
                    if usable.is_err() && fetched.is_empty() && !next.has_data() {
                        self.queue.pop_front();
                    }
                    usable?
                };
                self.next_in_line = self.queue.pop_front().filter(|_| usable);
                continue;
            };
            if subscription.get(fetch.tp).is_some_and(|p| p.paused) {
                // Kept for when the partition is resumed.
                paused.extend(self.next_in_line.take());
                continue;
            }
            deliver(fetch, fetched, subscription, config);
        }
        Ok(())
    }
}

/// Puts slices into the order of `ConsumerRecords`: partitions as a `HashMap` of them is walked.
fn sort_as_map(fetched: &mut Fetched, subscription: &SubscriptionState) {
    let Some(first) = fetched.slices.first().map(|s| s.tp) else { return };
    if fetched.slices.iter().all(|s| s.tp == first) {
        return;
    }
    let mut tps: Vec<TopicPartition> = Vec::new();
    for slice in &fetched.slices {
        if !tps.contains(&slice.tp) {
            tps.push(slice.tp);
        }
    }
    subscription.hashes().sort(&mut tps, grown_capacity);
    fetched.slices.sort_by_key(|s| tps.iter().position(|tp| *tp == s.tp));
}

/// Takes records of the chunk in line (`fetchRecords`); a chunk that does not begin at the position is obsolete.
fn deliver(
    fetch: &mut CompletedFetch,
    fetched: &mut Fetched,
    subscription: &mut SubscriptionState,
    config: &ConsumerConfig,
) {
    let tp = fetch.tp;
    let state = subscription.get_mut(tp).filter(|p| p.is_fetchable());
    let at = state.and_then(|p| p.position.as_mut()).filter(|position| position.offset == fetch.next_offset);
    let Some(position) = at else {
        fetch.drain();
        // As at its end, if anything was read from it (`CompletedFetch.drain`).
        if fetch.read_any() {
            subscription.move_to_end(tp);
        }
        return;
    };
    let limit = config.max_poll_records - fetched.records;
    fetched.records += fetch.take(limit, config.read_committed, &mut fetched.slices);
    if fetch.next_offset > position.offset {
        *position = FetchPosition { offset: fetch.next_offset, epoch: fetch.last_epoch, ..*position };
        fetched.advanced = true;
    }
    if fetch.is_consumed() && fetch.read_any() {
        subscription.move_to_end(tp);
    }
}

/// Looks at a chunk for the first time: whether it may be drained. Acts on its error.
fn initialize(
    fetch: &mut CompletedFetch,
    subscription: &mut SubscriptionState,
    now: Millis,
    net: &mut impl Network,
) -> Result<bool, ConsumerError> {
    use ErrorCode as E;
    let policy = subscription.policy();
    let Some(state) = subscription.get_mut(fetch.tp).filter(|p| p.has_valid_position()) else { return Ok(false) };
    let current = state.position.is_some_and(|p| p.offset == fetch.next_offset);
    match fetch.error {
        E::None if current => {
            if fetch.high_watermark.0 >= 0 {
                state.high_watermark = fetch.high_watermark;
            }
            if fetch.last_stable.0 >= 0 {
                state.last_stable = fetch.last_stable;
            }
            fetch.initialized = true;
            return Ok(true);
        }
        E::None | E::UnknownLeaderEpoch | E::UnknownServerError => {}
        E::NotLeaderOrFollower
        | E::ReplicaNotAvailable
        | E::KafkaStorageError
        | E::FencedLeaderEpoch
        | E::OffsetNotAvailable
        | E::UnknownTopicOrPartition
        | E::UnknownTopicId
        | E::InconsistentTopicId => net.request_update(now),
        E::OffsetOutOfRange if !current => {}
        E::OffsetOutOfRange => match policy {
            Some(spec) => state.request_reset(spec),
            None => return Err(ConsumerError::OffsetOutOfRange(fetch.tp, fetch.next_offset)),
        },
        E::TopicAuthorizationFailed => return Err(ConsumerError::TopicAuthorization(fetch.tp.topic)),
        E::CorruptMessage => return Err(ConsumerError::CorruptMessage(fetch.tp)),
        other => return Err(ConsumerError::IllegalState(other)),
    }
    Ok(false)
}
