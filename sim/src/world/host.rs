//! Hosts: machines whose processes share cores and a disk and lose power together.

use model::base::{Nanos, SimTime};

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Cores; 0: unlimited.
    pub cores: u32,
    /// Time of a flush (fsync) of nothing.
    pub flush: Nanos,
    /// Time per written KiB, on the writing lane. 0: the page cache is free.
    pub write_per_kib: Nanos,
}
impl Default for HostSpec {
    fn default() -> Self {
        Self { cores: 0, flush: Nanos::millis(2), write_per_kib: Nanos::ZERO }
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
    /// Extra time of every write on a slow disk.
    pub(super) write_stall: Nanos,
    pub(super) disk_full: bool,
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
        }
    }

    /// When work of `d` that becomes ready now is done: on the core that is free first, in order of readiness.
    pub(super) fn work(&mut self, now: SimTime, d: Nanos) -> SimTime {
        let d = Nanos((u128::from(d.0) * u128::from(self.cpu_permille) / 1000) as u64);
        let Some(core) = self.cores.iter_mut().min() else { return now + d };
        let end = (*core).max(now) + d;
        *core = end;
        end
    }

    pub(super) fn flush_time(&self) -> Nanos {
        Nanos((u128::from(self.spec.flush.0) * u128::from(self.disk_permille) / 1000) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_carry_three_tasks_in_two_rounds() {
        let mut host = Host::new(HostSpec { cores: 2, ..HostSpec::default() });
        let ends: Vec<u64> = (0..3).map(|_| host.work(SimTime::ZERO, Nanos(10)).0).collect();
        assert_eq!(ends, [10, 10, 20]);
        host.cpu_permille = 2000;
        assert_eq!(host.work(SimTime(100), Nanos(10)).0, 120);
    }
}
