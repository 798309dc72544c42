//! What is wrong with a scenario, and where: every problem at once, each with the piece of text it is about.

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Number of a [`Source`] in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// A piece of a source: bytes `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The source.
    pub source: SourceId,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A text that values came from: a file, or an argument of `--set`.
#[derive(Clone, Debug)]
pub struct Source {
    /// A path, an embedded scenario's name, or the argument.
    pub name: String,
    /// Its text.
    pub text: Arc<str>,
}

/// All texts behind one scenario.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<Source>);
impl Sources {
    /// Adds a text.
    pub fn add(&mut self, name: impl Into<String>, text: &str) -> SourceId {
        self.0.push(Source { name: name.into(), text: text.into() });
        SourceId(self.0.len() as u32 - 1)
    }
    /// The text with this number.
    pub fn get(&self, id: SourceId) -> &Source {
        &self.0[id.0 as usize]
    }
    /// The folder that paths written in a text are relative to; none for an argument.
    pub fn folder(&self, id: SourceId) -> Option<&Path> {
        let name = self.0.get(id.0 as usize)?.name.as_str();
        if name.starts_with("--") { None } else { Path::new(name).parent() }
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub message: String,
    /// Where; `None` only where there is no text at all (a file that cannot be opened).
    pub place: Option<Place>,
    /// What to do about it.
    pub help: Option<String>,
}
impl Problem {
    /// A problem at `place`.
    pub fn at(place: Place, message: impl Into<String>) -> Self {
        Self { message: message.into(), place: Some(place), help: None }
    }
    /// The same with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    /// The same with the nearest of `known` as advice, if one is near enough.
    #[must_use]
    pub fn nearest<'a>(self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(word, known) {
            Some(near) => self.help(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

/// The nearest of `known` to `word` by edit distance; none if all are far.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(&lower, &k.to_lowercase()), k))
        .min()
        .filter(|(distance, k)| *distance <= 1 + word.len().max(k.len()) / 4)
        .map(|(_, k)| k)
}

/// All problems of a scenario with the texts they point into.
#[derive(Clone, Debug)]
pub struct Problems {
    /// The texts.
    pub sources: Sources,
    /// The problems, in the order of their places.
    pub list: Vec<Problem>,
}
impl Problems {
    /// Sorts the list by place and drops repetitions.
    pub fn new(sources: Sources, mut list: Vec<Problem>) -> Self {
        list.sort_by(|a, b| (a.place, &a.message).cmp(&(b.place, &b.message)));
        list.dedup();
        Self { sources, list }
    }
    /// Line and column of a place, both from 1; columns count characters.
    pub fn line_column(&self, place: Place) -> (usize, usize) {
        line_column(&self.sources.get(place.source).text, place.start)
    }
    /// As people read it: each problem with its lines of the file.
    pub fn render(&self, colour: bool) -> String {
        let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_links(false).with_width(120);
        let mut out = String::new();
        for problem in &self.list {
            let source = problem.place.map(|p| {
                let source = self.sources.get(p.source);
                NamedSource::new(&source.name, source.text.to_string())
            });
            let shown = Shown { problem, source };
            if handler.render_report(&mut out, &shown).is_err() {
                out.push_str(&problem.message);
            }
            out.push('\n');
        }
        let n = self.list.len();
        out.push_str(&format!("{n} problem{}\n", if n == 1 { "" } else { "s" }));
        out
    }
}
/// One line a problem: `file:line:column: what is wrong`.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for p in &self.list {
            if let Some(place) = p.place {
                let (line, column) = self.line_column(place);
                write!(f, "{}:{line}:{column}: ", self.sources.get(place.source).name)?;
            }
            f.write_str(&p.message)?;
            match &p.help {
                Some(help) => writeln!(f, " ({help})")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
impl std::error::Error for Problems {}

/// Line and column of byte `at` in `text`, both from 1.
pub fn line_column(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |n| n + 1);
    (line, before[start..].chars().count() + 1)
}

#[derive(Debug)]
struct Shown<'a> {
    problem: &'a Problem,
    source: Option<NamedSource<String>>,
}
impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem.message)
    }
}
impl std::error::Error for Shown<'_> {}
impl Diagnostic for Shown<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help.as_ref().map(|h| Box::new(h) as Box<dyn fmt::Display>)
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|s| s as &dyn SourceCode)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.problem.place?;
        let label = LabeledSpan::new(Some("here".into()), place.start, place.end - place.start);
        Some(Box::new(std::iter::once(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_spelling_is_near() {
        let known = ["broker.session.timeout.ms", "broker.heartbeat.interval.ms"];
        assert_eq!(nearest("broker.sesion.timeout.ms", known), Some("broker.session.timeout.ms"));
        assert_eq!(nearest("colour", known), None);
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(line_column("a\nüb c", 4), (2, 2));
        assert_eq!(line_column("", 9), (1, 1));
    }
}
