//! Whom a symbolic target means now.

use crate::run::Stage;
use crate::run::internal::{coordinators, group_coordinators, transaction_log};
use crate::scenario::data::{Fault, NodeKind, Scenario, Target};
use crate::world::World;
use model::actor::Actor;
use model::base::{BrokerId, Nanos, ProcessId, Stream, TopicId, TopicPartition};
use model::flink::runtime::ids::{JobId, SubtaskId};
use model::kafka::broker::node::Node;
use model::kafka::controller::MetadataImage;
use model::kafka::placement::IdTable;
use std::collections::BTreeSet;

/// What does not change in a run: faults, who is who, and what everybody is called.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) faults: Vec<Fault<Nanos>>,
    /// How many nodes may be out when the fault makes one more, for each fault.
    pub(super) most_down: Vec<Option<u32>>,
    pub(super) stage: Stage,
    topics: Vec<String>,
    pub(super) all_topics: Vec<TopicId>,
    /// Partition of `__consumer_offsets` of each group.
    group_coordinators: Vec<TopicPartition>,
    groups: Vec<String>,
    /// Partition of `__transaction_state` of each instance of each application that sends in transactions.
    coordinators: Vec<Vec<TopicPartition>>,
    applications: Vec<String>,
    readers: Vec<String>,
    machines: Vec<String>,
    gatekeepers: Vec<String>,
    tables: Vec<String>,
    /// `__transaction_state`, its partitions, and who is kept where.
    transaction_log: Option<(TopicId, u16, IdTable)>,
    /// Sinks of jobs: job, topic, name.
    sinks: Vec<(u16, TopicId, String)>,
    clickhouse: Vec<String>,
    jobs: Vec<String>,
    lakes: Vec<String>,
}

/// What a fault looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A process that runs.
    Running,
    /// One that is dead.
    Dead,
    /// One that is frozen.
    Frozen,
}

/// The sinks of all jobs that write topics.
fn sinks(scenario: &Scenario) -> Vec<(u16, TopicId, String)> {
    let nodes = scenario.jobs.iter().zip(0u16..).flat_map(|(job, number)| job.nodes.iter().map(move |n| (number, n)));
    let of = nodes.filter_map(|(job, n)| match n.kind {
        NodeKind::Sink { topic, .. } => Some((job, topic, n.name.clone())),
        _ => None,
    });
    of.collect()
}

impl Plan {
    pub(super) fn new(
        scenario: &Scenario,
        stage: &Stage,
        faults: Vec<Fault<Nanos>>,
        most_down: Vec<Option<u32>>,
    ) -> Self {
        Self {
            faults,
            most_down,
            stage: stage.clone(),
            topics: scenario.topics.iter().map(|t| t.name.clone()).collect(),
            all_topics: scenario.topics.iter().map(|t| t.id).collect(),
            coordinators: coordinators(scenario),
            group_coordinators: group_coordinators(scenario),
            groups: scenario.groups.clone(),
            applications: scenario.applications.iter().map(|a| a.name.clone()).collect(),
            readers: scenario.readers.iter().map(|r| r.name.clone()).collect(),
            machines: scenario.machines.iter().map(|m| m.name.clone()).collect(),
            gatekeepers: scenario.gatekeepers.iter().map(|g| g.name.clone()).collect(),
            tables: scenario.tables.iter().map(|t| t.name.clone()).collect(),
            transaction_log: transaction_log(scenario),
            sinks: sinks(scenario),
            lakes: scenario.lakes.iter().map(|l| l.name.clone()).collect(),
            clickhouse: scenario.clickhouse.iter().map(|c| c.name.clone()).collect(),
            jobs: scenario.jobs.iter().map(|j| j.name.clone()).collect(),
        }
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.stage.nodes.values().copied()
    }
    pub(super) fn host(&self, process: ProcessId) -> u32 {
        self.stage.machine[process.0 as usize]
    }
    /// The hosts of processes, each once.
    pub(super) fn hosts(&self, processes: &[ProcessId]) -> Vec<u32> {
        let hosts: BTreeSet<u32> = processes.iter().map(|p| self.host(*p)).collect();
        hosts.into_iter().collect()
    }
    /// Processes with everything that shares a machine with them.
    pub(super) fn with_machines(&self, processes: &[ProcessId]) -> Vec<ProcessId> {
        let hosts = self.hosts(processes);
        let mut all: Vec<_> = hosts.iter().flat_map(|h| self.stage.on_machine(*h)).collect();
        all.sort();
        all
    }

