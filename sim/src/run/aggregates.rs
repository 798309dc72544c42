//! What the judge must know of the jobs' results: where windows are, where they stand, where their late events go.

use super::jobs::layout;
use crate::judge::{AggregatePlan, Derivation, Guarantee, Into, LateOutput, OperatorAt, ResultNode, Shape};
use crate::scenario::data::{Job, JobNode, NodeKind, Scenario, upwards};
use crate::scenario::keys::Config;
use model::flink::operator::{Panes, Slices};
use model::flink::runtime::operator::{OperatorConfig, SqlWindows};
use model::keyed_table::KeyColumns;

/// A window's shape, lateness, key and sum.
fn window(node: &JobNode) -> Option<(Shape, i64, (u8, Option<u8>))> {
    let NodeKind::Operator(operator, _) = &node.kind else { return None };
    let (lateness, key, sum) = match operator {
        OperatorConfig::Window(w) => (w.lateness.0, w.key, w.sum),
        OperatorConfig::SqlWindow(w) => (0, w.key, w.sum),
        OperatorConfig::GroupWindow(w) => (w.lateness().0, w.key, w.sum),
        _ => return None,
    };
    Some((Shape::of(operator)?, lateness, (key.column() as u8, sum)))
}
fn guarantee(config: &Config) -> Guarantee {
    match config.word("sink.delivery-guarantee") {
        "exactly-once" => Guarantee::ExactlyOnce,
        "at-least-once" => Guarantee::AtLeastOnce,
        _ => Guarantee::None,
    }
}

/// Nodes from a sink upwards to its source, each with whether it gives by its side output.
fn path(job: &Job, sink: usize) -> Vec<(usize, bool)> {
    upwards(&job.nodes, job.nodes[sink].input).collect()
}
/// Whether what it hands on is a changelog.
pub(super) const fn is_changelog(node: &JobNode) -> bool {
    matches!(node.kind, NodeKind::Operator(OperatorConfig::GroupWindow(_), _))
}
const fn is_map(node: &JobNode) -> bool {
    matches!(node.kind, NodeKind::Operator(OperatorConfig::Map(_), _))
}

/// Whether it drops rows, and changes none: as a late output may on its way.
const fn is_filter(node: &JobNode) -> bool {
    matches!(node.kind, NodeKind::Operator(OperatorConfig::Filter(_), _))
}

/// Where a sink writes, and with which guarantee; none of what is no sink. Iceberg tables come behind those with a key.
fn written(node: &JobNode, scenario: &Scenario) -> Option<(Into, Guarantee)> {
    match &node.kind {
        NodeKind::Sink { topic, config, .. } => Some((Into::Topic(topic.0), guarantee(config))),
        NodeKind::Upsert(table) => {
            let name = scenario.tables[*table].name.clone();
            Some((Into::Table(*table as u16, name), Guarantee::AtLeastOnce))
        }
        // Its files are committed with the checkpoint.
        NodeKind::Lake(lake) => {
            let number = (scenario.tables.len() + lake) as u16;
            Some((Into::Table(number, scenario.lakes[*lake].name.clone()), Guarantee::ExactlyOnce))
        }
        NodeKind::Source { .. } | NodeKind::Operator(..) => None,
    }
}

