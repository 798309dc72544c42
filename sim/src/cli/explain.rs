//! `sim explain`: why events stand where they do.

use super::{Exit, Failure, Format, RunArguments, load};
use crate::host::Host;
use crate::judge::Journey;
use crate::run::why::{self, Delayed, Trial, Until, prove};
use crate::run::{Displaced, Explained, Run};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of a scenario, or path of a file that ends in .toml.
    scenario: String,
    /// This event only, by its number in the ledger.
    #[arg(long)]
    event: Option<u32>,
    /// Prove the explanations of so many events, drawn by the seed: in forks of the run the record that moved the watermark past
    /// an event comes only behind it, and, as a control, other records do. Status 1 if one is refuted.
    #[arg(long, value_name = "EVENTS", conflicts_with = "event")]
    prove: Option<usize>,
    /// With --prove: every fork goes to the end of the run and the laws settle there, instead of until the window takes the event.
    #[arg(long, requires = "prove")]
    to_the_end: bool,
    #[command(flatten)]
    run: RunArguments,
}

/// Everything, for programs.
#[derive(Serialize)]
struct Out<'a> {
    schema: u32,
    scenario: &'a str,
    seed: u64,
    explained: usize,
    groups: Vec<OneGroup<'a>>,
    events: Vec<&'a Displaced>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trials: Option<&'a [Trial]>,
}
#[derive(Serialize)]
struct OneGroup<'a> {
    result: &'a str,
    what: &'a str,
    waited: &'a str,
    cause: &'a str,
    #[serde(flatten)]
    group: &'a why::Group,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let loaded = load(&arguments.scenario, &arguments.run.set)?;
    let seed = arguments.run.seed;
    let scenario = Arc::new(loaded.scenario.clone());
    let mut run = Run::new(&scenario, seed).map_err(Failure::usage)?;
    run.seen.journey = Some(Journey::default());
    Host::Loop.drive(&mut run, seed);
    if let Some(error) = run.error() {
        return Err(Failure::usage(error));
    }
    let sent = run.seen.judge.ledger.len();
    if let Some(event) = arguments.event.filter(|event| *event >= sent) {
        return Err(Failure::usage(format!("there is no event {event}: {sent} were sent, from 0 on")));
    }
    let journey = run.seen.journey.take().unwrap_or_default();
    let explained = why::explain(&run, &journey);
    drop(run);
    let until = if arguments.to_the_end { Until::End } else { Until::Taken };
    let trials = match arguments.prove {
        Some(many) => {
            Some(prove(&scenario, seed, &explained, (many, until), &super::sweep::bar).map_err(Failure::usage)?)
        }
        None => None,
    };
    let wanted = |d: &&Displaced| arguments.event.is_none_or(|event| event == d.event);
    match arguments.run.format {
        Format::Json => {
            let groups = explained.groups.iter().map(|((result, what, waited, cause), group)| OneGroup {
                result,
                what,
                waited,
                cause,
                group,
            });
            let all = Out {
                schema: 1,
                scenario: &loaded.scenario.name,
                seed,
                explained: explained.all.len(),
                groups: groups.collect(),
                events: explained.all.iter().filter(wanted).collect(),
                trials: trials.as_deref(),
            };
            serde_json::to_writer_pretty(&mut *out, &all).map_err(Failure::internal)?;
            writeln!(out)?;
        }
        Format::Text => match arguments.event {
            Some(event) => {
                let of: Vec<_> = explained.all.iter().filter(wanted).collect();
                if of.is_empty() {
                    writeln!(out, "event {event} stands where it should")?;
                }
                of.into_iter().try_for_each(|d| chain(d, out))?;
            }
            None => {
                text(&loaded.scenario.name, seed, &explained, out)?;
                trials.iter().try_for_each(|trials| proofs(trials, out))?;
            }
        },
    }
    let refuted = trials.iter().flatten().any(|t| t.delayed == Delayed::Mover && !t.placed());
    Ok(if refuted { Exit::Violated } else { Exit::Holds })
}

