//! Items of the group families to requests, and names to ids.

use model::base::{Millis, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition};
use model::kafka::coordinator::group::Name;
use model::kafka::coordinator::group::messages::{
    ConsumerGroupHeartbeatRequest, GroupRequest, HeartbeatRequest, JoinGroupRequest, JoinProtocol, LeaveGroupRequest,
    MemberAssignment, OffsetCommitRequest, OffsetFetchRequest, ProtocolMetadata, SyncGroupRequest,
    TxnOffsetCommitRequest,
};
use model::kafka::txn_messages::{GroupId, TransactionalId};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names of topics and members. Member ids that the coordinator makes are M1, M2...; inside they have leading zeros, so that
/// their order is that of their making.
pub struct Names;

impl Names {
    pub fn topic(name: &str) -> TopicId {
        TopicId(name.bytes().next().map_or(0, |b| u16::from(b) - u16::from(b'a')))
    }
    pub fn topic_name(topic: TopicId) -> String {
        char::from(b'a' + topic.0 as u8).to_string()
    }
    pub fn tp(tp: TopicPartition) -> String {
        format!("{}-{}", Self::topic_name(tp.topic), tp.partition)
    }
    pub fn made(n: u32) -> Name {
        Arc::from(format!("M{n:04}").as_str())
    }
    pub fn shown(name: &str) -> String {
        match name.strip_prefix('M').and_then(|n| n.parse::<u32>().ok()) {
            Some(n) => format!("M{n}"),
            None => name.to_owned(),
        }
    }
    pub fn partitions(list: impl Iterator<Item = TopicPartition>) -> Value {
        let mut topics: BTreeMap<String, Vec<u16>> = BTreeMap::new();
        for tp in list {
            topics.entry(Self::topic_name(tp.topic)).or_default().push(tp.partition);
        }
        topics.into_iter().map(|(t, p)| (t, p.into())).collect::<Map<String, Value>>().into()
    }
    fn member(text: &str) -> Name {
        text.strip_prefix('M').and_then(|n| n.parse().ok()).map_or_else(|| Arc::from(text), Self::made)
    }
    fn parse_tp(text: &str) -> TopicPartition {
        let (topic, partition) = text.split_once('-').unwrap_or((text, "0"));
        TopicPartition { topic: Self::topic(topic), partition: partition.parse().unwrap_or(0) }
    }
}

