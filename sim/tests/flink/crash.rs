//! Crash points around a checkpoint's completion (P1 to P14), and the death of the JobManager.

use crate::cluster::{Cluster, sink};
use crate::copy::{copies, copies_with};
use model::base::{JobAct, Millis, SimTime};
use model::flink::checkpoint::CheckpointId;
use model::flink::heartbeat::HeartbeatConfig;
use model::flink::kafka::DeliveryGuarantee::{AtLeastOnce, ExactlyOnce, None as NoGuarantee};
use model::flink::runtime::ids::JobId;
use model::flink::runtime::job_manager::{JobManagerConfig, JobState, Resume, Submission};
use sim::host::Drive;
use sim::world::{CrashPoint, EffectKind, NoLifecycle};
use std::sync::Arc;

/// A copy under EXACTLY_ONCE with high availability whose JobManager dies as its second checkpoint completes, just before
/// the write to the store or the event behind it, and comes back later.
fn dies_at(kind: EffectKind, after: u64, timeout: Millis) -> Cluster {
    let mut cluster = Cluster::managed(&[], |bootstrap| {
        let job = copies_with(&sink(bootstrap, ExactlyOnce, timeout), bootstrap, 2);
        JobManagerConfig { high_availability: true, ..JobManagerConfig::new(vec![Arc::new(job)]) }
    });
    cluster.start();
    while cluster.job().completions == 0 {
        assert!(cluster.run.turn(&mut NoLifecycle));
    }
    // The trigger of the second comes between, with one of each.
    let before = cluster.run.world.effects_of(cluster.job_manager)[kind as usize];
    let point = CrashPoint { process: cluster.job_manager, kind, nth: before + 1 };
    cluster.run.crash_once(point, SimTime(after * 1_000_000_000));
    cluster.rest();
    assert_eq!(cluster.job().state(), JobState::Running);
    assert_eq!(cluster.events("job-running"), 2);
    cluster
}

#[test]
fn before_the_store_write_a_checkpoint_never_was_and_behind_it_its_commit_comes_late() {
    for (kind, restored) in [(EffectKind::Write, 1), (EffectKind::Emit, 2)] {
        let mut cluster = dies_at(kind, 2, Millis::secs(600));
        assert_eq!(cluster.job().restored_from, Some(CheckpointId(restored)));
        assert_eq!(cluster.read(), (cluster.wanted(), cluster.wanted()), "exactly once");
        assert_eq!(cluster.events("commit-dropped"), 0);
    }
}

#[test]
fn longer_down_than_the_transaction_lives_loses_what_the_checkpoint_says_is_written() {
    let mut cluster = dies_at(EffectKind::Emit, 25, Millis::secs(10));
    assert_eq!(cluster.events("commit-dropped"), 2, "of each subtask, and the job runs on");
    let (all, different) = cluster.read();
    assert_eq!(all, different);
    let lost = cluster.wanted() - different;
    assert!((4_000..6_000).contains(&lost), "what came between two barriers: {lost}");
}

#[test]
fn without_high_availability_a_job_dies_with_its_manager_and_its_checkpoint_stays() {
    let mut cluster = Cluster::managed(&[], |bootstrap| {
        let job = Arc::new(copies(bootstrap, 2, ExactlyOnce));
        let from = Some((JobId(0), Resume::Checkpoint));
        JobManagerConfig {
            heartbeat: HeartbeatConfig {
                interval: Millis::secs(1),
                timeout: Millis::secs(5),
                rpc_failure_threshold: 2,
            },
            submissions: vec![Submission::default(), Submission { at_start: false, from, retain: false }],
            ..JobManagerConfig::new(vec![Arc::clone(&job), job])
        }
    });
    cluster.start();
    cluster.secs(12);
    cluster.kill_until(cluster.job_manager, 13);
    cluster.secs(14);
    let tasks = |cluster: &Cluster| -> usize {
        let managers = cluster.task_managers.iter().filter_map(|p| cluster.run.world.process(*p)?.task_manager());
        managers.map(|m| m.tasks().count()).sum()
    };
    assert_eq!(tasks(&cluster), 4, "nobody has noticed yet");
    cluster.secs(21);
    assert_eq!((tasks(&cluster), cluster.job().state()), (0, JobState::Created));
    assert_eq!(cluster.events("job-failed"), 1);
    cluster.act(1, JobAct::Submit);
    cluster.rest();
    assert!(cluster.job_of(1).runs() && cluster.job_of(1).restored_from >= Some(CheckpointId(1)));
    assert_eq!(cluster.read(), (cluster.wanted(), cluster.wanted()), "exactly once");
}

#[test]
fn canceled_and_begun_afresh_under_the_same_prefix_everything_committed_comes_twice() {
    let mut cluster = Cluster::managed(&[], |bootstrap| {
        let job = Arc::new(copies(bootstrap, 2, ExactlyOnce));
        let again = Submission { at_start: false, ..Submission::default() };
        JobManagerConfig {
            submissions: vec![Submission::default(), again],
            ..JobManagerConfig::new(vec![Arc::clone(&job), job])
        }
    });
    cluster.start();
    cluster.secs(14);
    cluster.act(0, JobAct::Cancel);
    cluster.secs(15);
    assert_eq!((cluster.job().state(), cluster.job().retained()), (JobState::Canceled, None));
    let committed = cluster.committed(1).len() as u64;
    assert!(committed > 1_000);
    cluster.act(1, JobAct::Submit);
    cluster.rest();
    assert_eq!(cluster.read(), (cluster.wanted() + committed, cluster.wanted()));
    assert_eq!((cluster.events("job-ended"), cluster.events("commit-dropped")), (1, 0));
}

#[test]
fn a_transaction_timeout_above_the_brokers_maximum_never_runs() {
    let job = |bootstrap: &_| copies_with(&sink(bootstrap, ExactlyOnce, Millis::secs(3600)), bootstrap, 1);
    let mut cluster = Cluster::new(job);
    cluster.start();
    cluster.secs(20);
    assert_eq!(cluster.events("job-running"), 0);
    assert!(cluster.events("job-failing") > 2);
}

#[test]
fn without_a_guarantee_a_kill_loses_what_a_long_linger_held_before_a_completed_barrier() {
    let lost = |guarantee| {
        // So that the run lasts until the last of what lingers has gone.
        let set = ["readers.clean-reader.start=75 s".into()];
        let mut cluster = Cluster::with(&set, |bootstrap| {
            let mut sink = sink(bootstrap, guarantee, Millis::ZERO);
            (sink.producer.linger, sink.producer.batch_size) = (Millis::secs(20), 1 << 20);
            copies_with(&sink, bootstrap, 2)
        });
        cluster.start();
        cluster.secs(12);
        cluster.kill_until(cluster.task_managers[0], 14);
        cluster.rest();
        assert!(cluster.job().restarted > 0);
        cluster.wanted() - cluster.read().1
    };
    assert_eq!(lost(AtLeastOnce), 0);
    let lost = lost(NoGuarantee);
    assert!((1_000..8_000).contains(&lost), "what one subtask had buffered before the barrier: {lost}");
}
