//! Stores at the edge, as a scenario configures them, and what the judge is shown of them.

use super::build::{rd_consumer, rd_instance};
use super::members::topic_names;
use super::{Run, Stage, evidence};
use crate::judge::StoredTable;
use crate::scenario::data::{ClickHouse, ClickHouseTable, Job, Lake, LakeCatalog, Scenario};
use crate::scenario::keys::Config;
use crate::world::World;
use model::actor::{Actor, ActorConfig};
use model::app::RdMemberConfig;
use model::base::{Addr, Millis, Row};
use model::clickhouse::{ClickHouseConfig, KafkaTableConfig, Warehouse};
use model::flink::runtime::graph::LakeSinkConfig;
use model::kafka::client::rdkafka_consumer::group::RdGroupConfig;
use model::kafka::coordinator::group::Name;
use model::kafka::txn_messages::GroupId;
use model::lake::{CATALOG, LakeClientConfig, LakeConfig, Lakehouse, OBJECTS, PATIENCE};
use model::registry::{Shape, payload};
use model::store::clickhouse::{
    ErrorMode, InsertSettings, KafkaConfig, Pipeline, RowKind, TableConfig, Target, View, ViewSettings,
};
use model::store::iceberg::CatalogKind;
use model::store::object_store::Rate;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Adds the servers to a world.
pub(super) fn add(scenario: &Scenario, bootstrap: &Arc<[Addr]>, world: &mut World<Actor>, stage: &mut Stage) {
    // Rows are shown under numbers behind those of keyed tables and of lakes.
    let mut number = (scenario.tables.len() + scenario.lakes.len()) as u16;
    for server in &scenario.clickhouse {
        let config = config(server, number, scenario, bootstrap);
        number += server.tables.len() as u16;
        stage.clickhouse.push(world.add(server.machine as u32, ActorConfig::ClickHouse(Arc::new(config))));
        stage.machine.push(server.machine as u32);
    }
}

fn config(server: &ClickHouse, first: u16, scenario: &Scenario, bootstrap: &Arc<[Addr]>) -> ClickHouseConfig {
    let ms = |n: model::base::Nanos| n.0 / 1_000_000;
    let tables = server.tables.iter().zip(first..).map(|(t, number)| Arc::new(table(t, number, scenario, bootstrap)));
    ClickHouseConfig {
        tables: tables.collect(),
        merges: (ms(server.merges.high) > 0).then(|| (ms(server.merges.low), ms(server.merges.high))),
    }
}
/// A setting of 0 or 1.
fn on(c: &Config, name: &str) -> bool {
    c.int(name) == 1
}
fn table(table: &ClickHouseTable, number: u16, scenario: &Scenario, bootstrap: &Arc<[Addr]>) -> KafkaTableConfig {
    let (k, s, c) = (&table.kafka, &table.settings, &table.consumer);
    let consumers = k.int("kafka_num_consumers");
    let or = |name: &str, default: i64| if k.int(name) == 0 { default } else { k.int(name) };
    let defaults = KafkaConfig::default();
    let block = or("kafka_max_block_size", defaults.max_block_size as i64 / consumers) as usize;
    let group = RdGroupConfig {
        topic_names: topic_names(scenario),
        assignors: c.text("partition.assignment.strategy").split(',').map(Name::from).collect(),
        session_timeout: c.ms("session.timeout.ms"),
        heartbeat_interval: c.ms("heartbeat.interval.ms"),
        max_poll_interval: c.ms("max.poll.interval.ms"),
        auto_commit: None,
        read_committed: c.word("isolation.level") == "read_committed",
        ..RdGroupConfig::new(GroupId(table.group), scenario.partitions_of(&table.topics))
    };
    let shapes = || {
        let of = |id: u32| Some((id, Arc::new(Shape::parse(payload::SCHEMA).ok()?)));
        let all = scenario.topics.iter().filter_map(|t| t.schema).filter_map(of);
        Arc::new(all.collect::<BTreeMap<_, _>>())
    };
    let settings = table_config(s);
    KafkaTableConfig {
        number,
        client: Arc::new(RdMemberConfig {
            bootstrap: Arc::clone(bootstrap),
            connections: rd_instance(c),
            consumer: Arc::new(rd_consumer(c)),
            group: Arc::new(group),
        }),
        consumers: consumers as u16,
        thread_per_consumer: on(k, "kafka_thread_per_consumer"),
        kafka: KafkaConfig {
            max_block_size: block,
            poll_max_batch_size: or("kafka_poll_max_batch_size", defaults.poll_max_batch_size as i64) as usize,
            poll_timeout: Millis(or("kafka_poll_timeout_ms", defaults.poll_timeout.0)),
            flush_interval: Millis(or("kafka_flush_interval_ms", defaults.flush_interval.0)),
            commit_every_batch: on(k, "kafka_commit_every_batch"),
            error_mode: match k.word("kafka_handle_error_mode") {
                "stream" => ErrorMode::Stream,
                "dead_letter_queue" => ErrorMode::DeadLetterQueue,
                _ => ErrorMode::Default,
            },
            skip_broken_messages: k.int("kafka_skip_broken_messages") as u32,
        },
        reschedule: k.ms("kafka_consumer_reschedule_ms"),
        shapes: (k.word("kafka_format") == "AvroConfluent").then(shapes),
        engine: table.engine.clone(),
        table: settings,
        insert: InsertSettings { optimize_on_insert: on(s, "optimize_on_insert"), ..InsertSettings::default() },
        views: table.views.iter().map(|v| v.view.clone()).collect::<Vec<View>>(),
        view_settings: ViewSettings {
            deduplicate: on(s, "deduplicate_blocks_in_dependent_materialized_views"),
            ignore_errors: on(s, "materialized_views_ignore_errors"),
        },
        block: table.block,
        row: table.row,
    }
}
fn table_config(s: &Config) -> TableConfig {
    TableConfig {
        deduplication_window: s.int("non_replicated_deduplication_window") as usize,
        parts_to_delay_insert: s.int("parts_to_delay_insert") as usize,
        parts_to_throw_insert: s.int("parts_to_throw_insert") as usize,
        min_delay_to_insert: s.ms("min_delay_to_insert_ms"),
        max_delay_to_insert: Millis::secs(s.int("max_delay_to_insert")),
        // Without the part's directory a file that is flushed is worth nothing.
        fsync: on(s, "fsync_after_insert") && on(s, "fsync_part_directory"),
        ..TableConfig::default()
    }
}

