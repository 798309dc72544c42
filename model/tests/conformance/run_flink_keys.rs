//! Runners of flink-keygroups.

use crate::harness::{Outcome, compare};
use model::base::Fixes;
use model::flink::binary_row::BinaryRow;
use model::flink::key_groups::{default_max_parallelism, key_group, long_hash, range_of, subtask_of};
use model::kafka::placement::string_hash;
use serde_json::{Map, Value, json};

fn number(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str().and_then(|s| s.parse().ok())).unwrap_or(0)
}
fn small(text: &str) -> u32 {
    text.parse().unwrap_or(1)
}

/// The recorded fields of a key with this hash, and what the model gives.
fn placed(vector: &Value, hash: i32, more: (Value, Value)) -> Outcome {
    let object = |field: &str| vector[field].as_object().cloned().unwrap_or_default();
    let groups: Map<String, Value> =
        object("key_group").keys().map(|max| (max.clone(), json!(key_group(hash, small(max))))).collect();
    let subtask = |key: &String| {
        let (max, parallelism) = key.split_once('/').unwrap_or((key, "1"));
        json!(subtask_of(key_group(hash, small(max)), small(max), small(parallelism)))
    };
    let subtasks: Map<String, Value> = object("subtask").keys().map(|key| (key.clone(), subtask(key))).collect();
    let recorded = [vector["hash_code"].clone(), vector["key_group"].clone(), vector["subtask"].clone(), more.0];
    let got = [json!(hash), Value::Object(groups), Value::Object(subtasks), more.1];
    compare(&recorded, |i| got[i].clone())
}

/// Runs one vector of flink-keygroups/keys.
pub fn keys(vector: &Value, _fixes: Fixes) -> Outcome {
    let value = &vector["value"];
    let hash = match vector["type"].as_str() {
        Some("String") => string_hash(value.as_str().unwrap_or_default()),
        Some("Integer") => number(value) as i32,
        _ => long_hash(number(value)),
    };
    placed(vector, hash, (Value::Null, Value::Null))
}

/// Runs one vector of flink-keygroups/sql_keys.
pub fn sql_keys(vector: &Value, _fixes: Fixes) -> Outcome {
    let types: Vec<&str> = vector["type"].as_str().unwrap_or_default().split(',').collect();
    let one = [vector["value"].clone()];
    let values = vector["value"].as_array().map_or(one.as_slice(), Vec::as_slice);
    let mut row = BinaryRow::new(types.len());
    for (field, (kind, value)) in types.iter().zip(values).enumerate() {
        match *kind {
            _ if value.is_null() => row.write_null(field),
            "VARCHAR" => row.write_string(field, value.as_str().unwrap_or_default()),
            _ => row.write_long(field, number(value)),
        }
    }
    let hex: String = row.bytes().iter().map(|b| format!("{b:02x}")).collect();
    placed(vector, row.hash_code(), (vector["row"].clone(), json!(hex)))
}

/// Runs one vector of flink-keygroups/ranges.
pub fn ranges(vector: &Value, _fixes: Fixes) -> Outcome {
    let (max, parallelism) = (number(&vector["max_parallelism"]) as u32, number(&vector["parallelism"]) as u32);
    let got: Vec<[u32; 2]> =
        (0..parallelism).map(|i| range_of(i, max, parallelism)).map(|r| [r.first, r.last]).collect();
    compare(&[vector["ranges"].clone()], |_| json!(got))
}

/// Runs one vector of flink-keygroups/default_max_parallelism.
pub fn default_max(vector: &Value, _fixes: Fixes) -> Outcome {
    let got = default_max_parallelism(number(&vector["parallelism"]) as u32);
    compare(&[vector["default_max_parallelism"].clone()], |_| json!(got))
}
