//! The structural check: a document against the JSON Schema of the scenario types, with every problem located. The schema is
//! the one that `sim schema` prints, so what it says and what the loader takes cannot differ.

use super::problem::{Place, Problem};
use super::tree::{Node, Value};
use super::units;
use serde_json::Value as Json;

/// What the check found.
#[derive(Debug, Default)]
pub struct Checked {
    /// The problems.
    pub problems: Vec<Problem>,
    /// Keys that were there but unreadable and were taken out: the place of their table, and the key. What is said about
    /// them is said; that they are missing must not be.
    pub dropped: Vec<(Place, String)>,
    /// Something required is missing or unreadable: the document cannot be understood as a whole.
    pub fatal: bool,
}

/// Checks `node` against `schema`. What does not belong is taken out after it is reported, so that the rest can still be
/// understood and checked; tables of Kafka's keys are flattened to dotted keys.
pub fn check(node: &mut Node, schema: &Json) -> Checked {
    let mut walk = Walk { root: schema, found: Checked::default() };
    if !walk.node(node, schema, "the scenario") {
        walk.found.fatal = true;
    }
    walk.found
}

/// Follows `$ref`.
fn deref<'a>(root: &'a Json, mut schema: &'a Json) -> &'a Json {
    while let Some(target) = schema.get("$ref").and_then(Json::as_str) {
        schema = target.strip_prefix('#').and_then(|p| root.pointer(p)).unwrap_or(&Json::Null);
    }
    schema
}
fn types(schema: &Json) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(t)) => vec![t],
        Some(Json::Array(list)) => list.iter().filter_map(Json::as_str).filter(|t| *t != "null").collect(),
        _ => Vec::new(),
    }
}
/// Words of an enumeration.
fn words(schema: &Json) -> Option<Vec<&str>> {
    if let Some(list) = schema.get("enum").and_then(Json::as_array) {
        return Some(list.iter().filter_map(Json::as_str).collect());
    }
    let list = schema.get("oneOf")?.as_array()?;
    list.iter().map(|s| s.get("const").and_then(Json::as_str)).collect()
}

struct Walk<'a> {
    root: &'a Json,
    found: Checked,
}
impl<'a> Walk<'a> {
    fn problem(&mut self, problem: Problem) -> bool {
        self.found.problems.push(problem);
        false
    }

    /// Whether a value of this kind can match the schema.
    fn fits(&self, node: &Node, schema: &'a Json) -> bool {
        let schema = deref(self.root, schema);
        if words(schema).is_some() {
            return matches!(node.value, Value::Text(_));
        }
        if let Some(list) = schema.get("anyOf").and_then(Json::as_array) {
            return list.iter().any(|s| self.fits(node, s));
        }
        let types = types(schema);
        types.is_empty() && schema.get("type").is_none()
            || types.iter().any(|t| match node.value {
                Value::Table(_) => *t == "object",
                Value::Array(_) => *t == "array",
                Value::Text(_) => *t == "string",
                Value::Int(_) => *t == "integer" || *t == "number",
                Value::Bool(_) => *t == "boolean",
                Value::Other(_) => false,
            })
    }
    /// What the schema asks for, in words.
    fn wanted(&self, schema: &'a Json) -> String {
        let schema = deref(self.root, schema);
        if let Some(words) = words(schema) {
            return format!("one of {}", words.join(", "));
        }
        if let Some(list) = schema.get("anyOf").and_then(Json::as_array) {
            let wanted: Vec<_> = list.iter().filter(|s| !is_null(s)).map(|s| self.wanted(s)).collect();
            return wanted.join(", or ");
        }
        if let Some(what) = schema.get("format").and_then(Json::as_str).and_then(units::what) {
            return what.into();
        }
        let names = types(schema).into_iter().map(|t| match t {
            "object" => "a table",
            "array" => "an array",
            "string" => "a string",
            "boolean" => "true or false",
            _ => "a whole number",
        });
        names.collect::<Vec<_>>().join(", ")
    }

