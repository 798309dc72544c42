//! Windows of jobs: of the DataStream API and of SQL.

use super::super::{At, Resolver};
use super::ms;
use crate::scenario::data::{Column, JobNode, NodeKind};
use crate::scenario::keys::Config;
use crate::scenario::raw::{JobOperator, OperatorKind};
use At::{Item, Key};
use model::base::Millis;
use model::flink::operator::{Assigner, Slices};
use model::flink::runtime::graph::KeyColumn;
use model::flink::runtime::operator::{GroupWindowConfig, OperatorConfig, SqlWindowConfig, SqlWindows};

/// Columns of what a window hands on, besides those that it names after its key and its sum.
const WINDOW_END: &str = "window_end";
const COUNT: &str = "count";
const OP: &str = "op";

/// Keys of late fire.
const LATE_FIRE: &str = "table.exec.emit.late-fire.enabled";
const LATE_FIRE_DELAY: &str = "table.exec.emit.late-fire.delay";
const ALLOW_LATENESS: &str = "table.exec.emit.allow-lateness";

/// What a window hands on.
pub(super) fn columns(columns: &[Column], key: KeyColumn, sum: Option<u8>) -> Vec<Column> {
    vec![
        Column::number(WINDOW_END),
        columns[key.column()].clone(),
        Column::number(sum.map_or("sum", |at| &columns[usize::from(at)].name)),
        Column::number(COUNT),
    ]
}

/// The local aggregate in front of a window in two phases, which then takes its partial results.
pub(super) fn local(window: &mut JobNode, graph: &[JobNode]) -> Option<JobNode> {
    let NodeKind::Operator(OperatorConfig::SqlWindow(config), key) = &mut window.kind else { return None };
    if !config.two_phase {
        return None;
    }
    let input = window.input?;
    let local = JobNode {
        name: format!("{}.local", window.name),
        kind: NodeKind::Operator(OperatorConfig::LocalWindow(config.clone()), None),
        input: Some(input),
        parallelism: graph[input.0].parallelism,
        record: window.record,
        columns: window.columns.clone(),
        call: None,
    };
    // Of a partial result: [slice_end, key, sum, count].
    *key = Some(KeyColumn::Sql(1));
    window.input = Some((graph.len(), false));
    Some(local)
}

