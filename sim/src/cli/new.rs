//! `sim new`: a scenario to begin with, explained line by line.

use super::{Exit, Failure};
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The file to write, as in `orders.toml`; one that is there already is left alone.
    file: PathBuf,
    /// What it begins with.
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Kafka alone: a topic, who sends, who reads.
    Kafka,
    /// Kafka and a Flink job that sums up by window into a topic and a table.
    #[default]
    Job,
}
impl Kind {
    const fn text(self) -> &'static str {
        match self {
            Self::Kafka => include_str!("new/kafka.toml"),
            Self::Job => include_str!("new/job.toml"),
        }
    }
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, Failure> {
    let file = arguments.file.display();
    if arguments.file.extension().is_none_or(|e| e != "toml") {
        return Err(Failure::usage(format!("`{file}` does not end in .toml, by which the other commands know a file")));
    }
    let mut made = File::create_new(&arguments.file).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => Failure::usage(format!("`{file}` is there already, and is left as it is")),
        _ => Failure::usage(format!("`{file}`: {e}")),
    })?;
    made.write_all(arguments.kind.text().as_bytes())?;
    writeln!(out, "{file} is written. Next:")?;
    for (command, what) in [
        (format!("sim run {file}"), "one run: layers, scopes, stalls, expectations"),
        (format!("sim diff {file} --changed"), "beside its one change"),
        (format!("sim sweep {file} --seeds 100"), "over a hundred seeds"),
    ] {
        writeln!(out, "  {command:<40} {what}")?;
    }
    Ok(Exit::Holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load_text;

    /// The text with every setting that is offered taken in.
    fn with_everything(text: &str) -> String {
        text.lines().map(|line| line.strip_prefix("# ").unwrap_or(line).to_owned() + "\n").collect()
    }

    #[test]
    fn what_is_written_is_valid_with_and_without_what_it_offers() {
        for kind in Kind::value_variants() {
            for text in [kind.text().to_owned(), with_everything(kind.text())] {
                let loaded = load_text("new.toml", text.as_bytes(), &[]);
                assert!(loaded.is_ok(), "{kind:?}: {}", loaded.err().map(|e| e.render(false)).unwrap_or_default());
            }
            assert_ne!(with_everything(kind.text()), kind.text(), "it offers something");
        }
    }
}
