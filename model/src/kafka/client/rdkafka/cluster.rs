//! Metadata and coordinators: when librdkafka asks for them, and what an answer changes (K-21 to K-24, K-26).

use super::broker::{Handle, Role, State};
use super::config::RdConfig;
use super::connections::Connections;
use super::errors::{RdError, TxnAction, TxnApi, group_action, retry_after, txn_action};
use super::partition::retry_backoff;
use super::producer::{RdProducer, Tag};
use super::txn::TxnState;
use crate::base::{BrokerId, Fix, LeaderEpoch, Millis, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::Leader;
use crate::kafka::messages::{MetadataReply, MetadataRequest, Reply, Request};
use crate::kafka::txn_messages::{CoordinatorKey, CoordinatorReply, CoordinatorRequest};
use std::collections::{BTreeMap, BTreeSet};

/// Delay of a coordinator look-up after its connection broke, an attempt failed, or it was decommissioned (K-22).
const QUERY_DELAY: Millis = Millis(500);

/// What a client knows of the cluster, and when it asks again.
#[derive(Clone, Debug)]
pub struct Cluster {
    topics: BTreeSet<TopicId>,
    leaders: BTreeMap<TopicPartition, Leader>,
    /// Main timer, once a second: expired records, refresh for unavailable topics.
    tick: Millis,
    /// `topic.metadata.refresh.interval.ms`.
    refresh: Millis,
    /// Query for partitions without a leader, at `retry.backoff.ms` doubling to its maximum.
    fast: Option<(Millis, u32)>,
    /// A broker is looked for again, if there is none.
    any: Option<Millis>,
    /// Just created, and a producer id is wanted.
    cold: bool,
    asked: bool,
    query: Option<Millis>,
    finding: bool,
    group: Group,
}

/// The group coordinator, as the cache of `send_offsets_to_transaction` has it.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    handle: Option<Handle>,
    asking: bool,
    not_before: Millis,
    tries: u32,
    /// The look-up is a repetition: what fails until `deaf` is not noticed.
    again: bool,
    deaf: Millis,
}

impl Cluster {
    /// Nothing known at `now`.
    pub fn new(now: Millis, config: &RdConfig) -> Self {
        Self {
            topics: BTreeSet::new(),
            leaders: BTreeMap::new(),
            tick: now + Millis(1_000),
            refresh: now.saturating_add(config.metadata_refresh),
            fast: None,
            any: None,
            cold: config.idempotence && config.transactional.is_none(),
            asked: false,
            query: None,
            finding: false,
            group: Group::default(),
        }
    }
    /// The leader of a partition, as far as known.
    pub fn leader(&self, tp: TopicPartition) -> Option<Leader> {
        self.leaders.get(&tp).copied()
    }
    /// A topic is used from now on; a new one is asked for at once.
    pub fn use_topic(&mut self, topic: TopicId) {
        if self.topics.insert(topic) {
            self.fast = Some((Millis::ZERO, 0));
        }
    }
    /// The coordinator is to be asked for at `at`, unless that is due anyway.
    pub fn query_coordinator(&mut self, at: Millis) {
        if self.query.is_none() {
            self.query = Some(at);
        }
    }
    /// The group coordinator is not the one that was cached.
    pub fn forget_group(&mut self) {
        self.group.handle = None;
    }
    /// When something is due by time alone.
    pub fn deadline(&self) -> Millis {
        let group = if self.group.asking { Millis::MAX } else { self.group.not_before };
        let cold = self.cold.then_some(Millis::ZERO);
        [cold, Some(self.tick), Some(self.refresh), self.fast.map(|f| f.0), self.any, self.query]
            .into_iter()
            .flatten()
            .chain((group != Millis::ZERO).then_some(group))
            .min()
            .unwrap_or(Millis::MAX)
    }
}

/// Any broker will do, and none is connected or connecting: begins again with the bootstrap list and fresh back-offs. This
/// is why `reconnect.backoff.max.ms` has no effect when all known brokers refuse (R).
fn again(net: &mut Connections<Tag>, now: Millis, config: &RdConfig) -> bool {
    net.all_down() && net.brokers.iter().any(|b| b.real() && b.backoff.due > now) && {
        net.rebootstrap(config);
        true
    }
}

