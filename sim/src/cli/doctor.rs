//! `sim doctor`: what this machine and this build give, and whether they make the runs that are on record.
//!
//! The one command that looks at a clock: it measures whole runs from outside, and nothing of it gets into one.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures the host that it runs on")]

use super::engine::{self, Task};
use super::{Exit, Failure, Format, recorded};
use crate::host::{Drive, Host};
use crate::run::{Run, finish};
use crate::scenario::{DEFAULT, Loaded, load};
use crate::world::NoLifecycle;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Follow the cost of an event up to ten million of them; else up to one million.
    #[arg(long)]
    long: bool,
    /// A reference run of a tenth of the length, and a curve up to 100,000: for a first look.
    #[arg(long, conflicts_with = "long")]
    quick: bool,
    /// How the findings are printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The run that is measured: a platform whose controller is killed, 200,000 events, and 100 s of draining.
const REFERENCE: &str = "clickstream/controller-kill";
/// The run along which the cost of an event is followed.
const CURVE: &str = "kafka/steady";

#[derive(Serialize)]
struct Findings {
    version: &'static str,
    build: &'static str,
    target: String,
    cores: usize,
    pinned: Pinned,
    reference: Reference,
    /// Nanoseconds of CPU an event, over the second half of the way to so many.
    curve: Vec<(u64, u64)>,
    peak_memory_mb: Option<u64>,
}
#[derive(Serialize)]
struct Pinned {
    scenario: &'static str,
    seed: u64,
    digest: String,
    on_record: Option<String>,
}
#[derive(Serialize)]
struct Reference {
    scenario: &'static str,
    set: Vec<String>,
    events_sent: u64,
    kernel_events: u64,
    record_hops: u64,
    simulated_ms: u64,
    wall_ms: u64,
    cpu_ms: u64,
    judged_ms: u64,
    kernel_events_per_cpu_second: u64,
    ns_per_kernel_event: u64,
    ns_per_record_hop: u64,
    simulated_per_real_time: u64,
    peak_memory_mb: Option<u64>,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let clock = Clock(Instant::now());
    let pinned = pinned()?;
    let reference = reference(&clock, arguments.quick)?;
    let curve = curve(&clock, if arguments.long { 7 } else { 6 - u32::from(arguments.quick) })?;
    let found = Findings {
        version: env!("CARGO_PKG_VERSION"),
        build: if cfg!(debug_assertions) { "dev (a release build is faster)" } else { "release" },
        target: format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        pinned,
        reference,
        curve,
        peak_memory_mb: peak_memory_mb(),
    };
    match arguments.format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &found).map_err(|e| Failure::from(io::Error::from(e)))?;
            writeln!(out)?;
        }
        Format::Text => found.print(out)?,
    }
    Ok(if found.pinned.holds() { Exit::Holds } else { Exit::Violated })
}

/// Time that has passed, and CPU time of this thread, which a busy machine does not lengthen; the first where Linux is not.
struct Clock(Instant);
impl Clock {
    fn wall_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
    fn cpu_ns(&self) -> u64 {
        let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let nanos = spent.and_then(|text| text.split_whitespace().next()?.parse().ok());
        nanos.unwrap_or_else(|| self.wall_ns())
    }
}
/// The most memory that the process has had resident; `None` where Linux is not.
fn peak_memory_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1_024)
}

impl Pinned {
    fn holds(&self) -> bool {
        self.on_record.as_ref().is_none_or(|digest| *digest == self.digest)
    }
}
fn pinned() -> Result<Pinned, Failure> {
    let loaded = load(DEFAULT, &[])?;
    let (report, _) = engine::report(Task::new(&loaded, recorded::SEED, Host::Loop), None)?;
    let (digest, on_record) = (report.identity().to_owned(), recorded::all().remove(DEFAULT));
    Ok(Pinned { scenario: DEFAULT, seed: recorded::SEED, digest, on_record })
}

