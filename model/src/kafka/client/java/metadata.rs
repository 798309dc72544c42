//! A client's metadata and when to renew it (`Metadata`, `ProducerMetadata`), K-3.

use super::dice::{Backoff, Dice};
use crate::base::{Addr, BrokerId, LeaderEpoch, Millis, TopicId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::{ClusterView, Leader, TopicHashes};
use crate::kafka::messages::{MetadataReply, MetadataRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An instant before every run.
const NEVER: Millis = Millis(i64::MIN / 4);

/// Metadata with its age, back-off and the topics it is kept for.
#[derive(Clone, Debug)]
pub struct Metadata {
    max_age: Millis,
    backoff: Backoff,
    bootstrap: Arc<[Addr]>,
    view: ClusterView,
    /// Nodes as `Cluster.nodes` lists them: shuffled at each update; bootstrap ids -1, -2, .. before the first.
    nodes: Vec<(BrokerId, Addr)>,
    /// Highest leader epochs seen; they outlive a rebootstrap, the cached leaders do not.
    last_seen: BTreeMap<TopicPartition, LeaderEpoch>,
    /// Topics in use; `None` means all.
    topics: Option<BTreeSet<TopicId>>,
    new_topics: BTreeSet<TopicId>,
    /// Raised by every new topic: an answer to an older request leaves the need for another.
    request_version: u64,
    need_full: bool,
    need_partial: bool,
    last_refresh: Millis,
    last_success: Millis,
    attempts: u32,
    /// Answers since the last that brought a new leader epoch (KIP-580: they are backed off like failures).
    equivalent: u32,
    /// Drawn when `attempts` changed; the real client draws at each look.
    attempt_wait: Millis,
    equivalent_wait: Millis,
    back_off_equivalent: bool,
}

/// A request for metadata that is in flight.
#[derive(Clone, Copy, Debug)]
pub struct UpdateInProgress {
    version: u64,
    partial: bool,
}

impl Metadata {
    /// Nothing known but the bootstrap list; an update is wanted at once. `topics`: those in use, `None` for all.
    /// `back_off_equivalent`: whether answers without news are backed off (KIP-580, 3.7).
    pub fn new(
        max_age: Millis,
        backoff: Backoff,
        bootstrap: Arc<[Addr]>,
        topics: Option<BTreeSet<TopicId>>,
        back_off_equivalent: bool,
        dice: &mut Dice,
    ) -> Self {
        let mut metadata = Self {
            max_age,
            backoff,
            bootstrap,
            view: ClusterView::default(),
            nodes: Vec::new(),
            last_seen: BTreeMap::new(),
            topics,
            new_topics: BTreeSet::new(),
            request_version: 0,
            need_full: false,
            need_partial: false,
            last_refresh: NEVER,
            last_success: NEVER,
            attempts: 0,
            equivalent: 0,
            attempt_wait: backoff.after(0, dice),
            equivalent_wait: Millis::ZERO,
            back_off_equivalent,
        };
        metadata.rebootstrap();
        metadata
    }
    /// Partitions are walked in the order of these hashes from now on.
    pub fn set_hashes(&mut self, hashes: Option<TopicHashes>) {
        self.view.hashes = hashes;
    }
    /// Brokers and leaders.
    pub const fn view(&self) -> &ClusterView {
        &self.view
    }
    /// Nodes in list order.
    pub fn nodes(&self) -> &[(BrokerId, Addr)] {
        &self.nodes
    }
    /// The address of a node.
    pub fn addr(&self, node: BrokerId) -> Option<Addr> {
        self.nodes.iter().find(|(id, _)| *id == node).map(|(_, addr)| *addr)
    }
    /// Forgets brokers and leaders and begins again with the bootstrap list (K-4).
    pub fn rebootstrap(&mut self) {
        self.need_full = true;
        self.view.brokers.clear();
        self.view.leaders.clear();
        self.view.version += 1;
        self.nodes = self.bootstrap.iter().enumerate().map(|(i, a)| (BrokerId(-1 - i as i32), *a)).collect();
    }
    /// Begins to use a topic: an unknown one asks for an update that no back-off holds up
    /// (`requestUpdateForNewTopics`).
    pub fn add_topic(&mut self, topic: TopicId) {
        if self.topics.as_mut().is_some_and(|t| t.insert(topic)) {
            self.new_topics.insert(topic);
            self.need_partial = true;
            self.request_version += 1;
            self.last_refresh = NEVER;
            self.set_equivalent(0, None);
        }
    }
    /// Asks for an update. `fresh` also forgets that earlier answers brought no news (a user waits for metadata).
    pub fn request_update(&mut self, fresh: bool) {
        self.need_full = true;
        if fresh {
            self.set_equivalent(0, None);
        }
    }
    /// An update was asked for and has not come.
    pub const fn update_requested(&self) -> bool {
        self.need_full || self.need_partial
    }
    /// Time until the next update, by age or by request, not before the back-off has passed (`timeToNextUpdate`).
    pub fn time_to_next_update(&self, now: Millis) -> Millis {
        let age = (self.last_success + self.max_age - now).0.max(0);
        let expire = if self.update_requested() { 0 } else { age };
        // An update by age alone is not held up by answers that brought no news.
        let equivalent = if age == 0 { 0 } else { (self.last_refresh + self.equivalent_wait - now).0 };
        Millis(expire.max((self.last_refresh + self.attempt_wait - now).0).max(equivalent))
    }
    /// The request to send now: all topics in use, or only the new ones when nothing else is wanted.
    pub fn request(&mut self, now: Millis) -> (MetadataRequest, UpdateInProgress) {
        let expired = self.last_success + self.max_age <= now;
        if expired {
            self.set_equivalent(0, None);
        }
        let partial = !self.need_full && !expired;
        let topics = if partial { Some(&self.new_topics) } else { self.topics.as_ref() };
        let topics = topics.map(|t| t.iter().copied().collect());
        (MetadataRequest { topics }, UpdateInProgress { version: self.request_version, partial })
    }
    /// An attempt failed.
    pub fn failed(&mut self, now: Millis, dice: &mut Dice) {
        self.last_refresh = now;
        self.attempts += 1;
        self.attempt_wait = self.backoff.after(self.attempts - 1, dice);
        self.set_equivalent(0, None);
    }
    /// Takes an answer. One without brokers counts as a failure.
    pub fn update(&mut self, request: UpdateInProgress, reply: &MetadataReply, now: Millis, dice: &mut Dice) -> bool {
        if reply.brokers.is_empty() {
            self.failed(now, dice);
            return false;
        }
        self.need_partial = request.version < self.request_version;
        self.last_refresh = now;
        self.attempts = 0;
        self.attempt_wait = self.backoff.after(0, dice);
        if !request.partial {
            self.need_full = false;
            self.last_success = now;
        }
        // A full answer replaces what is cached; only leaders it knows less of are kept.
        let cached = if request.partial { BTreeMap::new() } else { std::mem::take(&mut self.view.leaders) };
        let mut news = false;
        for p in reply.partitions.iter() {
            self.new_topics.remove(&p.tp.topic);
            let seen = self.last_seen.get(&p.tp).copied();
            if p.epoch == LeaderEpoch::UNKNOWN {
                self.last_seen.remove(&p.tp);
                self.view.leaders.insert(p.tp, Leader { node: p.leader, epoch: p.epoch });
            } else if seen.is_none_or(|seen| p.epoch >= seen) {
                news |= seen != Some(p.epoch);
                self.last_seen.insert(p.tp, p.epoch);
                self.view.leaders.insert(p.tp, Leader { node: p.leader, epoch: p.epoch });
            } else if let Some(leader) = cached.get(&p.tp) {
                // From a broker that lags behind (C-9).
                self.view.leaders.insert(p.tp, *leader);
            }
            if p.error != ErrorCode::None {
                self.need_full = true;
            }
        }
        if !reply.unknown.is_empty() {
            self.need_full = true;
        }
        self.view.brokers = reply.brokers.iter().map(|b| (b.id, b.addr)).collect();
        self.view.version += 1;
        self.nodes = reply.brokers.iter().map(|b| (b.id, b.addr)).collect();
        dice.shuffle(&mut self.nodes);
        let equivalent = if news { 0 } else { self.equivalent + 1 };
        self.set_equivalent(equivalent, Some(dice));
        true
    }
    /// Takes a leader from an error answer, if it is newer and its node known (KIP-951).
    pub fn learn_leader(&mut self, tp: TopicPartition, leader: Leader) -> bool {
        let known = self.view.leaders.get(&tp).map(|l| l.epoch);
        let newer = known.is_some_and(|epoch| leader.epoch > epoch) && self.view.brokers.contains_key(&leader.node);
        if newer {
            self.view.leaders.insert(tp, leader);
            self.view.version += 1;
            self.last_seen.insert(tp, leader.epoch);
        }
        newer
    }
    fn set_equivalent(&mut self, n: u32, dice: Option<&mut Dice>) {
        self.equivalent = n;
        self.equivalent_wait = match dice {
            Some(dice) if n > 0 && self.back_off_equivalent => self.backoff.after(n - 1, dice),
            _ => Millis::ZERO,
        };
    }
}
