//! The upsert-kafka connector: a changelog as records by key, and back (`ReducingUpsertWriter`,
//! `DynamicKafkaRecordSerializationSchema`, `ChangelogNormalize`; flink.md 5.7).

use crate::flink::operator::RowKind;
use std::collections::BTreeMap;

/// A record of the topic: a value, or none, which is a tombstone.
pub type KeyedRecord<K, V> = (K, Option<V>);

/// The record that a row of a changelog becomes. What takes a row away, -U too, is a tombstone: the planner keeps -U from most
/// sinks, but not where a filter stands behind an updating result.
pub fn record<K, V>(kind: RowKind, key: K, value: V) -> KeyedRecord<K, V> {
    let stays = matches!(kind, RowKind::Insert | RowKind::UpdateAfter);
    (key, stays.then_some(value))
}

/// `sink.buffer-flush.max-rows` at work: the last row of each key, until so many keys are there or a barrier comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpsertBuffer<K, V> {
    max_rows: usize,
    rows: BTreeMap<K, Option<V>>,
}
impl<K: Ord, V> UpsertBuffer<K, V> {
    /// A buffer for so many keys; 0 writes each row through.
    pub const fn new(max_rows: usize) -> Self {
        Self { max_rows, rows: BTreeMap::new() }
    }
    /// A row; what leaves with it.
    pub fn row(&mut self, record: KeyedRecord<K, V>) -> Vec<KeyedRecord<K, V>> {
        self.rows.insert(record.0, record.1);
        if self.rows.len() >= self.max_rows { self.flush() } else { Vec::new() }
    }
    /// What leaves before a barrier, by the timer of the interval, at the end.
    pub fn flush(&mut self) -> Vec<KeyedRecord<K, V>> {
        std::mem::take(&mut self.rows).into_iter().collect()
    }
}

/// The last value of each key of the topic: what turns its records into a changelog. In keyed state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpsertSource<K, V>(BTreeMap<K, V>);
impl<K, V> Default for UpsertSource<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}
impl<K: Ord, V: Clone + PartialEq> UpsertSource<K, V> {
    /// A record. The same value again and the tombstone of an unknown key are nothing.
    pub fn record(&mut self, key: K, value: Option<V>) -> Vec<(RowKind, V)> {
        let Some(value) = value else {
            return self.0.remove(&key).map(|before| (RowKind::Delete, before)).into_iter().collect();
        };
        match self.0.insert(key, value.clone()) {
            None => vec![(RowKind::Insert, value)],
            Some(before) if before == value => Vec::new(),
            Some(before) => vec![(RowKind::UpdateBefore, before), (RowKind::UpdateAfter, value)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_inserted_and_deleted_in_between_leaves_its_tombstone() {
        let mut buffer = UpsertBuffer::new(3);
        assert!(buffer.row(record(RowKind::Insert, "b", 5)).is_empty());
        assert!(buffer.row(record(RowKind::Delete, "b", 5)).is_empty());
        assert_eq!(buffer.flush(), [("b", None)]);
        assert_eq!(UpsertBuffer::new(0).row(record(RowKind::Insert, "a", 1)), [("a", Some(1))]);
    }

    #[test]
    fn the_same_value_again_is_nothing() {
        let mut source = UpsertSource::default();
        assert_eq!(source.record("a", Some(1)), [(RowKind::Insert, 1)]);
        assert!(source.record("a", Some(1)).is_empty());
        assert_eq!(source.record("a", Some(2)), [(RowKind::UpdateBefore, 1), (RowKind::UpdateAfter, 2)]);
        assert_eq!(source.record("a", None), [(RowKind::Delete, 2)]);
    }
}
