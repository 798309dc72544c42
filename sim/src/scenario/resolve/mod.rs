//! From what a file says to what a run needs: every name looked up, every key read, every quantity in range. All problems are
//! collected; the result counts only if there is none.

mod faults;
mod workload;

pub use faults::kind_name;

use super::data::{Application, Cluster, Costs, Link, Machine, Network, Node, Range, Reader, Scenario, Target, Topic};
use super::expect::{Expectation, Known};
use super::keys::{Config, Lookup, Profile, Setting, Side, conflicts, look_up};
use super::problem::{Place, Problem};
use super::raw::{ApplicationKind, Raw, Settings};
use super::target::Names;
use super::tree::{self, Value};
use super::units::{Draw, Duration};
use model::base::{BrokerId, FIXES, Fixes, SimTime, TopicId};
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

/// Where things stand, and what is wrong so far.
struct Resolver<'a> {
    tree: &'a tree::Node,
    raw: &'a Raw,
    /// Directory that paths in the file are relative to.
    base: &'a Path,
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
    base: &Path,
    outcome: &Json,
    dropped: &[(Place, String)],
) -> Result<Scenario, Vec<Problem>> {
    let mut r = Resolver { tree, raw, base, outcome, dropped, problems: Vec::new() };
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
    /// What a path names; as an error the deepest thing on the way to it.
    fn walk(&self, path: &[At<'_>]) -> Result<&tree::Node, &tree::Node> {
        path.iter().try_fold(self.tree, |node, step| {
            let next = match (step, &node.value) {
                (Key(key), _) => node.get(key),
                (Item(at), Value::Array(items)) => items.get(*at),
                // One value may stand where several could.
                (Item(_), _) => Some(node),
            };
            next.ok_or(node)
        })
    }
    /// The place of what a path names, or of the deepest thing on the way to it.
    fn place(&self, path: &[At<'_>]) -> Place {
        let (Ok(node) | Err(node)) = self.walk(path);
        node.place
    }
    /// The place of a key, not of its value.
    fn key_place(&self, path: &[At<'_>], key: &str) -> Place {
        match self.walk(path) {
            Ok(node) => node.entries().iter().find(|e| e.key == key).map_or(node.place, |e| e.place),
            Err(deepest) => deepest.place,
        }
    }
    /// Whether the table at `path` had `key`, but unreadable.
    fn lost(&self, path: &[At<'_>], key: &str) -> bool {
        let place = self.place(path);
        self.dropped.iter().any(|(at, k)| *at == place && k == key)
    }
    fn say(&mut self, path: &[At<'_>], message: impl Into<String>) {
        let place = self.place(path);
        self.problems.push(Problem::at(place, message));
    }
    fn advise(&mut self, path: &[At<'_>], message: impl Into<String>, help: impl Into<String>) {
        let place = self.place(path);
        self.problems.push(Problem::at(place, message).help(help));
    }
    /// Takes the value, or notes what is wrong with it.
    fn note<T>(&mut self, path: &[At<'_>], result: Result<T, (String, Option<String>)>) -> Option<T> {
        result
            .map_err(|(message, help)| {
                let problem = Problem::at(self.place(path), message);
                self.problems.push(match help {
                    Some(help) => problem.help(help),
                    None => problem,
                });
            })
            .ok()
    }
    /// A range whose ends are in order.
    fn range(&mut self, path: &[At<'_>], draw: Draw<Duration>) -> Range {
        let range = range(draw);
        if range.low > range.high {
            self.say(path, "the range is empty: its first value is above its second");
        }
        range
    }

    /// Reads a table of Kafka's keys onto the defaults of a side.
    fn config<K>(&mut self, path: &[At<'_>], mut config: Config, settings: &Settings<K>) -> Config {
        let side = config.side();
        for (name, value) in &settings.map {
            let text = match value {
                Json::String(s) => s.clone(),
                other => other.to_string(),
            };
            match look_up(side, name) {
                Lookup::Known(key) => match key.read(&text) {
                    Ok(setting) => config.set(key.name, setting),
                    Err(message) => {
                        let whole = [path, &[Key(name)]].concat();
                        self.say(&whole, message);
                    }
                },
                Lookup::NotModelled => {
                    let place = self.key_place(path, name);
                    let message = format!("`{name}` is known to Kafka, not modelled");
                    let help = format!("it has no effect here, so it may not stand in the configuration of {side}");
                    self.problems.push(Problem::at(place, message).help(help));
                }
                Lookup::Elsewhere(other) => {
                    let place = self.key_place(path, name);
                    let message = format!("`{name}` is a key of {other}, not of {side}");
                    self.problems.push(Problem::at(place, message));
                }
                Lookup::Unknown(near) => {
                    let place = self.key_place(path, name);
                    let problem = Problem::at(place, format!("{side} has no key `{name}`"));
                    self.problems.push(match near {
                        Some(near) => problem.help(format!("did you mean `{near}`?")),
                        None => problem,
                    });
                }
            }
        }
        for conflict in conflicts(&mut config) {
            let place = self.key_place(path, conflict.key);
            self.problems.push(Problem::at(place, format!("`{}`: {}", conflict.key, conflict.message)));
        }
        config
    }

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
        if !raw.jobs.is_empty() {
            let place = self.key_place(&[], "jobs");
            let help = "topics, applications and readers are; see NOT_COVERED.md";
            self.problems.push(Problem::at(place, "`jobs` are not covered yet").help(help));
        }
        let fixes = self.fixes();
        self.unique("topics", raw.topics.iter().map(|t| t.name.as_str()));
        self.unique("applications", raw.applications.iter().map(|a| a.name.as_str()));
        self.unique("readers", raw.readers.iter().map(|r| r.name.as_str()));
        self.unique("machines", raw.machines.iter().map(|m| m.name.as_str()));
        let topic_names: Vec<_> = raw.topics.iter().map(|t| (t.name.clone(), t.partitions)).collect();
        let application_names: Vec<_> = raw.applications.iter().map(|a| (a.name.clone(), a.instances)).collect();
        let reader_names: Vec<_> = raw.readers.iter().map(|r| r.name.clone()).collect();
        let machine_names: Vec<_> = raw.machines.iter().map(|m| m.name.clone()).collect();
        let names = Names {
            brokers: raw.cluster.brokers,
            topics: &topic_names,
            applications: &application_names,
            readers: &reader_names,
            machines: &machine_names,
        };
        let (machines, machine_of) = self.machines(&names);
        let cluster = self.cluster(&machine_of);
        let topics = self.topics(&cluster);
        let applications = self.applications(&names, &machine_of);
        let readers = self.readers(&names, &machine_of);
        let network = self.network(&names, &machine_of);
        let faults = self.faults(&names);
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
            faults,
            expectations,
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

    /// All machines, and for each process its machine.
    fn machines(&mut self, names: &Names<'_>) -> (Vec<Machine>, Vec<(Target, usize)>) {
        let raw = self.raw;
        let standard = |name: String| Machine {
            name,
            cores: raw.hosts.cores,
            disk_bandwidth: raw.hosts.disk_bandwidth.0,
            disk_flush: raw.hosts.disk_flush.0,
            disk_capacity: raw.hosts.disk_capacity.0,
        };
        let mut all = Vec::new();
        let mut placed: Vec<(Target, usize)> = Vec::new();
        for (i, m) in raw.machines.iter().enumerate() {
            let mut machine = standard(m.name.clone());
            machine.cores = m.cores.unwrap_or(machine.cores);
            machine.disk_bandwidth = m.disk_bandwidth.map_or(machine.disk_bandwidth, |b| b.0);
            machine.disk_flush = m.disk_flush.map_or(machine.disk_flush, |f| f.0);
            for (j, text) in m.runs.iter().enumerate() {
                let path = [Key("machines"), Item(i), Key("runs"), Item(j)];
                let Some(target) = self.note(&path, names.target(text)) else { continue };
                let processes = match target {
                    Target::Application(app, None) => {
                        (0..names.applications[usize::from(app)].1).map(|n| Target::Application(app, Some(n))).collect()
                    }
                    Target::Broker(_) | Target::Application(..) | Target::Reader(_) => vec![target],
                    _ => {
                        self.say(&path, "a machine runs `broker N`, `application NAME` or `reader NAME`");
                        continue;
                    }
                };
                for process in processes {
                    if placed.iter().any(|(p, _)| *p == process) {
                        self.say(&path, format!("`{text}` runs on two machines"));
                    }
                    placed.push((process, all.len()));
                }
            }
            all.push(machine);
        }
        // Whoever has no machine gets one of its own.
        let brokers = (1..=names.brokers).map(|n| (Target::Broker(BrokerId(i32::from(n))), format!("broker-{n}")));
        let applications = names.applications.iter().enumerate().flat_map(|(a, (name, instances))| {
            (0..*instances).map(move |n| (Target::Application(a as u16, Some(n)), format!("{name}-{n}")))
        });
        let readers = names.readers.iter().enumerate().map(|(r, name)| (Target::Reader(r as u16), name.clone()));
        for (process, name) in brokers.chain(applications).chain(readers) {
            if !placed.iter().any(|(p, _)| *p == process) {
                placed.push((process, all.len()));
                all.push(standard(name));
            }
        }
        (all, placed)
    }

    fn cluster(&mut self, machine_of: &[(Target, usize)]) -> Cluster {
        let raw = &self.raw.cluster;
        let common = self.config(&[Key("cluster"), Key("config")], Config::defaults(Side::Server), &raw.config);
        let mut configs = vec![common; usize::from(raw.brokers)];
        for (i, over) in raw.overrides.iter().enumerate() {
            if !(1..=raw.brokers).contains(&over.broker) {
                let path = [Key("cluster"), Key("overrides"), Item(i), Key("broker")];
                self.say(&path, format!("brokers are 1 to {}", raw.brokers));
                continue;
            }
            let path = [Key("cluster"), Key("overrides"), Item(i), Key("config")];
            let node = usize::from(over.broker - 1);
            configs[node] = self.config(&path, configs[node].clone(), &over.config);
        }
        let features = self.config(&[Key("cluster"), Key("features")], Config::defaults(Side::Feature), &raw.features);
        let nodes = (1..).zip(configs).map(|(n, config)| {
            let id = BrokerId(n);
            Node { id, config, machine: machine(machine_of, Target::Broker(id)) }
        });
        Cluster { nodes: nodes.collect(), features }
    }

    fn topics(&mut self, cluster: &Cluster) -> Vec<Topic> {
        let raw = self.raw;
        if raw.topics.is_empty() {
            self.say(&[Key("topics")], "a scenario has at least one topic");
        }
        let mut list = Vec::new();
        for (i, t) in raw.topics.iter().enumerate() {
            let replicas = t.replication_factor;
            if replicas > raw.cluster.brokers {
                let path = [Key("topics"), Item(i), Key("replication-factor")];
                self.say(&path, format!("{replicas} replicas of `{}` on {} brokers", t.name, raw.cluster.brokers));
            }
            let path = [Key("topics"), Item(i), Key("config")];
            let mut config = Config::defaults(Side::Topic);
            // A topic's default is its server's value (`LogConfig`): that of the first node, as all of them should agree.
            for (topic, server) in SERVER_DEFAULTS {
                config.set_default(topic, cluster.nodes[0].config.get(server));
            }
            let config = self.config(&path, config, &t.config);
            let assignment = match &t.assignment {
                Some(given) => self.assignment(i, given),
                None => spread(t.partitions, replicas.min(raw.cluster.brokers), raw.cluster.brokers),
            };
            list.push(Topic { id: TopicId(i as u16), name: t.name.clone(), assignment, config });
        }
        list
    }
    fn assignment(&mut self, topic: usize, given: &[Vec<u16>]) -> Vec<Vec<BrokerId>> {
        let (raw, path) = (&self.raw.topics[topic], [Key("topics"), Item(topic), Key("assignment")]);
        if given.len() != usize::from(raw.partitions) {
            self.say(&path, format!("{} partitions are assigned, `{}` has {}", given.len(), raw.name, raw.partitions));
        }
        for (p, replicas) in given.iter().enumerate() {
            let path = [path[0], path[1], path[2], Item(p)];
            let distinct: BTreeSet<_> = replicas.iter().collect();
            if distinct.len() != replicas.len() {
                self.say(&path, "a broker holds at most one replica of a partition");
            }
            if replicas.len() != usize::from(raw.replication_factor) {
                let message =
                    format!("{} replicas instead of replication-factor = {}", replicas.len(), raw.replication_factor);
                self.say(&path, message);
            }
            if let Some(none) = replicas.iter().find(|b| !(1..=self.raw.cluster.brokers).contains(b)) {
                self.say(&path, format!("there is no broker {none}: they are 1 to {}", self.raw.cluster.brokers));
            }
        }
        given.iter().map(|replicas| replicas.iter().map(|b| BrokerId(i32::from(*b))).collect()).collect()
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
            let instance = |n| machine(machine_of, Target::Application(i as u16, Some(n)));
            let instances = (0..a.instances).map(instance).collect();
            if let (Some(topic), Some(workload)) = (topic, workload) {
                let start = SimTime(a.start.0.0);
                list.push(Application {
                    name: a.name.clone(),
                    profile: a.profile,
                    topic,
                    config,
                    instances,
                    workload,
                    start,
                });
            }
        }
        list
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
            let config = self.config(&path, reader_defaults(r.profile), &r.config);
            list.push(Reader {
                name: r.name.clone(),
                profile: r.profile,
                topics,
                config,
                machine: machine(machine_of, Target::Reader(i as u16)),
                poll_every: r.poll_every.0,
                record: r.record.0,
                start: SimTime(r.start.0.0),
            });
        }
        list
    }

    fn network(&mut self, names: &Names<'_>, machine_of: &[(Target, usize)]) -> Option<Network> {
        let raw = &self.raw.network;
        let latency = self.range(&[Key("network"), Key("latency")], raw.latency);
        let mut links = Vec::new();
        for (i, link) in raw.links.iter().enumerate() {
            let path = |key| [Key("network"), Key("links"), Item(i), Key(key)];
            let from = self
                .note(&path("from"), names.target(&link.from))
                .and_then(|t| self.hosts_of(&path("from"), t, machine_of));
            let to =
                self.note(&path("to"), names.target(&link.to)).and_then(|t| self.hosts_of(&path("to"), t, machine_of));
            let latency = link.latency.map_or(latency, |l| self.range(&path("latency"), l));
            let bandwidth = link.bandwidth.map_or(raw.bandwidth.0, |b| b.0);
            if let (Some(from), Some(to)) = (from, to) {
                links.push(Link { from, to, latency, bandwidth });
            }
        }
        Some(Network { latency, bandwidth: raw.bandwidth.0, links })
    }
    /// Machines of a target that does not depend on how the run goes.
    fn hosts_of(&mut self, path: &[At<'_>], target: Target, machine_of: &[(Target, usize)]) -> Option<Vec<usize>> {
        let of = |f: &dyn Fn(&Target) -> bool| {
            let set: BTreeSet<_> = machine_of.iter().filter(|(t, _)| f(t)).map(|(_, m)| *m).collect();
            Some(set.into_iter().collect())
        };
        match target {
            Target::Broker(_) | Target::Application(_, Some(_)) | Target::Reader(_) => of(&|t| *t == target),
            Target::Application(app, None) => of(&|t| matches!(t, Target::Application(a, _) if *a == app)),
            Target::AllBrokers => of(&|t| matches!(t, Target::Broker(_))),
            Target::AllClients => of(&|t| !matches!(t, Target::Broker(_))),
            Target::Machine(m) => Some(vec![usize::from(m)]),
            _ => {
                self.say(path, "a link has fixed ends: a broker, an application, a reader, a machine, all of a kind");
                None
            }
        }
    }

    fn expectations(&mut self) -> Vec<Expectation> {
        let raw = self.raw;
        let readers = raw.readers.iter().map(|r| r.name.clone());
        let layers: Vec<_> = raw.topics.iter().map(|t| t.name.clone()).chain(readers).collect();
        let instances = raw.applications.iter().flat_map(|a| (0..a.instances).map(move |n| format!("{}-{n}", a.name)));
        let producers = raw.applications.iter().map(|a| a.name.clone()).chain(instances).collect();
        let known = Known::from([("layers", layers.clone()), ("freshness_ms", layers), ("producers", producers)]);
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

/// Topic keys and the server keys that hold their defaults.
const SERVER_DEFAULTS: [(&str, &str); 7] = [
    ("min.insync.replicas", "min.insync.replicas"),
    ("unclean.leader.election.enable", "unclean.leader.election.enable"),
    ("flush.messages", "log.flush.interval.messages"),
    ("flush.ms", "log.flush.interval.ms"),
    ("segment.bytes", "log.segment.bytes"),
    ("max.message.bytes", "message.max.bytes"),
    ("retention.ms", "log.retention.ms"),
];

/// Defaults of a reader: the client's own, except that it reads from the beginning and commits nothing, as it has no group.
fn reader_defaults(profile: Profile) -> Config {
    let mut config = Config::defaults(Side::Consumer(profile));
    config.set_default("auto.offset.reset", Setting::Word("earliest"));
    config.set_default("enable.auto.commit", Setting::Flag(false));
    config
}

fn machine(machine_of: &[(Target, usize)], process: Target) -> usize {
    machine_of.iter().find(|(p, _)| *p == process).map_or(0, |(_, m)| *m)
}

/// Round robin from broker 1, each partition one further: what `kafka-topics --create` does on an empty cluster, but for its
/// random start.
fn spread(partitions: u16, replicas: u16, brokers: u16) -> Vec<Vec<BrokerId>> {
    let broker = |n: u16| BrokerId(i32::from(n % brokers) + 1);
    (0..partitions).map(|p| (0..replicas).map(|r| broker(p % brokers + r)).collect()).collect()
}

/// The same file with every default written out. Kafka's keys that are not set begin with `#`.
pub fn written_out(raw: &Raw, scenario: &Scenario) -> Raw {
    fn all<K>(config: &Config) -> Settings<K> {
        let value = |setting| match setting {
            Setting::Int(n) => Json::from(n),
            Setting::Flag(b) => Json::from(b),
            Setting::Word(w) => Json::from(w),
        };
        Settings::new(
            config
                .iter()
                .map(|(name, setting, set)| (if set { name.to_owned() } else { format!("#{name}") }, value(setting)))
                .collect(),
        )
    }
    let mut out = raw.clone();
    out.name = Some(scenario.name.clone());
    (out.extends, out.without) = (None, Vec::new());
    out.cluster.config = all(&scenario.cluster.nodes[0].config);
    out.cluster.features = all(&scenario.cluster.features);
    for over in &raw.cluster.overrides {
        // A node with keys of its own is not the pattern for the others.
        if over.broker == 1 {
            let map = raw.cluster.config.map.clone();
            out.cluster.config = Settings::new(map);
        }
    }
    for (t, topic) in out.topics.iter_mut().zip(&scenario.topics) {
        t.config = all(&topic.config);
        let ids = |replicas: &Vec<BrokerId>| replicas.iter().map(|b| b.0 as u16).collect();
        // Left out where it follows from `replication-factor`, which a change may set.
        let given = t.assignment.is_some();
        t.assignment = given.then(|| topic.assignment.iter().map(ids).collect());
    }
    for (a, application) in out.applications.iter_mut().zip(&scenario.applications) {
        a.config = all(&application.config);
        a.topic = Some(raw.topics[usize::from(application.topic.0)].name.clone());
    }
    for (r, reader) in out.readers.iter_mut().zip(&scenario.readers) {
        r.config = all(&reader.config);
        r.topics = reader.topics.iter().map(|t| raw.topics[usize::from(t.0)].name.clone()).collect();
    }
    out
}
