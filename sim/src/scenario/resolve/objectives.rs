//! Objectives of freshness: what layer they speak of, and which events come to it.

use super::{At, Resolver};
use crate::judge::{Objective, Rule};
use crate::scenario::data::{Application, Gatekeeper, Job, NodeKind, Reader};
use crate::scenario::problem::{Problem, nearest};
use At::{Item, Key};
use model::base::{Layer, TopicId};
use model::flink::runtime::operator::OperatorConfig;
use std::collections::BTreeSet;

/// Who writes what, as far as objectives ask.
pub(super) struct Writers<'a> {
    pub(super) applications: &'a [Application],
    pub(super) gatekeepers: &'a [Gatekeeper],
    pub(super) jobs: &'a [Job],
}
impl Writers<'_> {
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
fn sources_of(job: &Job, mut from: (usize, bool)) -> Option<&[TopicId]> {
    loop {
        let node = &job.nodes[from.0];
        match &node.kind {
            NodeKind::Source { topics, .. } => return Some(topics),
            NodeKind::Operator(
                OperatorConfig::Map(_) | OperatorConfig::Deduplicate(_) | OperatorConfig::Assign(_),
                _,
            ) => from = node.input?,
            _ => return None,
        }
    }
}

impl Resolver<'_> {
    pub(super) fn objectives(&mut self, readers: &[Reader], writers: &Writers<'_>) -> Vec<Objective> {
        let raw = self.raw;
        self.unique("objectives", raw.objectives.iter().map(|o| o.name.as_str()));
        let mut list = Vec::new();
        for (i, o) in raw.objectives.iter().enumerate() {
            let path = |key| [Key("objectives"), Item(i), Key(key)];
            let Some(number) = readers.iter().position(|r| r.name == o.layer) else {
                let names: Vec<&str> = readers.iter().map(|r| r.name.as_str()).collect();
                let problem = Problem::at(self.place(&path("layer")), format!("there is no reader `{}`", o.layer));
                self.problems.push(match nearest(&o.layer, names.iter().copied()) {
                    Some(near) => problem.help(format!("did you mean `{near}`?")),
                    None => problem.help(format!("readers are {}", names.join(", "))),
                });
                continue;
            };
            let (mut direct, mut through) = (BTreeSet::new(), BTreeSet::new());
            let mut of_results = false;
            for topic in readers[number].topics.iter().map(|t| t.0) {
                match writers.origins(topic, &mut Vec::new()) {
                    Some(origins) => origins.into_iter().for_each(|origin| {
                        let _ = if origin == topic { direct.insert(origin) } else { through.insert(origin) };
                    }),
                    None => of_results = true,
                }
            }
            if of_results {
                let help = "an objective counts events that were sent: take a reader before rows are joined, filtered or summed up";
                self.advise(&path("layer"), format!("`{}` is given results, not events", o.layer), help);
                continue;
            }
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
                layer: Layer::Read(number as u16),
                direct: direct.into_iter().collect(),
                through: through.into_iter().collect(),
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
