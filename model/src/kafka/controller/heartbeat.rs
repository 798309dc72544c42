//! Who is alive: contact times and the state machine of a broker (`BrokerHeartbeatManager`, `BrokerHeartbeatTracker`).

use crate::base::{BrokerEpoch, BrokerId, Millis, Offset};
use crate::kafka::hash_order::spread;
use std::collections::BTreeMap;

/// When each registration was last heard of. Kept per (broker, epoch): an old incarnation's session ends by itself.
#[derive(Clone, Debug)]
pub struct BrokerHeartbeatTracker {
    session: Millis,
    contacts: Vec<Contact>,
    /// Buckets of the hash table that Kafka keeps the contacts in; see [`Self::take_expired`].
    buckets: usize,
}

#[derive(Clone, Copy, Debug)]
struct Contact {
    broker: BrokerId,
    epoch: BrokerEpoch,
    at: Millis,
}

impl BrokerHeartbeatTracker {
    /// Nobody was heard of. `session`: `broker.session.timeout.ms`.
    pub const fn new(session: Millis) -> Self {
        Self { session, contacts: Vec::new(), buckets: 16 }
    }
    /// A heartbeat came in (C-1: the session counts from receipt).
    pub fn contact(&mut self, broker: BrokerId, epoch: BrokerEpoch, now: Millis) {
        match self.contacts.iter_mut().find(|c| c.broker == broker && c.epoch == epoch) {
            Some(c) => c.at = now,
            None => {
                self.contacts.push(Contact { broker, epoch, at: now });
                if self.contacts.len() * 4 >= self.buckets * 3 {
                    self.buckets *= 2;
                }
            }
        }
    }
    /// When the registration was last heard of.
    pub fn contact_time(&self, broker: BrokerId, epoch: BrokerEpoch) -> Option<Millis> {
        self.contacts.iter().find(|c| c.broker == broker && c.epoch == epoch).map(|c| c.at)
    }
    /// Strict: at exactly the session timeout the session still holds (C-4).
    fn is_expired(&self, at: Millis, now: Millis) -> bool {
        at.saturating_add(self.session) < now
    }
    /// Whether the registration's session holds.
    pub fn has_valid_session(&self, broker: BrokerId, epoch: BrokerEpoch, now: Millis) -> bool {
        self.contact_time(broker, epoch).is_some_and(|at| !self.is_expired(at, now))
    }
    /// Takes out one registration whose session is over. Of several, the one that Kafka's hash table walks first: which
    /// broker is fenced first decides who leads, so the order is modelled (hash 31 x id + epoch, power-of-two buckets).
    pub fn take_expired(&mut self, now: Millis) -> Option<(BrokerId, BrokerEpoch)> {
        let bucket = |c: &Contact| {
            let epoch = c.epoch.0 as i32 ^ (c.epoch.0 >> 32) as i32;
            spread(c.broker.0.wrapping_mul(31).wrapping_add(epoch)) as usize & (self.buckets - 1)
        };
        let expired = self.contacts.iter().enumerate().filter(|(_, c)| self.is_expired(c.at, now));
        let (at, _) = expired.min_by_key(|(at, c)| (bucket(c), *at))?;
        let gone = self.contacts.remove(at);
        Some((gone.broker, gone.epoch))
    }
    /// Earliest instant at which [`Self::take_expired`] finds something if nobody is heard of.
    pub fn next_expiry(&self) -> Option<Millis> {
        self.contacts.iter().map(|c| c.at.saturating_add(self.session).saturating_add(Millis(1))).min()
    }
}

/// State of a broker in the eyes of the controller (`BrokerControlState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerControlState {
    /// Leads nothing, is in no ISR.
    Fenced,
    /// Serves.
    Unfenced,
    /// Serves until the others know that its leaderships have moved (L-24).
    ControlledShutdown,
    /// May go; fenced.
    ShutdownNow,
}
impl BrokerControlState {
    /// Whether a broker in this state is fenced.
    pub const fn is_fenced(self) -> bool {
        matches!(self, Self::Fenced | Self::ShutdownNow)
    }
}

/// What a broker said in a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Offset of the last metadata record it has replayed.
    pub metadata_offset: Offset,
    /// It wants to be, or stay, fenced.
    pub want_fence: bool,
    /// It wants to go.
    pub want_shutdown: bool,
}

