//! The loader as a whole: what is shipped loads, what is wrong is said at its place, and nothing makes it panic.

use super::data::{Action, FaultSpec, Target, When};
use super::*;
use proptest::prelude::*;

const GOOD: &str = r#"
description = "a good one"
[cluster.config]
min.insync.replicas = 2
"broker.session.timeout.ms" = "9000"
[[topics]]
name = "events"
[[applications]]
name = "shop"
config.linger.ms = 100
[[readers]]
name = "check"
[[faults]]
kind = "kill"
name = "k"
target = "leader of events/3"
at = "20 s"
[[faults]]
kind = "partition"
from = "controller"
to = ["other brokers", "reader check"]
ports = "broker"
one-way = true
duration = ["1 s", "5 s"]
on = { event = "fault-begins", fault = "k", delay = "1 s" }
[[expectations]]
that = "layers.check.missing = 0"
[change]
clear-fix = "truncate-by-leader-epoch"
then = "loss"
"#;

fn load_good(change: impl Fn(String) -> String) -> Result<Loaded, Problems> {
    load_text("good.toml", change(GOOD.to_owned()).as_bytes(), &[])
}
fn problems(change: impl Fn(String) -> String) -> String {
    load_good(change).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_good_one_is_understood() {
    let loaded = load_good(|t| t).map_err(|e| e.to_string()).unwrap();
    let s = &loaded.scenario;
    assert_eq!(s.cluster.nodes[2].config.int("min.insync.replicas"), 2);
    assert_eq!(s.topics[0].config.int("min.insync.replicas"), 2, "a topic's default is its server's value");
    assert_eq!(s.topics[0].assignment[1].iter().map(|b| b.0).collect::<Vec<_>>(), [2, 3, 1]);
    assert_eq!(s.applications[0].config.int("linger.ms"), 100);
    let FaultSpec::One(kill) = &s.faults[0] else { panic!() };
    assert!(matches!(&kill.action, Action::Kill { target, .. } if matches!(target[..], [Target::LeaderOf(_)])));
    let schedule = s.schedule(1);
    assert!(matches!(schedule[0].when, When::At(t) if t == model::base::Nanos::secs(20)));
    assert!(schedule[1].lasts.unwrap() >= model::base::Nanos::secs(1));
    assert_eq!(s.schedule(7), s.schedule(7));
    assert!(loaded.changed.unwrap().scenario.fixes.missing().any(|f| f.name == "truncate-by-leader-epoch"));
}

#[test]
fn all_errors_at_once_each_at_its_place() {
    let text = problems(|t| {
        t.replace("broker.session.timeout.ms", "broker.sesion.timeout.ms")
            .replace("leader of events/3", "leader of event/3")
            .replace("at = \"20 s\"", "at = \"-20 s\"\ncolour = \"red\"")
            .replace("one-way = true", "one-way = \"yes\"")
            .replace("layers.check.missing", "layers.check.mising")
            .replace("linger.ms = 100", "linger.ms = \"100 ms\"")
    });
    for line in [
        "good.toml:5:1: a server has no key `broker.sesion.timeout.ms` (did you mean `broker.session.timeout.ms`?)",
        "good.toml:10:20: `linger.ms` is Kafka's key: a bare number of milliseconds, as in 5",
        "good.toml:16:10: there is no topic `event` (did you mean `events`?)",
        "good.toml:17:6: `at`: a time is never negative",
        "good.toml:18:1: `faults` has no key `colour`",
        "good.toml:24:11: `one-way` is true or false, not a string",
        "good.toml:28:22: the outcome has no `mising` here (did you mean `missing`?)",
    ] {
        assert!(text.contains(line), "{line}\nin\n{text}");
    }
    assert_eq!(text.lines().count(), 7, "what is unreadable is not also missing: {text}");
}

#[test]
fn each_mistake_has_its_message() {
    for (from, to, message) in [
        ("at = \"20 s\"", "", "has none of `at`, `on` and `crash-point`"),
        ("at = \"20 s\"", "at = 20", "write \"20 s\""),
        ("at = \"20 s\"", "at = \"20\"", "a unit is missing"),
        ("at = \"20 s\"", "at = \"20 MB\"", "`at`"),
        ("target = \"leader of events/3\"", "", "has no `target`"),
        ("kind = \"kill\"", "kind = \"kil\"", "did you mean `kill`?"),
        ("kind = \"kill\"", "kind = \"kill\"\nloss = \"5 %\"", "takes no `loss`"),
        ("description = \"a good one\"", "", "has no `description`"),
        ("description", "desciption", "did you mean `description`?"),
        ("name = \"events\"", "name = \"events\"\nreplication-factor = 4", "4 replicas of `events` on 3 brokers"),
        ("name = \"events\"", "name = \"events\"\nconfig.cleanup.policy = \"compact\"", "known to Kafka, not modelled"),
        ("config.linger.ms = 100", "config.broker.session.timeout.ms = 1", "is a key of a server"),
        ("config.linger.ms = 100", "config.linger.ms = -1", "is from 0 to"),
        ("config.linger.ms = 100", "config.linger.mss = 5", "good.toml:10:8: a java producer has no key `linger.mss`"),
        ("[[readers]]", "[[jobs]]\nname = \"j\"\n[[readers]]", "`jobs` has no `sources`"),
        ("[cluster.config]", "[cluster]\nbrokers = 64\n[cluster.config]", "is from 1 to 63"),
        ("[cluster.config]", "[cluster]\nbrokers = 1.5\n[cluster.config]", "a whole number, not a fraction"),
        ("event = \"fault-begins\"", "event = \"fault-begin\"", "did you mean `fault-begins`?"),
        ("fault = \"k\"", "fault = \"x\"", "there is no fault `x`"),
        ("duration = [\"1 s\", \"5 s\"]", "duration = [\"5 s\", \"1 s\"]", "the range is empty"),
        ("duration = [\"1 s\", \"5 s\"]", "duration = [\"5 s\"]", "1 values instead of exactly 2"),
        ("clear-fix = \"truncate-by-leader-epoch\"", "clear-fix = \"truncate-by-epoch\"", "there is no fix"),
        ("then = \"loss\"", "then = \"loss\"\nset = \"cluster.brokers=5\"", "exactly one of"),
        ("description =", "extends = \"kafka/stead\"\ndescription =", "did you mean `kafka/steady`?"),
        ("description =", "extends = \"good.toml\"\ndescription =", "extends itself"),
        ("[[topics]]", "[[topics]", "good.toml:6"),
        ("[[readers]]", "[workload]\nlate-by = \"30 s\"\n[[readers]]", "within 60 s to 600 s"),
        ("[[readers]]", "[workload]\nrate = 1000000\nduration = \"1 h\"\n[[readers]]", "above max-events"),
        ("[[readers]]", "[workload]\nkind = \"events-file\"\n[[readers]]", "has no `file`"),
        ("[[readers]]", "[workload]\nkind = \"events-file\"\nfile = \"none.jsonl\"\n[[readers]]", "none.jsonl"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let text = problems(|t| t.replacen(from, to, 1));
        assert!(text.contains(message), "{to}: {message}\nin\n{text}");
        assert!(text.starts_with("good.toml:") || message.contains("extends"), "{text}");
    }
}

#[test]
fn set_comes_before_the_check_and_its_errors_point_at_the_argument() {
    let set = |argument: &str| load_text("good.toml", GOOD.as_bytes(), &[argument.to_owned()]);
    assert_eq!(
        set("cluster.config.broker.session.timeout.ms=6000").unwrap().scenario.cluster.nodes[0]
            .config
            .int("broker.session.timeout.ms"),
        6_000
    );
    assert_eq!(
        set("applications.shop.profile=librdkafka").unwrap().scenario.applications[0].profile,
        keys::Profile::Librdkafka
    );
    assert_eq!(set("faults.k.at=3 s").unwrap().scenario.schedule(1)[0].when, When::At(model::base::Nanos::secs(3)));
    let text = set("cluster.brokers=99").unwrap_err().to_string();
    assert!(text.starts_with("--set cluster.brokers=99:1:17: `brokers` is from 1 to 63"), "{text}");
    let text = set("cluster.broker=4").unwrap_err().to_string();
    assert!(text.contains("did you mean `brokers`?"), "{text}");
}

#[test]
fn invalid_utf8_is_located() {
    let mut bytes = GOOD.as_bytes().to_vec();
    bytes[20] = 0xff;
    let text = load_text("good.toml", &bytes, &[]).unwrap_err().to_string();
    assert_eq!(text, "good.toml:2:20: not UTF-8\n");
}

#[test]
fn a_circle_of_files_is_found() {
    let dir = std::env::temp_dir().join(format!("tidemark-circle-{:x}", GOOD.len()));
    std::fs::create_dir_all(&dir).unwrap();
    for (file, extends) in [("a.toml", "b.toml"), ("b.toml", "./a.toml")] {
        std::fs::write(dir.join(file), format!("extends = \"{extends}\"\ndescription = \"x\"\n")).unwrap();
    }
    let text = load(&dir.join("a.toml").to_string_lossy(), &[]).unwrap_err().to_string();
    assert!(text.contains("a circle:"), "{text}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn every_shipped_scenario_loads_and_what_is_shown_loads_again() {
    let mut names = 0;
    for name in library::names() {
        let loaded = load(name, &[]).map_err(|e| e.to_string()).unwrap();
        assert!(loaded.changed.is_some(), "{name} names no change");
        let shown = loaded.written_out().unwrap();
        let again = load_text(&format!("scenarios/{name}.toml"), shown.as_bytes(), &[]);
        let again = again.map_err(|e| format!("{e}\n{shown}")).unwrap();
        assert_eq!(format!("{:?}", again.scenario.faults), format!("{:?}", loaded.scenario.faults));
        assert_eq!(again.written_out().unwrap(), shown);
        names += 1;
    }
    assert!(names >= 4);
}

#[test]
fn chaos_stays_within_its_bounds() {
    let loaded = load("kafka/chaos", &[]).map_err(|e| e.to_string()).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let schedule = loaded.scenario.schedule(seed);
        assert!((3..=8).contains(&schedule.len()));
        let mut down_until = model::base::Nanos::ZERO;
        for fault in &schedule {
            let When::At(at) = fault.when else { panic!() };
            assert!((5..=95).contains(&(at.0 / 1_000_000_000)), "{fault:?}");
            if matches!(
                fault.action,
                Action::Kill { .. } | Action::Stop { .. } | Action::Freeze { .. } | Action::Partition(_)
            ) {
                assert!(at >= down_until, "one at a time: {schedule:?}");
                down_until = at + fault.lasts.unwrap();
            }
        }
        seen.extend(schedule::kinds(&schedule));
    }
    assert_eq!(seen.len(), 11, "{seen:?}");
}

/// A valid document, spoilt a little.
fn spoilt() -> impl Strategy<Value = (Vec<u8>, Vec<String>)> {
    let documents: Vec<_> = std::iter::once(GOOD.as_bytes().to_vec())
        .chain(library::names().filter_map(|n| library::find(n, Path::new("")).ok()).map(|f| f.bytes))
        .collect();
    let edit = (0u8..7, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>());
    let set = prop::option::of("[a-z]{1,9}(\\.[a-z.]{1,9}){0,2}=[a-z0-9\"\\[]{0,6}");
    (prop::sample::select(documents), prop::collection::vec(edit, 1..4), set).prop_map(|(mut doc, edits, set)| {
        for (kind, a, b, byte) in edits {
            if doc.is_empty() {
                break;
            }
            let at = a.index(doc.len());
            match kind {
                0 => doc[at] = byte,
                1 => doc.truncate(at),
                2 => doc.insert(at, byte),
                3 => {
                    doc.remove(at);
                }
                _ => {
                    let mut lines: Vec<_> = doc.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
                    let (from, to) = (a.index(lines.len()), b.index(lines.len()));
                    match kind {
                        4 => {
                            lines.remove(from);
                        }
                        5 => lines.insert(to, lines[from].clone()),
                        _ => lines.swap(from, to),
                    }
                    doc = lines.join(&b'\n');
                }
            }
        }
        (doc, set.into_iter().collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_file_makes_it_panic_and_every_place_is_inside((doc, set) in spoilt()) {
        if let Err(problems) = load_text("scenarios/kafka/spoilt.toml", &doc, &set) {
            prop_assert!(!problems.list.is_empty());
            for problem in &problems.list {
                let place = problem.place.expect("a problem of a text has a place");
                let text = &problems.sources.get(place.source).text;
                prop_assert!(place.start <= place.end && place.end <= text.len(), "{problem:?}");
                prop_assert!(text.is_char_boundary(place.start) && text.is_char_boundary(place.end), "{problem:?}");
            }
            prop_assert!(problems.render(false).contains("problem"));
        }
    }
}
