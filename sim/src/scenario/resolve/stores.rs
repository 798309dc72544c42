//! Stores at the edge: every name looked up, columns numbered.

use super::jobs::columns::{alike, listed};
use super::jobs::handed_on;
use super::{At, Resolver, machine};
use crate::scenario::data::{
    Application, ClickHouse, ClickHouseTable, Column, Gatekeeper, Job, JobNode, Lake, NodeKind, TableView, Target,
};
use crate::scenario::keys::{Config, Profile, Setting, Side};
use crate::scenario::problem::Problem;
use crate::scenario::raw::{self, Raw, TableEngine, TableView as RawView};
use crate::scenario::target::Names;
use At::{Item, Key};
use model::base::{SimTime, TopicId};
use model::store::clickhouse::{
    Column as Of, MergeTree, PartitionBy, Query, RowEngine, RowKind, Source, SumRow, Summing, Target as Into, View,
};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What FINAL shows of a table is a layer of this name.
pub(super) fn final_name(table: &str) -> String {
    format!("{table}-final")
}
/// `kafka_group_name` of a table: its name, unless it sets another.
pub(super) fn group_id(table: &raw::ClickHouseTable) -> &str {
    let own = table.kafka.map.get("kafka_group_name").and_then(Json::as_str).map(str::trim);
    own.filter(|id| !id.is_empty()).unwrap_or(&table.name)
}
/// Every table of every server.
pub(super) fn tables(raw: &Raw) -> impl Iterator<Item = &raw::ClickHouseTable> {
    raw.clickhouse.iter().flat_map(|c| &c.tables)
}

