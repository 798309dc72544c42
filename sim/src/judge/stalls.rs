//! Times without acknowledgements, by partition and producer.

use crate::world::Observer;
use model::base::{Layer, Nanos, ProcessId, Shown, SimTime, TopicPartition};
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

/// Finds gaps of at least [`Stalls::SHORTEST`] between acknowledgements.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    last: BTreeMap<(u16, TopicPartition), SimTime>,
    /// The stalls, in the order of their ends.
    pub stalls: Vec<Stall>,
    /// Do not count what comes after: the workload has ended.
    pub until: Option<SimTime>,
}
impl Stalls {
    /// Gaps below this are no stalls.
    pub const SHORTEST: Nanos = Nanos::secs(1);

    /// Closes what is still open: a partition that never got another acknowledgement while events were sent.
    pub fn finish(&mut self, now: SimTime) {
        let end = self.until.unwrap_or(now);
        for ((producer, tp), from) in std::mem::take(&mut self.last) {
            if end.since(from) >= Self::SHORTEST {
                self.stalls.push(Stall { from, to: end, tp, producer });
            }
        }
    }
    /// The longest stall among these partitions and producers that overlaps `from..`.
    pub fn longest(&self, from: SimTime, wanted: impl Fn(u16, TopicPartition) -> bool) -> Option<Stall> {
        let of = self.stalls.iter().filter(|s| s.to > from && wanted(s.producer, s.tp));
        of.copied().max_by_key(Stall::length)
    }
}
impl Observer for Stalls {
    fn shown(&mut self, at: SimTime, _: ProcessId, shown: &Shown) {
        let Layer::Acked(producer) = shown.layer else { return };
        if let Some(from) = self.last.insert((producer, shown.tp), at)
            && at.since(from) >= Self::SHORTEST
        {
            self.stalls.push(Stall { from, to: at, tp: shown.tp, producer });
        }
    }
}
