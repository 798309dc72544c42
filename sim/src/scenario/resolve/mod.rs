//! From what a file says to what a run needs: every name looked up, every key read, every quantity in range. All problems are
//! collected; the result counts only if there is none.

mod cluster;
mod faults;
mod gatekeepers;
mod jobs;
mod objectives;
mod say;
mod stores;
mod workload;
mod written;

pub use faults::kind_name;
pub use written::written_out;

use super::data::{Application, Cluster, Costs, Range, Reader, Scenario, Target};
use super::expect::{Expectation, Known};
use super::keys::{Config, Profile, Setting, Side, against_transactions};
use super::problem::{Place, Problem, Sources};
use super::raw::{ApplicationKind, Raw, Reads};
use super::target::{Names, SinkName};
use super::tree;
use super::units::{Draw, Duration};
use crate::judge::Reading;
use model::base::{FIXES, Fixes, Nanos, SimTime, TopicId};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A step into a document.
#[derive(Clone, Copy, Debug)]
enum At<'a> {
    Key(&'a str),
    Item(usize),
}
use At::{Item, Key};
use objectives::Writers;

/// Where things stand, and what is wrong so far.
struct Resolver<'a> {
    tree: &'a tree::Node,
    raw: &'a Raw,
    /// Directory that paths in arguments are relative to.
    base: &'a Path,
    /// The texts that the tree was read from: paths in a file are relative to its own.
    sources: &'a Sources,
    outcome: &'a Json,
    /// Keys that were there and could not be read; see [`super::check::Checked::dropped`].
    dropped: &'a [(Place, String)],
    problems: Vec<Problem>,
}

/// Resolves `raw`, which was read from `tree`.
///
/// # Errors
/// Everything that is wrong.
pub fn resolve(
    name: &str,
    tree: &tree::Node,
    raw: &Raw,
    (base, sources): (&Path, &Sources),
    outcome: &Json,
    dropped: &[(Place, String)],
) -> Result<Scenario, Vec<Problem>> {
    let mut r = Resolver { tree, raw, base, sources, outcome, dropped, problems: Vec::new() };
    let scenario = r.scenario(name);
    match scenario {
        Some(scenario) if r.problems.is_empty() => Ok(scenario),
        _ => Err(r.problems),
    }
}

const fn range(draw: Draw<Duration>) -> Range {
    let (low, high) = draw.ends();
    Range { low: low.0, high: high.0 }
}

