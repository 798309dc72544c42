//! One scenario over many seeds. Runs are spread over threads, never one run over two; results come together in the order
//! of the seeds, so that the number of threads changes nothing.

use crate::host::{Drive, Host};
use crate::judge::Coverage;
use crate::run::factors::{Factors, Watch};
use crate::run::{Finished, Run, finish};
use crate::scenario::Loaded;
use crate::show::outcome::{Outcome, Verdict};
use crate::world::NoLifecycle;
use model::base::Chain;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What is kept of one run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Its seed.
    pub seed: u64,
    /// What it came to.
    pub outcome: Outcome,
    /// Findings by (law, rule, excuse or ""), counted.
    pub findings: BTreeMap<(String, String, String), u64>,
    /// Whether a law raised what no rule excuses.
    pub alarm: Option<String>,
    /// What occurred.
    pub coverage: Coverage,
    /// In what it differs from others, if that is asked.
    pub factors: Factors,
    /// Why there is no outcome.
    pub error: Option<String>,
}

/// Something measured over seeds, in order of size.
#[derive(Clone, Debug, Default)]
pub struct Series(Vec<i64>);
impl FromIterator<i64> for Series {
    fn from_iter<I: IntoIterator<Item = i64>>(values: I) -> Self {
        let mut sorted: Vec<i64> = values.into_iter().collect();
        sorted.sort_unstable();
        Self(sorted)
    }
}
impl Series {
    /// How many were measured.
    pub const fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is nothing.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// What `per_mille` of them do not exceed, by nearest rank; the smallest for 0. `None` when empty.
    pub fn percentile(&self, per_mille: usize) -> Option<i64> {
        let rank = (self.0.len() * per_mille).div_ceil(1000).max(1);
        self.0.get(rank - 1).copied()
    }
    /// (smallest, median, largest); `None` when empty.
    pub fn spread(&self) -> Option<(i64, i64, i64)> {
        Some((self.percentile(0)?, self.percentile(500)?, self.percentile(1000)?))
    }
}

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Each run, in the order of the seeds.
    pub runs: Vec<Summary>,
    /// Everything that occurred.
    pub coverage: Coverage,
}
impl Sweep {
    /// One digest for all runs.
    pub fn digest(&self) -> String {
        let mut chain = Chain::new(self.runs.len() as u64);
        for run in &self.runs {
            chain.u64(run.seed);
            chain.bytes(run.outcome.digest.as_bytes());
        }
        format!("{:016x}", chain.link())
    }
    /// Runs whose expectations do not hold.
    pub fn violated(&self) -> impl Iterator<Item = &Summary> {
        self.runs.iter().filter(|r| r.outcome.verdict == Verdict::Violated)
    }
    /// Runs in which a law raised what no rule excuses, or that ended without an outcome.
    pub fn alarms(&self) -> impl Iterator<Item = (&Summary, &str)> {
        self.runs.iter().filter_map(|r| Some((r, r.alarm.as_deref().or(r.error.as_deref())?)))
    }
    /// Findings over all runs: (law, rule, excuse) to (findings, runs).
    pub fn findings(&self) -> BTreeMap<(String, String, String), (u64, u64)> {
        let mut all: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for (kind, n) in self.runs.iter().flat_map(|r| &r.findings) {
            let entry = all.entry(kind.clone()).or_default();
            entry.0 += n;
            entry.1 += 1;
        }
        all
    }
    /// The longest stall of each run by producer, in ms; runs without one count 0.
    pub fn longest_stalls(&self) -> BTreeMap<String, Series> {
        let mut all: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for run in &self.runs {
            let stalled = run.outcome.stalls.iter().filter_map(|s| s.place.split(' ').next());
            let names: BTreeSet<&str> = run.outcome.producers.keys().map(String::as_str).chain(stalled).collect();
            for name in names {
                let of = run.outcome.stalls.iter().filter(|s| s.place.split(' ').next() == Some(name));
                all.entry(name.to_owned()).or_default().push(of.map(|s| s.ms as i64).max().unwrap_or(0));
            }
        }
        all.into_iter().map(|(name, ms)| (name, ms.into_iter().collect())).collect()
    }
}