/// A parsed line in which maps keep the order of their keys.
enum Ordered {
    Map(Vec<(String, Ordered)>),
    List(Vec<Ordered>),
    Other,
}
impl Ordered {
    fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }
}
impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Ordered;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered::Map(entries))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ordered, A::Error> {
                let mut list = Vec::new();
                while let Some(value) = seq.next_element()? {
                    list.push(value);
                }
                Ok(Ordered::List(list))
            }
            fn visit_str<E>(self, _: &str) -> Result<Ordered, E> {
                Ok(Ordered::Other)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Ordered, E> {
                Ok(Ordered::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Ordered, E> {
                Ok(Ordered::Other)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Ordered, E> {
                Ok(Ordered::Other)
            }
            fn visit_unit<E>(self) -> Result<Ordered, E> {
                Ok(Ordered::Other)
            }
        }
        from.deserialize_any(Any)
    }
}

/// Keys of the map `key` of an input item, in their order in the line.
pub fn ordered_keys(line: &str, item: usize, key: &str) -> Vec<String> {
    let parsed: Option<Ordered> = serde_json::from_str(line).ok();
    let items = parsed.as_ref().and_then(|v| v.get("input"));
    match items {
        Some(Ordered::List(items)) => match items.get(item).and_then(|i| i.get(key)) {
            Some(Ordered::Map(entries)) => entries.iter().map(|(k, _)| k.clone()).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The request of an item; `order` gives the keys of one of its maps in their order.
pub fn request(item: &Value, group: GroupId, order: &dyn Fn(&str) -> Vec<String>) -> Option<GroupRequest> {
    let text = |key: &str| item[key].as_str();
    let number = |key: &str, default: i64| item[key].as_i64().unwrap_or(default);
    let member = Names::member(text("member").unwrap_or_default());
    let instance = text("instance").map(Arc::<str>::from);
    let generation = item["generation"].as_i64().or(item["epoch"].as_i64()).unwrap_or(-1) as i32;
    let offsets = || -> Vec<(TopicPartition, Offset)> {
        let of = |tp: String| (Names::parse_tp(&tp), Offset(item["offsets"][&tp].as_i64().unwrap_or(-1)));
        let mut offsets: Vec<_> = order("offsets").into_iter().map(of).collect();
        // A request lists partitions by topic.
        offsets.sort_by_key(|(tp, _)| tp.topic);
        offsets
    };
    let list = |key: &str| -> Option<Vec<TopicPartition>> {
        let parse = |l: &Vec<Value>| l.iter().filter_map(Value::as_str).map(Names::parse_tp).collect();
        item[key].as_array().map(parse)
    };
    Some(match item["op"].as_str()? {
        "join" => GroupRequest::Join(JoinGroupRequest {
            group,
            member,
            instance,
            client: Arc::from("client"),
            session_timeout: Millis(number("session_ms", 10_000)),
            rebalance_timeout: Millis(number("rebalance_ms", 30_000)),
            protocol_type: Arc::from(text("type").unwrap_or("consumer")),
            protocols: protocols(item, order),
            version: number("version", 9) as u8,
        }),
        "sync" => GroupRequest::Sync(SyncGroupRequest {
            group,
            member,
            instance,
            generation,
            protocol_type: text("type").map(Arc::from),
            protocol: text("protocol").map(Arc::from),
            assignments: item["assign"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(m, a)| (Names::member(m), opaque_assignment(a.as_str().unwrap_or_default())))
                .collect(),
        }),
        "heartbeat" => GroupRequest::Heartbeat(HeartbeatRequest { group, member, instance, generation }),
        "leave" => GroupRequest::Leave(LeaveGroupRequest {
            group,
            members: item["members"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|m| {
                    let id = Names::member(m["member"].as_str().unwrap_or_default());
                    (id, m["instance"].as_str().map(Arc::from))
                })
                .collect(),
        }),
        "commit" => GroupRequest::OffsetCommit(OffsetCommitRequest {
            group,
            member,
            instance,
            generation,
            version: number("version", 9) as u8,
            retention: item["retention_ms"].as_i64().map(Millis),
            offsets: offsets(),
        }),
        "txn_commit" => GroupRequest::TxnOffsetCommit(TxnOffsetCommitRequest {
            id: TransactionalId(0),
            v2: false,
            group,
            producer: ProducerId(number("pid", -1)),
            epoch: ProducerEpoch(number("producer_epoch", -1) as i16),
            member,
            instance,
            generation,
            offsets: offsets(),
        }),
        "fetch" => GroupRequest::OffsetFetch(OffsetFetchRequest {
            group,
            member: text("member").map(Names::member),
            epoch: number("epoch", -1) as i32,
            require_stable: item["stable"].as_bool().unwrap_or(true),
            partitions: list("partitions"),
        }),
        "heartbeat848" => GroupRequest::ConsumerHeartbeat(ConsumerGroupHeartbeatRequest {
            group,
            member,
            instance,
            epoch: number("epoch", 0) as i32,
            rebalance_timeout: item["rebalance_ms"].as_i64().map(Millis),
            topics: item["topics"].as_array().map(|l| l.iter().filter_map(Value::as_str).map(Names::topic).collect()),
            assignor: text("assignor").map(Arc::from),
            owned: item["owned"].as_object().map(|topics| {
                let of = |(t, l): (&String, &Value)| -> Vec<TopicPartition> {
                    let number = |p: &Value| p.as_u64().unwrap_or(0) as u16;
                    let tp = |p| TopicPartition { topic: Names::topic(t), partition: number(p) };
                    l.as_array().into_iter().flatten().map(tp).collect()
                };
                topics.iter().flat_map(of).collect()
            }),
        }),
        "delete_group" => GroupRequest::Delete(group),
        "delete_offsets" => GroupRequest::OffsetDelete(group, list("partitions").unwrap_or_default()),
        _ => return None,
    })
}

fn protocols(item: &Value, order: &dyn Fn(&str) -> Vec<String>) -> Arc<[JoinProtocol]> {
    let protocol = |name: &str, metadata: &str| JoinProtocol {
        name: Arc::from(name),
        metadata: ProtocolMetadata::Opaque(Arc::from(metadata.as_bytes())),
    };
    if item["protocols"].is_object() {
        let of = |name: &String| protocol(name, item["protocols"][name].as_str().unwrap_or_default());
        order("protocols").iter().map(of).collect()
    } else {
        Arc::from([protocol("range", "m")])
    }
}

fn opaque_assignment(text: &str) -> MemberAssignment {
    MemberAssignment::Opaque(Arc::from(text.as_bytes()))
}
