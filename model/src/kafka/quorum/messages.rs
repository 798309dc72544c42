//! Requests and answers among quorum voters, and from observers (brokers) to the leader.

use super::log::RaftBatch;
use crate::base::{BrokerId, Chain, Feed, LeaderEpoch, Millis, Offset};
use crate::kafka::ErrorCode;
use crate::kafka::controller::Record;
use std::sync::Arc;

/// A request. Every sender names the epoch that it knows; every answer carries the answerer's (`LeaderHint`).
#[derive(Clone, Debug, PartialEq)]
pub enum QuorumRequest {
    /// Asks for a vote or, with `pre_vote`, whether one would be given (KIP-996).
    Vote(VoteRequest),
    /// The leader of an epoch tells a voter of itself.
    BeginQuorumEpoch {
        /// The leader.
        leader: BrokerId,
        /// Its epoch.
        epoch: LeaderEpoch,
    },
    /// A leader that resigns tells a voter, with the voters in the order in which they should stand for election.
    EndQuorumEpoch {
        /// The leader that was.
        leader: BrokerId,
        /// Its epoch.
        epoch: LeaderEpoch,
        /// The other voters, longest log first; empty from a leader that lost its memory in a restart.
        successors: Arc<[BrokerId]>,
    },
    /// Reads the metadata log.
    Fetch(RaftFetchRequest),
}

/// See [`QuorumRequest::Vote`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteRequest {
    /// Who asks.
    pub candidate: BrokerId,
    /// Its epoch: raised before a vote, not before a pre-vote.
    pub epoch: LeaderEpoch,
    /// Epoch of its last record.
    pub last_epoch: LeaderEpoch,
    /// Its log end.
    pub last_offset: Offset,
    /// Only asks whether.
    pub pre_vote: bool,
}

/// See [`QuorumRequest::Fetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaftFetchRequest {
    /// Who asks: a voter or an observer.
    pub replica: BrokerId,
    /// The epoch it knows.
    pub epoch: LeaderEpoch,
    /// Its log end: what it wants next, and what it acknowledges.
    pub offset: Offset,
    /// Epoch of its last record.
    pub last_fetched_epoch: LeaderEpoch,
    /// The high watermark it knows, -1 for none: a leader with a higher one answers at once (KIP-1166).
    pub high_watermark: Offset,
    /// How long the leader may wait for news.
    pub max_wait: Millis,
}

/// The epoch and leader that the answerer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderHint {
    /// Its epoch.
    pub epoch: LeaderEpoch,
    /// The leader of it, if known.
    pub leader: Option<BrokerId>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum QuorumReply<R = Record> {
    /// To [`QuorumRequest::Vote`].
    Vote {
        /// The error.
        error: ErrorCode,
        /// The answerer's epoch and leader.
        hint: LeaderHint,
        /// Whether the vote is given.
        granted: bool,
    },
    /// To [`QuorumRequest::BeginQuorumEpoch`].
    BeginQuorumEpoch {
        /// The error.
        error: ErrorCode,
        /// The answerer's epoch and leader.
        hint: LeaderHint,
    },
    /// To [`QuorumRequest::EndQuorumEpoch`].
    EndQuorumEpoch {
        /// The error.
        error: ErrorCode,
        /// The answerer's epoch and leader.
        hint: LeaderHint,
    },
    /// To [`QuorumRequest::Fetch`].
    Fetch(RaftFetchReply<R>),
}

/// See [`QuorumReply::Fetch`].
#[derive(Clone, Debug, PartialEq)]
pub struct RaftFetchReply<R = Record> {
    /// The error.
    pub error: ErrorCode,
    /// The answerer's epoch and leader.
    pub hint: LeaderHint,
    /// The leader's high watermark, -1 while it has committed nothing in its own epoch.
    pub high_watermark: Offset,
    /// Where the asker's log parts from the leader's; no batches then.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Whole batches from the offset asked for.
    pub batches: Vec<RaftBatch<R>>,
}

