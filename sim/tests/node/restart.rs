//! L-26: a node that is back before it was fenced (kafka-measured.md 1.3 #6, #7).

use super::cluster::{Cluster, id, tps};
use model::base::{Event, ProcessId};
use sim::world::Fault;

/// When registrations were refused and accepted, from `since` on.
fn registrations(c: &Cluster, since: i64, victim: ProcessId) -> (Vec<i64>, Option<i64>) {
    let refused = |e: &Event| matches!(e, Event::Registration { error, .. } if *error != 0);
    let accepted =
        c.after(since, |_, e| matches!(e, Event::Registration { broker, error: 0, .. } if *broker == id(victim)));
    let refused = c.seen.events.iter().filter(|(at, _, e)| *at >= since && refused(e)).map(|(at, _, _)| at - since);
    (refused.collect(), accepted)
}

#[test]
fn a_broker_back_at_once_is_refused_until_its_session_is_over_but_releases_the_high_watermark() {
    for (seed, pause) in (0..12).flat_map(|s| [(s, 1_000), (s, 3_000)]) {
        let mut c = Cluster::formed(seed);
        let victim = c.other_than_controller(seed as u32);
        let led = c.led_by(victim);
        let at = c.now();
        c.kill(victim);
        c.pass(pause);
        c.inject(Fault::Start(victim));
        c.pass(15_000);
        let (refused, accepted) = registrations(&c, at, victim);
        let accepted = accepted.expect("registered again");
        assert!(!refused.is_empty(), "seed {seed}");
        // More than 9 s after its last heartbeat, which was at most 2 s before the kill; tried every 2 s.
        assert!((7_000..=11_200).contains(&accepted), "seed {seed}: {accepted}");
        assert!(refused.iter().all(|r| *r < 9_100), "seed {seed}: {refused:?}");
        assert!(refused.windows(2).all(|w| (1_990..=2_100).contains(&(w[1] - w[0]))), "seed {seed}: {refused:?}");
        let fenced = c.fenced(at, id(victim)).unwrap_or(accepted);
        for tp in tps() {
            let gap = c.longest_gap(at, tp);
            if led.contains(&tp) {
                // Its listener is closed: these wait for the fencing.
                assert!(gap >= fenced.min(accepted) - 200, "seed {seed}: {tp} {gap} {fenced}");
            } else {
                assert!(gap <= pause + 3_000, "seed {seed}, {pause}: {tp} went on after {gap}, fencing {fenced}");
            }
        }
        c.settle_and_check(seed);
    }
}

#[test]
fn a_controller_back_within_a_second_tells_the_voters_that_it_has_resigned() {
    for seed in 0..12 {
        let mut c = Cluster::formed(seed);
        let victim = c.controller();
        let at = c.now();
        c.kill(victim);
        c.pass(500);
        c.inject(Fault::Start(victim));
        c.pass(17_000);
        let elected = c.after(at, |_, e| matches!(e, Event::Controller { active: true, .. })).expect("a new one");
        assert!((1_000..=3_200).contains(&elected), "seed {seed}: {elected}");
        c.settle_and_check(seed);
    }
}

#[test]
fn leaders_go_back_and_the_followers_that_came_too_early_wait_a_second() {
    let mut late = 0;
    for seed in 0..8 {
        let mut c = Cluster::with(seed, |_, controller, times| {
            controller.leader_imbalance_check_interval = model::base::Millis(30_000);
            times.lead_partition = model::base::Nanos::millis(100);
        });
        let victim = c.other_than_controller(seed as u32);
        c.kill(victim);
        c.pass(14_000);
        c.inject(Fault::Start(victim));
        let back = c.now();
        c.pass(40_000);
        let led = c.led_by(victim);
        assert_eq!(led.len(), 2, "seed {seed}: R-25");
        let moved =
            c.after(back, |p, e| p == victim && matches!(e, Event::BecameLeader { .. })).expect("it leads again");
        late += usize::from(led.iter().any(|tp| c.longest_gap(back + moved - 300, *tp) > 900));
        c.settle_and_check(seed);
    }
    assert!(late > 0, "some follower came too early");
}
