//! The end of a run: the laws settle, the outcome is made.

use super::faults::Phase;
use super::seen::{Latencies, Skew};
use super::{Run, evidence};
use crate::cli::reproduce;
use crate::host::Host;
use crate::judge::{
    Account, Alert, Billing, CAUSES, Checked, Evidence, Findings, Kept, LayerCount, Marked, Markings, Marks, Placed,
    Results, Scopes, Severity, Stalls, Wrong,
};
use crate::scenario::Loaded;
use crate::scenario::data::Workload;
use crate::show::outcome::{
    Aborts, Aggregate, BurnAlert, Check, Expected, FaultDone, Freshness, Job, Layer, Ledger, Liveness, Marking,
    ObjectiveKept, Outcome, Producer, Restart, SCHEMA, Scope, Stall, Transactions, Value, Verdict, Violation, Work,
    WrongResult,
};
use crate::world::Digest;
use model::actor::Actor;
use model::app::tenant_name;
use model::base::{SimTime, text_value};
use model::flink::runtime::ids::JobId;
use model::flink::runtime::job_manager::{JobMaster, JobState};
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
    let evidence = evidence::gather(run);
    let mut findings = judge.settle(&evidence);
    let mut results = judge.settle_results(&evidence, &mut findings);
    judge.layer.counts.append(&mut results.layers);
    let kept: Vec<_> = judge.freshness.settle(&evidence).into_iter().map(|(o, kept)| (o.name.clone(), kept)).collect();
    judge.layer.counts.append(&mut judge.stored.counts);
    results.values.append(&mut judge.stored.values);
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
        aggregates: aggregates(run, &results),
        checks: results.checks.iter().map(|(name, c)| (name.clone(), check(c))).collect(),
        scopes: results.scopes.iter().map(|(name, s)| (name.clone(), scope(name, s, &results))).collect(),
        values: values(run, &results),
        jobs: jobs(run),
        restarts: restarts(run),
        producers: producers(run),
        stalls: stalls(run, &judge.stalls),
        pinned_ms: pinned(run),
        aborted_rows: aborted(run, &evidence),
        aborts: aborts(run),
        liveness: liveness(run, &findings),
        freshness_ms: freshness(run),
        objectives: kept.iter().map(|(name, kept)| (name.clone(), objective(run, kept))).collect(),
        markings: markings(run, &judge.markings, &results),
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
        reproduce: reproduce(&loaded.which, run.seed, &loaded.set),
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
    let lake = run.scenario.lakes.iter().any(|l| l.name == name);
    let table = lake || run.scenario.tables.iter().any(|t| t.name == name);
    let stored = run.scenario.clickhouse.iter().flat_map(|c| &c.tables);
    let stored = stored.map(|t| t.name.as_str()).any(|t| name == t || name.strip_suffix("-final") == Some(t));
    let isolation = reader.map_or(if table || stored { "table" } else { "log" }, |r| {
        if r.committed { "read_committed" } else { "read_uncommitted" }
    });
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
fn scope(name: &str, s: &Scopes, results: &Results) -> Scope {
    let rows = results.placed.get(name).map(|p| &p.by_rule);
    let given = s.readers.iter().filter_map(|reader| results.given_by_rule.get(reader));
    let mut by_rule: BTreeMap<String, u64> = BTreeMap::new();
    for (rule, n) in rows.into_iter().chain(given).flatten() {
        *by_rule.entry((*rule).to_owned()).or_default() += n;
    }
    Scope { state: s.state, sink: s.sink, reader: s.reader, overflows: s.overflows, by_rule }
}
fn check(c: &Checked) -> Check {
    let Checked { sql, windows, wrong, false_alarms, detected_ms, unseen } = c.clone();
    Check { sql, windows, wrong, false_alarms, detected_ms, unseen }
}
/// Windowed results.
fn aggregates(run: &Run, results: &Results) -> BTreeMap<String, Aggregate> {
    let windowed = run.seen.judge.results.windowed();
    let aggregate = |p: &Placed| Aggregate {
        on_time_in_windows: p.on_time_in_windows,
        on_time_late: p.on_time_late,
        late_in_windows: p.late_in_windows,
        resent_in_windows: p.resent_in_windows,
        late_in_late: p.late_in_late,
        pending: p.pending,
        in_both: p.in_both,
        in_neither: p.in_neither,
        counted_twice: p.counted_twice,
        in_some: p.partial,
        unexpected: p.unexpected,
        refired: p.refired,
        held_back_ms: p.held_back_ms,
        exact: p.exact(),
        by_rule: p.by_rule.iter().map(|(rule, n)| ((*rule).to_owned(), *n)).collect(),
    };
    windowed.filter_map(|name| Some((name.to_owned(), aggregate(results.placed.get(name)?)))).collect()
}
/// How many wrong results of a reader stand in the outcome.
const FIRST_WRONG: usize = 10;
fn values(run: &Run, results: &Results) -> BTreeMap<String, Value> {
    // To find the texts again an events file is read once more: only where one is to be shown.
    let shows_keys = results.values.values().any(|b| !b.wrong.is_empty());
    let texts = if shows_keys { texts(run) } else { BTreeMap::new() };
    let wrong = |w: &Wrong| WrongResult {
        window_end: w.window_end,
        key: texts.get(&w.key).cloned().unwrap_or_else(|| w.key.to_string()),
        expected: w.expected,
        billed: w.billed,
        rows: w.rows,
    };
    let value = |b: &Billing| Value {
        expected: b.expected,
        billed: b.billed,
        difference: b.billed.saturating_sub(b.expected),
        wrong: b.wrong.len() as u64,
        first_wrong: b.wrong.iter().take(FIRST_WRONG).map(wrong).collect(),
    };
    results.values.iter().map(|(name, b)| (name.clone(), value(b))).collect()
}
/// The texts that columns number.
fn texts(run: &Run) -> BTreeMap<i64, String> {
    let mut texts = BTreeMap::new();
    for application in &run.scenario.applications {
        match &application.workload {
            Workload::EventsFile(file) if file.columns.iter().any(|c| c.column.text) => {
                texts.extend(crate::workload::texts(file).unwrap_or_default());
            }
            Workload::Gateway(g) => {
                let names = (0..u64::from(g.tenants.min(10_000))).map(tenant_name);
                texts.extend(names.map(|name| (text_value(&name), name)));
            }
            _ => {}
        }
    }
    texts
}
fn jobs(run: &Run) -> BTreeMap<String, Job> {
    let manager = run.stage.job_manager.and_then(|p| run.world.process(p)).and_then(Actor::job_manager);
    let one = |(job, number): (&crate::scenario::data::Job, u16)| {
        let master = manager.and_then(|m| m.job(JobId(number)));
        let account = run.seen.judge.jobs.of(number);
        let state = match master.map(JobMaster::state) {
            None => "gone",
            // The state that it was to begin with was not to be had.
            Some(JobState::Created) if account.ended => "refused",
            // Not submitted; or forgotten by a JobManager without high availability.
            Some(JobState::Created) => "unknown",
            Some(JobState::Scheduling) => "scheduling",
            Some(JobState::Running) => "running",
            Some(JobState::Restarting { .. }) => "restarting",
            Some(JobState::Canceling) => "canceling",
            Some(JobState::Canceled) => "canceled",
            Some(JobState::Failed) => "failed",
            Some(JobState::Finished) => "finished",
        };
        let restarts = master.map_or(0, |m| u64::from(m.restarted));
        let checkpoint = master.and_then(|m| m.completed).map_or(0, |id| id.0.max(0) as u64);
        let [committed_lag, readable_lag] = evidence::committed_lag(run, job);
        let of = Job {
            state: state.into(),
            restarts,
            checkpoint,
            checkpoints_failed: account.failed,
            commits_dropped: account.commits_dropped,
            longest_checkpoint_ms: account.longest_checkpoint.0 / 1_000_000,
            longest_in_sink_ms: account.stood_ms.0,
            longest_source_stood_ms: account.stood_ms.1,
            offset_commits: account.offset_commits.0,
            offset_commits_failed: account.offset_commits.1,
            committed_lag,
            readable_lag,
            longest_down_ms: account.longest_down(run.world.now()).0 / 1_000_000,
        };
        (job.name.clone(), of)
    };
    run.scenario.jobs.iter().zip(0..).map(one).collect()
}
fn restarts(run: &Run) -> Vec<Restart> {
    let ms = |at: SimTime| at.since(run.origin).0 / 1_000_000;
    let of = |(job, number): (&crate::scenario::data::Job, u16)| {
        let downtimes = run.seen.judge.jobs.of(number).downtimes.into_iter();
        let name = job.name.clone();
        downtimes.map(move |d| Restart {
            at_ms: ms(d.at),
            job: name.clone(),
            why: CAUSES.get(usize::from(d.cause)).copied().unwrap_or_default().to_owned(),
            restored_ms: ms(d.until.unwrap_or(run.world.now())),
            checkpoint: d.restored.max(0) as u64,
        })
    };
    let mut all: Vec<_> = run.scenario.jobs.iter().zip(0..).flat_map(of).collect();
    all.sort_by_key(|r| r.at_ms);
    all
}
fn producers(run: &Run) -> BTreeMap<String, Producer> {
    let apps = run.scenario.applications.iter().zip(&run.stage.applications);
    let transactional = apps.flat_map(|(app, instances)| instances.iter().map(|_| app.transaction.is_some()));
    let tally = &run.seen.judge.tally;
    let of = |((name, number), transactional): ((&String, u16), bool)| {
        (name.clone(), producer(tally.of(number), transactional))
    };
    let mut all: BTreeMap<_, _> = run.cast.producers.iter().zip(0..).zip(transactional).map(of).collect();
    for (gatekeeper, instances) in run.scenario.gatekeepers.iter().zip(&run.stage.gatekeepers) {
        for (n, process) in instances.iter().enumerate() {
            let many = instances.len() > 1;
            let name = if many { format!("{}-{n}", gatekeeper.name) } else { gatekeeper.name.clone() };
            let account = tally.of_keeper(*process);
            let acknowledged = account.committed.rows;
            all.insert(name, producer(Account { acknowledged, ..account }, true));
        }
    }
    all
}
fn producer(account: Account, transactional: bool) -> Producer {
    let Account { acknowledged, failed, retries, fatal, fatal_errors, forgotten, committed, aborted, unknown } =
        account;
    let fatal_errors = fatal_errors.into_iter().map(|(code, n)| (code.to_string(), n)).collect();
    let transactions = transactional.then_some(Transactions {
        committed: committed.transactions,
        rows_committed: committed.rows,
        aborted: aborted.transactions,
        rows_aborted: aborted.rows,
        unknown: unknown.transactions,
        rows_unknown: unknown.rows,
    });
    Producer { failed_sends: failed, retries, acknowledged, fatal, fatal_errors, forgotten, transactions }
}
fn stalls(run: &Run, stalls: &Stalls) -> Vec<Stall> {
    let ms = |at: SimTime| at.since(run.origin).0 / 1_000_000;
    let stall = |from: SimTime, to: SimTime, place: String| Stall {
        from_ms: ms(from),
        to_ms: ms(to),
        ms: to.since(from).0 / 1_000_000,
        place,
        why: why(run, from, to),
    };
    let of_producers = stalls.stalls.iter().map(|s| {
        let producer = &run.cast.producers[usize::from(s.producer)];
        let topic = &run.topics[usize::from(s.tp.topic.0)].name;
        stall(s.from, s.to, format!("{producer} {topic}/{}", s.tp.partition))
    });
    let of_gatekeepers = stalls
        .of_gatekeepers
        .iter()
        .map(|(number, from, to)| stall(*from, *to, run.cast.gatekeepers[usize::from(*number)].0.clone()));
    of_producers.chain(of_gatekeepers).collect()
}
/// Whether somebody sends in transactions.
fn in_transactions(run: &Run) -> bool {
    let sends = || run.scenario.applications.iter().any(|a| a.transaction.is_some());
    !run.scenario.gatekeepers.is_empty() || sends() || run.cast.sinks_in_transactions
}
fn pinned(run: &Run) -> BTreeMap<String, u64> {
    let longest = run.seen.judge.pins.longest(run.world.now());
    let events = run.topics.iter().zip(0..).filter(|(t, _)| t.events && in_transactions(run));
    events.map(|(t, n)| (t.name.clone(), longest.get(&n).map_or(0, |d| d.0 / 1_000_000))).collect()
}
/// Rows that only readers of uncommitted data find, by topic.
fn aborted(run: &Run, end: &Evidence<'_>) -> BTreeMap<String, u64> {
    let hidden = |topic: u16| {
        let batches = end.partitions_of(topic).flat_map(|tp| end.readable(tp).1);
        batches.map(|entry| entry.batch.rows.len() as u64).sum()
    };
    let sends = !run.scenario.jobs.is_empty() || in_transactions(run);
    let events = run.topics.iter().zip(0..).filter(|(t, _)| t.events && sends);
    let all = events.map(|(t, n)| (t.name.clone(), hidden(n)));
    all.collect()
}
fn aborts(run: &Run) -> Option<Aborts> {
    let counted = run.seen.judge.tally.aborts;
    in_transactions(run).then_some(Aborts { client: counted.client, expiry: counted.expiry, init: counted.init })
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
    checks.extend((!run.scenario.jobs.is_empty()).then_some("job-behind"));
    checks.extend((!run.scenario.clickhouse.is_empty()).then_some("table-behind"));
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
    let happened = run.faults().log().iter().rev().find(|f| f.phase != Phase::Skipped);
    let calm = happened.map(|f| f.at.millis().0 as u64);
    let of = |l: &Latencies, s: &Skew| {
        let [p50, p99, max] = [500, 990, 1000].map(|rank| l.percentile(rank));
        let caught_up = calm.map_or(0, |instant| l.caught_up(instant));
        Freshness { events: l.len(), p50, p99, max, caught_up, skew_mean: s.mean_ms(), skew_max: s.max_ms }
    };
    let readers = run.cast.readers.iter().zip(&run.seen.latencies).zip(&run.seen.skews);
    let readers = readers.map(|((r, l), s)| (r.name.clone(), of(l, s)));
    let (none, apart) = (Latencies::default(), Skew::default());
    let stores = run.scenario.stores().zip(0..);
    let stores = stores.map(|(name, n)| (name.to_owned(), of(run.seen.stored.get(&n).unwrap_or(&none), &apart)));
    readers.chain(stores).collect()
}
fn markings(run: &Run, markings: &Markings, results: &Results) -> BTreeMap<String, Marking> {
    let now = run.world.now();
    let jobs = (0..run.scenario.jobs.len() as u16).flat_map(|job| run.seen.judge.jobs.of(job).downtimes);
    let restarts: Vec<_> = jobs.map(|d| d.at.millis().0..d.until.unwrap_or(now).millis().0).collect();
    let all = markings.settle(|name| results.placed.get(name), &restarts);
    let per_cent = |part: u64, of: u64| (part * 100).checked_div(of).unwrap_or(100);
    let one = |m: Marks| {
        let [all, restarts, old, late] = m.marked;
        let by = [("restarts", restarts), ("old", old), ("late", late)];
        Marking {
            windows: m.windows,
            wrong: m.wrong,
            marked: all.windows,
            right: all.right,
            precision: per_cent(all.right, all.windows),
            recall: per_cent(all.right, m.wrong),
            displaced: m.displaced,
            displaced_marked: m.displaced_marked,
            by: by.map(|(name, Marked { windows, right })| (name.to_owned(), [windows, right])).into(),
        }
    };
    all.into_iter().map(|(name, marks)| (name.to_owned(), one(marks))).collect()
}
fn objective(run: &Run, kept: &Kept) -> ObjectiveKept {
    // Times count from the run's own zero, as all do in an outcome.
    let own = |ms: u64| ms.saturating_sub(run.origin.millis().0 as u64);
    let many = |severity| kept.alerts.iter().filter(|a| a.rule.severity == severity).count() as u64;
    let alert = |a: &Alert| BurnAlert {
        severity: a.rule.severity.name().into(),
        window_h: a.rule.long_s / 3_600,
        from_ms: own(a.fired.start),
        to_ms: own(a.fired.end),
    };
    ObjectiveKept {
        events: kept.events,
        bad: kept.bad,
        alerts: kept.alerts.iter().map(alert).collect(),
        pages: many(Severity::Page),
        tickets: many(Severity::Ticket),
        first_eighth_p99_ms: kept.p99[0],
        last_eighth_p99_ms: kept.p99[1],
    }
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
