//! Nondeterminisms planted on purpose, to prove that `sim replay` finds them.
//!
//! A plant sits outside the world, where the workload is handed in, and does what a careless component would: it lets
//! something of the machine it runs on decide a byte of a record. It is in force only in a run that was told so
//! ([`super::Run::plant`]), and only the hidden `--plant` of `sim replay` tells it.

// This file is about exactly what is forbidden elsewhere.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use clap::ValueEnum;
use model::base::Row;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a planted nondeterminism draws on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Plant {
    /// The order in which a `HashMap` with random keys gives its entries.
    HashOrder,
    /// Where the allocator put something.
    Address,
    /// The time of day.
    WallClock,
    /// How far another thread had come when this one looked.
    Thread,
    /// A static that an earlier run in the same process left behind.
    Static,
    /// A row's ledger number.
    Ghost,
}

/// Numbers that a plant gives: below this.
const VALUES: u64 = 8;
/// How often one thread looks how far another has counted before the run begins.
const LOOKS: usize = 64;
/// Time it sleeps before each look.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);
/// Runs that this process has planted: the stale static.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// A plant at work in one run.
#[derive(Clone, Debug)]
pub(super) struct Planted {
    plant: Plant,
    began: Instant,
    earlier_runs: u64,
    /// What one thread saw of the other's count.
    seen: Arc<[u64]>,
    drawn: usize,
}
impl Planted {
    pub(super) fn new(plant: Plant) -> Self {
        let seen = if plant == Plant::Thread { race() } else { Arc::new([]) };
        let earlier_runs = RUNS.fetch_add(1, Ordering::Relaxed);
        Self { plant, began: Instant::now(), earlier_runs, seen, drawn: 0 }
    }

    /// Lets the machine decide the size of the first row.
    pub(super) fn perturb(&mut self, rows: &mut [Row]) {
        let n = self.draw(rows) % VALUES;
        if let Some(row) = rows.first_mut() {
            row.bytes += n as u32;
        }
    }

    fn draw(&mut self, rows: &[Row]) -> u64 {
        self.drawn += 1;
        match self.plant {
            Plant::HashOrder => {
                let candidates: HashMap<u64, ()> = (0..VALUES).map(|n| (n, ())).collect();
                candidates.into_keys().next().unwrap_or_default()
            }
            // All bits count, the low ones are the same in every process; and each draw anew, as few addresses come again and
            // again.
            Plant::Address => {
                let mixed = (rows.as_ptr() as u64 ^ (self.drawn as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 61
            }
            Plant::WallClock => self.began.elapsed().as_micros() as u64,
            Plant::Thread => self.seen[self.drawn % self.seen.len()],
            Plant::Static => self.earlier_runs,
            Plant::Ghost => rows.first().map_or(0, |r| u64::from(r.ghost.open())),
        }
    }
}

/// One thread counts as fast as it can, another looks from time to time how far it has come: a value shared without
/// agreement on when it is read. How often they change places on a core does not matter, as it would if they took turns:
/// even on a single core the count depends on when exactly the timer took it away. They are gone when the run begins:
/// madsim lets no thread start inside.
fn race() -> Arc<[u64]> {
    let (count, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let (count, done) = (&count, &done);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let look = move || {
            std::thread::sleep(BETWEEN_LOOKS);
            count.load(Ordering::Relaxed)
        };
        let seen = (0..LOOKS).map(|_| look()).collect();
        done.store(true, Ordering::Relaxed);
        seen
    })
}
