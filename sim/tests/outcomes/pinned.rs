//! Exact counts of the pinned seed, one line a side of a scenario, in one file: a change of the model shows there as a line
//! for each scenario it touches. Digests are in `snapshots/digests.toml`.

use crate::snapshot::PLACE;
use crate::work::{SEEDS, Shipped};
use sim::search::Summary;
use std::panic::catch_unwind;

fn line(run: &Summary, name: &str, side: &str) -> String {
    let o = &run.outcome;
    let layers: Vec<_> = o
        .layers
        .iter()
        .map(|(name, l)| format!("{name} {}-{}+{}!{}", l.rows, l.missing, l.duplicates, l.unexpected))
        .collect();
    let producers: Vec<_> = o
        .producers
        .iter()
        .map(|(name, p)| format!("{name} {} failed {} retried {}", p.acknowledged, p.failed_sends, p.retries))
        .collect();
    format!(
        "{name} {side} | {} ms | events {} hops {} messages {} | {} | {}",
        o.simulated_ms,
        o.work.kernel_events,
        o.work.record_hops,
        o.work.messages,
        layers.join(", "),
        producers.join(", ")
    )
}

/// Compares with the pinned lines.
pub fn check(all: &[Shipped]) -> Option<String> {
    let mut text = String::from("rows -missing +duplicates !unexpected; acknowledged, failed, retried\n");
    for shipped in all {
        for (side, runs) in [("as it is", &shipped.base), ("changed", &shipped.changed)] {
            for run in runs.iter().filter(|r| r.seed == SEEDS[0]) {
                text.push_str(&line(run, &shipped.name, side));
                text.push('\n');
            }
        }
    }
    let compare = || {
        insta::with_settings!({ snapshot_path => PLACE, prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!("pinned", text);
        });
    };
    catch_unwind(compare).err().map(|_| "the pinned seed's counts are others".into())
}
