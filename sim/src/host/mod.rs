//! Hosts: what turns the crank of a run. The world owns every machine under both.
//!
//! [`drive_loop`] is a plain loop; its runs can be forked. `drive_madsim` runs the same world inside one madsim runtime
//! that owns the clock and the life cycle of nodes: a process is a madsim node, kill and restart are madsim's. Both give the
//! same chain, bit for bit.

#[cfg(madsim)]
mod madsim_host;

use crate::world::{Lifecycle, NoLifecycle};

/// Something that can be driven turn by turn.
pub trait Drive {
    /// One turn; false when the run is over.
    fn turn(&mut self, life: &mut dyn Lifecycle) -> bool;
}

/// Which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// A plain loop.
    Loop,
    /// A madsim runtime.
    Madsim,
}
impl Host {
    /// The name in outcomes and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Madsim => "madsim",
        }
    }
    /// madsim where it is built in, else the loop.
    pub const fn default_host() -> Self {
        if cfg!(madsim) { Self::Madsim } else { Self::Loop }
    }
    /// Drives a run to its end. Without `--cfg madsim` everything runs in the loop.
    pub fn drive(self, run: &mut impl Drive, seed: u64) {
        match self {
            #[cfg(madsim)]
            Self::Madsim => madsim_host::drive_madsim(run, seed),
            _ => drive_loop(run, seed),
        }
    }
}

/// Drives a run in a plain loop.
pub fn drive_loop(run: &mut impl Drive, _seed: u64) {
    while run.turn(&mut NoLifecycle) {}
}
