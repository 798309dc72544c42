//! Expectations: a path into the outcome, a comparison, a value. Read against the outcome's own schema, so that a misspelt
//! path is an error of the scenario and not an expectation that never fails.

use super::problem::nearest;
use crate::show::outcome::{Expected, Outcome};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::ops::Range;

/// Something that must hold of an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// As written.
    pub text: String,
    /// Why, as far as the scenario says.
    pub why: Option<String>,
    term: Term,
    test: Test,
}
/// Something that is measured of an outcome: one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// As written.
    pub text: String,
    term: Term,
}
/// What stands left of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    over: Option<Over>,
    path: Vec<Step>,
}
/// Makes one value out of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Max,
    Min,
    Sum,
    Count,
}
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Every,
}
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Is(Json),
    IsNot(Json),
    /// A number within both bounds.
    Within(i64, i64),
}

/// What is wrong with an expectation, and where in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub message: String,
    /// Advice.
    pub help: Option<String>,
    /// Bytes of the text.
    pub at: Range<usize>,
}

/// Names that stand in maps of the outcome: the map's field to the names the scenario gives rise to.
pub type Known = BTreeMap<&'static str, Vec<String>>;

/// Two-letter operators before their first letters.
const OPERATORS: [&str; 6] = ["!=", "<=", ">=", "=", "<", ">"];

impl Expectation {
    /// Reads an expectation.
    ///
    /// # Errors
    /// Where and what is wrong.
    pub fn parse(text: &str, why: Option<&str>, schema: &Json, known: &Known) -> Result<Self, Wrong> {
        let wrong = |at: Range<usize>, message: &str| Wrong { message: message.into(), help: None, at };
        let (left, operator, right) = split(text).ok_or_else(|| Wrong {
            help: Some("as in `layers.events.missing = 0` or `max(stalls.*.ms) in 7000..=10700`".into()),
            ..wrong(0..text.len(), "not a path, a comparison and a value")
        })?;
        let (term, leaf) = Term::parse(text, left, schema, known)?;
        let over = term.over;
        let test = read_test(operator, text[right.clone()].trim()).map_err(|m| wrong(right.clone(), &m))?;
        let numeric = over.is_some() || leaf == Leaf::Number;
        let fits = match &test {
            Test::Within(..) => numeric || leaf == Leaf::Any,
            Test::Is(v) | Test::IsNot(v) => match leaf {
                Leaf::Any => true,
                Leaf::Number => v.is_number(),
                _ if over.is_some() => v.is_number(),
                Leaf::Flag => v.is_boolean(),
                Leaf::Text => v.is_string(),
            },
        };
        if text[right.clone()].trim_start().starts_with('=') {
            return Err(wrong(right, "the comparison is `=`, with one sign"));
        }
        if !fits {
            return Err(wrong(right, "the value is of another type than what the path leads to"));
        }
        Ok(Self { text: text.trim().to_owned(), why: why.map(str::to_owned), term, test })
    }

    /// Holds it against an outcome in JSON.
    pub fn check(&self, outcome: &Json) -> Expected {
        let (actual, whole) = self.term.of(outcome);
        let holds = match &actual {
            Some(Json::Array(all)) if self.term.over.is_none() && self.term.is_of_many() => {
                all.iter().all(|v| self.test.holds(v))
            }
            actual => actual.as_ref().is_some_and(|v| self.test.holds(v)),
        };
        Expected { text: self.text.clone(), holds: holds && whole, actual: actual.unwrap_or(Json::Null) }
    }
}

impl Measure {
    /// Reads what is to be measured: the left side of an expectation that comes to one number.
    ///
    /// # Errors
    /// Where and what is wrong.
    pub fn parse(text: &str, schema: &Json, known: &Known) -> Result<Self, Wrong> {
        let (term, leaf) = Term::parse(text, 0..text.len(), schema, known)?;
        let wrong = |message: &str| Wrong { message: message.into(), help: None, at: 0..text.len() };
        if term.over.is_none() {
            if term.is_of_many() {
                let help = Some(format!("as in `max({text})`"));
                return Err(Wrong {
                    help,
                    ..wrong("the path leads to many values: max, min, sum or count makes one of them")
                });
            }
            if !matches!(leaf, Leaf::Number | Leaf::Any | Leaf::Flag) {
                return Err(wrong("the path leads to no number"));
            }
        }
        Ok(Self { text: text.trim().to_owned(), term })
    }
    /// What it comes to in an outcome in JSON; a flag counts 1 or 0. `None` where there is nothing to measure.
    pub fn of(&self, outcome: &Json) -> Option<i64> {
        let value = self.term.of(outcome).0?;
        value.as_i64().or_else(|| value.as_bool().map(i64::from))
    }
}

