//! What rows mean that stand together: the judge takes those of one topic, table or lake for one result.

use super::super::{At, Resolver};
use crate::scenario::data::{Job, JobNode, NodeKind, upwards};
use At::{Item, Key};
use model::base::TopicId;
use model::flink::runtime::operator::{
    DeduplicateConfig, GroupWindowConfig, OperatorConfig, SqlWindowConfig, WindowConfig,
};

/// Where a sink writes, by place in the scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Topic(TopicId),
    Table(usize),
    Lake(usize),
}
impl Written {
    /// That of a node; none of one that is no sink.
    fn by(node: &JobNode) -> Option<Self> {
        match node.kind {
            NodeKind::Sink { topic, .. } => Some(Self::Topic(topic)),
            NodeKind::Upsert(table) => Some(Self::Table(table)),
            NodeKind::Lake(lake) => Some(Self::Lake(lake)),
            NodeKind::Source { .. } | NodeKind::Operator(..) => None,
        }
    }
    /// The sink's key that names it.
    const fn key(self) -> &'static str {
        match self {
            Self::Topic(_) => "topic",
            Self::Table(_) => "table",
            Self::Lake(_) => "lake",
        }
    }
}

/// An operator as far as it decides what rows mean; none of one that only says how a result is come by.
fn part(operator: &OperatorConfig) -> Option<OperatorConfig> {
    Some(match operator.clone() {
        OperatorConfig::Assign(_) | OperatorConfig::LocalWindow(_) => return None,
        OperatorConfig::Window(w) => OperatorConfig::Window(WindowConfig { bytes: 0, ..w }),
        OperatorConfig::SqlWindow(w) => OperatorConfig::SqlWindow(SqlWindowConfig { bytes: 0, two_phase: false, ..w }),
        OperatorConfig::GroupWindow(w) => OperatorConfig::GroupWindow(GroupWindowConfig { bytes: 0, ..w }),
        OperatorConfig::Deduplicate(d) => OperatorConfig::Deduplicate(DeduplicateConfig { entry: 0, ..d }),
        other => other,
    })
}
/// What a sink's rows mean: the operators between it and its source, each with whether it gives by its side output, and the
/// topics that the source reads.
fn meaning(nodes: &[JobNode], sink: &JobNode) -> (Vec<(OperatorConfig, bool)>, Vec<TopicId>) {
    let (mut operators, mut read) = (Vec::new(), Vec::new());
    for (at, side) in upwards(nodes, sink.input) {
        match &nodes[at].kind {
            NodeKind::Operator(operator, _) => operators.extend(part(operator).map(|part| (part, side))),
            NodeKind::Source { topics, .. } => read.clone_from(topics),
            _ => {}
        }
    }
    read.sort_unstable_by_key(|topic| topic.0);
    (operators, read)
}
/// The same in words, by the nearest operator that decides what a row stands for.
fn in_words(nodes: &[JobNode], sink: &JobNode) -> String {
    let mut above = upwards(nodes, sink.input);
    let named = above.find_map(|(at, side)| {
        let NodeKind::Operator(operator, _) = &nodes[at].kind else { return None };
        let what = match operator {
            OperatorConfig::Window(_) if side => "what is late for",
            OperatorConfig::Window(_) | OperatorConfig::SqlWindow(_) => "windows of",
            OperatorConfig::GroupWindow(_) => "the changelog of",
            OperatorConfig::LateFilter(_) => "what is late for",
            OperatorConfig::Join(_) => "pairs of",
            _ => return None,
        };
        Some(format!("{what} `{}`", nodes[at].name))
    });
    named.unwrap_or_else(|| {
        let input = sink.input.map_or("", |(at, _)| nodes[at].name.as_str());
        format!("rows of `{input}`")
    })
}

impl Resolver<'_> {
    /// Two sinks write one topic, table or lake only if their rows mean the same: those of jobs that follow each other, or that
    /// run side by side and do the same to what the same topics hold.
    pub(super) fn meanings(&mut self, jobs: &[Job]) {
        let raw = self.raw;
        // In the order of the file: what comes second is to blame.
        let mut sinks: Vec<([usize; 2], &Job, &JobNode, Written)> = Vec::new();
        for (i, of_job) in raw.jobs.iter().enumerate() {
            let Some(job) = jobs.iter().find(|job| job.name == of_job.name) else { continue };
            for (n, of_sink) in of_job.sinks.iter().enumerate() {
                let node = job.nodes.iter().find(|node| node.name == of_sink.name);
                sinks.extend(node.and_then(|node| Some(([i, n], job, node, Written::by(node)?))));
            }
        }
        for (at, ([i, n], job, sink, written)) in sinks.iter().enumerate() {
            let before = sinks[..at].iter().find(|(.., before)| before == written);
            let Some((_, other, first, _)) = before else { continue };
            let same = meaning(&job.nodes, sink) == meaning(&other.nodes, first);
            if same && job.name != other.name {
                continue;
            }
            let key = written.key();
            let of = &raw.jobs[*i].sinks[*n];
            let name = [&of.topic, &of.table, &of.lake].into_iter().flatten().next().map_or("", String::as_str);
            let path = [Key("jobs"), Item(*i), Key("sinks"), Item(*n), Key(key)];
            let what = if same {
                format!("`{}` writes into `{name}` what `{}` writes there: each row twice", sink.name, first.name)
            } else {
                let (there, here) = (in_words(&other.nodes, first), in_words(&job.nodes, sink));
                format!("`{name}` holds {there} (sink `{}`): {here} mean something else", first.name)
            };
            self.advise(&path, what, format!("a {key} of its own: rows of one {key} are judged as one result"));
        }
    }
}
