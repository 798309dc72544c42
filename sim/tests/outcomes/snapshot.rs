//! One snapshot a scenario: verdicts, expectations, and smallest, median and largest of what was measured, over a few seeds.
//! Times are in tenths of a second and counts of rows are not here: `pinned` has them.

use crate::work::Shipped;
use serde_json::{Value as Json, json};
use sim::search::{Series, Summary};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where snapshots are, seen from this file.
pub const PLACE: &str = "../../../snapshots";

fn spread(runs: &[Summary], measure: impl Fn(&Summary) -> u64) -> Json {
    let (low, middle, high) = Series::from_iter(runs.iter().map(|r| measure(r) as i64)).spread().unwrap_or_default();
    json!(format!("{low} / {middle} / {high}"))
}
fn tenths(ms: u64) -> u64 {
    (ms + 50) / 100
}
/// What a side of a scenario came to.
fn side(runs: &[Summary]) -> Json {
    let some = |n: u64| n.min(1);
    let layer = |r: &Summary, of: fn(&sim::show::outcome::Layer) -> u64| r.outcome.layers.values().map(of).max();
    let producer =
        |r: &Summary, of: fn(&sim::show::outcome::Producer) -> u64| r.outcome.producers.values().map(of).sum();
    let expectations: serde_json::Map<_, _> = runs
        .first()
        .map(|r| &r.outcome.expectations)
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(i, e)| {
            let held = runs.iter().filter(|r| r.outcome.expectations.get(i).is_some_and(|e| e.holds)).count();
            (e.text.clone(), json!(format!("{held} of {}", runs.len())))
        })
        .collect();
    let mut findings: Vec<String> = runs
        .iter()
        .flat_map(|r| r.findings.keys())
        .map(|(law, rule, excuse)| {
            format!("{law} ({rule}): {}", if excuse.is_empty() { "an alarm" } else { excuse.as_str() })
        })
        .collect();
    findings.sort();
    findings.dedup();
    json!({
        "expectations": expectations,
        "findings": findings,
        "longest stall, 0.1 s": spread(runs, |r| tenths(r.outcome.stalls.iter().map(|s| s.ms).max().unwrap_or(0))),
        "stalls": spread(runs, |r| r.outcome.stalls.len() as u64),
        "runs with missing rows": spread(runs, |r| some(layer(r, |l| l.missing).unwrap_or(0))),
        "runs with duplicates": spread(runs, |r| some(layer(r, |l| l.duplicates).unwrap_or(0))),
        "runs with retries": spread(runs, |r| some(producer(r, |p| p.retries))),
        "runs with failed sends": spread(runs, |r| some(producer(r, |p| p.failed_sends))),
        "fatal producers": spread(runs, |r| producer(r, |p| p.fatal)),
    })
}

/// Compares with the snapshot; gives what is to be said of a difference.
pub fn check(shipped: &Shipped) -> Option<String> {
    let name = shipped.name.replace('/', "__");
    let seen = json!({ "as it is": side(&shipped.base), shipped.change.as_str(): side(&shipped.changed) });
    let compare = || {
        insta::with_settings!({ snapshot_path => PLACE, prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_json_snapshot!(name, seen);
        });
    };
    catch_unwind(AssertUnwindSafe(compare))
        .err()
        .map(|_| format!("{}: another outcome than in snapshots", shipped.name))
}
