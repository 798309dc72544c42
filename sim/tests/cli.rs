//! The command from outside: what goes where, and with which status it ends.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(arguments).output().unwrap()
}
fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
/// A file in a directory of its own, gone at the end.
struct File(PathBuf);
impl File {
    fn new(name: &str, content: &[u8]) -> Self {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join(name);
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}
impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

#[test]
fn list_names_first_and_one_a_line() {
    let out = sim(&["list"]);
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(text(&out.stderr), "");
    let lines = text(&out.stdout);
    assert!(lines.lines().count() >= 5);
    for line in lines.lines() {
        let (name, description) = line.split_once(' ').unwrap();
        assert!(name.contains('/') && !description.trim().is_empty(), "{line}");
    }
}

#[test]
fn what_show_prints_is_a_scenario() {
    for name in ["kafka/chaos", "measured/kafka-kill-refuse"] {
        let out = sim(&["show", name, "--set", "workload.rate=77", "--seed", "1"]);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        assert!(text(&out.stdout).contains("rate = 77"));
        assert!(text(&out.stdout).contains("# Faults of seed 1:"));
        let file = File::new(&format!("{}.toml", name.replace('/', "-")), &out.stdout);
        let out = sim(&["check", file.path()]);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    }
}

#[test]
fn check_reports_every_file_on_stderr_and_ends_with_2() {
    let bad = File::new("bad.toml", b"description = \"x\"\ncolour = 1\n[[topics]]\nname = \"t\"\npartitons = 3\n");
    let out = sim(&["check", bad.path(), "kafka/steady", "kafka/stedy"]);
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(text(&out.stdout), "kafka/steady: ok\n");
    let errors = text(&out.stderr);
    for part in
        ["no key `colour`", "did you mean `partitions`?", "2 problems", "bad.toml:2:1", "did you mean `kafka/steady`?"]
    {
        assert!(errors.contains(part), "{part}\nin\n{errors}");
    }
    assert!(!errors.contains('\x1b'), "colour only on a terminal");
}

#[test]
fn events_files_are_checked_to_the_last_line() {
    let good = sim(&["check", "kafka/events-file"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    assert!(text(&good.stdout).contains("207 events"), "{}", text(&good.stdout));
    let cut = File::new("cut.jsonl", b"{\"key\":\"a\",\"ts\":1}\n{\"key\":\"a\",\"t");
    let set = format!("workload.file={}", cut.path());
    let mapping = ["--set", "workload.event-time=/ts", "--set", "workload.event-id=/ts"];
    let out = sim(&[&["check", "kafka/events-file", "--set", &set], &mapping[..]].concat());
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("cut.jsonl:2:") && text(&out.stderr).contains("cut off"),
        "{}",
        text(&out.stderr)
    );
    let out = sim(&[
        &["check", "kafka/events-file", "--set", "workload.max-events=100"],
        &["--set", "workload.duration=1 ms"][..],
    ]
    .concat());
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains(":101:1: more than max-events = 100 events"), "{}", text(&out.stderr));
}

#[test]
fn statuses_are_as_promised() {
    for (arguments, status) in [
        (&["--help"][..], 0),
        (&["--version"], 0),
        (&[], 2),
        (&["lst"], 2),
        (&["run"], 2),
        (&["run", "nowhere"], 2),
        (&["run", "kafka/steady", "--set", "cluster.brokers=-1"], 2),
        (&["replay", "--seed", "many"], 2),
        (&["check", "nowhere.toml"], 2),
        (&["schema"], 0),
        (&["schema", "--outcome"], 0),
    ] {
        assert_eq!(sim(arguments).status.code(), Some(status), "{arguments:?}");
    }
}

/// A scenario that is over soon.
const SOON: [&str; 3] = ["kafka/steady", "--set", "workload.duration=2 s"];

#[test]
fn every_status_can_be_had() {
    let run = |arguments: &[&str]| sim(&[arguments, &SOON].concat());
    let status = |arguments: &[&str]| run(arguments).status.code();
    assert_eq!(status(&["run"]), Some(0));
    assert_eq!(status(&["replay"]), Some(0));
    assert_eq!(status(&["run", "--set", "topics.events.config.max.message.bytes=100"]), Some(1));
    assert_eq!(status(&["run", "--set", "workload.rate=often"]), Some(2));
    assert_eq!(status(&["run", "--trace=loud"]), Some(2));
    assert_eq!(status(&["run", "--trace-json", "no/such/folder/trace.jsonl"]), Some(2));
    assert_eq!(status(&["replay", "--plant", "hash-order"]), Some(3));
    // A status is told by the last line of a violation, too: it makes the run again.
    let violated = run(&["run", "--set", "topics.events.config.max.message.bytes=100"]);
    let last = text(&violated.stdout).lines().last().map(str::to_owned).unwrap();
    assert!(last.starts_with("sim replay kafka/steady --seed 42 --set topics.events.config"), "{last}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_disk_that_is_full_is_an_internal_error_and_a_closed_pipe_is_none() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_sim")).arg("list").stdout(full).stderr(Stdio::null()).status();
    assert_eq!(status.unwrap().code(), Some(70));
    let mut child = Command::new(env!("CARGO_BIN_EXE_sim")).arg("schema").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn diff_names_the_first_event_that_differs_with_its_causes() {
    for other in [&["--changed"][..], &["--other-seed", "43"], &["--other-set", "workload.rate=999"]] {
        let out = sim(&[&["diff"], &SOON[..], other].concat());
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        let out = text(&out.stdout);
        let mut lines = out.lines();
        let first = lines.next().unwrap();
        assert!(first.starts_with("the chains part in simulated second "), "{first}");
        for side in ["left: ", "right: "] {
            let at = out.lines().position(|l| l.starts_with(side)).unwrap_or_else(|| panic!("no {side}in\n{out}"));
            assert!(out.lines().nth(at).unwrap().contains(" (process "), "{out}");
            assert!(out.lines().nth(at + 1).unwrap().starts_with("    caused by "), "{out}");
        }
        assert!(out.lines().any(|l| l.starts_with("digest ") && l.contains(" | digest ")), "{out}");
    }
    let same = sim(&[&["diff"], &SOON[..]].concat());
    assert!(text(&same.stdout).starts_with("no event differs\n"), "{}", text(&same.stdout));
}

#[test]
fn a_trace_is_logged_at_simulated_time_and_written_as_json() {
    let file = File::new("trace.jsonl", b"");
    let trace = ["--trace=event=became-leader,process=broker 1,to=1h", "--trace-json", file.path()];
    let out = sim(&[&["run"], &SOON[..], &trace].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).starts_with("kafka/steady seed 42: holds"));
    let written = std::fs::read_to_string(file.path()).unwrap();
    let log = text(&out.stderr);
    assert!(log.lines().count() >= 2 && log.lines().count() == written.lines().count(), "{log}");
    for (logged, line) in log.lines().zip(written.lines()) {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&json["name"], &json["who"]), (&"became-leader".into(), &"broker 1".into()));
        let ns = json["at_ns"].as_i64().unwrap();
        let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
        let at = format!("{sign}{}.{:09} ", ns / 1_000_000_000, ns % 1_000_000_000);
        assert!(logged.trim_start().starts_with(&at), "{at} in {logged}");
    }
    let plain = sim(&[&["run"], &SOON[..]].concat());
    assert_eq!(plain.stdout, out.stdout, "looking changes nothing");
}

