//! Where a TaskManager dies between two barriers, against what its sink promises (flink.md 9): a table of outcomes, each by a kill
//! that an event of the run arms.
#![allow(missing_docs, reason = "not a library")]

use sim::host::Host;
use sim::run::{Run, finish};
use sim::scenario::load_text;
use sim::show::outcome::Outcome;
use std::sync::Arc;

/// One sink subtask. Windows close every ten seconds, five seconds late; checkpoints come every five.
const BASE: &str = r#"
description = "A TaskManager dies at a point between two barriers"
extends = "gatewaymeter/busy"
without = ["expectations", "change"]
[workload]
rate = 60
duration = "60 s"
[flink]
task-managers = 1
[[jobs]]
name = "meter"
config.parallelism.default = 1
[[jobs.sinks]]
name = "tenant-cost"
config.sink.delivery-guarantee = "GUARANTEE"
producer.transaction.timeout.ms = TIMEOUT
[[faults]]
name = "kill"
kind = "kill"
target = "task manager 0"
on = POINT
restart-after = "DOWN"
"#;
const WRITTEN: &str = "{ event = \"appended\", partition = \"tenant-cost/0\", from = \"25 s\", delay = \"50 ms\" }";

/// A point: its name in flink.md 9, when it is, how long the process is gone, the transaction timeout.
struct Point {
    name: &'static str,
    on: String,
    down: &'static str,
    timeout: u32,
}
fn points() -> Vec<Point> {
    let behind =
        |event: &str, delay: &str| format!("{{ event = \"{event}\", after = {WRITTEN}, delay = \"{delay}\" }}");
    let point = |name, on, down, timeout| Point { name, on, down, timeout };
    vec![
        point("P1: written, no barrier yet", WRITTEN.to_owned(), "3 s", 900_000),
        point("P2: flushed, not acknowledged", behind("checkpoint-triggered", "200 us"), "3 s", 900_000),
        point("P5: complete, nobody notified", behind("checkpoint-completed", "0 s"), "3 s", 900_000),
        point("P7: committed, before the next", behind("checkpoint-completed", "300 ms"), "3 s", 900_000),
        point("P8: P5, down for longer than the timeout", behind("checkpoint-completed", "0 s"), "50 s", 20_000),
    ]
}

fn run(point: &Point, guarantee: &str, seed: u64) -> Outcome {
    let text = BASE
        .replace("GUARANTEE", guarantee)
        .replace("TIMEOUT", &point.timeout.to_string())
        .replace("POINT", &point.on)
        .replace("DOWN", point.down);
    let loaded = load_text("crash-point.toml", text.as_bytes(), &[]).unwrap_or_else(|e| panic!("{e}"));
    let mut run = Run::new(&Arc::new(loaded.scenario.clone()), seed).expect("no file");
    Host::Loop.drive(&mut run, seed);
    finish(&mut run, &loaded, Host::Loop).outcome
}

#[test]
fn each_point_has_the_outcome_that_its_guarantee_promises() {
    let mut table = Vec::new();
    for point in points() {
        for guarantee in ["none", "at-least-once", "exactly-once"] {
            for seed in 1..=8 {
                let o = run(&point, guarantee, seed);
                let (layer, scope, job) = (&o.layers["tenant-cost"], &o.scopes["tenant-cost"], &o.jobs["meter"]);
                let what = format!("{} {guarantee} seed {seed}", point.name);
                assert!(scope.state, "{what}: state is exactly once wherever the process dies");
                assert_eq!((o.alarms, job.state.as_str()), (0, "running"), "{what}");
                assert!(job.restarts >= 1, "{what}");
                table.push((what, point.name, guarantee, layer.missing, layer.duplicates, job.commits_dropped));
            }
        }
    }
    let all = |name: &str, guarantee: &str| -> Vec<(u64, u64, u64)> {
        let rows = table.iter().filter(|(_, n, g, ..)| n.starts_with(name) && *g == guarantee);
        rows.map(|(.., missing, duplicates, dropped)| (*missing, *duplicates, *dropped)).collect()
    };
    let sum = |rows: &[(u64, u64, u64)]| rows.iter().fold((0, 0, 0), |a, r| (a.0 + r.0, a.1 + r.1, a.2 + r.2));
    for name in ["P1", "P2", "P5", "P7"] {
        assert_eq!(sum(&all(name, "exactly-once")), (0, 0, 0), "{name}: exactly once");
        assert_eq!(sum(&all(name, "at-least-once")).0, 0, "{name}: at least once loses nothing");
    }
    for name in ["P1", "P2"] {
        assert!(all(name, "at-least-once").iter().any(|r| r.1 > 0), "{name}: what was written since n-1 comes again");
        assert!(all(name, "none").iter().any(|r| r.1 > 0), "{name}: without a guarantee too");
    }
    for name in ["P5", "P7"] {
        assert_eq!(sum(&all(name, "at-least-once")).1, 0, "{name}: nothing was written behind the barrier");
    }
    // The records of the completed checkpoint are lost for ever, and the job does not hear of it.
    assert!(
        all("P8", "exactly-once").iter().all(|r| r.0 > 0 && r.2 > 0 && r.1 == 0),
        "{:?}",
        all("P8", "exactly-once")
    );
    assert_eq!(sum(&all("P8", "at-least-once")), (0, 0, 0), "without transactions there is nothing to time out");
}
