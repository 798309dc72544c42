//! Defects of event time and windows, each put back alone where it bites: by which law it is found. Some make a wrong
//! watermark, by which operators then judge as they should: no law sees that, the scenario's expectations do.
//! And those of the stores at the edge, in [`STORES`].

use crate::work::{SEEDS, over, scenario};
use sim::show::outcome::Verdict;
use std::collections::BTreeSet;

/// Bit, scenario, and the law; none where only expectations see it.
type Case = (&'static str, &'static str, Option<&'static str>);

const CASES: &[Case] = &[
    ("window-watermark-restored", "time/late-filter-blind-after-restore", Some("placement")),
    ("fired-slices-take", "time/slice-drop-loses-hop-members", Some("aggregate")),
    ("late-opens-no-session", "time/late-record-fires-empty-session", Some("results")),
    ("windows-take-rows", "time/steady", Some("aggregate")),
    ("updates-retract", "time/changelog-updates-closed-window", Some("aggregate")),
    ("local-flushes-before-barrier", "time/late-filter-blind-after-restore", Some("aggregate")),
    ("flush-before-watermark", "time/traffic-stops", Some("aggregate")),
    ("limit-within-time", "time/limit-overflows-when-all-are-idle", Some("liveness")),
    ("nothing-to-report-yet", "time/empty-reader-holds-nobody", Some("liveness")),
    ("finished-bounds-nobody", "time/finished-subtask-holds-minimum", Some("liveness")),
    ("idle-is-no-watermark", "time/idle-reported-as-infinite-watermark", None),
    ("last-idle-yields", "time/all-idle-order-dependent", None),
    ("assigner-hears-rows", "time/assigner-idle-among-records", None),
    ("splits-hold-from-assignment", "time/watermark-ignores-silent-splits", None),
    ("restored-splits-hold", "time/watermark-ignores-silent-restored-splits", None),
    ("idle-clock-stands-while-paused", "time/blocked-split-declared-idle", None),
    ("least-split-counts", "time/watermark-ignores-silent-splits", None),
];

/// Stores, Flink's sinks of them, and its commits of offsets. What a table lacks or doubles under the product's own rules is in
/// its layer, for an expectation to hold; a table that cannot be read is a job that never runs again.
const STORES: &[Case] = &[
    ("unknown-commit-keeps-files", "clickstream/iceberg-commit-landed-but-unknown", Some("liveness")),
    ("restored-keep-job-id", "clickstream/iceberg-stop-and-resume", Some("liveness")),
    ("stop-ends-no-input", "clickstream/iceberg-stop-and-resume", None),
    ("catalog-compares", "clickstream/iceberg-maintained-while-committing", None),
    ("offsets-after-insert", "clickstream/insert-error-still-commits", Some("stored")),
    ("failed-insert-repeated", "clickstream/insert-error-still-commits", Some("stored")),
    ("no-offset-is-success", "clickstream/platform", Some("liveness")),
    ("target-key-of-source-block", "clickstream/view-aggregates-look-identical", None),
    ("whole-block-key", "clickstream/view-aggregates-look-identical", None),
    ("commit-looks-up-again", "clickstream/offset-commits-stop-after-broker-loss", None),
];

#[test]
fn each_defect_is_found_where_it_bites() {
    found(CASES);
}
#[test]
fn each_defect_of_a_store_is_found_where_it_bites() {
    found(STORES);
}

fn found(cases: &[Case]) {
    let mut wrong = Vec::new();
    for (bit, name, law) in cases {
        let sound = over(&scenario(name, &[]), &SEEDS);
        let cleared = format!("cleared-fixes=[\"{bit}\"]");
        let defective = over(&scenario(name, &[&cleared]), &SEEDS);
        for run in &sound.runs {
            if run.outcome.alarms > 0 {
                wrong.push(format!("{name} seed {}: an alarm without the defect", run.seed));
            }
        }
        for run in &defective.runs {
            let alarms = run.findings.keys().filter(|(.., excuse)| excuse.is_empty());
            let laws: BTreeSet<&str> = alarms.map(|(law, ..)| &**law).collect();
            let found = law.map_or(laws.is_empty(), |law| laws.contains(law));
            if !found || run.outcome.verdict != Verdict::Violated {
                wrong.push(format!("{bit} in {name}, seed {}: {laws:?}, {:?}", run.seed, run.outcome.verdict));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
