//! What a leader knows of its followers, and the records that wait to be appended (`LeaderState`, `BatchAccumulator`).

use super::messages::{RaftFetchReply, RaftFetchRequest};
use super::raft::ReplyTo;
use crate::base::{BrokerId, LeaderEpoch, Millis, Offset};
use std::sync::Arc;

/// One voter as the leader sees it.
#[derive(Clone, Copy, Debug)]
struct Voter {
    id: BrokerId,
    /// Its log end: the leader's own, or the last fetch offset. `None` before the first fetch.
    end: Option<Offset>,
    last_fetch: Option<Millis>,
    /// Fetched in the present check-quorum interval.
    fetched: bool,
}

/// A leader's state.
#[derive(Clone, Debug)]
pub(super) struct LeaderState<R> {
    me: BrokerId,
    /// Where its epoch begins: the offset of its LeaderChange record.
    pub(super) epoch_start: Offset,
    voters: Vec<Voter>,
    /// Resigns at this instant unless a majority fetches before.
    pub(super) check_quorum_at: Millis,
    check_quorum_timeout: Millis,
    /// Looks for voters that have to be told of it.
    pub(super) begin_at: Millis,
    begin_timeout: Millis,
    pub(super) resign_requested: bool,
    pending: Vec<R>,
    next_offset: Offset,
    /// When the pending records are appended.
    pub(super) drain_at: Option<Millis>,
}

impl<R> LeaderState<R> {
    /// A leader elected at `now` whose log ends at `end`.
    pub(super) fn new(me: BrokerId, voters: &[BrokerId], end: Offset, fetch_timeout: Millis, now: Millis) -> Self {
        let voter = |id: &BrokerId| Voter { id: *id, end: None, last_fetch: None, fetched: false };
        // 1.5 x the fetch timeout: a follower whose fetch is on its way is not counted as gone.
        let check_quorum_timeout = Millis(fetch_timeout.0 * 3 / 2);
        Self {
            me,
            epoch_start: end,
            voters: voters.iter().map(voter).collect(),
            check_quorum_at: if voters.len() == 1 { Millis::MAX } else { now + check_quorum_timeout },
            check_quorum_timeout,
            begin_at: now,
            begin_timeout: Millis(fetch_timeout.0 / 2),
            resign_requested: false,
            pending: Vec::new(),
            next_offset: end,
            drain_at: None,
        }
    }

    /// Takes records for the next batch and gives the offset of the last one (`BatchAccumulator.append`). The linger
    /// begins with the first.
    pub(super) fn accumulate(&mut self, records: impl IntoIterator<Item = R>, linger: Millis, now: Millis) -> Offset {
        let before = self.pending.len();
        self.pending.extend(records);
        let added = (self.pending.len() - before) as i64;
        assert!(added > 0, "an append has records");
        self.next_offset = self.next_offset.plus(added);
        self.drain_at.get_or_insert(now + linger);
        self.next_offset.plus(-1)
    }
    /// What has waited long enough, as one batch.
    pub(super) fn drain(&mut self, now: Millis) -> Option<Arc<[R]>> {
        self.drain_at.take_if(|at| *at <= now)?;
        Some(std::mem::take(&mut self.pending).into())
    }
    /// The LeaderChange record takes the first offset of the epoch.
    pub(super) fn opened(&mut self) {
        self.next_offset = self.next_offset.plus(1);
    }

    /// The leader's own log has grown. True if `current` is to be raised (see [`LeaderState::high_watermark`]).
    pub(super) fn local_end(&mut self, end: Offset) {
        let me = self.me;
        if let Some(voter) = self.voters.iter_mut().find(|v| v.id == me) {
            voter.end = Some(end);
        }
    }

    /// A valid fetch of `replica` at `offset`. Observers count for nothing.
    pub(super) fn fetched(&mut self, replica: BrokerId, offset: Offset, now: Millis) {
        let Some(voter) = self.voters.iter_mut().find(|v| v.id == replica && v.id != self.me) else { return };
        voter.end = Some(offset);
        voter.last_fetch = voter.last_fetch.max(Some(now));
        voter.fetched = true;
        let others = self.voters.iter().filter(|v| v.fetched).count();
        let leader = usize::from(self.voters.iter().any(|v| v.id == self.me));
        if others + leader > self.voters.len() / 2 {
            self.voters.iter_mut().for_each(|v| v.fetched = false);
            self.check_quorum_at = self.check_quorum_at.max(now + self.check_quorum_timeout);
        }
    }

