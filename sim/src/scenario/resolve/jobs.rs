//! Jobs: every name looked up, columns numbered, the graph in order.

pub(super) mod columns;
mod meaning;
mod order;
mod sources;
mod tables;
mod windows;

use super::{At, Resolver, machine};
use crate::scenario::data::{Application, Column, Flink, Job, JobNode, Node, NodeKind, Table, Target, upwards};
use crate::scenario::keys::{Config, Profile, Setting, Side, against_transactions};
use crate::scenario::problem::{Problem, nearest};
use crate::scenario::raw::{JobOperator, JobSink, OperatorKind, ResumedState};
use crate::scenario::target::Names;
use At::{Item, Key};
use columns::Stream;
use model::base::{Millis, Nanos};
use model::flink::runtime::graph::KeyColumn;
use model::flink::runtime::operator::{DeduplicateConfig, JoinConfig, LateFilterConfig, OperatorConfig, WindowConfig};
use order::{LATE, Part, base};
use std::collections::BTreeMap;

const fn ms(time: Nanos) -> Millis {
    Millis((time.0 / 1_000_000) as i64)
}

impl Resolver<'_> {
    /// The Flink cluster, where there are jobs.
    pub(super) fn flink(&mut self, machine_of: &[(Target, usize)]) -> Option<Flink> {
        let raw = &self.raw.flink;
        let config = self.config(&[Key("flink"), Key("config")], Config::defaults(Side::Flink), &raw.config);
        if config.ms("heartbeat.timeout") <= config.ms("heartbeat.interval") {
            let what = "`heartbeat.timeout` is above `heartbeat.interval`: HeartbeatServices demands it";
            self.say(&[Key("flink"), Key("config")], what);
        }
        (!self.raw.jobs.is_empty()).then(|| Flink {
            job_manager: machine(machine_of, Target::JobManager),
            task_managers: (0..raw.task_managers).map(|n| machine(machine_of, Target::TaskManager(Some(n)))).collect(),
            config,
            age: raw.age.0,
        })
    }

    /// Applications that write one topic send the same columns into it, where somebody takes them by name.
    pub(super) fn sent_alike(&mut self, applications: &[Application]) {
        let raw = self.raw;
        for (at, a) in applications.iter().enumerate() {
            let Some(first) = applications[..at].iter().find(|other| other.topic == a.topic) else { continue };
            let (sent, before) = (columns::sent(&a.workload), columns::sent(&first.workload));
            let topic = &raw.topics[usize::from(a.topic.0)].name;
            let named = raw.jobs.iter().flat_map(|j| &j.sources).any(|s| s.topics().any(|t| t == topic))
                || super::stores::tables(raw).any(|t| t.topics.contains(topic));
            let at = raw.applications.iter().position(|of| of.name == a.name);
            if let Some(i) = at.filter(|_| named && !columns::alike(&sent, &before)) {
                let what = format!("`{}` sends other columns into `{topic}` than `{}`", a.name, first.name);
                let help = format!("{} after {}", columns::listed(&sent), columns::listed(&before));
                self.advise(&[Key("applications"), Item(i), Key("workload")], what, help);
            }
        }
    }

    /// Columns of each topic, as far as they are known: of those that applications write, those of the workload, also where a
    /// gatekeeper has passed them on.
    pub(super) fn topic_columns(&self, applications: &[Application], names: &Names<'_>) -> BTreeMap<u16, Vec<Column>> {
        let mut topics: BTreeMap<u16, Vec<Column>> =
            applications.iter().map(|a| (a.topic.0, columns::sent(&a.workload))).collect();
        for g in &self.raw.gatekeepers {
            let columns = names.topic(&g.input).ok().and_then(|t| topics.get(&t.0).cloned());
            let outputs = [&g.valid, &g.dead_letters].into_iter().filter_map(|t| names.topic(t).ok());
            topics.extend(columns.into_iter().flat_map(|c| outputs.clone().map(move |t| (t.0, c.clone()))));
        }
        topics
    }

    /// Jobs, and the tables that they write.
    pub(super) fn jobs(
        &mut self,
        names: &Names<'_>,
        applications: &[Application],
        nodes: &[Node],
        machine_of: &[(Target, usize)],
    ) -> (Vec<Job>, Vec<Table>) {
        let raw = self.raw;
        let mut tables: Vec<Option<Table>> = vec![None; raw.tables.len()];
        let mut topics = self.topic_columns(applications, names);
        let mut list = Vec::new();
        for (i, job) in raw.jobs.iter().enumerate() {
            let config = self.config(&[Key("jobs"), Item(i), Key("config")], Config::defaults(Side::Job), &job.config);
            if config.flag("execution.checkpointing.unaligned.enabled")
                && config.int("execution.checkpointing.max-concurrent-checkpoints") > 1
            {
                let what = "unaligned checkpoints run one at a time: CheckpointCoordinatorConfiguration demands it";
                let key = Key("execution.checkpointing.unaligned.enabled");
                self.say(&[Key("jobs"), Item(i), Key("config"), key], what);
            }
            let Some(order) = self.order(i) else { continue };
            let mut graph: Vec<JobNode> = Vec::new();
            let mut place: BTreeMap<&str, usize> = BTreeMap::new();
            for node in order {
                let built = match node {
                    Part::Source(n) => {
                        let source = &job.sources[n];
                        let built = self.source(i, n, source, names, &topics, &config);
                        built.map(|node| sources::behind(node, source, &config, &mut graph))
                    }
                    Part::Operator(n) => {
                        let built = self.operator(i, n, &job.operators[n], &graph, &place, &config);
                        built.and_then(|node| {
                            let Some(call) = &job.operators[n].call else { return Some(node) };
                            let (call, table) = self.call(i, n, call, &node, names, machine_of)?;
                            tables[call.to] = Some(table);
                            Some(JobNode { call: Some(call), ..node })
                        })
                    }
                    Part::Sink(n) if job.sinks[n].table.is_some() => {
                        let built = self.upsert(i, n, names, (&graph, &place), machine_of);
                        built.map(|(node, at, table)| {
                            tables[at] = Some(table);
                            node
                        })
                    }
                    Part::Sink(n) if job.sinks[n].lake.is_some() => {
                        self.lake_sink(i, n, names, (&graph, &place), &config)
                    }
                    Part::Sink(n) => self.sink(i, n, &job.sinks[n], names, (&graph, &place), &config, nodes),
                };
                let Some(mut built) = built else { continue };
                graph.extend(windows::local(&mut built, &graph));
                if let NodeKind::Sink { topic, .. } = &built.kind {
                    topics.insert(topic.0, built.columns.clone());
                }
                place.insert(node.name(job), graph.len());
                graph.push(built);
            }
            self.all_used(i);
            self.changelogs(i, &graph, &config);
            self.slots(i, &graph);
            let resumes = job.resumes.as_ref().and_then(|r| {
                let path = [Key("jobs"), Item(i), Key("resumes"), Key("from")];
                let Some(of) = raw.jobs[..i].iter().position(|j| j.name == r.from) else {
                    let problem =
                        Problem::at(self.place(&path), format!("there is no job `{}` before this one", r.from));
                    self.problems.push(problem.nearest(&r.from, raw.jobs[..i].iter().map(|j| j.name.as_str())));
                    return None;
                };
                Some((of, r.state == ResumedState::Savepoint))
            });
            if job.resumes.is_some() && job.starts {
                let path = [Key("jobs"), Item(i), Key("resumes")];
                self.advise(&path, "nothing is kept of the other job when the cluster starts", "set `starts = false`");
            }
            let same_id_as = job.same_id_as.as_ref().and_then(|other| {
                let path = [Key("jobs"), Item(i), Key("same-id-as")];
                let found = raw.jobs[..i].iter().position(|j| j.name == *other);
                if found.is_none() {
                    let problem = Problem::at(self.place(&path), format!("there is no job `{other}` before this one"));
                    self.problems.push(problem.nearest(other, raw.jobs[..i].iter().map(|j| j.name.as_str())));
                }
                found
            });
            let checkpoints = job.checkpoints.as_ref().and_then(|lake| {
                let found = names.lakes.iter().position(|name| name == lake);
                if found.is_none() {
                    let path = [Key("jobs"), Item(i), Key("checkpoints")];
                    let problem = Problem::at(self.place(&path), format!("there is no lake `{lake}`"));
                    self.problems.push(problem.nearest(lake, names.lakes.iter().map(String::as_str)));
                }
                found
            });
            let name = job.name.clone();
            list.push(Job { name, config, starts: job.starts, resumes, same_id_as, checkpoints, nodes: graph });
        }
        self.meanings(&list);
        // What is wrong with a sink that names it has been said there.
        let named = |table: &str| {
            raw.jobs.iter().any(|job| {
                let called = job.operators.iter().filter_map(|o| o.call.as_ref()).any(|c| c.to == table);
                called || job.sinks.iter().any(|s| s.table.as_deref() == Some(table))
            })
        };
        let unwritten = raw.tables.iter().enumerate().filter(|(t, table)| tables[*t].is_none() && !named(&table.name));
        for (t, table) in unwritten {
            let path = [Key("tables"), Item(t), Key("name")];
            self.advise(&path, format!("nobody writes `{}`", table.name), "a job's sink writes it: `table = ...`");
        }
        (list, tables.into_iter().flatten().collect())
    }

    /// A job that needs more slots than there are never runs (R1.2).
    fn slots(&mut self, i: usize, graph: &[JobNode]) {
        let path = [Key("flink"), Key("config")];
        let said = self.problems.len();
        let flink = self.config(&path, Config::defaults(Side::Flink), &self.raw.flink.config);
        // What is wrong with it is said where it is taken.
        self.problems.truncate(said);
        let each = flink.int("taskmanager.numberOfTaskSlots");
        let there = i64::from(self.raw.flink.task_managers) * each;
        let needs = graph.iter().map(|n| i64::from(n.parallelism)).max().unwrap_or(0);
        if needs > there {
            let what = format!("`{}` needs {needs} slots, and the cluster has {there}", self.raw.jobs[i].name);
            let help = "one for each subtask of its widest part: set flink.task-managers or \
                        flink.config.taskmanager.numberOfTaskSlots";
            self.advise(&[Key("jobs"), Item(i)], what, help);
        }
    }

    fn operator(
        &mut self,
        job: usize,
        n: usize,
        o: &JobOperator,
        graph: &[JobNode],
        place: &BTreeMap<&str, usize>,
        config: &Config,
    ) -> Option<JobNode> {
        let root = [Key("jobs"), Item(job), Key("operators"), Item(n)];
        let path = |key| [root[0], root[1], root[2], root[3], Key(key)];
        let input = self.input(&path("input"), &o.input, graph, place)?;
        let columns = handed_on(graph, input);
        let stream = Stream { columns, left: (o.kind == OperatorKind::Join).then_some(columns) };
        self.fitting(&root, o);
        if self.lost_any(&root) {
            // Without a key that cannot be read it would be another operator, with other columns.
            return None;
        }
        use OperatorKind::{Deduplicate, GroupWindow, Join, SqlWindow, Window};
        let key = match (&o.key, o.kind) {
            (Some(text), Join | Window | Deduplicate | SqlWindow | GroupWindow) => {
                Some(self.column(&path("key"), text, columns)?)
            }
            (None, Join | Window | Deduplicate | SqlWindow | GroupWindow) => {
                self.advise(&root, format!("`{}` has no `key`", o.name), "rows are keyed by one column");
                return None;
            }
            _ => None,
        };
        let key = key.map(|at| match (o.kind, columns[usize::from(at)].text) {
            (Deduplicate | SqlWindow | GroupWindow, _) => KeyColumn::Sql(at),
            (_, true) => KeyColumn::Text(at),
            (_, false) => KeyColumn::Long(at),
        });
        if o.kind.is_window() && !has_event_time(graph, input.0) && !self.watermarks_lost(job) {
            let what = format!("`{}` would never fire: no watermark comes from `{}`", o.name, base(&o.input));
            self.advise(&root, what, "give the source one: `watermark = { bound = \"5 s\" }`");
        }
        let (operator, columns) = match (o.kind, key) {
            (OperatorKind::Map, _) => {
                let Some(list) = &o.columns else {
                    self.advise(&root, format!("`{}` has no `columns`", o.name), "what a map hands on");
                    return None;
                };
                let (exprs, named) = self.expressions(&path("columns"), list, &stream)?;
                (OperatorConfig::Map(exprs), named)
            }
            (OperatorKind::Join, Some(key)) => {
                let (Some(left), Some(right), Some(list), Some(ttl)) = (&o.left, &o.right, &o.columns, o.ttl) else {
                    self.advise(
                        &root,
                        "a join has `left`, `right`, `columns` and `ttl`",
                        "which rows pair, what they give, how long one waits",
                    );
                    return None;
                };
                let left = self.condition(&path("left"), left, columns)?;
                let right = self.condition(&path("right"), right, columns)?;
                let (columns, named) = self.expressions(&path("columns"), list, &stream)?;
                (OperatorConfig::Join(JoinConfig { key, left, right, columns, ttl: ms(ttl.0) }), named)
            }
            (OperatorKind::Window, Some(key)) => {
                let help = "`size` makes a tumbling window, `size` and `slide` a sliding one, `gap` sessions; a millisecond at least";
                let assigner = self.assigner(&root, o, help)?;
                let sum = match &o.sum {
                    Some(text) => Some(self.summed(&path("sum"), text, columns)?),
                    None => None,
                };
                let named = windows::columns(columns, key, sum);
                let lateness = o.allowed_lateness.map_or(Millis::ZERO, |l| ms(l.0));
                let bytes = u32::try_from(o.bytes.0).unwrap_or(u32::MAX);
                (OperatorConfig::Window(WindowConfig { key, assigner, lateness, sum, bytes }), named)
            }
            (OperatorKind::Deduplicate, Some(key)) => {
                let ttl = o.ttl.map(|t| ms(t.0));
                let entry = o.entry.map_or(17, |entry| u32::try_from(entry.0).unwrap_or(u32::MAX));
                (OperatorConfig::Deduplicate(DeduplicateConfig { key, ttl, entry }), columns.to_vec())
            }
            (OperatorKind::SqlWindow, Some(key)) => self.sql_window(&root, o, key, columns, config)?,
            (GroupWindow, Some(key)) => self.group_window(&root, o, key, columns, config)?,
            (OperatorKind::LateFilter, _) => {
                let size = o.size.map(|s| ms(s.0)).filter(|s| *s > Millis::ZERO);
                (OperatorConfig::LateFilter(LateFilterConfig { size }), columns.to_vec())
            }
            _ => {
                let Some(text) = &o.condition else {
                    self.advise(&root, format!("`{}` has no `where`", o.name), "which rows a filter hands on");
                    return None;
                };
                (OperatorConfig::Filter(self.condition(&path("where"), text, columns)?), columns.to_vec())
            }
        };
        if o.kind.is_window() {
            self.distinct(&root, o, &columns)?;
        }
        Some(JobNode {
            name: o.name.clone(),
            kind: NodeKind::Operator(operator, key),
            input: Some(input),
            parallelism: o.parallelism.unwrap_or(config.int("parallelism.default") as u16),
            record: o.record.0,
            columns,
            call: None,
        })
    }
    /// Keys that an operator of this kind does not have.
    fn fitting(&mut self, root: &[At<'_>], o: &JobOperator) {
        use OperatorKind::{Deduplicate, Filter, GroupWindow, Join, LateFilter, Map, SqlWindow, Window};
        let fits: [(&str, bool, &[OperatorKind]); 14] = [
            ("key", o.key.is_some(), &[Join, Window, Deduplicate, SqlWindow, GroupWindow]),
            ("where", o.condition.is_some(), &[Filter]),
            ("columns", o.columns.is_some(), &[Map, Join]),
            ("left", o.left.is_some(), &[Join]),
            ("right", o.right.is_some(), &[Join]),
            ("ttl", o.ttl.is_some(), &[Join, Deduplicate]),
            ("entry", o.entry.is_some(), &[Deduplicate]),
            ("size", o.size.is_some(), &[Window, SqlWindow, GroupWindow, LateFilter]),
            ("slide", o.slide.is_some(), &[Window, SqlWindow, GroupWindow]),
            ("step", o.step.is_some(), &[SqlWindow]),
            ("gap", o.gap.is_some(), &[Window, SqlWindow, GroupWindow]),
            ("allowed-lateness", o.allowed_lateness.is_some(), &[Window]),
            ("sum", o.sum.is_some(), &[Window, SqlWindow, GroupWindow]),
            ("call", o.call.is_some(), &[Map]),
        ];
        for (key, there, kinds) in fits {
            if there && !kinds.contains(&o.kind) {
                self.say(&[root, &[Key(key)]].concat(), format!("an operator of this kind has no `{key}`"));
            }
        }
    }

    fn sink(
        &mut self,
        job: usize,
        n: usize,
        sink: &JobSink,
        names: &Names<'_>,
        (graph, place): (&[JobNode], &BTreeMap<&str, usize>),
        job_config: &Config,
        nodes: &[Node],
    ) -> Option<JobNode> {
        let path = |key| [Key("jobs"), Item(job), Key("sinks"), Item(n), Key(key)];
        let input = self.input(&path("input"), &sink.input, graph, place)?;
        let Some(written) = &sink.topic else {
            let root = [Key("jobs"), Item(job), Key("sinks"), Item(n)];
            self.advise(
                &root,
                format!("`{}` writes nowhere", sink.name),
                "a sink has a `topic`, a `table` or a `lake`",
            );
            return None;
        };
        let topic = self.note(&path("topic"), names.topic(written))?;
        let config = self.config(&path("config"), Config::defaults(Side::Sink), &sink.config);
        let mut defaults = Config::defaults(Side::Producer(Profile::Java34));
        // KafkaSinkBuilder: one hour, above what a broker allows by default.
        defaults.set_default("transaction.timeout.ms", Setting::Int(3_600_000));
        let producer = self.config(&path("producer"), defaults, &sink.producer);
        if config.word("sink.delivery-guarantee") == "exactly-once" {
            if self.has_no_checkpoints(job, job_config) {
                let what = "exactly once needs checkpoints: transactions are committed when one completes";
                self.advise(&path("config"), what, "set execution.checkpointing.interval at the job");
            }
            if config.text("sink.transactional-id-prefix").is_empty() {
                self.say(&path("config"), "exactly once needs a `sink.transactional-id-prefix`");
            }
            self.contradict(&path("producer"), against_transactions(Profile::Java34, &producer));
            let replicas = nodes.first().map_or(0, |n| n.config.int("transaction.state.log.replication.factor"));
            if replicas > nodes.len() as i64 {
                let help = format!("set transaction.state.log.replication.factor to {} at most", nodes.len());
                self.advise(&path("config"), "`__transaction_state` cannot be created: more replicas than nodes", help);
            }
        }
        let first = &self.raw.topics[0].name;
        let key = match &sink.key {
            Some(text) => Some(self.column(&path("key"), text, handed_on(graph, input))?),
            None => None,
        };
        let taken = self.raw.applications.iter().any(|a| a.topic.as_ref().unwrap_or(first) == written)
            || self.raw.gatekeepers.iter().any(|g| g.valid == *written || g.dead_letters == *written);
        if taken {
            self.say(&path("topic"), format!("an application writes into `{written}`"));
        }
        Some(JobNode {
            name: sink.name.clone(),
            kind: NodeKind::Sink { topic, config, producer, key },
            input: Some(input),
            parallelism: graph[input.0].parallelism,
            record: sink.record.0,
            columns: handed_on(graph, input).to_vec(),
            call: None,
        })
    }

    /// Whose output is meant.
    pub(super) fn input(
        &mut self,
        path: &[At<'_>],
        text: &str,
        graph: &[JobNode],
        place: &BTreeMap<&str, usize>,
    ) -> Option<(usize, bool)> {
        // What could not be built has been reported where it stands.
        let at = *place.get(base(text))?;
        let late = text.ends_with(LATE);
        let window = matches!(graph[at].kind, NodeKind::Operator(OperatorConfig::Window(_), _));
        if late && !window {
            let sql = matches!(
                graph[at].kind,
                NodeKind::Operator(OperatorConfig::SqlWindow(_) | OperatorConfig::GroupWindow(_), _)
            );
            let what =
                if sql { "a window of SQL, which drops what is late" } else { "no window: nothing comes late to it" };
            self.advise(path, format!("`{}` is {what}", base(text)), "an operator of kind `window` has a late output");
            return None;
        }
        Some((at, late))
    }
    /// Whether a key of a job's configuration is there and could not be read, which has been said.
    pub(super) fn unread(&self, job: usize, key: &str, config: &Config) -> bool {
        self.raw.jobs[job].config.map.contains_key(key) && !config.is_set(key)
    }
    /// Whether a job takes no checkpoints, as far as its configuration can be read.
    pub(super) fn has_no_checkpoints(&self, job: usize, config: &Config) -> bool {
        let interval = "execution.checkpointing.interval";
        config.int(interval) == 0 && !self.unread(job, interval, config)
    }
    /// A column by its name.
    fn column(&mut self, path: &[At<'_>], text: &str, columns: &[Column]) -> Option<u8> {
        if let Some(at) = columns.iter().position(|c| c.name == text.trim()) {
            return Some(at as u8);
        }
        let help = match nearest(text, columns.iter().map(|c| c.name.as_str())) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let all: Vec<_> = columns.iter().map(|c| c.name.as_str()).collect();
                format!("its columns are {}", all.join(", "))
            }
        };
        self.advise(path, format!("the input has no column `{}`", text.trim()), help);
        None
    }
}

