//! A broker's replicas as one component (`ReplicaManager`): partitions, waiting produces and fetches, replica fetchers, the
//! sender of ISR changes, and the timers that belong to them.
//!
//! Sans-I/O. Every call pushes [`ReplicaOutput`]s in order; what the logs have to write is taken with
//! [`ReplicaManager::drain_writes`] and goes to disk before the outputs of the same call leave.
//!
//! Its parts run on several threads of a broker. Each has its deadline and its call; who has one thread only takes
//! [`ReplicaManager::deadline`] and [`ReplicaManager::tick`].
//!
//! | thread | due | call |
//! |---|---|---|
//! | purgatories | [`ReplicaManager::request_deadline`] | [`ReplicaManager::expire_requests`] |
//! | scheduler | [`ReplicaManager::timer_deadline`] | [`ReplicaManager::run_timers`] |
//! | fetcher of a broker | [`ReplicaManager::fetcher_deadline`] | [`ReplicaManager::drive_fetcher`] |
//! | sender of ISR changes | [`ReplicaManager::alter_deadline`] | [`ReplicaManager::poll_alter`] |

mod appending;
mod fetching;
mod metadata;
mod timers;

use super::delayed_fetch::{DelayedFetches, FetchAnswer};
use super::fetcher::{FetcherAction, FetcherConfig, ReplicaFetcher};
use super::{AlterPartitionManager, Partitions};
use crate::base::{
    BrokerEpoch, BrokerId, Domain, Event, Fixes, LeaderEpoch, Millis, Offset, SmallMap, Stream, Streams, TopicPartition,
};
use crate::kafka::ErrorCode;
use crate::kafka::log::LogWrite;
use crate::kafka::messages::{
    FetchReply, FetchRequest, ListOffsetsReply, ListOffsetsRequest, OffsetSpec, OffsetsForLeaderEpochReply,
    OffsetsForLeaderEpochRequest, ProduceReply, ProducedPartition,
};
use crate::kafka::partition::{
    AlterPartition, AlterPartitionAnswer, BrokerTable, Partition, PartitionCx, PartitionOutput,
};
use std::collections::BTreeSet;
use timers::Timers;

pub use appending::VerifiedBatch;

/// Settings of a broker's replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaManagerConfig {
    /// `replica.lag.time.max.ms`; ISRs are checked every half of it. Default 30000.
    pub lag_time_max: Millis,
    /// `replica.high.watermark.checkpoint.interval.ms` (L-21). Default 5000.
    pub high_watermark_checkpoint_interval: Millis,
    /// `log.flush.offset.checkpoint.interval.ms` (L-20). Default 60000.
    pub recovery_point_checkpoint_interval: Millis,
    /// `producer.id.expiration.check.interval.ms` (P-16). Default 600000.
    pub producer_expiration_check_interval: Millis,
    /// The replica fetchers.
    pub fetcher: FetcherConfig,
}
impl Default for ReplicaManagerConfig {
    fn default() -> Self {
        Self {
            lag_time_max: Millis(30_000),
            high_watermark_checkpoint_interval: Millis(5_000),
            recovery_point_checkpoint_interval: Millis(60_000),
            producer_expiration_check_interval: Millis(600_000),
            fetcher: FetcherConfig::default(),
        }
    }
}

/// What follows of a call.
#[derive(Clone, Debug)]
pub enum ReplicaOutput {
    /// A produce request is answered. With acks 0 nothing is sent; an error closes the connection.
    Produced {
        /// The number that the request was given.
        token: u64,
        /// acks of the request.
        acks: i8,
        /// The answer.
        reply: ProduceReply,
    },
    /// A fetch request is answered.
    Fetched {
        /// The number that the request was given.
        token: u64,
        /// The answer.
        reply: FetchReply,
    },
    /// A replica fetcher wants something of its connection to `source`.
    Fetcher {
        /// The broker fetched from.
        source: BrokerId,
        /// What.
        action: FetcherAction,
    },
    /// A replica fetcher was given partitions: its thread looks at once ([`ReplicaManager::drive_fetcher`]).
    FetcherNews(BrokerId),
    /// ISR changes for the controller, as one request; answered by [`ReplicaManager::on_altered`].
    AlterPartition(Vec<AlterPartition>),
    /// For trace and laws.
    Emit(Event),
}

#[derive(Clone, Debug)]
struct ProduceInFlight {
    acks: i8,
    deadline: Millis,
    /// How many of `answers` are still `None`.
    missing: usize,
    /// In the order of the request; `None` waits.
    answers: Vec<(TopicPartition, Option<ProducedPartition>)>,
}

