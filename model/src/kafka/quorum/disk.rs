//! What a quorum member keeps on disk: the `quorum-state` file and the log of `__cluster_metadata`.

use super::log::{RaftBatch, RaftLog};
use crate::base::{BrokerId, Chain, Feed, LeaderEpoch, Offset, Stream};

/// Content of the `quorum-state` file (`ElectionState`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Election {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Its leader, if known.
    pub leader: Option<BrokerId>,
    /// For whom this voter voted in it.
    pub voted: Option<BrokerId>,
}
impl Feed for Election {
    fn feed(&self, c: &mut Chain) {
        self.epoch.feed(c);
        self.leader.feed(c);
        self.voted.feed(c);
    }
}

/// The files, each flushed on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaftFile {
    /// `quorum-state`.
    QuorumState,
    /// The segments of the metadata log.
    Log,
}

/// One write.
#[derive(Clone, Debug)]
pub enum RaftWrite<R> {
    /// Replaces the `quorum-state` file. Kafka writes a new file, syncs it and renames it: it is the old or the new one.
    Election(Election),
    /// Appends a batch.
    Append(RaftBatch<R>),
    /// Cuts the log.
    Truncate(Offset),
}
impl<R> RaftWrite<R> {
    /// The file written to.
    pub const fn file(&self) -> RaftFile {
        match self {
            Self::Election(_) => RaftFile::QuorumState,
            Self::Append(_) | Self::Truncate(_) => RaftFile::Log,
        }
    }
}
impl<R: Feed> Feed for RaftWrite<R> {
    fn feed(&self, c: &mut Chain) {
        match self {
            Self::Election(election) => {
                c.u8(0);
                election.feed(c);
            }
            Self::Append(batch) => {
                c.u8(1);
                batch.feed(c);
            }
            Self::Truncate(to) => {
                c.u8(2);
                to.feed(c);
            }
        }
    }
}

/// The disk of one quorum member. Written by applying each [`RaftWrite`] that the machine puts out, read at a start.
#[derive(Clone, Debug)]
pub struct RaftDisk<R> {
    /// `quorum-state` in the page cache.
    pub election: Election,
    /// The log in the page cache.
    pub log: RaftLog<R>,
    safe_election: Election,
    safe_end: Offset,
}
impl<R> Default for RaftDisk<R> {
    fn default() -> Self {
        Self {
            election: Election::default(),
            log: RaftLog::default(),
            safe_election: Election::default(),
            safe_end: Offset(0),
        }
    }
}
impl<R: Clone> RaftDisk<R> {
    /// Applies a write to the page cache. A cut is a change of the file's length, which the file system's journal keeps.
    pub fn apply(&mut self, write: &RaftWrite<R>) {
        match write {
            RaftWrite::Election(election) => self.election = *election,
            RaftWrite::Append(batch) => self.log.append(batch.clone()),
            RaftWrite::Truncate(to) => {
                self.log.truncate(*to);
                self.safe_end = self.safe_end.min(self.log.end());
            }
        }
    }
    /// Everything in `file` now survives power loss.
    pub fn flushed(&mut self, file: RaftFile) {
        match file {
            RaftFile::QuorumState => self.safe_election = self.election,
            RaftFile::Log => self.safe_end = self.log.end(),
        }
    }
    /// Power is lost: an unsynced `quorum-state` never replaced the old one; of the unflushed batches a prefix drawn from
    /// `stream` survives (L-20).
    pub fn lose_power(&mut self, stream: &mut Stream) {
        self.election = self.safe_election;
        let unflushed = self.log.batches(self.safe_end).count() as u64;
        let kept = stream.between(0, unflushed) as usize;
        let mut end = self.safe_end;
        for batch in self.log.batches(self.safe_end).take(kept) {
            end = batch.end();
        }
        self.log.truncate(end);
        self.safe_end = end;
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::Body;
    use super::*;
    use crate::base::{Domain, Streams};

    #[test]
    fn power_loss_takes_unflushed_batches_and_votes_only() {
        let mut stream = Streams(3).stream(Domain::Fault, 0, "power");
        for _ in 0..50 {
            let mut disk = RaftDisk::<u32>::default();
            let batch = |base, epoch| RaftBatch {
                base: Offset(base),
                epoch: LeaderEpoch(epoch),
                body: Body::Records(vec![7u32].into()),
            };
            disk.apply(&RaftWrite::Append(batch(0, 1)));
            disk.flushed(RaftFile::Log);
            disk.apply(&RaftWrite::Append(batch(1, 1)));
            let vote = Election { epoch: LeaderEpoch(2), leader: None, voted: Some(BrokerId(1)) };
            disk.apply(&RaftWrite::Election(vote));
            disk.lose_power(&mut stream);
            assert_eq!(disk.election, Election::default());
            assert!(disk.log.end() >= Offset(1));
        }
    }
}
