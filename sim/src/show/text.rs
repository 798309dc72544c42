//! The outcome as people read it.

use super::outcome::{Outcome, Verdict};
use crate::judge::Excuse;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use std::fmt::{self, Display};

/// A table without frames: it can be cut and pasted. `None` without rows.
fn table<R, const N: usize>(head: [&str; N], rows: R) -> Option<String>
where
    R: IntoIterator<Item = [String; N]>,
{
    table_of(&head, rows)
}
/// The same with as many columns as `head` has.
pub fn table_of<R: IntoIterator<Item: IntoIterator<Item = String>>>(head: &[&str], rows: R) -> Option<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(head);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<_> = table.lines().map(|l| l.trim_end().to_owned()).collect();
    (table.row_count() > 0).then(|| lines.join("\n"))
}
fn yes(b: bool) -> String {
    if b { "yes" } else { "NO" }.into()
}
fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}

impl Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Holds => "holds",
            Verdict::Violated => "VIOLATED",
        };
        writeln!(f, "{} seed {}: {verdict}", self.scenario, self.seed)?;
        writeln!(f, "digest {} on the {} host, {} simulated", self.digest, self.host, seconds(self.simulated_ms))?;
        writeln!(f, "fixes: {}", self.fixes)?;
        let (l, w) = (&self.ledger, &self.work);
        writeln!(
            f,
            "ledger: {} events, {} poison, {} late, {} out of order, {} resent, {} on time",
            l.events, l.poison, l.late, l.out_of_order, l.resent, l.on_time
        )?;
        writeln!(
            f,
            "work: {} kernel events, {} record-hops, {} messages, {} bytes",
            w.kernel_events, w.record_hops, w.messages, w.bytes
        )?;
        let blocks = [
            table(
                ["layer", "isolation", "rows", "unique", "missing", "unexpected", "duplicates", "poison", "exact"],
                self.layers.iter().map(|(name, l)| {
                    let n = [l.rows, l.unique, l.missing, l.unexpected, l.duplicates, l.poison].map(|n| n.to_string());
                    let [rows, unique, missing, unexpected, duplicates, poison] = n;
                    let exact = yes(l.exact);
                    [name.clone(), l.isolation.clone(), rows, unique, missing, unexpected, duplicates, poison, exact]
                }),
            ),
            table(
                ["job", "state", "restarts", "checkpoint", "failed", "commits dropped", "longest down"],
                self.jobs.iter().map(|(name, j)| {
                    let of = [j.restarts, j.checkpoint, j.checkpoints_failed, j.commits_dropped];
                    let [a, b, c, d] = of.map(|n| n.to_string());
                    [name.clone(), j.state.clone(), a, b, c, d, seconds(j.longest_down_ms)]
                }),
            ),
            table(
                ["restart", "at", "until", "from checkpoint", "why"],
                self.restarts.iter().map(|r| {
                    [r.job.clone(), seconds(r.at_ms), seconds(r.restored_ms), r.checkpoint.to_string(), r.why.clone()]
                }),
            ),
            table(
                ["exactly once", "state", "sink", "reader"],
                self.scopes.iter().map(|(name, s)| [name.clone(), yes(s.state), yes(s.sink), yes(s.reader)]),
            ),
            table(
                [
                    "windows",
                    "on time",
                    "late",
                    "resent",
                    "pending",
                    "late: on time",
                    "late",
                    "both",
                    "neither",
                    "twice",
                    "again",
                ],
                self.aggregates.iter().map(|(name, a)| {
                    let windows = [a.on_time_in_windows, a.late_in_windows, a.resent_in_windows, a.pending];
                    let [on, late, resent, pending] = windows.map(|n| n.to_string());
                    let [on_late, late_late] = [a.on_time_late, a.late_in_late].map(|n| n.to_string());
                    let wrong = [a.in_both, a.in_neither, a.counted_twice, a.refired];
                    let [both, neither, twice, again] = wrong.map(|n| n.to_string());
                    [name.clone(), on, late, resent, pending, on_late, late_late, both, neither, twice, again]
                }),
            ),
            table(
                ["accounted for", "times", "by rule", "which says"],
                self.scopes.iter().flat_map(|(name, s)| {
                    s.by_rule.iter().map(move |(rule, n)| {
                        let says = Excuse::ALL.into_iter().find(|e| e.rules() == rule).map_or("", Excuse::text);
                        [name.clone(), n.to_string(), rule.clone(), says.to_owned()]
                    })
                }),
            ),
            table(
                ["values", "expected", "billed", "difference", "wrong"],
                self.values.iter().map(|(name, v)| {
                    let [a, b, c] = [v.expected, v.billed, v.difference].map(|n| n.to_string());
                    [name.clone(), a, b, c, v.wrong.to_string()]
                }),
            ),
            table(
                ["billed wrongly", "key", "window end", "expected", "billed", "rows"],
                self.values.iter().flat_map(|(name, v)| {
                    v.first_wrong.iter().map(move |w| {
                        let [a, b, c] = [w.window_end, w.expected, w.billed].map(|n| n.to_string());
                        [name.clone(), w.key.clone(), a, b, c, w.rows.to_string()]
                    })
                }),
            ),
            table(
                ["producer", "acknowledged", "failed sends", "retries", "fatal", "forgotten"],
                self.producers.iter().map(|(name, p)| {
                    let of = [p.acknowledged, p.failed_sends, p.retries, p.fatal, p.forgotten];
                    let [a, s, r, t, f] = of.map(|n| n.to_string());
                    [name.clone(), a, s, r, t, f]
                }),
            ),
            table(
                ["transactions", "committed", "rows", "aborted", "rows", "unknown", "rows"],
                self.producers.iter().filter_map(|(name, p)| {
                    let t = p.transactions?;
                    let of = [t.committed, t.rows_committed, t.aborted, t.rows_aborted, t.unknown, t.rows_unknown];
                    let [a, b, c, d, e, f] = of.map(|n| n.to_string());
                    Some([name.clone(), a, b, c, d, e, f])
                }),
            ),
            table(
                ["transactions aborted by", "their client", "transaction.timeout.ms", "the next of the same id"],
                self.aborts.iter().filter(|a| a.client + a.expiry + a.init > 0).map(|a| {
                    let [client, expiry, init] = [a.client, a.expiry, a.init].map(|n| n.to_string());
                    [String::new(), client, expiry, init]
                }),
            ),
            table(
                ["freshness", "p50", "p99", "max", "caught up", "mean skew", "max skew"],
                self.freshness_ms.iter().filter(|(_, l)| l.events > 0).map(|(name, l)| {
                    let of = [l.p50, l.p99, l.max, l.caught_up, l.skew_mean, l.skew_max];
                    let [a, b, c, d, e, f] = of.map(seconds);
                    [name.clone(), a, b, c, d, e, f]
                }),
            ),
            table(
                ["objective", "events", "too old", "pages", "tickets"],
                self.objectives.iter().map(|(name, o)| {
                    let [a, b, c, d] = [o.events, o.bad, o.pages, o.tickets].map(|n| n.to_string());
                    [name.clone(), a, b, c, d]
                }),
            ),
            table(
                ["alert", "window", "from", "to"],
                self.objectives.iter().flat_map(|(name, o)| {
                    o.alerts.iter().map(move |a| {
                        let what = format!("{} of {name}", a.severity);
                        [what, format!("{} h", a.window_h), seconds(a.from_ms), seconds(a.to_ms)]
                    })
                }),
            ),
            table(
                ["fault", "at", "target"],
                self.faults.iter().map(|l| [l.what.clone(), seconds(l.at_ms), l.target.clone()]),
            ),
            table(
                ["stall", "from", "to", "length", "why"],
                self.stalls
                    .iter()
                    .map(|s| [s.place.clone(), seconds(s.from_ms), seconds(s.to_ms), seconds(s.ms), s.why.clone()]),
            ),
            table(
                ["law", "at", "seen", "by rule"],
                self.violations.iter().map(|v| [v.law.clone(), seconds(v.at_ms), v.detail.clone(), v.by_rule.clone()]),
            ),
            table(
                ["liveness", "holds", "seen"],
                self.liveness.iter().map(|(name, l)| [name.clone(), yes(l.holds), l.detail.clone()]),
            ),
            table(
                ["expectation", "holds", "actual"],
                self.expectations.iter().map(|e| [e.text.clone(), yes(e.holds), e.actual.to_string()]),
            ),
        ];
        for block in blocks.into_iter().flatten() {
            writeln!(f, "\n{block}")?;
        }
        // The last line of a failure reproduces it.
        writeln!(f, "\n{}", self.reproduce)
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{Layer, Outcome};

    #[test]
    fn the_last_line_reproduces() {
        let mut outcome = Outcome { reproduce: "sim replay kafka/steady --seed 42".into(), ..Outcome::default() };
        outcome.layers.insert("events".into(), Layer { rows: 12, ..Layer::default() });
        let text = outcome.to_string();
        assert_eq!(text.lines().last(), Some("sim replay kafka/steady --seed 42"));
        assert!(text.contains("events"), "{text}");
    }
}
