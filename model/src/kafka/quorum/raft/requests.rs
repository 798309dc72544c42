//! Answering the requests of other members (`handleRequest`).

use super::super::leader::ParkedFetch;
use super::super::log::Position;
use super::super::messages::{QuorumReply, QuorumRequest, RaftFetchReply, RaftFetchRequest, VoteRequest};
use super::super::state::Role;
use super::{Output, Raft, ReplyTo};
use crate::base::{BrokerId, LeaderEpoch, Millis, Offset};
use crate::kafka::ErrorCode;

impl<R: Clone> Raft<R> {
    pub(super) fn handle_request(&mut self, request: &QuorumRequest, to: ReplyTo, now: Millis) {
        let reply = match request {
            QuorumRequest::Vote(vote) => self.handle_vote(vote, now),
            QuorumRequest::BeginQuorumEpoch { leader, epoch } => {
                let error = self.hear_of_leader(*leader, *epoch, now);
                QuorumReply::BeginQuorumEpoch { error, hint: self.hint() }
            }
            QuorumRequest::EndQuorumEpoch { leader, epoch, successors } => {
                let error = self.hear_of_leader(*leader, *epoch, now);
                if error.is_ok() {
                    self.shorten_fetch_timeout(*leader, successors, now);
                }
                QuorumReply::EndQuorumEpoch { error, hint: self.hint() }
            }
            QuorumRequest::Fetch(fetch) => return self.handle_fetch(fetch, to, now),
        };
        self.outputs.push(Output::Reply { to, reply });
    }

    fn handle_vote(&mut self, vote: &VoteRequest, now: Millis) -> QuorumReply<R> {
        // A candidate has raised its epoch above all that it has seen; a prospective node may know records of its own.
        let illegal = if vote.pre_vote { vote.last_epoch > vote.epoch } else { vote.last_epoch >= vote.epoch };
        let error = match () {
            () if illegal => ErrorCode::InvalidRequest,
            () if vote.epoch < self.epoch => ErrorCode::FencedLeaderEpoch,
            () => ErrorCode::None,
        };
        if !error.is_ok() {
            return QuorumReply::Vote { error, hint: self.hint(), granted: false };
        }
        if vote.epoch > self.epoch {
            self.become_unattached(vote.epoch, None, now);
        }
        let up_to_date = (vote.last_epoch, vote.last_offset) >= (self.log.last_epoch(), self.log.end());
        let granted = self.role.grants(self.config.me, vote.candidate, up_to_date, vote.pre_vote);
        if granted && !vote.pre_vote {
            self.add_vote(vote.candidate, now);
        }
        QuorumReply::Vote { error, hint: self.hint(), granted }
    }

    /// A leader has named itself.
    fn hear_of_leader(&mut self, leader: BrokerId, epoch: LeaderEpoch, now: Millis) -> ErrorCode {
        if epoch < self.epoch {
            return ErrorCode::FencedLeaderEpoch;
        }
        self.maybe_transition(Some(leader), epoch, now);
        ErrorCode::None
    }

    /// The leader has resigned. The first of the successors stands for election at once, the next ones at
    /// exponentially growing distances, one that is not named last (`endEpochElectionBackoff`). With an empty list
    /// everybody is first.
    fn shorten_fetch_timeout(&mut self, from: BrokerId, successors: &[BrokerId], now: Millis) {
        let (me, max) = (self.config.me, self.config.election_backoff_max.0);
        if let Role::Follower { leader, fetch_at, .. } = &mut self.role
            && *leader == from
        {
            let position = successors.iter().position(|s| *s == me).unwrap_or(successors.len());
            let backoff = match position {
                0 => 0,
                n if n >= successors.len() => max,
                n => max.min((max >> (successors.len() - 1)) << (n - 1)),
            };
            *fetch_at = now + Millis(backoff);
        }
    }

    fn handle_fetch(&mut self, fetch: &RaftFetchRequest, to: ReplyTo, now: Millis) {
        let reply = if fetch.offset < Offset(0) || fetch.last_fetched_epoch > fetch.epoch {
            self.empty_fetch_reply(ErrorCode::InvalidRequest)
        } else {
            self.answer_fetch(fetch, now)
        };
        let news = !reply.error.is_ok()
            || !reply.batches.is_empty()
            || reply.diverging.is_some()
            || reply.high_watermark > fetch.high_watermark;
        if news || fetch.max_wait <= Millis(0) {
            self.outputs.push(Output::Reply { to, reply: QuorumReply::Fetch(reply) });
        } else {
            let expires = now + fetch.max_wait;
            self.parked.push(ParkedFetch { to, request: *fetch, stale: reply, expires });
        }
    }

    /// The answer to a fetch as things are (`tryCompleteFetchRequest`). A fetch at a valid position acknowledges everything
    /// before it, and may so commit records.
    pub(super) fn answer_fetch(&mut self, fetch: &RaftFetchRequest, now: Millis) -> RaftFetchReply<R> {
        let error = match &self.role {
            _ if fetch.epoch < self.epoch => ErrorCode::FencedLeaderEpoch,
            _ if fetch.epoch > self.epoch => ErrorCode::UnknownLeaderEpoch,
            Role::Leader(_) if self.shutdown_by.is_some() => ErrorCode::BrokerNotAvailable,
            Role::Leader(_) => ErrorCode::None,
            _ => ErrorCode::NotLeaderOrFollower,
        };
        let mut reply = self.empty_fetch_reply(error);
        if !error.is_ok() {
            return reply;
        }
        match self.log.validate(fetch.offset, fetch.last_fetched_epoch) {
            Position::Diverging(epoch, end) => reply.diverging = Some((epoch, end)),
            Position::Valid => {
                reply.batches = self.log.read(fetch.offset, self.config.fetch_max_bytes);
                if let Role::Leader(leader) = &mut self.role {
                    leader.fetched(fetch.replica, fetch.offset, now);
                }
                self.update_leader_high_watermark(now);
            }
        }
        reply.high_watermark = self.high_watermark.unwrap_or(Offset::UNKNOWN);
        reply
    }
}
