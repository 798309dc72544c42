//! Passing from role to role, and what each role does when its time has come (`QuorumState`, `pollCurrentState`).

use super::super::disk::{Election, RaftFile, RaftWrite};
use super::super::leader::LeaderState;
use super::super::log::{Body, RaftBatch};
use super::super::messages::{QuorumReply, QuorumRequest, RaftFetchReply, VoteRequest};
use super::super::state::{Role, Votes};
use super::{Output, Raft};
use crate::base::{BrokerId, LeaderEpoch, Millis, Offset};
use crate::kafka::ErrorCode;
use std::sync::Arc;

impl<R: Clone> Raft<R> {
    /// The role after a start. A node that led comes up resigned in its old epoch: it cannot vote in it, and appends nothing
    /// under an epoch and offset that it may have used before. It tells the voters at once (kafka-measured.md 1.3 #7b).
    ///
    /// A voter flushes first. It may have been killed between write and flush, and its first fetch would acknowledge what is
    /// only in the page cache: were it committed by that, a power loss and the right election would lose it. Kafka does
    /// not flush here. Its window closes with the next record, half a second later, so nothing else tells the difference.
    pub(super) fn initialize(&mut self, election: Election, now: Millis) {
        let me = self.config.me;
        let voted = election.voted;
        if self.config.is_voter() && self.log.end() > Offset(0) {
            self.outputs.push(Output::Flush(RaftFile::Log));
        }
        let role = if election.epoch < self.log.last_epoch() {
            self.epoch = self.log.last_epoch();
            Role::Unattached { leader: None, voted: None, election_at: self.election_at(now) }
        } else if election.leader == Some(me) {
            self.resigned(Arc::new([]), now)
        } else if voted == Some(me) {
            Role::Candidate { votes: self.new_votes(), election_at: self.election_at(now) }
        } else if let Some(leader) = election.leader {
            Role::Follower { leader, voted, fetch_at: now + self.config.fetch_timeout, fetched: false }
        } else {
            Role::Unattached { leader: None, voted, election_at: self.election_at(now) }
        };
        self.become_role(role, true);
        if self.config.voters.len() == 1 && self.config.is_voter() {
            match self.role {
                Role::Candidate { .. } => self.maybe_become_leader(now),
                _ => self.become_prospective(now),
            }
        }
    }

    fn new_votes(&self) -> Votes {
        Votes::new(self.config.voters.len(), self.config.me)
    }
    /// Uniform in [timeout, 2 x timeout) from now; never for an observer.
    fn election_at(&mut self, now: Millis) -> Millis {
        if !self.config.is_voter() {
            return Millis::MAX;
        }
        let timeout = self.config.election_timeout.0;
        now + Millis(timeout + self.random.below(timeout.max(1) as u64) as i64)
    }
    fn resigned(&mut self, successors: Arc<[BrokerId]>, now: Millis) -> Role<R> {
        let unacked = self.config.voters.iter().copied().filter(|v| *v != self.config.me).collect();
        Role::Resigned { election_at: self.election_at(now), unacked, successors }
    }

    fn become_role(&mut self, role: Role<R>, durable: bool) {
        let changed = role.kind() != self.role.kind();
        self.role = role;
        if durable {
            let me = self.config.me;
            let (leader, voted) = (self.role.leader(me), self.role.voted(me));
            let election = Election { epoch: self.epoch, leader, voted };
            self.outputs.push(Output::Write(RaftWrite::Election(election)));
            self.outputs.push(Output::Flush(RaftFile::QuorumState));
        }
        if changed || durable {
            self.outputs.push(Output::Role { epoch: self.epoch, role: self.role.kind() });
        }
    }

    // ---- transitions

    pub(super) fn become_unattached(&mut self, epoch: LeaderEpoch, leader: Option<BrokerId>, now: Millis) {
        // An election that goes on keeps its time, so that a node which hears of ever new epochs still stands some day.
        let running = match &self.role {
            Role::Unattached { election_at, .. }
            | Role::Candidate { election_at, .. }
            | Role::Resigned { election_at, .. } => Some(*election_at),
            Role::Prospective { votes, election_at, .. } if !votes.lost() => Some(*election_at),
            _ => None,
        };
        let election_at = match running {
            Some(at) if self.config.is_voter() => at,
            _ => self.election_at(now),
        };
        let voted = if epoch == self.epoch { self.role.voted(self.config.me) } else { None };
        self.epoch = epoch;
        self.become_role(Role::Unattached { leader, voted, election_at }, true);
        self.fire_leader_change();
        self.requests.reset_all();
    }

    /// Adds a vote to an unattached or prospective role; its time begins anew, since the candidate is as good as this node.
    pub(super) fn add_vote(&mut self, candidate: BrokerId, now: Millis) {
        let election_at = self.election_at(now);
        let role = match self.role {
            Role::Unattached { leader, voted: None, .. } => {
                Role::Unattached { leader, voted: Some(candidate), election_at }
            }
            Role::Prospective { leader, voted: None, .. } => {
                Role::Prospective { leader, voted: Some(candidate), votes: self.new_votes(), election_at }
            }
            _ => return,
        };
        self.become_role(role, true);
    }

