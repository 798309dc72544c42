//! What is registered of a broker and of a partition (`BrokerRegistration`, `PartitionRegistration`).

use super::records::PartitionChange;
use crate::base::{Addr, BrokerEpoch, BrokerId, Chain, Feed, Incarnation, LeaderEpoch, Offset, PartitionEpoch};
use std::sync::Arc;

/// A list of brokers whose order means something: assignment order, or the order in which an ISR was named.
pub type Replicas = Arc<[BrokerId]>;

/// A broker as registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerRegistration {
    /// Which start of its process registered.
    pub incarnation: Incarnation,
    /// Epoch of the registration.
    pub epoch: BrokerEpoch,
    /// Offset of the registration's record: a broker is unfenced only when it has replayed up to here.
    pub registered_at: Offset,
    /// Its client listener.
    pub addr: Addr,
    /// Leads nothing and joins no ISR.
    pub fenced: bool,
    /// On its way out; leads nothing and joins no ISR either.
    pub in_controlled_shutdown: bool,
}
impl BrokerRegistration {
    /// Neither fenced nor in controlled shutdown: may lead and be in an ISR.
    pub const fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }
}

/// A partition as registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRegistration {
    /// Assignment; the first one is the preferred leader.
    pub replicas: Replicas,
    /// In-sync replicas.
    pub isr: Replicas,
    /// Eligible leader replicas: left the ISR below min ISR and hold everything committed.
    pub elr: Replicas,
    /// The last known leader while there is none.
    pub last_known_elr: Replicas,
    /// Replicas that a reassignment takes out.
    pub removing: Replicas,
    /// Replicas that a reassignment brings in.
    pub adding: Replicas,
    /// The leader, -1 for none.
    pub leader: BrokerId,
    /// Raised by every leader change.
    pub leader_epoch: LeaderEpoch,
    /// Raised by every change.
    pub partition_epoch: PartitionEpoch,
    /// An unclean election is not yet confirmed by the leader.
    pub recovering: bool,
}

impl PartitionRegistration {
    /// A partition as it is created: led by the first of its ISR, all epochs 0.
    pub fn new(replicas: Replicas, isr: Replicas) -> Self {
        let none: Replicas = Arc::new([]);
        let leader = isr.first().copied().unwrap_or(BrokerId::NONE);
        Self {
            replicas,
            isr,
            elr: none.clone(),
            last_known_elr: none.clone(),
            removing: none.clone(),
            adding: none,
            leader,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
            recovering: false,
        }
    }
    /// The partition after `change`: the partition epoch goes up by one, the leader epoch when a leader is named.
    pub fn merge(&mut self, change: &PartitionChange) {
        let set = |field: &mut Replicas, new: &Option<Replicas>| {
            if let Some(new) = new {
                *field = new.clone();
            }
        };
        set(&mut self.replicas, &change.replicas);
        set(&mut self.isr, &change.isr);
        set(&mut self.elr, &change.elr);
        set(&mut self.last_known_elr, &change.last_known_elr);
        set(&mut self.removing, &change.removing);
        set(&mut self.adding, &change.adding);
        if let Some(leader) = change.leader {
            self.leader = leader;
            self.leader_epoch.0 += 1;
        }
        if let Some(recovering) = change.recovering {
            self.recovering = recovering;
        }
        self.partition_epoch.0 += 1;
    }
    /// Led by the first replica of the assignment.
    pub fn has_preferred_leader(&self) -> bool {
        self.replicas.first() == Some(&self.leader)
    }
    /// Whether there is a leader.
    pub fn has_leader(&self) -> bool {
        self.leader != BrokerId::NONE
    }
    /// Whether a reassignment is under way.
    pub fn is_reassigning(&self) -> bool {
        !self.removing.is_empty() || !self.adding.is_empty()
    }
}

impl Feed for PartitionRegistration {
    fn feed(&self, c: &mut Chain) {
        for list in [&self.replicas, &self.isr, &self.elr, &self.last_known_elr, &self.removing, &self.adding] {
            list.feed(c);
        }
        self.leader.feed(c);
        self.leader_epoch.feed(c);
        self.partition_epoch.feed(c);
        self.recovering.feed(c);
    }
}
