//! What a run costs: `cargo bench -p sim`.
//!
//! The gate is instructions, which noise cannot move: with valgrind at hand the benchmark runs itself under callgrind, twice
//! with two lengths of the same scenario, and takes the difference, so that loading, forming and settling cancel out. Wall
//! time and memory stand beside it. `-- --quick` leaves callgrind out, `-- --full` counts a run of a million events too.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark measures the host it runs on")]
#![allow(missing_docs, reason = "not a library")]

use model::base::{EventTime, Row};
use model::registry::{Library, Shape, decode, payload, unframe};
use sim::host::{Drive, Host};
use sim::run::{Run, finish};
use sim::scenario::{Loaded, load};
use sim::world::{NoLifecycle, Work};
use std::fmt::Display;
use std::io::{Write, stdout};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;

const SCENARIO: &str = "kafka/steady";
/// The pipeline with the gatekeeper: consume, decode, produce and commit offsets in one transaction a second.
const GATEKEEPER: &str = "transactions/gatekeeper-steady";
/// A Flink job between two topics: source, join, windows behind a shuffle, a sink in transactions.
const JOB: &str = "gatewaymeter/busy";
/// What a run of it costs in all: a day of billing by the minute, and one kill.
const LAB: &str = "gatewaymeter/lab-8-1";
/// The whole pipeline: gatekeeper, clean job, windows job.
const WINDOWS: &str = "time/steady";
const SEED: u64 = 1;
/// DESIGN.md section 8.
const PER_EVENT: f64 = 2_500.0;
const PER_HOP: f64 = 250.0;

