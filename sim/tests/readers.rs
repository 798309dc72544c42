//! Readers of profile librdkafka in whole runs.

use sim::cli::engine;
use sim::scenario::{Loaded, load_text};
use sim::show::Outcome;

/// Two readers of either profile, one committed, one not; `more` is appended.
fn scenario(more: &str) -> Loaded {
    let text = format!(
        r#"
description = "A reader of librdkafka beside one of Java"
extends = "kafka/steady"
without = ["expectations", "change"]

[workload]
rate = 200
duration = "40 s"

[[readers]]
name = "librdkafka"
profile = "librdkafka"
topics = ["events"]

[[readers]]
name = "uncommitted"
profile = "librdkafka"
topics = ["events"]
config.isolation.level = "read_uncommitted"
{more}
"#
    );
    load_text("test.toml", text.as_bytes(), &[]).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn run(loaded: &Loaded, seed: u64) -> Outcome {
    engine::run(loaded, seed, None).unwrap_or_else(|e| panic!("{e:?}"))
}
fn kill(new: &str, restart: &str) -> String {
    format!(
        r#"
[[faults]]
name = "kill"
kind = "kill"
target = "leader of events/0"
at = ["10 s", "12 s"]
{restart}
dead = {{ existing = "reset", new = "{new}" }}
"#
    )
}
/// Every layer has every event once.
fn assert_exact(outcome: &Outcome, why: &str) {
    for (name, layer) in &outcome.layers {
        let wrong = (layer.missing, layer.unexpected, layer.duplicates);
        assert_eq!(wrong, (0, 0, 0), "{why}: {name}: {:?}", outcome.violations);
    }
    assert!(outcome.violations.is_empty(), "{why}: {:?}", outcome.violations);
    assert!(outcome.layers.contains_key("librdkafka") && outcome.ledger.events > 5_000);
}

#[test]
fn it_is_given_everything_at_once() {
    for seed in 0..3 {
        let outcome = run(&scenario(""), seed);
        assert_exact(&outcome, "nothing fails");
        let f = outcome.freshness_ms["librdkafka"];
        assert!(f.p50 < 50 && f.max < 1_000, "seed {seed}: {f:?}");
    }
}

#[test]
fn it_follows_the_leaders_of_a_killed_broker() {
    for (new, restart) in [("refuse", "restart-after = \"15 s\""), ("drop", "restart-after = \"15 s\""), ("refuse", "")]
    {
        let loaded = scenario(&kill(new, restart));
        for seed in 0..4 {
            let why = format!("seed {seed}, {new} {restart}");
            let outcome = run(&loaded, seed);
            assert_exact(&outcome, &why);
            // Fenced after 7.9 to 13.4 s, refreshed once a second, moved with the second answer.
            let f = outcome.freshness_ms["librdkafka"];
            assert!((5_000..18_000).contains(&f.max), "{why}: {f:?}");
        }
    }
}

#[test]
fn one_that_starts_late_catches_up_chunk_by_chunk() {
    let late = r#"
[[readers]]
name = "late"
profile = "librdkafka"
topics = ["events"]
start = "40 s"
config.queued.min.messages = 500
config.max.partition.fetch.bytes = 65536
"#;
    let outcome = run(&scenario(late), 1);
    assert_exact(&outcome, "late");
    let (late, prompt) = (outcome.freshness_ms["late"], outcome.freshness_ms["librdkafka"]);
    assert!(late.max > 35_000, "{late:?}");
    assert!(late.skew_max > prompt.skew_mean, "{late:?}, {prompt:?}");
}