/// Columns of what an input takes: what comes too late for a window is handed on as it came.
pub(super) fn handed_on(graph: &[JobNode], input: (usize, bool)) -> &[Column] {
    match (input.1, graph[input.0].input) {
        (true, Some(above)) => handed_on(graph, above),
        _ => &graph[input.0].columns,
    }
}

/// Whether watermarks come out of a node: its source makes them, or it ends, which ends event time too.
fn has_event_time(graph: &[JobNode], at: usize) -> bool {
    upwards(graph, Some((at, false))).any(|(at, _)| match &graph[at].kind {
        NodeKind::Source { watermarks, until, .. } => watermarks.is_some() || until.is_some(),
        NodeKind::Operator(operator, _) => matches!(operator, OperatorConfig::Assign(_)),
        _ => false,
    })
}

/// Prefixes of the transactional ids that sinks make up.
pub(super) fn made_up_prefixes(jobs: &[Job]) -> Vec<std::sync::Arc<str>> {
    let mut list: Vec<std::sync::Arc<str>> = Vec::new();
    for node in jobs.iter().flat_map(|j| &j.nodes) {
        if let NodeKind::Sink { config, .. } = &node.kind
            && config.word("sink.delivery-guarantee") == "exactly-once"
        {
            let prefix = config.text("sink.transactional-id-prefix");
            if !list.contains(&prefix) {
                list.push(prefix);
            }
        }
    }
    list
}