impl RdProducer {
    /// Without any broker: tries one now and one 50 ms later.
    fn look_for_a_broker(&mut self, now: Millis) {
        self.demand_any(now);
        self.cluster.any = Some(now + Millis(50));
    }
    fn demand_any(&mut self, now: Millis) {
        let nodes: Vec<BrokerId> = self.partitions.values().map(|p| p.leader).collect();
        if again(&mut self.net, now, &self.config) {
            nodes.into_iter().filter(|n| *n != BrokerId::NONE).for_each(|n| self.orphaned(n));
        }
        if let Some(at) = self.net.connect_any(now, &self.config) {
            self.cluster.any.get_or_insert(at);
        }
    }
    /// Asks a random connected broker for metadata; `topics`: with the leaders of the topics in use. Gives whether there
    /// was one to ask.
    fn ask_metadata(&mut self, topics: bool, now: Millis) -> bool {
        let Some(handle) = self.net.any_up() else { return false };
        self.metadata_to(handle, topics, now);
        self.cluster.asked = true;
        true
    }
    fn metadata_to(&mut self, handle: Handle, topics: bool, now: Millis) {
        let topics: Vec<TopicId> = if topics { self.cluster.topics.iter().copied().collect() } else { Vec::new() };
        let body = Request::Metadata(MetadataRequest { topics: Some(topics.into()) });
        self.net.send(handle, Tag::Metadata, body, now + self.config.socket_timeout());
    }
    /// Leaders may have moved: asks, unless an answer is awaited.
    pub(super) fn refresh_metadata(&mut self, now: Millis) {
        if !self.cluster.asked {
            self.ask_metadata(true, now);
        }
    }

    pub(super) fn broker_up(&mut self, handle: Handle, now: Millis) {
        if self.net.broker(handle).is_some_and(|b| b.role == Role::Bootstrap) {
            self.ask_metadata(!self.cluster.topics.is_empty(), now);
        }
    }
    /// A connection broke (`established`) or could not be made.
    pub(super) fn broker_down(&mut self, handle: Handle, established: bool, now: Millis) {
        if self.net.broker(handle).is_some_and(|b| b.role == Role::Coordinator) {
            self.cluster.query_coordinator(now + QUERY_DELAY);
        }
        if established {
            // "broker down": asked once for every connection that breaks.
            self.ask_metadata(true, now);
        } else if self.cluster.group.handle == Some(handle) && self.cluster.group.deaf <= now {
            // A failed attempt, and only that, makes send_offsets look the group's coordinator up again (K-26, R).
            self.cluster.group.handle = None;
            self.cluster.group.again = true;
        }
    }

