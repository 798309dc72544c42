//! `sim check`: scenario files, and every line of the events files they name; what is better known before a scenario runs.

use super::{Exit, Failure, SetArguments, load, report};
use crate::scenario::data::Workload;
use crate::scenario::notes;
use crate::workload::verify;
use clap::Args;
use std::collections::BTreeSet;
use std::io::Write;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Paths of files that end in .toml, or names of scenarios.
    #[arg(required = true)]
    scenarios: Vec<String>,
    #[command(flatten)]
    set: SetArguments,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let mut exit = Exit::Holds;
    for which in &arguments.scenarios {
        // All files are checked, whatever is wrong with the first.
        match check(which, &arguments.set) {
            Ok(line) => writeln!(out, "{which}: {line}")?,
            Err(failure) => exit = report(&failure),
        }
    }
    Ok(exit)
}

fn check(which: &str, set: &SetArguments) -> Result<String, Failure> {
    let loaded = load(which, set)?;
    let mut line = String::from("ok");
    let mut seen = BTreeSet::new();
    let mut notes = notes(&loaded.scenario);
    for application in &loaded.scenario.applications {
        let Workload::EventsFile(file) = &application.workload else { continue };
        if seen.insert(format!("{file:?}")) {
            let summary = verify(file).map_err(Failure::usage)?;
            let path = file.file.path().display();
            line.push_str(&format!(", {} events in {path}", summary.events));
            if let Some(from) = summary.beyond_from {
                notes.push(format!(
                    "{} events of {path} are not sent: line {from} lies beyond the workload's duration, and what is behind it \
                     with it",
                    summary.beyond
                ));
            }
        }
    }
    for note in notes {
        line.push_str(&format!("\n  note: {note}"));
    }
    Ok(line)
}
