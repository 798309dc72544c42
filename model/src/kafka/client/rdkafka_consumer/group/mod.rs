//! librdkafka's membership of a classic group (`rd_kafka_cgrp_t`, 2.16.0): it finds the coordinator, joins, has its partitions
//! assigned without the application's doing, commits what the application has taken, and shows that it lives.
//!
//! No recording reaches it; it goes by 5.4, 5.5, K-22, K-24, K-26, K-30, X-44 and librdkafka's documentation of its keys.

mod commit;
mod config;
mod coordinator;
mod join;
mod session;

pub use config::RdGroupConfig;

use super::RdConsumer;
use crate::base::{Fixes, Millis, Offset, SmallMap, TopicPartition};
use crate::kafka::client::assignor::Assignor;
use crate::kafka::client::rdkafka::{COORDINATOR, RdNetwork};
use crate::kafka::client::{Completed, Moved, Outcome};
use crate::kafka::coordinator::group::Name;
use crate::kafka::coordinator::group::messages::GroupReply;
use crate::kafka::messages::Reply;
use commit::Commits;
use coordinator::Coordinator;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How far the membership is (`rd_kafka_cgrp_join_state_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinState {
    /// JoinGroup is due.
    Init,
    /// JoinGroup is unanswered.
    WaitJoin,
    /// SyncGroup is unanswered.
    WaitSync,
    /// What was given up is being committed; then it joins again.
    WaitUnassign,
    /// It has its partitions.
    Steady,
    /// It has left: the application has not polled for `max.poll.interval.ms`, was fenced, or has closed.
    Left,
}

/// What a request in flight is for.
#[derive(Clone, Debug)]
enum Purpose {
    Find,
    Join,
    Sync,
    Heartbeat,
    Committed(Vec<TopicPartition>),
    Commit(Vec<(TopicPartition, Offset)>),
    Leave,
}

/// A member. Its owner calls [`RdMember::serve`] after every input and at [`RdMember::wake_at`], and hands it what ended.
#[derive(Clone, Debug)]
pub struct RdMember {
    config: Arc<RdGroupConfig>,
    fixes: Fixes,
    assignor: Option<Assignor>,
    coordinator: Coordinator,
    join: JoinState,
    member: Name,
    generation: i32,
    protocol: Option<Name>,
    /// No JoinGroup before this.
    next_join: Millis,
    in_flight: Vec<(u32, Purpose)>,
    next_heartbeat: Millis,
    /// The membership is over if the coordinator does not answer until then.
    session_until: Millis,
    owned: BTreeSet<TopicPartition>,
    commits: Commits,
    /// When the application took something and began to work; none while it waits for more.
    polled: Option<Millis>,
    /// The application has a rebalance callback and is not in a poll, which alone runs it: what is to be given up waits.
    away: bool,
    revoke_due: bool,
    /// It was fenced for good.
    fatal: bool,
    moved: Vec<Moved>,
}

impl RdMember {
    /// A member that has not joined.
    pub fn new(config: Arc<RdGroupConfig>, fixes: Fixes, now: Millis) -> Self {
        Self {
            fixes,
            assignor: None,
            coordinator: Coordinator::new(now),
            join: JoinState::Init,
            member: Name::from(""),
            generation: -1,
            protocol: None,
            next_join: now,
            in_flight: Vec::new(),
            next_heartbeat: Millis::MAX,
            session_until: Millis::MAX,
            owned: BTreeSet::new(),
            commits: Commits::new(config.auto_commit, now),
            polled: None,
            away: false,
            revoke_due: false,
            fatal: false,
            moved: Vec::new(),
            config,
        }
    }
    /// How far the membership is.
    pub const fn state(&self) -> JoinState {
        self.join
    }
    /// What it owns.
    pub const fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.owned
    }
    /// Its member id and generation, for a transaction's offsets (`rd_kafka_consumer_group_metadata`).
    pub fn group_metadata(&self) -> (Name, i32) {
        (Arc::clone(&self.member), self.generation)
    }
    /// Whether it can do no more.
    pub const fn is_fatal(&self) -> bool {
        self.fatal
    }
    /// Takes out what happened to partitions.
    pub fn take_moved(&mut self) -> Vec<Moved> {
        std::mem::take(&mut self.moved)
    }
    /// The application has taken messages and works on them, or waits for some.
    pub fn polled(&mut self, working: bool, now: Millis) {
        self.polled = working.then_some(now);
        if self.join == JoinState::Left && !self.fatal && !self.commits.closing {
            // It polls again: it may join again.
            self.join = JoinState::Init;
        }
    }

    /// Whether the application is in a poll. One with a rebalance callback says so: the callback runs inside of polls only, and
    /// until then a rebalance waits, for `max.poll.interval.ms` at most.
    pub fn in_poll(&mut self, is: bool) {
        self.away = !is;
    }
    /// `rd_kafka_unsubscribe`, then `rd_kafka_subscribe`: it leaves the group and joins anew.
    pub fn resubscribe(&mut self, now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        if self.fatal {
            return;
        }
        self.in_flight.retain(|(_, p)| !matches!(p, Purpose::Join | Purpose::Sync | Purpose::Heartbeat));
        self.give_up_all(false, now, consumer, net);
        self.leave(now, net);
        self.rejoin(now);
    }

    fn has(&self, wanted: impl Fn(&Purpose) -> bool) -> bool {
        self.in_flight.iter().any(|(_, p)| wanted(p))
    }

    /// Does what is due.
    pub fn serve(&mut self, now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        self.look_for_coordinator(now, net);
        self.check_session(now, consumer, net);
        self.check_poll_interval(now, consumer, net);
        if self.revoke_due && !self.away {
            self.revoke_due = false;
            if self.join == JoinState::Steady {
                self.rebalance(now, consumer, net);
            }
        }
        if net.coordinator_up() {
            match self.join {
                JoinState::Init if now >= self.next_join => self.send_join(now, net),
                JoinState::Steady | JoinState::WaitUnassign if now >= self.next_heartbeat => {
                    self.send_heartbeat(now, net);
                }
                _ => {}
            }
        }
        self.fetch_committed(now, net);
        self.auto_commit(now, net);
        self.send_asked(now, net);
        self.finish_unassign(now);
    }
    /// Takes the end of a request; false if it is none of this member.
    pub fn on_completed(
        &mut self,
        done: &Completed,
        now: Millis,
        consumer: &mut RdConsumer,
        net: &mut RdNetwork,
    ) -> bool {
        let find = matches!(done.outcome, Outcome::Reply(Reply::Coordinator(_))) || done.node != COORDINATOR;
        let ours = |(c, p): &(u32, Purpose)| *c == done.correlation && matches!(p, Purpose::Find) == find;
        let Some(at) = self.in_flight.iter().position(ours) else { return false };
        let purpose = self.in_flight.remove(at).1;
        let reply = match &done.outcome {
            Outcome::Reply(Reply::Group(reply)) => Some(reply),
            _ => None,
        };
        match (purpose, reply) {
            (Purpose::Find, _) => self.on_found(&done.outcome, now, net),
            (Purpose::Join, Some(GroupReply::Join(reply))) => self.on_join(reply, now, consumer, net),
            (Purpose::Sync, Some(GroupReply::Sync(reply))) => self.on_sync(reply, now, consumer, net),
            (Purpose::Heartbeat, Some(GroupReply::Heartbeat(error))) => {
                self.on_heartbeat(*error, now, consumer, net);
            }
            (Purpose::Committed(list), Some(GroupReply::OffsetFetch(whole, offsets))) => {
                self.on_committed(&list, *whole, offsets, now, consumer, net);
            }
            (Purpose::Commit(offsets), Some(GroupReply::OffsetCommit(whole, errors))) => {
                self.on_commit(&offsets, *whole, errors, now, consumer, net);
            }
            (Purpose::Leave, _) => {}
            (lost, _) => self.on_lost(&lost, now),
        }
        true
    }
    /// There will be no answer.
    fn on_lost(&mut self, purpose: &Purpose, now: Millis) {
        match purpose {
            Purpose::Join | Purpose::Sync => self.rejoin_after_error(now),
            Purpose::Heartbeat => self.next_heartbeat = now + self.config.heartbeat_interval,
            Purpose::Committed(list) => self.commits.look_up_later(list, now),
            Purpose::Commit(_) => self.commits.failed(),
            Purpose::Find | Purpose::Leave => {}
        }
    }

    /// When [`RdMember::serve`] has something to do by the clock alone.
    pub fn wake_at(&self, now: Millis, net: &RdNetwork) -> Millis {
        let mut at = self.coordinator.deadline();
        if net.coordinator_up() {
            at = at.min(match self.join {
                JoinState::Init => self.next_join,
                JoinState::Steady | JoinState::WaitUnassign if !self.has(|p| matches!(p, Purpose::Heartbeat)) => {
                    self.next_heartbeat
                }
                _ => Millis::MAX,
            });
            at = at.min(self.commits.look_up_at());
        }
        if self.join == JoinState::Steady {
            at = at.min(self.session_until.saturating_add(Millis(1)));
        }
        if let Some(polled) = self.polled.filter(|_| self.join != JoinState::Left) {
            at = at.min(polled.saturating_add(self.config.max_poll_interval).saturating_add(Millis(1)));
        }
        at.min(self.commits.deadline()).max(now + Millis(1))
    }

    // ---- partitions

    fn given(&mut self, partitions: &[TopicPartition]) {
        self.owned.extend(partitions.iter().copied());
        self.commits.look_up(partitions);
        let generation = self.generation;
        self.moved.extend(self.owned.iter().map(|tp| Moved::Assigned(*tp, generation)));
    }
    /// Gives partitions up; those that are not lost are committed, as far as the application has come.
    fn give_up(
        &mut self,
        partitions: &[TopicPartition],
        lost: bool,
        now: Millis,
        c: &mut RdConsumer,
        net: &mut RdNetwork,
    ) {
        c.remove(partitions);
        if !lost {
            self.commit_stored(Some(partitions), now, net);
        }
        for tp in partitions {
            self.owned.remove(tp);
            self.moved.push(Moved::Revoked(*tp, lost));
        }
        self.commits.forget(partitions);
    }
    fn give_up_all(&mut self, lost: bool, now: Millis, consumer: &mut RdConsumer, net: &mut RdNetwork) {
        let all: Vec<_> = self.owned.iter().copied().collect();
        self.give_up(&all, lost, now, consumer, net);
    }
}

/// Positions of partitions, by the last message that the application took.
type Offsets = SmallMap<TopicPartition, Offset>;