/// Adds catalogs and object stores of Iceberg tables to a world.
pub(super) fn add_lakes(scenario: &Scenario, world: &mut World<Actor>, stage: &mut Stage) {
    for (lake, number) in scenario.lakes.iter().zip(scenario.tables.len() as u16..) {
        stage.lakes.push(world.add(lake.machine as u32, ActorConfig::Lake(Arc::new(lake_config(lake, number)))));
        stage.machine.push(lake.machine as u32);
    }
}
fn lake_config(lake: &Lake, number: u16) -> LakeConfig {
    LakeConfig {
        number,
        kind: match lake.catalog {
            LakeCatalog::Rest => CatalogKind::References,
            LakeCatalog::Jdbc => CatalogKind::Pointer,
        },
        properties: Vec::new(),
        catalog: lake.catalog_request,
        object: lake.object_request,
        bandwidth: lake.bandwidth,
        throttle: lake.requests_per_second.map(|n| Rate { per_second: n, burst: n }),
        memory: lake.memory,
        metadata_entry: lake.metadata_entry,
    }
}
/// How a lake is reached.
pub(super) fn lake_client(lake: usize, stage: &Stage) -> LakeClientConfig {
    let process = stage.lakes[lake];
    let (catalog, objects) = (Addr { process, port: CATALOG }, Addr { process, port: OBJECTS });
    LakeClientConfig { catalog, objects, timeout: PATIENCE, retries: 5 }
}
/// A sink of a job that appends to an Iceberg table.
pub(super) fn lake_sink(job: &Job, lake: usize, scenario: &Scenario, stage: &Stage) -> LakeSinkConfig {
    LakeSinkConfig {
        client: lake_client(lake, stage),
        v2: job.config.flag("table.exec.iceberg.use-v2-sink"),
        // Operators of different jobs with one uid: a job that resumes another finds its state by it.
        operator: lake as u64 + 1,
        job: job.same_id_as.map(|other| root(other, scenario) as u64 + 1),
    }
}
/// The job whose own id a job runs under.
fn root(job: usize, scenario: &Scenario) -> usize {
    scenario.jobs[job].same_id_as.map_or(job, |other| root(other, scenario))
}
/// What Iceberg tables hold for who reads them now; nothing, where something that the head refers to is gone.
pub(super) fn lakes(run: &Run) -> impl Iterator<Item = Vec<Row>> + '_ {
    run.scenario.lakes.iter().zip(&run.stage.lakes).map(|(lake, process)| {
        let found;
        let house = match run.world.process(*process).and_then(Actor::lake) {
            Some(up) => up,
            None => {
                found = Lakehouse::on(&Arc::new(lake_config(lake, 0)), run.world.disk(*process).files());
                &found
            }
        };
        house.rows().unwrap_or_default()
    })
}
/// How many snapshots their tables have seen.
pub(super) fn lake_snapshots(run: &Run) -> i64 {
    let up = run.stage.lakes.iter().filter_map(|p| run.world.process(*p).and_then(Actor::lake));
    up.map(|lake| lake.metadata().last_sequence).sum()
}

