//! What the commands ask of the part that runs worlds.

use super::{Exit, Failure, Host, SetArguments};
use crate::host::{self, Drive};
use crate::run::{Finished, Plant, Run, Shuffle, finish};
use crate::scenario::Loaded;
use crate::show::{Filter, Line, Outcome, first_difference, with_view};
use crate::world::{Item, Lifecycle, NoLifecycle, Recorder};
use clap::ValueEnum as _;
use model::base::Nanos;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// One run: of what, by what, and what is done to it that must not matter.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The scenario.
    pub loaded: &'a Loaded,
    /// The seed.
    pub seed: u64,
    /// What drives it.
    pub host: host::Host,
    /// Another permutation of the ghosts.
    pub shuffle: Option<u64>,
    /// A nondeterminism, to prove that it is found.
    pub plant: Option<Plant>,
}
impl<'a> Task<'a> {
    /// A plain run.
    pub fn new(loaded: &'a Loaded, seed: u64, host: host::Host) -> Self {
        Self { loaded, seed, host, shuffle: None, plant: None }
    }
    fn begin(&self, seed: u64) -> Result<Run, Failure> {
        let scenario = Arc::new(self.loaded.scenario.clone());
        let mut run = Run::new(&scenario, seed).map_err(|e| Failure::usage(&e))?;
        if let Some(plant) = self.plant {
            run.plant(plant);
        }
        if let Some(key) = self.shuffle {
            run.shuffle_ghosts(Shuffle::new(key));
        }
        Ok(run)
    }
}

/// Simulated seconds, first and last.
type Seconds = (u64, u64);
/// Who is handed the items of a trace.
type Sink<'a> = &'a mut dyn FnMut(&Run, &Item);

/// What a run tells of itself to whoever compares it with another, perhaps in another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Links of the digest chain, one a simulated second, in hexadecimal.
    pub chain: Vec<String>,
    /// Digest of the outcome, but for the name of the host.
    pub outcome: String,
    /// The trace of the seconds that were asked for.
    pub items: Vec<Line>,
}
impl Report {
    fn of(run: &mut Run, finished: &Finished) -> Self {
        let outcome = Outcome { host: String::new(), ..finished.outcome.clone() };
        let json = serde_json::to_vec(&outcome).expect("an outcome is JSON");
        let items = run.world.take_recorded();
        Self {
            chain: finished.digest.seconds.iter().map(|link| format!("{link:016x}")).collect(),
            outcome: format!("{:016x}", xxh3_64(&json)),
            items: items.iter().map(|i| Line::new(i, run)).collect(),
        }
    }
    /// The run's identity.
    pub fn identity(&self) -> &str {
        self.chain.last().map_or("", String::as_str)
    }
}

/// Two runs side by side.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Of the first run.
    pub left: Outcome,
    /// Of the second.
    pub right: Outcome,
    /// The first event that differs, with the causes of both sides; `None` if the chains are equal.
    pub difference: Option<String>,
}
/// A replay: the run here in the loop, and in a child process on the other host.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The outcome.
    pub outcome: Outcome,
    /// What differs: links of the chain, or the outcome; the first event that does if there is one.
    pub difference: Option<String>,
}

/// The host that was asked for, else the best that is there.
///
/// # Errors
/// If it was not built in.
pub fn host_of(host: Option<Host>) -> Result<host::Host, Failure> {
    match host {
        Some(Host::Madsim) if !cfg!(madsim) => {
            Err(Failure::usage("only the loop host is built in: build with `--cfg madsim` in RUSTFLAGS for the other"))
        }
        Some(Host::Loop) => Ok(host::Host::Loop),
        Some(Host::Madsim) => Ok(host::Host::Madsim),
        None => Ok(host::Host::default_host()),
    }
}

/// Hands on the trace as the run goes, so that it need not be kept.
struct Watched<'r, 's> {
    run: &'r mut Run,
    sink: Sink<'s>,
    /// From before the scenario's time zero: only then it shows when they were.
    early: Vec<Item>,
}
impl Drive for Watched<'_, '_> {
    fn turn(&mut self, life: &mut dyn Lifecycle) -> bool {
        let goes_on = self.run.turn(life);
        let items = self.run.world.take_recorded();
        if !self.run.has_begun() {
            self.early.extend(items);
            return goes_on;
        }
        for item in self.early.drain(..).chain(items) {
            (self.sink)(self.run, &item);
        }
        goes_on
    }
}