impl Term {
    /// Reads the piece `at` of a text.
    fn parse(text: &str, at: Range<usize>, schema: &Json, known: &Known) -> Result<(Self, Leaf), Wrong> {
        let wrong = |at: Range<usize>, message: &str| Wrong { message: message.into(), help: None, at };
        let (over, path_at) = function(text, at.clone());
        if text[at.clone()].contains('(') && over.is_none() {
            return Err(wrong(at, "the functions are max, min, sum and count"));
        }
        let (path, leaf) = read_path(text, path_at.clone(), schema, known, over == Some(Over::Count))?;
        if over.is_some_and(|o| o != Over::Count) && !matches!(leaf, Leaf::Number | Leaf::Any) {
            return Err(wrong(path_at, "the path leads to no number"));
        }
        Ok((Self { over, path }, leaf))
    }
    fn is_of_many(&self) -> bool {
        self.path.contains(&Step::Every)
    }
    /// Its value in an outcome in JSON, a list where it is of many and nothing makes one of them; and whether every step of
    /// the path led on.
    fn of(&self, outcome: &Json) -> (Option<Json>, bool) {
        let mut found = vec![outcome];
        let mut whole = true;
        for step in &self.path {
            let mut next = Vec::new();
            for value in found {
                match (step, value) {
                    (Step::Every, Json::Object(map)) => next.extend(map.values()),
                    (Step::Every, Json::Array(list)) => next.extend(list),
                    (Step::Key(key), Json::Array(list)) => {
                        next.extend(key.parse::<usize>().ok().and_then(|at| list.get(at)));
                    }
                    (Step::Key(key), value) => match value.get(key) {
                        Some(value) => next.push(value),
                        None => whole = false,
                    },
                    (Step::Every, _) => whole = false,
                }
            }
            found = next;
        }
        let many = self.is_of_many();
        let numbers = || found.iter().filter_map(|v| v.as_i64());
        let value = match self.over {
            None if many => Some(found.into_iter().cloned().collect()),
            None => found.first().map(|v| (*v).clone()),
            Some(Over::Max) => numbers().max().map(Json::from),
            Some(Over::Min) => numbers().min().map(Json::from),
            Some(Over::Sum) => Some(numbers().fold(0_i64, i64::saturating_add).into()),
            Some(Over::Count) if many => Some(found.len().into()),
            Some(Over::Count) => found.first().map(|v| match v {
                Json::Array(list) => list.len().into(),
                Json::Object(map) => map.len().into(),
                _ => 1.into(),
            }),
        };
        (value, whole)
    }
}

impl Test {
    fn holds(&self, value: &Json) -> bool {
        match self {
            Self::Is(wanted) => value == wanted || value.as_i64().is_some() && value.as_i64() == wanted.as_i64(),
            Self::IsNot(wanted) => value != wanted && (value.as_i64().is_none() || value.as_i64() != wanted.as_i64()),
            Self::Within(low, high) => value.as_i64().is_some_and(|n| (*low..=*high).contains(&n)),
        }
    }
}

/// Left side, operator, right side.
fn split(text: &str) -> Option<(Range<usize>, &str, Range<usize>)> {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        quoted ^= c == '"';
        if quoted {
            continue;
        }
        if let Some(op) = OPERATORS.iter().find(|op| text[at..].starts_with(**op)) {
            return Some((0..at, op, at + op.len()..text.len()));
        }
        if text[at..].starts_with(" in ") {
            return Some((0..at, "in", at + 4..text.len()));
        }
    }
    None
}
/// The function around a path, and the path.
fn function(text: &str, left: Range<usize>) -> (Option<Over>, Range<usize>) {
    let part = text[left.clone()].trim_end();
    let inner = part.trim_start().split_once('(').zip(part.strip_suffix(')'));
    let over = inner.and_then(|((name, _), _)| match name.trim() {
        "max" => Some(Over::Max),
        "min" => Some(Over::Min),
        "sum" => Some(Over::Sum),
        "count" => Some(Over::Count),
        _ => None,
    });
    match over {
        Some(_) => {
            let open = part.find('(').map_or(0, |at| at + 1);
            (over, left.start + open..left.start + part.len() - 1)
        }
        None => (None, left),
    }
}

