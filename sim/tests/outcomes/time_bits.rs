//! Defects of event time and windows, each put back alone where it bites: by which law it is found. Some make a wrong
//! watermark, by which operators then judge as they should: no law sees that, the scenario's expectations do.

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

#[test]
fn each_defect_is_found_where_it_bites() {
    let mut wrong = Vec::new();
    for (bit, name, law) in CASES {
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
