//! `sim show`: a scenario with all that it extends and all defaults.

use super::{Exit, Failure, SetArguments, load};
use clap::Args;
use std::io::Write;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of a scenario, or path of a file that ends in .toml.
    scenario: String,
    #[command(flatten)]
    set: SetArguments,
    /// Also print, as comments, the faults that this seed draws.
    #[arg(long)]
    seed: Option<u64>,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let loaded = load(&arguments.scenario, &arguments.set)?;
    let text = loaded.written_out().map_err(Failure::internal)?;
    write!(out, "{text}")?;
    if let Some(seed) = arguments.seed {
        writeln!(out, "\n# Faults of seed {seed}:")?;
        for fault in loaded.scenario.schedule(seed) {
            writeln!(out, "# {}", loaded.scenario.in_words(&fault))?;
        }
    }
    Ok(Exit::Holds)
}
