//! The end of a run: the laws settle, the outcome is made.

use super::{Run, evidence};
use crate::cli::reproduce;
use crate::host::Host;
use crate::judge::{Account, Findings, LayerCount, Stalls};
use crate::scenario::Loaded;
use crate::show::outcome::{
    Expected, FaultDone, Freshness, Layer, Ledger, Liveness, Outcome, Producer, SCHEMA, Stall, Transactions, Verdict,
    Violation, Work,
};
use crate::world::Digest;
use model::actor::Actor;
use model::base::SimTime;
use std::collections::BTreeMap;

/// A run that is over.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What it came to.
    pub outcome: Outcome,
    /// What the laws found.
    pub findings: Findings,
    /// Its digest, one link a second.
    pub digest: Digest,
}

/// Settles the laws and makes the outcome.
pub fn finish(run: &mut Run, loaded: &Loaded, host: Host) -> Finished {
    let identity = run.world.finish();
    run.seen.judge.coverage.settle();
    let mut judge = run.seen.judge.clone();
    let findings = judge.settle(&evidence::gather(run));
    let ms = |at: SimTime| at.since(run.origin).0 / 1_000_000;
    let mut outcome = Outcome {
        schema: SCHEMA,
        scenario: run.scenario.name.clone(),
        set: loaded.set.clone(),
        seed: run.seed,
        host: host.name().into(),
        digest: format!("{identity:016x}"),
        simulated_ms: ms(run.world.now()),
        assumptions: run.scenario.assumptions.clone(),
        fixes: fixes(run),
        work: Work {
            kernel_events: run.world.work.kernel_events,
            record_hops: run.world.work.record_hops,
            messages: run.world.work.messages,
            bytes: run.world.work.bytes,
        },
        ledger: ledger(run),
        layers: judge.layer.counts.iter().map(|(name, c)| (name.clone(), layer(run, name, c))).collect(),
        producers: producers(run),
        stalls: stalls(run, &judge.stalls),
        liveness: liveness(run, &findings),
        freshness_ms: freshness(run),
        faults: run
            .faults()
            .log()
            .iter()
            .map(|f| FaultDone {
                at_ms: ms(f.at),
                what: format!("{} {}", f.what, f.phase.name()),
                target: f.target.clone(),
            })
            .collect(),
        alarms: findings.counts.values().map(|(_, alarms)| alarms).sum(),
        violations: violations(&findings, &ms),
        reproduce: reproduce(&run.scenario.name, run.seed, &loaded.set),
        ..Outcome::default()
    };
    let json = serde_json::to_value(&outcome).expect("an outcome is JSON");
    outcome.expectations = run.scenario.expectations.iter().map(|e| e.check(&json)).collect::<Vec<Expected>>();
    outcome.verdict = if outcome.expectations.iter().all(|e| e.holds) { Verdict::Holds } else { Verdict::Violated };
    Finished { outcome, findings, digest: run.world.digest().clone() }
}