/// What experiments have shown.
fn proofs(trials: &[Trial], out: &mut impl Write) -> Result<(), Failure> {
    writeln!(out, "\nexperiments: what was delayed, in how many forks the event then stands in its window")?;
    let mut kinds: BTreeMap<(&str, &str, Delayed), (usize, usize)> = BTreeMap::new();
    for t in trials {
        let (placed, all) = kinds.entry((&t.result, t.what, t.delayed)).or_default();
        (*placed, *all) = (*placed + usize::from(t.placed()), *all + 1);
    }
    for ((result, what, delayed), (placed, all)) in kinds {
        let delayed = match delayed {
            Delayed::Mover => "the record that moved the watermark, and what is behind it in its partition",
            Delayed::Other => "another record alone",
            Delayed::OtherAndBehind => {
                "another record, and what is behind it, of a partition that had come past the event"
            }
        };
        writeln!(out, "  {result}, {what}: {placed:>4} of {all:<4} {delayed}")?;
    }
    let surprising = |t: &&Trial| match t.delayed {
        Delayed::Mover => !t.placed(),
        Delayed::Other => t.placed(),
        // With so many records less before it an event may be taken before the next beat of the watermark.
        Delayed::OtherAndBehind => false,
    };
    for t in trials.iter().filter(surprising) {
        let then = t.then.unwrap_or(if t.taken { "in its window" } else { "never taken" });
        writeln!(out, "  against it: event {} ({}), record {} delayed: {then}", t.event, t.what, t.record)?;
    }
    Ok(())
}

fn text(scenario: &str, seed: u64, explained: &Explained, out: &mut impl Write) -> Result<(), Failure> {
    let told = match explained.unaccounted {
        0 => "each explained".to_owned(),
        n => format!("{n} findings of which no rule accounts for: alarms of `sim run`"),
    };
    writeln!(out, "{scenario} seed {seed}: {} misplaced events, {told}", explained.all.len())?;
    let mut groups: Vec<_> = explained.groups.iter().collect();
    groups.sort_by_key(|(kind, group)| (&kind.0, kind.1, std::cmp::Reverse(group.events)));
    let mut before = ("", "");
    for ((result, what, place, cause), group) in groups {
        if (result.as_str(), *what) != before {
            let of = |k: &why::Kind| k.0 == *result && k.1 == *what;
            let all: u64 = explained.groups.iter().filter(|(k, _)| of(k)).map(|(_, g)| g.events).sum();
            writeln!(out, "\n{result}, {what}: {all}")?;
            before = (result, what);
        }
        let (low, middle, high) = group.waited_ms;
        let spread = [low, middle, high].map(seconds).join(" / ");
        writeln!(out, "  {:>8}  waited {place} ({spread}): {cause}", group.events)?;
        let (other, same, none) = group.passed_by;
        writeln!(
            out,
            "            passed by a record of another partition {other}, of their own {same}, of none that is known {none}"
        )?;
        if let Some(example) = &group.example {
            chain(example, out)?;
        }
    }
    Ok(())
}
fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}
/// One event's way.
fn chain(d: &Displaced, out: &mut impl Write) -> Result<(), Failure> {
    writeln!(
        out,
        "            event {} of {}: sent at {}, {} in {}",
        d.event,
        d.time,
        seconds(d.sent_ms),
        d.what,
        d.result
    )?;
    for (i, wait) in d.waits.iter().enumerate() {
        let longest = if i == d.longest { "  <- the longest" } else { "" };
        let cause = if wait.ms >= 1_000 { format!(": {}", wait.cause) } else { String::new() };
        writeln!(
            out,
            "              {:>12}  {:>12} {}{cause}{longest}",
            seconds(wait.from_ms),
            seconds(wait.ms),
            wait.place
        )?;
    }
    if let Some((at, watermark)) = d.taken {
        let watermark = watermark.map_or_else(|| "without a watermark".into(), |w| format!("at watermark {w}"));
        writeln!(out, "              {:>12}  taken {watermark}", seconds(at))?;
    }
    if let Some(m) = &d.mover {
        let from = match &m.before {
            Some((name, mover, own)) => format!("{name}/{mover}, while its own is {name}/{own}"),
            None => format!("partition {}, while its own is {}", m.partitions.0, m.partitions.1),
        };
        writeln!(
            out,
            "              {:>12}  event {} of {} had moved the watermark past it; it came by {from}",
            seconds(m.taken_ms),
            m.event,
            m.time
        )?;
    }
    Ok(())
}
