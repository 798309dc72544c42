//! Metadata of one client instance: when librdkafka asks for it, what an answer changes, and which broker each partition is
//! served by (K-21, K-22). Producer and consumer instances share it.

use super::broker::{Handle, Role, State};
use super::config::RdConfig;
use super::connections::Connections;
use super::errors::RdError;
use super::partition::retry_backoff;
use crate::base::{BrokerId, LeaderEpoch, Millis, TopicId, TopicPartition};
use crate::kafka::client::Leader;
use crate::kafka::messages::{MetadataReply, MetadataRequest, Reply, Request};
use std::collections::{BTreeMap, BTreeSet};

/// Names of requests, of which one stands for metadata.
pub trait Named: Clone {
    /// That one.
    const METADATA: Self;
}

/// Which broker serves a partition in use (`rd_kafka_toppar_delegate`).
#[derive(Clone, Copy, Debug)]
struct Delegation {
    leader: Leader,
    /// The node that an answer named while the leader was not reachable.
    moving: Option<BrokerId>,
    /// Its leader's handle is gone.
    orphan: bool,
}
impl Delegation {
    const NONE: Self =
        Self { leader: Leader { node: BrokerId::NONE, epoch: LeaderEpoch::UNKNOWN }, moving: None, orphan: false };
    fn lose(&mut self) {
        self.leader.node = BrokerId::NONE;
        self.orphan = true;
    }
    fn take(&mut self, leader: Leader) {
        *self = Self { leader, ..Self::NONE };
    }
}

/// What an answer brought beyond leaders.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// Nodes that are not listed any more: decommissioned (K-22d).
    pub gone: Vec<BrokerId>,
    /// Topics that the broker does not know.
    pub unknown: Vec<TopicId>,
}

/// What a client knows of the cluster, and when it asks again.
#[derive(Clone, Debug)]
pub struct Metadata {
    topics: BTreeSet<TopicId>,
    /// Leaders as last told.
    leaders: BTreeMap<TopicPartition, Leader>,
    delegations: BTreeMap<TopicPartition, Delegation>,
    /// Raised by every change of the delegations.
    version: u64,
    /// Main timer, once a second.
    tick: Millis,
    /// `topic.metadata.refresh.interval.ms`.
    refresh: Millis,
    /// Query for partitions without a leader, at `retry.backoff.ms` doubling to its maximum.
    fast: Option<(Millis, u32)>,
    /// A broker is looked for again, if there is none.
    any: Option<Millis>,
    /// Just created, and a broker is wanted whatever the topics.
    cold: bool,
    asked: bool,
}

