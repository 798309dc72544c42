//! What the commands ask of the part that runs worlds.

use super::{Exit, Failure, Host};
use crate::host;
use crate::run::{Finished, Run, finish};
use crate::scenario::Loaded;
use crate::show::Outcome;
use crate::world::{Item, Recorder};
use std::sync::Arc;

/// A replay: the run on every host that was built in.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The outcome.
    pub outcome: Outcome,
    /// Whether all chains are equal, and the first difference if not.
    pub difference: Option<String>,
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

fn host_of(host: Option<Host>) -> host::Host {
    match host {
        Some(Host::Loop) => host::Host::Loop,
        Some(Host::Madsim) => host::Host::Madsim,
        None => host::Host::default_host(),
    }
}

/// A run from begin to end.
fn complete(
    loaded: &Loaded,
    seed: u64,
    host: host::Host,
    recorder: Option<Recorder>,
) -> Result<(Run, Finished), Failure> {
    let scenario = Arc::new(loaded.scenario.clone());
    let bad_line = |e: &crate::workload::LineError| Failure::Other(Exit::Usage, e.to_string());
    let mut run = Run::new(&scenario, seed).map_err(|e| bad_line(&e))?;
    if let Some(recorder) = recorder {
        run.record(recorder);
    }
    host.drive(&mut run, seed);
    if let Some(error) = run.error() {
        return Err(bad_line(error));
    }
    let finished = finish(&mut run, loaded, host);
    Ok((run, finished))
}

/// Runs a scenario once.
///
/// # Errors
/// If the run cannot go on (an events file with a bad line).
pub fn run(loaded: &Loaded, seed: u64, host: Option<Host>) -> Result<Outcome, Failure> {
    Ok(complete(loaded, seed, host_of(host), None)?.1.outcome)
}

/// The first simulated second in which two chains differ.
fn first_difference(left: &[u64], right: &[u64]) -> Option<u64> {
    let both = left.len().max(right.len());
    (0..both).find(|i| left.get(*i) != right.get(*i)).map(|i| i as u64)
}

/// Runs a scenario on both hosts and compares every link of their chains.
///
/// # Errors
/// As [`run`].
pub fn replay(loaded: &Loaded, seed: u64, host: Option<Host>) -> Result<Replayed, Failure> {
    let (_, here) = complete(loaded, seed, host::Host::Loop, None)?;
    let (_, there) = complete(loaded, seed, host_of(host), None)?;
    let second = first_difference(&here.digest.seconds, &there.digest.seconds);
    let difference = match second {
        None => None,
        Some(second) => Some(explain((loaded, seed, host::Host::Loop), (loaded, seed, host_of(host)), second)?),
    };
    Ok(Replayed { outcome: there.outcome, difference })
}

/// Runs two scenarios and finds the first event that differs.
///
/// # Errors
/// As [`run`].
pub fn compare(left: (&Loaded, u64), right: (&Loaded, u64), host: Option<Host>) -> Result<Compared, Failure> {
    let host = host_of(host);
    let (_, a) = complete(left.0, left.1, host, None)?;
    let (_, b) = complete(right.0, right.1, host, None)?;
    let difference = match first_difference(&a.digest.seconds, &b.digest.seconds) {
        None => None,
        Some(second) => Some(explain((left.0, left.1, host), (right.0, right.1, host), second)?),
    };
    Ok(Compared { left: a.outcome, right: b.outcome, difference })
}

/// Runs both again, keeps the trace of the second in which they part, and tells the first item that differs.
fn explain(
    left: (&Loaded, u64, host::Host),
    right: (&Loaded, u64, host::Host),
    second: u64,
) -> Result<String, Failure> {
    // The second before as well: causes often lie there.
    let recorder = || Some(Recorder::new(second.saturating_sub(1), second));
    let (a, _) = complete(left.0, left.1, left.2, recorder())?;
    let (b, _) = complete(right.0, right.1, right.2, recorder())?;
    Ok(crate::show::first_difference(a.world.recorded(), b.world.recorded(), second))
}

/// For whoever looks at traces: the items of some seconds of a run.
///
/// # Errors
/// As [`run`].
pub fn trace(loaded: &Loaded, seed: u64, recorder: Recorder) -> Result<Vec<Item>, Failure> {
    Ok(complete(loaded, seed, host::Host::Loop, Some(recorder))?.0.world.take_recorded())
}
