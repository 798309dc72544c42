//! What a user does about a job: savepoints, stops, and jobs that go on at another parallelism.

use crate::cluster::Cluster;
use crate::copy::copies;
use crate::windows::{check, windows};
use model::base::{JobAct, Nanos};
use model::flink::kafka::DeliveryGuarantee::{AtLeastOnce, ExactlyOnce};
use model::flink::runtime::graph::JobGraph;
use model::flink::runtime::ids::JobId;
use model::flink::runtime::job_manager::{JobManagerConfig, JobState, Resume, Submission};
use model::flink::runtime::state::{OperatorState, Snapshot};
use sim::world::{DeadMode, Fault};
use std::sync::Arc;

/// The second job goes on where the first was left.
fn one_then_another(jobs: [JobGraph; 2], which: Resume) -> JobManagerConfig {
    let then = Submission { at_start: false, from: Some((JobId(0), which)), retain: false };
    JobManagerConfig {
        submissions: vec![Submission { retain: true, ..Submission::default() }, then],
        ..JobManagerConfig::new(jobs.map(Arc::new).into())
    }
}
fn no_late() -> Vec<String> {
    vec!["workload.late=0 %".into()]
}

#[test]
fn a_stopped_job_goes_on_from_its_savepoint_at_another_parallelism() {
    for (before, after) in [(2, 1), (1, 2)] {
        let mut cluster = Cluster::managed(&no_late(), |bootstrap| {
            one_then_another([windows(bootstrap, before), windows(bootstrap, after)], Resume::Savepoint)
        });
        cluster.start();
        cluster.secs(13);
        cluster.act(0, JobAct::Stop { drain: false });
        cluster.secs(16);
        assert_eq!(cluster.job().state(), JobState::Finished);
        assert_eq!((cluster.events("savepoint-completed"), cluster.events("job-failing")), (1, 0));
        cluster.act(1, JobAct::Submit);
        cluster.rest();
        assert!(cluster.job_of(1).runs());
        assert_eq!(check(&cluster), 0, "{before} to {after}");
    }
}

#[test]
fn a_drained_job_fires_every_window_and_commits_it() {
    let mut cluster = Cluster::with(&no_late(), |bootstrap| windows(bootstrap, 2));
    cluster.start();
    cluster.secs(13);
    cluster.act(0, JobAct::Stop { drain: true });
    cluster.secs(16);
    assert_eq!(cluster.job().state(), JobState::Finished);
    let savepoint = cluster.job().savepoint().expect("a savepoint");
    let mut read = 0;
    for state in savepoint.tasks.values() {
        let Snapshot::Task(operators) = &**state else { continue };
        for operator in operators {
            if let OperatorState::Splits(splits) = operator {
                read += splits.iter().filter_map(|s| s.next).map(|next| next.0).sum::<i64>();
            }
        }
    }
    let counted: i64 = cluster.committed(1).iter().map(|r| r.cols[3]).sum();
    assert!(read > 10_000);
    assert_eq!(counted, read);
}

#[test]
fn a_savepoint_disturbs_nothing_and_a_retained_checkpoint_is_gone_on_from() {
    let mut cluster = Cluster::managed(&[], |bootstrap| {
        one_then_another([copies(bootstrap, 2, ExactlyOnce), copies(bootstrap, 1, ExactlyOnce)], Resume::Checkpoint)
    });
    cluster.start();
    cluster.secs(8);
    cluster.act(0, JobAct::Savepoint);
    cluster.secs(13);
    assert_eq!((cluster.events("savepoint-completed"), cluster.job().restarted), (1, 0));
    let savepoint = cluster.job().savepoint().expect("a savepoint").id;
    cluster.act(0, JobAct::Cancel);
    cluster.secs(15);
    assert_eq!(cluster.job().state(), JobState::Canceled);
    let retained = cluster.job().retained().expect("a checkpoint").id;
    assert!(retained > savepoint);
    cluster.act(1, JobAct::Submit);
    cluster.rest();
    assert_eq!(cluster.job_of(1).restored_from, Some(retained));
    assert_eq!(cluster.read(), (cluster.wanted(), cluster.wanted()), "exactly once");
}

#[test]
fn each_master_finds_dead_task_managers_at_a_phase_of_its_own() {
    let mut cluster = Cluster::managed(&[], |bootstrap| {
        let job = Arc::new(copies(bootstrap, 1, AtLeastOnce));
        JobManagerConfig::new(vec![Arc::clone(&job), job])
    });
    cluster.start();
    cluster.secs(15);
    for process in cluster.task_managers.clone() {
        cluster.inject(&Fault::Kill(process, DeadMode::default()));
    }
    let killed = cluster.run.world.now();
    let mut found = Vec::new();
    for tenth in 0..210 {
        let before = cluster.events("task-manager-lost");
        cluster.until(killed + Nanos::millis(100 * (tenth + 1)));
        found.extend((cluster.events("task-manager-lost") > before).then_some(tenth));
    }
    assert!(found.len() >= 2, "JobMasters and ResourceManager, none with another: {found:?}");
    assert!(found.iter().all(|tenth| (99..200).contains(tenth)), "the second round behind the kill: {found:?}");
}
