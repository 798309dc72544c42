//! Every shipped scenario: its expectations hold, those of its change are violated, its outcome is known.

use crate::work::{self, Shipped};
use crate::{pinned, snapshot};
use sim::search::Summary;
use sim::show::outcome::Verdict;

fn complaints(shipped: &Shipped) -> Vec<String> {
    let mut all = Vec::new();
    for (runs, wanted) in [(&shipped.base, Verdict::Holds), (&shipped.changed, Verdict::Violated)] {
        for run in runs {
            let under = if wanted == Verdict::Holds { "as it is" } else { &shipped.change };
            let at = format!("{} ({under}) seed {}", shipped.name, run.seed);
            if let Some(error) = &run.error {
                all.push(format!("{at}: {error}"));
            } else if run.outcome.verdict != wanted {
                all.push(format!("{at}: {}", broken(run)));
            }
        }
    }
    all
}
fn broken(run: &Summary) -> String {
    let broken = run.outcome.expectations.iter().filter(|e| !e.holds);
    let texts: Vec<_> = broken.map(|e| format!("`{}` does not hold: {}", e.text, e.actual)).collect();
    if texts.is_empty() { "all expectations hold".into() } else { texts.join("; ") }
}

#[test]
fn every_scenario_holds_and_is_violated_under_its_change() {
    let all = work::all();
    let mut wrong: Vec<String> = all.iter().flat_map(complaints).collect();
    wrong.extend(all.iter().filter_map(snapshot::check));
    wrong.extend(pinned::check(&all));
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
