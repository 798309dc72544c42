//! The cases of kafka.md 9.4 that need a transaction coordinator; `cases.rs` has the table of all.

use crate::cases::{SEEDS, exact, stalls};
use crate::work::{over, scenario};
use sim::search::Summary;

/// Transactions that were aborted: by the producer, by expiry, by the next producer.
fn aborts(run: &Summary) -> (u64, u64, u64) {
    let aborts = run.outcome.aborts.as_ref().expect("the scenario has transactions");
    (aborts.client, aborts.expiry, aborts.init)
}
fn none_aborted(run: &Summary) {
    assert_eq!(aborts(run), (0, 0, 0), "seed {}", run.seed);
    assert_eq!(run.outcome.producers["shop"].fatal, 0, "seed {}", run.seed);
}
fn fatal(run: &Summary, error: &str) -> u64 {
    run.outcome.producers["shop"].fatal_errors.get(error).copied().unwrap_or(0)
}
/// What committed readers are given of the run: everything once, and nothing out of what expired.
fn readers_are_exact(run: &Summary) {
    let check = &run.outcome.layers["check"];
    assert_eq!((check.missing, check.duplicates, check.unexpected), (0, 0, 0), "seed {}: {check:?}", run.seed);
    assert_eq!(run.alarm, None, "seed {}", run.seed);
}

#[test]
fn case_3_a_decision_without_markers_is_carried_out_by_the_next_coordinator() {
    for run in &over(&scenario("transactions/kill-before-markers", &[]), &SEEDS).runs {
        exact(run);
        none_aborted(run);
        assert!(stalls(&run.outcome).min().is_some_and(|ms| ms >= 6_900), "seed {}", run.seed);
    }
}

#[test]
fn case_4_an_end_that_was_not_replicated_is_asked_for_again() {
    for run in &over(&scenario("transactions/kill-before-prepare", &[]), &SEEDS).runs {
        exact(run);
        none_aborted(run);
        assert!(stalls(&run.outcome).min().is_some_and(|ms| ms >= 6_900), "seed {}", run.seed);
    }
}

#[test]
fn case_5_a_commit_after_the_expiry_is_refused_and_its_data_stays_invisible() {
    for (version, error) in [("1", "90"), ("2", "48")] {
        let set = format!("cluster.features.transaction.version={version}");
        for run in &over(&scenario("transactions/expired-commit", &[&set]), &SEEDS[..4]).runs {
            readers_are_exact(run);
            assert_eq!((aborts(run).1, fatal(run, error)), (1, 1), "seed {}, V{version}", run.seed);
            // Its rows are there for whoever does not ask for committed data, and for nobody else.
            let (check, uncommitted) = (run.outcome.layers["check"].rows, run.outcome.layers["uncommitted"].rows);
            assert!(uncommitted > check, "seed {}, V{version}: {uncommitted} and {check} rows", run.seed);
        }
    }
}

#[test]
fn case_6_an_abort_after_the_expiry_is_fenced_in_v1_and_goes_on_in_v2() {
    for (version, fenced) in [("1", 1), ("2", 0)] {
        let set = format!("cluster.features.transaction.version={version}");
        for run in &over(&scenario("transactions/expired-abort", &[&set]), &SEEDS[..4]).runs {
            assert_eq!(
                (run.outcome.layers["check"].rows, fatal(run, "90")),
                (0, fenced),
                "seed {}, V{version}",
                run.seed
            );
            assert_eq!(
                (run.outcome.producers["shop"].fatal, run.alarm.as_deref()),
                (fenced, None),
                "seed {}",
                run.seed
            );
        }
    }
}

#[test]
fn case_8_a_late_produce_hangs_the_stable_offset_only_without_verification() {
    let hanging =
        |run: &Summary| run.findings.keys().any(|(law, rule, _)| (law.as_str(), rule.as_str()) == ("hanging", "I-29"));
    for run in &over(&scenario("transactions/late-produce-after-abort-hangs-lso", &[]), &SEEDS[..4]).runs {
        assert!(run.alarm.is_none() && !hanging(run), "seed {}: {:?}", run.seed, run.alarm);
    }
    let off = ["cluster.config.transaction.partition.verification.enable=false"];
    let runs = over(&scenario("transactions/late-produce-after-abort-hangs-lso", &off), &SEEDS[..4]).runs;
    assert!(runs.iter().all(hanging), "{:?}", runs.iter().map(|r| &r.findings).collect::<Vec<_>>());
}

/// REFUSE follows K-21 and K-23; DROP is the trap of 30 s, or K-22d where the metadata lost the node first.
#[test]
fn case_11_how_long_librdkafka_waits_for_a_dead_coordinator() {
    let longest = |new: &str| -> Vec<u64> {
        let set = format!("faults.kill.dead={{ existing = 'reset', new = '{new}' }}");
        let runs = over(&scenario("transactions/kill-before-markers-librdkafka", &[&set]), &SEEDS).runs;
        runs.iter().inspect(|run| none_aborted(run)).map(|run| stalls(&run.outcome).max().unwrap_or(0)).collect()
    };
    let refuse = longest("refuse");
    assert!(refuse.iter().all(|ms| (7_000..=20_000).contains(ms)), "{refuse:?}");
    let drop = longest("drop");
    let trap = drop.iter().filter(|ms| (30_500..=36_000).contains(*ms)).count();
    let decommissioned = drop.iter().filter(|ms| (7_000..=16_500).contains(*ms)).count();
    assert_eq!(trap + decommissioned, drop.len(), "{drop:?}");
    assert!(trap > decommissioned, "{drop:?}");
}
