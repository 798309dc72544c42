//! L-24: SIGTERM. Leaders move before the process goes; an active controller goes last.

use super::cluster::{Cluster, id, tps};
use model::base::Event;
use sim::world::Fault;

#[test]
fn a_rolling_restart_stalls_nobody_for_long_and_loses_nothing() {
    for seed in 0..10 {
        let mut c = Cluster::formed(seed);
        let controller = c.controller();
        let order = [c.other_than_controller(0), c.other_than_controller(1), controller];
        let begin = c.now();
        for p in order {
            let at = c.now();
            let led = c.led_by(p);
            c.terminate(p);
            let mut waited = 0;
            while c.world.is_up(p) {
                c.pass(10);
                waited += 10;
                assert!(waited < 12_000, "seed {seed}: {p} does not go");
            }
            // The heartbeat at once moves the leaders, permission comes with one of the next.
            assert!(waited >= 1_000, "seed {seed}: {waited}");
            for tp in &led {
                let moved = c.after(
                    at,
                    |_, e| matches!(e, Event::PartitionChanged { tp: t, leader, .. } if t == tp && *leader != id(p)),
                );
                assert!(moved.is_some_and(|m| m < 500), "seed {seed}: {tp} moved at {moved:?}");
            }
            if p == controller {
                let gone = c.now();
                c.pass(1_000);
                let next =
                    c.after(at, |_, e| matches!(e, Event::Controller { active: true, .. })).expect("the next one");
                assert!(at + next <= gone + 700, "seed {seed}: the next controller {} after", at + next - gone);
            }
            let disk = c.world.disk(p).node().expect("a node's");
            assert!(disk.clean_shutdown.is_some(), "seed {seed}: no marker");
            c.inject(Fault::Start(p));
            let start = c.now();
            while !c.full_isr() {
                c.pass(100);
                assert!(c.now() - start < 20_000, "seed {seed}: {p} does not come back");
            }
            let recovered = c.after(start, |q, e| q == p && matches!(e, Event::Recovered { .. })).expect("loads");
            assert!(
                c.after(start + recovered, |q, e| q == p && matches!(e, Event::Recovered { clean: true })) == Some(0)
            );
            c.pass(3_000);
        }
        for tp in tps() {
            let gap = c.longest_gap(begin, tp);
            assert!(gap < 5_000, "seed {seed}: {tp} stalled for {gap}");
        }
        // A record that came to the old leader after the new one had stopped fetching is cut, never one that was acknowledged.
        for (_, _, event) in &c.seen.events {
            if let Event::Truncated { to, high_watermark, .. } = event {
                assert!(to >= high_watermark, "seed {seed}: {event:?}");
            }
        }
        c.settle_and_check(seed);
    }
}
