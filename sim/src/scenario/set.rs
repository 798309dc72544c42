//! `--set PATH=VALUE`: one value of a scenario from the command line, laid over the file before anything is checked.
//!
//! A path is TOML's: keys with dots between, quoted where they have dots of their own. In an array a number picks a place
//! (from 0) and a word the table of that name. Inside a table of Kafka's keys the rest of the path is the key.

use super::problem::{Place, Problem, SourceId};
use super::tree::{Entry, Node, Value, parse};

/// A part of a path with its place in the argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The key, name or number.
    pub word: String,
    /// Where it stands.
    pub place: Place,
}

/// Takes a dotted path apart; `text[..end]` is the path.
///
/// # Errors
/// Where it is not a path.
pub fn path(source: SourceId, text: &str) -> Result<Vec<Step>, Problem> {
    let mut steps = Vec::new();
    let mut rest = 0;
    loop {
        let part = &text[rest..];
        let lead = part.len() - part.trim_start().len();
        let start = rest + lead;
        let part = &text[start..];
        let (word, after) = match part.chars().next() {
            Some(quote @ ('"' | '\'')) => match part[1..].find(quote) {
                Some(end) => (&part[1..=end], start + end + 2),
                None => return Err(Problem::at(Place { source, start, end: text.len() }, "a quote is not closed")),
            },
            _ => {
                let end = part.find(['.', '[']).unwrap_or(part.len());
                (part[..end].trim_end().trim_end_matches(']'), start + end)
            }
        };
        let place = Place { source, start, end: after };
        if word.is_empty() {
            return Err(Problem::at(place, "a part of the path is empty"));
        }
        steps.push(Step { word: word.to_owned(), place });
        let tail = text[after..].trim_start();
        if tail.is_empty() {
            return Ok(steps);
        }
        if !tail.starts_with(['.', '[']) {
            let place = Place { source, start: after, end: text.len() };
            return Err(Problem::at(place, "after a part of a path comes a dot"));
        }
        rest = text.len() - tail.len() + 1;
    }
}

/// Where the `=` of an argument stands, outside of quotes.
fn equals(text: &str) -> Option<usize> {
    let mut quote = None;
    text.char_indices().find_map(|(at, c)| match quote {
        Some(q) => {
            if c == q {
                quote = None;
            }
            None
        }
        None if c == '=' => Some(at),
        None => {
            if c == '"' || c == '\'' {
                quote = Some(c);
            }
            None
        }
    })
}

/// Lays the argument `text` (which is the text of `source`) over `root`.
///
/// # Errors
/// Where it is no `PATH=VALUE`, or the path leads to nothing that could be.
pub fn apply(root: &mut Node, source: SourceId, text: &str) -> Result<(), Problem> {
    let whole = Place { source, start: 0, end: text.len() };
    let split = equals(text).ok_or_else(|| {
        Problem::at(whole, "not PATH=VALUE").help("as in cluster.config.broker.session.timeout.ms=6000")
    })?;
    let steps = path(source, &text[..split])?;
    let value = value(source, text, split + 1);
    put(root, &steps, value)
}

/// The value after the `=`: TOML, or else the bare text.
fn value(source: SourceId, text: &str, start: usize) -> Node {
    let written = text[start..].trim();
    let start = start + (text[start..].len() - text[start..].trim_start().len());
    let place = Place { source, start, end: start + written.len() };
    let (mut doc, problems) = parse(source, &format!("v = {written}"));
    let parsed = match &mut doc.value {
        Value::Table(entries) if problems.is_empty() && entries.len() == 1 => entries.pop(),
        _ => None,
    };
    let mut node = match parsed {
        Some(entry) if !matches!(entry.node.value, Value::Other(_)) => entry.node,
        _ => Node { value: Value::Text(written.to_owned()), place },
    };
    locate(&mut node, place);
    node
}
/// Gives every value of an argument the place of the whole.
fn locate(node: &mut Node, place: Place) {
    node.place = place;
    match &mut node.value {
        Value::Table(entries) => entries.iter_mut().for_each(|e| {
            e.place = place;
            locate(&mut e.node, place);
        }),
        Value::Array(items) => items.iter_mut().for_each(|n| locate(n, place)),
        _ => {}
    }
}