#[test]
fn sweep_varies_values_and_says_how_a_number_is_distributed() {
    let arguments = ["sweep", "kafka/steady", "--seeds", "2", "--set", "workload.duration=2 s", "--vary"];
    let vary = [&arguments[..], &["workload.rate=50,100", "--measure", "ledger.events"]].concat();
    let out = sim(&vary);
    let lines: Vec<Vec<String>> =
        text(&out.stdout).lines().map(|l| l.split_whitespace().map(str::to_owned).collect()).collect();
    assert_eq!(lines[1][..3], ["workload.rate", "violated", "alarms"]);
    let measured = lines.iter().position(|l| l[..] == ["ledger.events"]).unwrap();
    let events = |line: &Vec<String>| line[1].parse::<u64>().unwrap();
    let (low, high) = (&lines[measured + 2], &lines[measured + 3]);
    assert!((100..110).contains(&events(low)) && (200..220).contains(&events(high)), "{low:?} {high:?}");
    assert_eq!(low[6], "2", "both runs were measured");

    let json = sim(&[&vary[..], &["--format", "json", "--threads", "1"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["rows"][1]["set"]["workload.rate"], "100");
    assert_eq!(json["rows"][0]["digest"], *lines[2].last().unwrap(), "threads change nothing");

    for (wrong, said) in [
        (["workload.rate=5,x", "--measure", "ledger.events"], "whole number"),
        (["workload.rate=5,5", "--measure", "ledger.events"], "twice"),
        (["workload.rate=5", "--measure", "ledger.evnts"], "did you mean `events`?"),
        (["applications.shp.kind=x", "--measure", "ledger.events"], "did you mean `shop`?"),
    ] {
        let out = sim(&[&arguments[..], &wrong[..]].concat());
        assert_eq!(out.status.code(), Some(2), "{wrong:?}");
        assert!(text(&out.stderr).contains(said) && out.stdout.is_empty(), "{}", text(&out.stderr));
    }
}

#[test]
fn new_writes_a_scenario_that_holds_and_whose_change_does_not() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("new");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    for kind in ["job", "kafka"] {
        let path = dir.join(format!("{kind}.toml"));
        let file = path.to_str().unwrap();
        let out = sim(&["new", file, "--kind", kind]);
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
        let written = std::fs::read(&path).unwrap();
        let again = sim(&["new", file]);
        assert_eq!(again.status.code(), Some(2));
        assert!(text(&again.stderr).contains("is there already"));
        assert_eq!(std::fs::read(&path).unwrap(), written);

        let out = sim(&["run", file, "--seed", "3"]);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stdout));
        let reproduces = text(&out.stdout).lines().last().unwrap().to_owned();
        assert_eq!(reproduces, format!("sim replay {file} --seed 3"));
        let set = match kind {
            "job" => "jobs.revenue.sinks.revenue.config.sink.delivery-guarantee=at-least-once",
            _ => "cluster.config.broker.session.timeout.ms=25000",
        };
        assert!(text(&written).contains(&format!("set = \"{set}\"")), "the change of {kind}");
        assert_eq!(sim(&["run", file, "--seed", "3", "--set", set]).status.code(), Some(1));
    }
    let out = sim(&["new", dir.join("orders.yaml").to_str().unwrap()]);
    assert!(out.status.code() == Some(2) && text(&out.stderr).contains("does not end in .toml"));
    std::fs::remove_dir_all(&dir).unwrap();
}
