//! A cluster under faults of its nodes, as kafka.md 2 and kafka-measured.md 1 have it: who is fenced when, when others go on,
//! what a return costs.

mod cluster;
mod isolate;
mod kill;
mod restart;
mod shutdown;

/// Prints what a quiet minute under load costs: `cargo test --release -p sim --test node cost -- --ignored --nocapture`.
#[test]
#[ignore = "a look at the cost"]
#[allow(clippy::disallowed_macros)]
fn cost() {
    let mut c = cluster::Cluster::formed(1);
    let before = c.world.work;
    c.pass(600_000);
    println!("kernel events {}", c.world.work.kernel_events - before.kernel_events);
}
