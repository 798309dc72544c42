//! What a leader knows of the other brokers: its metadata cache, as far as replication asks it.

use crate::base::{BrokerEpoch, BrokerId};

/// Registration of a broker in this broker's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerState {
    /// Epoch of its registration.
    pub epoch: BrokerEpoch,
    /// Fenced by the controller.
    pub fenced: bool,
    /// In controlled shutdown.
    pub shutting_down: bool,
}

/// Brokers as this broker's metadata has them; as old as that metadata (C-9).
#[derive(Clone, Debug, Default)]
pub struct BrokerTable {
    /// Sorted by id; a cluster has few brokers, so a scan beats a tree.
    brokers: Vec<(BrokerId, BrokerState)>,
}

impl BrokerTable {
    /// Sets what is known of `id`.
    pub fn set(&mut self, id: BrokerId, state: BrokerState) {
        match self.brokers.binary_search_by_key(&id, |(b, _)| *b) {
            Ok(i) => self.brokers[i].1 = state,
            Err(i) => self.brokers.insert(i, (id, state)),
        }
    }
    /// Forgets `id`: it is not registered.
    pub fn remove(&mut self, id: BrokerId) {
        self.brokers.retain(|(b, _)| *b != id);
    }
    /// What is known of `id`.
    pub fn get(&self, id: BrokerId) -> Option<BrokerState> {
        self.brokers.iter().find(|(b, _)| *b == id).map(|(_, s)| *s)
    }
    /// All brokers, by id.
    pub fn iter(&self) -> impl Iterator<Item = (BrokerId, BrokerState)> + '_ {
        self.brokers.iter().copied()
    }
    /// The broker's epoch if it is registered and not fenced (`MetadataCache.getAliveBrokerEpoch`).
    pub fn alive_epoch(&self, id: BrokerId) -> Option<BrokerEpoch> {
        self.get(id).filter(|b| !b.fenced).map(|b| b.epoch)
    }
    /// Whether it may join an ISR as far as its registration goes: registered, not fenced, not shutting down.
    pub fn eligible_epoch(&self, id: BrokerId) -> Option<BrokerEpoch> {
        self.get(id).filter(|b| !b.fenced && !b.shutting_down).map(|b| b.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fenced_broker_is_not_alive_and_one_shutting_down_is() {
        let mut table = BrokerTable::default();
        let state = BrokerState { epoch: BrokerEpoch(5), fenced: false, shutting_down: false };
        table.set(BrokerId(2), BrokerState { fenced: true, ..state });
        table.set(BrokerId(1), BrokerState { shutting_down: true, ..state });
        assert_eq!(table.alive_epoch(BrokerId(2)), None);
        assert_eq!(table.alive_epoch(BrokerId(1)), Some(BrokerEpoch(5)));
        assert_eq!(table.eligible_epoch(BrokerId(1)), None);
        assert_eq!(table.get(BrokerId(3)), None);
    }
}
