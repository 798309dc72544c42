//! `sim digests`: the digest of every scenario in the binary, as `snapshots/digests.toml` holds them.

use super::engine::{self, Task};
use super::{Exit, Failure, recorded};
use crate::host::Host;
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
    writeln!(out, "# Digest of each scenario with seed {}. Made by `sim digests`.", recorded::SEED)?;
    for name in library::names().filter(|n| n.contains(filter)) {
        let loaded = load(name, &[])?;
        let (report, _) = engine::report(Task::new(&loaded, recorded::SEED, Host::Loop), None)?;
        writeln!(out, "{name:?} = {:?}", report.identity())?;
        out.flush()?;
    }
    Ok(Exit::Holds)
}
