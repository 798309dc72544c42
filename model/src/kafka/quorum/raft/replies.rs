//! Dealing with the answers of other members (`handleResponse`).

use super::super::disk::{RaftFile, RaftWrite};
use super::super::messages::{QuorumReply, RaftFetchReply};
use super::super::state::Role;
use super::{Output, Raft};
use crate::base::{BrokerId, LeaderEpoch, Millis, Offset};
use crate::kafka::ErrorCode;

impl<R: Clone> Raft<R> {
    /// Gives whether the node may be asked again at once; else it backs off.
    pub(super) fn handle_reply(&mut self, node: BrokerId, reply: QuorumReply<R>, now: Millis) -> bool {
        let (error, hint) = (reply.error(), reply.hint());
        if let QuorumReply::Fetch(_) = reply
            && hint.epoch == self.epoch
            && let (Role::Unattached { .. }, Some(leader)) = (&self.role, hint.leader)
        {
            self.become_follower(hint.epoch, leader, now);
        }
        let before = (self.epoch, self.leader());
        if let Some(handled) = self.handle_common(error, hint.leader, hint.epoch, now) {
            // An answer that taught nothing is not asked for again in a loop; see the module's documentation.
            return handled && ((self.epoch, self.leader()) != before || !matches!(reply, QuorumReply::Fetch(_)));
        }
        match reply {
            _ if !error.is_ok() => return false,
            QuorumReply::Vote { granted, .. } => self.handle_vote_reply(node, granted, now),
            QuorumReply::BeginQuorumEpoch { .. } => {}
            QuorumReply::EndQuorumEpoch { .. } => {
                if let Role::Resigned { unacked, .. } = &mut self.role {
                    unacked.retain(|v| *v != node);
                }
            }
            QuorumReply::Fetch(fetched) => self.handle_fetched(fetched, now),
        }
        true
    }

    /// What is the same for all answers (`maybeHandleCommonResponse`). `None`: the answer's own handling is due.
    fn handle_common(
        &mut self,
        error: ErrorCode,
        leader: Option<BrokerId>,
        epoch: LeaderEpoch,
        now: Millis,
    ) -> Option<bool> {
        if epoch < self.epoch || error == ErrorCode::UnknownLeaderEpoch {
            return Some(true);
        }
        if epoch > self.epoch || matches!(error, ErrorCode::FencedLeaderEpoch | ErrorCode::NotLeaderOrFollower) {
            self.maybe_transition(leader, epoch, now);
            return Some(true);
        }
        if let (Some(leader), None) = (leader, self.leader()) {
            self.become_follower(epoch, leader, now);
            return (!error.is_ok()).then_some(true);
        }
        (error == ErrorCode::BrokerNotAvailable).then_some(false)
    }

    /// Follows what a request or an answer says of the leader, if it is news.
    pub(super) fn maybe_transition(&mut self, leader: Option<BrokerId>, epoch: LeaderEpoch, now: Millis) {
        let known = self.leader();
        let consistent = match leader {
            // Only this node can say that it leads; its epoch as leader is over when it has resigned.
            Some(l) if l == self.config.me => epoch < self.epoch || known == Some(l),
            Some(l) => epoch != self.epoch || known.is_none_or(|k| k == l),
            None => true,
        };
        assert!(consistent, "two leaders in epoch {epoch}: {known:?} and {leader:?}");
        match leader {
            Some(leader) if epoch > self.epoch || epoch == self.epoch && known.is_none() => {
                self.become_follower(epoch, leader, now);
            }
            None if epoch > self.epoch => self.become_unattached(epoch, None, now),
            _ => {}
        }
    }

    fn handle_vote_reply(&mut self, voter: BrokerId, granted: bool, now: Millis) {
        let (Role::Candidate { votes, .. } | Role::Prospective { votes, .. }) = &mut self.role else { return };
        votes.record(voter, granted);
        let lost = votes.lost();
        match self.role {
            Role::Prospective { .. } if granted => self.maybe_become_candidate(now),
            Role::Prospective { .. } if lost => self.lose_pre_vote(now),
            Role::Candidate { .. } if granted => self.maybe_become_leader(now),
            _ => {}
        }
    }

    fn handle_fetched(&mut self, fetched: RaftFetchReply<R>, now: Millis) {
        let Role::Follower { .. } = self.role else { return };
        if let Some((epoch, end)) = fetched.diverging {
            let to = self.log.truncation_point(epoch, end);
            let committed = self.high_watermark.unwrap_or(Offset(0));
            assert!(to >= committed, "the leader asks for a cut at {to}, below the high watermark {committed} (I-8)");
            self.log.truncate(to);
            self.outputs.push(Output::Write(RaftWrite::Truncate(to)));
        } else {
            self.append_as_follower(fetched.batches);
            if fetched.high_watermark >= Offset(0) {
                let high_watermark = fetched.high_watermark.min(self.log.end());
                let known = self.high_watermark.unwrap_or(Offset(0));
                assert!(high_watermark >= known, "the high watermark falls from {known} to {high_watermark} (I-7)");
                self.commit(high_watermark);
            }
        }
        if let Role::Follower { fetch_at, fetched, .. } = &mut self.role {
            *fetch_at = now + self.config.fetch_timeout;
            *fetched = true;
        }
    }

    /// A voter flushes before its next fetch acknowledges the records; an observer does not.
    fn append_as_follower(&mut self, batches: Vec<super::RaftBatch<R>>) {
        if batches.is_empty() {
            return;
        }
        for batch in batches {
            self.write_batch(batch);
        }
        if self.config.is_voter() {
            self.outputs.push(Output::Flush(RaftFile::Log));
        }
    }
}