fn fixes(run: &Run) -> String {
    let missing: Vec<_> = run.scenario.fixes.missing().map(|f| f.name).collect();
    let base = "kafka 4.3.1, librdkafka 2.16.0";
    if missing.is_empty() { base.into() } else { format!("{base}, without {}", missing.join(", ")) }
}
fn ledger(run: &Run) -> Ledger {
    use crate::judge::Sent;
    let ledger = &run.seen.judge.ledger;
    let mut l = Ledger { events: u64::from(ledger.len()), ..Ledger::default() };
    let mut by_flags = [0; 256];
    for (_, chunk) in ledger.chunks() {
        chunk.iter().for_each(|sent| by_flags[usize::from(sent.flags)] += 1);
    }
    for (flags, n) in (0..=u8::MAX).zip(by_flags) {
        let has = |flag: u8| if flags & flag != 0 { n } else { 0 };
        l.poison += has(Sent::POISON);
        l.late += has(Sent::LATE);
        l.out_of_order += has(Sent::OUT_OF_ORDER);
        l.resent += has(Sent::RESENT);
        l.on_time += n - has(Sent::POISON | Sent::LATE);
    }
    l
}
fn layer(run: &Run, name: &str, c: &LayerCount) -> Layer {
    let reader = run.cast.readers.iter().find(|r| r.name == name);
    let isolation = reader.map_or("log", |r| if r.committed { "read_committed" } else { "read_uncommitted" });
    Layer {
        isolation: isolation.into(),
        rows: c.rows,
        unique: c.unique,
        missing: c.missing,
        unexpected: c.unexpected,
        duplicates: c.duplicates,
        poison: c.poison,
        exact: c.exact(),
    }
}
fn producers(run: &Run) -> BTreeMap<String, Producer> {
    let apps = run.scenario.applications.iter().zip(&run.stage.applications);
    let transactional = apps.flat_map(|(app, instances)| instances.iter().map(|_| app.transaction.is_some()));
    let producer = |((name, number), transactional): ((&String, u16), bool)| {
        let Account { acknowledged, failed, retries, fatal, fatal_errors, forgotten, committed, aborted, unknown } =
            run.seen.judge.tally.of(number);
        let fatal_errors = fatal_errors.into_iter().map(|(code, n)| (code.to_string(), n)).collect();
        let transactions = transactional.then_some(Transactions {
            committed: committed.transactions,
            rows_committed: committed.rows,
            aborted: aborted.transactions,
            rows_aborted: aborted.rows,
            unknown: unknown.transactions,
            rows_unknown: unknown.rows,
        });
        let failed_sends = failed;
        (name.clone(), Producer { failed_sends, retries, acknowledged, fatal, fatal_errors, forgotten, transactions })
    };
    let mut all: BTreeMap<_, _> = run.cast.producers.iter().zip(0..).zip(transactional).map(producer).collect();
    for (gatekeeper, instances) in run.scenario.gatekeepers.iter().zip(&run.stage.gatekeepers) {
        for (n, process) in instances.iter().enumerate() {
            let many = instances.len() > 1;
            let name = if many { format!("{}-{n}", gatekeeper.name) } else { gatekeeper.name.clone() };
            let counters = run.world.process(*process).and_then(Actor::gatekeeper).map(|g| g.counters());
            let c = counters.unwrap_or_default();
            let acknowledged = c.committed;
            all.insert(name, Producer { acknowledged, retries: c.aborted, fatal: c.restarts, ..Producer::default() });
        }
    }
    all
}
fn stalls(run: &Run, stalls: &Stalls) -> Vec<Stall> {
    let ms = |at: SimTime| at.since(run.origin).0 / 1_000_000;
    stalls
        .stalls
        .iter()
        .map(|s| Stall {
            from_ms: ms(s.from),
            to_ms: ms(s.to),
            ms: s.length().0 / 1_000_000,
            place: format!(
                "{} {}/{}",
                run.cast.producers[usize::from(s.producer)],
                run.topics[usize::from(s.tp.topic.0)].name,
                s.tp.partition
            ),
            why: why(run, s.from, s.to),
        })
        .collect()
}
/// The fault that was on when a stall began, or began while it lasted.
fn why(run: &Run, from: SimTime, to: SimTime) -> String {
    let log = run.faults().log();
    let during =
        log.iter().rev().find(|f| f.at <= to && f.at >= from).or_else(|| log.iter().rev().find(|f| f.at <= from));
    during.map_or_else(|| "no fault".into(), |f| format!("{} of {}", f.what, f.target))
}
fn liveness(run: &Run, findings: &Findings) -> BTreeMap<String, Liveness> {
    let mut checks =
        vec!["producer-gave-up", "leaderless", "high-watermark-stands", "not-in-sync", "reader-behind", "fenced"];
    checks.extend((!run.scenario.gatekeepers.is_empty()).then_some("gatekeeper-behind"));
    checks
        .into_iter()
        .map(|check| {
            let found = findings.kept.iter().find(|v| v.law == "liveness" && v.rule == check);
            let detail = found.map(|v| v.text.clone()).unwrap_or_default();
            (check.to_owned(), Liveness { holds: found.is_none(), detail })
        })
        .collect()
}
fn freshness(run: &Run) -> BTreeMap<String, Freshness> {
    let each = run.cast.readers.iter().zip(&run.seen.latencies).zip(&run.seen.skews);
    each.map(|((r, l), s)| {
        let [p50, p99, max] = [500, 990, 1000].map(|rank| l.percentile(rank));
        let f = Freshness { p50, p99, max, skew_mean: s.mean_ms(), skew_max: s.max_ms };
        (r.name.clone(), f)
    })
    .collect()
}
fn violations(findings: &Findings, ms: &impl Fn(SimTime) -> u64) -> Vec<Violation> {
    findings
        .kept
        .iter()
        .map(|v| Violation {
            at_ms: ms(v.at),
            law: format!("{} ({})", v.law, v.rule),
            detail: v.text.clone(),
            by_rule: v.excuse.map(|e| e.rules().to_owned()).unwrap_or_default(),
        })
        .collect()
}
