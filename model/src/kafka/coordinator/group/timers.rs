//! The coordinator's timers (`CoordinatorTimer`): by key, one deadline each; due ones in order of time, then of scheduling.

use super::messages::Name;
use crate::base::Millis;
use crate::kafka::txn_messages::GroupId;
use std::collections::{BTreeMap, BTreeSet};

/// What a timer is for; scheduling a key again replaces it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// Session of a classic member, or of a member id given out.
    Heartbeat(GroupId, Name),
    /// The join round of a classic group.
    Join(GroupId),
    /// The sync round of a classic group.
    Sync(GroupId),
    /// Session of a KIP-848 member.
    Session(GroupId, Name),
    /// How long a KIP-848 member may take to give up what it must.
    Rebalance(GroupId, Name),
    /// Markers that are applied late (`marker-applied-before-answer` cleared).
    LateMarkers,
}

/// What a timer brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing.
    Plain,
    /// The initial delay of an empty group: this time's delay, and what may still be waited.
    InitialDelay(Millis, Millis),
    /// The generation whose sync is awaited.
    Generation(i32),
    /// The member epoch that has to be left.
    Epoch(i32),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    by_key: BTreeMap<Key, (Millis, u64, Due)>,
    by_time: BTreeSet<(Millis, u64, Key)>,
    scheduled: u64,
}

impl Timers {
    pub(super) fn schedule(&mut self, key: Key, at: Millis, due: Due) {
        self.cancel(&key);
        self.scheduled += 1;
        self.by_time.insert((at, self.scheduled, key.clone()));
        self.by_key.insert(key, (at, self.scheduled, due));
    }
    pub(super) fn cancel(&mut self, key: &Key) {
        if let Some((at, n, _)) = self.by_key.remove(key) {
            self.by_time.remove(&(at, n, key.clone()));
        }
    }
    /// The earliest deadline.
    pub(super) fn deadline(&self) -> Option<Millis> {
        self.by_time.first().map(|(at, ..)| *at)
    }
    /// Takes the next timer that is due.
    pub(super) fn take(&mut self, now: Millis) -> Option<(Key, Due)> {
        self.by_time.first().filter(|(at, ..)| *at <= now)?;
        let (_, _, key) = self.by_time.pop_first()?;
        let (_, _, due) = self.by_key.remove(&key)?;
        Some((key, due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_deadline_and_ties_go_by_scheduling() {
        let mut timers = Timers::default();
        timers.schedule(Key::Join(GroupId(1)), Millis(5), Due::Plain);
        timers.schedule(Key::Sync(GroupId(1)), Millis(7), Due::Generation(1));
        timers.schedule(Key::Join(GroupId(1)), Millis(7), Due::Plain);
        assert_eq!(timers.take(Millis(6)), None);
        assert_eq!(timers.take(Millis(7)), Some((Key::Sync(GroupId(1)), Due::Generation(1))));
        timers.cancel(&Key::Join(GroupId(1)));
        assert_eq!((timers.take(Millis(9)), timers.deadline()), (None, None));
    }
}