    pub(super) fn become_follower(&mut self, epoch: LeaderEpoch, leader: BrokerId, now: Millis) {
        assert!(leader != self.config.me && epoch >= self.epoch, "follows another node, in no earlier epoch");
        let voted = if epoch == self.epoch { self.role.voted(self.config.me) } else { None };
        self.epoch = epoch;
        let fetch_at = now + self.config.fetch_timeout;
        self.become_role(Role::Follower { leader, voted, fetch_at, fetched: false }, true);
        self.fire_leader_change();
        self.requests.reset_all();
        self.fail_parked();
    }

    fn become_prospective(&mut self, now: Millis) {
        let (leader, voted) = (self.leader(), self.role.voted(self.config.me));
        let election_at = self.election_at(now);
        self.become_role(Role::Prospective { leader, voted, votes: self.new_votes(), election_at }, false);
        self.requests.reset_all();
        self.maybe_become_candidate(now);
    }

    pub(super) fn maybe_become_candidate(&mut self, now: Millis) {
        if !matches!(&self.role, Role::Prospective { votes, .. } if votes.won()) {
            return;
        }
        self.epoch = LeaderEpoch(self.epoch.0 + 1);
        let election_at = self.election_at(now);
        self.become_role(Role::Candidate { votes: self.new_votes(), election_at }, true);
        self.fire_leader_change();
        self.requests.reset_all();
        self.maybe_become_leader(now);
    }

    pub(super) fn maybe_become_leader(&mut self, now: Millis) {
        if !matches!(&self.role, Role::Candidate { votes, .. } if votes.won()) {
            return;
        }
        let (me, end) = (self.config.me, self.log.end());
        let leader = LeaderState::new(me, &self.config.voters, end, self.config.fetch_timeout, now);
        // A new leader does not vouch for the high watermark it knew: it waits until a majority has reached its own epoch.
        self.high_watermark = None;
        self.become_role(Role::Leader(leader), true);
        self.requests.reset_all();
        if let Role::Leader(leader) = &mut self.role {
            leader.opened();
        }
        self.append_as_leader(Body::LeaderChange(me), now);
    }

    fn become_resigned(&mut self, successors: Arc<[BrokerId]>, now: Millis) {
        self.fail_parked();
        self.high_watermark = None;
        let role = self.resigned(successors, now);
        self.become_role(role, false);
        self.outputs.push(Output::Resigned { epoch: self.epoch });
        self.requests.reset_all();
    }

    /// A prospective node that is refused, or not answered in time, goes back to whom it knew. As a follower it has a fresh
    /// fetch timeout, and having fetched nothing in this role it would now give others the pre-vote that it was refused (C-6).
    pub(super) fn lose_pre_vote(&mut self, now: Millis) {
        match self.leader() {
            Some(leader) if leader != self.config.me => self.become_follower(self.epoch, leader, now),
            leader => self.become_unattached(self.epoch, leader, now),
        }
    }

    // ---- polling

    /// Does what is due and gives the instant of the next time; one that is not after `now` asks for another turn.
    pub(super) fn poll_role(&mut self, now: Millis) -> Millis {
        match self.role {
            Role::Leader(_) => self.poll_leader(now),
            Role::Candidate { election_at, .. } | Role::Prospective { election_at, .. } => {
                self.poll_nominee(election_at, now)
            }
            Role::Follower { leader, fetch_at, .. } => self.poll_follower(leader, fetch_at, now),
            Role::Unattached { election_at, .. } => self.poll_unattached(election_at, now),
            Role::Resigned { election_at, .. } => self.poll_resigned(election_at, now),
        }
    }

    fn poll_leader(&mut self, now: Millis) -> Millis {
        let Role::Leader(leader) = &mut self.role else { unreachable!() };
        if self.shutdown_by.is_some() || leader.resign_requested || now >= leader.check_quorum_at {
            let successors = leader.successors();
            self.become_resigned(successors, now);
            return now;
        }
        if let Some(records) = leader.drain(now) {
            self.append_as_leader(Body::Records(records), now);
        }
        let mut due = Millis::MAX;
        let Role::Leader(leader) = &mut self.role else { unreachable!() };
        if now >= leader.begin_at {
            for voter in leader.unaware(now) {
                let begin = QuorumRequest::BeginQuorumEpoch { leader: self.config.me, epoch: self.epoch };
                due = due.min(self.maybe_send(voter, begin, now));
            }
        }
        let Role::Leader(leader) = &self.role else { unreachable!() };
        due.min(leader.begin_at).min(leader.check_quorum_at).min(leader.drain_at.unwrap_or(Millis::MAX))
    }

    /// Appends as leader. Waiting fetches get the records before the leader has flushed them.
    fn append_as_leader(&mut self, body: Body<R>, now: Millis) {
        self.write_batch(RaftBatch { base: self.log.end(), epoch: self.epoch, body });
        let end = self.log.end();
        if let Role::Leader(leader) = &mut self.role {
            leader.local_end(end);
        }
        self.update_leader_high_watermark(now);
        self.complete_parked(now, |parked| parked.request.offset < end);
        self.outputs.push(Output::Flush(RaftFile::Log));
    }

