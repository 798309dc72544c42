//! What a leader keeps per follower, and when a follower counts as caught up.

use crate::base::{BrokerEpoch, BrokerId, Millis, Offset};

/// A remote replica as its leader sees it (`kafka.cluster.Replica`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The follower.
    pub id: BrokerId,
    /// Its log start as of its last fetch; -1 unknown.
    pub log_start: Offset,
    /// Its log end: the offset it fetched from last; -1 unknown.
    pub end: Offset,
    /// Log end of the leader at that fetch.
    pub last_fetch_leader_end: Offset,
    /// Time of that fetch; 0 for none in this leadership.
    pub last_fetch: Millis,
    /// The last time at which it had all that the leader had; 0 for never.
    pub last_caught_up: Millis,
    /// Broker epoch of its last fetch.
    pub broker_epoch: Option<BrokerEpoch>,
}

/// What a follower's fetch tells of it.
#[derive(Clone, Copy, Debug)]
pub struct FollowerFetch {
    /// Where it fetched: start of the batch that holds the fetch offset.
    pub offset: Offset,
    /// Its log start.
    pub log_start: Offset,
    /// Leader's log end before the read.
    pub leader_end: Offset,
    /// When the fetch came.
    pub at: Millis,
    /// Its broker epoch.
    pub broker_epoch: BrokerEpoch,
}

impl Replica {
    /// A replica of which nothing is known (`ReplicaState.EMPTY`).
    pub fn unknown(id: BrokerId) -> Self {
        Self {
            id,
            log_start: Offset::UNKNOWN,
            end: Offset::UNKNOWN,
            last_fetch_leader_end: Offset(0),
            last_fetch: Millis::ZERO,
            last_caught_up: Millis::ZERO,
            broker_epoch: None,
        }
    }

    /// takes over what a fetch tells. `Replica.updateFetchStateOrThrow` without the refusal, which the partition does.
    pub fn fetched(&mut self, fetch: FollowerFetch) {
        if fetch.offset >= fetch.leader_end {
            self.last_caught_up = self.last_caught_up.max(fetch.at);
        } else if fetch.offset >= self.last_fetch_leader_end {
            self.last_caught_up = self.last_caught_up.max(self.last_fetch);
        }
        self.log_start = fetch.log_start;
        self.end = fetch.offset;
        self.last_fetch_leader_end = self.last_fetch_leader_end.max(fetch.leader_end);
        self.last_fetch = fetch.at;
        self.broker_epoch = Some(fetch.broker_epoch);
    }

    /// R-2 for a fetch at `at` like the one before, from the leader's end: only the times are new. An older one says nothing.
    pub fn stood_at_end(&mut self, at: Millis) {
        if at > self.last_fetch {
            self.last_caught_up = self.last_caught_up.max(at);
            self.last_fetch = at;
        }
    }

    /// a leader epoch begins. A broker that was not leader before knows nothing of its followers; one that stays
    /// leader keeps their log ends and sets only the times anew (`Replica.resetReplicaState`).
    pub fn reset(&mut self, now: Millis, leader_end: Offset, new_leader: bool, in_isr: bool) {
        let caught_up = if in_isr { now } else { Millis::ZERO };
        if new_leader {
            *self = Self { last_fetch_leader_end: Offset::UNKNOWN, ..Self::unknown(self.id) };
        } else {
            self.last_fetch_leader_end = leader_end;
            self.last_fetch = caught_up;
        }
        self.last_caught_up = caught_up;
    }

    /// at the leader's end, or had everything at most `lag_max` ago.
    pub fn is_caught_up(&self, leader_end: Offset, now: Millis, lag_max: Millis) -> bool {
        self.end == leader_end || now - self.last_caught_up <= lag_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG: Millis = Millis(30_000);

    fn fetch(offset: i64, leader_end: i64, at: i64) -> FollowerFetch {
        FollowerFetch {
            offset: Offset(offset),
            log_start: Offset(0),
            leader_end: Offset(leader_end),
            at: Millis(at),
            broker_epoch: BrokerEpoch(1),
        }
    }

    #[test]
    fn one_fetch_behind_is_caught_up_as_of_the_fetch_before() {
        let mut r = Replica::unknown(BrokerId(2));
        r.fetched(fetch(0, 5, 1_000));
        assert_eq!(r.last_caught_up, Millis(0));
        r.fetched(fetch(5, 9, 2_000));
        assert_eq!(r.last_caught_up, Millis(1_000));
        r.fetched(fetch(9, 9, 3_000));
        assert_eq!(r.last_caught_up, Millis(3_000));
    }

    #[test]
    fn having_stood_at_the_end_is_the_same_fetch_again() {
        let mut fetched = Replica::unknown(BrokerId(2));
        fetched.fetched(fetch(5, 5, 1_000));
        let mut stood = fetched;
        fetched.fetched(fetch(5, 5, 2_000));
        stood.stood_at_end(Millis(2_000));
        assert_eq!(stood, fetched);
        stood.stood_at_end(Millis(1_500));
        assert_eq!(stood, fetched, "what an older session still had to tell");
    }

    #[test]
    fn the_lag_is_strict_and_the_log_end_never_lags() {
        let mut r = Replica::unknown(BrokerId(2));
        r.fetched(fetch(5, 5, 1_000));
        assert!(r.is_caught_up(Offset(6), Millis(31_000), LAG));
        assert!(!r.is_caught_up(Offset(6), Millis(31_001), LAG));
        assert!(r.is_caught_up(Offset(5), Millis(999_999), LAG));
    }

    #[test]
    fn the_same_leader_keeps_log_ends() {
        let mut r = Replica::unknown(BrokerId(2));
        r.fetched(fetch(5, 6, 1_000));
        r.reset(Millis(2_000), Offset(6), false, false);
        assert_eq!((r.end, r.last_caught_up, r.last_fetch), (Offset(5), Millis(0), Millis(0)));
        r.reset(Millis(2_000), Offset(6), true, true);
        assert_eq!((r.end, r.last_caught_up, r.broker_epoch), (Offset(-1), Millis(2_000), None));
    }
}
