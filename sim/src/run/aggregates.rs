//! What the judge must know of the jobs' results: where windows are, where they stand, where their late events go.

use super::jobs::layout;
use crate::judge::{AggregatePlan, Guarantee, Into, LateOutput, OperatorAt, ResultNode, Shape};
use crate::scenario::data::{Job, JobNode, NodeKind, Scenario, upwards};
use crate::scenario::keys::Config;
use model::flink::operator::Slices;
use model::flink::runtime::operator::{OperatorConfig, SqlWindows};

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

/// Topics that the side output of a node goes to.
fn late(job: &Job, of: usize, place: impl Fn(usize) -> OperatorAt) -> Vec<LateOutput> {
    let mut outputs = Vec::new();
    for (sink, node) in job.nodes.iter().enumerate() {
        let NodeKind::Sink { topic, config, .. } = &node.kind else { continue };
        let path = path(job, sink);
        let to = path.iter().position(|(_, side)| *side).filter(|to| path[*to].0 == of);
        if to.is_some_and(|to| path[..to].iter().all(|(at, _)| is_map(&job.nodes[*at]))) {
            let writer = place(sink);
            outputs.push(LateOutput { topic: topic.0, guarantee: guarantee(config), writer, filter: None });
        }
    }
    outputs
}

/// Topics that a late filter finds late events for, which a tumbling window of SQL drops: one of the same size, that reads what
/// the window reads.
fn filtered(job: &Job, of: usize, place: impl Fn(usize) -> OperatorAt) -> Vec<LateOutput> {
    let NodeKind::Operator(OperatorConfig::SqlWindow(window), _) = &job.nodes[of].kind else { return Vec::new() };
    let SqlWindows::Sliced(Slices::Tumble { size }) = window.windows else { return Vec::new() };
    let reads = read_by(job, of);
    let mut outputs = Vec::new();
    for (sink, node) in job.nodes.iter().enumerate() {
        let NodeKind::Sink { topic, config, .. } = &node.kind else { continue };
        let path = path(job, sink);
        let Some((at, false)) = path.iter().copied().find(|(at, _)| !is_map(&job.nodes[*at])) else { continue };
        let fits = match &job.nodes[at].kind {
            NodeKind::Operator(OperatorConfig::LateFilter(filter), _) => filter.size.is_some_and(|s| s.0 == size),
            _ => false,
        };
        if fits && job.nodes[at].input == reads {
            let filter = Some(place(at));
            outputs.push(LateOutput { topic: topic.0, guarantee: guarantee(config), writer: place(sink), filter });
        }
    }
    outputs
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

/// A sink's plan; none of late outputs, of windows of windows, and of what a filter leaves of windows.
fn plan(job: &Job, number: u16, sink: usize, scenario: &Scenario, first: usize) -> Option<AggregatePlan> {
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
    let (into, writes) = match &job.nodes[sink].kind {
        NodeKind::Sink { topic, config, .. } => (Into::Topic(topic.0), guarantee(config)),
        NodeKind::Upsert(table) => {
            (Into::Table(*table as u16, scenario.tables[*table].name.clone()), Guarantee::AtLeastOnce)
        }
        _ => return None,
    };
    if found.is_none() && matches!(into, Into::Table(..)) {
        return None;
    }
    let of_window = found.map(|w| path[w].0);
    let (shape, lateness, columns) = of_window.and_then(|w| window(&job.nodes[w])).unwrap_or((
        Shape::Sliding { size: 1, slide: 1, offset: 0 },
        0,
        (0, None),
    ));
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
        lateness,
        columns,
        window: of_window.map(at),
        joins: joins.map(|(node, _)| at(node)).collect(),
        unique,
        late: of_window.map(|w| [late(job, w, at), filtered(job, w, at)].concat()).unwrap_or_default(),
        direct: of_window.is_some_and(|w| read_by(job, w) == Some((begins, false))),
        plain: of_window.is_some() && below.is_empty(),
        changelog: of_window.is_some_and(|w| is_changelog(&job.nodes[w])),
    })
}

/// The plans of all sinks. `nodes` are those of the jobs, one job behind the other, behind what writes their topics.
pub(super) fn plans(scenario: &Scenario, nodes: &[ResultNode]) -> Vec<AggregatePlan> {
    let mut first = nodes.len() - scenario.jobs.iter().map(|j| j.nodes.len()).sum::<usize>();
    let mut plans = Vec::new();
    for (job, number) in scenario.jobs.iter().zip(0..) {
        let sinks = (0..job.nodes.len()).filter(|at| job.nodes[*at].is_sink());
        plans.extend(sinks.filter_map(|sink| plan(job, number, sink, scenario, first)));
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
