//! `sim run`: a scenario once.

use super::engine::Task;
use super::{Exit, Failure, RunArguments, TraceArguments, engine, load, print};
use clap::Args;
use std::io::Write;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of a scenario, or path of a file that ends in .toml.
    scenario: String,
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    trace: TraceArguments,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let loaded = load(&arguments.scenario, &arguments.run.set)?;
    let RunArguments { seed, host, .. } = arguments.run;
    let outcome = if arguments.trace.wanted() {
        engine::traced(Task::new(&loaded, seed, engine::host_of(host)?), &arguments.trace)?
    } else {
        engine::run(&loaded, seed, host)?
    };
    print(&outcome, arguments.run.format, out)
}
