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
    /// The lane is busy until then, with work or with a write.
    pub(super) fn resume_at(&mut self, at: SimTime, process: ProcessId, lane: Lane, works: bool) {
        let slot = &mut self.slots[process.0 as usize];
        let waiting = slot.lane(lane);
        (waiting.busy, waiting.until, waiting.works) = (true, at, works);
        let incarnation = slot.incarnation;
        let key = self.key(at, process, process);
        self.queue.push(key, Due::Resume { process, incarnation, lane });
    }

    /// From now on work on this host takes `permille` thousandths of its time at full speed, also what is left of work that
    /// has begun.
    pub(super) fn pace(&mut self, host: u32, permille: u64) {
        let pace = self.hosts[host as usize].pace(self.now, permille);
        for process in 0..self.slots.len() {
            if self.slots[process].host != host || self.slots[process].state.is_none() {
                continue;
            }
            for lane in 0..self.slots[process].lane_count() {
                let lane = Lane(lane as u16);
                let waiting = self.slots[process].lane(lane);
                if waiting.busy && waiting.works && waiting.until > self.now {
                    let at = pace.apply(waiting.until);
                    self.resume_at(at, ProcessId(process as u32), lane, true);
                }
            }
        }
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
