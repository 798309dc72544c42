//! A job that copies what passes its filter.

use crate::cluster::{Cluster, chained, graph, sink, source};
use model::base::{Addr, Millis, Nanos};
use model::flink::checkpoint::CheckpointId;
use model::flink::kafka::DeliveryGuarantee::{self, AtLeastOnce, ExactlyOnce, None as NoGuarantee};
use model::flink::runtime::graph::{JobGraph, KeyColumn, Kind, SinkConfig};
use model::flink::runtime::job_manager::JobState;
use model::flink::runtime::operator::{Comparison, Condition, OperatorConfig};
use sim::world::{DeadMode, Fault};
use std::sync::Arc;

/// Reads `events`, writes `clean`.
pub fn copies(bootstrap: &Arc<[Addr]>, parallelism: u16, guarantee: DeliveryGuarantee) -> JobGraph {
    copies_with(&sink(bootstrap, guarantee, Millis::secs(600)), bootstrap, parallelism)
}
/// The same with this sink.
pub fn copies_with(sink: &SinkConfig, bootstrap: &Arc<[Addr]>, parallelism: u16) -> JobGraph {
    let filter = OperatorConfig::Filter(Condition { column: 3, comparison: Comparison::Equal, value: 0 });
    let sink = Kind::Sink(Arc::new(sink.clone()));
    let first = vec![chained(source(bootstrap, None), None), chained(Kind::Operator(filter), Some(0))];
    graph(first, KeyColumn::Long(0), vec![chained(sink, None)], parallelism)
}

#[test]
fn a_job_copies_what_passes_its_filter() {
    for (parallelism, guarantee) in [(1, AtLeastOnce), (2, NoGuarantee), (2, ExactlyOnce)] {
        let mut cluster = Cluster::new(|bootstrap| copies(bootstrap, parallelism, guarantee));
        cluster.start();
        cluster.rest();
        assert_eq!(cluster.read(), (cluster.wanted(), cluster.wanted()), "{guarantee:?}");
        assert_eq!(cluster.job().state(), JobState::Running);
        assert!(cluster.job().completed >= Some(CheckpointId(5)), "{:?}", cluster.job().completed);
        assert_eq!(cluster.job().restarted, 0);
        assert!(cluster.job().runs());
        let job = ["job-running", "job-failing", "job-failed", "task-manager-lost", "commit-dropped"];
        assert_eq!(job.map(|name| cluster.events(name)), [1, 0, 0, 0, 0]);
        assert_eq!(cluster.events("checkpoint-completed"), u64::from(cluster.job().completions));
        assert!(cluster.events("checkpoint-triggered") >= cluster.events("checkpoint-completed"));
        assert_eq!(cluster.position(), cluster.committed(0).len() as i64);
    }
}

#[test]
fn a_killed_task_manager_costs_duplicates_or_nothing() {
    for guarantee in [AtLeastOnce, ExactlyOnce] {
        let mut cluster = Cluster::new(|bootstrap| copies(bootstrap, 2, guarantee));
        cluster.start();
        let (origin, victim) = (cluster.run.origin, cluster.task_managers[0]);
        cluster.until(origin + Nanos::secs(12));
        cluster.inject(&Fault::Kill(victim, DeadMode::default()));
        cluster.until(origin + Nanos::secs(14));
        cluster.inject(&Fault::Start(victim));
        cluster.rest();
        let (all, different) = cluster.read();
        assert!(cluster.job().restarted >= 1);
        assert_eq!(different, cluster.wanted(), "{guarantee:?}: nothing is lost");
        let (runs, restarts) = (cluster.events("job-running"), u64::from(cluster.job().restarted));
        // Attempts that were deployed onto the dead TaskManager never ran.
        assert!(runs >= 2 && cluster.events("job-failing") >= restarts && restarts >= runs - 1);
        assert!(cluster.events("task-manager-lost") >= 1, "a broken channel at least");
        assert_eq!(cluster.events("commit-dropped"), 0);
        match guarantee {
            ExactlyOnce => assert_eq!(all, different, "nothing comes twice"),
            _ => assert!(all > different, "what was replayed comes twice"),
        }
    }
}
