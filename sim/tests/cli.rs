//! The command from outside: what goes where, and with which status it ends.

use std::path::PathBuf;
use std::process::{Command, Output};

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
