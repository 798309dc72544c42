//! How the effects of a step go on: at once, after work, after a write that takes long, or not at all.

use super::{Armed, Crash, Due, Lifecycle, Observer, World};
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

/// The effects of a step do not all leave now.
pub(super) struct Halt<E> {
    /// The effect that was to leave and did not.
    pub(super) before: Option<E>,
    pub(super) why: Why,
}
pub(super) enum Why {
    /// The lane computes until then, or waits for a write.
    Busy(SimTime),
    /// A crash point stands here.
    Crash(Armed),
    /// The process has ended.
    Dead,
}

impl<P: Process> World<P> {
    /// What becomes of a lane whose effects do not go on; what is left of them is in its timeline.
    pub(super) fn halted(
        &mut self,
        process: ProcessId,
        lane: Lane,
        why: Why,
        life: &mut impl Lifecycle,
        seen: &mut impl Observer,
    ) {
        match why {
            Why::Busy(at) => self.resume_at(at, process, lane),
            Why::Crash(armed) => {
                if armed.how == Crash::Freeze {
                    // It goes on here when the process is thawed.
                    let waiting = self.slots[process.0 as usize].lane(lane);
                    waiting.busy = true;
                    waiting.resume = true;
                }
                self.crash(armed, life, seen);
            }
            Why::Dead => {}
        }
    }
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