    pub(super) fn metadata_answered(&mut self, handle: Handle, result: Result<Reply, RdError>, now: Millis) {
        self.cluster.asked = false;
        if result.is_err() && self.net.broker(handle).is_some() {
            // The request is tried again at the same broker. If that is the one that just died, its data connection is now
            // being re-established, and with it the refresh of every second begins: K-22's fast path.
            self.metadata_to(handle, true, now);
        }
        let Ok(Reply::Metadata(reply)) = result else { return };
        let brokers: Vec<_> = reply.brokers.iter().map(|b| (b.id, b.addr)).collect();
        let gone = self.net.learn(&brokers, &self.config);
        for node in gone {
            self.decommissioned(node, now);
        }
        self.learn_leaders(&reply);
        if !self.leaderless() {
            self.cluster.fast = None;
        } else if self.cluster.fast.is_none() {
            self.cluster.fast = Some((now + self.config.retry_backoff, 1));
        }
    }
    /// A node is not in the metadata any more: its handle is gone, and with it the coordinator bound to it (K-22d).
    fn decommissioned(&mut self, node: BrokerId, now: Millis) {
        self.cluster.leaders.retain(|_, l| l.node != node);
        self.orphaned(node);
        if let Some(handle) = self.cluster.group.handle
            && self.net.broker(handle).is_none()
            && self.txn.as_ref().is_some_and(|t| t.offsets.as_ref().is_some_and(|o| o.added))
        {
            // Noticed only while TxnOffsetCommit waits for it; else the dead handle stays in the cache (issue 5511).
            self.cluster.group.handle = None;
            if let Some(txn) = &mut self.txn {
                txn.settled(TxnApi::TxnOffsetCommit, None, now);
            }
        }
        let bound = self.net.brokers.iter().find(|b| b.role == Role::Coordinator && b.bound == Some(node));
        if let Some(handle) = bound.map(|b| b.handle) {
            self.net.bind(handle, None, now, &self.config);
            self.cluster.query_coordinator(now + QUERY_DELAY);
        }
    }
    fn orphaned(&mut self, node: BrokerId) {
        for p in self.partitions.values_mut().filter(|p| p.leader == node) {
            p.leader = BrokerId::NONE;
            p.orphan = true;
        }
    }
    fn learn_leaders(&mut self, reply: &MetadataReply) {
        for p in reply.partitions.iter() {
            let known = self.cluster.leaders.get(&p.tp).map_or(LeaderEpoch::UNKNOWN, |l| l.epoch);
            if p.epoch < known {
                continue;
            }
            let node = if p.error.is_ok() { p.leader } else { BrokerId::NONE };
            let leader = Leader { node, epoch: p.epoch };
            self.cluster.leaders.insert(p.tp, leader);
            if let Some(partition) = self.partitions.get_mut(&p.tp).filter(|q| q.leader != leader.node) {
                let up = self.net.node(partition.leader).is_some_and(|b| b.state == State::Up);
                let dead = if partition.leader == BrokerId::NONE { partition.orphan } else { !up };
                if dead && leader.node != BrokerId::NONE && partition.moving != Some(leader.node) {
                    // R: while the old leader is not reachable, the first answer that names another one does not move the
                    // records yet; the next one does, a second later.
                    partition.moving = Some(leader.node);
                    continue;
                }
                partition.moving = None;
                partition.orphan = false;
                partition.leader = leader.node;
                partition.leader_epoch = leader.epoch;
            }
        }
        if !reply.unknown.is_empty() && !self.fixes.has(Fix::SequenceSurvivesTopicLoss) {
            // Before 1.9.0 a topic that was missing for a moment lost its partition objects.
            let lost = self.partitions.values_mut().filter(|p| reply.unknown.contains(&p.tp.topic));
            lost.for_each(super::partition::Partition::forget_numbering);
        }
    }
    /// An answer named the new leader (KIP-951); taken if it is newer and that node is known.
    pub(super) fn leader_hint(&mut self, tp: TopicPartition, node: BrokerId, epoch: LeaderEpoch) {
        let Some(partition) = self.partitions.get_mut(&tp) else { return };
        if epoch > partition.leader_epoch && self.net.node(node).is_some() {
            partition.leader = node;
            partition.leader_epoch = epoch;
            partition.moving = None;
            self.cluster.leaders.insert(tp, Leader { node, epoch });
        }
    }
    /// Whether a partition never had a leader, or is said to have none; one whose leader's node is gone waits for the tick.
    fn leaderless(&self) -> bool {
        self.partitions.values().any(|p| p.leader == BrokerId::NONE && !p.orphan)
    }
    /// Whether a partition's leader is not known, or its data connection is being made again. An idle one counts as
    /// available: that decides between K-23's trap and the fast path.
    fn unavailable(&self) -> bool {
        let down = |node: BrokerId| {
            self.net.node(node).is_none_or(|b| matches!(b.state, State::Trying | State::Connecting | State::Handshake))
        };
        self.partitions.values().any(|p| down(p.leader)) || self.cluster.leaders.values().any(|l| down(l.node))
    }

    pub(super) fn cluster_due(&mut self, now: Millis) {
        if std::mem::take(&mut self.cluster.cold) {
            self.look_for_a_broker(now);
        }
        if self.cluster.tick <= now {
            // The timer is armed again after it ran: it drifts by a few ms a second.
            let drift = self.net.stream().below(5);
            self.cluster.tick = now + Millis(1_000 + drift as i64);
            self.expire(now);
            if self.net.any_up().is_some() {
                if self.unavailable() {
                    self.refresh_metadata(now);
                }
            } else {
                self.look_for_a_broker(now);
            }
        }
        if self.cluster.any.is_some_and(|at| at <= now) {
            self.cluster.any = None;
            self.demand_any(now);
        }
        if self.cluster.refresh <= now {
            self.cluster.refresh = now.saturating_add(self.config.metadata_refresh);
            self.refresh_metadata(now);
        }
        if let Some((_, tries)) = self.cluster.fast.filter(|f| f.0 <= now) {
            if self.net.any_up().is_some() {
                self.refresh_metadata(now);
            } else {
                self.demand_any(now);
            }
            let wait = retry_backoff(tries + 1, &self.config, self.net.stream());
            self.cluster.fast = Some((now + wait, tries + 1));
        }
        self.query_due(now);
    }

    // ---- the transaction coordinator

