//! Finds the files, runs the families, prints the lines.

use crate::exempt::EXEMPT;
use model::base::Fixes;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How a vector ended.
pub enum Outcome {
    /// The model gave the recorded output.
    Passed,
    /// The first item that differs.
    Failed(String),
}

/// A family of recordings and what runs them.
pub struct Family {
    /// `folder/family`; the file is `folder/family.jsonl`.
    pub name: &'static str,
    /// Runs one vector under the given fixes.
    pub run: fn(&Value, Fixes) -> Outcome,
}

/// A whole number of a recording; 0 where there is none.
pub fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}
/// A text of a recording; empty where there is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
/// A list of a recording; empty where there is none.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Compares item by item; the message names the first that differs.
pub fn compare(recorded: &[Value], mut got: impl FnMut(usize) -> Value) -> Outcome {
    for (i, want) in recorded.iter().enumerate() {
        let have = got(i);
        if have != *want {
            return Outcome::Failed(format!("item {i}: recorded {want}\n      model    {have}"));
        }
    }
    Outcome::Passed
}

/// Compares two lists; an item that one of them lacks is null there.
pub fn compare_lists(recorded: &[Value], got: &[Value]) -> Outcome {
    let mut recorded = recorded.to_vec();
    recorded.resize(recorded.len().max(got.len()), Value::Null);
    compare(&recorded, |i| got.get(i).cloned().unwrap_or(Value::Null))
}

fn files(root: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let Ok(folders) = root.read_dir() else { return names };
    for folder in folders.flatten().filter(|f| f.path().is_dir()) {
        for file in folder.path().read_dir().into_iter().flatten().flatten() {
            let path = file.path();
            if path.extension().is_some_and(|e| e == "jsonl") {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                names.push(format!("{}/{stem}", folder.file_name().to_string_lossy()));
            }
        }
    }
    names.sort();
    names
}

/// The project's own copy of the recordings.
pub fn own_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}
/// The folder of the recordings that are run.
pub fn root() -> PathBuf {
    std::env::var_os("CONFORMANCE_DIR").map_or_else(own_root, PathBuf::from)
}

/// Runs every file of the folder; `CONFORMANCE_FAMILY` narrows to names that contain it, `CONFORMANCE_CLEAR` clears a fix,
/// `CONFORMANCE_SHOW` shows more failures of a family than three.
pub fn run(families: &[Family]) -> ExitCode {
    let root = root();
    let only = std::env::var("CONFORMANCE_FAMILY").unwrap_or_default();
    let cleared = std::env::var("CONFORMANCE_CLEAR").unwrap_or_default();
    let fixes = model::base::FIXES
        .iter()
        .filter(|f| cleared.split(',').any(|c| c == f.name))
        .fold(Fixes::ALL, |fixes, f| fixes.without(f.fix));
    let show = std::env::var("CONFORMANCE_SHOW").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let names = files(&root);
    let own = std::env::var_os("CONFORMANCE_DIR").is_none();
    let mut wrong = Vec::new();
    let (mut passed, mut failed, mut skipped) = (0usize, 0usize, 0usize);
    for name in names.iter().filter(|n| n.contains(&only)) {
        let text = match std::fs::read_to_string(root.join(format!("{name}.jsonl"))) {
            Ok(text) => text,
            Err(e) => {
                wrong.push(format!("{name}: {e}"));
                continue;
            }
        };
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let Some(family) = families.iter().find(|f| f.name == name) else {
            println!("{name}: 0 passed, 0 failed, {} not run", lines.len());
            skipped += lines.len();
            continue;
        };
        let (mut ok, mut bad, mut not) = (0usize, Vec::new(), 0usize);
        for (n, line) in lines.iter().enumerate() {
            let vector: Value = match serde_json::from_str(line) {
                Ok(Value::Object(mut v)) => {
                    // Parsed maps lose the order of their keys; who needs it reads the line.
                    v.insert("line".to_owned(), Value::from(*line));
                    Value::Object(v)
                }
                Ok(v) => v,
                Err(e) => {
                    bad.push(format!("line {}: {e}", n + 1));
                    continue;
                }
            };
            let id = vector["id"].as_str().map_or_else(|| format!("line {}", n + 1), str::to_owned);
            if EXEMPT.iter().any(|(f, v, _)| f == name && *v == id) {
                not += 1;
                continue;
            }
            let result = std::panic::catch_unwind(|| (family.run)(&vector, fixes));
            match result {
                Ok(Outcome::Passed) => ok += 1,
                Ok(Outcome::Failed(why)) => bad.push(format!("{id}: {why}")),
                Err(_) => bad.push(format!("{id}: the model panicked")),
            }
        }
        println!("{name}: {ok} passed, {} failed, {not} not run", bad.len());
        bad.iter().take(show).for_each(|b| println!("    {b}"));
        if not * 100 > lines.len() {
            wrong.push(format!("{name}: {not} of {} exempt, more than 1 %", lines.len()));
        }
        passed += ok;
        failed += bad.len();
        skipped += not;
    }
    for family in families.iter().filter(|f| own && f.name.contains(&only)) {
        if !names.iter().any(|n| n == family.name) {
            wrong.push(format!("{}: claimed, but there is no such file", family.name));
        }
    }
    wrong.iter().for_each(|w| println!("{w}"));
    println!("conformance: {passed} passed, {failed} failed, {skipped} not run");
    if failed > 0 || !wrong.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
