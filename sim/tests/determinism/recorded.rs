//! What was once recorded still comes out: in debug and in release, here and on other machines. Where the model was meant
//! to change, `sim digests > snapshots/digests.toml` records it anew, and the change reads as one line a scenario.

use super::*;
use sim::cli::recorded::{SEED, all};
use sim::scenario::library;
use sim::search::sweep;

#[test]
fn every_scenario_has_its_digest_on_record() {
    let mut names: Vec<_> = library::names().collect();
    names.sort_unstable();
    assert_eq!(all().into_keys().collect::<Vec<_>>(), names);
}

#[test]
fn digests_are_those_on_record() {
    let mut changed = Vec::new();
    for (name, digest) in all() {
        let loaded = load(&name, &[]).unwrap_or_else(|p| panic!("{}", p.render(false)));
        let runs = sweep(&loaded, &[SEED], 1, Host::Loop, &|_| {}).runs;
        if runs[0].outcome.digest != digest {
            changed.push(format!("{name:?} = {:?} # on record: {digest}", runs[0].outcome.digest));
        }
    }
    assert!(changed.is_empty(), "the model has changed:\n{}", changed.join("\n"));
}