/// A broker's replicas.
#[derive(Clone, Debug)]
pub struct ReplicaManager {
    me: BrokerId,
    config: ReplicaManagerConfig,
    fixes: Fixes,
    random: Stream,
    broker_epoch: BrokerEpoch,
    /// SIGTERM has come: replicas out of the ISR are not followed any more.
    in_controlled_shutdown: bool,
    brokers: BrokerTable,
    partitions: Partitions,
    fetches: DelayedFetches,
    fetchers: SmallMap<BrokerId, ReplicaFetcher>,
    alter: AlterPartitionManager,
    produces: SmallMap<u64, ProduceInFlight>,
    /// No waiting request is over before. A bound, so that a call costs nothing for those that wait on.
    requests_due: Millis,
    timers: Timers,
    /// Partitions whose logs may have something to write, in the order in which they were touched.
    dirty: Vec<TopicPartition>,
    /// What partitions have put out in this call; empty between calls, kept for its memory.
    inner: Vec<PartitionOutput>,
    /// Likewise, the partitions whose waiting fetches are to be checked.
    checks: Vec<TopicPartition>,
    /// Likewise, their answers.
    answers: Vec<FetchAnswer>,
}

impl ReplicaManager {
    /// Replicas of broker `me`, started at `now`. Session ids, jitters and the phases of the periodic checks are drawn from
    /// `random`.
    pub fn new(me: BrokerId, config: ReplicaManagerConfig, mut random: Stream, fixes: Fixes, now: Millis) -> Self {
        let ids = Streams(random.bits()).stream(Domain::Process, 0, "fetch sessions");
        let timers = Timers::start(&config, &mut random, now);
        Self {
            me,
            config,
            fixes,
            broker_epoch: BrokerEpoch::UNKNOWN,
            in_controlled_shutdown: false,
            brokers: BrokerTable::default(),
            partitions: Partitions::default(),
            fetches: DelayedFetches::new(ids, fixes),
            fetchers: SmallMap::new(),
            alter: AlterPartitionManager::default(),
            produces: SmallMap::new(),
            requests_due: Millis::MAX,
            timers,
            dirty: Vec::new(),
            inner: Vec::new(),
            checks: Vec::new(),
            answers: Vec::new(),
            random,
        }
    }