/// A load: a steady scenario with another rate, linger and length.
#[derive(Clone, Copy)]
struct Load {
    scenario: &'static str,
    rate: u32,
    linger_ms: u32,
    seconds: u32,
}
impl Load {
    fn load(self) -> Result<Loaded, String> {
        let mut set = vec![
            format!("workload.rate={}", self.rate),
            format!("workload.duration={} s", self.seconds),
            format!(
                "applications.{}.config.linger.ms={}",
                if self.scenario == JOB { "gateway" } else { "shop" },
                self.linger_ms
            ),
        ];
        if [GATEKEEPER, WINDOWS].contains(&self.scenario) {
            set.push(format!("gatekeepers.gate.producer.linger.ms={}", self.linger_ms));
        }
        load(self.scenario, &set).map_err(|problems| format!("{}: {problems:?}", self.scenario))
    }
    fn start(self) -> Result<(Loaded, Run), String> {
        let loaded = self.load()?;
        let run = Run::new(&Arc::new(loaded.scenario.clone()), SEED).map_err(|e| e.to_string())?;
        Ok((loaded, run))
    }
    fn whole(self, host: Host) -> Result<Work, String> {
        let (loaded, mut run) = self.start()?;
        host.drive(&mut run, SEED);
        let finished = finish(&mut run, &loaded, host);
        if finished.outcome.layers.is_empty() {
            return Err("the run has no layer".to_owned());
        }
        Ok(run.world.work)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        // What callgrind runs: one load, from begin to end.
        ["whole", host, scenario, rate, linger, seconds] => parse(rate, linger, seconds).and_then(|load| {
            let named = [GATEKEEPER, JOB, WINDOWS].into_iter().find(|name| *name == scenario);
            let scenario = named.unwrap_or(SCENARIO);
            let work = Load { scenario, ..load }.whole(if host == "madsim" { Host::Madsim } else { Host::Loop })?;
            say(format_args!("{} {}", work.kernel_events, work.record_hops))
        }),
        ["memory", rate, linger, seconds] => parse(rate, linger, seconds).and_then(memory_of),
        ["fork", rate, linger, seconds] => parse(rate, linger, seconds).and_then(fork_of),
        [] => everything(true, false),
        ["--full"] => everything(true, true),
        ["--quick"] => everything(false, false),
        // A filter meant for another benchmark.
        _ => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(rate: &str, linger: &str, seconds: &str) -> Result<Load, String> {
    let number = |text: &str| text.parse::<u32>().map_err(|e| format!("{text}: {e}"));
    Ok(Load { scenario: SCENARIO, rate: number(rate)?, linger_ms: number(linger)?, seconds: number(seconds)? })
}

fn say(text: impl Display) -> Result<(), String> {
    writeln!(stdout().lock(), "{text}").map_err(|e| e.to_string())
}
fn row(what: &str, value: impl Display, goal: &str) -> Result<(), String> {
    say(format_args!("{what:<62} {value:>14}  {goal}"))
}

fn everything(callgrind: bool, full: bool) -> Result<(), String> {
    say(format_args!("{SCENARIO}, seed {SEED}, {} build", if cfg!(debug_assertions) { "debug" } else { "release" }))?;
    wall()?;
    lab()?;
    avro()?;
    flat()?;
    memory()?;
    if !callgrind {
        return Ok(());
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        return say("valgrind is not installed: no instructions counted");
    }
    instructions(full)
}

// ---- time

/// Seconds of CPU that this thread has had: what a busy machine does not lengthen. Wall time where Linux is not.
fn clock(begun: Instant) -> f64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = spent.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanos.map_or_else(|| begun.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// Whole runs of one scenario in a second of CPU: loaded once, each with a seed of its own.
fn lab() -> Result<(), String> {
    const RUNS: u64 = 20;
    let loaded = load(LAB, &[]).map_err(|problems| format!("{LAB}: {problems:?}"))?;
    let scenario = Arc::new(loaded.scenario.clone());
    let begun = Instant::now();
    let before = clock(begun);
    for seed in 0..RUNS {
        let mut run = Run::new(&scenario, seed).map_err(|e| e.to_string())?;
        Host::Loop.drive(&mut run, seed);
        if finish(&mut run, &loaded, Host::Loop).outcome.layers.is_empty() {
            return Err("the run has no layer".to_owned());
        }
    }
    row(&format!("{LAB}: runs per CPU second"), format_args!("{:.1}", RUNS as f64 / (clock(begun) - before)), "")
}

/// Avro, each way: at most half a microsecond an event.
fn avro() -> Result<(), String> {
    const EVENTS: usize = 200_000;
    let base = Instant::now();
    let shape = Shape::parse(payload::SCHEMA).map_err(|e| e.to_string())?;
    let plain =
        |id: i64| Row { time: EventTime(1_700_000_000_000 + id), cols: [id, id & 3, id & 0xFFF, 0], ..Row::default() };
    let begun = clock(base);
    let rows: Vec<Row> = (0..EVENTS as i64).map(|id| payload::as_avro(plain(id), 1)).collect();
    let sealed: Vec<_> = rows.chunks(50).filter_map(payload::seal).collect();
    let encoded = clock(base);
    let mut good = 0;
    for (rows, bytes) in &sealed {
        for row in rows.iter() {
            let value = &bytes[row.raw.start as usize..(row.raw.start + row.raw.len) as usize];
            let frame = unframe(value).map_err(|e| e.to_string())?;
            good += usize::from(decode(&shape, frame.body, Library::Java).is_ok());
        }
    }
    let decoded = clock(base);
    if good != EVENTS {
        return Err(format!("{good} of {EVENTS} events were decoded"));
    }
    let each = |from: f64, to: f64| format!("{:.2} us", (to - from) * 1e6 / EVENTS as f64);
    row("Avro, encoding one event (its size, then its bytes)", each(begun, encoded), "0.5 us")?;
    row("Avro, decoding one event", each(encoded, decoded), "0.5 us")
}

fn wall() -> Result<(), String> {
    let base = Instant::now();
    for host in [Host::Loop, Host::Madsim] {
        for linger_ms in [5, 100] {
            let load = Load { scenario: SCENARIO, rate: 1000, linger_ms, seconds: 60 };
            let (_, mut run) = load.start()?;
            let (begun, before) = (Instant::now(), clock(base));
            host.drive(&mut run, SEED);
            let took = clock(base) - before;
            let wall = begun.elapsed().as_secs_f64();
            let simulated = run.world.now().0 as f64 / 1e9;
            let name = format!("{}, 1,000 records/s, linger {linger_ms} ms:", host.name());
            row(&format!("{name} simulated per CPU time"), whole(simulated / took), "")?;
            row(&format!("{name} simulated per real time"), whole(simulated / wall), "")?;
            row(
                &format!("{name} kernel events per CPU second"),
                whole(run.world.work.kernel_events as f64 / took),
                "",
            )?;
        }
    }
    let load = Load { scenario: GATEKEEPER, rate: 1000, linger_ms: 20, seconds: 60 };
    let (_, mut run) = load.start()?;
    let (begun, before) = (Instant::now(), clock(base));
    Host::Loop.drive(&mut run, SEED);
    let simulated = run.world.now().0 as f64 / 1e9;
    let took = clock(base) - before;
    row("gatekeeper, 1,000 events/s: simulated per CPU time", whole(simulated / took), "")?;
    let wall = begun.elapsed().as_secs_f64();
    row("gatekeeper, 1,000 events/s: simulated per real time", whole(simulated / wall), "")
}

/// Cost of an event after so many: the second half of each power of ten.
fn flat() -> Result<(), String> {
    let (_, mut run) = Load { scenario: SCENARIO, rate: 1000, linger_ms: 5, seconds: 400 }.start()?;
    let base = Instant::now();
    let mut costs = Vec::new();
    for end in [10_000u64, 100_000, 1_000_000] {
        let until = |run: &mut Run, events: u64| {
            while run.world.work.kernel_events < events && run.turn(&mut NoLifecycle) {}
        };
        until(&mut run, end / 2);
        let before = clock(base);
        until(&mut run, end);
        let cost = 1e9 * (clock(base) - before) / (end - end / 2) as f64;
        row(&format!("ns of CPU per event, up to {} events", whole(end as f64)), whole(cost), "")?;
        costs.push(cost);
    }
    let apart = 100.0 * (costs[2] / costs[1] - 1.0);
    row("10^6 against 10^5 events, CPU time", format_args!("{apart:+.0} %"), "goal: within 20 %")
}

// ---- memory

/// The same program again, in a process of its own.
fn again(arguments: &[&str]) -> Result<Vec<f64>, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new(me).args(arguments).output().map_err(|e| e.to_string())?;
    numbers(&output.stdout, &output.stderr)
}
fn numbers(out: &[u8], err: &[u8]) -> Result<Vec<f64>, String> {
    let text = String::from_utf8_lossy(out);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    if numbers.is_empty() { Err(String::from_utf8_lossy(err).into_owned()) } else { Ok(numbers) }
}

fn memory() -> Result<(), String> {
    for (rate, linger, seconds) in [("10000", "100", ["20", "60"]), ("1000", "5", ["60", "180"])] {
        let small = again(&["memory", rate, linger, seconds[0]])?;
        let large = again(&["memory", rate, linger, seconds[1]])?;
        let per_row = (large[1] - small[1]) / (large[0] - small[0]);
        let rest = (small[1] - small[0] * per_row) / f64::from(1 << 20);
        let name = format!("{rate} records/s, linger {linger} ms:");
        row(&format!("{name} resident bytes per row retained"), whole(per_row), "goal: 80")?;
        row(&format!("{name} resident MB besides"), whole(rest), "goal: 64")?;
    }
    let fork = again(&["fork", "10000", "100", "22"])?;
    row(&format!("a fork at {} records, us", whole(fork[0])), whole(fork[1]), "goal: 1,000")
}
fn memory_of(load: Load) -> Result<(), String> {
    let (_, mut run) = load.start()?;
    Host::Loop.drive(&mut run, SEED);
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    let kb: u64 = resident.trim().trim_end_matches(" kB").parse().map_err(|_| "VmRSS is no number")?;
    say(format_args!("{} {}", run.seen.judge.ledger.len(), kb * 1024))
}
fn fork_of(load: Load) -> Result<(), String> {
    let (_, mut run) = load.start()?;
    while run.seen.judge.ledger.len() < 200_000 && run.turn(&mut NoLifecycle) {}
    let mut took = Vec::new();
    for _ in 0..21 {
        let begun = Instant::now();
        let fork = run.clone();
        took.push(begun.elapsed().as_nanos() as f64 / 1e3);
        drop(fork);
    }
    took.sort_by(f64::total_cmp);
    say(format_args!("{} {}", run.seen.judge.ledger.len(), took[took.len() / 2]))
}

// ---- instructions

/// What a run of some length took.
#[derive(Clone, Copy)]
struct Counted {
    instructions: f64,
    events: f64,
    hops: f64,
}
impl Counted {
    fn less(self, other: Self) -> Self {
        Self {
            instructions: self.instructions - other.instructions,
            events: self.events - other.events,
            hops: self.hops - other.hops,
        }
    }
    fn per_event(self) -> f64 {
        self.instructions / self.events
    }
}

fn count(host: &str, load: Load) -> Result<Counted, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(me)
        .args(["whole", host, load.scenario])
        .args([load.rate, load.linger_ms, load.seconds].map(|n| n.to_string()))
        .output()
        .map_err(|e| e.to_string())?;
    let work = numbers(&output.stdout, &output.stderr)?;
    let log = String::from_utf8_lossy(&output.stderr);
    let collected = log.lines().find_map(|l| l.split("Collected : ").nth(1)).ok_or_else(|| log.clone().into_owned())?;
    let instructions = collected.trim().parse().map_err(|e| format!("{collected}: {e}"))?;
    Ok(Counted { instructions, events: work[0], hops: work[1] })
}
fn between(host: &str, load: Load, seconds: [u32; 2]) -> Result<Counted, String> {
    let long = count(host, Load { seconds: seconds[1], ..load })?;
    Ok(long.less(count(host, Load { seconds: seconds[0], ..load })?))
}

fn instructions(full: bool) -> Result<(), String> {
    let thin = Load { scenario: SCENARIO, rate: 1000, linger_ms: 5, seconds: 0 };
    let here = between("loop", thin, [4, 12])?;
    row("instructions per kernel event, linger 5 ms, hops included", whole(here.per_event()), "")?;
    let there = between("madsim", thin, [4, 12])?;
    let over = 100.0 * (there.per_event() / here.per_event() - 1.0);
    row("madsim over loop, instructions", format_args!("{over:+.1} %"), "goal: at most 15 %")?;

    // Eight times the records in about as many events: what an event costs and what a record adds to it come apart.
    let wide = Load { linger_ms: 100, ..thin };
    let few = between("loop", wide, [4, 12])?;
    let many = between("loop", Load { rate: 8000, ..wide }, [4, 12])?;
    row("instructions per kernel event, linger 100 ms, hops included", whole(few.per_event()), "")?;
    row("the same at 8,000 records/s", whole(many.per_event()), "")?;
    let per_hop = (many.instructions * few.events - few.instructions * many.events)
        / (many.hops * few.events - few.hops * many.events);
    let alone = |c: Counted| (c.instructions - per_hop * c.hops) / c.events;
    row("instructions per record-hop", whole(per_hop), &format!("goal: {}", whole(PER_HOP)))?;
    row(
        "instructions per kernel event alone, linger 100 ms",
        whole(alone(few)),
        &format!("goal: {}", whole(PER_EVENT)),
    )?;
    row(
        "instructions per kernel event alone, linger 5 ms",
        whole(alone(here)),
        &format!("goal: {}", whole(PER_EVENT)),
    )?;

    pipeline("gatekeeper", GATEKEEPER, "decoding included")?;
    pipeline("Flink job", JOB, "work on it included")?;
    pipeline("windows job", WINDOWS, "gatekeeper and clean job too")?;

    // Windows that end at about 10^4, 10^5 and 10^6 events.
    let mut windows = vec![("10^4", [1, 2]), ("10^5", [18, 20])];
    if full {
        windows.push(("10^6", [204, 208]));
    }
    for (name, seconds) in windows {
        let window = between("loop", thin, seconds)?;
        row(
            &format!("instructions per kernel event at about {name} events"),
            whole(window.per_event()),
            "within 20 %",
        )?;
    }
    Ok(())
}

/// What a pipeline costs, an event and a record-hop.
fn pipeline(name: &str, scenario: &'static str, with: &str) -> Result<(), String> {
    let load = Load { scenario, rate: 1000, linger_ms: 20, seconds: 0 };
    let few = between("loop", load, [6, 14])?;
    let many = between("loop", Load { rate: 4000, ..load }, [6, 14])?;
    let per_hop = (many.instructions * few.events - few.instructions * many.events)
        / (many.hops * few.events - few.hops * many.events);
    let alone = (few.instructions - per_hop * few.hops) / few.events;
    row(&format!("{name}, 1,000 events/s: instructions per kernel event, hops included"), whole(few.per_event()), "")?;
    row(&format!("{name}: instructions per record-hop, {with}"), whole(per_hop), "")?;
    row(&format!("{name}: instructions per kernel event alone"), whole(alone), "")
}

/// A whole number with commas.
fn whole(n: f64) -> String {
    let digits = format!("{n:.0}");
    let mut text = String::new();
    for (i, c) in digits.chars().enumerate() {
        let left = digits.len() - i;
        if i > 0 && left.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(c);
    }
    text
}
