//! The parts of a job: their names, what each takes its input from, and in which order they are made.

use super::super::{At, Resolver};
use crate::scenario::problem::Problem;
use crate::scenario::raw::Job;
use At::{Item, Key};
use std::collections::BTreeMap;

pub(super) const LATE: &str = ".late";
/// The part that an input names, without `.late`.
pub(super) fn base(input: &str) -> &str {
    input.strip_suffix(LATE).unwrap_or(input)
}

/// A part of a job, by its place in its list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Source(usize),
    Operator(usize),
    Sink(usize),
}
impl Part {
    pub(super) const fn path(self) -> (&'static str, usize) {
        match self {
            Self::Source(n) => ("sources", n),
            Self::Operator(n) => ("operators", n),
            Self::Sink(n) => ("sinks", n),
        }
    }
    pub(super) fn name(self, job: &Job) -> &str {
        match self {
            Self::Source(n) => &job.sources[n].name,
            Self::Operator(n) => &job.operators[n].name,
            Self::Sink(n) => &job.sinks[n].name,
        }
    }
    pub(super) fn input(self, job: &Job) -> Option<&str> {
        match self {
            Self::Source(_) => None,
            Self::Operator(n) => Some(&job.operators[n].input),
            Self::Sink(n) => Some(&job.sinks[n].input),
        }
    }
}

/// The way through which a part takes its input from itself, as it is said; none where it does not, or where the cycle is
/// said at another of its parts, the first of them.
fn cycle(job: &Job, part: Part, left: &[Part], seen: &BTreeMap<&str, Part>) -> Option<String> {
    let name = part.name(job);
    let above = |name: &str| seen.get(name).and_then(|p| p.input(job)).map(base);
    let way: Vec<&str> =
        std::iter::successors(above(name), |name| above(name)).take(left.len()).take_while(|n| *n != name).collect();
    let closes = above(way.last().copied().unwrap_or(name)) == Some(name);
    let first = left.iter().map(|p| p.name(job)).find(|n| *n == name || way.contains(n));
    if !closes || first != Some(name) {
        return None;
    }
    Some(if way.is_empty() { String::new() } else { format!(", through `{}`", way.join("`, `")) })
}

impl Resolver<'_> {
    /// Parts of job `i`, each after what it takes its input from.
    pub(super) fn order(&mut self, i: usize) -> Option<Vec<Part>> {
        let job = &self.raw.jobs[i];
        let mut seen: BTreeMap<&str, Part> = BTreeMap::new();
        let parts: Vec<Part> = (0..job.sources.len())
            .map(Part::Source)
            .chain((0..job.operators.len()).map(Part::Operator))
            .chain((0..job.sinks.len()).map(Part::Sink))
            .collect();
        let mut good = true;
        for part in &parts {
            let (list, n) = part.path();
            let path = [Key("jobs"), Item(i), Key(list), Item(n), Key("name")];
            let name = part.name(job);
            let bad = |c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c));
            if name.is_empty() || name.contains(bad) {
                self.say(&path, "the name of a part of a job is made of letters, digits, `-` and `_`");
                good = false;
            }
            if seen.insert(name, *part).is_some() {
                self.say(&path, format!("two parts of the job are called `{name}`"));
                good = false;
            }
        }
        if job.sources.is_empty() || job.sinks.is_empty() {
            self.say(&[Key("jobs"), Item(i)], "a job has a source and a sink at least");
            good = false;
        }
        let mut order = Vec::new();
        let mut left = parts;
        while !left.is_empty() {
            let done = |order: &[Part], name: &str| order.iter().any(|p: &Part| p.name(job) == name);
            let (ready, rest): (Vec<_>, Vec<_>) =
                left.iter().copied().partition(|p: &Part| p.input(job).is_none_or(|name| done(&order, base(name))));
            if ready.is_empty() {
                self.never_ready(i, &rest, &seen, good);
                return None;
            }
            order.extend(ready);
            left = rest;
        }
        good.then_some(order)
    }

    /// Says why each part that is left has no input: a sink hands nothing on, a cycle, no such part.
    fn never_ready(&mut self, i: usize, left: &[Part], seen: &BTreeMap<&str, Part>, good: bool) {
        let job = &self.raw.jobs[i];
        for part in left {
            let (list, n) = part.path();
            let path = [Key("jobs"), Item(i), Key(list), Item(n), Key("input")];
            let input = part.input(job).map_or("", base);
            match seen.get(input) {
                Some(Part::Sink(_)) => self.say(&path, format!("`{input}` is a sink: it hands nothing on")),
                // Who takes its input from a part of a cycle, or from one that is wrong, has nothing wrong itself.
                Some(_) => {
                    if let Some(through) = cycle(job, *part, left, seen).filter(|_| good) {
                        let name = part.name(job);
                        self.say(&path, format!("`{name}` takes its input from itself{through}: a cycle"));
                    }
                }
                None => {
                    let problem = Problem::at(self.place(&path), format!("the job has no part `{input}`"));
                    let known = seen.iter().filter(|(_, p)| !matches!(p, Part::Sink(_))).map(|(n, _)| *n);
                    self.problems.push(problem.nearest(input, known));
                }
            }
        }
    }

    /// Names what nobody takes: an operator's output, a sink's topic.
    pub(super) fn all_used(&mut self, i: usize) {
        let raw = self.raw;
        let job = &raw.jobs[i];
        let taken = |name: &str| {
            let inputs = job.operators.iter().map(|o| &o.input).chain(job.sinks.iter().map(|s| &s.input));
            inputs.map(|i| base(i)).any(|i| i == name)
        };
        for (list, n, name) in (job.sources.iter().enumerate().map(|(n, s)| ("sources", n, &s.name)))
            .chain(job.operators.iter().enumerate().map(|(n, o)| ("operators", n, &o.name)))
        {
            if !taken(name) {
                let path = [Key("jobs"), Item(i), Key(list), Item(n), Key("name")];
                self.advise(&path, format!("nobody takes what `{name}` hands on"), "add an operator or a sink");
            }
        }
        for (n, sink) in job.sinks.iter().enumerate() {
            let Some(topic) = &sink.topic else { continue };
            let read = raw.readers.iter().any(|r| r.topics.is_empty() || r.topics.contains(topic))
                || raw.jobs.iter().any(|j| j.sources.iter().any(|s| s.topics().any(|t| t == topic)))
                || raw.gatekeepers.iter().any(|g| g.input == *topic);
            if !read {
                let path = [Key("jobs"), Item(i), Key("sinks"), Item(n), Key("topic")];
                self.advise(&path, format!("nobody reads `{topic}`"), "add a reader of the topic");
            }
        }
    }
}