fn read_test(operator: &str, right: &str) -> Result<Test, String> {
    let number =
        |s: &str| s.trim().replace('_', "").parse::<i64>().map_err(|_| format!("`{}` is no whole number", s.trim()));
    Ok(match operator {
        "in" => {
            let (low, high) = right.split_once("..").ok_or("a range is written 7000..=10700")?;
            let (low, high) = match high.strip_prefix('=') {
                Some(high) => (number(low)?, number(high)?),
                None => (number(low)?, number(high)?.saturating_sub(1)),
            };
            if low > high {
                return Err("the range is empty".into());
            }
            Test::Within(low, high)
        }
        "<" => Test::Within(i64::MIN, number(right)?.saturating_sub(1)),
        "<=" => Test::Within(i64::MIN, number(right)?),
        ">" => Test::Within(number(right)?.saturating_add(1), i64::MAX),
        ">=" => Test::Within(number(right)?, i64::MAX),
        _ => {
            let value = match right {
                "" => return Err("a value is missing".into()),
                "true" => Json::Bool(true),
                "false" => Json::Bool(false),
                text if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => number(text)?.into(),
                text => text.trim_matches('"').into(),
            };
            if operator == "=" { Test::Is(value) } else { Test::IsNot(value) }
        }
    })
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaf {
    Number,
    Flag,
    Text,
    Any,
}

/// Of something that may be absent, what it is where it is there.
fn present<'a>(root: &'a Json, schema: &'a Json) -> &'a Json {
    let Some(list) = schema.get("anyOf").and_then(Json::as_array) else { return schema };
    let not_null = list.iter().find(|s| s.get("type").and_then(Json::as_str) != Some("null"));
    not_null.map_or(schema, |s| deref(root, s))
}
fn deref<'a>(root: &'a Json, mut schema: &'a Json) -> &'a Json {
    while let Some(target) = schema.get("$ref").and_then(Json::as_str) {
        schema = target.strip_prefix('#').and_then(|p| root.pointer(p)).unwrap_or(&Json::Null);
    }
    schema
}

/// Words of a path with their places: dots part them, quotes keep dots.
fn words(text: &str, at: Range<usize>) -> Vec<(&str, Range<usize>)> {
    let mut list = Vec::new();
    let (mut start, mut quoted) = (at.start, false);
    for (offset, c) in text[at.clone()].char_indices() {
        quoted ^= c == '"';
        if c == '.' && !quoted {
            list.push(start..at.start + offset);
            start = at.start + offset + 1;
        }
    }
    list.push(start..at.end);
    list.into_iter().map(|r| (text[r.clone()].trim().trim_matches('"'), r)).collect()
}

fn read_path(
    text: &str,
    at: Range<usize>,
    root: &Json,
    known: &Known,
    counts: bool,
) -> Result<(Vec<Step>, Leaf), Wrong> {
    let words = words(text, at.clone());
    let mut schema = root;
    let mut steps = Vec::new();
    let mut field = "";
    let mut i = 0;
    while i < words.len() {
        let (word, place) = (words[i].0, words[i].1.clone());
        let fail = |message: String, help: Option<String>| Wrong { message, help, at: place.clone() };
        schema = present(root, deref(root, schema));
        if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
            let Some((name, next)) = properties.get_key_value(word) else {
                let near = nearest(word, properties.keys().map(String::as_str)).map(|n| format!("did you mean `{n}`?"));
                return Err(fail(format!("the outcome has no `{word}` here"), near));
            };
            (field, schema) = (name, next);
            steps.push(Step::Key(word.to_owned()));
        } else if let Some(items) = schema.get("items") {
            steps.push(match word {
                "*" => Step::Every,
                n if n.parse::<usize>().is_ok() => Step::Key(n.to_owned()),
                _ => return Err(fail(format!("`{field}` is a list: `*` or a place from 0"), None)),
            });
            schema = items;
        } else if let Some(values) =
            schema.get("additionalProperties").filter(|v| v.is_object() || **v == Json::Bool(true))
        {
            schema = values;
            if word == "*" {
                steps.push(Step::Every);
            } else {
                let names = known.get(field);
                // A name may have dots: the longest that is known counts.
                let joined = (i + 1..=words.len()).rev().map(|end| {
                    let name = words[i..end].iter().map(|w| w.0).collect::<Vec<_>>().join(".");
                    (end, name)
                });
                let found = names.and_then(|names| joined.into_iter().find(|(_, name)| names.contains(name)));
                match (found, names) {
                    (Some((end, name)), _) => {
                        steps.push(Step::Key(name));
                        i = end - 1;
                    }
                    (None, None) => steps.push(Step::Key(word.to_owned())),
                    (None, Some(names)) => {
                        let near =
                            nearest(word, names.iter().map(String::as_str)).map(|n| format!("did you mean `{n}`?"));
                        let help = near
                            .or_else(|| Some(format!("there is {}", names.join(", "))).filter(|_| !names.is_empty()));
                        return Err(fail(format!("`{field}` will have no `{word}`"), help));
                    }
                }
            }
        } else {
            return Err(fail(format!("`{field}` has nothing inside"), None));
        }
        i += 1;
    }
    let schema = deref(root, schema);
    let leaf = match schema.get("type").and_then(Json::as_str) {
        Some("integer" | "number") => Leaf::Number,
        Some("boolean") => Leaf::Flag,
        Some("object" | "array") if counts => Leaf::Any,
        Some("object" | "array") => {
            let help = Some("go on to a value, or use count(...)".into());
            return Err(Wrong { message: "the path ends at a table or a list".into(), help, at });
        }
        Some("string") => Leaf::Text,
        None if schema.get("enum").is_some() || schema.get("oneOf").is_some() => Leaf::Text,
        _ => Leaf::Any,
    };
    Ok((steps, leaf))
}