impl Resolver<'_> {
    /// ClickHouse servers.
    pub(super) fn clickhouse(
        &mut self,
        names: &Names<'_>,
        machine_of: &[(Target, usize)],
        applications: &[Application],
        gatekeepers: &[Gatekeeper],
        jobs: &[Job],
    ) -> Vec<ClickHouse> {
        let raw = self.raw;
        let mut columns = self.topic_columns(applications, names);
        for gatekeeper in gatekeepers {
            let of = gatekeeper.consumer.topics.first().and_then(|t| columns.get(&t.0)).cloned().unwrap_or_default();
            columns.insert(gatekeeper.dead_letters.0, of);
        }
        for node in jobs.iter().flat_map(|job| &job.nodes) {
            if let NodeKind::Sink { topic, .. } = &node.kind {
                columns.insert(topic.0, node.columns.clone());
            }
        }
        let taken: Vec<String> = tables(raw).flat_map(|t| [t.name.clone(), final_name(&t.name)]).collect();
        let mut list = Vec::new();
        for (i, server) in raw.clickhouse.iter().enumerate() {
            let merges = self.range(&[Key("clickhouse"), Item(i), Key("merges")], server.merges);
            let mut built = Vec::new();
            for (n, table) in server.tables.iter().enumerate() {
                let path = [Key("clickhouse"), Item(i), Key("tables"), Item(n)];
                let twice = taken.iter().filter(|name| **name == table.name).count() > 1;
                let topics = raw.topics.iter().map(|t| &t.name).chain(raw.readers.iter().map(|r| &r.name));
                let own = [table.name.clone(), final_name(&table.name)];
                if twice || topics.chain(raw.tables.iter().map(|t| &t.name)).any(|name| own.contains(name)) {
                    self.say(
                        &[&path[..], &[Key("name")]].concat(),
                        format!("`{}` names another layer of the outcome too", table.name),
                    );
                }
                built.extend(self.clickhouse_table(&path, table, names, &columns));
            }
            list.push(ClickHouse {
                name: server.name.clone(),
                machine: machine(machine_of, Target::ClickHouse(i as u16)),
                tables: built,
                merges,
                start: SimTime(server.start.0.0),
            });
        }
        list
    }

    /// Iceberg tables.
    pub(super) fn lakes(&mut self, machine_of: &[(Target, usize)]) -> Vec<Lake> {
        let raw = self.raw;
        let mut list = Vec::new();
        for (i, lake) in raw.lakes.iter().enumerate() {
            let others = raw.topics.iter().map(|t| &t.name).chain(raw.readers.iter().map(|r| &r.name));
            let others = others.chain(raw.tables.iter().map(|t| &t.name)).chain(tables(raw).map(|t| &t.name));
            if others.into_iter().any(|name| *name == lake.name) {
                let what = format!("`{}` names another layer of the outcome too", lake.name);
                self.say(&[Key("lakes"), Item(i), Key("name")], what);
            }
            let written = raw.jobs.iter().flat_map(|j| &j.sinks).any(|s| s.lake.as_ref() == Some(&lake.name));
            if !written {
                let path = [Key("lakes"), Item(i), Key("name")];
                self.advise(&path, format!("nobody writes `{}`", lake.name), "a job's sink writes it: `lake = ...`");
            }
            list.push(Lake {
                name: lake.name.clone(),
                machine: machine(machine_of, Target::Lake(i as u16)),
                catalog: lake.catalog,
                catalog_request: lake.catalog_request.0,
                object_request: lake.object_request.0,
                bandwidth: lake.bandwidth.0,
                requests_per_second: lake.requests_per_second,
                memory: lake.memory.map(|cap| (cap.0, lake.index_entry.0)),
                metadata_entry: lake.metadata_entry.0,
            });
        }
        list
    }
    /// A sink that appends to an Iceberg table.
    pub(super) fn lake_sink(
        &mut self,
        job: usize,
        n: usize,
        names: &Names<'_>,
        (graph, place): (&[JobNode], &BTreeMap<&str, usize>),
        config: &Config,
    ) -> Option<JobNode> {
        let sink = &self.raw.jobs[job].sinks[n];
        let path = |key| [Key("jobs"), Item(job), Key("sinks"), Item(n), Key(key)];
        let input = self.input(&path("input"), &sink.input, graph, place)?;
        let wanted = sink.lake.as_deref().unwrap_or_default();
        let Some(at) = names.lakes.iter().position(|t| t == wanted) else {
            let problem = Problem::at(self.place(&path("lake")), format!("there is no Iceberg table `{wanted}`"));
            self.problems.push(problem.nearest(wanted, names.lakes.iter().map(String::as_str)));
            return None;
        };
        if sink.topic.is_some() || sink.table.is_some() || !sink.config.is_empty() || !sink.producer.is_empty() {
            self.say(&path("lake"), "a sink writes a topic, a table or a lake; `config` and `producer` are a topic's");
        }
        if self.has_no_checkpoints(job, config) {
            let what = "files are committed when a checkpoint completes";
            self.advise(&path("lake"), what, "set execution.checkpointing.interval at the job");
        }
        Some(JobNode {
            name: sink.name.clone(),
            kind: NodeKind::Lake(at),
            input: Some(input),
            parallelism: graph[input.0].parallelism,
            record: sink.record.0,
            columns: handed_on(graph, input).to_vec(),
            call: None,
        })
    }

    fn clickhouse_table(
        &mut self,
        path: &[At<'_>],
        table: &raw::ClickHouseTable,
        names: &Names<'_>,
        columns: &BTreeMap<u16, Vec<Column>>,
    ) -> Option<ClickHouseTable> {
        let at = |key| [path, &[Key(key)]].concat();
        let mut topics = Vec::new();
        for (j, name) in table.topics.iter().enumerate() {
            topics.push(self.note(&[path, &[Key("topics"), Item(j)]].concat(), names.topic(name))?);
        }
        let Some(first) = topics.first() else {
            self.say(&at("topics"), "a Kafka table reads at least one topic");
            return None;
        };
        let writers = self.raw.jobs.len();
        if !columns.contains_key(&first.0) && table.topics.first().is_some_and(|t| self.should_write(writers, t)) {
            // What is wrong with whoever writes it has been said there.
            return None;
        }
        self.rows_alike(path, table, &topics, columns)?;
        let columns = columns.get(&first.0).cloned().unwrap_or_default();
        let mut order_by = Vec::new();
        for (j, name) in table.order_by.iter().enumerate() {
            let at = [path, &[Key("order-by"), Item(j)]].concat();
            self.named_once(&at, &table.order_by, j)?;
            order_by.push(self.store_column(&at, name, &columns)?);
        }
        let mut partition_by = Vec::new();
        for (j, name) in table.partition_by.iter().enumerate() {
            let at = [path, &[Key("partition-by"), Item(j)]].concat();
            self.named_once(&at, &table.partition_by, j)?;
            let column = self.store_column(&at, name, &columns)?;
            partition_by.push(PartitionBy::Number(column));
        }
        if partition_by.len() > 3 {
            self.say(&at("partition-by"), "PARTITION BY has at most three columns here");
            return None;
        }
        let version = match &table.version {
            Some(name) => Some(self.store_column(&at("version"), name, &columns)?),
            None => None,
        };
        let kind = match table.engine {
            TableEngine::MergeTree => RowKind::MergeTree,
            TableEngine::ReplacingMergeTree => RowKind::Replacing { version, deleted: None },
        };
        if version.is_some() && kind == RowKind::MergeTree {
            self.say(&at("version"), "only a ReplacingMergeTree has a version");
        }
        let kafka = self.config(&at("kafka"), Config::defaults(Side::KafkaEngine), &table.kafka);
        // What the engine sets by itself (`KafkaConfigLoader`).
        let mut defaults = Config::defaults(Side::Consumer(Profile::Librdkafka));
        defaults.set_default("group.id", Setting::Text(group_id(table).into()));
        defaults.set_default("auto.offset.reset", Setting::Word("earliest"));
        defaults.set_default("enable.auto.commit", Setting::Flag(false));
        let consumer = self.config(&at("consumer"), defaults, &table.consumer);
        if consumer.is_set("group.id") || consumer.is_set("enable.auto.commit") {
            self.advise(&at("consumer"), "the engine forces these", "the group is `kafka_group_name`");
        }
        let settings = self.config(&at("settings"), Config::defaults(Side::MergeTree), &table.settings);
        let group = names.groups.iter().position(|known| known == group_id(table))? as u32;
        let mut views = Vec::new();
        for (j, view) in table.views.iter().enumerate() {
            let path = [path, &[Key("views"), Item(j)]].concat();
            views.push(self.table_view(&path, view, &columns)?);
        }
        Some(ClickHouseTable {
            name: table.name.clone(),
            topics,
            group,
            engine: RowEngine { kind, order_by, partition_by },
            kafka,
            consumer,
            settings,
            views,
            block: table.block.0,
            row: table.row.0,
        })
    }
    /// Topics that a table reads hold rows of the same columns, and all or none of them a changelog: a Kafka table has one list of
    /// columns.
    fn rows_alike(
        &mut self,
        path: &[At<'_>],
        table: &raw::ClickHouseTable,
        topics: &[TopicId],
        columns: &BTreeMap<u16, Vec<Column>>,
    ) -> Option<()> {
        let raw = self.raw;
        let changelogs: Vec<&str> = raw.jobs.iter().flat_map(|j| j.changelogs()).collect();
        let holds_one = |name: &String| changelogs.contains(&name.as_str());
        let Some(first) = topics.first().and_then(|t| columns.get(&t.0)) else {
            // Nobody writes it: whatever names a column of it says so.
            return Some(());
        };
        for (j, (topic, name)) in topics.iter().zip(&table.topics).enumerate().skip(1) {
            let path = [path, &[Key("topics"), Item(j)]].concat();
            if holds_one(name) != holds_one(&table.topics[0]) {
                let what = format!("of `{}` and `{name}` one holds a changelog, the other does not", table.topics[0]);
                self.advise(&path, what, "a table of its own: rows of one table are judged as one");
                return None;
            }
            if let Some(of_topic) = columns.get(&topic.0).filter(|of| !alike(of, first)) {
                let help = format!("{} after {}", listed(of_topic), listed(first));
                self.advise(&path, format!("`{name}` has other columns than the first topic"), help);
                return None;
            }
        }
        Some(())
    }
    fn table_view(&mut self, path: &[At<'_>], view: &RawView, columns: &[Column]) -> Option<TableView> {
        let at = |key| [path, &[Key(key)]].concat();
        let by = self.store_column(&at("by"), &view.by, columns)?;
        let sum = match &view.sum {
            Some(name) => Some(self.store_column(&at("sum"), name, columns)?),
            None => None,
        };
        let throws_on = match &view.throws_on {
            None => None,
            Some(text) => {
                let number = text.split_once('=').and_then(|(name, n)| Some((name.trim(), n.trim().parse().ok()?)));
                let Some((name, number)) = number else {
                    self.say(&at("throws-on"), "what a view throws on is `COLUMN = NUMBER`");
                    return None;
                };
                Some((self.store_column(&at("throws-on"), name, columns)?, number))
            }
        };
        let view_of = View {
            source: Source::Base,
            filter: None,
            throws_on,
            query: Query::Sum { by: [by, by], amount: sum.unwrap_or(by), count: true },
            target: Into::Sums(MergeTree::<SumRow, Summing>::new(Summing, Default::default())),
        };
        Some(TableView { name: view.name.clone(), view: view_of, sum })
    }
    /// A column of a topic's rows by its name.
    fn store_column(&mut self, path: &[At<'_>], name: &str, columns: &[Column]) -> Option<Of> {
        match name {
            "key" => return Some(Of::Key),
            "time" => return Some(Of::Time),
            _ => {}
        }
        if let Some(at) = columns.iter().position(|c| c.name == name) {
            return Some(Of::Value(at as u8));
        }
        let problem = Problem::at(self.place(path), format!("the topic's rows have no column `{name}`"));
        let known = columns.iter().map(|c| c.name.as_str()).chain(["key", "time"]);
        self.problems.push(problem.nearest(name, known));
        None
    }
}
