//! Machines, nodes, topics and the network between them.

use super::{At, Resolver, machine};
use crate::scenario::data::{Cluster, Link, Machine, Network, Node, Target, Topic, spread};
use crate::scenario::keys::{Config, Side};
use crate::scenario::raw::Values;
use crate::scenario::target::Names;
use At::{Item, Key};
use model::base::{BrokerId, TopicId};
use std::collections::BTreeSet;

impl Resolver<'_> {
    /// All machines, and for each process its machine.
    pub(super) fn machines(&mut self, names: &Names<'_>) -> (Vec<Machine>, Vec<(Target, usize)>) {
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
                    Target::Reader(reader, None) => {
                        (0..names.readers[usize::from(reader)].1).map(|n| Target::Reader(reader, Some(n))).collect()
                    }
                    Target::Gatekeeper(g, None) => {
                        (0..names.gatekeepers[usize::from(g)].1).map(|n| Target::Gatekeeper(g, Some(n))).collect()
                    }
                    Target::Registry(None) => (0..names.registries).map(|n| Target::Registry(Some(n))).collect(),
                    Target::TaskManager(None) => {
                        (0..names.task_managers).map(|n| Target::TaskManager(Some(n))).collect()
                    }
                    Target::Broker(_)
                    | Target::JobManager
                    | Target::Table(_)
                    | Target::ClickHouse(_)
                    | Target::Lake(_)
                    | Target::TaskManager(_)
                    | Target::Application(..)
                    | Target::Reader(..)
                    | Target::Gatekeeper(..)
                    | Target::Registry(_) => vec![target],
                    _ => {
                        let what = "a machine runs `broker N`, `application NAME`, `reader NAME`, `gatekeeper NAME`, `registry`, `table NAME`, `clickhouse NAME`, `lake NAME`, `job manager` or `task manager N`";
                        self.say(&path, what);
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
        let readers = names.readers.iter().enumerate().flat_map(|(r, (name, instances))| {
            let many = *instances > 1;
            let called = move |n| if many { format!("{name}-{n}") } else { name.clone() };
            (0..*instances).map(move |n| (Target::Reader(r as u16, Some(n)), called(n)))
        });
        let gatekeepers = names.gatekeepers.iter().enumerate().flat_map(|(g, (name, instances))| {
            (0..*instances).map(move |n| (Target::Gatekeeper(g as u16, Some(n)), format!("{name}-{n}")))
        });
        let registries = (0..names.registries).map(|n| (Target::Registry(Some(n)), format!("registry-{n}")));
        let job_manager = (names.task_managers > 0).then(|| (Target::JobManager, "job-manager".to_owned()));
        let task_managers =
            (0..names.task_managers).map(|n| (Target::TaskManager(Some(n)), format!("task-manager-{n}")));
        let tables =
            names.tables.iter().enumerate().map(|(t, name)| (Target::Table(t as u16), format!("table-{name}")));
        let clickhouse = names.clickhouse.iter().enumerate();
        let clickhouse = clickhouse.map(|(c, name)| (Target::ClickHouse(c as u16), format!("clickhouse-{name}")));
        let lakes = names.lakes.iter().enumerate().map(|(l, name)| (Target::Lake(l as u16), format!("lake-{name}")));
        let clients = applications.chain(readers).chain(gatekeepers).chain(registries);
        for (process, name) in
            brokers.chain(clients).chain(job_manager).chain(task_managers).chain(tables).chain(clickhouse).chain(lakes)
        {
            if !placed.iter().any(|(p, _)| *p == process) {
                placed.push((process, all.len()));
                all.push(standard(name));
            }
        }
        (all, placed)
    }

    pub(super) fn cluster(&mut self, machine_of: &[(Target, usize)]) -> Cluster {
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

    pub(super) fn topics(&mut self, cluster: &Cluster) -> Vec<Topic> {
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
            let schema = (t.values == Values::Avro).then_some(i as u32 + 1);
            if t.filled && schema.is_none() {
                let path = [Key("topics"), Item(i), Key("filled")];
                self.say(&path, "only values in Avro are filled up; others have the workload's sizes anyway");
            }
            let (id, name) = (TopicId(i as u16), t.name.clone());
            list.push(Topic { id, name, assignment, config, schema, filled: t.filled });
        }
        list
    }
    pub(super) fn assignment(&mut self, topic: usize, given: &[Vec<u16>]) -> Vec<Vec<BrokerId>> {
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

    pub(super) fn network(&mut self, names: &Names<'_>, machine_of: &[(Target, usize)]) -> Option<Network> {
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
    pub(super) fn hosts_of(
        &mut self,
        path: &[At<'_>],
        target: Target,
        machine_of: &[(Target, usize)],
    ) -> Option<Vec<usize>> {
        let of = |f: &dyn Fn(&Target) -> bool| {
            let set: BTreeSet<_> = machine_of.iter().filter(|(t, _)| f(t)).map(|(_, m)| *m).collect();
            Some(set.into_iter().collect())
        };
        match target {
            Target::Broker(_) | Target::Application(_, Some(_)) | Target::Reader(_, Some(_)) => of(&|t| *t == target),
            Target::Application(app, None) => of(&|t| matches!(t, Target::Application(a, _) if *a == app)),
            Target::Reader(reader, None) => of(&|t| matches!(t, Target::Reader(r, _) if *r == reader)),
            Target::Gatekeeper(_, Some(_)) | Target::Registry(Some(_)) => of(&|t| *t == target),
            Target::Gatekeeper(g, None) => of(&|t| matches!(t, Target::Gatekeeper(other, _) if *other == g)),
            Target::Registry(None) => of(&|t| matches!(t, Target::Registry(_))),
            Target::JobManager
            | Target::TaskManager(Some(_))
            | Target::Table(_)
            | Target::ClickHouse(_)
            | Target::Lake(_) => of(&|t| *t == target),
            Target::TaskManager(None) => of(&|t| matches!(t, Target::TaskManager(_))),
            Target::AllBrokers => of(&|t| matches!(t, Target::Broker(_))),
            Target::AllClients => of(&|t| {
                !matches!(
                    t,
                    Target::Broker(_)
                        | Target::Registry(_)
                        | Target::JobManager
                        | Target::TaskManager(_)
                        | Target::Table(_)
                        | Target::ClickHouse(_)
                        | Target::Lake(_)
                )
            }),
            Target::Machine(m) => Some(vec![usize::from(m)]),
            _ => {
                self.say(path, "a link has fixed ends: a broker, an application, a reader, a machine, all of a kind");
                None
            }
        }
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