impl Resolver<'_> {
    fn scenario(&mut self, name: &str) -> Option<Scenario> {
        let raw = self.raw;
        if raw.description.contains('\n') || raw.description.trim().is_empty() {
            self.say(&[Key("description")], "the description is one line");
        }
        if let Some(own) = &raw.name {
            let bad = |c: char| !(c.is_ascii_alphanumeric() || "-_/.".contains(c));
            if own.is_empty() || own.contains(bad) {
                self.say(&[Key("name")], "a scenario's name is made of letters, digits, `-`, `_`, `.` and `/`");
            }
        }
        let fixes = self.fixes();
        self.unique("topics", raw.topics.iter().map(|t| t.name.as_str()));
        self.unique("applications", raw.applications.iter().map(|a| a.name.as_str()));
        self.unique("readers", raw.readers.iter().map(|r| r.name.as_str()));
        self.unique("gatekeepers", raw.gatekeepers.iter().map(|g| g.name.as_str()));
        self.unique("jobs", raw.jobs.iter().map(|j| j.name.as_str()));
        self.unique("tables", raw.tables.iter().map(|t| t.name.as_str()));
        self.unique("clickhouse", raw.clickhouse.iter().map(|c| c.name.as_str()));
        self.unique("lakes", raw.lakes.iter().map(|l| l.name.as_str()));
        self.unique("machines", raw.machines.iter().map(|m| m.name.as_str()));
        let topic_names: Vec<_> = raw.topics.iter().map(|t| (t.name.clone(), t.partitions)).collect();
        let application_names: Vec<_> = raw.applications.iter().map(|a| (a.name.clone(), a.instances)).collect();
        let reader_names: Vec<_> = raw.readers.iter().map(|r| (r.name.clone(), r.instances)).collect();
        let groups = groups(raw);
        let gatekeeper_names: Vec<_> = raw.gatekeepers.iter().map(|g| (g.name.clone(), g.instances)).collect();
        let machine_names: Vec<_> = raw.machines.iter().map(|m| m.name.clone()).collect();
        let table_names: Vec<_> = raw.tables.iter().map(|t| t.name.clone()).collect();
        let sinks = sink_names(raw);
        let clickhouse_names: Vec<_> = raw.clickhouse.iter().map(|c| c.name.clone()).collect();
        let job_names: Vec<_> = raw.jobs.iter().map(|j| j.name.clone()).collect();
        let lake_names: Vec<_> = raw.lakes.iter().map(|l| l.name.clone()).collect();
        let names = Names {
            lakes: &lake_names,
            jobs: &job_names,
            sinks: &sinks,
            clickhouse: &clickhouse_names,
            tables: &table_names,
            brokers: raw.cluster.brokers,
            topics: &topic_names,
            applications: &application_names,
            readers: &reader_names,
            groups: &groups,
            gatekeepers: &gatekeeper_names,
            registries: raw.registry.as_ref().map_or(0, |r| r.instances),
            task_managers: if raw.jobs.is_empty() { 0 } else { raw.flink.task_managers },
            machines: &machine_names,
        };
        let (machines, machine_of) = self.machines(&names);
        let cluster = self.cluster(&machine_of);
        let topics = self.topics(&cluster);
        let applications = self.applications(&names, &machine_of);
        self.transaction_log(&cluster, &applications);
        self.sent_alike(&applications);
        let gatekeepers = self.gatekeepers(&names, &machine_of);
        let registry = self.registry(&machine_of);
        let readers = self.readers(&names, &machine_of);
        self.offsets_log(&cluster, &groups);
        let flink = self.flink(&machine_of);
        let (jobs, tables) = self.jobs(&names, &applications, &cluster.nodes, &machine_of);
        let clickhouse = self.clickhouse(&names, &machine_of, &applications, &gatekeepers, &jobs);
        let lakes = self.lakes(&machine_of);
        let network = self.network(&names, &machine_of);
        let faults = self.faults(&names);
        let writers = Writers {
            readers: &readers,
            clickhouse: &clickhouse,
            applications: &applications,
            gatekeepers: &gatekeepers,
            jobs: &jobs,
        };
        let objectives = self.objectives(&writers);
        let markings = self.markings(&writers);
        let expectations = self.expectations();
        let hosts = &raw.hosts;
        let costs = Costs {
            start: self.range(&[Key("hosts"), Key("start")], hosts.start),
            load_log: hosts.load_log.0,
            recover_log: hosts.recover_log.0,
            apply_metadata: self.range(&[Key("hosts"), Key("apply-metadata")], hosts.apply_metadata),
            request: hosts.request.0,
            record: hosts.record.0,
        };
        Some(Scenario {
            name: raw.name.clone().unwrap_or_else(|| name.to_owned()),
            description: raw.description.clone(),
            assumptions: self.assumptions(),
            fixes,
            drain: raw.run.drain.0,
            liveness: raw.run.liveness.0,
            cluster,
            machines,
            network: network?,
            costs,
            topics,
            applications,
            readers,
            groups,
            gatekeepers,
            registry,
            faults,
            expectations,
            objectives,
            markings,
            made_up_ids: jobs::made_up_prefixes(&jobs),
            flink,
            jobs,
            tables,
            clickhouse,
            lakes,
        })
    }

    /// What the scenario takes for granted by itself, and the figures of machines and network, which no source states either.
    fn assumptions(&self) -> BTreeMap<String, Json> {
        let mut all = self.raw.assumptions.clone();
        for (name, figures) in
            [("hosts", serde_json::to_value(&self.raw.hosts)), ("network", serde_json::to_value(&self.raw.network))]
        {
            if let Ok(figures) = figures {
                all.entry(name.into()).or_insert(figures);
            }
        }
        all
    }

    fn fixes(&mut self) -> Fixes {
        let mut fixes = Fixes::ALL;
        for (i, name) in self.raw.cleared_fixes.iter().enumerate() {
            match FIXES.iter().find(|f| f.name == name) {
                Some(info) => fixes = fixes.without(info.fix),
                None => self.no_fix(&[Key("cleared-fixes"), Item(i)], name),
            }
        }
        fixes
    }
    fn no_fix(&mut self, path: &[At<'_>], name: &str) {
        let problem = Problem::at(self.place(path), format!("there is no fix `{name}`"));
        self.problems.push(problem.nearest(name, FIXES.iter().map(|f| f.name)));
    }

    fn unique<'n>(&mut self, list: &str, names: impl Iterator<Item = &'n str>) {
        let mut seen = BTreeSet::new();
        for (i, name) in names.enumerate() {
            let path = [Key(list), Item(i), Key("name")];
            let bad = |c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c));
            if name.is_empty() || name.contains(bad) {
                self.say(&path, "a name is made of letters, digits, `-`, `_` and `.`");
            }
            if !seen.insert(name) {
                self.say(&path, format!("there are two {list} called `{name}`"));
            }
        }
    }

    fn applications(&mut self, names: &Names<'_>, machine_of: &[(Target, usize)]) -> Vec<Application> {
        let raw = self.raw;
        let mut list = Vec::new();
        for (i, a) in raw.applications.iter().enumerate() {
            let path = |key| [Key("applications"), Item(i), Key(key)];
            if a.kind != ApplicationKind::Producer {
                self.advise(
                    &path("kind"),
                    "this kind of application is not covered yet",
                    "`producer` is; see NOT_COVERED.md",
                );
            }
            let topic = match (&a.topic, raw.topics.len()) {
                (Some(name), _) => self.note(&path("topic"), names.topic(name)),
                (None, 1) => Some(TopicId(0)),
                (None, _) => {
                    self.say(&path("topic"), format!("`{}` has no `topic`, and there are several", a.name));
                    None
                }
            };
            let config = self.config(&path("config"), Config::defaults(Side::Producer(a.profile)), &a.config);
            let workload = match &a.workload {
                Some(own) => self.workload(&path("workload"), own),
                None => self.workload(&[Key("workload")], &raw.workload),
            };
            if a.transaction.is_some() {
                self.transaction(i, &config);
            }
            let instance = |n| machine(machine_of, Target::Application(i as u16, Some(n)));
            let instances = (0..a.instances).map(instance).collect();
            if let (Some(topic), Some(workload)) = (topic, workload) {
                let start = SimTime(a.start.0.0);
                list.push(Application {
                    name: a.name.clone(),
                    profile: a.profile,
                    topic,
                    config,
                    transaction: a.transaction.as_ref().map(|t| super::data::Transaction {
                        rows: t.rows,
                        every: t.every.0,
                        id: t.id.clone(),
                        aborts_ppm: t.aborts.0,
                        timeout: t.timeout.map(|t| t.0),
                        keeps_fatal: t.keeps_fatal,
                    }),
                    instances,
                    workload,
                    start,
                });
            }
        }
        list
    }

    /// Application `i` sends in transactions.
    fn transaction(&mut self, i: usize, config: &Config) {
        let a = &self.raw.applications[i];
        let path = |key| [Key("applications"), Item(i), Key(key)];
        let Some(transaction) = &a.transaction else { return };
        if transaction.rows == 0 {
            self.say(&path("transaction"), "a transaction has at least one row");
        }
        if transaction.every.0 < Nanos::millis(1) {
            self.say(&path("transaction"), "a transaction takes at least one millisecond");
        }
        if transaction.id.as_ref().is_some_and(String::is_empty) {
            self.say(&path("transaction"), "an empty `transactional.id` is none");
        }
        if transaction.timeout.is_some() && a.profile != Profile::Librdkafka {
            self.advise(
                &path("transaction"),
                "`timeout` is librdkafka's",
                "calls of the Java client end by `max.block.ms`",
            );
        }
        self.contradict(&path("config"), against_transactions(a.profile, config));
    }
    /// Where an application sends in transactions, the cluster has to be able to create `__transaction_state`.
    fn transaction_log(&mut self, cluster: &Cluster, applications: &[Application]) {
        let replicas = cluster.nodes.first().map_or(0, |n| n.config.int("transaction.state.log.replication.factor"));
        let nodes = cluster.nodes.len();
        let transactional = applications.iter().any(|a| a.transaction.is_some()) || !self.raw.gatekeepers.is_empty();
        if transactional && replicas > nodes as i64 {
            let what = "`__transaction_state` cannot be created: more replicas than nodes";
            let help = format!("set transaction.state.log.replication.factor to {nodes} at most; it is {replicas}");
            self.advise(&[Key("cluster"), Key("config")], what, help);
        }
    }

    /// Where there is a group, the cluster has to be able to create `__consumer_offsets`.
    fn offsets_log(&mut self, cluster: &Cluster, groups: &[String]) {
        let replicas = cluster.nodes.first().map_or(0, |n| n.config.int("offsets.topic.replication.factor"));
        let nodes = cluster.nodes.len();
        if !groups.is_empty() && replicas > nodes as i64 {
            let what = "`__consumer_offsets` cannot be created: more replicas than nodes";
            let help = format!("set offsets.topic.replication.factor to {nodes} at most; it is {replicas}");
            self.advise(&[Key("cluster"), Key("config")], what, help);
        }
    }

    fn readers(&mut self, names: &Names<'_>, machine_of: &[(Target, usize)]) -> Vec<Reader> {
        let raw = self.raw;
        let mut list = Vec::new();
        for (i, r) in raw.readers.iter().enumerate() {
            let mut topics: Vec<_> = (0..raw.topics.len() as u16).map(TopicId).collect();
            if !r.topics.is_empty() {
                let found = r.topics.iter().enumerate();
                let found = found.filter_map(|(j, name)| {
                    self.note(&[Key("readers"), Item(i), Key("topics"), Item(j)], names.topic(name))
                });
                topics = found.collect();
            }
            if raw.topics.iter().any(|t| t.name == r.name) {
                let path = [Key("readers"), Item(i), Key("name")];
                self.say(&path, format!("`{}` is also a topic: both would be one layer of the outcome", r.name));
            }
            let path = [Key("readers"), Item(i), Key("config")];
            let config = self.config(&path, reader_defaults(r), &r.config);
            let group = names.groups.iter().position(|g| **g == *config.text("group.id")).map(|g| g as u32);
            if group.is_some() && raw.readers[..i].iter().any(|other| group_id(other) == group_id(r)) {
                let path = [Key("readers"), Item(i), Key("config")];
                self.advise(&path, "two readers are in one group", "members are `instances` of one reader");
            }
            if group.is_none() && (r.instances > 1 || r.hand_over) {
                let key = if r.instances > 1 { "instances" } else { "hand-over" };
                let path = [Key("readers"), Item(i), Key(key)];
                self.advise(&path, "a reader without a group is one process", "set config.group.id");
            }
            let instance = |n| machine(machine_of, Target::Reader(i as u16, Some(n)));
            list.push(Reader {
                name: r.name.clone(),
                profile: r.profile,
                topics,
                config,
                instances: (0..r.instances).map(instance).collect(),
                poll_every: r.poll_every.0,
                record: r.record.0,
                group,
                poll_timeout: r.poll_timeout.0,
                stagger: r.stagger.0,
                hand_over: r.hand_over,
                start: SimTime(r.start.0.0),
                reads: self.reading(i, r),
            });
        }
        list
    }
    /// How a reader takes changelogs; one that reads none has nothing to take so.
    fn reading(&mut self, i: usize, reader: &super::raw::Reader) -> Reading {
        let changelog = |topic: &str| reader.topics.is_empty() || reader.topics.iter().any(|t| t == topic);
        if reader.reads != Reads::Rows && !self.raw.jobs.iter().flat_map(|j| j.changelogs()).any(changelog) {
            let path = [Key("readers"), Item(i), Key("reads")];
            self.advise(&path, "it reads no changelog", "a job's `group-window` writes one");
        }
        match reader.reads {
            Reads::Rows => Reading::Rows,
            Reads::Changelog => Reading::Changelog,
            Reads::IgnoresRetractions => Reading::IgnoresRetractions,
        }
    }

    fn expectations(&mut self) -> Vec<Expectation> {
        let raw = self.raw;
        let known = known(raw);
        let mut list = Vec::new();
        for (i, e) in raw.expectations.iter().enumerate() {
            for (j, text) in e.that.texts().iter().enumerate() {
                match Expectation::parse(text, e.why.as_deref(), self.outcome, &known) {
                    Ok(expectation) => list.push(expectation),
                    Err(wrong) => {
                        let whole = self.place(&[Key("expectations"), Item(i), Key("that"), Item(j)]);
                        // A plain string has a quote of one byte before its text; in any other the whole is shown.
                        let plain = whole.end - whole.start == text.len() + 2;
                        let place = match plain {
                            true => Place {
                                start: whole.start + 1 + wrong.at.start,
                                end: whole.start + 1 + wrong.at.end,
                                ..whole
                            },
                            false => whole,
                        };
                        let problem = Problem::at(place, wrong.message);
                        self.problems.push(match wrong.help {
                            Some(help) => problem.help(help),
                            None => problem,
                        });
                    }
                }
            }
        }
        list
    }
}

