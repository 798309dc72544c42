//! A consumer that subscribes (`ClassicKafkaConsumer` with `subscribe`): membership and fetching as `poll` puts them together.

use super::group::{GroupError, GroupEvent, GroupMember, GroupNetwork, GroupOutcome, Timer};
use super::{ConsumerError, FetchState, Fetched, JavaConsumer};
use crate::base::{LeaderEpoch, Millis, Offset, SmallMap, TopicPartition};
use crate::kafka::client::{Completed, Moved, Outcome};
use crate::kafka::messages::Reply;

/// What a poll throws.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PollError {
    /// Membership.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Positions and fetching.
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
}

/// A subscribed consumer. Sans-I/O: the owner hands it what its connections gave back, and calls [`Self::poll`] for the
/// application's thread and [`Self::beat`] for the heartbeat thread.
#[derive(Clone, Debug)]
pub struct SubscribedConsumer {
    consumer: JavaConsumer,
    member: GroupMember,
    /// How long the application lets one poll block.
    poll_timeout: Millis,
    /// The limit of the poll under way.
    deadline: Option<Millis>,
    /// It blocks in the membership (coordinator unknown, committed offsets not there).
    blocked: bool,
    /// Where each partition stood when it was looked at last.
    stood: SmallMap<TopicPartition, Offset>,
    moved: Vec<Moved>,
}

impl SubscribedConsumer {
    /// A consumer that has not joined yet.
    pub const fn new(consumer: JavaConsumer, member: GroupMember, poll_timeout: Millis) -> Self {
        Self {
            consumer,
            member,
            poll_timeout,
            deadline: None,
            blocked: false,
            stood: SmallMap::new(),
            moved: Vec::new(),
        }
    }
    /// Its membership.
    pub const fn member(&self) -> &GroupMember {
        &self.member
    }
    /// Its membership, for commits.
    pub const fn member_mut(&mut self) -> &mut GroupMember {
        &mut self.member
    }
    /// The position of a partition, if it has one.
    pub fn position(&self, tp: TopicPartition) -> Option<Offset> {
        self.consumer.position(tp)
    }
    /// Takes out what happened to partitions.
    pub fn take_moved(&mut self) -> Vec<Moved> {
        std::mem::take(&mut self.moved)
    }
    /// Positions of everything assigned (`SubscriptionState.allConsumed`).
    pub fn consumed(&self) -> Vec<(TopicPartition, Offset)> {
        self.consumer.consumed()
    }

    /// Takes the end of a request; false if it is none of this consumer.
    pub fn on_completed(&mut self, done: &Completed, now: Millis, net: &mut impl GroupNetwork) -> bool {
        if self.consumer.on_completed(done, now, net) {
            return true;
        }
        let outcome = match &done.outcome {
            Outcome::Reply(Reply::Coordinator(reply)) => GroupOutcome::Found(reply),
            Outcome::Reply(Reply::Group(reply)) => GroupOutcome::Reply(reply),
            Outcome::Lost(lost) => GroupOutcome::Lost(*lost),
            _ => return false,
        };
        let taken = self.member.on_completed(done.node, done.correlation, &outcome, net, now);
        self.follow();
        taken
    }

