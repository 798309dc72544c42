//! The `sim` command: one file a subcommand. Data goes to stdout, everything else to stderr.

mod chain;
mod check;
mod diff;
mod digests;
mod doctor;
pub mod engine;
mod explain;
mod list;
mod new;
pub mod recorded;
mod replay;
mod run;
mod schema;
mod show;
mod sweep;

use crate::scenario::{self, Loaded, Problems};
use crate::show::outcome::Verdict;
use crate::show::{Filter, Outcome};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// A deterministic simulation testbed for exactly-once streaming pipelines.
#[derive(Debug, Parser)]
#[command(name = "sim", version, about, after_help = EXIT_STATUSES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}
const EXIT_STATUSES: &str = "Exit status: 0 expectations hold, 1 violated, 2 bad usage or scenario, 3 non-determinism, \
    70 internal error.";

#[derive(Debug, Subcommand)]
enum Command {
    /// List the scenarios in the binary, one a line.
    List(list::Arguments),
    /// Write a scenario to begin with, explained line by line.
    New(new::Arguments),
    /// Print a scenario with all defaults, as TOML.
    Show(show::Arguments),
    /// Check scenario files and the events files they name.
    Check(check::Arguments),
    /// Print the JSON Schema of scenario files, or of the outcome.
    Schema(schema::Arguments),
    /// Run a scenario and print its outcome.
    Run(run::Arguments),
    /// Run a scenario on both hosts and compare every event.
    Replay(replay::Arguments),
    /// Run twice and show the first event that differs, and the outcomes side by side.
    Diff(diff::Arguments),
    /// Say of each event that a window misplaces why: where it waited, for what, and which record passed it.
    Explain(explain::Arguments),
    /// Run a scenario over many seeds, or over every crash point, and add up what was found.
    Sweep(sweep::Arguments),
    /// Print the digest of every scenario, as snapshots/digests.toml holds them.
    Digests(digests::Arguments),
    /// Tell what this machine and this build give: speed, memory, and whether the pinned run comes out as recorded.
    Doctor(doctor::Arguments),
    #[command(hide = true)]
    Chain(chain::Arguments),
}

/// What the process ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All expectations hold.
    Holds = 0,
    /// One does not.
    Violated = 1,
    /// The arguments or the scenario are not valid.
    Usage = 2,
    /// Two runs that should be the same differ.
    Nondeterminism = 3,
    /// A mistake of the program (`EX_SOFTWARE`).
    Internal = 70,
}
impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Holds => Self::Holds,
            Verdict::Violated => Self::Violated,
        }
    }
}

/// Why a command gave up.
#[derive(Debug)]
pub enum Failure {
    /// The scenario is not valid.
    Scenario(Box<Problems>),
    /// Anything else, with the status to end with.
    Other(Exit, String),
}
impl Failure {
    /// A mistake in what the user asked for.
    pub fn usage(message: impl Display) -> Self {
        Self::Other(Exit::Usage, message.to_string())
    }
    /// A mistake of the program.
    pub fn internal(message: impl Display) -> Self {
        Self::Other(Exit::Internal, message.to_string())
    }
}
impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::Scenario(Box::new(problems))
    }
}
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        // Whoever reads us has seen enough: `sim list | head`.
        let exit = if e.kind() == io::ErrorKind::BrokenPipe { Exit::Holds } else { Exit::Internal };
        Self::Other(exit, e.to_string())
    }
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}
/// What runs the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Host {
    /// A plain loop: can be forked at any instant.
    Loop,
    /// madsim.
    Madsim,
}

