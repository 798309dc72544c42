//! One assigned partition (`rd_kafka_toppar_t`, consumer side).

use crate::base::{BatchKind, BrokerId, LeaderEpoch, Marker, Millis, Offset, ProducerId, TopicPartition};
use crate::kafka::client::{Leader, Slice};
use crate::kafka::messages::{FetchedPartition, OffsetSpec};
use std::collections::{BTreeMap, VecDeque};

use super::config::RdConsumerConfig;
use super::queue::{Consumed, ConsumerQueue};

/// Where a partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At an offset.
    At(Offset),
    /// At one end of the log; it is looked up.
    End(OffsetSpec),
}

/// What a partition does (`rd_kafka_toppar_fetch_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopparState {
    /// Stopped.
    Stopped,
    /// Its offset is to be looked up, not before the instant.
    Query(OffsetSpec, Millis),
    /// The look-up is in flight.
    QueryWait(OffsetSpec),
    /// Its position is to be checked against the new leader's epochs, not before the instant (KIP-320).
    Validate(Millis),
    /// The check is in flight.
    ValidateWait,
    /// It is fetched.
    Active,
}

/// An assigned partition.
#[derive(Clone, Debug)]
pub struct Toppar {
    /// The partition.
    pub tp: TopicPartition,
    /// Its leader as last taken from metadata.
    pub leader: Leader,
    /// What it does.
    pub state: TopparState,
    /// Next offset to ask for.
    pub fetch_offset: Offset,
    /// Leader epoch of the batch before it, -1 if unknown: then it is not checked after a leader change.
    pub fetch_epoch: LeaderEpoch,
    /// Position of the application: after the last message it took; none before the first.
    pub app_position: Option<Offset>,
    /// Paused by the application.
    pub paused: bool,
    /// Raised by seek and pause; answers to requests of an older version are dropped.
    pub version: u32,
    /// Not fetched before this instant.
    pub backoff_until: Millis,
    /// Limit sent with the next fetch, in bytes.
    pub max_bytes: u32,
    /// Log start of the last answer.
    pub log_start: Offset,
    /// Where the end of the partition was last reported.
    pub eof_at: Offset,
    /// Whether an authorisation error was shown since the last seek.
    pub error_shown: bool,
}

impl Toppar {
    /// Largest limit that doubling leads to.
    const MAX_BYTES_LIMIT: u32 = 1 << 30;

    /// A partition without leader yet.
    pub fn new(tp: TopicPartition, start: Start, max_bytes: u32) -> Self {
        let mut toppar = Self {
            tp,
            leader: Leader { node: BrokerId::NONE, epoch: LeaderEpoch::UNKNOWN },
            state: TopparState::Stopped,
            fetch_offset: Offset::UNKNOWN,
            fetch_epoch: LeaderEpoch::UNKNOWN,
            app_position: None,
            paused: false,
            version: 0,
            backoff_until: Millis::ZERO,
            max_bytes,
            log_start: Offset::UNKNOWN,
            eof_at: Offset::UNKNOWN,
            error_shown: false,
        };
        toppar.start(start, Millis::ZERO);
        toppar
    }
    /// Begins at `start`, looking an end up not before `at`.
    pub fn start(&mut self, start: Start, at: Millis) {
        match start {
            Start::At(offset) => {
                self.fetch_offset = offset;
                self.fetch_epoch = LeaderEpoch::UNKNOWN;
                self.state = TopparState::Active;
            }
            Start::End(spec) => self.state = TopparState::Query(spec, at),
        }
    }

    /// Takes the batches of an answer: what the application may see goes to the queue, the fetch offset past all of it.
    /// An answer with batches of which nothing was queued doubles the limit, since it may have been too small.
    ///
    /// Aborted data (R): a transactional batch is dropped if its producer's next aborted transaction begins at or before
    /// its base offset, until that producer's ABORT marker.
    pub fn take(&mut self, part: &FetchedPartition, config: &RdConsumerConfig, queue: &mut ConsumerQueue) {
        let mut aborted: BTreeMap<ProducerId, VecDeque<Offset>> = BTreeMap::new();
        if config.read_committed {
            let mut list = part.aborted.to_vec();
            list.sort_by_key(|a| a.first);
            list.iter().for_each(|a| aborted.entry(a.producer).or_default().push_back(a.first));
        }
        let before = queue.messages();
        let wanted = self.fetch_offset;
        for entry in part.entries.iter().filter(|e| e.next() > wanted) {
            let begun = |list: &VecDeque<Offset>| list.front().is_some_and(|first| *first <= entry.base);
            let pending = aborted.get_mut(&entry.batch.producer.id);
            match (entry.batch.kind, pending) {
                (BatchKind::Control(Marker { commit, .. }), pending) => {
                    if let Some(list) = pending.filter(|list| !commit && begun(list)) {
                        list.pop_front();
                    }
                    queue.control(self.tp, entry.next());
                }
                (BatchKind::Transactional, Some(list)) if begun(list) => {}
                _ => {
                    let from = (self.fetch_offset.0 - entry.base.0).max(0) as u32;
                    let (base, to, batch) = (entry.base, entry.batch.records, entry.batch.clone());
                    queue.give(Consumed::Records(Slice { tp: self.tp, base, from, to, batch }));
                }
            }
            self.fetch_offset = entry.next();
            self.fetch_epoch = entry.epoch;
        }
        if !part.entries.is_empty() && queue.messages() == before && self.max_bytes < Self::MAX_BYTES_LIMIT {
            self.max_bytes = self.max_bytes.saturating_mul(2);
        }
    }
}
