//! Windows in event time over a topic of shoppers' events.

use crate::cluster::{Cluster, chained, graph, sink, source};
use model::base::{Addr, Millis, Nanos};
use model::flink::kafka::DeliveryGuarantee::ExactlyOnce;
use model::flink::operator::Assigner;
use model::flink::runtime::graph::{Chained, JobGraph, KeyColumn, Kind, SinkConfig, Watermarks};
use model::flink::runtime::operator::Expr::{Column, Constant};
use model::flink::runtime::operator::{OperatorConfig, WindowConfig};
use model::flink::source::Strategy;
use sim::world::{DeadMode, Fault};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const SIZE: i64 = 5_000;
const BOUND: i64 = 3_000;

/// A watermark per split.
pub fn watermarks() -> Watermarks {
    Watermarks {
        strategy: Strategy::Bounded(Millis(BOUND)),
        idle_timeout: None,
        interval: Millis(200),
        alignment: None,
    }
}
/// By kind of event.
pub fn window() -> WindowConfig {
    WindowConfig {
        key: KeyColumn::Long(0),
        assigner: Assigner::Tumbling { size: SIZE, offset: 0 },
        lateness: Millis::ZERO,
        sum: Some(2),
        bytes: 60,
    }
}
/// Makes an event what the window takes.
pub fn to_windows() -> Kind {
    Kind::Operator(OperatorConfig::Map([Column(1), Constant(0), Column(2), Constant(0)]))
}
/// Counts `events` by kind into `clean`, late ones as they are.
pub fn windows(bootstrap: &Arc<[Addr]>, parallelism: u16) -> JobGraph {
    let first = vec![chained(source(bootstrap, Some(watermarks())), None), chained(to_windows(), Some(0))];
    let on_time = sink(bootstrap, ExactlyOnce, Millis::secs(600));
    let late = SinkConfig { prefix: "late".into(), prefix_number: 1, ..on_time.clone() };
    let second = vec![
        chained(Kind::Operator(OperatorConfig::Window(window())), None),
        chained(Kind::Sink(Arc::new(on_time)), Some(0)),
        Chained { side: true, ..chained(Kind::Sink(Arc::new(late)), Some(0)) },
    ];
    graph(first, KeyColumn::Long(0), second, parallelism)
}

/// Sum and count by the end of the window and the key.
type Totals = BTreeMap<(i64, i64), (i64, i64)>;

pub fn end(time: i64) -> i64 {
    time - time.rem_euclid(SIZE) + SIZE
}
fn add(totals: &mut Totals, window: (i64, i64), sum: i64, count: i64) {
    let total = totals.entry(window).or_default();
    *total = (total.0 + sum, total.1 + count);
}

/// Windows that the final watermark has reached hold, with the late rows, what stands in the topic. Gives how many are late.
pub fn check(cluster: &Cluster) -> usize {
    let (mut found, mut late, mut fired) = (Totals::new(), 0, BTreeSet::new());
    for row in cluster.committed(1) {
        if row.cols[3] > 0 {
            assert_eq!(row.time.0, row.cols[0] - 1, "stamped with its last millisecond");
            assert!(fired.insert((row.cols[0], row.cols[1])), "each window once");
            add(&mut found, (row.cols[0], row.cols[1]), row.cols[2], row.cols[3]);
        } else {
            late += 1;
            add(&mut found, (end(row.time.0), row.cols[0]), row.cols[2], 1);
        }
    }
    let (rows, mut wanted) = (cluster.committed(0), Totals::new());
    let newest = rows.iter().map(|r| r.time.0).max().expect("events");
    rows.iter().for_each(|row| add(&mut wanted, (end(row.time.0), row.cols[1]), row.cols[2], 1));
    // The slowest partition is not far behind the newest event, and the last checkpoint not far behind the end.
    wanted.retain(|(end, _), _| *end < newest - BOUND - 8_000);
    assert!(wanted.len() > 8, "windows to look at");
    for (window, total) in wanted {
        assert_eq!(found.get(&window), Some(&total), "{window:?}");
    }
    late
}

#[test]
fn windows_hold_what_the_topic_holds() {
    for parallelism in [1, 2] {
        let mut cluster = Cluster::new(|bootstrap| windows(bootstrap, parallelism));
        cluster.start();
        cluster.rest();
        assert!(check(&cluster) > 100);
    }
}

#[test]
fn windows_survive_the_death_of_a_task_manager() {
    // Right after a restore nothing is late: such a row would open its window again.
    let mut cluster = Cluster::with(&["workload.late=0 %".into()], |bootstrap| windows(bootstrap, 2));
    cluster.start();
    let (origin, victim) = (cluster.run.origin, cluster.task_managers[1]);
    cluster.until(origin + Nanos::secs(13));
    cluster.inject(&Fault::Kill(victim, DeadMode::default()));
    cluster.until(origin + Nanos::secs(15));
    cluster.inject(&Fault::Start(victim));
    cluster.rest();
    assert!(cluster.job().restarted >= 1);
    assert_eq!(check(&cluster), 0);
}
