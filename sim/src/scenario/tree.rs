//! A TOML document as a tree in which every value knows its place, so that files can be merged, arguments applied and any
//! later complaint still points at the text that caused it.

use super::problem::{Place, Problem, SourceId};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use toml::de::{DeTable, DeValue};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it stands.
    pub place: Place,
}

/// A value. Fractions and dates have no use in a scenario, so they are kept as text.
#[derive(Clone, Debug)]
pub enum Value {
    /// A table, in the order of the file.
    Table(Vec<Entry>),
    /// An array.
    Array(Vec<Node>),
    /// A string.
    Text(String),
    /// A whole number.
    Int(i64),
    /// true or false.
    Bool(bool),
    /// A fraction or a date, as written.
    Other(String),
}

/// A key of a table with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub place: Place,
    /// Its value.
    pub node: Node,
}

impl Node {
    /// An empty table at `place`.
    pub const fn table(place: Place) -> Self {
        Self { value: Value::Table(Vec::new()), place }
    }
    /// What it is, for error texts.
    pub const fn kind(&self) -> &'static str {
        match self.value {
            Value::Table(_) => "a table",
            Value::Array(_) => "an array",
            Value::Text(_) => "a string",
            Value::Int(_) => "a whole number",
            Value::Bool(_) => "true or false",
            Value::Other(_) => "a fraction or a date",
        }
    }
    /// Its entries, if it is a table.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }
    /// The value of `key`, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|e| e.key == key).map(|e| &e.node)
    }
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
    /// The same without places.
    pub fn json(&self) -> Json {
        match &self.value {
            Value::Table(entries) => Json::Object(entries.iter().map(|e| (e.key.clone(), e.node.json())).collect()),
            Value::Array(items) => items.iter().map(Self::json).collect(),
            Value::Text(text) | Value::Other(text) => text.as_str().into(),
            Value::Int(n) => (*n).into(),
            Value::Bool(b) => (*b).into(),
        }
    }
    /// Whether it is an array of tables (an empty array is not).
    fn is_array_of_tables(&self) -> bool {
        matches!(&self.value, Value::Array(items) if !items.is_empty()
            && items.iter().all(|n| matches!(n.value, Value::Table(_))))
    }
    fn name(&self) -> Option<&str> {
        self.get("name").and_then(Self::text)
    }

    /// Lays `over` on top of `self`: tables are merged key by key; in arrays of tables, tables of one `name` are merged and
    /// the others added; anything else is replaced.
    pub fn merge(&mut self, over: Self) {
        let by_name = self.is_array_of_tables() && over.is_array_of_tables();
        match (&mut self.value, over.value) {
            (Value::Table(base), Value::Table(entries)) => {
                for entry in entries {
                    match base.iter_mut().find(|e| e.key == entry.key) {
                        Some(below) => {
                            below.place = entry.place;
                            below.node.merge(entry.node);
                        }
                        None => base.push(entry),
                    }
                }
            }
            (Value::Array(base), Value::Array(items)) if by_name => {
                let mut laid: BTreeSet<String> = BTreeSet::new();
                for item in items {
                    // A second one of a name is one too many, and stays to be found.
                    let first = item.name().is_some_and(|name| laid.insert(name.to_owned()));
                    match base.iter_mut().find(|n| first && n.name() == item.name()) {
                        Some(below) => below.merge(item),
                        None => base.push(item),
                    }
                }
            }
            (value, over) => *value = over,
        }
        self.place = over.place;
    }

    /// Turns nested tables into one table of dotted keys, as Kafka writes them: `broker.session.timeout.ms = 9000` in TOML
    /// is four tables.
    pub fn flatten(&mut self) {
        fn walk(prefix: Option<(&str, Place)>, entries: Vec<Entry>, out: &mut Vec<Entry>) {
            for mut entry in entries {
                if let Some((prefix, place)) = prefix {
                    entry.key = format!("{prefix}.{}", entry.key);
                    // A dotted key is shown as a whole; below a table's own header only its end stands here.
                    let beside =
                        place.source == entry.place.source && (place.end..place.end + 4).contains(&entry.place.start);
                    if beside {
                        entry.place.start = place.start;
                    }
                }
                match entry.node.value {
                    Value::Table(inner) => walk(Some((&entry.key, entry.place)), inner, out),
                    // The last one wins where both spellings name one key: the base of `extends` is walked first.
                    _ => match out.iter_mut().find(|e| e.key == entry.key) {
                        Some(below) => *below = entry,
                        None => out.push(entry),
                    },
                }
            }
        }
        if let Value::Table(entries) = &mut self.value {
            let mut out = Vec::new();
            walk(None, std::mem::take(entries), &mut out);
            *entries = out;
        }
    }
}