    /// Whom targets mean now, each process once; `None` while one of them means nobody (no controller, no leader).
    /// `others` are those of the same fault's other side.
    pub(super) fn resolve(
        &self,
        targets: &[Target],
        wanted: Wanted,
        others: &[ProcessId],
        world: &World<Actor>,
        stream: &mut Stream,
    ) -> Option<Vec<ProcessId>> {
        let mut list = Vec::new();
        for target in targets {
            list.extend(self.one(*target, wanted, others, world, stream)?);
        }
        list.sort();
        list.dedup();
        Some(list)
    }

    fn one(
        &self,
        target: Target,
        wanted: Wanted,
        others: &[ProcessId],
        world: &World<Actor>,
        stream: &mut Stream,
    ) -> Option<Vec<ProcessId>> {
        let node = |id: BrokerId| self.stage.nodes.get(&id).copied();
        let single = |process: Option<ProcessId>| process.map(|p| vec![p]);
        match target {
            Target::Controller => single(self.controller(world)),
            Target::LeaderOf(tp) => single(node(self.leader(tp, world)?)),
            Target::FollowerOf(tp) => {
                let image = self.image(world)?;
                let p = image.partition(tp)?;
                single(node(p.isr.iter().copied().filter(|id| *id != p.leader).min()?))
            }
            Target::ReplicasOf(tp) => {
                Some(self.image(world)?.partition(tp)?.replicas.iter().filter_map(|id| node(*id)).collect())
            }
            Target::Broker(id) => single(node(id)),
            Target::AnyBroker => {
                let fits = |p: &ProcessId| match wanted {
                    Wanted::Running => world.is_up(*p) && !world.is_frozen(*p),
                    Wanted::Dead => !world.is_up(*p),
                    Wanted::Frozen => world.is_frozen(*p),
                };
                let all: Vec<_> = self.nodes().filter(|p| fits(p) && !others.contains(p)).collect();
                // Drawn even from one: what happens to the cluster does not move later draws of the fault.
                let draw = stream.bits();
                (!all.is_empty()).then(|| vec![all[((u128::from(draw) * all.len() as u128) >> 64) as usize]])
            }
            Target::AllBrokers => Some(self.nodes().collect()),
            Target::OtherBrokers => Some(self.nodes().filter(|p| !others.contains(p)).collect()),
            Target::CoordinatorOfGroup(group) => {
                single(node(self.leader(self.group_coordinators[usize::from(group)], world)?))
            }
            Target::CoordinatorOf(app, n) => {
                let of = self.coordinators[usize::from(app)].get(usize::from(n)).copied()?;
                single(node(self.leader(of, world)?))
            }
            Target::CoordinatorOfSink(job, topic, subtask) => {
                let managers = self.stage.task_managers.iter().filter_map(|p| world.process(*p)?.task_manager());
                let id = managers.filter_map(|m| m.transactional_id(JobId(job), topic, subtask)).next()?;
                let (topic, partitions, ids) = self.transaction_log.as_ref()?;
                let log = TopicPartition { topic: *topic, partition: ids.partition(id.0, *partitions) };
                single(node(self.leader(log, world)?))
            }
            Target::LeadsNoneOf(topic) => single(node(self.leads_none(topic, world)?)),
            Target::Application(i, Some(n)) => Some(vec![self.stage.applications[usize::from(i)][usize::from(n)]]),
            Target::Application(i, None) => Some(self.stage.applications[usize::from(i)].clone()),
            Target::Reader(i, Some(n)) => Some(vec![self.stage.readers[usize::from(i)][usize::from(n)]]),
            Target::Reader(i, None) => Some(self.stage.readers[usize::from(i)].clone()),
            Target::Gatekeeper(i, Some(n)) => Some(vec![self.stage.gatekeepers[usize::from(i)][usize::from(n)]]),
            Target::Gatekeeper(i, None) => Some(self.stage.gatekeepers[usize::from(i)].clone()),
            Target::Registry(Some(n)) => single(self.stage.registries.get(usize::from(n)).copied()),
            Target::Registry(None) => Some(self.stage.registries.clone()),
            Target::Table(t) => single(self.stage.tables.get(usize::from(t)).copied()),
            Target::Lake(l) => single(self.stage.lakes.get(usize::from(l)).copied()),
            Target::ClickHouse(c) => single(self.stage.clickhouse.get(usize::from(c)).copied()),
            Target::JobManager => single(self.stage.job_manager),
            Target::TaskManager(Some(n)) => single(self.stage.task_managers.get(usize::from(n)).copied()),
            Target::TaskManager(None) => Some(self.stage.task_managers.clone()),
            Target::TaskManagerOf(job) => single(self.task_manager_of(job, world)),
            Target::AllClients => {
                let (applications, readers) = (&self.stage.applications, &self.stage.readers);
                let all = applications.iter().chain(readers).chain(&self.stage.gatekeepers);
                Some(all.flatten().copied().collect())
            }
            Target::Machine(m) => Some(self.stage.on_machine(u32::from(m)).collect()),
        }
    }

