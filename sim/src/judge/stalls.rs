//! Times without acknowledgements, by partition and producer: from the last decision on a send, or from the next send if
//! that came later, to the next decision. A partition to which nobody sends does not stall. A row of a transactional producer
//! waits for the commit by design: its time counts from when that is due.

use super::{Cast, Ledger};
use crate::world::Observer;
use model::base::{Event, Layer, Millis, Nanos, ProcessId, Shown, SimTime, SmallMap, TopicPartition, TransactionFate};
use std::collections::BTreeMap;

/// A time without acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Last acknowledgement before.
    pub from: SimTime,
    /// First acknowledgement after.
    pub to: SimTime,
    /// The partition.
    pub tp: TopicPartition,
    /// The producer, by number.
    pub producer: u16,
}
impl Stall {
    /// How long.
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }
}

/// Finds stalls of at least [`Stalls::SHORTEST`].
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    last: SmallMap<(u16, TopicPartition), SimTime>,
    commit_every: Vec<Nanos>,
    /// The stalls, in the order of their ends.
    pub stalls: Vec<Stall>,
    gatekeepers: Vec<(String, Nanos)>,
    keepers: BTreeMap<ProcessId, u16>,
    last_commit: BTreeMap<u16, SimTime>,
    /// Times in which no instance of a gatekeeper committed, by its number: from when that was due.
    pub of_gatekeepers: Vec<(u16, SimTime, SimTime)>,
}
impl Stalls {
    /// Gaps below this are no stalls.
    pub const SHORTEST: Nanos = Nanos::secs(1);

    /// For this cast.
    pub fn new(cast: &Cast) -> Self {
        Self {
            commit_every: cast.commit_every.clone(),
            gatekeepers: cast.gatekeepers.clone(),
            keepers: cast.keepers.clone(),
            ..Self::default()
        }
    }

    /// The longest stall among these partitions and producers that overlaps `from..`.
    pub fn longest(&self, from: SimTime, wanted: impl Fn(u16, TopicPartition) -> bool) -> Option<Stall> {
        let of = self.stalls.iter().filter(|s| s.to > from && wanted(s.producer, s.tp));
        of.copied().max_by_key(Stall::length)
    }
    /// Rows were acknowledged, or failed for good.
    pub fn decided(&mut self, at: SimTime, shown: &Shown, ledger: &Ledger) {
        let (Layer::Acked(producer) | Layer::Failed(producer)) = shown.layer else { return };
        let before = self.last.insert((producer, shown.tp), at).unwrap_or_default();
        if at.since(before) < Self::SHORTEST {
            return;
        }
        let first = shown.batch.rows.get(shown.from as usize).filter(|r| r.ghost.in_ledger());
        let Some(sent) = first.and_then(|r| ledger.get(r.ghost.open())) else { return };
        let due = self.commit_every.get(usize::from(producer)).copied().unwrap_or_default();
        let from = before.max(SimTime::at(Millis(i64::from(sent.at_ms))) + due);
        if at > from && at.since(from) >= Self::SHORTEST {
            self.stalls.push(Stall { from, to: at, tp: shown.tp, producer });
        }
    }
}

impl Observer for Stalls {
    /// Commits of gatekeepers: whichever instance it is, the pipeline has moved.
    fn event(&mut self, at: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        let Event::TransactionEnded { fate: TransactionFate::Committed, .. } = event else { return };
        let Some(number) = self.keepers.get(&process).copied() else { return };
        let every = self.gatekeepers.get(usize::from(number)).map_or(Nanos::ZERO, |(_, every)| *every);
        let Some(before) = self.last_commit.insert(number, at) else { return };
        let due = before + every;
        if at > due && at.since(due) >= Self::SHORTEST {
            self.of_gatekeepers.push((number, due, at));
        }
    }
}
