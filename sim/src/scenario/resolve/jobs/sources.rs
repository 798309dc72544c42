//! Sources of jobs: their topics, and where event time begins.

use super::super::{At, Resolver};
use super::ms;
use crate::scenario::data::{Column, JobNode, NodeKind};
use crate::scenario::keys::{Config, Setting, Side};
use crate::scenario::raw::{Generator, JobSource};
use crate::scenario::raw_job::Watermark;
use crate::scenario::target::Names;
use At::{Item, Key};
use model::base::{Millis, TopicId};
use model::flink::runtime::graph::{Alignment, Watermarks};
use model::flink::runtime::operator::{AssignConfig, OperatorConfig};
use model::flink::source::Strategy;
use std::collections::BTreeMap;

const fn strategy(w: &Watermark) -> Strategy {
    match w.generator {
        Generator::Bounded => Strategy::Bounded(ms(w.bound.0)),
        Generator::Sql => Strategy::Sql(ms(w.bound.0)),
    }
}
/// `table.exec.source.idle-timeout` is SQL's, and a table's own goes before it.
fn idle_timeout(w: &Watermark, job: &Config) -> Option<Millis> {
    let of_job = Some(job.ms("table.exec.source.idle-timeout")).filter(|t| *t > Millis::ZERO);
    w.idle.map(|i| ms(i.0)).or(of_job.filter(|_| w.generator == Generator::Sql))
}

/// A source as its job's graph has it: where watermarks are made behind it, it enters the graph, and the operator that makes
/// them takes its place.
pub(super) fn behind(source: JobNode, raw: &JobSource, job: &Config, graph: &mut Vec<JobNode>) -> JobNode {
    let Some(w) = raw.watermark.as_ref().filter(|w| !w.pushed_down) else { return source };
    let interval = job.ms("pipeline.auto-watermark-interval");
    let assign = AssignConfig { strategy: strategy(w), idle_timeout: idle_timeout(w, job), interval };
    let assigner = JobNode {
        name: format!("{}.watermarks", source.name),
        kind: NodeKind::Operator(OperatorConfig::Assign(assign), None),
        input: Some((graph.len(), false)),
        ..source.clone()
    };
    graph.push(source);
    assigner
}

