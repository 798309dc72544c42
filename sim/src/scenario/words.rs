//! Faults in words: for the outcome, for `sim show --seed`, for messages.

use super::data::{Action, Fault, JobNode, NodeKind, Scenario, Target, TriggerEvent, When};
use super::units::{Duration, Share, Shift};
use model::base::{JobAct, Nanos, TopicPartition};

impl Scenario {
    /// A target as scenario files write it.
    pub fn target_in_words(&self, target: Target) -> String {
        let topic = |t: model::base::TopicId| self.topics[usize::from(t.0)].name.as_str();
        let partition = |tp: TopicPartition| format!("{}/{}", topic(tp.topic), tp.partition);
        match target {
            Target::Controller => "controller".into(),
            Target::LeaderOf(tp) => format!("leader of {}", partition(tp)),
            Target::FollowerOf(tp) => format!("follower of {}", partition(tp)),
            Target::ReplicasOf(tp) => format!("replicas of {}", partition(tp)),
            Target::Broker(id) => format!("broker {id}"),
            Target::AnyBroker => "any broker".into(),
            Target::AllBrokers => "all brokers".into(),
            Target::OtherBrokers => "other brokers".into(),
            Target::CoordinatorOf(a, n) => {
                let applications = self.applications.iter().map(|a| &a.name);
                let name = applications.chain(self.gatekeepers.iter().map(|g| &g.name)).nth(usize::from(a));
                let name = name.map_or("?", |n| n);
                if n == 0 { format!("coordinator of {name}") } else { format!("coordinator of {name}/{n}") }
            }
            Target::Gatekeeper(g, None) => format!("gatekeeper {}", self.gatekeepers[usize::from(g)].name),
            Target::Gatekeeper(g, Some(n)) => format!("gatekeeper {}/{n}", self.gatekeepers[usize::from(g)].name),
            Target::Registry(None) => "registry".into(),
            Target::Registry(Some(n)) => format!("registry/{n}"),
            Target::LeadsNoneOf(t) => format!("broker that leads none of {}", topic(t)),
            Target::Application(a, None) => format!("application {}", self.applications[usize::from(a)].name),
            Target::Application(a, Some(n)) => format!("application {}/{n}", self.applications[usize::from(a)].name),
            Target::CoordinatorOfSink(job, of, n) => {
                let sinks = |n: &&JobNode| matches!(n.kind, NodeKind::Sink { topic, .. } if topic == of);
                let name = self.jobs[usize::from(job)].nodes.iter().find(sinks).map_or("?", |n| &n.name);
                format!("coordinator of sink {name}/{n}")
            }
            Target::CoordinatorOfGroup(g) => format!("coordinator of group {}", self.groups[usize::from(g)]),
            Target::Reader(r, None) => format!("reader {}", self.readers[usize::from(r)].name),
            Target::Reader(r, Some(n)) => format!("reader {}/{n}", self.readers[usize::from(r)].name),
            Target::Lake(l) => format!("lake {}", self.lakes[usize::from(l)].name),
            Target::ClickHouse(c) => format!("clickhouse {}", self.clickhouse[usize::from(c)].name),
            Target::Table(t) => format!("table {}", self.tables[usize::from(t)].name),
            Target::JobManager => "job manager".into(),
            Target::TaskManager(Some(n)) => format!("task manager {n}"),
            Target::TaskManager(None) => "all task managers".into(),
            Target::TaskManagerOf(j) => format!("task manager of {}", self.jobs[usize::from(j)].name),
            Target::AllClients => "all clients".into(),
            Target::Machine(m) => format!("machine {}", self.machines[usize::from(m)].name),
        }
    }
    fn targets_in_words(&self, targets: &[Target]) -> String {
        targets.iter().map(|t| self.target_in_words(*t)).collect::<Vec<_>>().join(", ")
    }

