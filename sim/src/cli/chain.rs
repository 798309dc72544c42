//! `sim chain`: the child process of `sim replay`. Runs once and prints its report as JSON; not for people.

use super::engine::{self, Task};
use super::{Exit, Failure, Host, SetArguments, load};
use crate::run::Plant;
use clap::Args;
use std::io::{self, Write};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of a scenario, or path of a file that ends in .toml.
    scenario: String,
    #[command(flatten)]
    set: SetArguments,
    #[arg(long)]
    seed: u64,
    #[arg(long, value_enum)]
    host: Host,
    #[arg(long, value_enum)]
    plant: Option<Plant>,
    /// Key of the permutation of ledger numbers.
    #[arg(long)]
    shuffle_ghosts: Option<u64>,
    /// First simulated second whose trace is reported.
    #[arg(long, requires = "items_to")]
    items_from: Option<u64>,
    /// Last one.
    #[arg(long, requires = "items_from")]
    items_to: Option<u64>,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let loaded = load(&arguments.scenario, &arguments.set)?;
    let host = engine::host_of(Some(arguments.host))?;
    let task =
        Task { shuffle: arguments.shuffle_ghosts, plant: arguments.plant, ..Task::new(&loaded, arguments.seed, host) };
    let (report, _) = engine::report(task, arguments.items_from.zip(arguments.items_to))?;
    serde_json::to_writer(out, &report).map_err(|e| Failure::from(io::Error::from(e)))?;
    Ok(Exit::Holds)
}
