//! The printed JSON Schema is true: every shipped scenario is valid under it, and spoilt ones are not. The loader walks the
//! same schema with code of its own; this validator is an independent reading of the keywords that the schema uses.

use serde_json::{Value as Json, json};
use sim::scenario::{library, schema, units};
use std::path::Path;

fn valid(root: &Json, schema: &Json, value: &Json, at: &str) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return if schema == &Json::Bool(false) { Err(format!("{at}: nothing is allowed here")) } else { Ok(()) };
    };
    for (keyword, rule) in keywords {
        let fail = || Err(format!("{at}: {keyword} {rule} against {value}"));
        let all = |rule: &Json| rule.as_array().cloned().unwrap_or_default();
        match keyword.as_str() {
            "$ref" => {
                let target = rule.as_str().and_then(|r| r.strip_prefix('#')).and_then(|p| root.pointer(p));
                valid(root, target.ok_or(format!("{at}: no {rule}"))?, value, at)?;
            }
            "type" => {
                let is = |t: &str| match t {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    "integer" => value.is_i64() || value.is_u64(),
                    _ => value.is_number(),
                };
                let types = if rule.is_array() { all(rule) } else { vec![rule.clone()] };
                if !types.iter().filter_map(Json::as_str).any(is) {
                    return fail();
                }
            }
            "enum" if !all(rule).contains(value) => return fail(),
            "const" if rule != value => return fail(),
            "anyOf" if !all(rule).iter().any(|s| valid(root, s, value, at).is_ok()) => return fail(),
            "oneOf" if all(rule).iter().filter(|s| valid(root, s, value, at).is_ok()).count() != 1 => return fail(),
            "minimum" | "maximum" => {
                let (Some(n), Some(bound)) = (value.as_i64(), rule.as_i64()) else { continue };
                if (keyword == "minimum" && n < bound) || (keyword == "maximum" && n > bound) {
                    return fail();
                }
            }
            "minItems" | "maxItems" => {
                let (Some(list), Some(bound)) = (value.as_array(), rule.as_u64()) else { continue };
                if (keyword == "minItems" && (list.len() as u64) < bound)
                    || (keyword == "maxItems" && list.len() as u64 > bound)
                {
                    return fail();
                }
            }
            "format" => {
                let checked = value.as_str().and_then(|text| units::check(rule.as_str().unwrap_or(""), text));
                if matches!(checked, Some(Err(_))) {
                    return fail();
                }
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    valid(root, rule, item, &format!("{at}/{i}"))?;
                }
            }
            "required" => {
                let missing =
                    all(rule).iter().any(|k| value.is_object() && value.get(k.as_str().unwrap_or("")).is_none());
                if missing {
                    return fail();
                }
            }
            "properties" => {
                for (key, of) in rule.as_object().into_iter().flatten() {
                    if let Some(inner) = value.get(key) {
                        valid(root, of, inner, &format!("{at}/{key}"))?;
                    }
                }
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Json::as_object);
                for (key, inner) in value.as_object().into_iter().flatten() {
                    if known.is_none_or(|k| !k.contains_key(key)) {
                        valid(root, rule, inner, &format!("{at}/{key}"))?;
                    }
                }
            }
            "enum" | "const" | "anyOf" | "oneOf" | "$schema" | "$defs" | "title" | "description" | "default"
            | "pattern" | "x-kafka-keys" => {}
            other => return Err(format!("the schema uses `{other}`, which this test does not know")),
        }
    }
    Ok(())
}

/// Nothing is required: an item with the name of one of the extended scenario's says only what differs.
fn ask_for_nothing(schema: &mut Json) {
    match schema {
        Json::Object(map) => {
            map.retain(|key, value| key != "required" || !value.is_array());
            map.values_mut().for_each(ask_for_nothing);
        }
        Json::Array(items) => items.iter_mut().for_each(ask_for_nothing),
        _ => {}
    }
}

/// What a scenario says by itself; one that extends another lacks what the other says.
fn documents() -> Vec<(&'static str, Json)> {
    let read = |name| {
        let found = library::find(name, Path::new("")).unwrap();
        let table: toml::Table = toml::from_str(std::str::from_utf8(&found.bytes).unwrap()).unwrap();
        (name, serde_json::to_value(table).unwrap())
    };
    library::names().map(read).collect()
}

#[test]
fn every_shipped_scenario_is_valid_under_the_printed_schema() {
    let whole = schema();
    let mut part = whole.clone();
    ask_for_nothing(&mut part);
    for (name, document) in documents() {
        let schema = if document.get("extends").is_none() { &whole } else { &part };
        valid(schema, schema, &document, name).unwrap();
    }
}

#[test]
fn what_is_wrong_is_not_valid() {
    let schema = schema();
    let good = json!({"description": "d", "topics": [{"name": "t"}]});
    valid(&schema, &schema, &good, "good").unwrap();
    for (pointer, key, bad) in [
        ("", "colour", json!("red")),
        ("", "topics", json!("t")),
        ("/topics/0", "partitions", json!(0)),
        ("/topics/0", "config", json!({"linger.ms": 5})),
        ("", "workload", json!({"poison": "2"})),
        ("", "cluster", json!({"brokers": "3"})),
        ("", "faults", json!([{"kind": "kil"}])),
        ("", "faults", json!([{"kind": "kill", "at": ["1 s"]}])),
    ] {
        let mut spoilt = good.clone();
        spoilt.pointer_mut(pointer).unwrap()[key] = bad;
        assert!(valid(&schema, &schema, &spoilt, "spoilt").is_err(), "{spoilt}");
    }
}