/// Defaults of a reader: the client's own, except that it reads from the beginning, and without a group commits nothing.
fn reader_defaults(reader: &super::raw::Reader) -> Config {
    let mut config = Config::defaults(Side::Consumer(reader.profile));
    config.set_default("auto.offset.reset", Setting::Word("earliest"));
    if group_id(reader).is_none() {
        config.set_default("enable.auto.commit", Setting::Flag(false));
    }
    config
}
/// `group.id` of a reader.
fn group_id(reader: &super::raw::Reader) -> Option<&str> {
    group_of(&reader.config)
}
fn group_of<K>(config: &super::raw::Settings<K>) -> Option<&str> {
    config.map.get("group.id").and_then(Json::as_str).map(str::trim).filter(|id| !id.is_empty())
}
/// Sinks of jobs that write topics. Their subtasks are as many as those of what they take their input from.
fn sink_names(raw: &Raw) -> Vec<SinkName> {
    let of_job = |(job, number): (&super::raw::Job, u16)| {
        let default =
            job.config.map.get("parallelism.default").and_then(|p| p.to_string().trim_matches('"').parse().ok());
        let own = job.operators.iter().filter_map(|o| o.parallelism).chain(default);
        let subtasks = own.max().unwrap_or(1);
        let sinks = job.sinks.iter().filter_map(move |s| {
            Some(SinkName { name: s.name.clone(), subtasks, job: number, topic: s.topic.clone()? })
        });
        sinks.collect::<Vec<_>>()
    };
    raw.jobs.iter().zip(0..).flat_map(of_job).collect()
}
/// Every `group.id`, once.
fn groups(raw: &Raw) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let gatekeepers = raw.gatekeepers.iter().map(gatekeepers::group_id);
    let sources = raw.jobs.iter().flat_map(|j| &j.sources).filter_map(|s| group_of(&s.config));
    let stores = stores::tables(raw).map(stores::group_id);
    for id in raw.readers.iter().filter_map(group_id).chain(gatekeepers).chain(sources).chain(stores) {
        if !list.iter().any(|known| known == id) {
            list.push(id.to_owned());
        }
    }
    list
}