/// What tables have not finished with: partitions that are not read to their end, blocks on their way.
pub(super) fn behind(run: &Run) -> Vec<String> {
    let mut behind = Vec::new();
    let image = evidence::newest_image(run);
    for (server, process) in run.scenario.clickhouse.iter().zip(&run.stage.clickhouse) {
        let Some(process) = run.world.process(*process).and_then(Actor::clickhouse) else {
            behind.push(format!("clickhouse {} is gone", server.name));
            continue;
        };
        for (n, table) in server.tables.iter().enumerate() {
            let others = run.scenario.clickhouse.iter().flat_map(|c| &c.tables).filter(|t| t.group == table.group);
            if others.count() > 1 {
                // Its partitions may be another table's (F12).
                continue;
            }
            for tp in run.scenario.partitions_of(&table.topics).iter().copied() {
                let Some(log) = image.and_then(|i| evidence::led(run, i, tp)).map(|p| p.log()) else { continue };
                let end = match table.consumer.word("isolation.level") {
                    "read_committed" => log.last_stable(),
                    _ => log.high_watermark(),
                };
                let at = process.position(n, tp);
                if end.0 > 0 && at.is_none_or(|at| at < end) {
                    behind.push(format!("table {}: {tp} stands at {at:?} of {end}", table.name));
                }
            }
            if !process.is_idle(n) {
                behind.push(format!("table {} has not inserted or committed what it has read", table.name));
            }
        }
    }
    behind
}

/// The tables as they are: of a server that is down, as they lie on its disk.
pub(super) fn stored(run: &Run) -> Vec<StoredTable> {
    let mut list = Vec::new();
    for (server, process) in run.scenario.clickhouse.iter().zip(&run.stage.clickhouse) {
        let found;
        let warehouse = match run.world.process(*process).and_then(Actor::clickhouse) {
            Some(up) => up.warehouse(),
            None => {
                // Only what tables are made of counts here.
                let config = config(server, 0, &run.scenario, &Arc::from([]));
                found = Warehouse::on(&config.tables, run.world.disk(*process).files());
                &found
            }
        };
        for (n, table) in server.tables.iter().enumerate() {
            let Pipeline { base, views } = warehouse.pipeline(n);
            let open = |row: &Row| run.seen.shuffle.map_or(*row, |s| s.opened_row(row));
            let views = table.views.iter().zip(views).map(|(view, of)| {
                let place = usize::from(view.sum.is_some());
                let total = match &of.target {
                    Target::Sums(sums) => sums.rows().map(|row| row.sums[place]).sum(),
                    Target::Rows(_) | Target::States(_) => 0,
                };
                (view.name.clone(), view.sum, total)
            });
            let k = &table.kafka;
            list.push(StoredTable {
                name: table.name.clone(),
                final_name: format!("{}-final", table.name),
                process: *process,
                topics: table.topics.iter().map(|t| t.0).collect(),
                rows: base.rows().map(open).collect(),
                latest: base.select_final(|_| true).iter().map(open).collect(),
                views: views.collect(),
                replaces: table.engine.kind != RowKind::MergeTree,
                key: table.engine.order_by.clone(),
                may_miss: on(k, "kafka_commit_every_batch")
                    || k.word("kafka_handle_error_mode") != "default"
                    || k.int("kafka_skip_broken_messages") > 0,
            });
        }
    }
    list
}
