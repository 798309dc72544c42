//! Many runs at once. A run has one thread; threads here each take whole runs.

use sim::host::Host;
use sim::scenario::{Loaded, load};
use sim::search::{Summary, Sweep, sweep};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The pinned seed and two more.
pub const SEEDS: [u64; 3] = [42, 43, 44];
/// Runs that take seconds each: the pinned seed only.
const LONG: [&str; 3] = ["kafka/events-file", "kafka/fetch-while-buffered", "measured/kafka-catch-up-skew"];

/// A scenario and its change, over a few seeds.
pub struct Shipped {
    pub name: String,
    pub base: Vec<Summary>,
    pub changed: Vec<Summary>,
    pub change: String,
}

pub fn scenario(name: &str, set: &[&str]) -> Loaded {
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    load(name, &set).unwrap_or_else(|problems| panic!("{name}: {problems}"))
}
/// A scenario under some seeds.
pub fn over(loaded: &Loaded, seeds: &[u64]) -> Sweep {
    let sweep = sweep(loaded, seeds, 2, Host::Loop, &|_| {});
    for run in &sweep.runs {
        assert_eq!(run.error, None, "{} seed {}", loaded.scenario.name, run.seed);
    }
    sweep
}

/// Every shipped scenario, both sides, on as many threads as there are cores.
#[allow(clippy::disallowed_methods)]
pub fn all() -> Vec<Shipped> {
    let names: Vec<&str> = sim::scenario::library::names().collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let shipped = both_sides(name);
                    done.lock().unwrap().push(shipped);
                }
            });
        }
    });
    let mut all = done.into_inner().unwrap();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}
fn both_sides(name: &str) -> Shipped {
    let seeds = if LONG.contains(&name) { &SEEDS[..1] } else { &SEEDS[..] };
    let loaded = scenario(name, &[]);
    let change = loaded.changed.clone().unwrap_or_else(|| panic!("{name} names no change"));
    let changed = Loaded { scenario: change.scenario, changed: None, ..loaded.clone() };
    let run = |loaded: &Loaded| sweep(loaded, seeds, 1, Host::Loop, &|_| {}).runs;
    Shipped { name: name.to_owned(), base: run(&loaded), changed: run(&changed), change: change.what }
}