impl QuorumRequest {
    /// Kafka's name of the api.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Vote(r) if r.pre_vote => "PreVote",
            Self::Vote(_) => "Vote",
            Self::BeginQuorumEpoch { .. } => "BeginQuorumEpoch",
            Self::EndQuorumEpoch { .. } => "EndQuorumEpoch",
            Self::Fetch(_) => "RaftFetch",
        }
    }
    /// Kafka's api key.
    pub const fn key(&self) -> u8 {
        match self {
            Self::Vote(_) => 52,
            Self::BeginQuorumEpoch { .. } => 53,
            Self::EndQuorumEpoch { .. } => 54,
            Self::Fetch(_) => 1,
        }
    }
    /// Size on the wire in bytes.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Vote(_) => 110,
            Self::BeginQuorumEpoch { .. } => 90,
            Self::EndQuorumEpoch { successors, .. } => 90 + 24 * successors.len() as u32,
            Self::Fetch(_) => 120,
        }
    }
}
impl<R> QuorumReply<R> {
    /// Name for the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Vote { .. } => "Vote reply",
            Self::BeginQuorumEpoch { .. } => "BeginQuorumEpoch reply",
            Self::EndQuorumEpoch { .. } => "EndQuorumEpoch reply",
            Self::Fetch(_) => "RaftFetch reply",
        }
    }
    /// Kafka's api key of the request.
    pub const fn key(&self) -> u8 {
        match self {
            Self::Vote { .. } => 52,
            Self::BeginQuorumEpoch { .. } => 53,
            Self::EndQuorumEpoch { .. } => 54,
            Self::Fetch(_) => 1,
        }
    }
    /// Size on the wire in bytes.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Vote { .. } | Self::BeginQuorumEpoch { .. } | Self::EndQuorumEpoch { .. } => 60,
            Self::Fetch(r) => 90 + r.batches.iter().map(RaftBatch::bytes).sum::<u32>(),
        }
    }
    /// The error in it.
    pub const fn error(&self) -> ErrorCode {
        match self {
            Self::Vote { error, .. } | Self::BeginQuorumEpoch { error, .. } | Self::EndQuorumEpoch { error, .. } => {
                *error
            }
            Self::Fetch(r) => r.error,
        }
    }
    /// Epoch and leader that the answerer knows.
    pub const fn hint(&self) -> LeaderHint {
        match self {
            Self::Vote { hint, .. } | Self::BeginQuorumEpoch { hint, .. } | Self::EndQuorumEpoch { hint, .. } => *hint,
            Self::Fetch(r) => r.hint,
        }
    }
}

impl Feed for LeaderHint {
    fn feed(&self, c: &mut Chain) {
        self.epoch.feed(c);
        self.leader.feed(c);
    }
}
impl Feed for QuorumRequest {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        match self {
            Self::Vote(r) => {
                r.candidate.feed(c);
                r.epoch.feed(c);
                r.last_epoch.feed(c);
                r.last_offset.feed(c);
                r.pre_vote.feed(c);
            }
            Self::BeginQuorumEpoch { leader, epoch } => {
                leader.feed(c);
                epoch.feed(c);
            }
            Self::EndQuorumEpoch { leader, epoch, successors } => {
                leader.feed(c);
                epoch.feed(c);
                successors.feed(c);
            }
            Self::Fetch(r) => {
                r.replica.feed(c);
                r.epoch.feed(c);
                r.offset.feed(c);
                r.last_fetched_epoch.feed(c);
                r.high_watermark.feed(c);
                r.max_wait.feed(c);
            }
        }
    }
}
impl<R: Feed> Feed for QuorumReply<R> {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.key());
        self.error().feed(c);
        self.hint().feed(c);
        match self {
            Self::Vote { granted, .. } => granted.feed(c),
            Self::BeginQuorumEpoch { .. } | Self::EndQuorumEpoch { .. } => {}
            Self::Fetch(r) => {
                r.high_watermark.feed(c);
                r.diverging.feed(c);
                r.batches.feed(c);
            }
        }
    }
}
