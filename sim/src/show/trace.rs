//! The trace as text: a view, made only when somebody looks.

use crate::run::Run;
use crate::world::Item;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};

/// One item of a trace as it is shown, written to a file, or handed from one process to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Number in the run.
    pub id: u64,
    /// The item that caused it; 0 for the workload, the schedule of faults and the beginning.
    pub cause: u64,
    /// When, in ns of the scenario's time; negative while the cluster forms.
    pub at_ns: i64,
    /// Whose.
    pub process: u32,
    /// Name of the process in the scenario.
    pub who: String,
    /// What it is: an event's name, a message's kind.
    pub name: String,
    /// The partition it is about, `topic/partition` by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// All that it says.
    pub text: String,
    /// Digest of the trace up to here, in hexadecimal.
    pub digest: String,
    /// Digest of what the text does not say: rows, a message's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl Line {
    /// An item of a run that has begun.
    pub fn new(item: &Item, run: &Run) -> Self {
        Self {
            id: item.id,
            cause: item.cause,
            at_ns: item.at.0 as i64 - run.origin.0 as i64,
            process: item.process.0,
            who: run.name_of(item.process),
            name: item.what.name().into(),
            partition: item.what.partition().map(|tp| tp.to_string()),
            text: format!("{:?}", item.what),
            digest: format!("{:016x}", item.digest),
            content: (item.content != 0).then(|| format!("{:016x}", item.content)),
        }
    }
}
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, ns) = (if self.at_ns < 0 { "-" } else { "" }, self.at_ns.unsigned_abs());
        let (s, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
        write!(f, "{sign}{s}.{ns:09} s  {} (process {})  {}", self.who, self.process, self.text)?;
        write!(f, "  [{} <- {}", self.id, self.cause)?;
        match &self.content {
            Some(content) => write!(f, "; content {content}]"),
            None => f.write_str("]"),
        }
    }
}

/// The causes of a line that are still in the trace, nearest first.
fn causes<'a>(lines: &'a [Line], line: &Line) -> Vec<&'a Line> {
    const MOST: usize = 8;
    let of = |line: &Line| lines.binary_search_by_key(&line.cause, |l| l.id).ok().map(|at| &lines[at]);
    std::iter::successors(of(line), |line| of(line)).take(MOST).collect()
}

/// The first item in which two traces of the same seconds differ, with the causes of both sides; `None` if none does.
/// `names` say what the two sides are.
pub fn first_difference(names: [&str; 2], left: &[Line], right: &[Line]) -> Option<String> {
    let at = left.iter().zip(right).position(|(a, b)| a.digest != b.digest);
    let at = at.or_else(|| (left.len() != right.len()).then_some(left.len().min(right.len())))?;
    let mut text = String::from("the first event that differs:\n");
    if let (Some(a), Some(b)) = (left.get(at), right.get(at))
        && (a.at_ns, a.process, a.cause, &a.text) == (b.at_ns, b.process, b.cause, &b.text)
    {
        text.push_str("(alike but for the content: rows, a message's body)\n");
    }
    for (name, lines) in names.into_iter().zip([left, right]) {
        let Some(line) = lines.get(at) else {
            let _ = writeln!(text, "{name}: nothing more");
            continue;
        };
        let _ = writeln!(text, "{name}: {line}");
        let causes = causes(lines, line);
        for cause in &causes {
            let _ = writeln!(text, "    caused by {cause}");
        }
        match causes.last().map_or(line.cause, |c| c.cause) {
            0 => text.push_str("    caused by the workload, the schedule of faults or a deadline\n"),
            id => {
                let _ = writeln!(text, "    caused by {id}, more than a second before");
            }
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u64, cause: u64, digest: &str) -> Line {
        Line {
            id,
            cause,
            at_ns: 1_500_000_000,
            process: 2,
            who: "broker 3".into(),
            name: "wake".into(),
            partition: None,
            text: format!("Wake({id})"),
            digest: digest.into(),
            content: None,
        }
    }

    #[test]
    fn the_first_difference_comes_with_its_causes() {
        let left = [line(5, 1, "a"), line(6, 5, "b"), line(7, 6, "c")];
        let mut right = left.clone();
        assert_eq!(first_difference(["l", "r"], &left, &right), None);
        right[2].digest = "d".into();
        let text = first_difference(["l", "r"], &left, &right).unwrap();
        assert!(text.contains("alike but for the content"), "{text}");
        assert!(text.contains("l: 1.500000000 s  broker 3 (process 2)  Wake(7)"), "{text}");
        assert_eq!(text.matches("    caused by 1.500000000 s").count(), 4, "{text}");
        assert!(text.contains("caused by 1, more than a second before"), "{text}");
        let text = first_difference(["l", "r"], &left, &left[..2]).unwrap();
        assert!(text.contains("r: nothing more"), "{text}");
    }
}
