//! The librdkafka consumer without a group (2.16.0): X-14 and the consumer part of the recordings of librdkafka.
//!
//! [`FetchBroker`] is what one broker thread does, [`Toppar`] one partition, [`ConsumerQueue`] the queue that all
//! partitions share, [`RdConsumer`] the whole.

mod broker;
mod config;
pub mod group;
mod queue;
mod toppar;

pub use broker::FetchBroker;
pub use config::RdConsumerConfig;
pub use queue::{Consumed, ConsumerQueue};
pub use toppar::{Start, Toppar, TopparState};

use crate::base::{BrokerId, LeaderEpoch, Millis, Offset, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::{Completed, Leader, Network, Outcome};
use crate::kafka::messages::{
    FetchPartition, FetchReply, FetchRequest, FetchedPartition, ListOffsetsReply, ListOffsetsRequest, OffsetSpec,
    OffsetsForLeaderEpochRequest, Reply, Request,
};
use std::sync::Arc;

/// What a request in flight is for.
#[derive(Clone, Debug)]
enum Purpose {
    /// Partitions with their version when it was sent.
    Fetch(Vec<(TopicPartition, u32)>),
    Query(TopicPartition, u32),
    Validate(TopicPartition, u32),
}

/// A consumer with partitions assigned by hand. Sans-I/O: call [`RdConsumer::serve`] after every input, after every
/// [`RdConsumer::consume`] and at [`RdConsumer::wake_at`]; hand what ended to [`RdConsumer::on_completed`].
#[derive(Clone, Debug)]
pub struct RdConsumer {
    config: Arc<RdConsumerConfig>,
    /// In the order of the assignment.
    toppars: Vec<Toppar>,
    /// By id.
    brokers: Vec<FetchBroker>,
    queue: ConsumerQueue,
    in_flight: Vec<(BrokerId, u32, Purpose)>,
    metadata_version: Option<u64>,
    /// How many partitions were added one by one.
    added: u32,
}

impl RdConsumer {
    /// Delay of the look-up after an offset out of range (R).
    const RESET_DELAY: Millis = Millis(100);
    /// Delay of the next look-up or check after a failed one (`rd_kafka_toppar_offset_retry`).
    const QUERY_RETRY: Millis = Millis(500);

    /// A consumer of nothing.
    pub fn new(config: Arc<RdConsumerConfig>) -> Self {
        Self {
            config,
            toppars: Vec::new(),
            brokers: Vec::new(),
            queue: ConsumerQueue::default(),
            in_flight: Vec::new(),
            metadata_version: None,
            added: 0,
        }
    }
    /// Replaces the assignment; everything queued is dropped.
    pub fn assign(&mut self, partitions: &[(TopicPartition, Start)]) {
        self.queue = ConsumerQueue::default();
        self.metadata_version = None;
        let old = std::mem::take(&mut self.toppars);
        self.brokers.iter_mut().for_each(|b| old.iter().for_each(|t| b.remove(t.tp)));
        for (tp, start) in partitions {
            let mut toppar = Toppar::new(*tp, *start, self.config.max_partition_fetch_bytes);
            toppar.version = old.iter().find(|t| t.tp == *tp).map_or(0, |t| t.version + 1);
            self.toppars.push(toppar);
        }
    }
    /// Takes partitions in addition (`rd_kafka_incremental_assign`).
    pub fn add(&mut self, partitions: &[(TopicPartition, Start)]) {
        self.metadata_version = None;
        for (tp, start) in partitions {
            let mut toppar = Toppar::new(*tp, *start, self.config.max_partition_fetch_bytes);
            // Unlike any that an answer still on its way may name.
            self.added += 1;
            toppar.version = self.added << 16;
            self.toppars.push(toppar);
        }
    }
    /// Gives partitions up, with what is queued of them.
    pub fn remove(&mut self, partitions: &[TopicPartition]) {
        for tp in partitions {
            self.queue.purge(*tp);
            self.brokers.iter_mut().for_each(|b| b.remove(*tp));
        }
        self.toppars.retain(|t| !partitions.contains(&t.tp));
    }
    /// Moves a partition; what is queued or in flight of it is dropped.
    pub fn seek(&mut self, tp: TopicPartition, start: Start, now: Millis) {
        self.queue.purge(tp);
        if let Some(t) = self.toppar_mut(tp) {
            t.version += 1;
            t.error_shown = false;
            t.backoff_until = Millis::ZERO;
            t.eof_at = Offset::UNKNOWN;
            t.start(start, now);
        }
    }
    /// Stops fetching a partition; what is queued of it is dropped and fetched again after [`RdConsumer::resume`].
    pub fn pause(&mut self, tp: TopicPartition) {
        self.set_paused(tp, true);
    }
    /// Ends a pause; the partition goes on where the application stands.
    pub fn resume(&mut self, tp: TopicPartition) {
        self.set_paused(tp, false);
    }
    fn set_paused(&mut self, tp: TopicPartition, paused: bool) {
        self.queue.purge(tp);
        if let Some(t) = self.toppar_mut(tp) {
            t.version += 1;
            t.paused = paused;
            if let (TopparState::Active, Some(at)) = (t.state, t.app_position) {
                t.fetch_offset = at;
            }
        }
    }
    /// The application's position: after the last message it took.
    pub fn position(&self, tp: TopicPartition) -> Option<Offset> {
        self.toppars.iter().find(|t| t.tp == tp)?.app_position
    }
    /// Where the application stands. The client's own position is that of the last message taken: none before the first; with
    /// nothing queued the application stands where the next fetch begins.
    pub fn stands_at(&self, tp: TopicPartition) -> Option<Offset> {
        let active = |t: &&Toppar| t.tp == tp && t.state == TopparState::Active;
        let next = self.toppars.iter().find(active).filter(|_| self.queue.messages() == 0).map(|t| t.fetch_offset);
        next.or_else(|| self.position(tp))
    }
    /// `auto.offset.reset`; `None` is `error`.
    pub fn reset_policy(&self) -> Option<OffsetSpec> {
        self.config.auto_offset_reset
    }
    /// The assigned partitions.
    pub fn toppars(&self) -> &[Toppar] {
        &self.toppars
    }
    /// What waits for the application.
    pub fn queue(&self) -> &ConsumerQueue {
        &self.queue
    }
    fn toppar_mut(&mut self, tp: TopicPartition) -> Option<&mut Toppar> {
        self.toppars.iter_mut().find(|t| t.tp == tp)
    }

    /// Gives the application up to `max` messages, in the order of the answers, chunk after chunk: there is no limit of its
    /// own. Gives their number.
    pub fn consume(&mut self, max: u32, out: &mut Vec<Consumed>) -> u32 {
        let toppars = &mut self.toppars;
        self.queue.take(max, out, |tp, next| {
            if let Some(t) = toppars.iter_mut().find(|t| t.tp == tp) {
                t.app_position = Some(next);
            }
        })
    }

    /// Lets the broker threads work: look-ups, then a fetch to every broker without one in flight.
    pub fn serve(&mut self, now: Millis, net: &mut impl Network) {
        self.delegate(net);
        self.query_offsets(now, net);
        for i in 0..self.brokers.len() {
            self.decide(i, now);
            self.fetch(i, now, net);
        }
    }

    /// After new metadata, partitions move to their leaders' threads; one that moves is fetched at once (R).
    fn delegate(&mut self, net: &impl Network) {
        let view = net.view();
        if self.metadata_version.replace(view.version) == Some(view.version) {
            return;
        }
        for t in &mut self.toppars {
            let none = Leader { node: BrokerId::NONE, epoch: t.leader.epoch };
            let leader = view.leader(t.tp).unwrap_or(none);
            let old = std::mem::replace(&mut t.leader, leader);
            let newer = leader.epoch > old.epoch && old.epoch != LeaderEpoch::UNKNOWN;
            if newer && t.state == TopparState::Active && t.fetch_epoch != LeaderEpoch::UNKNOWN {
                t.state = TopparState::Validate(Millis::ZERO);
                // An answer of the old leader that is still on its way says nothing any more.
                t.version += 1;
            }
            let known = self.brokers.iter().any(|b| b.node == leader.node && b.toppars.contains(&t.tp));
            if old.node == leader.node && (known || leader.node == BrokerId::NONE) {
                continue;
            }
            self.brokers.iter_mut().for_each(|b| b.remove(t.tp));
            if leader.node == BrokerId::NONE {
                continue;
            }
            t.backoff_until = Millis::ZERO;
            let at = self.brokers.binary_search_by_key(&leader.node, |b| b.node);
            let i = at.unwrap_or_else(|i| {
                self.brokers.insert(i, FetchBroker::new(leader.node));
                i
            });
            self.brokers[i].toppars.push(t.tp);
        }
    }

    fn query_offsets(&mut self, now: Millis, net: &mut impl Network) {
        for t in &mut self.toppars {
            let due = match t.state {
                TopparState::Query(_, at) | TopparState::Validate(at) => now >= at,
                _ => false,
            };
            if !due || t.leader.node == BrokerId::NONE || !net.ready(t.leader.node, now) {
                continue;
            }
            let (body, purpose, wait) = if let TopparState::Query(spec, _) = t.state {
                let partitions = vec![(t.tp, spec, t.leader.epoch)];
                let body = ListOffsetsRequest { isolation: self.config.isolation(), partitions };
                (Request::ListOffsets(body), Purpose::Query(t.tp, t.version), TopparState::QueryWait(spec))
            } else {
                let partitions = vec![(t.tp, t.fetch_epoch, t.leader.epoch)];
                let body = Request::OffsetsForLeaderEpoch(OffsetsForLeaderEpochRequest { partitions });
                (body, Purpose::Validate(t.tp, t.version), TopparState::ValidateWait)
            };
            let correlation = net.send(t.leader.node, body, true, now);
            self.in_flight.push((t.leader.node, correlation, purpose));
            t.state = wait;
        }
    }

    /// Which partitions of a broker are fetched (`rd_kafka_toppar_fetch_decide`). With a request in flight its thread
    /// sleeps until a partition's back-off ends.
    fn decide(&mut self, i: usize, now: Millis) {
        let broker = &mut self.brokers[i];
        let full = self.queue.messages() >= self.config.queued_min_messages
            || self.queue.bytes() >= self.config.queued_max_bytes();
        let wanted = |t: &Toppar| t.state == TopparState::Active && !t.paused;
        let due = |t: &&Toppar| wanted(t) && t.backoff_until <= now && !broker.is_active(t.tp);
        let led = |t: &&Toppar| broker.toppars.contains(&t.tp);
        if broker.in_flight.is_some() && !self.toppars.iter().filter(led).any(|t| due(&t)) {
            return;
        }
        for n in 0..broker.toppars.len() {
            let tp = broker.toppars[n];
            let Some(t) = self.toppars.iter_mut().find(|t| t.tp == tp) else { continue };
            let fetch = wanted(t) && t.backoff_until <= now && !full;
            if wanted(t) && t.backoff_until <= now && full {
                t.backoff_until = now + self.config.fetch_queue_backoff;
            }
            if fetch {
                broker.activate(tp);
            } else {
                broker.deactivate(tp);
            }
        }
    }

    fn fetch(&mut self, i: usize, now: Millis, net: &mut impl Network) {
        let broker = &mut self.brokers[i];
        let idle = broker.in_flight.is_none() && broker.backoff_until <= now;
        if !idle || !broker.toppars.iter().any(|tp| broker.is_active(*tp)) || !net.ready(broker.node, now) {
            return;
        }
        let (mut partitions, mut versions) = (Vec::new(), Vec::new());
        for tp in broker.rotate() {
            let Some(t) = self.toppars.iter().find(|t| t.tp == tp) else { continue };
            versions.push((tp, t.version));
            partitions.push(FetchPartition {
                tp,
                offset: t.fetch_offset,
                leader_epoch: t.leader.epoch,
                last_fetched_epoch: LeaderEpoch::UNKNOWN,
                log_start: Offset::UNKNOWN,
                max_bytes: t.max_bytes,
            });
        }
        let body = FetchRequest {
            replica: None,
            max_wait: self.config.fetch_wait_max,
            min_bytes: self.config.fetch_min_bytes,
            max_bytes: self.config.fetch_max_bytes(),
            isolation: self.config.isolation(),
            // It keeps no fetch sessions (K-20: Fetch up to version 11 without one).
            session: 0,
            session_epoch: -1,
            partitions,
            forget: Vec::new(),
        };
        let correlation = net.send(broker.node, Request::Fetch(Box::new(body)), true, now);
        broker.in_flight = Some(correlation);
        self.in_flight.push((broker.node, correlation, Purpose::Fetch(versions)));
    }

    /// Takes the end of a request; false if it is not one of this consumer.
    pub fn on_completed(&mut self, done: &Completed, now: Millis, net: &mut impl Network) -> bool {
        let ours = |(node, c, _): &(BrokerId, u32, Purpose)| (*node, *c) == (done.node, done.correlation);
        let Some(at) = self.in_flight.iter().position(ours) else { return false };
        match (self.in_flight.remove(at).2, &done.outcome) {
            (Purpose::Fetch(sent), outcome) => {
                let error_backoff = self.config.fetch_error_backoff;
                let broker =
                    self.brokers.iter_mut().find(|b| b.in_flight == Some(done.correlation) && b.node == done.node);
                if let Some(broker) = broker {
                    broker.in_flight = None;
                    if !matches!(outcome, Outcome::Reply(_)) {
                        broker.backoff_until = now + error_backoff;
                    }
                }
                if let Outcome::Reply(Reply::Fetch(reply)) = outcome {
                    self.on_fetched(&sent, reply, now, net);
                }
            }
            (Purpose::Query(tp, version), outcome) => self.on_queried(tp, version, outcome, now, net),
            (Purpose::Validate(tp, version), outcome) => self.on_validated(tp, version, outcome, now, net),
        }
        true
    }

    fn on_fetched(&mut self, sent: &[(TopicPartition, u32)], reply: &FetchReply, now: Millis, net: &mut impl Network) {
        for part in &reply.partitions {
            let Some(at) = self.toppars.iter().position(|t| t.tp == part.tp) else { continue };
            let t = &mut self.toppars[at];
            if !sent.contains(&(t.tp, t.version)) || t.state != TopparState::Active {
                continue;
            }
            if part.log_start.0 >= 0 {
                t.log_start = part.log_start;
            }
            if part.error.is_ok() {
                let end = if self.config.read_committed { part.last_stable } else { part.high_watermark };
                if end == t.fetch_offset && t.eof_at != end {
                    t.eof_at = end;
                    if self.config.enable_partition_eof {
                        self.queue.give(Consumed::Eof(t.tp, end));
                    }
                }
                t.take(part, &self.config, &mut self.queue);
            } else {
                self.on_fetch_error(at, part, now, net);
            }
        }
    }

    /// The error table of a fetch (R, consumer.jsonl; `rd_kafka_fetch_reply_handle_partition_error`).
    fn on_fetch_error(&mut self, at: usize, part: &FetchedPartition, now: Millis, net: &mut impl Network) {
        use ErrorCode as E;
        let t = &mut self.toppars[at];
        t.backoff_until = now + self.config.fetch_error_backoff;
        match part.error {
            E::UnknownTopicOrPartition
            | E::UnknownTopicId
            | E::LeaderNotAvailable
            | E::NotLeaderOrFollower
            | E::BrokerNotAvailable
            | E::ReplicaNotAvailable
            | E::KafkaStorageError
            | E::FencedLeaderEpoch
            | E::UnknownLeaderEpoch
            | E::OffsetNotAvailable => {
                net.request_update(now);
            }
            E::OffsetOutOfRange => match self.config.auto_offset_reset {
                None => {
                    t.state = TopparState::Stopped;
                    self.queue.give(Consumed::AutoOffsetReset(t.tp));
                }
                Some(OffsetSpec::Earliest) if t.log_start.0 >= 0 => t.start(Start::At(t.log_start), now),
                Some(spec) => t.start(Start::End(spec), now + Self::RESET_DELAY),
            },
            E::TopicAuthorizationFailed => {
                let long = Millis((self.config.fetch_error_backoff.0 * 10).max(1_000));
                t.backoff_until = now + long;
                if !std::mem::replace(&mut t.error_shown, true) {
                    self.queue.give(Consumed::Error(t.tp, part.error));
                }
            }
            other => self.queue.give(Consumed::Error(t.tp, other)),
        }
    }

    fn on_queried(&mut self, tp: TopicPartition, version: u32, outcome: &Outcome, now: Millis, net: &mut impl Network) {
        let Some(t) = self.toppar_mut(tp).filter(|t| t.version == version) else { return };
        let TopparState::QueryWait(spec) = t.state else { return };
        let found = match outcome {
            Outcome::Reply(Reply::ListOffsets(ListOffsetsReply { partitions })) => {
                partitions.iter().find(|p| p.0 == tp).map(|p| (p.1, p.2))
            }
            _ => None,
        };
        match found {
            Some((ErrorCode::None, offset)) => {
                t.backoff_until = Millis::ZERO;
                t.start(Start::At(offset), now);
            }
            _ => {
                t.state = TopparState::Query(spec, now + Self::QUERY_RETRY);
                net.request_update(now);
            }
        }
    }

    /// The end of the position's epoch at the new leader: below the position, the log was truncated. With a reset policy
    /// reading goes on at that end.
    fn on_validated(
        &mut self,
        tp: TopicPartition,
        version: u32,
        outcome: &Outcome,
        now: Millis,
        net: &mut impl Network,
    ) {
        let policy = self.config.auto_offset_reset;
        let Some(t) = self.toppar_mut(tp).filter(|t| t.version == version) else { return };
        if t.state != TopparState::ValidateWait {
            return;
        }
        let found = match outcome {
            Outcome::Reply(Reply::OffsetsForLeaderEpoch(reply)) => {
                reply.partitions.iter().find(|p| p.0 == tp && p.1.is_ok()).map(|p| (p.2, p.3))
            }
            _ => None,
        };
        let Some((epoch, end)) = found else {
            t.state = TopparState::Validate(now + Self::QUERY_RETRY);
            net.request_update(now);
            return;
        };
        let defined = epoch != LeaderEpoch::UNKNOWN && end != Offset::UNKNOWN;
        match policy {
            _ if defined && end >= t.fetch_offset => t.state = TopparState::Active,
            None => {
                t.state = TopparState::Stopped;
                self.queue.give(Consumed::LogTruncation(tp));
            }
            Some(spec) if !defined => t.start(Start::End(spec), now),
            Some(_) => {
                t.start(Start::At(end), now);
                t.fetch_epoch = epoch;
            }
        }
    }

    /// When [`RdConsumer::serve`] has something to do by itself.
    pub fn wake_at(&self, now: Millis, net: &impl Network) -> Millis {
        let mut at = Millis::MAX;
        // What is due and could not be sent waits for its connection.
        let mut soonest = |due: Millis, node| {
            let then = if due > now { due } else { now.saturating_add(net.poll_delay(node, now)) };
            at = at.min(then.max(Millis(now.0 + 1)));
        };
        for t in &self.toppars {
            match t.state {
                TopparState::Query(_, due) | TopparState::Validate(due) if t.leader.node != BrokerId::NONE => {
                    soonest(due, t.leader.node)
                }
                TopparState::Active if !t.paused && t.backoff_until > now => soonest(t.backoff_until, t.leader.node),
                _ => {}
            }
        }
        for b in self.brokers.iter().filter(|b| b.in_flight.is_none()) {
            if b.toppars.iter().any(|tp| b.is_active(*tp)) {
                soonest(b.backoff_until, b.node);
            }
        }
        at
    }
}
