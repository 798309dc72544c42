//! Why events are where they are: every misplaced event has its explanation, and the explanation is what happened.

use sim::host::Host;
use sim::judge::Journey;
use sim::run::why::{Delayed, Until};
use sim::run::{Run, finish, why};
use sim::scenario::load;
use std::sync::Arc;

#[test]
fn every_misplaced_event_is_explained_by_what_happened() {
    let loaded = load("measured/clickstream-frozen", &[]).unwrap_or_else(|p| panic!("{}", p.render(false)));
    let mut run = Run::new(&Arc::new(loaded.scenario.clone()), 42).unwrap();
    run.seen.journey = Some(Journey::default());
    Host::Loop.drive(&mut run, 42);
    let journey = run.seen.journey.take().unwrap();
    let explained = why::explain(&run, &journey);
    let outcome = finish(&mut run, &loaded, Host::Loop).outcome;

    // Counts add up to what the laws have found.
    let windows = &outcome.aggregates["windows"];
    let late: Vec<_> = explained.all.iter().filter(|d| d.result == "windows" && d.what == "on-time-late").collect();
    assert!(windows.on_time_late > 100, "the freeze displaces events: {windows:?}");
    assert_eq!(late.len() as u64, windows.on_time_late);
    assert_eq!(explained.groups.values().map(|g| g.events).sum::<u64>(), explained.all.len() as u64);

    let mut frozen = 0;
    for d in &late {
        // It was on its way all the time.
        let (taken, watermark) = d.taken.expect("the filter took it");
        assert_eq!(d.waits[0].from_ms, d.sent_ms);
        for pair in d.waits.windows(2) {
            assert!(pair[1].from_ms.abs_diff(pair[0].from_ms + pair[0].ms) <= 1, "{d:?}");
        }
        let waited: u64 = d.waits.iter().map(|w| w.ms).sum();
        assert!((d.sent_ms + waited).abs_diff(taken) <= d.waits.len() as u64, "{d:?}");
        // Its window was over, and the mover had come before, from ahead of it by the bound at least.
        let end = d.time - d.time.rem_euclid(10_000) + 10_000;
        assert!(watermark >= Some(end - 1), "{d:?}");
        let mover = d.mover.as_ref().expect("a record moved the watermark");
        assert!(mover.time >= end - 1 + 5_000 && mover.taken_ms <= taken, "{d:?}");
        frozen += usize::from(d.waits[d.longest].cause.contains("freeze of all task managers"));
    }
    assert!(frozen * 10 > late.len() * 9, "{frozen} of {} waited for the frozen TaskManagers", late.len());
    // The partition that is drained first passes the others: they are displaced against it.
    let other = late.iter().filter(|d| d.mover.as_ref().is_some_and(|m| !m.same_partition)).count();
    assert!(other * 2 > late.len(), "{other} of {}", late.len());
}

#[test]
fn a_run_without_a_fault_has_nothing_to_explain() {
    let loaded = load("measured/clickstream", &["workload.duration=30 s".into(), "workload.late=0 %".into()]);
    let loaded = loaded.unwrap_or_else(|p| panic!("{}", p.render(false)));
    let mut run = Run::new(&Arc::new(loaded.scenario.clone()), 1).unwrap();
    run.seen.journey = Some(Journey::default());
    Host::Loop.drive(&mut run, 1);
    let journey = run.seen.journey.take().unwrap();
    assert!(why::explain(&run, &journey).all.is_empty());
}

#[test]
fn explanations_are_proven_by_forks_in_which_a_record_comes_later() {
    let size = ["workload.rate=300".into(), "workload.duration=100 s".into()];
    let loaded = load("measured/clickstream-frozen", &size).unwrap_or_else(|p| panic!("{}", p.render(false)));
    let scenario = Arc::new(loaded.scenario.clone());
    let mut run = Run::new(&scenario, 42).unwrap();
    run.seen.journey = Some(Journey::default());
    Host::Loop.drive(&mut run, 42);
    let digest = run.world.finish();
    let journey = run.seen.journey.take().unwrap();
    let explained = why::explain(&run, &journey);
    assert!(explained.all.len() > 20, "the freeze displaces events: {}", explained.all.len());
    // What stands in a window although it is late was passed by nothing.
    let mut passed = explained.all.iter().filter(|d| d.what == "on-time-late");
    assert!(passed.all(|d| d.trail.is_some()), "every chain of causes is complete");

    let trials = why::prove(&scenario, 42, &explained, (2, Until::End), &|_, _| {}).unwrap();
    let of = |delayed: Delayed| trials.iter().filter(move |t| t.delayed == delayed);
    assert_eq!(of(Delayed::Mover).count(), 2);
    for trial in of(Delayed::Mover) {
        assert!(trial.placed(), "behind the event its mover changes nothing for it: {trial:?}");
    }
    let by_watermark = why::prove(&scenario, 42, &explained, (2, Until::Taken), &|_, _| {}).unwrap();
    let verdicts = |trials: &[why::Trial]| trials.iter().map(|t| (t.event, t.record, t.placed())).collect::<Vec<_>>();
    assert_eq!(verdicts(&by_watermark), verdicts(&trials), "the watermark at the decision tells the same");
    assert!(of(Delayed::Other).count() > 0 && of(Delayed::OtherAndBehind).count() > 0, "{trials:?}");
    for trial in of(Delayed::Other) {
        assert!(trial.taken && trial.then == Some(trial.what), "no other record does: {trial:?}");
    }
    // Whoever experiments changes no run but the fork.
    let mut again = Run::new(&scenario, 42).unwrap();
    Host::Loop.drive(&mut again, 42);
    assert_eq!(again.world.finish(), digest);
}
