//! Runner of kafka/txn_metadata.

use crate::harness::{Outcome, compare};
use crate::run_log::changes;
use model::base::{Fixes, Millis, ProducerEpoch, ProducerId, TopicPartition};
use model::kafka::coordinator::transaction::{
    TransactionMetadata, TransactionState, TransactionVersion, TransitionError, TxnTransitMetadata,
};
use model::kafka::txn_messages::TransactionalId;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

fn number(item: &Value, key: &str, default: i64) -> i64 {
    item[key].as_i64().unwrap_or(default)
}
fn producer(item: &Value, key: &str) -> ProducerId {
    ProducerId(number(item, key, -1))
}
fn epoch(item: &Value, key: &str) -> Option<ProducerEpoch> {
    item[key].as_i64().map(|e| ProducerEpoch(e as i16))
}
fn millis(item: &Value, key: &str) -> Millis {
    Millis(number(item, key, -1))
}
/// A state by its name.
pub fn state_named(name: &Value) -> Option<TransactionState> {
    TransactionState::ALL.into_iter().find(|s| name == s.name())
}
/// A version by its number.
pub fn version(item: &Value, key: &str) -> TransactionVersion {
    TransactionVersion::of(number(item, key, 0) as u8)
}
/// `t-1` is partition 1 of the topic with the number of its letter.
pub fn partition(name: &str) -> TopicPartition {
    let (topic, partition) = name.split_once('-').unwrap_or((name, "0"));
    TopicPartition::new(u16::from(topic.as_bytes()[0]), partition.parse().unwrap_or(0))
}
/// The partitions named in an item.
pub fn partitions(item: &Value) -> BTreeSet<TopicPartition> {
    item["partitions"].as_array().into_iter().flatten().filter_map(|p| p.as_str()).map(partition).collect()
}
/// The name of a partition.
pub fn partition_name(tp: &TopicPartition) -> String {
    format!("{}-{}", char::from(tp.topic.0 as u8), tp.partition)
}
/// The names of partitions, in order.
pub fn partition_names<'a>(of: impl IntoIterator<Item = &'a TopicPartition>) -> Value {
    of.into_iter().map(partition_name).collect()
}

/// The metadata that `params`, `reset` and `seed` describe.
pub fn metadata(item: &Value, id: TransactionalId) -> TransactionMetadata {
    TransactionMetadata {
        next_producer: producer(item, "next_pid"),
        epoch: epoch(item, "epoch").unwrap_or(ProducerEpoch::NONE),
        last_epoch: epoch(item, "last_epoch").unwrap_or(ProducerEpoch::NONE),
        state: state_named(&item["state"]).expect("a state"),
        pending: state_named(&item["pending"]),
        partitions: partitions(item),
        start: millis(item, "start"),
        client_version: version(item, "client_tv"),
        failed_epoch_fence: item["failed_fence"].as_bool().unwrap_or(false),
        ..TransactionMetadata::new(
            id,
            producer(item, "pid"),
            Millis(number(item, "timeout", 60_000)),
            Millis(number(item, "update", 0)),
        )
    }
}
/// Metadata as the recordings show it.
pub fn shown(m: &TransactionMetadata) -> Value {
    json!({
        "pid": m.producer.0, "prev_pid": m.previous_producer.0, "epoch": m.epoch.0, "last_epoch": m.last_epoch.0,
        "timeout": m.timeout.0, "state": m.state.name(), "pending": m.pending.map(|s| s.name()),
        "partitions": partition_names(&m.partitions), "start": m.start.0, "update": m.last_update.0,
        "client_tv": m.client_version as u8, "failed_fence": m.failed_epoch_fence,
    })
}
fn transition(to: &TxnTransitMetadata) -> Value {
    json!({
        "pid": to.producer.0, "prev_pid": to.previous_producer.0, "next_pid": to.next_producer.0, "epoch": to.epoch.0,
        "last_epoch": to.last_epoch.0, "timeout": to.timeout.0, "state": to.state.name(),
        "partitions": partition_names(&to.partitions), "start": to.start.0, "update": to.last_update.0,
        "client_tv": to.client_version as u8,
    })
}
fn error(e: TransitionError) -> Value {
    json!({"err": match e {
        TransitionError::IllegalState => "IllegalStateException",
        TransitionError::IllegalArgument => "IllegalArgumentException",
        TransitionError::ProducerFenced => "PRODUCER_FENCED",
    }})
}

struct Run {
    metadata: TransactionMetadata,
    last: Option<TxnTransitMetadata>,
    fixes: Fixes,
}

impl Run {
    fn item(&mut self, item: &Value) -> Value {
        let m = &mut self.metadata;
        let now = millis(item, "now");
        let timeout = millis(item, "timeout");
        let prepared = match item["op"].as_str().unwrap_or_default() {
            "reset" => {
                *m = metadata(item, TransactionalId(0));
                return json!({});
            }
            "drop_pending" => {
                m.pending = None;
                return json!({});
            }
            "failed_fence" => {
                m.failed_epoch_fence = item["to"].as_bool().unwrap_or(true);
                return json!({});
            }
            "exhausted" => return json!({"exhausted": m.is_producer_epoch_exhausted()}),
            "complete" => {
                let Some(last) = self.last.clone() else { return error(TransitionError::IllegalState) };
                return m.complete_transition_to(last, self.fixes).map_or_else(error, |()| json!({}));
            }
            "increment_epoch" => m.prepare_increment_producer_epoch(timeout, epoch(item, "expected"), now),
            "rotate_pid" => {
                let record_last = item["record_last"].as_bool().unwrap_or(false);
                m.prepare_producer_id_rotation(producer(item, "new_pid"), timeout, now, record_last)
            }
            "fence" => m.prepare_fence_producer_epoch(self.fixes),
            "add_partitions" => {
                let added: Vec<_> = partitions(item).into_iter().collect();
                m.prepare_add_partitions(&added, now, version(item, "tv"))
            }
            "end" => {
                let commit = item["commit"].as_bool().unwrap_or(true);
                let to = if commit { TransactionState::PrepareCommit } else { TransactionState::PrepareAbort };
                let none_added = item["no_partition"].as_bool().unwrap_or(false);
                m.prepare_abort_or_commit(
                    to,
                    version(item, "tv"),
                    producer(item, "next_pid"),
                    now,
                    none_added,
                    self.fixes,
                )
            }
            "prepare_complete" => m.prepare_complete(now),
            "dead" => m.prepare_dead(),
            "no_transit" => Ok(m.prepare_no_transit()),
            other => return json!({"unknown": other}),
        };
        match prepared {
            Ok(to) => {
                let answer = json!({"to": transition(&to)});
                self.last = Some(to);
                answer
            }
            Err(e) => error(e),
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

/// Runs one vector.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let mut run = Run { metadata: metadata(&vector["params"], TransactionalId(0)), last: None, fixes };
    let mut state = object(shown(&run.metadata));
    if Value::Object(state.clone()) != vector["initial"] {
        return Outcome::Failed(format!("initial state: {}", Value::Object(state)));
    }
    let Some(recorded) = vector["output"].as_array() else { return Outcome::Failed("no output".into()) };
    compare(recorded, |i| {
        let mut answer = run.item(&vector["input"][i]);
        let after = object(shown(&run.metadata));
        let changed = changes(&state, &after);
        if !changed.is_empty() {
            answer["state"] = Value::Object(changed);
        }
        state = after;
        answer
    })
}