impl Metadata {
    /// Nothing known at `now`. `cold`: connects at once, even before a topic is used.
    pub fn new(now: Millis, config: &RdConfig, cold: bool) -> Self {
        Self {
            topics: BTreeSet::new(),
            leaders: BTreeMap::new(),
            delegations: BTreeMap::new(),
            version: 0,
            tick: now + Millis(1_000),
            refresh: now.saturating_add(config.metadata_refresh),
            fast: None,
            any: None,
            cold,
            asked: false,
        }
    }
    /// A partition is used: it goes to the leader that is known; a new topic is asked for at once. Whether either was news.
    pub fn use_partition(&mut self, tp: TopicPartition) -> bool {
        let mut news = false;
        let delegation = self.delegations.entry(tp).or_insert(Delegation::NONE);
        if let Some(leader) = self.leaders.get(&tp)
            && delegation.leader != *leader
        {
            delegation.leader = *leader;
            self.version += 1;
            news = true;
        }
        if self.topics.insert(tp.topic) {
            self.fast = Some((Millis::ZERO, 0));
            news = true;
        }
        news
    }
    /// The broker that serves a partition; node -1 for none.
    pub fn leader(&self, tp: TopicPartition) -> Leader {
        self.delegations.get(&tp).unwrap_or(&Delegation::NONE).leader
    }
    /// Whether a partition is served by the internal broker because the cluster names no leader of it. One that has lost its
    /// leader's handle is not: it still stands with the thread of that broker.
    pub fn is_leaderless(&self, tp: TopicPartition) -> bool {
        let delegation = self.delegations.get(&tp).unwrap_or(&Delegation::NONE);
        delegation.leader.node == BrokerId::NONE && !delegation.orphan
    }
    /// Every partition in use with its broker.
    pub fn delegations(&self) -> impl Iterator<Item = (TopicPartition, Leader)> + '_ {
        self.delegations.iter().map(|(tp, d)| (*tp, d.leader))
    }
    /// Raised by every change of [`Self::delegations`].
    pub fn version(&self) -> u64 {
        self.version
    }
    /// Whether an answer is awaited or partitions without a leader are asked for.
    pub fn wanted(&self) -> bool {
        self.asked || self.fast.is_some()
    }
    /// When something is due by time alone.
    pub fn deadline(&self) -> Millis {
        let cold = self.cold.then_some(Millis::ZERO);
        let at = [cold, Some(self.tick), Some(self.refresh), self.fast.map(|f| f.0), self.any];
        at.into_iter().flatten().min().unwrap_or(Millis::MAX)
    }

    // ---- asking

    /// Without any broker: tries one now and one 50 ms later.
    fn look_for_a_broker<T: Named>(&mut self, net: &mut Connections<T>, config: &RdConfig, now: Millis) {
        self.demand_any(net, config, now);
        self.any = Some(now + Millis(50));
    }
    /// Any broker will do. If none is connected or connecting, and one waits for its back-off, it begins again with the
    /// bootstrap list and fresh back-offs. This is why `reconnect.backoff.max.ms` has no effect when all known brokers
    /// refuse (R).
    pub fn demand_any<T: Named>(&mut self, net: &mut Connections<T>, config: &RdConfig, now: Millis) {
        let mut known = net.brokers.iter().filter(|b| b.real()).peekable();
        // A broker that had all sessions expired while it was frozen lists nobody: with that every node is decommissioned.
        let nobody = known.peek().is_none();
        if nobody || net.all_down() && known.any(|b| b.backoff.due > now) {
            net.rebootstrap(config);
            self.delegations.values_mut().filter(|d| d.leader.node != BrokerId::NONE).for_each(Delegation::lose);
            self.version += 1;
        }
        if let Some(at) = net.connect_any(now, config) {
            self.any.get_or_insert(at);
        }
    }
    /// Asks a random connected broker, if there is one; `topics`: with the leaders of the topics in use.
    fn ask<T: Named>(&mut self, topics: bool, net: &mut Connections<T>, config: &RdConfig, now: Millis) {
        if let Some(handle) = net.any_up() {
            self.ask_of(handle, topics, net, config, now);
            self.asked = true;
        }
    }
    fn ask_of<T: Named>(&self, handle: Handle, topics: bool, net: &mut Connections<T>, config: &RdConfig, now: Millis) {
        let topics: Vec<TopicId> = if topics { self.topics.iter().copied().collect() } else { Vec::new() };
        let body = Request::Metadata(MetadataRequest { topics: Some(topics.into()) });
        net.send(handle, T::METADATA, body, now + config.socket_timeout());
    }
    /// Leaders may have moved: asks, unless an answer is awaited.
    pub fn refresh<T: Named>(&mut self, net: &mut Connections<T>, config: &RdConfig, now: Millis) {
        if !self.asked {
            self.ask(true, net, config, now);
        }
    }
    /// A handle is usable: of a broker that is only an address the cluster is learned.
    pub fn broker_up<T: Named>(&mut self, handle: Handle, net: &mut Connections<T>, config: &RdConfig, now: Millis) {
        if net.broker(handle).is_some_and(|b| b.role == Role::Bootstrap) {
            self.ask(!self.topics.is_empty(), net, config, now);
        }
    }
    /// "broker down": asked once for every established connection that breaks, whatever else is on its way.
    pub fn broker_down<T: Named>(&mut self, net: &mut Connections<T>, config: &RdConfig, now: Millis) {
        self.ask(true, net, config, now);
    }

    // ---- answers

    /// Takes the end of a request for metadata; what it brought, if it was answered.
    pub fn answered<T: Named>(
        &mut self,
        handle: Handle,
        result: Result<Reply, RdError>,
        net: &mut Connections<T>,
        config: &RdConfig,
        now: Millis,
    ) -> Option<Learned> {
        self.asked = false;
        if result.is_err() && net.broker(handle).is_some() {
            // The request is tried again at the same broker. If that is the one that just died, its data connection is now
            // being re-established, and with it the refresh of every second begins: K-22's fast path.
            self.ask_of(handle, true, net, config, now);
        }
        let Ok(Reply::Metadata(reply)) = result else { return None };
        let brokers: Vec<_> = reply.brokers.iter().map(|b| (b.id, b.addr)).collect();
        let gone = net.learn(&brokers, config);
        for node in &gone {
            self.leaders.retain(|_, l| l.node != *node);
            self.delegations.values_mut().filter(|d| d.leader.node == *node).for_each(Delegation::lose);
        }
        self.learn_leaders(&reply, net);
        self.version += 1;
        if !self.leaderless() {
            self.fast = None;
        } else if self.fast.is_none() {
            self.fast = Some((now + config.retry_backoff, 1));
        }
        Some(Learned { gone, unknown: reply.unknown.to_vec() })
    }
    fn learn_leaders<T: Named>(&mut self, reply: &MetadataReply, net: &Connections<T>) {
        for p in reply.partitions.iter() {
            let known = self.leaders.get(&p.tp).map_or(LeaderEpoch::UNKNOWN, |l| l.epoch);
            if p.epoch < known {
                continue;
            }
            let node = if p.error.is_ok() { p.leader } else { BrokerId::NONE };
            let leader = Leader { node, epoch: p.epoch };
            self.leaders.insert(p.tp, leader);
            let Some(delegation) = self.delegations.get_mut(&p.tp) else { continue };
            if delegation.leader.node == leader.node {
                delegation.leader.epoch = leader.epoch;
                continue;
            }
            let old = delegation.leader.node;
            let up = net.node(old).is_some_and(|b| b.state == State::Up);
            let dead = if old == BrokerId::NONE { delegation.orphan } else { !up };
            if dead && leader.node != BrokerId::NONE && delegation.moving != Some(leader.node) {
                // R: while the old leader is not reachable, the first answer that names another one does not move the
                // partition yet; the next one does, a second later.
                delegation.moving = Some(leader.node);
                continue;
            }
            delegation.take(leader);
        }
    }
    /// An answer named the new leader (KIP-951); taken if it is newer and that node is known. Gives whether it was.
    pub fn leader_hint<T: Named>(&mut self, tp: TopicPartition, leader: Leader, net: &Connections<T>) -> bool {
        let Some(delegation) = self.delegations.get_mut(&tp) else { return false };
        let news = leader.epoch > delegation.leader.epoch && net.node(leader.node).is_some();
        if news {
            delegation.leader = leader;
            delegation.moving = None;
            self.leaders.insert(tp, leader);
            self.version += 1;
        }
        news
    }
    /// Whether a partition never had a leader, or is said to have none; one whose leader's node is gone waits for the tick.
    fn leaderless(&self) -> bool {
        self.delegations.keys().any(|tp| self.is_leaderless(*tp))
    }
    /// Whether a partition's leader is not known, or its data connection is being made again. An idle one counts as
    /// available: that decides between K-23's trap and the fast path.
    fn unavailable<T: Named>(&self, net: &Connections<T>) -> bool {
        let down = |node: BrokerId| {
            net.node(node).is_none_or(|b| matches!(b.state, State::Trying | State::Connecting | State::Handshake))
        };
        self.delegations.values().any(|d| down(d.leader.node)) || self.leaders.values().any(|l| down(l.node))
    }

    // ---- timers

    /// Whether the main timer's second is over. What the instance itself does once a second comes next, and then
    /// [`Self::refresh_unavailable`].
    pub fn ticks<T: Named>(&mut self, net: &mut Connections<T>, now: Millis) -> bool {
        let due = self.tick <= now;
        if due {
            // The timer is armed again after it ran: it drifts by a few ms a second.
            let drift = net.stream().below(5);
            self.tick = now + Millis(1_000 + drift as i64);
        }
        due
    }
    /// Once a second: asks if a topic in use has a partition without a broker; without any broker it looks for one.
    pub fn refresh_unavailable<T: Named>(&mut self, net: &mut Connections<T>, config: &RdConfig, now: Millis) {
        if net.any_up().is_none() {
            self.look_for_a_broker(net, config, now);
        } else if self.unavailable(net) {
            self.refresh(net, config, now);
        }
    }
    /// Does what the other timers have due.
    pub fn due<T: Named>(&mut self, net: &mut Connections<T>, config: &RdConfig, now: Millis) {
        if std::mem::take(&mut self.cold) {
            self.look_for_a_broker(net, config, now);
        }
        if self.any.is_some_and(|at| at <= now) {
            self.any = None;
            self.demand_any(net, config, now);
        }
        if self.refresh <= now {
            self.refresh = now.saturating_add(config.metadata_refresh);
            self.refresh(net, config, now);
        }
        if let Some((_, tries)) = self.fast.filter(|f| f.0 <= now) {
            if net.any_up().is_some() {
                self.refresh(net, config, now);
            } else {
                self.demand_any(net, config, now);
            }
            let wait = retry_backoff(tries + 1, config, net.stream());
            self.fast = Some((now + wait, tries + 1));
        }
    }
}
