//! `sim list`: one scenario a line, name first.

use super::{Exit, Failure};
use crate::scenario::{library, load};
use clap::Args;
use std::io::Write;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only names that contain this.
    filter: Option<String>,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let filter = arguments.filter.as_deref().unwrap_or("");
    let names = library::names().filter(|n| n.contains(filter));
    let width = names.clone().map(str::len).max().unwrap_or(0);
    for name in names {
        let loaded = load(name, &[])?;
        writeln!(out, "{name:width$}  {}", loaded.scenario.description)?;
    }
    Ok(Exit::Holds)
}
