//! What the judge says of whole runs in which nothing fails: that everything is where it should be, and nothing else.

use sim::cli::engine;
use sim::scenario::load_text;
use sim::show::Outcome;
use sim::show::outcome::Aggregate;

/// Shoppers' events, some of them late, counted by kind in windows of ten seconds that a sink writes into `windows`.
fn run(window: &str, job: &str, sink: &str, more: &str) -> Outcome {
    let text = format!(
        r#"
description = "Windows of events, some of which come late"
extends = "kafka/steady"
without = ["expectations", "change"]

[[topics]]
name = "windows"
partitions = 3

[[readers]]
name = "dashboard"
topics = ["windows"]
config.isolation.level = "read_committed"

[workload]
rate = 100
duration = "60 s"
late = "5 %"
late-by = ["60 s", "90 s"]

[[jobs]]
name = "windows"
{job}

[[jobs.sources]]
name = "events"
topic = "events"
watermark = {{ bound = "5 s", idle = "10 s" }}

[[jobs.operators]]
name = "ten-seconds"
input = "events"
key = "kind"
size = "10 s"
{window}

[[jobs.sinks]]
name = "windows"
input = "ten-seconds"
topic = "windows"
{sink}
{more}
"#
    );
    let loaded = load_text("test.toml", text.as_bytes(), &[]).unwrap_or_else(|problems| panic!("{problems}"));
    engine::run(&loaded, 7, None).unwrap_or_else(|e| panic!("{e:?}"))
}
const CHECKPOINTS: &str = "config.execution.checkpointing.interval = \"5 s\"";
const EXACTLY_ONCE: &str = "config.sink.delivery-guarantee = \"exactly-once\"\n\
                            config.sink.transactional-id-prefix = \"windows\"\n\
                            producer.transaction.timeout.ms = 900000";

fn aggregate(outcome: &Outcome) -> &Aggregate {
    assert_eq!(outcome.alarms, 0, "{:?}", outcome.violations);
    assert!(outcome.liveness.values().all(|l| l.holds), "{:?}", outcome.liveness);
    &outcome.aggregates["windows"]
}

#[test]
fn late_events_are_known_wherever_they_go() {
    let sink = |to: &str| format!("[[jobs.sinks]]\nname = \"late\"\ninput = \"ten-seconds.late\"\n{to}");
    let table = format!("{}[[tables]]\nname = \"late\"", sink("table = \"late\"\n"));
    let lake = format!("{}[[lakes]]\nname = \"late\"", sink("lake = \"late\"\n"));
    let both = format!(
        "{table}\n[[jobs.sinks]]\nname = \"topic\"\ninput = \"ten-seconds.late\"\ntopic = \"late-topic\"\n\
         [[topics]]\nname = \"late-topic\"\n[[readers]]\nname = \"support\"\ntopics = [\"late-topic\"]"
    );
    for more in [table, lake, both] {
        let outcome = run("kind = \"window\"", CHECKPOINTS, EXACTLY_ONCE, &more);
        let of = aggregate(&outcome);
        assert!(of.late_in_late > 100, "{more}: {of:?}");
        assert_eq!((of.in_neither, of.counted_twice, of.in_both), (0, 0, 0), "{more}: {of:?}");
        assert_eq!(outcome.checks.contains_key("windows"), more.contains("late-topic"), "counts of topics tell");
    }
}

#[test]
fn what_a_filter_drops_of_late_events_is_dropped_by_rule() {
    let more = "[[jobs.operators]]\nname = \"some\"\nkind = \"filter\"\ninput = \"ten-seconds.late\"\n\
                where = \"cents >= 1\"\n[[jobs.sinks]]\nname = \"late\"\ninput = \"some\"\ntopic = \"late\"\n\
                [[topics]]\nname = \"late\"\n[[readers]]\nname = \"support\"\ntopics = [\"late\"]";
    let outcome = run("kind = \"window\"", CHECKPOINTS, EXACTLY_ONCE, more);
    let of = aggregate(&outcome);
    assert!(of.late_in_late > 10 && of.in_neither > 10, "{of:?}");
    assert_eq!(of.by_rule.get("W4, T4"), Some(&of.in_neither), "{of:?}");
    assert!(!outcome.checks.contains_key("windows"));
    // A table that keeps the newest of each kind.
    let more = "[[jobs.sinks]]\nname = \"late\"\ninput = \"ten-seconds.late\"\ntable = \"late\"\n\
                [[tables]]\nname = \"late\"\nkey = [\"kind\"]";
    let outcome = run("kind = \"window\"", CHECKPOINTS, EXACTLY_ONCE, more);
    let of = aggregate(&outcome);
    assert!((1..10).contains(&of.late_in_late) && of.in_neither > 100, "{of:?}");
    assert_eq!(of.by_rule.get("W4, T4"), Some(&of.in_neither), "{of:?}");
}

#[test]
fn what_a_local_aggregate_holds_is_pending() {
    let with = |job: &str| run("kind = \"sql-window\"", job, "config.sink.delivery-guarantee = \"at-least-once\"", "");
    let one = with("config.table.optimizer.agg-phase-strategy = \"ONE_PHASE\"");
    let two = with("");
    let (one, two) = (aggregate(&one), aggregate(&two));
    let dropped = |of: &Aggregate| of.by_rule.get("W4, T4").copied().unwrap_or_default();
    assert_eq!((one.in_neither, two.in_neither), (dropped(one), dropped(two)), "nothing but what is late");
    // Late events too wait there, until the global aggregate drops them.
    assert!(one.pending > 0 && two.pending >= one.pending, "{one:?}\n{two:?}");
    assert_eq!(one.pending + one.in_neither, two.pending + two.in_neither);
}

#[test]
fn windows_are_told_apart_by_their_own_key_whatever_key_their_records_have() {
    let lateness = "kind = \"window\"\nallowed-lateness = \"3 min\"";
    let own = run(lateness, CHECKPOINTS, EXACTLY_ONCE, "");
    let by_kind = aggregate(&own).refired;
    assert!(by_kind > 10, "{:?}", aggregate(&own));
    for key in ["count", "window_end"] {
        let other = run(lateness, CHECKPOINTS, &format!("key = \"{key}\"\n{EXACTLY_ONCE}"), "");
        assert_eq!((aggregate(&other).refired, aggregate(&other).counted_twice), (by_kind, 0), "{key}");
    }
    let late_fire = format!(
        "{CHECKPOINTS}\nconfig.table.exec.emit.late-fire.enabled = true\n\
         config.table.exec.emit.late-fire.delay = \"0 ms\"\nconfig.table.exec.emit.allow-lateness = \"3 min\""
    );
    let changes = run("kind = \"group-window\"", &late_fire, EXACTLY_ONCE, "");
    let (updates, twice) = (aggregate(&changes).refired, aggregate(&changes).counted_twice);
    assert!(updates > 10 && twice == 0);
    let by_op = run("kind = \"group-window\"", &late_fire, &format!("key = \"op\"\n{EXACTLY_ONCE}"), "");
    assert_eq!((aggregate(&by_op).refired, aggregate(&by_op).counted_twice), (updates, 0));
}
