//! Determinism is law. First in CI: nothing else that the project says is worth anything without it.

// Threads and processes here run whole simulations; nothing simulated sees them.
#![allow(clippy::disallowed_methods)]

mod ghosts;
mod hosts;
mod planted;
mod recorded;
mod streams;
mod threads;

use sim::host::{Drive, Host, drive_loop};
use sim::run::{Run, finish};
use sim::scenario::{Loaded, load};
use sim::world::NoLifecycle;
use std::sync::Arc;

/// A scenario that is over after `seconds` of workload.
fn short(name: &str, seconds: u32) -> Loaded {
    let set = [format!("workload.duration={seconds} s")];
    load(name, &set).unwrap_or_else(|p| panic!("{}", p.render(false)))
}
fn begin(loaded: &Loaded, seed: u64) -> Run {
    Run::new(&Arc::new(loaded.scenario.clone()), seed).unwrap()
}
/// Drives to the end: the chain, and the outcome as JSON without the host's name.
fn end(mut run: Run, loaded: &Loaded, host: Host) -> (Vec<u64>, String) {
    let seed = run.seed;
    host.drive(&mut run, seed);
    let mut finished = finish(&mut run, loaded, host);
    finished.outcome.host.clear();
    (finished.digest.seconds, serde_json::to_string(&finished.outcome).unwrap())
}
fn in_loop(loaded: &Loaded, seed: u64) -> (Vec<u64>, String) {
    end(begin(loaded, seed), loaded, Host::Loop)
}