    /// Whether a process is who a target means, for triggers: there `any broker` is every one.
    pub(super) fn is(&self, target: Target, process: ProcessId, world: &World<Actor>) -> bool {
        match target {
            Target::AnyBroker | Target::AllBrokers | Target::OtherBrokers => self.stage.node_of(process).is_some(),
            _ => {
                let mut unused = world.streams().stream(model::base::Domain::Fault, 0, "unused");
                self.one(target, Wanted::Running, &[], world, &mut unused).is_some_and(|list| list.contains(&process))
            }
        }
    }

    fn task_manager_of(&self, job: u16, world: &World<Actor>) -> Option<ProcessId> {
        let first = SubtaskId { job: JobId(job), vertex: 0, index: 0 };
        let runs = |p: &ProcessId| {
            let manager = world.process(*p).and_then(Actor::task_manager);
            manager.is_some_and(|m| m.tasks().any(|t| t.id().subtask == first && !t.is_closing()))
        };
        self.stage.task_managers.iter().copied().find(runs)
    }
    fn node<'w>(&self, process: ProcessId, world: &'w World<Actor>) -> Option<&'w Node> {
        world.process(process).and_then(Actor::node)
    }
    /// The active controller. A frozen or cut off one still believes that it is it: the newest epoch tells.
    pub(super) fn controller(&self, world: &World<Actor>) -> Option<ProcessId> {
        let active =
            self.nodes().filter_map(|p| Some((self.node(p, world)?, p))).filter(|(n, _)| n.is_active_controller());
        active.max_by_key(|(n, p)| (n.quorum_epoch(), *p)).map(|(_, p)| p)
    }
    /// The newest metadata: the active controller's, or else the newest that a node has applied.
    pub(super) fn image<'w>(&self, world: &'w World<Actor>) -> Option<&'w MetadataImage> {
        let controller = self.controller(world).and_then(|p| self.node(p, world)?.controller_image());
        controller
            .or_else(|| self.nodes().filter_map(|p| Some(self.node(p, world)?.image())).max_by_key(|i| i.offset()))
    }
    fn leader(&self, tp: TopicPartition, world: &World<Actor>) -> Option<BrokerId> {
        self.image(world)?.partition(tp).filter(|p| p.has_leader()).map(|p| p.leader)
    }
    fn leads_none(&self, topic: TopicId, world: &World<Actor>) -> Option<BrokerId> {
        let leaders: BTreeSet<_> = self.image(world)?.topic(topic)?.partitions.iter().map(|p| p.leader).collect();
        self.stage.nodes.keys().find(|id| !leaders.contains(id)).copied()
    }
    /// Whether a node runs and is in every ISR that it can be in. Metadata does not know at once that a process has died: it
    /// has to be this life of it that has registered.
    pub(super) fn in_every_isr(&self, process: ProcessId, world: &World<Actor>) -> bool {
        let (Some(id), Some(image)) = (self.stage.node_of(process), self.image(world)) else { return false };
        self.node(process, world).is_some_and(Node::serves)
            && image.broker(id).is_some_and(|b| b.is_active() && b.incarnation == world.incarnation(process))
            && image.partitions().all(|(_, p)| !p.replicas.contains(&id) || p.isr.contains(&id))
    }

    /// What a process is called.
    pub(super) fn name(&self, process: ProcessId) -> String {
        if let Some(id) = self.stage.node_of(process) {
            return format!("broker {}", id.0);
        }
        let applications = self.applications.iter().zip(&self.stage.applications).map(|(n, p)| ("application", n, p));
        let readers = self.readers.iter().zip(&self.stage.readers).map(|(n, p)| ("reader", n, p));
        let gatekeepers = self.gatekeepers.iter().zip(&self.stage.gatekeepers).map(|(n, p)| ("gatekeeper", n, p));
        if let Some(n) = self.stage.registries.iter().position(|p| *p == process) {
            return format!("registry/{n}");
        }
        if let Some(t) = self.stage.tables.iter().position(|p| *p == process) {
            return format!("table {}", self.tables[t]);
        }
        if let Some(l) = self.stage.lakes.iter().position(|p| *p == process) {
            return format!("lake {}", self.lakes[l]);
        }
        if let Some(c) = self.stage.clickhouse.iter().position(|p| *p == process) {
            return format!("clickhouse {}", self.clickhouse[c]);
        }
        if self.stage.job_manager == Some(process) {
            return "job manager".into();
        }
        if let Some(n) = self.stage.task_managers.iter().position(|p| *p == process) {
            return format!("task manager {n}");
        }
        for (what, name, instances) in applications.chain(readers).chain(gatekeepers) {
            if let Some(n) = instances.iter().position(|p| *p == process) {
                return if instances.len() == 1 { format!("{what} {name}") } else { format!("{what} {name}/{n}") };
            }
        }
        format!("process {}", process.0)
    }
    fn names(&self, processes: &[ProcessId]) -> String {
        processes.iter().map(|p| self.name(*p)).collect::<Vec<_>>().join(", ")
    }
    /// A target as written.
    fn written(&self, target: Target) -> String {
        let partition = |tp: TopicPartition| format!("{}/{}", self.topics[usize::from(tp.topic.0)], tp.partition);
        match target {
            Target::Controller => "controller".into(),
            Target::LeaderOf(tp) => format!("leader of {}", partition(tp)),
            Target::FollowerOf(tp) => format!("follower of {}", partition(tp)),
            Target::ReplicasOf(tp) => format!("replicas of {}", partition(tp)),
            Target::Broker(id) => format!("broker {}", id.0),
            Target::AnyBroker => "any broker".into(),
            Target::AllBrokers => "all brokers".into(),
            Target::OtherBrokers => "other brokers".into(),
            Target::CoordinatorOf(app, n) => {
                let name = self.applications.iter().chain(&self.gatekeepers).nth(usize::from(app));
                let name = name.map_or("?", String::as_str);
                if n == 0 { format!("coordinator of {name}") } else { format!("coordinator of {name}/{n}") }
            }
            Target::Gatekeeper(i, None) => format!("gatekeeper {}", self.gatekeepers[usize::from(i)]),
            Target::Gatekeeper(i, Some(n)) => format!("gatekeeper {}/{n}", self.gatekeepers[usize::from(i)]),
            Target::Registry(None) => "registry".into(),
            Target::Registry(Some(n)) => format!("registry/{n}"),
            Target::LeadsNoneOf(topic) => format!("broker that leads none of {}", self.topics[usize::from(topic.0)]),
            Target::Application(i, None) => format!("application {}", self.applications[usize::from(i)]),
            Target::Application(i, Some(n)) => format!("application {}/{n}", self.applications[usize::from(i)]),
            Target::CoordinatorOfSink(job, topic, n) => {
                let sink = self.sinks.iter().find(|(j, t, _)| (*j, *t) == (job, topic));
                format!("coordinator of sink {}/{n}", sink.map_or("?", |(.., name)| name))
            }
            Target::CoordinatorOfGroup(g) => format!("coordinator of group {}", self.groups[usize::from(g)]),
            Target::Reader(i, None) => format!("reader {}", self.readers[usize::from(i)]),
            Target::Reader(i, Some(n)) => format!("reader {}/{n}", self.readers[usize::from(i)]),
            Target::Table(t) => format!("table {}", self.tables[usize::from(t)]),
            Target::Lake(l) => format!("lake {}", self.lakes[usize::from(l)]),
            Target::ClickHouse(c) => format!("clickhouse {}", self.clickhouse[usize::from(c)]),
            Target::JobManager => "job manager".into(),
            Target::TaskManager(Some(n)) => format!("task manager {n}"),
            Target::TaskManager(None) => "all task managers".into(),
            Target::TaskManagerOf(j) => format!("task manager of {}", self.jobs[usize::from(j)]),
            Target::AllClients => "all clients".into(),
            Target::Machine(m) => format!("machine {}", self.machines[usize::from(m)]),
        }
    }
    /// Targets with whom they turned out to mean: `leader of events/3 (broker 2)`.
    pub(super) fn describe(&self, targets: &[Target], processes: &[ProcessId]) -> String {
        let written = targets.iter().map(|t| self.written(*t)).collect::<Vec<_>>().join(", ");
        let names = self.names(processes);
        if targets.is_empty() || written == names {
            names
        } else if names.is_empty() {
            written
        } else {
            format!("{written} ({names})")
        }
    }
}
