//! The trace through `tracing`, with simulated time: for people who follow a run.

use super::trace::Line;
use crate::run::Run;
use crate::world::{Item, What};
use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;

/// Target of every line.
const TARGET: &str = "sim::trace";

/// Which items are shown. All that is given must hold; a list's words are alternatives.
#[derive(Clone, Debug)]
pub struct Filter {
    level: Level,
    process: Vec<String>,
    partition: Vec<String>,
    event: Vec<String>,
    from: Duration,
    to: Duration,
}
impl Default for Filter {
    fn default() -> Self {
        Self {
            level: Level::INFO,
            process: Vec::new(),
            partition: Vec::new(),
            event: Vec::new(),
            from: Duration::ZERO,
            to: Duration::MAX,
        }
    }
}
impl Filter {
    /// Everything.
    pub fn all() -> Self {
        Self { level: Level::TRACE, ..Self::default() }
    }
    /// Whether an item is shown; `run` names its process.
    pub fn shows(&self, run: &Run, item: &Item) -> bool {
        let any = |words: &[String], is: &dyn Fn(&str) -> bool| words.is_empty() || words.iter().any(|w| is(w));
        let at = Duration::from_nanos(item.at.0.saturating_sub(run.origin.0));
        level(&item.what) <= self.level
            && (self.from..=self.to).contains(&at)
            && any(&self.event, &|w| w == item.what.name())
            && any(&self.partition, &|w| item.what.partition().is_some_and(|tp| tp.to_string() == w))
            && any(&self.process, &|w| w == item.process.0.to_string() || w == run.name_of(item.process))
    }
    /// Whether the run has every process that is asked for.
    ///
    /// # Errors
    /// Which it has not, and which it has.
    pub fn check(&self, run: &Run) -> Result<(), String> {
        let names = run.names();
        let known = |w: &&String| names.contains(w) || w.parse::<usize>().is_ok_and(|n| n < names.len());
        match self.process.iter().find(|w| !known(w)) {
            None => Ok(()),
            Some(word) => Err(format!("the run has no process `{word}`: there are {}", names.join(", "))),
        }
    }
}
impl FromStr for Filter {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        let mut asked = false;
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                asked = true;
                filter.level =
                    part.parse().map_err(|_| format!("`{part}` is neither info, debug or trace nor KEY=VALUE"))?;
                continue;
            };
            let time = || humantime::parse_duration(value).map_err(|e| format!("`{part}`: {e}"));
            match key {
                "process" => filter.process.push(value.into()),
                "partition" => filter.partition.push(value.into()),
                "event" => filter.event.push(value.into()),
                "from" => filter.from = time()?,
                "to" => filter.to = time()?,
                _ => return Err(format!("no `{key}`: process, partition, event, from and to are known")),
            }
        }
        // Who asks for an event or a partition means all of it.
        let narrowed = !filter.event.is_empty() || !filter.partition.is_empty();
        if narrowed && !asked {
            filter.level = Level::TRACE;
        }
        Ok(filter)
    }
}

/// Life cycle and faults are few, events say what it means, the rest is every input and effect.
fn level(what: &What) -> Level {
    match what {
        What::Started | What::Killed | What::Exited | What::Fault(..) => Level::INFO,
        What::Emit(_) => Level::DEBUG,
        _ => Level::TRACE,
    }
}

/// The scenario's time as the time of log lines.
#[derive(Clone, Debug, Default)]
struct Clock(Arc<AtomicI64>);
impl FormatTime for Clock {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let ns = self.0.load(Ordering::Relaxed);
        // What comes before the scenario's time zero is the forming of the cluster.
        let (sign, of) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
        write!(w, "{:>5}.{:09}", format!("{sign}{}", of / 1_000_000_000), of % 1_000_000_000)
    }
}

/// Does `work` with a sink that logs items on stderr, at their simulated time.
pub fn with_view<T>(work: impl FnOnce(&mut dyn FnMut(&Run, &Item)) -> T) -> T {
    let clock = Clock::default();
    let colour = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer()
        .with_timer(clock.clone())
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(colour);
    // madsim logs through tracing too, at its own idea of what matters.
    let only_ours = Targets::new().with_target(TARGET, Level::TRACE);
    let subscriber = tracing_subscriber::registry().with(lines).with(only_ours);
    tracing::subscriber::with_default(subscriber, || {
        work(&mut |run, item| {
            let line = Line::new(item, run);
            clock.0.store(line.at_ns, Ordering::Relaxed);
            show(&line, level(&item.what));
        })
    })
}

fn show(line: &Line, level: Level) {
    // The level of an event is part of its call site.
    macro_rules! show {
        ($level:ident) => {
            tracing::event!(target: TARGET, Level::$level, who = %line.who, id = line.id, cause = line.cause,
                partition = line.partition.as_deref(), "{} {}", line.name, line.text)
        };
    }
    match level {
        Level::INFO => show!(INFO),
        Level::DEBUG => show!(DEBUG),
        _ => show!(TRACE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_levels_and_pairs() {
        let filter: Filter = "debug,process=broker 1,process=2,from=5s,to=1m".parse().unwrap();
        assert_eq!((filter.level, filter.process.len(), filter.from), (Level::DEBUG, 2, Duration::from_secs(5)));
        assert_eq!("event=acked".parse::<Filter>().unwrap().level, Level::TRACE);
        assert_eq!("".parse::<Filter>().unwrap().level, Level::INFO);
        assert!("loud".parse::<Filter>().unwrap_err().contains("loud"));
        assert!("proces=1".parse::<Filter>().unwrap_err().contains("no `proces`"));
        assert!("from=soon".parse::<Filter>().is_err());
    }
}