fn summarize(seed: u64, run: &Run, finished: Finished) -> Summary {
    let mut findings = BTreeMap::new();
    for ((law, rule), (_, alarms)) in &finished.findings.counts {
        if *alarms > 0 {
            *findings.entry(((*law).to_owned(), (*rule).to_owned(), String::new())).or_default() += alarms;
        }
    }
    for ((law, rule, excuse), n) in &finished.findings.excused {
        *findings.entry(((*law).to_owned(), (*rule).to_owned(), excuse.rules().to_owned())).or_default() += n;
    }
    let alarm = finished.findings.alarms().next().map(|v| format!("{} ({}): {}", v.law, v.rule, v.text));
    let coverage = run.seen.judge.coverage.clone();
    Summary { seed, outcome: finished.outcome, findings, alarm, coverage, factors: Factors::new(), error: None }
}

fn one(loaded: &Loaded, seed: u64, host: Host, watch: bool) -> Summary {
    let failed = |error: String| Summary {
        seed,
        outcome: Outcome::default(),
        findings: BTreeMap::new(),
        alarm: None,
        coverage: Coverage::default(),
        factors: Factors::new(),
        error: Some(error),
    };
    let scenario = Arc::new(loaded.scenario.clone());
    // A panic of the model is a finding like any other, of this seed.
    let result = std::panic::catch_unwind(|| {
        let mut run = Run::new(&scenario, seed).map_err(|e| e.to_string())?;
        let mut factors = Factors::new();
        if watch {
            let mut watch = Watch::begin(&mut run);
            while run.turn(&mut NoLifecycle) {
                watch.look(&run);
            }
            factors = watch.factors(&mut run);
        } else {
            host.drive(&mut run, seed);
        }
        if let Some(error) = run.error() {
            return Err(error.to_string());
        }
        let finished = finish(&mut run, loaded, host);
        Ok(Summary { factors, ..summarize(seed, &run, finished) })
    });
    match result {
        Ok(Ok(summary)) => summary,
        Ok(Err(error)) => failed(error),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            failed(format!("panic: {}", text.unwrap_or_else(|| "without a message".into())))
        }
    }
}

/// Runs `loaded` with every seed, on `threads` threads; `progress` is told how many are done.
pub fn sweep(loaded: &Loaded, seeds: &[u64], threads: usize, host: Host, progress: &(dyn Fn(usize) + Sync)) -> Sweep {
    spread(seeds, threads, progress, &|seed| one(loaded, seed, host, false))
}
/// The same in the loop, and in what each run differs from the others.
pub fn sweep_watched(loaded: &Loaded, seeds: &[u64], threads: usize, progress: &(dyn Fn(usize) + Sync)) -> Sweep {
    spread(seeds, threads, progress, &|seed| one(loaded, seed, Host::Loop, true))
}
// Threads here each run whole simulations; nothing simulated sees them.
#[allow(clippy::disallowed_methods)]
fn spread(
    seeds: &[u64],
    threads: usize,
    progress: &(dyn Fn(usize) + Sync),
    one: &(dyn Fn(u64) -> Summary + Sync),
) -> Sweep {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(seeds.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(seed) = seeds.get(i) else { return };
                    let summary = one(*seed);
                    let mut done = done.lock().expect("no thread panics while it holds this");
                    done.push((i, summary));
                    progress(done.len());
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panics while it holds this");
    done.sort_by_key(|(i, _)| *i);
    let runs: Vec<Summary> = done.into_iter().map(|(_, s)| s).collect();
    let mut coverage = Coverage::default();
    runs.iter().for_each(|r| coverage.add(&r.coverage));
    Sweep { runs, coverage }
}
