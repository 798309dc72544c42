//! `sim diff`: two runs, the first event in which they differ, and their outcomes side by side.

use super::engine::Task;
use super::{Exit, Failure, Format, RunArguments, SetArguments, engine, load};
use crate::scenario::{Changed, Loaded};
use clap::Args;
use std::io::{self, Write};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of a scenario, or path of a file that ends in .toml.
    scenario: String,
    /// The second scenario; the first again if not given.
    other: Option<String>,
    #[command(flatten)]
    run: RunArguments,
    /// Seed of the second run.
    #[arg(long)]
    other_seed: Option<u64>,
    /// As --set, for the second run only, after those of the first.
    #[arg(long, value_name = "PATH=VALUE")]
    other_set: Vec<String>,
    /// The second run is the first scenario under its change.
    #[arg(long, conflicts_with_all = ["other", "other_set"])]
    changed: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let left = load(&arguments.scenario, &arguments.run.set)?;
    let right = if arguments.changed {
        let Some(Changed { scenario, what, .. }) = left.changed.clone() else {
            return Err(Failure::usage(format!("`{}` names no change", left.scenario.name)));
        };
        // A change by `set` is made again by `--set`; others have no such line.
        let set = left.set.iter().cloned().chain(what.contains('=').then_some(what)).collect();
        Loaded { scenario, changed: None, set, ..left.clone() }
    } else {
        let set = arguments.run.set.set.iter().chain(&arguments.other_set).cloned().collect();
        load(arguments.other.as_ref().unwrap_or(&arguments.scenario), &SetArguments { set })?
    };
    let seeds = (arguments.run.seed, arguments.other_seed.unwrap_or(arguments.run.seed));
    let host = engine::host_of(arguments.run.host)?;
    let compared = engine::compare(Task::new(&left, seeds.0, host), Task::new(&right, seeds.1, host))?;
    match arguments.run.format {
        Format::Text => {
            let difference = compared.difference.as_deref().unwrap_or("no event differs");
            writeln!(out, "{difference}\n")?;
            write!(out, "{}", side_by_side(&compared.left.to_string(), &compared.right.to_string()))?;
            if arguments.changed && compared.left.verdict == compared.right.verdict {
                let seed = seeds.0;
                writeln!(out, "\nthe change shows nothing with seed {seed}: the verdict is the same on both sides")?;
            }
        }
        Format::Json => {
            let json = serde_json::json!({
                "difference": compared.difference, "left": compared.left, "right": compared.right
            });
            serde_json::to_writer_pretty(&mut *out, &json).map_err(|e| Failure::from(io::Error::from(e)))?;
            writeln!(out)?;
        }
    }
    Ok(Exit::Holds)
}

/// Two texts beside each other, line by line; `|` marks lines that differ.
fn side_by_side(left: &str, right: &str) -> String {
    let (left, right): (Vec<_>, Vec<_>) = (left.lines().collect(), right.lines().collect());
    let width = left.iter().map(|l| l.chars().count()).max().unwrap_or(0);
    let line = |i: usize| {
        let (l, r) = (left.get(i).copied().unwrap_or(""), right.get(i).copied().unwrap_or(""));
        let mark = if l == r { ' ' } else { '|' };
        format!("{l:width$} {mark} {r}").trim_end().to_owned() + "\n"
    };
    (0..left.len().max(right.len())).map(line).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn differing_lines_are_marked() {
        assert_eq!(super::side_by_side("a\nbb", "a\nc\nd"), "a    a\nbb | c\n   | d\n");
    }
}
