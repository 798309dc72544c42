//! What the commands ask of the part that runs worlds.

use super::{Exit, Failure, Host};
use crate::scenario::{Loaded, Scenario};
use crate::show::Outcome;

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

fn not_yet(scenario: &Scenario) -> Failure {
    Failure::Other(Exit::Internal, format!("running `{}`: this build has no kernel", scenario.name))
}

/// Runs a scenario once.
///
/// # Errors
/// If the run cannot go on (an events file with a bad line).
pub fn run(loaded: &Loaded, _seed: u64, _host: Option<Host>) -> Result<Outcome, Failure> {
    Err(not_yet(&loaded.scenario))
}
/// Runs a scenario on both hosts and compares every link of their chains.
///
/// # Errors
/// As [`run`].
pub fn replay(loaded: &Loaded, _seed: u64, _host: Option<Host>) -> Result<Replayed, Failure> {
    Err(not_yet(&loaded.scenario))
}
/// Runs two scenarios and finds the first event that differs.
///
/// # Errors
/// As [`run`].
pub fn compare(left: (&Loaded, u64), _right: (&Loaded, u64), _host: Option<Host>) -> Result<Compared, Failure> {
    Err(not_yet(&left.0.scenario))
}
