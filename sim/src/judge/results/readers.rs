//! What readers were given, against what the topic holds: row by row.

use super::super::{Evidence, Excuse, Findings, Violation};
use super::Item;
use model::base::Ghost;
use std::collections::BTreeMap;

/// Holds what a reader was given of a topic against the topic. Rows that it was not given are nothing yet while it is behind.
pub(super) fn account(
    end: &Evidence<'_>,
    (reader, topic): (u16, u16),
    given: &[(Item, Ghost)],
    findings: &mut Findings,
) -> BTreeMap<&'static str, u64> {
    let info = &end.cast.readers[usize::from(reader)];
    let mut stored: BTreeMap<u32, i64> = BTreeMap::new();
    let mut hidden: BTreeMap<u32, i64> = BTreeMap::new();
    let (mut loss, mut behind) = (None, false);
    for tp in end.partitions_of(topic) {
        let (found, not_found) = end.readable(tp);
        let at = end.positions.get(usize::from(reader)).and_then(|p| p.get(&tp)).copied();
        behind |= found.last().is_some_and(|e| at.is_none_or(|at| at < e.next()));
        for (entries, of) in [(found, &mut stored), (not_found, &mut hidden)] {
            let ghosts = entries.iter().flat_map(|e| e.batch.rows.iter().map(|r| r.ghost));
            ghosts.filter(|g| *g != Ghost::NONE).for_each(|g| *of.entry(g.open()).or_default() += 1);
        }
        loss = loss.or_else(|| end.excuses.changed(tp));
    }
    let mut surplus: BTreeMap<u32, i64> = stored.iter().map(|(g, n)| (*g, -n)).collect();
    given.iter().filter(|(_, g)| *g != Ghost::NONE).for_each(|(_, g)| *surplus.entry(g.open()).or_default() += 1);
    let mut by_rule = BTreeMap::new();
    for (ghost, n) in surplus {
        let (rule, excuse) = match n {
            0 => continue,
            ..0 if behind => continue,
            ..0 => ("reader-not-given", loss),
            _ => {
                let aborted = !info.committed && hidden.contains_key(&ghost);
                let twice = stored.contains_key(&ghost).then(|| end.excuses.given_twice(reader, info.group.is_some()));
                let excuse = aborted.then_some(Excuse::ReadUncommitted).or(twice.flatten()).or(loss);
                ("reader-given-more", excuse)
            }
        };
        *by_rule.entry(excuse.map_or("unaccounted", Excuse::rules)).or_default() += 1;
        findings.add_with("results", rule, excuse, || Violation {
            at: end.now,
            law: "results",
            rule,
            text: format!("reader {}: a row of {} {n:+} times", info.name, end.topics[usize::from(topic)].name),
            excuse,
            tp: None,
            event: None,
        });
    }
    by_rule
}
