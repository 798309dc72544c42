//! `sim run`: a scenario once.

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
    let host = engine::host_of(arguments.run.host)?;
    let outcome = engine::run(&loaded, arguments.run.seed, host, &arguments.trace)?;
    print(&outcome, arguments.run.format, out)
}
