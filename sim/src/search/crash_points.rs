//! Every crash point of a run: each effect of each server (Kafka nodes, gatekeepers, JobManager, TaskManagers, ClickHouse),
//! killed once just before it, and restarted. What sends events is not killed: what it had not sent would be gone with it.

use crate::host::Host;
use crate::run::{Run, finish};
use crate::scenario::Loaded;
use crate::world::{CrashPoint, EffectKind};
use model::base::{ProcessId, SimTime};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a sweep over crash points found.
#[derive(Clone, Debug, Default)]
pub struct CrashSweep {
    /// Crash points tried, by process and kind of effect.
    pub points: Vec<(ProcessId, EffectKind, u64)>,
    /// Points at which a law raised an alarm, with what it said.
    pub alarms: Vec<(CrashPoint, String)>,
    /// Points at which expectations of the scenario did not hold, with the first of them.
    pub violated: Vec<(CrashPoint, String)>,
    /// What the processes are called.
    pub names: BTreeMap<ProcessId, String>,
}

/// The servers of a run.
fn servers(run: &Run) -> Vec<ProcessId> {
    let stage = &run.stage;
    let jobs = stage.job_manager.iter().chain(&stage.task_managers);
    let others = stage.gatekeepers.iter().flatten().chain(jobs).chain(&stage.clickhouse);
    stage.nodes.values().chain(others).copied().collect()
}

/// The crash points of a run after its time zero.
fn points(loaded: &Loaded, seed: u64) -> Result<(Vec<CrashPoint>, BTreeMap<ProcessId, String>), String> {
    let scenario = Arc::new(loaded.scenario.clone());
    let mut run = Run::new(&scenario, seed).map_err(|e| e.to_string())?;
    let mut before = Vec::new();
    while !run.has_begun() {
        crate::host::Drive::turn(&mut run, &mut crate::world::NoLifecycle);
    }
    let servers = servers(&run);
    before.extend(servers.iter().map(|p| *run.world.effects_of(*p)));
    let until = run.origin;
    Host::Loop.drive(&mut run, seed);
    debug_assert!(run.world.now() > until);
    let mut all = Vec::new();
    for (process, start) in servers.iter().zip(before) {
        let end = *run.world.effects_of(*process);
        for kind in EffectKind::ALL.into_iter().filter(|k| k.is_real()) {
            let range = start[kind as usize]..end[kind as usize];
            all.extend(range.map(|nth| CrashPoint { process: *process, kind, nth }));
        }
    }
    let names = servers.into_iter().map(|p| (p, run.name_of(p))).collect();
    Ok((all, names))
}

/// Runs the scenario once for each crash point (every `step`th): the server is killed there and started again after
/// `restart` ms. The runs are forks of one that stands at time zero.
///
/// # Errors
/// If the run cannot go on.
// Threads here each run whole simulations; nothing simulated sees them.
#[allow(clippy::disallowed_methods)]
pub fn crash_sweep(
    loaded: &Loaded,
    seed: u64,
    step: usize,
    restart_ms: u64,
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<CrashSweep, String> {
    let (all, names) = points(loaded, seed)?;
    let all: Vec<CrashPoint> = all.into_iter().step_by(step.max(1)).collect();
    let scenario = Arc::new(loaded.scenario.clone());
    let mut base = Run::new(&scenario, seed).map_err(|e| e.to_string())?;
    while !base.has_begun() {
        crate::host::Drive::turn(&mut base, &mut crate::world::NoLifecycle);
    }
    let base = base;
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            // A fork of its own for each thread: a world is cloned, not shared.
            let own = base.clone();
            let (all, next, found) = (&all, &next, &found);
            scope.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = all.get(i).copied() else { return };
                    let (alarm, violated) = try_point(&own, loaded, seed, point, restart_ms);
                    if alarm.is_some() || violated.is_some() {
                        let mut found = found.lock().expect("no thread panics while it holds this");
                        found.push((i, point, alarm, violated));
                    }
                    progress(i + 1, all.len());
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread panics while it holds this");
    found.sort_by_key(|(i, ..)| *i);
    Ok(CrashSweep {
        points: all.iter().map(|p| (p.process, p.kind, p.nth)).collect(),
        alarms: found.iter().filter_map(|(_, p, alarm, _)| Some((*p, alarm.clone()?))).collect(),
        violated: found.iter().filter_map(|(_, p, _, violated)| Some((*p, violated.clone()?))).collect(),
        names,
    })
}

/// What a law raised at a point, and the first expectation that did not hold.
fn try_point(
    base: &Run,
    loaded: &Loaded,
    seed: u64,
    point: CrashPoint,
    restart_ms: u64,
) -> (Option<String>, Option<String>) {
    let outcome = std::panic::catch_unwind(|| {
        let mut run = base.clone();
        run.crash_once(point, SimTime(restart_ms * 1_000_000));
        Host::Loop.drive(&mut run, seed);
        let finished = finish(&mut run, loaded, Host::Loop);
        let alarm = finished.findings.alarms().next().map(|v| format!("{} ({}): {}", v.law, v.rule, v.text));
        let broken = finished.outcome.expectations.iter().find(|e| !e.holds);
        (alarm, broken.map(|e| format!("{} is {}", e.text, e.actual)))
    });
    match outcome {
        Ok(found) => found,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).into()));
            (Some(format!("panic: {}", text.unwrap_or_default())), None)
        }
    }
}
