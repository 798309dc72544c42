//! Every crash point of a run: each effect of each node, killed once just before it, and restarted.

use crate::host::Host;
use crate::run::{Run, finish};
use crate::scenario::Loaded;
use crate::world::{CrashPoint, EffectKind};
use model::base::{ProcessId, SimTime};
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
}

/// The crash points of a run after its time zero.
fn points(loaded: &Loaded, seed: u64) -> Result<Vec<CrashPoint>, String> {
    let scenario = Arc::new(loaded.scenario.clone());
    let mut run = Run::new(&scenario, seed).map_err(|e| e.to_string())?;
    let mut before = Vec::new();
    while !run.has_begun() {
        crate::host::Drive::turn(&mut run, &mut crate::world::NoLifecycle);
    }
    let nodes: Vec<ProcessId> = run.stage.nodes.values().copied().collect();
    before.extend(nodes.iter().map(|p| *run.world.effects_of(*p)));
    let until = run.origin;
    Host::Loop.drive(&mut run, seed);
    debug_assert!(run.world.now() > until);
    let mut all = Vec::new();
    for (process, start) in nodes.iter().zip(before) {
        let end = *run.world.effects_of(*process);
        for kind in EffectKind::ALL.into_iter().filter(|k| k.is_real()) {
            let range = start[kind as usize]..end[kind as usize];
            all.extend(range.map(|nth| CrashPoint { process: *process, kind, nth }));
        }
    }
    Ok(all)
}

/// Runs the scenario once for each crash point (every `step`th): the node is killed there and started again after
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
    let all: Vec<CrashPoint> = points(loaded, seed)?.into_iter().step_by(step.max(1)).collect();
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
                    let alarm = try_point(&own, loaded, seed, point, restart_ms);
                    if let Some(text) = alarm {
                        found.lock().expect("no thread panics while it holds this").push((i, point, text));
                    }
                    progress(i + 1, all.len());
                }
            });
        }
    });
    let mut alarms = found.into_inner().expect("no thread panics while it holds this");
    alarms.sort_by_key(|(i, ..)| *i);
    Ok(CrashSweep {
        points: all.iter().map(|p| (p.process, p.kind, p.nth)).collect(),
        alarms: alarms.into_iter().map(|(_, p, t)| (p, t)).collect(),
    })
}

fn try_point(base: &Run, loaded: &Loaded, seed: u64, point: CrashPoint, restart_ms: u64) -> Option<String> {
    let outcome = std::panic::catch_unwind(|| {
        let mut run = base.clone();
        run.crash_once(point, SimTime(restart_ms * 1_000_000));
        Host::Loop.drive(&mut run, seed);
        let finished = finish(&mut run, loaded, Host::Loop);
        finished.findings.alarms().next().map(|v| format!("{} ({}): {}", v.law, v.rule, v.text))
    });
    match outcome {
        Ok(alarm) => alarm,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Some(format!(
                "panic: {}",
                text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).into())).unwrap_or_default()
            ))
        }
    }
}
