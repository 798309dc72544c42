//! Tables of Kafka's and Flink's keys as written. Their schema is made from the table of keys, so editors complete them with defaults.

use super::keys::{Kind, Lookup, Profile, Side, keys, look_up};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A table of Kafka's keys; `K` says whose.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings<K> {
    /// Key to value, as written.
    pub map: BTreeMap<String, Json>,
    #[serde(skip)]
    whose: std::marker::PhantomData<K>,
}
impl<K> Settings<K> {
    /// A table of these.
    pub const fn new(map: BTreeMap<String, Json>) -> Self {
        Self { map, whose: std::marker::PhantomData }
    }
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}
impl<K> Default for Settings<K> {
    fn default() -> Self {
        Self::new(BTreeMap::new())
    }
}
/// Whose keys a [`Settings`] holds.
pub trait Whose {
    /// Name in the schema.
    const NAME: &'static str;
    /// Sides whose keys may stand there; which of them counts is decided by the profile.
    const SIDES: &'static [Side];
}
/// Server keys.
#[derive(Clone, Copy, Debug)]
pub struct ServerKeys;
/// Feature levels.
#[derive(Clone, Copy, Debug)]
pub struct FeatureKeys;
/// Topic keys.
#[derive(Clone, Copy, Debug)]
pub struct TopicKeys;
/// Producer keys of any client.
#[derive(Clone, Copy, Debug)]
pub struct ProducerKeys;
/// Consumer keys of any client.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerKeys;
impl Whose for ServerKeys {
    const NAME: &'static str = "ServerKeys";
    const SIDES: &'static [Side] = &[Side::Server];
}
impl Whose for FeatureKeys {
    const NAME: &'static str = "FeatureKeys";
    const SIDES: &'static [Side] = &[Side::Feature];
}
impl Whose for TopicKeys {
    const NAME: &'static str = "TopicKeys";
    const SIDES: &'static [Side] = &[Side::Topic];
}
impl Whose for ProducerKeys {
    const NAME: &'static str = "ProducerKeys";
    const SIDES: &'static [Side] =
        &[Side::Producer(Profile::Java), Side::Producer(Profile::Java34), Side::Producer(Profile::Librdkafka)];
}
impl Whose for ConsumerKeys {
    const NAME: &'static str = "ConsumerKeys";
    const SIDES: &'static [Side] =
        &[Side::Consumer(Profile::Java), Side::Consumer(Profile::Java34), Side::Consumer(Profile::Librdkafka)];
}
/// Keys of a Flink cluster.
#[derive(Clone, Copy, Debug)]
pub struct FlinkKeys;
/// Keys of a Flink job.
#[derive(Clone, Copy, Debug)]
pub struct JobKeys;
/// Keys of a Kafka sink of a Flink job.
#[derive(Clone, Copy, Debug)]
pub struct SinkKeys;
impl Whose for FlinkKeys {
    const NAME: &'static str = "FlinkKeys";
    const SIDES: &'static [Side] = &[Side::Flink];
}
impl Whose for JobKeys {
    const NAME: &'static str = "JobKeys";
    const SIDES: &'static [Side] = &[Side::Job];
}
/// Keys of a Kafka source of a Flink job.
#[derive(Clone, Copy, Debug)]
pub struct SourceKeys;
impl Whose for SourceKeys {
    const NAME: &'static str = "SourceKeys";
    const SIDES: &'static [Side] = &[Side::Source];
}
impl Whose for SinkKeys {
    const NAME: &'static str = "SinkKeys";
    const SIDES: &'static [Side] = &[Side::Sink];
}
/// Settings of a Kafka table of ClickHouse.
#[derive(Clone, Copy, Debug)]
pub struct KafkaEngineKeys;
/// Settings of a table of ClickHouse.
#[derive(Clone, Copy, Debug)]
pub struct MergeTreeKeys;
impl Whose for KafkaEngineKeys {
    const NAME: &'static str = "KafkaEngineKeys";
    const SIDES: &'static [Side] = &[Side::KafkaEngine];
}
impl Whose for MergeTreeKeys {
    const NAME: &'static str = "MergeTreeKeys";
    const SIDES: &'static [Side] = &[Side::MergeTree];
}
impl<K: Whose> JsonSchema for Settings<K> {
    fn schema_name() -> Cow<'static, str> {
        K::NAME.into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        for key in keys().filter(|k| K::SIDES.iter().any(|s| k.serves(*s))) {
            for name in std::iter::once(&key.name).chain(key.aliases) {
                let defaults: Vec<_> = K::SIDES
                    .iter()
                    .filter_map(|s| match look_up(*s, name) {
                        Lookup::Known(k) => Some(format!("{s}: {}", k.default)),
                        _ => None,
                    })
                    .collect();
                let unit = match key.kind {
                    Kind::Ms(..) => "milliseconds",
                    Kind::Secs(..) => "seconds",
                    Kind::Time(..) => "a time with its unit, or milliseconds",
                    Kind::Decimal => "a decimal number",
                    Kind::Bytes(..) => "bytes",
                    Kind::Int(..) => "number",
                    Kind::Flag => "true or false",
                    Kind::Word(_) => "word",
                    Kind::Words(_) => "words between commas",
                    Kind::Text => "text",
                };
                let text = format!("{unit}; default of {} ({})", defaults.join(", "), key.source);
                let types = json!(["string", "integer", "boolean"]);
                properties.insert((*name).to_owned(), json!({ "type": types, "description": text }));
            }
        }
        json_schema!({
            "type": "object", "properties": properties, "additionalProperties": { "type": "object" }, "x-kafka-keys": K::NAME,
            "description": "The product's own keys, quoted, or dotted as in a properties file: then TOML sees tables."
        })
    }
}
