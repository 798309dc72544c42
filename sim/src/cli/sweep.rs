//! `sim sweep`: a scenario over many seeds, or over every crash point of one.

use super::{Exit, Failure, SetArguments, load};
use crate::host::Host;
use crate::scenario::DEFAULT;
use crate::search::{crash_sweep, sweep};
use clap::Args;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of a scenario, or path of a file that ends in .toml.
    #[arg(default_value = DEFAULT)]
    scenario: String,
    /// First seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Threads; each runs whole simulations, and the result is the same with any number.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Every crash point of the run with the first seed instead of many seeds.
    #[arg(long)]
    crash_points: bool,
    /// With --crash-points: only every nth of them.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// With --crash-points: milliseconds until the killed node is started again.
    #[arg(long, default_value_t = 1000)]
    restart_after: u64,
    #[command(flatten)]
    set: SetArguments,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let loaded = load(&arguments.scenario, &arguments.set)?;
    let bar = |done: usize, of: usize| {
        if std::io::stderr().is_terminal() && done.is_multiple_of(16) {
            let _ = write!(std::io::stderr(), "\r{done} of {of}");
        }
    };
    if arguments.crash_points {
        let found = crash_sweep(
            &loaded,
            arguments.from,
            arguments.every,
            arguments.restart_after,
            arguments.threads,
            &|done, of| bar(done, of),
        )
        .map_err(Failure::usage)?;
        let mut kinds: BTreeMap<(u32, &str), u64> = BTreeMap::new();
        for (process, kind, _) in &found.points {
            *kinds.entry((process.0, kind.name())).or_default() += 1;
        }
        writeln!(out, "{} crash points, {} with an alarm", found.points.len(), found.alarms.len())?;
        for ((process, kind), n) in kinds {
            writeln!(out, "  process {process} {kind}: {n}")?;
        }
        for (point, text) in found.alarms.iter().take(50) {
            writeln!(out, "  process {} {} {}: {text}", point.process, point.kind.name(), point.nth)?;
        }
        return Ok(if found.alarms.is_empty() { Exit::Holds } else { Exit::Violated });
    }
    let seeds: Vec<u64> = (arguments.from..arguments.from + arguments.seeds).collect();
    let of = seeds.len();
    let result = sweep(&loaded, &seeds, arguments.threads, Host::Loop, &|done| bar(done, of));
    writeln!(
        out,
        "{} over {} seeds from {}: combined digest {}",
        loaded.scenario.name,
        of,
        arguments.from,
        result.digest()
    )?;
    let violated: Vec<_> = result.violated().map(|r| r.seed).collect();
    writeln!(
        out,
        "expectations violated in {} runs: {:?}",
        violated.len(),
        violated.iter().take(20).collect::<Vec<_>>()
    )?;
    let alarms: Vec<_> = result.alarms().collect();
    writeln!(out, "alarms in {} runs", alarms.len())?;
    for (run, text) in alarms.iter().take(20) {
        writeln!(out, "  seed {}: {text}", run.seed)?;
    }
    writeln!(out, "findings: law, rule, excused by, findings, runs")?;
    for ((law, rule, excuse), (n, runs)) in result.findings() {
        let excuse = if excuse.is_empty() { "NOTHING" } else { &excuse };
        writeln!(out, "  {law:<12} {rule:<22} {excuse:<24} {n:>8} {runs:>6}")?;
    }
    writeln!(out, "longest stall, ms: producer, min, median, max")?;
    for (name, series) in result.longest_stalls() {
        if let Some((low, middle, high)) = series.spread() {
            writeln!(out, "  {name:<20} {low:>7} {middle:>7} {high:>7}")?;
        }
    }
    let c = &result.coverage;
    writeln!(out, "occurred: faults {:?}", c.faults)?;
    writeln!(out, "  edges {:?}", c.edges)?;
    writeln!(out, "  roles {:?}", c.roles)?;
    writeln!(out, "  client errors {:?}", c.client_errors)?;
    writeln!(out, "  produce answers {:?}", c.produce_errors)?;
    Ok(if alarms.is_empty() && violated.is_empty() { Exit::Holds } else { Exit::Violated })
}