/// What of a job is looked at for its late events.
struct Late<'s> {
    job: &'s Job,
    scenario: &'s Scenario,
    /// The window.
    of: usize,
    /// The node of the rows that it takes, among those of the plan.
    input: usize,
}
impl Late<'_> {
    /// A late output: the sink at the end of a way on which there are but maps and filters. Where there are filters, a node of
    /// what they let through comes behind `nodes`.
    fn output(
        &self,
        sink: usize,
        way: &[(usize, bool)],
        place: impl Fn(usize) -> OperatorAt,
        nodes: &mut Vec<ResultNode>,
    ) -> Option<LateOutput> {
        let on_way = || way.iter().map(|(at, _)| &self.job.nodes[*at]);
        if !on_way().all(|node| is_map(node) || is_filter(node)) {
            return None;
        }
        let (into, guarantee) = written(&self.job.nodes[sink], self.scenario)?;
        let through = on_way().any(is_filter).then(|| {
            let operators = on_way().rev().filter_map(|node| match &node.kind {
                NodeKind::Operator(operator, _) => Some(operator.clone()),
                _ => None,
            });
            operators.fold(self.input, |input, operator| {
                nodes.push(ResultNode::Derived(input, Derivation(operator)));
                nodes.len() - 1
            })
        });
        let replaces = match &self.job.nodes[sink].kind {
            NodeKind::Upsert(table) => self.scenario.tables[*table].key.is_some(),
            _ => false,
        };
        Some(LateOutput { into, guarantee, writer: place(sink), filter: None, through, replaces })
    }
    /// Where its side output goes.
    fn of_side(&self, place: impl Fn(usize) -> OperatorAt, nodes: &mut Vec<ResultNode>) -> Vec<LateOutput> {
        let mut outputs = Vec::new();
        for sink in (0..self.job.nodes.len()).filter(|at| self.job.nodes[*at].is_sink()) {
            let path = path(self.job, sink);
            let to = path.iter().position(|(_, side)| *side).filter(|to| path[*to].0 == self.of);
            outputs.extend(to.and_then(|to| self.output(sink, &path[..to], &place, nodes)));
        }
        outputs
    }
    /// Where a late filter finds late events, which a tumbling window of SQL drops: one of the same size, that reads what the
    /// window reads.
    fn filtered(&self, place: impl Fn(usize) -> OperatorAt, nodes: &mut Vec<ResultNode>) -> Vec<LateOutput> {
        let job = self.job;
        let NodeKind::Operator(OperatorConfig::SqlWindow(window), _) = &job.nodes[self.of].kind else {
            return Vec::new();
        };
        let SqlWindows::Sliced(Slices::Tumble { size }) = window.windows else { return Vec::new() };
        let reads = read_by(job, self.of);
        let mut outputs = Vec::new();
        for sink in (0..job.nodes.len()).filter(|at| job.nodes[*at].is_sink()) {
            let path = path(job, sink);
            let fits = |(at, side): &(usize, bool)| match &job.nodes[*at].kind {
                NodeKind::Operator(OperatorConfig::LateFilter(filter), _) => {
                    !side && filter.size.is_some_and(|s| s.0 == size) && job.nodes[*at].input == reads
                }
                _ => false,
            };
            let Some(to) = path.iter().position(fits) else { continue };
            let output = self.output(sink, &path[..to], &place, nodes);
            outputs.extend(output.map(|output| LateOutput { filter: Some(place(path[to].0)), ..output }));
        }
        outputs
    }
}
/// What a window reads, above its local aggregate if it has one.
fn read_by(job: &Job, window: usize) -> Option<(usize, bool)> {
    let input = job.nodes[window].input?;
    match &job.nodes[input.0].kind {
        NodeKind::Operator(OperatorConfig::LocalWindow(_), _) => job.nodes[input.0].input,
        _ => Some(input),
    }
}

/// Whether the window among these is one of SQL's that are made of slices.
fn of_window_is_sliced<'a>(mut nodes: impl Iterator<Item = &'a JobNode>) -> bool {
    nodes.any(|n| match &n.kind {
        NodeKind::Operator(OperatorConfig::SqlWindow(w), _) => matches!(w.windows, SqlWindows::Sliced(_)),
        _ => false,
    })
}

/// Whether a window shares panes with those that it overlaps.
const fn is_paned(window: &JobNode) -> bool {
    match &window.kind {
        NodeKind::Operator(OperatorConfig::GroupWindow(w), _) => Panes::of(w.assigner).is_some(),
        _ => false,
    }
}