    /// The largest offset that a majority holds, once it is beyond the start of the epoch: earlier records are committed
    /// only through one of this epoch (`LeaderState.maybeUpdateHighWatermark`).
    pub(super) fn high_watermark(&self) -> Option<Offset> {
        let mut ends: Vec<Option<Offset>> = self.voters.iter().map(|v| v.end).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        ends[self.voters.len() / 2].filter(|end| *end > self.epoch_start)
    }

    /// Voters without a fetch for half a fetch timeout: they get a BeginQuorumEpoch. Sets the timer again.
    pub(super) fn unaware(&mut self, now: Millis) -> Vec<BrokerId> {
        self.begin_at = now + self.begin_timeout;
        let idle = |v: &&Voter| v.id != self.me && v.last_fetch.is_none_or(|at| now - at >= self.begin_timeout);
        self.voters.iter().filter(idle).map(|v| v.id).collect()
    }

    /// The other voters, longest log first, then by id.
    pub(super) fn successors(&self) -> Arc<[BrokerId]> {
        let mut others: Vec<&Voter> = self.voters.iter().filter(|v| v.id != self.me).collect();
        others.sort_by_key(|v| (std::cmp::Reverse(v.end), v.id));
        others.into_iter().map(|v| v.id).collect()
    }
}

/// A fetch that the leader holds back until it has news (`fetchPurgatory`).
#[derive(Clone, Debug)]
pub(super) struct ParkedFetch<R> {
    /// Where the answer goes.
    pub(super) to: ReplyTo,
    pub(super) request: RaftFetchRequest,
    /// What is answered when the wait ends without news: the answer as it stood when the request came.
    pub(super) stale: RaftFetchReply<R>,
    pub(super) expires: Millis,
}

/// The epoch in which a listener was last told of a leader (`ListenerContext.shouldFireLeaderChange`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fired {
    epoch: LeaderEpoch,
    leader: Option<BrokerId>,
}
impl Fired {
    /// Whether (`epoch`, `leader`) is news; then it is remembered.
    pub(super) fn fire(&mut self, epoch: LeaderEpoch, leader: Option<BrokerId>) -> bool {
        let news = epoch > self.epoch || epoch == self.epoch && leader.is_some() && self.leader.is_none();
        if news {
            *self = Self { epoch, leader };
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader() -> LeaderState<u32> {
        LeaderState::new(BrokerId(1), &[BrokerId(1), BrokerId(2), BrokerId(3)], Offset(10), Millis(2000), Millis(0))
    }

    #[test]
    fn commits_only_through_a_record_of_its_own_epoch() {
        let mut l = leader();
        l.local_end(Offset(11));
        l.fetched(BrokerId(2), Offset(10), Millis(1));
        assert_eq!(l.high_watermark(), None);
        l.fetched(BrokerId(2), Offset(11), Millis(2));
        assert_eq!(l.high_watermark(), Some(Offset(11)));
    }

    #[test]
    fn a_majority_of_fetches_restarts_the_check() {
        let mut l = leader();
        assert_eq!(l.check_quorum_at, Millis(3000));
        l.fetched(BrokerId(9), Offset(10), Millis(500));
        assert_eq!(l.check_quorum_at, Millis(3000), "an observer is no voter");
        l.fetched(BrokerId(3), Offset(10), Millis(500));
        assert_eq!(l.check_quorum_at, Millis(3500));
    }

    #[test]
    fn records_linger_from_the_first_on() {
        let mut l = leader();
        l.opened();
        assert_eq!(l.accumulate([1, 2], Millis(25), Millis(100)), Offset(12));
        assert_eq!(l.accumulate([3], Millis(25), Millis(110)), Offset(13));
        assert_eq!(l.drain(Millis(124)), None);
        assert_eq!(l.drain(Millis(125)).as_deref(), Some(&[1, 2, 3][..]));
        assert_eq!(l.drain(Millis(200)), None);
    }

    #[test]
    fn successors_stand_in_the_order_of_their_logs() {
        let mut l = leader();
        assert_eq!(&*l.successors(), [BrokerId(2), BrokerId(3)]);
        l.fetched(BrokerId(3), Offset(11), Millis(2));
        assert_eq!(&*l.successors(), [BrokerId(3), BrokerId(2)]);
    }
}
