//! `sim sweep`: a scenario over many seeds, with values varied; or over every crash point of one run.

use super::{Exit, Failure, Format, SetArguments, load};
use crate::host::Host;
use crate::scenario::{DEFAULT, Loaded, Measure, load as load_scenario};
use crate::search::{Row, Sweep, Variation, cells, crash_sweep, sweep, sweep_watched};
use crate::show::table_of;
use clap::Args;
use model::base::ProcessId;
use serde::Serialize;
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
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    seeds: u64,
    /// Threads; each runs whole simulations, and the result is the same with any number. All cores if not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Run all seeds with each of these values: a TOML path and values, as in `topics.events.partitions=3,6`. Given twice,
    /// with each combination.
    #[arg(long, value_name = "PATH=VALUE,VALUE...", conflicts_with = "crash_points")]
    vary: Vec<Variation>,
    /// Say how something is distributed over the seeds: a number of the outcome, as expectations name them, as in
    /// `layers.check.missing` or `max(stalls.*.ms)`. May be given several times.
    #[arg(long, value_name = "NUMBER", conflicts_with = "crash_points")]
    measure: Vec<String>,
    /// Say which share of the spread of each measure comes from something in which the runs differ: `phase-of-heartbeat`,
    /// `leads.raw`, `stall`; a beginning of a name stands for all that begin so, `all` for every one, and `a + b` for two taken
    /// together. May be given several times.
    #[arg(long, value_name = "NAME", requires = "measure", conflicts_with = "crash_points")]
    factor: Vec<String>,
    /// How results are printed.
    #[arg(long, value_enum, default_value_t, conflicts_with = "crash_points")]
    format: Format,
    /// Every crash point of the run with the first seed instead of many seeds.
    #[arg(long)]
    crash_points: bool,
    /// With --crash-points: only every nth of them.
    #[arg(long, default_value_t = 1, requires = "crash_points", value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// With --crash-points: milliseconds until the killed node is started again.
    #[arg(long, default_value_t = 1000, requires = "crash_points")]
    restart_after: u64,
    #[command(flatten)]
    set: SetArguments,
}
impl Arguments {
    // How many threads run side by side changes nothing of what they find.
    #[allow(clippy::disallowed_methods)]
    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from))
    }
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let loaded = load(&arguments.scenario, &arguments.set)?;
    if arguments.crash_points {
        return crash_points(arguments, &loaded, out);
    }
    let measures = arguments.measure.iter().map(|text| loaded.measure(text)).collect::<Result<Vec<_>, _>>()?;
    if arguments.vary.len() > 2 {
        return Err(Failure::usage("--vary takes at most two paths: a table has rows and columns"));
    }
    let with = |set: &[String]| {
        let set: Vec<String> = arguments.set.set.iter().chain(set).cloned().collect();
        load_scenario(&arguments.scenario, &set)
    };
    let cells = cells(&arguments.vary, with)?;
    let Some(end) = arguments.from.checked_add(arguments.seeds) else {
        return Err(Failure::usage(format!("--from and --seeds: there is no seed above {}", u64::MAX)));
    };
    let seeds: Vec<u64> = (arguments.from..end).collect();
    let all = seeds.len() * cells.len();
    let mut sweeps = Vec::new();
    for cell in &cells {
        let before = sweeps.len() * seeds.len();
        let progress = |done: usize| bar(before + done, all);
        // Only what is measured is kept of the cells of a table.
        let watched = !arguments.factor.is_empty();
        let result = if watched {
            sweep_watched(&cell.loaded, &seeds, arguments.threads(), &progress)
        } else {
            sweep(&cell.loaded, &seeds, arguments.threads(), Host::Loop, &progress)
        };
        let mut row = Row::new(&arguments.vary, cell, &result, &measures);
        if watched {
            row = row.with_factors(&result, &measures, &arguments.factor).map_err(Failure::usage)?;
        }
        let whole = arguments.vary.is_empty() && arguments.format == Format::Text;
        sweeps.push((row, whole.then_some(result)));
    }
    let rows: Vec<&Row> = sweeps.iter().map(|(row, _)| row).collect();
    let name = &loaded.scenario.name;
    match arguments.format {
        Format::Json => {
            let found = Found { schema: 1, scenario: name, from: arguments.from, rows: &rows };
            serde_json::to_writer_pretty(&mut *out, &found).map_err(Failure::internal)?;
            writeln!(out)?;
        }
        Format::Text => match &sweeps[..] {
            [(row, Some(sweep))] => {
                let (from, seeds, digest) = (arguments.from, row.seeds, &row.digest);
                writeln!(out, "{name} over {seeds} seeds from {from}: combined digest {digest}")?;
                found(sweep, out)?;
                tables(&[], &rows, &measures, out)?;
            }
            _ => {
                writeln!(out, "{name}, each over {} seeds from {}", seeds.len(), arguments.from)?;
                tables(&arguments.vary, &rows, &measures, out)?;
            }
        },
    }
    let holds = rows.iter().all(|row| row.violated + row.alarms == 0);
    Ok(if holds { Exit::Holds } else { Exit::Violated })
}

/// How far we are, on a terminal.
pub(super) fn bar(done: usize, of: usize) {
    if std::io::stderr().is_terminal() && (done.is_multiple_of(16) || done == of) {
        let end = if done == of { "\r\x1b[K" } else { "" };
        let _ = write!(std::io::stderr(), "\r{done} of {of} runs{end}");
    }
}

/// The sweep for programs.
#[derive(Serialize)]
struct Found<'a> {
    schema: u32,
    scenario: &'a str,
    from: u64,
    rows: &'a [&'a Row],
}