/// A call that Kafka answers with a Java exception: a fault of the controller, not of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatError {
    /// `IllegalStateException`.
    #[error("the broker is not registered")]
    NotRegistered,
    /// `RuntimeException`.
    #[error("a fenced broker cannot enter controlled shutdown")]
    Fenced,
}

/// Soft state of a registered broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerHeartbeatState {
    /// Fenced.
    pub fenced: bool,
    /// Metadata offset last reported; -1 unknown.
    pub metadata_offset: Offset,
    /// Offset that all active brokers must reach before it may go; `None` outside controlled shutdown.
    pub controlled_shutdown_offset: Option<Offset>,
    /// Counts for [`BrokerHeartbeatManager::lowest_active_offset`].
    active: bool,
}
impl BrokerHeartbeatState {
    const fn control_state(&self) -> BrokerControlState {
        match (self.controlled_shutdown_offset, self.fenced) {
            (Some(_), _) => BrokerControlState::ControlledShutdown,
            (None, true) => BrokerControlState::Fenced,
            (None, false) => BrokerControlState::Unfenced,
        }
    }
}

/// Soft state of the active controller: it is not in the log, so a new controller begins without it (C-4).
#[derive(Clone, Debug)]
pub struct BrokerHeartbeatManager {
    /// Contact times.
    pub tracker: BrokerHeartbeatTracker,
    brokers: BTreeMap<BrokerId, BrokerHeartbeatState>,
}

impl BrokerHeartbeatManager {
    /// No broker. `session`: `broker.session.timeout.ms`.
    pub const fn new(session: Millis) -> Self {
        Self { tracker: BrokerHeartbeatTracker::new(session), brokers: BTreeMap::new() }
    }
    /// A broker's state.
    pub fn broker(&self, id: BrokerId) -> Option<&BrokerHeartbeatState> {
        self.brokers.get(&id)
    }
    /// All brokers, by id.
    pub fn brokers(&self) -> impl Iterator<Item = (BrokerId, &BrokerHeartbeatState)> {
        self.brokers.iter().map(|(id, b)| (*id, b))
    }
    fn known(&mut self, id: BrokerId) -> Result<&mut BrokerHeartbeatState, HeartbeatError> {
        self.brokers.get_mut(&id).ok_or(HeartbeatError::NotRegistered)
    }

    /// A registration, or a change of one, was replayed. Its metadata offset is forgotten unless its fencing changes.
    pub fn register(&mut self, id: BrokerId, fenced: bool) {
        let unknown = BrokerHeartbeatState {
            fenced,
            metadata_offset: Offset::UNKNOWN,
            controlled_shutdown_offset: None,
            active: false,
        };
        let broker = self.brokers.entry(id).or_insert(unknown);
        let offset = if broker.fenced == fenced { Offset::UNKNOWN } else { broker.metadata_offset };
        broker.touch(fenced, offset);
    }
    /// A heartbeat was handled: its fencing and metadata offset are these now.
    ///
    /// # Errors
    /// If the broker is not registered.
    pub fn touch(&mut self, id: BrokerId, fenced: bool, metadata_offset: Offset) -> Result<(), HeartbeatError> {
        self.known(id)?.touch(fenced, metadata_offset);
        Ok(())
    }
    /// Marks a broker as fenced; nothing if it is not known.
    pub fn fence(&mut self, id: BrokerId) {
        if let Some(b) = self.brokers.get_mut(&id) {
            b.fenced = true;
            b.active = false;
        }
    }
    /// Forgets a broker.
    pub fn remove(&mut self, id: BrokerId) {
        self.brokers.remove(&id);
    }
    /// Lowest metadata offset of all brokers that are unfenced and not shutting down; the maximum if there is none.
    pub fn lowest_active_offset(&self) -> Offset {
        self.brokers.values().filter(|b| b.active).map(|b| b.metadata_offset).min().unwrap_or(Offset(i64::MAX))
    }
    /// The broker is in controlled shutdown from now on; only the first offset counts.
    ///
    /// # Errors
    /// If the broker is not registered, or fenced.
    pub fn controlled_shutdown(&mut self, id: BrokerId, offset: Offset) -> Result<(), HeartbeatError> {
        let broker = self.known(id)?;
        if broker.fenced {
            return Err(HeartbeatError::Fenced);
        }
        broker.active = false;
        broker.controlled_shutdown_offset.get_or_insert(offset);
        Ok(())
    }
    /// State before and after a heartbeat. `registered_at`: offset of its registration's record; `leads`: whether it
    /// leads any partition, asked only where it matters.
    ///
    /// # Errors
    /// If the broker is not registered.
    pub fn next_state(
        &self,
        id: BrokerId,
        beat: &Heartbeat,
        registered_at: Offset,
        leads: impl Fn() -> bool,
    ) -> Result<(BrokerControlState, BrokerControlState), HeartbeatError> {
        use BrokerControlState as S;
        let broker = self.brokers.get(&id).ok_or(HeartbeatError::NotRegistered)?;
        let current = broker.control_state();
        let next = match current {
            S::Fenced if beat.want_shutdown => S::ShutdownNow,
            S::Fenced if !beat.want_fence && beat.metadata_offset >= registered_at => S::Unfenced,
            S::Fenced => S::Fenced,
            S::Unfenced if beat.want_fence && beat.want_shutdown => S::ShutdownNow,
            S::Unfenced if beat.want_fence => S::Fenced,
            S::Unfenced if beat.want_shutdown && leads() => S::ControlledShutdown,
            S::Unfenced if beat.want_shutdown => S::ShutdownNow,
            S::Unfenced => S::Unfenced,
            S::ControlledShutdown | S::ShutdownNow => {
                let reached = broker.controlled_shutdown_offset.is_none_or(|o| o <= self.lowest_active_offset());
                if leads() || !reached { S::ControlledShutdown } else { S::ShutdownNow }
            }
        };
        Ok((current, next))
    }
}