    /// A drawn fault in one line: when, name, what, whom, how long.
    pub fn in_words(&self, fault: &Fault<Nanos>) -> String {
        let when = match &fault.when {
            When::At(at) => format!("at {}", seconds(*at)),
            When::On(t) => {
                let event = match &t.event {
                    TriggerEvent::Traced(name) => (*name).to_owned(),
                    TriggerEvent::FaultBegins(name) => format!("the beginning of {name}"),
                    TriggerEvent::FaultEnds(name) => format!("the end of {name}"),
                    TriggerEvent::WorkloadEnds => "the end of the workload".into(),
                };
                let nth = if t.count > 1 { format!(" number {}", t.count) } else { String::new() };
                let delay = if t.delay == Nanos::ZERO { String::new() } else { format!(" + {}", Duration(t.delay)) };
                format!("on {event}{nth}{delay}")
            }
            When::CrashPoint { process, effect, nth } => {
                format!("at effect {effect:?} number {nth} of {}", self.target_in_words(*process)).to_lowercase()
            }
        };
        let lasts = fault.lasts.map(|d| format!(" for {}", seconds(d))).unwrap_or_default();
        format!("{when} {}: {}{lasts}", fault.name, self.action_in_words(&fault.action))
    }

    /// What a fault does, and to whom.
    pub fn action_in_words(&self, action: &Action<Nanos>) -> String {
        let name = action.name();
        let on = |targets: &[Target]| format!("{name} {}", self.targets_in_words(targets));
        match action {
            Action::Kill { target, dead, .. } | Action::Stop { target, dead } => {
                let (existing, new) = (format!("{:?}", dead.existing), format!("{:?}", dead.new));
                format!("{} ({}, {})", on(target), existing.to_lowercase(), new.to_lowercase())
            }
            Action::Restart { target }
            | Action::Freeze { target }
            | Action::Thaw { target }
            | Action::MaintainLake { target } => on(target),
            Action::Partition(cut) | Action::Link { cut, .. } => {
                let arrow = if cut.one_way { "to" } else { "from and to" };
                let ports = format!("{:?}", cut.ports).to_lowercase();
                let sides = format!("{} {arrow} {}", self.targets_in_words(&cut.from), self.targets_in_words(&cut.to));
                let trouble = match action {
                    Action::Link { trouble: t, .. } => {
                        let delay = t.delay.map(|d| format!(", {} slower", Duration(d))).unwrap_or_default();
                        let bandwidth = t.bandwidth.map(|b| format!(", {b} B/s")).unwrap_or_default();
                        let loss = if t.loss > 0 { format!(", {} lost", Share(t.loss)) } else { String::new() };
                        let doubled =
                            if t.doubled > 0 { format!(", {} doubled", Share(t.doubled)) } else { String::new() };
                        let flap = if t.flap.is_some() { ", up and down" } else { "" };
                        format!("{delay}{bandwidth}{loss}{doubled}{flap}")
                    }
                    _ => String::new(),
                };
                format!("{name} {sides}, ports {ports}{trouble}")
            }
            Action::Disk { target, slower, bandwidth, full } => {
                let slower = slower.map(|d| format!(", {} slower", Duration(d))).unwrap_or_default();
                let bandwidth = bandwidth.map(|b| format!(", {b} B/s")).unwrap_or_default();
                format!("{}{slower}{bandwidth}{}", on(target), if *full { ", full" } else { "" })
            }
            Action::Cpu { target, share } => format!("{}, {} left", on(target), Share(*share)),
            Action::Clock { target, shift } => format!("{} by {}", on(target), Shift(*shift)),
            Action::MoveLeaders { topics } | Action::ForgetTopic { topics, .. } => {
                let topics: Vec<_> = topics.iter().map(|t| self.topics[usize::from(t.0)].name.as_str()).collect();
                format!("{name} of {}", topics.join(", "))
            }
            Action::Job { job, act } => {
                let name = &self.jobs[usize::from(*job)].name;
                match act {
                    JobAct::Submit => format!("submit {name}"),
                    JobAct::Cancel => format!("cancel {name}"),
                    JobAct::Stop { drain: false } => format!("stop {name} with a savepoint"),
                    JobAct::Stop { drain: true } => format!("drain {name}"),
                    JobAct::Savepoint => format!("savepoint of {name}"),
                }
            }
            Action::UpgradeFeature { transaction_version } => format!("transaction.version to {transaction_version}"),
            Action::LakeCommits { target, outcome, commits } => format!("{}, {commits} {outcome:?}", on(target)),
            Action::Registry { target, status } => format!("{}, status {status}", on(target)),
            Action::RollingRestart { target, killed, .. } => {
                format!("{} ({})", on(target), if *killed { "killed" } else { "stopped" })
            }
        }
    }
}

/// Whole milliseconds: what people compare with a log.
fn seconds(time: Nanos) -> String {
    format!("{}.{:03} s", time.0 / 1_000_000_000, time.0 / 1_000_000 % 1_000)
}