    /// Commits what a majority has, and lets all waiting fetches know.
    pub(super) fn update_leader_high_watermark(&mut self, now: Millis) {
        let Role::Leader(leader) = &self.role else { return };
        let Some(high_watermark) = leader.high_watermark().filter(|hw| self.high_watermark.is_none_or(|old| *hw > old))
        else {
            return;
        };
        self.commit(high_watermark);
        self.complete_parked(now, |_| true);
    }

    fn poll_nominee(&mut self, election_at: Millis, now: Millis) -> Millis {
        let shutting_down = self.shutdown_by;
        if shutting_down.is_none() && now >= election_at {
            // A candidate that lost has waited for the rest of its time: that wait is its back-off.
            match self.role {
                Role::Candidate { .. } => self.become_prospective(now),
                _ => self.lose_pre_vote(now),
            }
            return now;
        }
        shutting_down.unwrap_or(election_at).min(self.send_vote_requests(now))
    }

    fn send_vote_requests(&mut self, now: Millis) -> Millis {
        let (Role::Candidate { votes, .. } | Role::Prospective { votes, .. }) = &self.role else { unreachable!() };
        if votes.lost() {
            return Millis::MAX;
        }
        let request = QuorumRequest::Vote(VoteRequest {
            candidate: self.config.me,
            epoch: self.epoch,
            last_epoch: self.log.last_epoch(),
            last_offset: self.log.end(),
            pre_vote: matches!(self.role, Role::Prospective { .. }),
        });
        let voters = Arc::clone(&self.config);
        let open: Vec<BrokerId> = voters.voters.iter().copied().filter(|v| !votes.recorded(*v)).collect();
        open.into_iter().map(|voter| self.maybe_send(voter, request.clone(), now)).min().unwrap_or(Millis::MAX)
    }

    fn poll_follower(&mut self, leader: BrokerId, fetch_at: Millis, now: Millis) -> Millis {
        if now >= fetch_at {
            if self.config.is_voter() {
                self.become_prospective(now);
            } else {
                self.become_unattached(self.epoch, Some(leader), now);
            }
            return now;
        }
        // While the leader does not answer, other voters are asked whether there is a new one.
        let due = if self.requests.timed_out(leader, now) {
            self.requests.reset(leader);
            self.fetch_from_any_voter(now)
        } else if self.requests.backing_off(leader, now) {
            self.fetch_from_any_voter(now)
        } else if self.requests.any_in_flight(now) {
            self.requests.bootstrap_ready_at(now)
        } else {
            self.maybe_send(leader, self.fetch_request(), now)
        };
        due.min(fetch_at)
    }

    fn poll_unattached(&mut self, election_at: Millis, now: Millis) -> Millis {
        if let (true, Some(by)) = (self.config.is_voter(), self.shutdown_by) {
            return by;
        }
        if now >= election_at {
            self.become_prospective(now);
            return now;
        }
        election_at.min(self.fetch_from_any_voter(now))
    }

    fn poll_resigned(&mut self, election_at: Millis, now: Millis) -> Millis {
        let Role::Resigned { unacked, successors, .. } = &self.role else { unreachable!() };
        let (unacked, successors) = (unacked.clone(), Arc::clone(successors));
        let mut due = Millis::MAX;
        for voter in unacked {
            let request = QuorumRequest::EndQuorumEpoch {
                leader: self.config.me,
                epoch: self.epoch,
                successors: Arc::clone(&successors),
            };
            due = due.min(self.maybe_send(voter, request, now));
        }
        if let Some(by) = self.shutdown_by {
            return due.min(by);
        }
        if now >= election_at {
            // The epoch is raised, so that nobody is told any more that this node leads it.
            self.become_unattached(LeaderEpoch(self.epoch.0 + 1), None, now);
            return now;
        }
        due.min(election_at)
    }

    // ---- fetches that wait

    /// Answers the waiting fetches that `which` picks with what there is now.
    fn complete_parked(&mut self, now: Millis, which: impl Fn(&super::ParkedFetch<R>) -> bool) {
        let (due, waiting) = std::mem::take(&mut self.parked).into_iter().partition(which);
        self.parked = waiting;
        let due: Vec<super::ParkedFetch<R>> = due;
        for parked in due {
            let reply = self.answer_fetch(&parked.request, now);
            self.outputs.push(Output::Reply { to: parked.to, reply: QuorumReply::Fetch(reply) });
        }
    }
    /// Sends the waiting fetches away: they find the new leader the sooner.
    fn fail_parked(&mut self) {
        for parked in std::mem::take(&mut self.parked) {
            let reply = self.empty_fetch_reply(ErrorCode::NotLeaderOrFollower);
            self.outputs.push(Output::Reply { to: parked.to, reply: QuorumReply::Fetch(reply) });
        }
    }
    pub(super) fn empty_fetch_reply(&self, error: ErrorCode) -> RaftFetchReply<R> {
        RaftFetchReply {
            error,
            hint: self.hint(),
            high_watermark: Offset::UNKNOWN,
            diverging: None,
            batches: Vec::new(),
        }
    }
}
