//! What is no mistake in a scenario, and still better known before it runs.

use super::data::{Job, NodeKind, Scenario, upwards};
use model::flink::kafka::split_owner;
use model::flink::runtime::operator::OperatorConfig;
use std::collections::BTreeSet;

/// Everything of a scenario that its author should know: a sentence each.
pub fn notes(scenario: &Scenario) -> Vec<String> {
    let silent = scenario.jobs.iter().flat_map(|job| silent_subtasks(job, scenario));
    silent.chain(too_few_slots(scenario)).chain(fenced_between_heartbeats(scenario)).collect()
}

/// Jobs that begin together and have not all room: those that come last wait for slots, or fail for want of them (R1.3).
fn too_few_slots(scenario: &Scenario) -> Option<String> {
    let flink = scenario.flink.as_ref()?;
    let there = flink.task_managers.len() as i64 * flink.config.int("taskmanager.numberOfTaskSlots");
    let widest = |job: &Job| job.nodes.iter().map(|n| i64::from(n.parallelism)).max().unwrap_or(0);
    let together: Vec<&Job> = scenario.jobs.iter().filter(|job| job.starts).collect();
    let needs: i64 = together.iter().map(|job| widest(job)).sum();
    (together.len() > 1 && needs > there).then(|| {
        let names: Vec<&str> = together.iter().map(|job| job.name.as_str()).collect();
        format!(
            "jobs {} begin together and need {needs} slots, and the cluster has {there}: not all of them run at a time; set \
             flink.task-managers or flink.config.taskmanager.numberOfTaskSlots",
            names.join(", ")
        )
    })
}

/// Brokers whose session ends before their next heartbeat is due (R-1).
fn fenced_between_heartbeats(scenario: &Scenario) -> Option<String> {
    let of = |key: &'static str| scenario.cluster.nodes.iter().map(move |node| (node.id, node.config.int(key)));
    let mut pairs = of("broker.heartbeat.interval.ms").zip(of("broker.session.timeout.ms"));
    pairs.find(|((_, interval), (_, timeout))| interval >= timeout).map(|((id, interval), (_, timeout))| {
        format!(
            "broker {}: broker.heartbeat.interval.ms = {interval} is not below broker.session.timeout.ms = {timeout}: it is \
             fenced between two heartbeats, again and again",
            id.0
        )
    })
}

/// Windows that never fire: a subtask of their source has no partition, and without an idle timeout it holds the watermark of
/// everything behind a shuffle for ever (flink 4.3, M4). A bounded source ends, and event time with it.
fn silent_subtasks(job: &Job, scenario: &Scenario) -> Vec<String> {
    let mut found = Vec::new();
    let windows = job.nodes.iter().filter(|node| match &node.kind {
        NodeKind::Operator(operator, _) => matches!(
            operator,
            OperatorConfig::Window(_) | OperatorConfig::SqlWindow(_) | OperatorConfig::GroupWindow(_)
        ),
        _ => false,
    });
    for window in windows {
        let above: Vec<_> = upwards(&job.nodes, window.input).map(|(at, _)| &job.nodes[at]).collect();
        let Some(source) = above.last() else { continue };
        let NodeKind::Source { topics, watermarks, until: None, .. } = &source.kind else { continue };
        // Where an operator behind the source makes watermarks, those of the source do not count.
        let assigned = above.iter().find_map(|node| match &node.kind {
            NodeKind::Operator(OperatorConfig::Assign(assign), _) => Some(assign.idle_timeout),
            _ => None,
        });
        if assigned.or(watermarks.map(|w| w.idle_timeout)) != Some(None) {
            continue;
        }
        let subtasks = u32::from(source.parallelism);
        let owner = |topic: &str, partition: u16| split_owner(topic, u32::from(partition), subtasks);
        let owners: BTreeSet<u32> = topics
            .iter()
            .filter_map(|topic| scenario.topics.get(usize::from(topic.0)))
            .flat_map(|topic| (0..topic.assignment.len() as u16).map(move |p| owner(&topic.name, p)))
            .collect();
        let without = subtasks as usize - owners.len();
        if without > 0 {
            found.push(format!(
                "job {}: {without} of the {subtasks} subtasks of source `{}` have no partition and no idle timeout: they hold \
                 the watermark, so `{}` never fires; set `idle` at the source's watermark, or a smaller parallelism",
                job.name, source.name, window.name
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load_text;

    fn text(parallelism: u16, watermark: &str, more: &str) -> String {
        format!(
            r#"
description = "counts"
[[topics]]
name = "events"
partitions = 2
[[topics]]
name = "counts"
[[applications]]
name = "shop"
topic = "events"
[[readers]]
name = "check"
[flink]
task-managers = 4
[[jobs]]
name = "count"
config.parallelism.default = {parallelism}
[[jobs.sources]]
name = "in"
topic = "events"
watermark = {{ bound = "5 s"{watermark} }}
{more}
[[jobs.operators]]
name = "by-kind"
kind = "window"
input = "in"
key = "kind"
size = "10 s"
[[jobs.sinks]]
name = "counts"
input = "by-kind"
topic = "counts"
"#
        )
    }
    fn of(parallelism: u16, watermark: &str, more: &str) -> Vec<String> {
        let text = text(parallelism, watermark, more);
        notes(&load_text("count.toml", text.as_bytes(), &[]).map_err(|e| e.to_string()).unwrap().scenario)
    }

    #[test]
    fn windows_behind_a_subtask_without_partitions_are_said_to_wait_for_ever() {
        let said = of(3, "", "");
        let [note] = &said[..] else { panic!("{said:?}") };
        assert!(note.contains("1 of the 3 subtasks of source `in` have no partition"), "{note}");
        assert!(note.contains("`by-kind` never fires"), "{note}");
        assert_eq!(of(3, ", pushed-down = false", "").len(), 1, "nor does what is made behind the source");
        for (parallelism, watermark, more) in [(2, "", ""), (3, ", idle = \"10 s\"", ""), (3, "", "until = [10, 10]")] {
            assert_eq!(of(parallelism, watermark, more), [""; 0], "{parallelism} {watermark} {more}");
        }
    }

    #[test]
    fn jobs_that_have_not_all_room_and_brokers_fenced_between_heartbeats_are_named() {
        let more = "[[topics]]\nname = \"late\"\n[[jobs]]\nname = \"other\"\nconfig.parallelism.default = 3\n[[jobs.sources]]\n\
                    name = \"in\"\ntopic = \"counts\"\n[[jobs.sinks]]\nname = \"out\"\ninput = \"in\"\ntopic = \"late\"\n\
                    config.sink.delivery-guarantee = \"at-least-once\"\n";
        let of = |set: &[&str]| {
            let text = format!("{}{more}", text(2, "", ""));
            let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
            notes(&load_text("count.toml", text.as_bytes(), &set).map_err(|e| e.to_string()).unwrap().scenario)
        };
        let enough = of(&["flink.task-managers=5"]);
        assert_eq!(enough, [""; 0]);
        let said = of(&["flink.task-managers=3"]);
        assert!(said.iter().any(|n| n.contains("need 5 slots, and the cluster has 3")), "{said:?}");
        let said = of(&["cluster.config.broker.heartbeat.interval.ms=9000"]);
        assert!(said.iter().any(|n| n.starts_with("broker 1: broker.heartbeat.interval.ms = 9000")), "{said:?}");
    }
}