/// A sink's plan; none of late outputs, of windows of windows, and of what a filter leaves of windows.
fn plan(
    job: &Job,
    number: u16,
    sink: usize,
    scenario: &Scenario,
    first: usize,
    nodes_of_plan: &mut Vec<ResultNode>,
) -> Option<AggregatePlan> {
    let path = path(job, sink);
    if path.iter().any(|(_, side)| *side) {
        return None;
    }
    let nodes = || path.iter().map(|(at, _)| (*at, &job.nodes[*at]));
    let found = nodes().position(|(_, node)| window(node).is_some());
    let below = &path[..found.unwrap_or(0)];
    if below.iter().any(|(at, _)| !is_map(&job.nodes[*at])) || nodes().filter(|(_, n)| window(n).is_some()).count() > 1
    {
        return None;
    }
    let (source, NodeKind::Source { topics, config, watermarks, replays, .. }) =
        nodes().next_back().map(|(at, n)| (at, &n.kind))?
    else {
        return None;
    };
    let placed = layout(job);
    let at = |node: usize| -> OperatorAt { (number, placed[node].0 as u16, placed[node].1 as u16) };
    // Event time begins behind the source, or in it.
    let assigned = nodes().find_map(|(at, n)| match &n.kind {
        NodeKind::Operator(OperatorConfig::Assign(assign), _) => Some((at, *assign)),
        _ => None,
    });
    let in_source = watermarks.map(|w| (w.strategy, w.idle_timeout));
    let time = assigned.map(|(_, a)| (a.strategy, a.idle_timeout)).or(in_source);
    let begins = assigned.map_or(source, |(at, _)| at);
    let sliced = of_window_is_sliced(nodes().map(|(_, n)| n));
    let joins = nodes().filter(|(_, n)| matches!(n.kind, NodeKind::Operator(OperatorConfig::Join(_), _)));
    let unique = nodes().skip(found.map_or(0, |w| w + 1)).find_map(|(at, n)| match &n.kind {
        NodeKind::Operator(OperatorConfig::Deduplicate(d), _) => Some((first + at, d.key.column() as u8)),
        _ => None,
    });
    let (into, writes) = written(&job.nodes[sink], scenario)?;
    let rekeyed = match &job.nodes[sink].kind {
        NodeKind::Sink { key, .. } => key.is_some(),
        NodeKind::Lake(_) => return None,
        _ => false,
    };
    let key = match &job.nodes[sink].kind {
        NodeKind::Upsert(table) => scenario.tables[*table].key,
        _ => None,
    };
    // What a window hands on begins with its end and its key; a map may have moved them.
    let tells_apart = |key: KeyColumns| matches!((key.0, key.1), (0, Some(1)) | (1, Some(0)));
    let key_shared = below.is_empty() && found.is_some() && key.is_some_and(|key| !tells_apart(key));
    if found.is_none() && matches!(into, Into::Table(..)) {
        return None;
    }
    let of_window = found.map(|w| path[w].0);
    let (shape, lateness, columns) = of_window.and_then(|w| window(&job.nodes[w])).unwrap_or((
        Shape::Sliding { size: 1, slide: 1, offset: 0 },
        0,
        (0, None),
    ));
    let of_late = of_window.and_then(|of| Some(Late { job, scenario, of, input: first + read_by(job, of)?.0 }));
    let late = of_late.map(|l| [l.of_side(at, nodes_of_plan), l.filtered(at, nodes_of_plan)].concat());
    let local = of_window.and_then(|w| job.nodes[w].input).map(|(above, _)| above);
    let local =
        local.filter(|above| matches!(job.nodes[*above].kind, NodeKind::Operator(OperatorConfig::LocalWindow(_), _)));
    Some(AggregatePlan {
        name: job.nodes[sink].name.clone(),
        job: number,
        into,
        guarantee: writes,
        writer: at(sink),
        resumes: job.resumes.map(|(of, _)| of as u16),
        inexact: job.config.word("execution.checkpointing.mode") == "AT_LEAST_ONCE"
            || job.config.int("execution.checkpointing.interval") == 0,
        source: (topics.iter().map(|t| t.0).collect(), first + source),
        idles: time.is_some_and(|(_, idle)| idle.is_some()),
        replays: *replays,
        uncommitted: config.word("isolation.level") != "read_committed",
        bound: time.map_or(0, |(strategy, _)| strategy.bound()),
        input: first + of_window.unwrap_or(sink),
        shape,
        sliced,
        paned: of_window.is_some_and(|w| is_paned(&job.nodes[w])),
        lateness,
        columns,
        window: of_window.map(at),
        local: local.map(at),
        joins: joins.map(|(node, _)| at(node)).collect(),
        unique,
        late: late.unwrap_or_default(),
        direct: of_window.is_some_and(|w| read_by(job, w) == Some((begins, false))),
        plain: of_window.is_some() && below.is_empty(),
        changelog: of_window.is_some_and(|w| is_changelog(&job.nodes[w])),
        replaces: key.is_some(),
        key_shared,
        rekeyed,
    })
}

/// The plans of all sinks. `nodes` are those of the jobs, one job behind the other, behind what writes their topics; what late
/// outputs let through comes behind them.
pub(super) fn plans(scenario: &Scenario, nodes: &mut Vec<ResultNode>) -> Vec<AggregatePlan> {
    let mut first = nodes.len() - scenario.jobs.iter().map(|j| j.nodes.len()).sum::<usize>();
    let mut plans = Vec::new();
    for (job, number) in scenario.jobs.iter().zip(0..) {
        let sinks = (0..job.nodes.len()).filter(|at| job.nodes[*at].is_sink());
        plans.extend(sinks.filter_map(|sink| plan(job, number, sink, scenario, first, nodes)));
        first += job.nodes.len();
    }
    // The node above the window.
    for plan in plans.iter_mut().filter(|p| p.window.is_some()) {
        if let ResultNode::Derived(of, _) = &nodes[plan.input] {
            plan.input = *of;
        }
    }
    plans.retain(|plan| foretold(nodes, plan.input));
    plans
}
/// Whether rows of a node stand for one event each that can be foretold.
fn foretold(nodes: &[ResultNode], at: usize) -> bool {
    match &nodes[at] {
        ResultNode::Nothing => false,
        ResultNode::Source { from, .. } => from.iter().filter_map(|(_, of)| *of).all(|of| foretold(nodes, of)),
        ResultNode::Same(of) => foretold(nodes, *of),
        ResultNode::Derived(of, derivation) => {
            !matches!(derivation.0, OperatorConfig::Window(_) | OperatorConfig::GroupWindow(_)) && foretold(nodes, *of)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load;

    #[test]
    fn the_plan_of_gatewaymeter_finds_its_window_behind_the_join() {
        let loaded = load("gatewaymeter/steady", &[]).unwrap_or_else(|p| panic!("{}", p.render(false)));
        let plan = super::super::jobs::plan(&loaded.scenario);
        let [of] = &plan.aggregates[..] else { panic!("{:?}", plan.aggregates) };
        assert_eq!((of.name.as_str(), of.window, &of.joins[..]), ("tenant-cost", Some((0, 2, 0)), &[(0, 1, 0)][..]));
        assert_eq!(of.shape, Shape::Sliding { size: 60_000, slide: 60_000, offset: 0 });
        assert!(of.plain && of.uncommitted && of.late.is_empty());
        assert!(matches!(plan.nodes[of.input], ResultNode::Derived(0, _)));
    }
}
