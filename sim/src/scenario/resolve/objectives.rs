//! Objectives of freshness: what layer they speak of, a reader or a store, and which events come to it.

use super::stores::tables;
use super::{At, Resolver};
use crate::judge::{MarkingRule, Objective, Rule};
use crate::scenario::data::{Application, ClickHouse, Gatekeeper, Job, NodeKind, Reader, upwards};
use crate::scenario::problem::{Problem, nearest};
use crate::scenario::raw::Raw;
use crate::scenario::units::Duration;
use At::{Item, Key};
use model::base::{Layer, TopicId};
use model::flink::runtime::operator::OperatorConfig;
use std::collections::BTreeSet;

/// Who reads and who writes what, as far as objectives ask.
pub(super) struct Writers<'a> {
    pub(super) readers: &'a [Reader],
    pub(super) clickhouse: &'a [ClickHouse],
    pub(super) applications: &'a [Application],
    pub(super) gatekeepers: &'a [Gatekeeper],
    pub(super) jobs: &'a [Job],
}
/// Where somebody looks, and what comes there: topics, of which those with `true` are read from just there.
type Looked = (Layer, Option<BTreeSet<(u16, bool)>>);
impl Writers<'_> {
    /// Whether every part of every job has been understood.
    fn complete(&self, raw: &Raw) -> bool {
        let there = |name: &str| self.jobs.iter().find(|job| job.name == name);
        raw.jobs.iter().all(|of| {
            let mut names = of.operators.iter().map(|o| &o.name).chain(of.sinks.iter().map(|s| &s.name));
            there(&of.name).is_some_and(|job| names.all(|name| job.nodes.iter().any(|node| node.name == *name)))
        })
    }
    /// What a name means, by the name and among `raw`'s stores; `None` if nothing has it.
    fn looked_at(&self, name: &str, raw: &Raw) -> Option<Looked> {
        let read = |topics: &[TopicId]| -> Option<BTreeSet<(u16, bool)>> {
            let mut all = BTreeSet::new();
            for topic in topics.iter().map(|t| t.0) {
                all.extend(self.origins(topic, &mut Vec::new())?.into_iter().map(|origin| (origin, origin == topic)));
            }
            Some(all)
        };
        if let Some(number) = self.readers.iter().position(|r| r.name == name) {
            return Some((Layer::Read(number as u16), read(&self.readers[number].topics)));
        }
        if let Some(at) = raw.lakes.iter().position(|l| l.name == name) {
            let sinks = self.jobs.iter().flat_map(|job| job.nodes.iter().map(move |node| (job, node)));
            let mut all = Some(BTreeSet::new());
            for (job, node) in sinks.filter(|(_, node)| matches!(node.kind, NodeKind::Lake(lake) if lake == at)) {
                let topics = node.input.and_then(|input| sources_of(job, input));
                let origins = |all: BTreeSet<u16>, t: &TopicId| {
                    Some(all.into_iter().chain(self.origins(t.0, &mut Vec::new())?).collect())
                };
                let origins = topics.and_then(|topics| topics.iter().try_fold(BTreeSet::new(), origins));
                all = all.zip(origins).map(|(mut all, origins)| {
                    all.extend(origins.into_iter().map(|origin| (origin, false)));
                    all
                });
            }
            return Some((Layer::Stored((raw.tables.len() + at) as u16), all));
        }
        let mut tables = self.clickhouse.iter().flat_map(|c| &c.tables).zip(raw.tables.len() + raw.lakes.len()..);
        let (table, number) = tables.find(|(t, _)| t.name == name)?;
        Some((Layer::Stored(number as u16), read(&table.topics)))
    }
    /// Topics whose events come, unchanged in number, to `topic`. `None` if what stands there is no event: results.
    fn origins(&self, topic: u16, above: &mut Vec<u16>) -> Option<BTreeSet<u16>> {
        let mut found = BTreeSet::new();
        if above.contains(&topic) {
            return Some(found);
        }
        above.push(topic);
        if self.applications.iter().any(|a| a.topic.0 == topic) {
            found.insert(topic);
        }
        for gate in self.gatekeepers.iter().filter(|g| g.valid.0 == topic) {
            found.extend(self.origins(gate.consumer.topics.first()?.0, above)?);
        }
        for job in self.jobs {
            for sink in job.nodes.iter().filter(|n| matches!(&n.kind, NodeKind::Sink { topic: t, .. } if t.0 == topic))
            {
                for topic in sources_of(job, sink.input?)? {
                    found.extend(self.origins(topic.0, above)?);
                }
            }
        }
        above.pop();
        Some(found)
    }
}
/// The topics whose rows come out of a node, each as it was; `None` if an operator makes others of them.
fn sources_of(job: &Job, from: (usize, bool)) -> Option<&[TopicId]> {
    let keeps = |kind: &NodeKind| match kind {
        NodeKind::Operator(operator, _) => {
            matches!(operator, OperatorConfig::Map(_) | OperatorConfig::Deduplicate(_) | OperatorConfig::Assign(_))
        }
        _ => false,
    };
    let mut kinds = upwards(&job.nodes, Some(from)).map(|(at, _)| &job.nodes[at].kind);
    match kinds.find(|kind| !keeps(kind))? {
        NodeKind::Source { topics, .. } => Some(topics),
        _ => None,
    }
}

