//! What events are made of besides ids and numbers.

use super::BrokerId;

/// A set of broker ids 0..=63 as a bit set: what an event can carry of an ISR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerSet(pub u64);
impl BrokerSet {
    /// The set of `ids`.
    pub fn of(ids: &[BrokerId]) -> Self {
        Self(ids.iter().fold(0, |set, id| set | 1 << id.0))
    }
    /// Whether `id` is in it.
    pub fn has(self, id: BrokerId) -> bool {
        (0..64).contains(&id.0) && self.0 & (1 << id.0) != 0
    }
    /// How many are in it.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }
    /// Whether none is.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// The set with `id` added.
    pub fn with(self, id: BrokerId) -> Self {
        assert!((0..64).contains(&id.0), "a broker set holds ids 0 to 63");
        Self(self.0 | 1 << id.0)
    }
    /// The set without `id`.
    pub fn without(self, id: BrokerId) -> Self {
        if self.has(id) { Self(self.0 & !(1 << id.0)) } else { self }
    }
    /// The members, ascending.
    pub fn iter(self) -> impl Iterator<Item = BrokerId> {
        (0..64).filter(move |i| self.0 & (1 << i) != 0).map(BrokerId)
    }
}

/// How a transaction ended for its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionFate {
    /// The commit has returned.
    Committed,
    /// The abort has returned, or another producer took over that aborts it.
    Aborted,
    /// The producer died in the commit.
    Unknown,
}

/// Who had a transaction aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortedBy {
    /// Its producer, with EndTxn.
    Client,
    /// The coordinator: its time was over (T-20).
    Expiry,
    /// Another producer, with InitProducerId (4.4).
    Init,
}

/// Role of a node in the metadata quorum (KRaft).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuorumRole {
    /// Knows no leader.
    Unattached,
    /// Follows a leader.
    Follower,
    /// Asks whether it would be voted for (KIP-996).
    Prospective,
    /// Stands for election.
    Candidate,
    /// Leads.
    Leader,
    /// Was leader and has given up.
    Resigned,
}
