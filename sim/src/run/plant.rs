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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Instant;

/// What a planted nondeterminism draws on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Plant {
    /// The order in which a `HashMap` with random keys gives its entries.
    HashOrder,
    /// Where the allocator put something.
    Address,
    /// The time of day.
    WallClock,
    /// Which of two threads came first.
    Thread,
    /// A static that an earlier run in the same process left behind.
    Static,
    /// A row's ledger number.
    Ghost,
}

/// Numbers that a plant gives: below this.
const VALUES: u64 = 8;
/// How often two threads race for the next place before the run begins.
const RACES: usize = 2048;
/// Runs that this process has planted: the stale static.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// A plant at work in one run.
#[derive(Clone, Debug)]
pub(super) struct Planted {
    plant: Plant,
    began: Instant,
    earlier_runs: u64,
    /// Which thread won each race.
    winners: Arc<[u8]>,
    drawn: usize,
}
impl Planted {
    pub(super) fn new(plant: Plant) -> Self {
        let winners = if plant == Plant::Thread { race() } else { Arc::new([]) };
        let earlier_runs = RUNS.fetch_add(1, Ordering::Relaxed);
        Self { plant, began: Instant::now(), earlier_runs, winners, drawn: 0 }
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
            // All bits count: the low ones are the same in every process.
            Plant::Address => (rows.as_ptr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61,
            Plant::WallClock => self.began.elapsed().as_micros() as u64,
            Plant::Thread => u64::from(self.winners[self.drawn % self.winners.len()]),
            Plant::Static => self.earlier_runs,
            Plant::Ghost => rows.first().map_or(0, |r| u64::from(r.ghost.open())),
        }
    }
}

/// Two threads push their number into one list, as a pool does that keeps results in order of completion. They are gone
/// when the run begins: madsim lets no thread start inside.
fn race() -> Arc<[u8]> {
    let (list, start) = (Mutex::new(Vec::with_capacity(2 * RACES)), Barrier::new(2));
    let (list, start) = (&list, &start);
    std::thread::scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || {
                start.wait();
                for _ in 0..RACES {
                    list.lock().expect("no thread panics while it holds this").push(number);
                    std::thread::yield_now();
                }
            });
        }
    });
    list.lock().expect("both threads are gone").as_slice().into()
}