impl Resolver<'_> {
    pub(super) fn source(
        &mut self,
        job: usize,
        n: usize,
        source: &JobSource,
        names: &Names<'_>,
        topics: &BTreeMap<u16, Vec<Column>>,
        job_config: &Config,
    ) -> Option<JobNode> {
        let path = |key| [Key("jobs"), Item(job), Key("sources"), Item(n), Key(key)];
        let mut read: Vec<TopicId> = Vec::new();
        for name in source.topics() {
            let topic = self.note(&path("topic"), names.topic(name))?;
            if read.contains(&topic) {
                self.say(&path("topic"), format!("`{name}` is there twice"));
            }
            read.push(topic);
        }
        let mut defaults = Config::defaults(Side::Source);
        // KafkaSourceBuilder: from the beginning (`OffsetsInitializer.earliest()`), offsets are committed by checkpoints.
        defaults.set_default("auto.offset.reset", Setting::Word("earliest"));
        defaults.set_default("enable.auto.commit", Setting::Flag(false));
        let grouped = super::super::group_of(&source.config).is_some();
        defaults.set_default("commit.offsets.on.checkpoint", Setting::Flag(grouped));
        let config = self.config(&path("config"), defaults, &source.config);
        let group = names.groups.iter().position(|g| **g == *config.text("group.id")).map(|g| g as u32);
        if group.is_none() && (config.flag("enable.auto.commit") || config.flag("commit.offsets.on.checkpoint")) {
            self.advise(&path("config"), "offsets are committed for a group", "KafkaSourceBuilder demands `group.id`");
        }
        let columns = self.columns_of(&path("topic"), (job, source), &read, topics)?;
        let aligned = source.watermark.as_ref().is_some_and(|w| !w.pushed_down && w.alignment.is_some());
        if aligned {
            let what = "alignment is the source's: a watermark that is made behind it has none";
            self.say(&path("watermark"), what);
        }
        let every = source.watermark.as_ref().and_then(|w| w.alignment.as_ref()).map(|a| ms(a.update_interval.0));
        if every.is_some_and(|every| every == Millis::ZERO) {
            let path = [&path("watermark")[..], &[Key("alignment"), Key("update-interval")]].concat();
            // SourceCoordinator: ScheduledExecutorService.scheduleAtFixedRate.
            self.say(&path, "`update-interval` is a millisecond at least: the coordinator's timer demands a period");
        }
        let watermarks = source.watermark.as_ref().filter(|w| w.pushed_down).map(|w| {
            let group = |name: &str| {
                let names = self.raw.jobs[job]
                    .sources
                    .iter()
                    .filter_map(|s| Some(&s.watermark.as_ref()?.alignment.as_ref()?.group));
                names.into_iter().position(|n| n == name).unwrap_or_default() as u16
            };
            let alignment = w.alignment.as_ref().map(|a| Alignment {
                group: group(&a.group),
                max_drift: ms(a.max_drift.0),
                update_interval: ms(a.update_interval.0),
            });
            let interval = job_config.ms("pipeline.auto-watermark-interval");
            Watermarks { strategy: strategy(w), idle_timeout: idle_timeout(w, job_config), interval, alignment }
        });
        let merge = source.counterfactual_merge.map(|patience| ms(patience.0));
        let until = source.until.clone();
        let partitions: u16 = read.iter().map(|topic| names.topics[usize::from(topic.0)].1).sum();
        if until.as_ref().is_some_and(|until| until.len() != usize::from(partitions)) {
            self.say(&path("until"), format!("`{}` has {partitions} partitions: one offset each", source.topic));
        }
        Some(JobNode {
            name: source.name.clone(),
            kind: NodeKind::Source { topics: read, config, watermarks, until, replays: source.replay, merge, group },
            input: None,
            parallelism: job_config.int("parallelism.default") as u16,
            record: source.record.0,
            columns,
            call: None,
        })
    }

    /// Whether a source of a job has said how event time passes, and that could not be read.
    pub(super) fn watermarks_lost(&self, job: usize) -> bool {
        let sources = 0..self.raw.jobs[job].sources.len();
        sources.into_iter().any(|n| self.lost(&[Key("jobs"), Item(job), Key("sources"), Item(n)], "watermark"))
    }

    /// Whether somebody is meant to write a topic that job `before` reads, whatever became of it.
    pub(in super::super) fn should_write(&self, before: usize, topic: &str) -> bool {
        let raw = self.raw;
        let first = raw.topics.first().map(|t| t.name.as_str());
        raw.applications.iter().any(|a| a.topic.as_deref().or(first) == Some(topic))
            || raw.gatekeepers.iter().any(|g| g.valid == topic || g.dead_letters == topic)
            || raw.jobs[..before].iter().any(|j| j.sinks.iter().any(|s| s.topic.as_deref() == Some(topic)))
    }

    /// Columns of a source's rows: those of its topics, which are the same.
    fn columns_of(
        &mut self,
        path: &[At<'_>],
        (job, source): (usize, &JobSource),
        read: &[TopicId],
        topics: &BTreeMap<u16, Vec<Column>>,
    ) -> Option<Vec<Column>> {
        let mut columns: Option<&Vec<Column>> = None;
        for (topic, name) in read.iter().zip(source.topics()) {
            let Some(of_topic) = topics.get(&topic.0) else {
                if self.should_write(job, name) {
                    // What is wrong with it has been said.
                    return None;
                }
                let what = format!("nobody writes `{name}`: no application, no gatekeeper and no job before this one");
                self.say(path, what);
                return None;
            };
            match columns {
                Some(first) if first != of_topic => {
                    let list = |of: &[Column]| of.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
                    let help = format!("{} after {}", list(of_topic), list(first));
                    self.advise(path, format!("`{name}` has other columns than the topic before"), help);
                    return None;
                }
                _ => columns = Some(of_topic),
            }
        }
        columns.cloned()
    }
}