impl Resolver<'_> {
    /// How an operator's window cuts time; `help` says what there is.
    pub(super) fn assigner(&mut self, root: &[At<'_>], o: &JobOperator, help: &str) -> Option<Assigner> {
        let at = |d: crate::scenario::units::Duration| ms(d.0).0;
        match (o.size, o.slide, o.gap) {
            (Some(size), None, None) if at(size) > 0 => Some(Assigner::Tumbling { size: at(size), offset: 0 }),
            (Some(size), Some(slide), None) if at(size) > 0 && at(slide) > 0 => {
                Some(Assigner::Sliding { size: at(size), slide: at(slide), offset: 0 })
            }
            (None, None, Some(gap)) if at(gap) > 0 => Some(Assigner::Session { gap: at(gap) }),
            _ => {
                self.advise(root, format!("`{}` has no window", o.name), help);
                None
            }
        }
    }

    /// A window table function with its aggregate, and the columns of what it hands on.
    pub(super) fn sql_window(
        &mut self,
        root: &[At<'_>],
        o: &JobOperator,
        key: KeyColumn,
        input: &[Column],
        config: &Config,
    ) -> Option<(OperatorConfig, Vec<Column>)> {
        let at = |d: crate::scenario::units::Duration| ms(d.0).0;
        let [size, slide, step, gap] = [o.size, o.slide, o.step, o.gap].map(|d| d.map(at).filter(|ms| *ms > 0));
        let windows = match (size, slide, step, gap) {
            (Some(size), None, None, None) => SqlWindows::Sliced(Slices::Tumble { size }),
            (Some(size), Some(slide), None, None) => SqlWindows::Sliced(Slices::Hop { size, slide }),
            (Some(size), None, Some(step), None) => SqlWindows::Sliced(Slices::Cumulate { size, step }),
            (None, None, None, Some(gap)) => SqlWindows::Session { gap },
            _ => {
                let help = "`size` is TUMBLE, `size` and `slide` HOP, `size` and `step` CUMULATE, `gap` SESSION";
                self.advise(root, format!("`{}` has no window", o.name), help);
                return None;
            }
        };
        if let (Some(size), Some(part)) = (size, slide.or(step))
            && size % part != 0
        {
            // HopWindowAssigner, CumulativeWindowAssigner of SQL.
            let name = if slide.is_some() { "slide" } else { "step" };
            self.say(
                &[root, &[Key(name)]].concat(),
                format!("`size` is a multiple of `{name}`: the planner demands it"),
            );
            return None;
        }
        let sum = match &o.sum {
            Some(text) => Some(self.summed(&[root, &[Key("sum")]].concat(), text, input)?),
            None => None,
        };
        let named = columns(input, key, sum);
        // A count and a sum can be merged, and no input is distributed by the key already: AUTO takes two phases (T1).
        let two_phase = matches!(windows, SqlWindows::Sliced(_))
            && config.word("table.optimizer.agg-phase-strategy") != "ONE_PHASE";
        let bytes = u32::try_from(o.bytes.0).unwrap_or(u32::MAX);
        Some((OperatorConfig::SqlWindow(SqlWindowConfig { key, windows, two_phase, sum, bytes }), named))
    }

    /// A group window of older SQL, and the columns of its changelog.
    pub(super) fn group_window(
        &mut self,
        root: &[At<'_>],
        o: &JobOperator,
        key: KeyColumn,
        input: &[Column],
        config: &Config,
    ) -> Option<(OperatorConfig, Vec<Column>)> {
        let late_fire = config.flag(LATE_FIRE);
        if late_fire && o.gap.is_some() {
            let help = "`size` is TUMBLE, `size` and `slide` HOP; sessions go into a job without late fire";
            let what = "SESSION has no late fire: the planner refuses it";
            self.advise(&[root, &[Key("gap")]].concat(), what, help);
            return None;
        }
        let help = "`size` is TUMBLE, `size` and `slide` HOP, `gap` SESSION; a millisecond at least";
        let assigner = self.assigner(root, o, help)?;
        let sum = match &o.sum {
            Some(text) => Some(self.summed(&[root, &[Key("sum")]].concat(), text, input)?),
            None => None,
        };
        let result = sum.map_or(COUNT, |at| &input[usize::from(at)].name);
        let named =
            vec![Column::number(WINDOW_END), input[key.column()].clone(), Column::number(result), Column::number(OP)];
        let late_fire = late_fire.then(|| config.ms(ALLOW_LATENESS));
        let bytes = u32::try_from(o.bytes.0).unwrap_or(u32::MAX);
        Some((OperatorConfig::GroupWindow(GroupWindowConfig { key, assigner, late_fire, sum, bytes }), named))
    }

    /// Columns of what a window hands on have names of their own.
    pub(super) fn distinct(&mut self, root: &[At<'_>], o: &JobOperator, named: &[Column]) -> Option<()> {
        let twice = named.iter().enumerate().find_map(|(at, column)| {
            let first = named[..at].iter().position(|c| c.name == column.name)?;
            Some((column, first, at))
        });
        let Some((column, first, at)) = twice else { return Some(()) };
        // The end of the window comes first, then the key, then the sum.
        let key = if o.sum.is_some() && (first == 2 || at == 2) { "sum" } else { "key" };
        let what = format!("`{}` hands on two columns called `{}`", o.name, column.name);
        self.advise(&[root, &[Key(key)]].concat(), what, "a `map` in front of it gives a column another name");
        None
    }

    /// What Flink refuses of late fire, and who may take a changelog.
    pub(super) fn changelogs(&mut self, i: usize, graph: &[JobNode], config: &Config) {
        let raw = self.raw;
        let at = |key| [Key("jobs"), Item(i), Key("config"), Key(key)];
        let changelog = |node: usize| matches!(graph[node].kind, NodeKind::Operator(OperatorConfig::GroupWindow(_), _));
        let set = [LATE_FIRE, LATE_FIRE_DELAY, ALLOW_LATENESS].into_iter().find(|key| config.is_set(key));
        // An operator that has not come so far has a problem of its own.
        if let Some(key) = set
            && !raw.jobs[i].operators.iter().any(|o| o.kind == OperatorKind::GroupWindow)
        {
            let what = format!("`{key}` is of group windows only: no table function fires late");
            self.advise(&at(key), what, "an operator of kind `group-window`");
        } else if config.flag(LATE_FIRE) {
            if self.unread(i, LATE_FIRE_DELAY, config) {
                // That has been said.
            } else if !config.is_set(LATE_FIRE_DELAY) {
                let what = format!("late fire needs `{LATE_FIRE_DELAY}`");
                self.advise(&at(LATE_FIRE), what, "0 ms fires at every element");
            } else if config.ms(LATE_FIRE_DELAY) > Millis::ZERO {
                let what = format!("`{LATE_FIRE_DELAY}` above 0 is a timer of processing time: not modelled");
                self.advise(&at(LATE_FIRE_DELAY), what, "0 ms fires at every element");
            }
            if config.ms(ALLOW_LATENESS) == Millis::ZERO && !self.unread(i, ALLOW_LATENESS, config) {
                let what = format!("late fire needs `{ALLOW_LATENESS}`: the planner demands it");
                let key = if config.is_set(ALLOW_LATENESS) { ALLOW_LATENESS } else { LATE_FIRE };
                self.advise(&at(key), what, "for how long behind its end a window takes events");
            }
        }
        for node in graph.iter().filter(|n| n.input.is_some_and(|(at, _)| changelog(at))) {
            if !matches!(node.kind, NodeKind::Sink { .. }) {
                // The local aggregate of a window stands in its place.
                let name = node.name.strip_suffix(".local").unwrap_or(&node.name);
                let job = &raw.jobs[i];
                let operator = job.operators.iter().position(|o| o.name == name).map(|n| ("operators", n));
                let sink = || job.sinks.iter().position(|s| s.name == name).map(|n| ("sinks", n));
                let Some((list, n)) = operator.or_else(sink) else { continue };
                let what = format!("`{name}` takes a changelog as if its rows were only added");
                let path = [Key("jobs"), Item(i), Key(list), Item(n), Key("input")];
                self.advise(&path, what, "a sink of a topic writes one");
            }
        }
        let written: Vec<&str> = raw.jobs.iter().flat_map(|j| j.changelogs()).collect();
        for (n, source) in raw.jobs[i].sources.iter().enumerate() {
            if let Some(topic) = source.topics().find(|topic| written.contains(topic)) {
                let path = [Key("jobs"), Item(i), Key("sources"), Item(n), Key("topic")];
                self.advise(
                    &path,
                    format!("`{topic}` holds a changelog"),
                    "a source of a job takes rows that are only added",
                );
            }
        }
    }
}