fn machine(machine_of: &[(Target, usize)], process: Target) -> usize {
    machine_of.iter().find(|(p, _)| *p == process).map_or(0, |(_, m)| *m)
}

/// Names that will stand in the outcome of a scenario.
pub fn known(raw: &Raw) -> Known {
    let readers = raw.readers.iter().map(|r| r.name.clone());
    let tables = raw.tables.iter().map(|t| t.name.clone());
    let layers = raw.topics.iter().map(|t| t.name.clone()).chain(readers).chain(tables.clone());
    let stored = stores::tables(raw).flat_map(|t| [t.name.clone(), stores::final_name(&t.name)]);
    let lakes = raw.lakes.iter().map(|l| l.name.clone());
    let layers: Vec<_> = layers.chain(stored).chain(lakes).collect();
    let instances = raw.applications.iter().flat_map(|a| (0..a.instances).map(move |n| format!("{}-{n}", a.name)));
    let gates = raw.gatekeepers.iter().flat_map(|g| (0..g.instances).map(move |n| format!("{}-{n}", g.name)));
    let gates = raw.gatekeepers.iter().map(|g| g.name.clone()).chain(gates);
    let producers = raw.applications.iter().map(|a| a.name.clone()).chain(instances).chain(gates).collect();
    let called =
        |j: &super::raw::Job| j.operators.iter().filter_map(|o| Some(o.call.as_ref()?.to.clone())).collect::<Vec<_>>();
    let sinks = raw.jobs.iter().flat_map(|j| j.sinks.iter().map(|s| s.name.clone()).chain(called(j))).collect();
    let windowed = raw.jobs.iter().flat_map(|j| j.sinks.iter().filter(|s| j.holds_windows(&s.input)));
    let windowed: Vec<_> = windowed.map(|s| s.name.clone()).collect();
    let jobs = raw.jobs.iter().map(|j| j.name.clone()).collect();
    let views = stores::tables(raw).flat_map(|t| t.views.iter().map(|v| v.name.clone()));
    // What is added up from a changelog as it stands in a table.
    let changelogs: Vec<&str> = raw.jobs.iter().flat_map(|j| j.changelogs()).collect();
    let of_changelogs =
        stores::tables(raw).filter(|t| matches!(&t.topics[..], [topic] if changelogs.contains(&&**topic)));
    let summed = of_changelogs.flat_map(|t| [t.name.clone(), stores::final_name(&t.name)]);
    let values = raw.readers.iter().map(|r| r.name.clone()).chain(tables).chain(views).chain(summed).collect();
    let topics: Vec<_> = raw.topics.iter().map(|t| t.name.clone()).collect();
    Known::from([
        ("layers", layers.clone()),
        ("freshness_ms", layers),
        ("producers", producers),
        ("scopes", sinks),
        ("aggregates", windowed.clone()),
        ("checks", windowed),
        ("values", values),
        ("jobs", jobs),
        ("pinned_ms", topics.clone()),
        ("aborted_rows", topics),
        ("objectives", raw.objectives.iter().map(|o| o.name.clone()).collect()),
        ("markings", raw.markings.iter().map(|m| m.name.clone()).collect()),
    ])
}
