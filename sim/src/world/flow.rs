//! How the effects of a step go on: at once, after work, after a write that takes long, or not at all.

use super::{Armed, Crash, Due, Lifecycle, Observer, World};
use model::base::{Effect, FileId, Lane, Nanos, Process, ProcessId, SimTime};

/// How long the writes of a step have stalled it so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    pub(super) time: Nanos,
    file: Option<FileId>,
}
impl Stall {
    /// A write took this long. Writes to one file that follow each other are one call: a follower hands all batches that it
    /// was given of a partition to the file at once (`UnifiedLog.appendAsFollower`).
    pub(super) fn add(&mut self, file: FileId, time: Nanos) {
        if self.file.replace(file) != Some(file) {
            self.time = self.time + time;
        }
    }
    /// After the last effect of a step: the lane waits for the writes.
    pub(super) fn halt<E>(self, now: SimTime) -> Option<Halt<E>> {
        let why = Why::Busy { until: now + self.time, works: false };
        (self.time > Nanos::ZERO).then_some(Halt { before: None, why })
    }
    /// Whether a stalled write holds the effect up. Other writes of the step and what it tells are not: a thread changes its
    /// memory and the page cache in one go, other threads see that at once; what leaves the thread waits.
    pub(super) const fn holds<M, W>(&self, effect: &Effect<M, W>) -> bool {
        self.time.0 > 0 && !matches!(effect, Effect::Write(..) | Effect::Emit(_) | Effect::Show(_))
    }
}

/// Whether the effects of a step go on.
pub(super) enum Flow {
    On,
    Later(SimTime),
    /// A write took long.
    Stalled(FileId, Nanos),
    Dead,
}

/// The effects of a step do not all leave now.
pub(super) struct Halt<E> {
    /// The effect that was to leave and did not.
    pub(super) before: Option<E>,
    pub(super) why: Why,
}
pub(super) enum Why {
    /// The lane works until then, or waits for a write.
    Busy { until: SimTime, works: bool },
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
        life: &mut dyn Lifecycle,
        seen: &mut impl Observer,
    ) {
        match why {
            Why::Busy { until, works } => self.resume_at(until, process, lane, works),
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
        self.move_ends(host, true, |until| pace.apply(until));
    }

    /// From now on the disk of this host takes `permille` thousandths of its time and stalls each write. Of the writes that
    /// hold a lane up the one under way ends as it would have; those behind it take the new time.
    pub(super) fn slow_disk(&mut self, host: u32, permille: u64, stall: Nanos) {
        let now = self.now;
        let disk = &mut self.hosts[host as usize];
        disk.disk_permille = permille;
        let before = std::mem::replace(&mut disk.write_stall, stall);
        if before > Nanos::ZERO {
            self.move_ends(host, false, |until| {
                let left = until.since(now).0;
                now + Nanos(left % before.0 + left / before.0 * stall.0)
            });
        }
    }

    /// Moves the time at which lanes go on that wait for work, or for a write.
    fn move_ends(&mut self, host: u32, works: bool, to: impl Fn(SimTime) -> SimTime) {
        for process in 0..self.slots.len() {
            if self.slots[process].host != host || self.slots[process].state.is_none() {
                continue;
            }
            for lane in 0..self.slots[process].lane_count() {
                let lane = Lane(lane as u16);
                let waiting = self.slots[process].lane(lane);
                if waiting.busy && waiting.works == works && waiting.until > self.now {
                    let at = to(waiting.until);
                    self.resume_at(at, ProcessId(process as u32), lane, works);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::{Batch, Port};

    #[test]
    fn a_stalled_write_holds_back_what_leaves_the_thread_and_no_other_write() {
        type E = Effect<Batch, u8>;
        let (write, wake) = (E::Write(FileId(1), 0), E::Wake { port: Port(0), at: None });
        let mut stall = Stall::default();
        assert!(!stall.holds(&wake));
        stall.add(FileId(1), Nanos(5));
        assert!(!stall.holds(&write) && stall.holds(&wake));
    }

    #[test]
    fn batches_that_go_to_one_file_together_stall_once() {
        let mut stall = Stall::default();
        for file in [1, 1, 1, 2, 2] {
            stall.add(FileId(file), Nanos(5));
        }
        assert_eq!(stall.time, Nanos(10));
    }
}
