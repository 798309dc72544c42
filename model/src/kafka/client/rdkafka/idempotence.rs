//! Where the producer id comes from, and how its epoch is raised (`rdkafka_idempotence.c`; P-1, P-25, P-32).

use super::partition::Pid;
use crate::base::{Millis, ProducerEpoch};

/// State of the producer id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotence {
    /// Not idempotent.
    Off,
    /// An id is to be asked for, not before this time.
    Wanted(Millis),
    /// Asked for; or the transaction machine asks.
    Asked,
    /// Records may leave.
    Assigned,
    /// Nothing leaves until nothing is on the wire, then the epoch is raised.
    Draining,
    /// Drained; a transactional producer gets its epoch from the coordinator, within the abort.
    AwaitingAbort,
}

impl Idempotence {
    /// Delay before the id is asked for again, also when no broker was connected (R: the first InitProducerId leaves 0.5 s
    /// after the start).
    pub const RETRY: Millis = Millis(500);

    /// Begins to drain, unless there is no id whose epoch could be raised.
    pub fn drain(&mut self) {
        if matches!(self, Self::Assigned | Self::AwaitingAbort) {
            *self = Self::Draining;
        }
    }
}

/// The id with its epoch raised locally; wraps to 0 (`rd_kafka_pid_bump`).
pub fn bumped((id, epoch): Pid) -> Pid {
    (id, ProducerEpoch(if epoch.0 == i16::MAX { 0 } else { epoch.0 + 1 }))
}