    /// The partitions held.
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }
    /// The partitions held, for what is no matter of replication: opening logs, settings of topics, names that metadata
    /// knows.
    pub fn partitions_mut(&mut self) -> &mut Partitions {
        self.all_may_change();
        &mut self.partitions
    }
    /// The fetchers, by source broker.
    pub fn fetchers(&self) -> impl Iterator<Item = &ReplicaFetcher> {
        self.fetchers.values()
    }
    /// The sender of ISR changes.
    pub fn alter(&self) -> &AlterPartitionManager {
        &self.alter
    }
    /// Epoch of the broker's registration: goes with fetches and ISR changes.
    pub fn set_broker_epoch(&mut self, epoch: BrokerEpoch) {
        self.broker_epoch = epoch;
    }
    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.produces.len() + self.fetches.len()
    }

    // ---- the disk

    /// Hands over what the logs have to write since the last call, by partition in the order of their first change.
    pub fn drain_writes(&mut self, mut write: impl FnMut(TopicPartition, LogWrite)) {
        for tp in self.dirty.drain(..) {
            if let Some(partition) = self.partitions.get_mut(tp) {
                partition.log_mut().drain_writes().for_each(|w| write(tp, w));
            }
        }
    }
    /// What the logs have to write since the last call, by partition.
    pub fn take_writes(&mut self) -> Vec<(TopicPartition, Vec<LogWrite>)> {
        let mut all: Vec<(TopicPartition, Vec<LogWrite>)> = Vec::new();
        self.drain_writes(|tp, write| match all.last_mut().filter(|(last, _)| *last == tp) {
            Some((_, writes)) => writes.push(write),
            None => all.push((tp, vec![write])),
        });
        all
    }
    /// Every log may have something to write: they have just been opened.
    pub fn touch_all(&mut self) {
        self.dirty = self.held();
    }
    /// A flush that was begun when the log of `tp` ended at `up_to` is done (L-20).
    pub fn flushed(&mut self, tp: TopicPartition, up_to: Offset) {
        if let Some(partition) = self.partitions.get_mut(tp) {
            partition.log_mut().flushed_to(up_to);
        }
    }
    /// Clean shutdown (L-22): high watermarks and recovery points are written, producers snapshot. Every file is to be
    /// flushed after it.
    pub fn close_logs(&mut self) {
        for tp in self.held() {
            if let Some(partition) = self.partitions.get_mut(tp) {
                partition.log_mut().close();
                self.dirty.push(tp);
            }
        }
    }

    // ---- requests of clients and followers

    /// Takes a fetch request of a consumer or follower. Tokens ascend.
    pub fn fetch(&mut self, now: Millis, token: u64, request: &FetchRequest, out: &mut Vec<ReplicaOutput>) {
        let reply = {
            let (mut cx, partitions, fetches) = self.parts(now);
            fetches.fetch(token, request, partitions, &mut cx)
        };
        match reply {
            Some(reply) => out.push(ReplicaOutput::Fetched { token, reply }),
            None => self.requests_due = self.requests_due.min(now + request.max_wait),
        }
        self.settle(now, out);
    }

    /// The connection of a request is gone: a fetch that waits needs no answer. A produce goes on waiting; its answer goes
    /// nowhere.
    pub fn cancel_fetch(&mut self, token: u64) {
        self.fetches.cancel(token);
    }

    /// Answers ListOffsets. A request with [`Isolation::LogEnd`](crate::kafka::log::Isolation::LogEnd) is a replica's.
    pub fn list_offsets(&mut self, request: &ListOffsetsRequest) -> ListOffsetsReply {
        let one = |(tp, spec, epoch): &(TopicPartition, OffsetSpec, LeaderEpoch)| {
            let partition = self.partitions.get_or_error(*tp);
            match partition.and_then(|p| p.list_offset(*spec, request.isolation, *epoch, true)) {
                Ok((offset, epoch)) => (*tp, ErrorCode::None, offset, epoch),
                Err(error) => (*tp, error, Offset::UNKNOWN, LeaderEpoch::UNKNOWN),
            }
        };
        ListOffsetsReply { partitions: request.partitions.iter().map(one).collect() }
    }

    /// Answers OffsetsForLeaderEpoch.
    pub fn offsets_for_leader_epoch(&mut self, request: &OffsetsForLeaderEpochRequest) -> OffsetsForLeaderEpochReply {
        let one = |(tp, epoch, current): &(TopicPartition, LeaderEpoch, LeaderEpoch)| {
            let partition = self.partitions.get_or_error(*tp);
            match partition.and_then(|p| p.end_offset_for_epoch(*epoch, *current, true)) {
                Ok((epoch, end)) => (*tp, ErrorCode::None, epoch, end),
                Err(error) => (*tp, error, LeaderEpoch::UNKNOWN, Offset::UNKNOWN),
            }
        };
        OffsetsForLeaderEpochReply { partitions: request.partitions.iter().map(one).collect() }
    }

    // ---- ISR changes

    /// The controller has answered the ISR changes that are out.
    pub fn on_altered(
        &mut self,
        now: Millis,
        error: ErrorCode,
        answers: &[AlterPartitionAnswer],
        out: &mut Vec<ReplicaOutput>,
    ) {
        self.all_may_change();
        for (asked, answer) in self.alter.on_answer(now, error, answers) {
            self.on_partition(now, asked.tp, |p, cx| p.on_alter_answer(&asked, &answer, cx));
        }
        self.settle(now, out);
    }
    /// When [`poll_alter`](Self::poll_alter) has to be called.
    pub fn alter_deadline(&self) -> Millis {
        self.alter.deadline().unwrap_or(Millis::MAX)
    }
    /// Sends ISR changes again whose request failed as a whole.
    pub fn poll_alter(&mut self, now: Millis, out: &mut Vec<ReplicaOutput>) {
        self.settle(now, out);
    }

    // ---- all threads as one

    /// When [`tick`](Self::tick) has to be called.
    pub fn deadline(&self) -> Millis {
        let fetchers = self.fetchers.values().filter_map(ReplicaFetcher::deadline).min().unwrap_or(Millis::MAX);
        self.request_deadline().min(self.timer_deadline()).min(self.alter_deadline()).min(fetchers)
    }
    /// Does what is due: ends waits, runs the periodic checks, gives up connections and requests.
    pub fn tick(&mut self, now: Millis, out: &mut Vec<ReplicaOutput>) {
        self.expire_requests(now, out);
        self.run_timers(now, now, out);
        self.drive(now, out);
    }

    // ---- inside

    /// Before something is done to partitions, or looked at in them, of which waiting fetches are not told by itself.
    fn all_may_change(&mut self) {
        self.fetches.all_may_change(&mut self.partitions);
    }

    fn held(&self) -> Vec<TopicPartition> {
        self.partitions.iter().map(Partition::tp).collect()
    }

    fn parts(&mut self, now: Millis) -> (PartitionCx<'_>, &mut Partitions, &mut DelayedFetches) {
        let Self { broker_epoch, brokers, alter, inner, partitions, fetches, .. } = self;
        (PartitionCx { now, broker_epoch: *broker_epoch, brokers, alter, out: inner }, partitions, fetches)
    }

    fn following(
        &mut self,
        now: Millis,
    ) -> (PartitionCx<'_>, &mut Partitions, &mut SmallMap<BrokerId, ReplicaFetcher>) {
        let Self { broker_epoch, brokers, alter, inner, partitions, fetchers, .. } = self;
        (PartitionCx { now, broker_epoch: *broker_epoch, brokers, alter, out: inner }, partitions, fetchers)
    }

    fn on_partition<T>(
        &mut self,
        now: Millis,
        tp: TopicPartition,
        f: impl FnOnce(&mut Partition, &mut PartitionCx<'_>) -> T,
    ) -> Option<T> {
        if self.dirty.last() != Some(&tp) {
            self.dirty.push(tp);
        }
        let (mut cx, partitions, _) = self.parts(now);
        partitions.get_mut(tp).map(|p| f(p, &mut cx))
    }

    /// Carries out what partitions put out, until nothing follows any more.
    fn settle(&mut self, now: Millis, out: &mut Vec<ReplicaOutput>) {
        while !self.inner.is_empty() {
            let mut inner = std::mem::take(&mut self.inner);
            let mut checks = std::mem::take(&mut self.checks);
            let mut answers = std::mem::take(&mut self.answers);
            for output in inner.drain(..) {
                match output {
                    PartitionOutput::Produced { token, answer } => self.produced(token, Some(answer), out),
                    PartitionOutput::Emit(event) => out.push(ReplicaOutput::Emit(event)),
                    PartitionOutput::CheckFetches(tp) if !checks.contains(&tp) => checks.push(tp),
                    PartitionOutput::CheckFetches(_)
                    | PartitionOutput::IsrChangeSubmitted(_)
                    | PartitionOutput::IsrChangeRefused(_)
                    | PartitionOutput::IsrChanged(..)
                    | PartitionOutput::IsrChangeFailed(_) => {}
                }
            }
            self.inner = inner;
            let (mut cx, partitions, fetches) = self.parts(now);
            fetches.check(&checks, partitions, &mut cx, &mut answers);
            out.extend(answers.drain(..).map(|a| ReplicaOutput::Fetched { token: a.token, reply: a.reply }));
            checks.clear();
            self.checks = checks;
            self.answers = answers;
        }
        if let Some(changes) = self.alter.poll(now) {
            out.push(ReplicaOutput::AlterPartition(changes));
        }
    }

    /// One partition of a produce is answered; the request is when all are.
    fn produced(&mut self, token: u64, answer: Option<ProducedPartition>, out: &mut Vec<ReplicaOutput>) {
        let Some(produce) = self.produces.get_mut(token) else { return };
        if let Some(answer) = answer
            && let Some(slot) = produce.answers.iter_mut().find(|(tp, a)| *tp == answer.tp && a.is_none())
        {
            slot.1 = Some(answer);
            produce.missing -= 1;
        }
        if produce.missing == 0
            && let Some(produce) = self.produces.remove(token)
        {
            let partitions = produce.answers.into_iter().filter_map(|(_, a)| a).collect();
            out.push(ReplicaOutput::Produced { token, acks: produce.acks, reply: ProduceReply { partitions } });
        }
    }

    /// When [`expire_requests`](Self::expire_requests) has to be called: not after the first end of a wait.
    pub fn request_deadline(&self) -> Millis {
        self.requests_due
    }
    /// Answers the produces and fetches whose wait is over.
    pub fn expire_requests(&mut self, now: Millis, out: &mut Vec<ReplicaOutput>) {
        if now < self.requests_due {
            return;
        }
        let over: BTreeSet<_> = self
            .produces
            .values()
            .filter(|p| p.deadline <= now)
            .flat_map(|p| p.answers.iter().filter(|(_, a)| a.is_none()).map(|(tp, _)| *tp))
            .collect();
        for tp in over {
            self.on_partition(now, tp, |p, cx| p.expire(cx));
        }
        let expired = {
            let (mut cx, partitions, fetches) = self.parts(now);
            fetches.expire(partitions, &mut cx)
        };
        out.extend(expired.into_iter().map(|a| ReplicaOutput::Fetched { token: a.token, reply: a.reply }));
        self.settle(now, out);
        let produces = self.produces.values().map(|p| p.deadline).min();
        self.requests_due = [produces, self.fetches.deadline()].into_iter().flatten().fold(Millis::MAX, Millis::min);
    }
}
