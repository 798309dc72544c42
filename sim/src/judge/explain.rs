//! Findings in words: which law, which records, which rule of the product excuses it, which fix is expected to matter.

use super::{Coverage, Excuse, Findings, Violation};
use model::base::{FIXES, FixInfo};
use std::fmt::Write;

/// The fixes whose loss a law is expected to see, by the column "law" of [`FIXES`]: names of laws, `protocol` for all
/// invariants of kafka.md 8, and invariants in brackets.
pub fn fixes_seen_by(law: &str, rule: &str) -> impl Iterator<Item = &'static FixInfo> {
    let protocol = matches!(law, "replication" | "controller" | "sequences");
    let (law, rule) = (law.to_owned(), rule.to_owned());
    FIXES.iter().filter(move |fix| {
        if !protocol {
            return fix.law.split(", ").any(|l| l == law);
        }
        let Some((_, tail)) = fix.law.split_once("protocol") else { return false };
        match tail.trim_start().strip_prefix('(').and_then(|t| t.split_once(')')) {
            Some((rules, _)) => rules.split(", ").any(|r| r == rule),
            None => fix.rule.split(", ").any(|r| r == rule),
        }
    })
}

/// Text for a person: alarms first, then what the product does by rule, then what of the run bears on it.
pub fn explain(findings: &Findings, coverage: &Coverage) -> String {
    let mut out = String::new();
    if findings.counts.is_empty() {
        out.push_str("Every law holds.\n");
        return out;
    }
    for ((law, rule), (_, alarms)) in findings.counts.iter().filter(|(_, (_, alarms))| *alarms > 0) {
        let _ = writeln!(out, "ALARM {law}/{rule}: {alarms} times; no rule of the product allows it");
        kept(&mut out, findings, law, rule, None);
        let fixes: Vec<String> = fixes_seen_by(law, rule).map(|f| format!("{} ({})", f.name, f.ticket)).collect();
        if !fixes.is_empty() {
            let _ = writeln!(out, "  seen when one of these fixes is missing: {}", fixes.join(", "));
        }
    }
    for ((law, rule, excuse), times) in &findings.excused {
        let _ = writeln!(out, "by rule {law}/{rule}: {times} times; {}: {}", excuse.rules(), excuse.text());
        kept(&mut out, findings, law, rule, Some(*excuse));
    }
    let happened = coverage.faults.iter().chain(&coverage.edges).map(|(what, n)| format!("{what} {n}"));
    let happened: Vec<String> = happened.collect();
    if !happened.is_empty() {
        let _ = writeln!(out, "in this run: {}", happened.join(", "));
    }
    out
}

/// The first of a kind, and the ledger numbers of the events they concern.
fn kept(out: &mut String, findings: &Findings, law: &str, rule: &str, excuse: Option<Excuse>) {
    let of_kind = |v: &&Violation| v.law == law && v.rule == rule && v.excuse == excuse;
    let kept: Vec<&Violation> = findings.kept.iter().filter(of_kind).collect();
    for v in kept.iter().take(3) {
        let _ = writeln!(out, "  {} ms: {}", v.at.millis(), v.text);
    }
    let events: Vec<String> = kept.iter().filter_map(|v| v.event).map(|e| e.to_string()).collect();
    if !events.is_empty() {
        let _ = writeln!(out, "  events {}", events.join(", "));
    }
}
