//! A broker's replicas as one component (`ReplicaManager`): partitions, waiting produces and fetches, replica fetchers, the
//! sender of ISR changes, and the timers that belong to them.
//!
//! Sans-I/O. Every call pushes [`ReplicaOutput`]s in order; what the logs have to write is taken with
//! [`ReplicaManager::take_writes`] and goes to disk before the outputs of the same call leave.

use super::delayed_fetch::DelayedFetches;
use super::fetcher::{FetcherAction, FetcherConfig, ReplicaFetcher};
use super::{AlterPartitionManager, Partitions};
use crate::base::{
    Batch, BrokerEpoch, BrokerId, Domain, Event, Fixes, LeaderEpoch, Millis, Offset, Stream, Streams, TopicPartition,
};
use crate::kafka::ErrorCode;
use crate::kafka::log::LogWrite;
use crate::kafka::messages::{
    FetchReply, FetchRequest, ListOffsetsReply, ListOffsetsRequest, OffsetSpec, OffsetsForLeaderEpochReply,
    OffsetsForLeaderEpochRequest, ProduceReply, ProducedPartition, Reply,
};
use crate::kafka::partition::{
    AlterPartition, AlterPartitionAnswer, BrokerTable, Partition, PartitionCx, PartitionMetadata, PartitionOutput,
    Produce,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Settings of a broker's replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaManagerConfig {
    /// `replica.lag.time.max.ms`; ISRs are checked every half of it. Default 30000.
    pub lag_time_max: Millis,
    /// `replica.high.watermark.checkpoint.interval.ms` (L-21). Default 5000.
    pub high_watermark_checkpoint_interval: Millis,
    /// The replica fetchers.
    pub fetcher: FetcherConfig,
}
impl Default for ReplicaManagerConfig {
    fn default() -> Self {
        Self {
            lag_time_max: Millis(30_000),
            high_watermark_checkpoint_interval: Millis(5_000),
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
    /// ISR changes for the controller, as one request; answered by [`ReplicaManager::on_altered`].
    AlterPartition(Vec<AlterPartition>),
    /// For trace and laws.
    Emit(Event),
}

#[derive(Clone, Debug)]
struct ProduceInFlight {
    acks: i8,
    deadline: Millis,
    /// In the order of the request; `None` waits.
    answers: Vec<(TopicPartition, Option<ProducedPartition>)>,
}

/// A broker's replicas.
#[derive(Clone, Debug)]
pub struct ReplicaManager {
    me: BrokerId,
    config: ReplicaManagerConfig,
    random: Stream,
    broker_epoch: BrokerEpoch,
    brokers: BrokerTable,
    partitions: Partitions,
    fetches: DelayedFetches,
    fetchers: BTreeMap<BrokerId, ReplicaFetcher>,
    alter: AlterPartitionManager,
    produces: BTreeMap<u64, ProduceInFlight>,
    next_isr_check: Millis,
    next_checkpoint: Millis,
    /// Partitions whose logs may have something to write.
    dirty: BTreeSet<TopicPartition>,
}

impl ReplicaManager {
    /// Replicas of broker `me`, started at `now`: the periodic checks run from then on. Session ids and jitters are drawn
    /// from `random`.
    pub fn new(me: BrokerId, config: ReplicaManagerConfig, mut random: Stream, fixes: Fixes, now: Millis) -> Self {
        let ids = Streams(random.bits()).stream(Domain::Process, 0, "fetch sessions");
        Self {
            me,
            config,
            broker_epoch: BrokerEpoch::UNKNOWN,
            brokers: BrokerTable::default(),
            partitions: Partitions::default(),
            fetches: DelayedFetches::new(ids, fixes),
            fetchers: BTreeMap::new(),
            alter: AlterPartitionManager::default(),
            produces: BTreeMap::new(),
            next_isr_check: now + Millis(config.lag_time_max.0 / 2),
            next_checkpoint: now + config.high_watermark_checkpoint_interval,
            dirty: BTreeSet::new(),
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

    /// What the logs have to write since the last call, by partition.
    pub fn take_writes(&mut self) -> Vec<(TopicPartition, Vec<LogWrite>)> {
        let dirty = std::mem::take(&mut self.dirty);
        let writes =
            dirty.into_iter().filter_map(|tp| Some((tp, self.partitions.get_mut(tp)?.log_mut().take_writes())));
        writes.filter(|(_, w)| !w.is_empty()).collect()
    }

    /// Applies metadata (`applyDelta`): the brokers, and the partitions changed that this broker holds. Leaders first, then
    /// followers; fetchers stop and start where the leader epoch is new.
    pub fn apply(
        &mut self,
        now: Millis,
        brokers: BrokerTable,
        changed: &[(TopicPartition, PartitionMetadata<'_>)],
        out: &mut Vec<ReplicaOutput>,
    ) {
        self.brokers = brokers;
        let mut inner = Vec::new();
        let me = self.me;
        for (tp, metadata) in changed.iter().filter(|(_, m)| m.leader == me) {
            self.fetchers.values_mut().for_each(|f| f.remove(*tp));
            self.on_partition(now, *tp, &mut inner, |p, cx| p.make_leader(metadata, cx));
        }
        let mut start = Vec::new();
        for (tp, metadata) in changed.iter().filter(|(_, m)| m.leader != me) {
            let new_epoch = self.on_partition(now, *tp, &mut inner, |p, cx| p.make_follower(metadata, cx));
            if new_epoch == Some(true) {
                self.fetchers.values_mut().for_each(|f| f.remove(*tp));
                // A leader that is not registered has no address.
                if self.brokers.get(metadata.leader).is_some() {
                    start.push((*tp, metadata.leader, metadata.leader_epoch));
                }
            }
        }
        for (tp, leader, epoch) in start {
            let Some(from) = self.on_partition(now, tp, &mut inner, |p, cx| p.start_following(cx)) else { continue };
            if !self.fetchers.contains_key(&leader) {
                let jitter = Streams(self.random.bits()).stream(Domain::Process, leader.0 as u64, "fetcher connect");
                self.fetchers.insert(leader, ReplicaFetcher::new(self.me, leader, self.config.fetcher, jitter));
            }
            if let Some(fetcher) = self.fetchers.get_mut(&leader) {
                fetcher.add(tp, epoch, from);
            }
        }
        let idle: Vec<_> = self.fetchers.iter().filter(|(_, f)| f.is_idle()).map(|(id, _)| *id).collect();
        for source in idle {
            self.fetchers.remove(&source);
            out.push(ReplicaOutput::Fetcher { source, action: FetcherAction::Disconnect });
        }
        self.settle(now, inner, out);
        self.drive(now, out);
    }

    /// Takes a produce request. Tokens ascend.
    pub fn produce(
        &mut self,
        now: Millis,
        token: u64,
        acks: i8,
        timeout: Millis,
        batches: &[(TopicPartition, Arc<Batch>)],
        out: &mut Vec<ReplicaOutput>,
    ) {
        let answers = batches.iter().map(|(tp, _)| (*tp, None)).collect();
        self.produces.insert(token, ProduceInFlight { acks, deadline: now + timeout, answers });
        let mut inner = Vec::new();
        for (tp, batch) in batches {
            let how = Produce::client(token, acks, timeout);
            if self.on_partition(now, *tp, &mut inner, |p, cx| p.produce(batch, &how, cx).is_ok()).is_none() {
                let error = self.partitions.get_or_error(*tp).err().unwrap_or(ErrorCode::NotLeaderOrFollower);
                let (base, log_start) = (Offset::UNKNOWN, Offset::UNKNOWN);
                let answer = ProducedPartition { tp: *tp, error, base, log_start, leader: None };
                inner.push(PartitionOutput::Produced { token, answer });
            }
        }
        if batches.is_empty() {
            self.produced(token, None, out);
        }
        self.settle(now, inner, out);
    }

    /// Takes a fetch request of a consumer or follower. Tokens ascend.
    pub fn fetch(&mut self, now: Millis, token: u64, request: &FetchRequest, out: &mut Vec<ReplicaOutput>) {
        let mut inner = Vec::new();
        let reply = {
            let (mut cx, partitions, fetches) = self.parts(now, &mut inner);
            fetches.fetch(token, request, partitions, &mut cx)
        };
        if let Some(reply) = reply {
            out.push(ReplicaOutput::Fetched { token, reply });
        }
        self.settle(now, inner, out);
    }

    /// The connection of a request is gone: a fetch that waits needs no answer. A produce goes on waiting.
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

    /// A fetcher's connection stands.
    pub fn fetcher_up(&mut self, now: Millis, source: BrokerId, out: &mut Vec<ReplicaOutput>) {
        if let Some(fetcher) = self.fetchers.get_mut(&source) {
            out.extend(fetcher.on_up(now).into_iter().map(|action| ReplicaOutput::Fetcher { source, action }));
        }
        self.drive_one(now, source, out);
    }
    /// A fetcher's connection was refused or is gone.
    pub fn fetcher_down(&mut self, now: Millis, source: BrokerId, out: &mut Vec<ReplicaOutput>) {
        if let Some(fetcher) = self.fetchers.get_mut(&source) {
            fetcher.on_down(now);
        }
        self.drive_one(now, source, out);
    }
    /// A fetcher is answered.
    pub fn fetcher_reply(
        &mut self,
        now: Millis,
        source: BrokerId,
        correlation: u32,
        reply: &Reply,
        out: &mut Vec<ReplicaOutput>,
    ) {
        let mut inner = Vec::new();
        if let Some(mut fetcher) = self.fetchers.remove(&source) {
            self.dirty.extend(fetcher.partitions());
            let (mut cx, partitions, _) = self.parts(now, &mut inner);
            fetcher.on_reply(correlation, reply, partitions, &mut cx);
            self.fetchers.insert(source, fetcher);
        }
        self.settle(now, inner, out);
        self.drive_one(now, source, out);
    }

    /// The controller has answered the ISR changes that are out.
    pub fn on_altered(
        &mut self,
        now: Millis,
        error: ErrorCode,
        answers: &[AlterPartitionAnswer],
        out: &mut Vec<ReplicaOutput>,
    ) {
        let mut inner = Vec::new();
        for (asked, answer) in self.alter.on_answer(now, error, answers) {
            self.on_partition(now, asked.tp, &mut inner, |p, cx| p.on_alter_answer(&asked, &answer, cx));
        }
        self.settle(now, inner, out);
    }

    /// When [`tick`](Self::tick) has to be called.
    pub fn deadline(&self) -> Millis {
        let produces = self.produces.values().map(|p| p.deadline).min();
        let fetchers = self.fetchers.values().filter_map(ReplicaFetcher::deadline).min();
        let others = [produces, fetchers, self.fetches.deadline(), self.alter.deadline()];
        others.into_iter().flatten().fold(self.next_isr_check.min(self.next_checkpoint), Millis::min)
    }

    /// Does what is due: ends waits, checks ISRs, checkpoints high watermarks, gives up connections and requests.
    pub fn tick(&mut self, now: Millis, out: &mut Vec<ReplicaOutput>) {
        let mut inner = Vec::new();
        let over: BTreeSet<_> = self
            .produces
            .values()
            .filter(|p| p.deadline <= now)
            .flat_map(|p| p.answers.iter().filter(|(_, a)| a.is_none()).map(|(tp, _)| *tp))
            .collect();
        for tp in over {
            self.on_partition(now, tp, &mut inner, |p, cx| p.expire(cx));
        }
        let expired = {
            let (mut cx, partitions, fetches) = self.parts(now, &mut inner);
            fetches.expire(partitions, &mut cx)
        };
        out.extend(expired.into_iter().map(|a| ReplicaOutput::Fetched { token: a.token, reply: a.reply }));
        if self.next_isr_check <= now {
            self.next_isr_check = self.next_isr_check + Millis(self.config.lag_time_max.0 / 2);
            for tp in self.held() {
                self.on_partition(now, tp, &mut inner, |p, cx| p.maybe_shrink_isr(cx));
            }
        }
        if self.next_checkpoint <= now {
            self.next_checkpoint = self.next_checkpoint + self.config.high_watermark_checkpoint_interval;
            for tp in self.held() {
                self.on_partition(now, tp, &mut inner, |p, _| p.log_mut().checkpoint_high_watermark());
            }
        }
        self.settle(now, inner, out);
        self.drive(now, out);
    }

    fn held(&self) -> Vec<TopicPartition> {
        self.partitions.iter().map(Partition::tp).collect()
    }

    fn parts<'a>(
        &'a mut self,
        now: Millis,
        out: &'a mut Vec<PartitionOutput>,
    ) -> (PartitionCx<'a>, &'a mut Partitions, &'a mut DelayedFetches) {
        let cx =
            PartitionCx { now, broker_epoch: self.broker_epoch, brokers: &self.brokers, alter: &mut self.alter, out };
        (cx, &mut self.partitions, &mut self.fetches)
    }

    fn on_partition<T>(
        &mut self,
        now: Millis,
        tp: TopicPartition,
        out: &mut Vec<PartitionOutput>,
        f: impl FnOnce(&mut Partition, &mut PartitionCx<'_>) -> T,
    ) -> Option<T> {
        self.dirty.insert(tp);
        let (mut cx, partitions, _) = self.parts(now, out);
        partitions.get_mut(tp).map(|p| f(p, &mut cx))
    }

    /// Carries out what partitions put out, until nothing follows any more.
    fn settle(&mut self, now: Millis, mut inner: Vec<PartitionOutput>, out: &mut Vec<ReplicaOutput>) {
        while !inner.is_empty() {
            let mut check = Vec::new();
            for output in inner.drain(..) {
                match output {
                    PartitionOutput::Produced { token, answer } => self.produced(token, Some(answer), out),
                    PartitionOutput::Emit(event) => out.push(ReplicaOutput::Emit(event)),
                    PartitionOutput::CheckFetches(tp) if !check.contains(&tp) => check.push(tp),
                    PartitionOutput::CheckFetches(_)
                    | PartitionOutput::IsrChangeSubmitted(_)
                    | PartitionOutput::IsrChangeRefused(_)
                    | PartitionOutput::IsrChanged(..)
                    | PartitionOutput::IsrChangeFailed(_) => {}
                }
            }
            for tp in check {
                let (mut cx, partitions, fetches) = self.parts(now, &mut inner);
                let answers = fetches.check(tp, partitions, &mut cx);
                out.extend(answers.into_iter().map(|a| ReplicaOutput::Fetched { token: a.token, reply: a.reply }));
            }
        }
        if let Some(changes) = self.alter.poll(now) {
            out.push(ReplicaOutput::AlterPartition(changes));
        }
    }

    /// One partition of a produce is answered; the request is when all are.
    fn produced(&mut self, token: u64, answer: Option<ProducedPartition>, out: &mut Vec<ReplicaOutput>) {
        let Some(produce) = self.produces.get_mut(&token) else { return };
        if let Some(answer) = answer
            && let Some(slot) = produce.answers.iter_mut().find(|(tp, a)| *tp == answer.tp && a.is_none())
        {
            slot.1 = Some(answer);
        }
        if produce.answers.iter().all(|(_, a)| a.is_some())
            && let Some(produce) = self.produces.remove(&token)
        {
            let partitions = produce.answers.into_iter().filter_map(|(_, a)| a).collect();
            out.push(ReplicaOutput::Produced { token, acks: produce.acks, reply: ProduceReply { partitions } });
        }
    }

    fn drive(&mut self, now: Millis, out: &mut Vec<ReplicaOutput>) {
        let sources: Vec<_> = self.fetchers.keys().copied().collect();
        sources.into_iter().for_each(|source| self.drive_one(now, source, out));
    }
    fn drive_one(&mut self, now: Millis, source: BrokerId, out: &mut Vec<ReplicaOutput>) {
        let Some(mut fetcher) = self.fetchers.remove(&source) else { return };
        let mut inner = Vec::new();
        let (mut cx, partitions, _) = self.parts(now, &mut inner);
        let actions = fetcher.poll(partitions, &mut cx);
        self.fetchers.insert(source, fetcher);
        out.extend(actions.into_iter().map(|action| ReplicaOutput::Fetcher { source, action }));
    }
}
