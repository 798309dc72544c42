//! C-7: kill a node and leave it dead; then its return.

use super::cluster::{Cluster, id, tps};
use model::base::Event;
use sim::world::Fault;

#[test]
fn a_killed_broker_is_fenced_after_7_to_10_seconds() {
    for seed in 0..50 {
        let mut c = Cluster::formed(seed);
        let victim = c.other_than_controller(seed as u32);
        let at = c.now();
        let led = c.led_by(victim);
        c.kill(victim);
        c.pass(13_000);
        let fenced = c.fenced(at, id(victim)).expect("fenced");
        assert!((7_000..=10_200).contains(&fenced), "seed {seed}: {fenced}");
        // 2.2: nobody is acknowledged until then, and everybody at once after it.
        for tp in tps() {
            let gap = c.longest_gap(at, tp);
            assert!(gap >= fenced - 200, "seed {seed}: {tp} went on at {gap}, fencing {fenced}");
            if !led.contains(&tp) {
                assert!(gap <= fenced + 700, "seed {seed}: {tp} went on at {gap}, fencing {fenced}");
            }
        }
        if seed < 10 {
            c.inject(Fault::Start(victim));
            c.pass(5_000);
            c.settle_and_check(seed);
        }
    }
}

#[test]
fn a_killed_controller_is_fenced_after_10_to_15_seconds() {
    for seed in 0..50 {
        let mut c = Cluster::formed(seed);
        let victim = c.controller();
        let at = c.now();
        c.kill(victim);
        c.pass(17_000);
        let elected = c.after(at, |_, e| matches!(e, Event::Controller { active: true, .. })).expect("a new one");
        assert!((1_400..=4_600).contains(&elected), "seed {seed}: active at {elected}");
        let fenced = c.fenced(at, id(victim)).expect("fenced");
        assert!((10_400..=15_100).contains(&fenced), "seed {seed}: {fenced}");
        assert!((9_000..=10_200).contains(&(fenced - elected)), "seed {seed}: C-4: {elected} {fenced}");
        if seed < 10 {
            c.inject(Fault::Start(victim));
            c.pass(5_000);
            c.settle_and_check(seed);
        }
    }
}
