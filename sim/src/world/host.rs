//! Hosts: machines whose processes share cores and a disk and lose power together.

use model::base::{Nanos, SimTime};

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Cores; 0: unlimited.
    pub cores: u32,
    /// Time of a flush (fsync) of nothing.
    pub flush: Nanos,
    /// Bytes a second that the disk takes; 0: unlimited.
    pub bytes_per_second: u64,
}
impl Default for HostSpec {
    fn default() -> Self {
        Self { cores: 0, flush: Nanos::millis(2), bytes_per_second: 0 }
    }
}

/// What faults have made of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strain {
    /// Time that work takes, in thousandths of what it takes at full speed.
    pub cpu_permille: u64,
    /// Extra time of every write and flush.
    pub stall: Nanos,
    /// Bytes a second that the disk takes at most; `None`: what it is built for.
    pub bytes_per_second: Option<u64>,
    /// No write succeeds.
    pub full: bool,
}

/// A change of pace: what of an interval lies behind it is stretched or shrunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    now: SimTime,
    from: u64,
    to: u64,
}
impl Pace {
    /// Where `end` moves to.
    pub(super) fn apply(self, end: SimTime) -> SimTime {
        if end <= self.now {
            return end;
        }
        let left = u128::from(end.since(self.now).0);
        self.now + Nanos((left * u128::from(self.to) / u128::from(self.from.max(1))) as u64)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) spec: HostSpec,
    /// When each core is free again.
    cores: Vec<SimTime>,
    /// CPU slowed by this factor, in thousandths: 1000 is full speed.
    pub(super) cpu_permille: u64,
    /// Disk slowed by this factor, in thousandths.
    pub(super) disk_permille: u64,
    /// Extra time of every write and flush on a slow disk.
    pub(super) write_stall: Nanos,
    pub(super) disk_full: bool,
    /// What a fault has left of the disk's bandwidth.
    left: Option<u64>,
    /// When all that was written is on the disk, at the bandwidth of now.
    clear_at: SimTime,
}

impl Host {
    pub(super) fn new(spec: HostSpec) -> Self {
        Self {
            spec,
            cores: vec![SimTime::ZERO; spec.cores as usize],
            cpu_permille: 1000,
            disk_permille: 1000,
            write_stall: Nanos::ZERO,
            disk_full: false,
            left: None,
            clear_at: SimTime::ZERO,
        }
    }

    /// When work of `d` that becomes ready now is done: on the core that is free first, in order of readiness.
    pub(super) fn work(&mut self, now: SimTime, d: Nanos) -> SimTime {
        let d = match self.cpu_permille {
            1000 => d,
            permille => Nanos((u128::from(d.0) * u128::from(permille) / 1000) as u64),
        };
        let Some(core) = self.cores.iter_mut().min() else { return now + d };
        let end = (*core).max(now) + d;
        *core = end;
        end
    }

    /// Changes the pace of the CPU; gives where the ends of work that has begun move to.
    pub(super) fn pace(&mut self, now: SimTime, permille: u64) -> Pace {
        let pace = Pace { now, from: self.cpu_permille, to: permille };
        self.cpu_permille = permille;
        self.cores.iter_mut().for_each(|core| *core = pace.apply(*core));
        pace
    }

    pub(super) fn strain(&self) -> Strain {
        Strain {
            cpu_permille: self.cpu_permille,
            stall: self.write_stall,
            bytes_per_second: self.left,
            full: self.disk_full,
        }
    }
    fn bandwidth(&self) -> u64 {
        let spec = self.spec.bytes_per_second;
        match self.left {
            Some(left) if spec == 0 => left,
            Some(left) => left.min(spec),
            None => spec,
        }
    }
    /// Leaves the disk so many bytes a second; `None`: what it is built for. What waits is written at the new pace.
    pub(super) fn limit_disk(&mut self, now: SimTime, left: Option<u64>) {
        let before = self.bandwidth();
        self.left = left;
        let after = self.bandwidth();
        let waits = self.clear_at.since(now);
        if after == 0 || before == 0 {
            self.clear_at = now;
        } else {
            self.clear_at = now + Nanos((u128::from(waits.0) * u128::from(before) / u128::from(after)) as u64);
        }
    }
    /// Bytes went into the page cache: the kernel writes them back in order.
    pub(super) fn written(&mut self, now: SimTime, bytes: u64) {
        // Below 18 GB, which one write never has: two words cost a call to divide.
        if let Some(nanos) = (bytes * 1_000_000_000).checked_div(self.bandwidth()) {
            self.clear_at = self.clear_at.max(now) + Nanos(nanos);
        }
    }
    /// When a flush that begins now is done. It waits for everything that was written before it on this disk, of whatever
    /// file: so fsync does on ext4 with ordered data, and so it is in a disk's queue.
    pub(super) fn flushed_at(&self, now: SimTime) -> SimTime {
        let flush = Nanos((u128::from(self.spec.flush.0) * u128::from(self.disk_permille) / 1000) as u64);
        self.clear_at.max(now) + flush + self.write_stall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_what_was_written_before_it() {
        let spec = HostSpec { bytes_per_second: 1_000_000, flush: Nanos::millis(2), ..HostSpec::default() };
        let mut host = Host::new(spec);
        let at = |ms: u64| SimTime::ZERO + Nanos::millis(ms);
        host.written(SimTime::ZERO, 10_000);
        assert_eq!(host.flushed_at(SimTime::ZERO), at(12));
        assert_eq!(host.flushed_at(at(50)), at(52));
        host.written(at(50), 10_000);
        host.limit_disk(at(55), Some(10_000));
        assert_eq!(host.flushed_at(at(55)), at(55 + 500 + 2));
        host.limit_disk(at(55), None);
        assert_eq!(host.flushed_at(at(55)), at(62));
    }

    #[test]
    fn work_that_has_begun_goes_on_at_the_new_pace() {
        let at = |ms: u64| SimTime::ZERO + Nanos::millis(ms);
        let mut host = Host::new(HostSpec { cores: 1, ..HostSpec::default() });
        host.pace(at(0), 29_000);
        assert_eq!(host.work(at(0), Nanos::millis(100)), at(2_900));
        // A tenth of it is done.
        let pace = host.pace(at(290), 1_000);
        assert_eq!((pace.apply(at(2_900)), pace.apply(at(200))), (at(290 + 90), at(200)));
        assert_eq!(host.work(at(300), Nanos::millis(10)), at(390));
    }

    #[test]
    fn two_cores_carry_three_tasks_in_two_rounds() {
        let mut host = Host::new(HostSpec { cores: 2, ..HostSpec::default() });
        let ends: Vec<u64> = (0..3).map(|_| host.work(SimTime::ZERO, Nanos(10)).0).collect();
        assert_eq!(ends, [10, 10, 20]);
        host.cpu_permille = 2000;
        assert_eq!(host.work(SimTime(100), Nanos(10)).0, 120);
    }
}
