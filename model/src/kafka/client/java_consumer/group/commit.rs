//! Offset commits: asynchronous, synchronous, automatic (`commitOffsetsAsync`, `commitOffsetsSync`, `maybeAutoCommit`).

use super::channel::{GroupNetwork, Outgoing, Purpose};
use super::{CommitError, Generation, GroupError, GroupEvent, GroupMember, MemberState, Timer};
use crate::base::{Fix, Millis, Offset, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::coordinator::group::Name;
use crate::kafka::coordinator::group::messages::{GroupRequest, OffsetCommitRequest};
use std::collections::VecDeque;
use std::sync::Arc;

/// A commit of the application, by the application's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitId(pub u64);

/// Who made a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOwner {
    /// `commitAsync`.
    Async(CommitId),
    /// `commitSync`.
    Sync,
    /// The client itself, from time to time.
    Auto,
    /// The client itself, before it gives partitions up.
    BeforeRejoin,
}

type Offsets = Vec<(TopicPartition, Offset)>;

#[derive(Clone, Debug)]
struct SyncCommit {
    offsets: Offsets,
    deadline: Millis,
    attempts: u32,
    /// Sleeps between tries.
    until: Option<Millis>,
    result: Option<Option<Result<(), GroupError>>>,
}

/// The commits of a member.
#[derive(Clone, Debug)]
pub(super) struct Commits {
    /// Ended; their callbacks run in the next call of the application.
    completed: VecDeque<(CommitId, Result<(), CommitError>)>,
    /// Wait for the coordinator to be found.
    waiting: Vec<(CommitOwner, Offsets)>,
    /// A static member was fenced: every later call throws it.
    fenced: bool,
    sync: Option<SyncCommit>,
    auto_interval: Option<Millis>,
    next_auto: Millis,
    before_rejoin: Option<Option<Result<(), GroupError>>>,
    /// `onJoinPrepare` does not wait for a commit longer than to here.
    prepare_until: Option<Millis>,
}

impl Commits {
    pub(super) fn new(auto_interval: Option<Millis>, now: Millis) -> Self {
        Self {
            completed: VecDeque::new(),
            waiting: Vec::new(),
            fenced: false,
            sync: None,
            next_auto: auto_interval.map_or(Millis::MAX, |interval| now + interval),
            auto_interval,
            before_rejoin: None,
            prepare_until: None,
        }
    }
    pub(super) fn restart_auto_commit(&mut self, now: Millis) {
        if let Some(interval) = self.auto_interval {
            self.next_auto = now + interval;
        }
    }
    pub(super) fn wake_at(&self, now: Millis) -> Millis {
        if self.next_auto > now { self.next_auto } else { Millis::MAX }
    }
}

