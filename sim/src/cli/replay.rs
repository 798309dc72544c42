//! `sim replay`: a scenario on both hosts, bit for bit.

use super::{Exit, Failure, RunArguments, engine, load, print};
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
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let loaded = load(&arguments.scenario, &arguments.run.set)?;
    let replayed = engine::replay(&loaded, arguments.run.seed, arguments.run.host)?;
    let exit = print(&replayed.outcome, arguments.run.format, out)?;
    match replayed.difference {
        Some(difference) => Err(Failure::Other(Exit::Nondeterminism, difference)),
        None => Ok(exit),
    }
}