/// Reads a document. What can be read is given even if something is wrong with the rest.
pub fn parse(source: SourceId, text: &str) -> (Node, Vec<Problem>) {
    let place = |r: std::ops::Range<usize>| place_in(source, text, r);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut problems: Vec<_> =
        errors.iter().map(|e| Problem::at(place(e.span().unwrap_or(0..0)), e.message().trim())).collect();
    let mut node = Node::table(place(0..0));
    node.value = convert_table(table.get_ref(), &place, &mut problems);
    (node, problems)
}

/// A place that lies inside the text and on character boundaries whatever `range` says.
pub fn place_in(source: SourceId, text: &str, range: std::ops::Range<usize>) -> Place {
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(range.start);
    Place { source, start, end: floor(range.end).max(start) }
}

type PlaceOf<'a> = &'a dyn Fn(std::ops::Range<usize>) -> Place;

fn convert_table(table: &DeTable<'_>, place: PlaceOf<'_>, problems: &mut Vec<Problem>) -> Value {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            place: place(key.span()),
            node: convert(value.get_ref(), place(value.span()), place, problems),
        })
        .collect();
    // The parser sorts by key; people think in the order of the file.
    entries.sort_by_key(|e| e.place.start);
    Value::Table(entries)
}

fn convert(value: &DeValue<'_>, at: Place, place: PlaceOf<'_>, problems: &mut Vec<Problem>) -> Node {
    let value = match value {
        DeValue::String(s) => Value::Text(s.to_string()),
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(n) => Value::Int(n),
            Err(_) => {
                problems.push(Problem::at(at, "a whole number outside of 64 bits"));
                Value::Other(n.as_str().to_owned())
            }
        },
        DeValue::Float(n) => Value::Other(n.as_str().to_owned()),
        DeValue::Boolean(b) => Value::Bool(*b),
        DeValue::Datetime(d) => Value::Other(d.to_string()),
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|v| convert(v.get_ref(), place(v.span()), place, problems)).collect())
        }
        DeValue::Table(table) => convert_table(table, place, problems),
    };
    Node { value, place: at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> Node {
        let (node, problems) = parse(SourceId(0), text);
        assert_eq!(problems, []);
        node
    }

    #[test]
    fn tables_merge_by_key_and_by_name() {
        let mut base = node("a = 1\nb = [1, 2]\n[[t]]\nname = 'x'\nn = 1\n[[t]]\nname = 'y'");
        base.merge(node("b = [3]\n[[t]]\nname = 'x'\nm = 2\n[[t]]\nname = 'z'"));
        let mut twice = base.clone();
        twice.merge(node("[[t]]\nname = 'z'\nm = 4\n[[t]]\nname = 'z'\nm = 5"));
        let names =
            |of: &Node| of.json()["t"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect::<Vec<_>>();
        assert_eq!(names(&twice), ["x", "y", "z", "z"], "two of one file are two");
        assert_eq!(
            base.json(),
            serde_json::json!({"a": 1, "b": [3], "t": [{"name": "x", "n": 1, "m": 2}, {"name": "y"}, {"name": "z"}]})
        );
    }

    #[test]
    fn dotted_keys_are_kafkas() {
        let mut n = node("broker.session.timeout.ms = 9000\n'min.insync.replicas' = 2");
        n.flatten();
        assert_eq!(n.json(), serde_json::json!({"broker.session.timeout.ms": 9000, "min.insync.replicas": 2}));
    }

    #[test]
    fn every_syntax_error_is_reported() {
        let (_, problems) = parse(SourceId(0), "a = \nb = 1\nc = ]\n");
        assert!(problems.len() >= 2, "{problems:?}");
    }
}