impl GroupMember {
    /// Runs the callbacks of commits that have ended (`invokeCompletedOffsetCommitCallbacks`).
    ///
    /// # Errors
    /// FENCED_INSTANCE_ID, from the first such commit on for good.
    pub fn invoke_callbacks(&mut self) -> Result<(), GroupError> {
        if self.commits.fenced {
            return Err(GroupError::Code(ErrorCode::FencedInstanceId));
        }
        while let Some((id, result)) = self.commits.completed.pop_front() {
            self.events.push(GroupEvent::Committed(id, result));
        }
        Ok(())
    }
    /// `commitAsync`.
    ///
    /// # Errors
    /// Only [`GroupMember::invoke_callbacks`]'s, and those of a look-up.
    pub fn commit_async(
        &mut self,
        id: CommitId,
        offsets: Offsets,
        net: &mut impl GroupNetwork,
        now: Millis,
    ) -> Result<(), GroupError> {
        self.invoke_callbacks()?;
        self.begin_commit(CommitOwner::Async(id), offsets, net, now)
    }
    fn begin_commit(
        &mut self,
        owner: CommitOwner,
        offsets: Offsets,
        net: &mut impl GroupNetwork,
        now: Millis,
    ) -> Result<(), GroupError> {
        if offsets.is_empty() {
            self.commit_ended(owner, Ok(()));
        } else if !self.coordinator_unknown(net, now)
            || self.fixes.has(Fix::CommitLooksUpAgain) && self.ensure_ready(Timer::zero(now), net)?
        {
            self.send_commit(owner, offsets, net, now);
        } else if self.look_up(net, now) {
            match self.found_result() {
                Some(Ok(())) => self.send_commit(owner, offsets, net, now),
                Some(Err(error)) => self.look_up_failed(owner, error),
                None => self.commits.waiting.push((owner, offsets)),
            }
        } else {
            self.look_up_failed(owner, GroupError::Disconnected);
        }
        self.turn(net, now);
        Ok(())
    }
    fn look_up_failed(&mut self, owner: CommitOwner, error: GroupError) {
        match owner {
            CommitOwner::Async(id) => {
                self.commits.completed.push_back((id, Err(CommitError::Retriable(error))));
            }
            owner => self.commit_ended(owner, Err(error)),
        }
    }
    pub(super) fn commits_found(&mut self, result: Result<(), GroupError>, net: &mut impl GroupNetwork, now: Millis) {
        for (owner, offsets) in std::mem::take(&mut self.commits.waiting) {
            match result {
                Ok(()) => {
                    self.send_commit(owner, offsets, net, now);
                    self.turn(net, now);
                }
                Err(error) => self.look_up_failed(owner, error),
            }
        }
    }
    /// `sendOffsetCommitRequest`: one try. A member that is not stable fails here, nothing is sent.
    fn send_commit(&mut self, owner: CommitOwner, offsets: Offsets, net: &mut impl GroupNetwork, now: Millis) {
        if self.coordinator_unknown(net, now) {
            return self.commit_ended(owner, Err(GroupError::Code(ErrorCode::CoordinatorNotAvailable)));
        }
        let Some(node) = self.coordinator else { return };
        let subscribed = self.config.topics.is_some();
        if subscribed && self.state != MemberState::Stable {
            let rebalancing = self.state != MemberState::Unjoined;
            let error =
                if rebalancing { GroupError::Code(ErrorCode::RebalanceInProgress) } else { GroupError::CommitFailed };
            return self.commit_ended(owner, Err(error));
        }
        let generation = if subscribed { self.generation.clone() } else { Generation::none() };
        let body = GroupRequest::OffsetCommit(OffsetCommitRequest {
            group: self.config.group,
            member: Arc::clone(&generation.member),
            instance: self.config.instance.clone().filter(|_| subscribed),
            generation: generation.id,
            version: 9,
            retention: None,
            offsets: offsets.clone(),
        });
        self.channel.send(node, Outgoing::Group(body), Purpose::Commit(generation, owner, offsets), now);
    }
    pub(super) fn on_commit(
        &mut self,
        sent: &Generation,
        owner: CommitOwner,
        whole: ErrorCode,
        errors: &[(TopicPartition, ErrorCode)],
        net: &mut impl GroupNetwork,
        now: Millis,
    ) {
        use ErrorCode as E;
        let mut unauthorized = false;
        let each = errors.iter().map(|(_, error)| *error);
        for error in std::iter::once(whole).chain(each).filter(|e| !e.is_ok()) {
            let failed = match error {
                E::TopicAuthorizationFailed => {
                    unauthorized = true;
                    continue;
                }
                E::GroupAuthorizationFailed
                | E::OffsetMetadataTooLarge
                | E::InvalidCommitOffsetSize
                | E::CoordinatorLoadInProgress
                | E::UnknownTopicOrPartition => GroupError::Code(error),
                E::CoordinatorNotAvailable | E::NotCoordinator | E::RequestTimedOut => {
                    self.mark_unknown(net, now);
                    GroupError::Code(error)
                }
                E::FencedInstanceId if self.generation == *sent => GroupError::Code(error),
                E::FencedInstanceId if self.state == MemberState::PreparingRebalance => {
                    GroupError::Code(E::RebalanceInProgress)
                }
                E::FencedInstanceId => GroupError::CommitFailed,
                E::RebalanceInProgress => {
                    // The partitions are kept until the next poll joins.
                    self.rejoin_needed = true;
                    GroupError::Code(error)
                }
                E::UnknownMemberId | E::IllegalGeneration => {
                    let stale = self.generation != *sent && self.state == MemberState::PreparingRebalance;
                    if stale {
                        GroupError::Code(E::RebalanceInProgress)
                    } else {
                        self.reset_and_rejoin(error == E::UnknownMemberId);
                        GroupError::CommitFailed
                    }
                }
                unexpected => GroupError::Unexpected(unexpected),
            };
            return self.commit_ended(owner, Err(failed));
        }
        let refused = unauthorized.then_some(GroupError::Code(E::TopicAuthorizationFailed));
        self.commit_ended(owner, refused.map_or(Ok(()), Err));
    }
    pub(super) fn commit_ended(&mut self, owner: CommitOwner, result: Result<(), GroupError>) {
        match owner {
            CommitOwner::Async(id) => {
                self.commits.fenced |= result == Err(GroupError::Code(ErrorCode::FencedInstanceId));
                self.commits.completed.push_back((id, result.map_err(CommitError::from)));
            }
            CommitOwner::Sync => {
                if let Some(sync) = &mut self.commits.sync {
                    sync.result = Some(Some(result));
                }
            }
            CommitOwner::Auto => {
                if result.is_err_and(GroupError::is_retriable) {
                    self.commits.next_auto =
                        self.commits.next_auto.min(self.heartbeat.now() + self.config.retry_backoff);
                }
            }
            CommitOwner::BeforeRejoin => self.commits.before_rejoin = Some(Some(result)),
        }
    }

    // ---- commitSync