    /// The inside of one blocking `poll`: `None` while it waits. An empty result ends it like any other.
    ///
    /// # Errors
    /// What the poll throws; it is over with that.
    pub fn poll(&mut self, now: Millis, net: &mut impl GroupNetwork) -> Result<Option<Fetched>, PollError> {
        let deadline = *self.deadline.get_or_insert(now + self.poll_timeout);
        let result = self.poll_until(Timer { now, deadline }, net);
        self.follow();
        self.look_back();
        if !matches!(result, Ok(None)) || now >= deadline {
            self.deadline = None;
        }
        result
    }
    fn poll_until(&mut self, timer: Timer, net: &mut impl GroupNetwork) -> Result<Option<Fetched>, PollError> {
        let now = timer.now;
        let consumer = &self.consumer;
        let member_ready = self.member.poll(timer, || consumer.consumed(), net)?;
        self.follow();
        self.blocked = if member_ready {
            !self.find_starts(timer, net)?
        } else {
            // A join that is under way does not hold the poll up, a look for the coordinator does.
            self.member.coordinator().is_none()
        };
        if self.blocked && !timer.expired() || self.member.pending_revocation() {
            return Ok(None);
        }
        if member_ready && !self.blocked {
            self.consumer.update_positions(now, net)?;
        }
        let mut fetched = self.consumer.begin_fetches(now, net)?;
        if fetched.is_none() {
            fetched = self.consumer.end_poll(now, net)?;
        }
        if fetched.is_some() {
            self.consumer.pipeline(now, net);
        }
        Ok(fetched)
    }
    /// Partitions without a position begin where the group has committed (`initWithCommittedOffsetsIfNeeded`); false while
    /// the look-up is under way.
    fn find_starts(&mut self, timer: Timer, net: &mut impl GroupNetwork) -> Result<bool, GroupError> {
        let without = self.consumer.subscription().grown_set(|p| p.state == FetchState::Initializing);
        if without.is_empty() {
            return Ok(true);
        }
        let found = match self.member.committed(&without, timer, net) {
            None => return Ok(false),
            Some(found) => found?,
        };
        for tp in without {
            match found.iter().find(|(of, _)| *of == tp) {
                Some((_, offset)) => {
                    self.consumer.seek(tp, *offset, LeaderEpoch::UNKNOWN, timer.now, net);
                    self.moved.push(Moved::Starts(tp, *offset));
                }
                None => self.moved.push(Moved::Reset(tp)),
            }
        }
        Ok(true)
    }
    /// `seek`.
    pub fn seek(
        &mut self,
        tp: TopicPartition,
        offset: Offset,
        epoch: LeaderEpoch,
        now: Millis,
        net: &mut impl GroupNetwork,
    ) {
        self.consumer.seek(tp, offset, epoch, now, net);
        // The application's own doing is no reset.
        self.stood.insert(tp, offset);
    }
    /// One turn of the heartbeat thread.
    pub fn beat(&mut self, now: Millis, net: &mut impl GroupNetwork) {
        self.member.beat(net, now);
        self.follow();
    }
    /// Gives the membership up (`close`), after the commit that the owner has made.
    pub fn leave(&mut self, now: Millis, net: &mut impl GroupNetwork) {
        self.member.leave(net, now);
        let owned: Vec<_> = self.consumer.subscription().iter().map(|p| p.tp).collect();
        self.moved.extend(owned.into_iter().map(|tp| Moved::Revoked(tp, false)));
        self.consumer.assign(&[]);
    }

    /// Fetching follows what became of the membership.
    fn follow(&mut self) {
        for event in self.member.take_events() {
            match event {
                GroupEvent::Revoked(list) => self.take_away(&list, false),
                GroupEvent::Lost(list) => self.take_away(&list, true),
                GroupEvent::Assigned(_) => {
                    let assigned: Vec<_> = self.member.assigned().iter().copied().collect();
                    self.consumer.assign(&assigned);
                    let generation = self.member.generation().id;
                    self.moved.extend(assigned.into_iter().map(|tp| Moved::Assigned(tp, generation)));
                }
                GroupEvent::Stored(offsets) => {
                    self.moved.extend(offsets.into_iter().map(|(tp, offset)| Moved::Committed(tp, offset)));
                }
                GroupEvent::Committed(..) | GroupEvent::Heartbeat(_) => {}
            }
        }
    }
    /// Tells of positions that were set back: out of range, or truncated below.
    fn look_back(&mut self) {
        for p in self.consumer.subscription().iter() {
            let Some(at) = p.position.map(|p| p.offset) else { continue };
            if self.stood.insert(p.tp, at).is_some_and(|before| at < before) {
                self.moved.push(Moved::Reset(p.tp));
            }
        }
    }
    fn take_away(&mut self, list: &[TopicPartition], lost: bool) {
        let left = self.consumer.subscription().order().iter().copied().filter(|tp| !list.contains(tp));
        let left: Vec<_> = left.collect();
        self.consumer.assign(&left);
        self.stood.retain(|tp, _| !list.contains(&tp));
        self.moved.extend(list.iter().map(|tp| Moved::Revoked(*tp, lost)));
    }

    /// When the application's thread, blocked in `poll`, looks again by itself.
    pub fn wake_at(&self, now: Millis, net: &impl GroupNetwork) -> Millis {
        let at = self.member.wake_at(net, now);
        match self.deadline {
            Some(deadline) if self.blocked => at.min(deadline).max(now + Millis(1)),
            _ => at.min(self.consumer.wake_at(now, net)),
        }
    }
}