impl Resolver<'_> {
    fn looked_at(&mut self, writers: &Writers<'_>, path: &[At<'_>], name: &str) -> Option<Looked> {
        let raw = self.raw;
        let found = writers.looked_at(name, raw);
        // What is wrong with a reader or a store that is there has been said there.
        let declared = raw.readers.iter().any(|r| r.name == name) || tables(raw).any(|t| t.name == name);
        if found.is_none() && !declared {
            let names = raw.readers.iter().map(|r| &r.name).chain(raw.lakes.iter().map(|l| &l.name));
            let names: Vec<&str> = names.chain(tables(raw).map(|t| &t.name)).map(String::as_str).collect();
            let problem = Problem::at(self.place(path), format!("there is no reader and no store `{name}`"));
            self.problems.push(match nearest(name, names.iter().copied()) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help(format!("there is {}", names.join(", "))),
            });
        }
        found
    }
    /// Rules that mark windows.
    pub(super) fn markings(&mut self, writers: &Writers<'_>) -> Vec<MarkingRule> {
        let raw = self.raw;
        self.unique("markings", raw.markings.iter().map(|m| m.name.as_str()));
        let mut list = Vec::new();
        for (i, m) in raw.markings.iter().enumerate() {
            let path = |key| [Key("markings"), Item(i), Key(key)];
            let sinks = || raw.jobs.iter().flat_map(|job| job.sinks.iter().map(|sink| sink.name.as_str()));
            if !sinks().any(|name| name == m.aggregate) {
                let problem =
                    Problem::at(self.place(&path("aggregate")), format!("no job has a sink `{}`", m.aggregate));
                self.problems.push(problem.nearest(&m.aggregate, sinks()));
            }
            let events = self.looked_at(writers, &path("events"), &m.events);
            let late = self.looked_at(writers, &path("late"), &m.late);
            let (Some((events, _)), Some((late, _))) = (events, late) else { continue };
            let ms = |d: Duration| (d.0.0 / 1_000_000) as i64;
            list.push(MarkingRule {
                name: m.name.clone(),
                aggregate: m.aggregate.clone(),
                events,
                late,
                old_ms: ms(m.old),
                share: m.share.0,
                margin_ms: ms(m.margin),
            });
        }
        list
    }
    pub(super) fn objectives(&mut self, writers: &Writers<'_>) -> Vec<Objective> {
        let raw = self.raw;
        self.unique("objectives", raw.objectives.iter().map(|o| o.name.as_str()));
        let mut list = Vec::new();
        for (i, o) in raw.objectives.iter().enumerate() {
            let path = |key| [Key("objectives"), Item(i), Key(key)];
            let Some((layer, origins)) = self.looked_at(writers, &path("layer"), &o.layer) else { continue };
            let Some(origins) = origins else {
                if !writers.complete(raw) {
                    // A job that could not be built may hand on events.
                    continue;
                }
                let help = "an objective counts events that were sent: take a layer before rows are joined, filtered or summed up";
                self.advise(&path("layer"), format!("`{}` is given results, not events", o.layer), help);
                continue;
            };
            let of = |read: bool| origins.iter().filter(move |(_, direct)| *direct == read).map(|(topic, _)| *topic);
            let budget = 1_000_000 - o.share.0.min(1_000_000);
            let period_s = (o.period.0.0 / 1_000_000_000) as u32;
            if budget == 0 {
                self.say(&path("share"), "a budget of nothing is spent by the first event: a share below 100 %");
                continue;
            }
            if period_s == 0 {
                self.say(&path("period"), "the period is a second at least");
                continue;
            }
            if let Some(rule) = Rule::ALL.iter().find(|rule| !rule.can_fire(period_s, budget)) {
                let tenths = |thousandths: u64| format!("{}.{}", thousandths / 1_000, thousandths % 1_000 / 100);
                let (most, wanted) = (1_000_000_000 / u64::from(budget), rule.threshold(period_s));
                let text = format!(
                    "an alert could never fire: with {} no budget burns faster than {} times, and the window of {} h wants {}",
                    o.share,
                    tenths(most),
                    rule.long_s / 3_600,
                    tenths(wanted)
                );
                self.advise(&path("share"), text, "a larger share, or a shorter period");
                continue;
            }
            list.push(Objective {
                name: o.name.clone(),
                layer,
                direct: of(true).collect(),
                through: of(false).collect(),
                within_ms: (o.within.0.0 / 1_000_000) as u32,
                budget,
                period_s,
                scale: o.scale,
            });
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::load;

    fn wrong(scenario: &str, set: &[&str]) -> String {
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        load(scenario, &set).map_or_else(|e| e.render(false), |_| String::new())
    }

    #[test]
    fn what_could_never_alert_or_is_no_event_is_refused() {
        let with = |set: &'static str| wrong("kafka/freshness-burns", &[set]);
        assert_eq!(with("objectives.visible.share=99.9 %"), "");
        for (set, said) in [
            (
                "objectives.visible.share=90 %",
                "no budget burns faster than 10.0 times, and the window of 1 h wants 14.4",
            ),
            ("objectives.visible.share=100 %", "spent by the first event"),
            ("objectives.visible.layer=chek", "did you mean `check`?"),
            ("objectives.visible.within=5", "unit"),
        ] {
            assert!(with(set).contains(said), "{set}: {}", with(set));
        }
    }
}