/// JSON Schema of the outcome.
pub fn outcome_schema() -> Json {
    schemars::schema_for!(Outcome).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::outcome::{Layer, Stall};

    fn read(text: &str) -> Result<Expectation, Wrong> {
        let known = Known::from([("layers", vec!["events.clean".into(), "check".into()])]);
        Expectation::parse(text, None, &outcome_schema(), &known)
    }
    fn outcome() -> Json {
        let mut o = Outcome::default();
        o.layers.insert("events.clean".into(), Layer { missing: 3, exact: true, ..Layer::default() });
        o.layers.insert("check".into(), Layer::default());
        o.stalls = [8_000, 9_500].map(|ms| Stall { ms, ..Stall::default() }).into();
        serde_json::to_value(o).unwrap()
    }

    #[test]
    fn comparisons_hold_or_not() {
        for (text, holds) in [
            ("layers.check.missing = 0", true),
            ("layers.events.clean.missing = 3", true),
            ("layers.\"events.clean\".missing < 3", false),
            ("layers.*.missing = 0", false),
            ("layers.events.clean.exact = true", true),
            ("max(stalls.*.ms) in 7000..=9500", true),
            ("max(stalls.*.ms) in 7000..9500", false),
            ("min(stalls.*.ms)>=8_000", true),
            ("sum(stalls.*.ms) = 17500", true),
            ("count(stalls) = 2", true),
            ("count(restarts) != 0", false),
            ("verdict = holds", true),
            ("stalls.1.ms > 9000", true),
            ("stalls.7.ms > 0", false),
            ("max(restarts.*.at_ms) < 5", false),
        ] {
            assert_eq!(read(text).unwrap().check(&outcome()).holds, holds, "{text}");
        }
    }

    #[test]
    fn a_measure_is_one_number() {
        let known = Known::from([("layers", vec!["events.clean".into(), "check".into()])]);
        let measure = |text| Measure::parse(text, &outcome_schema(), &known);
        for (text, value) in [
            ("layers.events.clean.missing", Some(3)),
            ("layers.events.clean.exact", Some(1)),
            ("max(stalls.*.ms)", Some(9_500)),
            ("count(stalls)", Some(2)),
            ("stalls.0.ms", Some(8_000)),
            ("stalls.5.ms", None),
            ("max(restarts.*.at_ms)", None),
        ] {
            assert_eq!(measure(text).unwrap().of(&outcome()), value, "{text}");
        }
        for (text, message) in [
            ("stalls.*.ms", "the path leads to many values: max, min, sum or count makes one of them"),
            ("layers.chek.missing", "`layers` will have no `chek`"),
            ("verdict", "the path leads to no number"),
            ("layers.check.missing = 3", "the outcome has no `missing = 3` here"),
        ] {
            assert_eq!(measure(text).unwrap_err().message, message, "{text}");
        }
    }

    #[test]
    fn mistakes_are_located() {
        for (text, piece) in [
            ("layers.events.clean.mising = 0", "mising"),
            ("layer.check.missing = 0", "layer"),
            ("layers.chek.missing = 0", "chek"),
            ("layers.check = 0", "layers.check "),
            ("layers.check.missing = many", " many"),
            ("layers.check.missing.x = 0", "x "),
            ("max(stalls.*.ms) in 5", "5"),
            ("avg(stalls.*.ms) = 5", "avg(stalls.*.ms) "),
            ("stalls.ms = 5", "ms "),
            ("nothing", "nothing"),
        ] {
            let wrong = read(text).unwrap_err();
            assert_eq!(text[wrong.at.clone()].trim(), piece.trim(), "{text}: {wrong:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z.*()\"=<>! 0-9é]{0,24}") {
            if let Err(wrong) = read(&text) {
                proptest::prop_assert!(wrong.at.end <= text.len() && wrong.at.start <= wrong.at.end);
            }
        }
    }
}
