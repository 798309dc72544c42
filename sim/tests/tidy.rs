//! What lints cannot say: which way imports point, who opens ghosts, how large files grow.

// Reads the project's own sources; simulates nothing.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}
fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    let root = root();
    let mut paths = Vec::new();
    walk(&root.join(folder), &mut paths);
    paths.sort();
    let name = |p: &Path| p.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
    paths.iter().map(|p| (name(p), fs::read_to_string(p).expect("a source file"))).collect()
}

/// Nothing below `folder` mentions any of `words`.
fn absent(folder: &str, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in sources(folder) {
        for (n, line) in text.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with("//")) {
            for word in words.iter().filter(|w| line.contains(**w)) {
                found.push(format!("{name}:{}: {word}", n + 1));
            }
        }
    }
    found
}

#[test]
fn imports_point_down() {
    // model sees neither sim nor madsim; base sees nothing else; the server side of Kafka knows no client, and nobody
    // in Kafka knows an application, Flink or a store. Flink reaches Kafka as a client does, and knows no application.
    // Stores know nobody.
    let mut wrong = absent("model/src", &["use sim::", "sim::", "madsim::"]);
    wrong.extend(absent("model/src/base", &["crate::kafka", "crate::flink", "crate::app", "crate::actor"]));
    wrong.extend(absent("model/src/kafka", &["crate::flink", "crate::app", "crate::actor"]));
    let servers =
        ["kafka::broker", "kafka::controller", "kafka::coordinator", "kafka::log", "kafka::partition", "kafka::quorum"];
    wrong.extend(absent("model/src/flink", &["crate::app", "crate::actor"]));
    wrong.extend(absent("model/src/flink", &servers));
    let all_but_base = ["crate::kafka", "crate::flink", "crate::app", "crate::actor", "crate::registry"];
    wrong.extend(absent("model/src/store", &all_but_base));
    wrong.extend(absent("model/src/base", &["crate::store"]));
    wrong.extend(absent("model/src/kafka", &["crate::store"]));
    for part in ["barrier", "checkpoint", "sink", "state"] {
        wrong.extend(absent(&format!("model/src/flink/{part}"), &["flink::kafka", "kafka::client"]));
    }
    for part in ["log", "partition", "controller", "quorum", "broker", "coordinator"] {
        wrong.extend(absent(&format!("model/src/kafka/{part}"), &["kafka::client"]));
    }
    for part in ["log", "partition"] {
        wrong.extend(absent(&format!("model/src/kafka/{part}"), &["kafka::controller", "kafka::quorum"]));
    }
    wrong.extend(absent("sim/src/world", &["model::kafka", "crate::judge", "crate::scenario", "crate::run"]));
    wrong.extend(absent("sim/src/judge", &["crate::scenario", "crate::run", "crate::cli"]));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn only_the_judge_opens_ghosts() {
    let mut opens = absent("model/src", &["ghost.open()", "Ghost::open", ".in_ledger()"]);
    // The test of those who give ghosts to rows made of many.
    opens.retain(|found| !found.starts_with("model/src/base/asides.rs"));
    assert!(opens.is_empty(), "the model must not look at ghosts: {opens:#?}");
}

#[test]
fn files_stay_small_enough_to_hold_in_the_head() {
    const MOST: usize = 700;
    let all = ["model/src", "sim/src"].into_iter().flat_map(sources);
    let large: Vec<_> = all.map(|(n, t)| (n, t.lines().count())).filter(|(_, lines)| *lines > MOST).collect();
    assert!(large.is_empty(), "over {MOST} lines: {large:?}");
}

#[test]
fn the_readme_names_commands_that_exist() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let commands = fs::read_to_string(root().join("sim/src/cli/mod.rs")).expect("the command line");
    for line in readme.lines().filter(|l| l.starts_with("sim ")) {
        let command = line.split_whitespace().nth(1).expect("a command");
        assert!(commands.contains(&format!("mod {command};")), "README names `sim {command}`");
    }
}