fn begin(loaded: &Loaded) -> Result<Run, Failure> {
    Run::new(&Arc::new(loaded.scenario.clone()), recorded::SEED).map_err(Failure::usage)
}
fn reference(clock: &Clock, quick: bool) -> Result<Reference, Failure> {
    // The first ten seconds are before the shoppers come.
    let seconds = if quick { 30 } else { 210 };
    let set = vec![
        "workload.rate=1000".to_owned(),
        format!("workload.duration={seconds} s"),
        format!("applications.others.workload.duration={} s", seconds + 90),
    ];
    let loaded = load(REFERENCE, &set)?;
    let mut run = begin(&loaded)?;
    let (wall, cpu) = (clock.wall_ns(), clock.cpu_ns());
    Host::Loop.drive(&mut run, recorded::SEED);
    let (wall, cpu, judge) = (clock.wall_ns() - wall, clock.cpu_ns() - cpu, clock.cpu_ns());
    let outcome = finish(&mut run, &loaded, Host::Loop).outcome;
    let (events, hops) = (outcome.work.kernel_events, outcome.work.record_hops);
    Ok(Reference {
        scenario: REFERENCE,
        set,
        events_sent: outcome.ledger.events,
        kernel_events: events,
        record_hops: hops,
        simulated_ms: outcome.simulated_ms,
        wall_ms: wall / 1_000_000,
        cpu_ms: cpu / 1_000_000,
        judged_ms: (clock.cpu_ns() - judge) / 1_000_000,
        kernel_events_per_cpu_second: events * 1_000_000 / (cpu / 1_000).max(1),
        ns_per_kernel_event: cpu / events.max(1),
        ns_per_record_hop: cpu / hops.max(1),
        simulated_per_real_time: outcome.simulated_ms * 1_000_000 / wall.max(1),
        peak_memory_mb: peak_memory_mb(),
    })
}

/// Of one steady run: the cost of an event on the second half of the way to each power of ten.
fn curve(clock: &Clock, decades: u32) -> Result<Vec<(u64, u64)>, Failure> {
    // A second of it is some 2,600 kernel events.
    let seconds = 10_u64.pow(decades) / 2_000;
    let set = ["workload.rate=1000".to_owned(), format!("workload.duration={seconds} s")];
    let mut run = begin(&load(CURVE, &set)?)?;
    let mut until = |events: u64| {
        while run.world.work.kernel_events < events && run.turn(&mut NoLifecycle) {}
        run.world.work.kernel_events
    };
    let mut costs = Vec::new();
    for events in (4..=decades).map(|power| 10_u64.pow(power)) {
        let (from, before) = (until(events / 2), clock.cpu_ns());
        let to = until(events);
        costs.push((events, (clock.cpu_ns() - before) / (to - from).max(1)));
    }
    Ok(costs)
}

impl Findings {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let mut row = |what: &str, value: String| writeln!(out, "{what:<46} {value}");
        let memory = |mb: Option<u64>| mb.map_or("not known here".to_owned(), |mb| format!("{mb} MB"));
        row("sim", format!("{}, {} build", self.version, self.build))?;
        row("machine", format!("{}, {} cores", self.target, self.cores))?;
        let p = &self.pinned;
        let verdict = match &p.on_record {
            Some(digest) if *digest == p.digest => format!("{digest}, as on record"),
            Some(digest) => format!("{} and NOT {digest}, which is on record", p.digest),
            None => format!("{}, nothing is on record", p.digest),
        };
        row(&format!("chain of {}, seed {}", p.scenario, p.seed), verdict)?;
        let r = &self.reference;
        row("reference run", format!("{}, {} events sent", r.scenario, r.events_sent))?;
        row("  simulated", format!("{}.{:03} s", r.simulated_ms / 1_000, r.simulated_ms % 1_000))?;
        row("  wall time, CPU time of it", format!("{} ms, {} ms", r.wall_ms, r.cpu_ms))?;
        row("  laws settled, CPU time", format!("{} ms", r.judged_ms))?;
        row("  simulated per real time", format!("{}", r.simulated_per_real_time))?;
        row("  kernel events, a CPU second", format!("{}, {}", r.kernel_events, r.kernel_events_per_cpu_second))?;
        row(
            "  CPU time a kernel event, a record-hop",
            format!("{} ns, {} ns", r.ns_per_kernel_event, r.ns_per_record_hop),
        )?;
        row("  most memory so far", memory(r.peak_memory_mb))?;
        for (events, cost) in &self.curve {
            row(&format!("{CURVE}: CPU time an event, up to {events}"), format!("{cost} ns"))?;
        }
        row("most memory", memory(self.peak_memory_mb))
    }
}
