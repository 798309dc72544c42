//! Runners of kafka-hash.

use crate::harness::{Outcome, compare};
use model::base::Fixes;
use model::kafka::client::{consistent_random, murmur2, partition_for_hash};
use model::kafka::placement::{coordinator_partition, string_hash};
use serde_json::{Value, json};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap_or(0)).collect()
}

/// Runs one vector of kafka-hash/partitioner.
pub fn run(vector: &Value, _fixes: Fixes) -> Outcome {
    let key = bytes(vector["key"].as_str().unwrap_or_default());
    let hash = murmur2(&key);
    let counts: Vec<u16> =
        vector["partitions"].as_array().into_iter().flatten().map(|n| n.as_u64().unwrap_or(1) as u16).collect();
    let java: Vec<u16> = counts.iter().map(|n| partition_for_hash(hash, *n)).collect();
    let librdkafka: Option<Vec<u16>> = counts.iter().map(|n| consistent_random(&key, *n)).collect();
    let recorded = ["murmur2", "murmur2_partition", "consistent_random"].map(|field| vector[field].clone());
    let got = [json!(hash), json!(java), json!(librdkafka)];
    compare(&recorded, |i| got[i].clone())
}

/// Runs one vector of kafka-hash/coordinator.
pub fn coordinator(vector: &Value, _fixes: Fixes) -> Outcome {
    let hash = string_hash(vector["id"].as_str().unwrap_or_default());
    let counts = vector["partitions"].as_array().into_iter().flatten().map(|n| n.as_u64().unwrap_or(1) as u16);
    let partitions: Vec<u16> = counts.map(|n| coordinator_partition(hash, n)).collect();
    let recorded = ["hash_code", "partition"].map(|field| vector[field].clone());
    let got = [json!(hash), json!(partitions)];
    compare(&recorded, |i| got[i].clone())
}
