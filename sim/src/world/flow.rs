//! How the effects of a step go on: at once, after work, after a write that takes long, or not at all.

use super::{Due, World};
use model::base::{Effect, Lane, Nanos, Process, ProcessId, SimTime};

/// Whether a stalled write holds the effect up. Other writes of the step and what it tells are not: a thread changes its memory
/// and the page cache in one go, other threads see that at once; what leaves the thread waits.
pub(super) const fn waits<M, W>(stall: Nanos, effect: &Effect<M, W>) -> bool {
    stall.0 > 0 && !matches!(effect, Effect::Write(..) | Effect::Emit(_) | Effect::Show(_))
}

/// Whether the effects of a step go on.
pub(super) enum Flow {
    On,
    Later(SimTime),
    /// A write took long.
    Stalled(Nanos),
    Dead,
}

impl<P: Process> World<P> {
    /// The lane is busy until then.
    pub(super) fn resume_at(&mut self, at: SimTime, process: ProcessId, lane: Lane) {
        let slot = &mut self.slots[process.0 as usize];
        slot.lane(lane).busy = true;
        let incarnation = slot.incarnation;
        let key = self.key(at, process, process);
        self.queue.push(key, Due::Resume { process, incarnation, lane });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::{Batch, FileId, Port};

    #[test]
    fn a_stalled_write_holds_back_what_leaves_the_thread_and_no_other_write() {
        type E = Effect<Batch, u8>;
        let (write, wake) = (E::Write(FileId(1), 0), E::Wake { port: Port(0), at: None });
        assert!(!waits(Nanos(1), &write) && waits(Nanos(1), &wake));
        assert!(!waits(Nanos::ZERO, &wake));
    }
}
