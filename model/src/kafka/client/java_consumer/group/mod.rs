//! A consumer's membership of a classic group (`ConsumerCoordinator`, `AbstractCoordinator`): it finds the coordinator, joins,
//! gives up and takes partitions, commits, and shows that it lives. Everything but heartbeats is driven by `poll`; between an
//! answer and the next poll nothing happens.

mod channel;
mod commit;
mod committed;
mod config;
mod coordinator;
mod heartbeat;
mod join;
mod state;

pub use channel::GroupNetwork;
pub use commit::{CommitId, CommitOwner};
pub use config::GroupConfig;
pub use heartbeat::Heartbeat;
pub use state::{CommitError, Generation, GroupError, MemberState, Timer};

use crate::base::{BrokerId, Fixes, Millis, Offset, TopicPartition};
use crate::kafka::client::Lost;
use crate::kafka::client::assignor::Assignor;
use crate::kafka::client::java::Dice;
use crate::kafka::coordinator::group::Name;
use crate::kafka::coordinator::group::messages::GroupReply;
use crate::kafka::txn_messages::CoordinatorReply;
use channel::{Channel, Purpose};
use commit::Commits;
use committed::CommittedCall;
use coordinator::Find;
use join::Join;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the member tells its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// `onPartitionsRevoked`: they may still be committed.
    Revoked(Vec<TopicPartition>),
    /// `onPartitionsAssigned`: what is new.
    Assigned(Vec<TopicPartition>),
    /// `onPartitionsLost`: somebody else may have them already.
    Lost(Vec<TopicPartition>),
    /// The callback of an asynchronous commit.
    Committed(CommitId, Result<(), CommitError>),
    /// A commit, whoever made it, was acknowledged.
    Stored(Vec<(TopicPartition, Offset)>),
    /// A heartbeat was answered, or lost.
    Heartbeat(Result<(), GroupError>),
}