/// Which scenario, with what changed.
#[derive(Clone, Debug, Args)]
pub struct SetArguments {
    /// Set one value of the scenario before it is checked: a TOML path and a value, as in
    /// `cluster.config.broker.session.timeout.ms=6000`. May be given several times.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
}
/// Where the trace goes.
#[derive(Clone, Debug, Default, Args)]
pub struct TraceArguments {
    /// Log what happens on stderr, at simulated time: info (life cycle and faults), debug (events) or trace (everything),
    /// narrowed by process=, partition=, event=, from= and to=, as in `--trace=debug,process=broker 1,from=10s`.
    #[arg(long, value_name = "FILTER", num_args = 0..=1, require_equals = true, default_missing_value = "info")]
    trace: Option<Filter>,
    /// Write the trace into a file, one JSON object a line: everything, or what --trace lets through.
    #[arg(long, value_name = "FILE")]
    trace_json: Option<PathBuf>,
}
impl TraceArguments {
    const fn wanted(&self) -> bool {
        self.trace.is_some() || self.trace_json.is_some()
    }
}

/// What a run needs besides its scenario.
#[derive(Clone, Debug, Args)]
struct RunArguments {
    /// Seed of all that is drawn.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    #[command(flatten)]
    set: SetArguments,
    /// How the outcome is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// What runs the world; the best that was built in if not given.
    #[arg(long, value_enum)]
    host: Option<Host>,
}

/// Runs the command line; the status is what the process ends with.
pub fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let asked = !e.use_stderr();
            // Nothing can be done if even this cannot be printed.
            let _ = e.print();
            return if asked { Exit::Holds } else { Exit::Usage };
        }
    };
    let mut out = io::stdout().lock();
    let result = match cli.command {
        Command::List(a) => list::run(&a, &mut out),
        Command::New(a) => new::run(&a, &mut out),
        Command::Show(a) => show::run(&a, &mut out),
        Command::Check(a) => check::run(&a, &mut out),
        Command::Schema(a) => schema::run(&a, &mut out),
        Command::Run(a) => run::run(&a, &mut out),
        Command::Replay(a) => replay::run(&a, &mut out),
        Command::Diff(a) => diff::run(&a, &mut out),
        Command::Explain(a) => explain::run(&a, &mut out),
        Command::Sweep(a) => sweep::run(&a, &mut out),
        Command::Digests(a) => digests::run(&a, &mut out),
        Command::Doctor(a) => doctor::run(&a, &mut out),
        Command::Chain(a) => chain::run(&a, &mut out),
    };
    let result = result.and_then(|exit| Ok(out.flush().map(|()| exit)?));
    result.unwrap_or_else(|failure| report(&failure))
}

/// Says on stderr why a command gave up.
fn report(failure: &Failure) -> Exit {
    match failure {
        Failure::Scenario(problems) => {
            eprint!("{}", problems.render(colour()));
            Exit::Usage
        }
        Failure::Other(exit, message) => {
            if *exit != Exit::Holds {
                eprintln!("sim: {message}");
            }
            *exit
        }
    }
}
/// Whether stderr takes colour: a terminal, and `NO_COLOR` is not set (no-color.org).
fn colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

fn load(which: &str, set: &SetArguments) -> Result<Loaded, Failure> {
    Ok(scenario::load(which, &set.set)?)
}

/// Prints an outcome; on a violation its last line reproduces it.
fn print(outcome: &Outcome, format: Format, out: &mut impl Write) -> Result<Exit, Failure> {
    match format {
        Format::Text => write!(out, "{outcome}")?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, outcome).map_err(|e| Failure::from(io::Error::from(e)))?;
            writeln!(out)?;
        }
    }
    Ok(outcome.verdict.into())
}

/// The command that makes a run again, for a shell.
pub fn reproduce(scenario: &str, seed: u64, set: &[String]) -> String {
    let mut line = format!("sim replay {} --seed {seed}", quoted(scenario));
    for argument in set {
        line.push_str(" --set ");
        line.push_str(&quoted(argument));
    }
    line
}
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_line_that_reproduces_survives_a_shell() {
        let line = reproduce("kafka/steady", 7, &["faults.k.at=5 s".into(), "description=it's".into()]);
        assert_eq!(line, r"sim replay kafka/steady --seed 7 --set 'faults.k.at=5 s' --set 'description=it'\''s'");
    }
}