    /// `commitSync`, up to its time limit. [`GroupMember::drive_commit_sync`] gives the result.
    ///
    /// # Errors
    /// [`GroupMember::invoke_callbacks`]'s.
    pub fn commit_sync(&mut self, offsets: Offsets, deadline: Millis) -> Result<(), GroupError> {
        self.invoke_callbacks()?;
        self.commits.sync = Some(SyncCommit { offsets, deadline, attempts: 0, until: None, result: None });
        Ok(())
    }
    /// Goes on with a `commitSync`: `Ok(false)` where its time is over (the last try may have been applied all the same),
    /// `None` while it waits.
    pub fn drive_commit_sync(&mut self, net: &mut impl GroupNetwork, now: Millis) -> Option<Result<bool, GroupError>> {
        loop {
            let sync = self.commits.sync.as_mut()?;
            let timer = Timer { now, deadline: sync.deadline };
            match sync.result {
                None => {
                    if sync.until.is_some_and(|until| now < until) {
                        return None;
                    }
                    if sync.until.is_some() && timer.expired() {
                        return self.sync_over(Ok(false));
                    }
                    match self.ensure_ready(timer, net) {
                        Ok(true) => {}
                        Ok(false) if timer.expired() => return self.sync_over(Ok(false)),
                        Ok(false) => return None,
                        Err(error) => return self.sync_over(Err(error)),
                    }
                    let sync = self.commits.sync.as_mut()?;
                    sync.result = Some(None);
                    let offsets = sync.offsets.clone();
                    self.send_commit(CommitOwner::Sync, offsets, net, now);
                    self.turn(net, now);
                    if self.commits.sync.as_ref().is_some_and(|s| s.result == Some(None)) {
                        return None;
                    }
                }
                Some(None) if timer.expired() => return self.sync_over(Ok(false)),
                Some(None) => return None,
                Some(Some(result)) => {
                    if let Err(error) = self.invoke_callbacks() {
                        return self.sync_over(Err(error));
                    }
                    match result {
                        Ok(()) => return self.sync_over(Ok(true)),
                        Err(error) if !error.is_retriable() => return self.sync_over(Err(error)),
                        Err(_) => {}
                    }
                    let sync = self.commits.sync.as_mut()?;
                    sync.result = None;
                    sync.until = Some(timer.sleep(self.config.backoff.after(sync.attempts, &mut self.dice)));
                    sync.attempts += 1;
                }
            }
        }
    }
    /// When a `commitSync` that waits goes on by the clock alone.
    pub fn commit_sync_wake_at(&self, now: Millis) -> Option<Millis> {
        let sync = self.commits.sync.as_ref()?;
        let until = [sync.until, Some(self.asleep_until)].into_iter().flatten().find(|at| *at > now);
        Some(until.unwrap_or(sync.deadline).min(sync.deadline))
    }
    fn sync_over(&mut self, result: Result<bool, GroupError>) -> Option<Result<bool, GroupError>> {
        self.commits.sync = None;
        Some(result)
    }

    // ---- automatic commits

    pub(super) fn auto_commit(&mut self, now: Millis, consumed: impl Fn() -> Offsets, net: &mut impl GroupNetwork) {
        if self.commits.auto_interval.is_some() && now >= self.commits.next_auto {
            self.commits.restart_auto_commit(now);
            // What a look-up throws here is told by the next poll.
            let _ = self.begin_commit(CommitOwner::Auto, consumed(), net, now);
        }
    }
    /// Commits what was consumed before partitions are given up; false while that is awaited, at most for the rebalance
    /// timeout.
    pub(super) fn commit_before_rejoin(
        &mut self,
        consumed: &impl Fn() -> Offsets,
        net: &mut impl GroupNetwork,
        now: Millis,
    ) -> bool {
        if self.commits.auto_interval.is_none() {
            return true;
        }
        let until = *self.commits.prepare_until.get_or_insert(now + self.config.max_poll_interval);
        if self.commits.before_rejoin.is_none() {
            self.commits.before_rejoin = Some(None);
            let _ = self.begin_commit(CommitOwner::BeforeRejoin, consumed(), net, now);
        }
        self.turn(net, now);
        let again = match self.commits.before_rejoin {
            _ if now >= until => false,
            Some(None) => return false,
            Some(Some(Err(error))) => error.is_retriable(),
            _ => false,
        };
        self.commits.before_rejoin = None;
        if !again {
            self.commits.prepare_until = None;
        }
        !again
    }
    /// Whether what it owns is being committed before it is given up: nothing of it is delivered meanwhile
    /// (`markPendingRevocation`, KAFKA-14196).
    pub fn pending_revocation(&self) -> bool {
        self.commits.prepare_until.is_some() && !self.config.cooperative()
    }
    /// The member id and generation for a transaction's offsets (`groupMetadata`): those of the last join that was completed,
    /// also when the membership is over. So a zombie's offsets are refused; with those of no member they would be taken.
    pub fn group_metadata(&self) -> (Name, i32) {
        self.metadata.clone()
    }
}
