//! Faults: which keys a kind takes, whom it meets, when.

use super::{At, Resolver, range};
use crate::scenario::data::{
    Action, Chaos, Cut, Fault, FaultSpec, Range, Target, Trigger, TriggerEvent, Trouble, When,
};
use crate::scenario::events;
use crate::scenario::problem::{Problem, nearest};
use crate::scenario::raw::OneOrMore;
use crate::scenario::raw_fault::{self as raw, Act, CommitOutcome, Dead, Existing, Kind, New};
use crate::scenario::target::Names;
use crate::scenario::units::{Draw, Duration};
use At::{Item, Key};
use model::base::{JobAct, Millis, Nanos, SimTime, SwapOutcome, TopicId};
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Kinds that chaos draws from unless told otherwise: whatever needs no further word.
pub const CHAOS_KINDS: &[Kind] = &[
    Kind::Kill,
    Kind::PowerLoss,
    Kind::Stop,
    Kind::Freeze,
    Kind::Partition,
    Kind::Link,
    Kind::Disk,
    Kind::Cpu,
    Kind::Clock,
    Kind::MoveLeaders,
    Kind::ForgetTopic,
];

impl Resolver<'_> {
    /// All faults of the scenario.
    pub(super) fn faults(&mut self, names: &Names<'_>) -> Vec<FaultSpec> {
        let raw = self.raw;
        let called: Vec<_> = raw.faults.iter().enumerate().map(|(i, f)| name_of(i, f)).collect();
        let mut seen = BTreeSet::new();
        for (i, name) in called.iter().enumerate() {
            if !seen.insert(name) {
                self.say(&[Key("faults"), Item(i), Key("name")], format!("there are two faults called `{name}`"));
            }
        }
        let list = raw.faults.iter().enumerate();
        list.filter_map(|(i, f)| self.fault(&[Key("faults"), Item(i)], f, &called[i], &called, names)).collect()
    }

    /// One fault that stands at `path`. `called` are the names of all faults.
    pub(super) fn fault(
        &mut self,
        path: &[At<'_>],
        f: &raw::Fault,
        name: &str,
        called: &[String],
        names: &Names<'_>,
    ) -> Option<FaultSpec> {
        let before = self.problems.len();
        let at = |key| [path, &[Key(key)]].concat();
        self.keys(path, f);
        let spec = if f.kind == Kind::Chaos {
            self.chaos(path, f, name, names).map(FaultSpec::Chaos)
        } else {
            let when = self.when(path, f, called, names);
            let action = self.action(path, f, names);
            let key = if f.restart_after.is_some() { "restart-after" } else { "duration" };
            let lasts = f.restart_after.or(f.duration).map(|d| self.range(&at(key), d));
            when.zip(action).map(|(when, action)| FaultSpec::One(Fault { name: name.to_owned(), when, action, lasts }))
        };
        spec.filter(|_| self.problems.len() == before)
    }

    /// Which keys stand there, against which may.
    fn keys(&mut self, path: &[At<'_>], f: &raw::Fault) {
        let (needs, may) = f.kind.keys();
        let kind = kind_name(f.kind);
        let present = present(f);
        for key in needs {
            if !present.contains(key) && !self.lost(path, key) {
                self.advise(
                    path,
                    format!("a fault of kind {kind} has no `{key}`"),
                    format!("it needs {}", needs.join(", ")),
                );
            }
        }
        for key in &present {
            if matches!(*key, "at" | "on" | "crash-point") {
                continue;
            }
            if !needs.contains(key) && !may.contains(key) {
                let place = self.key_place(path, key);
                let all: Vec<_> = needs.iter().chain(may).copied().collect();
                let problem = Problem::at(place, format!("a fault of kind {kind} takes no `{key}`"));
                self.problems.push(problem.help(format!("it takes {}", all.join(", "))));
            }
        }
    }

    fn when(&mut self, path: &[At<'_>], f: &raw::Fault, called: &[String], names: &Names<'_>) -> Option<When<Range>> {
        let at = |key| [path, &[Key(key)]].concat();
        match (&f.at, &f.on, &f.crash_point) {
            (Some(time), None, None) => Some(When::At(self.range(&at("at"), *time))),
            (None, Some(on), None) => self.trigger(&at("on"), on, called, names).map(When::On),
            (None, None, Some(point)) => {
                let whose = [&at("crash-point")[..], &[Key("process")]].concat();
                let process = self.note(&whose, names.target(&point.process))?;
                if matches!(
                    process,
                    Target::AllBrokers | Target::OtherBrokers | Target::AllClients | Target::ReplicasOf(_)
                ) {
                    self.say(&whose, "a crash point is in one process");
                }
                if !matches!(f.kind, Kind::Kill | Kind::PowerLoss | Kind::Freeze) {
                    self.say(&at("crash-point"), "a crash point is for kill, power-loss and freeze");
                }
                Some(When::CrashPoint { process, effect: point.effect, nth: point.nth })
            }
            (None, None, None) if ["at", "on", "crash-point"].iter().any(|key| self.lost(path, key)) => None,
            (None, None, None) => {
                let help = "when does it begin: `at = \"30 s\"`, `on = { event = ... }` or `crash-point = {...}`";
                self.advise(path, "the fault has none of `at`, `on` and `crash-point`", help);
                None
            }
            _ => {
                self.say(path, "the fault has more than one of `at`, `on` and `crash-point`");
                None
            }
        }
    }

    fn trigger(&mut self, path: &[At<'_>], on: &raw::Trigger, called: &[String], names: &Names<'_>) -> Option<Trigger> {
        let at = |key| [path, &[Key(key)]].concat();
        let of_fault = matches!(on.event.as_str(), events::FAULT_BEGINS | events::FAULT_ENDS);
        match &on.fault {
            None if of_fault => self.advise(path, "the event needs `fault`", "the name of the fault that is meant"),
            Some(_) if !of_fault => self.say(&at("fault"), "`fault` is for fault-begins and fault-ends"),
            Some(fault) if !called.contains(fault) => {
                let problem = Problem::at(self.place(&at("fault")), format!("there is no fault `{fault}`"));
                self.problems.push(problem.nearest(fault, called.iter().map(String::as_str)));
            }
            _ => {}
        }
        let event = match (on.event.as_str(), &on.fault) {
            (events::FAULT_BEGINS, Some(fault)) => TriggerEvent::FaultBegins(fault.clone()),
            (events::FAULT_ENDS, Some(fault)) => TriggerEvent::FaultEnds(fault.clone()),
            (events::FAULT_BEGINS | events::FAULT_ENDS, None) => return None,
            (events::WORKLOAD_ENDS, _) => TriggerEvent::WorkloadEnds,
            (name, _) => match events::traced().find(|e| *e == name) {
                Some(name) => TriggerEvent::Traced(name),
                None => {
                    let problem = Problem::at(self.place(&at("event")), format!("there is no event `{name}`"));
                    self.problems.push(match nearest(name, events::all()) {
                        Some(near) => problem.help(format!("did you mean `{near}`?")),
                        None => problem.help(format!("events are {}", events::all().collect::<Vec<_>>().join(", "))),
                    });
                    return None;
                }
            },
        };
        let of = match &on.of {
            Some(text) => Some(self.note(&at("of"), names.target(text))?),
            None => None,
        };
        let partition = match &on.partition {
            Some(text) => Some(self.note(&at("partition"), names.partition(text))?),
            None => None,
        };
        let about = events::OF_JOBS.contains(&on.event.as_str());
        for (key, given) in [("job", on.job.is_some()), ("checkpoint", on.checkpoint.is_some())] {
            if given && !about {
                let help = format!("those are {}", events::OF_JOBS.join(", "));
                self.advise(&at(key), format!("`{key}` is for events of jobs"), help);
                return None;
            }
        }
        let job = match &on.job {
            Some(name) => {
                let jobs = self.raw.jobs.iter().map(|j| j.name.as_str());
                let Some(number) = jobs.clone().position(|job| job == name) else {
                    let problem = Problem::at(self.place(&at("job")), format!("there is no job `{name}`"));
                    self.problems.push(problem.nearest(name, jobs));
                    return None;
                };
                Some(number as u16)
            }
            None => None,
        };
        let after = match &on.after {
            Some(first) => Some(Box::new(self.trigger(&at("after"), first, called, names)?)),
            None => None,
        };
        let (checkpoint, count, from, delay) = (on.checkpoint, on.count, SimTime(on.from.0.0), on.delay.0);
        Some(Trigger { event, of, partition, job, checkpoint, after, count, from, delay })
    }

    fn targets(&mut self, path: &[At<'_>], key: &str, f: Option<&OneOrMore>, names: &Names<'_>) -> Vec<Target> {
        let texts = f.map_or(&[][..], OneOrMore::texts);
        if f.is_some() && texts.is_empty() {
            self.say(&[path, &[Key(key)]].concat(), "no target is named");
        }
        let mut list = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let path = [path, &[Key(key), Item(i)]].concat();
            let target = self.note(&path, names.target(text));
            if let Some(Target::CoordinatorOf(app, _)) = target
                && let Some(app) = self.raw.applications.get(usize::from(app)).filter(|a| a.transaction.is_none())
            {
                let name = &app.name;
                self.advise(&path, format!("{name} has no coordinator"), "an application with `transaction` has one");
            }
            list.extend(target);
        }
        list
    }
    fn topic_list(&mut self, path: &[At<'_>], f: &raw::Fault, names: &Names<'_>) -> Vec<TopicId> {
        match &f.topics {
            None => (0..names.topics.len() as u16).map(TopicId).collect(),
            Some(list) => {
                let list = list.iter().enumerate();
                list.filter_map(|(i, t)| self.note(&[path, &[Key("topics"), Item(i)]].concat(), names.topic(t)))
                    .collect()
            }
        }
    }

    fn action(&mut self, path: &[At<'_>], f: &raw::Fault, names: &Names<'_>) -> Option<Action<Range>> {
        let at = |key| [path, &[Key(key)]].concat();
        let target = self.targets(path, "target", f.target.as_ref(), names);
        if target.contains(&Target::OtherBrokers) {
            self.say(&at("target"), "`other brokers` is for `from` and `to`: other than those of the other side");
        }
        let or_all = |target: Vec<Target>| if target.is_empty() { vec![Target::AllBrokers] } else { target };
        let dead = f.dead.unwrap_or(self.raw.network.dead);
        Some(match f.kind {
            Kind::Kill => Action::Kill { target, dead, power: false },
            Kind::PowerLoss => {
                // A machine without power sends no FIN, whatever the scenario's pattern for killed processes is.
                let dead = f.dead.unwrap_or(Dead { existing: Existing::Silent, new: New::Drop });
                Action::Kill { target, dead, power: true }
            }
            Kind::Stop => Action::Stop { target, dead },
            Kind::Restart => Action::Restart { target },
            Kind::Freeze => Action::Freeze { target },
            Kind::Thaw => Action::Thaw { target },
            Kind::Partition => Action::Partition(self.cut(path, f, names)),
            Kind::Link => {
                let delay = f.delay.map(|d| self.range(&at("delay"), d));
                let flap = f.flap.map(|flap| {
                    let up = self.range(&[&at("flap")[..], &[Key("up")]].concat(), flap.up);
                    (up, self.range(&[&at("flap")[..], &[Key("down")]].concat(), flap.down))
                });
                if flap.is_some_and(|(up, down)| up.low == Nanos::ZERO || down.low == Nanos::ZERO) {
                    self.say(&at("flap"), "a link that flaps is up and down for some time each");
                }
                let (loss, doubled) = (f.loss.unwrap_or_default().0, f.doubled.unwrap_or_default().0);
                if delay.is_none() && flap.is_none() && f.bandwidth.is_none() && loss == 0 && doubled == 0 {
                    self.advise(path, "the link has nothing wrong with it", "delay, bandwidth, loss, doubled or flap");
                }
                let trouble = Trouble { delay, bandwidth: f.bandwidth.map(|b| b.0), loss, doubled, flap };
                Action::Link { cut: self.cut(path, f, names), trouble }
            }
            Kind::Disk => {
                let slower = f.slower.map(|d| self.range(&at("slower"), d));
                let (bandwidth, full) = (f.bandwidth.map(|b| b.0), f.full.unwrap_or(false));
                if slower.is_none() && bandwidth.is_none() && !full {
                    self.advise(path, "the disk has nothing wrong with it", "slower, bandwidth or full");
                }
                Action::Disk { target, slower, bandwidth, full }
            }
            Kind::Cpu => Action::Cpu { target, share: self.some_share(&at("share"), f) },
            Kind::Clock => Action::Clock { target, shift: f.shift.unwrap_or_default().0 },
            Kind::MoveLeaders => Action::MoveLeaders { topics: self.topic_list(path, f, names) },
            Kind::Job => {
                let wanted = f.job.as_deref().unwrap_or_default();
                let Some(job) = self.raw.jobs.iter().position(|j| j.name == wanted) else {
                    let problem = Problem::at(self.place(&at("job")), format!("there is no job `{wanted}`"));
                    self.problems.push(problem.nearest(wanted, self.raw.jobs.iter().map(|j| j.name.as_str())));
                    return None;
                };
                let act = match f.act? {
                    Act::Submit => JobAct::Submit,
                    Act::Cancel => JobAct::Cancel,
                    Act::Stop => JobAct::Stop { drain: false },
                    Act::Drain => JobAct::Stop { drain: true },
                    Act::Savepoint => JobAct::Savepoint,
                };
                if act == JobAct::Submit && self.raw.jobs[job].starts {
                    self.advise(
                        &at("act"),
                        format!("`{wanted}` starts with the cluster"),
                        "set `starts = false` at the job",
                    );
                }
                Action::Job { job: job as u16, act }
            }
            Kind::UpgradeFeature => {
                Action::UpgradeFeature { transaction_version: self.higher_version(&at("transaction-version"), f) }
            }
            Kind::RollingRestart => Action::RollingRestart {
                target: or_all(target),
                killed: f.killed.unwrap_or(false),
                controller_last: f.controller_last.unwrap_or(true),
                restart: range(f.restart_after.unwrap_or(Draw::Fixed(Duration(Nanos::secs(1))))),
                pause: f.pause.map_or(Nanos::secs(6), |p| p.0),
                dead,
            },
            Kind::Registry => {
                if self.raw.registry.is_none() {
                    self.say(path, "the scenario has no registry");
                }
                let target = if target.is_empty() { vec![Target::Registry(None)] } else { target };
                Action::Registry { target, status: f.status.unwrap_or(503) }
            }
            Kind::LakeCommits => {
                let after = f.delay.map_or(Nanos::secs(30), |d| range(d).high);
                let outcome = match f.outcome? {
                    CommitOutcome::Refused => SwapOutcome::Refused,
                    CommitOutcome::LandedRefused => SwapOutcome::LandedRefused,
                    CommitOutcome::Unknown => SwapOutcome::Unknown,
                    CommitOutcome::LandedUnknown => SwapOutcome::LandedUnknown,
                    CommitOutcome::Late => SwapOutcome::Late(Millis((after.0 / 1_000_000) as i64)),
                };
                if target.iter().any(|t| !matches!(t, Target::Lake(_))) {
                    self.say(&at("target"), "commits go to a `lake NAME`");
                }
                Action::LakeCommits { target, outcome, commits: f.commits.unwrap_or(1) }
            }
            Kind::MaintainLake => {
                if target.iter().any(|t| !matches!(t, Target::Lake(_))) {
                    self.say(&at("target"), "what is maintained is a `lake NAME`");
                }
                Action::MaintainLake { target }
            }
            Kind::ForgetTopic => Action::ForgetTopic {
                target: or_all(target),
                topics: self.topic_list(path, f, names),
                answers: f.answers,
            },
            Kind::Chaos => return None,
        })
    }
    fn some_share(&mut self, path: &[At<'_>], f: &raw::Fault) -> u32 {
        let share = f.share.unwrap_or_default().0;
        if f.share.is_some() && share == 0 {
            self.say(path, "a machine without any processor time is a frozen one: use freeze");
        }
        share
    }

    fn higher_version(&mut self, path: &[At<'_>], f: &raw::Fault) -> u8 {
        let number = |v: &Json| v.as_u64().or_else(|| v.as_str()?.trim().parse().ok());
        let set = self.raw.cluster.features.map.get("transaction.version").and_then(number);
        let level = f.transaction_version.unwrap_or_default();
        if f.transaction_version.is_some() && u64::from(level) <= set.unwrap_or(2) {
            self.say(path, "the cluster has that level from its beginning");
        }
        level
    }

    fn cut(&mut self, path: &[At<'_>], f: &raw::Fault, names: &Names<'_>) -> Cut {
        let from = self.targets(path, "from", f.from.as_ref(), names);
        let to = self.targets(path, "to", f.to.as_ref(), names);
        if from.contains(&Target::OtherBrokers) && to.contains(&Target::OtherBrokers) {
            self.say(&[path, &[Key("to")]].concat(), "both sides are `other brokers`");
        }
        if !from.is_empty() && from == to && !matches!(from[..], [Target::AllBrokers | Target::AnyBroker]) {
            self.say(&[path, &[Key("to")]].concat(), "both sides are the same");
        }
        Cut { from, to, ports: f.ports.unwrap_or_default(), one_way: f.one_way.unwrap_or(false) }
    }

    fn chaos(&mut self, path: &[At<'_>], f: &raw::Fault, name: &str, names: &Names<'_>) -> Option<Chaos> {
        let at = |key| [path, &[Key(key)]].concat();
        if f.on.is_some() || f.crash_point.is_some() {
            self.say(path, "chaos begins at a time");
        }
        let from = f.at.map_or(Range::default(), |d| self.range(&at("at"), d)).low;
        let (least, most) = f.faults?.ends();
        if least > most || most > 1_000 {
            self.say(&at("faults"), "`faults` is a number or a range, at most 1000");
        }
        let kinds = f.kinds.clone().unwrap_or_else(|| CHAOS_KINDS.to_vec());
        if kinds.is_empty() {
            self.say(&at("kinds"), "chaos of no kind is none");
        }
        for (i, kind) in kinds.iter().enumerate() {
            if !CHAOS_KINDS.contains(kind) {
                let path = [&at("kinds")[..], &[Item(i)]].concat();
                let all: Vec<_> = CHAOS_KINDS.iter().map(|k| kind_name(*k)).collect();
                self.advise(&path, "chaos draws no faults of this kind", format!("it draws {}", all.join(", ")));
            }
        }
        let mut target = self.targets(path, "target", f.target.as_ref(), names);
        if target.is_empty() {
            target = vec![Target::AnyBroker, Target::Controller];
            target.extend(
                (0..names.topics.len() as u16).map(|t| Target::LeaderOf(model::base::TopicPartition::new(t, 0))),
            );
        }
        let lasts = f.lasts.unwrap_or(Draw::Range([Duration(Nanos::secs(1)), Duration(Nanos::secs(40))]));
        let every = |existing| [New::Refuse, New::Drop, New::Accept, New::NoName].map(|new| Dead { existing, new });
        let dead = f.dead_modes.clone();
        let dead = dead.unwrap_or_else(|| [every(Existing::Reset), every(Existing::Silent)].concat());
        if dead.is_empty() {
            self.say(&at("dead-modes"), "no mode is named");
        }
        let most_down = f.most_down.unwrap_or(1);
        if most_down == 0 || most_down > u32::from(names.brokers) {
            self.say(&at("most-down"), format!("`most-down` is from 1 to {}", names.brokers));
        }
        let duration = range(f.duration?);
        Some(Chaos {
            name: name.to_owned(),
            from,
            to: from + duration.high,
            faults: (least, most),
            kinds,
            target,
            lasts: self.range(&at("lasts"), lasts),
            dead,
            most_down,
            topics: self.topic_list(path, f, names),
        })
    }
}

/// A fault's name: its own, or its kind and place.
pub(super) fn name_of(i: usize, f: &raw::Fault) -> String {
    f.name.clone().unwrap_or_else(|| format!("{}-{i}", kind_name(f.kind)))
}

/// A kind as scenario files name it.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Kill => "kill",
        Kind::PowerLoss => "power-loss",
        Kind::Restart => "restart",
        Kind::Stop => "stop",
        Kind::Freeze => "freeze",
        Kind::Thaw => "thaw",
        Kind::Partition => "partition",
        Kind::Link => "link",
        Kind::Disk => "disk",
        Kind::Cpu => "cpu",
        Kind::Clock => "clock",
        Kind::MoveLeaders => "move-leaders",
        Kind::UpgradeFeature => "upgrade-feature",
        Kind::Job => "job",
        Kind::RollingRestart => "rolling-restart",
        Kind::ForgetTopic => "forget-topic",
        Kind::Registry => "registry",
        Kind::LakeCommits => "lake-commits",
        Kind::MaintainLake => "maintain-lake",
        Kind::Chaos => "chaos",
    }
}

/// Keys that a fault has, besides name and kind.
fn present(f: &raw::Fault) -> Vec<&'static str> {
    let all = [
        ("at", f.at.is_some()),
        ("on", f.on.is_some()),
        ("crash-point", f.crash_point.is_some()),
        ("target", f.target.is_some()),
        ("from", f.from.is_some()),
        ("to", f.to.is_some()),
        ("ports", f.ports.is_some()),
        ("one-way", f.one_way.is_some()),
        ("duration", f.duration.is_some()),
        ("restart-after", f.restart_after.is_some()),
        ("dead", f.dead.is_some()),
        ("delay", f.delay.is_some()),
        ("bandwidth", f.bandwidth.is_some()),
        ("loss", f.loss.is_some()),
        ("doubled", f.doubled.is_some()),
        ("flap", f.flap.is_some()),
        ("slower", f.slower.is_some()),
        ("full", f.full.is_some()),
        ("share", f.share.is_some()),
        ("shift", f.shift.is_some()),
        ("topics", f.topics.is_some()),
        ("answers", f.answers.is_some()),
        ("status", f.status.is_some()),
        ("outcome", f.outcome.is_some()),
        ("commits", f.commits.is_some()),
        ("transaction-version", f.transaction_version.is_some()),
        ("job", f.job.is_some()),
        ("act", f.act.is_some()),
        ("pause", f.pause.is_some()),
        ("killed", f.killed.is_some()),
        ("controller-last", f.controller_last.is_some()),
        ("faults", f.faults.is_some()),
        ("kinds", f.kinds.is_some()),
        ("lasts", f.lasts.is_some()),
        ("dead-modes", f.dead_modes.is_some()),
        ("most-down", f.most_down.is_some()),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(key, _)| key).collect()
}