    fn node(&mut self, node: &mut Node, schema: &'a Json, name: &str) -> bool {
        let schema = deref(self.root, schema);
        if let Some(list) = schema.get("anyOf").and_then(Json::as_array) {
            let candidates: Vec<_> = list.iter().filter(|s| !is_null(s)).collect();
            let fit =
                candidates.iter().find(|s| self.fits(node, s)).or(candidates.first().filter(|_| candidates.len() == 1));
            return match fit {
                Some(schema) => self.node(node, schema, name),
                None => self.mismatch(node, schema, name),
            };
        }
        if !self.fits(node, schema) {
            return self.mismatch(node, schema, name);
        }
        let place = node.place;
        match &mut node.value {
            Value::Table(_) => self.table(node, schema, name),
            Value::Array(items) => {
                let bound = |key: &str| schema.get(key).and_then(Json::as_u64);
                let (least, most) = (bound("minItems").unwrap_or(0), bound("maxItems").unwrap_or(u64::MAX));
                if !(least..=most).contains(&(items.len() as u64)) {
                    let wanted = if least == most { format!("exactly {least}") } else { format!("{least} to {most}") };
                    return self
                        .problem(Problem::at(place, format!("{name} has {} values instead of {wanted}", items.len())));
                }
                let Some(of) = schema.get("items") else { return true };
                // A bad item makes the whole array unreadable, but all of them are reported.
                let mut good = true;
                for item in items {
                    good &= self.node(item, of, name);
                }
                good
            }
            Value::Text(text) => {
                if let Some(words) = words(schema) {
                    if words.contains(&text.as_str()) {
                        return true;
                    }
                    let message = format!("{name} is one of {}", words.join(", "));
                    return self.problem(Problem::at(place, message).nearest(text, words.iter().copied()));
                }
                match schema.get("format").and_then(Json::as_str).and_then(|f| units::check(f, text)) {
                    Some(Err(message)) => self.problem(Problem::at(place, format!("{name}: {message}"))),
                    _ => true,
                }
            }
            Value::Int(n) => {
                let bound = |key: &str| schema.get(key).and_then(Json::as_i64);
                // What the type of the field can hold bounds it, too.
                let widest = match schema.get("format").and_then(Json::as_str) {
                    Some("uint8") => i64::from(u8::MAX),
                    Some("uint16") => i64::from(u16::MAX),
                    Some("uint32") => i64::from(u32::MAX),
                    _ => i64::MAX,
                };
                let (low, high) = (bound("minimum").unwrap_or(i64::MIN), bound("maximum").unwrap_or(widest));
                if (low..=high).contains(n) {
                    return true;
                }
                let message = match (low, high) {
                    (low, i64::MAX) => format!("{name} is at least {low}"),
                    (low, high) => format!("{name} is from {low} to {high}"),
                };
                self.problem(Problem::at(place, message))
            }
            Value::Bool(_) | Value::Other(_) => true,
        }
    }

    fn mismatch(&mut self, node: &Node, schema: &'a Json, name: &str) -> bool {
        let wanted = self.wanted(schema);
        let problem = Problem::at(node.place, format!("{name} is {wanted}, not {}", node.kind()));
        self.problem(match &node.value {
            Value::Int(n) if wanted.starts_with("a time") => problem.help(format!("write \"{n} s\" or \"{n} ms\"")),
            _ => problem,
        })
    }

    fn table(&mut self, node: &mut Node, schema: &'a Json, name: &str) -> bool {
        if schema.get("x-kafka-keys").is_some() {
            node.flatten();
            // Which keys may stand here depends on the client's profile: the second stage looks them up.
            let Value::Table(entries) = &mut node.value else { return true };
            entries.retain_mut(|entry| {
                let scalar = matches!(entry.node.value, Value::Text(_) | Value::Int(_) | Value::Bool(_));
                if !scalar {
                    let message = format!(
                        "`{}` is a string, a whole number, true or false, not {}",
                        entry.key,
                        entry.node.kind()
                    );
                    self.problem(Problem::at(entry.node.place, message));
                }
                scalar
            });
            return true;
        }
        let Some(properties) = schema.get("properties").and_then(Json::as_object) else { return true };
        let required: Vec<_> =
            schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
        let closed = schema.get("additionalProperties") == Some(&Json::Bool(false));
        let place = node.place;
        let Value::Table(entries) = &mut node.value else { return true };
        let mut good = true;
        for key in &required {
            if !entries.iter().any(|e| e.key == *key) {
                let what = properties.get(*key).map(|s| self.wanted(s)).unwrap_or_default();
                let near = entries
                    .iter()
                    .find(|e| !properties.contains_key(&e.key) && super::problem::nearest(&e.key, [*key]).is_some());
                // A misspelt key is reported once, where it stands.
                if near.is_none() {
                    self.problem(
                        Problem::at(place, format!("{name} has no `{key}`")).help(format!("`{key}` is {what}")),
                    );
                }
                good = false;
            }
        }
        entries.retain_mut(|entry| match properties.get(&entry.key) {
            Some(schema) => {
                let kept = self.node(&mut entry.node, schema, &format!("`{}`", entry.key));
                good &= kept || !required.contains(&entry.key.as_str());
                if !kept {
                    self.found.dropped.push((place, entry.key.clone()));
                }
                kept
            }
            None if closed => {
                let problem = Problem::at(entry.place, format!("{name} has no key `{}`", entry.key));
                self.problem(problem.nearest(&entry.key, properties.keys().map(String::as_str)));
                false
            }
            None => true,
        });
        good
    }
}
fn is_null(schema: &Json) -> bool {
    schema.get("type").and_then(Json::as_str) == Some("null")
}
