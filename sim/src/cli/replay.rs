//! `sim replay`: a scenario on both hosts, in two processes, bit for bit.

use super::engine::Task;
use super::{Exit, Failure, RunArguments, TraceArguments, engine, load, print, recorded};
use crate::run::Plant;
use crate::scenario::DEFAULT;
use clap::Args;
use std::io::Write;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of a scenario, or path of a file that ends in .toml.
    #[arg(default_value = DEFAULT)]
    scenario: String,
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    trace: TraceArguments,
    /// Plant a nondeterminism, to see that it is found.
    #[arg(long, value_enum, hide = true)]
    plant: Option<Plant>,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let Arguments { scenario, run, trace, plant } = arguments;
    let loaded = load(scenario, &run.set)?;
    let host = engine::host_of(run.host)?;
    if !cfg!(madsim) {
        eprintln!("only the loop host is built in: the child process runs on it too");
    }
    let replayed = engine::replay(scenario, &run.set, &loaded, run.seed, host, *plant)?;
    if trace.wanted() {
        engine::traced(Task::new(&loaded, run.seed, crate::host::Host::Loop), trace)?;
    }
    let exit = print(&replayed.outcome, run.format, out)?;
    if let Some(difference) = replayed.difference {
        return Err(engine::nondeterminism(difference));
    }
    let as_embedded = run.set.set.is_empty() && !scenario.ends_with(".toml");
    if let Some(text) = recorded::departure(scenario, run.seed, &replayed.outcome.digest).filter(|_| as_embedded) {
        eprintln!("sim: {text}");
    }
    Ok(exit)
}