/// What is kept of a run's trace.
enum Keep<'a> {
    Nothing,
    Seconds(Seconds),
    Stream(Sink<'a>),
}

/// A run from begin to end.
fn complete(task: Task<'_>, keep: Keep<'_>) -> Result<(Run, Finished), Failure> {
    let mut run = task.begin(task.seed)?;
    match keep {
        Keep::Nothing => task.host.drive(&mut run, task.seed),
        Keep::Seconds((from, to)) => {
            run.record(Recorder::new(from, to));
            task.host.drive(&mut run, task.seed);
        }
        Keep::Stream(sink) => {
            run.record(Recorder::new(0, u64::MAX));
            task.host.drive(&mut Watched { run: &mut run, sink, early: Vec::new() }, task.seed);
        }
    }
    if let Some(error) = run.error() {
        return Err(Failure::usage(error));
    }
    let finished = finish(&mut run, task.loaded, task.host);
    Ok((run, finished))
}

/// Runs a scenario once.
///
/// # Errors
/// If the run cannot go on (an events file with a bad line), or the host was not built in.
pub fn run(loaded: &Loaded, seed: u64, host: Option<Host>) -> Result<Outcome, Failure> {
    Ok(complete(Task::new(loaded, seed, host_of(host)?), Keep::Nothing)?.1.outcome)
}

/// Runs a scenario once; its trace goes where `trace` says.
///
/// # Errors
/// As [`run`]; or the trace cannot be written.
pub fn traced(task: Task<'_>, trace: &super::TraceArguments) -> Result<Outcome, Failure> {
    let mut file = match &trace.trace_json {
        Some(path) => {
            let file = std::fs::File::create(path);
            Some(std::io::BufWriter::new(file.map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?))
        }
        None => None,
    };
    // The filter says what goes into the file, too; alone, the file gets everything.
    let filter = trace.trace.clone().unwrap_or_else(Filter::all);
    filter.check(&task.begin(task.seed)?).map_err(Failure::usage)?;
    let mut failed = None;
    let outcome = with_view(|log| {
        let mut sink = |run: &Run, item: &Item| {
            if !filter.shows(run, item) {
                return;
            }
            if trace.trace.is_some() {
                log(run, item);
            }
            if let Some(file) = file.as_mut().filter(|_| failed.is_none()) {
                let line = Line::new(item, run);
                let written = serde_json::to_writer(&mut *file, &line).map_err(std::io::Error::from);
                failed = written.and_then(|()| writeln!(file)).err();
            }
        };
        complete(task, Keep::Stream(&mut sink)).map(|(_, finished)| finished.outcome)
    })?;
    if let Some(mut file) = file {
        failed = failed.or(file.flush().err());
    }
    failed.map_or(Ok(outcome), |e| Err(e.into()))
}

/// A run, told as a [`Report`], with the trace of some seconds if they are asked for.
///
/// # Errors
/// As [`run`].
pub fn report(task: Task<'_>, seconds: Option<Seconds>) -> Result<(Report, Outcome), Failure> {
    let (mut run, finished) = complete(task, seconds.map_or(Keep::Nothing, Keep::Seconds))?;
    Ok((Report::of(&mut run, &finished), finished.outcome))
}

/// The first simulated second in which two chains differ.
fn parting(left: &Report, right: &Report) -> Option<u64> {
    let both = left.chain.len().max(right.chain.len());
    (0..both).find(|i| left.chain.get(*i) != right.chain.get(*i)).map(|i| i as u64)
}

/// Runs both sides again, keeps the trace of the second in which they parted, and tells the first event that differs. What
/// is not deterministic may part elsewhere the next time: then that second is looked at, and in the end every second.
fn explain(
    names: [&str; 2],
    second: u64,
    again: &mut dyn FnMut(Seconds) -> Result<(Report, Report), Failure>,
) -> Result<String, Failure> {
    const TRIES: u32 = 4;
    let mut second = second;
    for n in 0..=TRIES {
        // The second before as well: causes often lie there.
        let kept = if n == TRIES { (0, u64::MAX) } else { (second.saturating_sub(1), second) };
        let (left, right) = again(kept)?;
        match parting(&left, &right) {
            Some(at) if (kept.0..=kept.1).contains(&at) => {
                if let Some(text) = first_difference(names, &left.items, &right.items) {
                    return Ok(format!("the chains part in simulated second {at}; {text}"));
                }
            }
            Some(at) => second = at,
            None => {}
        }
    }
    Ok(format!("the chains parted in simulated second {second}, but not again when both sides ran once more"))
}