/// A table of the cells, and one of each measure.
fn tables(variations: &[Variation], rows: &[&Row], measures: &[Measure], out: &mut impl Write) -> Result<(), Failure> {
    let paths: Vec<&str> = variations.iter().map(|v| v.path.as_str()).collect();
    let head = |more: &[&'static str]| [paths.as_slice(), more].concat();
    let line = |row: &Row, more: Vec<String>| {
        let values = paths.iter().map(|path| row.set[*path].clone());
        values.chain(more).collect::<Vec<_>>()
    };
    if !variations.is_empty() {
        let cells = rows.iter().map(|r| line(r, vec![r.violated.to_string(), r.alarms.to_string(), r.digest.clone()]));
        let table = table_of(&head(&["violated", "alarms", "digest"]), cells);
        writeln!(out, "{}", table.unwrap_or_default())?;
    }
    for measure in measures {
        let cells = rows.iter().map(|row| {
            let more = match row.measured.get(&measure.text).copied().flatten() {
                Some(d) => [d.min, d.p10, d.median, d.p90, d.max]
                    .map(|n| n.to_string())
                    .into_iter()
                    .chain([format!("{}", d.runs)])
                    .collect(),
                None => ["-", "-", "-", "-", "-", "0"].map(str::to_owned).into(),
            };
            line(row, more)
        });
        let table = table_of(&head(&["min", "10 %", "median", "90 %", "max", "runs"]), cells);
        writeln!(out, "\n{}\n{}", measure.text, table.unwrap_or_default())?;
        for row in rows.iter().filter(|row| !row.shares.is_empty()) {
            let of = paths.iter().map(|path| format!(", {path}={}", row.set[*path])).collect::<String>();
            let shares = row.shares.get(&measure.text).into_iter().flatten();
            let shares = shares.map(|s| {
                let share = |of: f64| format!("{:.1} %", of * 100.0);
                [s.factor.clone(), s.runs.to_string(), s.groups.to_string(), share(s.share), share(s.adjusted)]
            });
            let table = table_of(&["factor", "runs", "groups", "explains", "beyond chance"], shares);
            writeln!(out, "\nspread of {}{of}\n{}", measure.text, table.unwrap_or_default())?;
        }
    }
    Ok(())
}

/// Everything that one scenario's runs came to.
fn found(sweep: &Sweep, out: &mut impl Write) -> Result<(), Failure> {
    writeln!(out, "expectations violated in {} runs", sweep.violated().count())?;
    let mut broken: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for run in sweep.violated() {
        for expected in run.outcome.expectations.iter().filter(|e| !e.holds) {
            broken.entry(&expected.text).or_default().push(run.seed);
        }
    }
    for (text, seeds) in &broken {
        let first: Vec<String> = seeds.iter().take(20).map(u64::to_string).collect();
        let more = if seeds.len() > first.len() { ", ..." } else { "" };
        writeln!(out, "  {:>5}  {text}: seeds {}{more}", seeds.len(), first.join(", "))?;
    }
    let alarms: Vec<_> = sweep.alarms().collect();
    writeln!(out, "alarms in {} runs", alarms.len())?;
    for (run, text) in alarms.iter().take(20) {
        writeln!(out, "  seed {}: {text}", run.seed)?;
    }
    writeln!(out, "findings: law, rule, excused by, findings, runs")?;
    for ((law, rule, excuse), (n, runs)) in sweep.findings() {
        let excuse = if excuse.is_empty() { "NOTHING" } else { &excuse };
        writeln!(out, "  {law:<12} {rule:<22} {excuse:<24} {n:>8} {runs:>6}")?;
    }
    writeln!(out, "longest stall, ms: producer, min, median, max")?;
    for (name, series) in sweep.longest_stalls() {
        if let Some((low, middle, high)) = series.spread() {
            writeln!(out, "  {name:<20} {low:>7} {middle:>7} {high:>7}")?;
        }
    }
    let c = &sweep.coverage;
    writeln!(out, "occurred: faults {:?}", c.faults)?;
    writeln!(out, "  edges {:?}", c.edges)?;
    writeln!(out, "  roles {:?}", c.roles)?;
    writeln!(out, "  client errors {:?}", c.client_errors)?;
    writeln!(out, "  produce answers {:?}", c.produce_errors)?;
    Ok(())
}

fn crash_points(arguments: &Arguments, loaded: &Loaded, out: &mut impl Write) -> Result<Exit, Failure> {
    let (every, restart) = (arguments.every as usize, arguments.restart_after);
    let found = crash_sweep(loaded, arguments.from, every, restart, arguments.threads(), &|done, of| bar(done, of))
        .map_err(Failure::usage)?;
    let mut kinds: BTreeMap<(ProcessId, &str), u64> = BTreeMap::new();
    for (process, kind, _) in &found.points {
        *kinds.entry((*process, kind.name())).or_default() += 1;
    }
    let name = |process: ProcessId| found.names.get(&process).map_or("", String::as_str);
    let (points, alarms, violated) = (found.points.len(), found.alarms.len(), found.violated.len());
    writeln!(out, "{points} crash points, {alarms} with an alarm, {violated} with expectations violated")?;
    for ((process, kind), n) in kinds {
        writeln!(out, "  {} {kind}: {n}", name(process))?;
    }
    for (what, found) in [("alarm", &found.alarms), ("violated", &found.violated)] {
        for (point, text) in found.iter().take(50) {
            writeln!(out, "{what}: {} {} {}: {text}", name(point.process), point.kind.name(), point.nth)?;
        }
    }
    Ok(if alarms + violated == 0 { Exit::Holds } else { Exit::Violated })
}
