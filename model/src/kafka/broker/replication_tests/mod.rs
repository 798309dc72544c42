//! What must hold of replication under any schedule of kills and elections, and that each fix is needed for it.

mod cluster;
mod controller;

use crate::base::{BrokerId, Fix, Fixes, Millis};
use cluster::{Cluster, Found, Happening};

/// A minute of writes with kills and moves of leaders, then quiet until everybody is back.
fn run(seed: u64, fixes: Fixes) -> Found {
    let mut cluster = Cluster::new(seed, fixes);
    cluster.schedule(1_000, Happening::Produce);
    for _ in 0..6 {
        let (node, silent) = (BrokerId(cluster.draw(1, 3) as i32), cluster.random.chance(1, 2));
        let after = cluster.draw(2_000, 60_000);
        cluster.schedule(after, Happening::Kill { node, silent });
    }
    for _ in 0..20 {
        let end = cluster.now + Millis(cluster.draw(500, 6_000));
        cluster.run_until(end);
        cluster.move_leader();
        if cluster.random.chance(1, 2) {
            let end = cluster.now + Millis(cluster.draw(100, 1_500));
            cluster.run_until(end);
            cluster.move_leader();
        }
    }
    let quiet: Vec<_> = cluster
        .queue
        .iter()
        .filter(|(_, h)| matches!(h, Happening::Produce | Happening::Kill { .. }))
        .map(|(k, _)| *k)
        .collect();
    quiet.iter().for_each(|k| drop(cluster.queue.remove(k)));
    let end = cluster.now + Millis(90_000);
    cluster.run_until(end);
    cluster.judge()
}

#[test]
fn nothing_acknowledged_is_lost_and_logs_match_under_kills_and_elections() {
    let mut total = Found::default();
    for seed in 0..200 {
        let found = run(seed, Fixes::ALL);
        let wrong = [found.lost, found.cut_below_high_watermark, found.differing, found.not_converged];
        assert_eq!(wrong, [0; 4], "seed {seed}: {found:?}");
        total.acked += found.acked;
        total.truncations += found.truncations;
        total.elections += found.elections;
    }
    assert!(total.acked > 20_000 && total.truncations > 50 && total.elections > 2_000, "{total:?}");
}

#[test]
fn a_run_repeats_itself() {
    assert_eq!(run(3, Fixes::ALL), run(3, Fixes::ALL));
}

#[test]
fn each_fix_is_needed() {
    let caught = |fix, seen: fn(&Found) -> bool| (0..60).any(|seed| seen(&run(seed, Fixes::ALL.without(fix))));
    assert!(caught(Fix::AckAfterHighWatermark, |f| f.lost > 0));
    assert!(caught(Fix::TruncateByLeaderEpoch, |f| f.lost > 0 || f.differing > 0));
    assert!(caught(Fix::TruncationStopsAtDivergence, |f| f.cut_below_high_watermark > 0));
    assert!(caught(Fix::DivergingEpochAnswer, |f| f.differing > 0 || f.lost > 0));
}