fn put(node: &mut Node, steps: &[Step], value: Node) -> Result<(), Problem> {
    let Some((step, rest)) = steps.split_first() else {
        *node = value;
        return Ok(());
    };
    let kind = node.kind();
    match &mut node.value {
        Value::Table(entries) => {
            let entry = match entries.iter().position(|e| e.key == step.word) {
                Some(at) => &mut entries[at],
                None => {
                    let made = Entry { key: step.word.clone(), place: step.place, node: Node::table(step.place) };
                    entries.push(made);
                    let last = entries.len() - 1;
                    &mut entries[last]
                }
            };
            entry.place = step.place;
            if !rest.is_empty() && (step.word == "config" || step.word == "features") {
                return put_key(&mut entry.node, rest, value);
            }
            put(&mut entry.node, rest, value)
        }
        Value::Array(items) => match pick(items, &step.word) {
            Some(at) => put(&mut items[at], rest, value),
            None => {
                let names: Vec<_> = items.iter().filter_map(|n| n.get("name").and_then(Node::text)).collect();
                let message = format!("there is no `{}` in this list", step.word);
                let problem = Problem::at(step.place, message).nearest(&step.word, names.iter().copied());
                let all = match (names.is_empty(), items.len()) {
                    (false, _) => format!("it has {}", names.join(", ")),
                    (true, 0) => "it is empty".into(),
                    (true, n) => format!("its items have no names: a number from 0 to {}", n - 1),
                };
                Err(if problem.help.is_some() { problem } else { problem.help(all) })
            }
        },
        _ => Err(Problem::at(step.place, format!("`{}` would be inside {kind}", step.word))),
    }
}
/// Sets one of Kafka's keys, however the file spells its table.
fn put_key(table: &mut Node, steps: &[Step], value: Node) -> Result<(), Problem> {
    table.flatten();
    let key = steps.iter().map(|s| s.word.as_str()).collect::<Vec<_>>().join(".");
    let place = Place { end: steps[steps.len() - 1].place.end, ..steps[0].place };
    let kind = table.kind();
    let Value::Table(entries) = &mut table.value else {
        return Err(Problem::at(place, format!("`{key}` would be inside {kind}")));
    };
    match entries.iter_mut().find(|e| e.key == key) {
        Some(entry) => (entry.place, entry.node) = (place, value),
        None => entries.push(Entry { key, place, node: value }),
    }
    Ok(())
}
/// The item that a word picks: a place, or the table of that name.
fn pick(items: &[Node], word: &str) -> Option<usize> {
    let by_name = items.iter().position(|n| n.get("name").and_then(Node::text) == Some(word));
    by_name.or_else(|| word.parse::<usize>().ok().filter(|at| *at < items.len()))
}

/// Takes what a path names out of a document; `false` where there is nothing.
pub fn remove(node: &mut Node, steps: &[Step]) -> bool {
    let Some((step, rest)) = steps.split_first() else { return false };
    match &mut node.value {
        Value::Table(entries) => match entries.iter().position(|e| e.key == step.word) {
            Some(at) if rest.is_empty() => {
                entries.remove(at);
                true
            }
            Some(at) => {
                if step.word == "config" || step.word == "features" {
                    entries[at].node.flatten();
                    let key = rest.iter().map(|s| s.word.as_str()).collect::<Vec<_>>().join(".");
                    let Value::Table(keys) = &mut entries[at].node.value else { return false };
                    let before = keys.len();
                    keys.retain(|e| e.key != key);
                    return keys.len() < before;
                }
                remove(&mut entries[at].node, rest)
            }
            None => false,
        },
        Value::Array(items) => match pick(items, &step.word) {
            Some(at) if rest.is_empty() => {
                items.remove(at);
                true
            }
            Some(at) => remove(&mut items[at], rest),
            None => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(doc: &str, argument: &str) -> Result<serde_json::Value, String> {
        let (mut node, _) = parse(SourceId(0), doc);
        apply(&mut node, SourceId(1), argument).map_err(|p| p.message)?;
        Ok(node.json())
    }

    #[test]
    fn paths_go_through_tables_names_and_places() {
        let doc = "[cluster]\nbrokers = 3\n[[readers]]\nname = 'check'\n[[readers]]\nname = 'b'";
        assert_eq!(set(doc, "cluster.brokers=5").unwrap()["cluster"]["brokers"], 5);
        assert_eq!(set(doc, "readers.b.start=5 s").unwrap()["readers"][1]["start"], "5 s");
        assert_eq!(set(doc, "readers[0].start = \"5 s\"").unwrap()["readers"][0]["start"], "5 s");
        assert_eq!(
            set(doc, "workload.late-by=['60 s', '70 s']").unwrap()["workload"]["late-by"],
            json!(["60 s", "70 s"])
        );
        assert!(set(doc, "readers.c.start=1 s").unwrap_err().contains("no `c`"));
        assert!(set(doc, "cluster.brokers.x=1").unwrap_err().contains("inside"));
        assert!(set(doc, "nothing").unwrap_err().contains("PATH=VALUE"));
    }

    #[test]
    fn kafkas_keys_need_no_quotes() {
        let doc = "[cluster.config]\nbroker.session.timeout.ms = 9000";
        let expected = json!({"broker.session.timeout.ms": 6000});
        assert_eq!(set(doc, "cluster.config.broker.session.timeout.ms=6000").unwrap()["cluster"]["config"], expected);
        assert_eq!(
            set(doc, "cluster.config.\"broker.session.timeout.ms\"=6000").unwrap()["cluster"]["config"],
            expected
        );
    }
}