/// How a request of the member ended.
#[derive(Clone, Debug)]
pub enum GroupOutcome<'a> {
    /// FindCoordinator was answered.
    Found(&'a CoordinatorReply),
    /// The coordinator answered.
    Reply(&'a GroupReply),
    /// There will be no answer.
    Lost(Lost),
}

/// A member of a classic group.
#[derive(Clone, Debug)]
pub struct GroupMember {
    config: Arc<GroupConfig>,
    assignor: Option<Assignor>,
    fixes: Fixes,
    dice: Dice,
    /// The connection to the coordinator: its id is the largest int less the node's.
    coordinator: Option<BrokerId>,
    find: Find,
    state: MemberState,
    generation: Generation,
    /// Member id and generation of the last join that was completed.
    metadata: (Name, i32),
    rejoin_needed: bool,
    needs_prepare: bool,
    join: Join,
    assigned: BTreeSet<TopicPartition>,
    /// What it divided as leader of the last join (`assignmentSnapshot`), and the version of its metadata when it looked last;
    /// nothing if another one led.
    divided: Option<(u64, Vec<TopicPartition>)>,
    channel: Channel,
    commits: Commits,
    committed: Option<CommittedCall>,
    heartbeat: Heartbeat,
    /// A blocking call sleeps until then.
    asleep_until: Millis,
    events: Vec<GroupEvent>,
}

impl GroupMember {
    /// A consumer that has not joined.
    pub fn new(config: Arc<GroupConfig>, fixes: Fixes, dice: Dice, now: Millis) -> Self {
        Self {
            heartbeat: Heartbeat::new(now),
            commits: Commits::new(config.auto_commit, now),
            committed: None,
            config,
            assignor: None,
            fixes,
            dice,
            coordinator: None,
            find: Find::default(),
            state: MemberState::Unjoined,
            generation: Generation::none(),
            metadata: (Name::from(""), -1),
            rejoin_needed: true,
            needs_prepare: true,
            join: Join::No,
            assigned: BTreeSet::new(),
            divided: None,
            channel: Channel::default(),
            asleep_until: Millis::ZERO,
            events: Vec::new(),
        }
    }
    /// The connection to the coordinator, if one is known.
    pub const fn coordinator(&self) -> Option<BrokerId> {
        self.coordinator
    }
    /// Where the member stands.
    pub const fn state(&self) -> MemberState {
        self.state
    }
    /// Its generation and member id.
    pub const fn generation(&self) -> &Generation {
        &self.generation
    }
    /// Whether the next poll joins.
    pub const fn rejoin_needed(&self) -> bool {
        self.rejoin_needed
    }
    /// What it owns.
    pub const fn assigned(&self) -> &BTreeSet<TopicPartition> {
        &self.assigned
    }
    /// Takes out what happened, in order.
    pub fn take_events(&mut self) -> Vec<GroupEvent> {
        std::mem::take(&mut self.events)
    }

    /// The coordinator's part of `KafkaConsumer.poll`, up to the limit of the timer. `consumed`: positions, for an automatic
    /// commit.
    ///
    /// # Errors
    /// What the poll throws. Most of it is over with that: the next poll tries again.
    pub fn poll(
        &mut self,
        timer: Timer,
        consumed: impl Fn() -> Vec<(TopicPartition, Offset)>,
        net: &mut impl GroupNetwork,
    ) -> Result<bool, GroupError> {
        self.invoke_callbacks()?;
        if self.config.topics.is_some() {
            self.heartbeat.polled(timer.now)?;
            // A call that is inside the look-up goes on there.
            if (self.is_awaited() || self.coordinator_unknown(net, timer.now)) && !self.ensure_ready(timer, net)? {
                return Ok(false);
            }
            self.rejoin_needed |= self.must_divide_again(net);
            if (self.rejoin_needed || self.join != Join::No) && !self.ensure_active(timer.now, &consumed, net)? {
                return Ok(false);
            }
        } else {
            self.turn(net, timer.now);
        }
        self.auto_commit(timer.now, consumed, net);
        Ok(true)
    }
    /// One turn of the connections: requests leave, those that cannot fail.
    pub fn turn(&mut self, net: &mut impl GroupNetwork, now: Millis) {
        self.channel.try_send(net, now);
        for (purpose, error) in self.channel.failed(self.config.request_timeout, net, now) {
            self.on_failed(purpose, error, net, now);
        }
    }
    /// When a poll that is waiting looks again by itself.
    pub fn wake_at(&self, net: &impl GroupNetwork, now: Millis) -> Millis {
        let unsent = now.saturating_add(self.channel.delay(net, now));
        let asleep = if self.asleep_until > now { self.asleep_until } else { Millis::MAX };
        let sync = self.commit_sync_wake_at(now).unwrap_or(Millis::MAX);
        let asleep = asleep.min(self.committed_wake_at(now));
        unsent.min(asleep).min(self.heartbeat.deadline(&self.config)).min(self.commits.wake_at(now)).min(sync)
    }
    /// Takes the end of a request; false if it is not one of this member.
    pub fn on_completed(
        &mut self,
        node: BrokerId,
        correlation: u32,
        outcome: &GroupOutcome<'_>,
        net: &mut impl GroupNetwork,
        now: Millis,
    ) -> bool {
        let Some(purpose) = self.channel.complete(node, correlation) else { return false };
        match (purpose, outcome) {
            (Purpose::Find, GroupOutcome::Found(reply)) => self.on_found(reply, net, now),
            (Purpose::Join(sent), GroupOutcome::Reply(GroupReply::Join(reply))) => self.on_join(&sent, reply, net, now),
            (Purpose::Sync(sent), GroupOutcome::Reply(GroupReply::Sync(reply))) => self.on_sync(&sent, reply, net, now),
            (Purpose::Heartbeat(sent), GroupOutcome::Reply(GroupReply::Heartbeat(error))) => {
                self.on_heartbeat(&sent, *error, net, now);
            }
            (Purpose::Commit(sent, owner, offsets), GroupOutcome::Reply(GroupReply::OffsetCommit(whole, errors))) => {
                if whole.is_ok() && errors.iter().all(|(_, error)| error.is_ok()) {
                    self.events.push(GroupEvent::Stored(offsets));
                }
                self.on_commit(&sent, owner, *whole, errors, net, now);
            }
            (Purpose::Committed, GroupOutcome::Reply(GroupReply::OffsetFetch(whole, offsets))) => {
                self.on_committed(*whole, offsets, net, now);
            }
            (Purpose::Leave, _) => {}
            (purpose, _) => self.on_failed(purpose, GroupError::Disconnected, net, now),
        }
        true
    }
    /// A request got no answer, or never left.
    fn on_failed(&mut self, purpose: Purpose, error: GroupError, net: &mut impl GroupNetwork, now: Millis) {
        if error == GroupError::Disconnected && !matches!(purpose, Purpose::Find) {
            self.coordinator = None;
        }
        match purpose {
            Purpose::Find => self.found(Err(error), net, now),
            Purpose::Join(_) | Purpose::Sync(_) => self.join = Join::Done(Err(error)),
            Purpose::Heartbeat(_) => self.heartbeat_ended(Err(error), now),
            Purpose::Commit(_, owner, _) => self.commit_ended(owner, Err(error)),
            Purpose::Committed => self.committed_ended(Err(error)),
            Purpose::Leave => {}
        }
    }
}

#[cfg(test)]
mod tests;
