//! One seed, one chain: again, on the other host, after a fork, and with somebody who watches.

use super::*;
use model::base::{Domain, Streams};
use sim::world::Recorder;

#[test]
fn the_same_seed_gives_the_same_chain_and_another_one_another() {
    let loaded = short("kafka/chaos", 15);
    let first = in_loop(&loaded, 7);
    assert_eq!(first, in_loop(&loaded, 7));
    assert_ne!(first.0, in_loop(&loaded, 8).0);
}

#[test]
#[cfg(madsim)]
fn both_hosts_give_the_same_chain_and_outcome() {
    for (name, seed) in [("kafka/chaos", 42), ("kafka/chaos", 3), ("kafka/kill-follower", 1), ("clickstream/chaos", 42)]
    {
        let loaded = short(name, 30);
        let there = end(begin(&loaded, seed), &loaded, Host::Madsim);
        assert_eq!(in_loop(&loaded, seed), there, "{name} seed {seed}");
    }
}

#[test]
fn a_fork_at_any_instant_ends_as_the_run_it_was_taken_from() {
    let loaded = short("kafka/chaos", 30);
    let whole = in_loop(&loaded, 42);
    // How many turns there are, then some of them at random.
    let mut turns = 0u64;
    let mut run = begin(&loaded, 42);
    while run.turn(&mut NoLifecycle) {
        turns += 1;
    }
    let mut draw = Streams(1).stream(Domain::Schedule, 0, "where to fork");
    for _ in 0..4 {
        let at = draw.below(turns);
        let mut run = begin(&loaded, 42);
        for _ in 0..at {
            run.turn(&mut NoLifecycle);
        }
        let fork = run.clone();
        assert_eq!(end(run, &loaded, Host::Loop), whole, "the run, forked after {at} turns");
        assert_eq!(end(fork, &loaded, Host::Loop), whole, "the fork after {at} turns");
    }
}

#[test]
fn a_trace_that_is_kept_changes_nothing() {
    let loaded = short("kafka/chaos", 15);
    let mut run = begin(&loaded, 5);
    run.record(Recorder::new(0, u64::MAX));
    drive_loop(&mut run, 5);
    let items = run.world.take_recorded();
    assert!(items.len() > 10_000 && items.is_sorted_by_key(|i| i.id), "{} items", items.len());
    assert!(items.iter().all(|i| i.cause < i.id), "a cause lies before what it causes");
    let finished = finish(&mut run, &loaded, Host::Loop);
    assert_eq!(finished.digest.seconds, in_loop(&loaded, 5).0);
}
