//! What rows mean that stand together: the judge takes those of one topic, table or lake for one result.

use super::super::{At, Resolver};
use crate::scenario::data::{Job, JobNode, NodeKind, upwards};
use crate::scenario::raw::Raw;
use At::{Item, Key};
use model::base::TopicId;
use model::flink::runtime::operator::{
    DeduplicateConfig, GroupWindowConfig, OperatorConfig, SqlWindowConfig, WindowConfig,
};

/// Where rows go, by place in the scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Topic(TopicId),
    Table(usize),
    Lake(usize),
}
impl Written {
    /// That of a sink; none of another node.
    fn by(node: &JobNode) -> Option<Self> {
        match node.kind {
            NodeKind::Sink { topic, .. } => Some(Self::Topic(topic)),
            NodeKind::Upsert(table) => Some(Self::Table(table)),
            NodeKind::Lake(lake) => Some(Self::Lake(lake)),
            NodeKind::Source { .. } | NodeKind::Operator(..) => None,
        }
    }
    /// What it is called, which is also the sink's key.
    const fn key(self) -> &'static str {
        match self {
            Self::Topic(_) => "topic",
            Self::Table(_) => "table",
            Self::Lake(_) => "lake",
        }
    }
}
/// Who writes: a sink, or an operator whose calls a table stands for.
struct Writer<'a> {
    job: &'a Job,
    /// Its name.
    name: &'a str,
    into: Written,
    /// Whose output is written.
    from: Option<(usize, bool)>,
    /// Where that is said.
    path: Vec<At<'a>>,
    /// The name of what is written.
    written: &'a str,
}
impl<'a> Writer<'a> {
    /// All of a scenario's, in the order of the file, as far as they are understood.
    fn all(raw: &'a Raw, jobs: &'a [Job]) -> Vec<Self> {
        let mut all = Vec::new();
        for (i, of_job) in raw.jobs.iter().enumerate() {
            let Some(job) = jobs.iter().find(|job| job.name == of_job.name) else { continue };
            let place = |name: &str| job.nodes.iter().position(|node| node.name == name);
            for (n, sink) in of_job.sinks.iter().enumerate() {
                let Some(node) = place(&sink.name).map(|at| &job.nodes[at]) else { continue };
                let Some(into) = Written::by(node) else { continue };
                let path = vec![Key("jobs"), Item(i), Key("sinks"), Item(n), Key(into.key())];
                let written = [&sink.topic, &sink.table, &sink.lake].into_iter().flatten().next();
                let written = written.map_or("", String::as_str);
                all.push(Self { job, name: &sink.name, into, from: node.input, path, written });
            }
            for (n, operator) in of_job.operators.iter().enumerate() {
                let (Some(at), Some(call)) = (place(&operator.name), &operator.call) else { continue };
                let Some(to) = job.nodes[at].call else { continue };
                let path = vec![Key("jobs"), Item(i), Key("operators"), Item(n), Key("call"), Key("to")];
                let (into, from) = (Written::Table(to.to), Some((at, false)));
                all.push(Self { job, name: &operator.name, into, from, path, written: &call.to });
            }
        }
        all
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
/// What rows mean: the operators from their source on, each with whether it gives by its side output, and the topics that the
/// source reads.
fn meaning(nodes: &[JobNode], from: Option<(usize, bool)>) -> (Vec<(OperatorConfig, bool)>, Vec<TopicId>) {
    let (mut operators, mut read) = (Vec::new(), Vec::new());
    for (at, side) in upwards(nodes, from) {
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
fn in_words(nodes: &[JobNode], from: Option<(usize, bool)>) -> String {
    let mut above = upwards(nodes, from);
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
        let input = from.map_or("", |(at, _)| nodes[at].name.as_str());
        format!("rows of `{input}`")
    })
}

impl Resolver<'_> {
    /// Two of them write one topic, table or lake only if their rows mean the same: those of jobs that follow each other, or
    /// that run side by side and do the same to what the same topics hold.
    pub(super) fn meanings(&mut self, jobs: &[Job]) {
        let writers = Writer::all(self.raw, jobs);
        for (at, writer) in writers.iter().enumerate() {
            // What comes second in the file is to blame.
            let Some(first) = writers[..at].iter().find(|other| other.into == writer.into) else { continue };
            let of = |writer: &Writer<'_>| meaning(&writer.job.nodes, writer.from);
            let same = of(writer) == of(first);
            if same && writer.job.name != first.job.name {
                continue;
            }
            let (name, key) = (writer.written, writer.into.key());
            let what = if same {
                format!("`{}` writes into `{name}` what `{}` writes there: each row twice", writer.name, first.name)
            } else {
                let there = in_words(&first.job.nodes, first.from);
                let here = in_words(&writer.job.nodes, writer.from);
                let here = if here == there { format!("what job `{}` makes otherwise", writer.job.name) } else { here };
                format!("`{name}` holds {there} (of `{}`), not {here}", first.name)
            };
            self.advise(&writer.path, what, format!("a {key} of its own: rows of one {key} are judged as one result"));
        }
    }
}
