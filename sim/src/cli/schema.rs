//! `sim schema`: the JSON Schema of scenario files, for editors.

use super::{Exit, Failure};
use crate::scenario::{expect, schema};
use clap::Args;
use std::io::{self, Write};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// That of the outcome (`--format json`) instead.
    #[arg(long)]
    outcome: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let schema = if arguments.outcome { expect::outcome_schema() } else { schema() };
    serde_json::to_writer_pretty(&mut *out, &schema).map_err(|e| Failure::from(io::Error::from(e)))?;
    writeln!(out)?;
    Ok(Exit::Holds)
}
