//! The minimal conformance scenarios of the fidelity spec (kafka.md 9.4).
//!
//! | case | test |
//! |---|---|
//! | 1, 2, 9, 10, 12, 13, 14 | `case_N_*` in this file |
//! | 3, 4, 5, 6, 8, 11 | `case_N_*` in `transaction_cases.rs`; 5 and 6 call by call in `sim/tests/expiry` (`java_v*_commit`, `java_v*_abort`) |
//! | 7 | at the coordinator: `a_second_init_has_the_open_transaction_aborted_and_is_two_epochs_on` of the model's `transaction_tests`; at both clients: `second_*_open*` in `sim/tests/expiry` |

use crate::work::{over, scenario};
use sim::scenario::load_text;
use sim::search::Summary;
use sim::show::outcome::Outcome;

/// Ten seeds beside those of the snapshots.
pub const SEEDS: [u64; 10] = [100, 101, 102, 103, 104, 105, 106, 107, 108, 109];
const NOT_ENOUGH_REPLICAS: i16 = 19;

pub fn stalls(o: &Outcome) -> impl Iterator<Item = u64> {
    o.stalls.iter().map(|s| s.ms)
}
pub fn exact(run: &Summary) {
    assert!(run.outcome.layers.values().all(|l| l.exact), "seed {}: {:?}", run.seed, run.outcome.layers);
    assert_eq!(run.findings.len(), 0, "seed {}: {:?}", run.seed, run.findings);
    let failed = run.outcome.producers.values().map(|p| p.failed_sends);
    assert_eq!(failed.sum::<u64>(), 0, "seed {}", run.seed);
}
fn edge(run: &Summary, name: &str) -> u64 {
    run.coverage.edges.get(name).copied().unwrap_or(0)
}

#[test]
fn case_1_a_killed_follower_stops_acknowledgements_until_it_is_fenced() {
    for run in &over(&scenario("kafka/kill-follower", &[]), &SEEDS).runs {
        exact(run);
        // Which of the two holds depends on whether the follower was the active controller.
        let elected = run.coverage.roles.get("candidate").is_some_and(|n| *n > 0);
        let bounds = if elected { 10_400..=15_200 } else { 6_900..=10_700 };
        for ms in stalls(&run.outcome) {
            assert!(bounds.contains(&ms), "seed {}: {ms} ms", run.seed);
        }
        assert_eq!(run.outcome.stalls.len(), 6, "seed {}", run.seed);
    }
}

#[test]
fn case_2_a_leader_killed_between_append_and_acknowledgement_leaves_one_copy() {
    // One follower answers: what the leader had appended is known to the next one, and the retry is a duplicate (P-3).
    let replicated = over(&scenario("kafka/kill-leader-before-ack", &[]), &SEEDS);
    for run in &replicated.runs {
        exact(run);
        assert!(edge(run, "duplicate recognised") > 0, "seed {}", run.seed);
    }
    // None has it: the next leader takes the retry as new (P-17).
    for run in &over(&load_text("cut-off.toml", CUT_OFF, &[]).unwrap(), &SEEDS).runs {
        exact(run);
        assert_eq!(edge(run, "duplicate recognised"), 0, "seed {}", run.seed);
        assert!(run.outcome.producers["shop"].retries > 0, "seed {}", run.seed);
    }
}
/// As the scenario, but nothing that the leader appends reaches a follower. (A frozen one would find it in its socket.)
const CUT_OFF: &[u8] = br#"
description = "The leader dies with records that nobody else has and that nobody was told of"
extends = "kafka/kill-leader-before-ack"
without = ["faults.follower", "change"]

[[faults]]
name = "cut"
kind = "partition"
from = "broker 1"
to = ["broker 2", "broker 3"]
ports = "broker"
at = "20 s"
duration = "25 s"

[[faults]]
name = "leader"
dead = { existing = "silent", new = "refuse" }
"#;

#[test]
fn case_9_a_leader_cut_off_from_its_followers_only_stalls_then_refuses() {
    for run in &over(&scenario("kafka/isolate-leader-brokers-only", &[]), &SEEDS).runs {
        exact(run);
        let shortest = stalls(&run.outcome).min().unwrap();
        assert!((25_000..=47_000).contains(&shortest), "seed {}: {shortest} ms", run.seed);
        assert!(run.coverage.produce_errors.contains_key(&NOT_ENOUGH_REPLICAS), "seed {}", run.seed);
        assert_eq!(edge(run, "broker fenced"), 0, "seed {}", run.seed);
    }
}

#[test]
fn case_10_power_loss_of_every_replica_loses_what_was_acknowledged_and_is_reported() {
    for run in &over(&scenario("kafka/power-loss-all", &[]), &SEEDS).runs {
        assert!(run.outcome.layers["events"].missing > 0, "seed {}", run.seed);
        assert_eq!(run.alarm, None, "seed {}", run.seed);
        // With nobody left that stopped cleanly, the last known leader is elected uncleanly (R-24): either rule explains it.
        let by_rule = |excuse: &str| ["L-20", "R-24"].contains(&excuse);
        let reported = run.findings.keys().any(|(_, rule, excuse)| rule == "I-1" && by_rule(excuse));
        assert!(reported, "seed {}: {:?}", run.seed, run.findings);
    }
}

#[test]
fn case_12_a_backlog_comes_chunk_by_chunk() {
    for run in &over(&scenario("kafka/backlog", &[]), &SEEDS[..3]).runs {
        exact(run);
        let skew = run.outcome.freshness_ms["check"].skew_max;
        assert!((36_000..=45_000).contains(&skew), "seed {}: {skew} ms", run.seed);
    }
}

#[test]
fn case_13_below_min_isr_acks_1_is_accepted_and_not_readable() {
    for run in &over(&scenario("kafka/below-min-isr", &[]), &SEEDS[..3]).runs {
        let (events, check) = (&run.outcome.layers["events"], &run.outcome.layers["check"]);
        let shop = &run.outcome.producers["shop"];
        assert_eq!((shop.acknowledged, shop.failed_sends), (run.outcome.ledger.events, 0), "seed {}", run.seed);
        assert!(events.missing > 1_000, "seed {}: {events:?}", run.seed);
        assert_eq!(check.rows, events.rows, "seed {}: a reader sees what is below the high watermark", run.seed);
    }
}

#[test]
fn case_14_a_broker_that_is_back_at_once_is_refused_until_its_old_session_is_over() {
    for run in &over(&scenario("kafka/restart-2s", &[]), &SEEDS).runs {
        exact(run);
        assert!(edge(run, "registration refused") > 0, "seed {}", run.seed);
        let longest = stalls(&run.outcome).max().unwrap();
        assert!(longest >= 7_000, "seed {}: what it led waits for the fencing: {longest} ms", run.seed);
    }
    let late = ["faults.leader.restart-after=20 s"];
    for run in &over(&scenario("kafka/restart-2s", &late), &SEEDS[..3]).runs {
        assert_eq!(edge(run, "registration refused"), 0, "seed {}", run.seed);
    }
}