/// Runs two scenarios and finds the first event that differs.
///
/// # Errors
/// As [`run`].
pub fn compare(left: Task<'_>, right: Task<'_>) -> Result<Compared, Failure> {
    let ((a, left_outcome), (b, right_outcome)) = (report(left, None)?, report(right, None)?);
    let difference = parting(&a, &b).map(|second| {
        explain(["left", "right"], second, &mut |kept| Ok((report(left, Some(kept))?.0, report(right, Some(kept))?.0)))
    });
    Ok(Compared { left: left_outcome, right: right_outcome, difference: difference.transpose()? })
}

/// The run of a task in a child process: nothing that this process keeps reaches it.
struct Child(std::process::Child);
impl Child {
    fn spawn(which: &str, set: &SetArguments, task: Task<'_>, seconds: Option<Seconds>) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["chain", "--seed", &task.seed.to_string(), "--host", task.host.name()]);
        command.args(set.set.iter().map(|s| format!("--set={s}")));
        if let Some(plant) = task.plant.and_then(|p| p.to_possible_value()) {
            command.args(["--plant", plant.get_name()]);
        }
        if let Some(key) = task.shuffle {
            command.args(["--shuffle-ghosts", &key.to_string()]);
        }
        if let Some((from, to)) = seconds {
            command.args(["--items-from", &from.to_string(), "--items-to", &to.to_string()]);
        }
        command.args(["--", which]).stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(Self(command.spawn()?))
    }
    fn report(self) -> Result<Report, Failure> {
        let output = self.0.wait_with_output()?;
        if !output.status.success() {
            return Err(Failure::internal(format!("the run in the child process failed ({})", output.status)));
        }
        serde_json::from_slice(&output.stdout).map_err(|e| Failure::internal(format!("the child's report: {e}")))
    }
}

/// Leaves in this process what a run may leave behind: a few simulated seconds of another seed. A static or a cache that
/// survives a run then shows as a difference from the child process, which comes fresh.
fn leave_traces(task: Task<'_>) -> Result<(), Failure> {
    const WORK: Nanos = Nanos::millis(2000);
    let mut run = task.begin(!task.seed)?;
    while run.turn(&mut NoLifecycle) && !(run.has_begun() && run.world.now() > run.origin + WORK) {}
    Ok(())
}

/// Runs a scenario in the loop here, after another run and under its true ledger numbers, and on `host` in a child process,
/// fresh and under shuffled ones; compares chains link by link, and outcomes.
///
/// # Errors
/// As [`run`]; or the child cannot be run.
pub fn replay(
    which: &str,
    set: &SetArguments,
    loaded: &Loaded,
    seed: u64,
    host: host::Host,
    plant: Option<Plant>,
) -> Result<Replayed, Failure> {
    let here = Task { plant, ..Task::new(loaded, seed, host::Host::Loop) };
    let there = Task { host, shuffle: Some(seed), ..here };
    let both = |seconds: Option<Seconds>| {
        let child = Child::spawn(which, set, there, seconds)?;
        let here = leave_traces(here).and_then(|()| report(here, seconds));
        // The child is waited for also when this side failed.
        let there = child.report();
        let (here, outcome) = here?;
        Ok::<_, Failure>((here, there?, outcome))
    };
    let (a, b, mut outcome) = both(None)?;
    let names = ["loop host, this process".to_owned(), format!("{} host, child process", host.name())];
    let difference = match parting(&a, &b) {
        Some(second) => Some(explain([&names[0], &names[1]], second, &mut |kept| {
            let (a, b, _) = both(Some(kept))?;
            Ok((a, b))
        })?),
        None if a.outcome != b.outcome => Some("the chains are equal, but the outcomes differ".into()),
        None => {
            // It is the outcome of both.
            outcome.host = host.name().into();
            None
        }
    };
    Ok(Replayed { outcome, difference })
}

/// For whoever looks at traces: the items of some seconds of a run.
///
/// # Errors
/// As [`run`].
pub fn trace(loaded: &Loaded, seed: u64, from: u64, to: u64) -> Result<Vec<Item>, Failure> {
    let (mut run, _) = complete(Task::new(loaded, seed, host::Host::Loop), Keep::Seconds((from, to)))?;
    Ok(run.world.take_recorded())
}

/// The status of a run that is not deterministic.
pub fn nondeterminism(difference: String) -> Failure {
    Failure::Other(Exit::Nondeterminism, difference)
}
