//! Digests on record: `snapshots/digests.toml`, embedded.
//!
//! One digest a scenario, of the pinned seed. Two replays that agree with each other but not with it are a change of the
//! model, not a nondeterminism: the command says so and ends as the run does. It is also how builds are compared: debug and
//! release, one machine and another, must agree on it, and a test holds every one. `sim digests` writes the file.

use std::collections::BTreeMap;

/// The seed whose digests are on record.
pub const SEED: u64 = 42;

const TEXT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../snapshots/digests.toml"));

/// Digest by scenario.
pub fn all() -> BTreeMap<String, String> {
    toml::from_str(TEXT).expect("snapshots/digests.toml is a table of strings; a test reads it")
}

/// What to say of a run whose digest is not the one on record; `None` where nothing is on record or it is the same.
pub fn departure(scenario: &str, seed: u64, digest: &str) -> Option<String> {
    let on_record = (seed == SEED).then(|| all().remove(scenario)).flatten()?;
    (on_record != digest).then(|| {
        format!(
            "the model has changed since {scenario} was recorded: digest {digest}, on record {on_record} \
             (`sim digests` prints the file anew)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_seed_is_on_record() {
        let (name, digest) = all().into_iter().next().expect("a digest");
        assert_eq!(departure(&name, SEED, &digest), None);
        assert!(departure(&name, SEED, "0").expect("it differs").contains(&digest));
        assert_eq!(departure(&name, SEED + 1, "0"), None);
        assert_eq!(departure("my/own", SEED, "0"), None);
    }
}