    fn query_due(&mut self, now: Millis) {
        if self.cluster.query.is_none_or(|at| at > now) || self.cluster.finding {
            return;
        }
        let Some(id) = self.txn.as_ref().map(|t| t.id) else { return };
        if let Some(handle) = self.net.any_up() {
            self.cluster.query = None;
            self.cluster.finding = true;
            let body = Request::Coordinator(CoordinatorRequest::Find(CoordinatorKey::Transaction(id)));
            self.net.send(handle, Tag::FindTransaction, body, now + self.config.socket_timeout());
        } else {
            self.demand_any(now);
            self.cluster.query = Some(now + QUERY_DELAY);
        }
    }
    /// Answer to FindCoordinator for the transaction. The same node again changes nothing and schedules nothing: that is
    /// K-23's trap.
    pub(super) fn coordinator_found(&mut self, result: Result<Reply, RdError>, now: Millis) {
        self.cluster.finding = false;
        let error = match result {
            Ok(Reply::Coordinator(CoordinatorReply::Find { error: ErrorCode::None, node, addr: Some(addr) })) => {
                let handle = self.net.coordinator(&self.config);
                self.net.bind(handle, Some((node, addr)), now, &self.config);
                return;
            }
            Ok(Reply::Coordinator(CoordinatorReply::Find { error, .. })) => RdError::Code(error),
            Ok(_) => RdError::Code(ErrorCode::UnknownServerError),
            Err(error) => error,
        };
        match txn_action(TxnApi::FindTransaction, error) {
            TxnAction::Fatal => self.raise_fatal(error),
            action => self.cluster.query_coordinator(now + retry_after(action)),
        }
    }
    /// An answer said that it is not the coordinator (K-22a).
    pub(super) fn forget_coordinator(&mut self, now: Millis) {
        let handle = self.net.coordinator(&self.config);
        self.net.bind(handle, None, now, &self.config);
        self.cluster.query_coordinator(now + QUERY_DELAY);
    }

    // ---- the group coordinator of send_offsets

    pub(super) fn offsets_due(&mut self, now: Millis) {
        let Some(txn) = &mut self.txn else { return };
        let Some(offsets) = txn.offsets.as_ref().filter(|o| o.added && txn.state == TxnState::InTransaction) else {
            return;
        };
        if txn.asking(TxnApi::TxnOffsetCommit) {
            return;
        }
        match self.cluster.group.handle {
            // A handle that was decommissioned before the look-up is kept: the call never returns (issue 5511, K-26).
            Some(handle) => {
                if self.cluster.group.not_before > now || txn.due_at(TxnApi::TxnOffsetCommit) > now {
                    return;
                }
                let Some(broker) = self.net.broker(handle) else { return };
                if broker.state != State::Up {
                    // It waits until the broker is up, without a limit of its own.
                    return self.net.ask(handle, false);
                }
                let Some((producer, epoch)) = self.pid() else { return };
                let Some(txn) = &mut self.txn else { return };
                let Some(o) = txn.offsets.as_ref() else { return };
                let request = CoordinatorRequest::TxnOffsetCommit {
                    id: txn.id,
                    producer,
                    epoch,
                    group: o.group,
                    generation: -1,
                    offsets: o.offsets.clone(),
                };
                txn.sent(TxnApi::TxnOffsetCommit);
                let deadline = now + self.config.socket_timeout();
                self.net.send(handle, Tag::Txn(TxnApi::TxnOffsetCommit), Request::Coordinator(request), deadline);
            }
            None if !self.cluster.group.asking && self.cluster.group.not_before <= now => {
                let group = offsets.group;
                let Some(handle) = self.net.any_up() else { return };
                self.cluster.group.asking = true;
                let body = Request::Coordinator(CoordinatorRequest::Find(CoordinatorKey::Group(group)));
                self.net.send(handle, Tag::FindGroup, body, now + self.config.socket_timeout());
            }
            None => {}
        }
    }
    pub(super) fn group_found(&mut self, result: Result<Reply, RdError>, now: Millis) {
        self.cluster.group.asking = false;
        self.cluster.group.not_before = Millis::ZERO;
        if let Ok(Reply::Coordinator(CoordinatorReply::Find { error: ErrorCode::None, node, .. })) = result {
            self.cluster.group.tries = 0;
            self.cluster.group.handle = self.net.node(node).map(|b| b.handle);
            self.cluster.group.deaf = if self.cluster.group.again { now + QUERY_DELAY } else { Millis::ZERO };
            self.cluster.group.again = false;
            return;
        }
        let error = match result {
            Ok(Reply::Coordinator(CoordinatorReply::Find { error, .. })) => RdError::Code(error),
            Ok(_) => RdError::Code(ErrorCode::UnknownServerError),
            Err(error) => error,
        };
        let shown = if let RdError::Code(code) = error { RdError::of(code) } else { error };
        match group_action(error) {
            // Nothing asks again.
            None => self.cluster.group.asking = true,
            Some(TxnAction::Retry(100)) => {
                self.cluster.group.tries += 1;
                let wait = retry_backoff(self.cluster.group.tries, &self.config, self.net.stream());
                self.cluster.group.not_before = now + wait;
            }
            Some(TxnAction::Fatal) => self.raise_fatal(shown),
            Some(TxnAction::Abort) => self.fail_transaction(shown, false),
            Some(action) => self.cluster.group.not_before = now + retry_after(action),
        }
    }
}