impl BrokerHeartbeatState {
    fn touch(&mut self, fenced: bool, metadata_offset: Offset) {
        self.fenced = fenced;
        self.metadata_offset = metadata_offset;
        if fenced {
            // A fenced broker leaves controlled shutdown: its next request to go is granted at once.
            self.controlled_shutdown_offset = None;
        }
        self.active = !fenced && self.controlled_shutdown_offset.is_none();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_the_timeout_not_at_it() {
        let mut t = BrokerHeartbeatTracker::new(Millis(9000));
        t.contact(BrokerId(1), BrokerEpoch(4), Millis(100));
        assert!(t.has_valid_session(BrokerId(1), BrokerEpoch(4), Millis(9100)));
        assert_eq!(t.take_expired(Millis(9100)), None);
        assert_eq!(t.next_expiry(), Some(Millis(9101)));
        assert!(!t.has_valid_session(BrokerId(1), BrokerEpoch(5), Millis(100)), "another registration");
        assert_eq!(t.take_expired(Millis(9101)), Some((BrokerId(1), BrokerEpoch(4))));
        assert_eq!(t.take_expired(Millis(9101)), None);
    }

    #[test]
    fn a_broker_is_unfenced_when_it_knows_of_its_registration() {
        let mut m = BrokerHeartbeatManager::new(Millis(9000));
        m.register(BrokerId(1), true);
        let beat = |offset| Heartbeat { metadata_offset: Offset(offset), want_fence: false, want_shutdown: false };
        let next = |offset| m.next_state(BrokerId(1), &beat(offset), Offset(7), || false).map(|s| s.1);
        assert_eq!(next(6), Ok(BrokerControlState::Fenced));
        assert_eq!(next(7), Ok(BrokerControlState::Unfenced));
    }

    #[test]
    fn only_brokers_that_serve_hold_a_shutdown_back() {
        let mut m = BrokerHeartbeatManager::new(Millis(9000));
        for (id, offset) in [(1, 5), (2, 3), (3, 4)] {
            m.register(BrokerId(id), true);
            assert_eq!(m.touch(BrokerId(id), id == 2, Offset(offset)), Ok(()));
        }
        assert_eq!(m.lowest_active_offset(), Offset(4));
        assert_eq!(m.controlled_shutdown(BrokerId(3), Offset(6)), Ok(()));
        assert_eq!(m.lowest_active_offset(), Offset(5));
        assert_eq!(m.controlled_shutdown(BrokerId(2), Offset(6)), Err(HeartbeatError::Fenced));
    }
}
