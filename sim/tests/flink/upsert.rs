//! An upsert sink into a keyed table: it converges by key, and its readers see it go back.

use crate::cluster::{Cluster, chained, graph, source};
use crate::windows::{SIZE, end, to_windows, watermarks, window};
use model::actor::{Actor, ActorConfig};
use model::base::{Addr, Nanos, ProcessId};
use model::flink::runtime::graph::{JobGraph, KeyColumn, Kind, UpsertConfig};
use model::flink::runtime::job_manager::JobManagerConfig;
use model::flink::runtime::operator::OperatorConfig;
use model::keyed_table::{KeyColumns, KeyedTableConfig, SQL};
use sim::world::Fault;
use std::collections::BTreeMap;
use std::sync::Arc;

fn upserts(bootstrap: &Arc<[Addr]>, table: ProcessId) -> JobGraph {
    let key = KeyColumns(0, Some(1));
    let sink = UpsertConfig::new(Addr { process: table, port: SQL }, Some(key));
    let first = vec![chained(source(bootstrap, Some(watermarks())), None), chained(to_windows(), Some(0))];
    let second = vec![
        chained(Kind::Operator(OperatorConfig::Window(window())), None),
        chained(Kind::Upsert(Arc::new(sink)), Some(0)),
    ];
    graph(first, KeyColumn::Long(0), second, 2)
}

/// The table behind the windows of a run in which a TaskManager, or the table's database, dies.
fn table(dies: impl Fn(&mut Cluster, ProcessId)) -> (Cluster, ProcessId) {
    let mut cluster = Cluster::empty(&["workload.late=0 %".into()]);
    let config =
        KeyedTableConfig { number: 0, key: Some(KeyColumns(0, Some(1))), version: None, row: Nanos::micros(50) };
    let table = cluster.run.world.add(0, ActorConfig::KeyedTable(Arc::new(config)));
    cluster.manage(|bootstrap| JobManagerConfig::new(vec![Arc::new(upserts(bootstrap, table))]));
    cluster.begin();
    cluster.inject(&Fault::Start(table));
    cluster.start_flink();
    dies(&mut cluster, table);
    cluster.rest();
    (cluster, table)
}
fn converges(cluster: &Cluster, table: ProcessId) {
    let mut wanted: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
    let rows = cluster.committed(0);
    let newest = rows.iter().map(|r| r.time.0).max().expect("events");
    for row in rows {
        let total = wanted.entry((end(row.time.0), row.cols[1])).or_default();
        *total = (total.0 + row.cols[2], total.1 + 1);
    }
    wanted.retain(|(end, _), _| *end < newest - SIZE - 8_000);
    assert!(wanted.len() > 8);
    let table = cluster.run.world.process(table).and_then(Actor::keyed_table).expect("the table");
    let held: BTreeMap<_, _> = table.rows().map(|(key, row)| (*key, (row.cols[2], row.cols[3]))).collect();
    for (key, total) in wanted {
        assert_eq!(held.get(&key), Some(&total), "{key:?}");
    }
}

#[test]
fn a_table_converges_over_the_death_of_a_task_manager() {
    let (cluster, table) = table(|cluster, _| {
        cluster.secs(13);
        cluster.kill_until(cluster.task_managers[1], 15);
    });
    assert!(cluster.job().restarted >= 1);
    converges(&cluster, table);
}

#[test]
fn a_table_is_there_again_and_its_writer_tries_until_then() {
    let (cluster, table) = table(|cluster, table| {
        cluster.secs(13);
        cluster.kill_until(table, 15);
    });
    converges(&cluster, table);
}
